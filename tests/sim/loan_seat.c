#include "tests/sim/loan_cast.h"

#include <stdlib.h>
#include <string.h>

#include "tests/eng_all.h"

#define VI     0
#define HANDLE 7u
#define TOKENS (sizeof(((struct seat *)0)->held) / sizeof(((struct seat *)0)->held[0]))

/* ---- operations of the engine ---------------------------------------------------------- */

static uint8_t *resolve(struct seat *seat, uint32_t handle, uint64_t addr, uint32_t len)
{
    if (handle != HANDLE || addr > sizeof(struct memory) || len > sizeof(struct memory) - addr)
        return NULL;
    return (uint8_t *)&seat->end->memory + addr;
}

static bool op_check(void *ctx, const struct eng_access *access)
{
    return resolve(ctx, access->handle, access->addr, access->len) != NULL;
}

/* An owner may be interrupted in the middle of a copy. */
static bool op_place(void *ctx, const struct eng_access *access, uint32_t payload_offset)
{
    struct seat *seat = ctx;
    uint8_t *to = resolve(seat, access->handle, access->addr, access->len);
    uint32_t half = access->len / 2;

    judge_seat(seat);
    if (!to || !seat->packet || payload_offset + access->len > seat->packet_len)
        return false;
    memcpy(to, seat->packet + payload_offset, half);
    if (seat->of_owner)
        program_pause(seat->end);
    judge_seat(seat);
    memcpy(to + half, seat->packet + payload_offset + half, access->len - half);
    return true;
}

static void op_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status,
                        uint32_t length, uint64_t imm)
{
    struct seat *seat = ctx;

    (void)vi;
    (void)imm;
    judge_seat(seat);
    judge_complete(seat, queue, status, length);
    if (seat->of_owner)
        program_pause(seat->end);
}

static void op_event(void *ctx, const struct eng_event *event)
{
    struct seat *seat = ctx;
    struct end *end = seat->end;
    struct world *world = end->world;

    if (event->kind != ENG_EVENT_BROKEN)
        return;
    loan_trace(world, "%u broken: %s", end->index, event->why);
    if (!end->over && !peer_of(end)->over && !world->end[0].program.scribbles &&
        !world->end[1].program.scribbles && !peer_of(end)->stalled_long && !end->stalled_long)
        loan_fail(world, "end %u: the connection broke: %s", end->index, event->why);
    end->over = true;
    medium_close(world->medium, !end->index, 0, &(struct eng_close){.why = "broken"},
                 world->now_ns);
}

static void op_fetch(void *ctx)
{
    seat_feed(ctx);
}

/* No descriptor has more segments than the engine keeps in its own memory. */
static struct vip_shm_seg *op_segs_alloc(void *ctx, unsigned count)
{
    (void)count;
    loan_fail(((struct seat *)ctx)->end->world, "the engine asks for memory");
}

static void op_segs_free(void *ctx, struct vip_shm_seg *segs, unsigned count)
{
    (void)ctx;
    (void)segs;
    (void)count;
}

static const struct eng_ops OPS = {.check = op_check,
                                   .place = op_place,
                                   .complete = op_complete,
                                   .event = op_event,
                                   .fetch_posts = op_fetch,
                                   .segs_alloc = op_segs_alloc,
                                   .segs_free = op_segs_free};

static void *zeroed(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

    memset(memory, 0, bytes);
    return memory;
}

/* ---- the engine ------------------------------------------------------------------------ */

static void replay(struct seat *seat)
{
    uint32_t token;
    uint16_t vi;
    bool feed;

    while (eng_replay(seat->eng, &vi, &token, &feed)) {
        uint8_t *bytes = seat->held[token];

        seat->held[token] = NULL;
        seat->current = bytes;
        if (feed) {
            seat->packet = bytes;
            seat->packet_len = seat->held_len[token];
            vip_wire_get_data(bytes, seat->packet_len, &seat->decoded);
            eng_rx_replay(seat->eng, vi, &seat->decoded, seat->end->world->now_ns);
            seat->packet = NULL;
        }
        seat->current = NULL;
        free(bytes);
    }
}

/* vipd's checkpoint is always the present one. */
static void note(struct seat *seat)
{
    if (!seat->of_owner && seat->live)
        seat->end->home = seat_checkpoint(seat);
}

void seat_begin(struct seat *seat, struct end *end, bool of_owner)
{
    struct world *world = end->world;
    struct eng_config config = ENG_CONFIG_DEFAULT;

    memset(seat, 0, sizeof(*seat));
    seat->end = end;
    seat->of_owner = of_owner;
    config.conn_timeout_ns = CONN_NS;
    config.congestion = world->args.seed % 3 ? ENG_CONGESTION_FIXED : ENG_CONGESTION_DELAY;
    config.seed = world->args.seed + end->index;
    config.start_op = world->start_op;
    seat->eng = eng_init(zeroed(eng_bytes()), &config, &OPS, seat, world->now_ns);
}

static void vi_end(struct seat *seat)
{
    if (!seat->vi)
        return;
    eng_vi_destroy(seat->eng, VI);
    replay(seat);
    free(seat->vi);
    seat->vi = NULL;
    seat->live = false;
}

/* The engine may be in the middle of a call, if its program is dead or stands still. So only its
 * memory is freed. */
void seat_free(struct seat *seat)
{
    for (uint32_t i = 0; i < TOKENS; i++)
        free(seat->held[i]);
    free(seat->current);
    free(seat->vi);
    free(seat->eng);
    memset(seat, 0, sizeof(*seat));
}

static void vi_begin(struct seat *seat)
{
    struct eng_vi_attrs attrs = {.level = seat->end->world->args.seed & 1 ? VIP_LVL_RECEPTION
                                                                          : VIP_LVL_DELIVERY,
                                 .max_transfer_bytes = VIP_TRANSFER_BYTES_MAX,
                                 .enable_rdma_write = true,
                                 .enable_rdma_read = true};

    vi_end(seat);
    seat->vi = zeroed(eng_vi_bytes());
    eng_vi_create(seat->eng, VI, seat->vi, &attrs);
}

static struct eng_conn conn_of(const struct seat *seat)
{
    return (struct eng_conn){.local_id = seat->binding.number + 1ull,
                             .remote_id = seat->binding.peer + 1ull,
                             .local_epoch = 1,
                             .remote_epoch = 1,
                             .packet_bytes = PACKET_BYTES,
                             .window_bytes = 262144};
}

void seat_connect(struct seat *seat)
{
    struct eng_conn conn;

    seat->binding = (struct binding){.number = seat->end->world->start_number,
                                     .peer = seat->end->world->start_number};
    conn = conn_of(seat);
    vi_begin(seat);
    eng_vi_connect(seat->eng, VI, &conn, seat->end->world->now_ns);
    seat->live = true;
    seat_feed(seat);
    note(seat);
}

void seat_restore(struct seat *seat, const struct vip_loan_checkpoint *from)
{
    uint32_t start_op = seat->end->world->start_op;
    struct eng_conn conn = conn_of(seat);

    vi_begin(seat);
    eng_vi_restore(seat->eng, VI, &conn, from->completed, from->done, seat->end->world->now_ns);
    seat->sends_fed = seat->sends_done = from->completed - start_op;
    seat->recvs_fed = seat->recvs_done = from->received;
    seat_feed(seat);
}

void seat_pause(struct seat *seat)
{
    if (seat->live && eng_vi_state(seat->eng, VI) == VIP_VIST_CONNECTED) {
        eng_vi_pause(seat->eng, VI);
        replay(seat);
        note(seat);
    }
    seat->live = false;
}

struct vip_counts seat_counts(struct seat *seat)
{
    struct vip_counts counts;

    eng_vi_counts(seat->eng, VI, &counts);
    return counts;
}

bool seat_rebind(struct seat *seat, const struct binding *binding, const struct vip_counts *peer)
{
    struct eng_conn conn;

    seat->binding = *binding;
    conn = conn_of(seat);
    judge_seat(seat);
    if (eng_vi_rebind(seat->eng, VI, &conn, peer, seat->end->world->now_ns))
        return false;
    seat->live = true;
    replay(seat);
    note(seat);
    return true;
}

struct vip_loan_checkpoint seat_checkpoint(const struct seat *seat)
{
    return (struct vip_loan_checkpoint){.done = eng_vi_done(seat->eng, VI),
                                        .received = seat->recvs_done,
                                        .completed = eng_vi_completed(seat->eng, VI)};
}

/* ---- posting --------------------------------------------------------------------------- */

static struct vip_shm_seg seg_of(const struct end *end, const uint8_t *bytes, uint32_t len)
{
    return (struct vip_shm_seg){
        .addr = (uint64_t)(bytes - (const uint8_t *)&end->memory), .handle = HANDLE, .len = len};
}

static void feed_send(struct seat *seat)
{
    static const uint16_t control[] = {VIP_CTL_OP_SENDRECV, VIP_CTL_OP_RDMAWRITE,
                                       VIP_CTL_OP_RDMAREAD};
    struct end *end = seat->end, *peer = peer_of(end);
    uint32_t number = seat->sends_fed++;
    struct message message = message_of(end, number);
    struct vip_shm_seg segs[2];
    struct eng_post post = {.vi = VI,
                            .queue = VIP_Q_SEND,
                            .control = control[message.kind],
                            .length = message.len,
                            .app_segs = segs};

    if (message.kind == KIND_WRITE)
        segs[post.seg_count++] = seg_of(peer, peer->memory.window + message.target, 0);
    if (message.kind == KIND_READ)
        segs[post.seg_count++] = seg_of(peer, peer->memory.readable + message.target, 0);
    if (message.len)
        segs[post.seg_count++] =
            seg_of(end,
                   message.kind == KIND_READ ? end->memory.landing[number % DEPTH]
                                             : end->memory.source[number % DEPTH],
                   message.len);
    eng_post(seat->eng, &post, end->world->now_ns);
}

static void feed_receive(struct seat *seat)
{
    struct end *end = seat->end;
    struct vip_shm_seg seg =
        seg_of(end, end->memory.slot[seat->recvs_fed++ % DEPTH], MESSAGE_BYTES);
    struct eng_post post = {.vi = VI, .queue = VIP_Q_RECV, .seg_count = 1, .app_segs = &seg};

    post.length = MESSAGE_BYTES;
    eng_post(seat->eng, &post, end->world->now_ns);
}

void seat_feed(struct seat *seat)
{
    if (!seat->vi)
        return;
    while (seat->recvs_fed != seat->end->recvs_posted)
        feed_receive(seat);
    while (seat->sends_fed != seat->end->sends_posted)
        feed_send(seat);
}

/* ---- packets --------------------------------------------------------------------------- */

static uint32_t token_free(const struct seat *seat)
{
    for (uint32_t i = 1; i < TOKENS; i++)
        if (!seat->held[i])
            return i;
    loan_fail(seat->end->world, "no token left");
}

void seat_receive(struct seat *seat, struct packet packet)
{
    struct world *world = seat->end->world;
    uint32_t len = packet.len - (uint32_t)sizeof(struct wire), token;
    enum eng_rx_verdict verdict;
    struct wire wire;

    memcpy(&wire, packet.bytes, sizeof(wire));
    if (!seat->live || wire.number != seat->binding.peer || wire.peer != seat->binding.number ||
        eng_vi_state(seat->eng, VI) != VIP_VIST_CONNECTED) {
        free(packet.bytes);
        return;
    }
    judge_seat(seat);
    memmove(packet.bytes, packet.bytes + sizeof(wire), len);
    if (vip_wire_get_data(packet.bytes, len, &seat->decoded) != VIP_WIRE_OK)
        loan_fail(world, "malformed packet");
    token = token_free(seat);
    seat->current = packet.bytes;
    seat->packet = packet.bytes;
    seat->packet_len = len;
    verdict = eng_rx(seat->eng, VI, &seat->decoded, token, world->now_ns);
    seat->packet = NULL;
    seat->current = NULL;
    if (verdict == ENG_RX_HOLD) {
        seat->held[token] = packet.bytes;
        seat->held_len[token] = len;
    } else {
        free(packet.bytes);
    }
    replay(seat);
    note(seat);
}

void seat_tick(struct seat *seat)
{
    if (!seat->live || eng_deadline(seat->eng) > seat->end->world->now_ns)
        return;
    judge_seat(seat);
    eng_tick_all(seat->eng, seat->end->world->now_ns);
    replay(seat);
    note(seat);
}

bool seat_send(struct seat *seat)
{
    struct world *world = seat->end->world;
    struct eng_packet *out = &seat->out;
    uint8_t bytes[PACKET_BYTES];
    uint32_t at = 0;

    if (!seat->live || !eng_pull_any(seat->eng, out, world->now_ns))
        return false;
    judge_seat(seat);
    for (unsigned i = 0; i < out->piece_count; i++) {
        const struct eng_piece *piece = &out->piece[i];
        const uint8_t *from = piece->from_region
                                  ? resolve(seat, piece->handle, piece->addr, piece->len)
                                  : out->head + piece->offset;

        if (!from || at + piece->len > sizeof(bytes))
            loan_fail(world, "a piece of a packet is wrong");
        memcpy(bytes + at, from, piece->len);
        at += piece->len;
    }
    note(seat);
    if (seat->of_owner && seat->end->shut)
        return true; /* the kernel refuses it */
    wire_send(seat->end,
              &(struct wire){.kind = WIRE_DATA,
                             .socket = seat->binding.peer_socket,
                             .number = seat->binding.number,
                             .peer = seat->binding.peer},
              bytes, at);
    return true;
}

uint64_t seat_timer_ns(const struct seat *seat)
{
    uint64_t now_ns = seat->end->world->now_ns, at_ns;

    if (!seat->live)
        return 0;
    if (eng_tx_ready(seat->eng) || seat->sends_fed != seat->end->sends_posted)
        return now_ns;
    at_ns = eng_deadline(seat->eng);
    return at_ns == ENG_NEVER ? 0 : at_ns > now_ns ? at_ns : now_ns;
}
