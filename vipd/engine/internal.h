/*
 * Insides of the protocol engine, shared by the files of vipd/engine/ (not the connection manager).
 *
 * Owns: the layout of an engine and of a VI. parts.h has the functions of each file. The files
 * (ORDER has them from bottom to top): rand.c, news.c, list.c (VIs and lists), heap.c (timer heap),
 * queue.c (completion order, flush), rtt.c, skip.c, window.c, cc*.c (congestion), pace.c
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

/* Number of records of packets under way; packet number n has record n % ENG_SENT_SLOTS. */
#define ENG_SENT_SLOTS ENG_BITS
/*
 * Largest distance from the oldest open packet number to the next number: for a packet with new
 * fragments, and for a plain acknowledgement. The rest of the ring is for repeating the oldest
 * packet. When that one is acknowledged, the ring has room again.
 */
#define ENG_SENT_FRESH_MAX (ENG_SENT_SLOTS - 256)
#define ENG_SENT_ACK_MAX   (ENG_SENT_SLOTS - 64)
/* Upper limit of held_packets_max, in packets per VI; a slot has 16 bytes. A peer can have this
 * many packets under way. If one is lost, the later ones that cannot be held must be sent again. */
#define ENG_HELD_MAX 2048
/* RDMA Reads under way per direction; the target keeps a slot for each. */
#define ENG_READS_MAX 16
/* A packet number this far above the largest that arrived is impossible: no vipd sends it. */
#define ENG_NUMBER_JUMP_MAX (1u << 20)
/* Largest distance of a frame from rx.at, in operations: twice the peer's longest send queue. */
#define ENG_OPS_AHEAD_MAX (2 * VIP_DESC_PER_QUEUE_MAX)
/* End of an intrusive list. */
#define ENG_NONE 0xffffu

/* Unit of times that are kept in 32 bits. They wrap after 275 s; no measured time is longer. */
#define ENG_TICK_SHIFT 6
#define ENG_TICK_NS    (1u << ENG_TICK_SHIFT)

#define ENG_QUEUE_MASK (VIP_DESC_PER_QUEUE_MAX - 1u)

/* Lists of VIs; a VI is at most once on each. */
enum eng_list_id {
    ENG_LIST_READY = 0, /* has something to send */
    ENG_LIST_REPLAY,    /* has held packets that are due or must be freed */
    ENG_LIST_SENT,      /* Unreliable Delivery: pulled sends that wait for eng_tick to complete */
    ENG_LISTS,
};

/* Streams: the frames of each stream are processed in order. A packet that this engine builds has
 * frames of one stream only. */
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
    uint32_t fault;     /* error bits VIP_ST_* of its completion; 0 = no fault found */
    uint32_t op;        /* operation number, once started; for Unreliable Delivery */
    uint16_t control;   /* VIP_CTL_* */
    uint16_t seg_count; /* segments kept here; address segment included */
    uint8_t state;      /* enum eng_desc_state */
    uint8_t pad;
    uint16_t message_bytes; /* the message is kept behind the segments; 0 = no message */
    union {
        struct vip_shm_seg seg[VIP_SQ_INLINE_SEGS]; /* eng_desc_kept is 0 */
        struct vip_shm_seg *more;                   /* otherwise: from ops.segs_alloc */
    };
};
_Static_assert(sizeof(struct eng_desc) == 64, "one cache line");

/* A work queue. When it is empty, positions start again at 0, so short queues use few cache
 * lines. */
struct eng_queue {
    uint32_t head; /* oldest descriptor that has not completed */
    uint32_t next; /* send queue: first descriptor that is not fully cut into packets */
    uint32_t tail; /* where the next post goes */
};

/* Record of a packet under way with frames, or of a probe; valid while its bit in tx.open is
 * set. */
struct eng_sent {
    uint64_t sent_ns;
    uint32_t bytes;    /* whole packet (a probe: 0); counts in tx.inflight unless lost */
    struct eng_pos at; /* first byte of its content */
    uint32_t end_off;  /* end of its content: this byte of operation at.op + ops */
    uint8_t ops;
    uint8_t stream;      /* enum eng_stream */
    bool lost;           /* must be sent again */
    bool probe;          /* it has no frames */
    uint16_t next, prev; /* if lost: neighbours in the order of the stream, ring indices */
};
_Static_assert(sizeof(struct eng_sent) == 32, "two per cache line");

/* Sending side of a connection. */
struct eng_tx {
    struct eng_pos at;   /* next byte to be cut for the first time */
    uint32_t ops_acked;  /* operations that the peer has processed in order */
    bool fail_valid;     /* fail_op is valid; then no new fragments are cut */
    bool owed;           /* the peer must still answer something that was sent */
    bool ping;           /* send a probe without frames */
    bool turn_reads;     /* the last packet of new fragments had answers to reads */
    uint32_t fail_op;    /* oldest operation whose memory is not registered any more */
    uint64_t number;     /* of the next packet; the first is 1 */
    uint64_t skip_at;    /* next number to skip, 0 = none */
    uint64_t skipped;    /* last number that was skipped, 0 = none */
    uint64_t una;        /* lowest open number, or `number` */
    uint64_t first_sent; /* the packet of every open number below it is lost */
    uint64_t largest_acked;
    uint32_t lost;                 /* open records that wait for retransmission */
    uint16_t lost_head, lost_tail; /* list of the lost packets; the peer needs the head first */
    uint32_t probes;               /* packets that may be sent although the window is full */
    uint64_t inflight;             /* bytes under way: open and not lost */
    uint32_t burst;                /* data packets since the VI last had nothing to send */
    uint32_t backoff;              /* timer expiries since content was last acknowledged */
    uint32_t tries;                /* timer expiries since progress_ns */
    uint64_t elicit_ns;            /* when a packet that must be answered was last sent */
    /* Start of conn_timeout: when the peer last acknowledged content, or when the wait for an
     * answer began. If the retransmission timer fires late, that delay is added. */
    uint64_t progress_ns;
    uint64_t copy_until_ns; /* until then packets are sent from copies (loss.c, COPY_NS) */
    uint64_t timer_ns;      /* retransmission timer */
    uint64_t loss_ns;       /* when the next packet counts as lost */
    uint64_t srtt_ns, rttvar_ns, latest_ns; /* srtt_ns 0 = no sample yet */
    uint64_t base_ns[2];                    /* smallest sample of this and of the previous period */
    uint64_t base_turn_ns;                  /* end of the period */
    uint64_t rack_ns; /* from sending to acknowledgement of the newest packet that arrived */
    bool reordered;   /* the path changes the order of packets, so only time proves a loss */
    uint32_t reorder_quarters; /* tolerance for reordering: quarters of the smallest round trip */
    uint32_t reorder_quiet;    /* loss episodes since reordering was last seen */
    uint64_t reorder_fence;    /* late packets below it do not raise reorder_quarters again */
    bool paced;                /* the pace holds packets back until paced_until_ns */
    uint64_t paced_until_ns, pace_ns;
    uint64_t pace_ps;      /* per byte, in 1/1000 ns; 0 = unpaced */
    uint32_t packet_bytes; /* largest packet; conn.packet_bytes or less */
    uint32_t mtu_lost;     /* large packets lost since a large packet last arrived */
    uint32_t mtu_rounds;   /* round trips with such losses */
    uint64_t mtu_fence;    /* losses of lower packet numbers do not change mtu_rounds */
    uint64_t mtu_test;     /* number of the packet that tests a larger size, 0 = none */
    uint64_t mtu_test_ns;  /* when to send the next test */
    uint64_t mtu_wait_ns;  /* wait after a failed test */
    struct eng_cc cc;
    struct eng_bits open;     /* numbers whose record is in use */
    uint32_t declared_count;  /* bits set in `declared` */
    struct eng_bits declared; /* numbers declared lost that have not been acknowledged since */
};

/* State of the operation in rx.at. */
enum eng_rx_phase {
    ENG_PHASE_START = 0, /* no fragment of it has been processed */
    ENG_PHASE_FILL,      /* the head of the receive queue is being filled */
    ENG_PHASE_WRITE,     /* RDMA Write is being placed */
    ENG_PHASE_DENIED,    /* RDMA Write not allowed; reported with its last fragment */
    ENG_PHASE_SPOILED, /* RDMA Write allowed, but a copy failed; reported with its last fragment */
    ENG_PHASE_SKIP,    /* Unreliable Delivery: the rest is ignored */
};

/* Why a connection is broken. */
struct eng_fault {
    enum vip_close_reason reason;
    uint32_t op_status, failed_op; /* sent to the peer (struct eng_event) */
    uint32_t first_status;         /* status of the oldest send of this end, 0 = flushed */
    const char *why;
};

/* Receiving side. */
struct eng_rx_state {
    struct eng_pos at; /* next byte expected */
    uint8_t phase;     /* enum eng_rx_phase */
    uint8_t type;      /* type of this operation, unless phase is START */
    uint16_t message;
    uint32_t total;
    uint32_t handle;
    uint64_t remote_addr;
    /* Packet numbers that arrived. */
    uint64_t base;        /* all lower numbers have arrived or count as lost */
    uint64_t largest;     /* largest number that arrived; 0 = none */
    struct eng_bits bits; /* numbers from base on that arrived */
    uint32_t ts;          /* time stamp in packet `largest`; acknowledgements return it */
    uint32_t ts_arrival;  /* when packet `largest` arrived, in ticks */
    uint32_t unacked;     /* packets that are not acknowledged yet */
    bool ack_now;
    uint64_t ack_ns;        /* when a delayed acknowledgement is due */
    struct eng_fault fault; /* with ENG_STEP_FAULT */
};

/* An RDMA Read of the peer, in slot seq % ENG_READS_MAX. A request with number seq + ENG_READS_MAX
 * proves that the answer to read seq has arrived. */
struct eng_read {
    uint32_t seq, op, handle, total;
    uint64_t addr;
};

/* RDMA Reads of both directions. */
struct eng_reads {
    uint32_t asked;    /* number of requests of the peer that were processed */
    struct eng_pos at; /* next answer to cut: read number, byte */
    struct eng_read slot[ENG_READS_MAX];
    uint32_t open; /* number of our reads that are not finished */
    /* After a rebind: `again`: reads that the peer requests again, in this order. Our own open
     * reads below again_end are requested again, although the peer has processed the requests. */
    uint32_t again[ENG_READS_MAX], again_end;
    unsigned again_first, again_count;
    struct eng_pos want; /* next byte expected of our oldest open read; valid if open > 0 */
};

/* A packet ahead of its turn. */
struct eng_held {
    uint32_t token;
    struct eng_pos at; /* first frame that could not be processed */
    uint16_t next, prev;
};
struct eng_held_list {
    uint16_t head, tail, last; /* last: the last packet put before the tail, or ENG_NONE */
};

struct eng_vi {
    struct eng *eng;
    uint16_t index;
    uint16_t level; /* VIP_LVL_* */
    uint8_t state;  /* enum vip_vi_state */
    bool reliable;  /* level is not Unreliable Delivery */
    bool paused;    /* Connected, and waits for eng_vi_rebind */
    bool restored;  /* by eng_vi_restore: what the earlier life of vipd sent is not known */
    bool listed[ENG_LISTS];
    uint16_t next[ENG_LISTS], prev[ENG_LISTS];
    uint32_t heap_at; /* place in the timer heap + 1; 0 = none */
    struct eng_vi_attrs attrs;
    struct eng_conn conn;
    struct eng_latency *latency; /* of this VI alone; NULL: none */
    uint32_t *done;              /* target of eng_vi_commit_to */
    uint32_t done_here;          /* `done` points here before eng_vi_commit_to */
    struct eng_queue sq, rq;
    struct eng_tx tx;
    struct eng_rx_state rx;
    struct eng_reads reads;
    struct eng_held_list held[ENG_STREAMS]; /* in order of their turn */
    struct eng_held_list dropped; /* packets not needed any more; the host must free them */
    uint16_t held_free;           /* list of free slots that were used before */
    uint16_t held_fresh;          /* slots from here on were never used */
    uint16_t held_count;
    struct eng_vi_stats stats;
    /* The large arrays are the last members, so that short queues use few pages. */
    struct eng_desc desc[2][VIP_DESC_PER_QUEUE_MAX] __attribute__((aligned(64)));
    struct eng_sent sent[ENG_SENT_SLOTS];
    struct eng_held slot[ENG_HELD_MAX];
    uint32_t posted[VIP_DESC_PER_QUEUE_MAX]; /* times of posts to the send queue, in ENG_TICK_NS */
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
