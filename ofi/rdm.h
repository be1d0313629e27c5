/*
 * Endpoints of the second kind: FI_EP_RDM, which reach everybody and match tags themselves, after the
 * protocol of the paper on MPI over VIA. They are built on the first kind: each peer that is talked
 * to has a *link*, which is a connected endpoint (via.h) of our own and two rings.
 *
 *   rdm.c      endpoints: life and death, progress    peer.c  peers, links being made and ended
 *   link.c     records in rings, RDMA Reads, answers   match.c what arrived and what is wanted
 *   tagged.c   the calls that send and receive         av.c    address vectors
 *
 * A message is a *record* in the ring of its receiver, put there by an RDMA Write whose immediate data
 * say where it begins. The write uses up one of the receives that are posted for nothing else, and
 * their number, told as ever (post.c), is the flow control: every record behind which a receive was
 * posted again is out of the ring. Records are always taken out at once, to where they are wanted or to
 * the list of early ones, so that no message keeps another one waiting.
 *
 * Up to the eager limit a record has the data in it. Beyond, it says where they lie; the receiver
 * fetches them by RDMA Read when somebody wants them, and answers. An answer also tells a synchronous
 * sender that its message is matched.
 *
 * One lock guards an endpoint, that of its core, the completion queue of all its links. Locks, in
 * order: rdm.cm_lock, then those of via.h with core.lock as cq.lock, and behind the ep.lock of a link
 * the cq.lock of the program's completion queues and domain.lock.
 */
#ifndef OFI_RDM_H
#define OFI_RDM_H

#include <rdma/fi_tagged.h>

#include "ofi/calls.h"

#define VIA_LINK_RECVS 128 /* posted for records: so many may lie in a ring */
#define VIA_LINK_SENDS 256 /* records and RDMA Reads under way */
#define VIA_RECORD     64  /* records begin at multiples of this */

/* Of what links say and write; both ends must have the same. */
#define VIA_LINK_VERSION 2

/* How many completions one look takes from VIPL at most. */
#define VIA_PROGRESS_MAX 64

enum via_kind {
    VIA_KIND_EAGER,  /* with the data */
    VIA_KIND_OFFER,  /* with a struct via_offer */
    VIA_KIND_ANSWER, /* to what had this id */
    VIA_KIND_LOST,   /* never in a ring: an offer whose sender has gone */
};

/* Head of a record. The two sides are of one job and one build, so that it has no wire format. */
struct via_head {
    uint8_t kind;     /* enum via_kind */
    uint8_t tagged;   /* 1: matched by its tag; 0: by its source alone */
    uint8_t has_data; /* data is for the receiver's completion */
    uint8_t answer;   /* 1: an answer to id is awaited when it is matched */
    uint32_t posted;  /* receives posted by the sender of this, in all: credits */
    uint64_t tag, data;
    uint64_t bytes; /* of the message */
    uint64_t id;    /* of the send, within its endpoint */
};

/* Where a long message lies. */
struct via_offer {
    uint64_t addr;
    uint32_t handle, unused;
};

/* A receive that the program has posted. */
struct via_want {
    struct via_want *next; /* of rdm->wants, or of link->reads */
    struct via_peer *peer; /* NULL: from anybody */
    uint64_t tag, ignore;
    void *buf;
    size_t len;
    void *context;
    bool silent; /* without a completion, unless in error */
    /* Once it is matched with an offer: */
    struct via_peer *from;
    struct via_head head;
    struct via_offer offer;
    struct via_region *region;
};

/* A message that nobody wants yet. It is in two lists, so that a receive that names its source need not
   look at what others have sent. */
enum via_early_list_kind { VIA_OF_ALL, VIA_OF_PEER, VIA_EARLY_LISTS };

struct via_early_list {
    struct via_early *first, *last;
};

struct via_early {
    struct via_early *next[VIA_EARLY_LISTS], *prev[VIA_EARLY_LISTS];
    struct via_peer *peer;
    struct via_head head;
    void *claimed_by; /* context of FI_PEEK with FI_CLAIM; it is in rdm->claimed then */
    char data[];      /* eager data, or the offer */
};

/* A send that awaits an answer. */
struct via_send {
    struct via_send *next; /* of peer->sends */
    uint64_t id;
    uint64_t flags; /* of its completion; without FI_COMPLETION only errors are told */
    void *context;
    void *buf;
    size_t len;
    struct via_region *region; /* NULL: eager */
};

/* An answer that has not yet found room. */
struct via_answer {
    struct via_answer *next;
    uint64_t id;
};

enum via_peer_state {
    VIA_PEER_NEW,        /* nothing was said yet, or it has closed in order */
    VIA_PEER_CONNECTING, /* we have asked */
    VIA_PEER_ACCEPTING,  /* it has asked */
    VIA_PEER_UP,
    VIA_PEER_DEAD, /* it was lost, or could not be reached */
};

/* An address that was talked to. Lives as long as its endpoint. */
struct via_peer {
    struct via_peer *next;
    struct sockaddr_in addr;
    struct job_key key; /* for calling it; zeros: none is known. Under core.lock. */
    bool is_self;
    enum via_peer_state state; /* written under cm_lock and core.lock */
    uint64_t retry_ns;         /* NEW: not before */
    struct via_link *link;     /* NULL: none */
    struct via_send *sends, **sends_end;
    struct via_early_list earlies[2]; /* by via_head.tagged */
};

struct via_link {
    struct via_link *next; /* of rdm->links */
    struct via_rdm *rdm;
    struct via_peer *peer;
    struct via_ep *ep;
    bool up; /* records may go out */

    /* Both rings, in one piece: what the peer writes into, and a copy of what we write to it. */
    char *in, *out;
    size_t ring_bytes;
    VIP_MEM_HANDLE in_handle, out_handle;

    uint64_t peer_ring; /* of ring_bytes as well */
    uint32_t peer_handle;
    uint64_t head;                 /* bytes written in all, with the gaps at the ring's end */
    uint64_t ends[VIA_LINK_RECVS]; /* head behind the n-th record, at n modulo their number */
    size_t untold_bytes;           /* taken out of `in` since the peer was told last */

    struct via_answer *answers, **answers_end;
    struct via_want *reads, **reads_end; /* matched with offers, not yet begun */
    bool is_busy;                        /* in rdm->busy: it has some of these */
    struct via_link *busy_next;
};

struct via_av {
    struct fid_av fid;
    struct via_domain *domain;
    uint32_t users; /* atomic; endpoints bound to it */
    enum fi_av_type type;
    pthread_mutex_t lock;
    struct via_name *name; /* index = fi_addr_t; family 0 = removed. Never used again. */
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
    size_t eager_bytes; /* the longest message within a record */
    struct sockaddr_in own;
    struct job_key key; /* that callers need; zeros: none, since the program chose the port */

    struct via_rdm *next; /* of fabric->rdms, under fabric->rdm_lock */
    /* Under cm_lock: links being made and ended. */
    pthread_mutex_t cm_lock;
    bool enabled;
    struct fi_info *link_info;
    struct via_eq *eq;
    struct via_pep *pep;

    /* Under core->lock, all that follows. */
    struct via_cq *core; /* written at enable */
    struct via_peer *peers;
    struct via_peer **by_addr; /* by fi_addr_t, as far as they were used */
    size_t by_addr_count;
    struct via_link *links, *busy;
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
    bool silent; /* fi_inject: no completion at all */
};

/* ---- info.c ---- */

/* What FI_VIA_RING and FI_VIA_EAGER come to: whole pages; the longest message that goes through a ring, of
   which it holds four at least. */
size_t via_ring_bytes(void);
size_t via_eager_bytes(void);

/* ---- rdm.c ---- */

int via_rdm_open(struct via_domain *domain, struct fi_info *info, struct fid_ep **ret,
                 void *context);
/* Take what has come, and go on with what waits. Any thread, without locks. */
void via_rdm_progress(struct via_rdm *rdm);
/* The same for connections of all endpoints; called by the fabric's thread. */
void via_rdm_events_all(struct via_fabric *fabric);
/* Nothing that comes can be relied on any more, or a message is lost: completion queues fail. */
void via_rdm_broken(struct via_rdm *rdm, const char *why);

/* ---- peer.c: under cm_lock but for what says otherwise ---- */

/* Under core->lock. NULL: no such address, or no memory. */
struct via_peer *via_peer_of(struct via_rdm *rdm, fi_addr_t addr);
/* Begin a link if there is none. -FI_EAGAIN; another error: there will be none. Takes cm_lock. */
ssize_t via_peer_connect(struct via_rdm *rdm, struct via_peer *peer);
/* What the fabric says of links. Takes cm_lock unless another thread has it. */
void via_peer_events(struct via_rdm *rdm);
void via_peer_close_links(struct via_rdm *rdm);

/* ---- link.c: under core->lock ---- */

/* Put a record with so many bytes behind its head into the peer's ring, `op` is what via_link_sent
   will get. Outcomes: 0; -FI_EAGAIN, no room; -FI_ENOTCONN. */
ssize_t via_link_post(struct via_link *link, struct via_head *head, const void *data, size_t bytes,
                      const struct via_op *op);
/* Answer a send of the peer's. */
void via_link_answer(struct via_rdm *rdm, struct via_peer *peer, uint64_t id);
/* Fetch what was offered to want->from. */
void via_link_read(struct via_link *link, struct via_want *want);
/* Go on with answers and reads that wait. */
void via_link_go_on(struct via_rdm *rdm);
/* Called from reap.c, under ep->lock as well: a receive, a send of the link has come back (err != 0:
   without success). */
void via_link_arrived(struct via_link *link, const VIP_DESCRIPTOR *desc);
void via_link_sent(struct via_link *link, const struct via_op *op, int err, int prov_errno);
/* The link's endpoint is closed: what waits for it fails. */
void via_link_fail(struct via_link *link);

/* ---- match.c: under core->lock ---- */

/* A message has come: data are those of the record. */
void via_match_arrived(struct via_rdm *rdm, struct via_peer *peer, const struct via_head *head,
                       const void *data, size_t data_bytes);
/* The program wants one. */
void via_match_want(struct via_rdm *rdm, struct via_want *want, bool tagged);
/* FI_PEEK, and FI_CLAIM (with `claimed`, what FI_PEEK with FI_CLAIM has found before). */
void via_match_peek(struct via_rdm *rdm, const struct via_want *what, bool tagged, bool claim);
ssize_t via_match_claimed(struct via_rdm *rdm, struct via_want *want);
/* Give up what was claimed. */
ssize_t via_match_discard(struct via_rdm *rdm, void *context);
/* Take back a receive. 0 or -FI_ENOENT. */
ssize_t via_match_cancel(struct via_rdm *rdm, void *context);
/* An offer's data are there, or will not come (err != 0). Frees the want. */
void via_match_fetched(struct via_rdm *rdm, struct via_want *want, int err, int prov_errno);
/* The peer has gone: its offers are worth nothing. */
void via_match_lost(struct via_rdm *rdm, const struct via_peer *peer);
/* The endpoint is being closed. */
void via_match_drop(struct via_rdm *rdm);

/* ---- tagged.c ---- */

extern struct fi_ops_tagged via_rdm_tagged_ops;
extern struct fi_ops_msg via_rdm_msg_ops;
/* A send was answered, or will not be (err != 0). Under core->lock. */
void via_send_answered(struct via_rdm *rdm, struct via_peer *peer, uint64_t id, int err);
void via_sends_fail(struct via_rdm *rdm, struct via_peer *peer);

#endif
