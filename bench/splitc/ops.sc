/*
 * The times of Split-C's operations between processes 0 and 1, for bench/suite/splitc.py. Prints a
 * line "name value" for each, in us per operation or MB/s. Process 1 serves meanwhile in a barrier.
 *
 *   amrun -n 2 ops [OPERATIONS] [BYTES]      for each median; for each size and kind of transfer
 *
 * local_T: read by a global pointer to this process. read_T, write_T: median of single blocking
 * operations. get_T, put_T, store_T: a series is issued, then completed; time per operation, median
 * of ten series. get_issue: the get alone. get_take: sync() alone, after the answer has come.
 * get_whole: get and sync(). bulk_..._N: transfers of N bytes, in MB/s.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <split-c/split-c.h>

#define SERIES 10
#define MOST (1 << 20)

static int count = 2000;
static long bytes_max = 16l << 20;
static double *sample;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(int n)
{
    qsort(sample, n, sizeof(double), by_value);
    return sample[n / 2];
}

/* The time in steps finer than those of get_seconds, which are 0.24 us. */
static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

/* Measure the time of each single operation. */
#define SINGLE(name, statement)                                                                    \
    {                                                                                              \
        for (k = -count / 10; k < count; k++) {                                                    \
            double start = now_us();                                                               \
                                                                                                   \
            statement;                                                                             \
            if (k >= 0)                                                                            \
                sample[k] = now_us() - start;                                                      \
        }                                                                                          \
        printf("%s %.4f\n", name, median(count));                                                  \
    }

/* Measure the time of a series of operations and of the statement that completes the series. */
#define PIPED(name, statement, finish)                                                             \
    {                                                                                              \
        for (s = -1; s < SERIES; s++) {                                                            \
            double start = now_us();                                                               \
                                                                                                   \
            for (k = 0; k < count; k++)                                                            \
                statement;                                                                         \
            finish;                                                                                \
            if (s >= 0)                                                                            \
                sample[s] = (now_us() - start) / count;                                            \
        }                                                                                          \
        printf("%s %.4f\n", name, median(SERIES));                                                 \
    }

#define OPERATIONS(T)                                                                              \
    static void operations_##T(void *spread words)                                                 \
    {                                                                                              \
        T *global mine = (T *global)(T *spread)words;                                              \
        T *global theirs = (T *global)((T *spread)words + 1);                                      \
        T x = 0, *room = malloc(count * sizeof(T));                                                \
        int k, s;                                                                                  \
                                                                                                   \
        PIPED("local_" #T, x += *mine, (void)0)                                                    \
        SINGLE("read_" #T, x += *theirs)                                                           \
        SINGLE("write_" #T, *theirs = k)                                                           \
        PIPED("get_" #T, room[k] := *theirs, sync())                                               \
        PIPED("put_" #T, *theirs := k, sync())                                                     \
        PIPED("store_" #T, *theirs :- k, x += *theirs)                                             \
        if (*theirs != (T)(count - 1))                                                             \
            printf("the last store of a " #T " has not arrived\n"), exit(1);                       \
        free(room);                                                                                \
    }

OPERATIONS(char)
OPERATIONS(short)
OPERATIONS(int)
OPERATIONS(long)
OPERATIONS(float)
OPERATIONS(double)

/* Measure the parts of a get that this process executes. */
static void parts_of_a_get(int *global theirs)
{
    double *issue = malloc(count * sizeof(double)), *take = malloc(count * sizeof(double)), whole, start;
    int k, x;

    SINGLE("get_whole", { x := *theirs; sync(); })
    whole = median(count);
    for (k = 0; k < count; k++) {
        start = now_us();
        x := *theirs;
        issue[k] = now_us() - start;
        while (now_us() < start + 3 * whole)
            sched_yield(); /* vipd or process 1 may need this processor for the answer */
        start = now_us();
        sync();
        take[k] = now_us() - start;
    }
    memcpy(sample, issue, count * sizeof(double));
    printf("get_issue %.4f\n", median(count));
    memcpy(sample, take, count * sizeof(double));
    printf("get_take %.4f\n", median(count));
    free(take);
    free(issue);
}

#define RATE(name, statement, finish)                                                              \
    {                                                                                              \
        for (s = -1; s < SERIES; s++) {                                                            \
            double start = now_us();                                                               \
                                                                                                   \
            for (k = 0; k < turns; k++)                                                            \
                statement;                                                                         \
            finish;                                                                                \
            if (s >= 0)                                                                            \
                sample[s] = (double)n * turns / (now_us() - start);                                \
        }                                                                                          \
        printf("bulk_%s_%d %.2f\n", name, n, median(SERIES));                                      \
    }

static void rates(char *global theirs, char *buffer)
{
    int n, k, s, turns;

    for (n = 64; n <= MOST; n *= 4) {
        turns = bytes_max / SERIES / n < 2 ? 2 : bytes_max / SERIES / n > 200 ? 200 : bytes_max / SERIES / n;
        RATE("read", bulk_read(buffer, theirs, n), (void)0)
        RATE("get", bulk_get(buffer, theirs, n), sync())
        RATE("put", bulk_put(theirs, buffer, n), sync())
        RATE("store", bulk_store(theirs, buffer, n), *buffer = *theirs)
    }
}

int splitc_main(int argc, char **argv)
{
    void *spread words = all_spread_malloc(PROCS, sizeof(double));
    char *spread room = all_spread_malloc(PROCS, MOST);
    char *buffer = malloc(MOST);

    if (argc > 1)
        count = atoi(argv[1]);
    if (argc > 2)
        bytes_max = atol(argv[2]);
    if (PROCS != 2 || count < SERIES || bytes_max < 1) {
        on_one fprintf(stderr, "ops: needs 2 processes, at least %d operations and 1 byte\n", SERIES);
        exit(2);
    }
    sample = malloc(count * sizeof(double));
    if (words == NULL || room == NULL || !buffer || !sample)
        exit(1);
    memset(buffer, 1, MOST);
    barrier();
    on_one {
        operations_char(words), operations_short(words), operations_int(words);
        operations_long(words), operations_float(words), operations_double(words);
        parts_of_a_get((int *global)((int *spread)words + 1));
        rates((char *global)(room + 1), buffer);
    }
    all_store_sync();
    free(sample);
    free(buffer);
    return 0;
}
