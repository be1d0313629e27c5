/* Events of a NIC for vipctl capture. */
#ifndef VIPD_NIC_SEE_H
#define VIPD_NIC_SEE_H

#include "vipd/nic/nic.h"

/* One event of a NIC, for vipctl capture. */
struct nic_seen {
    uint32_t kind;                /* enum vip_capture_kind */
    uint64_t session;             /* number of the session in views and logs; 0: no session */
    uint16_t vi;                  /* VI of the session */
    const struct link_addr *peer; /* the packet's other host; NULL: none */
    const struct iovec *iov;      /* bytes of a packet */
    unsigned iov_count;
    uint32_t bytes;         /* length of the packet or descriptor */
    uint32_t queue, status; /* queue and status of the descriptor */
};

/* Nic functions call this; it must not call nic functions. `seen` is valid during the call. */
typedef void nic_see_fn(void *ctx, const struct nic_seen *seen);
/* Report events to `see` from now on; NULL: stop. One capture at a time. While a capture runs,
 * vipd asks programs not to send by rings. */
void nic_look_on(struct nic *nic, nic_see_fn *see, void *ctx);

#endif
