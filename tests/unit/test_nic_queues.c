/*
 * VIs, completion queues and sleeping in vipd/nic: reused numbers, the backlog of a CQ that the
 * program does not read, wake-ups of programs and of vipd.
 */
#define RIG_VIS 512

#include "unit/nic_rig.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "vipd/nic/state.h"

static uint32_t cq_new(struct rig_app *app, uint64_t entries)
{
    uint32_t cq, position;
    char why[128];

    assert_int_equal(nic_cq_create(app->session, entries, &cq, &position, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    app->cq_position[cq] = position;
    vip_store32_release(&rig_cq_words(app, cq)->cons, position);
    return cq;
}

/* Post `count` receive descriptors, then disconnect the VI, so that vipd flushes them. */
static void flush_receives(struct rig_app *app, uint16_t vi, const struct rig_mem *mem,
                           unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        rig_post_recv(app, vi, rig_seg(mem, 0, 64));
    assert_int_equal(nic_vi_disconnect(app->session, vi, rig_now), VIP_RC_SUCCESS);
}

static void reap(struct rig_app *app, uint16_t vi, unsigned count)
{
    struct vip_comp comp;

    for (unsigned i = 0; i < count; i++) {
        assert_true(rig_done(app, vi, VIP_Q_RECV, &comp));
        assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_RECEIVE | VIP_ST_DESC_FLUSHED_ERROR);
    }
    assert_false(rig_done(app, vi, VIP_Q_RECV, &comp));
}

/* More completions than a CQ ring has slots: none is lost, and the order is kept. */
static void test_cq_backlog(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint32_t cq = cq_new(app, 1024);
    uint16_t vi[20];
    struct vip_cqe entry;
    unsigned got = 0;
    uint64_t turns;

    for (unsigned i = 0; i < 20; i++)
        vi[i] = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    for (unsigned i = 0; i < 20; i++)
        flush_receives(app, vi[i], &mem, 1024);
    assert_int_equal(rig_counter(rig_nics[0], "cq_backlogged"), 20 * 1024 - VIP_CQ_RING_SLOTS);
    assert_int_equal(rig_counter(rig_nics[0], "cq_backlogs"), 1);
    assert_true(nic_deadline(rig_nics[0]) < rig_now + 2000000);
    /* While the program does not read the CQ, vipd looks for room less and less often. */
    turns = rig_counter(rig_nics[0], "turns");
    rig_pass(200000000);
    assert_true(rig_counter(rig_nics[0], "turns") - turns < 60);

    for (unsigned i = 0; i < 20; i++)
        reap(app, vi[i], 1024);
    while (got < 20 * 1024) {
        if (!rig_cq_done(app, cq, &entry)) {
            rig_pass(20000000);
            assert_true(rig_cq_done(app, cq, &entry));
        }
        assert_int_equal(entry.vi, vi[got / 1024]);
        assert_int_equal(entry.queue, VIP_Q_RECV);
        assert_int_equal(entry.gen, app->vi_gen[entry.vi]);
        got++;
    }
    assert_false(rig_cq_done(app, cq, &entry));
    assert_int_equal(rig_counter(rig_nics[0], "cq_backlogs"), 0);
    assert_int_equal(nic_cq_destroy(app->session, cq), VIP_RC_ERROR_RESOURCE);
    rig_mem_free(&mem);
}

/* The backlog of a destroyed VI disappears; the backlog of other VIs stays. */
static void test_cq_backlog_destroy(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint32_t cq = cq_new(app, 1024);
    uint16_t vi[19];
    struct vip_cqe entry;
    unsigned got[19] = {0};

    for (unsigned i = 0; i < 19; i++)
        vi[i] = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    for (unsigned i = 0; i < 19; i++)
        flush_receives(app, vi[i], &mem, 1000);
    assert_int_equal(nic_vi_destroy(app->session, vi[17], rig_now), VIP_RC_SUCCESS);
    for (unsigned i = 0; i < 18 * 1000; i++) {
        if (!rig_cq_done(app, cq, &entry)) {
            rig_pass(20000000);
            assert_true(rig_cq_done(app, cq, &entry));
        }
        for (unsigned v = 0; v < 19; v++)
            got[v] += vi[v] == entry.vi;
    }
    assert_false(rig_cq_done(app, cq, &entry));
    for (unsigned v = 0; v < 19; v++)
        assert_int_equal(got[v], v == 17 ? 0 : 1000);
    rig_mem_free(&mem);
}

/* A VI with entries in a backlog is destroyed, and its number is used again. vipd drops the old
 * entries, delivers the new ones, and frees the memory of the backlog. */
static void test_cq_backlog_reused(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint32_t cq = cq_new(app, 1024);
    uint16_t one = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq), other;
    struct vip_cqe entry;
    unsigned entries = 0, of_other = 0;

    other = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    for (unsigned i = 0; i < VIP_CQ_RING_SLOTS / 1000; i++) {
        flush_receives(app, one, &mem, 1000);
        reap(app, one, 1000);
    }
    flush_receives(app, one, &mem, 1000);
    flush_receives(app, other, &mem, 1000);
    assert_true(rig_counter(rig_nics[0], "segs_bytes") > 0);
    for (unsigned i = 0; i < 300; i++) { /* more often than the `gen` byte of an entry can count */
        assert_int_equal(nic_vi_destroy(app->session, one, rig_now), VIP_RC_SUCCESS);
        assert_int_equal(rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq), one);
    }
    flush_receives(app, one, &mem, 3);
    while (rig_cq_done(app, cq, &entry))
        entries++;
    assert_int_equal(entries, VIP_CQ_RING_SLOTS);
    rig_pass(20000000);
    for (entries = 0; rig_cq_done(app, cq, &entry); entries++) {
        of_other += entry.vi == other;
        assert_true(entry.vi == other || entries >= 1000);
    }
    assert_int_equal(of_other, 1000);
    assert_int_equal(entries, 1003);
    assert_int_equal(rig_counter(rig_nics[0], "segs_bytes"), 0);
    assert_int_equal(rig_counter(rig_nics[0], "cq_backlogs"), 0);
    rig_mem_free(&mem);
}

/* The backlogs of CQs use vipd's memory up to the limit of the user. */
static void test_cq_backlog_limit(void **state)
{
    struct nic *nic = rig_nic(0);
    struct rig_app *app = rig_app(nic);
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint32_t cq = cq_new(app, 1024);
    uint16_t vi[12];

    nic->config.kept_bytes_user = 10000;
    for (unsigned i = 0; i < 12; i++)
        vi[i] = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    for (unsigned i = 0; i < 20; i++)
        flush_receives(app, vi[i % 12], &mem, 1000);
    assert_int_equal(rig_wait_event(app, 'e').code, VIP_EC_VI_OVERRUN);
    assert_in_range(rig_counter(nic, "cq_backlogged"), 1000, 10000 / 8);
    assert_int_equal(rig_counter(nic, "cq_lost"),
                     20000 - VIP_CQ_RING_SLOTS - rig_counter(nic, "cq_backlogged"));
    assert_in_range(rig_counter(nic, "segs_bytes"), 1, 10000);
    /* The program reads the CQ once, then no more: it gets the error again. */
    assert_int_equal(app->event_count, 0);
    vip_store32_release(&rig_cq_words(app, cq)->cons,
                        vip_load32(&vip_vipd_cq(app->vipd, cq)->prod));
    rig_pass(20000000);
    nic->config.kept_bytes_user = 1;
    for (unsigned i = 0; i < 20; i++)
        flush_receives(app, vi[i % 12], &mem, 1000);
    assert_int_equal(rig_wait_event(app, 'e').code, VIP_EC_VI_OVERRUN);
    /* When the limit of reported errors is reached, vipd only counts this error. */
    vip_store32_release(&rig_cq_words(app, cq)->cons,
                        vip_load32(&vip_vipd_cq(app->vipd, cq)->prod));
    rig_pass(20000000);
    app->session->errors_ns = rig_now + 3600 * RIG_SECOND;
    for (unsigned i = 0; i < 20; i++)
        flush_receives(app, vi[i % 12], &mem, 1000);
    assert_int_equal(app->event_count, 0);
    assert_true(rig_counter(nic, "errors_untold") > 0);
    rig_mem_free(&mem);
}

/* Each reading of the clock advances it by dear_ns, the cost of moving entries out of a backlog. */
static uint64_t dear_looks, dear_ns;

static uint64_t dear_clock(void)
{
    return rig_now + dear_ns * dear_looks++;
}

/* The program reads many full CQs at once. Each turn moves some of the waiting entries. */
static void test_cq_backlogs_in_turns(void **state)
{
    enum { CQS = 16, MORE = 600 };
    struct rig_app *app;
    struct rig_mem mem;
    uint32_t cq[CQS];
    uint64_t waiting, before;
    unsigned turns = 0;

    dear_ns = 100000;
    rig_cost_clock = dear_clock;
    app = rig_app(rig_nic(0));
    mem = rig_mem(app, 4096, REGISTRY_SHARED);
    for (unsigned i = 0; i < CQS; i++) {
        uint16_t vi[17];

        cq[i] = cq_new(app, 1024);
        for (unsigned n = 0; n < 17; n++)
            vi[n] = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq[i]);
        for (unsigned n = 0; n < 17; n++)
            flush_receives(app, vi[n], &mem, n < 16 ? VIP_CQ_RING_SLOTS / 16 : MORE);
    }
    waiting = (uint64_t)CQS * MORE;
    assert_int_equal(rig_counter(rig_nics[0], "cq_backlogged"), waiting);
    for (unsigned i = 0; i < CQS; i++)
        vip_store32_release(&rig_cq_words(app, cq[i])->cons,
                            vip_load32(&vip_vipd_cq(app->vipd, cq[i])->prod));
    rig_now += RIG_SECOND;
    before = rig_counter(rig_nics[0], "cq_entries");
    for (uint64_t moved = 0; moved < waiting; turns++) {
        uint64_t now;

        dear_looks = 0;
        rig_now += RIG_STEP_NS;
        nic_turn(rig_nics[0], rig_now);
        now = rig_counter(rig_nics[0], "cq_entries") - before;
        assert_in_range(now - moved, turns < 20 ? 0 : 1, 12 * 256);
        moved = now;
        assert_true(turns < 1000);
    }
    assert_true(turns >= CQS * MORE / 256 / 12);
    assert_int_equal(rig_counter(rig_nics[0], "cq_backlogs"), 0);
    rig_cost_clock = NULL;
    rig_mem_free(&mem);
}

/* A VI with a long backlog is destroyed. vipd frees the blocks in portions, so that no request and
 * no turn is long. New entries can use these blocks. end: the session ends meanwhile, also in short
 * steps. */
static void backlog_in_portions(bool end)
{
    enum { ROUNDS = 100, BLOCK = 4096, PORTION = 32 };
    struct rig_app *app;
    struct rig_mem mem;
    uint16_t full[17], one;
    unsigned turns = 0, ends;
    uint64_t before;
    uint32_t cq;

    dear_ns = 1000000;
    rig_cost_clock = dear_clock;
    app = rig_app(rig_nic(0));
    rig_app(rig_nics[0]);
    mem = rig_mem(app, 4096, REGISTRY_SHARED);
    cq = cq_new(app, 1024);
    for (unsigned n = 0; n < 17; n++)
        full[n] = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    for (unsigned n = 0; n < 17; n++)
        flush_receives(app, full[n], &mem, n < 16 ? VIP_CQ_RING_SLOTS / 16 : 1);
    /* Entries of these destroyed VIs stay in the backlog, after the entry of VI full[16]. */
    for (unsigned i = 0; i < ROUNDS; i++) {
        one = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
        flush_receives(app, one, &mem, 1000);
        assert_int_equal(nic_vi_destroy(app->session, one, rig_now), VIP_RC_SUCCESS);
    }
    before = rig_counter(rig_nics[0], "segs_bytes");
    assert_in_range(before, ROUNDS * 1000 / 511 * BLOCK, UINT64_MAX);
    assert_int_equal(nic_vi_destroy(app->session, full[16], rig_now), VIP_RC_SUCCESS);
    assert_int_equal(rig_counter(rig_nics[0], "segs_bytes"), before);
    assert_int_equal(rig_counter(rig_nics[0], "cq_backlogs"), 0);
    assert_false(nic_try_sleep(rig_nics[0]));
    /* New entries get memory although the limit is reached. */
    rig_nics[0]->config.kept_bytes_user = before;
    one = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    flush_receives(app, one, &mem, 1000);
    assert_int_equal(rig_counter(rig_nics[0], "cq_lost"), 0);
    assert_int_equal(nic_vi_destroy(app->session, one, rig_now), VIP_RC_SUCCESS);
    for (bool gone = !end; !gone; turns++) {
        ends = 20;
        gone = nic_session_end(app->session, true, rig_now, &ends);
        assert_true(gone || ends == 0);
    }
    for (uint64_t now = before; !end && now > 0; turns++) {
        dear_looks = 0;
        rig_now += RIG_STEP_NS;
        nic_turn(rig_nics[0], rig_now);
        before = now;
        now = rig_counter(rig_nics[0], "segs_bytes");
        assert_in_range(before - now, 1, 4 * PORTION * BLOCK);
    }
    assert_in_range(turns, end ? 2 : ROUNDS * 1000 / 511 / (4 * PORTION) + 1, 100);
    rig_cost_clock = NULL;
    rig_mem_free(&mem);
    if (end)
        rig_app_forget(app);
}

static void test_cq_backlog_in_portions(void **state)
{
    backlog_in_portions(false);
    rig_teardown(state);
    backlog_in_portions(true);
}

static void test_cq_never_read(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint32_t cq = cq_new(app, 1024);
    uint16_t vi = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);

    /* A hostile `cons` is ahead of all written entries. It makes no room. */
    vip_store32_release(&rig_cq_words(app, cq)->cons, 0x80000000u);
    for (unsigned i = 0; i < 30; i++)
        flush_receives(app, vi, &mem, 1000);
    assert_int_equal(rig_wait_event(app, 'e').code, VIP_EC_VI_OVERRUN);
    assert_int_equal(app->event_count, 0);
    assert_int_equal(rig_counter(rig_nics[0], "cq_lost"),
                     30000 - VIP_CQ_RING_SLOTS - 2 * VIP_DESC_PER_QUEUE_MAX);
    rig_mem_free(&mem);
}

static void test_vi_numbers(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    struct nic_vi_args args = {.attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 1000},
                               .send_cq = -1,
                               .recv_cq = -1};
    struct nic_session_view view;
    struct nic_vi_created created;
    struct vip_comp comp;
    uint16_t vi = rig_vi(app, VIP_LVL_DELIVERY), again;
    uint32_t old_gen = app->vi_gen[vi];
    char why[128] = "";

    flush_receives(app, vi, &mem, 5);
    assert_int_equal(nic_vi_destroy(app->session, vi, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(nic_vi_destroy(app->session, vi, rig_now), VIP_RC_INVALID_PARAMETER);
    again = rig_vi(app, VIP_LVL_DELIVERY);
    assert_int_equal(again, vi);
    assert_int_equal(app->comp_position[vi][VIP_Q_RECV], 5);
    assert_int_not_equal(app->vi_gen[vi], old_gen);

    /* vipd drops a descriptor that has the old generation. */
    app->vi_gen[vi]--;
    rig_post_recv(app, vi, rig_seg(&mem, 0, 64));
    app->vi_gen[vi]++;
    rig_post_recv(app, 40, rig_seg(&mem, 0, 64));
    rig_step();
    assert_int_equal(rig_counter(rig_nics[0], "post_bad_gen"), 1);
    assert_int_equal(rig_counter(rig_nics[0], "post_bad_vi"), 1);
    assert_false(nic_session_broken(app->session));
    assert_int_equal(nic_vi_destroy(app->session, vi, rig_now), VIP_RC_SUCCESS);
    assert_false(rig_done(app, vi, VIP_Q_RECV, &comp));

    for (unsigned i = 0; i < RIG_VIS; i++)
        rig_vi(app, VIP_LVL_DELIVERY);
    assert_int_equal(nic_vi_create(app->session, &args, &created, why, sizeof(why)),
                     VIP_RC_ERROR_RESOURCE);
    assert_non_null(strstr(why, "512"));
    nic_session_view(app->session, &view);
    assert_int_equal(view.vis, RIG_VIS);
    rig_mem_free(&mem);
}

static void test_bad_arguments(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct nic_vi_args good = {.attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 1000},
                               .send_cq = -1,
                               .recv_cq = -1};
    struct nic_vi_args bad = good;
    struct nic_vi_created created;
    uint32_t cq, position, ptag;
    char why[128] = "";

    bad.recv_cq = 3;
    assert_int_equal(nic_vi_create(app->session, &bad, &created, why, sizeof(why)),
                     VIP_RC_INVALID_PARAMETER);
    bad.recv_cq = -2;
    assert_int_equal(nic_vi_create(app->session, &bad, &created, why, sizeof(why)),
                     VIP_RC_INVALID_PARAMETER);
    bad = good;
    bad.ptag = 99;
    assert_int_equal(nic_vi_create(app->session, &bad, &created, why, sizeof(why)),
                     VIP_RC_INVALID_PTAG);
    bad = good;
    bad.attrs.level = 3;
    assert_int_equal(nic_vi_create(app->session, &bad, &created, why, sizeof(why)),
                     VIP_RC_INVALID_RELIABILITY_LEVEL);
    bad = good;
    bad.attrs.max_transfer_bytes = VIP_TRANSFER_BYTES_MAX + 1;
    assert_int_equal(nic_vi_create(app->session, &bad, &created, why, sizeof(why)),
                     VIP_RC_INVALID_MTU);
    assert_true(strlen(why) > 0);
    assert_int_equal(
        nic_cq_create(app->session, VIP_CQ_ENTRIES_MAX + 1, &cq, &position, why, sizeof(why)),
        VIP_RC_ERROR_RESOURCE);
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(cq_new(app, 1), i);
    assert_int_equal(nic_cq_create(app->session, 1, &cq, &position, why, sizeof(why)),
                     VIP_RC_ERROR_RESOURCE);
    assert_int_equal(nic_cq_destroy(app->session, 7), VIP_RC_SUCCESS);
    assert_int_equal(nic_cq_destroy(app->session, 7), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(nic_cq_resize(app->session, 7, 1), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(nic_cq_resize(app->session, 6, 100), VIP_RC_SUCCESS);
    assert_int_equal(nic_cq_resize(app->session, 6, 1ull << 40), VIP_RC_ERROR_RESOURCE);
    assert_int_equal(cq_new(app, 1), 7);

    /* A ptag is in use as long as a VI has it. */
    assert_int_equal(registry_ptag_create(app->registry, &ptag), VIP_RC_SUCCESS);
    good.ptag = ptag;
    assert_int_equal(nic_vi_create(app->session, &good, &created, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    assert_int_equal(registry_ptag_destroy(app->registry, ptag), VIP_RC_ERROR_RESOURCE);
    assert_int_equal(nic_vi_destroy(app->session, created.vi, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(registry_ptag_destroy(app->registry, ptag), VIP_RC_SUCCESS);
}

/* vipd publishes that it sleeps, and then reads the rings again. With work it stays awake. */
static void test_sleep(void **state)
{
    struct nic *nic = rig_nic(0);
    struct rig_app *app = rig_app(nic);
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    const struct vip_vipd_head *head = app->vipd;
    uint16_t vi = rig_vi(app, VIP_LVL_DELIVERY);
    struct rig_app *late;

    rig_pass(1000000);
    assert_true(nic_try_sleep(nic));
    assert_int_equal(vip_load32(&head->asleep), 1);
    late = rig_app(nic);
    assert_int_equal(vip_load32(&((const struct vip_vipd_head *)late->vipd)->asleep), 1);
    nic_awake(nic);
    assert_int_equal(vip_load32(&head->asleep), 0);
    rig_post_recv(app, vi, rig_seg(&mem, 0, 64));
    assert_false(nic_try_sleep(nic));
    assert_int_equal(vip_load32(&head->asleep), 0);
    rig_step();
    assert_int_equal(vip_load32(&head->sq_cons), 1);
    assert_true(nic_try_sleep(nic));
    assert_true(nic_deadline(nic) == UINT64_MAX);
    rig_mem_free(&mem);
}

/* An incomplete descriptor is no work: vipd may sleep until its other half arrives. */
static void test_half_posted(void **state)
{
    struct nic *nic = rig_nic(0);
    struct rig_app *app = rig_app(nic);
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint16_t vi = rig_vi(app, VIP_LVL_DELIVERY);
    struct vip_sq_slot *ring = vip_app_sq(app->app), cont;
    const struct vip_vipd_head *head = app->vipd;
    struct vip_shm_seg segs[8];
    struct vip_comp comp;

    for (unsigned i = 0; i < 8; i++)
        segs[i] = rig_seg(&mem, i, 1);
    rig_post(app, vi, VIP_Q_RECV, 0, 0, segs, 8);
    cont = ring[2];
    ring[2].stamp = 0;
    rig_steps(3);
    assert_int_equal(vip_load32(&head->sq_cons), 0);
    assert_true(nic_try_sleep(nic));
    nic_awake(nic);
    ring[2] = cont;
    assert_false(nic_try_sleep(nic));
    rig_step();
    assert_int_equal(vip_load32(&head->sq_cons), 3);
    nic_vi_disconnect(app->session, vi, rig_now);
    assert_true(rig_done(app, vi, VIP_Q_RECV, &comp));
    rig_mem_free(&mem);
}

/* The next turn wakes sleeping threads. Without sleeping threads vipd makes no system call. A
 * completion with a CQ entry wakes the waiters of the queue and of the CQ. */
static void test_wake(void **state)
{
    struct nic *nic = rig_nic(0);
    struct rig_app *app = rig_app(nic);
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint32_t cq = cq_new(app, 100);
    uint16_t vi = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    struct vip_app_head *head = app->app;

    flush_receives(app, vi, &mem, 10);
    rig_step();
    assert_int_equal(rig_counter(nic, "wakes"), 0);
    *rig_waiters(app, vi, VIP_Q_RECV) = 1;
    flush_receives(app, vi, &mem, 10);
    rig_step();
    assert_int_equal(rig_counter(nic, "wakes"), 0);
    head->sleepers = 1;
    flush_receives(app, vi, &mem, 10);
    rig_step();
    assert_int_equal(rig_counter(nic, "wakes"), 1);
    rig_cq_words(app, cq)->waiters = 1;
    flush_receives(app, vi, &mem, 10);
    rig_step();
    assert_int_equal(rig_counter(nic, "wakes"), 3);
    assert_int_equal(vip_load32(&rig_vi_head(app, vi)->prod[VIP_Q_RECV]), 40);
    assert_int_equal(vip_load32(&vip_vipd_cq(app->vipd, cq)->prod), 40);
    rig_mem_free(&mem);
}

/* Many threads of a program sleep at one queue: vipd wakes a part of them. A thread that wakes for
 * another reason sleeps again. */
static uint32_t before;

static void *sleeper(void *arg)
{
    uint32_t *word = arg;

    while (vip_load32_acquire(word) == before)
        (void)syscall(SYS_futex, word, FUTEX_WAIT, before, NULL, NULL, 0);
    return NULL;
}

static void test_wake_many(void **state)
{
    enum { THREADS = 100, WOKEN = 64 };
    struct nic *nic = rig_nic(0);
    struct rig_app *app = rig_app(nic);
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint16_t vi = rig_vi(app, VIP_LVL_DELIVERY);
    uint32_t *word = &rig_vi_head(app, vi)->prod[VIP_Q_RECV];
    struct vip_app_head *head = app->app;
    pthread_t threads[THREADS];

    before = vip_load32(word);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sleeper, word), 0);
    while (syscall(SYS_futex, word, FUTEX_REQUEUE, 0, INT_MAX, word, 0) < THREADS) /* counts them */
        sched_yield();
    *rig_waiters(app, vi, VIP_Q_RECV) = head->sleepers = 1;
    flush_receives(app, vi, &mem, 10);
    rig_step();
    assert_int_equal(rig_counter(nic, "wakes"), 1);
    assert_int_equal(syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0), THREADS - WOKEN);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    rig_mem_free(&mem);
}

static bool view_one(void *ctx, const struct nic_vi_view *view)
{
    *(struct nic_vi_view *)ctx = *view;
    return false;
}

static void test_views(void **state)
{
    struct rig_app *a = rig_app(rig_nic(0)), *b = rig_app(rig_nic(1));
    uint16_t va = rig_vi(a, VIP_LVL_DELIVERY), vb = rig_vi(b, VIP_LVL_DELIVERY);
    struct nic_vi_view view = {.vi = 999};

    rig_connect(a, va, 0, b, vb, 1);
    nic_session_vis(a->session, va, view_one, &view);
    assert_int_equal(view.vi, va);
    assert_int_equal(view.state, VIP_VIST_CONNECTED);
    assert_int_equal(view.peer.bytes[3], 2);
    assert_int_equal(view.peer_disc_len, strlen("there0"));
    view.vi = 999;
    nic_session_vis(a->session, va + 1u, view_one, &view);
    assert_int_equal(view.vi, 999);
    assert_string_equal(nic_name(rig_nics[0]), "vip0");
    assert_ptr_equal(nic_link(rig_nics[0]), &rig_hosts[0]->link);
    assert_int_equal(rig_counter(rig_nics[0], "conns_opened"), 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(test_cq_backlog),
        T(test_cq_backlog_destroy),
        T(test_cq_never_read),
        T(test_cq_backlog_reused),
        T(test_cq_backlog_limit),
        T(test_cq_backlogs_in_turns),
        T(test_cq_backlog_in_portions),
        T(test_vi_numbers),
        T(test_bad_arguments),
        T(test_sleep),
        T(test_half_posted),
        T(test_wake),
        T(test_wake_many),
        T(test_views),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
