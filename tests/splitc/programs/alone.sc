/*
 * A large transfer into the spread heap needs nothing of its target: it arrives although the target is not in the
 * library at that time. Until the two processes have what they need for that, transfers go in messages, for which the
 * target has to be there; so it is tried a few times.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>

#define BYTES 65536
#define INTS (BYTES / (int)sizeof(int))
#define TRIES 20
#define PATIENCE_S 2.0
#define AWAY_S 0.1 /* by then the target has left the barrier */

/* The last int of the transfer has come, without a call of the library (get_seconds is none). */
static int comes(volatile int *last, int value)
{
    double end = get_seconds() + PATIENCE_S;

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

int splitc_main()
{
    int *spread heap = all_spread_malloc(PROCS, BYTES);
    int *mine = (int *)(heap + MYPROC), *buffer = malloc(BYTES);
    int i, try, alone = PROCS == 1;

    if (heap == NULL || !buffer)
        exit(1);
    memset(mine, 0, BYTES);
    for (try = 1; try <= TRIES && !alone; try++) {
        for (i = 0; i < INTS; i++)
            buffer[i] = try * INTS + i;
        barrier();
        if (MYPROC == 0) {
            pause_for(AWAY_S);
            bulk_write((int *global)(heap + 1), buffer, BYTES);
        }
        if (MYPROC == 1)
            alone = comes(mine + INTS - 1, try * INTS + INTS - 1);
        barrier();
        for (i = 0; MYPROC == 1 && i < INTS; i++)
            if (mine[i] != buffer[i])
                printf("int %d is wrong\n", i), exit(1);
        alone = all_reduce_to_all_max(alone);
    }
    free(buffer);
    on_one printf("alone: %s\n", alone ? "the target took no part" : "every transfer waited for its target");
    return !alone;
}
