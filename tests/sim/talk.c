#include <string.h>

#include "tests/sim/actor.h"

/* Number of receive descriptors that an end keeps posted. The judge checks the one free buffer. */
#define RECEIVES (SLOTS - 1)

static struct chance *chance_of(const struct flow *flow)
{
    return &flow->attempt->pair->play->chance;
}

void flow_init(struct flow *flow, struct attempt *attempt, unsigned side)
{
    struct play *play = attempt->pair->play;
    const struct plan *plan = &play->plan;

    flow->attempt = attempt;
    flow->from = &attempt->pair->end[side];
    flow->to = &attempt->pair->end[!side];
    flow->reliable = attempt->pair->level != VIP_LVL_UNRELIABLE;
    flow->id = (uint32_t)(attempt->id * 2 + side);
    flow->total = (uint32_t)chance_below(&play->chance, plan->total_max + 1);
    /* Some flows send nothing, and some flows begin late. */
    if (chance_ppm(&play->chance, 100000))
        flow->total = 0;
    if (chance_ppm(&play->chance, 30000))
        flow->pause_ns = play_now(play) + chance_below(&play->chance, 7 * WORLD_S);
    flow->depth = (uint32_t)chance_between(&play->chance, 1, plan->depth_max);
    flow->size_max = plan->size_max;
    flow->starve = flow->reliable && chance_ppm(&play->chance, plan->starve_ppm);
    flow->burst = 1 + (uint32_t)chance_below(&play->chance, 60);
}

/* ---- receives -------------------------------------------------------------------------- */

/* Describe [offset, offset + len) of a region by a random number of segments. */
static unsigned cut(struct chance *chance, struct vip_shm_seg *segs, const struct mem *mem,
                    uint32_t offset, uint32_t len)
{
    unsigned count = 1;

    if (chance_ppm(chance, 200000))
        count = 1 + (unsigned)chance_below(chance, 5);
    if (chance_ppm(chance, 5000))
        count = 1 + (unsigned)chance_below(chance, VIP_SEGS_PER_DESC_MAX - 1);
    if (!len && chance_ppm(chance, 500000))
        return 0;
    for (unsigned i = 0; i < count; i++) {
        uint32_t part = len;

        if (i + 1 < count)
            part = (uint32_t)chance_below(chance, 2ull * len / (count - i) + 1);
        part = part < len ? part : len;
        segs[i] = mem_seg(mem, offset, part);
        offset += part;
        len -= part;
    }
    return count;
}

bool recv_post_all(struct end *end)
{
    struct play *play = end->pair->play;
    uint32_t bytes = play->plan.size_max + 2 * CANARY;
    bool any = false;

    while (end->posted[VIP_Q_RECV] - end->done[VIP_Q_RECV] < RECEIVES) {
        uint32_t number = end->posted[VIP_Q_RECV];
        uint32_t offset = number % SLOTS * bytes;
        struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX];
        unsigned count = cut(&play->chance, segs, &end->recv, offset + CANARY, play->plan.size_max);

        if (end->recv.live && !bytes_are(end->recv.bytes + offset, BYTE_CANARY, bytes))
            play_fail(play, "a receive buffer was written that was not posted");
        if (!end_post(end, &(struct post){.queue = VIP_Q_RECV,
                                          .control = VIP_CTL_IMMEDIATE,
                                          .length = play->plan.size_max,
                                          .segs = segs,
                                          .count = count}))
            break;
        end->fifo[VIP_Q_RECV][number % FIFO] = (struct posted){.index = number};
        end->posted[VIP_Q_RECV]++;
        any = true;
    }
    return any;
}

/* ---- what is sent ---------------------------------------------------------------------- */

static uint32_t random_size(struct flow *flow)
{
    struct chance *chance = chance_of(flow);
    uint32_t max = flow->size_max, size;

    if (flow->attempt->pair->play->plan.many_reads && flow->reliable)
        return (uint32_t)chance_below(chance, max + 1);
    switch (chance_below(chance, 8)) {
    case 0:
        return 0;
    case 1:
        return (uint32_t)chance_below(chance, max + 1);
    case 2:
        /* Choose a size near the payload of one packet. */
        size = flow->attempt->pair->play->world.net.packet_bytes - 104 - 3 +
               (uint32_t)chance_below(chance, 7);
        return size < max ? size : max;
    case 3:
        size = (uint32_t)chance_below(chance, 5000);
        return size < max ? size : max;
    default:
        size = (uint32_t)chance_below(chance, 300);
        return size < max ? size : max;
    }
}

/* A mistake ends a reliable connection, so only the last message of a flow has one. */
static void choose_bad(struct flow *flow, struct msg *msg)
{
    static const uint8_t kinds[BAD_KINDS] = {
        [BAD_LOCAL_PTAG] = MSG_SEND,     [BAD_LOCAL_BOUNDS] = MSG_SEND,
        [BAD_LOCAL_LENGTH] = MSG_SEND,   [BAD_REMOTE_PTAG] = MSG_WRITE,
        [BAD_REMOTE_BOUNDS] = MSG_WRITE, [BAD_REMOTE_RIGHTS] = MSG_WRITE,
        [BAD_READ_RIGHTS] = MSG_READ,    [BAD_READ_BOUNDS] = MSG_READ,
    };
    struct chance *chance = chance_of(flow);
    const struct plan *plan = &flow->attempt->pair->play->plan;

    if (flow->posted + 1 != flow->total || !chance_ppm(chance, plan->bad_ppm))
        return;
    msg->bad = (uint8_t)chance_between(chance, 1, BAD_KINDS - 1);
    msg->kind = kinds[msg->bad];
    if (msg->kind == MSG_READ && (!flow->reliable || !plan->reads)) {
        msg->bad = BAD_LOCAL_PTAG;
        msg->kind = MSG_SEND;
    }
    msg->len = 1 + (uint32_t)chance_below(chance, flow->size_max < 2000 ? flow->size_max : 2000);
}

/* Choose extensions of VIPL 1.0. The lower half of immediate data is the message's number. */
static void choose_wide(struct flow *flow, struct msg *msg)
{
    struct play *play = flow->attempt->pair->play;
    struct chance *chance = &play->extra;

    msg->imm_data = flow->posted;
    if (!play->plan.wide)
        return;
    if (msg->kind == MSG_WRITE_IMM && chance_ppm(chance, 500000)) {
        msg->kind = MSG_WRITE_MSG;
        msg->imm = !flow->reliable || chance_ppm(chance, 300000);
        msg->message_bytes = (uint32_t)chance_between(
            chance, 1,
            flow->size_max < VIP_MESSAGE_BYTES_MAX ? flow->size_max : VIP_MESSAGE_BYTES_MAX);
        msg->message_start = (uint32_t)chance_below(chance, PATTERN);
    }
    msg->imm64 = msg->imm && chance_ppm(chance, 500000);
    if (msg->imm64)
        msg->imm_data |= chance_next(chance) << 32;
}

static void choose(struct flow *flow, struct msg *msg)
{
    struct chance *chance = chance_of(flow);
    const struct plan *plan = &flow->attempt->pair->play->plan;
    const struct msg *before = flow->posted ? msg - 1 : NULL;
    uint64_t dice = chance_below(chance, 12);

    *msg = (struct msg){.kind = MSG_SEND, .slot = flow->posted % SLOTS};
    if (plan->writes && dice >= 6 && dice < 8)
        msg->kind = MSG_WRITE;
    else if (plan->writes && dice == 8)
        msg->kind = MSG_WRITE_IMM;
    else if (plan->reads && flow->reliable && dice >= 9)
        msg->kind = MSG_READ;
    if (plan->many_reads && flow->reliable && dice >= 1)
        msg->kind = MSG_READ;
    msg->len = random_size(flow);
    msg->start = (uint32_t)chance_below(chance, PATTERN);
    if (msg->kind == MSG_READ && msg->len > PATTERN)
        msg->len = PATTERN;
    msg->imm = msg->kind == MSG_WRITE_IMM ||
               (msg->kind == MSG_SEND && (!flow->reliable || chance_ppm(chance, 500000)));
    msg->fence = chance_ppm(chance, 100000);
    choose_bad(flow, msg);
    if (!msg->bad && before && before->kind == MSG_READ && !before->bad &&
        flow->completed < flow->posted && chance_ppm(chance, plan->many_reads ? 50000 : 600000)) {
        /* Without the fence the message would send bytes from before the read. */
        *msg = (struct msg){.kind = MSG_FORWARD,
                            .fence = true,
                            .slot = msg->slot,
                            .len = before->len,
                            .start = before->start};
        flow->msg[flow->posted - 1].forwarded = true;
    }
    choose_wide(flow, msg);
}

/* Returns the address segment of an RDMA operation. */
static struct vip_shm_seg remote_seg(const struct flow *flow, const struct msg *msg)
{
    const struct end *to = flow->to;
    struct vip_shm_seg seg = {0};

    if (msg->kind == MSG_READ)
        seg = mem_seg(&to->sess->pattern, msg->start, 0);
    else
        seg = mem_seg(&to->window, msg->slot * slot_bytes(flow) + CANARY, 0);
    switch ((enum msg_bad)msg->bad) {
    case BAD_REMOTE_PTAG:
        return mem_seg(&to->sess->other, 0, 0);
    case BAD_REMOTE_RIGHTS:
    case BAD_READ_RIGHTS:
        return mem_seg(&to->sess->closed, 0, 0);
    case BAD_REMOTE_BOUNDS:
        return mem_seg(&to->window, to->window.len - msg->len + 1, 0);
    case BAD_READ_BOUNDS:
        return mem_seg(&to->sess->pattern, to->sess->pattern.len - msg->len + 1, 0);
    case BAD_NOT:
    case BAD_LOCAL_PTAG:
    case BAD_LOCAL_BOUNDS:
    case BAD_LOCAL_LENGTH:
    case BAD_KINDS:
        break;
    }
    return seg;
}

/* Makes the data segments of a message. Fills the source buffer if they are in it. */
static unsigned data_segs(struct flow *flow, const struct msg *msg, struct vip_shm_seg *segs)
{
    struct end *from = flow->from;
    uint32_t offset = msg->slot * slot_bytes(flow) + CANARY;

    if (msg->bad == BAD_LOCAL_PTAG) {
        segs[0] = mem_seg(&from->sess->other, 0, msg->len);
        return 1;
    }
    if (msg->bad == BAD_LOCAL_BOUNDS) {
        segs[0] = mem_seg(&from->source, from->source.len - msg->len + 1, msg->len);
        return 1;
    }
    if (msg->kind == MSG_READ)
        return cut(chance_of(flow), segs, &from->landing, offset, msg->len);
    if (msg->kind == MSG_FORWARD)
        return cut(chance_of(flow), segs, &from->landing,
                   (msg->slot + SLOTS - 1) % SLOTS * slot_bytes(flow) + CANARY, msg->len);
    if (msg->len <= PATTERN && msg->start % 4 == 0 && !from->sess->pattern.staged)
        return cut(chance_of(flow), segs, &from->sess->pattern, msg->start, msg->len);
    if (from->source.live)
        pattern_copy(from->source.bytes + offset, msg->start, msg->len);
    return cut(chance_of(flow), segs, &from->source, offset, msg->len);
}

/* True if the receiver has posted enough for one more message. (The flow knows both hosts.) */
static bool may_consume(const struct flow *flow)
{
    if (flow->starve || !flow->reliable)
        return true;
    return flow->consuming < flow->to->posted[VIP_Q_RECV] - flow->recv_base;
}

static bool landing_clean(const struct flow *flow, const struct msg *msg)
{
    const struct end *from = flow->from;

    return !from->landing.live || bytes_are(from->landing.bytes + msg->slot * slot_bytes(flow),
                                            BYTE_CANARY, slot_bytes(flow));
}

static bool post_one(struct flow *flow)
{
    static const uint16_t control[MSG_KINDS] = {
        [MSG_SEND] = VIP_CTL_OP_SENDRECV,       [MSG_WRITE] = VIP_CTL_OP_RDMAWRITE,
        [MSG_WRITE_IMM] = VIP_CTL_OP_RDMAWRITE, [MSG_READ] = VIP_CTL_OP_RDMAREAD,
        [MSG_FORWARD] = VIP_CTL_OP_SENDRECV,    [MSG_WRITE_MSG] = VIP_CTL_OP_RDMAWRITE,
    };
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX];
    struct post post = {.queue = VIP_Q_SEND, .segs = segs};
    struct msg *msg = &flow->msg[flow->posted];
    struct end *from = flow->from;
    struct play *play = from->pair->play;
    uint32_t number = from->posted[VIP_Q_SEND];
    uint8_t message[VIP_MESSAGE_BYTES_MAX];

    /* Check the room first: choose() may change the buffer, so a chosen message must be posted. */
    if (!end_can_post(from))
        return false;
    choose(flow, msg);
    if (msg->kind == MSG_READ && !landing_clean(flow, msg))
        play_fail(play, "the landing buffer of a read was written after its end");
    if (control[msg->kind] != VIP_CTL_OP_SENDRECV)
        segs[post.count++] = remote_seg(flow, msg);
    post.count += data_segs(flow, msg, segs + post.count);
    post.control = (uint16_t)(control[msg->kind] | (msg->imm ? VIP_CTL_IMMEDIATE : 0) |
                              (msg->fence ? VIP_CTL_QFENCE : 0));
    post.length = msg->len + (msg->bad == BAD_LOCAL_LENGTH);
    post.imm = msg->imm_data;
    if (msg->imm64)
        post.flags = VIP_SQF_IMM64;
    else if (play->plan.wide)
        post.imm |= 0x5a5a5a5aull << 32; /* vipd must ignore this upper half */
    if (msg->kind == MSG_WRITE_MSG) {
        post.flags |= VIP_SQF_MSG;
        post.message = message;
        post.message_bytes = msg->message_bytes;
        pattern_copy(message, msg->message_start, msg->message_bytes);
    }
    if (!end_post(from, &post))
        return false;
    if (msg->bad)
        flow->attempt->may_end = true;
    from->fifo[VIP_Q_SEND][number % FIFO] = (struct posted){
        .flow = flow, .index = flow->posted, .length = post.length, .imm = msg->imm_data};
    from->posted[VIP_Q_SEND]++;
    world_line(&play->world, LINE_POST, from->pair->number, flow->attempt->id, from->side,
               flow->posted, (uint64_t)msg->kind << 32 | msg->len);
    if (msg_consumes(msg))
        flow->consuming++;
    flow->posted++;
    return true;
}

bool flow_post(struct flow *flow)
{
    struct play *play = flow->from->pair->play;
    bool any = false;

    while (flow->posted < flow->total && !flow->send_over &&
           flow->posted - flow->completed < flow->depth && may_consume(flow)) {
        if (flow->pause_ns > play_now(play))
            break;
        if (!post_one(flow))
            break;
        any = true;
        if (--flow->burst)
            continue;
        flow->burst = 1 + (uint32_t)chance_below(&play->chance, 60);
        flow->pause_ns = play_now(play) + chance_below(&play->chance, play->plan.pause_ns + 1);
    }
    return any;
}

uint64_t flow_wants_ns(const struct flow *flow)
{
    if (flow->posted == flow->total || flow->send_over ||
        flow->pause_ns <= play_now(flow->from->pair->play))
        return WORLD_NEVER;
    return flow->pause_ns;
}

/* True if all messages are sent and, at a reliable level, also received. */
bool flow_done(const struct flow *flow)
{
    uint32_t last = flow->total;

    if (flow->completed != flow->total)
        return false;
    while (flow->reliable && last && !msg_consumes(&flow->msg[last - 1]))
        last--;
    return !flow->reliable || flow->received >= last;
}
