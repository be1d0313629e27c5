/*
 * Operations in which a transport of MPI may have errors: wildcards, synchronous and ready sends,
 * many messages without receives, truncation, cancelling, long messages, collectives, one-sided
 * communication, many communicators, several threads. The parts check every byte that arrives.
 *
 *   mpirun -n N mpitest [small | big | threads | NAME...]     N >= 2; small omits the long parts
 *
 * Only `threads` asks for MPI_THREAD_MULTIPLE: Open MPI's one-sided pt2pt fails with this level.
 *
 * Rank 0 prints a line per part, and at the end "mpitest: N parts passed on M ranks".
 */
#include "mpitest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rank, ranks;

void fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "rank %d: ", rank);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static unsigned char pattern_byte(size_t at, unsigned seed)
{
    return (unsigned char)(at * 131 + (at >> 8) * 17 + seed * 29 + 7);
}

void pattern_fill(void *buf, size_t bytes, unsigned seed)
{
    unsigned char *to = buf;

    for (size_t i = 0; i < bytes; i++)
        to[i] = pattern_byte(i, seed);
}

void pattern_check(const void *buf, size_t bytes, unsigned seed, const char *what)
{
    const unsigned char *from = buf;

    for (size_t i = 0; i < bytes; i++)
        if (from[i] != pattern_byte(i, seed))
            fail("%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, bytes, from[i],
                 pattern_byte(i, seed));
}

void *memory(size_t bytes)
{
    void *result = malloc(bytes > 0 ? bytes : 1);

    if (result == NULL)
        fail("no memory for %zu bytes", bytes);
    return result;
}

/* All parts. big: 0 the part is short; 1 it takes seconds; 2 it runs only if it is named. */
static const struct part {
    const char *name;
    void (*run)(void);
    int big;
} parts[] = {
    {"sizes", part_sizes, 0},
    {"wildcard", part_wildcard, 0},
    {"order", part_order, 0},
    {"modes", part_modes, 0},
    {"flood", part_flood, 0},
    {"truncation", part_truncation, 0},
    {"cancel", part_cancel, 0},
    {"probe", part_probe, 0},
    {"reuse", part_reuse, 0},
    {"pieces", part_pieces, 0},
    {"collectives", part_collectives, 0},
    {"onesided", part_onesided, 0},
    {"splits", part_splits, 0},
    {"threads", part_threads, 2},
    {"long", part_long, 1},
    {"many_collectives", part_many_collectives, 1},
    {"big_flood", part_big_flood, 1},
    {"endless", part_endless, 2},
};

static int is_wanted(const struct part *part, int count, char **names)
{
    if (count < 2 || strcmp(names[1], "big") == 0)
        return part->big < 2;
    if (strcmp(names[1], "small") == 0)
        return !part->big;
    for (int i = 1; i < count; i++)
        if (strcmp(names[i], part->name) == 0)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    int wanted =
        argc > 1 && strcmp(argv[1], "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
    int provided, passed = 0;

    MPI_Init_thread(&argc, &argv, wanted, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks < 2)
        fail("at least two ranks are needed");
    if (provided < wanted)
        fail("this MPI gives thread level %d, not %d", provided, wanted);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        double start = MPI_Wtime();

        if (!is_wanted(&parts[i], argc, argv))
            continue;
        parts[i].run();
        MPI_Barrier(MPI_COMM_WORLD);
        passed++;
        if (rank == 0) {
            printf("   %s: %.1f s\n", parts[i].name, MPI_Wtime() - start);
            fflush(stdout);
        }
    }
    if (rank == 0 && passed > 0)
        printf("mpitest: %d parts passed on %d ranks\n", passed, ranks);
    MPI_Finalize();
    return passed > 0 ? 0 : 1;
}
