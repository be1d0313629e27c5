/* The loop without NICs: watches, timers, the three kinds of waiting, stopping. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/crowd.h"
#include "vipd/host.h"
#include "vipd/poll_gap.h"

/* What the callbacks of one test use and record. */
struct probe {
    struct vipd_loop *loop;
    struct vipd_watch *watch;
    struct vipd_timer *timer;
    int fd;
    unsigned watched, timed, between, idle_turns;
    uint64_t timed_ns;
    unsigned stop_after_idle; /* turns until the loop stops; 0: no stop */
};

static bool on_between(void *ctx, bool worked)
{
    struct probe *probe = ctx;

    assert_false(worked); /* without NICs there is no work */
    probe->between++;
    if (++probe->idle_turns == probe->stop_after_idle)
        vipd_host_stop(probe->loop);
    return false;
}

static void on_watch(void *ctx, unsigned events)
{
    struct probe *probe = ctx;
    uint64_t value;

    assert_int_equal(events, VIPD_READ);
    assert_int_equal(read(probe->fd, &value, sizeof(value)), sizeof(value));
    probe->watched++;
    /* A callback may free its own watch. */
    vipd_watch_free(probe->watch);
    probe->watch = NULL;
}

static void on_timer(void *ctx)
{
    struct probe *probe = ctx;

    probe->timed++;
    probe->timed_ns = vipd_loop_now(probe->loop);
    vipd_host_stop(probe->loop);
}

static void begin(struct probe *probe, enum vipd_wait wait, uint64_t spin_ns)
{
    struct vipd_host_config config = {
        .wait = wait, .spin_ns = spin_ns, .cpus = 2, .between = on_between, .ctx = probe};

    *probe = (struct probe){0};
    assert_int_equal(vipd_host_new(&config, &probe->loop), 0);
    probe->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    probe->watch = vipd_watch_new(probe->loop, probe->fd, VIPD_READ, on_watch, probe);
    probe->timer = vipd_timer_new(probe->loop, on_timer, probe);
    assert_non_null(probe->watch);
    assert_non_null(probe->timer);
}

static void end(struct probe *probe, struct vipd_loop_stats *ret)
{
    vipd_loop_stats(probe->loop, ret);
    vipd_watch_free(probe->watch);
    vipd_timer_free(probe->timer);
    close(probe->fd);
    vipd_host_free(probe->loop);
}

/* Run a loop until a timer ends it after `after_ns`. Returns the loop's statistics. */
static struct vipd_loop_stats run_for(enum vipd_wait wait, uint64_t spin_ns, uint64_t after_ns)
{
    struct vipd_loop_stats stats;
    struct probe probe;
    uint64_t one = 1, started;

    begin(&probe, wait, spin_ns);
    assert_int_equal(write(probe.fd, &one, sizeof(one)), sizeof(one));
    started = vipd_loop_now(probe.loop);
    vipd_timer_start(probe.timer, after_ns);
    assert_int_equal(vipd_host_run(probe.loop), 0);
    assert_int_equal(probe.watched, 1);
    assert_int_equal(probe.timed, 1);
    assert_true(probe.timed_ns - started >= after_ns - 1000000);
    end(&probe, &stats);
    assert_int_equal(stats.turns, probe.between);
    assert_int_equal(stats.busy, 0);
    return stats;
}

static void test_every_way_of_waiting(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        enum vipd_wait wait = i == 0 ? VIPD_WAIT_ADAPTIVE : VIPD_WAIT_BLOCK;
        struct vipd_loop_stats stats = {0};

        /* On a busy machine this thread may get the processor only when the timer is due. Then the
         * loop does not sleep: try a longer timer. */
        for (uint64_t after_ns = 20000000; stats.sleeps == 0; after_ns *= 4) {
            assert_true(after_ns < 60000000000ull);
            stats = run_for(wait, 50000, after_ns);
        }
        if (wait == VIPD_WAIT_BLOCK)
            assert_int_equal(stats.spins, 0);
    }
    assert_int_equal(run_for(VIPD_WAIT_SPIN, 50000, 20000000).sleeps, 0);
}

static unsigned yield_us; /* each call of sched_yield takes at least this time */

/* In place of the C library's. */
int sched_yield(void)
{
    usleep(yield_us);
    return 0;
}

/* A busy process has the processor after each yield: the loop sleeps instead of polling. */
static void test_no_polls_beside_a_busy_process(void **state)
{
    struct vipd_loop_stats stats = {0};

    (void)state;
    yield_us = 2 * VIP_YIELD_LONG_NS / 1000;
    for (uint64_t after_ns = 50000000; stats.sleeps == 0; after_ns *= 4) {
        assert_true(after_ns < 60000000000ull);
        stats = run_for(VIPD_WAIT_ADAPTIVE, UINT64_MAX / 2, after_ns);
    }
    assert_int_equal(run_for(VIPD_WAIT_SPIN, 0, 50000000).sleeps, 0);
    yield_us = 0;
}

/* An idle loop that blocks takes a turn for each event. The passing of time causes no turn, so the
 * loop takes only a few turns here. */
static void test_no_turn_without_reason(void **state)
{
    struct vipd_loop_stats stats;
    struct probe probe;

    (void)state;
    begin(&probe, VIPD_WAIT_BLOCK, 0);
    vipd_timer_start(probe.timer, 100000000);
    assert_int_equal(vipd_host_run(probe.loop), 0);
    end(&probe, &stats);
    assert_true(stats.turns <= 8);
}

static void on_slow_watch(void *ctx, unsigned events)
{
    on_watch(ctx, events);
    usleep(150000);
}

/* vipd logs a long look at the descriptors, with an account that begins before the look. */
static void test_the_account_of_a_long_look(void **state)
{
    int log = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
    unsigned long long gap_ms, of_ms;
    struct vipd_loop_stats stats;
    struct probe probe;
    uint64_t one = 1;
    char text[4096];
    const char *at;
    ssize_t n;

    (void)state;
    begin(&probe, VIPD_WAIT_SPIN, 0); /* the loop never sleeps and looks again and again */
    vipd_watch_free(probe.watch);
    probe.watch = vipd_watch_new(probe.loop, probe.fd, VIPD_READ, on_slow_watch, &probe);
    assert_int_equal(write(probe.fd, &one, sizeof(one)), sizeof(one));
    vipd_timer_start(probe.timer, 200000000);
    assert_true(log >= 0 && before >= 0 && dup2(log, STDERR_FILENO) >= 0);
    assert_int_equal(vipd_host_run(probe.loop), 0);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    end(&probe, &stats);
    n = pread(log, text, sizeof(text) - 1, 0);
    close(log);
    assert_true(n > 0);
    text[n] = '\0';
    at = strstr(text, "no messages were moved for ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "no messages were moved for %llu ms", &gap_ms), 1);
    at = strstr(at, "in the last ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "in the last %llu ms", &of_ms), 1);
    assert_true(gap_ms >= 150);
    assert_true(of_ms >= gap_ms - 1); /* both times are rounded down to whole ms */
}

static void test_paused_watch(void **state)
{
    struct vipd_loop_stats stats;
    struct probe probe;
    uint64_t one = 1;

    (void)state;
    begin(&probe, VIPD_WAIT_BLOCK, 0);
    vipd_watch_set(probe.watch, 0);
    assert_int_equal(write(probe.fd, &one, sizeof(one)), sizeof(one));
    vipd_timer_start(probe.timer, 5000000);
    assert_int_equal(vipd_host_run(probe.loop), 0);
    assert_int_equal(probe.watched, 0);
    end(&probe, &stats);

    begin(&probe, VIPD_WAIT_BLOCK, 0);
    vipd_watch_set(probe.watch, 0);
    vipd_watch_set(probe.watch, VIPD_READ);
    vipd_watch_set(probe.watch, VIPD_READ);
    assert_int_equal(write(probe.fd, &one, sizeof(one)), sizeof(one));
    vipd_timer_start(probe.timer, 5000000);
    assert_int_equal(vipd_host_run(probe.loop), 0);
    assert_int_equal(probe.watched, 1);
    end(&probe, &stats);
}

static void test_stop(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT};
    struct vipd_loop_stats stats;
    struct probe probe;

    (void)state;
    begin(&probe, VIPD_WAIT_SPIN, 0);
    probe.stop_after_idle = 1000;
    assert_int_equal(vipd_host_run(probe.loop), 0);
    end(&probe, &stats);
    assert_int_equal(stats.turns, 1000);

    for (unsigned i = 0; i < 2; i++) {
        begin(&probe, VIPD_WAIT_BLOCK, 0);
        assert_int_equal(raise(signals[i]), 0);
        assert_int_equal(vipd_host_run(probe.loop), 0);
        assert_int_equal(probe.timed, 0);
        end(&probe, &stats);
    }
    vipd_host_free(NULL);
    vipd_watch_free(NULL);
    vipd_timer_free(NULL);
}

/* If NICs have traffic, a request waits longer than if the loop has no work. */
static void test_gap_between_looks(void **state)
{
    const uint64_t moving = 1000, quiet = 30000, long_ago = 1000000000;

    assert_int_equal(poll_gap_ns(300, 1, moving), POLL_EVERY_NS);
    assert_int_equal(poll_gap_ns(300, 1, quiet), POLL_QUIET_NS);
    assert_int_equal(poll_gap_ns(300, 1, long_ago), POLL_QUIET_NS);
    /* Looks get a fifth of the time. If many descriptors have events, looks get an eleventh; if the
     * NICs have had no work for long, a half. */
    assert_int_equal(poll_gap_ns(20000, 1, moving), 4 * 20000);
    assert_int_equal(poll_gap_ns(20000, 1, quiet), 4 * 20000);
    assert_int_equal(poll_gap_ns(20000, 4, quiet), 10 * 20000);
    assert_int_equal(poll_gap_ns(20000, 4, long_ago), 20000);
    assert_int_equal(poll_gap_ns(3000000000, 1, moving), POLL_GAP_NS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_of_waiting),
        cmocka_unit_test(test_no_polls_beside_a_busy_process),
        cmocka_unit_test(test_no_turn_without_reason),
        cmocka_unit_test(test_the_account_of_a_long_look),
        cmocka_unit_test(test_paused_watch),
        cmocka_unit_test(test_gap_between_looks),
        cmocka_unit_test(test_stop),
    };

    return cmocka_run_group_tests_name("vipd_host", tests, NULL, NULL);
}
