/*
 * Two processes send a short message back and forth; then process 0 sends long messages.
 *
 *   amrun -n 2 pingpong [ROUNDS]
 *
 * Process 0 prints the time of half a round trip, and the bandwidth. If process 0 is alone, it
 * sends to itself. Processes 2, 3 and so on do nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <am_amx.h>

#define PING 1
#define PONG 2
#define DATA 3
#define GOT  4

#define BLOCK (1 << 20) /* bytes of a long message */
#define SLOTS 8         /* most blocks under way; each block has its own place */

static volatile int pongs, got;

static void die(const char *what, int code)
{
    fprintf(stderr, "pingpong: %s: %d (%s)\n", what, code, amvia_LastError());
    AMX_SPMDExit(1);
}

#define DO(call)                                                                                   \
    do {                                                                                           \
        int do_code = (call);                                                                      \
        if (do_code != AM_OK)                                                                      \
            die(#call, do_code);                                                                   \
    } while (0)

static void on_ping(void *token)
{
    DO(AM_Reply0(token, PONG));
}

static void on_pong(void *token)
{
    (void)token;
    pongs++;
}

static void on_data(void *token, void *buf, size_t nbytes, int number)
{
    (void)buf;
    (void)nbytes;
    DO(AM_Reply1(token, GOT, number));
}

static void on_got(void *token, int number)
{
    (void)token;
    (void)number;
    got++;
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_time(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void latency(eb_t bundle, ep_t ep, int to, int rounds)
{
    double *took = (double *)malloc(sizeof(double) * (size_t)rounds), begin, sum = 0;
    int i;

    for (i = -100; i < rounds; i++) {
        begin = seconds();
        pongs = 0;
        DO(AM_Request0(ep, to, PING));
        while (pongs == 0)
            DO(AM_Poll(bundle));
        if (i < 0)
            continue; /* warm-up, not measured */
        took[i] = seconds() - begin;
        sum += took[i];
    }
    qsort(took, (size_t)rounds, sizeof(*took), by_time);
    printf("pingpong: %d round trips, half of one takes %.2f us (median), %.2f us (mean)\n", rounds,
           took[rounds / 2] / 2 * 1e6, sum / rounds / 2 * 1e6);
    free(took);
}

static void bandwidth(eb_t bundle, ep_t ep, int to, int blocks)
{
    char *source = (char *)malloc((size_t)BLOCK * SLOTS);
    double begin = 0;
    int i, code;

    memset(source, 1, (size_t)BLOCK * SLOTS);
    got = 0;
    for (i = -SLOTS; i < blocks; i++) {
        int slot = (i + SLOTS) % SLOTS;

        if (i == 0)
            begin = seconds();
        /* The request is asynchronous: do not change the source until the answer has come. */
        while ((code = AM_RequestXferAsync1(ep, to, (uintptr_t)slot * BLOCK, DATA,
                                            source + (size_t)slot * BLOCK, BLOCK, i)) ==
               AM_ERR_IN_USE)
            DO(AM_Poll(bundle));
        DO(code);
    }
    while (got < blocks + SLOTS)
        DO(AM_Poll(bundle));
    printf("pingpong: %d long messages of %d bytes: %.0f MB/s\n", blocks, BLOCK,
           (double)blocks * BLOCK / (seconds() - begin) / 1e6);
    free(source);
}

int main(int argc, char **argv)
{
    uint64_t job;
    eb_t bundle;
    ep_t ep;
    void *segment;
    int rounds;

    DO(AMX_SPMDStartup(&argc, &argv, 0, &job, &bundle, &ep));
    rounds = argc > 1 ? atoi(argv[1]) : 10000;
    if (rounds < 1)
        die("ROUNDS: at least 1", rounds);
    DO(AM_SetHandler(ep, PING, on_ping));
    DO(AM_SetHandler(ep, PONG, on_pong));
    DO(AM_SetHandler(ep, DATA, on_data));
    DO(AM_SetHandler(ep, GOT, on_got));
    segment = calloc(SLOTS, BLOCK);
    DO(AM_SetSeg(ep, segment, (uintptr_t)SLOTS * BLOCK));
    DO(AMX_SPMDBarrier());
    if (AMX_SPMDMyProc() == 0) {
        latency(bundle, ep, AMX_SPMDNumProcs() > 1, rounds);
        bandwidth(bundle, ep, AMX_SPMDNumProcs() > 1, rounds / 20 + 1);
        fflush(stdout);
    }
    DO(AMX_SPMDBarrier());
    return AMX_SPMDExit(0);
}
