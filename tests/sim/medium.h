/*
 * The medium of the simulator of two engines (sim.h): links that lose, repeat, delay and reorder packets, and what is
 * on its way. A seed decides which packets. Time is a parameter, so what happens depends only on the calls.
 *
 * Owns: what is under way, the order of arrivals, the faults of the links and the random numbers that decide them.
 * Does not own: time, engines, connections, the transcript. sim.c calls it; it calls nothing of sim.c.
 */
#ifndef TESTS_SIM_MEDIUM_H
#define TESTS_SIM_MEDIUM_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/engine/engine.h"

/* Packets that medium_drop may name before they are sent: more than any scenario names. */
#define MEDIUM_DROPS_MAX 16

/* Room for the text of any packet: its head and four frames. */
#define MEDIUM_TEXT_BYTES 400

/* Properties and faults of a link, for both directions. Shares are in parts per million. */
struct medium_link {
    uint64_t delay_ns;    /* from end to end */
    uint64_t jitter_ns;   /* largest additional delay, which keeps the order */
    uint64_t reorder_ns;  /* extra delay of a packet that is overtaken */
    uint64_t bytes_per_s; /* 0: unlimited */
    uint64_t queue_bytes; /* a packet that finds more in the queue is dropped; 0: unlimited */
    uint32_t loss, dup, reorder;
    bool dead; /* all packets are lost */
};

/* A packet that a host sends. */
struct medium_packet {
    unsigned from, to;    /* hosts */
    uint64_t conn_id;     /* the receiver's id of the connection */
    uint64_t number;      /* the packet number, by which medium_drop finds it */
    const uint8_t *bytes; /* the medium copies them */
    uint32_t len;
};

/* What the medium does with a packet. */
enum medium_fate {
    MEDIUM_SENT,
    MEDIUM_LATE, /* packets behind it may overtake */
    MEDIUM_LOST,
    MEDIUM_QUEUE_FULL, /* lost, because too many bytes waited for the transmitter of its host */
};

enum medium_kind {
    MEDIUM_PACKET,
    MEDIUM_CLOSE, /* the peer has ended the connection; sent without loss */
};

/* What arrives at a host. */
struct medium_arrival {
    enum medium_kind kind;
    unsigned host;
    uint64_t conn_id;
    struct eng_close close; /* of MEDIUM_CLOSE */
    uint8_t *bytes;         /* of MEDIUM_PACKET, from malloc; NULL otherwise */
    uint32_t len;
};

struct medium;

/* A medium between this number of hosts. */
struct medium *medium_new(const struct medium_link *link, unsigned hosts, uint64_t seed);
/* Also frees what is under way. */
void medium_free(struct medium *medium);
struct medium_link *medium_link(struct medium *medium); /* may be changed at any time */

/* Send a packet. It may arrive never, once or twice. Returns its fate. */
enum medium_fate medium_send(struct medium *medium, const struct medium_packet *packet,
                             uint64_t now_ns);
/* Send the end of a connection to the other host. It arrives after the link's delay, without loss. */
void medium_close(struct medium *medium, unsigned to, uint64_t conn_id,
                  const struct eng_close *close, uint64_t now_ns);
/* Lose exactly this packet of a host, once. False: MEDIUM_DROPS_MAX packets are named already. */
bool medium_drop(struct medium *medium, unsigned host, uint64_t packet_number);

/* Time of the next arrival; ENG_NEVER if nothing is under way. */
uint64_t medium_next_ns(const struct medium *medium);
/* Take the earliest arrival up to now_ns. The caller frees its bytes. False: nothing has arrived. */
bool medium_take(struct medium *medium, uint64_t now_ns, struct medium_arrival *ret);

/* Number of packets lost so far. */
uint64_t medium_lost(const struct medium *medium);

/* Text of a packet and its fate, for the transcript. */
void medium_describe(const struct vip_packet *packet, enum medium_fate fate,
                     char ret_text[MEDIUM_TEXT_BYTES]);

#endif
