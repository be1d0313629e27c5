/*
 * The loop of vipd: turns of the NICs while there is work, a budget of spinning, then sleep.
 *
 * Owns: the event loop (vipd/loop.h), the clock, signals, when to sleep. Does not own: what a NIC
 * does in a turn (vipd/nic/nic.h), clients (vipd/client/client.h). Used by main.c and tests.
 */
#ifndef VIPD_HOST_H
#define VIPD_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/config.h"
#include "vipd/loop.h"

struct nic;

struct vipd_host_config {
    enum vipd_wait wait;
    uint64_t spin_ns;
    unsigned cpus; /* processors this process may use */
    /* Called after every turn, from where everything may be freed: ends what wants to end. worked:
     * the turn did something. Returns whether it did anything itself (then no sleep follows before
     * the next turn). */
    bool (*between)(void *ctx, bool worked);
    void (*on_hup)(void *ctx); /* SIGHUP came; NULL: it is ignored */
    void *ctx;
};

/* Outcomes: 0; -ENOMEM or another negative errno. */
int vipd_host_new(const struct vipd_host_config *config, struct vipd_loop **ret);
/* All watches and timers must be gone. Harmless on NULL. */
void vipd_host_free(struct vipd_loop *loop);

/* Let the loop serve a NIC; it stays the caller's and outlives the loop's run. -ENOMEM. */
int vipd_host_add_nic(struct vipd_loop *loop, struct nic *nic);
/* Stop serving NICs (they are about to be closed). */
void vipd_host_drop_nics(struct vipd_loop *loop);

/* Another way of waiting, from the next turn on. */
void vipd_host_set_wait(struct vipd_loop *loop, enum vipd_wait wait, uint64_t spin_ns);

/* Run until SIGTERM, SIGINT or vipd_host_stop. */
void vipd_host_run(struct vipd_loop *loop);
void vipd_host_stop(struct vipd_loop *loop);

#endif
