/*
 * Measures the operations between processes 0 and 1, in microseconds per operation, and the rate of
 * bulk transfers for each size. For single remote reads and writes it prints the median, because
 * one late wake-up would make the mean too large. For all other operations it prints the mean.
 * Process 1 waits in all_store_sync and serves process 0.
 *
 *   measure [REPETITIONS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>

static int count = 200;

#define TIME(text, statement, finish)                                                              \
    {                                                                                              \
        double start;                                                                              \
        int k;                                                                                     \
                                                                                                   \
        for (k = 0; k < count / 10; k++)                                                           \
            statement;                                                                             \
        finish;                                                                                    \
        start = get_seconds();                                                                     \
        for (k = 0; k < count; k++)                                                                \
            statement;                                                                             \
        finish;                                                                                    \
        printf("%-24s %10.3f us\n", text, (get_seconds() - start) * 1e6 / count);                  \
    }

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

#define MEDIAN(text, statement)                                                                    \
    {                                                                                              \
        double *t = malloc(count * sizeof(double)), start;                                         \
        int k;                                                                                     \
                                                                                                   \
        for (k = 0; k < count; k++) {                                                              \
            start = get_seconds();                                                                 \
            statement;                                                                             \
            t[k] = get_seconds() - start;                                                          \
        }                                                                                          \
        qsort(t, count, sizeof(double), by_value);                                                 \
        printf("%-24s %10.3f us\n", text, t[count / 2] * 1e6);                                     \
        free(t);                                                                                   \
    }

static void operations(int *global g, int *global mine)
{
    int x = 0, local[100];

    TIME("local read", x += *mine, (void)0)
    TIME("local write", *mine = k, (void)0)
    MEDIAN("read", x += *g)
    MEDIAN("write", *g = k)
    TIME("get", local[k % 100] := *g, sync())
    TIME("put", *g := k, sync())
    TIME("store", *g :- k, x += *g)
    if (*g != count - 1)
        printf("the last store has not arrived\n"), exit(1);
}

static void rates(char *global theirs, char *buffer, int most)
{
    int n, k, turns;

    printf("%10s %14s %14s %14s\n", "bytes", "read MB/s", "put MB/s", "store MB/s");
    for (n = 64; n <= most; n *= 4) {
        double t[4];

        turns = n < 65536 ? count / 4 + 1 : 8;
        t[0] = get_seconds();
        for (k = 0; k < turns; k++)
            bulk_read(buffer, theirs, n);
        t[1] = get_seconds();
        for (k = 0; k < turns; k++)
            bulk_put(theirs, buffer, n);
        sync();
        t[2] = get_seconds();
        for (k = 0; k < turns; k++)
            bulk_store(theirs, buffer, n);
        *buffer = *theirs;
        t[3] = get_seconds();
        printf("%10d %14.1f %14.1f %14.1f\n", n, 1e-6 * n * turns / (t[1] - t[0]),
               1e-6 * n * turns / (t[2] - t[1]), 1e-6 * n * turns / (t[3] - t[2]));
    }
}

int splitc_main(int argc, char **argv)
{
    int most = 1 << 20;
    int *spread words = all_spread_malloc(PROCS, sizeof(int));
    char *spread room = all_spread_malloc(PROCS, most);
    char *buffer = malloc(most);

    if (argc > 1)
        count = atoi(argv[1]);
    if (words == NULL || room == NULL || !buffer)
        exit(1);
    memset(buffer, 1, most);
    barrier();
    on_one {
        operations((int *global)(words + 1 % PROCS), (int *global)words);
        rates((char *global)(room + 1 % PROCS), buffer, most);
    }
    all_store_sync();
    free(buffer);
    return 0;
}
