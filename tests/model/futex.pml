/*
 * A futex of one thread, for the models of this folder: the kernel compares the word and puts the thread to sleep in
 * one step, under a lock. FUTEX_WAKE uses the same lock.
 */
bit futex_asleep;

#define FUTEX_WAKE(p)                                                                                                  \
    SYSCALL(p);                                                                                                        \
    futex_asleep = 0

#define FUTEX_WAIT(p, w, expected)                                                                                     \
    SYSCALL(p);                                                                                                        \
    atomic {                                                                                                           \
        if                                                                                                             \
        :: memory[w] == (expected) -> futex_asleep = 1; futex_asleep == 0                                              \
        :: else                                                                                                        \
        fi                                                                                                             \
    }                                                                                                                  \
    SYSCALL(p)
