/*
 * The n-th allocation or system call fails, for every n. Linked with -Wl,--wrap for each function of
 * faults.c, so that what our own objects (and protobuf-c's) call can be made to fail, under sanitizers
 * too. Calls that libc, libev and libeconf make inside themselves are not counted.
 *
 * Each attempt runs in a process of its own: a crash is seen, and nothing is left for the next one.
 */
#ifndef TESTS_FAULTS_FAULTS_H
#define TESTS_FAULTS_FAULTS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* From here on in this thread, the n-th (from 1) allocation or call fails; the others do not. */
void fault_arm(unsigned n);
/* No more. Returns the name of what has failed, or NULL: there were fewer than n. */
const char *fault_disarm(void);
/* Was the last failure of this thread one of resources: memory, descriptors, room, threads? */
bool fault_of_resources(void);

/* Allocations made through the wrapped functions and not freed. */
long fault_live(void);
/* Open descriptors of this process. */
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
    /* One attempt. Returns the name of what has failed (all was checked), or NULL if nothing did. */
    const char *(*attempt)(unsigned n);
};

/* Run each case for n = 1, 2, ... until nothing fails any more. The exit code for main. */
int fault_run(const struct fault_case *cases, unsigned count, const char *only);

#endif
