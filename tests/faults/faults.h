/*
 * Tests in which the n-th allocation or system call fails, for every n. Each program is linked with
 * -Wl,--wrap for each function of faults.c. So every call of our own objects and of protobuf-c can
 * fail in a test, also under sanitizers. Calls inside libc, libev and libeconf are not counted.
 *
 * Each attempt runs in its own process: a crash is detected, and the next attempt starts anew.
 */
#ifndef TESTS_FAULTS_FAULTS_H
#define TESTS_FAULTS_FAULTS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* From now on only the n-th allocation or system call of this thread fails. n = 0: none fails. */
void fault_arm(unsigned n);
/* From now on no call fails. Returns the name of the function that failed; NULL: none failed. */
const char *fault_disarm(void);
/* True if this thread's last failure was a lack of memory, descriptors, disk space or threads. */
bool fault_of_resources(void);

/* The number of allocations of wrapped functions that are not freed yet. */
long fault_live(void);
/* The number of open descriptors of this process. */
unsigned fault_fds(void);

#define FAULT_CHECK(cond)                                                                          \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond);              \
            _Exit(1);                                                                              \
        }                                                                                          \
    } while (0)

struct fault_case {
    const char *name;
    /* Make one attempt with all checks. Returns the function that failed; NULL: none failed. */
    const char *(*attempt)(unsigned n);
};

/* Run each case for n = 1, 2, ... until no call fails any more. Returns the exit code for main. */
int fault_run(const struct fault_case *cases, unsigned count, const char *only);

#endif
