/*
 * Bulk transfers of sizes around every limit of the runtime, by all five operations, into and out of the spread heap
 * and other memory. Each byte is checked, and the bytes around.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>

#define ROOM (9 << 20) /* two ends of chunks of 4 MiB are in it */
#define SMALL 70000

static int sizes[] = {0, 1, 7, 4095, 4096, 4097, 16383, 16384, 16385, 65535, 65536, 65537, 200001};
static char statics[SMALL + 128];
static int checks;

static char value(int round, int i)
{
    return (char)(round * 37 + i * 11 + (i >> 8) * 5 + (i >> 16));
}

static void fill(char *p, int n, int round)
{
    int i;

    for (i = 0; i < n; i++)
        p[i] = value(round, i);
}

static void check(const char *what, const char *p, int n, int round)
{
    int i;

    for (i = 0; i < n; i++)
        if (p[i] != value(round, i))
            printf("%s of %d bytes: byte %d is wrong\n", what, n, i), exit(1);
    if (p[-1] != 99 || p[n] != 99)
        printf("%s of %d bytes: it wrote beyond\n", what, n), exit(1);
    checks++;
}

/* The right neighbour's memory at `theirs` corresponds to ours at `mine`. */
static void one(char *global theirs, char *mine, char *buffer, unsigned n, int round)
{
    memset(mine - 1, 99, n + 2);
    memset(buffer - 1, 99, n + 2);
    barrier();
    fill(buffer, n, round);
    bulk_write(theirs, buffer, n);
    memset(buffer, 99, n);
    barrier();
    check("write", mine, n, round);
    barrier();
    bulk_read(buffer, theirs, n);
    check("read", buffer, n, round);
    memset(buffer, 99, n);
    bulk_get(buffer, theirs, n / 2);
    bulk_get(buffer + n / 2, theirs + n / 2, n - n / 2);
    sync();
    check("get", buffer, n, round);
    barrier();
    fill(buffer, n, round + 1);
    bulk_put(theirs, buffer, n / 2);
    bulk_put(theirs + n / 2, buffer + n / 2, n - n / 2);
    memset(buffer, 99, n);
    sync();
    barrier();
    check("put", mine, n, round + 1);
    barrier();
    fill(buffer, n, round + 2);
    bulk_store(theirs, buffer, n);
    memset(buffer, 99, n);
    all_store_sync();
    check("store", mine, n, round + 2);
    barrier();
    fill(buffer, n, round + 3);
    bulk_store(theirs, buffer, n);
    store_sync(n);
    check("store, store_sync", mine, n, round + 3);
    barrier();
}

int splitc_main()
{
    char *spread heap = all_spread_malloc(PROCS, ROOM);
    char *mine = (char *)(heap + MYPROC), *buffer = malloc(ROOM);
    int right = (MYPROC + 1) % PROCS, i, big = 5 << 20;
    double seconds;

    if (heap == NULL || !buffer)
        exit(1);
    for (i = 0; i < (int)(sizeof(sizes) / sizeof(sizes[0])); i++) {
        one((char *global)(heap + right) + 1 + i, mine + 1 + i, buffer + 3, sizes[i], i);
        if (sizes[i] <= SMALL)
            one(toglobal(right, statics + 64), statics + 64, buffer + 1, sizes[i], i + 50);
    }
    seconds = get_seconds();
    one((char *global)(heap + right) + 12345, mine + 12345, buffer + 1, big, 7);
    seconds = get_seconds() - seconds;
    free(buffer);
    on_one printf("bulk: %d transfers checked; 5 MiB six ways with checks in %.3f s\n", checks,
                  seconds);
    return 0;
}
