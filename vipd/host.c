/*
 * The loop of vipd; the only file that uses libev.
 *
 * While a NIC has work its turns follow each other. The descriptors (control sockets, bells) are
 * looked at only from time to time, because a look is a system call. Without work the loop spins
 * for a budget and then sleeps. Before a sleep every NIC publishes "asleep" to its sessions and
 * looks for postings once more (nic_try_sleep). So either vipd sees a posting, or the program sees
 * "asleep" and rings the bell.
 *
 * With worker threads each thread has such a loop of its own, a worker, with its share of the NICs.
 * A worker has its own lock except while it sleeps. Between two turns it gives the lock to threads
 * that wait for it. The loop that vipd_host_new made then has no NICs: it is the control loop. It
 * sleeps until one of its descriptors or timers is ready. Then it takes the locks of all workers,
 * calls its callbacks and `between`, and gives the locks back. So during its callbacks all NICs
 * stand still, and the callbacks need no locks of their own.
 */
#include "vipd/host.h"

#include <ev.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "proto/assert.h"
#include "proto/crowd.h"
#include "vipd/fair_lock.h"
#include "vipd/turn_gap.h"
#include "vipd/nic/loan.h"
#include "vipd/nic/nic.h"
#include "vipd/poll_gap.h"

/* An application, vipd and their peers need this many processors. With fewer, a thread that spins
 * without a yield takes the processor from the thread for which it waits. */
#define CPUS_TO_SPIN_ALONE 4u

/* Longest work without a yield, in ns, with fewer processors than CPUS_TO_SPIN_ALONE. A program
 * that waits for its messages may need the processor while another program keeps vipd busy. */
#define WORK_NS_MAX 10000ull

#define NEVER UINT64_MAX

struct vipd_watch {
    ev_io io; /* must be first: libev's callbacks get the address of this member */
    struct vipd_loop *loop;
    vipd_watch_fn *fn;
    void *ctx;
};

struct vipd_timer {
    ev_timer timer; /* must be first: libev's callbacks get the address of this member */
    struct vipd_loop *loop;
    vipd_timer_fn *fn;
    void *ctx;
};

struct vipd_loop {
    struct ev_loop *ev;
    struct vipd_host_config config;
    ev_check check; /* first callback after a sleep; it reads the clock */
    ev_signal term, intr, hup;
    ev_io timer_io;    /* watches timer_fd */
    int timer_fd;      /* a timerfd: more precise than libev's own timers */
    uint64_t timer_ns; /* time at which timer_fd is due; NEVER: it is not set */
    uint64_t now_ns;
    uint64_t polled_ns; /* when the last look at the descriptors ended */
    uint64_t poll_took_ns;
    unsigned poll_calls; /* number of descriptors that were ready at the last look */
    uint64_t idle_ns;    /* last time at which there was something to do */
    uint64_t worked_ns;  /* time of the last turn in which a NIC did something */
    uint64_t gave_ns;    /* time of the last yield, nap or turn without work */
    struct vip_crowd crowd;
    bool stop;
    bool activity; /* a descriptor was ready since the last turn */
    struct gap gap;
    unsigned nic_count;
    struct nic *nics[VIPD_NICS_MAX];
    struct vipd_watch *nic_watch[VIPD_NICS_MAX], *loan_watch[VIPD_NICS_MAX];
    struct vipd_loop_stats stats;
    uint64_t told_turns; /* stats.turns at the last call of vipd_host_alive */

    /* Members of the control loop. Without workers this loop also drives the NICs. */
    struct vipd_loop *workers[VIPD_NICS_MAX];
    unsigned worker_count, workers_running;
    unsigned next_worker; /* index of the worker that gets the next NIC */
    uint64_t rest_ns;     /* length of the nap after the last pass; 0: no nap */

    /* Members of a worker. Only the thread that has `lock` uses them, with two exceptions:
     * `thread`, and `wake` after set-up. */
    struct vipd_loop *control; /* NULL: this is no worker */
    struct fair_lock lock;
    pthread_t thread;
    bool sleeping;      /* the worker is in epoll_wait, or just before or after it */
    bool told_work;     /* the control loop knows that this worker has work; a pass may clear it */
    uint64_t told_busy; /* stats.busy at the last pass */

    ev_async wake; /* other threads use it to wake a worker, or a control loop with workers */
};

/* ---- functions of vipd/loop.h ------------------------------------------------------------ */

static void on_io(struct ev_loop *ev, ev_io *io, int revents)
{
    struct vipd_watch *watch = (struct vipd_watch *)io;
    unsigned events = 0;

    (void)ev;
    if (revents & (EV_READ | EV_ERROR))
        events |= VIPD_READ;
    if (revents & (EV_WRITE | EV_ERROR))
        events |= VIPD_WRITE;
    watch->loop->activity = true;
    watch->loop->poll_calls++;
    watch->fn(watch->ctx, events); /* may free the watch */
}

static int ev_events(unsigned events)
{
    return (events & VIPD_READ ? EV_READ : 0) | (events & VIPD_WRITE ? EV_WRITE : 0);
}

struct vipd_watch *vipd_watch_new(struct vipd_loop *loop, int fd, unsigned events,
                                  vipd_watch_fn *fn, void *ctx)
{
    struct vipd_watch *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return NULL;
    watch->loop = loop;
    watch->fn = fn;
    watch->ctx = ctx;
    ev_io_init(&watch->io, on_io, fd, ev_events(events));
    if (events != 0)
        ev_io_start(loop->ev, &watch->io);
    return watch;
}

void vipd_watch_set(struct vipd_watch *watch, unsigned events)
{
    if ((watch->io.events & (EV_READ | EV_WRITE)) == ev_events(events) &&
        ev_is_active(&watch->io) == (events != 0))
        return;
    ev_io_stop(watch->loop->ev, &watch->io);
    ev_io_set(&watch->io, watch->io.fd, ev_events(events));
    if (events != 0)
        ev_io_start(watch->loop->ev, &watch->io);
}

void vipd_watch_free(struct vipd_watch *watch)
{
    if (!watch)
        return;
    ev_io_stop(watch->loop->ev, &watch->io);
    free(watch);
}

static void on_timer(struct ev_loop *ev, ev_timer *timer, int revents)
{
    struct vipd_timer *t = (struct vipd_timer *)timer;

    (void)ev;
    (void)revents;
    t->fn(t->ctx);
}

struct vipd_timer *vipd_timer_new(struct vipd_loop *loop, vipd_timer_fn *fn, void *ctx)
{
    struct vipd_timer *timer = calloc(1, sizeof(*timer));

    if (!timer)
        return NULL;
    timer->loop = loop;
    timer->fn = fn;
    timer->ctx = ctx;
    ev_timer_init(&timer->timer, on_timer, 0., 0.);
    return timer;
}

void vipd_timer_start(struct vipd_timer *timer, uint64_t after_ns)
{
    ev_timer_stop(timer->loop->ev, &timer->timer);
    ev_timer_set(&timer->timer, (double)after_ns / 1e9, 0.);
    ev_timer_start(timer->loop->ev, &timer->timer);
}

void vipd_timer_free(struct vipd_timer *timer)
{
    if (!timer)
        return;
    ev_timer_stop(timer->loop->ev, &timer->timer);
    free(timer);
}

uint64_t vipd_loop_now(const struct vipd_loop *loop)
{
    return loop->now_ns;
}

void vipd_loop_stats(const struct vipd_loop *loop, struct vipd_loop_stats *ret)
{
    *ret = loop->stats;
    ret->engines = loop->worker_count;
    for (unsigned i = 0; i < loop->worker_count; i++) {
        const struct vipd_loop_stats *worker = &loop->workers[i]->stats;

        /* Counters that only a control loop has are 0 in a worker. */
#define VIP_STAT_OF_LOOP(member, name) ret->member += worker->member;
#include "proto/stats.def"
    }
}

/* ---- set-up ------------------------------------------------------------------------------ */

static void on_check(struct ev_loop *ev, ev_check *check, int revents)
{
    struct vipd_loop *loop = check->data;

    (void)ev;
    (void)revents;
    loop->now_ns = vipd_clock_now();
}

static void on_signal(struct ev_loop *ev, ev_signal *signal_watcher, int revents)
{
    struct vipd_loop *loop = signal_watcher->data;

    (void)ev;
    (void)revents;
    loop->stop = true;
}

static void on_hup(struct ev_loop *ev, ev_signal *signal_watcher, int revents)
{
    struct vipd_loop *loop = signal_watcher->data;

    (void)ev;
    (void)revents;
    loop->activity = true;
    if (loop->config.on_hup)
        loop->config.on_hup(loop->config.ctx);
}

static void on_timer_fd(struct ev_loop *ev, ev_io *io, int revents)
{
    struct vipd_loop *loop = io->data;
    uint64_t expirations;

    (void)ev;
    (void)revents;
    /* The read only makes the timer unreadable again; nic_turn does the work that is due. */
    if (read(loop->timer_fd, &expirations, sizeof(expirations)) == sizeof(expirations))
        loop->timer_ns = NEVER;
}

static void on_nic_fd(void *ctx, unsigned events)
{
    /* Nothing to do here: the next turn receives the packets. The watch only ends a sleep. */
    (void)ctx;
    (void)events;
}

/* libev calls this before epoll_wait, and worker_take after it: a sleeping worker has no lock. */
static void worker_give(struct ev_loop *ev)
{
    struct vipd_loop *loop = ev_userdata(ev);

    fair_lock_give(&loop->lock);
}

static void worker_take(struct ev_loop *ev)
{
    struct vipd_loop *loop = ev_userdata(ev);

    fair_lock_take(&loop->lock);
}

static void on_wake(struct ev_loop *ev, ev_async *wake, int revents)
{
    /* Nothing to do here: a worker's next turn follows, or the rest of the control loop's pass. */
    (void)ev;
    (void)wake;
    (void)revents;
}

static void loop_free(struct vipd_loop *loop)
{
    ev_check_stop(loop->ev, &loop->check);
    ev_io_stop(loop->ev, &loop->timer_io);
    if (ev_is_active(&loop->wake))
        ev_async_stop(loop->ev, &loop->wake);
    ev_loop_destroy(loop->ev);
    close(loop->timer_fd);
    gap_deinit(&loop->gap);
    if (loop->control)
        fair_lock_deinit(&loop->lock);
    free(loop);
}

/* Make the parts that all kinds of loops have. */
static int loop_new(const struct vipd_host_config *config, struct vipd_loop **ret)
{
    struct vipd_loop *loop = calloc(1, sizeof(*loop));
    int r;

    if (!loop)
        return -ENOMEM;
    loop->config = *config;
    loop->timer_ns = NEVER;
    loop->now_ns = vipd_clock_now();
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (loop->timer_fd < 0) {
        r = -errno;
        free(loop);
        return r;
    }
    loop->ev = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV);
    if (!loop->ev) {
        close(loop->timer_fd);
        free(loop);
        return -ENOMEM;
    }
    ev_set_userdata(loop->ev, loop);
    ev_check_init(&loop->check, on_check);
    ev_set_priority(&loop->check, EV_MAXPRI); /* on_check runs before callbacks that use the time */
    loop->check.data = loop;
    ev_check_start(loop->ev, &loop->check);
    ev_async_init(&loop->wake, on_wake);
    ev_io_init(&loop->timer_io, on_timer_fd, loop->timer_fd, EV_READ);
    loop->timer_io.data = loop;
    ev_io_start(loop->ev, &loop->timer_io);
    *ret = loop;
    return 0;
}

static int worker_new(struct vipd_loop *control)
{
    struct vipd_loop *worker;
    int r = loop_new(&control->config, &worker);

    if (r < 0)
        return r;
    worker->control = control;
    fair_lock_init(&worker->lock);
    ev_set_loop_release_cb(worker->ev, worker_give, worker_take);
    ev_async_start(worker->ev, &worker->wake);
    control->workers[control->worker_count++] = worker;
    return 0;
}

static void pass(struct ev_loop *ev);

int vipd_host_new(const struct vipd_host_config *config, struct vipd_loop **ret)
{
    struct vipd_loop *loop;
    int r = loop_new(config, &loop);

    if (r < 0)
        return r;
    ev_signal_init(&loop->term, on_signal, SIGTERM);
    ev_signal_init(&loop->intr, on_signal, SIGINT);
    ev_signal_init(&loop->hup, on_hup, SIGHUP);
    loop->term.data = loop->intr.data = loop->hup.data = loop;
    ev_signal_start(loop->ev, &loop->hup);
    ev_signal_start(loop->ev, &loop->term);
    ev_signal_start(loop->ev, &loop->intr);
    if (config->workers > 0) {
        ev_set_invoke_pending_cb(loop->ev, pass);
        ev_async_start(loop->ev, &loop->wake);
    }
    while (loop->worker_count < config->workers && loop->worker_count < VIPD_NICS_MAX) {
        r = worker_new(loop);
        if (r < 0) {
            vipd_host_free(loop);
            return r;
        }
    }
    *ret = loop;
    return 0;
}

void vipd_host_free(struct vipd_loop *loop)
{
    if (!loop)
        return;
    VIP_ASSERT(loop->workers_running == 0);
    vipd_host_drop_nics(loop);
    for (unsigned i = 0; i < loop->worker_count; i++)
        loop_free(loop->workers[i]);
    ev_signal_stop(loop->ev, &loop->hup);
    ev_signal_stop(loop->ev, &loop->term);
    ev_signal_stop(loop->ev, &loop->intr);
    loop_free(loop);
}

/* Let a descriptor of a NIC end a sleep; -1: there is none. false: no memory. */
static bool nic_watch_fd(struct vipd_loop *loop, int fd, struct vipd_watch **ret)
{
    if (fd < 0)
        return true;
    *ret = vipd_watch_new(loop, fd, VIPD_READ, on_nic_fd, loop);
    return *ret != NULL;
}

int vipd_host_add_nic(struct vipd_loop *loop, struct nic *nic, struct vipd_loop **ret)
{
    if (loop->worker_count > 0)
        loop = loop->workers[loop->next_worker++ % loop->worker_count];
    VIP_ASSERT(loop->nic_count < VIPD_NICS_MAX);
    if (!nic_watch_fd(loop, nic_fd(nic), &loop->nic_watch[loop->nic_count]) ||
        !nic_watch_fd(loop, nic_loan_fd(nic), &loop->loan_watch[loop->nic_count]))
        return -ENOMEM;
    loop->nics[loop->nic_count++] = nic;
    *ret = loop;
    return 0;
}

void vipd_host_drop_nics(struct vipd_loop *loop)
{
    for (unsigned i = 0; i < VIPD_NICS_MAX; i++) {
        vipd_watch_free(loop->nic_watch[i]);
        loop->nic_watch[i] = NULL;
        vipd_watch_free(loop->loan_watch[i]);
        loop->loan_watch[i] = NULL;
    }
    loop->nic_count = 0;
    for (unsigned i = 0; i < loop->worker_count; i++)
        vipd_host_drop_nics(loop->workers[i]);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static bool turn(struct vipd_loop *loop)
{
    uint64_t gap_ns = gap_end(&loop->gap, loop->now_ns);
    bool worked = false;

    for (unsigned i = 0; i < loop->nic_count; i++)
        nic_gap(loop->nics[i], gap_ns);
    for (unsigned i = 0; i < loop->nic_count; i++) {
        if (i > 0)
            loop->now_ns = vipd_clock_now(); /* the turn of the previous NIC took time */
        worked = nic_turn(loop->nics[i], loop->now_ns) || worked;
    }
    loop->stats.turns++;
    loop->stats.busy += worked;
    if (worked)
        loop->worked_ns = loop->now_ns;
    return worked;
}

/* Look at the descriptors without sleeping. */
static void poll_descriptors(struct vipd_loop *loop)
{
    uint64_t start_ns = loop->now_ns;

    loop->stats.polls++;
    loop->poll_calls = 0;
    /* Read the kernel's account of this thread before the look: a long look is itself a gap. */
    gap_look(&loop->gap, loop->now_ns);
    ev_run(loop->ev, EVRUN_NOWAIT);
    if (loop->control)
        start_ns = loop->now_ns; /* on_check has read the clock after the wait for the lock */
    loop->now_ns = vipd_clock_now();
    loop->polled_ns = loop->now_ns;
    loop->poll_took_ns = loop->now_ns - start_ns;
    loop->gap.requests_ns += loop->poll_took_ns;
}

/* Time until the next look at the descriptors; 0: the look is due. */
static uint64_t poll_due_in_ns(const struct vipd_loop *loop)
{
    uint64_t ago_ns = loop->now_ns - loop->polled_ns;
    uint64_t gap_ns =
        poll_gap_ns(loop->poll_took_ns, loop->poll_calls, loop->now_ns - loop->worked_ns);

    return ago_ns < gap_ns ? gap_ns - ago_ns : 0;
}

static uint64_t earliest_deadline(const struct vipd_loop *loop)
{
    uint64_t earliest = NEVER;

    for (unsigned i = 0; i < loop->nic_count; i++) {
        uint64_t deadline = nic_deadline(loop->nics[i]);

        if (deadline < earliest)
            earliest = deadline;
    }
    return earliest;
}

static void arm_timer(struct vipd_loop *loop, uint64_t deadline_ns)
{
    struct itimerspec at = {0};

    if (deadline_ns == loop->timer_ns)
        return;
    if (deadline_ns != NEVER) {
        at.it_value.tv_sec = (time_t)(deadline_ns / 1000000000ull);
        at.it_value.tv_nsec = (long)(deadline_ns % 1000000000ull);
        if (deadline_ns == 0)
            at.it_value.tv_nsec = 1; /* 0 would disarm the timer */
    }
    VIP_ASSERT(timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) == 0);
    loop->timer_ns = deadline_ns;
}

static void wake_nics(struct vipd_loop *loop, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        nic_awake(loop->nics[i]);
}

/* Sleep, unless there is work. Returns whether the loop slept. If so, now_ns is up to date. */
static bool sleep_until_needed(struct vipd_loop *loop)
{
    uint64_t deadline;
    bool slept = false;

    for (unsigned i = 0; i < loop->nic_count; i++) {
        if (!nic_try_sleep(loop->nics[i])) {
            wake_nics(loop, i);
            loop->stats.recalls++;
            return false;
        }
    }
    deadline = earliest_deadline(loop);
    if (deadline > loop->now_ns) {
        arm_timer(loop, deadline);
        gap_look(&loop->gap, loop->now_ns);
        loop->stats.sleeps++;
        loop->poll_calls = 0;
        loop->sleeping = true;
        ev_run(loop->ev, EVRUN_ONCE);
        loop->sleeping = false;
        /* ev_run has also called the callbacks of the descriptors that ended the sleep. They took
         * time, so read the clock again. */
        loop->polled_ns = vipd_clock_now();
        loop->poll_took_ns = loop->polled_ns - loop->now_ns; /* on_check has set now_ns */
        gap_slept(&loop->gap, deadline, loop->now_ns);
        loop->gap.requests_ns = loop->poll_took_ns;
        loop->now_ns = loop->polled_ns;
        slept = true;
    }
    wake_nics(loop, loop->nic_count);
    return slept;
}

/* If another thread waits for this processor, let it run. If none waits, return at once. */
static void yield(struct vipd_loop *loop)
{
    uint64_t before_ns = vipd_clock_now();

    sched_yield();
    vip_yielded(&loop->crowd, before_ns, vipd_clock_now());
}

/* The loop has worked for long: other threads of this machine may have to run. */
static void give_away(struct vipd_loop *loop)
{
    if (!vip_crowded(&loop->crowd, loop->now_ns))
        yield(loop);
    loop->gave_ns = loop->now_ns;
}

static void relax(struct vipd_loop *loop)
{
    if (loop->config.cpus < CPUS_TO_SPIN_ALONE || loop->config.wait == VIPD_WAIT_ADAPTIVE) {
        yield(loop);
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

void vipd_host_set_wait(struct vipd_loop *loop, enum vipd_wait wait, uint64_t spin_ns)
{
    loop->config.wait = wait;
    loop->config.spin_ns = spin_ns;
    for (unsigned i = 0; i < loop->worker_count; i++)
        vipd_host_set_wait(loop->workers[i], wait, spin_ns);
}

/* How long the loop goes on without work now before it sleeps. */
static uint64_t spin_ns(const struct vipd_loop *loop)
{
    return loop->config.wait != VIPD_WAIT_SPIN && vip_crowded(&loop->crowd, loop->now_ns)
               ? 0
               : spin_budget_ns(loop->config.wait, loop->config.spin_ns);
}

/* A worker calls this between two turns. If the control loop waits for the lock, let it work. */
static void make_way(struct vipd_loop *worker)
{
    if (!fair_lock_wanted(&worker->lock))
        return;
    fair_lock_give(&worker->lock);
    fair_lock_take(&worker->lock);
    /* now_ns is too old: the control loop has used the NICs meanwhile, with a later time. */
    worker->gap.requests_ns -= worker->now_ns;
    worker->now_ns = vipd_clock_now();
    worker->gap.requests_ns += worker->now_ns;
}

/* Pause, but leave the NICs awake: programs that post need not ring the bell. */
static void nap(struct vipd_loop *loop, uint64_t ns)
{
    struct timespec ts = {.tv_nsec = (long)ns};

    loop->stats.naps++;
    if (loop->control)
        fair_lock_give(&loop->lock);
    (void)nanosleep(&ts, NULL); /* a signal may end the nap early */
    if (loop->control)
        fair_lock_take(&loop->lock);
    loop->gave_ns = loop->now_ns;
}

/* Tell the control loop that a worker has work again. */
static void tell_work(struct vipd_loop *worker)
{
    worker->told_work = true;
    ev_async_send(worker->control->ev, &worker->control->wake);
}

static void run_turns(struct vipd_loop *loop)
{
    uint64_t due_in_ns;

    loop->now_ns = vipd_clock_now();
    loop->idle_ns = loop->now_ns;
    gap_begin(&loop->gap, loop->now_ns);
    for (;;) {
        bool worked;

        /* Here the control loop may change something. A turn (or the end) follows, so the worker
         * sees the changes before it sleeps. */
        if (loop->control)
            make_way(loop);
        if (loop->stop)
            break;
        worked = turn(loop);
        if (!loop->control)
            worked = loop->config.between(loop->config.ctx, worked) || worked;
        else if (worked && !loop->told_work)
            tell_work(loop);
        if (worked || loop->activity)
            loop->idle_ns = loop->now_ns;
        loop->activity = false;
        if (!worked)
            loop->gave_ns = loop->now_ns; /* the loop spins or sleeps next, and so yields */
        else if (loop->config.cpus < CPUS_TO_SPIN_ALONE &&
                 loop->now_ns - loop->gave_ns >= WORK_NS_MAX)
            give_away(loop);
        due_in_ns = poll_due_in_ns(loop);
        if (!due_in_ns) {
            poll_descriptors(loop); /* reads the clock */
            continue;
        }
        if (!worked && loop->now_ns - loop->idle_ns >= spin_ns(loop)) {
            if (due_in_ns > NAP_NS && loop->poll_took_ns > POLL_EVERY_NS)
                nap(loop, NAP_NS);
            else if (sleep_until_needed(loop))
                continue;
        } else if (!worked) {
            loop->stats.spins++;
            relax(loop);
            loop->stats.spin_ns += vipd_clock_now() - loop->now_ns;
        }
        loop->now_ns = vipd_clock_now();
    }
}

/* ---- workers and the control loop -------------------------------------------------------- */

/* Take the locks of all workers: all NICs stand still until workers_go_on. */
static void workers_halt(struct vipd_loop *loop)
{
    for (unsigned i = 0; i < loop->worker_count; i++)
        fair_lock_take(&loop->workers[i]->lock);
    loop->stats.halts++;
}

/* Give the locks back. Wake sleeping workers: their NICs and watches may have changed. */
static void workers_go_on(struct vipd_loop *loop)
{
    for (unsigned i = 0; i < loop->worker_count; i++) {
        struct vipd_loop *worker = loop->workers[i];

        if (worker->sleeping)
            ev_async_send(worker->ev, &worker->wake);
        fair_lock_give(&worker->lock);
    }
}

/* One pass of the control loop. libev calls this function instead of ev_invoke_pending. */
static void pass(struct ev_loop *ev)
{
    struct vipd_loop *loop = ev_userdata(ev);
    uint64_t start_ns, took_ns, since_work_ns = NEVER;
    bool worked = false;

    if (ev_pending_count(ev) == 0)
        return;
    workers_halt(loop);
    start_ns = vipd_clock_now();
    loop->poll_calls = 0;
    /* on_check runs first, so other callbacks get a time later than the workers' last turns. */
    ev_invoke_pending(ev);
    for (unsigned i = 0; i < loop->worker_count; i++) {
        struct vipd_loop *worker = loop->workers[i];

        worker->told_work = worker->stats.busy != worker->told_busy;
        worker->told_busy = worker->stats.busy;
        worked = worked || worker->told_work;
        if (start_ns - worker->worked_ns < since_work_ns)
            since_work_ns = start_ns - worker->worked_ns;
    }
    (void)loop->config.between(loop->config.ctx, worked);
    took_ns = vipd_clock_now() - start_ns;
    if (since_work_ns < POLL_BUSY_FOR_NS || took_ns > POLL_EVERY_NS)
        loop->rest_ns = poll_gap_ns(took_ns, loop->poll_calls, since_work_ns);
    workers_go_on(loop);
}

static void *worker_main(void *arg)
{
    struct vipd_loop *worker = arg;

    fair_lock_take(&worker->lock);
    run_turns(worker);
    fair_lock_give(&worker->lock);
    return NULL;
}

static void workers_stop(struct vipd_loop *loop)
{
    workers_halt(loop);
    for (unsigned i = 0; i < loop->worker_count; i++)
        loop->workers[i]->stop = true;
    workers_go_on(loop);
    while (loop->workers_running > 0)
        VIP_ASSERT(pthread_join(loop->workers[--loop->workers_running]->thread, NULL) == 0);
}

/* Start the workers' threads, which block all signals. They have the caller's privileges. */
static int workers_start(struct vipd_loop *loop)
{
    sigset_t all, before;
    int r = 0;

    sigfillset(&all);
    VIP_ASSERT(pthread_sigmask(SIG_BLOCK, &all, &before) == 0);
    while (loop->workers_running < loop->worker_count) {
        struct vipd_loop *worker = loop->workers[loop->workers_running];

        r = -pthread_create(&worker->thread, NULL, worker_main, worker);
        if (r < 0)
            break;
        loop->workers_running++;
        (void)pthread_setname_np(worker->thread, "vipd-engine"); /* for top -H */
    }
    VIP_ASSERT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    if (r < 0)
        workers_stop(loop);
    return r;
}

static int run_control(struct vipd_loop *loop)
{
    int r = workers_start(loop);

    if (r < 0)
        return r;
    while (!loop->stop) {
        ev_run(loop->ev, EVRUN_ONCE); /* calls pass */
        if (loop->rest_ns > 0 && !loop->stop)
            nap(loop, loop->rest_ns);
        loop->rest_ns = 0;
    }
    workers_stop(loop);
    loop->now_ns = vipd_clock_now(); /* this time is later than the workers' last turns */
    return 0;
}

int vipd_host_run(struct vipd_loop *loop)
{
    if (loop->worker_count > 0)
        return run_control(loop);
    run_turns(loop);
    return 0;
}

void vipd_host_stop(struct vipd_loop *loop)
{
    loop->stop = true;
}

void vipd_host_call(struct vipd_loop *loop)
{
    if (loop->worker_count > 0)
        ev_async_send(loop->ev, &loop->wake);
}

static bool took_turns(struct vipd_loop *loop)
{
    bool any = loop->stats.turns != loop->told_turns;

    loop->told_turns = loop->stats.turns;
    return any;
}

bool vipd_host_alive(struct vipd_loop *loop)
{
    bool alive = loop->worker_count > 0 || took_turns(loop);

    for (unsigned i = 0; i < loop->worker_count; i++)
        alive = took_turns(loop->workers[i]) && alive;
    return alive;
}
