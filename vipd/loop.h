/*
 * What the rest of vipd may know of the event loop: descriptors to watch, one-shot timers, the
 * time. vipd/host.c implements it with libev; no other file includes <ev.h>.
 *
 * A callback may call every function here, and may free its own watch. With worker threads
 * (vipd/host.h) there are several loops. A callback of a worker's loop runs in that worker's thread
 * and may touch watches of that loop only. A callback of the control loop may touch watches of all
 * loops, because the workers stand still.
 */
#ifndef VIPD_LOOP_H
#define VIPD_LOOP_H

#include <stdint.h>

struct vipd_loop;
struct vipd_watch;
struct vipd_timer;

/* Events of a watch, or'ed. After a hang-up the watch reports VIPD_READ and VIPD_WRITE. */
#define VIPD_READ  1u
#define VIPD_WRITE 2u

typedef void vipd_watch_fn(void *ctx, unsigned events);
typedef void vipd_timer_fn(void *ctx);

/* Watch fd for events (0 = paused). The caller owns fd, and frees the watch before it closes fd.
 * NULL: out of memory. */
struct vipd_watch *vipd_watch_new(struct vipd_loop *loop, int fd, unsigned events,
                                  vipd_watch_fn *fn, void *ctx);
void vipd_watch_set(struct vipd_watch *watch, unsigned events);
/* NULL is allowed. */
void vipd_watch_free(struct vipd_watch *watch);

/* Make a timer for rare events; it may be milliseconds late. `loop` is a loop that vipd_host_new
 * made, not a worker. NULL: out of memory. */
struct vipd_timer *vipd_timer_new(struct vipd_loop *loop, vipd_timer_fn *fn, void *ctx);
void vipd_timer_start(struct vipd_timer *timer, uint64_t after_ns);
/* NULL is allowed. */
void vipd_timer_free(struct vipd_timer *timer);

/* CLOCK_MONOTONIC as of this turn of the loop. The time of another loop may be older. */
uint64_t vipd_loop_now(const struct vipd_loop *loop);

/* CLOCK_MONOTONIC at this moment. */
uint64_t vipd_clock_now(void);

/* Processor time of the calling thread, in ns: a system call. */
uint64_t vipd_cpu_now(void);

/* CLOCK_REALTIME, for times that people read. It may cost a system call. */
uint64_t vipd_wall_now(void);

/* How the loop and its workers have spent their turns; proto/stats.def has the meanings. */
struct vipd_loop_stats {
#define VIP_STAT_OF_LOOP(member, name) uint64_t member;
#include "proto/stats.def"
};
/* Add up the counters of the loop and of its workers. */
void vipd_loop_stats(const struct vipd_loop *loop, struct vipd_loop_stats *ret);

#endif
