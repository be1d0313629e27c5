/*
 * Packets that arrive. First check that the packet is possible and no duplicate. Then process its
 * acknowledgement. Then process its frames, strictly in the order of operations.
 */
#include "vipd/engine/internal.h"

static enum eng_step process(struct eng_vi *vi, const struct vip_frame *frame, uint32_t skip)
{
    switch ((enum vip_frame_type)frame->type) {
    case VIP_FRM_SEND:
        return eng_place_send(vi, frame, skip);
    case VIP_FRM_WRITE:
    case VIP_FRM_WRITE_MSG:
        return eng_place_write(vi, frame, skip);
    case VIP_FRM_READ_REQ:
        return eng_read_request(vi, frame);
    case VIP_FRM_READ_RESP:
        break;
    }
    return ENG_STEP_BAD;
}

/* Does the fragment match the earlier ones of its operation? */
static bool consistent(const struct eng_vi *vi, const struct vip_frame *frame)
{
    if (vi->rx.phase == ENG_PHASE_START)
        return true;
    return frame->type == vi->rx.type && frame->total == vi->rx.total &&
           (frame->type == VIP_FRM_SEND ||
            (frame->message == vi->rx.message && frame->handle == vi->rx.handle &&
             frame->remote_addr == vi->rx.remote_addr));
}

static void begin(struct eng_vi *vi, const struct vip_frame *frame)
{
    vi->rx.type = frame->type;
    vi->rx.message = frame->message;
    vi->rx.total = frame->total;
    vi->rx.handle = frame->handle;
    vi->rx.remote_addr = frame->remote_addr;
}

/* After a rebind: must the peer still request this read again? */
static bool is_asked_again(const struct eng_vi *vi, uint32_t op)
{
    for (unsigned i = 0; i < vi->reads.again_count; i++)
        if (vi->reads.again[vi->reads.again_first + i] == op)
            return true;
    return false;
}

static enum eng_step ordered_reliable(struct eng_vi *vi, const struct vip_frame *frame)
{
    struct eng_pos at = {frame->op, frame->offset};

    if (VIP_MUTANT(OLD_OPERATION) && frame->op + 1 == vi->rx.at.op && !frame->offset)
        vi->rx.at = at;
    if (eng_before(frame->op, vi->rx.at.op))
        return frame->type == VIP_FRM_READ_REQ && is_asked_again(vi, frame->op)
                   ? eng_read_request(vi, frame)
                   : ENG_STEP_DONE;
    if (frame->op - vi->rx.at.op > ENG_OPS_AHEAD_MAX)
        return ENG_STEP_BAD;
    if (eng_pos_before(vi->rx.at, at))
        return ENG_STEP_AHEAD;
    if (!consistent(vi, frame))
        return ENG_STEP_BAD;
    if (vi->rx.at.off && frame->offset + frame->length <= vi->rx.at.off)
        return ENG_STEP_DONE;
    begin(vi, frame);
    return process(vi, frame, VIP_MUTANT(OVERLAP) ? 0 : vi->rx.at.off - frame->offset);
}

/*
 * Unreliable Delivery does not wait for missing fragments. A message with a missing fragment is not
 * delivered. A fragment of a newer operation ends the operation under way, and fragments of older
 * operations are dropped.
 */
static enum eng_step ordered_unreliable(struct eng_vi *vi, const struct vip_frame *frame)
{
    bool last = frame->flags & VIP_FRMF_LAST;

    if (eng_before(frame->op, vi->rx.at.op))
        return ENG_STEP_DONE;
    if (frame->op != vi->rx.at.op) {
        eng_place_abandon(vi);
        vi->rx.at = (struct eng_pos){frame->op, 0};
        vi->rx.phase = ENG_PHASE_START;
    }
    if (vi->rx.phase != ENG_PHASE_SKIP) {
        if ((vi->rx.at.off == frame->offset ||
             (VIP_MUTANT(UNRELIABLE_HOLE) && vi->rx.at.off < frame->offset)) &&
            consistent(vi, frame)) {
            begin(vi, frame);
            return process(vi, frame, 0);
        }
        if (frame->offset < vi->rx.at.off)
            return ENG_STEP_DONE;
        eng_place_abandon(vi);
        vi->rx.phase = ENG_PHASE_SKIP;
    }
    if (last)
        eng_rx_op_commit(vi);
    return ENG_STEP_DONE;
}

/* Process frames until one cannot be processed; *ret_at is then the index of this frame. */
static enum eng_step frames(struct eng_vi *vi, const struct vip_packet *packet, unsigned *ret_at)
{
    for (unsigned i = 0; i < packet->hdr.frame_count; i++) {
        const struct vip_frame *frame = &packet->frames[i];
        enum eng_step step;

        if (frame->type == VIP_FRM_READ_RESP)
            step = eng_read_answer(vi, frame);
        else
            step = vi->reliable ? ordered_reliable(vi, frame) : ordered_unreliable(vi, frame);
        if (step == ENG_STEP_FAULT) {
            struct eng_fault fault = vi->rx.fault;

            eng_break(vi, &fault);
            return ENG_STEP_BROKE;
        }
        if (step != ENG_STEP_DONE) {
            *ret_at = i;
            return step;
        }
    }
    return ENG_STEP_DONE;
}

/* Hold a packet whose frame `i` is ahead of its turn. */
static bool hold(struct eng_vi *vi, const struct vip_packet *packet, unsigned i, uint32_t token)
{
    const struct vip_frame *frame = &packet->frames[i];
    enum eng_stream stream = frame->type == VIP_FRM_READ_RESP ? ENG_STREAM_READS : ENG_STREAM_OPS;

    return eng_held_add(vi, stream, (struct eng_pos){frame->op, frame->offset}, token);
}

static enum eng_rx_verdict receive(struct eng_vi *vi, const struct vip_packet *packet,
                                   uint32_t token, uint64_t now_ns)
{
    bool elicits = packet->hdr.flags & VIP_PKTF_ELICITS;
    enum eng_rx_verdict verdict = ENG_RX_DONE;
    unsigned at = 0;

    if (packet->hdr.flags & VIP_PKTF_ACK)
        eng_ack_take(vi, packet, now_ns);
    if (vi->state != VIP_VIST_CONNECTED)
        return ENG_RX_DONE;
    switch (frames(vi, packet, &at)) {
    case ENG_STEP_DONE:
        break;
    case ENG_STEP_AHEAD:
        /* Hold no packet until the peer has requested its open reads again (eng_read_request). */
        if (vi->reads.again_count || !hold(vi, packet, at, token)) {
            /* The peer sends this packet again, because it gets no acknowledgement of it.
             * Acknowledge the earlier packets. */
            vi->rx.ack_now = vi->rx.largest > 0;
            if (VIP_MUTANT(ACK_DROPPED))
                eng_number_record(vi, &packet->hdr, now_ns);
            return ENG_RX_FULL;
        }
        verdict = ENG_RX_HOLD;
        break;
    case ENG_STEP_LATER:
        vi->rx.ack_now = vi->rx.largest > 0;
        return ENG_RX_FULL;
    case ENG_STEP_BAD:
        return ENG_RX_STALE;
    case ENG_STEP_FAULT:
    case ENG_STEP_BROKE:
        return ENG_RX_DONE;
    }
    eng_number_record(vi, &packet->hdr, now_ns);
    if (elicits || packet->hdr.frame_count)
        eng_ack_schedule(vi, verdict == ENG_RX_HOLD || (packet->hdr.flags & VIP_PKTF_ACK_NOW),
                         now_ns);
    return verdict;
}

/* Break the connection of a peer that breaks the protocol, except with Unreliable Delivery, where
 * the engine never breaks a connection. */
static void cut_off(struct eng_vi *vi, const struct eng_fault *fault)
{
    if (vi->reliable)
        eng_break(vi, fault);
}

enum eng_rx_verdict eng_rx(struct eng *eng, uint16_t vi, const struct vip_packet *packet,
                           uint32_t token, uint64_t now_ns)
{
    static const struct eng_fault invented = {
        .reason = VIP_CLOSE_ERROR, .why = "the peer acknowledged a packet that was never sent"};
    struct eng_vi *of = eng_vi_get(eng, vi);
    enum eng_rx_verdict verdict;

    eng->now_ns = now_ns;
    if (of->state != VIP_VIST_CONNECTED || of->paused || !eng_ack_possible(of, packet))
        return ENG_RX_STALE;
    if (eng_ack_invented(of, packet)) {
        of->stats.acks_invented++;
        cut_off(of, &invented);
        return ENG_RX_STALE;
    }
    switch (eng_number_judge(of, packet->hdr.packet_number)) {
    case ENG_NUMBER_NEW:
        break;
    case ENG_NUMBER_SEEN:
        of->stats.duplicates++;
        if (packet->hdr.flags & VIP_PKTF_ELICITS)
            of->rx.ack_now = true;
        eng_vi_update(of);
        return ENG_RX_DUPLICATE;
    case ENG_NUMBER_IMPOSSIBLE:
        return ENG_RX_STALE;
    }
    of->stats.rx_packets++;
    verdict = receive(of, packet, token, now_ns);
    if (eng_held_any(of) && !VIP_MUTANT(HELD_WAKE))
        eng_held_check(of);
    eng_vi_update(of);
    return verdict;
}

void eng_rx_replay(struct eng *eng, uint16_t vi, const struct vip_packet *packet, uint64_t now_ns)
{
    struct eng_vi *of = eng_vi_get(eng, vi);
    struct eng_fault fault = {.reason = VIP_CLOSE_ERROR,
                              .why = "the peer sent packets that contradict each other"};
    unsigned at = 0;

    eng->now_ns = now_ns;
    if (of->state != VIP_VIST_CONNECTED)
        return;
    switch (frames(of, packet, &at)) {
    case ENG_STEP_DONE:
        /* Send a new acknowledgement with ops_done; at once if no other packet is held. */
        eng_ack_schedule(of, !eng_held_any(of), now_ns);
        break;
    case ENG_STEP_AHEAD:
    case ENG_STEP_LATER:
    case ENG_STEP_BAD:
        /* The packet was acknowledged, so the peer does not repeat it. A correct peer sends no such
         * packet. */
        cut_off(of, &fault);
        break;
    case ENG_STEP_FAULT:
    case ENG_STEP_BROKE:
        break;
    }
    if (eng_held_any(of))
        eng_held_check(of);
    eng_vi_update(of);
}

bool eng_rx_expects(const struct eng *eng, uint16_t vi, const struct vip_frame *frame)
{
    const struct eng_vi *of = eng_vi_get(eng, vi);
    const struct eng_pos *at = &of->rx.at;

    if (of->state != VIP_VIST_CONNECTED)
        return false;
    if (frame->type == VIP_FRM_READ_RESP) {
        at = &of->reads.want;
        if (!of->reads.open)
            return false;
    } else if (!of->reliable) {
        if (frame->op != at->op)
            return eng_before(at->op, frame->op) && frame->offset == 0;
        return of->rx.phase != ENG_PHASE_SKIP && frame->offset == at->off;
    }
    return frame->op == at->op && frame->offset <= at->off &&
           (!at->off || frame->offset + frame->length > at->off);
}
