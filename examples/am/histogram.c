/*
 * A distributed histogram: each process has many numbers and owns some of the buckets. It sends its
 * numbers in batches, by medium messages: each number goes to the process that owns its bucket.
 * Handlers of an endpoint run one after the other, so they need no locks.
 *
 *   amrun -n 4 histogram [NUMBERS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <am_amx.h>

#define ADD  1
#define DONE 2

#define BUCKETS 1000
#define BATCH   512

static int me, procs;
static int count[BUCKETS]; /* only own buckets are used: bucket % procs == me */
static int under_way;

static void die(const char *what, int code)
{
    fprintf(stderr, "histogram: %s: %d (%s)\n", what, code, amvia_LastError());
    AMX_SPMDExit(1);
}

#define DO(call)                                                                                   \
    do {                                                                                           \
        int do_code = (call);                                                                      \
        if (do_code != AM_OK)                                                                      \
            die(#call, do_code);                                                                   \
    } while (0)

static void on_add(void *token, void *buf, size_t nbytes)
{
    const uint16_t *bucket = (const uint16_t *)buf;
    size_t i;

    for (i = 0; i < nbytes / sizeof(*bucket); i++)
        count[bucket[i]]++;
    DO(AM_Reply0(token, DONE));
}

static void on_done(void *token)
{
    (void)token;
    under_way--;
}

/*
 * Draw the next number. The same first state always gives the same numbers, so that check() can
 * count the numbers of all processes.
 */
static unsigned draw(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 10) % BUCKETS;
}

static void send_batch(ep_t ep, int to, uint16_t *batch, int *used)
{
    if (*used == 0)
        return;
    under_way++;
    DO(AM_RequestI0(ep, to, ADD, batch, (size_t)*used * sizeof(*batch)));
    *used = 0;
}

static void count_all(ep_t ep, eb_t bundle, int numbers)
{
    uint16_t *batch = (uint16_t *)malloc(sizeof(*batch) * BATCH * (size_t)procs);
    int *used = (int *)calloc((size_t)procs, sizeof(*used));
    unsigned state = (unsigned)me * 77u + 1;
    int i;

    for (i = 0; i < numbers; i++) {
        unsigned bucket = draw(&state);
        int to = (int)bucket % procs;

        batch[to * BATCH + used[to]++] = (uint16_t)bucket;
        if (used[to] == BATCH)
            send_batch(ep, to, batch + to * BATCH, &used[to]);
    }
    for (i = 0; i < procs; i++)
        send_batch(ep, i, batch + i * BATCH, &used[i]);
    while (under_way > 0)
        DO(AM_Poll(bundle));
    free(batch);
    free(used);
}

/* Count all numbers again, and compare the counts of this process's buckets. */
static int check(int numbers)
{
    int *want = (int *)calloc(BUCKETS, sizeof(*want)), p, i, bad = 0;

    for (p = 0; p < procs; p++) {
        unsigned state = (unsigned)p * 77u + 1;

        for (i = 0; i < numbers; i++)
            want[draw(&state)]++;
    }
    for (i = me; i < BUCKETS; i += procs)
        bad += want[i] != count[i];
    free(want);
    return bad;
}

int main(int argc, char **argv)
{
    uint64_t job;
    eb_t bundle;
    ep_t ep;
    int numbers, bad, all_bad = 0, i, *everybody;

    DO(AMX_SPMDStartup(&argc, &argv, 0, &job, &bundle, &ep));
    me = AMX_SPMDMyProc();
    procs = AMX_SPMDNumProcs();
    numbers = argc > 1 ? atoi(argv[1]) : 200000;
    DO(AM_SetHandler(ep, ADD, on_add));
    DO(AM_SetHandler(ep, DONE, on_done));
    DO(AMX_SPMDBarrier());
    count_all(ep, bundle, numbers);
    DO(AMX_SPMDBarrier()); /* now all numbers are counted */
    bad = check(numbers);
    everybody = (int *)malloc(sizeof(int) * (size_t)procs);
    DO(AMX_SPMDAllGather(&bad, everybody, sizeof(bad)));
    for (i = 0; i < procs; i++)
        all_bad += everybody[i];
    if (me == 0)
        printf("histogram: %d processes, %d numbers each in %d buckets: %s\n", procs, numbers,
               BUCKETS, all_bad == 0 ? "good" : "WRONG");
    fflush(stdout);
    DO(AMX_SPMDBarrier());
    return AMX_SPMDExit(all_bad == 0 ? 0 : 1);
}
