#include "tests/sim/app.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/rand.h"

#define FLOWS_MAX   6
#define MSGS_MAX    2000
#define CANARY      64u
#define CANARY_BYTE 0xee
#define PATTERN     65521u /* a prime, so that a shift by a round number changes the bytes */
#define SLOTS       12u
#define WINDOW      (512u * 1024)

enum msg_kind { MSG_SEND, MSG_WRITE, MSG_WRITE_IMM, MSG_READ };

/* One operation of a flow. Its values are chosen when it is posted. */
struct msg {
    enum msg_kind kind;
    uint32_t len;
    uint32_t start;  /* position of its first byte in the pattern */
    uint32_t target; /* offset in the peer's window, or in the memory to read */
    bool imm, fence;
};

/* One direction of a connection: the applications of its sender and its receiver. */
struct flow {
    struct app *app;
    unsigned from, to; /* numbers of the two hosts */
    uint16_t vi_from, vi_to;
    bool reliable;
    uint32_t total, depth, size_max;
    struct sim_rand rand;
    struct msg msg[MSGS_MAX];
    uint32_t posted, completed; /* numbers of send descriptors */
    uint32_t consuming;         /* number of posted messages that use up a receive */
    uint32_t received;          /* index of the next message at the receiver */
    uint32_t recv_posted, recv_completed, recv_waiting; /* recv_waiting: due, not yet posted */
    uint64_t verified;
    struct sim_mem source, slots, window, readable, landing;
    uint8_t *shadow;           /* expected content of the window */
    bool send_over, recv_over; /* an error has ended the connection: only errors may follow */
    bool starve;               /* the receiver stops posting */
    uint32_t starve_after;
};

struct app {
    struct sim *sim;
    struct sim_rand rand;
    struct flow flow[FLOWS_MAX];
    unsigned flows;
    uint16_t level;
    uint32_t packet_bytes, window_bytes;
    unsigned broken, conn_lost; /* numbers of events seen */
    bool end_expected;          /* connections may end with errors */
    bool rebind;
};

static uint8_t pattern[PATTERN];

static void pattern_make(void)
{
    struct sim_rand rand = {.state = 4711};

    for (unsigned i = 0; i < PATTERN; i++)
        pattern[i] = (uint8_t)sim_rand(&rand);
}

static void pattern_fill(uint8_t *to, uint32_t len)
{
    for (uint32_t at = 0; at < len; at += PATTERN)
        memcpy(to + at, pattern, len - at < PATTERN ? len - at : PATTERN);
}

static bool pattern_is(const uint8_t *bytes, uint32_t start, uint32_t len)
{
    while (len) {
        uint32_t part = PATTERN - start < len ? PATTERN - start : len;

        if (memcmp(bytes, pattern + start, part) != 0)
            return false;
        bytes += part;
        len -= part;
        start = 0;
    }
    return true;
}

static void pattern_copy(uint8_t *to, uint32_t start, uint32_t len)
{
    while (len) {
        uint32_t part = PATTERN - start < len ? PATTERN - start : len;

        memcpy(to, pattern + start, part);
        to += part;
        len -= part;
        start = 0;
    }
}

/* ---- posting --------------------------------------------------------------------------- */

static uint32_t random_size(struct flow *flow)
{
    uint32_t limit = flow->size_max;

    switch (sim_below(&flow->rand, 8)) {
    case 0:
        return 0;
    case 1:
        return sim_below(&flow->rand, limit + 1);
    case 2:
        return sim_below(&flow->rand, (limit < 65536 ? limit : 65536) + 1);
    case 3:
        /* Choose a size near the packet size. */
        limit = flow->app->packet_bytes - 104 - 3 + sim_below(&flow->rand, 7);
        return limit < flow->size_max ? limit : flow->size_max;
    default:
        return sim_below(&flow->rand, (limit < 300 ? limit : 300) + 1);
    }
}

/* Describe [offset, offset + len) of a region by a random number of segments. */
static unsigned cut(struct flow *flow, struct vip_shm_seg *segs, const struct sim_mem *mem,
                    uint32_t offset, uint32_t len)
{
    unsigned count = 1;

    if (sim_chance(&flow->rand, 250000))
        count = 1 + sim_below(&flow->rand, 6);
    if (sim_chance(&flow->rand, 20000))
        count = 1 + sim_below(&flow->rand, VIP_SEGS_PER_DESC_MAX - 1);
    if (!len && sim_chance(&flow->rand, 500000))
        return 0;
    for (unsigned i = 0; i < count; i++) {
        uint32_t part = i + 1 == count ? len : sim_below(&flow->rand, 2 * len / (count - i) + 1);

        if (part > len)
            part = len;
        segs[i] =
            (struct vip_shm_seg){.addr = mem->addr + offset, .handle = mem->handle, .len = part};
        offset += part;
        len -= part;
    }
    return count;
}

static void recv_post(struct flow *flow)
{
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX];
    uint32_t slot_bytes = flow->size_max + 2 * CANARY;
    uint32_t offset = flow->recv_posted % SLOTS * slot_bytes;
    struct eng_post post = {
        .vi = flow->vi_to, .queue = VIP_Q_RECV, .control = VIP_CTL_IMMEDIATE, .app_segs = segs};

    memset(flow->slots.bytes + offset, CANARY_BYTE, CANARY);
    post.seg_count = (uint16_t)cut(flow, segs, &flow->slots, offset + CANARY, flow->size_max);
    flow->recv_posted++;
    flow->recv_waiting--;
    sim_post(flow->app->sim, flow->to, &post);
}

static void decide(struct flow *flow, struct msg *msg)
{
    uint32_t dice = sim_below(&flow->rand, 10);

    msg->kind = dice < 6 ? MSG_SEND : dice < 8 ? MSG_WRITE : MSG_WRITE_IMM;
    if (flow->reliable && sim_below(&flow->rand, 12) == 0)
        msg->kind = MSG_READ;
    msg->len = random_size(flow);
    if (msg->kind != MSG_SEND && msg->len > WINDOW)
        msg->len = WINDOW;
    msg->start = sim_below(&flow->rand, PATTERN);
    msg->target = sim_below(&flow->rand, WINDOW - msg->len + 1);
    if (msg->kind == MSG_READ)
        msg->target = msg->start;
    msg->imm = msg->kind == MSG_WRITE_IMM ||
               (msg->kind == MSG_SEND && (!flow->reliable || sim_below(&flow->rand, 2)));
    msg->fence = sim_below(&flow->rand, 10) == 0;
}

static bool consumes(const struct msg *msg)
{
    return msg->kind == MSG_SEND || msg->kind == MSG_WRITE_IMM;
}

static bool send_post(struct flow *flow)
{
    static const uint16_t control[] = {VIP_CTL_OP_SENDRECV, VIP_CTL_OP_RDMAWRITE,
                                       VIP_CTL_OP_RDMAWRITE, VIP_CTL_OP_RDMAREAD};
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX];
    struct msg *msg = &flow->msg[flow->posted];
    struct eng_post post = {.vi = flow->vi_from, .queue = VIP_Q_SEND, .app_segs = segs};

    /* The sender posts no more messages than the peer has receive descriptors for. */
    if (flow->reliable && !flow->starve &&
        flow->consuming >= flow->recv_posted + flow->recv_waiting)
        return false;
    decide(flow, msg);
    post.control = control[msg->kind];
    if (msg->imm)
        post.control |= VIP_CTL_IMMEDIATE;
    if (msg->fence)
        post.control |= VIP_CTL_QFENCE;
    post.imm = flow->posted;
    post.length = msg->len;
    if (msg->kind != MSG_SEND) {
        const struct sim_mem *mem = msg->kind == MSG_READ ? &flow->readable : &flow->window;

        segs[post.seg_count++] =
            (struct vip_shm_seg){.addr = mem->addr + msg->target, .handle = mem->handle};
    }
    if (msg->kind == MSG_READ)
        post.seg_count = (uint16_t)(1 + (msg->len > 0));
    if (msg->kind == MSG_READ && msg->len)
        segs[1] = (struct vip_shm_seg){.addr = flow->landing.addr +
                                               (uint64_t)(flow->posted % SLOTS) * WINDOW,
                                       .handle = flow->landing.handle,
                                       .len = msg->len};
    if (msg->kind == MSG_SEND)
        post.seg_count = (uint16_t)cut(flow, segs, &flow->source, msg->start, msg->len);
    else if (msg->kind != MSG_READ)
        post.seg_count += (uint16_t)cut(flow, segs + 1, &flow->source, msg->start, msg->len);
    flow->posted++;
    if (consumes(msg))
        flow->consuming++;
    sim_post(flow->app->sim, flow->from, &post);
    return true;
}

static void poll(void *ctx)
{
    struct app *app = ctx;

    for (unsigned i = 0; i < app->flows; i++) {
        struct flow *flow = &app->flow[i];

        while (flow->recv_waiting && !flow->recv_over && sim_below(&app->rand, 2))
            recv_post(flow);
        while (flow->posted < flow->total && flow->posted - flow->completed < flow->depth &&
               !flow->send_over)
            if (!send_post(flow))
                break;
    }
}

static void fetch(void *ctx, unsigned host)
{
    struct app *app = ctx;

    for (unsigned i = 0; i < app->flows; i++)
        while (app->flow[i].to == host && app->flow[i].recv_waiting && !app->flow[i].recv_over)
            recv_post(&app->flow[i]);
}

/* ---- judging --------------------------------------------------------------------------- */

/* Check that all RDMA Writes in [from, to) are in place. Where they overlap, the last counts. */
static void writes_check(struct flow *flow, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const struct msg *msg = &flow->msg[i];

        if (msg->kind == MSG_WRITE || msg->kind == MSG_WRITE_IMM)
            pattern_copy(flow->shadow + msg->target, msg->start, msg->len);
    }
    for (uint32_t i = from; i < to; i++) {
        const struct msg *msg = &flow->msg[i];

        if ((msg->kind == MSG_WRITE || msg->kind == MSG_WRITE_IMM) &&
            memcmp(flow->shadow + msg->target, flow->window.bytes + msg->target, msg->len) != 0)
            sim_fail(flow->app->sim, "RDMA Write %u of %u bytes is not in place", i, msg->len);
    }
}

/* Returns the message of the latest completed receive. Earlier RDMA Writes must be in place. */
static const struct msg *message_next(struct flow *flow, uint64_t imm)
{
    if (!flow->reliable) {
        if (imm < flow->received || imm >= flow->posted)
            sim_fail(flow->app->sim, "message %" PRIu64 " twice, out of order or invented", imm);
        flow->received = (uint32_t)imm + 1;
        return &flow->msg[imm];
    }
    for (uint32_t i = flow->received; i < flow->posted; i++) {
        if (!consumes(&flow->msg[i]))
            continue;
        writes_check(flow, flow->received, i + 1);
        flow->received = i + 1;
        return &flow->msg[i];
    }
    sim_fail(flow->app->sim, "a message that nobody sent");
}

static void recv_good(struct flow *flow, uint32_t status, uint32_t length, uint64_t imm)
{
    uint32_t slot_bytes = flow->size_max + 2 * CANARY;
    uint8_t *slot = flow->slots.bytes + flow->recv_completed % SLOTS * slot_bytes;
    const struct msg *msg = message_next(flow, imm);
    uint32_t op = msg->kind == MSG_SEND ? VIP_ST_OP_RECEIVE : VIP_ST_OP_REMOTE_RDMA_WRITE;
    uint32_t used = msg->kind == MSG_SEND ? length : 0;
    /* Before a rebind the engine may have put a longer, lost message into this buffer. */
    uint32_t end = flow->app->rebind && !flow->reliable ? flow->size_max : used;

    if (length != msg->len)
        sim_fail(flow->app->sim, "received %u of %u bytes", length, msg->len);
    if (status != (VIP_ST_DONE | op | (msg->imm ? VIP_ST_IMMEDIATE : 0)))
        sim_fail(flow->app->sim, "status %x of a receive", status);
    if (msg->imm && imm != (uint64_t)(msg - flow->msg))
        sim_fail(flow->app->sim, "immediate data");
    if (msg->kind == MSG_SEND && !pattern_is(slot + CANARY, msg->start, length))
        sim_fail(flow->app->sim, "the bytes of message %u differ", flow->received - 1);
    if (msg->kind == MSG_WRITE_IMM &&
        !pattern_is(flow->window.bytes + msg->target, msg->start, length))
        sim_fail(flow->app->sim, "RDMA Write with immediate data is not in place");
    for (uint32_t i = 0; i < CANARY; i++)
        if (slot[i] != CANARY_BYTE || slot[CANARY + end + i] != CANARY_BYTE)
            sim_fail(flow->app->sim, "a byte outside of the message was written");
    memset(slot + CANARY, CANARY_BYTE, end);
    flow->verified++;
}

static void recv_complete(struct flow *flow, uint32_t status, uint32_t length, uint64_t imm)
{
    uint32_t slot_bytes = flow->size_max + 2 * CANARY;

    if (flow->recv_completed == flow->recv_posted)
        sim_fail(flow->app->sim, "a receive completed that was not posted");
    if (!(status & VIP_ST_ERROR_MASK)) {
        if (flow->recv_over)
            sim_fail(flow->app->sim, "success after an error");
        recv_good(flow, status, length, imm);
    } else if (!flow->reliable && (status & VIP_ST_PARTIAL_ERROR)) {
        memset(flow->slots.bytes + flow->recv_completed % SLOTS * slot_bytes, CANARY_BYTE,
               slot_bytes);
    } else if (flow->app->end_expected) {
        flow->recv_over = true;
    } else {
        sim_fail(flow->app->sim, "status %x of a receive", status);
    }
    flow->recv_completed++;
    if (!flow->recv_over && !(flow->starve && flow->recv_posted > flow->starve_after))
        flow->recv_waiting++;
}

static void send_complete(struct flow *flow, uint32_t status, uint32_t length)
{
    static const uint32_t op[] = {VIP_ST_OP_SEND, VIP_ST_OP_RDMA_WRITE, VIP_ST_OP_RDMA_WRITE,
                                  VIP_ST_OP_RDMA_READ};
    const struct msg *msg = &flow->msg[flow->completed];

    if (flow->completed == flow->posted)
        sim_fail(flow->app->sim, "a send completed that was not posted");
    if (length != msg->len || (status & VIP_ST_OP_MASK) != op[msg->kind])
        sim_fail(flow->app->sim, "completion of another send: %x, %u bytes", status, length);
    if (status & VIP_ST_ERROR_MASK) {
        if (!flow->app->end_expected)
            sim_fail(flow->app->sim, "status %x of a send", status);
        flow->send_over = true;
    } else if (flow->send_over) {
        sim_fail(flow->app->sim, "success after an error");
    } else if (msg->kind == MSG_READ &&
               !pattern_is(flow->landing.bytes + (uint64_t)(flow->completed % SLOTS) * WINDOW,
                           msg->start, msg->len)) {
        sim_fail(flow->app->sim, "the bytes of read %u differ", flow->completed);
    }
    flow->completed++;
}

static void complete(void *ctx, unsigned host, uint16_t vi, enum vip_queue queue, uint32_t status,
                     uint32_t length, uint64_t imm)
{
    struct app *app = ctx;

    for (unsigned i = 0; i < app->flows; i++) {
        struct flow *flow = &app->flow[i];

        if (queue == VIP_Q_SEND && flow->from == host && flow->vi_from == vi)
            send_complete(flow, status, length);
        if (queue == VIP_Q_RECV && flow->to == host && flow->vi_to == vi)
            recv_complete(flow, status, length, imm);
    }
}

static void event(void *ctx, unsigned host, const struct eng_event *event)
{
    struct app *app = ctx;

    (void)host;
    if (event->kind == ENG_EVENT_BROKEN)
        app->broken++;
    if (event->kind == ENG_EVENT_ERROR && event->code == VIP_EC_CONN_LOST)
        app->conn_lost++;
    if (event->kind == ENG_EVENT_BROKEN && !app->end_expected)
        sim_fail(app->sim, "the connection broke: %s", event->why);
}

/* ---- a run ----------------------------------------------------------------------------- */

static void flow_start(struct app *app, unsigned from, uint16_t vi_from, unsigned to,
                       uint16_t vi_to, uint32_t total)
{
    struct flow *flow = &app->flow[app->flows++];

    flow->app = app;
    flow->from = from;
    flow->to = to;
    flow->vi_from = vi_from;
    flow->vi_to = vi_to;
    flow->reliable = app->level != VIP_LVL_UNRELIABLE;
    flow->total = total;
    flow->rand.state = sim_rand(&app->rand);
    flow->depth = 1 + sim_below(&app->rand, SLOTS - 1);
    flow->source = sim_register(app->sim, from, flow->size_max + PATTERN, 0);
    flow->slots = sim_register(app->sim, to, SLOTS * (flow->size_max + 2 * CANARY), 0);
    flow->window = sim_register(app->sim, to, WINDOW, SIM_REMOTE_WRITE);
    flow->readable = sim_register(app->sim, to, WINDOW + PATTERN, SIM_REMOTE_READ);
    flow->landing = sim_register(app->sim, from, flow->reliable ? SLOTS * WINDOW : 0, 0);
    flow->shadow = calloc(1, WINDOW);
    pattern_fill(flow->source.bytes, flow->source.len);
    pattern_fill(flow->readable.bytes, flow->readable.len);
    memset(flow->slots.bytes, CANARY_BYTE, flow->slots.len);
    flow->recv_waiting = 1 + sim_below(&app->rand, SLOTS);
    while (flow->recv_waiting)
        recv_post(flow);
}

/* True if all sends have completed and, at a reliable level, all messages are received. */
static bool flow_done(const struct flow *flow)
{
    uint32_t left = 0;

    if (flow->send_over)
        return flow->completed == flow->posted && flow->recv_completed == flow->recv_posted;
    for (uint32_t i = flow->received; flow->reliable && i < flow->posted; i++)
        left += consumes(&flow->msg[i]);
    return flow->posted == flow->total && flow->completed == flow->total && !left;
}

static bool all_done(void *ctx)
{
    const struct app *app = ctx;

    for (unsigned i = 0; i < app->flows; i++)
        if (!flow_done(&app->flow[i]))
            return false;
    return true;
}

static uint32_t choose(struct sim_rand *rand, const uint32_t *from, unsigned count)
{
    return from[sim_below(rand, count)];
}

static struct sim_config random_config(struct app *app, const struct app_args *args)
{
    static const uint32_t losses[] = {0, 0, 1000, 10000, 50000, 200000};
    static const uint32_t dups[] = {0, 0, 1000, 20000};
    static const uint32_t orders[] = {0, 0, 5000, 50000};
    static const uint32_t delays[] = {1000, 10000, 50000, 1000000};
    static const uint32_t rates[] = {0, 0, 100000000, 1000000000};
    struct sim_config config = {
        .seed = args->seed, .hosts = 2, .engine = ENG_CONFIG_DEFAULT, .trace = args->trace};
    struct sim_rand *rand = &app->rand;

    config.engine.conn_timeout_ns = 4000000000; /* time limits in this file depend on it */
    config.link.loss = choose(rand, losses, 6);
    config.link.dup = choose(rand, dups, 4);
    config.link.reorder = choose(rand, orders, 4);
    config.link.delay_ns = choose(rand, delays, 4);
    config.link.jitter_ns = sim_below(rand, 2) ? config.link.delay_ns / 2 : 0;
    config.link.reorder_ns = 1 + sim_below(rand, 2000000);
    config.link.bytes_per_s = choose(rand, rates, 4);
    config.link.queue_bytes = config.link.bytes_per_s && sim_below(rand, 2) ? 300000 : 0;
    if (args->loss_ppm != UINT32_MAX)
        config.link.loss = args->loss_ppm;
    if (sim_below(rand, 3) == 0)
        config.engine.held_packets_max = 1 + sim_below(rand, 8);
    config.app = (struct sim_app){
        .complete = complete, .event = event, .fetch = fetch, .poll = poll, .ctx = app};
    return config;
}

/* At the end of a run check the window: only RDMA Writes may have changed its bytes. */
static void flow_finish(struct flow *flow)
{
    if (!flow->reliable || flow->send_over || flow->recv_over)
        return;
    writes_check(flow, flow->received, flow->posted);
    if (memcmp(flow->shadow, flow->window.bytes, WINDOW) != 0)
        sim_fail(flow->app->sim, "the RDMA target has bytes that nobody wrote");
}

static const char *run_plain(struct app *app)
{
    uint64_t faults_ns = sim_now(app->sim) + 5000000000ull;

    if (!sim_run_until(app->sim, faults_ns, all_done, app)) {
        /* The faults end here; then all messages must complete. */
        sim_link(app->sim)->loss = sim_link(app->sim)->dup = sim_link(app->sim)->reorder = 0;
        if (!all_done(app) && !sim_run_until(app->sim, faults_ns + 60000000000ull, all_done, app))
            sim_fail(app->sim, "no progress");
    }
    if (!sim_run(app->sim, sim_now(app->sim) + 10000000000ull))
        sim_fail(app->sim, "timers run although there is nothing to do");
    return "plain";
}

/* Like run_plain, but connections are bound anew at random times. */
static const char *run_rebind(struct app *app, const struct app_args *args)
{
    struct sim_rand rand = {.state = args->seed * 31 + 7};
    uint64_t end_ns = sim_now(app->sim) + 5000000000ull, gap_ns = 1 + sim_below(&rand, 50000000);

    while (!all_done(app) && sim_now(app->sim) < end_ns) {
        const struct flow *flow = &app->flow[sim_below(&rand, app->flows)];

        if (sim_run_until(app->sim, sim_now(app->sim) + 1 + sim_below(&rand, (uint32_t)gap_ns),
                          all_done, app))
            break;
        (void)sim_rebind(app->sim, flow->from, flow->vi_from, sim_below(&rand, 4));
    }
    (void)run_plain(app);
    return "rebind";
}

static void expect_over(struct app *app)
{
    for (unsigned i = 0; i < app->flows; i++) {
        struct flow *flow = &app->flow[i];

        if (flow->completed != flow->posted || flow->recv_completed != flow->recv_posted)
            sim_fail(app->sim, "descriptors were left behind");
        if (eng_vi_state(sim_engine(app->sim, flow->from), flow->vi_from) == VIP_VIST_CONNECTED)
            sim_fail(app->sim, "still connected");
    }
}

static const char *run_disconnect(struct app *app)
{
    app->end_expected = true;
    sim_run(app->sim, sim_now(app->sim) + sim_below(&app->rand, 20000000));
    for (unsigned i = 0; i < app->flows; i += 2) {
        sim_disconnect(app->sim, app->flow[i].from, app->flow[i].vi_from);
        /* Post no more receive descriptors: an Idle VI would keep them for the next connection. */
        app->flow[i + 1].recv_over = true;
    }
    sim_run(app->sim, sim_now(app->sim) + 100000000);
    expect_over(app);
    return "disconnect";
}

/* No packet arrives any more: each side must break its connection by its own time limit. */
static const char *run_dead(struct app *app)
{
    app->end_expected = true;
    sim_run(app->sim, sim_now(app->sim) + sim_below(&app->rand, 20000000));
    if (all_done(app))
        return "dead (done before)";
    sim_link(app->sim)->dead = true;
    sim_run(app->sim, sim_now(app->sim) + 6000000000ull);
    if (app->level == VIP_LVL_UNRELIABLE) {
        if (app->broken)
            sim_fail(app->sim, "an unreliable connection broke");
    } else if (!app->broken && !all_done(app)) {
        sim_fail(app->sim, "a dead network was not noticed");
    }
    return "dead";
}

static const char *run_starve(struct app *app)
{
    struct flow *flow = &app->flow[0];

    flow->starve = true;
    flow->starve_after = sim_below(&app->rand, 30);
    app->end_expected = app->level != VIP_LVL_UNRELIABLE;
    sim_run(app->sim, sim_now(app->sim) + 60000000000ull);
    if (flow->reliable && !flow->send_over && !flow_done(flow))
        sim_fail(app->sim, "an empty receive queue did not break the connection");
    if (!flow->reliable && flow->completed != flow->total)
        sim_fail(app->sim, "unreliable sends did not complete");
    return "starve";
}

struct app_result app_run(const struct app_args *args)
{
    static const uint32_t packets[] = {512, 1472, 1472, 9000, 65507};
    static const uint32_t windows[] = {4096, 65536, 262144, 1048576};
    static const uint16_t levels[] = {VIP_LVL_UNRELIABLE, VIP_LVL_DELIVERY, VIP_LVL_RECEPTION,
                                      VIP_LVL_DELIVERY};
    struct app *app = calloc(1, sizeof(*app));
    struct app_result result = {0};
    struct sim_config config;
    uint32_t pairs, size_max, mode;

    if (!pattern[0] && !pattern[1])
        pattern_make();
    app->rand.state = args->seed * 77 + 5;
    app->rebind = args->rebind;
    config = random_config(app, args);
    app->level = levels[sim_below(&app->rand, 4)];
    app->packet_bytes = choose(&app->rand, packets, 5);
    app->window_bytes = choose(&app->rand, windows, 4);
    pairs = 1 + sim_below(&app->rand, FLOWS_MAX / 2);
    size_max = sim_below(&app->rand, 4) ? 20000 : 1048576;
    mode = sim_below(&app->rand, 10);
    app->sim = sim_new(&config);
    for (uint16_t i = 0; i < pairs; i++) {
        uint32_t total = size_max > 100000 ? 20 : 20 + sim_below(&app->rand, 100);

        if (args->messages != UINT32_MAX)
            total = args->messages < MSGS_MAX ? args->messages : MSGS_MAX;
        sim_vi(app->sim, 0, i, app->level, VIP_TRANSFER_BYTES_MAX);
        sim_vi(app->sim, 1, (uint16_t)(i + 7), app->level, VIP_TRANSFER_BYTES_MAX);
        app->flow[app->flows].size_max = app->flow[app->flows + 1].size_max = size_max;
        flow_start(app, 0, i, 1, (uint16_t)(i + 7), total);
        flow_start(app, 1, (uint16_t)(i + 7), 0, i, total);
        sim_connect(app->sim, 0, i, 1, (uint16_t)(i + 7), app->packet_bytes, app->window_bytes);
    }
    result.kind = args->rebind ? run_rebind(app, args)
                  : mode == 0  ? run_disconnect(app)
                  : mode == 1  ? run_dead(app)
                  : mode == 2  ? run_starve(app)
                               : run_plain(app);
    for (unsigned i = 0; i < app->flows; i++) {
        struct eng_vi_stats stats;

        flow_finish(&app->flow[i]);
        eng_vi_stats(sim_engine(app->sim, app->flow[i].from), app->flow[i].vi_from, &stats);
        result.retransmits += stats.retransmits;
        result.messages += app->flow[i].verified;
        free(app->flow[i].shadow);
    }
    result.hash = sim_hash(app->sim);
    result.lost = sim_lost(app->sim);
    result.now_ns = sim_now(app->sim);
    sim_free(app->sim);
    free(app);
    return result;
}
