/*
 * Worker threads (vipd/host.h), and the lock, which threads get in the order of their requests.
 * While a callback of the control loop runs, no NIC has a turn. Callbacks run in time also if the
 * NICs are busy, and may change objects of the NICs. The threads share plain variables on purpose:
 * the thread sanitizer would detect a missing order.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/fair_lock.h"
#include "vipd/host.h"
#include "vipd/link/link.h"
#include "vipd/nic/nic.h"

/* ---- the lock -------------------------------------------------------------------------- */

#define TAKES 200

/* A thread that holds the lock until another thread wants it, and then takes the lock again. */
struct hog {
    struct fair_lock lock;
    uint64_t steps; /* changed only with the lock */
    bool stop;
};

static void *hog(void *arg)
{
    struct hog *h = arg;

    fair_lock_take(&h->lock);
    while (!h->stop) {
        h->steps++;
        if (fair_lock_wanted(&h->lock)) {
            fair_lock_give(&h->lock);
            fair_lock_take(&h->lock);
        }
    }
    fair_lock_give(&h->lock);
    return NULL;
}

/* Both threads go on: the main thread and the hog get the lock in turn. */
static void test_lock_takes_turns(void **state)
{
    struct hog h = {.steps = 0};
    uint64_t before = 0;
    pthread_t thread;

    (void)state;
    fair_lock_init(&h.lock);
    assert_int_equal(pthread_create(&thread, NULL, hog, &h), 0);
    for (uint64_t seen = 0; seen == 0;) {
        fair_lock_take(&h.lock);
        seen = h.steps;
        fair_lock_give(&h.lock);
    }
    for (unsigned i = 0; i < TAKES; i++) {
        /* If the hog was between two calls, it did not hold or want the lock: try again. */
        for (bool turn = false; !turn;) {
            fair_lock_take(&h.lock);
            turn = h.steps > before;
            before = h.steps;
            if (turn && i + 1 == TAKES)
                h.stop = true;
            fair_lock_give(&h.lock);
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(h.steps >= TAKES);
    fair_lock_deinit(&h.lock);
}

/* ---- workers --------------------------------------------------------------------------- */

#define NICS    3
#define WORKERS 2
#define ROUNDS  40
#define STOPS   50
#define STOP_S  50 /* less than the time that libev's epoll waits without an event */

/* A doorbell of one NIC. Its worker answers each ring by another ring. */
struct bell {
    struct rig *rig;
    struct nic *nic;
    struct vipd_loop *loop;
    struct vipd_watch *watch;
    int fd;
    bool inside;   /* true while on_bell runs for this bell */
    uint64_t rung; /* number of calls of on_bell for this bell */
};

struct rig {
    struct vipd_loop *loop;
    struct vipd_timer *timer;
    struct bell bell[NICS];
    unsigned rounds, between;
    uint64_t seen[NICS]; /* value of bell.rung at the last round */
    time_t stopped_s;    /* time of vipd_host_stop, in seconds */
};

static time_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void ring(const struct bell *bell)
{
    uint64_t one = 1;

    assert_int_equal(write(bell->fd, &one, sizeof(one)), sizeof(one));
}

static void on_bell(void *ctx, unsigned events)
{
    struct bell *bell = ctx;
    uint64_t rings;

    assert_int_equal(events, VIPD_READ);
    bell->inside = true;
    assert_int_equal(read(bell->fd, &rings, sizeof(rings)), sizeof(rings));
    bell->rung++;
    ring(bell);
    if (bell->rung % 8 == 0)
        vipd_host_call(bell->rig->loop);
    bell->inside = false;
}

/* Runs in the control loop: no worker is in on_bell, and each watch may be freed and made again. */
static void on_timer(void *ctx)
{
    struct rig *rig = ctx;
    bool all = true;

    for (unsigned i = 0; i < NICS; i++) {
        struct bell *bell = &rig->bell[i];

        assert_false(bell->inside);
        all = all && bell->rung > rig->seen[i];
    }
    if (all) {
        /* Each bell has rung again, so its worker has taken a turn: vipd must count as alive. */
        if (++rig->rounds % 4 == 0)
            assert_true(vipd_host_alive(rig->loop));
        for (unsigned i = 0; i < NICS; i++) {
            struct bell *bell = &rig->bell[i];

            rig->seen[i] = bell->rung;
            vipd_watch_free(bell->watch);
            bell->watch = vipd_watch_new(bell->loop, bell->fd, VIPD_READ, on_bell, bell);
            assert_non_null(bell->watch);
        }
    }
    if (rig->rounds >= ROUNDS) {
        rig->stopped_s = now_s();
        vipd_host_stop(rig->loop);
    } else {
        vipd_timer_start(rig->timer, 100000);
    }
}

static bool on_between(void *ctx, bool worked)
{
    struct rig *rig = ctx;

    for (unsigned i = 0; i < NICS; i++)
        assert_false(rig->bell[i].inside);
    (void)worked;
    rig->between++;
    return false;
}

static void rig_nic(struct rig *rig, struct bell *bell)
{
    struct nic_config config = {.name = "test",
                                .epoch = 1,
                                .seed = 1,
                                .vi_max = 4,
                                .cq_max = 4,
                                .cm = {.backlog_max = 4,
                                       .retry_ns = 1000000,
                                       .retry_max_ns = 1000000,
                                       .accept_timeout_ns = 1000000000,
                                       .close_timeout_ns = 1000000000,
                                       .keepalive_ns = 1000000000,
                                       .peer_dead_ns = 4000000000,
                                       .verify_all = true}};
    struct link *link;

    bell->rig = rig;
    assert_int_equal(link_loop_open(&link), 0);
    assert_int_equal(nic_open(&config, link, vipd_loop_now(rig->loop), &bell->nic), 0);
    assert_int_equal(vipd_host_add_nic(rig->loop, bell->nic, &bell->loop), 0);
    bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bell->watch = vipd_watch_new(bell->loop, bell->fd, VIPD_READ, on_bell, bell);
    assert_non_null(bell->watch);
    ring(bell);
}

/* Run until each bell has rung in ROUNDS rounds. Returns the statistics of the loops. */
static struct vipd_loop_stats run(struct rig *rig, unsigned workers, enum vipd_wait wait)
{
    const struct vipd_host_config host = {.wait = wait,
                                          .spin_ns = 50000,
                                          .cpus = 2,
                                          .workers = workers,
                                          .between = on_between,
                                          .ctx = rig};
    struct vipd_loop_stats stats;

    assert_int_equal(vipd_host_new(&host, &rig->loop), 0);
    for (unsigned i = 0; i < NICS; i++)
        rig_nic(rig, &rig->bell[i]);
    rig->timer = vipd_timer_new(rig->loop, on_timer, rig);
    assert_non_null(rig->timer);
    vipd_timer_start(rig->timer, 100000);
    assert_int_equal(vipd_host_run(rig->loop), 0);
    assert_true(now_s() - rig->stopped_s < STOP_S);
    vipd_loop_stats(rig->loop, &stats);
    vipd_host_drop_nics(rig->loop);
    for (unsigned i = 0; i < NICS; i++) {
        vipd_watch_free(rig->bell[i].watch);
        close(rig->bell[i].fd);
        nic_close(rig->bell[i].nic, vipd_loop_now(rig->loop));
    }
    vipd_timer_free(rig->timer);
    vipd_host_free(rig->loop);
    return stats;
}

static void test_nics_stand_still(void **state)
{
    static const enum vipd_wait waits[] = {VIPD_WAIT_ADAPTIVE, VIPD_WAIT_SPIN, VIPD_WAIT_BLOCK};

    (void)state;
    for (unsigned i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        struct rig rig = {0};
        struct vipd_loop_stats stats = run(&rig, WORKERS, waits[i]);

        assert_int_equal(stats.engines, WORKERS);
        assert_true(stats.halts >= ROUNDS);
        assert_true(rig.between >= ROUNDS);
        /* The NICs are given to the workers in turn. */
        assert_ptr_not_equal(rig.bell[0].loop, rig.loop);
        assert_ptr_not_equal(rig.bell[0].loop, rig.bell[1].loop);
        assert_ptr_equal(rig.bell[0].loop, rig.bell[2].loop);
    }
}

static void test_without_workers(void **state)
{
    struct rig rig = {0};
    struct vipd_loop_stats stats = run(&rig, 0, VIPD_WAIT_ADAPTIVE);

    (void)state;
    assert_int_equal(stats.engines, 0);
    assert_int_equal(stats.halts, 0);
    assert_ptr_equal(rig.bell[2].loop, rig.loop);
}

/* The stop arrives at any moment of a worker's work. run() checks how long the stop takes. */
static void test_stops_at_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < STOPS; i++) {
        struct rig rig = {.rounds = ROUNDS - 1 - i % 3};

        (void)run(&rig, WORKERS, VIPD_WAIT_BLOCK);
    }
}

/* Stop an idle vipd, whose threads take few turns: the passing of time causes no turn. */
static void on_last_timer(void *ctx)
{
    struct rig *rig = ctx;

    vipd_host_stop(rig->loop);
}

static void test_idle_workers_sleep(void **state)
{
    struct rig rig = {0};
    const struct vipd_host_config host = {
        .wait = VIPD_WAIT_BLOCK, .cpus = 2, .workers = WORKERS, .between = on_between, .ctx = &rig};
    struct vipd_loop_stats stats;

    (void)state;
    assert_int_equal(vipd_host_new(&host, &rig.loop), 0);
    rig.timer = vipd_timer_new(rig.loop, on_last_timer, &rig);
    vipd_timer_start(rig.timer, 100000000);
    assert_int_equal(vipd_host_run(rig.loop), 0);
    vipd_loop_stats(rig.loop, &stats);
    assert_true(stats.turns <= 8 * WORKERS);
    vipd_timer_free(rig.timer);
    vipd_host_free(rig.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock_takes_turns),   cmocka_unit_test(test_nics_stand_still),
        cmocka_unit_test(test_without_workers),    cmocka_unit_test(test_stops_at_once),
        cmocka_unit_test(test_idle_workers_sleep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
