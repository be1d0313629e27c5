/*
 * Starting a parallel job: the rank of this process, the number of processes, and the first
 * exchange of bytes.
 *
 * There are three ways to join, tried in this order. First the PMI-1 wire protocol on the file
 * descriptor PMI_FD (MPICH's mpiexec, Slurm's srun --mpi=pmi2, our amrun). Then PMIx if PMIX_RANK
 * and PMIX_NAMESPACE are set (Open MPI's mpirun, srun --mpi=pmix); its library is opened at run
 * time. Without a launcher, the job has one process.
 *
 * Owns the connection to the launcher, one per process. Does not own any communication of the
 * program. Used by am/, splitc/lib and tools/amrun (only the lines of the wire). Not thread-safe:
 * one thread at a time. Functions return 0, or a negative errno with the reason in job_error().
 */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>

/* Most bytes of one process in job_allgather; for more bytes, programs use messages of their
 * own. */
#define JOB_GATHER_BYTES_MAX 65536u

struct job;

/*
 * Join the job. End *ret with job_finish or job_abort. Outcomes: 0; -ENOMEM; -EPROTO (the
 * launcher's answer is invalid, or the launcher has gone); -ENOENT (the launcher needs PMIx and
 * libpmix.so.2 cannot be loaded); -ENOTSUP (the launcher needs PMIx and this build has none).
 */
int job_start(struct job **ret);

/* This process's number, 0 to job_size - 1. */
int job_rank(const struct job *job);

/* Number of processes of the job, at least 1. */
int job_size(const struct job *job);

/* The way of joining, for people: "pmi", "pmix" or "alone". */
const char *job_launcher(const struct job *job);

/* A number that is equal in all processes of this job; other jobs very probably have other
 * numbers. */
unsigned long long job_number(const struct job *job);

/*
 * Each process gives len bytes (the same len everywhere, up to JOB_GATHER_BYTES_MAX); afterwards
 * ret has the bytes of all processes in rank order. Collective; waits. Outcomes: 0; -EINVAL (len);
 * -EPROTO; -ENOMEM.
 */
int job_allgather(struct job *job, const void *mine, void *ret, size_t len);

/* Wait until all processes have called this function. Collective. Outcomes: 0; -EPROTO. */
int job_barrier(struct job *job);

/*
 * The same in two steps, for callers with other work meanwhile: begin, then test until it returns 1
 * (all processes have begun). test waits up to timeout_ms (0: it does not wait; -1: no limit).
 * Outcomes: begin 0; test 0 (not yet) or 1; both -EPROTO.
 */
int job_barrier_begin(struct job *job);
int job_barrier_test(struct job *job, int timeout_ms);

/* Leave the job in order, and free job (NULL is allowed). */
void job_finish(struct job *job);

/*
 * Have the launcher end all processes of the job with this exit code. The function returns, and the
 * caller then ends itself; job stays valid. why: one line, without the rank. Outcomes: true: the
 * launcher prints why with the rank, once for all processes with the same text; false: the caller
 * must print it (another launcher than amrun, a job of one, job is NULL).
 */
bool job_abort(struct job *job, int code, const char *why);

/* The reason of this thread's last failed call. */
const char *job_error(void);

#endif
