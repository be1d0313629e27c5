/* mpitest: more than two ranks, windows, communicators, threads. */
#include "mpitest.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Calls each collective operation once with n elements. Each value shows the rank that sent it. */
static void round_of(int n)
{
    long *from = memory((size_t)(n * ranks) * sizeof(long));
    long *to = memory((size_t)(n * ranks) * sizeof(long));
    long sum = (long)ranks * (ranks - 1) / 2;

    for (int i = 0; i < n; i++)
        from[i] = rank + i;
    MPI_Allreduce(from, to, n, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        if (to[i] != sum + (long)ranks * i)
            fail("collectives: allreduce of %d: element %d is %ld", n, i, to[i]);
    MPI_Allgather(from, n, MPI_LONG, to, n, MPI_LONG, MPI_COMM_WORLD);
    for (int i = 0; i < n * ranks; i++)
        if (to[i] != i / n + i % n)
            fail("collectives: allgather of %d: element %d is %ld", n, i, to[i]);
    for (int i = 0; i < n * ranks; i++)
        from[i] = rank * 1000 + i / n;
    MPI_Alltoall(from, n, MPI_LONG, to, n, MPI_LONG, MPI_COMM_WORLD);
    for (int i = 0; i < n * ranks; i++)
        if (to[i] != i / n * 1000 + rank)
            fail("collectives: alltoall of %d: element %d is %ld", n, i, to[i]);
    for (int i = 0; i < n; i++)
        to[i] = rank == n % ranks ? i * 3 : -1;
    MPI_Bcast(to, n, MPI_LONG, n % ranks, MPI_COMM_WORLD);
    for (int i = 0; i < n; i++)
        if (to[i] != i * 3)
            fail("collectives: bcast of %d: element %d is %ld", n, i, to[i]);
    MPI_Scan(&(long){rank}, to, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (to[0] != (long)rank * (rank + 1) / 2)
        fail("collectives: scan is %ld", to[0]);
    free(from);
    free(to);
}

void part_collectives(void)
{
    round_of(1);
    round_of(100);
    round_of(5000);
    for (int i = 0; i < 50; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

void part_many_collectives(void)
{
    for (int i = 0; i < 2000; i++)
        round_of(1 + i % 7);
}

/* MPI_Put and MPI_Get with fences; MPI_Accumulate and MPI_Get with locks. */
void part_onesided(void)
{
    enum { N = 3000 };
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    long *base, *got = memory(N * sizeof(long)), one = 1;
    MPI_Win win;

    MPI_Win_allocate((2 * N + 1) * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                     &win);
    memset(base, 0, (2 * N + 1) * sizeof(long));
    for (int i = 0; i < N; i++)
        base[i] = rank * 10000 + i;
    MPI_Win_fence(0, win);
    MPI_Put(base, N, MPI_LONG, right, N, N, MPI_LONG, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < N; i++)
        if (base[N + i] != left * 10000 + i)
            fail("onesided: put: element %d is %ld", i, base[N + i]);
    MPI_Get(got, N, MPI_LONG, left, 0, N, MPI_LONG, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < N; i++)
        if (got[i] != left * 10000 + i)
            fail("onesided: get: element %d is %ld", i, got[i]);
    for (int i = 0; i < 20; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Accumulate(&one, 1, MPI_LONG, 0, 2 * N, 1, MPI_LONG, MPI_SUM, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(got, 1, MPI_LONG, 0, 2 * N, 1, MPI_LONG, win);
    MPI_Win_unlock(0, win);
    if (got[0] != 20L * ranks)
        fail("onesided: accumulate: %ld instead of %ld", got[0], 20L * ranks);
    MPI_Win_free(&win);
    free(got);
}

/* Splits communicators by colour many times. Each round has traffic in all new communicators. */
void part_splits(void)
{
    MPI_Comm comm, half, copy;
    int sum, size, me;

    for (int round = 0; round < 10; round++) {
        MPI_Comm_split(MPI_COMM_WORLD, rank % (1 + round % 3), -rank, &comm);
        MPI_Comm_rank(comm, &me);
        MPI_Comm_size(comm, &size);
        MPI_Comm_split(comm, me < size / 2, me, &half);
        MPI_Comm_dup(comm, &copy);
        MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, comm);
        if (sum != size)
            fail("splits: %d ranks of %d answered", sum, size);
        MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_MAX, copy);
        if (sum != size - 1)
            fail("splits: the last rank is %d of %d", sum, size);
        MPI_Barrier(half);
        MPI_Comm_free(&copy);
        MPI_Comm_free(&half);
        MPI_Comm_free(&comm);
    }
}

/* A thread of part_threads: exchanges messages with the same thread of both neighbour ranks. */
static void *talk(void *arg)
{
    int me = *(int *)arg, right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    static const int sizes[] = {4, 2000, 40000, 200000};
    char *from = memory(200000), *to = memory(200000);

    for (int i = 0; i < 40; i++) {
        int n = sizes[i % 4];

        pattern_fill(from, (size_t)n, (unsigned)(rank * 8 + me + i));
        memset(to, 0, (size_t)n);
        MPI_Sendrecv(from, n, MPI_BYTE, right, 100 + me, to, n, MPI_BYTE, left, 100 + me,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pattern_check(to, (size_t)n, (unsigned)(left * 8 + me + i), "threads");
    }
    free(from);
    free(to);
    return NULL;
}

void part_threads(void)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    int number[THREADS];

    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, talk, &number[i]) != 0)
            fail("threads: pthread_create");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

/* True in all ranks if rank 0 finds the file $MPITEST_STOP. Rank 0 also prints the round. */
static int told_to_stop(int round)
{
    const char *path = getenv("MPITEST_STOP");
    int stop = rank == 0 && path != NULL && access(path, F_OK) == 0;

    if (rank == 0 && path != NULL) {
        printf("at %d\n", round);
        fflush(stdout);
    }
    MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return stop;
}

/* For tests that kill the job or end its vipd: traffic of all kinds, in which each rank often waits
 * for other ranks. Without $MPITEST_STOP this part does not end. */
void part_endless(void)
{
    unsigned char *from = memory(300000), *to = memory(300000);
    int left = (rank + ranks - 1) % ranks;
    long sum;

    if (rank == 0) {
        printf("endless\n");
        fflush(stdout);
    }
    for (int i = 0; i % 10 != 0 || !told_to_stop(i); i++) {
        int n = i % 3 == 0 ? 300000 : 1000;
        long part = (long)i * rank;

        pattern_fill(from, (size_t)n, (unsigned)(i * ranks + rank));
        memset(to, 0, (size_t)n);
        MPI_Sendrecv(from, n, MPI_BYTE, (rank + 1) % ranks, 1, to, n, MPI_BYTE, left, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pattern_check(to, (size_t)n, (unsigned)(i * ranks + left), "endless");
        if (i % 10 != 5)
            continue;
        MPI_Allreduce(&part, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (sum != (long)i * ranks * (ranks - 1) / 2)
            fail("endless: the sum of round %d is %ld", i, sum);
    }
    free(from);
    free(to);
}
