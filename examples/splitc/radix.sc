/*
 * Radix sort of 32-bit keys, with digits of 8 bits. In each pass every process counts its keys of
 * each digit. Sums over digits and processes give the place of each key. Then the process stores
 * each of its keys to this place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>

#define BITS    8
#define BUCKETS (1 << BITS)

static unsigned draw(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed ^ *seed >> 16;
}

/* counts[d] is the number of this process's keys with digit d; it becomes their first place. */
static void all_places(int counts[BUCKETS])
{
    int table[BUCKETS]::[PROCS];
    int first, d, p, sum, below;
    int mine[PROCS];

    /* The process that has table[d] sums up digit d. */
    for (d = 0; d < BUCKETS; d++)
        table[d][MYPROC] :- counts[d];
    all_store_sync();
    /* A place also depends on the totals of all lower digits, so every process gets all totals. */
    {
        int totals[BUCKETS]::, local[BUCKETS];

        for_my_1d(d, BUCKETS) {
            for (sum = p = 0; p < PROCS; p++)
                sum += tolocal(table[d])[p];
            totals[d] = sum;
        }
        barrier();
        for (d = 0; d < BUCKETS; d++)
            local[d] := totals[d];
        sync();
        for (d = below = 0; d < BUCKETS; d++) {
            first = below;
            below += local[d];
            if (d % PROCS != MYPROC)
                continue;
            bulk_read(mine, table[d], PROCS * sizeof(int));
            for (p = 0; p < PROCS; p++) {
                tolocal(table[d])[p] = first;
                first += mine[p];
            }
        }
        barrier();
    }
    for (d = 0; d < BUCKETS; d++)
        counts[d] := table[d][MYPROC];
    sync();
    barrier();
}

int splitc_main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 1000, i, shift, bad = 0;
    unsigned *spread from = all_spread_malloc(PROCS, n * sizeof(unsigned)), *spread to, *spread swap;
    unsigned *keys, seed = 17 * (MYPROC + 1), sum = 0, check = 0, last;
    double start;

    to = all_spread_malloc(PROCS, n * sizeof(unsigned));
    if (from == NULL || to == NULL)
        exit(1);
    keys = (unsigned *)(from + MYPROC);
    for (i = 0; i < n; i++)
        sum += (keys[i] = draw(&seed)) * 2654435761u;
    barrier();
    start = get_seconds();
    for (shift = 0; shift < 32; shift += BITS) {
        int place[BUCKETS] = {0};

        for (i = 0; i < n; i++)
            place[keys[i] >> shift & (BUCKETS - 1)]++;
        all_places(place);
        for (i = 0; i < n; i++) {
            int k = place[keys[i] >> shift & (BUCKETS - 1)]++;

            *((unsigned *global)(to + k / n) + k % n) :- keys[i];
        }
        all_store_sync();
        swap = from, from = to, to = swap;
        keys = (unsigned *)(from + MYPROC);
    }
    start = get_seconds() - start;
    for (i = 0; i < n; i++)
        check += keys[i] * 2654435761u;
    for (i = 1; i < n; i++)
        bad += keys[i - 1] > keys[i];
    last = MYPROC ? *((unsigned *global)(from + MYPROC - 1) + n - 1) : 0;
    bad += last > keys[0];
    bad += all_reduce_to_all_add((int)(sum - check)) != 0;
    bad = all_reduce_to_all_add(bad);
    on_one printf("radix: %d keys per process, %.4f us per key%s\n", n, start * 1e6 / n,
                  bad ? "  WRONG" : "");
    if (bad)
        exit(1);
    return 0;
}
