/*
 * Bandwidth both ways: each side sends a stream and receives the other side's stream at the same
 * time, on the same VI, in one thread. The server starts when the connection is made. The client
 * starts when the first message arrives. After the messages of the plan, the client sends its end
 * mark. The server sends messages until this mark arrives, and then sends its own end mark.
 *
 * Here credits have the bit RUN_CREDIT, because messages with numbers as immediate data arrive in
 * the same receive queue.
 */
#include "tools/vipperf/stream.h"

#include <inttypes.h>
#include <stdio.h>

/* Largest number of arrivals to process before the next send. */
#define ARRIVALS_PER_TURN 16

/* The state of one side, the client or the server. */
struct both {
    struct run *run;
    bool client;
    uint64_t seed;        /* of the stream that this side sends */
    struct receiver in;   /* state of the arriving stream */
    uint64_t credited;    /* sent messages that the other side received, or that count as lost */
    uint64_t credited_ns; /* time of the last change of `credited` (Unreliable Delivery) */
    bool stopped;         /* this side has posted its end mark */
    bool answer;          /* server: the client's end mark has come and needs an answer */
};

static bool reliable(const struct both *both)
{
    return both->run->plan->level != PLAN_UD;
}

/* A credit differs from the end mark in one bit, and from other messages in another bit. */
static bool is_credit(const struct end_arrival *arrival)
{
    return arrival->has_imm && !arrival->by_write &&
           (arrival->imm & ~RUN_CREDIT_MASK) == RUN_CREDIT;
}

static int take_credit(struct both *both, uint32_t imm)
{
    struct run *run = both->run;
    uint64_t ahead = (imm - (uint32_t)both->credited) & RUN_CREDIT_MASK;

    if (both->credited + ahead <= run->sent) {
        both->credited += ahead;
        if (!reliable(both))
            both->credited_ns = end_now_ns();
        return 0;
    }
    /* A message that counts as lost may still arrive. A credit for such a message comes too late:
     * ignore the credit. */
    if (!reliable(both))
        return 0;
    snprintf(run->end->why, sizeof(run->end->why),
             "a credit for %u messages came, but only %" PRIu64 " were sent", imm & RUN_CREDIT_MASK,
             run->sent);
    return -1;
}

/* Process one arrival and post its receive descriptor again. Outcomes: 0; -1: failed. */
static int take(struct both *both, const struct end_arrival *arrival)
{
    struct run *run = both->run;
    int r;

    if (!arrival->damaged && run_is_end(arrival))
        both->answer = !both->client;
    r = !arrival->damaged && is_credit(arrival) ? take_credit(both, arrival->imm)
                                                : stream_take(run, &both->in, arrival);
    return r < 0 ? -1 : end_post_recv(run->end, arrival->index, run->plan->op == PLAN_SEND);
}

/* Process at most ARRIVALS_PER_TURN arrivals. Outcomes: 1: at least one; 0: none; -1: failed. */
static int take_all(struct both *both)
{
    int taken = 0;

    for (unsigned i = 0; i < ARRIVALS_PER_TURN; i++) {
        struct end_arrival arrival;
        int r = end_recv(both->run->end, 0, &arrival);

        if (r < 0 || (r > 0 && take(both, &arrival) < 0))
            return -1;
        if (r == 0)
            break;
        taken = 1;
    }
    return taken;
}

/* Send a credit if one is due. The other side needs no credits after its end mark. */
static int give_credit(struct both *both)
{
    struct receiver *in = &both->in;

    if (in->ended || in->expected - in->credited < stream_quarter(both->run->plan))
        return 0;
    in->credited = in->expected;
    return stream_post_credit(both->run, RUN_CREDIT | ((uint32_t)in->expected & RUN_CREDIT_MASK));
}

/* Does the other side have a receive descriptor for another message? */
static bool window_open(struct both *both)
{
    uint64_t now_ns;

    if (both->run->sent - both->credited < both->run->plan->window)
        return true;
    if (reliable(both))
        return false;
    now_ns = end_now_ns();
    if (now_ns - both->credited_ns < RUN_LOST_MS * 1000000ull)
        return false;
    both->credited = both->run->sent; /* all messages under way count as lost */
    both->credited_ns = now_ns;
    return true;
}

/*
 * Process arrivals. Then send one message, if the window is open. Outcomes: 1: progress; 0: nothing
 * to do until a message arrives; -1: failed.
 */
static int turn(struct both *both)
{
    struct run *run = both->run;
    int taken = take_all(both);

    if (taken < 0 || give_credit(both) < 0)
        return -1;
    if (both->stopped || both->in.ended || !window_open(both))
        return taken;
    if (stream_await_sends(run) < 0 || stream_post(run, both->seed) < 0)
        return -1;
    return 1;
}

/* Wait for an arrival and process it. Outcomes: 1; 0: none within timeout_ms; -1: failed. */
static int wait_and_take(struct both *both, unsigned timeout_ms)
{
    struct end_arrival arrival;
    int r = end_recv(both->run->end, timeout_ms, &arrival);

    if (r <= 0)
        return r;
    return take(both, &arrival) < 0 ? -1 : 1;
}

static int post_end(struct both *both)
{
    both->stopped = true;
    return stream_post_last(both->run);
}

/* The client's start: wait for the first arrival from the server. Outcomes: 0; -1: failed. */
static int begin(struct both *both, unsigned timeout_ms)
{
    int r;

    both->run->start_ns = end_now_ns();
    r = wait_and_take(both, timeout_ms);
    if (r < 0)
        return -1;
    if (r == 0 && reliable(both))
        return run_silence(both->run);
    both->credited_ns = end_now_ns();
    if (r == 0)
        both->run->start_ns = both->credited_ns; /* the server's first message is lost: start now */
    return 0;
}

/* Process arrivals until the other side's end mark arrives. Outcomes: 0; -1: failed. */
static int await_end(struct both *both)
{
    unsigned timeout_ms = reliable(both) ? END_PATIENCE_MS : RUN_LOST_MS;
    uint64_t posted_ns = end_now_ns();

    for (unsigned tries = 1; !both->in.ended;) {
        int r = turn(both);

        if (r == 0)
            r = wait_and_take(both, timeout_ms);
        if (r < 0)
            return -1;
        if (r == 0 && reliable(both))
            return run_silence(both->run);
        if (reliable(both) || end_now_ns() - posted_ns < RUN_LOST_MS * 1000000ull)
            continue;
        if (tries++ == STREAM_END_TRIES)
            return run_silence(both->run);
        if (post_end(both) < 0)
            return -1;
        posted_ns = end_now_ns();
    }
    return 0;
}

int run_both_client(struct run *run)
{
    const struct plan *plan = run->plan;
    struct both both = {.run = run, .client = true, .seed = plan->seed, .in.seed = plan->seed + 1};
    unsigned timeout_ms = plan->level == PLAN_UD ? RUN_LOST_MS : END_PATIENCE_MS;

    if (begin(&both, timeout_ms) < 0)
        return -1;
    while (!run_enough(run, run->sent, run->bytes_sent)) {
        int r = turn(&both);

        if (r == 0)
            r = wait_and_take(&both, timeout_ms);
        if (r == 0 && plan->level != PLAN_UD)
            return run_silence(run);
        if (r < 0)
            return -1;
    }
    if (post_end(&both) < 0 || await_end(&both) < 0)
        return -1;
    run->stop_ns = end_now_ns();
    run->measured = run->sent + run->received;
    run->measured_bytes = run->bytes_sent + run->bytes_received;
    return 0;
}

int run_both_server(struct run *run)
{
    const struct plan *plan = run->plan;
    struct both both = {.run = run, .seed = plan->seed + 1, .in.seed = plan->seed};
    unsigned timeout_ms = plan->level == PLAN_UD ? RUN_LOST_MS : END_PATIENCE_MS;
    uint64_t silent_ms = 0;

    both.credited_ns = end_now_ns();
    for (;;) {
        int r = turn(&both);

        if (r == 0)
            r = wait_and_take(&both, timeout_ms);
        if (r < 0)
            return -1;
        if (r == 0) {
            r = run_client_quiet(run, timeout_ms, &silent_ms);
            if (r <= 0)
                return r;
            continue;
        }
        silent_ms = 0;
        if (both.answer && post_end(&both) < 0)
            return -1;
        both.answer = false;
        /* At a reliable level our end mark cannot be lost, so the client sends nothing more. */
        if (both.in.ended && plan->level != PLAN_UD)
            return 0;
    }
}
