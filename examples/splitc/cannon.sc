/*
 * Cannon's matrix multiply: q by q processes in a torus, each with a block of both matrices. In
 * each of q rounds every process multiplies its two blocks and stores them to its neighbours. If
 * PROCS is not a square, the processes from q * q on do nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>

#define B 12

typedef double block_t[B][B];

static double a_of(int i, int j)
{
    return (i + 2 * j) % 9 - 4;
}

static double b_of(int i, int j)
{
    return (3 * i + j) % 7 - 3;
}

static void fill(block_t *block, int bi, int bj, double (*of)(int, int))
{
    int x, y;

    for (x = 0; x < B; x++)
        for (y = 0; y < B; y++)
            (*block)[x][y] = of(bi * B + x, bj * B + y);
}

int splitc_main()
{
    /* a and b have two blocks per process: one is multiplied, a neighbour stores the other. */
    block_t *spread a = all_spread_malloc(PROCS, 2 * sizeof(block_t));
    block_t *spread b = all_spread_malloc(PROCS, 2 * sizeof(block_t));
    block_t c;
    block_t *my_a = tolocal(a + MYPROC), *my_b = tolocal(b + MYPROC);
    int q, i, j, k, x, y, z, now = 0, bad = 0, works;

    for (q = 1; (q + 1) * (q + 1) <= PROCS; q++)
        ;
    works = MYPROC < q * q;
    i = MYPROC / q, j = MYPROC % q;
    if (works) {
        fill(&my_a[0], i, (i + j) % q, a_of);
        fill(&my_b[0], (i + j) % q, j, b_of);
    }
    for (x = 0; x < B; x++)
        for (y = 0; y < B; y++)
            c[x][y] = 0;
    barrier();
    for (k = 0; k < q; k++) {
        if (works) {
            int left = i * q + (j + q - 1) % q, up = (i + q - 1) % q * q + j;

            bulk_store((block_t *global)(a + left) + !now, my_a[now], sizeof(block_t));
            bulk_store((block_t *global)(b + up) + !now, my_b[now], sizeof(block_t));
            for (x = 0; x < B; x++)
                for (z = 0; z < B; z++)
                    for (y = 0; y < B; y++)
                        c[x][y] += my_a[now][x][z] * my_b[now][z][y];
            store_sync(2 * sizeof(block_t));
        }
        barrier();
        now = !now;
    }
    for (x = 0; works && x < B; x++)
        for (y = 0; y < B; y++) {
            double sum = 0;

            for (k = 0; k < q * B; k++)
                sum += a_of(i * B + x, k) * b_of(k, j * B + y);
            if (sum != c[x][y])
                bad++;
        }
    bad = all_reduce_to_all_add(bad);
    on_one printf("cannon: %d by %d blocks on %d processes%s\n", q, q, PROCS, bad ? "  WRONG" : "");
    if (bad)
        exit(1);
    return 0;
}
