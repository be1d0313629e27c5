/* The two applications of a pair: they post descriptors, and check each completion. */
#include "fuzz/pair.h"

/* Byte `at` of message `number`. Different messages have different bytes. */
uint8_t pair_byte(unsigned side, unsigned vi, uint32_t number, uint32_t at)
{
    uint32_t x = (number * 4 + vi * 2 + side) * 2654435761u + at * 40503u;

    return (uint8_t)(x >> 13 ^ x >> 3);
}

static struct pair_vi *vi_of(struct pair_side *side, unsigned vi)
{
    FUZZ_CHECK(vi < PAIR_VIS && side->vi[vi].exists);
    return &side->vi[vi];
}

/* ---- operations of the engine ------------------------------------------------------------ */

static bool op_check(void *ctx, const struct eng_access *access)
{
    struct pair_side *side = ctx;

    return !side->deny && access->handle == PAIR_HANDLE &&
           (!access->len ||
            (access->addr <= PAIR_MEM_BYTES && access->len <= PAIR_MEM_BYTES - access->addr));
}

static bool op_place(void *ctx, const struct eng_access *access, uint32_t payload_offset)
{
    struct pair_side *side = ctx;

    if (!op_check(ctx, access))
        return false;
    FUZZ_CHECK(side->now && payload_offset <= side->now->len &&
               access->len <= side->now->len - payload_offset);
    memcpy(side->mem + access->addr, side->now->bytes + payload_offset, access->len);
    return true;
}

static void op_event(void *ctx, const struct eng_event *event)
{
    struct pair_side *side = ctx;

    FUZZ_CHECK(event->vi < PAIR_VIS);
    if (event->kind != ENG_EVENT_STATE)
        FUZZ_CHECK(event->why);
    if (event->kind != ENG_EVENT_BROKEN)
        return;
    side->close_due[event->vi] = true;
    side->close_life[event->vi] = side->vi[event->vi].life;
    side->close[event->vi] = (struct eng_close){.ops_valid = true,
                                                .ops_done = event->ops_done,
                                                .op_status = event->op_status,
                                                .failed_op = event->failed_op,
                                                .why = event->why};
}

static void op_fetch_posts(void *ctx)
{
}

static struct vip_shm_seg *op_segs_alloc(void *ctx, unsigned count)
{
    struct pair_side *side = ctx;

    if (side->no_segs)
        return NULL;
    side->segs += count;
    return malloc(count * sizeof(struct vip_shm_seg));
}

static void op_segs_free(void *ctx, struct vip_shm_seg *segs, unsigned count)
{
    struct pair_side *side = ctx;

    side->segs -= count;
    free(segs);
}

/* ---- completions --------------------------------------------------------------------------- */

static bool intact(const uint8_t *mem, unsigned side, unsigned vi, uint32_t number, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++)
        if (mem[i] != pair_byte(side, vi, number, i))
            return false;
    return true;
}

/* A receive has completed without error: find its message. It must be the expected message. */
static void check_received(struct pair_side *side, unsigned index, const struct pair_post *post,
                           uint32_t status, uint32_t length, uint32_t number)
{
    struct pair_vi *vi = &side->vi[index];
    struct pair_vi *from = &side->pair->side[!side->index].vi[index];
    const struct pair_message *message = &from->log[number % PAIR_POSTS];
    bool write = (status & VIP_ST_OP_MASK) == VIP_ST_OP_REMOTE_RDMA_WRITE;
    uint64_t at =
        pair_addr(index, write ? PAIR_TARGETS : PAIR_RECVS, write ? message->target : post->slot);

    FUZZ_CHECK(status & VIP_ST_IMMEDIATE);
    FUZZ_CHECK(number - from->first_number < from->next_number - from->first_number);
    FUZZ_CHECK(message->number == number && message->write == write);
    FUZZ_CHECK(length == message->length);
    if (side->pair->level == VIP_LVL_UNRELIABLE)
        FUZZ_CHECK((int32_t)(number - vi->seen) > 0);
    else
        FUZZ_CHECK(number == vi->seen + 1);
    FUZZ_CHECK(intact(side->mem + at, !side->index, index, number, length));
    vi->seen = number;
}

static void check_sent(struct pair_side *side, unsigned index, const struct pair_post *post)
{
    const struct pair_vi *peer = &side->pair->side[!side->index].vi[index];
    uint16_t op = post->control & VIP_CTL_OP_MASK;

    if (op == VIP_CTL_OP_RDMAREAD) {
        const uint8_t *to = side->mem + pair_addr(index, PAIR_RECVS, post->slot);

        FUZZ_CHECK(intact(to, !side->index, index, post->remote, post->length));
        return;
    }
    /* At a reliable level a completed send was acknowledged, so the peer has placed the message. */
    if (side->pair->level != VIP_LVL_UNRELIABLE && peer->exists &&
        peer->life == side->vi[index].life)
        FUZZ_CHECK((int32_t)(peer->seen - post->number) >= 0);
}

static void op_complete(void *ctx, uint16_t index, enum vip_queue queue, uint32_t status,
                        uint32_t length, uint64_t imm)
{
    static const uint32_t ops[] = {VIP_ST_OP_SEND, VIP_ST_OP_RDMA_WRITE, VIP_ST_OP_RDMA_READ,
                                   VIP_ST_OP_SEND};
    struct pair_side *side = ctx;
    struct pair_vi *vi = vi_of(side, index);
    struct pair_queue *posted = &vi->queue[queue];
    struct pair_post post;

    FUZZ_CHECK(posted->head != posted->tail);
    FUZZ_CHECK(status & VIP_ST_DONE);
    post = posted->post[posted->head++ % PAIR_POSTS];
    if (post.recv_slot)
        vi->recv_busy[post.slot] = false;
    if (queue == VIP_Q_SEND) {
        FUZZ_CHECK((status & VIP_ST_OP_MASK) == ops[post.control & VIP_CTL_OP_MASK]);
        FUZZ_CHECK(length == post.length);
        if (!(status & VIP_ST_ERROR_MASK) && !side->pair->hostile && post.honest)
            check_sent(side, index, &post);
        return;
    }
    if (!(status & VIP_ST_ERROR_MASK) && !side->pair->hostile && post.honest)
        check_received(side, index, &post, status, length, (uint32_t)imm);
}

const struct eng_ops pair_ops = {.check = op_check,
                                 .place = op_place,
                                 .complete = op_complete,
                                 .event = op_event,
                                 .fetch_posts = op_fetch_posts,
                                 .segs_alloc = op_segs_alloc,
                                 .segs_free = op_segs_free};

/* ---- posting ------------------------------------------------------------------------------- */

/* Record a posted descriptor. NULL: the work queue is full, so the engine must drop it. */
static struct pair_post *remember(struct pair_side *side, unsigned vi, enum vip_queue queue)
{
    struct pair_queue *posted = &side->vi[vi].queue[queue];
    struct pair_post *post = &posted->post[posted->tail % PAIR_POSTS];

    if (posted->tail - posted->head >= VIP_DESC_PER_QUEUE_MAX)
        return NULL;
    posted->tail++;
    *post = (struct pair_post){0};
    return post;
}

static unsigned free_slot(struct pair_vi *vi)
{
    for (unsigned i = 0; i < PAIR_SLOTS; i++)
        if (!vi->recv_busy[i])
            return i;
    return PAIR_SLOTS;
}

/* Divide [addr, addr + len) into `count` segments from segs[from] on. Returns from + count. */
static uint16_t cut(struct vip_shm_seg *segs, uint16_t from, unsigned count, uint64_t addr,
                    uint32_t len)
{
    while (count--) {
        uint32_t part = count ? len / (count + 1) : len;

        segs[from++] = (struct vip_shm_seg){.addr = addr, .handle = PAIR_HANDLE, .len = part};
        addr += part;
        len -= part;
    }
    return from;
}

static uint32_t pick_length(struct fuzz_in *in)
{
    uint8_t code = fuzz_8(in);

    if (code < 16)
        return code;
    return code < 200 ? code * 8u : PAIR_BUFFER - (code - 200u);
}

/* Post a send or an RDMA Write; its message number is the immediate data. At most PAIR_SLOTS
 * messages are under way, so a buffer is used again only when its message has completed. */
void pair_post_message(struct pair *pair, unsigned side_index, unsigned index, uint16_t op,
                       struct fuzz_in *in)
{
    struct pair_side *side = &pair->side[side_index];
    struct pair_vi *vi = &side->vi[index];
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX + 1];
    struct pair_post *post;
    uint8_t how = fuzz_8(in);
    uint32_t length = pick_length(in), number = vi->next_number;
    unsigned slot = number % PAIR_SLOTS, target = how % PAIR_SLOTS;
    uint64_t addr = pair_addr(index, PAIR_SENDS, slot);
    uint16_t count = 0;

    if (!vi->exists || vi->queue[VIP_Q_SEND].tail - vi->queue[VIP_Q_SEND].head >= PAIR_SLOTS)
        return;
    for (uint32_t i = 0; i < length; i++)
        side->mem[addr + i] = pair_byte(side_index, index, number, i);
    if (op == VIP_CTL_OP_RDMAWRITE)
        segs[count++] = (struct vip_shm_seg){.addr = pair_addr(index, PAIR_TARGETS, target),
                                             .handle = PAIR_HANDLE};
    count = cut(segs, count, how & 64 ? 1 + how % 9u : 1, addr, length);
    post = remember(side, index, VIP_Q_SEND);
    FUZZ_CHECK(post);
    *post = (struct pair_post){
        .control = (uint16_t)(op | VIP_CTL_IMMEDIATE | (how & 128 ? VIP_CTL_QFENCE : 0)),
        .honest = !side->no_segs,
        .slot = slot,
        .remote = target,
        .length = length,
        .number = number};
    vi->log[number % PAIR_POSTS] = (struct pair_message){
        .number = number, .length = length, .write = op == VIP_CTL_OP_RDMAWRITE, .target = target};
    vi->next_number++;
    eng_post(side->eng,
             &(struct eng_post){.vi = (uint16_t)index,
                                .queue = VIP_Q_SEND,
                                .control = post->control,
                                .seg_count = count,
                                .length = length,
                                .imm = number,
                                .app_segs = segs},
             pair->now_ns);
}

void pair_post_recv(struct pair *pair, unsigned side_index, unsigned index, struct fuzz_in *in)
{
    struct pair_side *side = &pair->side[side_index];
    struct pair_vi *vi = &side->vi[index];
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX + 1];
    uint8_t how = fuzz_8(in);
    uint32_t length = how & 1 ? PAIR_BUFFER : pick_length(in);
    struct pair_post *post;
    unsigned slot;
    uint16_t count;

    if (!vi->exists)
        return;
    slot = free_slot(vi);
    if (slot == PAIR_SLOTS)
        return;
    count = cut(segs, 0, how & 2 ? 1 + how % 11u : 1, pair_addr(index, PAIR_RECVS, slot), length);
    post = remember(side, index, VIP_Q_RECV);
    if (!post)
        return;
    vi->recv_busy[slot] = true;
    *post = (struct pair_post){.recv_slot = true, .honest = true, .slot = slot, .length = length};
    eng_post(side->eng,
             &(struct eng_post){.vi = (uint16_t)index,
                                .queue = VIP_Q_RECV,
                                .seg_count = count,
                                .length = length,
                                .app_segs = segs},
             pair->now_ns);
}

void pair_post_read(struct pair *pair, unsigned side_index, unsigned index, struct fuzz_in *in)
{
    struct pair_side *side = &pair->side[side_index];
    struct pair_vi *vi = &side->vi[index];
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX + 1];
    uint8_t how = fuzz_8(in);
    unsigned source = how % PAIR_SLOTS;
    uint32_t length = pick_length(in);
    struct pair_post *post;
    unsigned slot;
    uint16_t count;

    if (!vi->exists)
        return;
    slot = free_slot(vi);
    if (slot == PAIR_SLOTS)
        return;
    post = remember(side, index, VIP_Q_SEND);
    if (!post)
        return;
    segs[0] =
        (struct vip_shm_seg){.addr = pair_addr(index, PAIR_SOURCES, source), .handle = PAIR_HANDLE};
    count = cut(segs, 1, how & 64 ? 1 + how % 7u : 1, pair_addr(index, PAIR_RECVS, slot), length);
    vi->recv_busy[slot] = true;
    *post = (struct pair_post){
        .control = (uint16_t)(VIP_CTL_OP_RDMAREAD | (how & 128 ? VIP_CTL_QFENCE : 0)),
        .recv_slot = true,
        .honest = true,
        .slot = slot,
        .remote = source,
        .length = length};
    eng_post(side->eng,
             &(struct eng_post){.vi = (uint16_t)index,
                                .queue = VIP_Q_SEND,
                                .control = post->control,
                                .seg_count = count,
                                .length = length,
                                .app_segs = segs},
             pair->now_ns);
}

void pair_post_odd(struct pair *pair, unsigned side_index, unsigned index, struct fuzz_in *in)
{
    struct pair_side *side = &pair->side[side_index];
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX + 1];
    struct eng_post args = {.vi = (uint16_t)index, .app_segs = segs};
    uint32_t kind = fuzz_8(in);
    struct pair_post *post;

    if (!side->vi[index].exists)
        return;
    args.queue = kind & 1 ? VIP_Q_RECV : VIP_Q_SEND;
    args.control = kind & 2 ? fuzz_16(in) : kind >> 4;
    args.seg_count = (uint16_t)(kind & 4 ? fuzz_below(in, VIP_SEGS_PER_DESC_MAX + 2) : kind >> 5);
    /* In a run that is not hostile the descriptor must fail, so that it overwrites no buffer. */
    args.reserved = kind & 8 ? fuzz_8(in) : !pair->hostile;
    if (!pair->hostile)
        args.reserved |= 1;
    args.imm = kind;
    for (unsigned i = 0; i < args.seg_count; i++) {
        /* Mostly name send buffers, so that buffers whose bytes are checked later stay intact. */
        segs[i] = (struct vip_shm_seg){.addr = pair_addr(index, PAIR_SENDS, 0) + fuzz_8(in),
                                       .handle = PAIR_HANDLE,
                                       .len = i < 8 ? fuzz_8(in) : 1};
        if (kind & 16)
            segs[i].addr = fuzz_number(in);
        if (pair->hostile && i < 4 && fuzz_8(in) == 255)
            segs[i].len = (uint32_t)fuzz_number(in);
        if (i || !(args.control & VIP_CTL_OP_MASK))
            args.length += segs[i].len;
    }
    post = remember(side, index, args.queue);
    if (post)
        *post = (struct pair_post){.control = args.control, .length = args.length};
    eng_post(side->eng, &args, pair->now_ns);
}

/* The connection has ended. Message numbers continue in the next connection. */
void pair_forget_conn(struct pair_vi *vi)
{
    vi->first_number = vi->next_number;
}
