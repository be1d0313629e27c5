/* Runs a script on two engines. Each byte of the input chooses a step or a detail of a step. */
#include "fuzz/pair.h"

static void *zeroed(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

    FUZZ_CHECK(memory);
    memset(memory, 0, bytes);
    return memory;
}

/* ---- VIs and connections ------------------------------------------------------------------- */

static void vi_create(struct pair *pair, unsigned side_index, unsigned index)
{
    struct pair_side *side = &pair->side[side_index];
    struct eng_vi_attrs attrs = {.level = pair->level,
                                 .max_transfer_bytes = PAIR_BUFFER,
                                 .enable_rdma_write = true,
                                 .enable_rdma_read = true};

    memset(side->vi[index].memory, 0, eng_vi_bytes());
    eng_vi_create(side->eng, (uint16_t)index, side->vi[index].memory, &attrs);
    side->vi[index].exists = true;
}

/* Connect VI `index` of one side to VI `index` of the other. Both must be Idle. */
static void connect_ends(struct pair *pair, unsigned index)
{
    pair->lives++;
    for (unsigned i = 0; i < 2; i++) {
        struct eng_conn conn = {.local_id = 2 * index + 1 + i,
                                .remote_id = 2 * index + 2 - i,
                                .local_epoch = 5 + i,
                                .remote_epoch = 6 - i,
                                .packet_bytes = pair->packet_bytes,
                                .window_bytes = pair->window_bytes,
                                .path = index,
                                .features = VIP_FEATURES};
        struct pair_vi *vi = &pair->side[i].vi[index];

        pair_forget_conn(vi);
        vi->seen = pair->side[!i].vi[index].next_number - 1;
        vi->life = pair->lives;
        pair->side[i].close_due[index] = false;
        if (i)
            eng_vi_set_pending(pair->side[i].eng, (uint16_t)index);
        eng_vi_connect(pair->side[i].eng, (uint16_t)index, &conn, pair->now_ns);
    }
}

static void disconnect(struct pair *pair, unsigned side_index, unsigned index)
{
    struct pair_side *side = &pair->side[side_index];
    uint32_t ops_done;

    if (!side->vi[index].exists)
        return;
    eng_vi_disconnect(side->eng, (uint16_t)index, &ops_done);
    pair_replay(pair, side_index);
    for (unsigned queue = 0; queue < 2; queue++)
        FUZZ_CHECK(side->vi[index].queue[queue].head == side->vi[index].queue[queue].tail);
    if (side->vi[index].life) {
        side->close_due[index] = true;
        side->close_life[index] = side->vi[index].life;
        side->close[index] = (struct eng_close){.ops_valid = true, .ops_done = ops_done};
    }
    side->vi[index].life = 0;
}

static void reconnect(struct pair *pair, unsigned index)
{
    for (unsigned i = 0; i < 2; i++) {
        disconnect(pair, i, index);
        if (!pair->side[i].vi[index].exists)
            vi_create(pair, i, index);
    }
    connect_ends(pair, index);
}

static void destroy(struct pair *pair, unsigned side_index, unsigned index)
{
    struct pair_side *side = &pair->side[side_index];
    struct pair_vi *vi = &side->vi[index];

    if (!vi->exists)
        return;
    /* The engine drops the VI's posted descriptors, without completions. */
    eng_vi_destroy(side->eng, (uint16_t)index);
    for (unsigned queue = 0; queue < 2; queue++)
        vi->queue[queue].head = vi->queue[queue].tail;
    memset(vi->recv_busy, 0, sizeof(vi->recv_busy));
    vi->exists = false;
    vi->life = 0;
    side->close_due[index] = false;
    pair_replay(pair, side_index);
}

/* ---- the script ------------------------------------------------------------------------------ */

static void upset(struct pair *pair, unsigned side, unsigned vi, struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in);
    struct eng_vi_stats stats;

    switch (how % 8) {
    case 0:
        disconnect(pair, side, vi);
        break;
    case 1:
    case 2:
        reconnect(pair, vi);
        break;
    case 3:
        destroy(pair, side, vi);
        break;
    case 4:
        pair->side[side].deny = !pair->side[side].deny;
        break;
    case 5:
        pair->side[side].no_segs = !pair->side[side].no_segs;
        break;
    case 6:
        pair_tell_closed(pair);
        break;
    default:
        if (!pair->side[side].vi[vi].exists)
            break;
        eng_vi_stats(pair->side[side].eng, (uint16_t)vi, &stats);
        FUZZ_CHECK(stats.send_depth == pair->side[side].vi[vi].queue[VIP_Q_SEND].tail -
                                           pair->side[side].vi[vi].queue[VIP_Q_SEND].head);
        FUZZ_CHECK(stats.recv_depth == pair->side[side].vi[vi].queue[VIP_Q_RECV].tail -
                                           pair->side[side].vi[vi].queue[VIP_Q_RECV].head);
    }
}

/* Pass to the engine the CLOSE of a hostile peer, with arbitrary numbers. */
static void close_lie(struct pair *pair, unsigned side, unsigned vi, struct fuzz_in *in)
{
    struct eng_close close = {.ops_valid = fuzz_8(in) & 1,
                              .ops_done = (uint32_t)fuzz_number(in),
                              .op_status = (uint32_t)fuzz_number(in),
                              .failed_op = (uint32_t)fuzz_number(in)};

    if (!pair->side[side].vi[vi].exists)
        return;
    eng_vi_closed(pair->side[side].eng, (uint16_t)vi, &close, pair->now_ns);
    pair_replay(pair, side);
}

static void exchange(struct pair *pair, unsigned rounds)
{
    while (rounds--)
        for (unsigned i = 0; i < 2; i++) {
            pair_pull(pair, i, 8);
            for (unsigned n = pair->side[i].flights; n; n--)
                pair_deliver(pair, i, 0);
        }
}

static void step(struct pair *pair, struct fuzz_in *in)
{
    uint8_t what = fuzz_8(in);
    unsigned side = what >> 7, vi = what >> 6 & 1;
    uint64_t next_ns;

    switch (what % 64 % 20) {
    case 0:
    case 1:
        pair_post_message(pair, side, vi, VIP_CTL_OP_SENDRECV, in);
        break;
    case 2:
    case 3:
    case 4:
        pair_post_recv(pair, side, vi, in);
        break;
    case 5:
        pair_post_message(pair, side, vi, VIP_CTL_OP_RDMAWRITE, in);
        break;
    case 6:
        pair_post_read(pair, side, vi, in);
        break;
    case 7:
        pair_post_odd(pair, side, vi, in);
        break;
    case 8:
    case 9:
        pair_pull(pair, side, 1 + fuzz_8(in) % 32);
        break;
    case 10:
    case 11:
        pair_deliver(pair, side, 0);
        break;
    case 12:
        pair_deliver(pair, side, fuzz_8(in) % PAIR_FLIGHTS);
        break;
    case 13:
        pair_drop(pair, side, fuzz_8(in) % PAIR_FLIGHTS);
        break;
    case 14:
        pair_double(pair, side, fuzz_8(in) % PAIR_FLIGHTS);
        break;
    case 15:
        pair_tick(pair, (uint64_t)fuzz_16(in) << fuzz_8(in) % 17);
        break;
    case 16:
        next_ns = eng_deadline(pair->side[side].eng);
        if (next_ns != ENG_NEVER)
            pair_tick(pair, next_ns > pair->now_ns ? next_ns - pair->now_ns : 0);
        break;
    case 17:
        upset(pair, side, vi, in);
        break;
    case 18:
        exchange(pair, 1 + what % 4);
        break;
    default:
        if (!pair->hostile)
            exchange(pair, 2);
        else if (vi && what & 32)
            close_lie(pair, side, vi, in);
        else
            pair_touch(pair, side, fuzz_8(in) % PAIR_FLIGHTS, in);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static void side_init(struct pair *pair, unsigned index, const struct eng_config *config)
{
    struct pair_side *side = &pair->side[index];

    side->pair = pair;
    side->index = index;
    memset(side->memory, 0, eng_bytes());
    side->eng = eng_init(side->memory, config, &pair_ops, side, pair->now_ns);
    for (unsigned vi = 0; vi < PAIR_VIS; vi++)
        vi_create(pair, index, vi);
}

/* Fill the memory that the peer's RDMA Reads read. Hostile runs may change it without a check. */
static void fill_sources(struct pair_side *side, unsigned index)
{
    for (unsigned vi = 0; vi < PAIR_VIS; vi++)
        for (unsigned slot = 0; slot < PAIR_SLOTS; slot++)
            for (uint32_t i = 0; i < PAIR_BUFFER; i++)
                side->mem[pair_addr(vi, PAIR_SOURCES, slot) + i] = pair_byte(index, vi, slot, i);
}

/* The big blocks are allocated once; their contents are reset for each input. */
static struct pair *pair_fresh(void)
{
    static struct pair *pair;

    if (!pair) {
        pair = zeroed(sizeof(*pair));
        for (unsigned i = 0; i < 2; i++) {
            pair->side[i].memory = zeroed(eng_bytes());
            pair->side[i].mem = zeroed(PAIR_MEM_BYTES);
            for (unsigned vi = 0; vi < PAIR_VIS; vi++)
                pair->side[i].vi[vi].memory = zeroed(eng_vi_bytes());
            fill_sources(&pair->side[i], i);
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        struct pair_side *side = &pair->side[i];

        side->flights = 0;
        side->now = NULL;
        side->segs = 0;
        side->deny = side->no_segs = false;
        memset(side->held_used, 0, sizeof(side->held_used));
        memset(side->close_due, 0, sizeof(side->close_due));
        for (unsigned vi = 0; vi < PAIR_VIS; vi++) {
            struct pair_vi *v = &side->vi[vi];

            v->queue[0].head = v->queue[0].tail = v->queue[1].head = v->queue[1].tail = 0;
            v->next_number = v->first_number = v->seen = v->life = 0;
            memset(v->recv_busy, 0, sizeof(v->recv_busy));
        }
    }
    return pair;
}

void pair_run(struct fuzz_in *in, bool hostile)
{
    static const uint16_t levels[] = {VIP_LVL_DELIVERY, VIP_LVL_RECEPTION, VIP_LVL_UNRELIABLE};
    struct eng_config config = ENG_CONFIG_DEFAULT;
    struct pair *pair = pair_fresh();
    uint8_t shape = fuzz_8(in);

    pair->now_ns = 1000000000;
    pair->hostile = hostile;
    pair->level = levels[shape % 3];
    pair->packet_bytes = VIP_PACKET_BYTES_MIN + (shape >> 2 & 3) * 512u;
    pair->window_bytes = shape & 16 ? 1u << 20 : 4096;
    pair->lives = 0;
    if (shape & 32)
        config.held_packets_max = 3;
    if (shape & 64)
        config.turn_packets = 1;
    if (shape & 128)
        config.skip_packets = 8;
    for (unsigned i = 0; i < 2; i++)
        side_init(pair, i, &config);
    for (unsigned vi = 0; vi < PAIR_VIS; vi++)
        connect_ends(pair, vi);
    while (fuzz_more(in))
        step(pair, in);
    if (!hostile)
        pair_settle(pair);
    for (unsigned i = 0; i < 2; i++)
        for (unsigned vi = 0; vi < PAIR_VIS; vi++) {
            disconnect(pair, i, vi);
            destroy(pair, i, vi);
        }
    for (unsigned i = 0; i < 2; i++) {
        FUZZ_CHECK(pair->side[i].segs == 0);
        for (unsigned token = 0; token < PAIR_HELD; token++)
            FUZZ_CHECK(!pair->side[i].held_used[token]);
    }
}
