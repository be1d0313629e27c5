/*
 * How two vipperf processes connect: a control connection (always Reliable Delivery) for notes
 * (short texts, plan.h), and one data connection per measurement.
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

/* Enough bytes for any discriminator of vipperf. */
#define MEET_DISC_BYTES 32

/* After the first answer "no server waits", the client repeats its request for this many ms. */
#define MEET_PATIENCE_MS 5000
/* Time, in ms, for which a server waits for the data connection; long for busy machines. */
#define MEET_DATA_MS 30000

/*
 * Connect an end to a host and discriminator; its VI is Idle, its receives are posted. After
 * VIP_NO_MATCH try again for MEET_PATIENCE_MS. Outcomes: 0; -1 with end->why.
 */
int meet_connect(struct end *end, const char *host, const char *disc);

/* Wait for a connection request. Outcomes: 1 and *ret; 0: none within timeout_ms; -1 with why. */
int meet_wait(const struct end_nic *nic, const char *disc, VIP_ULONG timeout_ms,
              VIP_CONN_HANDLE *ret, char *why, size_t why_bytes);

/*
 * Idle VIs: connected, without traffic, in addition to the measured VI; they show the cost of an
 * idle VI. Both sides make the same number; the client connects one after the other.
 */
struct meet_idle {
    struct end *ends; /* NULL if there are none */
    uint64_t count;   /* number made so far; after a failure, too, call meet_idle_free */
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
