/*
 * How two vipperf find each other and talk: a control connection (always Reliable Delivery) on which
 * notes travel, and one data connection per measurement.
 *
 * Owns: addresses, connecting with patience, notes over an end. Does not own: what the notes mean.
 */
#ifndef TOOLS_VIPPERF_MEET_H
#define TOOLS_VIPPERF_MEET_H

#include "tools/vipperf/end.h"
#include "tools/vipperf/plan.h"

/* Discriminator of every vipperf serve. */
#define MEET_DISCRIMINATOR "vipperf"

/* Discriminators fit in here. */
#define MEET_DISC_BYTES 32

/* How long a client asks again after it has heard for the first time that nobody waits. */
#define MEET_PATIENCE_MS 5000
/* How long a server waits for the data connection: of a client that is there, on a machine that may be busy. */
#define MEET_DATA_MS 30000

/*
 * Connect an Idle end, receives posted, to HOST and discriminator. VIP_NO_MATCH is tried again for
 * MEET_PATIENCE_MS. Outcomes: 0; -1 with end->why.
 */
int meet_connect(struct end *end, const char *host, const char *disc);

/*
 * Wait for a connection request. Outcomes: 1 and *ret; 0 nobody within timeout_ms; -1 with why.
 */
int meet_wait(const struct end_nic *nic, const char *disc, VIP_ULONG timeout_ms,
              VIP_CONN_HANDLE *ret, char *why, size_t why_bytes);

/* Build an end that carries notes, receives posted. Outcomes: 0; -1 with end->why. */
/*
 * Connected VIs beside the measured one, without traffic: what each of them costs the measured one is
 * the question. Both sides make the same number; the client connects one after the other.
 */
struct meet_idle {
    struct end *ends; /* NULL if there are none */
    uint64_t count;   /* made so far; meet_idle_free is legal after a failure */
};

/* Outcomes: 0; -1 with why. The server waits for each on disc, the client connects to it there. */
int meet_idle_connect(struct meet_idle *idle, const struct end_nic *nic, uint64_t count,
                      const char *host, const char *disc, char *why, size_t why_bytes);
int meet_idle_accept(struct meet_idle *idle, const struct end_nic *nic, uint64_t count,
                     const char *disc, char *why, size_t why_bytes);
void meet_idle_free(struct meet_idle *idle);

int meet_make_control(struct end *end, const struct end_nic *nic);

/* Outcomes: 0; -1 with end->why. */
int note_send(struct end *end, const struct note *note);
/* Outcomes: 1 and *ret; 0 nothing within timeout_ms; -1 with end->why. */
int note_recv(struct end *end, unsigned timeout_ms, struct note *ret);

#endif
