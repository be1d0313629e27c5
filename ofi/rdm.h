/*
 * Endpoints of the second kind: FI_EP_RDM. They reach any number of peers and match tags. For each
 * peer in use there is a *channel*: an internal endpoint of the first kind (via.h), connected to
 * the peer, and two rings. The protocol is that of the paper on MPI over VIA.
 *
 *   rdm.c           endpoints: start, end, progress      tagged.c  fi_tsend, fi_trecv and the like
 *   peer.c          makes and ends channels              match.c   matches messages with receives
 *   channel.c       records in rings, reads, answers     sends.c   sends that await an answer
 *   channel_done.c  completions of channels              av.c      address vectors
 *
 * A message is a *record* in the ring of its receiver. An RDMA Write puts the record there. Its
 * immediate data tell the offset of the record, and it uses up one receive descriptor of the
 * channel. Credits count these descriptors, as for other endpoints (post.c). The receiver posts a
 * descriptor again when it has taken the record out of the ring. It takes each record out at once,
 * for a waiting receive or for the list of early messages, so that no message blocks another.
 *
 * A record of a message up to the eager limit contains the data. The record of a longer message (an
 * offer) contains the address of the data. When a receive matches the offer, the receiver fetches
 * the data by RDMA Read and sends an answer. A sender may also ask for an answer to a short
 * message: the answer tells the sender that a receive has matched the message.
 *
 * The *core* of an endpoint is the completion queue of all its channels. core.lock guards the
 * endpoint. Lock order: rdm.cm_lock, then the locks in the order of via.h; core.lock is a cq.lock.
 * While a thread has core.lock, it takes at most one of these other locks at a time: the ep.lock of
 * a channel, the cq.lock of a queue of the program, domain.lock.
 */
#ifndef OFI_RDM_H
#define OFI_RDM_H

#include <rdma/fi_tagged.h>

#include "ofi/calls.h"

#define VIA_CHANNEL_RECVS 128 /* receive descriptors of a channel; also most records in a ring */
#define VIA_CHANNEL_SENDS 256 /* most records plus RDMA Reads of a channel that are under way */
#define VIA_RECORD        64  /* records begin at multiples of this number of bytes */

/* Version of via_channel_hello and of records; both ends must have the same version. */
#define VIA_CHANNEL_VERSION 2

/* Most completions that one call of via_rdm_progress takes from VIPL. */
#define VIA_PROGRESS_MAX 64

enum via_kind {
    VIA_KIND_EAGER,  /* record with the data */
    VIA_KIND_OFFER,  /* record with a struct via_offer */
    VIA_KIND_ANSWER, /* answer to the send that has the id in via_head.id */
    VIA_KIND_LOST,   /* an offer whose sender has ended; never in a ring */
};

/* Head of a record. Both sides belong to one job and use the same build, so they send the struct
 * as it is in memory. */
struct via_head {
    uint8_t kind;     /* enum via_kind */
    uint8_t tagged;   /* 1: receives match it by tag and source; 0: by source alone */
    uint8_t has_data; /* 1: the receiver's completion reports `data` */
    uint8_t answer;   /* 1: when a receive has matched, the sender wants an answer with `id` */
    uint32_t posted;  /* count of receives that the sender has posted: credits for the receiver */
    uint64_t tag, data;
    uint64_t bytes; /* length of the message */
    uint64_t id;    /* number of the send in the sender's endpoint */
};

/* Address and memory handle of a long message. */
struct via_offer {
    uint64_t addr;
    uint32_t handle, unused;
};

/* A receive that the program has posted. */
struct via_want {
    struct via_want *next; /* in rdm->wants, or in channel->reads */
    struct via_peer *peer; /* the receive matches only this peer; NULL: any peer */
    uint64_t tag, ignore;
    void *buf;
    size_t len;
    void *context;
    bool silent; /* do not report a completion without error */
    /* from, head, offer and region are valid after an offer has matched the receive. */
    struct via_peer *from;
    struct via_head head;
    struct via_offer offer;
    struct via_region *region;
};

/* An early message has arrived before a receive matches it. It is in the list of all peers and in
 * that of its peer, so a receive that names its source searches only messages of this peer. */
enum via_early_list_kind { VIA_OF_ALL, VIA_OF_PEER, VIA_EARLY_LISTS };

struct via_early_list {
    struct via_early *first, *last;
};

struct via_early {
    struct via_early *next[VIA_EARLY_LISTS], *prev[VIA_EARLY_LISTS];
    struct via_peer *peer;
    struct via_head head;
    void *claimed_by; /* context of the FI_PEEK call that has claimed the message */
    char data[];      /* data of the message, or a struct via_offer */
};

/* A send that awaits an answer. */
struct via_send {
    struct via_send *next; /* in peer->sends */
    uint64_t id;
    uint64_t flags; /* flags of its completion; without FI_COMPLETION only an error is reported */
    void *context;
    void *buf;
    size_t len;
    struct via_region *region; /* memory of an offer; NULL: the message is eager */
};

/* An answer that waits for room in the ring of the peer. */
struct via_answer {
    struct via_answer *next;
    uint64_t id;
};

enum via_peer_state {
    VIA_PEER_NEW,        /* no channel yet, or the peer has closed the channel normally */
    VIA_PEER_CONNECTING, /* our request is under way */
    VIA_PEER_ACCEPTING,  /* the peer's request is being accepted */
    VIA_PEER_UP,
    VIA_PEER_DEAD, /* the peer is lost or unreachable */
};

/* An address that the endpoint sends to or that has called it. Freed with the endpoint. */
struct via_peer {
    struct via_peer *next;
    struct sockaddr_in addr;
    struct job_key key; /* key in the peer's address; zeros: not known. Under core.lock. */
    bool is_self;
    enum via_peer_state state;   /* written under cm_lock and core.lock */
    uint64_t retry_ns;           /* in VIA_PEER_NEW: time of the next attempt */
    struct via_channel *channel; /* NULL: none */
    struct via_send *sends, **sends_end;
    struct via_early_list earlies[2]; /* index: via_head.tagged */
};

struct via_channel {
    struct via_channel *next; /* in rdm->channels */
    struct via_rdm *rdm;
    struct via_peer *peer;
    struct via_ep *ep; /* the internal endpoint; NULL: not open yet, or being closed */
    bool up;           /* the channel can send records */

    /* Both rings, in one block. The peer writes into `in`. `out` is a copy of the peer's `in`. */
    char *in, *out;
    size_t ring_bytes;
    VIP_MEM_HANDLE in_handle, out_handle;

    uint64_t peer_ring; /* address of the peer's ring, which has ring_bytes bytes */
    uint32_t peer_handle;
    uint64_t head; /* bytes used in the peer's ring since the start, with gaps at its end */
    uint64_t ends[VIA_CHANNEL_RECVS]; /* [n % VIA_CHANNEL_RECVS]: `head` after record n */
    size_t untold_bytes; /* bytes of records taken out of `in` since the last credits to the peer */

    struct via_answer *answers, **answers_end;
    struct via_want *reads, **reads_end; /* matched receives that wait for RDMA Read */
    bool is_busy;                        /* the channel is in rdm->busy: answers or reads wait */
    struct via_channel *busy_next;
};

struct via_av {
    struct fid_av fid;
    struct via_domain *domain;
    uint32_t users; /* atomic; number of endpoints bound to it */
    enum fi_av_type type;
    pthread_mutex_t lock;
    struct via_name *name; /* index: an fi_addr_t, never reused; family 0: removed */
    size_t count, room;
};

struct via_rdm {
    struct fid_ep fid;
    struct via_domain *domain;
    struct via_av *av;
    struct via_cq *tx_cq, *rx_cq; /* queues of the program */
    bool tx_selective, rx_selective;
    uint64_t tx_op_flags, rx_op_flags;
    bool directed;      /* FI_DIRECTED_RECV: a receive may name its source */
    size_t eager_bytes; /* length of the longest eager message */
    struct sockaddr_in own;
    struct job_key key; /* key that callers must have; zeros: no key */

    struct via_rdm *next; /* in fabric->rdms, under fabric->rdm_lock */
    /* A thread that makes or ends a channel has cm_lock. It also guards the members up to pep. */
    pthread_mutex_t cm_lock;
    bool enabled;
    struct fi_info *channel_info;
    struct via_eq *eq;
    struct via_pep *pep;

    /* core->lock guards all following members. */
    struct via_cq *core; /* set at enable */
    struct via_peer *peers;
    struct via_peer **by_addr; /* index: an fi_addr_t; NULL: peer not used yet */
    size_t by_addr_count;
    struct via_channel *channels, *busy;
    uint64_t next_id;
    uint32_t refuse_count;
    /* The index of the next two arrays is via_head.tagged. */
    struct via_want *wants[2], **wants_end[2];
    struct via_early_list earlies[2];
    struct via_early *claimed; /* list of claimed messages, linked by next[VIA_OF_ALL] */
};

/* A message that the program sends. */
struct via_message {
    const void *buf;
    size_t len;
    fi_addr_t dest;
    uint64_t tag, data;
    void *context;
    uint64_t flags;
    bool tagged, has_data;
    bool silent; /* the call is fi_inject: no completion */
};

/* ---- info.c ---- */

/* via_ring_bytes: FI_VIA_RING, rounded down to pages. via_eager_bytes, the length of the longest
 * eager message: FI_VIA_EAGER, but less if four such messages do not fit into a ring. */
size_t via_ring_bytes(void);
size_t via_eager_bytes(void);

/* ---- rdm.c ---- */

int via_rdm_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret, void *context);
/* Handle completions and events, and post waiting answers and reads. Any thread, with no lock. */
void via_rdm_progress(struct via_rdm *rdm);
/* Handle connection events of all FI_EP_RDM endpoints. The fabric's thread calls this. */
void via_rdm_events_all(struct via_fabric *fabric);

/* ---- peer.c: under cm_lock unless a comment says otherwise ---- */

/* Find or make the peer with this address. Under core->lock. NULL: the address is unknown, or no
 * memory. */
struct via_peer *via_peer_of(struct via_rdm *rdm, fi_addr_t addr);
/* Begin to make a channel to the peer if there is none. Outcomes: -FI_EAGAIN, try again later;
 * another negative error, no channel is possible. Takes cm_lock. */
ssize_t via_peer_connect(struct via_rdm *rdm, struct via_peer *peer);
/* Handle events of channels. Takes cm_lock. Does nothing if another thread has cm_lock. */
void via_peer_events(struct via_rdm *rdm);
void via_peer_close_channels(struct via_rdm *rdm);

/* ---- sends.c: under core->lock ---- */

/* Flags of a send's completion. Without FI_COMPLETION, the provider reports only an error. */
uint64_t via_send_flags(const struct via_rdm *rdm, const struct via_message *msg);
/* List a send that awaits an answer, and store its id in `head`. For an offer, register its memory.
 * Outcomes: 0; negative error, nothing is listed. */
int via_send_add(struct via_rdm *rdm, struct via_peer *peer, const struct via_message *msg,
                 struct via_head *head, struct via_offer *offer);
/* Undo via_send_add after its record could not be posted. The send gets no completion. */
void via_send_drop(struct via_rdm *rdm, struct via_peer *peer, uint64_t id);
/* Complete the send with this id. err: 0, or an FI_E... code if it will get no answer. */
void via_send_answered(struct via_rdm *rdm, struct via_peer *peer, uint64_t id, int err);
/* The peer has ended: complete all sends that await its answer with an error. */
void via_sends_fail(struct via_rdm *rdm, struct via_peer *peer);

/* ---- channel.c: under core->lock ---- */

/* Write a record (head, then `bytes` bytes of data) into the peer's ring. `op` describes its
 * completion. Outcomes: 0; -FI_EAGAIN: no room; -FI_ENOTCONN. */
ssize_t via_channel_post(struct via_channel *channel, struct via_head *head, const void *data,
                         size_t bytes, const struct via_op *op);
/* Answer the peer's send with this id. The answer waits in a list until there is room. */
void via_channel_answer(struct via_rdm *rdm, struct via_peer *peer, uint64_t id);
/* Fetch the data of want->offer from the peer. The read waits in a list until there is room. */
void via_channel_read(struct via_channel *channel, struct via_want *want);
/* Post waiting answers and reads of all channels, as far as there is room. */
void via_channel_go_on(struct via_rdm *rdm);
/* Post a receive descriptor for one record. Needs also ep->lock. */
ssize_t via_channel_receive(struct via_channel *channel);
/*
 * A record with `bytes` bytes of data is out of our ring: post a receive descriptor again. posted:
 * via_head.posted of the record, our credits. Does nothing if the channel is being closed.
 */
void via_channel_taken(struct via_channel *channel, uint32_t posted, size_t bytes);

/* ---- match.c: under core->lock ---- */

/* Handle a message that has arrived. data: the bytes of the record after its head. */
void via_match_arrived(struct via_rdm *rdm, struct via_peer *peer, const struct via_head *head,
                       const void *data, size_t data_bytes);
/* Match a receive that the program has posted, or list it. match.c frees `want` later. */
void via_match_want(struct via_rdm *rdm, struct via_want *want, bool tagged);
/* Do FI_PEEK: look for an early message, and claim it if `claim` is set. via_match_claimed does
 * FI_CLAIM without FI_PEEK: it receives the message that was claimed with want->context. */
void via_match_peek(struct via_rdm *rdm, const struct via_want *what, bool tagged, bool claim);
ssize_t via_match_claimed(struct via_rdm *rdm, struct via_want *want);
/* Discard the message that was claimed with this context. */
ssize_t via_match_discard(struct via_rdm *rdm, void *context);
/* Cancel a receive that no message has matched. Outcomes: 0; -FI_ENOENT. */
ssize_t via_match_cancel(struct via_rdm *rdm, void *context);
/* Complete a receive whose RDMA Read has ended or failed (err != 0). Frees `want`. */
void via_match_fetched(struct via_rdm *rdm, struct via_want *want, int err, int prov_errno);
/* The peer has ended: mark its offers as lost. */
void via_match_lost(struct via_rdm *rdm, const struct via_peer *peer);
/* The endpoint is being closed: free its receives and early messages. */
void via_match_drop(struct via_rdm *rdm);

/* ---- channel_done.c: under core->lock ---- */

/* Handle all completions that reap.c has put into the core's list. */
void via_channel_take_done(struct via_rdm *rdm);
/* The channel's endpoint is closed: drop its waiting answers, and let its waiting reads fail. */
void via_channel_fail(struct via_channel *channel);

/* ---- tagged.c ---- */

extern struct fi_ops_tagged via_rdm_tagged_ops;
extern struct fi_ops_msg via_rdm_msg_ops;

#endif
