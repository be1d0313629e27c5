/*
 * The three shared rings. The two ends of a ring run at once in two threads. The thread sanitizer
 * checks the order of stores. Also the rule for sleeping: publish the sleep, full barrier, read the
 * ring again.
 *
 * Each test hands over a fixed number of entries and ends when all have arrived. Its result does
 * not depend on time.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/comps.h"
#include "proto/ring.h"
#include "proto/status.h"

#define HANDOVERS 200000u

/* Positions start just before their wrap, so that every test includes the wrap. */
#define FIRST (0u - 1000u)

/* The variables that both threads share in addition to the ring. */
struct bench {
    void *memory;      /* the app-writes or the vipd-writes segment */
    uint32_t consumed; /* position up to which the reader has read (like sq_cons) */
    uint32_t asleep;   /* the reader has published that it sleeps */
    uint32_t doorbell; /* number of wake-ups */
    unsigned wrong;    /* number of entries with wrong contents */
};

static uint64_t mix(uint32_t n)
{
    uint64_t x = n * 0x9E3779B97F4A7C15ull;

    return x ^ (x >> 29);
}

/* Wait until the writer may use the slot at `position` again. */
static void await_room(struct bench *bench, uint32_t position, uint32_t slots)
{
    while (position - __atomic_load_n(&bench->consumed, __ATOMIC_ACQUIRE) >= slots)
        sched_yield();
}

/* Make the ring at this offset look as if an earlier lap was written. Real rings begin at position
 * 0. Here, at the position whose stamp is 0, a slot of zeros would look written. */
static void use(struct bench *bench, uint64_t offset, size_t bytes)
{
    memset((char *)bench->memory + offset, 0xA5, bytes);
}

static void begin(struct bench *bench, size_t bytes)
{
    *bench = (struct bench){.memory = calloc(1, bytes), .consumed = FIRST};
    assert_non_null(bench->memory);
}

static void run(struct bench *bench, void *(*writer)(void *), void (*reader)(struct bench *))
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, writer, bench), 0);
    reader(bench);
    pthread_join(thread, NULL);
    free(bench->memory);
    assert_int_equal(bench->wrong, 0);
}

/* ---- submission ring ------------------------------------------------------------------- */

static void *post_all(void *arg)
{
    struct bench *bench = arg;
    struct vip_sq_slot *ring = vip_app_sq(bench->memory);

    for (uint32_t i = 0; i < HANDOVERS; i++) {
        struct vip_sq_slot slot = {.vi = (uint16_t)i, .kind = VIP_SQ_SEND, .imm = mix(i)};

        slot.seg[0].addr = ~mix(i);
        slot.seg[1].len = i;
        await_room(bench, FIRST + i, VIP_SQ_SLOTS);
        vip_sq_write(ring, FIRST + i, &slot);
        /* The writer's part of the rule for sleeping: full barrier, then read `asleep`. */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(&bench->asleep, __ATOMIC_RELAXED))
            __atomic_store_n(&bench->doorbell, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void check_slot(struct bench *bench, uint32_t i, const struct vip_sq_slot *slot)
{
    if (slot->stamp != FIRST + i + 1 || slot->vi != (uint16_t)i || slot->imm != mix(i) ||
        slot->seg[0].addr != ~mix(i) || slot->seg[1].len != i)
        bench->wrong++;
}

static void take_all(struct bench *bench)
{
    const struct vip_sq_slot *ring = vip_app_sq(bench->memory);
    struct vip_sq_slot slot;

    for (uint32_t i = 0; i < HANDOVERS; i++) {
        while (!vip_sq_read(ring, FIRST + i, &slot))
            sched_yield();
        check_slot(bench, i, &slot);
        __atomic_store_n(&bench->consumed, FIRST + i + 1, __ATOMIC_RELEASE);
    }
}

static void test_submissions_arrive_whole_and_in_order(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench, VIP_APP_BYTES);
    use(&bench, 0, VIP_APP_BYTES);
    run(&bench, post_all, take_all);
}

/* The reader sleeps whenever it can, and only a doorbell wakes it. A lost doorbell hangs the
 * test. */
static void take_all_asleep(struct bench *bench)
{
    const struct vip_sq_slot *ring = vip_app_sq(bench->memory);
    struct vip_sq_slot slot;

    for (uint32_t i = 0; i < HANDOVERS; i++) {
        while (!vip_sq_read(ring, FIRST + i, &slot)) {
            __atomic_store_n(&bench->asleep, 1, __ATOMIC_RELAXED);
            __atomic_thread_fence(__ATOMIC_SEQ_CST);
            if (!vip_sq_read(ring, FIRST + i, &slot))
                while (!__atomic_exchange_n(&bench->doorbell, 0, __ATOMIC_ACQUIRE))
                    sched_yield();
            __atomic_store_n(&bench->asleep, 0, __ATOMIC_RELAXED);
        }
        check_slot(bench, i, &slot);
        __atomic_store_n(&bench->consumed, FIRST + i + 1, __ATOMIC_RELEASE);
    }
}

static void test_no_wake_up_is_lost(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench, VIP_APP_BYTES);
    use(&bench, 0, VIP_APP_BYTES);
    run(&bench, post_all, take_all_asleep);
}

/* ---- completion ring ------------------------------------------------------------------- */

static void *complete_all(void *arg)
{
    struct bench *bench = arg;
    struct vip_comps_out comps;

    vip_comps_begin(&comps, bench->memory, 3, VIP_Q_RECV, FIRST);
    for (uint32_t i = 0; i < HANDOVERS; i++) {
        struct vip_comp *to, comp = {.status = i, .length = ~i, .imm = mix(i)};

        await_room(bench, FIRST + i, VIP_DESC_PER_QUEUE_MAX);
        to = vip_comps_slot(&comps, FIRST + i);
        vip_comp_fill(to, FIRST + i, &comp);
        vip_comp_stamp(to, FIRST + i);
    }
    return NULL;
}

static void reap_all(struct bench *bench)
{
    struct vip_comps_in comps;
    struct vip_comp comp;

    vip_comps_open(&comps, bench->memory, 3, VIP_Q_RECV);

    for (uint32_t i = 0; i < HANDOVERS; i++) {
        while (!vip_comps_read(&comps, FIRST + i, FIRST + i, &comp))
            sched_yield();
        if (comp.status != i || comp.length != ~i || comp.imm != mix(i) || comp.number != FIRST + i)
            bench->wrong++;
        __atomic_store_n(&bench->consumed, FIRST + i + 1, __ATOMIC_RELEASE);
    }
}

static void test_completions_arrive_whole_and_in_order(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench, VIP_VIPD_BYTES);
    use(&bench, vip_comp_short_off(3, VIP_Q_RECV), VIP_COMP_UNIT);
    use(&bench, vip_comp_long_off(3, VIP_Q_RECV), VIP_COMP_RING_BYTES);
    run(&bench, complete_all, reap_all);
}

/* Write a completion of queue 3 at `position`, as vipd does. */
static void complete_one(struct vip_comps_out *comps, uint32_t position)
{
    struct vip_comp *to = vip_comps_slot(comps, position), comp = {.status = position};

    vip_comp_fill(to, position, &comp);
    vip_comp_stamp(to, position);
}

/* A reader that looks ahead finds completions of both rings, in any order. */
static void test_completions_ahead_over_both_rings(void **state)
{
    struct vip_comps_out out;
    struct vip_comps_in in;
    struct vip_comp comp;
    struct bench bench;

    (void)state;
    begin(&bench, VIP_VIPD_BYTES);
    vip_comps_begin(&out, bench.memory, 3, VIP_Q_SEND, 100);
    vip_comps_open(&in, bench.memory, 3, VIP_Q_SEND);
    for (uint32_t i = 0; i < 20; i++)
        complete_one(&out, 100 + i);
    for (uint32_t oldest = 0; oldest < 20; oldest++) {
        for (uint32_t i = 20; i-- > oldest;) {
            assert_true(vip_comps_read(&in, 100 + oldest, 100 + i, &comp));
            assert_int_equal(comp.status, 100 + i);
        }
        assert_false(vip_comps_read(&in, 100 + oldest, 120, &comp));
    }
    free(bench.memory);
}

/* The next vipd finds the ring and the position of each completion, whatever was stored last. */
static void test_completions_of_an_earlier_life(void **state)
{
    struct vip_comps_out out, next;
    struct vip_comps_in in;
    struct vip_comp comp;
    struct bench bench;

    (void)state;
    begin(&bench, VIP_VIPD_BYTES);
    vip_comps_begin(&out, bench.memory, 3, VIP_Q_SEND, 0);
    vip_comps_open(&in, bench.memory, 3, VIP_Q_SEND);
    for (uint32_t i = 0; i < 2000; i++) {
        vip_comps_resume(&next, bench.memory, 3, VIP_Q_SEND, i);
        assert_int_equal(vip_comps_shown(&next, i ? i - 1 : 0), i);
        assert_memory_equal(&next, &out, sizeof(out));
        if (i % 4 == 0) { /* killed before it wrote the stamp; at 8 the ring has also changed */
            (void)vip_comps_slot(&out, i);
            vip_comps_resume(&next, bench.memory, 3, VIP_Q_SEND, i);
            assert_int_equal(vip_comps_shown(&next, i), i);
        }
        complete_one(i % 2 ? &out : &next, i);
        out = i % 2 ? out : next;
        assert_true(vip_comps_read(&in, i, i, &comp));
    }
    free(bench.memory);
}

/* vip_comps_show adds a missing stamp, in either ring. A completion with a stamp stays as it is. */
static void test_missing_stamps(void **state)
{
    struct vip_comps_out out, next;
    struct vip_comps_in in;
    struct vip_comp comp, *to;
    struct bench bench;

    (void)state;
    begin(&bench, VIP_VIPD_BYTES);
    vip_comps_begin(&out, bench.memory, 3, VIP_Q_RECV, 0);
    vip_comps_open(&in, bench.memory, 3, VIP_Q_RECV);
    for (uint32_t i = 0; i < 1100; i++) {
        to = vip_comps_slot(&out, i);
        vip_comp_fill(to, i, &(struct vip_comp){.status = i});
        assert_false(vip_comps_read(&in, i, i, &comp));
        vip_comps_resume(&next, bench.memory, 3, VIP_Q_RECV, i + 1);
        vip_comps_show(&next, i);
        assert_true(vip_comps_read(&in, i, i, &comp));
        assert_true(comp.status == i && comp.number == i);
        vip_comps_show(&next, i);
        assert_true(vip_comps_read(&in, i, i, &comp));
        out = next;
    }
    free(bench.memory);
}

/* A VI gets the number of an earlier VI, whose stamps are still in the rings. */
static void test_number_used_again(void **state)
{
    struct vip_comps_out out;
    struct vip_comps_in in;
    struct vip_comp comp;
    struct bench bench;

    (void)state;
    begin(&bench, VIP_VIPD_BYTES);
    /* The last completions of the earlier VI in the short ring are 2^32 - 4 completions old. */
    vip_comps_begin(&out, bench.memory, 3, VIP_Q_SEND, 100);
    for (uint32_t i = 0; i < 8; i++)
        complete_one(&out, 100 + i);
    vip_comps_begin(&out, bench.memory, 3, VIP_Q_SEND, 96);
    vip_comps_open(&in, bench.memory, 3, VIP_Q_SEND);
    for (uint32_t i = 0; i < 20; i++) {
        assert_false(vip_comps_read(&in, 96 + i, 96 + i, &comp));
        complete_one(&out, 96 + i);
        assert_true(vip_comps_read(&in, 96 + i, 96 + i, &comp));
    }
    free(bench.memory);
}

static void test_words_of_no_vipd(void **state)
{
    struct vip_comps_out next;
    struct bench bench;

    (void)state;
    begin(&bench, VIP_VIPD_BYTES);
    /* No vipd can have written this value, so the rings begin from the start. */
    vip_vipd_vi(bench.memory, 3)->at[VIP_Q_SEND].where = 0xffffffff;
    vip_comps_resume(&next, bench.memory, 3, VIP_Q_SEND, 5000);
    assert_int_equal(next.slots, VIP_COMP_SHORT);
    assert_int_equal(next.since, 5000);
    free(bench.memory);
}

/* ---- completion queue ------------------------------------------------------------------ */

static void *enqueue_all(void *arg)
{
    struct bench *bench = arg;

    for (uint32_t i = 0; i < HANDOVERS; i++) {
        await_room(bench, FIRST + i, VIP_CQ_RING_SLOTS);
        vip_cq_write(bench->memory, FIRST + i, (uint16_t)mix(i), i & 1, (uint8_t)i);
    }
    return NULL;
}

static void dequeue_all(struct bench *bench)
{
    struct vip_cqe entry;

    for (uint32_t i = 0; i < HANDOVERS; i++) {
        while (!vip_cq_read(bench->memory, FIRST + i, &entry))
            sched_yield();
        if (entry.vi != (uint16_t)mix(i) || entry.queue != (i & 1) || entry.gen != (uint8_t)i)
            bench->wrong++;
        __atomic_store_n(&bench->consumed, FIRST + i + 1, __ATOMIC_RELEASE);
    }
}

static void test_cq_entries_arrive_whole_and_in_order(void **state)
{
    struct bench bench;

    (void)state;
    begin(&bench, VIP_CQ_RING_SLOTS * 8u);
    use(&bench, 0, VIP_CQ_RING_SLOTS * 8u);
    run(&bench, enqueue_all, dequeue_all);
}

/* ---- what a reader must not take ------------------------------------------------------- */

static void test_slots_of_other_laps_are_not_taken(void **state)
{
    static struct vip_sq_slot ring[VIP_SQ_SLOTS];
    struct vip_sq_slot slot = {.vi = 7}, got;

    (void)state;
    assert_false(vip_sq_read(ring, 0, &got)); /* fresh memory is empty */
    vip_sq_write(ring, 5, &slot);
    assert_true(vip_sq_read(ring, 5, &got));
    assert_int_equal(got.vi, 7);
    assert_false(vip_sq_read(ring, 5 + VIP_SQ_SLOTS, &got)); /* the next lap */
    assert_false(vip_sq_read(ring, 5 - VIP_SQ_SLOTS, &got)); /* the lap before */
    assert_false(vip_sq_read(ring, 6, &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_submissions_arrive_whole_and_in_order),
        cmocka_unit_test(test_no_wake_up_is_lost),
        cmocka_unit_test(test_completions_arrive_whole_and_in_order),
        cmocka_unit_test(test_completions_ahead_over_both_rings),
        cmocka_unit_test(test_completions_of_an_earlier_life),
        cmocka_unit_test(test_missing_stamps),
        cmocka_unit_test(test_number_used_again),
        cmocka_unit_test(test_words_of_no_vipd),
        cmocka_unit_test(test_cq_entries_arrive_whole_and_in_order),
        cmocka_unit_test(test_slots_of_other_laps_are_not_taken),
    };

    return cmocka_run_group_tests_name("proto_ring", tests, NULL, NULL);
}
