/*
 * Atomic operations on a word of another process. The owner of the word carries them out; they
 * return its old value.
 */
#ifndef SPLIT_C_ATOMIC_H
#define SPLIT_C_ATOMIC_H

#include <split-c/split-c.h>

int fetch_and_add(int *global word, int value);
int exchange(int *global word, int value);
int test_and_set(int *global word);
/* Replace the word by `value` if it is `expected`. */
int compare_and_swap(int *global word, int expected, int value);

/* A lock is an int, 0 when free; a process that waits for it serves others meanwhile. */
void splitc_lock(int *global lock);
int splitc_trylock(int *global lock);
void splitc_unlock(int *global lock);

/*
 * Call function(arg, value) in that process and return its result. The function runs alone, while
 * its process is inside the runtime; it must not use the runtime itself.
 */
int atomic(int proc, int (*function)(void *arg, int value), void *arg, int value);

#endif
