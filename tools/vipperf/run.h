/*
 * The measurements. Each one has a client's and a server's side. They are: ping-pong (lat); stream
 * (bw, rate); streams both ways on the same VI (bw); RDMA Read (lat, bw, rate). In RDMA Read, the
 * server only waits for the end. All of them use a connected data end. They read the control end
 * only to notice that the other side has stopped.
 *
 * Beside the plan's messages, the data connection has sends of no bytes with immediate data: the
 * end mark (RUN_END), the marks of stream.c, and credits. A credit comes from a stream's server: it
 * is the number of messages that have arrived. VIA has no flow control, so the client waits for
 * credits. It never has more messages under way than the server has free receive descriptors or
 * slots.
 */
#ifndef TOOLS_VIPPERF_RUN_H
#define TOOLS_VIPPERF_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/vipperf/end.h"
#include "tools/vipperf/plan.h"

/* A message number in immediate data has 31 bits. The end mark has 32 bits, all of them 1. */
#define RUN_NUMBER_MASK 0x7FFFFFFFu
#define RUN_END         0xFFFFFFFFu

/* With Unreliable Delivery, a message counts as lost if nothing arrives for this many ms. */
#define RUN_LOST_MS 50

/* Slots (and receive descriptors) of a ping-pong: more than 2, because sends may complete late. */
#define RUN_PINGPONG_SLOTS 8

/* In streams both ways, this bit marks a credit. Its count has 30 bits, so it is never RUN_END. */
#define RUN_CREDIT      0x80000000u
#define RUN_CREDIT_MASK 0x3FFFFFFFu

/* Receive descriptors of an end that only waits for the other side's end mark. */
#define RUN_IDLE_RECVS 8

/* Unmeasured first messages of lat: they cause page faults, fill caches, and teach vipd the RTT. */
#define RUN_WARM_UP 200

/* The state of one side of a measurement. */
struct run {
    struct end *end;     /* end of the data connection */
    struct end *control; /* end of the control connection, by which the client sends its note */
    const struct plan *plan;
    struct plan_target remote;  /* the other side's in slots */
    uint64_t sent, received;    /* messages sent and received; RDMA Reads: posted, completed */
    uint64_t bytes_sent;        /* payload sent; only streams count it */
    uint64_t bytes_received;    /* payload received; a ping-pong counts it only on the server */
    uint64_t start_ns, stop_ns; /* client: start and end of the measured part */
    uint64_t measured;          /* client: number of messages in the measured part */
    uint64_t measured_bytes;
    uint64_t *sample_ns; /* client of lat: half round trips */
    uint64_t sample_max; /* number of samples that sample_ns has room for */
    uint64_t sample_count;
    bool client_done; /* server: the note that the client has finished has arrived */
    bool corrupt;     /* a byte, a length or the order was wrong; see end->why */
};

/* Set the arguments of the data end, for the client's or for the server's side of the plan. */
void run_end_args(const struct plan *plan, bool client, struct end_args *ret);
/* Returns the largest window of this side if queues have `max` descriptors; 0: none is possible. */
uint64_t run_window_max(const struct plan *plan, bool client, uint64_t max);
/* Largest number of data segments of a message, if a descriptor has at most `max` segments. */
unsigned long run_segments_max(const struct plan *plan, unsigned long max);
/* Describe the in slots of an end in *ret, for the note to the other side. */
void run_target(const struct end *end, struct plan_target *ret);
/* Post the receive descriptors; call this function before the end is connected. Outcomes: 0; -1. */
int run_post_receives(struct run *run, bool client);

/* These functions return 0; or -1 with end->why, and with run->corrupt if contents were wrong. */
int run_pingpong_client(struct run *run);
int run_pingpong_server(struct run *run);
int run_stream_client(struct run *run);
int run_stream_server(struct run *run);
int run_both_client(struct run *run);
int run_both_server(struct run *run);
void run_read_fill(const struct run *run); /* the server fills its slots before they are read */
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

/* Write the contents of message `number` of the stream `seed` into an out slot, in segments. */
void run_fill(const struct run *run, uint8_t *slot, size_t len_bytes, uint64_t seed,
              uint64_t number);

/*
 * Check length and contents of message `number` of the stream `seed`, which may be in the segments
 * of a receive descriptor or of an RDMA Read. Outcomes: 0; -1.
 */
int run_verify(struct run *run, const void *bytes, uint64_t len_bytes, uint64_t seed,
               uint64_t number);

/* Expand 31 bits of immediate data to a message number. False: the number is below `expected`. */
bool run_number(uint32_t imm, uint64_t expected, uint64_t *ret);

/* Do the plan's messages have their numbers in immediate data? */
bool run_has_numbers(const struct plan *plan);

/*
 * For the server: has the client's note arrived that the client has finished or failed? (Its end
 * mark may be lost.) Outcomes: 1: yes; 0: not yet; -1: the client is gone.
 */
int run_client_done(struct run *run);

/* Write into end->why that nothing arrived for END_PATIENCE_MS. Returns -1. */
int run_silence(struct run *run);

/*
 * The server calls this function if nothing arrived for timeout_ms. It adds timeout_ms to
 * *silent_ms, which the caller sets to 0 after each arrival. Outcomes: 1: wait on; 0: the client
 * has finished; -1: the client is gone, or *silent_ms has reached END_PATIENCE_MS.
 */
int run_client_quiet(struct run *run, unsigned timeout_ms, uint64_t *silent_ms);

/* Keep a sample of lat. If there are too many samples, keep a random choice of all of them. */
void run_keep_sample(struct run *run, uint64_t ns);

/* Post the end mark. Outcomes: 0; -1. */
int run_post_end(struct run *run);
bool run_is_end(const struct end_arrival *arrival);

#endif
