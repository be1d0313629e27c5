/*
 * Starting a parallel job: which process am I of how many, and how do we exchange the first bytes.
 *
 * Three ways in, tried in this order: the PMI-1 wire protocol on the descriptor PMI_FD (MPICH's mpiexec,
 * Slurm's srun --mpi=pmi2, our amrun), PMIx when PMIX_RANK and PMIX_NAMESPACE are set (Open MPI's
 * mpirun, srun --mpi=pmix; the library is opened at run time), and without a launcher a job of one.
 *
 * Owns the connection to the launcher, one per process. Does not own any communication of the
 * program. Used by am/ and tools/amrun (the wire's words only). Not thread-safe: one thread at a time.
 * Functions return 0, or a negative errno with the reason in job_error().
 */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of one process that job_allgather moves at most; more is for the program's own messages. */
#define JOB_GATHER_BYTES_MAX 65536u

struct job;

/*
 * Join the job. *ret is to be ended with job_finish or job_abort. Outcomes: 0; -ENOMEM; -EPROTO
 * (the launcher answers nonsense or has gone); -ENOENT (PMIx is asked for and libpmix.so.2 cannot be
 * loaded).
 */
int job_start(struct job **ret);

/* This process's number, 0 to job_size - 1. */
int job_rank(const struct job *job);

/* Processes of the job, at least 1. */
int job_size(const struct job *job);

/* Which way in it was, for people: "pmi", "pmix" or "alone". */
const char *job_launcher(const struct job *job);

/* A number that all processes of this job agree on and other jobs hardly have. */
unsigned long long job_number(const struct job *job);

/*
 * Everybody hands in len bytes (the same len everywhere, up to JOB_GATHER_BYTES_MAX) and has those of
 * all in rank order at ret afterwards. Collective; waits. Outcomes: 0; -EINVAL (len); -EPROTO;
 * -ENOMEM.
 */
int job_allgather(struct job *job, const void *mine, void *ret, size_t len);

/* Wait until all processes have called it. Collective. Outcomes: 0; -EPROTO. */
int job_barrier(struct job *job);

/*
 * The same in two steps, for who has other work meanwhile: begin, then test until it says 1 (all have
 * begun). test waits up to timeout_ms (0: not at all). Outcomes: begin 0; test 0 (not yet) or 1; both
 * -EPROTO.
 */
int job_barrier_begin(struct job *job);
int job_barrier_test(struct job *job, int timeout_ms);

/* Take leave of the launcher in good order, and free job (NULL is fine). */
void job_finish(struct job *job);

/*
 * Have the launcher end all processes of the job with this exit code. Returns (the caller then ends
 * itself); job stays valid. why: one line, without the rank. Outcomes: true: the launcher prints why with
 * the rank, once for all processes that say the same; false: it does not (another launcher than amrun, a
 * job of one, job is NULL), so the caller does.
 */
bool job_abort(struct job *job, int code, const char *why);

/* Why the last call that failed did so. */
const char *job_error(void);

#endif
