/*
 * Every operation x every type x local and remote x global pointer, spread pointer, spread array. Each process in turn
 * does all operations on all elements. An ordinary array keeps the expected values, and the owners check them with
 * ordinary pointers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>

#define PER_PROCESS 3

typedef struct { char c; int i[5]; double d; short s; } rec_t;
typedef union { int i; double d; } uni_t;
enum colour { RED, GREEN = 100000, BLUE };

static int checks;

static void wrong(const char *type, const char *what, int element)
{
    printf("process %d: %s, %s, element %d\n", MYPROC, type, what, element);
    exit(1);
}

#define SAME(a, b) (checks++, memcmp(&(a), &(b), sizeof(a)) == 0)

/* T: type, N: name, V(k): value number k. */
#define CELLS(T, N, V)                                                                             \
    static struct { int before; T x; T a[3]; int after; } box_##N;                                 \
    static void check_##N(T *spread s, T *oracle, const char *what)                                \
    {                                                                                              \
        int i;                                                                                     \
                                                                                                   \
        for (i = 0; i < PER_PROCESS; i++) {                                                        \
            T *mine = (T *)(s + MYPROC + i * PROCS);                                               \
            if (!SAME(*mine, oracle[MYPROC + i * PROCS]))                                          \
                wrong(#T, what, MYPROC + i * PROCS);                                               \
        }                                                                                          \
    }                                                                                              \
    static void pointers_##N(T *spread s, int n, int round)                                        \
    {                                                                                              \
        T *global g;                                                                               \
        T oracle[PER_PROCESS * PROCS], x, y;                                                       \
        int e, actor;                                                                              \
                                                                                                   \
        for (actor = 0; actor < PROCS; actor++) {                                                  \
            memset(oracle, 0, sizeof(oracle));                                                     \
            memset(&x, 0, sizeof(x));                                                              \
            memset(&y, 0, sizeof(y));                                                              \
            for (e = 0; e < n; e++)                                                                \
                oracle[e] = V(e + 7 * actor + round);                                              \
            barrier();                                                                             \
            if (MYPROC == actor)                                                                   \
                for (e = 0; e < n; e++) {                                                          \
                    x = V(e + 7 * actor + round);                                                  \
                    if (e % 2)                                                                     \
                        s[e] = x;                                                                  \
                    else                                                                           \
                        *(s + e) = x;                                                              \
                    g = (T *global)(s + e);                                                        \
                    y = *g;                                                                        \
                    if (!SAME(y, oracle[e]))                                                       \
                        wrong(#T, "write, read", e);                                               \
                }                                                                                  \
            barrier();                                                                             \
            check_##N(s, oracle, "write");                                                         \
            barrier();                                                                             \
            if (MYPROC == actor) {                                                                 \
                T got[PER_PROCESS * PROCS];                                                        \
                                                                                                   \
                memset(got, 0, sizeof(got));                                                       \
                for (e = 0; e < n; e++) {                                                          \
                    g = s + e;                                                                     \
                    if (e % 2)                                                                     \
                        got[e] := *g;                                                              \
                    else                                                                           \
                        got[e] := s[e];                                                            \
                }                                                                                  \
                sync();                                                                            \
                for (e = 0; e < n; e++)                                                            \
                    if (!SAME(got[e], oracle[e]))                                                  \
                        wrong(#T, "get", e);                                                       \
            }                                                                                      \
            for (e = 0; e < n; e++)                                                                \
                oracle[e] = V(e + 11 * actor + round + 1);                                         \
            barrier();                                                                             \
            if (MYPROC == actor) {                                                                 \
                for (e = 0; e < n; e++) {                                                          \
                    g = s + e;                                                                     \
                    x = V(e + 11 * actor + round + 1);                                             \
                    if (e % 2)                                                                     \
                        *g := x;                                                                   \
                    else                                                                           \
                        s[e] := x;                                                                 \
                    memset(&x, 0, sizeof(x));                                                      \
                }                                                                                  \
                sync();                                                                            \
            }                                                                                      \
            barrier();                                                                             \
            check_##N(s, oracle, "put");                                                           \
            for (e = 0; e < n; e++)                                                                \
                oracle[e] = V(e + 13 * actor + round + 2);                                         \
            barrier();                                                                             \
            if (MYPROC == actor)                                                                   \
                for (e = 0; e < n; e++) {                                                          \
                    g = s + e;                                                                     \
                    x = V(e + 13 * actor + round + 2);                                             \
                    if (e % 2)                                                                     \
                        *g :- x;                                                                   \
                    else                                                                           \
                        s[e] :- x;                                                                 \
                    memset(&x, 0, sizeof(x));                                                      \
                }                                                                                  \
            all_store_sync();                                                                      \
            check_##N(s, oracle, "store");                                                         \
        }                                                                                          \
        barrier();                                                                                 \
    }                                                                                              \
    static void members_##N(void)                                                                  \
    {                                                                                              \
        int p, k;                                                                                  \
        T x, y;                                                                                    \
                                                                                                   \
        barrier();                                                                                 \
        memset(&box_##N, 0, sizeof(box_##N));                                                      \
        memset(&x, 0, sizeof(x));                                                                  \
        memset(&y, 0, sizeof(y));                                                                  \
        box_##N.before = box_##N.after = 55;                                                       \
        barrier();                                                                                 \
        p = (MYPROC + 1) % PROCS;                                                                  \
        for (k = 0; k < 3; k++) {                                                                  \
            __typeof__(box_##N) *global b = toglobal(p, &box_##N);                                 \
            x = V(MYPROC + k);                                                                     \
            b->x = x;                                                                              \
            y = (*b).x;                                                                            \
            if (!SAME(x, y))                                                                       \
                wrong(#T, "member", k);                                                            \
            b->a[k] := x;                                                                          \
            sync();                                                                                \
            *(b->a + k) = b->a[k];                                                                 \
            y := b->a[k];                                                                          \
            sync();                                                                                \
            if (!SAME(x, y) || b->before != 55 || b->after != 55)                                  \
                wrong(#T, "element of a member", k);                                               \
        }                                                                                          \
        barrier();                                                                                 \
    }                                                                                              \
    static void test_##N(void)                                                                     \
    {                                                                                              \
        static T fixed[PER_PROCESS * 8]::;                                                         \
        static T counted[PER_PROCESS * PROCS]::;                                                   \
        T automatic[PER_PROCESS * PROCS]::;                                                        \
        int n = PER_PROCESS * PROCS;                                                               \
                                                                                                   \
        pointers_##N(automatic, n, 0);                                                             \
        pointers_##N(counted, n, 1);                                                               \
        if (PROCS <= 8)                                                                            \
            pointers_##N(fixed, n, 2);                                                             \
        members_##N();                                                                             \
    }

#define NUMBER(k) ((k) * 3 + 1)
#define FRACTION(k) ((k) * 1.25f - 7)
#define POINTER(k) ((char *)0 + (k) * 1000003L)
#define SIGN(k) ((k) % 2 ? -(k) : (k))

static rec_t make_rec(int k)
{
    rec_t r;

    memset(&r, 0, sizeof(r));
    r.c = k, r.i[0] = k + 1, r.i[4] = -k, r.d = k / 8.0, r.s = k + 2;
    return r;
}

static uni_t make_uni(int k)
{
    uni_t u;

    u.d = k * 2.5;
    return u;
}

static int *global make_global(int k)
{
    return toglobal(k % PROCS, (int *)0 + k + 1);
}

typedef int *global gp_t;
typedef char *cp_t;
typedef double *spread sp_t;

static double *spread make_spread(int k)
{
    return (double *spread)toglobal(k % PROCS, (double *)0 + k + 1);
}

CELLS(char, char, NUMBER)
CELLS(signed char, schar, SIGN)
CELLS(unsigned char, uchar, 200 + NUMBER)
CELLS(_Bool, bool, NUMBER)
CELLS(short, short, SIGN)
CELLS(unsigned short, ushort, 60000 + NUMBER)
CELLS(int, int, -100000 * NUMBER)
CELLS(unsigned, uint, 4000000000u + NUMBER)
CELLS(long, long, -(1L << 40) * NUMBER)
CELLS(unsigned long, ulong, (1ul << 63) + NUMBER)
CELLS(long long, llong, -(1LL << 50) + NUMBER)
CELLS(float, float, FRACTION)
CELLS(double, double, 1e100 * FRACTION)
CELLS(enum colour, enum, (enum colour)NUMBER)
CELLS(cp_t, pointer, POINTER)
CELLS(rec_t, rec, make_rec)
CELLS(uni_t, uni, make_uni)
CELLS(gp_t, global, make_global)
CELLS(sp_t, spread, make_spread)

/* op=, ++ and -- on each arithmetic type, against the same on an ordinary variable. */
#define UPDATES(T, N)                                                                              \
    static void update_##N(void)                                                                   \
    {                                                                                              \
        T A[PROCS]::;                                                                              \
        T *global g = &A[(MYPROC + 1) % PROCS], x = 5, y, z;                                       \
                                                                                                   \
        barrier();                                                                                 \
        *g = x;                                                                                    \
        y = (*g += 3), z = (x += 3);                                                               \
        if (!SAME(y, z) || *g != x)                                                                \
            wrong(#T, "+=", 0);                                                                    \
        y = (*g)++, z = x++;                                                                       \
        if (!SAME(y, z) || *g != x)                                                                \
            wrong(#T, "++ behind", 0);                                                             \
        y = --*g, z = --x;                                                                         \
        if (!SAME(y, z) || *g != x)                                                                \
            wrong(#T, "-- before", 0);                                                             \
        *g *= 2, x *= 2;                                                                           \
        *g -= 1, x -= 1;                                                                           \
        *g /= 3, x /= 3;                                                                           \
        (*g)--, x--;                                                                               \
        ++*g, ++x;                                                                                 \
        y = A[(MYPROC + 1) % PROCS] = 1.5, z = x = 1.5;                                            \
        if (!SAME(y, z) || *g != x)                                                                \
            wrong(#T, "=", 0);                                                                     \
        barrier();                                                                                 \
    }

UPDATES(char, char)
UPDATES(unsigned char, uchar)
UPDATES(_Bool, bool)
UPDATES(short, short)
UPDATES(unsigned short, ushort)
UPDATES(int, int)
UPDATES(unsigned, uint)
UPDATES(long, long)
UPDATES(unsigned long long, ullong)
UPDATES(float, float)
UPDATES(double, double)

int splitc_main(int argc, char **argv)
{
    test_char(), test_schar(), test_uchar(), test_bool(), test_short(), test_ushort(), test_int();
    test_uint(), test_long(), test_ulong(), test_llong(), test_float(), test_double();
    test_enum(), test_pointer(), test_rec(), test_uni(), test_global(), test_spread();
    update_char(), update_uchar(), update_bool(), update_short(), update_ushort(), update_int();
    update_uint(), update_long(), update_ullong(), update_float(), update_double();
    on_one printf("cells: %d comparisons in process 0 of %d\n", checks, PROCS);
    return 0;
}
