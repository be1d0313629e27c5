/*
 * The two halves of a stream, sending and receiving, that one way (stream.c) and both ways (both.c) are
 * made of. Nobody else includes this.
 */
#ifndef TOOLS_VIPPERF_STREAM_H
#define TOOLS_VIPPERF_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/vipperf/run.h"

/* Unreliable Delivery: how often the end mark is repeated before the other side counts as gone. */
#define STREAM_END_TRIES 100

/* Where the receiving half stands. */
struct receiver {
    uint64_t seed;     /* of what comes */
    uint64_t expected; /* next message number */
    uint64_t credited; /* told to the sender */
    bool ended;        /* the end mark has come */
};

/* Messages between two credits (and between two marks). */
uint64_t stream_quarter(const struct plan *plan);

/*
 * Have a buffer free for the next message, and descriptors for it and its mark: wait for sends to
 * complete. Outcomes: 0; -1.
 */
int stream_await_sends(struct run *run);

/* Post the next message of the stream `seed`, and a mark (RDMA Write) if one is due. Outcomes: 0; -1. */
int stream_post(struct run *run, uint64_t seed);

/* The last mark, if one is due, and the end mark; may wait for sends to complete. Outcomes: 0; -1. */
int stream_post_last(struct run *run);

/* Count and check what has arrived; it is not posted again. Outcomes: 0; -1. */
int stream_take(struct run *run, struct receiver *receiver, const struct end_arrival *arrival);

/* Post a message of no bytes that says `imm`; may wait for sends to complete. Outcomes: 0; -1. */
int stream_post_credit(struct run *run, uint32_t imm);

#endif
