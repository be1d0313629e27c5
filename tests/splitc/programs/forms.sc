/*
 * Global pointers in every place where C allows an expression, a type or a declarator.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>

#define CHECK(cond) ((cond) ? (void)0 : (printf("line %d: %s\n", __LINE__, #cond), exit(1)))

typedef int *global gint;
typedef struct node node_t;
struct node {
    int value, *local;
    node_t *global next, *same;
    gint data[2];
    double *spread wide, plain;
    union { int i; gint g; } u;
    struct { int a; char *global name; };
};

static int numbers[8] = {10, 11, 12, 13, 14, 15, 16, 17};
static char text[16] = "hello";
static gint table[3] = {NULL, 0, (gint)0};
static node_t fixed = {1, numbers, NULL, &fixed, {NULL, NULL}, NULL, 2.5, {7}, {3, NULL}};
static node_t named = {.next = NULL, .plain = 1.5, .data = {[1] = NULL}, .value = 4};
static struct { gint g; int n; } list[] = {NULL, 1, {NULL, 2}, NULL, 3};
static int spread_row[6]::[2], *spread row_start = NULL;
static int line[9]::, *spread line_start = line;
enum { SIZE = sizeof(numbers) / sizeof(*numbers) };

static gint first(gint g) { return g; }
static gint (*choose(int which))(gint) { return which ? first : NULL; }
static int *global spread_to_global(int *spread s) { return s; }
static gint null(void) { return 0; }
static node_t *global make(node_t *global n, int v) { n->value = v; return n; }
static int apply(int (*f)(gint, int), gint g, int n) { return f(g, n); }
static int nth(gint g, int n) { return g[n]; }
static int sum(int n, ...)
{
    va_list args;
    int s = 0;

    va_start(args, n);
    while (n--)
        s += *va_arg(args, gint);
    va_end(args);
    return s;
}
static int old(a, n, f)
    gint a;
    register int n;
    int (*f)();
{
    return (*f)(a, n) + a[n];
}
static int takes_array(gint v[], int n) { return *v[n]; }
static int *global counted(int *calls, gint g) { ++*calls; return g; }

static void expressions(gint g, node_t *global n)
{
    gint h = g, *local = &h, all[4] = {g, g + 1}, copy;
    gint const never = g;
    int calls = 0, i, x = 3, big[4];
    const int *global readonly = g;
    volatile int *global vol = g;
    int *global *global gg = (gint *global)&h;

    CHECK(*h == 10 && h[1] == 11 && 2[h] == 12 && *(h + 3) == 13 && *(4 + h) == 14);
    CHECK(**local == 10 && (*local)[1] == 11 && *all[1] == 11 && !all[2] && *never == 10);
    CHECK(*readonly + *vol == 20 && **gg == 10 && (*gg)[2] == 12);
    *gg = *gg + 1;
    CHECK(*h == 11 && h - g == 1);
    ++*local, (*local)++, *local -= 3;
    CHECK(h == g && *h++ == 10 && *h == 11 && *--h == 10 && *(h += 2) == 12 && *(h -= 2) == 10);
    *counted(&calls, h) += 5, (*counted(&calls, h))--;
    CHECK(calls == 2 && *h == 14);
    *h = x = 10;
    x = *h = 10.9;
    CHECK(x == 10 && (x ? *h : 0) == 10 && (h ? h : NULL) == g && *(x ? h : all[1]) == 10);
    CHECK((x ? NULL : h) == NULL && (x == 10 && h) && !(x != 10 || !h) && (h && *h));
    for (h = g, i = 0; i < 8 && h; h++, i++)
        CHECK(*h == 10 + i);
    for (int *global p = g, *global e = g + 8; p != e; ++p)
        CHECK(p < e && e > p && p <= e && !(p >= e) && *p == 10 + (p - g));
    while (h != g)
        --h;
    do
        h = NULL;
    while (h);
    if (h)
        CHECK(0);
    switch (*g) {
    case 10:
        h = g;
        break;
    default:
        CHECK(0);
    }
    CHECK(*({ gint t = h; t++; t; }) == 11 && ({ int y = *h; y; }) == 10 && ({ *h; }) == 10);
    CHECK(*(gint){h} == 10 && ((struct { gint g; }){h}).g == h && *((gint[]){NULL, h})[1] == 10);
    CHECK(sizeof *h == 4 && sizeof(*n) == sizeof(node_t) && sizeof n->data == 2 * sizeof(gint));
    CHECK(sizeof h[0] == sizeof(int) && sizeof(gint) == 16 && sizeof(int *spread) == sizeof h);
    __typeof__(*h) same = *h;
    __typeof__(h) other = h;
    __auto_type third = h;
    CHECK(same == 10 && other == third && *third == 10 && _Generic(*h, int : 1, default : 0));
    CHECK(*first(h) == 10 && *choose(1)(h + 1) == 11 && !null() && !choose(0));
    CHECK(apply(nth, h, 5) == 15 && sum(3, h, h + 1, h + 2) == 33 && old(h, 2, nth) == 24);
    CHECK(takes_array(all, 1) == 11 && *(x, h) == 10 && (int)*h == 10 && (char)*h == 10);
    CHECK((double)*h / 4 == 2.5 && -*h == -10 && ~*h == ~10 && !*h == 0 && *h << 2 == 40);
    CHECK((long)h == (long)tolocal(h) && (int *)h == tolocal(h) && (void *global)h == h);
    copy = h, all[2] = all[3] = copy;
    CHECK(all[3] == h && memcmp(&all[3], &copy, sizeof copy) == 0);
    memcpy(big, (int *)h, sizeof big);
    big[*h - 10] = *h + h[1], big[1] += h[1], big[2]++;
    CHECK(big[0] == 21 && big[1] == 22 && big[2] == 13);
    (void)*h, (void)h, (void)n->value;
    CHECK(!toglobal(PROCS - 1, (int *)0) && toglobal(PROCS - 1, (int *)0) == NULL);
    CHECK(toproc((int *spread)big) == MYPROC && toproc((int *global)big) == MYPROC);
    goto end;
end:
    *h = 10;
}

/* Split-phase accesses with unusual sides. */
static void splits(gint g)
{
    double d = 0;
    register int r;
    int x = 3, y = 4;
    char c;

    d := *g;
    r := g[1];
    c := g[2];
    sync();
    CHECK(d == 10 && r == 11 && c == 12);
    g[7] := *g;
    x := y;
    sync();
    CHECK(g[7] == 10 && x == 4);
    /* ':=' has a lower precedence than '?:', so the whole '?:' is the value; a store inside '?:' needs parentheses. */
    g[7] := x == 4 ? 17.9 : 1;
    sync();
    CHECK(g[7] == 17 && (x == 5 ? 1 :-1) == -1);
    x == 4 ? (g[6] :- 26) : (g[5] :- 25);
    all_store_sync();
    CHECK(g[6] == 26 && g[5] == 15);
    g[6] = 16;
}

static void structures(node_t *global n, gint g)
{
    node_t mine = *n, other = {.next = n, .data = {g, g + 1}, .u = {.g = g}}, *global self = n;
    node_t *spread sp = (node_t *spread)n;
    int *p;

    CHECK(mine.value == n->value && (*n).plain == 2.5 && n->same == &fixed && n->u.i == 7 && n->a == 3);
    n->next = n;
    n->next->next->value = 6;
    CHECK((*(*n).next).value == 6 && fixed.value == 6 && n->next == self);
    n->data[1] = g + 1, n->data[0] = n->data[1] - 1;
    CHECK(*n->data[1] == 11 && **n->data == 10 && n->data[0][2] == 12);
    n->data[0]++, --n->data[0], n->data[0] += 2;
    CHECK(*n->data[0] == 12 && n->data[0] - n->data[1] == 1);
    n->local[1] = 11, p = n->local;
    CHECK(p[2] == 12 && *n->local == 10 && (n->local + 1)[1] == 12);
    n->local++;
    CHECK(*n->local == 11 && fixed.local == numbers + 1);
    n->name = text;
    CHECK(n->name[1] == 'e' && *n->name == 'h' && strcmp(tolocal(n->name), "hello") == 0);
    n->name[0] = 'H', n->plain *= 2, n->plain -= .5, n->value++, n->value <<= 1, n->value |= 1;
    CHECK(text[0] == 'H' && fixed.plain == 4.5 && fixed.value == 15);
    text[0] = 'h';
    other.next->u.i = 9, n->u.i %= 5;
    CHECK(fixed.u.i == 4 && other.data[1][0] == 11 && other.u.g == g);
    *n = other, mine = *n->next;
    CHECK(mine.data[0] == g && fixed.next == n && make(n, 77)->value == 77);
    *n = *make(n, 5);
    CHECK(sp->value == 5 && sp[0].value == 5 && (&sp->value)[0] == 5 && &n->value == &fixed.value);
    CHECK((char *)&n->plain - (char *)n == offsetof(node_t, plain));
    mine := *n;
    sync();
    n->value := 8;
    n->data[1] := g + 3;
    sync();
    CHECK(mine.value == 5 && fixed.value == 8 && *fixed.data[1] == 13);
    self = mine.next ? mine.next : n;
    CHECK(self == n && named.plain == 1.5 && named.value == 4 && list[2].n == 3 && !list[1].g);
}

static void arrays(void)
{
    static int inside[4]::[3];
    static double counted[2 * PROCS]::;
    int n = 3, m = n++, a[m]::[n], *spread s, (*spread rows)[n], i, j;
    double x;

    /* The bounds keep their values from the declaration. */
    m = 100, n = 1;
    CHECK(sizeof(a[0]) == 4 * sizeof(int) && sizeof(*rows) == 4 * sizeof(int));
    for (i = MYPROC; i < 3; i += PROCS)
        for (j = 0; j < 4; j++)
            a[i][j] = 10 * i + j;
    barrier();
    rows = a;
    s = &a[0][1];
    CHECK(rows[2][3] == 23 && (*(a + 1))[2] == 12 && *(a[1] + 2) == 12 && 1[a][2] == 12 && *s == 1);
    CHECK(toproc(rows + 2) == 2 % PROCS && &a[1][1] - &a[1][0] == 1);
    {
        int a[2]::;

        a[MYPROC % 2] = 5;
        if (MYPROC < 100)
            goto out;
        a[0] = 6;
    }
out:
    for (i = 0; i < 3; i++) {
        int again[PROCS]::, k;

        again[MYPROC] = i;
        if (i == 1)
            continue;
        k = again[MYPROC];
        CHECK(k == i);
    }
    barrier();
    inside[3][2] = 8, x = counted[1] = 2.25, spread_row[5][1] = 9;
    CHECK(inside[3][2] == 8 && x == 2.25 && counted[1] == 2.25 && spread_row[5][1] == 9);
    row_start = line_start;
    CHECK(line_start == line && row_start + 4 == &line[4] && toproc(line + 4) == 4 % PROCS);
    barrier();
}

int splitc_main()
{
    node_t *global n = toglobal(MYPROC, &fixed);
    gint g = toglobal(MYPROC, numbers);

    CHECK(SIZE == 8 && !table[0] && !table[2]);
    arrays();
    expressions(g, n);
    splits(g);
    structures(n, g);
    barrier();
    on_one printf("forms: as they should be on %d\n", PROCS);
    return 0;
}
