/*
 * The loop of vipd: turns of the NICs while there is work, a budget of spinning, then sleep.
 *
 * With worker threads the NICs are divided among them; each thread has a loop of its own (a worker)
 * with a lock. The loop that vipd_host_new makes is then the control loop. Its callbacks, its
 * timers and `between` run while it has the locks of all workers, so every NIC stands still.
 * doc/architecture.md, "Threads".
 *
 * Owns: the event loops (vipd/loop.h), the clock, signals, when to sleep, threads. Does not own:
 * what a NIC does in a turn (vipd/nic/nic.h), clients (vipd/client/client.h). Used by main.c and
 * tests. Only the thread that made the loop calls these functions, except vipd_host_call.
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
    unsigned cpus;    /* processors this process may use */
    unsigned workers; /* threads for the NICs, at most VIPD_NICS_MAX; 0: the loop drives the NICs */
    /* Called after every turn; with workers, at the end of every pass of the control loop. It frees
     * objects that have ended. worked: the turn (with workers: any turn since the last pass) did
     * something. If a worker begins to work after a pass, the next pass follows. Returns whether
     * `between` itself did something: then the loop does not sleep before the next turn. */
    bool (*between)(void *ctx, bool worked);
    void (*on_hup)(void *ctx); /* SIGHUP came; NULL: it is ignored */
    void *ctx;
};

/* Outcomes: 0; -ENOMEM or another negative errno. */
int vipd_host_new(const struct vipd_host_config *config, struct vipd_loop **ret);
/* First free all watches and timers of the loop. `loop` may be NULL. */
void vipd_host_free(struct vipd_loop *loop);

/*
 * Let the loop, or one of its workers, serve a NIC. The caller owns the NIC, and keeps it while the
 * loop runs. *ret is the loop that serves the NIC: watches of the NIC's sessions belong to that
 * loop. Do not call this function while the loop runs. Outcomes: 0; -ENOMEM.
 */
int vipd_host_add_nic(struct vipd_loop *loop, struct nic *nic, struct vipd_loop **ret);
/* Stop serving the NICs: the caller is about to close them. */
void vipd_host_drop_nics(struct vipd_loop *loop);

/* Change how the loop waits, from the next turn on. */
void vipd_host_set_wait(struct vipd_loop *loop, enum vipd_wait wait, uint64_t spin_ns);

/*
 * Run until SIGTERM, SIGINT or vipd_host_stop. Worker threads exist only during this call and have
 * the caller's privileges. Outcomes: 0; negative errno: a worker's thread could not be made, and
 * all other workers have ended.
 */
int vipd_host_run(struct vipd_loop *loop);
void vipd_host_stop(struct vipd_loop *loop);

/* Make a loop with workers call `between` soon. Any thread may do this while the loop runs. */
void vipd_host_call(struct vipd_loop *loop);

/* Has each worker taken a turn since the last call? Without workers: has the loop taken a turn? */
bool vipd_host_alive(struct vipd_loop *loop);

#endif
