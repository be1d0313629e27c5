/* The state of a nic, its sessions, VIs and connections; only for vipd/nic, through internal.h. */
#ifndef VIPD_NIC_STATE_H
#define VIPD_NIC_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "proto/comps.h"
#include "proto/direct.h"
#include "proto/limits.h"
#include "proto/loan.h"
#include "proto/shm.h"
#include "proto/siphash.h"
#include "vipd/nic/counts.h"
#include "vipd/nic/held.h"
#include "vipd/nic/bounds.h"
#include "vipd/nic/list.h"
#include "vipd/nic/nic.h"
#include "vipd/nic/see.h"
#include "vipd/nic/user.h"
#include "vipd/path/post.h"
#include "vipd/path/tx.h"

/* ---- connections ----------------------------------------------------------------------- */

enum nic_conn_state {
    NIC_CONN_FREE = 0,
    NIC_CONN_REQUESTED, /* a nic_connect is under way */
    NIC_CONN_ACCEPTING, /* a nic_accept is under way: our ACCEPT is not confirmed */
    NIC_CONN_REBINDING, /* connection of an earlier life; the engine's VI is Connected and paused */
    NIC_CONN_ESTABLISHED,
};

/* One end of a connection, at this host. The object never moves; a freed object is used again. */
struct nic_conn {
    uint64_t local_id; /* random id, with index in its low bits; 0: the object is free */
    uint64_t remote_id, remote_epoch;
    /* Ids in the headers of data packets that come to this end, and that go to the peer. They are
     * local_id and remote_id until the engine of one end moves (vipd/engine/loan.h). */
    uint64_t data_id, remote_data_id;
    enum nic_conn_state state;
    uint32_t index; /* in nic->conns */
    struct nic_session *session;
    uint16_t vi;
    bool loop;               /* the peer is a session of this nic */
    bool waits;              /* a peer-to-peer request, which also waits at a discriminator */
    uint8_t remote_disc_len; /* for views */
    bool lost;               /* REBINDING: the connection is lost; nic_vi_rebind ends it */
    bool lost_before;        /* REBINDING: nic_vi_restore got the connection as lost */
    bool asked;              /* asked, secret and features: as in cm_conn */
    struct siphash_key secret;
    uint64_t features;
    uint32_t peer;            /* number of the peer in the connection manager */
    struct link_addr to;      /* the peer's address */
    struct link_addr data_to; /* where the peer's engine runs: data packets come from there */
    uint64_t since_ns;   /* for views: when the connection entered this state, or was bound last */
    uint32_t rebound;    /* for views: how often this vipd has bound it anew */
    uint64_t heard_turn; /* turn of the last cm_heard, which reports that the peer lives */
    struct nic_loan *loan;   /* moves of its engine (lend.h); NULL: there was none */
    bool lent;               /* the engine is in the program; vipd's engine of the VI is paused */
    const char *not_lent;    /* why vipd refused the last request for a loan; NULL: it did not */
    struct nic_list by_peer; /* nic->peers[] */
    struct nic_conn *next_free;
    /* Number of parked packets, and the operation and offset that follow the last of them. */
    unsigned parked;
    uint32_t parked_op, parked_offset;
};

/* ---- sessions -------------------------------------------------------------------------- */

/* An entry for which a CQ ring had no room. */
struct nic_cqe {
    uint32_t generation; /* of the VI */
    uint16_t vi;
    uint8_t queue;
};

/* The beginning of a block (kept_bytes.c). */
struct nic_kept_block {
    struct nic_kept_block *next;
};

struct nic_backlog_block;

/* The entries of one CQ for which its ring had no room (backlog.c). */
struct nic_backlog {
    struct nic_backlog_block *first, *last;
    uint32_t head, count; /* head: index of the first entry in block `first`; count: all entries */
    uint32_t live;        /* number of entries whose VI still exists */
};

/* The ring between two VIs of this NIC (direct.c). vipd frees it when it has ended at both ends. */
struct nic_ring {
    struct nic_list link;   /* nic->ring_list */
    struct vip_direct *map; /* read-only */
    dev_t dev;              /* dev and ino identify the file of the ring */
    ino_t ino;
    uint32_t guard; /* entry in the table of vipd/registry/guard.h, for the session of one end */
    bool awaits;    /* the second end has not joined yet */
    struct {
        struct nic_session *session; /* NULL: this end has left the ring, or has not joined yet */
        uint16_t vi;
    } end[2];
};

struct nic_cq {
    bool used;
    uint32_t position;  /* entries ever written, earlier CQs with this number included */
    uint32_t bound;     /* work queues bound to it */
    uint32_t cons_seen; /* `cons` of the application when vipd last loaded it */
    uint32_t pokes;     /* wake-ups without an entry: the futex word counts them, too */
    bool wake, overrun_told;
    int sock;          /* vipd's end of the socket of VipxCQGetFd; -1: none */
    uint32_t signaled; /* the CQ's arm word when vipd last made sock readable */
    struct nic_backlog backlog;
    struct nic_list in_backlogs; /* in session->backlogs while backlog.live > 0 */
};

/* One VI. Generation and positions are never reset: the next VI with this index continues them. */
struct nic_vi {
    bool used, lost_told;
    uint32_t generation;
    uint32_t position[2]; /* per queue: completions ever written */
    struct vip_comps_out comps[2];
    struct vip_vipd_vi *head; /* the VI's head in the vipd-writes segment */
    bool wake[2];             /* per queue: it is in nic->wakes */
    uint32_t pokes;      /* wake-ups of the receive queue without a completion, as the futex word */
    int32_t cq[2];       /* CQ of each queue; -1: none */
    uint32_t backlog[2]; /* per queue: entries in the backlog of its CQ */
    struct nic_conn *conn; /* NULL unless the VI is connecting or connected */
    uint32_t send_base;    /* number of an own operation minus the position of its completion */
    const struct vip_loan_part *loan_part; /* read-only, hostile; NULL: it has none (sends.c) */
    struct nic_vi_past *past;              /* its counters (stats.c); NULL: it had no part yet */
    struct eng_vi_attrs attrs;
    uint64_t qos;
    uint32_t ptag;
    /* The VI's receive descriptors in the session's table, and the VI's ring (direct.c). */
    uint32_t recv_next;      /* next receive descriptor that vipd takes; the VI's first one is 0 */
    bool had_ring;           /* a VI gets at most one ring */
    struct nic_list in_asks; /* in session->asks while a request of the program waits */
    bool ask_break;          /* the program asked to break the connection */
    bool ask_flush;          /* the program asked to flush the queue of a VI in Error */
    bool ask_no_ring;        /* the program has not taken its ring */
    struct nic_ring *ring;   /* NULL: the VI has no ring, or its ring is over */
    uint8_t ring_half;       /* this VI sends on way[ring_half] */
    uint32_t ring_first;     /* recv_next when the ring was made */
    uint32_t ring_count;     /* messages that the ring had brought at the last ring_sync */
    uint32_t ring_vipd;    /* receive descriptors used since ring_first by messages through vipd */
    uint64_t ring_seen[4]; /* messages and bytes sent, then received: largest counts seen */
    uint64_t ring_before[4]; /* ring_seen when this life of vipd made the VI */
    const char *ring_fault;  /* why the ring of an earlier life was refused; NULL: it was not */
};

/* A VipConnectWait, a listener, or a request that came to a listener (id 0). When a request comes
 * for a VipConnectWait, this object becomes the request (handle_valid). */
struct nic_waiter {
    uint64_t id, handle;
    bool handle_valid, listener;
    uint64_t delivered;      /* listener: requests that it has delivered */
    uint8_t remote_disc_len; /* of the request's sender, for views */
    uint8_t local_disc_len;  /* of the discriminator at which the program waits */
    uint8_t local_disc[VIP_DISCRIMINATOR_BYTES_MAX];
};

struct nic_session {
    struct nic *nic;
    struct nic_list link; /* nic->sessions */
    struct nic_user *user;
    struct nic_share share;
    uint32_t slot; /* index in nic->session_slots */
    uint64_t id;
    uint32_t uid;
    void *app_base; /* read-only, hostile */
    void *vipd_base;
    const struct nic_layout *layout; /* layout of app_base and vipd_base */
    void *recv_base; /* read-only, hostile: receive descriptors; NULL: they are in the ring sq */
    const struct vip_loan_part *loan_parts; /* read-only, hostile; NULL: no loans */
    uint32_t loan_vi[VIP_LOANS_MAX];        /* per part: number of its VI + 1; 0: it is free */
    struct vip_vipd_head *head;             /* start of vipd_base */
    const struct vip_sq_slot *sq;           /* in app_base */
    struct registry *registry;
    const struct nic_sink *sink;
    void *ctx;
    struct eng *eng;
    uint32_t sq_position;       /* next submission slot to take */
    uint32_t sq_watch;          /* slot whose stamp shows that vipd can take the next posting */
    uint32_t fetch_end;         /* in the turn fetch_turn, vipd takes no slots from here on */
    uint64_t fetch_turn, slots; /* slots: number of slots taken so far */
    bool sq_skip_conts;         /* a bad descriptor was skipped: skip its continuations, too */
    bool draining, broken, closing, vi_latency; /* vi_latency: each VI is measured by itself */
    uint32_t loans_out;                         /* number of connections with a loan that is out */
    bool stays;                                 /* nic_session_stay was called */
    bool died;                                  /* `died` of nic_session_end */
    uint32_t rings;                             /* number of VIs that have a ring */
    bool failed, tell_resumed; /* failed: the present posting failed; tell_resumed: report it */
    uint64_t faults_ns;        /* when the charge for failed postings has run out (NIC_FAULT_NS) */
    uint64_t errors_ns;        /* as faults_ns, but for errors reported to the program */
    uint32_t vi_max, cq_max;   /* the NIC's limits when the session was made */
    struct nic_vi *vis;        /* [vi_max] */
    struct nic_cq *cqs;        /* [cq_max] */
    void **vi_blocks;          /* each block: memory of NIC_VI_BLOCK VIs; NULL: not needed yet */
    uint16_t *vi_free;         /* stack of free VI numbers below vi_high */
    uint32_t vi_free_count, vi_high, vi_count, cq_high, cq_count;
    uint32_t cq_socks;            /* number of CQs that have a socket */
    uint32_t notify;              /* vipd's copy of head->notify */
    uint64_t notified;            /* nic->wake_batch when `notify` last changed */
    struct nic_list backlogs;     /* list of CQs with a backlog */
    struct nic_list asks;         /* list of VIs for which requests of the program wait */
    struct nic_list held, parked; /* lists of struct nic_held; parked is in order of the numbers */
    uint32_t held_count;          /* number of packets in held and parked */
    uint64_t held_bytes;          /* bytes of the packets in held and parked */
    uint64_t place_issued, place_done; /* last range given to libvipl, last range that it copied */
    struct nic_late { /* the newest ranges that libvipl places after their acknowledgement */
        uint64_t number;
        uint16_t vi;
        uint32_t generation;
    } late[NIC_LATE_MAX]; /* a range is at index number % NIC_LATE_MAX */
    struct nic_src *cur;  /* the packet that the engine processes */
    uint64_t kept_bytes;  /* bytes of memory for descriptors (kept_bytes.c) */
    struct nic_kept_block *spares;
    struct nic_waiter *waits;
    uint32_t wait_count, wait_cap;
    uint32_t connects; /* number of connections that are not established (yet) */
    uint32_t meets;    /* number of peer-to-peer requests, which wait at a discriminator */
    size_t vi_bytes;   /* bytes of memory of one VI: whole pages */
};

/* ---- nic ------------------------------------------------------------------------------- */

/* A completion that waits until the packets pulled earlier have left (complete.c). */
struct nic_deferred {
    struct nic_session *session;
    uint16_t vi;
    uint8_t queue;
    uint32_t status, length;
    uint64_t imm;
};

/* A queue (vi, queue) or a CQ (queue = 2, number in vi) with sleepers to wake. */
struct nic_wake {
    struct nic_session *session;
    uint16_t vi;
    uint8_t queue;
};

/* One packet on its way out. */
struct nic_tx {
    struct nic_session *session;
    uint64_t data_id; /* of the connection */
    struct link_addr to;
    struct path_tx out; /* its `copy` is in nic->tx_copies: NIC_TX_COPY_STRIDE bytes */
};

/* Stages of a turn that serve the sessions one after the other (nic.c). */
enum nic_round {
    NIC_ROUND_PLACED,
    NIC_ROUND_REPLAY,
    NIC_ROUND_TIMERS,
    NIC_ROUND_ASKS,
    NIC_ROUND_BACKLOGS,
    NIC_ROUND_SPARES,
    NIC_ROUNDS
};

struct nic {
    struct nic_config config;
    char name[VIP_NIC_NAME_BYTES];
    struct link *link;
    struct cm *cm;
    uint64_t cm_bytes, now_ns;     /* bytes that cm has allocated; time of the present call */
    struct siphash_key random_key; /* of nic_random */
    uint64_t random;               /* count of random numbers drawn */
    bool asleep, stopping;         /* set by nic_try_sleep and by nic_stopping */
    unsigned home_waits;           /* rebind.c: waits for owners of loans, at its end */
    bool loans_posted;             /* a session with a loan out has posted to the submission ring */
    bool asks, spares;             /* some session may have requests in asks, or spare blocks */
    uint32_t rings;                /* number of direct rings */
    struct nic_list ring_list;     /* the direct rings */
    int sock_kernel;               /* descriptor of sock_find; below 0: there is none */
    int loan_fd;                   /* epoll descriptor of the sockets of loans; -1: no loans */
    unsigned loans_heard;          /* number of sockets in loan_fd */
    uint64_t loans_looked_ns;      /* when vipd last looked at loan_fd */
    bool loans_over;               /* a loan may have ended its connection */
    struct nic_list loans;         /* list of struct nic_loan that need time */
    bool loop_by_link; /* packets to this NIC itself pass the link, because it has planted faults */
    struct cm_host self; /* the link's address when link->changes was link_changes */
    uint32_t link_changes;
    struct nic_counts counts;
    nic_see_fn *see; /* reports to the running capture; NULL: none runs */
    void *see_ctx;
    struct eng_latency latency;
    struct vip_hist gaps;        /* times between two turns */
    struct eng_vi_stats retired; /* sums of the counters of destroyed VIs */

    struct nic_list sessions, users; /* users: list of struct nic_user */
    uint32_t user_count;
    struct nic_sharing sharing; /* the users as a group that shares the time */
    struct nic_meter meter;
    struct nic_session **session_slots;
    uint32_t session_slots_cap;
    /* The next session: to send, to have its submission ring read, or to be served in a round. */
    struct nic_list *tx_next, *post_next, *round_next[NIC_ROUNDS];
    unsigned first_stage; /* stage with which the next turn begins (nic.c) */
    uint64_t next_wait;   /* last number of a wait, without the slot; differs in each life */

    struct nic_conn **conns;
    struct nic_conn *conn_free;
    uint32_t conns_cap, conns_used;
    struct nic_list peers[NIC_PEER_BUCKETS];

    unsigned cm_budget; /* number of CM messages that this turn may still process */
    struct link_rx rx[NIC_RX_BATCH];
    unsigned rx_count, rx_at; /* number of packets in rx; index of the first unprocessed packet */
    struct vip_packet rx_packet, replay_packet;
    struct nic_place place;
    struct nic_held *held;         /* [NIC_HELD_MAX] */
    uint32_t held_free, held_used; /* held_free: index + 1 of the first free slot; 0: none */
    uint64_t held_bytes;           /* bytes of the packets in used slots */

    struct nic_tx *tx_pool;          /* [NIC_TX_BATCH] */
    uint8_t *tx_copies;              /* mapped memory for a copy of each packet in tx_pool */
    struct nic_tx *tx[NIC_TX_BATCH]; /* into tx_pool; the first tx_count packets are filled */
    struct link_tx tx_link[NIC_TX_BATCH];
    unsigned tx_count;
    uint64_t tx_retry_ns; /* not 0: the link was full; the filled entries wait until this time */
    struct nic_deferred *deferred;
    uint32_t deferred_cap, deferred_count;

    uint8_t *loop_head; /* [VIP_PACKET_BYTES_MAX] headers of a loopback packet, at their offsets */
    struct vip_packet loop_packet;
    struct {
        uint16_t len;
        uint8_t bytes[VIP_WIRE_CM_BYTES_MAX];
    } cm_loop[NIC_CM_LOOP_MAX];
    uint32_t cm_loop_uid[NIC_CM_LOOP_MAX]; /* user of each packet in cm_loop */
    uint32_t cm_loop_head, cm_loop_count;

    struct nic_wake wakes[NIC_WAKES_MAX];
    unsigned wake_count;
    uint64_t wake_batch;  /* number of calls of nic_wake_flush that had something to wake */
    uint32_t backlog_cqs; /* number of CQs with a backlog */
    /* When vipd looks at full CQ rings again. backlog_look_ns: in a turn that runs anyway;
     * backlog_next_ns: by a timer; backlog_wait_ns: present interval of the timer. */
    uint64_t backlog_look_ns, backlog_next_ns, backlog_wait_ns;
};

#endif
