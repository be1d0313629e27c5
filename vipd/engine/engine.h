/*
 * The protocol engine: turns operations into packets and packets into operations. It is pure: it
 * has no file descriptor, clock, allocator or payload bytes. The same code runs under every link
 * and in the simulator.
 *
 * Owns: work queues, fragmentation and reassembly, packet numbers, acknowledgements,
 * retransmission, flow and congestion control, the VI state machine from "connected" on, completion
 * order, and the reliability levels (spec 3.1-3.7).
 * Does not own: connection management (vipd/engine/cm.h), registered memory (vipd/registry/),
 * packets on a medium (vipd/link/), shared memory (vipd/client/).
 *
 * In this file "the host" is the code that calls the engine: vipd/nic/ or the simulator. Each
 * opened NIC handle has one struct eng, which one thread at a time may use. The host calls the
 * functions of this file, and the engine calls the functions of struct eng_ops. The host gets
 * packets from eng_tx_pull. A function of eng_ops must not call the engine, with one exception:
 * fetch_posts and fetch_receives may call eng_post.
 *
 * Order: operations of a send queue are numbered from 0. The receiver processes frames strictly in
 * the order of (operation, offset). If a packet is ahead of its turn, the host keeps its bytes
 * (ENG_RX_HOLD) and gives them to the engine again later. So RDMA Writes become visible in order.
 */
#ifndef VIPD_ENGINE_ENGINE_H
#define VIPD_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/shm.h"
#include "proto/status.h"
#include "proto/wire.h"
#include "vipd/engine/eng_config.h"

struct eng;

/* Largest number of pieces (struct eng_piece) of one outgoing packet. */
#define ENG_PIECES_MAX     128
#define ENG_MESSAGES_BYTES (4 * VIP_MESSAGE_BYTES_MAX) /* all messages of RDMA Writes of a packet */
#define ENG_HEAD_BYTES                                                                             \
    (VIP_WIRE_HEADER_BYTES + VIP_WIRE_RANGES_MAX * VIP_WIRE_RANGE_BYTES +                          \
     VIP_WIRE_FRAMES_MAX * VIP_WIRE_FRAME_BYTES + ENG_MESSAGES_BYTES + VIP_WIRE_PAD_MAX)

/* Consecutive bytes of one packet, from the packet's head buffer or from a registered region. */
struct eng_piece {
    bool from_region; /* false: from eng_packet.head, at `offset` */
    uint32_t len;     /* bytes, > 0 */
    uint32_t offset;  /* in head, if not from_region */
    uint32_t handle;  /* memory handle, if from_region */
    uint64_t addr;    /* virtual address in the application, if from_region */
};

/* A packet to send. The host resolves its pieces, seals it (vip_wire_seal) and sends it. */
struct eng_packet {
    uint16_t vi;
    uint32_t path;          /* eng_conn.path of the connection */
    uint32_t bytes;         /* whole packet */
    bool remote_read, copy; /* it answers an RDMA Read; its pieces must be copied before the seal */
    uint32_t op;            /* operation number of the first frame, for eng_tx_failed */
    uint64_t posted_ns;     /* time of the first eng_post whose operation begins here; 0: none */
    unsigned piece_count;
    struct eng_piece piece[ENG_PIECES_MAX];
    uint8_t head[ENG_HEAD_BYTES];
};

/* Purpose of an access. The purpose decides which right is needed (spec 3.5). */
enum eng_access_kind {
    ENG_ACCESS_SEND = 0,     /* read bytes for a send or an RDMA Write of this session */
    ENG_ACCESS_RECV,         /* write bytes for a receive descriptor or RDMA Read of this session */
    ENG_ACCESS_REMOTE_WRITE, /* incoming RDMA Write: needs EnableRdmaWrite on VI and region */
    ENG_ACCESS_REMOTE_READ,  /* incoming RDMA Read: needs EnableRdmaRead on VI and region */
};

/* A range of registered memory of this session. */
struct eng_access {
    uint16_t vi;
    enum eng_access_kind kind;
    uint32_t handle;
    uint64_t addr;
    uint32_t len;
};

/* Kinds of events that the engine reports through eng_ops.event. */
enum eng_event_kind {
    ENG_EVENT_ERROR,  /* asynchronous error `code` for the application (spec 3.9) */
    ENG_EVENT_BROKEN, /* the engine ended the connection and set Error state; the host must send
                         CLOSE (from the members for BROKEN) and report CONN_LOST to the
                         application */
    ENG_EVENT_STATE,  /* the VI state changed to `state`: publish it */
};

/* In the comments of the members, a word in capitals is the kind of event that uses the member. */
struct eng_event {
    enum eng_event_kind kind;
    uint16_t vi;
    enum vip_error_code code;     /* ERROR */
    uint32_t opcode;              /* ERROR: VIP_CTL_OP_* of the operation concerned */
    enum vip_vi_state state;      /* STATE */
    enum vip_close_reason reason; /* BROKEN */
    uint32_t op_status; /* BROKEN: VIP_ST_* bits for the peer's operation failed_op (eng_close) */
    uint32_t failed_op; /* BROKEN: number of the peer's operation, if op_status */
    uint32_t ops_done;  /* BROKEN: number of the peer's operations that were processed in order */
    const char *why;    /* one static sentence for a log */
};

struct eng_ops {
    /* Is the range in a live region with the VI's ptag and the needed right? If len is 0, any addr
     * is in range. */
    bool (*check)(void *ctx, const struct eng_access *access);
    /*
     * Copy access->len payload bytes to the range, from offset payload_offset of the packet that
     * eng_rx processes. False: the access is not allowed (check also returns false). False for an
     * RDMA Write also means: it is allowed, but the copy to the application's memory failed.
     */
    bool (*place)(void *ctx, const struct eng_access *access, uint32_t payload_offset);
    /* Report a completion. Completions of a queue come in the order of its posts. status has the
     * DONE bit, the operation and the errors. */
    void (*complete)(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status, uint32_t length,
                     uint64_t imm);
    void (*event)(void *ctx, const struct eng_event *event);
    /* Give eng_post every descriptor that the application has posted by now. The engine calls this
     * before it reports that a message found no receive descriptor. */
    void (*fetch_posts)(void *ctx);
    /*
     * The host may keep posted receive descriptors of a VI until the engine needs them. Give
     * eng_post the next kept one of VI `vi`, if any; if `all` (before a flush), give it all of
     * them. The pointer may be NULL: the host keeps none.
     */
    void (*fetch_receives)(void *ctx, uint16_t vi, bool all);
    /* Memory for the segments of long descriptors; NULL if the session's budget is spent. */
    struct vip_shm_seg *(*segs_alloc)(void *ctx, unsigned count);
    void (*segs_free)(void *ctx, struct vip_shm_seg *segs, unsigned count);
};

/* Size of an engine, and of one VI, in bytes. The host provides this memory, zeroed and 64-byte
 * aligned. */
size_t eng_bytes(void);
size_t eng_vi_bytes(void);

/* Build an engine in `memory`. ops and config are copied; each function of ops gets ctx. */
struct eng *eng_init(void *memory, const struct eng_config *config, const struct eng_ops *ops,
                     void *ctx, uint64_t now_ns);

/* ---- VIs ------------------------------------------------------------------------------- */

struct eng_vi_attrs {
    uint16_t level;              /* VIP_LVL_*, one bit */
    uint32_t max_transfer_bytes; /* 1..VIP_TRANSFER_BYTES_MAX */
    bool enable_rdma_write, enable_rdma_read;
};

/*
 * eng_vi_create: make VI `vi` (a free index, chosen by the host) in `memory`, in state Idle, with
 * empty queues. eng_vi_destroy: free the segment lists and forget the VI; then the host owns the
 * memory again. eng_vi_destroy does not check the state; the host must check it before the call.
 */
void eng_vi_create(struct eng *eng, uint16_t vi, void *memory, const struct eng_vi_attrs *attrs);
void eng_vi_destroy(struct eng *eng, uint16_t vi);
void eng_vi_set_attrs(struct eng *eng, uint16_t vi, const struct eng_vi_attrs *attrs);

/* From now on also add the latencies of this VI to `latency`. The host owns `latency` and keeps it
 * until eng_vi_destroy. Allowed only if eng_config.latency is set. */
void eng_vi_measure(struct eng *eng, uint16_t vi, struct eng_latency *latency);

enum vip_vi_state eng_vi_state(const struct eng *eng, uint16_t vi);

/* eng_vi_set_pending: Idle -> Connect Pending. eng_vi_set_idle: Connect Pending -> Idle; posted
 * receive descriptors stay posted. Both functions assert the old state. */
void eng_vi_set_pending(struct eng *eng, uint16_t vi);
void eng_vi_set_idle(struct eng *eng, uint16_t vi);

/* Parameters of an established connection. */
struct eng_conn {
    uint64_t local_id, remote_id; /* connection ids in incoming packets, in outgoing packets */
    uint64_t local_epoch, remote_epoch;
    uint32_t packet_bytes; /* path MTU: largest packet, >= VIP_PACKET_BYTES_MIN */
    uint32_t window_bytes; /* bytes that may be under way to the peer */
    uint32_t path;         /* opaque to the engine; returned in eng_packet.path */
    uint32_t features;     /* VIP_FEATURE_* that both sides know */
    uint64_t rtt_ns;       /* round trip that the last binding has measured; 0: not known */
    bool local;            /* both ends are on this computer: no congestion control, no pacing */
};

/* Idle or Connect Pending -> Connected. Operation and packet numbers start again. */
void eng_vi_connect(struct eng *eng, uint16_t vi, const struct eng_conn *conn, uint64_t now_ns);

/*
 * Bind a connection anew, with other ids, epochs or paths. Each end first calls eng_vi_pause, or
 * eng_vi_restore in the next life of vipd. Then the hosts exchange the counts (eng_vi_counts), and
 * each end calls eng_vi_rebind. At the reliable levels, no operation is lost or done twice. With
 * Unreliable Delivery, messages under way may be lost, but none is delivered twice.
 */

/* The counts of this end, which the other end needs for eng_vi_rebind. */
void eng_vi_counts(const struct eng *eng, uint16_t vi, struct vip_counts *ret);
/* Number of the peer's next operation, as in vip_counts.done. */
uint32_t eng_vi_done(const struct eng *eng, uint16_t vi);
/* From now on, store the result of eng_vi_done at *done after each operation of the peer that
 * consumes no receive descriptor. After the other operations, ops.complete must store it. */
void eng_vi_commit_to(struct eng *eng, uint16_t vi, uint32_t *done);
/* Number of the first operation of this end that has not completed. */
uint32_t eng_vi_completed(const struct eng *eng, uint16_t vi);

/* For a Connected VI: until eng_vi_rebind the engine sends nothing, drops packets that arrive and
 * stops the timers. The application may go on posting. After eng_vi_pause, call eng_replay. */
void eng_vi_pause(struct eng *eng, uint16_t vi);

/* Idle -> Connected and paused: continue a connection of vipd's earlier life. `completed`, `done`:
 * the last results of eng_vi_completed and eng_vi_done in that life. Then the host posts again, in
 * order, the descriptors that had not completed. */
void eng_vi_restore(struct eng *eng, uint16_t vi, const struct eng_conn *conn, uint32_t completed,
                    uint32_t done, uint64_t now_ns);

/*
 * Connected and paused -> Connected. `peer`: the counts of the other end, not trusted.
 * conn->features must have all features that the connection had before. Outcomes: 0; -EPROTO: the
 * counts contradict what this end knows, and the VI stays paused. After -EPROTO the host must end
 * the connection.
 */
int eng_vi_rebind(struct eng *eng, uint16_t vi, const struct eng_conn *conn,
                  const struct vip_counts *peer, uint64_t now_ns);

/*
 * VipDisconnect here: any state -> Idle, both queues flushed. The host drops later packets of the
 * connection. *ret_ops_done: number of the peer's operations that were processed, for the CLOSE
 * message.
 */
void eng_vi_disconnect(struct eng *eng, uint16_t vi, uint32_t *ret_ops_done);

/*
 * The peer closed, died, or reset: Connected -> Error, both queues flushed, CONN_LOST event. If
 * ops_valid, operations before ops_done complete with success first, and failed_op gets op_status
 * (at Reliable Delivery only if it is an RDMA Read, spec 3.6).
 */
struct eng_close {
    bool ops_valid;
    uint32_t ops_done;
    uint32_t op_status;
    uint32_t failed_op;
    bool transport;  /* the path or the remote host failed; the peer did not disconnect */
    const char *why; /* static sentence */
};
void eng_vi_closed(struct eng *eng, uint16_t vi, const struct eng_close *close, uint64_t now_ns);

/* ---- posting --------------------------------------------------------------------------- */

/* One posted descriptor, as the application wrote it; eng_post checks it. */
struct eng_post {
    uint16_t vi;
    enum vip_queue queue;
    uint16_t control;
    uint16_t seg_count; /* segments in app_segs; <= VIP_SEGS_PER_DESC_MAX + 1 */
    uint8_t flags;      /* VIP_SQF_*; VIP_SQF_MSG: app_message and message_bytes are valid */
    uint32_t length;
    uint32_t reserved;
    uint64_t imm;                       /* without VIP_SQF_IMM64 the host clears the upper half */
    uint32_t message_bytes;             /* 1..VIP_MESSAGE_BYTES_MAX */
    const uint8_t *app_message;         /* private copy; valid during the call */
    const struct vip_shm_seg *app_segs; /* private copy; valid during the call */
};

/*
 * Append a descriptor to a work queue. A faulty descriptor completes with an error status when its
 * turn comes (spec 3.4, 3.6). If the queue is full, the descriptor is dropped, with a VI_OVERRUN
 * event. For the states Idle, Connect Pending and Error, spec 3.2 has the rules.
 */
void eng_post(struct eng *eng, const struct eng_post *post, uint64_t now_ns);

/* ---- packets --------------------------------------------------------------------------- */

enum eng_rx_verdict {
    ENG_RX_DONE = 0,  /* processed; the host may reuse the buffer */
    ENG_RX_HOLD,      /* ahead of its turn: keep the bytes until eng_replay returns `token` */
    ENG_RX_DUPLICATE, /* seen before; dropped (and acknowledged again) */
    ENG_RX_STALE,     /* impossible packet number or acknowledgement; dropped */
    ENG_RX_FULL,      /* ahead of its turn and cannot be held; dropped without acknowledgement */
};

/*
 * Process a validated data packet for a Connected VI. The host must check conn_id and both epochs
 * before the call. `token` (not 0): the host's reference to the bytes. With ENG_RX_HOLD the engine
 * keeps the token.
 */
enum eng_rx_verdict eng_rx(struct eng *eng, uint16_t vi, const struct vip_packet *packet,
                           uint32_t token, uint64_t now_ns);

/*
 * Get a held packet that is due or no longer needed; false: there is none. After eng_rx,
 * eng_vi_disconnect, eng_vi_closed and eng_tick, call it until it returns false; other work may
 * come between two calls. After eng_vi_destroy call it eng_orphans times at once. If *ret_feed is
 * true, decode the packet again, call eng_rx_replay, then free its bytes; else only free the bytes.
 */
bool eng_replay(struct eng *eng, uint16_t *ret_vi, uint32_t *ret_token, bool *ret_feed);
bool eng_replay_waits(const struct eng *eng); /* may eng_replay return true? */
unsigned eng_orphans(const struct eng *eng);  /* number of held packets of destroyed VIs */
void eng_rx_replay(struct eng *eng, uint16_t vi, const struct vip_packet *packet, uint64_t now_ns);

/* Would eng_rx process this frame now, because it is neither a duplicate nor ahead of its turn? For
 * hosts that must prepare the target memory before eng_rx may place bytes there (staged memory). */
bool eng_rx_expects(const struct eng *eng, uint16_t vi, const struct vip_frame *frame);

/*
 * Get the next packet to send; VIs take turns. The packet counts as sent at now_ns. False: the VI
 * in turn has no packet now, for example because its sends were faulty. Call again while
 * eng_tx_ready returns true. (A fault may end the connection, which can cost 0.2 ms.) Sends of
 * Unreliable Delivery complete in the next eng_tick; eng_deadline is 0 until then. After that the
 * application may reuse their buffers, so call eng_tick only when the medium has the packet's
 * bytes.
 */
bool eng_tx_pull(struct eng *eng, struct eng_packet *ret, uint64_t now_ns);

/* Has any VI something to send? O(1), for the host's list of busy sessions. */
bool eng_tx_ready(const struct eng *eng);

/* The host could not resolve a piece of a pulled packet: operation `op` fails
 * (PROTECTION_ERROR). */
void eng_tx_failed(struct eng *eng, uint16_t vi, uint32_t op, uint64_t now_ns);

/* ---- time ------------------------------------------------------------------------------ */

#define ENG_NEVER UINT64_MAX

/* When the host must call eng_tick next; ENG_NEVER if no timer runs. */
uint64_t eng_deadline(const struct eng *eng);
/*
 * Handle timers and completions that are due. Returns the cost in steps, at most ENG_TICK_STEPS. A
 * timer costs one step; the end of a connection costs ENG_TICK_STEPS. Call again while eng_deadline
 * is not later than now_ns.
 */
#define ENG_TICK_STEPS 16u
unsigned eng_tick(struct eng *eng, uint64_t now_ns);

/* ---- looking inside -------------------------------------------------------------------- */

/* The counters of a VI (meanings: proto/stats.def) and its present values. */
struct eng_vi_stats {
#define VIP_STAT_OF_VI(member, name) uint64_t member;
#include "proto/stats.def"
    uint64_t srtt_ns, rto_ns;
    uint64_t cwnd_bytes, inflight_bytes;
    uint32_t packet_bytes;           /* size of the largest packet at present */
    uint32_t send_depth, recv_depth; /* descriptors posted and not completed */
    const char *error;               /* why the VI is in Error state, or NULL */
};

/* Number of packets that were sent and are not acknowledged; also lost ones count. */
uint64_t eng_vi_under_way(const struct eng *eng, uint16_t vi);

/* Snapshot of one VI's counters. */
void eng_vi_stats(const struct eng *eng, uint16_t vi, struct eng_vi_stats *ret);

#endif
