/*
 * Frames that bypass the network stack (AF_XDP), for an Ethernet link with link = xdp.
 *
 * A small program at the interface gives our frames to sockets, one for each receive queue of the
 * card; all other frames go on to the kernel untouched. The sockets share buffers with the kernel
 * and with each other. The packet socket of the Ethernet link stays open. It receives the other
 * frames: messages among hosts, frames of queues without an XDP socket, frames whose VLAN tag the
 * card has removed. The packet socket also sends long batches. Without XDP, the packet socket
 * receives and sends all frames.
 *
 * Owns: program, map, sockets, shared buffers and rings. Does not own: contents of a frame
 * (ether_frame.c), states of the interface (ether_follow.c). Called from the engine's thread.
 */
#ifndef VIPD_LINK_XDP_H
#define VIPD_LINK_XDP_H

#include "vipd/link/ether.h"
#include "vipd/link/xdp_pool.h"

struct xdp;

/* Batches of at most this number of packets leave through XDP. In copy mode each frame is copied
 * twice and sent by itself, which is slower for long batches. */
#define XDP_TX_BATCH 4u

/*
 * Attach to the interface; queues beyond XDP_QUEUES_MAX are left to the packet socket. This call
 * needs CAP_NET_ADMIN, CAP_BPF (or root) and CAP_NET_RAW. Later calls need no privilege: closing
 * the descriptors removes everything. Outcomes: 0 and *ret; negative errno with the reason in why
 * (-EOPNOTSUPP: vipd was built without libbpf; -EINVAL: frames of this MTU fit no buffer).
 */
int xdp_open(const struct ether *ether, const struct ether_if *interface, struct xdp **ret,
             char why[LINK_WHY_BYTES]);
/* All received packets must have been released. NULL is allowed. */
void xdp_close(struct xdp *xdp);

/* Gives the descriptors of the sockets; one is readable when frames wait. Returns their number. */
unsigned xdp_fds(const struct xdp *xdp, int ret[XDP_QUEUES_MAX]);
/* The interface has this MTU now. false: its frames do not fit the buffers, so close and reopen. */
bool xdp_resize(struct xdp *xdp, const struct ether *ether, uint32_t mtu);
/* Number of packets from one peer that may be under way. They all come by one queue. */
uint32_t xdp_window_packets(const struct xdp *xdp);
/* Frames lost since xdp_open, because the kernel had no buffer or no room in the receive ring. */
uint64_t xdp_losses(const struct xdp *xdp);
/* Returns "native without copies", "native with copies" or "generic with copies"; static. */
const char *xdp_mode(const struct xdp *xdp);

/* xdp_recv and xdp_release do the work of link_class.recv and release. xdp_recv checks frames as
 * the packet socket does. */
unsigned xdp_recv(struct xdp *xdp, struct ether *ether, struct link_rx *packets, unsigned count);
bool xdp_owns(const struct xdp *xdp, const void *buffer);
void xdp_release(struct xdp *xdp, void *buffer);
/* Number of receiving buffers that were given out and not released. */
uint32_t xdp_out(const struct xdp *xdp);

/* Send one packet. false: no buffer is free, or the packet is too large: use the packet socket. */
bool xdp_send(struct xdp *xdp, struct ether *ether, const struct link_tx *packet);
/* Let the kernel send the packets given to xdp_send. true: some packets still wait, so call again
 * soon if the interface is up. If the kernel reports that it is down, this sets ether->look. */
bool xdp_kick(struct xdp *xdp, struct ether *ether);

#endif
