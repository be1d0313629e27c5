/*
 * The messages from vipd to `vipctl capture`, on a SEQPACKET socket: one for each packet, posting
 * and completion. A message begins with a head. After the head of a packet, bytes of the packet
 * follow. Both programs run on one host and are of the same build.
 */
#ifndef VIP_PROTO_CAPTURE_H
#define VIP_PROTO_CAPTURE_H

#include <stdint.h>

enum vip_capture_kind {
    VIP_CAPTURE_SENT = 1,  /* a packet given to the medium */
    VIP_CAPTURE_RECEIVED,  /* a valid packet from the medium */
    VIP_CAPTURE_LOCAL,     /* a packet between two programs of this host */
    VIP_CAPTURE_POSTED,    /* vipd took a descriptor from a program */
    VIP_CAPTURE_COMPLETED, /* vipd completed a descriptor */
};

struct vip_capture_head {
    uint32_t kind;    /* enum vip_capture_kind */
    uint32_t nic;     /* number of the NIC, as in the configuration */
    uint64_t wall_ns; /* time since 1970 */
    uint64_t lost;    /* messages dropped since the previous message, because the socket was full */
    uint64_t session; /* 0: a packet of the connection manager, which has no VI */
    uint32_t vi;
    uint32_t queue;    /* for POSTED and COMPLETED: 0 send queue, 1 receive queue */
    uint32_t status;   /* for COMPLETED: VIP_ST_* */
    uint32_t bytes;    /* length of the packet, or of the descriptor's data */
    uint32_t captured; /* number of bytes of the packet that follow this head */
    char peer[60];     /* the peer's address, if known */
};
_Static_assert(sizeof(struct vip_capture_head) == 112, "no padding that would tell old memory");

#endif
