/*
 * The measurements: ping-pong (lat) and stream (bw, rate), each with the client's and the server's
 * side. They run over a connected data end; the control end is looked at only to notice that the
 * other side has given up.
 *
 * RDMA Read is the third (lat, bw and rate): the client alone acts, the server waits for the end. The
 * fourth are two streams, one each way, on the same VI (bw).
 *
 * On the data connection: messages of the plan; "end" = a send of no bytes with immediate data
 * RUN_END; from the server of a stream, credits = sends of no bytes whose immediate data counts the
 * messages that have arrived. VIA has no flow control: the client never has more messages under way
 * than the server has receives (or slots to write into) free.
 */
#ifndef TOOLS_VIPPERF_RUN_H
#define TOOLS_VIPPERF_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/vipperf/end.h"
#include "tools/vipperf/plan.h"

/* Message numbers in immediate data have 31 bits; all ones is the end. */
#define RUN_NUMBER_MASK 0x7FFFFFFFu
#define RUN_END         0xFFFFFFFFu

/* Unreliable Delivery: silence after which a message counts as lost. */
#define RUN_LOST_MS 50

/* Slots and descriptors of a ping-pong; more than two so that acknowledgements may lag behind. */
#define RUN_PINGPONG_SLOTS 8

/* Credits of streams both ways; below them the count has 30 bits, so that none looks like the end. */
#define RUN_CREDIT      0x80000000u
#define RUN_CREDIT_MASK 0x3FFFFFFFu

/* Ends that only wait for the other side's end mark have so many descriptors. */
#define RUN_IDLE_RECVS 8

/* Messages before the measured ones of lat: page faults, RTT estimate, caches. */
#define RUN_WARM_UP 200

/* Both sides' share of one measurement. */
struct run {
    struct end *end;     /* data connection */
    struct end *control; /* control connection (server only looks for the client's note) */
    const struct plan *plan;
    struct plan_target remote;  /* the other side's in slots */
    uint64_t sent, received;    /* messages; on the client of a ping-pong: pings, answers */
    uint64_t bytes_sent;        /* payload of a stream */
    uint64_t bytes_received;    /* payload; of a ping-pong on the server only */
    uint64_t start_ns, stop_ns; /* client: of the measured part */
    uint64_t measured;          /* client: messages in it */
    uint64_t measured_bytes;
    uint64_t *sample_ns; /* client of a ping-pong: half round trips */
    uint64_t sample_max; /* room in it */
    uint64_t sample_count;
    bool client_done; /* server: the client's note that it has finished was read */
    bool corrupt;     /* some byte, length or order was wrong: end->why says which */
};

/* Is the data end of the client's or the server's side of the plan, and how many slots has it? */
void run_end_args(const struct plan *plan, bool client, struct end_args *ret);
/*
 * The largest window of the plan for which a side's queues of `max` descriptors suffice; 0 if none does.
 */
uint64_t run_window_max(const struct plan *plan, bool client, uint64_t max);
/* The most segments of a message when a descriptor has at most `max`: RDMA needs one for the address. */
unsigned long run_segments_max(const struct plan *plan, unsigned long max);
/* Where the other side may write: for the note. */
void run_target(const struct end *end, struct plan_target *ret);
/* Post the receives that must be there before the connection is. Outcomes: 0; -1. */
int run_post_receives(struct run *run, bool client);

/* Outcomes of all: 0 done; -1 with end->why, and run->corrupt if contents were wrong. */
int run_pingpong_client(struct run *run);
int run_pingpong_server(struct run *run);
int run_stream_client(struct run *run);
int run_stream_server(struct run *run);
int run_both_client(struct run *run);
int run_both_server(struct run *run);
void run_read_fill(const struct run *run); /* the server, before it is read */
int run_read_client(struct run *run);
int run_read_server(struct run *run);

/* The one of these that the plan wants. */
int run_client(struct run *run);
int run_server(struct run *run);

/* ---- shared by both (run.c) ---- */

/* Is the plan fulfilled after so many messages and bytes? Looks at the clock rarely. */
bool run_enough(const struct run *run, uint64_t messages, uint64_t bytes);

/* Buffers that the messages of the plan take turns in. */
uint64_t run_slots(const struct plan *plan);

/* Fill in where message `number` goes by RDMA: the other side's in slot whose turn it is. */
void run_aim(const struct run *run, uint64_t number, struct end_message *message);

/* Write the contents of message `number` of the stream `seed` into an out slot, in its segments. */
void run_fill(const struct run *run, uint8_t *slot, size_t len_bytes, uint64_t seed,
              uint64_t number);

/*
 * Check contents and length of message `number` against the stream `seed`, in the segments in which the
 * plan's receives or reads place it. Outcomes: 0; -1.
 */
int run_verify(struct run *run, const void *bytes, uint64_t len_bytes, uint64_t seed,
               uint64_t number);

/* Message `number` that 31 bits of immediate data mean, close to `expected`; false: it lies behind. */
bool run_number(uint32_t imm, uint64_t expected, uint64_t *ret);

/* Does the plan carry message numbers in immediate data? */
bool run_has_numbers(const struct plan *plan);

/*
 * Server: has the client said on the control connection that it has finished (or given up)? Its end
 * mark on the data connection may be lost. Outcomes: 1 yes; 0 not yet; -1 the client is gone.
 */
int run_client_done(struct run *run);

/* Complain that nothing came for so long. Returns -1. */
int run_silence(struct run *run);

/*
 * Server: nothing came for timeout_ms, which *silent_ms adds up; the caller sets it to 0 when something has come.
 * Outcomes: 1 wait on; 0 the client has finished; -1 it is gone, or END_PATIENCE_MS are over.
 */
int run_client_quiet(struct run *run, unsigned timeout_ms, uint64_t *silent_ms);

/* Keep the sample of lat; of too many a random choice, so that all parts of the run count. */
void run_keep_sample(struct run *run, uint64_t ns);

/* Post the end mark. Outcomes: 0; -1. */
int run_post_end(struct run *run);
bool run_is_end(const struct end_arrival *arrival);

#endif
