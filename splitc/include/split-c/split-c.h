/*
 * The library of Split-C. doc/split-c.md describes each function. The other headers of this folder
 * are separate from this one, because old programs may define functions with the names in them.
 */
#ifndef SPLIT_C_SPLIT_C_H
#define SPLIT_C_SPLIT_C_H

#ifndef __SPLIT_C__
#error "this header is for Split-C programs: compile them with splitcc"
#endif

#include <split-c/control.h>

/* ---- synchronisation ---- */

/* Waits until all processes have called barrier. Does not wait for puts, gets or stores. */
void barrier(void);
/* Waits until all gets and puts of this process are complete, also bulk_get and bulk_put. */
void sync(void);
/* Are all gets and puts of this process complete? Does not wait. */
int is_sync(void);
/* Collective: waits until all stores are delivered that any process issued before this call. */
void all_store_sync(void);
/* Waits until stores of `bytes` bytes have arrived in this process. */
void store_sync(int bytes);
/* Sets the count of store_sync to 0: bytes that have arrived so far do not count any more. */
void reset_store_sync(void);

/* ---- bulk transfers: destination first, size in bytes ---- */

void bulk_read(void *to, void *global from, int bytes);
void bulk_get(void *to, void *global from, int bytes);
void bulk_write(void *global to, void *from, int bytes);
void bulk_put(void *global to, void *from, int bytes);
void bulk_store(void *global to, void *from, int bytes);

/* ---- memory ---- */

/* Collective: a spread array; block i is in process i mod PROCS. NULL: no room. Sizes in bytes. */
void *spread all_spread_malloc(int blocks, int block_bytes);
void all_spread_free(void *spread array);
/* The same, but only one process makes the call. */
void *spread spread_malloc(int blocks, int block_bytes);
void spread_free(void *spread array);

/* ---- collective operations: every process calls them in the same order ---- */

int all_bcast(int value);
int all_bcast_i(int value);
long all_bcast_l(long value);
float all_bcast_f(float value);
double all_bcast_d(double value);

#define SPLIT_C_REDUCTIONS(name, type)                                                             \
    type all_reduce_to_all_##name(type value);                                                     \
    type all_reduce_to_one_##name(type value);                                                     \
    type all_scan_##name(type value);

SPLIT_C_REDUCTIONS(add, int)
SPLIT_C_REDUCTIONS(mult, int)
SPLIT_C_REDUCTIONS(min, int)
SPLIT_C_REDUCTIONS(max, int)
SPLIT_C_REDUCTIONS(and, int)
SPLIT_C_REDUCTIONS(or, int)
SPLIT_C_REDUCTIONS(xor, int)
SPLIT_C_REDUCTIONS(ladd, long)
SPLIT_C_REDUCTIONS(lmult, long)
SPLIT_C_REDUCTIONS(lmin, long)
SPLIT_C_REDUCTIONS(lmax, long)
SPLIT_C_REDUCTIONS(land, long)
SPLIT_C_REDUCTIONS(lor, long)
SPLIT_C_REDUCTIONS(lxor, long)
SPLIT_C_REDUCTIONS(fadd, float)
SPLIT_C_REDUCTIONS(fmult, float)
SPLIT_C_REDUCTIONS(fmin, float)
SPLIT_C_REDUCTIONS(fmax, float)
SPLIT_C_REDUCTIONS(dadd, double)
SPLIT_C_REDUCTIONS(dmult, double)
SPLIT_C_REDUCTIONS(dmin, double)
SPLIT_C_REDUCTIONS(dmax, double)

#undef SPLIT_C_REDUCTIONS

/* ---- time and progress ---- */

/* The wall clock, in seconds. */
double get_seconds(void);
/* Serves the requests of other processes. Call it now and then in a long computation. */
void splitc_poll(void);

#endif
