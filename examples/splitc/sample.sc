/*
 * Sample sort. Keys from a sorted sample (splitters) divide the range of keys among the processes.
 * Each process sends the keys of each range to its process in one bulk store, and sorts the keys
 * that it has received.
 */
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>

#define OVERSAMPLE 16

static int by_value(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

    return x < y ? -1 : x > y;
}

static unsigned *sorted_sample(const unsigned *keys, int n)
{
    unsigned sample[PROCS]::[OVERSAMPLE];
    unsigned *all = malloc(PROCS * OVERSAMPLE * sizeof(unsigned));
    int i, p;

    for (i = 0; i < OVERSAMPLE; i++)
        tolocal(sample[MYPROC])[i] = keys[(long)i * n / OVERSAMPLE];
    barrier();
    for (p = 0; p < PROCS; p++)
        bulk_get(all + p * OVERSAMPLE, sample[p], OVERSAMPLE * sizeof(unsigned));
    sync();
    barrier();
    qsort(all, PROCS * OVERSAMPLE, sizeof(unsigned), by_value);
    return all;
}

int splitc_main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 2000, i, p, begin, total = 0, bad = 0;
    unsigned *keys = malloc(n * sizeof(unsigned)), *mine, *sample, sum = 0, seed = 5 + MYPROC;
    unsigned *spread box = all_spread_malloc(PROCS, PROCS * n * sizeof(unsigned));
    int lengths[PROCS]::[PROCS], used[PROCS]::;
    unsigned ends[PROCS]::[2];
    double start;

    if (box == NULL)
        exit(1);
    for (i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        sum += (keys[i] = seed ^ seed >> 13) * 2654435761u;
    }
    barrier();
    start = get_seconds();
    sample = sorted_sample(keys, n);
    qsort(keys, n, sizeof(unsigned), by_value);
    for (p = begin = 0; p < PROCS; p++) {
        for (i = begin; i < n && (p == PROCS - 1 || keys[i] < sample[(p + 1) * OVERSAMPLE]); i++)
            ;
        bulk_store((unsigned *global)(box + p) + MYPROC * n, keys + begin,
                   (i - begin) * sizeof(unsigned));
        lengths[p][MYPROC] :- i - begin;
        begin = i;
    }
    all_store_sync();
    mine = malloc(PROCS * n * sizeof(unsigned));
    for (p = 0; p < PROCS; p++)
        for (i = 0; i < tolocal(lengths[MYPROC])[p]; i++)
            mine[total++] = ((unsigned *)(box + MYPROC))[p * n + i];
    qsort(mine, total, sizeof(unsigned), by_value);
    start = get_seconds() - start;
    for (i = 0; i < total; i++)
        sum -= mine[i] * 2654435761u;
    free(keys);
    free(sample);
    used[MYPROC] = total;
    ends[MYPROC][0] = total ? mine[0] : 0;
    ends[MYPROC][1] = total ? mine[total - 1] : 0;
    barrier();
    for (p = MYPROC - 1; p >= 0 && used[p] == 0; p--)
        ;
    if (p >= 0 && total && ends[p][1] > mine[0])
        bad++;
    bad += all_reduce_to_all_add((int)sum) != 0;
    bad += all_reduce_to_all_add(total) != n * PROCS;
    free(mine);
    bad = all_reduce_to_all_add(bad);
    on_one printf("sample: %d keys per process, %.4f us per key%s\n", n, start * 1e6 / n,
                  bad ? "  WRONG" : "");
    if (bad)
        exit(1);
    return 0;
}
