/*
 * Insides of the protocol engine, shared by the files of vipd/engine/ (not the connection manager).
 *
 * Owns: the layout of an engine and of a VI, and the list of what each file offers to the others.
 * The files (ORDER has them from bottom to top): rand.c, news.c, list.c (VIs and lists), heap.c
 * (timer heap), queue.c (completion order, flush), rtt.c, window.c, cc*.c (congestion), pace.c
 * (bursts), mtu.c (size of packets), ready.h and ready.c (what may be sent), post.c (posting),
 * reorder.c (held packets), place.c (receive, RDMA Write), read.c (RDMA Read), loss.c (losses),
 * state.c (transitions, break, close), rebind.c (new ids and numbers), fail.c (operations that fail
 * here), ack.c (numbers received, acknowledgements in and out), cut.c (one fragment), finish.c
 * (header and record of a packet), resend.c (lost packets again), tx.c (packets out), rx.c (packets
 * in), tick.c (what is due), eng.c (create, statistics).
 */
#ifndef VIPD_ENGINE_INTERNAL_H
#define VIPD_ENGINE_INTERNAL_H

#include "proto/assert.h"
#include "vipd/engine/bits.h"
#include "vipd/engine/cc.h"
#include "vipd/engine/engine.h"
#include "vipd/engine/mutant.h"

/* Records of packets under way. A packet number is settled before its record is used again. */
#define ENG_SENT_SLOTS ENG_BITS
/*
 * Limits of the packet numbers from the oldest open one to the next. New fragments stop at the
 * first limit, plain acknowledgements at the second. The rest of the ring is for repeating the
 * oldest packet, which makes room again.
 */
#define ENG_SENT_FRESH_MAX (ENG_SENT_SLOTS - 256)
#define ENG_SENT_ACK_MAX   (ENG_SENT_SLOTS - 64)
/*
 * Held packets per VI, upper limit of held_packets_max; a slot has 16 bytes. A peer can have this
 * many packets under way; packets behind a lost one that cannot be held must be sent again.
 */
#define ENG_HELD_MAX 2048
/* RDMA Reads under way per direction; the target keeps a slot for each. */
#define ENG_READS_MAX 16
/* A packet number this far above the largest that arrived is impossible: no vipd sends it. */
#define ENG_NUMBER_JUMP_MAX (1u << 20)
/* Operations by which a frame may be ahead of rx.at: the peer's whole send queue, and some room. */
#define ENG_OPS_AHEAD_MAX (2 * VIP_DESC_PER_QUEUE_MAX)
/* End of an intrusive list. */
#define ENG_NONE 0xffffu

/* Unit of times in 32 bits. They wrap after 275 s, longer than any time that is measured with
 * them. */
#define ENG_TICK_SHIFT 6
#define ENG_TICK_NS    (1u << ENG_TICK_SHIFT)

#define ENG_QUEUE_MASK (VIP_DESC_PER_QUEUE_MAX - 1u)

/* Lists of VIs; a VI is at most once on each. */
enum eng_list_id {
    ENG_LIST_READY = 0, /* has something to send */
    ENG_LIST_REPLAY,    /* has held packets to feed or to drop */
    ENG_LIST_SENT,      /* Unreliable Delivery: pulled sends that wait for eng_tick to complete */
    ENG_LISTS,
};

/* Ordered streams that a peer sends to us. A packet of ours has frames of one stream only. */
enum eng_stream {
    ENG_STREAM_OPS = 0, /* sends, RDMA Writes, read requests: by operation number */
    ENG_STREAM_READS,   /* answers to reads */
    ENG_STREAMS,
};

/* A position in a stream: operation number (answers: number of the read) and byte in it. */
struct eng_pos {
    uint32_t op, off;
};

/* Progress of a posted send. */
enum eng_desc_state {
    ENG_DESC_POSTED = 0,
    ENG_DESC_CHECKED,   /* access to its segments was checked when its turn came */
    ENG_DESC_SENT,      /* Unreliable Delivery: sent, completes at the next eng_tick */
    ENG_DESC_READ_DONE, /* RDMA Read: all bytes are in place */
};

/* A posted descriptor: one cache line. */
struct eng_desc {
    uint64_t imm;
    uint32_t length;    /* Length as given; returned in the completion of a send */
    uint32_t sum;       /* bytes of the data segments */
    uint32_t fault;     /* VIP_ST_* bits that it will complete with; 0 = none found */
    uint32_t op;        /* operation number, once started (Unreliable Delivery only) */
    uint16_t control;   /* VIP_CTL_* */
    uint16_t seg_count; /* segments kept here; address segment included */
    uint8_t state;      /* enum eng_desc_state */
    uint8_t pad;
    uint16_t message_bytes; /* of the message, kept behind the segments; 0 = it has none */
    union {
        struct vip_shm_seg seg[VIP_SQ_INLINE_SEGS]; /* eng_desc_kept is 0 */
        struct vip_shm_seg *more;                   /* otherwise: from ops.segs_alloc */
    };
};
_Static_assert(sizeof(struct eng_desc) == 64, "one cache line");

/* A work queue. Positions start again at 0 when it is empty: a short queue uses few cache lines. */
struct eng_queue {
    uint32_t head; /* oldest descriptor that has not completed */
    uint32_t next; /* send queue: first descriptor that is not fully cut into packets */
    uint32_t tail; /* where the next post goes */
};

/* State of a packet with frames (or a probe) under way; valid while its bit in tx.open is set. */
struct eng_sent {
    uint64_t sent_ns;
    uint32_t bytes;    /* whole packet (a probe: 0); counts in tx.inflight unless lost */
    struct eng_pos at; /* first byte it carried */
    uint32_t end_off;  /* its content ends at operation at.op + ops, this byte */
    uint8_t ops;
    uint8_t stream;      /* enum eng_stream */
    bool lost;           /* must be sent again */
    bool probe;          /* carried no frame */
    uint16_t next, prev; /* if lost: neighbours in the order of the stream, ring indices */
};
_Static_assert(sizeof(struct eng_sent) == 32, "two per cache line");

/* Sending side of a connection. */
struct eng_tx {
    struct eng_pos at;  /* next byte to be cut for the first time */
    uint32_t ops_acked; /* operations that the peer has processed in order */
    bool fail_valid; /* fail_op is the oldest operation that lost its memory: nothing new is cut */
    bool owed;       /* the peer owes an answer since progress_ns */
    bool ping;       /* a probe without content is wanted */
    bool turn_reads; /* answers to reads had the last turn */
    uint32_t fail_op;
    uint64_t number;     /* of the next packet; the first is 1 */
    uint64_t skip_at;    /* next number to skip, 0 = none */
    uint64_t skipped;    /* last number that was skipped, 0 = none */
    uint64_t una;        /* lowest open number, or `number` */
    uint64_t first_sent; /* every open number below it is lost */
    uint64_t largest_acked;
    uint32_t lost;                 /* open records that wait for retransmission */
    uint16_t lost_head, lost_tail; /* list of these; the head is what the peer needs first */
    uint32_t probes;               /* packets that may leave although the window is full */
    uint64_t inflight;             /* bytes under way: open and not lost */
    uint32_t burst;                /* data packets since the VI last had nothing to send */
    uint32_t backoff;              /* timer expiries in a row without news of content */
    uint32_t tries;                /* timer expiries since progress_ns */
    uint64_t elicit_ns;            /* when a packet that must be answered was last sent */
    /* When the peer last took content or began to owe an answer, plus the time by which our own
     * timer was late. */
    uint64_t progress_ns;
    uint64_t copy_until_ns; /* memory may be changing: until then packets are sent from copies */
    uint64_t timer_ns;      /* retransmission timer */
    uint64_t loss_ns;       /* when the next packet counts as lost, by time */
    uint64_t srtt_ns, rttvar_ns, latest_ns; /* srtt_ns 0 = no sample yet */
    uint64_t base_ns[2];                    /* smallest sample of this and of the previous period */
    uint64_t base_turn_ns;                  /* end of the period */
    uint64_t rack_ns; /* from sending to acknowledgement of the newest packet that arrived */
    bool reordered;   /* the path has changed the order: only time proves a loss */
    uint32_t reorder_quarters; /* tolerance for it, in quarters of the smallest round trip */
    uint32_t reorder_quiet;    /* loss episodes since reordering was last seen */
    uint64_t reorder_fence;    /* lower numbers do not raise the tolerance: once per round trip */
    bool paced;                /* the pace holds packets back until paced_until_ns */
    uint64_t paced_until_ns, pace_ns;
    uint64_t pace_ps;      /* per byte, in 1/1000 ns; 0 = unpaced */
    uint32_t packet_bytes; /* largest packet; conn.packet_bytes or less */
    uint32_t mtu_lost;     /* large packets lost since one last arrived */
    uint32_t mtu_rounds;   /* round trips with such losses */
    uint64_t mtu_fence;    /* losses of lower numbers belong to the last of these round trips */
    uint64_t mtu_test;     /* number of the packet that tests a larger size, 0 = none */
    uint64_t mtu_test_ns;  /* when to send the next test */
    uint64_t mtu_wait_ns;  /* wait after a failed test */
    struct eng_cc cc;
    struct eng_bits open;     /* numbers with a live record */
    uint32_t declared_count;  /* bits set in `declared` */
    struct eng_bits declared; /* numbers declared lost that have not been acknowledged since */
};

/* State of the operation in rx.at. */
enum eng_rx_phase {
    ENG_PHASE_START = 0, /* no fragment of it has been processed */
    ENG_PHASE_FILL,      /* the head of the receive queue is being filled */
    ENG_PHASE_WRITE,     /* RDMA Write is being placed */
    ENG_PHASE_DENIED,    /* RDMA Write not allowed; its last fragment decides how to report it */
    ENG_PHASE_SPOILED,   /* allowed, but memory did not take all bytes; reported likewise */
    ENG_PHASE_SKIP,      /* Unreliable Delivery: the rest is ignored */
};

/* Why a connection is broken. */
struct eng_fault {
    enum vip_close_reason reason;
    uint32_t op_status, failed_op; /* for the peer */
    uint32_t first_status;         /* for the oldest send of this side, 0 = flushed */
    const char *why;
};

/* Receiving side. */
struct eng_rx_state {
    struct eng_pos at; /* next byte expected */
    uint8_t phase;     /* enum eng_rx_phase */
    uint8_t type;      /* of the operation under way; phase not START */
    uint16_t message;
    uint32_t total;
    uint32_t handle;
    uint64_t remote_addr;
    /* Packet numbers that arrived. */
    uint64_t base;        /* every number below it is settled */
    uint64_t largest;     /* largest that arrived; 0 = none */
    struct eng_bits bits; /* numbers from base on that arrived */
    uint32_t ts;          /* ts of the largest, to echo */
    uint32_t ts_arrival;  /* ticks when it arrived */
    uint32_t unacked;     /* packets that need an acknowledgement and have none */
    bool ack_now;
    uint64_t ack_ns;        /* delayed acknowledgement is due */
    struct eng_fault fault; /* with ENG_STEP_FAULT */
};

/* A read of the peer, in slot seq % ENG_READS_MAX. Read seq + ENG_READS_MAX proves that this one
 * has ended. */
struct eng_read {
    uint32_t seq, op, handle, total;
    uint64_t addr;
};

/* RDMA Reads of both directions. */
struct eng_reads {
    uint32_t asked;    /* requests taken from the peer */
    struct eng_pos at; /* next answer to cut: read number, byte */
    struct eng_read slot[ENG_READS_MAX];
    uint32_t open; /* our reads started and not finished */
    /* After a rebind: reads of the peer that it asks for again, in this order; and our reads below
     * again_end, which we ask for again although the peer has processed them. */
    uint32_t again[ENG_READS_MAX], again_end;
    unsigned again_first, again_count;
    struct eng_pos want; /* next byte expected of our oldest open read; op valid if open */
};

/* A packet ahead of its turn. */
struct eng_held {
    uint32_t token;
    struct eng_pos at; /* first frame that could not be processed */
    uint16_t next, prev;
};
struct eng_held_list {
    uint16_t head, tail, last; /* last: newest one that was not put at the tail, or ENG_NONE */
};

struct eng_vi {
    struct eng *eng;
    uint16_t index;
    uint16_t level; /* VIP_LVL_* */
    uint8_t state;  /* enum vip_vi_state */
    bool reliable;  /* level is not Unreliable Delivery */
    bool paused;    /* Connected, and waits for eng_vi_rebind */
    bool restored;  /* paused: what was sent before is not known */
    bool listed[ENG_LISTS];
    uint16_t next[ENG_LISTS], prev[ENG_LISTS];
    uint32_t heap_at; /* place in the timer heap + 1; 0 = none */
    struct eng_vi_attrs attrs;
    struct eng_conn conn;
    struct eng_latency *latency; /* of this VI alone; NULL: none */
    uint32_t *done;              /* eng_vi_commit_to */
    uint32_t done_here;          /* `done` if the host wants no commits */
    struct eng_queue sq, rq;
    struct eng_tx tx;
    struct eng_rx_state rx;
    struct eng_reads reads;
    struct eng_held_list held[ENG_STREAMS]; /* in order of their turn */
    struct eng_held_list dropped;           /* no longer needed; the host must free them */
    uint16_t held_free;                     /* unused slots that were used before */
    uint16_t held_fresh;                    /* slots from here on were never used */
    uint16_t held_count;
    struct eng_vi_stats stats;
    /* Behind all other members, so that short queues leave most pages untouched. */
    struct eng_desc desc[2][VIP_DESC_PER_QUEUE_MAX] __attribute__((aligned(64)));
    struct eng_sent sent[ENG_SENT_SLOTS];
    struct eng_held slot[ENG_HELD_MAX];
    uint32_t posted[VIP_DESC_PER_QUEUE_MAX]; /* send queue: when, in ticks of ENG_TICK_NS */
};

struct eng_timer {
    uint64_t at_ns;
    uint16_t vi;
};

struct eng {
    struct eng_config config;
    struct eng_ops ops;
    void *ctx;
    uint64_t random;
    uint64_t now_ns; /* of the input that is being processed */
    struct {
        uint16_t head, tail;
    } list[ENG_LISTS];
    uint32_t turn_packets, turn_bytes; /* sent in this turn by the head of the ready list */
    uint32_t timer_count;
    uint32_t orphan_count; /* held packets of destroyed VIs */
    struct {
        uint32_t token;
        uint16_t vi;
    } orphan[2 * ENG_HELD_MAX];
    struct eng_timer timer[VIP_VI_MAX];
    struct eng_vi *vi[VIP_VI_MAX];
};

#include "vipd/engine/parts.h"

#endif
