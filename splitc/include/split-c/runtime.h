/*
 * The functions that the translator's output calls. splitcc includes this header before the text of
 * each program. Programs include <split-c/split-c.h>.
 *
 * A global or spread pointer is a process number and an address. An access first checks whether the
 * object is in this process. If so, the check costs only a branch that the CPU predicts well.
 *
 * This header includes no other header, so that a program can define feature macros (_GNU_SOURCE)
 * before it includes headers of C.
 */
#ifndef SPLIT_C_RUNTIME_H
#define SPLIT_C_RUNTIME_H

#pragma GCC system_header

/*
 * The functions of this header are inline. libsplitc has a copy for calls that gcc does not inline.
 * The functions are not static, so that a program's own "extern inline" functions may call them.
 */
#ifndef SC_INLINE
#define SC_INLINE extern __inline__ __attribute__((__gnu_inline__))
#endif

typedef struct {
    int proc;   /* 0 to PROCS - 1 */
    void *addr; /* address in process `proc` */
} sc_ptr;

/* The runtime sets these variables before it calls splitc_main. Programs must not change them. */
extern int sc_myproc, sc_procs, sc_procs_log;

#define MYPROC   (sc_myproc)
#define PROCS    (sc_procs)
#define PROCSLOG (sc_procs_log)

/* ---- pointers: no communication ---------------------------------------------------------- */

SC_INLINE sc_ptr sc_global(int proc, void *addr)
{
    sc_ptr p;

    p.proc = proc;
    p.addr = addr;
    return p;
}

/* Return the global pointer to an address of this process. */
SC_INLINE sc_ptr sc_here(const volatile void *addr)
{
    return sc_global(sc_myproc, (void *)addr);
}

/* Return the spread pointer to element 0 of a spread array that is at `addr` in every process. */
SC_INLINE sc_ptr sc_base(const volatile void *addr)
{
    return sc_global(0, (void *)addr);
}

SC_INLINE void *sc_local(sc_ptr p)
{
    return p.addr;
}

SC_INLINE int sc_proc(sc_ptr p)
{
    return p.proc;
}

/* Is the pointer not NULL? Only its address counts, its process number does not. */
SC_INLINE int sc_true(sc_ptr p)
{
    return p.addr != (void *)0;
}

SC_INLINE int sc_eq(sc_ptr a, sc_ptr b)
{
    return a.addr == b.addr && (a.proc == b.proc || a.addr == (void *)0);
}

/* Compare spread pointers into one array, or global pointers into one process. */
SC_INLINE int sc_cmp(sc_ptr a, sc_ptr b)
{
    if (a.addr != b.addr)
        return (char *)a.addr < (char *)b.addr ? -1 : 1;
    return a.proc < b.proc ? -1 : a.proc > b.proc;
}

/* Add to a global pointer. The result points into the same process. */
SC_INLINE sc_ptr sc_gadd(sc_ptr p, long bytes)
{
    p.addr = (char *)p.addr + bytes;
    return p;
}

SC_INLINE sc_ptr sc_gindex(sc_ptr p, long n, __SIZE_TYPE__ size)
{
    p.addr = (char *)p.addr + n * (long)size;
    return p;
}

SC_INLINE sc_ptr sc_gindex_to(long n, sc_ptr p, __SIZE_TYPE__ size)
{
    return sc_gindex(p, n, size);
}

SC_INLINE long sc_gdiff(sc_ptr a, sc_ptr b, __SIZE_TYPE__ size)
{
    return ((char *)a.addr - (char *)b.addr) / (long)size;
}

/* Add n steps to a spread pointer: through all processes, then to process 0's next block. */
SC_INLINE sc_ptr sc_sadd(sc_ptr p, long n, __SIZE_TYPE__ size)
{
    long k = p.proc + n, round, proc;

    if (__builtin_expect((unsigned long)k < (unsigned long)sc_procs, 1)) {
        p.proc = (int)k;
        return p;
    }
    if (sc_procs_log >= 0) {
        round = k >> sc_procs_log; /* gcc's shift keeps the sign, so the quotient is rounded down */
    } else {
        round = k / sc_procs;
        if (round * sc_procs > k)
            round--;
    }
    proc = k - round * sc_procs;
    p.proc = (int)proc;
    p.addr = (char *)p.addr + round * (long)size;
    return p;
}

SC_INLINE sc_ptr sc_sadd_to(long n, sc_ptr p, __SIZE_TYPE__ size)
{
    return sc_sadd(p, n, size);
}

SC_INLINE long sc_sdiff(sc_ptr a, sc_ptr b, __SIZE_TYPE__ size)
{
    return (((char *)a.addr - (char *)b.addr) / (long)size) * sc_procs + (a.proc - b.proc);
}

/* ---- accesses ----------------------------------------------------------------------------- */

/* libsplitc accesses an object in another process. size: in bytes. */
void sc_remote_read(void *to, sc_ptr from, __SIZE_TYPE__ size);
void sc_remote_write(sc_ptr to, const void *from, __SIZE_TYPE__ size);
void sc_remote_get(void *to, sc_ptr from, __SIZE_TYPE__ size);
void sc_remote_put(sc_ptr to, const void *from, __SIZE_TYPE__ size);
/* Store in any process, also in this one, because the target's runtime counts each store. */
void sc_any_store(sc_ptr to, const void *from, __SIZE_TYPE__ size);

#define SC_MINE(p) __builtin_expect((p).proc == sc_myproc, 1)

/* Define the five access functions for objects of `type`. They access an object through the name
 * `alias` of this type, which may alias any other type. */
#define SC_ACCESS(suffix, type, alias)                                                             \
    typedef type __attribute__((may_alias)) alias;                                                 \
    SC_INLINE type sc_read_##suffix(sc_ptr p)                                                      \
    {                                                                                              \
        type v;                                                                                    \
        if (SC_MINE(p))                                                                            \
            return *(volatile alias *)p.addr;                                                      \
        sc_remote_read(&v, p, sizeof(v));                                                          \
        return v;                                                                                  \
    }                                                                                              \
    SC_INLINE type sc_write_##suffix(sc_ptr p, type v)                                             \
    {                                                                                              \
        if (SC_MINE(p))                                                                            \
            *(volatile alias *)p.addr = v;                                                         \
        else                                                                                       \
            sc_remote_write(p, &v, sizeof(v));                                                     \
        return v;                                                                                  \
    }                                                                                              \
    SC_INLINE void sc_get_##suffix(void *to, sc_ptr p)                                             \
    {                                                                                              \
        if (SC_MINE(p))                                                                            \
            *(alias *)to = *(volatile alias *)p.addr;                                              \
        else                                                                                       \
            sc_remote_get(to, p, sizeof(type));                                                    \
    }                                                                                              \
    SC_INLINE void sc_put_##suffix(sc_ptr p, type v)                                               \
    {                                                                                              \
        if (SC_MINE(p))                                                                            \
            *(volatile alias *)p.addr = v;                                                         \
        else                                                                                       \
            sc_remote_put(p, &v, sizeof(v));                                                       \
    }                                                                                              \
    SC_INLINE void sc_store_##suffix(sc_ptr p, type v)                                             \
    {                                                                                              \
        sc_any_store(p, &v, sizeof(v));                                                            \
    }

SC_ACCESS(1, signed char, sc_alias_1)
SC_ACCESS(2, short, sc_alias_2)
SC_ACCESS(4, int, sc_alias_4)
SC_ACCESS(8, long, sc_alias_8)
SC_ACCESS(f, float, sc_alias_f)
SC_ACCESS(d, double, sc_alias_d)

#undef SC_ACCESS

/* The following functions access objects of any size. */
SC_INLINE void sc_read(void *to, sc_ptr from, __SIZE_TYPE__ size)
{
    if (SC_MINE(from))
        __builtin_memmove(to, from.addr, size);
    else
        sc_remote_read(to, from, size);
}

SC_INLINE void sc_write(sc_ptr to, const void *from, __SIZE_TYPE__ size)
{
    if (SC_MINE(to))
        __builtin_memmove(to.addr, from, size);
    else
        sc_remote_write(to, from, size);
}

SC_INLINE void sc_get(void *to, sc_ptr from, __SIZE_TYPE__ size)
{
    if (SC_MINE(from))
        __builtin_memmove(to, from.addr, size);
    else
        sc_remote_get(to, from, size);
}

SC_INLINE void sc_put(sc_ptr to, const void *from, __SIZE_TYPE__ size)
{
    if (SC_MINE(to))
        __builtin_memmove(to.addr, from, size);
    else
        sc_remote_put(to, from, size);
}

SC_INLINE void sc_store(sc_ptr to, const void *from, __SIZE_TYPE__ size)
{
    sc_any_store(to, from, size);
}

#undef SC_MINE

/* ---- memory of spread arrays ---------------------------------------------------------------- */

/*
 * Enter and leave the scope of an automatic spread array. Its memory is undefined at first. It is
 * from a stack that has the same address in every process.
 */
sc_ptr sc_spread_enter(long blocks, __SIZE_TYPE__ block_bytes);
void sc_spread_leave(sc_ptr *array);
/* Allocate a static spread array at program start. A second call for it has no effect. */
void sc_spread_static(sc_ptr *array, long blocks, __SIZE_TYPE__ block_bytes);

#endif
