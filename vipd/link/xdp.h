/*
 * The fast way of frames past the network stack (AF_XDP), for an Ethernet link with link = xdp.
 *
 * A small program at the interface hands our frames, and no others, to sockets, one for each receive queue
 * of the card, which share buffers with the kernel and among each other; everything else goes on to the
 * kernel untouched. The packet socket of the Ethernet link stays open beside them: frames that come another
 * way (messages among hosts, queues beyond those, a VLAN tag that the card has taken off) arrive there, long
 * batches leave there, and without XDP it does all the work.
 *
 * Owns: program, map, socket, shared buffers and rings. Does not own: what is in a frame
 * (ether_frame.c), states of the interface (ether.c). Called from the engine's thread.
 */
#ifndef VIPD_LINK_XDP_H
#define VIPD_LINK_XDP_H

#include "vipd/link/ether.h"
#include "vipd/link/xdp_pool.h"

struct xdp;

/* Batches of at most so many packets leave through XDP. It is for short ones: in copy mode each frame
 * is copied twice and sent by itself, and bulk data is slower that way. */
#define XDP_TX_BATCH 4u

/*
 * Attach to the interface, of which more than XDP_QUEUES_MAX queues are left to the packet socket. Needs
 * CAP_NET_ADMIN, CAP_BPF (or root) and CAP_NET_RAW now, and nothing later: closing its descriptors removes
 * all. Outcomes: 0 and *ret; negative errno with the reason in why (-EOPNOTSUPP: vipd was built without
 * libbpf; -EINVAL: frames of this MTU fit no buffer).
 */
int xdp_open(const struct ether *ether, const struct ether_if *interface, struct xdp **ret,
             char why[LINK_WHY_BYTES]);
/* No buffer may be out. Harmless on NULL. */
void xdp_close(struct xdp *xdp);

/* Descriptors, one of which is readable when frames wait; how many, at most XDP_QUEUES_MAX. */
unsigned xdp_fds(const struct xdp *xdp, int ret[XDP_QUEUES_MAX]);
/* The interface has this MTU now. Whether its frames still fit the buffers; if not, close and open again. */
bool xdp_resize(struct xdp *xdp, const struct ether *ether, uint32_t mtu);
/* What one peer may have under way towards its buffers, in packets: all of it comes by one queue. */
uint32_t xdp_window_packets(const struct xdp *xdp);
/* Frames that the kernel had no buffer for, or no room to tell of them, since it was opened. */
uint64_t xdp_losses(const struct xdp *xdp);
/* "native without copies", "native with copies" or "generic with copies"; static. */
const char *xdp_mode(const struct xdp *xdp);

/* As link_class.recv and release; contents are judged as those of the packet socket. */
unsigned xdp_recv(struct xdp *xdp, struct ether *ether, struct link_rx *packets, unsigned count);
bool xdp_owns(const struct xdp *xdp, const void *buffer);
void xdp_release(struct xdp *xdp, void *buffer);
/* Buffers that were given out and not released. */
uint32_t xdp_out(const struct xdp *xdp);

/* Send one packet. false: no buffer is free; the packet socket may take it. */
bool xdp_send(struct xdp *xdp, struct ether *ether, const struct link_tx *packet);
/* Let the kernel send what was given. Whether some of it still waits: call again soon, if the interface is
 * up; an error that says it is not makes the link look. */
bool xdp_kick(struct xdp *xdp, struct ether *ether);

#endif
