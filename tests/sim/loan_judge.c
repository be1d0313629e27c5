#include "tests/sim/loan_cast.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define CANARY 0xee
/* Tolerance of the oracle for times of vipd, in ns: an owner that comes by moves the next look. */
#define SLACK_NS (2 * MS)

/* ---- transcript ------------------------------------------------------------------------ */

void loan_trace(struct world *world, const char *format, ...)
{
    char line[256];
    int at = snprintf(line, sizeof(line), "%9.3f ", (double)world->now_ns / 1000);
    va_list args;

    va_start(args, format);
    vsnprintf(line + at, sizeof(line) - (size_t)at, format, args);
    va_end(args);
    for (const char *c = line; *c; c++)
        world->hash = (world->hash ^ (uint8_t)*c) * 0x100000001b3ull;
    if (world->args.trace)
        fprintf(world->args.trace, "%s\n", line);
}

void loan_fail(struct world *world, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "FAILED at %.3f us, seed %" PRIu64 " of loans: ", (double)world->now_ns / 1000,
            world->args.seed);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (world->args.trace)
        fflush(world->args.trace);
    abort();
}

/* A program that scribbles its words may spoil its own connection; then only crashes count. */
static bool spoiled(const struct world *world)
{
    return world->end[0].program.scribbles || world->end[1].program.scribbles;
}

/* ---- messages -------------------------------------------------------------------------- */

struct message message_of(const struct end *end, uint32_t number)
{
    struct sim_rand rand = {.state = end->world->args.seed * 2 + end->index + number * 977ull};
    uint32_t dice = sim_below(&rand, 10),
             most = !end->world->big && sim_below(&rand, 4) ? 300 : MESSAGE_BYTES;
    struct message message = {.kind = dice < 6   ? KIND_SEND
                                      : dice < 9 ? KIND_WRITE
                                                 : KIND_READ,
                              .len = sim_below(&rand, most + 1)};

    if (message.kind == KIND_WRITE)
        message.target = sim_below(&rand, WINDOW_BYTES - message.len + 1);
    if (message.kind == KIND_READ)
        message.target = sim_below(&rand, MESSAGE_BYTES - message.len + 1);
    return message;
}

/* Byte k of message `number` of end `index`. */
static uint8_t pattern(unsigned index, uint32_t number, uint32_t k)
{
    return (uint8_t)((number * 131 + k * 7 + (k >> 8) * 13 + index * 89) ^ (number >> 4));
}

static void pattern_fill(uint8_t *to, unsigned index, uint32_t number, uint32_t len)
{
    for (uint32_t k = 0; k < len; k++)
        to[k] = pattern(index, number, k);
}

static bool pattern_is(const uint8_t *bytes, unsigned index, uint32_t number, uint32_t len)
{
    for (uint32_t k = 0; k < len; k++)
        if (bytes[k] != pattern(index, number, k))
            return false;
    return true;
}

void memory_begin(struct end *end)
{
    memset(&end->memory, CANARY, sizeof(end->memory));
    memset(end->shadow, CANARY, sizeof(end->shadow));
    pattern_fill(end->memory.readable, end->index, 0, MESSAGE_BYTES);
    end->recvs_posted = DEPTH;
}

static bool send_one(struct end *end)
{
    struct message message;

    if (end->world->closing || end->post_ns > end->world->now_ns ||
        end->sends_posted == end->world->messages || end->sends_posted - end->sends_judged == DEPTH)
        return false;
    message = message_of(end, end->sends_posted);
    if (message.kind == KIND_SEND && end->consuming == peer_of(end)->recvs_posted)
        return false;
    pattern_fill(end->memory.source[end->sends_posted % DEPTH], end->index, end->sends_posted,
                 message.len);
    if (end->world->post_gap_ns)
        end->post_ns = end->world->now_ns +
                       sim_below(&end->world->rand, 2 * (uint32_t)end->world->post_gap_ns);
    end->consuming += message.kind == KIND_SEND;
    end->sends_posted++;
    return true;
}

bool program_posts(struct end *end)
{
    struct sim_rand *rand = &end->world->rand;
    bool any = false;

    while (end->recvs_posted - end->recvs_judged < DEPTH) {
        end->recvs_posted++;
        any = true;
    }
    for (unsigned most = sim_below(rand, 3) ? 1 : DEPTH; most && send_one(end); most--)
        any = true;
    return any;
}

/* ---- completions ----------------------------------------------------------------------- */

/* The RDMA Writes of the peer before message `to` are in place. */
static void judge_writes(struct end *end, uint32_t to)
{
    struct end *peer = peer_of(end);
    uint32_t from = end->incoming;

    for (uint32_t i = from; i < to; i++) {
        struct message message = message_of(peer, i);

        if (message.kind == KIND_WRITE)
            pattern_fill(end->shadow + message.target, peer->index, i, message.len);
    }
    for (uint32_t i = from; i < to; i++) {
        struct message message = message_of(peer, i);

        if (message.kind == KIND_WRITE &&
            memcmp(end->shadow + message.target, end->memory.window + message.target, message.len))
            loan_fail(end->world, "end %u: RDMA Write %u is not in place", end->index, i);
    }
    end->incoming = to;
}

static void judge_received(struct end *end, uint32_t length)
{
    struct end *peer = peer_of(end);
    uint8_t *slot = end->memory.slot[end->recvs_judged % DEPTH];
    uint32_t i = end->incoming;

    while (i < peer->sends_posted && message_of(peer, i).kind != KIND_SEND)
        i++;
    if (i == peer->sends_posted)
        loan_fail(end->world, "end %u: received a message that was not sent", end->index);
    judge_writes(end, i);
    end->incoming = i + 1;
    if (length != message_of(peer, i).len || !pattern_is(slot, peer->index, i, length))
        loan_fail(end->world, "end %u: message %u differs", end->index, i);
    for (uint32_t k = length; k < MESSAGE_BYTES; k++)
        if (slot[k] != CANARY)
            loan_fail(end->world, "end %u: bytes behind message %u were written", end->index, i);
    memset(slot, CANARY, length);
    end->world->result.messages++;
}

static void judge_sent(struct end *end)
{
    struct message message = message_of(end, end->sends_judged);
    uint8_t *landing = end->memory.landing[end->sends_judged % DEPTH];

    if (message.kind != KIND_READ)
        return;
    if (memcmp(landing, peer_of(end)->memory.readable + message.target, message.len))
        loan_fail(end->world, "end %u: RDMA Read %u differs", end->index, end->sends_judged);
    memset(landing, CANARY, message.len);
}

void judge_complete(struct seat *seat, enum vip_queue queue, uint32_t status, uint32_t length)
{
    struct end *end = seat->end;
    uint32_t *done = queue == VIP_Q_SEND ? &seat->sends_done : &seat->recvs_done;
    uint32_t *judged = queue == VIP_Q_SEND ? &end->sends_judged : &end->recvs_judged;
    uint32_t at = (*done)++;

    loan_trace(end->world, "%u%c %s %u complete %x", end->index, seat->of_owner ? 'o' : 'v',
               queue == VIP_Q_SEND ? "send" : "recv", at, status);
    if (end->over || spoiled(end->world)) {
        *judged = at + 1;
        return;
    }
    if (status & VIP_ST_ERROR_MASK)
        return; /* the connection ends; judge_end says whether it may */
    if (at != *judged)
        loan_fail(end->world, "end %u: %s %u completed, not %u", end->index,
                  queue == VIP_Q_SEND ? "send" : "receive", at, *judged);
    if (queue == VIP_Q_SEND)
        judge_sent(end);
    else
        judge_received(end, length);
    *judged = at + 1;
}

/* ---- rules ----------------------------------------------------------------------------- */

void judge_seat(const struct seat *seat)
{
    const struct end *end = seat->end;

    if (end->over || spoiled(end->world))
        return;
    if (seat->of_owner != (end->place == PLACE_OWNER))
        loan_fail(end->world, "end %u: two engines are active", end->index);
    if (seat->of_owner && end->program.number != end->own.lent)
        loan_fail(end->world, "end %u: an owner of an old loan is active", end->index);
}

/* The ring has one move more than a second may have. The next life of vipd counts anew. */
static void judge_moves(struct end *end)
{
    struct world *world = end->world;
    unsigned at = end->moves++ % (LOAN_MOVES_MAX + 1), oldest = (at + 1) % (LOAN_MOVES_MAX + 1);

    end->move_ns[at] = world->now_ns;
    if (end->moves > LOAN_MOVES_MAX && !world->result.restarts &&
        world->now_ns - end->move_ns[oldest] < LOAN_MOVES_NS)
        loan_fail(world, "end %u: more than %u moves in a second", end->index, LOAN_MOVES_MAX);
}

void judge_move(struct end *end, bool out)
{
    struct world *world = end->world;

    judge_moves(end);
    if (out)
        return;
    world->result.backs++;
    end->lost = loan_why_back(end->vipd.loan) == LOAN_BACK_DATA;
    end->run_ns = end->poll_ns = 0;
    if (spoiled(world))
        return;
    if (end->lost && !end->told_data)
        loan_fail(world, "end %u: the owner lost its loan, but no data waited", end->index);
    if (end->lost && end->asleep_ns && end->queue_ns >= end->asleep_ns &&
        world->now_ns - end->queue_ns < LOAN_PATIENCE_MAX_NS)
        loan_fail(world, "end %u: an owner that slept had no time to wake", end->index);
    if (loan_why_back(end->vipd.loan) == LOAN_BACK_TIMER && end->came_ns &&
        end->program.number == end->own.lent && !end->inside &&
        (!end->left_timer_ns || end->left_timer_ns + LOAN_TIMER_NS > world->now_ns))
        loan_fail(world, "end %u: the owner lost its loan, but its timer was not over", end->index);
}

void judge_probe(struct end *end)
{
    if (end->lost && end->world->now_ns - end->run_ns < LOAN_STEADY_NS)
        loan_fail(end->world, "end %u: a loan again without steady polling", end->index);
}

void judge_take(struct end *end)
{
    if (end->inside && end->program.alive && !spoiled(end->world))
        loan_fail(end->world, "end %u: a loan is taken back while its owner is inside", end->index);
}

void judge_end(struct end *end)
{
    struct world *world = end->world;
    enum loan_end why = loan_why_ended(end->vipd.loan);
    struct end *peer = peer_of(end);
    bool good = spoiled(world);

    loan_trace(world, "%u ends for reason %u", end->index, why);
    good |= why == LOAN_END_DIED && !end->program.alive;
    good |= why == LOAN_END_INSIDE && end->stalled_long;
    good |= why == LOAN_END_SILENT && (peer->over || peer->stalled_long);
    good |= why == LOAN_END_OVER && end->vipd.close_came;
    if (!good)
        loan_fail(world, "end %u: the connection ended for reason %u", end->index, why);
}

void judge_now(struct end *end)
{
    struct world *world = end->world;
    uint64_t now_ns = world->now_ns, since_ns;

    if (end->over || spoiled(world) || !end->vipd.up || end->vipd.until_ns > now_ns)
        return;
    if (loan_state(end->vipd.loan) != LOAN_LENT)
        return;
    since_ns = end->queue_ns > end->came_ns ? end->queue_ns : end->came_ns;
    if (since_ns < end->excused_ns)
        since_ns = end->excused_ns;
    if (end->queue_ns && now_ns > since_ns + 2 * LOAN_PATIENCE_MAX_NS + SLACK_NS)
        loan_fail(world, "end %u: data waits for an owner that does not come", end->index);
    since_ns = end->left_timer_ns > end->excused_ns ? end->left_timer_ns : end->excused_ns;
    /* vipd may have found the owner asleep, and looks again that late. */
    if (end->slept_ns && since_ns < end->slept_ns + 2 * LOAN_PATIENCE_MAX_NS)
        since_ns = end->slept_ns + 2 * LOAN_PATIENCE_MAX_NS;
    if (end->left_timer_ns && end->program.number == end->own.lent && !end->inside &&
        now_ns > since_ns + 2 * loan_patience_ns(end->vipd.loan) + SLACK_NS)
        loan_fail(world, "end %u: the timer of an owner that does not come is over", end->index);
}

/* ---- the end of a run ------------------------------------------------------------------ */

bool all_arrived(struct end *end)
{
    struct end *peer = peer_of(end);

    return end->sends_judged == end->sends_posted && peer->recvs_judged == end->consuming;
}

void judge_final(struct end *end)
{
    if (spoiled(end->world) || end->over || peer_of(end)->over)
        return;
    if (!all_arrived(end))
        loan_fail(end->world, "end %u: %u of %u sends completed, %u of %u messages arrived",
                  end->index, end->sends_judged, end->sends_posted, peer_of(end)->recvs_judged,
                  end->consuming);
    judge_writes(end, peer_of(end)->sends_posted);
    if (memcmp(end->shadow, end->memory.window, WINDOW_BYTES))
        loan_fail(end->world, "end %u: the window has bytes that no operation wrote", end->index);
    for (uint32_t i = 0; i < DEPTH; i++)
        for (uint32_t k = 0; k < MESSAGE_BYTES; k++)
            if (end->memory.slot[i][k] != CANARY || end->memory.landing[i][k] != CANARY)
                loan_fail(end->world, "end %u: bytes came late", end->index);
}
