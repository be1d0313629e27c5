/*
 * Fourier transform of n points. In a cyclic layout the first steps need only points of the same
 * process; in a blocked layout the last steps need only these. So the program computes, changes the
 * layout with bulk gets, and computes again. PROCS must be a power of two and its square at most n;
 * otherwise the program only prints a message.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>

typedef struct {
    double re, im;
} complex_t;

static complex_t times(complex_t a, complex_t b)
{
    complex_t c;

    c.re = a.re * b.re - a.im * b.im;
    c.im = a.re * b.im + a.im * b.re;
    return c;
}

static complex_t root(long k, long n)
{
    complex_t c;

    c.re = cos(-2 * M_PI * (k % n) / n);
    c.im = sin(-2 * M_PI * (k % n) / n);
    return c;
}

/*
 * Transform n points in place; the points are x[0], x[distance] and so on. The result is in
 * bit-reversed order.
 */
static void transform(complex_t *x, int n, int distance)
{
    int half, start, k;

    for (half = n / 2; half >= 1; half /= 2)
        for (start = 0; start < n; start += 2 * half)
            for (k = 0; k < half; k++) {
                complex_t *a = &x[(start + k) * distance], *b = &x[(start + k + half) * distance];
                complex_t sum, difference;

                sum.re = a->re + b->re, sum.im = a->im + b->im;
                difference.re = a->re - b->re, difference.im = a->im - b->im;
                *a = sum;
                *b = times(difference, root(k, 2 * half));
            }
}

static int reversed(int i, int n)
{
    int r = 0;

    for (; n > 1; n /= 2, i /= 2)
        r = 2 * r + i % 2;
    return r;
}

/*
 * With p processes, n = p * m. Process c has column c (points c, c + p, ...). Each process
 * transforms the m points of its column and multiplies them by factors. Then it gets m / p rows,
 * with one point of each column, and transforms the p points of each row.
 */
static void all_fft(int n, complex_t X[n]::, complex_t Y[PROCS]::[n / PROCS])
{
    int m = n / PROCS, rows = m / PROCS, i, c;
    complex_t *mine = tolocal(&X[MYPROC]), *out = tolocal(Y[MYPROC]);
    complex_t row[rows][PROCS];

    transform(mine, m, 1);
    for (i = 0; i < m; i++)
        mine[i] = times(mine[i], root((long)MYPROC * reversed(i, m), n));
    barrier();
    /* Get this process's rows, from row MYPROC * rows on: a piece of every column. */
    {
        complex_t piece[PROCS][rows];

        for (c = 0; c < PROCS; c++)
            bulk_get(piece[c], (complex_t *global)&X[c] + MYPROC * rows, rows * sizeof(complex_t));
        sync();
        for (c = 0; c < PROCS; c++)
            for (i = 0; i < rows; i++)
                row[i][c] = piece[c][i];
    }
    for (i = 0; i < rows; i++) {
        transform(row[i], PROCS, 1);
        for (c = 0; c < PROCS; c++)
            out[i * PROCS + c] = row[i][c];
    }
    barrier();
}

int splitc_main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 256, i, k, bad = 0;
    complex_t X[n]::, Y[PROCS]::[n / PROCS];

    if (PROCSLOG < 0 || PROCS * PROCS > n) {
        on_one printf("fft: %d processes do not fit %d points\n", PROCS, n);
        return 0;
    }
    for_my_1d(i, n) {
        complex_t v;

        v.re = (i * 7) % 13 - 6, v.im = (i * 5) % 11 - 5;
        X[i] = v;
    }
    barrier();
    all_fft(n, X, Y);
    on_one for (k = 0; k < n; k++) {
        complex_t sum = {0, 0}, v, w;
        /* Frequency k = k1 + m * k2: row k1 in the order of the first transform, column k2. */
        int m = n / PROCS, r = reversed(k % m, m), c = reversed(k / m, PROCS);

        for (i = 0; i < n; i++) {
            v.re = (i * 7) % 13 - 6, v.im = (i * 5) % 11 - 5;
            w = times(v, root((long)i * k, n));
            sum.re += w.re, sum.im += w.im;
        }
        v = Y[r / (m / PROCS)][r % (m / PROCS) * PROCS + c];
        if (fabs(v.re - sum.re) + fabs(v.im - sum.im) > 1e-6)
            bad++;
    }
    barrier();
    on_one printf("fft: %d points%s\n", n, bad ? "  WRONG" : "");
    if (bad)
        exit(1);
    return 0;
}
