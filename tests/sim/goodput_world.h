/*
 * Two hosts with real engines on one simulated link, to measure speed: rates, queues and losses are exact, payload
 * bytes are not moved. Time is virtual, and a run depends only on its arguments. The correctness of messages is not
 * checked here; sim.h does that.
 */
#ifndef TESTS_SIM_GOODPUT_WORLD_H
#define TESTS_SIM_GOODPUT_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/engine/engine.h"

/* Properties of each direction of the link. */
struct gp_link {
    uint64_t bits_per_s;
    uint64_t delay_ns;    /* delay one way, without the wait in the queue */
    uint64_t queue_bytes; /* largest queue; a packet that finds more bytes in it is dropped */
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
    uint32_t receives; /* number of receives that each VI keeps posted */
};

struct gp;

/* VI i of host 0 is connected with VI i of host 1. */
struct gp *gp_new(const struct gp_config *config, unsigned vis);
void gp_free(struct gp *gp);
struct gp_link *gp_link(struct gp *gp); /* the caller may change it at any time */

uint64_t gp_now(const struct gp *gp);
/* Keep `depth` sends of `bytes` each posted on a VI of host 0; depth 0: stop this. */
void gp_bulk(struct gp *gp, uint16_t vi, uint32_t bytes, unsigned depth);
/* From now on send one message of `bytes` to host 1 and back, again and again. */
void gp_ping(struct gp *gp, uint16_t vi, uint32_t bytes);
void gp_run(struct gp *gp, uint64_t for_ns);

uint64_t gp_received(const struct gp *gp, uint16_t vi); /* bytes of completed receives at host 1 */
/* Returns the number of round trips of the ping-pong since the last call. *ret_ns is the shortest
 * time that `permille` of 1000 round trips do not exceed. */
uint64_t gp_pings(struct gp *gp, unsigned permille, uint64_t *ret_ns);
void gp_stats(struct gp *gp, uint16_t vi, struct eng_vi_stats *ret);
/* Most bytes in the queue since the last call; number of all packets that a full queue dropped. */
uint64_t gp_queue_max(struct gp *gp);
uint64_t gp_queue_drops(const struct gp *gp);

#endif
