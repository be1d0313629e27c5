/*
 * Two hosts with real engines on one simulated link, to measure speed. Rates, queues and losses are
 * exact, but payload bytes are not moved. Time is virtual, and a run depends only on its arguments.
 * sim.h checks whether messages are correct; this file does not.
 */
#ifndef TESTS_SIM_GOODPUT_WORLD_H
#define TESTS_SIM_GOODPUT_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/engine/engine.h"

/* Properties of each direction of the link. */
struct gp_link {
    uint64_t bits_per_s;
    uint64_t delay_ns;    /* time from one host to the other, without the wait in the queue */
    uint64_t queue_bytes; /* limit of the queue; a packet that finds more bytes there is dropped */
    uint32_t loss_ppm;
    uint32_t mtu_bytes; /* larger packets are lost; 0: no limit */
    /* Share of packets that arrive late, and their extra delay. Later packets may overtake them. */
    uint32_t late_ppm;
    uint64_t late_ns;
    bool cut; /* all packets are lost */
};

struct gp_config {
    uint64_t seed;
    struct gp_link link;
    struct eng_config engine;
    uint32_t packet_bytes, window_bytes;
    uint32_t receives; /* number of receive descriptors that each VI keeps posted */
};

struct gp;

/* Make two hosts; VI i of host 0 is connected to VI i of host 1. */
struct gp *gp_new(const struct gp_config *config, unsigned vis);
void gp_free(struct gp *gp);
struct gp_link *gp_link(struct gp *gp); /* the caller may change it at any time */

uint64_t gp_now(const struct gp *gp);
/* Keep `depth` sends posted on a VI of host 0, each of `bytes` bytes. depth 0: stop this. */
void gp_bulk(struct gp *gp, uint16_t vi, uint32_t bytes, unsigned depth);
/* From now on one message of `bytes` bytes goes to host 1 and back, again and again. */
void gp_ping(struct gp *gp, uint16_t vi, uint32_t bytes);
void gp_run(struct gp *gp, uint64_t for_ns);

uint64_t gp_received(const struct gp *gp, uint16_t vi); /* bytes that host 1 has received */
/* Returns the number of pings since the last call of gp_pings. *ret_ns: `permille` of 1000 of their
 * round trips took this time or less. */
uint64_t gp_pings(struct gp *gp, unsigned permille, uint64_t *ret_ns);
void gp_stats(struct gp *gp, uint16_t vi, struct eng_vi_stats *ret);
/* gp_queue_max: most bytes queued since its last call. gp_queue_drops: all packets ever dropped. */
uint64_t gp_queue_max(struct gp *gp);
uint64_t gp_queue_drops(const struct gp *gp);

#endif
