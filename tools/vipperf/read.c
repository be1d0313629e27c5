/*
 * Measures RDMA Reads: message n is a read of the server's slot n % slots. The server fills its
 * slots once, then only waits for the end. In lat one read is under way, in bw and rate a window of
 * reads.
 *
 * Slot s has the contents of message s. So the client can check every byte on its own.
 */
#include "tools/vipperf/run.h"

#include <inttypes.h>
#include <stdio.h>

#include "tools/vipperf/pace.h"
#include "tools/vipperf/pattern.h"

static int post_read(struct run *run, uint64_t number)
{
    const struct plan *plan = run->plan;
    struct end_message message = {
        .bytes = end_in(run->end, number),
        .len_bytes = (uint32_t)plan->size_bytes,
        .segments = (unsigned)plan->segments,
        .read = true,
    };

    run_aim(run, number, &message);
    if (end_post_send(run->end, &message) < 0)
        return -1;
    run->sent++;
    return 0;
}

/* Wait until at most `left` reads are under way. Outcomes: 0; -1. */
static int await_reads(struct run *run, uint64_t left)
{
    int r = end_drain(run->end, left, END_PATIENCE_MS);

    if (r == 0)
        snprintf(run->end->why, sizeof(run->end->why),
                 "no RDMA Read completed for %d s after %" PRIu64, END_PATIENCE_MS / 1000,
                 run->end->sends_done);
    return r == 1 ? 0 : -1;
}

/* Count and check completed reads. Outcomes: 0; -1. */
static int take_reads(struct run *run)
{
    const struct plan *plan = run->plan;

    for (; run->received < run->end->sends_done; run->received++) {
        uint64_t slot = run->received % run_slots(plan);

        run->bytes_received += plan->size_bytes;
        if (plan->verify &&
            run_verify(run, end_in(run->end, slot), plan->size_bytes, plan->seed, slot) < 0)
            return -1;
    }
    return 0;
}

/* Make one read after the other; half of the time of each read is a sample. */
static int read_singly(struct run *run)
{
    struct pace pace = {.every_ms = run->plan->every_ms};

    for (uint64_t number = 0;
         number < RUN_WARM_UP || !run_enough(run, run->measured, run->measured_bytes); number++) {
        uint64_t start_ns, took_ns;

        if (number == RUN_WARM_UP)
            run->start_ns = end_now_ns();
        if (number >= RUN_WARM_UP)
            pace_wait(&pace);
        start_ns = end_now_ns();
        if (post_read(run, number) < 0 || await_reads(run, 0) < 0)
            return -1;
        took_ns = end_now_ns() - start_ns;
        if (take_reads(run) < 0)
            return -1;
        if (number >= RUN_WARM_UP) {
            run->measured++;
            run->measured_bytes += run->plan->size_bytes;
            run_keep_sample(run, took_ns / 2);
        }
    }
    return 0;
}

static int read_windows(struct run *run)
{
    const struct plan *plan = run->plan;

    while (!run_enough(run, run->sent, run->bytes_received)) {
        if (run->sent - run->received == plan->window &&
            (await_reads(run, plan->window - 1) < 0 || take_reads(run) < 0))
            return -1;
        if (post_read(run, run->sent) < 0)
            return -1;
    }
    if (await_reads(run, 0) < 0 || take_reads(run) < 0)
        return -1;
    run->measured = run->received;
    run->measured_bytes = run->bytes_received;
    return 0;
}

int run_read_client(struct run *run)
{
    int r;

    run->start_ns = end_now_ns();
    r = run->plan->test == PLAN_LAT ? read_singly(run) : read_windows(run);
    run->stop_ns = end_now_ns();
    return r < 0 ? -1 : run_post_end(run);
}

int run_read_server(struct run *run)
{
    for (;;) {
        struct end_arrival arrival;
        int r = end_recv(run->end, END_PATIENCE_MS, &arrival);

        if (r < 0)
            return -1;
        if (r > 0 && run_is_end(&arrival))
            return 0;
        r = run_client_done(run);
        if (r != 0)
            return r < 0 ? -1 : 0;
    }
}
