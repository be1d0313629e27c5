/*
 * Keys and proofs: how a called process checks that its caller belongs to the job.
 *
 * Each process draws a random key. The launcher brings the key to the other processes of the job
 * (by job_allgather, or in the address that an MPI library exchanges), so the key never crosses
 * VIA. A caller sends a proof, made with the key of the called process. The answer has a second
 * proof, made with the same key. A proof is a keyed hash (SipHash-2-4, 128 bits) of a claim: the
 * caller, the called process, and the contents of their messages.
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

/* The side that makes a proof: the caller, or the called process. The hash includes the role, so a
 * caller's proof cannot be sent back as the proof of the answer. */
enum job_role { JOB_CALLS = 1, JOB_ANSWERS = 2 };

/* Fill a key with random bytes of the kernel. Outcomes: 0; a negative errno of getrandom. */
int job_key_draw(struct job_key *ret);

/* The proof for `bytes` bytes at `claim`. If the claim is a struct, its padding must be 0. */
struct job_proof job_prove(const struct job_key *key, enum job_role role, const void *claim,
                           size_t bytes);

/* Is `shown` the proof for this claim? The comparison always takes the same time, so the time tells
 * a caller nothing about the right proof. */
bool job_proved(const struct job_key *key, enum job_role role, const void *claim, size_t bytes,
                const struct job_proof *shown);

#endif
