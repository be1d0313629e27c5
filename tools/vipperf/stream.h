/*
 * The two halves of a stream, sending and receiving. stream.c (one way) and both.c (both ways) use
 * these halves; only these two files include this header.
 */
#ifndef TOOLS_VIPPERF_STREAM_H
#define TOOLS_VIPPERF_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/vipperf/run.h"

/* With Unreliable Delivery, the other side counts as gone after this many unanswered end marks. */
#define STREAM_END_TRIES 100

/* The state of the receiving half. */
struct receiver {
    uint64_t seed;     /* seed of the arriving messages */
    uint64_t expected; /* number of the next message */
    uint64_t credited; /* number in the last credit to the sender */
    bool ended;        /* the end mark has arrived */
};

/* Number of messages between two credits (and between two marks). */
uint64_t stream_quarter(const struct plan *plan);

/*
 * Wait until earlier sends have freed a buffer for the next message, and descriptors for this
 * message and its mark. Outcomes: 0; -1.
 */
int stream_await_sends(struct run *run);

/* Post the next message of the stream `seed`, and a mark if one is due. Outcomes: 0; -1. */
int stream_post(struct run *run, uint64_t seed);

/* Post the last mark if one is due, and the end mark; may wait for a send. Outcomes: 0; -1. */
int stream_post_last(struct run *run);

/* Count and check an arrival; do not post its receive descriptor again. Outcomes: 0; -1. */
int stream_take(struct run *run, struct receiver *receiver, const struct end_arrival *arrival);

/* Post a message of no bytes with immediate data `imm`; may wait for a send. Outcomes: 0; -1. */
int stream_post_credit(struct run *run, uint32_t imm);

#endif
