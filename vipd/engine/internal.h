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
 * Largest distance from the oldest open packet number to the next number. FRESH: for a packet with
 * new fragments. ACK: for a plain acknowledgement. The rest of the ring stays free for repeating
 * the oldest packet. When the oldest packet is acknowledged, the ring has room again.
 */
#define ENG_SENT_FRESH_MAX (ENG_SENT_SLOTS - 256)
#define ENG_SENT_ACK_MAX   (ENG_SENT_SLOTS - 64)
/* Upper limit of held_packets_max, in packets per VI; a slot has 16 bytes. A peer can have this
 * many packets under way. After a loss, the peer must repeat each later packet that is not held. */
#define ENG_HELD_MAX 2048
/* RDMA Reads under way per direction; the target keeps a slot for each. */
#define ENG_READS_MAX 16
/* A packet number this far above the largest one that arrived is impossible: no vipd sends it. */
#define ENG_NUMBER_JUMP_MAX (1u << 20)
/* Largest distance of a frame from rx.at, in operations: twice the peer's longest send queue. */
#define ENG_OPS_AHEAD_MAX (2 * VIP_DESC_PER_QUEUE_MAX)
/* No index: marks the end of an intrusive list. */
#define ENG_NONE 0xffffu

/* Unit of 32-bit times. Such a time wraps after 275 s; no measured duration is longer. */
#define ENG_TICK_SHIFT 6
#define ENG_TICK_NS    (1u << ENG_TICK_SHIFT)

#define ENG_QUEUE_MASK (VIP_DESC_PER_QUEUE_MAX - 1u)

/* Lists of VIs; a VI is at most once on each. */
enum eng_list_id {
    ENG_LIST_READY = 0, /* VIs that have something to send */
    ENG_LIST_REPLAY,    /* VIs with held packets that are due or must be freed */
    ENG_LIST_SENT,      /* VIs of Unreliable Delivery with pulled sends; eng_tick completes these */
    ENG_LISTS,
};

/* Streams: the frames of each stream are processed in order. A packet that this engine builds has
 * frames of one stream only. */
enum eng_stream {
    ENG_STREAM_OPS = 0, /* sends, RDMA Writes, read requests: by operation number */
    ENG_STREAM_READS,   /* answers to reads */
    ENG_STREAMS,
};

/* A position in a stream. op: number of the operation (of an answer: of the read). off: byte in the
 * operation or answer. */
struct eng_pos {
    uint32_t op, off;
};

/* Progress of a posted send. */
enum eng_desc_state {
    ENG_DESC_POSTED = 0,
    ENG_DESC_CHECKED,   /* its turn came, and access to its segments was checked */
    ENG_DESC_SENT,      /* Unreliable Delivery: sent; the next eng_tick completes it */
    ENG_DESC_READ_DONE, /* RDMA Read: all bytes are in place */
};

/* A posted descriptor. It fills one cache line. */
struct eng_desc {
    uint64_t imm;
    uint32_t length;    /* Length as the program gave it; the completion of a send returns it */
    uint32_t sum;       /* sum of the lengths of the data segments */
    uint32_t fault;     /* error bits VIP_ST_* of its completion; 0 = no fault found */
    uint32_t op;        /* operation number, set with ENG_DESC_CHECKED; for Unreliable Delivery */
    uint16_t control;   /* VIP_CTL_* */
    uint16_t seg_count; /* number of kept segments, address segment included */
    uint8_t state;      /* enum eng_desc_state */
    uint8_t pad;
    uint16_t message_bytes; /* size of the message, which follows the segments; 0 = no message */
    union {
        struct vip_shm_seg seg[VIP_SQ_INLINE_SEGS]; /* used if eng_desc_kept is 0 */
        struct vip_shm_seg *more;                   /* used otherwise; memory from ops.segs_alloc */
    };
};
_Static_assert(sizeof(struct eng_desc) == 64, "one cache line");

/* A work queue. When it is empty, positions start again at 0, so short queues use few cache
 * lines. */
struct eng_queue {
    uint32_t head; /* oldest descriptor that has not completed */
    uint32_t next; /* send queue: first descriptor that is not fully cut into packets */
    uint32_t tail; /* position of the next post */
};

/* Record of a packet under way that has frames or is a probe. A record is valid while its bit in
 * tx.open is set. */
struct eng_sent {
    uint64_t sent_ns;
    uint32_t bytes;    /* size of the packet (a probe: 0); part of tx.inflight unless lost */
    struct eng_pos at; /* first byte of its content */
    uint32_t end_off;  /* its content ends before this byte of operation at.op + ops */
    uint8_t ops;
    uint8_t stream;      /* enum eng_stream */
    bool lost;           /* the packet is lost; its content must be sent again */
    bool probe;          /* the packet is a probe: it has no frames */
    uint16_t next, prev; /* of a lost packet: ring indices of its neighbours in the lost list */
};
_Static_assert(sizeof(struct eng_sent) == 32, "two per cache line");

/* Sending side of a connection. */
struct eng_tx {
    struct eng_pos at;   /* first byte that was not cut into a packet yet */
    uint32_t ops_acked;  /* the peer has processed all operations below this number */
    bool fail_valid;     /* fail_op is valid, and so no new fragments are cut */
    bool owed;           /* the peer must still answer something that was sent */
    bool ping;           /* a probe without frames must be sent */
    bool turn_reads;     /* the last packet of new fragments had answers to reads */
    uint32_t fail_op;    /* oldest operation whose memory is not registered any more */
    uint64_t number;     /* number of the next packet; begins at 1 + config.start_number */
    uint64_t skip_at;    /* next packet number to skip, 0 = none */
    uint64_t skipped;    /* last packet number that was skipped, 0 = none */
    uint64_t una;        /* lowest open packet number; if no number is open, `number` */
    uint64_t first_sent; /* all packets with open numbers below this one are lost */
    uint64_t largest_acked;
    uint32_t lost;                 /* number of open records that wait for retransmission */
    uint16_t lost_head, lost_tail; /* list of the lost packets; the peer needs the head first */
    uint32_t probes;    /* number of packets that may be sent although the window is full */
    uint64_t inflight;  /* bytes of the packets that are open and not lost */
    uint32_t burst;     /* data packets sent since the VI last had nothing to send */
    uint32_t backoff;   /* timer expiries since content was last acknowledged */
    uint32_t tries;     /* timer expiries since progress_ns */
    uint64_t elicit_ns; /* when a packet that must be answered was last sent */
    /* conn_timeout begins when the peer last acknowledged content, or when the wait for an answer
     * began. If the retransmission timer fires late, progress_ns grows by the delay. */
    uint64_t progress_ns;
    uint64_t copy_until_ns; /* until this time, packets are sent from copies (loss.c, COPY_NS) */
    uint64_t timer_ns;      /* when the retransmission timer expires */
    uint64_t loss_ns;       /* when the next packet counts as lost */
    uint64_t srtt_ns, rttvar_ns, latest_ns; /* srtt_ns 0 = no sample yet */
    uint64_t habit_ns; /* the peer keeps acknowledgements back so long (rtt.c); 0: ack_delay_ns */
    uint64_t probed, probed_ns; /* a tail-loss probe repeats this packet, sent then; 0: none */
    uint64_t base_ns[2];        /* smallest samples: of this period, of the previous one */
    uint64_t base_turn_ns;      /* end of this period of base_ns */
    uint64_t rack_ns; /* time from sending to acknowledgement of the newest packet that arrived */
    bool reordered;   /* the path changes the order of packets, so only time proves a loss */
    uint32_t reorder_quarters; /* tolerance for reordering: quarters of the smallest round trip */
    uint32_t reorder_quiet;    /* loss episodes since reordering was last seen */
    uint64_t reorder_fence;    /* late packets with lower numbers do not raise reorder_quarters */
    bool paced;                /* the pace holds packets back until paced_until_ns */
    uint64_t paced_until_ns, pace_ns;
    uint64_t pace_ps;      /* time per byte at the pace, in 1/1000 ns; 0 = no pace */
    uint32_t packet_bytes; /* present largest size of a packet; conn.packet_bytes or less */
    uint32_t mtu_lost;     /* number of large packets lost since a large packet last arrived */
    uint32_t mtu_rounds;   /* number of round trips in which large packets were lost */
    uint64_t mtu_fence;    /* losses of lower packet numbers do not change mtu_rounds */
    uint64_t mtu_test;     /* number of the packet that tests a larger size, 0 = none */
    uint64_t mtu_test_ns;  /* when to send the next test */
    uint64_t mtu_wait_ns;  /* time from a failed test to the next test */
    struct eng_cc cc;
    struct eng_bits open;     /* numbers whose record is in use */
    uint32_t declared_count;  /* bits set in `declared` */
    struct eng_bits declared; /* numbers declared lost that have not been acknowledged since */
};

/* State of the operation in rx.at. */
enum eng_rx_phase {
    ENG_PHASE_START = 0, /* no fragment of the operation has been processed */
    ENG_PHASE_FILL,      /* a send is filling the head of the receive queue */
    ENG_PHASE_WRITE,     /* an RDMA Write is being placed */
    ENG_PHASE_DENIED,    /* an RDMA Write is not allowed; its last fragment causes the report */
    ENG_PHASE_SPOILED,   /* a copy of an RDMA Write failed; its last fragment causes the report */
    ENG_PHASE_SKIP,      /* Unreliable Delivery: the rest of the operation is ignored */
};

/* Why a connection is broken. */
struct eng_fault {
    enum vip_close_reason reason;
    uint32_t op_status, failed_op; /* both are sent to the peer (struct eng_event) */
    uint32_t first_status;         /* status of the oldest send of this end, 0 = flushed */
    const char *why;
};

/* Receiving side. */
struct eng_rx_state {
    struct eng_pos at; /* next byte expected in ENG_STREAM_OPS */
    uint8_t phase;     /* enum eng_rx_phase */
    uint8_t type;      /* type of the operation in `at`; not valid in phase ENG_PHASE_START */
    uint16_t message;
    uint32_t total;
    uint32_t handle;
    uint64_t remote_addr;
    /* Which packet numbers have arrived. */
    uint64_t base;        /* all lower numbers have arrived or count as lost */
    uint64_t largest;     /* largest number that arrived; 0 = none */
    struct eng_bits bits; /* which numbers from `base` on have arrived */
    uint32_t ts;          /* time stamp in packet `largest`; acknowledgements return it */
    uint32_t ts_arrival;  /* when packet `largest` arrived, in ticks */
    uint32_t unacked;     /* number of packets that arrived and are not acknowledged yet */
    bool ack_now;
    uint64_t ack_ns;        /* when a delayed acknowledgement is due */
    struct eng_fault fault; /* valid after ENG_STEP_FAULT */
};

/* An RDMA Read of the peer, in slot seq % ENG_READS_MAX. A request with number seq + ENG_READS_MAX
 * proves that the answer to read seq has arrived. */
struct eng_read {
    uint32_t seq, op, handle, total;
    uint64_t addr;
};

/* RDMA Reads of both directions. */
struct eng_reads {
    uint32_t asked;    /* number of the peer's read requests that were processed */
    struct eng_pos at; /* next byte of an answer to cut into a packet */
    struct eng_read slot[ENG_READS_MAX];
    uint32_t open; /* number of our reads that are not finished */
    /* After a rebind. `again`: reads that the peer will request again, in this order. again_end: we
     * request our own open reads below it again, although the peer has processed the requests. */
    uint32_t again[ENG_READS_MAX], again_end;
    unsigned again_first, again_count;
    struct eng_pos want; /* next byte expected of our oldest open read; valid if open > 0 */
};

/* A packet ahead of its turn. */
struct eng_held {
    uint32_t token;
    struct eng_pos at; /* position of its first frame that could not be processed */
    uint16_t next, prev;
};
struct eng_held_list {
    uint16_t head, tail, last; /* last: the packet that was last put before the tail; or ENG_NONE */
};

struct eng_vi {
    struct eng *eng;
    uint16_t index;
    uint16_t level; /* VIP_LVL_* */
    uint8_t state;  /* enum vip_vi_state */
    bool reliable;  /* level is not Unreliable Delivery */
    bool paused;    /* Connected, and waits for eng_vi_rebind */
    bool restored;  /* by eng_vi_restore: vipd does not know what its earlier life has sent */
    bool listed[ENG_LISTS];
    uint16_t next[ENG_LISTS], prev[ENG_LISTS];
    uint32_t heap_at; /* place in the timer heap + 1; 0 = none */
    struct eng_vi_attrs attrs;
    struct eng_conn conn;
    struct eng_latency *latency; /* latencies of this VI alone; NULL: not measured */
    uint32_t *done;     /* the number of done operations is stored here (eng_vi_commit_to) */
    uint32_t done_here; /* `done` points to it until eng_vi_commit_to is called */
    struct eng_queue sq, rq;
    struct eng_tx tx;
    struct eng_rx_state rx;
    struct eng_reads reads;
    struct eng_held_list held[ENG_STREAMS]; /* in the order of their turns */
    struct eng_held_list dropped; /* held packets that are not needed; the host must free them */
    uint16_t held_free;           /* list of free slots that were used before */
    uint16_t held_fresh;          /* slots from this one on were never used */
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
    uint64_t now_ns; /* time of the input that is being processed */
    struct {
        uint16_t head, tail;
    } list[ENG_LISTS];
    uint32_t turn_packets, turn_bytes; /* what the head of the ready list has sent in its turn */
    uint32_t timer_count;
    uint32_t orphan_count; /* number of held packets of destroyed VIs */
    struct {
        uint32_t token;
        uint16_t vi;
    } orphan[2 * ENG_HELD_MAX];
    struct eng_timer timer[VIP_VI_MAX];
    struct eng_vi *vi[VIP_VI_MAX];
};

#include "vipd/engine/parts.h"

#endif
