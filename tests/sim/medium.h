/*
 * The medium of the simulator of two engines (sim.h): links that lose, repeat, delay and reorder
 * packets, and the packets under way. A seed chooses these packets. Time is a parameter, so a run
 * depends only on the calls. Owns: packets under way, the order of arrivals, the faults of the
 * links and the random numbers that decide them. Does not own: time, engines, connections, the
 * transcript. sim.c calls it; it calls nothing of sim.c.
 */
#ifndef TESTS_SIM_MEDIUM_H
#define TESTS_SIM_MEDIUM_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/engine/engine.h"

/* Limit of packets that medium_drop has named and that are not sent yet. No test reaches it. */
#define MEDIUM_DROPS_MAX 16

/* Room for the text of any packet: its head and four frames. */
#define MEDIUM_TEXT_BYTES 400

/* Properties and faults of a link, for both directions. Shares are in parts per million. */
struct medium_link {
    uint64_t delay_ns;    /* time from one host to the other */
    uint64_t jitter_ns;   /* largest additional delay of packets that stay in order */
    uint64_t reorder_ns;  /* extra delay of a packet that later packets overtake */
    uint64_t bytes_per_s; /* 0: unlimited */
    uint64_t queue_bytes; /* size of the queue; a packet that does not fit is lost; 0: unlimited */
    uint32_t loss, dup, reorder;
    bool dead; /* all packets are lost */
};

/* A packet that a host sends. */
struct medium_packet {
    unsigned from, to;    /* numbers of the two hosts */
    uint64_t conn_id;     /* the receiver's id of the connection */
    uint64_t number;      /* the packet number; medium_drop refers to it */
    const uint8_t *bytes; /* the medium makes a copy */
    uint32_t len;
};

/* What the medium does with a packet. */
enum medium_fate {
    MEDIUM_SENT,
    MEDIUM_LATE, /* later packets may overtake it */
    MEDIUM_LOST,
    MEDIUM_QUEUE_FULL, /* lost, because the sender's queue was full */
};

enum medium_kind {
    MEDIUM_PACKET,
    MEDIUM_CLOSE, /* the peer has ended the connection; this report is never lost */
};

/* What arrives at a host. */
struct medium_arrival {
    enum medium_kind kind;
    unsigned host;
    uint64_t conn_id;
    struct eng_close close; /* only for MEDIUM_CLOSE */
    uint8_t *bytes;         /* only for MEDIUM_PACKET, from malloc; else NULL */
    uint32_t len;
};

struct medium;

/* Make a medium that connects `hosts` hosts. */
struct medium *medium_new(const struct medium_link *link, unsigned hosts, uint64_t seed);
/* Also frees all packets that are under way. */
void medium_free(struct medium *medium);
struct medium_link *medium_link(struct medium *medium); /* the caller may change it at any time */

/* Send a packet. It may arrive never, once or twice. Returns its fate. */
enum medium_fate medium_send(struct medium *medium, const struct medium_packet *packet,
                             uint64_t now_ns);
/* Report the end of a connection to the other host, after the link's delay and without loss. */
void medium_close(struct medium *medium, unsigned to, uint64_t conn_id,
                  const struct eng_close *close, uint64_t now_ns);
/* Lose this host's next packet with this number. False: MEDIUM_DROPS_MAX packets are named. */
bool medium_drop(struct medium *medium, unsigned host, uint64_t packet_number);

/* Time of the next arrival; ENG_NEVER if nothing is under way. */
uint64_t medium_next_ns(const struct medium *medium);
/* Take the earliest arrival until now_ns. The caller frees its bytes. False: there is none. */
bool medium_take(struct medium *medium, uint64_t now_ns, struct medium_arrival *ret);

/* Number of packets lost so far. */
uint64_t medium_lost(const struct medium *medium);

/* Text of a packet and its fate, for the transcript. */
void medium_describe(const struct vip_packet *packet, enum medium_fate fate,
                     char ret_text[MEDIUM_TEXT_BYTES]);

#endif
