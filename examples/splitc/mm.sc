/*
 * Blocked matrix multiply: C = A * B, in blocks of b by b elements that are spread over the
 * processes. Each process computes the blocks of C that it has. While it multiplies a pair of
 * blocks of A and B, it gets the next pair.
 */
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>

static void multiply(int b, double C[b][b], double A[b][b], double B[b][b])
{
    int i, j, k;

    for (i = 0; i < b; i++)
        for (k = 0; k < b; k++)
            for (j = 0; j < b; j++)
                C[i][j] += A[i][k] * B[k][j];
}

static void all_mat_mult(int n, int m, int r, int b, double C[n][m]::[b][b], double A[n][r]::[b][b],
                         double B[r][m]::[b][b])
{
    double la[2][b][b], lb[2][b][b];
    int i, j, k, x, y;

    for_my_2d(i, j, n, m) {
        double(*lc)[b] = tolocal(C[i][j]);

        for (x = 0; x < b; x++)
            for (y = 0; y < b; y++)
                lc[x][y] = 0;
        bulk_get(la[0], A[i][0], b * b * sizeof(double));
        bulk_get(lb[0], B[0][j], b * b * sizeof(double));
        for (k = 0; k < r; k++) {
            sync();
            if (k + 1 < r) {
                bulk_get(la[(k + 1) % 2], A[i][k + 1], b * b * sizeof(double));
                bulk_get(lb[(k + 1) % 2], B[k + 1][j], b * b * sizeof(double));
            }
            multiply(b, lc, la[k % 2], lb[k % 2]);
        }
    }
    barrier();
}

static double a_of(int i, int j)
{
    return (i * 7 + j * 3) % 11 - 5;
}

static double b_of(int i, int j)
{
    return (i * 5 + j * 2) % 13 - 6;
}

int splitc_main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 3, b = argc > 2 ? atoi(argv[2]) : 8;
    int m = n + 1, r = n + 2, i, j, k, x, y, bad = 0;
    double A[n][r]::[b][b], B[r][m]::[b][b], C[n][m]::[b][b];
    double start;

    for_my_2d(i, j, n, r) for (x = 0; x < b; x++) for (y = 0; y < b; y++)
        A[i][j][x][y] = a_of(i * b + x, j * b + y);
    for_my_2d(i, j, r, m) for (x = 0; x < b; x++) for (y = 0; y < b; y++)
        B[i][j][x][y] = b_of(i * b + x, j * b + y);
    barrier();
    start = get_seconds();
    all_mat_mult(n, m, r, b, C, A, B);
    start = get_seconds() - start;
    for_my_2d(i, j, n, m) for (x = 0; x < b; x++) for (y = 0; y < b; y++) {
        double sum = 0;

        for (k = 0; k < r * b; k++)
            sum += a_of(i * b + x, k) * b_of(k, j * b + y);
        if (C[i][j][x][y] != sum)
            bad++;
    }
    bad = all_reduce_to_all_add(bad);
    on_one printf("mm: %d by %d by %d in blocks of %d: %.1f MFLOP/s%s\n", n * b, r * b, m * b, b,
                  2e-6 * n * m * r * b * b * b / start, bad ? "  WRONG" : "");
    if (bad)
        exit(1);
    return 0;
}
