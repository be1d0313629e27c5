/*
 * Starting a parallel job: the rank of this process, the number of processes, and the first
 * exchange of bytes.
 *
 * There are three ways to join. If PMI_FD is set: the PMI-1 wire protocol on this file descriptor
 * (MPICH's mpiexec, Slurm's srun --mpi=pmi2, our amrun). Otherwise, if PMIX_RANK and PMIX_NAMESPACE
 * are set: PMIx (Open MPI's mpirun, srun --mpi=pmix), whose library is opened at run time.
 * Otherwise the job has one process.
 *
 * Owns the process's connection to the launcher. Does not own any communication of the program.
 * Used by am/ and splitc/lib. Only one thread at a time may call these functions. Functions return
 * 0, or a negative errno with the reason in job_error().
 */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>

/* Largest number of bytes that a process may give to job_allgather. */
#define JOB_GATHER_BYTES_MAX 65536u

struct job;

/*
 * Join the job. The caller later calls job_finish or job_abort. Outcomes: 0; -ENOMEM; -EPROTO (the
 * launcher's answer is invalid, or the launcher has gone); -ENOENT (the launcher needs PMIx and
 * libpmix.so.2 cannot be loaded); -ENOTSUP (the launcher needs PMIx and this build has none).
 */
int job_start(struct job **ret);

/* This process's number, 0 to job_size - 1. */
int job_rank(const struct job *job);

/* Number of processes of the job, at least 1. */
int job_size(const struct job *job);

/* The way by which this process has joined, as text: "pmi", "pmix" or "alone". */
const char *job_launcher(const struct job *job);

/* A number that is equal in all processes of this job; other jobs very probably have other
 * numbers. */
unsigned long long job_number(const struct job *job);

/*
 * Each process gives len bytes (all the same len, up to JOB_GATHER_BYTES_MAX). Afterwards ret has
 * the bytes of all processes in rank order. Collective; waits. Outcomes: 0; -EINVAL (len is too
 * large); -EPROTO.
 */
int job_allgather(struct job *job, const void *mine, void *ret, size_t len);

/* Wait until all processes have called this function. Collective. Outcomes: 0; -EPROTO. */
int job_barrier(struct job *job);

/*
 * job_barrier in two steps, for callers with other work meanwhile: begin, then test until test
 * returns 1 (all processes have begun). test waits up to timeout_ms (0: no wait; -1: no limit).
 * Outcomes of begin: 0; -EPROTO. Outcomes of test: 0 (not yet); 1; -EPROTO.
 */
int job_barrier_begin(struct job *job);
int job_barrier_test(struct job *job, int timeout_ms);

/* Leave the job at its normal end, and free `job` (which may be NULL). */
void job_finish(struct job *job);

/*
 * Ask the launcher to end all processes of the job with this exit code. The caller must end itself
 * after that; job stays valid. why: one line, without the rank. Outcomes: true: the launcher is
 * amrun and prints `why` with the rank, once for all processes with the same text. false: the
 * caller must print it (another launcher, a job of one process, or job is NULL).
 */
bool job_abort(struct job *job, int code, const char *why);

/* The reason of this thread's last failed call. */
const char *job_error(void);

#endif
