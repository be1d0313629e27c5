/*
 * Endpoints of the second kind: FI_EP_RDM, which reach any number of peers and match tags. The
 * protocol is that of the paper on MPI over VIA. These endpoints build on the first kind: to each
 * peer in use there is a *channel*, a connected endpoint (via.h) of our own with two rings.
 *
 *   rdm.c           endpoints: life and death, progress  tagged.c  the calls that send and receive
 *   peer.c          channels being made and ended        match.c   messages and receives that match
 *   channel.c       records in rings, reads, answers     sends.c   sends that await an answer
 *   channel_done.c  what has completed on channels       av.c      address vectors
 *
 * A message is a *record* in the ring of its receiver. An RDMA Write puts the record there; its
 * immediate data say where the record begins. The write uses up one receive of the channel. Flow
 * control counts these receives, as for other endpoints (post.c): when the receiver posts a receive
 * again, the record is out of the ring. The receiver takes records out at once, to a waiting
 * receive or to the list of early messages, so that no message blocks another.
 *
 * Up to the eager limit a record contains the data. Beyond the limit it contains the address of the
 * data; when a receive matches, the receiver fetches the data by RDMA Read and answers. An answer
 * also tells a synchronous sender that its message is matched.
 *
 * One lock guards an endpoint: the lock of its core, the completion queue of all its channels. The
 * order of locks: rdm.cm_lock, then the locks of via.h, with core.lock as cq.lock. Under core.lock
 * a thread takes one of these at a time: the ep.lock of a channel, the cq.lock of a queue of the
 * program, domain.lock.
 */
#ifndef OFI_RDM_H
#define OFI_RDM_H

#include <rdma/fi_tagged.h>

#include "ofi/calls.h"

#define VIA_CHANNEL_RECVS 128 /* receives posted for records: the most records in a ring */
#define VIA_CHANNEL_SENDS 256 /* records and RDMA Reads under way */
#define VIA_RECORD        64  /* in bytes; records begin at multiples of this number */

/* Version of via_channel_hello and of records; both ends must have the same. */
#define VIA_CHANNEL_VERSION 2

/* Most completions that one call of via_rdm_progress takes from VIPL. */
#define VIA_PROGRESS_MAX 64

enum via_kind {
    VIA_KIND_EAGER,  /* record with the data */
    VIA_KIND_OFFER,  /* record with a struct via_offer */
    VIA_KIND_ANSWER, /* answer to the send with this id */
    VIA_KIND_LOST,   /* never in a ring: an offer whose sender has ended */
};

/* Head of a record. Both sides belong to one job and one build, so the record has no wire
 * format. */
struct via_head {
    uint8_t kind;     /* enum via_kind */
    uint8_t tagged;   /* 1: matched by tag and source; 0: by source alone */
    uint8_t has_data; /* data goes into the receiver's completion */
    uint8_t answer;   /* the sender awaits an answer to id when the message is matched */
    uint32_t posted;  /* receives that the sender has posted since the start: credits */
    uint64_t tag, data;
    uint64_t bytes; /* of the message */
    uint64_t id;    /* number of the send, within its endpoint */
};

/* Address and memory handle of a long message. */
struct via_offer {
    uint64_t addr;
    uint32_t handle, unused;
};

/* A receive that the program has posted. */
struct via_want {
    struct via_want *next; /* of rdm->wants, or of channel->reads */
    struct via_peer *peer; /* NULL: from any peer */
    uint64_t tag, ignore;
    void *buf;
    size_t len;
    void *context;
    bool silent; /* report a completion only for an error */
    /* After the receive is matched with an offer: */
    struct via_peer *from;
    struct via_head head;
    struct via_offer offer;
    struct via_region *region;
};

/* A message without a receive yet is in two lists. So a receive that names its source does not
 * search the messages of other peers. */
enum via_early_list_kind { VIA_OF_ALL, VIA_OF_PEER, VIA_EARLY_LISTS };

struct via_early_list {
    struct via_early *first, *last;
};

struct via_early {
    struct via_early *next[VIA_EARLY_LISTS], *prev[VIA_EARLY_LISTS];
    struct via_peer *peer;
    struct via_head head;
    void *claimed_by; /* context of FI_PEEK with FI_CLAIM; then in rdm->claimed */
    char data[];      /* eager data, or the offer */
};

/* A send that awaits an answer. */
struct via_send {
    struct via_send *next; /* of peer->sends */
    uint64_t id;
    uint64_t flags; /* flags of its completion; without FI_COMPLETION only errors are reported */
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
    VIA_PEER_NEW,        /* no channel yet, or the peer has closed in order */
    VIA_PEER_CONNECTING, /* our request is under way */
    VIA_PEER_ACCEPTING,  /* the peer's request is being accepted */
    VIA_PEER_UP,
    VIA_PEER_DEAD, /* the peer is lost or not reachable */
};

/* An address that is in use. It lives as long as its endpoint. */
struct via_peer {
    struct via_peer *next;
    struct sockaddr_in addr;
    struct job_key key; /* for requests to the peer; zeros: unknown. Under core.lock. */
    bool is_self;
    enum via_peer_state state;   /* written under cm_lock and core.lock */
    uint64_t retry_ns;           /* in state NEW: no attempt before this time */
    struct via_channel *channel; /* NULL: none */
    struct via_send *sends, **sends_end;
    struct via_early_list earlies[2]; /* by via_head.tagged */
};

struct via_channel {
    struct via_channel *next; /* of rdm->channels */
    struct via_rdm *rdm;
    struct via_peer *peer;
    struct via_ep *ep; /* its context is the channel; NULL: not open yet, or being closed */
    bool up;           /* records may be sent */

    /* Both rings, in one block. The peer writes into `in`; `out` is a copy of the peer's ring. */
    char *in, *out;
    size_t ring_bytes;
    VIP_MEM_HANDLE in_handle, out_handle;

    uint64_t peer_ring; /* address of the peer's ring, ring_bytes long */
    uint32_t peer_handle;
    uint64_t head; /* bytes written since the start, with gaps at the ring's end */
    uint64_t ends[VIA_CHANNEL_RECVS]; /* head after record n, at n % VIA_CHANNEL_RECVS */
    size_t untold_bytes; /* bytes of records taken out of `in` since credits were last sent */

    struct via_answer *answers, **answers_end;
    struct via_want *reads, **reads_end; /* receives matched with offers whose read has not begun */
    bool is_busy;                        /* in rdm->busy: answers or reads wait */
    struct via_channel *busy_next;
};

struct via_av {
    struct fid_av fid;
    struct via_domain *domain;
    uint32_t users; /* atomic; endpoints bound to it */
    enum fi_av_type type;
    pthread_mutex_t lock;
    struct via_name *name; /* index = fi_addr_t, never used again; family 0 = removed */
    size_t count, room;
};

struct via_rdm {
    struct fid_ep fid;
    struct via_domain *domain;
    struct via_av *av;
    struct via_cq *tx_cq, *rx_cq; /* the program's */
    bool tx_selective, rx_selective;
    uint64_t tx_op_flags, rx_op_flags;
    bool directed;      /* FI_DIRECTED_RECV: receives name their source */
    size_t eager_bytes; /* longest message with its data in the record */
    struct sockaddr_in own;
    struct job_key key; /* key that callers must have; zeros: no key, the program chose the port */

    struct via_rdm *next; /* of fabric->rdms, under fabric->rdm_lock */
    /* Under cm_lock: channels being made and ended. */
    pthread_mutex_t cm_lock;
    bool enabled;
    struct fi_info *channel_info;
    struct via_eq *eq;
    struct via_pep *pep;

    /* All following members: under core->lock. */
    struct via_cq *core; /* written at enable */
    struct via_peer *peers;
    struct via_peer **by_addr; /* by fi_addr_t; NULL: not used yet */
    size_t by_addr_count;
    struct via_channel *channels, *busy;
    uint64_t next_id;
    uint32_t refuse_count;
    /* By via_head.tagged. */
    struct via_want *wants[2], **wants_end[2];
    struct via_early_list earlies[2];
    struct via_early *claimed; /* chained as VIA_OF_ALL */
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

/* In bytes: FI_VIA_RING in whole pages; FI_VIA_EAGER, limited so that a ring holds four such
 * messages. */
size_t via_ring_bytes(void);
size_t via_eager_bytes(void);

/* ---- rdm.c ---- */

int via_rdm_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret, void *context);
/* Take completions and events, and post waiting answers and reads. Any thread, without locks. */
void via_rdm_progress(struct via_rdm *rdm);
/* Handle connection events of all endpoints; called by the fabric's thread. */
void via_rdm_events_all(struct via_fabric *fabric);

/* ---- peer.c: under cm_lock unless a comment says otherwise ---- */

/* Find or make the peer with this address. Under core->lock. NULL: no such address, or no
 * memory. */
struct via_peer *via_peer_of(struct via_rdm *rdm, fi_addr_t addr);
/* Begin a channel if there is none. Outcomes: -FI_EAGAIN: try again; another error: no channel is
 * possible. Takes cm_lock. */
ssize_t via_peer_connect(struct via_rdm *rdm, struct via_peer *peer);
/* Handle events of channels. Takes cm_lock unless another thread has it. */
void via_peer_events(struct via_rdm *rdm);
void via_peer_close_channels(struct via_rdm *rdm);

/* ---- sends.c: under core->lock ---- */

/* Flags of the message's completion; without FI_COMPLETION only errors are reported. */
uint64_t via_send_flags(const struct via_rdm *rdm, const struct via_message *msg);
/* Record a send that awaits an answer, with its id in `head`; register the memory of an offer.
 * Outcomes: 0; negative error, nothing is recorded. */
int via_send_add(struct via_rdm *rdm, struct via_peer *peer, const struct via_message *msg,
                 struct via_head *head, struct via_offer *offer);
/* The record could not be posted: remove its send without a completion. */
void via_send_drop(struct via_rdm *rdm, struct via_peer *peer, uint64_t id);
/* A send is answered, or will not be answered (err != 0). */
void via_send_answered(struct via_rdm *rdm, struct via_peer *peer, uint64_t id, int err);
/* The peer has ended: no send to it will be answered. */
void via_sends_fail(struct via_rdm *rdm, struct via_peer *peer);

/* ---- channel.c: under core->lock ---- */

/* Put a record, `bytes` of data after its head, into the peer's ring. `op` describes its
 * completion. Outcomes: 0; -FI_EAGAIN: no room; -FI_ENOTCONN. */
ssize_t via_channel_post(struct via_channel *channel, struct via_head *head, const void *data,
                         size_t bytes, const struct via_op *op);
/* Answer a send of the peer. */
void via_channel_answer(struct via_rdm *rdm, struct via_peer *peer, uint64_t id);
/* Fetch the data of want->offer from the peer of this channel. */
void via_channel_read(struct via_channel *channel, struct via_want *want);
/* Go on with answers and reads that wait. */
void via_channel_go_on(struct via_rdm *rdm);
/* Post a receive for one record. Under ep->lock as well. */
ssize_t via_channel_receive(struct via_channel *channel);
/*
 * A record, with `bytes` of data after its head, is out of our ring. Post its receive again, and
 * learn the peer's credits from `posted` of the head. Does nothing if the channel is being closed.
 */
void via_channel_taken(struct via_channel *channel, uint32_t posted, size_t bytes);

/* ---- match.c: under core->lock ---- */

/* A message has arrived. data: the bytes of the record after its head. */
void via_match_arrived(struct via_rdm *rdm, struct via_peer *peer, const struct via_head *head,
                       const void *data, size_t data_bytes);
/* The program has posted a receive. The function takes want over. */
void via_match_want(struct via_rdm *rdm, struct via_want *want, bool tagged);
/* Carry out FI_PEEK (claim: with FI_CLAIM); carry out FI_CLAIM alone, which takes a claimed
 * message. */
void via_match_peek(struct via_rdm *rdm, const struct via_want *what, bool tagged, bool claim);
ssize_t via_match_claimed(struct via_rdm *rdm, struct via_want *want);
/* Discard the message that was claimed. */
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

/* Take all completions that reap.c has put into the core's list. */
void via_channel_take_done(struct via_rdm *rdm);
/* The channel's endpoint is closed: its answers are dropped, its reads fail. */
void via_channel_fail(struct via_channel *channel);

/* ---- tagged.c ---- */

extern struct fi_ops_tagged via_rdm_tagged_ops;
extern struct fi_ops_msg via_rdm_msg_ops;

#endif
