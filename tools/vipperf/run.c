/* Code shared by all measurements; see run.h. */
#include "tools/vipperf/run.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/vipperf/meet.h"
#include "tools/vipperf/pattern.h"
#include "tools/vipperf/segments.h"

/* Bytes of a page. Each buffer of --buffers has its own pages and address translations. */
#define PAGE_BYTES 4096

/* The server of a stream has this many more receive descriptors than its window, for end marks. */
#define END_RECVS 8

/* Receive descriptors for credits: enough, because each credit is for a quarter of the window. */
#define CREDIT_SLOTS 16

/* One way, a queue has at most this many descriptors in addition to those for the window. */
#define DESCRIPTORS_BESIDE 16

/* The clock is read after this many messages; after each one if they have LARGE_BYTES or more. */
#define MESSAGES_PER_CLOCK 16
#define LARGE_BYTES        65536

bool run_has_numbers(const struct plan *plan)
{
    return plan->level == PLAN_UD || plan->op == PLAN_WRITE_IMM;
}

/* Set the arguments of an end that sends a stream, receives a stream, or does both. */
static void stream_args(const struct plan *plan, bool sends, bool receives, struct end_args *ret)
{
    unsigned window = (unsigned)plan->window;

    if (sends) {
        ret->sends = 2 * window + 2;
        ret->recvs = CREDIT_SLOTS;
        ret->out_slots = window;
    }
    if (receives) {
        ret->sends += CREDIT_SLOTS;
        ret->recvs += window + END_RECVS;
        ret->in_slots = plan->op == PLAN_SEND ? ret->recvs : window;
    }
}

void run_end_args(const struct plan *plan, bool client, struct end_args *ret)
{
    unsigned window = (unsigned)plan->window;
    size_t size = (size_t)plan->size_bytes;
    size_t room = segments_room(size, (unsigned)plan->segments);

    *ret = (struct end_args){.level = plan->level,
                             .wait = plan->wait,
                             .cq = plan->cq,
                             .read = plan->op == PLAN_READ,
                             .mtu_bytes = size > 8 ? size : 8,
                             .slot_bytes = room > 64 ? room : 64,
                             .segments = (unsigned)plan->segments,
                             .apart = plan->apart};
    if (plan->segments > 1 && plan->op == PLAN_SEND && size > 0) {
        ret->scatter = true;
        ret->recv_bytes = size;
    }
    if (plan->op == PLAN_READ) {
        ret->recvs = RUN_IDLE_RECVS;
        ret->sends = client ? window + 1 : 1;
        ret->in_slots = window; /* RDMA Reads copy the server's in slots to the client's */
    } else if (plan->test == PLAN_LAT) {
        /* Add 64 bytes for the word that a second RDMA Write sets (pingpong.c). */
        ret->slot_bytes = (room + 63) / 64 * 64 + 64;
        ret->sends = 3 * RUN_PINGPONG_SLOTS;
        ret->recvs = RUN_PINGPONG_SLOTS;
        ret->out_slots = ret->in_slots = RUN_PINGPONG_SLOTS;
    } else {
        stream_args(plan, client || plan->both_ways, !client || plan->both_ways, ret);
    }
    if (plan->buffers > 0) {
        ret->slot_bytes = (ret->slot_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
        ret->out_slots = ret->out_slots > 0 ? (unsigned)plan->buffers : 0;
        ret->in_slots = ret->in_slots > 0 ? (unsigned)plan->buffers : 0;
    }
}

uint64_t run_window_max(const struct plan *plan, bool client, uint64_t max)
{
    uint64_t beside = DESCRIPTORS_BESIDE + (plan->both_ways ? CREDIT_SLOTS : 0);

    if (max <= beside)
        return 0;
    return client || plan->both_ways ? (max - beside) / 2 : max - beside;
}

unsigned long run_segments_max(const struct plan *plan, unsigned long max)
{
    return plan->op == PLAN_SEND || max == 0 ? max : max - 1;
}

void run_target(const struct end *end, struct plan_target *ret)
{
    *ret = (struct plan_target){.addr = (uint64_t)(uintptr_t)end->in, .handle = end->handle};
    if (!end->args.apart)
        return;
    for (; ret->handle_count < end->args.in_slots && ret->handle_count < PLAN_APART_MAX;
         ret->handle_count++)
        ret->handles[ret->handle_count] = end_in_handle(end, ret->handle_count);
}

uint64_t run_slots(const struct plan *plan)
{
    if (plan->buffers > 0)
        return plan->buffers;
    return plan->test == PLAN_LAT && plan->op != PLAN_READ ? RUN_PINGPONG_SLOTS : plan->window;
}

void run_aim(const struct run *run, uint64_t number, struct end_message *message)
{
    const struct plan_target *remote = &run->remote;
    uint64_t slot = number % run_slots(run->plan);

    message->remote_addr = remote->addr + slot * run->end->args.slot_bytes;
    message->remote_handle = slot < remote->handle_count ? remote->handles[slot] : remote->handle;
}

void run_read_fill(const struct run *run)
{
    const struct plan *plan = run->plan;

    for (uint64_t slot = 0; slot < run_slots(plan); slot++)
        pattern_fill(end_in(run->end, slot), plan->size_bytes, plan->seed, slot);
}

int run_post_receives(struct run *run, bool client)
{
    const struct plan *plan = run->plan;
    bool with_buffer =
        plan->op == PLAN_SEND && (plan->test == PLAN_LAT || plan->both_ways || !client);

    if (plan->op == PLAN_READ && !client)
        run_read_fill(run);
    for (unsigned i = 0; i < run->end->args.recvs; i++)
        if (end_post_recv(run->end, i, with_buffer) < 0)
            return -1;
    return 0;
}

void run_fill(const struct run *run, uint8_t *slot, size_t len_bytes, uint64_t seed,
              uint64_t number)
{
    struct end *end = run->end;

    if (!end->flat) {
        pattern_fill(slot, len_bytes, seed, number);
        return;
    }
    pattern_fill(end->flat, len_bytes, seed, number);
    segments_scatter(slot, len_bytes, end->args.segments, end->flat, len_bytes);
}

bool run_enough(const struct run *run, uint64_t messages, uint64_t bytes)
{
    const struct plan *plan = run->plan;

    if (messages >= plan->iters || bytes >= plan->total_bytes)
        return true;
    if (plan->duration_ms == UINT64_MAX)
        return false;
    if (plan->size_bytes < LARGE_BYTES && messages % MESSAGES_PER_CLOCK != 0)
        return false;
    return end_now_ns() - run->start_ns >= plan->duration_ms * 1000000u;
}

int run_verify(struct run *run, const void *bytes, uint64_t len_bytes, uint64_t seed,
               uint64_t number)
{
    uint64_t expected = plan_size(run->plan, number);
    struct pattern_fault fault;
    struct end *end = run->end;

    if (len_bytes != expected) {
        snprintf(end->why, sizeof(end->why),
                 "message %" PRIu64 " has %" PRIu64 " bytes instead of %" PRIu64, number, len_bytes,
                 expected);
        run->corrupt = true;
        return -1;
    }
    /* RDMA Writes place their data in one piece; sends and RDMA Reads place it in segments. */
    if (end->flat && (run->plan->op == PLAN_SEND || run->plan->op == PLAN_READ)) {
        segments_gather(end->flat, bytes, (size_t)run->plan->size_bytes, end->args.segments,
                        (size_t)len_bytes);
        bytes = end->flat;
    }
    if (pattern_check(bytes, (size_t)len_bytes, seed, number, &fault))
        return 0;
    snprintf(end->why, sizeof(end->why),
             "message %" PRIu64 " of %" PRIu64 " bytes is wrong from byte %zu on: 0x%02x instead "
             "of 0x%02x",
             number, len_bytes, fault.offset, fault.found, fault.expected);
    run->corrupt = true;
    return -1;
}

bool run_number(uint32_t imm, uint64_t expected, uint64_t *ret)
{
    uint32_t ahead = (imm - (uint32_t)expected) & RUN_NUMBER_MASK;

    if (ahead > RUN_NUMBER_MASK / 2)
        return false;
    *ret = expected + ahead;
    return true;
}

int run_client_done(struct run *run)
{
    struct note note;
    int r;

    if (run->client_done)
        return 1;
    r = note_recv(run->control, 0, &note);
    if (r < 0)
        snprintf(run->end->why, sizeof(run->end->why), "the client is gone: %.400s",
                 run->control->why);
    run->client_done = r > 0;
    return r;
}

int run_silence(struct run *run)
{
    snprintf(run->end->why, sizeof(run->end->why),
             "nothing arrived for %d s after %" PRIu64 " messages", END_PATIENCE_MS / 1000,
             run->received);
    return -1;
}

int run_client_quiet(struct run *run, unsigned timeout_ms, uint64_t *silent_ms)
{
    int r = run_client_done(run);

    if (r != 0)
        return r < 0 ? -1 : 0;
    *silent_ms += timeout_ms;
    return *silent_ms >= END_PATIENCE_MS ? run_silence(run) : 1;
}

void run_keep_sample(struct run *run, uint64_t ns)
{
    uint64_t place;

    if (run->sample_count < run->sample_max) {
        run->sample_ns[run->sample_count++] = ns;
        return;
    }
    place = pattern_size(run->plan->seed, run->measured, run->measured);
    if (place < run->sample_max)
        run->sample_ns[place] = ns;
}

int run_post_end(struct run *run)
{
    const struct end_message mark = {.has_imm = true, .imm = RUN_END};

    return end_post_send(run->end, &mark);
}

bool run_is_end(const struct end_arrival *arrival)
{
    return arrival->has_imm && !arrival->by_write && arrival->imm == RUN_END;
}
