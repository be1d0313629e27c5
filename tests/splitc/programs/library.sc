/*
 * Every function of the library that the other programs leave out: each reduction, scan and broadcast against a
 * loop over all processes, memory of one process and of all, atomic operations, locks, loops by process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>
#include <split-c/atomic.h>

#define CHECK(cond) ((cond) ? (void)0 : (printf("process %d, line %d: %s\n", MYPROC, __LINE__, #cond), exit(1)))

/* The value of a process: small, of both signs, with many bits for the logical operations. */
#define VALUE(p) ((p) * 3 - 4)

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b)  ((a) | (b))
#define XOR(a, b) ((a) ^ (b))

#define REDUCTION(name, type, op)                                                                  \
    {                                                                                              \
        type all = VALUE(0), before = VALUE(0), one, mine = VALUE(MYPROC);                         \
                                                                                                   \
        for (p = 1; p < PROCS; p++) {                                                              \
            all = op(all, (type)VALUE(p));                                                         \
            if (p <= MYPROC)                                                                       \
                before = op(before, (type)VALUE(p));                                               \
        }                                                                                          \
        CHECK(all_reduce_to_all_##name(mine) == all);                                              \
        one = all_reduce_to_one_##name(mine);                                                      \
        on_one CHECK(one == all);                                                                  \
        CHECK(all_scan_##name(mine) == before);                                                    \
        count += 3;                                                                                \
    }

static int word, lock, guarded, total;
static struct { int calls; long sum; } called;

static int reductions(void)
{
    int p, count = 0;

    REDUCTION(add, int, ADD)
    REDUCTION(mult, int, MUL)
    REDUCTION(min, int, MIN)
    REDUCTION(max, int, MAX)
    REDUCTION(and, int, AND)
    REDUCTION(or, int, OR)
    REDUCTION(xor, int, XOR)
    REDUCTION(ladd, long, ADD)
    REDUCTION(lmult, long, MUL)
    REDUCTION(lmin, long, MIN)
    REDUCTION(lmax, long, MAX)
    REDUCTION(land, long, AND)
    REDUCTION(lor, long, OR)
    REDUCTION(lxor, long, XOR)
    REDUCTION(fadd, float, ADD)
    REDUCTION(fmult, float, MUL)
    REDUCTION(fmin, float, MIN)
    REDUCTION(fmax, float, MAX)
    REDUCTION(dadd, double, ADD)
    REDUCTION(dmult, double, MUL)
    REDUCTION(dmin, double, MIN)
    REDUCTION(dmax, double, MAX)
    CHECK(all_bcast(MYPROC - 9) == -9 && all_bcast_i(MYPROC + 70000) == 70000);
    CHECK(all_bcast_l(MYPROC - (1l << 40)) == -(1l << 40));
    CHECK(all_bcast_f(MYPROC + 0.25f) == 0.25f && all_bcast_d(MYPROC - 1e300) == -1e300);
    /* Sums wrap around. */
    CHECK(all_reduce_to_all_add(0x7fffffff) == (int)(0x7fffffffu * PROCS));
    return count;
}

static void memory(void)
{
    int *spread a = all_spread_malloc(PROCS, sizeof(int)), *spread b, *spread mine, *spread theirs;
    int *spread where[PROCS]::;
    int right = (MYPROC + 1) % PROCS, i;

    b = all_spread_malloc(3 * PROCS, sizeof(int));
    CHECK(a != NULL && b != NULL && a != b && toproc(a) == 0);
    all_spread_free(a);
    /* Freed memory is used again, at the same address in all processes. */
    a = all_spread_malloc(PROCS, sizeof(int));
    CHECK((long)(int *)a == all_bcast_l((long)(int *)a));
    CHECK(all_spread_malloc(-1, 4) == NULL && all_spread_malloc(4, -1) == NULL);
    CHECK(all_spread_malloc(0x7fffffff, 0x7fffffff) == NULL);
    all_spread_free(NULL);
    /* spread_malloc by each process alone: each gets other memory. */
    mine = spread_malloc(2 * PROCS, sizeof(int));
    CHECK(mine != NULL && spread_malloc(0x7fffffff, 0x7fffffff) == NULL);
    for (i = 0; i < 2 * PROCS; i++)
        mine[i] = MYPROC * 1000 + i;
    where[MYPROC] = mine;
    barrier();
    theirs = where[right];
    for (i = 0; i < 2 * PROCS; i++)
        CHECK(theirs[i] == right * 1000 + i);
    CHECK(PROCS == 1 || (int *)theirs != (int *)mine);
    barrier();
    spread_free(mine);
    all_spread_free(b);
    all_spread_free(a);
}

/* Runs in the process that it was sent to, with this process's `called`. */
static int note(void *arg, int value)
{
    called.calls++;
    called.sum += value;
    return arg == &called ? value + 1 : -1;
}

static void atomics(void)
{
    int *global w = toglobal(0, &word), right = (MYPROC + 1) % PROCS, i, old, seen = 0;
    int *global l = toglobal(0, &lock);

    for (i = 0; i < 5; i++) {
        do
            old = *w;
        while (compare_and_swap(w, old, old + 1) != old);
        fetch_and_add(w, -3);
    }
    barrier();
    CHECK(*w == -10 * PROCS);
    CHECK(compare_and_swap(w, 12345, 1) == -10 * PROCS && *w == -10 * PROCS);
    barrier();
    /* Each process exchanges its number + 1 for the old value; each value comes out once, the last one stays in. */
    on_one word = 0;
    barrier();
    seen = exchange(w, MYPROC + 1);
    barrier();
    CHECK(all_reduce_to_all_add(seen) + *w == PROCS * (PROCS + 1) / 2);
    barrier();
    on_one word = 0;
    barrier();
    CHECK(all_reduce_to_all_add(test_and_set(w) == 0) == 1 && *w == 1);
    for (i = 0; i < 5; i++) {
        splitc_lock(l);
        *toglobal(0, &guarded) = *toglobal(0, &guarded) + 1;
        CHECK(!splitc_trylock(l));
        splitc_unlock(l);
    }
    while (!splitc_trylock(l))
        ;
    *toglobal(0, &guarded) += 100;
    splitc_unlock(l);
    barrier();
    CHECK(*toglobal(0, &guarded) == 105 * PROCS && *l == 0);
    CHECK(atomic(right, note, &called, MYPROC) == MYPROC + 1 && atomic(right, note, &word, 7) == -1);
    barrier();
    CHECK(called.calls == 2 && called.sum == (MYPROC + PROCS - 1) % PROCS + 7);
}

static void loops(void)
{
    int i, j, n = 0, seen = 0;

    for_my_1d(i, 13) n += i % PROCS == MYPROC, seen++;
    CHECK(n == seen && all_reduce_to_all_add(seen) == 13);
    n = seen = 0;
    for_my_2d(i, j, 4, 5) n += (i * 5 + j) % PROCS == MYPROC && i < 4 && j < 5, seen++;
    CHECK(n == seen && all_reduce_to_all_add(seen) == 20);
    on_one total++;
    on_proc(PROCS - 1) {
        total += 2;
    }
    CHECK(total == (MYPROC == 0) + 2 * (MYPROC == PROCS - 1));
}

static void waiting(void)
{
    int got, right = (MYPROC + 1) % PROCS;
    double start = get_seconds();

    word = 40 + MYPROC;
    barrier();
    CHECK(is_sync());
    got := *toglobal(right, &word);
    while (!is_sync())
        ;
    CHECK(got == 40 + right);
    barrier();
    /* The last process only serves requests until process 0 has written 99. */
    on_proc(PROCS - 1) while (PROCS > 1 && *(volatile int *)&word != 99) splitc_poll();
    on_one *toglobal(PROCS - 1, &word) = 99;
    barrier();
    CHECK(get_seconds() >= start && get_seconds() - start < 1000);
}

int splitc_main()
{
    int count = reductions();

    memory();
    atomics();
    loops();
    waiting();
    on_one printf("library: %d reductions and scans on %d processes\n", count, PROCS);
    return 5; /* does not count */
}
