/*
 * Atomic operations on a word of any process. The process that owns the word does the operation.
 * The first four functions return the old value of the word.
 */
#ifndef SPLIT_C_ATOMIC_H
#define SPLIT_C_ATOMIC_H

#include <split-c/split-c.h>

int fetch_and_add(int *global word, int value);
int exchange(int *global word, int value);
int test_and_set(int *global word);
/* If the word has the value `expected`, set it to `value`. */
int compare_and_swap(int *global word, int expected, int value);

/* A lock is an int that is 0 while the lock is free. A process that waits for a lock also serves
 * other processes. splitc_trylock returns 1 if this process now has the lock, otherwise 0. */
void splitc_lock(int *global lock);
int splitc_trylock(int *global lock);
void splitc_unlock(int *global lock);

/*
 * Call function(arg, value) in process `proc` and return its result. A process runs such functions
 * one after the other, while it is in the runtime. The functions must not call the runtime.
 */
int atomic(int proc, int (*function)(void *arg, int value), void *arg, int value);

#endif
