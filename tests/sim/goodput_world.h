/*
 * Two hosts with real engines on one simulated link, for questions of speed: rates, queues and losses
 * are exact, payload bytes are not moved at all. Virtual time; a run is a function of its arguments.
 * Right or wrong is not judged here: that is sim.h's.
 */
#ifndef TESTS_SIM_GOODPUT_WORLD_H
#define TESTS_SIM_GOODPUT_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/engine/engine.h"

/* One direction of the link; both are alike. */
struct gp_link {
    uint64_t bits_per_s;
    uint64_t delay_ns;    /* one way, without queue */
    uint64_t queue_bytes; /* what finds more in the queue is dropped */
    uint32_t loss_ppm;
    uint32_t mtu_bytes; /* larger packets vanish; 0 = none do */
    /* So many packets arrive later than those behind them, by so much. */
    uint32_t late_ppm;
    uint64_t late_ns;
    bool cut; /* nothing arrives */
};

struct gp_config {
    uint64_t seed;
    struct gp_link link;
    struct eng_config engine;
    uint32_t packet_bytes, window_bytes;
    uint32_t receives; /* posted per VI at any time */
};

struct gp;

/* VI i of host 0 is connected with VI i of host 1. */
struct gp *gp_new(const struct gp_config *config, unsigned vis);
void gp_free(struct gp *gp);
struct gp_link *gp_link(struct gp *gp); /* may be changed at any time */

uint64_t gp_now(const struct gp *gp);
/* Keep `depth` sends of `bytes` each posted on a VI of host 0, from now on; 0 = no more. */
void gp_bulk(struct gp *gp, uint16_t vi, uint32_t bytes, unsigned depth);
/* One message of `bytes` to and fro for ever, from now on. */
void gp_ping(struct gp *gp, uint16_t vi, uint32_t bytes);
void gp_run(struct gp *gp, uint64_t for_ns);

uint64_t gp_received(const struct gp *gp, uint16_t vi); /* bytes completed at host 1 */
/* Round trips of the ping-pong: how many, and the shortest time that `permille` of 1000 of them do not
 * exceed. Forgets them. */
uint64_t gp_pings(struct gp *gp, unsigned permille, uint64_t *ret_ns);
void gp_stats(struct gp *gp, uint16_t vi, struct eng_vi_stats *ret);
/* Largest queue since the last call, in bytes; packets dropped for the queue, ever. */
uint64_t gp_queue_max(struct gp *gp);
uint64_t gp_queue_drops(const struct gp *gp);

#endif
