/*
 * Latency: the client sends message n, and the server answers with message n. One sample is half of
 * this time. The client's messages have the contents of stream plan->seed, the server's messages
 * those of plan->seed + 1.
 *
 * An RDMA Write without immediate data completes no descriptor at the receiver, which polls a flag
 * in its memory. The flag is the last byte of the message. With --verify or --random-sizes, it is a
 * word after the message instead. A second RDMA Write sets this word; RDMA Writes of one VI become
 * visible in order.
 */
#include "tools/vipperf/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/vipperf/pace.h"
#include "tools/vipperf/segments.h"

/* Number of polls of the flag between two looks at the receive queue (for end mark or error). */
#define POLLS_PER_LOOK 64

/* Offset in a slot of the word that is the flag: the start of the last 64 bytes. */
static uint64_t word_offset(const struct run *run)
{
    return run->end->args.slot_bytes - 64;
}

static bool flag_is_word(const struct plan *plan)
{
    return plan->verify || plan->random_sizes;
}

/* The flag (last byte) of message `number`; the slot's previous message has another last byte. */
static uint8_t flag_byte(const struct run *run, uint64_t number)
{
    return (uint8_t)(number / run->end->args.in_slots % 255 + 1);
}

/*
 * The bytes of a buffer may change only after its last send has completed. With RUN_PINGPONG_SLOTS
 * buffers or more, reap() ensures this. With fewer buffers, this function waits for the send. The
 * wait is short, because the other side has already received the message.
 */
static int await_slot(struct run *run)
{
    const struct plan *plan = run->plan;
    uint64_t posts = plan->op == PLAN_WRITE && flag_is_word(plan) ? 2 : 1;

    if (run_slots(plan) >= RUN_PINGPONG_SLOTS || (plan->op != PLAN_WRITE && !plan->verify))
        return 0;
    return end_drain(run->end, (run_slots(plan) - 1) * posts, END_PATIENCE_MS) == 1 ? 0 : -1;
}

static int post_message(struct run *run, uint64_t number, uint64_t seed)
{
    const struct plan *plan = run->plan;
    uint8_t *slot = end_out(run->end, number);
    struct end_message message = {
        .bytes = slot,
        .len_bytes = (uint32_t)plan_size(plan, number),
        .has_imm = run_has_numbers(plan),
        .imm = (uint32_t)number & RUN_NUMBER_MASK,
        .segments = (unsigned)plan->segments,
        .write = plan->op != PLAN_SEND,
    };

    if (message.write)
        run_aim(run, number, &message);
    if (await_slot(run) < 0)
        return -1;
    if (plan->verify)
        run_fill(run, slot, message.len_bytes, seed, number);
    if (plan->op != PLAN_WRITE)
        return end_post_send(run->end, &message);
    if (!flag_is_word(plan)) {
        slot[segments_room(message.len_bytes, message.segments) - 1] = flag_byte(run, number);
        return end_post_send(run->end, &message);
    }
    if (end_post_send(run->end, &message) < 0)
        return -1;
    *(uint64_t *)(void *)(slot + word_offset(run)) = number + 1;
    message.bytes = slot + word_offset(run);
    message.len_bytes = sizeof(uint64_t);
    message.segments = 1;
    message.remote_addr += word_offset(run);
    return end_post_send(run->end, &message);
}

static bool flag_is_set(const struct run *run, const uint8_t *slot, uint64_t number)
{
    if (flag_is_word(run->plan))
        return __atomic_load_n((const uint64_t *)(const void *)(slot + word_offset(run)),
                               __ATOMIC_ACQUIRE) == number + 1;
    return __atomic_load_n(slot + run->plan->size_bytes - 1, __ATOMIC_ACQUIRE) ==
           flag_byte(run, number);
}

/* Poll the flag of message `number`. Outcomes: 1: arrived; 0: end mark, *ret_end is set; -1. */
static int watch_flag(struct run *run, uint64_t number, bool *ret_end)
{
    uint64_t deadline_ns = end_now_ns() + END_PATIENCE_MS * 1000000ull;
    const uint8_t *slot = end_in(run->end, number);
    struct end_arrival arrival;

    for (;;) {
        int r;

        for (unsigned i = 0; i < POLLS_PER_LOOK; i++) {
            if (flag_is_set(run, slot, number))
                return 1;
            end_relax(run->end);
        }
        r = end_recv(run->end, 0, &arrival);
        if (r < 0)
            return -1;
        if (r > 0 && run_is_end(&arrival)) {
            *ret_end = true;
            return 0;
        }
        if (end_now_ns() >= deadline_ns)
            return run_silence(run);
    }
}

/* A received message. Its bytes are in a receive descriptor's buffer or in an in slot. */
struct incoming {
    uint64_t number;
    uint64_t len_bytes;
    const uint8_t *bytes;
    int repost; /* receive descriptor to post again after its bytes are read; -1: none */
};

/*
 * Wait for message `expected`. With Unreliable Delivery, a later message may come instead.
 * Outcomes: 1 and *ret; 0: no message within timeout_ms, or the end mark (*ret_end is set); -1.
 */
static int next_message(struct run *run, uint64_t expected, unsigned timeout_ms,
                        struct incoming *ret, bool *ret_end)
{
    const struct plan *plan = run->plan;
    struct end_arrival arrival;
    int r;

    *ret_end = false;
    if (plan->op == PLAN_WRITE) {
        r = watch_flag(run, expected, ret_end);
        if (r <= 0)
            return r;
        *ret =
            (struct incoming){expected, plan_size(plan, expected), end_in(run->end, expected), -1};
        return 1;
    }
    for (;;) {
        r = end_recv(run->end, timeout_ms, &arrival);
        if (r <= 0)
            return r;
        *ret = (struct incoming){expected, arrival.len_bytes, arrival.bytes, (int)arrival.index};
        if (!arrival.damaged && run_is_end(&arrival)) {
            *ret_end = true;
            return 0;
        }
        if (!arrival.damaged &&
            (!run_has_numbers(plan) ||
             (arrival.has_imm && run_number(arrival.imm, expected, &ret->number))))
            break;
        /* With Unreliable Delivery, this is a late message or a part of a message: ignore it. */
        if (plan->level != PLAN_UD) {
            snprintf(run->end->why, sizeof(run->end->why),
                     "a message came out of order: number %u instead of %" PRIu64, arrival.imm,
                     expected);
            run->corrupt = true;
            return -1;
        }
        if (end_post_recv(run->end, arrival.index, plan->op == PLAN_SEND) < 0)
            return -1;
    }
    if (plan->op != PLAN_SEND)
        ret->bytes = end_in(run->end, ret->number);
    return 1;
}

static int finish_message(struct run *run, const struct incoming *message, uint64_t seed)
{
    if (run->plan->verify &&
        run_verify(run, message->bytes, message->len_bytes, seed, message->number) < 0)
        return -1;
    if (message->repost >= 0 &&
        end_post_recv(run->end, (unsigned)message->repost, run->plan->op == PLAN_SEND) < 0)
        return -1;
    return 0;
}

/* Let fewer sends be outstanding than there are slots, so that the next buffer is free. */
static int reap(struct run *run)
{
    if (end_reap(run->end) < 0)
        return -1;
    if (run->end->sends_posted - run->end->sends_done < RUN_PINGPONG_SLOTS - 2)
        return 0;
    return end_drain(run->end, RUN_PINGPONG_SLOTS / 2, END_PATIENCE_MS) == 1 ? 0 : -1;
}

/* Send a ping, await its answer. Outcomes: 1, and *ret_ns is set; 0: lost (only PLAN_UD); -1. */
static int round_trip(struct run *run, uint64_t number, uint64_t *ret_ns)
{
    const struct plan *plan = run->plan;
    unsigned timeout_ms = plan->level == PLAN_UD ? RUN_LOST_MS : END_PATIENCE_MS;
    struct incoming answer;
    uint64_t start_ns;
    bool ended;
    int r;

    start_ns = end_now_ns();
    if (post_message(run, number, plan->seed) < 0)
        return -1;
    r = next_message(run, number, timeout_ms, &answer, &ended);
    if (r == 0 && ended) {
        snprintf(run->end->why, sizeof(run->end->why), "the server ended the measurement");
        return -1;
    }
    if (r == 0)
        return plan->level == PLAN_UD ? 0 : run_silence(run);
    if (r < 0)
        return -1;
    *ret_ns = end_now_ns() - start_ns;
    if (answer.number != number) {
        snprintf(run->end->why, sizeof(run->end->why),
                 "answer %" PRIu64 " came instead of %" PRIu64, answer.number, number);
        run->corrupt = true;
        return -1;
    }
    return finish_message(run, &answer, plan->seed + 1) < 0 ? -1 : 1;
}

int run_pingpong_client(struct run *run)
{
    struct pace pace = {.every_ms = run->plan->every_ms};
    uint64_t number = 0;

    run->start_ns = end_now_ns();
    for (; number <= RUN_WARM_UP || !run_enough(run, run->measured, run->measured_bytes);
         number++) {
        uint64_t round_ns = 0;
        int r;

        if (number == RUN_WARM_UP)
            run->start_ns = end_now_ns();
        if (number >= RUN_WARM_UP)
            pace_wait(&pace);
        r = round_trip(run, number, &round_ns);
        if (r < 0)
            return -1;
        run->sent++;
        run->received += (uint64_t)r;
        if (number >= RUN_WARM_UP) {
            run->measured++;
            run->measured_bytes += plan_size(run->plan, number);
            if (r > 0)
                run_keep_sample(run, round_ns / 2);
        }
        if (reap(run) < 0)
            return -1;
    }
    run->stop_ns = end_now_ns();
    return run_post_end(run);
}

int run_pingpong_server(struct run *run)
{
    const struct plan *plan = run->plan;
    unsigned timeout_ms = plan->level == PLAN_UD ? RUN_LOST_MS : END_PATIENCE_MS;
    uint64_t expected = 0, silent_ms = 0;

    for (;;) {
        struct incoming ping;
        bool ended;
        int r = next_message(run, expected, timeout_ms, &ping, &ended);

        if (r < 0)
            return -1;
        if (r == 0) {
            if (ended)
                return 0;
            r = run_client_quiet(run, timeout_ms, &silent_ms);
            if (r <= 0)
                return r;
            continue;
        }
        silent_ms = 0;
        expected = ping.number + 1;
        run->received++;
        run->bytes_received += ping.len_bytes;
        if (plan->verify &&
            run_verify(run, ping.bytes, ping.len_bytes, plan->seed, ping.number) < 0)
            return -1;
        if (post_message(run, ping.number, plan->seed + 1) < 0)
            return -1;
        run->sent++;
        if (ping.repost >= 0 &&
            end_post_recv(run->end, (unsigned)ping.repost, plan->op == PLAN_SEND) < 0)
            return -1;
        if (reap(run) < 0)
            return -1;
    }
}
