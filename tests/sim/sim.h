/*
 * Simulator: hosts with real engines, plain memory and virtual time. Links between them lose,
 * repeat, delay and reorder packets; a seed chooses these packets. Nothing here reads a clock, so a
 * run depends only on its arguments and can be repeated bit by bit.
 *
 * Owns: time, the transcript, memory regions, the checks that hold for every run (tokens, regions,
 * order of completions). Does not own: the medium (medium.c), applications (app.c, scenarios.c).
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/sim/medium.h"
#include "vipd/engine/engine.h"

#define SIM_HOSTS_MAX   4
#define SIM_REGIONS_MAX 256
#define SIM_CONNS_MAX   64

struct sim;

/* The application. An engine calls complete, event and fetch; of these only fetch may post. */
struct sim_app {
    void (*complete)(void *ctx, unsigned host, uint16_t vi, enum vip_queue queue, uint32_t status,
                     uint32_t length, uint64_t imm);
    void (*event)(void *ctx, unsigned host, const struct eng_event *event);
    /* The engine asks for more descriptors (fetch_posts). May be NULL. */
    void (*fetch)(void *ctx, unsigned host);
    /* The simulator calls `poll` after every input to any engine. May be NULL. */
    void (*poll)(void *ctx);
    void *ctx;
};

struct sim_config {
    uint64_t seed;
    unsigned hosts;
    struct eng_config engine;
    struct medium_link link;
    struct sim_app app;
    FILE *trace; /* output for every line of the transcript, or NULL */
};

struct sim *sim_new(const struct sim_config *config);
void sim_free(struct sim *sim);

uint64_t sim_now(const struct sim *sim);
struct eng *sim_engine(struct sim *sim, unsigned host);
struct medium_link *sim_link(struct sim *sim); /* the caller may change it at any time */
uint64_t sim_hash(const struct sim *sim);      /* hash of the transcript up to now */
/* Add a line to the transcript, with the time before it. */
void sim_trace(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A check has failed: print the reason with the last lines of the transcript, and abort. */
_Noreturn void sim_fail(struct sim *sim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Registered memory. No real memory is at its `addr`, so a wrong address hits no other memory. */
#define SIM_REMOTE_WRITE 1u
#define SIM_REMOTE_READ  2u
struct sim_mem {
    uint32_t handle;
    uint64_t addr;
    uint8_t *bytes;
    uint32_t len;
};
struct sim_mem sim_register(struct sim *sim, unsigned host, uint32_t len, unsigned rights);
void sim_deregister(struct sim *sim, unsigned host, uint32_t handle);

void sim_vi(struct sim *sim, unsigned host, uint16_t vi, uint16_t level, uint32_t max_transfer);
void sim_vi_destroy(struct sim *sim, unsigned host, uint16_t vi);
void sim_connect(struct sim *sim, unsigned host_a, uint16_t vi_a, unsigned host_b, uint16_t vi_b,
                 uint32_t packet_bytes, uint32_t window_bytes);
/* Bind the connection of this VI anew: packets under way are lost, and both ends pause, exchange
 * their counts and rebind. Bit 0 of restart: this end first makes its VI anew, and posts again the
 * descriptors that had not completed. Bit 1: the other end does so. False: the connection is not
 * live at both ends. */
bool sim_rebind(struct sim *sim, unsigned host, uint16_t vi, unsigned restart);
/* VipDisconnect on one host. The other host learns of it after the link's delay, without loss. */
void sim_disconnect(struct sim *sim, unsigned host, uint16_t vi);

void sim_post(struct sim *sim, unsigned host, const struct eng_post *post);
/* Post a descriptor with one data segment (mem NULL: none). remote: address segment for RDMA. */
void sim_post_simple(struct sim *sim, unsigned host, uint16_t vi, enum vip_queue queue,
                     uint16_t control, const struct vip_shm_seg *remote, const struct sim_mem *mem,
                     uint32_t offset, uint32_t len, uint64_t imm);

/* Run until no event or timer is left, or until until_ns. Returns true if none is left. */
bool sim_run(struct sim *sim, uint64_t until_ns);
/* Run until done() returns true. False: until_ns was reached first, or no event was left. */
bool sim_run_until(struct sim *sim, uint64_t until_ns, bool (*done)(void *ctx), void *ctx);

/* Lose the packet of this host with this number, once. */
void sim_drop(struct sim *sim, unsigned host, uint64_t packet_number);

/* Number of packets that the medium has lost so far. */
uint64_t sim_lost(const struct sim *sim);

#endif
