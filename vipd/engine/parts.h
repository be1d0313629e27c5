/*
 * Functions that the files of the engine offer to each other; internal.h has the struct layouts and
 * is the only file that includes this one.
 */
#ifndef VIPD_ENGINE_PARTS_H
#define VIPD_ENGINE_PARTS_H

#ifndef VIPD_ENGINE_INTERNAL_H
#error "include vipd/engine/internal.h"
#endif

/* Is a before b? The numbers wrap. */
static inline bool eng_before(uint32_t a, uint32_t b)
{
    if (VIP_MUTANT(WRAP))
        return a < b;
    return (int32_t)(a - b) < 0;
}

static inline bool eng_pos_before(struct eng_pos a, struct eng_pos b)
{
    return a.op == b.op ? a.off < b.off : eng_before(a.op, b.op);
}

/* Does the peer need the content of a before that of b? */
static inline bool eng_sent_before(const struct eng_sent *a, const struct eng_sent *b)
{
    return a->stream == b->stream ? eng_pos_before(a->at, b->at) : a->stream < b->stream;
}

/* End of the content that a packet carried. */
static inline struct eng_pos eng_sent_end(const struct eng_sent *record)
{
    return (struct eng_pos){record->at.op + record->ops, record->end_off};
}

static inline uint32_t eng_min32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline struct eng_desc *eng_desc_at(struct eng_vi *vi, enum vip_queue queue, uint32_t at)
{
    return &vi->desc[queue][at & ENG_QUEUE_MASK];
}

/* Queue position of operation `op`. Descriptors that have started have consecutive operation
 * numbers. */
static inline uint32_t eng_op_position(const struct eng_vi *vi, uint32_t op)
{
    return vi->sq.next + (op - vi->tx.at.op);
}

/* Size of the memory from ops.segs_alloc for a descriptor's segments and message, in segments. */
static inline unsigned eng_desc_kept(const struct eng_desc *desc)
{
    unsigned each = sizeof(struct vip_shm_seg);

    if (desc->seg_count <= VIP_SQ_INLINE_SEGS && !desc->message_bytes)
        return 0;
    return desc->seg_count + (desc->message_bytes + each - 1) / each;
}

/* All segments of a descriptor. In an RDMA descriptor, the first one is the address segment. */
static inline const struct vip_shm_seg *eng_desc_segs(const struct eng_desc *desc)
{
    return eng_desc_kept(desc) ? desc->more : desc->seg;
}

static inline const uint8_t *eng_desc_message(const struct eng_desc *desc)
{
    return (const uint8_t *)(eng_desc_segs(desc) + desc->seg_count);
}

/* Bytes of the operation on the wire. */
static inline uint32_t eng_desc_bytes(const struct eng_desc *desc)
{
    return desc->sum + desc->message_bytes;
}

static inline unsigned eng_desc_data(const struct eng_desc *desc, const struct vip_shm_seg **ret)
{
    unsigned skip = (desc->control & VIP_CTL_OP_MASK) != VIP_CTL_OP_SENDRECV;

    *ret = eng_desc_segs(desc) + skip;
    return desc->seg_count - skip;
}

/* If packet number n was declared lost, forget this. */
static inline void eng_declared_forget(struct eng_vi *vi, uint64_t n)
{
    if (!vi->tx.declared_count || !eng_bits_test(&vi->tx.declared, n))
        return;
    eng_bits_clear(&vi->tx.declared, n);
    vi->tx.declared_count--;
}

/* list.c. eng_vi_get asserts that the VI exists. */
struct eng_vi *eng_vi_get(const struct eng *eng, uint16_t vi);
void eng_list_add(struct eng_vi *vi, enum eng_list_id id);
void eng_list_del(struct eng_vi *vi, enum eng_list_id id);
struct eng_vi *eng_list_first(const struct eng *eng, enum eng_list_id id);

/* rand.c */
uint32_t eng_random(struct eng *eng);

/* news.c */
void eng_event_error(struct eng_vi *vi, enum vip_error_code code, uint32_t opcode, const char *why);

/* heap.c: each VI has one timer; at_ns ENG_NEVER stops the timer. */
void eng_timer_set(struct eng_vi *vi, uint64_t at_ns);

/* ready.c. Call after every input: put the VI on the ready list if it has something to send, and
 * set its timer. */
void eng_vi_update(struct eng_vi *vi);
void eng_vi_timer(struct eng_vi *vi); /* sets the VI's timer only */

/* queue.c */
/* Is `op` one of our open reads: the expected one or a later one? */
bool eng_read_is_open(struct eng_vi *vi, uint32_t op);
/* After a rebind: is `op` our read, processed by the peer, whose bytes are missing here? */
bool eng_read_asked_again(struct eng_vi *vi, uint32_t op);
/* Complete the descriptor at the head of a queue. Its status is DONE, the operation and `bits`. */
void eng_send_complete(struct eng_vi *vi, uint32_t bits);
void eng_recv_complete(struct eng_vi *vi, uint32_t bits, uint32_t length, uint64_t imm);
/* Complete, in order, operations that the peer has processed. A read also waits for its bytes. */
void eng_send_advance(struct eng_vi *vi);
/* Unreliable Delivery: complete the pulled sends. Returns how many completed. */
unsigned eng_send_advance_sent(struct eng_vi *vi);
/* Statuses of a flush of the send queue. */
struct eng_flush {
    uint32_t first_status; /* if not 0: status of the oldest send, instead of "flushed" */
    bool failed;           /* true: operation failed_op gets failed_status */
    bool reads_only;       /* true: failed_op gets failed_status only if it is an RDMA Read */
    uint32_t failed_op, failed_status;
};
void eng_send_flush(struct eng_vi *vi, const struct eng_flush *flush);
void eng_recv_flush(struct eng_vi *vi); /* flushes also descriptors that the host keeps */
void eng_recv_flush_posted(struct eng_vi *vi);
void eng_desc_release(struct eng_vi *vi, struct eng_desc *desc);
/* Age of the descriptor at this position of the send queue, since its post. It is exact to
 * ENG_TICK_NS. */
uint64_t eng_desc_age_ns(const struct eng_vi *vi, uint32_t position, uint64_t now_ns);

/*
 * post.c: may the first `bytes` bytes (0..desc->sum) of the data segments be read or written?
 * Bounds are checked only for these bytes, because a receive descriptor may be longer than its
 * region. Handle and tag are checked in every segment of length > 0.
 */
bool eng_desc_check(struct eng_vi *vi, const struct eng_desc *desc, enum eng_access_kind kind,
                    uint32_t bytes);

/* state.c */
/* Reset all numbers of a connection. If operations keep their numbers, the caller must set them
 * afterwards. */
void eng_conn_begin(struct eng_vi *vi, const struct eng_conn *conn, uint64_t now_ns);
/* Break the connection of a Connected VI: flush its queues, enter Error state, send the event
 * ENG_EVENT_BROKEN to the host. */
void eng_break(struct eng_vi *vi, const struct eng_fault *fault);

/* fail.c */
/* Complete a faulty send whose turn has come. False: the fault broke the connection. */
bool eng_refuse(struct eng_vi *vi, struct eng_desc *desc);
/* Break the connection if tx.fail_op is the oldest operation now. */
void eng_fail_head(struct eng_vi *vi);
/* Report to the application that the peer's read `op` is denied. Returns the fault for
 * eng_break. */
struct eng_fault eng_read_denied(struct eng_vi *vi, uint32_t op);
/* May the peer read this memory? */
bool eng_read_readable(struct eng_vi *vi, const struct eng_read *read);

/* cut.c: a packet being built. */
struct eng_build {
    struct eng_packet *packet;
    uint32_t head_bytes;
    uint32_t message_bytes; /* bytes of messages in head_bytes; statistics count them as payload */
    unsigned frames;
    uint32_t limit_bytes; /* largest size of the packet */
    bool more;            /* the VI has more to send after this packet, if window and pace allow */
    bool unheard; /* the last frame is an RDMA Write to which no program replies (no immediate) */
};
void eng_build_begin(struct eng_build *build, struct eng_vi *vi, struct eng_packet *packet);
void eng_build_head(struct eng_build *build, uint32_t bytes);
/* Append the fragment of `desc` from *at up to byte `end`; move *at to the fragment's end. False:
 * the packet has no room. */
bool eng_build_op(struct eng_build *build, struct eng_vi *vi, const struct eng_desc *desc,
                  struct eng_pos *at, uint32_t end);
/* Append the fragment of the answer to `read` from *at up to byte `end`; move *at to its end.
 * False: the packet has no room. */
bool eng_build_answer(struct eng_build *build, struct eng_vi *vi, const struct eng_read *read,
                      struct eng_pos *at, uint32_t end);

/* Pad a packet with zeros to its limit if at most VIP_WIRE_PAD_MAX bytes are left, and if both ends
 * know padding and are on different hosts. */
void eng_build_fill(struct eng_build *build, const struct eng_vi *vi);

/* finish.c: write the header and account for the packet. `record` describes the contents of a
 * packet that must be acknowledged; NULL for a plain acknowledgement. */
void eng_build_finish(struct eng_build *build, struct eng_vi *vi, const struct eng_sent *record,
                      uint16_t flags, unsigned ranges, uint64_t now_ns);
/* Finish a data packet that carries [from, to) of a stream, after `ranges` acknowledged ranges. */
void eng_build_finish_data(struct eng_build *build, struct eng_vi *vi, struct eng_pos from,
                           struct eng_pos to, enum eng_stream stream, unsigned ranges,
                           uint64_t now_ns);

/* resend.c: build a new packet with the content of the first lost packet that the peer still needs.
 * False: no packet was built. */
bool eng_resend(struct eng_vi *vi, struct eng_packet *ret, uint64_t now_ns);

/* ack.c: what eng_number_judge finds about the number of a packet that arrives. */
enum eng_number {
    ENG_NUMBER_NEW,
    ENG_NUMBER_SEEN,
    ENG_NUMBER_IMPOSSIBLE,
};
enum eng_number eng_number_judge(const struct eng_vi *vi, uint64_t number);
void eng_number_record(struct eng_vi *vi, const struct vip_header *hdr, uint64_t now_ns);
void eng_ack_schedule(struct eng_vi *vi, bool at_once, uint64_t now_ns);
static inline bool eng_ack_has_ranges(const struct eng_vi *vi)
{
    return vi->rx.largest > vi->rx.base;
}
/* Fill the acknowledgement fields of a header. */
void eng_ack_fill(const struct eng_vi *vi, struct vip_header *hdr, uint64_t now_ns);
/* Write the newest ranges of numbers that arrived, at most `max`, in ascending order. Returns how
 * many it wrote. */
unsigned eng_ack_ranges(const struct eng_vi *vi, struct vip_range out[VIP_WIRE_RANGES_MAX],
                        unsigned max);
/* Does the packet acknowledge only packets and operations that were sent? */
bool eng_ack_possible(const struct eng_vi *vi, const struct vip_packet *packet);
void eng_ack_take(struct eng_vi *vi, const struct vip_packet *packet, uint64_t now_ns);

/* skip.c */
/* Does the packet acknowledge a skipped number, that is, a packet that was never sent? */
bool eng_ack_invented(const struct eng_vi *vi, const struct vip_packet *packet);
/* Choose the next packet number to skip. */
void eng_skip_draw(struct eng_vi *vi);

/* rtt.c */
void eng_loss_sample(struct eng_vi *vi, const struct vip_header *hdr, uint64_t now_ns);
/* Smallest round trip of this period and the previous one (rtt.c); 0 = no sample yet. */
uint64_t eng_loss_base(const struct eng_vi *vi);
/* An acknowledgement has come. Had the packet arrived that the last tail-loss probe repeats? */
void eng_loss_probed(struct eng_vi *vi, uint64_t cumulative, uint64_t now_ns);
/* Time from sending until an answer counts as late. */
uint64_t eng_loss_rto(const struct eng_vi *vi);

/* loss.c */
/* Call it if a packet arrived after packets with higher numbers. declared: the packet was declared
 * lost before. */
void eng_loss_reordered(struct eng_vi *vi, uint64_t number, bool declared);
void eng_loss_detect(struct eng_vi *vi, uint64_t now_ns);
/* Start, move or stop the retransmission timer after something was sent or acknowledged. */
void eng_loss_arm(struct eng_vi *vi, uint64_t now_ns);
/* Call it when the retransmission timer is due. False: the peer has made no progress for
 * conn_timeout. */
bool eng_loss_expired(struct eng_vi *vi, uint64_t now_ns);
/* Close the record of an open packet number: its packet is acknowledged, replaced, or not to be
 * repeated. */
void eng_sent_close(struct eng_vi *vi, uint64_t number);
/* Store `record` under the next packet number as if its packet was lost. So its content is sent. */
void eng_sent_again(struct eng_vi *vi, const struct eng_sent *record);
/* Must the peer still answer something that we sent? */
bool eng_tx_owes(const struct eng_vi *vi);

/* pace.c */
/* Compute the pace anew. Call it after a change of the window or of the round trip time. */
void eng_pace_set(struct eng_vi *vi);
void eng_pace_sent(struct eng_vi *vi, uint32_t bytes, uint64_t now_ns);
void eng_pace_refresh(struct eng_vi *vi, uint64_t now_ns);

/* mtu.c */
void eng_mtu_init(struct eng_vi *vi);
/* Largest size of the next packet of fresh data. */
uint32_t eng_mtu_limit(const struct eng_vi *vi, uint64_t now_ns);
/* Call it when a data packet with number tx.number is sent. */
void eng_mtu_sent(struct eng_vi *vi, uint32_t bytes);
/* Call it when a packet was lost. True: a test packet was lost, which is no sign of congestion. */
bool eng_mtu_lost(struct eng_vi *vi, uint64_t number, uint32_t bytes, uint64_t now_ns);
void eng_mtu_arrived(struct eng_vi *vi, uint64_t number, uint32_t bytes);
/* Call it when the timer expires. `bytes`: size of the packet that the peer needs first. */
void eng_mtu_silence(struct eng_vi *vi, uint32_t bytes, uint64_t now_ns);

/* rx.c */
enum eng_step {
    ENG_STEP_DONE,  /* the frame is processed or not needed */
    ENG_STEP_AHEAD, /* the frame is ahead of its turn; its packet may be held */
    ENG_STEP_BAD,   /* the frame contradicts earlier frames */
    ENG_STEP_LATER, /* the frame is ahead of its turn; its packet must not be held */
    ENG_STEP_FAULT, /* the caller must break the connection: rx.fault has the reason */
    ENG_STEP_BROKE, /* the VI is no longer connected */
};

/* place.c: process a fragment that is in order; its first `skip` bytes are placed already. */
enum eng_step eng_place_send(struct eng_vi *vi, const struct vip_frame *frame, uint32_t skip);
enum eng_step eng_place_write(struct eng_vi *vi, const struct vip_frame *frame, uint32_t skip);
/* Scatter len payload bytes to the data segments, from their byte `offset` on. */
bool eng_scatter(struct eng_vi *vi, const struct eng_desc *desc, uint32_t offset, uint32_t len,
                 uint32_t payload);
/* Report the operation at rx.at as incomplete (Unreliable Delivery, or end of the connection). */
void eng_place_abandon(struct eng_vi *vi);
/* The operation at rx.at is done: move rx.at to the next one. The caller then completes the receive
 * descriptor that the operation consumed. */
void eng_rx_op_done(struct eng_vi *vi);
/* The operation at rx.at is done and consumed no receive descriptor: move rx.at to the next one,
 * and commit the operation (eng_vi_commit_to). */
void eng_rx_op_commit(struct eng_vi *vi);

/* read.c */
enum eng_step eng_read_request(struct eng_vi *vi, const struct vip_frame *frame);
enum eng_step eng_read_answer(struct eng_vi *vi, const struct vip_frame *frame);
/* A read was started: count it among the open reads. */
void eng_read_started(struct eng_vi *vi, uint32_t op);

/* reorder.c */
void eng_held_init(struct eng_vi *vi);
/* Hold a packet. False: too many packets are held, or the search for its place took too long. */
bool eng_held_add(struct eng_vi *vi, enum eng_stream stream, struct eng_pos at, uint32_t token);
void eng_held_check(struct eng_vi *vi);
void eng_held_drop(struct eng_vi *vi);
void eng_held_orphan(struct eng_vi *vi);
static inline bool eng_held_any(const struct eng_vi *vi)
{
    return vi->held[0].head != ENG_NONE || vi->held[1].head != ENG_NONE;
}

#endif
