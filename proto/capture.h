/*
 * The messages from vipd to `vipctl capture`, on a SEQPACKET socket: one for each packet, posting
 * and completion. A message is a head; for a packet, bytes of the packet follow the head. Both
 * programs run on one host and are of the same build.
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
    uint32_t queue;    /* posted, completed: 0 send, 1 receive */
    uint32_t status;   /* completed: VIP_ST_* */
    uint32_t bytes;    /* of the packet or descriptor */
    uint32_t captured; /* bytes of the packet that follow */
    char peer[60];     /* address, if known */
};
_Static_assert(sizeof(struct vip_capture_head) == 112, "no padding that would tell old memory");

#endif
