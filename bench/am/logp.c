/*
 * The LogP characteristics of Active Messages between two processes, and bandwidth over size; one
 * "name value" line each, for bench/am/run.
 *
 *   amrun -n 2 am_logp [ROUNDS]
 *
 * o_s is the time a request call takes with credits at hand; o_r the time of the poll that finds a reply
 * and runs its handler; g the time per request when they are sent as fast as credits allow; L what is left
 * of half a round trip (rtt/2 - o_s - o_r). All are medians, in microseconds. Process 1 polls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <am_amx.h>

enum { PING = 1, PONG, DATA, GOT, QUIT };

#define LONG_MAX_BYTES (1 << 20)
#define SLOTS          8

static eb_t bundle;
static ep_t ep;
static volatile int answers, quit;

#define DO(call)                                                                                   \
    do {                                                                                           \
        if ((call) != AM_OK)                                                                       \
            AMX_FatalErr("%s: %s", #call, amvia_LastError());                                      \
    } while (0)

static void on_ping(void *token)
{
    DO(AM_Reply0(token, PONG));
}

static void on_answer(void *token)
{
    (void)token;
    answers++;
}

static void on_data(void *token, void *buf, size_t nbytes)
{
    (void)buf;
    (void)nbytes;
    DO(AM_Reply0(token, PONG));
}

static void on_quit(void *token)
{
    (void)token;
    quit = 1;
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *sample, int n)
{
    qsort(sample, (size_t)n, sizeof(*sample), by_value);
    return sample[n / 2];
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

/* The call alone; then a pause longer than the answer takes; then the poll alone. */
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
        if (answers == 0) { /* late this time: not the cost of a reception */
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

/* MB/s of long messages of a size, to places that take turns. */
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
        printf("bw_%zu %.1f\n", size, bandwidth(source, size));
    free(sample);
    free(source);
}

int main(int argc, char **argv)
{
    uint64_t job;
    int rounds;

    DO(AMX_SPMDStartup(&argc, &argv, 0, &job, &bundle, &ep));
    rounds = argc > 1 ? atoi(argv[1]) : 4000;
    if (AMX_SPMDNumProcs() != 2 || rounds < 1)
        AMX_FatalErr("two processes are needed, and at least 1 round");
    DO(AM_SetHandler(ep, PING, on_ping));
    DO(AM_SetHandler(ep, PONG, on_answer));
    DO(AM_SetHandler(ep, DATA, on_data));
    DO(AM_SetHandler(ep, QUIT, on_quit));
    DO(AM_SetSeg(ep, calloc(SLOTS, LONG_MAX_BYTES), (uintptr_t)SLOTS * LONG_MAX_BYTES));
    DO(AMX_SPMDBarrier());
    if (AMX_SPMDMyProc() == 0) {
        measure(rounds);
        DO(AM_Request0(ep, 1, QUIT));
    } else {
        while (!quit)
            DO(AM_Poll(bundle));
    }
    fflush(stdout);
    DO(AMX_SPMDBarrier());
    return AMX_SPMDExit(0);
}
