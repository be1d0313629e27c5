/*
 * The fast way of frames past the network stack (AF_XDP), for an Ethernet link with link = xdp.
 *
 * A small program at the interface hands our frames, and no others, to a socket whose buffers are
 * shared with the kernel; everything else goes on to the kernel untouched. The packet socket of the
 * Ethernet link stays open beside it: frames that come another way (another queue of the card, messages
 * among hosts) arrive there, long batches leave there, and without XDP it does all the work.
 *
 * Owns: program, map, socket, shared buffers and rings. Does not own: what is in a frame
 * (ether_frame.c), states of the interface (ether.c). Called from the engine's thread.
 */
#ifndef VIPD_LINK_XDP_H
#define VIPD_LINK_XDP_H

#include "vipd/link/ether.h"

struct xdp;

/* What peers may have under way towards its buffers, in packets; the others are for acknowledgements. */
#define XDP_WINDOW_PACKETS 1152u

/* Batches of at most so many packets leave through XDP. It is for short ones: in copy mode each frame
 * is copied twice and sent by itself, and bulk data is slower that way. */
#define XDP_TX_BATCH 4u

/*
 * Attach to queue 0 of the interface. Needs CAP_NET_ADMIN, CAP_BPF (or root) and CAP_NET_RAW now, and
 * nothing later: closing its descriptors removes all. Outcomes: 0 and *ret; negative errno with the
 * reason in why (-EOPNOTSUPP: vipd was built without libbpf).
 */
int xdp_open(const struct ether *ether, const struct ether_if *interface, struct xdp **ret,
             char why[LINK_WHY_BYTES]);
/* No buffer may be out. Harmless on NULL. */
void xdp_close(struct xdp *xdp);

/* Descriptor that is readable when frames wait. */
int xdp_fd(const struct xdp *xdp);
/* "native" or "generic", static. */
const char *xdp_mode(const struct xdp *xdp);

/* As link_class.recv and release; contents are judged as those of the packet socket. */
unsigned xdp_recv(struct xdp *xdp, struct ether *ether, struct link_rx *packets, unsigned count);
bool xdp_owns(const struct xdp *xdp, const void *buffer);
void xdp_release(struct xdp *xdp, void *buffer);
/* Buffers that were given out and not released. */
uint32_t xdp_out(const struct xdp *xdp);

/* Send one packet. false: no buffer is free; the packet socket may take it. */
bool xdp_send(struct xdp *xdp, struct ether *ether, const struct link_tx *packet);
/* Let the kernel send what was given. Whether some of it still waits: call again soon. */
bool xdp_kick(struct xdp *xdp, struct ether *ether);

#endif
