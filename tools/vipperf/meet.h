/*
 * How two vipperf processes connect: a control connection (always Reliable Delivery) for notes, and
 * one data connection per measurement.
 *
 * Owns: addresses, repeated attempts to connect, notes over an end. Does not own: the meaning of
 * notes.
 */
#ifndef TOOLS_VIPPERF_MEET_H
#define TOOLS_VIPPERF_MEET_H

#include "tools/vipperf/end.h"
#include "tools/vipperf/plan.h"

/* Discriminator of every vipperf serve. */
#define MEET_DISCRIMINATOR "vipperf"

/* Bytes that hold any of our discriminators. */
#define MEET_DISC_BYTES 32

/* After the first answer "no server waits", the client repeats its request for this many ms. */
#define MEET_PATIENCE_MS 5000
/*
 * Milliseconds that a server waits for the data connection; long, because the machine may be busy.
 */
#define MEET_DATA_MS 30000

/*
 * Connect an Idle end with its receives posted, to HOST and discriminator. Repeats after
 * VIP_NO_MATCH for MEET_PATIENCE_MS. Outcomes: 0; -1 with end->why.
 */
int meet_connect(struct end *end, const char *host, const char *disc);

/* Wait for a connection request. Outcomes: 1 and *ret; 0: none within timeout_ms; -1 with why. */
int meet_wait(const struct end_nic *nic, const char *disc, VIP_ULONG timeout_ms,
              VIP_CONN_HANDLE *ret, char *why, size_t why_bytes);

/*
 * Connected VIs without traffic, beside the measured VI, to measure the cost of each idle VI. Both
 * sides make the same number; the client connects one after the other.
 */
struct meet_idle {
    struct end *ends; /* NULL if there are none */
    uint64_t count;   /* made so far; meet_idle_free is legal after a failure */
};

/*
 * Make the idle VIs. For each, the server waits on disc and the client connects. Outcomes: 0; -1
 * with why.
 */
int meet_idle_connect(struct meet_idle *idle, const struct end_nic *nic, uint64_t count,
                      const char *host, const char *disc, char *why, size_t why_bytes);
int meet_idle_accept(struct meet_idle *idle, const struct end_nic *nic, uint64_t count,
                     const char *disc, char *why, size_t why_bytes);
void meet_idle_free(struct meet_idle *idle);

/* Make an end for notes, with its receives posted. Outcomes: 0; -1 with end->why. */
int meet_make_control(struct end *end, const struct end_nic *nic);

/* Outcomes: 0; -1 with end->why. */
int note_send(struct end *end, const struct note *note);
/* Outcomes: 1 and *ret; 0: no note within timeout_ms; -1 with end->why. */
int note_recv(struct end *end, unsigned timeout_ms, struct note *ret);

#endif
