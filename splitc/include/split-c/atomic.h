/*
 * Operations on a word of another process that nobody else can come between. They are carried out
 * by the owner of the word and return its old value.
 */
#ifndef SPLIT_C_ATOMIC_H
#define SPLIT_C_ATOMIC_H

#include <split-c/split-c.h>

int fetch_and_add(int *global word, int value);
int exchange(int *global word, int value);
int test_and_set(int *global word);
/* Replace the word by `value` if it is `expected`. */
int compare_and_swap(int *global word, int expected, int value);

/* A lock is an int, 0 when free; who waits for it serves others meanwhile. */
void splitc_lock(int *global lock);
int splitc_trylock(int *global lock);
void splitc_unlock(int *global lock);

/*
 * Call function(arg, value) in that process and return what it returns. The function runs while its
 * process is inside the runtime, alone; it must not use the runtime itself.
 */
int atomic(int proc, int (*function)(void *arg, int value), void *arg, int value);

#endif
