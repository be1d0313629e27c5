/*
 * Only for job/ and amrun: the interface of the ways to join a job (pmi.c, pmix.c), and functions
 * for the lines of the PMI-1 wire protocol. amrun uses only these functions.
 */
#ifndef JOB_INTERNAL_H
#define JOB_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Largest size of a line of PMI-1, in bytes, with its newline and zero. A line has room for a value
 * of PMI_VALUE_MAX bytes and its other words. */
#define PMI_LINE_BYTES 2048

/* Limits, in bytes, in amrun's answer to get_maxes. MPICH's process manager has the same limits. */
#define PMI_NAME_MAX  256
#define PMI_KEY_MAX   64
#define PMI_VALUE_MAX 1024

/*
 * A word that only amrun has in its answer to init. The word means: the line "abort" may contain a
 * reason (value=...), and amrun prints each reason once.
 */
#define PMI_SAYS_REASONS "reasons"

/* Largest size of the reason of an abort, in bytes with its zero; a longer reason is truncated. */
#define PMI_REASON_BYTES 512

/* One way to join a job. put, fence_begin and get return 0 or -errno. A value has no blanks. */
struct job_way {
    const char *name;
    int (*put)(void *at, const char *key, const char *value);
    /* Make the values of put visible. Wait for all processes as job_barrier_begin and _test. */
    int (*fence_begin)(void *at);
    int (*fence_test)(void *at, int timeout_ms);
    /* Get the value that process `rank` has put under `key`. room: bytes of `value`. */
    int (*get)(void *at, int rank, const char *key, char *value, size_t room);
    bool (*abort)(void *at, int code, const char *why); /* true: the launcher prints why */
    void (*finish)(void *at);                           /* frees at */
};

/* The result of joining a job. */
struct job_place {
    int rank, size;
    char name[PMI_NAME_MAX]; /* the job's name, the same in all processes */
    size_t value_max;        /* largest number of characters of one value */
    const struct job_way *way;
    void *at;
};

/* Join the job by PMI-1 on fd, or by PMIx. Outcomes: 0; a negative errno. */
int job_pmi_join(int fd, struct job_place *ret);
int job_pmix_join(struct job_place *ret);

/* Set the text that job_error returns. Returns `code`. */
int job_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- lines of the PMI-1 wire: "cmd=put kvsname=a key=b value=c\n" ---------------------------- */

/* Received bytes that are not yet a whole line. */
struct pmi_input {
    char bytes[PMI_LINE_BYTES];
    size_t used;
};

/*
 * Move the next whole line of the input, without its newline, to `line` (PMI_LINE_BYTES). Outcomes:
 * 1: done; 0: there is no whole line yet; -EPROTO: the line is too long.
 */
int pmi_next_line(struct pmi_input *input, char *line);

/* Read the bytes that have arrived into the input. Outcomes: 1: bytes were read; 0: no bytes yet;
 * -ECONNRESET: the connection has ended. */
int pmi_receive(struct pmi_input *input, int fd);

/* Copy the value of key in a line to ret. false: no such key, or no room. A value ends at a blank,
 * but the value of the key "value" ends with the line. */
bool pmi_word(const char *line, const char *key, char *ret, size_t room);

/* Send a formatted line. Outcomes: 0; -ECONNRESET; -EMSGSIZE (the line is too long). */
int pmi_send(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Ask amrun to end the job. Sends the first line of the reason `why`. Outcomes: as pmi_send. */
int pmi_send_abort(int fd, int code, const char *why);

#endif
