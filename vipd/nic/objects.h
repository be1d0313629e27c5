/*
 * Views of connections, completion queues, waits and peers of a NIC, and ending a connection: what
 * vipctl needs beyond vipd/nic/nic.h. Called by vipd/client/ and vipd/ctl/ while the NIC stands
 * still.
 */
#ifndef VIPD_NIC_OBJECTS_H
#define VIPD_NIC_OBJECTS_H

#include "vipd/nic/nic.h"

/* A connection of a session, established or under way. */
/* Who carries the data of a connection. */
enum nic_carrier {
    NIC_CARRIER_NONE = 0, /* not connected */
    NIC_CARRIER_VIPD,
    NIC_CARRIER_LOAN,    /* the program's own engine */
    NIC_CARRIER_REVOKED, /* the same; vipd waits until the owner leaves the loan */
    NIC_CARRIER_RING,    /* both programs, by a ring of this host */
};
struct nic_loan_view {
    uint32_t lent;                    /* number of loans of this connection */
    uint32_t data, timer, peer, gone; /* take-backs, by reason (vipd/engine/loan.h) */
    const char *refused;              /* why vipd does not lend it; NULL: it was not asked */
};
struct nic_conn_view {
    uint16_t vi;
    const char *state; /* "requested", "accepting", "established", "rebinding" */
    bool loop;         /* the other end is a program of this NIC */
    struct cm_host peer;
    uint64_t local_id, remote_id, remote_epoch;
    enum nic_carrier carrier;
    struct nic_loan_view loan;
};
void nic_session_conns(const struct nic_session *session, uint32_t from,
                       bool (*visit)(void *ctx, const struct nic_conn_view *view), void *ctx);

/* Find the first connection of a VI with a number >= *from, and set *from to that number + 1.
 * false: there is no further connection. */
bool nic_session_next_conn(const struct nic_session *session, uint32_t *from,
                           struct nic_conn_view *ret);
bool nic_session_has_vi(const struct nic_session *session, uint32_t vi);

struct nic_cq_view {
    uint32_t cq;
    uint32_t written; /* entries ever written, modulo 2^32 */
    uint32_t waiting; /* entries that do not fit into its shared ring */
    uint32_t bound;   /* work queues bound to this CQ */
    bool has_fd;      /* VipxCQGetFd was called */
};
void nic_session_cqs(const struct nic_session *session, uint32_t from,
                     bool (*visit)(void *ctx, const struct nic_cq_view *view), void *ctx);

/* A VipConnectWait, a listener, or a request that waits for its answer. */
struct nic_waiter_view {
    const char *kind;   /* "wait", "listener", "request" */
    uint64_t number;    /* number of the wait or listener, or handle of the request */
    uint64_t delivered; /* listener: requests given to the program */
    uint8_t disc_len;
    uint8_t disc[VIP_DISCRIMINATOR_BYTES_MAX];
};
void nic_session_waits(const struct nic_session *session, uint32_t from,
                       bool (*visit)(void *ctx, const struct nic_waiter_view *view), void *ctx);

/* A peer host, and the sums over its connections that are established now. */
struct nic_peer_view {
    struct cm_peer_view cm;
    uint64_t heard_ago_ns; /* time since the host's last sign of life */
    struct eng_vi_stats stats;
    uint64_t srtt_max_ns; /* longest SRTT of these connections; stats.srtt_ns: the shortest */
    uint32_t rebound;     /* connections that this vipd has bound anew */
};
/* Calls back for the peers from index `from` on, until visit returns false. uid: only peers and
 * connections of this user; NULL: of all users. Returns the index to go on with; UINT32_MAX: no
 * more. */
uint32_t nic_peer_views(const struct nic *nic, const uint32_t *uid, uint32_t from, uint64_t now_ns,
                        bool (*visit)(void *ctx, const struct nic_peer_view *view), void *ctx);

/* Probe whether the vipd of a host answers: as cm_probe and cm_probe_result. */
uint64_t nic_probe(struct nic *nic, const struct cm_host *host, uint32_t uid, uint64_t now_ns);
int nic_probe_result(const struct nic *nic, uint64_t number, uint64_t *ret_rtt_ns,
                     uint64_t *ret_epoch);

/*
 * End a connection, for an administrator or vipd: both applications get CONN_LOST. SUCCESS;
 * INVALID_PARAMETER (no such VI); INVALID_STATE (not connected).
 */
enum vip_rc nic_vi_sever(struct nic_session *session, uint32_t vi, const char *why,
                         uint64_t now_ns);

#endif
