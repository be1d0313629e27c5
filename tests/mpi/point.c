/* mpitest: messages between two ranks. Each even rank and the next rank are a pair. */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TAG 7

static int partner(void)
{
    int other = rank % 2 == 0 ? rank + 1 : rank - 1;

    return other < ranks ? other : MPI_PROC_NULL;
}

static int is_first(void)
{
    return rank % 2 == 0;
}

/* Messages of sizes near the limits of protocols (eager, segmented, rendezvous, cut RDMA). */
void part_sizes(void)
{
    static const size_t sizes[] = {0,       1,
                                   7,       64,
                                   65,      191,
                                   192,     193,
                                   4095,    4096,
                                   16383,   16384,
                                   16385,   65536,
                                   131071,  131072,
                                   131073,  500001,
                                   1 << 20, (1 << 22) - 1,
                                   1 << 22, (1 << 22) + 1};
    char *buf = memory((1 << 22) + 1);
    MPI_Status status;
    int got;

    if (partner() == MPI_PROC_NULL) {
        free(buf);
        return;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int turn = 0; turn < 2; turn++) {
            if (is_first() == (turn == 0)) {
                pattern_fill(buf, sizes[i], (unsigned)(i + 50));
                MPI_Send(buf, (int)sizes[i], MPI_BYTE, partner(), TAG, MPI_COMM_WORLD);
            } else {
                memset(buf, 0, sizes[i]);
                MPI_Recv(buf, (int)sizes[i], MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, &status);
                MPI_Get_count(&status, MPI_BYTE, &got);
                if (got != (int)sizes[i])
                    fail("sizes: %d bytes came instead of %zu", got, sizes[i]);
                pattern_check(buf, sizes[i], (unsigned)(i + 50), "sizes");
            }
        }
    }
    free(buf);
}

/* Rank 0 receives from any rank, with any tag; the messages of each sender must stay in order. */
void part_wildcard(void)
{
    enum { MESSAGES = 200 };
    int numbers[64];

    if (rank != 0) {
        for (int i = 0; i < MESSAGES; i++) {
            numbers[0] = i;
            MPI_Send(numbers, 1 + i % 64, MPI_INT, 0, i % 5, MPI_COMM_WORLD);
        }
        return;
    }
    int *next = calloc((size_t)ranks, sizeof(int));

    for (int i = 0; i < MESSAGES * (ranks - 1); i++) {
        MPI_Status status;

        MPI_Recv(numbers, 64, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (numbers[0] != next[status.MPI_SOURCE]++)
            fail("wildcard: message %d of rank %d came out of order", numbers[0],
                 status.MPI_SOURCE);
        if (status.MPI_TAG != numbers[0] % 5)
            fail("wildcard: tag %d with message %d", status.MPI_TAG, numbers[0]);
    }
    free(next);
}

/* One rank sends long and short messages. The other rank posts the receives in reverse order. */
void part_order(void)
{
    enum { MESSAGES = 40, LONGEST = 200000 };
    char *buf = memory((size_t)MESSAGES * LONGEST);
    MPI_Request request[MESSAGES];

    if (partner() == MPI_PROC_NULL) {
        free(buf);
        return;
    }
    for (int i = 0; i < MESSAGES; i++) {
        int which = is_first() ? i : MESSAGES - 1 - i;
        int bytes = which % 4 == 0 ? LONGEST : which * 37;
        char *at = buf + (size_t)which * LONGEST;

        if (is_first()) {
            pattern_fill(at, (size_t)bytes, (unsigned)which);
            MPI_Isend(at, bytes, MPI_BYTE, partner(), which, MPI_COMM_WORLD, &request[i]);
        } else {
            MPI_Irecv(at, LONGEST, MPI_BYTE, partner(), which, MPI_COMM_WORLD, &request[i]);
        }
    }
    MPI_Waitall(MESSAGES, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES && !is_first(); i++)
        pattern_check(buf + (size_t)i * LONGEST, (size_t)(i % 4 == 0 ? LONGEST : i * 37),
                      (unsigned)i, "order");
    free(buf);
}

/* Synchronous, ready, buffered sends. A synchronous send must not complete before its receive. */
void part_modes(void)
{
    static const int sizes[] = {0, 100, 20000, 300000};
    char *buf = memory(300000), *space = memory(300000 + MPI_BSEND_OVERHEAD);
    int done, size_of_space;

    for (size_t i = 0; i < 4 && partner() != MPI_PROC_NULL; i++) {
        int n = sizes[i], go = 0;
        MPI_Request request;

        if (is_first()) {
            pattern_fill(buf, (size_t)n, 3);
            MPI_Issend(buf, n, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, &request);
            for (int look = 0; look < 1000; look++) {
                MPI_Test(&request, &done, MPI_STATUS_IGNORE);
                if (done)
                    fail("modes: a synchronous send of %d bytes is done before its receive", n);
            }
            MPI_Send(&go, 1, MPI_INT, partner(), TAG + 1, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Recv(&go, 1, MPI_INT, partner(), TAG + 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Rsend(buf, n, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD);
            MPI_Buffer_attach(space, 300000 + MPI_BSEND_OVERHEAD);
            MPI_Bsend(buf, n, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD);
            MPI_Buffer_detach(&space, &size_of_space);
        } else {
            MPI_Recv(&go, 1, MPI_INT, partner(), TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(buf, n, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            pattern_check(buf, (size_t)n, 3, "modes, synchronous");
            memset(buf, 0, (size_t)n);
            MPI_Irecv(buf, n, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, &request);
            MPI_Send(&go, 1, MPI_INT, partner(), TAG + 2, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            pattern_check(buf, (size_t)n, 3, "modes, ready");
            memset(buf, 0, (size_t)n);
            MPI_Recv(buf, n, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            pattern_check(buf, (size_t)n, 3, "modes, buffered");
        }
    }
    free(space);
    free(buf);
}

/* All ranks send to rank 0, which receives nothing until all messages are under way. */
static void flood(int messages, int bytes)
{
    MPI_Request *request = memory((size_t)messages * sizeof(*request));
    char *buf = memory((size_t)bytes);

    if (rank != 0) {
        pattern_fill(buf, (size_t)bytes, (unsigned)rank);
        for (int i = 0; i < messages; i++)
            MPI_Isend(buf, bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD, &request[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int from = ranks - 1; from > 0 && rank == 0; from--) {
        for (int i = messages - 1; i >= 0; i--) {
            memset(buf, 0, (size_t)bytes);
            MPI_Recv(buf, bytes, MPI_BYTE, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            pattern_check(buf, (size_t)bytes, (unsigned)from, "flood");
        }
    }
    if (rank != 0)
        MPI_Waitall(messages, request, MPI_STATUSES_IGNORE);
    free(buf);
    free(request);
}

void part_flood(void)
{
    flood(600, 30);
    flood(100, 10000);
}

void part_big_flood(void)
{
    flood(20000, 8);
    flood(1000, 16000);
    flood(50, 300000);
}

/* A receive that is shorter than its message must fail. The next message must arrive. */
void part_truncation(void)
{
    static const int sizes[] = {200, 20000, 400000};
    char *buf = memory(400000);
    int code, class;

    for (size_t i = 0; i < 3 && partner() != MPI_PROC_NULL; i++) {
        if (is_first()) {
            pattern_fill(buf, (size_t)sizes[i], 9);
            MPI_Send(buf, sizes[i], MPI_BYTE, partner(), TAG, MPI_COMM_WORLD);
            MPI_Send(buf, 100, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD);
            continue;
        }
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        code = MPI_Recv(buf, sizes[i] / 2, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        MPI_Error_class(code, &class);
        if (class != MPI_ERR_TRUNCATE)
            fail("truncation: half of %d bytes received: error class %d", sizes[i], class);
        memset(buf, 0, 100);
        MPI_Recv(buf, 100, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        pattern_check(buf, 100, 9, "truncation, the message behind it");
    }
    free(buf);
}

/* A rank cancels a receive before a message comes. The buffer must not change. */
void part_cancel(void)
{
    int value = 5, other = 0, cancelled;
    MPI_Request request;
    MPI_Status status;

    if (partner() == MPI_PROC_NULL)
        return;
    MPI_Irecv(&value, 1, MPI_INT, partner(), 999, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    if (!cancelled)
        fail("cancel: the receive was not taken back");
    MPI_Sendrecv(&rank, 1, MPI_INT, partner(), 998, &other, 1, MPI_INT, partner(), 998,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (other != partner() || value != 5)
        fail("cancel: %d from %d, and the cancelled receive has %d", other, partner(), value);
}

/* The receiver probes each message for its length, by MPI_Probe or by MPI_Improbe. */
void part_probe(void)
{
    static const int sizes[] = {3, 3000, 50000, 600000};
    char *buf = memory(600000);
    MPI_Message message;
    MPI_Status status;
    int got, flag = 0;

    for (int i = 0; i < 8 && partner() != MPI_PROC_NULL; i++) {
        int n = sizes[i / 2];

        if (is_first()) {
            pattern_fill(buf, (size_t)n, (unsigned)i);
            MPI_Send(buf, n, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD);
            continue;
        }
        memset(buf, 0, (size_t)n);
        if (i % 2 == 0) {
            MPI_Probe(partner(), MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &got);
            MPI_Recv(buf, got, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            for (flag = 0; !flag;)
                MPI_Improbe(partner(), TAG, MPI_COMM_WORLD, &flag, &message, &status);
            MPI_Get_count(&status, MPI_BYTE, &got);
            MPI_Mrecv(buf, got, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        }
        if (got != n)
            fail("probe: %d bytes announced, %d expected", got, n);
        pattern_check(buf, (size_t)n, (unsigned)i, "probe");
    }
    free(buf);
}

/* A program sends from memory, unmaps it, and maps other pages at the same address. Later sends
 * must read these pages, and receives must write to them. */
void part_reuse(void)
{
    const size_t bytes = 1 << 20;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        fail("reuse: mmap");
    for (unsigned i = 0; i < 6 && partner() != MPI_PROC_NULL; i++) {
        if (is_first() == (i % 2 == 0)) {
            pattern_fill(at, bytes, i);
            MPI_Send(at, (int)bytes, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD);
        } else {
            MPI_Recv(at, (int)bytes, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            pattern_check(at, bytes, i, "reuse");
        }
        /* After each third round map other pages. */
        if (i % 3 == 2 && (munmap(at, bytes) != 0 ||
                           mmap(at, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at))
            fail("reuse: the memory cannot be mapped again");
    }
    munmap(at, bytes);
}

/* Data types that are not contiguous, in messages of several lengths. */
void part_pieces(void)
{
    static const int counts[] = {3, 500, 40000};
    int *from = memory(40000 * 3 * sizeof(int)), *to = memory(40000 * 3 * sizeof(int));

    for (size_t i = 0; i < 3 && partner() != MPI_PROC_NULL; i++) {
        int n = counts[i];
        MPI_Datatype every_third;

        MPI_Type_vector(n, 1, 3, MPI_INT, &every_third);
        MPI_Type_commit(&every_third);
        for (int k = 0; k < 3 * n; k++) {
            from[k] = rank * 1000000 + k;
            to[k] = -1;
        }
        MPI_Sendrecv(from, 1, every_third, partner(), TAG, to, 1, every_third, partner(), TAG,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int k = 0; k < 3 * n; k++)
            if (to[k] != (k % 3 == 0 && k < 3 * n - 2 ? partner() * 1000000 + k : -1))
                fail("pieces: element %d of %d is %d", k, 3 * n, to[k]);
        MPI_Type_free(&every_third);
    }
    free(from);
    free(to);
}

/* Two ranks send 64 MiB to each other at the same time. */
void part_long(void)
{
    const size_t bytes = (size_t)64 << 20;
    char *from, *to;

    if (rank >= 2)
        return;
    from = memory(bytes);
    to = memory(bytes);
    pattern_fill(from, bytes, (unsigned)rank + 1);
    MPI_Sendrecv(from, (int)bytes, MPI_BYTE, partner(), TAG, to, (int)bytes, MPI_BYTE, partner(),
                 TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pattern_check(to, bytes, (unsigned)partner() + 1, "long");
    free(from);
    free(to);
}
