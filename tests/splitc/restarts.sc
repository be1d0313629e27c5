/*
 * Rounds of every kind of access to other processes until the file $STOP exists. Every value is checked. Process 0 says
 * how far the job is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <split-c/split-c.h>

#define WORDS 5000 /* of a bulk transfer: several packets, and no ring */

static int buffer[WORDS];

static void wrong(const char *what, int round)
{
    printf("process %d: %s of round %d is wrong\n", MYPROC, what, round);
    exit(1);
}

static int value(int round, int process, int i)
{
    return round * 7919 + process * 131 + i;
}

static int told_to_stop(int round)
{
    int stop = 0;

    if (MYPROC == 0) {
        printf("at %d\n", round);
        fflush(stdout);
        stop = access(getenv("STOP"), F_OK) == 0;
    }
    return all_bcast(stop);
}

int splitc_main(void)
{
    int cells[PROCS]::[WORDS];
    int right = (MYPROC + 1) % PROCS, left = (MYPROC + PROCS - 1) % PROCS;
    int *mine = tolocal(&cells[MYPROC][0]);
    int round, i;

    for (round = 0; !told_to_stop(round); round++) {
        for (i = 0; i < WORDS; i++)
            buffer[i] = value(round, MYPROC, i);
        bulk_write(&cells[right][0], buffer, sizeof(buffer));
        barrier();
        for (i = 0; i < WORDS; i++)
            if (mine[i] != value(round, left, i))
                wrong("a bulk write", round);
        barrier();
        for (i = 0; i < 50; i++)
            cells[right][i] = value(round, MYPROC, -i);
        for (i = 50; i < 100; i++)
            cells[right][i] := value(round, MYPROC, -i);
        sync();
        for (i = 0; i < 100; i++)
            if (cells[right][i] != value(round, MYPROC, -i))
                wrong("a write", round);
        for (i = 100; i < 150; i++)
            cells[right][i] :- value(round, MYPROC, -i);
        all_store_sync();
        for (i = 100; i < 150; i++)
            if (mine[i] != value(round, left, -i))
                wrong("a store", round);
        bulk_get(buffer, &cells[right][0], sizeof(buffer));
        sync();
        if (buffer[149] != value(round, MYPROC, -149) || buffer[WORDS - 1] != value(round, MYPROC, WORDS - 1))
            wrong("a bulk get", round);
        if (all_reduce_to_all_add(round) != round * PROCS)
            wrong("a sum", round);
    }
    return 0;
}
