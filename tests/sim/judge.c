#include <inttypes.h>
#include <string.h>

#include "proto/comps.h"
#include "tests/sim/actor.h"

static uint8_t *slot_at(const struct mem *mem, const struct flow *flow, uint32_t slot)
{
    return mem->bytes + slot * slot_bytes(flow);
}

/* Returns how many bytes, from the first byte on, equal the pattern; at most `len`. */
static uint32_t pattern_prefix(const uint8_t *bytes, uint32_t start, uint32_t len)
{
    const uint8_t *pattern = pattern_bytes() + start;
    uint32_t n = 0;

    while (n < len && bytes[n] == pattern[n % PATTERN])
        n++;
    return n;
}

/* ---- RDMA Writes at their target ------------------------------------------------------- */

static bool is_write(const struct msg *msg)
{
    return (msg->kind == MSG_WRITE || msg->kind == MSG_WRITE_IMM || msg->kind == MSG_WRITE_MSG) &&
           !msg->bad && msg->len;
}

/* True if the receiver's end is still in this connection and its window is registered. */
static bool target_lives(const struct flow *flow)
{
    return flow->to->exists && flow->to->attempt == flow->attempt && flow->to->window.live;
}

static void write_check(struct flow *flow, uint32_t index, const char *when)
{
    struct msg *msg = &flow->msg[index];
    struct play *play = flow->attempt->pair->play;

    if (!is_write(msg) || msg->placed)
        return;
    if (flow->frozen || !target_lives(flow) ||
        !pattern_is(slot_at(&flow->to->window, flow, msg->slot) + CANARY, msg->start, msg->len))
        play_fail(play, "pair %u: RDMA Write %u of %u bytes is not in place %s",
                  flow->attempt->pair->number, index, msg->len, when);
    msg->placed = true;
}

/* An RDMA Write has completed at its sender: from now on the window must contain its bytes. */
static void write_settle(struct flow *flow, uint32_t index)
{
    struct msg *msg = &flow->msg[index];
    struct end *to = flow->to;
    uint8_t *shadow;

    write_check(flow, index, "although it completed");
    if (!is_write(msg) || flow->frozen || !target_lives(flow))
        return;
    shadow = to->shadow + msg->slot * slot_bytes(flow);
    pattern_copy(shadow + CANARY, msg->start, msg->len);
    if (memcmp(shadow, slot_at(&to->window, flow, msg->slot), slot_bytes(flow)) != 0)
        play_fail(to->pair->play, "pair %u: bytes beside RDMA Write %u were written",
                  to->pair->number, index);
}

void flow_freeze(struct flow *flow)
{
    if (flow->frozen || !target_lives(flow))
        return;
    for (uint32_t i = flow->good; i < flow->posted; i++) {
        struct msg *msg = &flow->msg[i];

        if (is_write(msg) &&
            pattern_is(slot_at(&flow->to->window, flow, msg->slot) + CANARY, msg->start, msg->len))
            msg->placed = true;
    }
    flow->frozen = true;
}

/* Check that a slot has its old bytes. If `later` is false, it may also begin with bytes of msg.
 * Returns true if the slot has new bytes. */
static bool slot_settle(const struct flow *flow, uint32_t slot, const struct msg *msg, bool later)
{
    struct end *to = flow->to;
    const uint8_t *now = slot_at(&to->window, flow, slot);
    const uint8_t *old = to->shadow + slot * slot_bytes(flow);
    uint32_t n = CANARY;

    if (memcmp(now, old, slot_bytes(flow)) == 0)
        return false;
    if (msg && !later)
        n += pattern_prefix(now + CANARY, msg->start, msg->len);
    if (memcmp(now, old, CANARY) != 0 || !msg || later ||
        memcmp(now + n, old + n, slot_bytes(flow) - n) != 0)
        play_fail(to->pair->play, "pair %u: bytes of slot %u of the window were written by nobody",
                  to->pair->number, slot);
    return true;
}

static void window_settle_reliable(struct flow *flow)
{
    const struct msg *last[SLOTS] = {0};
    bool broken = false;

    for (uint32_t i = flow->good; i < flow->posted; i++)
        if (is_write(&flow->msg[i]))
            last[flow->msg[i].slot] = &flow->msg[i];
    /* Writes are placed in order: if a write is not complete, no later write may have begun. */
    for (uint32_t i = flow->good; i < flow->posted; i++) {
        const struct msg *msg = &flow->msg[i];

        if (!is_write(msg))
            continue;
        (void)slot_settle(flow, msg->slot, msg, broken);
        if (!pattern_is(slot_at(&flow->to->window, flow, msg->slot) + CANARY, msg->start, msg->len))
            broken = true;
    }
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        if (!last[slot])
            (void)slot_settle(flow, slot, NULL, false);
}

void window_settle(struct end *end)
{
    struct flow *flow = &end->attempt->flow[!end->side];

    if (!end->exists || !end->window.live)
        return;
    flow_freeze(flow);
    if (flow->reliable)
        window_settle_reliable(flow);
    /* Unreliable writes may be late, lost or incomplete. None may change bytes between slots. */
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        const uint8_t *now = slot_at(&end->window, flow, slot);

        if (!bytes_are(now, BYTE_CANARY, CANARY) ||
            !bytes_are(now + slot_bytes(flow) - CANARY, BYTE_CANARY, CANARY))
            play_fail(end->pair->play, "pair %u: bytes between the slots were written",
                      end->pair->number);
    }
    memcpy(end->shadow, end->window.bytes, end->window.len);
}

/* ---- receives -------------------------------------------------------------------------- */

static struct msg *message_next(struct flow *flow, uint64_t imm64)
{
    struct play *play = flow->attempt->pair->play;
    uint32_t imm = (uint32_t)imm64;

    if (!flow->reliable) {
        if (imm < flow->received || imm >= flow->posted || !msg_consumes(&flow->msg[imm]))
            play_fail(play, "pair %u: message %" PRIu64 " twice, out of order or invented",
                      flow->attempt->pair->number, imm64);
        flow->received = imm + 1;
        return &flow->msg[imm];
    }
    for (uint32_t i = flow->received; i < flow->posted; i++) {
        if (!msg_consumes(&flow->msg[i]))
            continue;
        /* RDMA Writes that were posted before this message must be in place (spec 3.5). */
        for (uint32_t j = flow->in_place; j <= i; j++)
            if (j + SLOTS > flow->posted)
                write_check(flow, j, "before a later message");
        flow->in_place = i + 1;
        flow->received = i + 1;
        return &flow->msg[i];
    }
    play_fail(play, "pair %u: a message that nobody sent", flow->attempt->pair->number);
}

/* Returns the status, and in *ret_ the bytes, that a receive must have after msg completed it. */
static uint32_t recv_expects(const struct msg *msg, uint32_t *ret_used, uint32_t *ret_start)
{
    uint32_t status = VIP_ST_DONE | (msg->imm ? VIP_ST_IMMEDIATE : 0);

    *ret_used = msg->len;
    *ret_start = msg->start;
    if (msg->kind == MSG_WRITE_MSG) {
        *ret_used = msg->message_bytes;
        *ret_start = msg->message_start;
        return status | VIP_ST_OP_REMOTE_RDMA_WRITE | VIP_ST_MESSAGE;
    }
    if (msg->kind != MSG_WRITE_IMM)
        return status | VIP_ST_OP_RECEIVE;
    *ret_used = 0;
    return status | VIP_ST_OP_REMOTE_RDMA_WRITE;
}

static void recv_good(struct end *end, struct flow *flow, uint32_t index,
                      const struct vip_comp *comp)
{
    struct play *play = end->pair->play;
    const struct msg *msg = message_next(flow, comp->imm);
    uint32_t number = (uint32_t)(msg - flow->msg), used, end_used, start, status;
    uint8_t *slot = slot_at(&end->recv, flow, index % SLOTS);

    status = recv_expects(msg, &used, &start);
    /* A killed vipd may have written a longer message, later lost, to this buffer. */
    end_used = play->plan.renews && !flow->reliable ? play->plan.size_max : used;

    if (msg->bad && (flow->reliable || msg->bad <= BAD_LOCAL_LENGTH))
        play_fail(play, "pair %u: faulty message %u was received", end->pair->number, number);
    if (comp->status != status ||
        comp->length != (msg->kind == MSG_WRITE_MSG ? msg->message_bytes : msg->len))
        play_fail(play, "pair %u: message %u came with status %x, %u bytes", end->pair->number,
                  number, comp->status, comp->length);
    if (msg->imm && comp->imm != msg->imm_data)
        play_fail(play, "pair %u: immediate data of message %u", end->pair->number, number);
    play->messages++;
    if (!end->recv.live && used)
        play_fail(play, "received into memory that is not registered");
    if (!end->recv.live)
        return;
    if (!pattern_is(slot + CANARY, start, used))
        play_fail(play, "pair %u: the bytes of message %u differ", end->pair->number, number);
    if (!bytes_are(slot, BYTE_CANARY, CANARY) ||
        !bytes_are(slot + CANARY + end_used, BYTE_CANARY, slot_bytes(flow) - CANARY - end_used))
        play_fail(play, "pair %u: bytes beside message %u were written", end->pair->number, number);
    memset(slot + CANARY, BYTE_CANARY, end_used);
}

/* A receive descriptor has failed: its buffer may have only first bytes of the next message. */
static void recv_bad(struct end *end, struct flow *flow, uint32_t index,
                     const struct vip_comp *comp)
{
    struct play *play = end->pair->play;
    uint32_t bytes = play->plan.size_max + 2 * CANARY, n = 0, i;
    uint8_t *slot = end->recv.bytes + index % SLOTS * bytes;
    bool partial = comp->status & VIP_ST_PARTIAL_ERROR;

    /* Unreliable Delivery may lose packets while an earlier write waits for libvipl. */
    if (flow && !flow->attempt->may_end &&
        (flow->reliable || !partial || (play->plan.clean && !play->plan.staged)))
        play_fail(play, "pair %u: status %x of a receive", end->pair->number, comp->status);
    if (!end->recv.live)
        return;
    if (flow && !flow->reliable)
        n = play->plan.size_max; /* the buffer may have bytes of any lost message */
    for (i = flow ? flow->received : 0; flow && flow->reliable && i < flow->posted; i++)
        if (msg_consumes(&flow->msg[i])) {
            const struct msg *msg = &flow->msg[i];

            if (msg->kind != MSG_WRITE_IMM && msg->kind != MSG_WRITE_MSG && !flow->recv_over)
                n = pattern_prefix(slot + CANARY, msg->start, msg->len);
            /* vipd may have been killed after it placed the message, before the completion. */
            if (msg->kind == MSG_WRITE_MSG && play->plan.kills && !flow->recv_over)
                n = pattern_prefix(slot + CANARY, msg->message_start, msg->message_bytes);
            break;
        }
    if (partial && flow && flow->reliable && comp->length > n)
        play_fail(play, "pair %u: %u bytes of a partial receive are not there", end->pair->number,
                  comp->length);
    if (!bytes_are(slot, BYTE_CANARY, CANARY) ||
        !bytes_are(slot + CANARY + n, BYTE_CANARY, bytes - CANARY - n))
        play_fail(play, "pair %u: a failed receive holds bytes of no message", end->pair->number);
    memset(slot, BYTE_CANARY, bytes);
}

static void recv_complete(struct end *end, const struct vip_comp *comp)
{
    const struct posted *posted = &end->fifo[VIP_Q_RECV][end->done[VIP_Q_RECV] % FIFO];
    struct flow *flow = end->attempt ? &end->attempt->flow[!end->side] : NULL;
    struct play *play = end->pair->play;

    if (end->done[VIP_Q_RECV] == end->posted[VIP_Q_RECV])
        play_fail(play, "pair %u: a receive completed that was not posted", end->pair->number);
    if (comp->status & VIP_ST_ERROR_MASK) {
        recv_bad(end, flow, posted->index, comp);
        if (flow && (flow->reliable || (comp->status & VIP_ST_DESC_FLUSHED_ERROR)))
            flow->recv_over = true;
    } else {
        if (!flow || flow->recv_over)
            play_fail(play, "pair %u: received %s", end->pair->number,
                      flow ? "after an error" : "without a connection");
        recv_good(end, flow, posted->index, comp);
    }
    end->done[VIP_Q_RECV]++;
}

/* ---- sends ----------------------------------------------------------------------------- */

static void judge_receives(struct end *end);

/* An RDMA Read has ended: check its bytes (after an error its first bytes). Reset its buffer. */
static void read_settle(struct flow *flow, uint32_t index, bool good)
{
    struct msg *msg = &flow->msg[index];
    struct end *from = flow->from;
    uint8_t *slot = slot_at(&from->landing, flow, msg->slot);
    uint32_t n = msg->len;

    if (!from->landing.live)
        return;
    if (!good || msg->bad)
        n = msg->bad ? 0 : pattern_prefix(slot + CANARY, msg->start, msg->len);
    if (!pattern_is(slot + CANARY, msg->start, n))
        play_fail(from->pair->play, "pair %u: the bytes of read %u differ", from->pair->number,
                  index);
    if (!bytes_are(slot, BYTE_CANARY, CANARY) ||
        !bytes_are(slot + CANARY + n, BYTE_CANARY, slot_bytes(flow) - CANARY - n))
        play_fail(from->pair->play, "pair %u: bytes beside read %u were written",
                  from->pair->number, index);
    if (!good || !msg->forwarded)
        memset(slot + CANARY, BYTE_CANARY, msg->len);
}

/* A reliable operation has succeeded: check that the peer has processed it (spec 3.6). */
static void promise(struct flow *flow, uint32_t index)
{
    const struct msg *msg = &flow->msg[index];
    struct play *play = flow->attempt->pair->play;

    if (flow->to->exists && flow->to->attempt == flow->attempt)
        judge_receives(flow->to);
    if (msg_consumes(msg) && flow->received <= index)
        play_fail(play, "pair %u: send %u completed before the peer received it",
                  flow->attempt->pair->number, index);
    write_settle(flow, index);
}

static void send_error(struct flow *flow, const struct msg *msg, uint32_t status)
{
    struct play *play = flow->attempt->pair->play;

    if (!flow->attempt->may_end)
        play_fail(play, "pair %u: status %x of a send", flow->attempt->pair->number, status);
    if (flow->reliable || (status & VIP_ST_DESC_FLUSHED_ERROR))
        flow->send_over = true;
    if (!msg->bad || !flow->reliable)
        return;
    /* A wrong tag or wrong bounds must not be reported as a wrong length. */
    if ((msg->bad == BAD_LOCAL_PTAG || msg->bad == BAD_LOCAL_BOUNDS) &&
        (status & VIP_ST_ERROR_MASK) == VIP_ST_LENGTH_ERROR)
        play_fail(play, "wrong status %x of a faulty send", status);
}

static void send_complete(struct end *end, const struct vip_comp *comp)
{
    static const uint32_t op[MSG_KINDS] = {
        [MSG_SEND] = VIP_ST_OP_SEND,
        [MSG_WRITE] = VIP_ST_OP_RDMA_WRITE,
        [MSG_WRITE_IMM] = VIP_ST_OP_RDMA_WRITE,
        [MSG_READ] = VIP_ST_OP_RDMA_READ,
        [MSG_FORWARD] = VIP_ST_OP_SEND,
        [MSG_WRITE_MSG] = VIP_ST_OP_RDMA_WRITE,
    };
    const struct posted posted = end->fifo[VIP_Q_SEND][end->done[VIP_Q_SEND] % FIFO];
    struct flow *flow = posted.flow;
    struct play *play = end->pair->play;
    struct msg *msg = flow ? &flow->msg[posted.index] : NULL;
    bool good = !(comp->status & VIP_ST_ERROR_MASK);

    if (end->done[VIP_Q_SEND] == end->posted[VIP_Q_SEND])
        play_fail(play, "pair %u: a send completed that was not posted", end->pair->number);
    if (comp->length != posted.length || comp->imm != posted.imm || !msg ||
        (comp->status & VIP_ST_OP_MASK) != op[msg->kind])
        play_fail(play, "pair %u: completion of another send: %x, %u bytes", end->pair->number,
                  comp->status, comp->length);
    end->done[VIP_Q_SEND]++;
    if (!good)
        send_error(flow, msg, comp->status);
    else if (flow->send_over)
        play_fail(play, "pair %u: success after an error", end->pair->number);
    else if (msg->bad && (flow->reliable || msg->bad <= BAD_LOCAL_LENGTH))
        play_fail(play, "pair %u: faulty message %u (%u) ended with success", end->pair->number,
                  posted.index, msg->bad);
    else if (flow->reliable)
        promise(flow, posted.index);
    if (msg->kind == MSG_READ)
        read_settle(flow, posted.index, good);
    /* The buffer belongs to the application again. Overwrite it to find late reads by vipd. */
    if (msg->kind == MSG_FORWARD && end->landing.live)
        memset(slot_at(&end->landing, flow, (msg->slot + SLOTS - 1) % SLOTS), BYTE_CANARY,
               slot_bytes(flow));
    if (msg->kind != MSG_FORWARD && msg->kind != MSG_READ && end->source.live)
        memset(slot_at(&end->source, flow, msg->slot) + CANARY, BYTE_USED, msg->len);
    flow->completed++;
    flow->good += good;
    /* The client waits for the end of both directions, so let its host run, too. */
    if (flow->completed == flow->total)
        play->world.host[end->pair->end[0].sess->host].due = true;
}

/* ---- both queues, CQs, memory ---------------------------------------------------------- */

static bool next_completion(struct end *end, enum vip_queue queue, struct vip_comp *ret)
{
    struct vip_comps_in comps;

    vip_comps_open(&comps, end->sess->vipd, end->vi, queue);
    if (!vip_comps_read(&comps, end->position[queue], end->position[queue], ret))
        return false;
    end->position[queue]++;
    world_line(&end->pair->play->world, LINE_DONE, end->pair->number, end->side, queue, ret->status,
               ret->length);
    if (!(ret->status & VIP_ST_DONE))
        play_fail(end->pair->play, "a completion without DONE");
    return true;
}

static void judge_receives(struct end *end)
{
    struct vip_comp comp;

    while (next_completion(end, VIP_Q_RECV, &comp))
        recv_complete(end, &comp);
}

bool end_judge(struct end *end)
{
    uint32_t before = end->done[VIP_Q_SEND] + end->done[VIP_Q_RECV];
    struct vip_comp comp;

    judge_receives(end);
    while (next_completion(end, VIP_Q_SEND, &comp))
        send_complete(end, &comp);
    return end->done[VIP_Q_SEND] + end->done[VIP_Q_RECV] != before;
}

static struct end *end_of(struct sess *sess, uint16_t vi, uint8_t generation)
{
    struct play *play = sess->play;

    for (unsigned i = 0; i < play->plan.pairs; i++)
        for (unsigned side = 0; side < 2; side++) {
            struct end *end = &play->pair[i].end[side];

            if (end->exists && end->sess == sess && end->vi == vi &&
                (uint8_t)end->generation == generation)
                return end;
        }
    play_fail(play, "a CQ entry of a VI that is not there");
}

/* Number of entries in a CQ's ring in a play with plan.tight. */
#define TIGHT_ENTRIES 3u

void sess_publish_cq(struct sess *sess)
{
    uint32_t held_back = sess->play->plan.tight ? VIP_CQ_RING_SLOTS - TIGHT_ENTRIES : 0;

    vip_store32_release(&vip_app_cq(sess->app, (uint32_t)sess->cq)->cons,
                        sess->cq_position - held_back);
}

void sess_read_cq(struct sess *sess)
{
    struct vip_cqe entry;

    if (sess->cq < 0)
        return;
    while (
        vip_cq_read(vip_vipd_cq_ring(sess->vipd, (uint32_t)sess->cq), sess->cq_position, &entry)) {
        struct end *end = end_of(sess, entry.vi, entry.gen);

        sess->cq_position++;
        sess_publish_cq(sess);
        end->cq_seen[entry.queue]++;
        if (end->cq[entry.queue] != sess->cq ||
            end->cq_seen[entry.queue] > end_written(end, (enum vip_queue)entry.queue))
            play_fail(sess->play, "pair %u: a CQ entry without a completion", end->pair->number);
    }
}

void sess_judge_cq(struct sess *sess)
{
    uint32_t missing = 0;

    if (sess->cq < 0)
        return;
    sess_read_cq(sess);
    for (struct end *end = end_next(sess, NULL); end; end = end_next(sess, end))
        for (unsigned queue = 0; queue < 2; queue++)
            if (end->cq[queue] == sess->cq)
                missing += end_written(end, (enum vip_queue)queue) - end->cq_seen[queue];
    if (missing != peek_backlog(sess))
        play_fail(sess->play, "host %u session %u: %u completions without a CQ entry", sess->host,
                  sess->index, missing);
}

static void gone_check(struct sess *sess, const struct mem *mem)
{
    if (mem->bytes && !mem->live && !bytes_are(mem->bytes, BYTE_GONE, mem->len))
        play_fail(sess->play, "memory was written after its deregistration");
}

void sess_judge_memory(struct sess *sess)
{
    struct play *play = sess->play;

    if (memcmp(sess->pattern.bytes, pattern_bytes(), 2 * PATTERN) != 0 ||
        !bytes_are(sess->other.bytes, BYTE_CANARY, sess->other.len) ||
        !bytes_are(sess->closed.bytes, BYTE_CANARY, sess->closed.len))
        play_fail(play, "host %u: memory was written that nobody may write", sess->host);
    for (unsigned i = 0; i < play->plan.pairs; i++)
        for (unsigned side = 0; side < 2; side++) {
            const struct end *end = &play->pair[i].end[side];

            if (end->sess != sess || !end->exists)
                continue;
            gone_check(sess, &end->recv);
            gone_check(sess, &end->window);
            gone_check(sess, &end->landing);
            gone_check(sess, &end->source);
        }
}
