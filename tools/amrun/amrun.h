/*
 * Inside amrun: the processes of the job and what they have said on the wire.
 *
 * main.c starts them, waits for them and ends the job; serve.c answers their lines.
 */
#ifndef TOOLS_AMRUN_H
#define TOOLS_AMRUN_H

#include <stdbool.h>
#include <sys/types.h>

#include "job/internal.h"

/* Processes that one amrun starts at most; each takes a descriptor here. */
#define AMRUN_PROCESSES_MAX 512

/* Pairs (key and value) that one job may hand in, so that a program in a loop cannot eat memory. */
#define AMRUN_PAIRS_MAX 65536

struct process {
    pid_t pid;                     /* 0 once it is known to have ended */
    int fd;                        /* our end of its wire; -1: closed */
    bool waits;                    /* it is in a barrier */
    bool left;                     /* it has taken leave (finalize), or ended with 0 */
    bool ended;                    /* waitpid has told its end */
    int status;                    /* what waitpid told */
    char reason[PMI_REASON_BYTES]; /* why it ends the job, as it said; "": it did not */
    struct pmi_input input;
};

struct pair {
    struct pair *next;
    char key[PMI_KEY_MAX];
    char value[PMI_VALUE_MAX];
};

struct run {
    int count;
    struct process process[AMRUN_PROCESSES_MAX];
    char name[64]; /* kvsname */
    struct pair *bucket[1024];
    unsigned pairs;
    bool ending;   /* the job is to end, for the reason that was printed */
    bool reasoned; /* or for those of the processes, which are still to be printed */
    int code;      /* with this exit status */
};

/* Answer what process i has sent. Its wire is closed here when it has ended or talks nonsense. */
void serve(struct run *run, int i);

/* Free what was handed in. */
void serve_free(struct run *run);

/* Have the job end with this status, for this reason, printed once. */
void run_end(struct run *run, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Process i ends the job with this exit code, for the reason in its record. If another one was killed by a
 * signal, that is the reason.
 */
void run_abort(struct run *run, int i, int code);

#endif
