/*
 * Each process writes to its right neighbour in every way, and checks what has come from the left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>
#include <split-c/atomic.h>

static int counter;

int splitc_main()
{
    int A[PROCS]::, right = (MYPROC + 1) % PROCS, left = (MYPROC + PROCS - 1) % PROCS, got, i;
    double *spread d = all_spread_malloc(PROCS, 1000 * sizeof(double));
    double mine[1000], back[1000];

    A[right] = 100 + MYPROC;
    barrier();
    if (*tolocal(&A[MYPROC]) != 100 + left)
        printf("write: %d\n", A[MYPROC]), exit(1);
    got := A[right];
    sync();
    if (got != 100 + MYPROC)
        printf("get: %d\n", got), exit(1);
    barrier();
    A[right] :- 7 * MYPROC;
    all_store_sync();
    if (A[MYPROC] != 7 * left)
        printf("store: %d\n", A[MYPROC]), exit(1);
    for (i = 0; i < 1000; i++)
        mine[i] = MYPROC + i * 0.5;
    bulk_store(d + right, mine, sizeof(mine));
    store_sync(sizeof(mine));
    bulk_read(back, d + MYPROC, sizeof(back));
    for (i = 0; i < 1000; i++)
        if (back[i] != left + i * 0.5)
            printf("bulk: %g\n", back[i]), exit(1);
    if (all_reduce_to_all_add(MYPROC + 1) != PROCS * (PROCS + 1) / 2)
        exit(2);
    if (all_scan_add(1) != MYPROC + 1)
        exit(3);
    if (all_bcast(MYPROC + 5) != 5)
        exit(4);
    for (i = 0; i < 10; i++)
        fetch_and_add(toglobal(0, &counter), 1);
    barrier();
    on_one if (counter != 10 * PROCS)
        exit(5);
    barrier();
    on_one printf("smoke: %d processes\n", PROCS);
    return 0;
}
