/*
 * The library of Split-C. doc/split-c.md describes each function. Old programs may define functions
 * with the same names as the other headers of this folder. So this header does not contain them.
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
/* Collective: waits until the stores that all processes issued before this call have arrived. */
void all_store_sync(void);
/* Waits until `bytes` stored bytes have arrived here, and subtracts them from its count. */
void store_sync(int bytes);
/* Sets the count of store_sync to 0: it ignores all bytes that have arrived before. */
void reset_store_sync(void);

/* ---- bulk transfers: destination first, size in bytes ---- */

void bulk_read(void *to, void *global from, int bytes);
void bulk_get(void *to, void *global from, int bytes);
void bulk_write(void *global to, void *from, int bytes);
void bulk_put(void *global to, void *from, int bytes);
void bulk_store(void *global to, void *from, int bytes);

/* ---- memory ---- */

/* Collective: allocates a spread array. Block i is in process i mod PROCS. NULL: no room. */
void *spread all_spread_malloc(int blocks, int block_bytes);
void all_spread_free(void *spread array);
/* As all_spread_malloc and all_spread_free, but only one process makes the call. */
void *spread spread_malloc(int blocks, int block_bytes);
void spread_free(void *spread array);

/* ---- collective operations: all processes call them in the same order ---- */

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

/* Returns the time of the wall clock, in seconds. */
double get_seconds(void);
/* Serves requests of other processes. Call it from time to time in a long computation. */
void splitc_poll(void);

#endif
