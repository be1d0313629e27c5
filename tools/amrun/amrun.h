/*
 * Internals of amrun: the processes of the job, and the data that they have sent on their wires. A
 * wire is the socket on which amrun and a process exchange the lines of PMI-1.
 *
 * main.c starts the processes, waits for them and ends the job; serve.c answers the lines of the
 * processes.
 */
#ifndef TOOLS_AMRUN_H
#define TOOLS_AMRUN_H

#include <stdbool.h>
#include <sys/types.h>

#include "job/internal.h"

/* Largest number of processes of a job; each needs a file descriptor in amrun. */
#define AMRUN_PROCESSES_MAX 512

/* Largest number of pairs (key and value) of a job. It limits the memory that a job takes. */
#define AMRUN_PAIRS_MAX 65536

struct process {
    pid_t pid;                     /* 0 = not started, or reaped */
    int fd;                        /* amrun's socket of the wire; -1 = closed */
    bool waits;                    /* the process waits in a barrier */
    bool left;                     /* the process has sent finalize or abort */
    bool ended;                    /* the process has been reaped, or could not be started */
    int status;                    /* exit status, from waitpid */
    char reason[PMI_REASON_BYTES]; /* its reason for ending the job; "" = none sent */
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
    bool ending;   /* the job must end; `code` is set */
    bool reasoned; /* the reasons of the processes must still be printed */
    int code;      /* exit status of the job */
};

/* Answer the lines of process i. Closes its wire after an error or when the process closes it. */
void serve(struct run *run, int i);

/* Free the pairs of key and value. */
void serve_free(struct run *run);

/* End the job with exit status `code`, and print `format` if not NULL. Later calls do nothing. */
void run_end(struct run *run, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * End the job with the exit code and the reason that process i has sent. If a signal has killed
 * another process, that death is the reason.
 */
void run_abort(struct run *run, int i, int code);

#endif
