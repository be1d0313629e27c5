/*
 * Endpoints of the second kind: FI_EP_RDM. They reach any number of peers and match tags. For each
 * peer in use there is a *channel*: an internal endpoint of the first kind (via.h), connected to
 * the peer, and two rings. The protocol is that of the paper on MPI over VIA.
 *
 *   rdm.c           endpoints: start, end, progress      tagged.c  the calls that send and receive
 *   peer.c          channels being made and ended        match.c   messages and receives that match
 *   channel.c       records in rings, reads, answers     sends.c   sends that await an answer
 *   channel_done.c  what has completed on channels       av.c      address vectors
 *
 * A message is a *record* in the ring of its receiver. An RDMA Write puts the record there; its
 * immediate data say where the record begins. The write uses up one receive of the channel. Credits
 * count these receives, as for other endpoints (post.c): the receiver posts a receive again when it
 * has taken the record out of the ring. It takes records out at once, for a waiting receive or for
 * the list of early messages, so that no message blocks another.
 *
 * A record of a message up to the eager limit contains the data. The record of a longer message (an
 * offer) contains the address of the data. When a receive matches the offer, the receiver fetches
 * the data by RDMA Read and sends an answer. A sender may also ask for an answer to a short
 * message: the answer says that a receive has matched it.
 *
 * The *core* of an endpoint is the completion queue of all its channels. Its lock guards the
 * endpoint. Lock order: rdm.cm_lock, then the locks of via.h, with core.lock as cq.lock. A thread
 * with core.lock takes only one of these locks at a time: the ep.lock of a channel, the cq.lock of
 * a queue of the program, domain.lock.
 */
#ifndef OFI_RDM_H
#define OFI_RDM_H

#include <rdma/fi_tagged.h>

#include "ofi/calls.h"

#define VIA_CHANNEL_RECVS 128 /* number of receives of a channel; also the most records in a ring */
#define VIA_CHANNEL_SENDS 256 /* most records and RDMA Reads of a channel that are under way */
#define VIA_RECORD        64  /* in bytes; records begin at multiples of this number */

/* Version of via_channel_hello and of records; both ends must have the same version. */
#define VIA_CHANNEL_VERSION 2

/* Most completions that one call of via_rdm_progress takes from VIPL. */
#define VIA_PROGRESS_MAX 64

enum via_kind {
    VIA_KIND_EAGER,  /* record with the data */
    VIA_KIND_OFFER,  /* record with a struct via_offer */
    VIA_KIND_ANSWER, /* answer to the send with this id */
    VIA_KIND_LOST,   /* only in lists, never in a ring: an offer whose sender has ended */
};

/* Head of a record. Both sides belong to one job and use the same build, so they exchange the
 * struct as it is in memory. */
struct via_head {
    uint8_t kind;     /* enum via_kind */
    uint8_t tagged;   /* 1: receives match by tag and source; 0: by source alone */
    uint8_t has_data; /* `data` is valid: the receiver's completion reports it */
    uint8_t answer;   /* the sender wants an answer with this id when a receive has matched */
    uint32_t posted;  /* receives that the sender has posted: credits for the receiver */
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
    struct via_peer *peer; /* NULL: from any peer */
    uint64_t tag, ignore;
    void *buf;
    size_t len;
    void *context;
    bool silent; /* report only errors */
    /* Valid after an offer has matched the receive: */
    struct via_peer *from;
    struct via_head head;
    struct via_offer offer;
    struct via_region *region;
};

/* An early message has arrived and has no receive yet. It is in two lists: of all peers, and of its
 * peer. So a receive that names its source does not search the messages of other peers. */
enum via_early_list_kind { VIA_OF_ALL, VIA_OF_PEER, VIA_EARLY_LISTS };

struct via_early_list {
    struct via_early *first, *last;
};

struct via_early {
    struct via_early *next[VIA_EARLY_LISTS], *prev[VIA_EARLY_LISTS];
    struct via_peer *peer;
    struct via_head head;
    void *claimed_by; /* in rdm->claimed: the context of FI_PEEK with FI_CLAIM */
    char data[];      /* data of the message, or a struct via_offer */
};

/* A send that awaits an answer. */
struct via_send {
    struct via_send *next; /* in peer->sends */
    uint64_t id;
    uint64_t flags; /* flags of the completion; without FI_COMPLETION report only errors */
    void *context;
    void *buf;
    size_t len;
    struct via_region *region; /* memory of an offer; NULL: an eager message */
};

/* An answer that waits for room. */
struct via_answer {
    struct via_answer *next;
    uint64_t id;
};

enum via_peer_state {
    VIA_PEER_NEW,        /* no channel yet, or the peer has closed it in the normal way */
    VIA_PEER_CONNECTING, /* our request is under way */
    VIA_PEER_ACCEPTING,  /* the peer's request is being accepted */
    VIA_PEER_UP,
    VIA_PEER_DEAD, /* the peer is lost or not reachable */
};

/* An address to which the endpoint has sent, or which has called it. Freed with the endpoint. */
struct via_peer {
    struct via_peer *next;
    struct sockaddr_in addr;
    struct job_key key; /* proves our requests to the peer; zeros: unknown. Under core.lock. */
    bool is_self;
    enum via_peer_state state;   /* written under cm_lock and core.lock */
    uint64_t retry_ns;           /* in state NEW: no attempt before this time */
    struct via_channel *channel; /* NULL: none */
    struct via_send *sends, **sends_end;
    struct via_early_list earlies[2]; /* index: via_head.tagged */
};

struct via_channel {
    struct via_channel *next; /* in rdm->channels */
    struct via_rdm *rdm;
    struct via_peer *peer;
    struct via_ep *ep; /* the internal endpoint; NULL: not open yet, or being closed */
    bool up;           /* records may be sent */

    /* Both rings, in one block. The peer writes into `in`; `out` is a copy of the peer's ring. */
    char *in, *out;
    size_t ring_bytes;
    VIP_MEM_HANDLE in_handle, out_handle;

    uint64_t peer_ring; /* address of the peer's ring, which has ring_bytes bytes */
    uint32_t peer_handle;
    uint64_t head; /* count of bytes written to the peer's ring, with gaps at the ring's end */
    uint64_t ends[VIA_CHANNEL_RECVS]; /* [n % VIA_CHANNEL_RECVS]: head after record n */
    size_t untold_bytes; /* bytes of records taken out of `in` since we sent credits last */

    struct via_answer *answers, **answers_end;
    struct via_want *reads, **reads_end; /* receives with an offer, before their RDMA Read */
    bool is_busy;                        /* in rdm->busy: answers or reads wait for room */
    struct via_channel *busy_next;
};

struct via_av {
    struct fid_av fid;
    struct via_domain *domain;
    uint32_t users; /* atomic; number of endpoints bound to it */
    enum fi_av_type type;
    pthread_mutex_t lock;
    struct via_name *name; /* index: fi_addr_t, never used again; family 0: removed */
    size_t count, room;
};

struct via_rdm {
    struct fid_ep fid;
    struct via_domain *domain;
    struct via_av *av;
    struct via_cq *tx_cq, *rx_cq; /* queues of the program */
    bool tx_selective, rx_selective;
    uint64_t tx_op_flags, rx_op_flags;
    bool directed;      /* FI_DIRECTED_RECV: receives name their source */
    size_t eager_bytes; /* longest message with its data in the record */
    struct sockaddr_in own;
    struct job_key key; /* key that callers must have; zeros: no key */

    struct via_rdm *next; /* of fabric->rdms, under fabric->rdm_lock */
    /* cm_lock guards the making and the end of channels, and the members up to pep. */
    pthread_mutex_t cm_lock;
    bool enabled;
    struct fi_info *channel_info;
    struct via_eq *eq;
    struct via_pep *pep;

    /* core->lock guards all following members. */
    struct via_cq *core; /* set at enable */
    struct via_peer *peers;
    struct via_peer **by_addr; /* index: fi_addr_t; NULL: not used yet */
    size_t by_addr_count;
    struct via_channel *channels, *busy;
    uint64_t next_id;
    uint32_t refuse_count;
    /* Index of these arrays: via_head.tagged. */
    struct via_want *wants[2], **wants_end[2];
    struct via_early_list earlies[2];
    struct via_early *claimed; /* list of claimed messages, by next[VIA_OF_ALL] */
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
    bool silent; /* fi_inject: no completion */
};

/* ---- info.c ---- */

/* Bytes of a ring: FI_VIA_RING, rounded down to pages. Bytes of the longest eager message:
 * FI_VIA_EAGER, but four such messages must fit into a ring. */
size_t via_ring_bytes(void);
size_t via_eager_bytes(void);

/* ---- rdm.c ---- */

int via_rdm_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret, void *context);
/* Handle completions and events, and post waiting answers and reads. Any thread, without locks. */
void via_rdm_progress(struct via_rdm *rdm);
/* Handle connection events of all endpoints; called by the fabric's thread. */
void via_rdm_events_all(struct via_fabric *fabric);

/* ---- peer.c: under cm_lock unless a comment says otherwise ---- */

/* Find or make the peer with this address. Under core->lock. NULL: no such address, or no
 * memory. */
struct via_peer *via_peer_of(struct via_rdm *rdm, fi_addr_t addr);
/* Begin to make a channel if there is none. Outcomes: -FI_EAGAIN: call again later; another error:
 * no channel is possible. Takes cm_lock. */
ssize_t via_peer_connect(struct via_rdm *rdm, struct via_peer *peer);
/* Handle events of channels. Takes cm_lock unless another thread has it. */
void via_peer_events(struct via_rdm *rdm);
void via_peer_close_channels(struct via_rdm *rdm);

/* ---- sends.c: under core->lock ---- */

/* Flags of the completion of a send; without FI_COMPLETION only errors are reported. */
uint64_t via_send_flags(const struct via_rdm *rdm, const struct via_message *msg);
/* Record a send that awaits an answer, with its id in `head`; register the memory of an offer.
 * Outcomes: 0; negative error, nothing is recorded. */
int via_send_add(struct via_rdm *rdm, struct via_peer *peer, const struct via_message *msg,
                 struct via_head *head, struct via_offer *offer);
/* The record of a send could not be posted: remove the send, without a completion. */
void via_send_drop(struct via_rdm *rdm, struct via_peer *peer, uint64_t id);
/* A send is answered, or will not be answered (err != 0). */
void via_send_answered(struct via_rdm *rdm, struct via_peer *peer, uint64_t id, int err);
/* The peer has ended: no send to it will be answered. */
void via_sends_fail(struct via_rdm *rdm, struct via_peer *peer);

/* ---- channel.c: under core->lock ---- */

/* Write a record (head, then `bytes` bytes of data) into the peer's ring. `op` describes its
 * completion. Outcomes: 0; -FI_EAGAIN: no room; -FI_ENOTCONN. */
ssize_t via_channel_post(struct via_channel *channel, struct via_head *head, const void *data,
                         size_t bytes, const struct via_op *op);
/* Send an answer to the peer's send with this id; if there is no room, the answer waits. */
void via_channel_answer(struct via_rdm *rdm, struct via_peer *peer, uint64_t id);
/* Fetch the data of want->offer from the peer of this channel; if there is no room, this waits. */
void via_channel_read(struct via_channel *channel, struct via_want *want);
/* Post the answers and reads that wait, as far as there is room. */
void via_channel_go_on(struct via_rdm *rdm);
/* Post a receive for one record. Under ep->lock as well. */
ssize_t via_channel_receive(struct via_channel *channel);
/*
 * A record with `bytes` bytes of data is taken out of our ring. Post its receive again. posted:
 * that of the record's head; it gives us credits. Does nothing if the channel is being closed.
 */
void via_channel_taken(struct via_channel *channel, uint32_t posted, size_t bytes);

/* ---- match.c: under core->lock ---- */

/* A message has arrived. data: the bytes of the record after its head. */
void via_match_arrived(struct via_rdm *rdm, struct via_peer *peer, const struct via_head *head,
                       const void *data, size_t data_bytes);
/* The program has posted a receive. The function frees `want` later. */
void via_match_want(struct via_rdm *rdm, struct via_want *want, bool tagged);
/* Do FI_PEEK: look for an early message; with `claim` also claim it. via_match_claimed does
 * FI_CLAIM alone: it receives the message that was claimed with want->context. */
void via_match_peek(struct via_rdm *rdm, const struct via_want *what, bool tagged, bool claim);
ssize_t via_match_claimed(struct via_rdm *rdm, struct via_want *want);
/* Discard the message that was claimed with this context. */
ssize_t via_match_discard(struct via_rdm *rdm, void *context);
/* Cancel a receive. Outcomes: 0; -FI_ENOENT. */
ssize_t via_match_cancel(struct via_rdm *rdm, void *context);
/* The data of an offer have arrived, or will not arrive (err != 0). Frees the want. */
void via_match_fetched(struct via_rdm *rdm, struct via_want *want, int err, int prov_errno);
/* The peer has ended: its offers are lost. */
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
