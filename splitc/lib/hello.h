/*
 * The data that the processes of a job exchange to connect. Each process sends a card through the
 * launcher. A connection request carries a struct rt_hello, and its answer a struct job_proof.
 *
 * Used by hello.c and accept.c, and by tests that send requests without the right proof.
 */
#ifndef SPLITC_LIB_HELLO_H
#define SPLITC_LIB_HELLO_H

#include <stdint.h>

#include "job/key.h"

/* The address at which a process listens, and the key that its callers must know. */
struct rt_card {
    struct job_key key;
    uint64_t number; /* the discriminator */
    uint16_t host_len;
    unsigned char host[30];
};

/* Private data of a connection request. Those of the answer are only a struct job_proof. */
struct rt_hello {
    int32_t rank; /* rank of the process that requests the connection */
    int32_t bulk; /* 1: the connection is for RDMA; 0: for messages */
    struct job_proof proof;
};

/* The bytes that struct job_proof proves, with the key of the called process. */
struct rt_claim {
    uint64_t caller_number, called_number;
    int32_t caller, called;
    int32_t bulk;
    int32_t zero;
};

_Static_assert(sizeof(struct rt_card) == 56, "no padding");
_Static_assert(sizeof(struct rt_claim) == 32, "no padding");

/* Return the claim for a request of `caller` to `called`. cards: of all processes, by rank. */
static inline struct rt_claim rt_claim_of(const struct rt_card *cards, int caller, int called,
                                          int bulk)
{
    return (struct rt_claim){.caller_number = cards[caller].number,
                             .called_number = cards[called].number,
                             .caller = caller,
                             .called = called,
                             .bulk = bulk};
}

#endif
