/*
 * Keys and proofs: how a called process checks that its caller belongs to the job.
 *
 * Each process draws a key. The launcher brings the key to the other processes of the job
 * (job_allgather, or the address that an MPI library exchanges). The key never crosses the network
 * that the job itself uses. A caller shows a proof made with the key of the process it calls; that
 * process shows a proof of its own in its answer. A proof is a keyed hash (SipHash-2-4, 128 bits)
 * of a claim: the caller, the called process, and the contents of their messages.
 *
 * Owns: nothing; no state. Used by splitc/lib, am and ofi. Any thread.
 */
#ifndef JOB_KEY_H
#define JOB_KEY_H

#include <stdbool.h>
#include <stddef.h>

struct job_key {
    unsigned char bytes[16];
};

struct job_proof {
    unsigned char bytes[16];
};

/* Which side proves. A proof for one role is not valid for the other: so a caller's proof cannot be
 * sent back as the answer's proof. */
enum job_role { JOB_CALLS = 1, JOB_ANSWERS = 2 };

/* Fill a key with random bytes of the kernel. Outcomes: 0; a negative errno of getrandom. */
int job_key_draw(struct job_key *ret);

/* The proof for `bytes` bytes at `claim`. Padding of a structure counts too and must be 0. */
struct job_proof job_prove(const struct job_key *key, enum job_role role, const void *claim,
                           size_t bytes);

/* Is `shown` the proof for this claim? The time does not depend on the byte in which the proofs
 * differ. */
bool job_proved(const struct job_key *key, enum job_role role, const void *claim, size_t bytes,
                const struct job_proof *shown);

#endif
