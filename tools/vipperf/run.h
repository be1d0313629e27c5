/*
 * The measurements, each with a client's and a server's side: ping-pong (lat); stream (bw, rate);
 * RDMA Read (lat, bw, rate), in which the server only waits for the end; and two streams, one in
 * each direction, on the same VI (bw). All use a connected data end. They read the control end only
 * to notice that the other side has stopped.
 *
 * The data connection has three kinds of messages: those of the plan; the end mark, a send of no
 * bytes with immediate data RUN_END; and credits. A credit is a send of no bytes from a stream's
 * server; its immediate data is the number of messages that have arrived. VIA has no flow control,
 * so the client waits for credits: it never has more messages under way than the server has free
 * receives or slots.
 */
#ifndef TOOLS_VIPPERF_RUN_H
#define TOOLS_VIPPERF_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/vipperf/end.h"
#include "tools/vipperf/plan.h"

/* Message numbers in immediate data have 31 bits; 32 ones mark the end. */
#define RUN_NUMBER_MASK 0x7FFFFFFFu
#define RUN_END         0xFFFFFFFFu

/* Unreliable Delivery: milliseconds without an arrival after which a message counts as lost. */
#define RUN_LOST_MS 50

/* Slots and descriptors of a ping-pong; more than two, because completions of sends may be late. */
#define RUN_PINGPONG_SLOTS 8

/* Marks a credit in streams both ways. A credit's count has 30 bits, so it is never RUN_END. */
#define RUN_CREDIT      0x80000000u
#define RUN_CREDIT_MASK 0x3FFFFFFFu

/* Receive descriptors of an end that only waits for the other side's end mark. */
#define RUN_IDLE_RECVS 8

/* Messages of lat before the measured messages: page faults, vipd's RTT estimate, caches. */
#define RUN_WARM_UP 200

/* The state of one side of a measurement. */
struct run {
    struct end *end;     /* data connection */
    struct end *control; /* control connection (the server checks it for the client's note) */
    const struct plan *plan;
    struct plan_target remote;  /* the other side's in slots */
    uint64_t sent, received;    /* messages; for the client of a ping-pong: pings and answers */
    uint64_t bytes_sent;        /* payload of a stream */
    uint64_t bytes_received;    /* payload; a ping-pong counts it only on the server */
    uint64_t start_ns, stop_ns; /* client: of the measured part */
    uint64_t measured;          /* client: messages of the measured part */
    uint64_t measured_bytes;
    uint64_t *sample_ns; /* client of a ping-pong: half round trips */
    uint64_t sample_max; /* samples that fit */
    uint64_t sample_count;
    bool client_done; /* server: has read the client's note that it has finished */
    bool corrupt;     /* a byte, a length or the order was wrong; see end->why */
};

/* The arguments of the data end of the client's or the server's side of the plan. */
void run_end_args(const struct plan *plan, bool client, struct end_args *ret);
/* The largest window of the plan on this side with queues of `max` descriptors; 0 = none. */
uint64_t run_window_max(const struct plan *plan, bool client, uint64_t max);
/* Largest number of data segments of a message, if a descriptor has at most `max` segments. */
unsigned long run_segments_max(const struct plan *plan, unsigned long max);
/* Describe the in slots of an end, for the note to the other side. */
void run_target(const struct end *end, struct plan_target *ret);
/* Post the receives; call this before the connection is made. Outcomes: 0; -1. */
int run_post_receives(struct run *run, bool client);

/* Outcomes of all these: 0: done; -1 with end->why, and run->corrupt if contents were wrong. */
int run_pingpong_client(struct run *run);
int run_pingpong_server(struct run *run);
int run_stream_client(struct run *run);
int run_stream_server(struct run *run);
int run_both_client(struct run *run);
int run_both_server(struct run *run);
void run_read_fill(const struct run *run); /* server: fill its slots before they are read */
int run_read_client(struct run *run);
int run_read_server(struct run *run);

/* Run the measurement that the plan selects. */
int run_client(struct run *run);
int run_server(struct run *run);

/* ---- shared by all measurements (run.c) ---- */

/* Is the plan done after this many messages and bytes? Reads the clock rarely. */
bool run_enough(const struct run *run, uint64_t messages, uint64_t bytes);

/* Number of buffers that the messages of the plan use in turn. */
uint64_t run_slots(const struct plan *plan);

/* Set the remote address of message `number` to the other side's in slot for that message. */
void run_aim(const struct run *run, uint64_t number, struct end_message *message);

/* Write the contents of message `number` of the stream `seed` into an out slot, in its segments. */
void run_fill(const struct run *run, uint8_t *slot, size_t len_bytes, uint64_t seed,
              uint64_t number);

/*
 * Check contents and length of message `number` against the stream `seed`, in the segments in which
 * the plan's receives or reads place it. Outcomes: 0; -1.
 */
int run_verify(struct run *run, const void *bytes, uint64_t len_bytes, uint64_t seed,
               uint64_t number);

/* Expand 31 bits of immediate data to a message number; false: it is below `expected`. */
bool run_number(uint32_t imm, uint64_t expected, uint64_t *ret);

/* Do the plan's messages have their numbers in immediate data? */
bool run_has_numbers(const struct plan *plan);

/*
 * Server: has the client sent its note that it has finished or failed? (Its end mark on the data
 * connection may be lost.) Outcomes: 1: yes; 0: not yet; -1: the client is gone.
 */
int run_client_done(struct run *run);

/* Write end->why: nothing arrived for END_PATIENCE_MS. Returns -1. */
int run_silence(struct run *run);

/*
 * Server: call this if nothing arrived for timeout_ms. Adds this time to *silent_ms, which the
 * caller sets to 0 after an arrival. Outcomes: 1: continue to wait; 0: the client has finished; -1:
 * the client is gone, or END_PATIENCE_MS have passed.
 */
int run_client_quiet(struct run *run, unsigned timeout_ms, uint64_t *silent_ms);

/* Keep a sample of lat. If there are too many, keep a random choice from all parts of the run. */
void run_keep_sample(struct run *run, uint64_t ns);

/* Post the end mark. Outcomes: 0; -1. */
int run_post_end(struct run *run);
bool run_is_end(const struct end_arrival *arrival);

#endif
