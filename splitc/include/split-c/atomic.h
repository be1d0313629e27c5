/*
 * Atomic operations on a word of any process. The process that owns the word does the operation.
 * The functions return the old value of the word.
 */
#ifndef SPLIT_C_ATOMIC_H
#define SPLIT_C_ATOMIC_H

#include <split-c/split-c.h>

int fetch_and_add(int *global word, int value);
int exchange(int *global word, int value);
int test_and_set(int *global word);
/* Set the word to `value` if it has the value `expected`. */
int compare_and_swap(int *global word, int expected, int value);

/* A lock is an int, 0 when it is free. A process that waits for a lock serves other processes
 * meanwhile. splitc_trylock returns 1 if it has got the lock. */
void splitc_lock(int *global lock);
int splitc_trylock(int *global lock);
void splitc_unlock(int *global lock);

/*
 * Call function(arg, value) in process `proc` and return its result. Such functions run one after
 * the other, while their process is in a call of the runtime. They must not call the runtime.
 */
int atomic(int proc, int (*function)(void *arg, int value), void *arg, int value);

#endif
