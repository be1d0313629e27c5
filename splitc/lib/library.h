/*
 * Declares the functions of split-c.h and atomic.h for C. In C, global and spread pointers are of
 * type sc_ptr. The two headers describe the functions.
 */
#ifndef SPLITC_LIB_LIBRARY_H
#define SPLITC_LIB_LIBRARY_H

#include "splitc/lib/rt.h"

/* If a program defines a function with the same name, it replaces the function of the library. */
#define LIBRARY __attribute__((weak))

void barrier(void) LIBRARY;
void splitc_sync(void) __asm__("sync") LIBRARY; /* in C, unistd.h declares another sync() */
int is_sync(void) LIBRARY;
void all_store_sync(void) LIBRARY;
void store_sync(int bytes) LIBRARY;
void reset_store_sync(void) LIBRARY;
void bulk_read(void *to, sc_ptr from, int bytes) LIBRARY;
void bulk_get(void *to, sc_ptr from, int bytes) LIBRARY;
void bulk_write(sc_ptr to, void *from, int bytes) LIBRARY;
void bulk_put(sc_ptr to, void *from, int bytes) LIBRARY;
void bulk_store(sc_ptr to, void *from, int bytes) LIBRARY;
sc_ptr all_spread_malloc(int blocks, int block_bytes) LIBRARY;
void all_spread_free(sc_ptr array) LIBRARY;
sc_ptr spread_malloc(int blocks, int block_bytes) LIBRARY;
void spread_free(sc_ptr array) LIBRARY;
int all_bcast(int value) LIBRARY;
int all_bcast_i(int value) LIBRARY;
long all_bcast_l(long value) LIBRARY;
float all_bcast_f(float value) LIBRARY;
double all_bcast_d(double value) LIBRARY;
double get_seconds(void) LIBRARY;
void splitc_poll(void) LIBRARY;
int fetch_and_add(sc_ptr word, int value) LIBRARY;
int exchange(sc_ptr word, int value) LIBRARY;
int test_and_set(sc_ptr word) LIBRARY;
int compare_and_swap(sc_ptr word, int expected, int value) LIBRARY;
void splitc_lock(sc_ptr lock) LIBRARY;
int splitc_trylock(sc_ptr lock) LIBRARY;
void splitc_unlock(sc_ptr lock) LIBRARY;
int atomic(int proc, int (*function)(void *arg, int value), void *arg, int value) LIBRARY;

#endif
