/*
 * Measures the LogP characteristics of Active Messages between two processes, and the bandwidth by
 * size. It prints "name value" lines for bench/run am.
 *
 *   amrun -n 2 am_logp [ROUNDS]
 *
 * o_s is the time of a request call when credits are available. o_r is the time of the poll that
 * finds a reply and runs its handler. g is the time per request when requests are sent as fast as
 * credits allow. L is the rest of half a round trip (rtt/2 - o_s - o_r). All values are medians, in
 * microseconds. Process 1 polls for requests.
 */
#include "bench/am/pair.h"

#include <string.h>

enum { DATA = OWN_HANDLERS };

#define LONG_MAX_BYTES (1 << 20)
#define SLOTS          8

static void on_data(void *token, void *buf, size_t nbytes)
{
    (void)buf;
    (void)nbytes;
    DO(AM_Reply0(token, PONG));
}

static void wait_for(int n)
{
    while (answers < n)
        DO(AM_Poll(bundle));
}

static double round_trip(double *sample, int rounds)
{
    for (int i = -50; i < rounds; i++) {
        double begin = now_us();

        answers = 0;
        DO(AM_Request0(ep, 1, PING));
        wait_for(1);
        if (i >= 0)
            sample[i] = now_us() - begin;
    }
    return median(sample, rounds);
}

/* Measure the request call alone. Pause while its answer arrives. Then measure the poll alone. */
static void overheads(double *sample, int rounds, double rtt, double *o_s, double *o_r)
{
    double *receive = sample + rounds, begin;

    for (int i = 0; i < rounds; i++) {
        answers = 0;
        begin = now_us();
        DO(AM_Request0(ep, 1, PING));
        sample[i] = now_us() - begin;
        while (now_us() < begin + 3 * rtt)
            continue;
        begin = now_us();
        DO(AM_Poll(bundle));
        receive[i] = now_us() - begin;
        if (answers == 0) { /* the answer is late, so this poll has received nothing */
            wait_for(1);
            i--;
        }
    }
    *o_s = median(sample, rounds);
    *o_r = median(receive, rounds);
}

static double gap(double *sample, int rounds)
{
    enum { BURST = 200 };
    int bursts = rounds / BURST + 5;

    for (int b = 0; b < bursts; b++) {
        double begin = now_us();

        answers = 0;
        for (int i = 0; i < BURST; i++)
            DO(AM_Request0(ep, 1, PING));
        wait_for(BURST);
        sample[b] = (now_us() - begin) / BURST;
    }
    return median(sample, bursts);
}

/* Returns the MB/s of long messages of `size` bytes, which are written to SLOTS places in turn. */
static double bandwidth(char *source, size_t size)
{
    int count = (int)((size_t)(16 << 20) / (size + 16384)) + SLOTS;
    double sample[5];

    for (int round = 0; round < 5; round++) {
        double begin = now_us();

        answers = 0;
        for (int i = 0; i < count; i++) {
            size_t at = (size_t)(i % SLOTS) * LONG_MAX_BYTES;
            int rc;

            while ((rc = AM_RequestXferAsync0(ep, 1, at, DATA, source + at, size)) == AM_ERR_IN_USE)
                DO(AM_Poll(bundle));
            DO(rc);
        }
        wait_for(count);
        sample[round] = (double)count * (double)size / (now_us() - begin);
    }
    return median(sample, 5);
}

static void measure(int rounds)
{
    double *sample = malloc(sizeof(double) * 2 * (size_t)(rounds + 300)), rtt, o_s, o_r;
    char *source = calloc(SLOTS, LONG_MAX_BYTES);

    memset(source, 1, (size_t)SLOTS * LONG_MAX_BYTES);
    rtt = round_trip(sample, rounds);
    overheads(sample, rounds / 4 + 1, rtt, &o_s, &o_r);
    printf("half_rtt %.3f\no_s %.3f\no_r %.3f\nL %.3f\n", rtt / 2, o_s, o_r, rtt / 2 - o_s - o_r);
    printf("g %.3f\n", gap(sample, rounds));
    for (size_t size = 4; size <= LONG_MAX_BYTES; size *= 4)
        printf("bw_%zu %.4g\n", size, bandwidth(source, size));
    free(sample);
    free(source);
}

int main(int argc, char **argv)
{
    int rounds = pair_join(argc, argv);

    DO(AM_SetHandler(ep, DATA, on_data));
    DO(AM_SetSeg(ep, calloc(SLOTS, LONG_MAX_BYTES), (uintptr_t)SLOTS * LONG_MAX_BYTES));
    return pair_run(measure, rounds, AM_Poll);
}
