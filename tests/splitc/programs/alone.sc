/*
 * Large transfers into the spread heap need only the process that starts them. A write arrives although its target
 * makes no call of the library, and the target of a store counts the store although the storing process makes no call
 * any more. Before the two processes have set that up, transfers are messages, for which both processes must call the
 * library. So each test is tried a few times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>

#define BYTES 65536
#define INTS (BYTES / (int)sizeof(int))
#define TRIES 20
#define PATIENCE_S 0.5
#define AWAY_S 0.05 /* after this time the target has left the barrier */

/* Wait until the last int of the transfer arrives, without communication (get_seconds does not communicate). */
static int comes(volatile int *last, int value)
{
    double end = get_seconds() + PATIENCE_S;

    if (*last == value)
        return 0; /* it has arrived while we were in the barrier */
    while (*last != value && get_seconds() < end)
        ;
    return *last == value;
}

static void pause_for(double seconds)
{
    double end = get_seconds() + seconds;

    while (get_seconds() < end)
        ;
}

static int *spread heap;
static int *mine, *buffer;

static void fill(int try)
{
    int i;

    for (i = 0; i < INTS; i++)
        buffer[i] = try * INTS + i;
}

static void check(int try)
{
    int i;

    fill(try);
    for (i = 0; i < INTS; i++)
        if (mine[i] != buffer[i])
            printf("try %d: int %d is wrong\n", try, i), exit(1);
}

/* Process 1 must see the write of process 0 without a call of the library. */
static int write_alone(int try)
{
    int alone = 0;

    fill(try);
    barrier();
    if (MYPROC == 0) {
        pause_for(AWAY_S);
        bulk_write((int *global)(heap + 1), buffer, BYTES);
    }
    if (MYPROC == 1)
        alone = comes(mine + INTS - 1, try * INTS + INTS - 1);
    barrier();
    if (MYPROC == 1)
        check(try);
    return all_reduce_to_all_max(alone);
}

/* Process 1 waits for the store of process 0, then writes an answer; process 0 waits without a call of the library. */
static int store_alone(int try)
{
    int alone = 0;

    fill(try);
    barrier();
    if (MYPROC == 0) {
        bulk_store((int *global)(heap + 1), buffer, BYTES);
        alone = comes(mine + INTS - 1, -try);
    }
    if (MYPROC == 1) {
        pause_for(AWAY_S);
        store_sync(BYTES);
        check(try);
        buffer[INTS - 1] = -try;
        bulk_write((int *global)(heap + 0), buffer, BYTES);
    }
    barrier();
    return all_reduce_to_all_max(alone);
}

int splitc_main()
{
    int try, written = PROCS == 1, stored = PROCS == 1;

    heap = all_spread_malloc(PROCS, BYTES);
    buffer = malloc(BYTES);
    if (heap == NULL || !buffer)
        exit(1);
    mine = (int *)(heap + MYPROC);
    memset(mine, 0, BYTES);
    for (try = 1; try <= TRIES && !written; try++)
        written = write_alone(try);
    for (try = TRIES + 1; try <= 2 * TRIES && !stored; try++)
        stored = store_alone(try);
    free(buffer);
    on_one printf("alone: writes %s their target, stores %s who stored\n", written ? "need not" : "need",
                  stored ? "need not" : "need");
    return !written || !stored;
}
