/*
 * Arithmetic on spread and global pointers against the formulas of the language, for all signs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>

typedef struct { int i; char text[13]; } rec_t;

static int checks;

#define CHECK(cond) (checks++, (cond) ? (void)0 : (printf("line %d: %s\n", __LINE__, #cond), exit(1)))

static int floor_div(int a, int b)
{
    int q = a / b;

    return q * b > a ? q - 1 : q;
}

static void one(rec_t *spread p, int i)
{
    rec_t *spread q = p + i, *spread r = p, *spread t = i + p;
    int k = toproc(p) + i, n;
    char *address = (char *)tolocal(p) + (int)sizeof(rec_t) * floor_div(k, PROCS);

    CHECK(toproc(q) == k - PROCS * floor_div(k, PROCS));
    CHECK((char *)tolocal(q) == address);
    CHECK(q - p == i && p - q == -i);
    CHECK(q - i == p && t == q && &p[i] == q && (i ? q != p : !(q != p)));
    CHECK((q < p) == (i < 0) && (q > p) == (i > 0) && (q <= p) == (i <= 0) && (q >= p) == (i >= 0));
    r += i;
    CHECK(r == q);
    r -= i;
    CHECK(r == p);
    for (n = 0; n < i; n++)
        CHECK(r++ == p + n);
    for (n = 0; n > i; n--)
        CHECK(--r == p + (n - 1));
    CHECK(r == q);
}

static void global_one(rec_t *global g, int i)
{
    rec_t *global h = g + i, *global e = i + g;

    CHECK(toproc(h) == toproc(g) && tolocal(h) == tolocal(g) + i && h - g == i && e == h);
    CHECK(&g[i] == h && h - i == g && (h > g) == (i > 0));
    CHECK(&h->i == (int *global)h && tolocal(h->text) == tolocal(h)->text);
    h -= i, --h, h++, ++h, h--;
    CHECK(h == g && g && !(g == NULL));
}

/* The place of X[i][j][k] depends on d2 and d3, not on the first dimension. */
static void layout(int d2, int d3, int q, rec_t X[][d2][d3]::[q], rec_t (*spread base)[q])
{
    int i, j, k;

    for (i = 0; i < 3; i++)
        for (j = 0; j < d2; j++)
            for (k = 0; k < d3; k++) {
                int number = (i * d2 + j) * d3 + k;
                rec_t *global e = &X[i][j][k][1];

                CHECK(toproc(e) == number % PROCS);
                CHECK(tolocal(e) == &(*tolocal(base + MYPROC - MYPROC))[0] + (number / PROCS) * q + 1);
                CHECK(X[i][j] + k == base + number && X[i] + (j * d3 + k) == base + number);
            }
}

int splitc_main()
{
    rec_t *spread s = all_spread_malloc(PROCS, 100 * sizeof(rec_t)), *spread null = NULL;
    int *global gn = 0;
    int i, start;
    rec_t Y[3][4][5]::[2];
    void *spread v = s;

    for (start = 0; start < PROCS; start++)
        for (i = -5 * PROCS - 3; i <= 5 * PROCS + 3; i++)
            one(s + 50 * PROCS + start, i), global_one((rec_t *global)(s + 30 * PROCS + start), i);
    layout(4, 5, 2, Y, Y[0][0] + 0);
    CHECK(null == NULL && !null && gn == NULL && !gn && v != NULL);
    CHECK((null ? s : null) == NULL && (s && 1) && !(null || gn));
    s = v;
    CHECK(s == v);
    on_one printf("arith: %d checks on %d processes\n", checks, PROCS);
    return 0;
}
