/*
 * Reductions, scans and broadcasts of each type and operation.
 */
#include "splitc/lib/library.h"

#include <string.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define AND(a, b) ((a) & (b))
#define OR(a, b)  ((a) | (b))
#define XOR(a, b) ((a) ^ (b))

/* Combine the slots of several processes. A process has filled only its own slot; its other slots
 * are zeros. */
static void combine_slots(void *all, const void *one, size_t bytes)
{
    unsigned char *a = all;
    const unsigned char *b = one;

    for (size_t i = 0; i < bytes; i++)
        a[i] |= b[i];
}

static void gather(void *slots, size_t slot_bytes, const void *mine)
{
    size_t bytes = slot_bytes * (size_t)sc_procs;

    if (bytes > RT_DATA_MAX)
        rt_fatal("a scan of %d processes is too large; at most %d", sc_procs,
                 (int)(RT_DATA_MAX / slot_bytes));
    memset(slots, 0, bytes);
    memcpy((char *)slots + slot_bytes * (size_t)sc_myproc, mine, slot_bytes);
    rt_reduce(slots, bytes, combine_slots);
}

/*
 * The functions for one type and one operation. all_reduce_to_one: only process 0 needs the result.
 * all_scan: process i gets the combination of the values of processes 0 to i. work: the type in
 * which `op` is done. It is unsigned if a signed type must wrap on overflow.
 */
#define REDUCTIONS(name, type, work, op)                                                           \
    type all_reduce_to_all_##name(type value) LIBRARY;                                             \
    type all_reduce_to_one_##name(type value) LIBRARY;                                             \
    type all_scan_##name(type value) LIBRARY;                                                      \
    static void combine_##name(void *all, const void *one, size_t bytes)                           \
    {                                                                                              \
        type a, b;                                                                                 \
                                                                                                   \
        (void)bytes;                                                                               \
        memcpy(&a, all, sizeof(a));                                                                \
        memcpy(&b, one, sizeof(b));                                                                \
        a = (type)op((work)a, (work)b);                                                            \
        memcpy(all, &a, sizeof(a));                                                                \
    }                                                                                              \
    static type reduce_##name(type value)                                                          \
    {                                                                                              \
        rt_enter();                                                                                \
        rt_reduce(&value, sizeof(value), combine_##name);                                          \
        rt_leave();                                                                                \
        return value;                                                                              \
    }                                                                                              \
    type all_reduce_to_all_##name(type value)                                                      \
    {                                                                                              \
        return reduce_##name(value);                                                               \
    }                                                                                              \
    type all_reduce_to_one_##name(type value)                                                      \
    {                                                                                              \
        return reduce_##name(value);                                                               \
    }                                                                                              \
    type all_scan_##name(type value)                                                               \
    {                                                                                              \
        type slots[RT_DATA_MAX / sizeof(type)];                                                    \
                                                                                                   \
        rt_enter();                                                                                \
        gather(slots, sizeof(value), &value);                                                      \
        rt_leave();                                                                                \
        value = slots[0];                                                                          \
        for (int i = 1; i <= sc_myproc; i++)                                                       \
            value = (type)op((work)value, (work)slots[i]);                                         \
        return value;                                                                              \
    }

REDUCTIONS(add, int, unsigned, ADD)
REDUCTIONS(mult, int, unsigned, MUL)
REDUCTIONS(min, int, int, MIN)
REDUCTIONS(max, int, int, MAX)
REDUCTIONS(and, int, int, AND)
REDUCTIONS(or, int, int, OR)
REDUCTIONS(xor, int, int, XOR)
REDUCTIONS(ladd, long, unsigned long, ADD)
REDUCTIONS(lmult, long, unsigned long, MUL)
REDUCTIONS(lmin, long, long, MIN)
REDUCTIONS(lmax, long, long, MAX)
REDUCTIONS(land, long, long, AND)
REDUCTIONS(lor, long, long, OR)
REDUCTIONS(lxor, long, long, XOR)
REDUCTIONS(fadd, float, float, ADD)
REDUCTIONS(fmult, float, float, MUL)
REDUCTIONS(fmin, float, float, MIN)
REDUCTIONS(fmax, float, float, MAX)
REDUCTIONS(dadd, double, double, ADD)
REDUCTIONS(dmult, double, double, MUL)
REDUCTIONS(dmin, double, double, MIN)
REDUCTIONS(dmax, double, double, MAX)

/* Give all processes the value of process 0: combine it with zeros from the others. */
static void broadcast(void *value, size_t bytes)
{
    rt_enter();
    if (sc_myproc)
        memset(value, 0, bytes);
    rt_reduce(value, bytes, combine_slots);
    rt_leave();
}

int all_bcast(int value)
{
    broadcast(&value, sizeof(value));
    return value;
}

int all_bcast_i(int value)
{
    broadcast(&value, sizeof(value));
    return value;
}

long all_bcast_l(long value)
{
    broadcast(&value, sizeof(value));
    return value;
}

float all_bcast_f(float value)
{
    broadcast(&value, sizeof(value));
    return value;
}

double all_bcast_d(double value)
{
    broadcast(&value, sizeof(value));
    return value;
}
