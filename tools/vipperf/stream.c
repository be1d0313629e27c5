/*
 * Bandwidth and message rate one way, with a window and credits (run.h). both.c uses these
 * functions for streams both ways.
 *
 * An RDMA Write without immediate data completes no descriptor at the receiver. So after every
 * quarter of a window the client sends a mark: a send of no bytes with the number of messages
 * written. The mark arrives after the data of these messages.
 */
#include "tools/vipperf/stream.h"

#include <inttypes.h>
#include <stdio.h>

uint64_t stream_quarter(const struct plan *plan)
{
    return plan->window >= 4 ? plan->window / 4 : 1;
}

/* ---- client ---- */

/* The state of the client. */
struct sender {
    uint64_t credited; /* number of messages that the server has received, or that count as lost */
    bool ended;        /* the server has answered the end mark */
};

/* Read one credit or the end mark. Outcomes: 1; 0: nothing came within timeout_ms; -1. */
static int read_credit(struct run *run, struct sender *sender, unsigned timeout_ms)
{
    struct end_arrival arrival;
    uint64_t number;
    int r = end_recv(run->end, timeout_ms, &arrival);

    if (r <= 0)
        return r;
    if (end_post_recv(run->end, arrival.index, false) < 0)
        return -1;
    if (arrival.damaged)
        return 1;
    if (run_is_end(&arrival)) {
        sender->ended = true;
        return 1;
    }
    /* A credit for unsent messages is wrong. With Unreliable Delivery, a credit may come late. */
    if (arrival.has_imm && run_number(arrival.imm, sender->credited, &number) &&
        number <= run->sent) {
        sender->credited = number;
        return 1;
    }
    if (run->plan->level == PLAN_UD)
        return 1;
    snprintf(run->end->why, sizeof(run->end->why),
             "a credit for %u messages came, but only %" PRIu64 " were sent", arrival.imm,
             run->sent);
    return -1;
}

/* Wait until another message may be sent. Outcomes: 0; -1. */
static int wait_for_window(struct run *run, struct sender *sender)
{
    const struct plan *plan = run->plan;
    unsigned timeout_ms = plan->level == PLAN_UD ? RUN_LOST_MS : END_PATIENCE_MS;
    int r;

    while (run->sent - sender->credited >= plan->window) {
        r = read_credit(run, sender, timeout_ms);
        if (r < 0)
            return -1;
        if (r == 0 && plan->level != PLAN_UD) {
            snprintf(run->end->why, sizeof(run->end->why),
                     "no credit for %d s after %" PRIu64 " messages", END_PATIENCE_MS / 1000,
                     run->sent);
            return -1;
        }
        if (r == 0)
            sender->credited = run->sent; /* no credit came: all messages under way count as lost */
    }
    return stream_await_sends(run);
}

/* Wait until the next buffer is free: its last send has completed. Sends complete in order. */
int stream_await_sends(struct run *run)
{
    const struct plan *plan = run->plan;
    int r;

    if (run->end->sends_posted - run->end->sends_done < plan->window)
        return 0;
    if (end_reap(run->end) < 0)
        return -1;
    if (run->end->sends_posted - run->end->sends_done < plan->window)
        return 0;
    r = end_drain(run->end, plan->window - stream_quarter(plan), END_PATIENCE_MS);
    if (r == 0)
        snprintf(run->end->why, sizeof(run->end->why), "no send completed for %d s",
                 END_PATIENCE_MS / 1000);
    return r == 1 ? 0 : -1;
}

/* Send the receiver a mark: the number of messages that this side has written. */
static int post_mark(struct run *run)
{
    const struct end_message mark = {.has_imm = true, .imm = (uint32_t)run->sent & RUN_NUMBER_MASK};

    return end_post_send(run->end, &mark);
}

int stream_post(struct run *run, uint64_t seed)
{
    const struct plan *plan = run->plan;
    uint64_t number = run->sent;
    struct end_message message = {
        .bytes = end_out(run->end, number),
        .len_bytes = (uint32_t)plan_size(plan, number),
        .segments = (unsigned)plan->segments,
        .has_imm = run_has_numbers(plan),
        .imm = (uint32_t)number & RUN_NUMBER_MASK,
        .write = plan->op != PLAN_SEND,
    };

    if (message.write)
        run_aim(run, number, &message);
    /* With plain RDMA Writes, only the marks have numbers in immediate data. */
    if (plan->op == PLAN_WRITE)
        message.has_imm = false;
    if (plan->verify)
        run_fill(run, end_out(run->end, number), message.len_bytes, seed, number);
    if (end_post_send(run->end, &message) < 0)
        return -1;
    run->sent++;
    run->bytes_sent += message.len_bytes;
    if (plan->op == PLAN_WRITE && run->sent % stream_quarter(plan) == 0)
        return post_mark(run);
    return 0;
}

int stream_post_last(struct run *run)
{
    const struct plan *plan = run->plan;

    if (end_drain(run->end, run->end->args.sends - 2, END_PATIENCE_MS) <= 0)
        return -1;
    if (plan->op == PLAN_WRITE && run->sent % stream_quarter(plan) != 0 && post_mark(run) < 0)
        return -1;
    return run_post_end(run);
}

/* Send the end mark and wait for the last credits. Outcomes: 0; -1. */
static int finish(struct run *run, struct sender *sender)
{
    bool reliable = run->plan->level != PLAN_UD;

    for (unsigned tries = 0; tries < STREAM_END_TRIES; tries++) {
        uint64_t deadline_ns =
            end_now_ns() + (reliable ? END_PATIENCE_MS : RUN_LOST_MS) * 1000000ull;

        if (stream_post_last(run) < 0)
            return -1;
        while (end_now_ns() < deadline_ns) {
            int r = read_credit(run, sender, reliable ? END_PATIENCE_MS : RUN_LOST_MS);

            if (r < 0)
                return -1;
            if (sender->ended && (!reliable || sender->credited == run->sent))
                return 0;
        }
        if (reliable)
            break;
    }
    snprintf(run->end->why, sizeof(run->end->why),
             "the server does not answer the end mark after %" PRIu64 " messages", run->sent);
    return -1;
}

int run_stream_client(struct run *run)
{
    struct sender sender = {0};

    run->start_ns = end_now_ns();
    while (!run_enough(run, run->sent, run->bytes_sent)) {
        if (wait_for_window(run, &sender) < 0 || stream_post(run, run->plan->seed) < 0)
            return -1;
    }
    if (finish(run, &sender) < 0)
        return -1;
    run->stop_ns = end_now_ns();
    run->measured = run->sent;
    run->measured_bytes = run->bytes_sent;
    return 0;
}

/* ---- server ---- */

static int wrong_order(struct run *run, uint32_t imm, uint64_t expected)
{
    snprintf(run->end->why, sizeof(run->end->why),
             "a message came out of order: number %u instead of %" PRIu64, imm, expected);
    run->corrupt = true;
    return -1;
}

/* Count one message, and check it if the plan says so. */
static int take_message(struct run *run, struct receiver *receiver, uint64_t number,
                        uint64_t len_bytes, const uint8_t *bytes)
{
    if (run->plan->verify && run_verify(run, bytes, len_bytes, receiver->seed, number) < 0)
        return -1;
    receiver->expected = number + 1;
    run->received++;
    run->bytes_received += len_bytes;
    return 0;
}

/* Process a mark: count the messages that were written before it. */
static int take_mark(struct run *run, struct receiver *receiver, uint32_t imm)
{
    uint64_t upto;

    if (!run_number(imm, receiver->expected, &upto) ||
        upto - receiver->expected > run->plan->window)
        return run->plan->level == PLAN_UD ? 0 : wrong_order(run, imm, receiver->expected);
    while (receiver->expected < upto) {
        uint64_t number = receiver->expected;

        if (take_message(run, receiver, number, plan_size(run->plan, number),
                         end_in(run->end, number)) < 0)
            return -1;
    }
    return 0;
}

int stream_take(struct run *run, struct receiver *receiver, const struct end_arrival *arrival)
{
    const struct plan *plan = run->plan;
    uint64_t number = receiver->expected;

    if (arrival->damaged)
        return 0;
    if (run_is_end(arrival)) {
        receiver->ended = true;
        return 0;
    }
    if (plan->op == PLAN_WRITE)
        return take_mark(run, receiver, arrival->imm);
    if (run_has_numbers(plan)) {
        bool known = arrival->has_imm && run_number(arrival->imm, number, &number);

        /* With Unreliable Delivery, a message may come late; it then counts as lost. */
        if (!known && plan->level == PLAN_UD)
            return 0;
        if (!known || (plan->level != PLAN_UD && number != receiver->expected))
            return wrong_order(run, arrival->imm, receiver->expected);
    }
    return take_message(run, receiver, number, arrival->len_bytes,
                        plan->op == PLAN_SEND ? arrival->bytes : end_in(run->end, number));
}

int stream_post_credit(struct run *run, uint32_t imm)
{
    const struct end_message credit = {.has_imm = true, .imm = imm};

    if (end_reap(run->end) < 0)
        return -1;
    if (end_drain(run->end, run->end->args.sends - 1, END_PATIENCE_MS) <= 0)
        return -1;
    return end_post_send(run->end, &credit);
}

/* Send a credit for arrived messages. Answer an end mark with the last credit and an end mark. */
static int give_credits(struct run *run, struct receiver *receiver)
{
    uint64_t uncredited = receiver->expected - receiver->credited;

    if (uncredited >= stream_quarter(run->plan) || (receiver->ended && uncredited > 0)) {
        if (stream_post_credit(run, (uint32_t)receiver->expected & RUN_NUMBER_MASK) < 0)
            return -1;
        receiver->credited = receiver->expected;
    }
    return receiver->ended ? stream_post_credit(run, RUN_END) : 0;
}

int run_stream_server(struct run *run)
{
    const struct plan *plan = run->plan;
    unsigned timeout_ms = plan->level == PLAN_UD ? RUN_LOST_MS : END_PATIENCE_MS;
    struct receiver receiver = {.seed = plan->seed};
    uint64_t silent_ms = 0;

    for (;;) {
        struct end_arrival arrival;
        int r = end_recv(run->end, timeout_ms, &arrival);

        if (r < 0)
            return -1;
        if (r == 0) {
            r = run_client_quiet(run, timeout_ms, &silent_ms);
            if (r <= 0)
                return r;
            continue;
        }
        silent_ms = 0;
        if (stream_take(run, &receiver, &arrival) < 0 ||
            end_post_recv(run->end, arrival.index, plan->op == PLAN_SEND) < 0 ||
            give_credits(run, &receiver) < 0)
            return -1;
        /* At a reliable level the answer to the end mark is not lost: nothing more will come. */
        if (receiver.ended && plan->level != PLAN_UD)
            return 0;
    }
}
