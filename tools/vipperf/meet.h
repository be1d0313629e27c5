/*
 * How two vipperf processes connect: they make a control connection (always Reliable Delivery) for
 * notes (short texts, plan.h), and one data connection per measurement.
 *
 * Owns: addresses, repeated attempts to connect, transfer of notes. Does not own: the meaning of
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
/* A server waits for the data connection for this many ms; long, because machines may be busy. */
#define MEET_DATA_MS 30000

/*
 * Connect an end whose VI is Idle and whose receive descriptors are posted. After VIP_NO_MATCH, the
 * function tries again for MEET_PATIENCE_MS. Outcomes: 0; -1 with end->why.
 */
int meet_connect(struct end *end, const char *host, const char *disc);

/* Wait for a request to connect. Outcomes: 1 and *ret; 0: none came in timeout_ms; -1 with why. */
int meet_wait(const struct end_nic *nic, const char *disc, VIP_ULONG timeout_ms,
              VIP_CONN_HANDLE *ret, char *why, size_t why_bytes);

/*
 * Idle VIs are connected but have no traffic; they show the cost of an idle VI. Both sides make the
 * same number of them, beside the measured VI. The client connects them one after the other.
 */
struct meet_idle {
    struct end *ends; /* NULL if there are no idle VIs */
    uint64_t count;   /* number of ends made so far */
};

/*
 * Make the idle VIs. For each one, the server waits for a request to `disc` and the client
 * connects. After a failure, too, call meet_idle_free. Outcomes: 0; -1 with why.
 */
int meet_idle_connect(struct meet_idle *idle, const struct end_nic *nic, uint64_t count,
                      const char *host, const char *disc, char *why, size_t why_bytes);
int meet_idle_accept(struct meet_idle *idle, const struct end_nic *nic, uint64_t count,
                     const char *disc, char *why, size_t why_bytes);
void meet_idle_free(struct meet_idle *idle);

/* Make an end for notes, and post its receive descriptors. Outcomes: 0; -1 with end->why. */
int meet_make_control(struct end *end, const struct end_nic *nic);

/* Outcomes: 0; -1 with end->why. */
int note_send(struct end *end, const struct note *note);
/* Outcomes: 1 and *ret; 0: no note within timeout_ms; -1 with end->why. */
int note_recv(struct end *end, unsigned timeout_ms, struct note *ret);

#endif
