/*
 * These tests kill a vipd within its turn, after any store to shared memory (proto/store.h). The
 * next vipd knows only the vipd-writes segment: the processed operations and the published
 * completions. No message, completion or CQ entry may be lost or appear twice.
 *
 * The NICs are compiled with VIP_STORE_CHECK. A kill is a longjmp out of the turn. The memory of
 * the killed NIC is not freed.
 */
#include <setjmp.h>

#include "proto/store.h"
#include "unit/nic_outlive.h"

static jmp_buf killed;
static bool armed;    /* the victim is in its turn */
static unsigned left; /* number of stores until the victim is killed; 0: no kill */

void vip_store_note(void)
{
    if (!armed || !left || --left)
        return;
    armed = false;
    longjmp(killed, 1);
}

/* Run one step of all hosts. True: the victim was killed in its turn. */
static bool step(unsigned victim)
{
    rig_now += RIG_STEP_NS;
    for (unsigned i = 0; i < 2; i++) {
        if (setjmp(killed))
            return true;
        armed = i == victim;
        (void)nic_turn(rig_nics[i], rig_now);
        armed = false;
    }
    return false;
}

/* Returns how many entries of this queue, not yet read by the program, are in the CQ's ring. */
static uint32_t unread(const struct program *p, unsigned queue)
{
    uint32_t at = p->app->cq_position[p->cq], count = 0;
    struct vip_cqe entry;

    for (; vip_cq_read(vip_vipd_cq_ring(p->app->vipd, (uint32_t)p->cq), at, &entry); at++)
        count += entry.queue == queue;
    return count;
}

static void entries_again(struct program *p)
{
    const struct vip_vipd_vi *block = rig_vi_head(p->app, p->vi);
    uint32_t shown[2] = {block->prod[VIP_Q_SEND], block->commit.received};

    for (unsigned q = 0; q < 2; q++)
        nic_vi_entries_again(p->app->session, p->vi, (enum vip_queue)q,
                             shown[q] - p->entries[q] - unread(p, q));
}

/* Forget the killed NIC without closing it. The next NIC has another epoch. */
static void leave_nic(const struct rig_app *old)
{
    for (unsigned i = 0; i < RIG_APPS; i++)
        if (rig_apps[i] == old)
            rig_apps[i] = NULL;
    rig_life++;
}

/* Open the session again, with the memory and the CQ of the last life. */
static void session_again(struct program *p)
{
    struct memory *all[] = {&p->land, &p->book, &p->out, &p->in, &p->window};
    const struct rig_app *old = p->app;

    leave_nic(old);
    rig_vipd_again = old->vipd;
    p->app = rig_app(rig_nic(p->host));
    rig_vipd_again = NULL;
    memcpy(p->app->comp_position, old->comp_position, sizeof(old->comp_position));
    memcpy(p->app->cq_position, old->cq_position, sizeof(old->cq_position));
    memcpy(p->app->vi_gen, old->vi_gen, sizeof(old->vi_gen));
    for (unsigned i = 0; i < 5; i++)
        memory_add(p->app, all[i], all[i]->mem.handle);
    vip_store32_release(&rig_cq_words(p->app, (uint32_t)p->cq)->cons, p->app->cq_position[p->cq]);
    assert_int_equal(nic_cq_restore(p->app->session, (uint32_t)p->cq), VIP_RC_SUCCESS);
}

/* Start the next life of the victim. It knows only the segment of the last life. */
static void next_life(struct program *p, const struct program *peer, bool looks)
{
    char why[128] = "";

    if (looks) { /* The program reads completions while there is no vipd. */
        see(p, peer->host);
        see_entries(p);
    }
    session_again(p);
    nic_vi_recover(p->app->vipd, &p->past, &(struct nic_past_loan){0});
    assert_int_equal(nic_vi_restore(p->app->session, &p->past, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    see(p, peer->host);
    entries_again(p);
    for (unsigned i = p->received; i < p->offered; i++)
        recv_post(p, i);
    for (unsigned i = p->completed; i < p->posted; i++)
        op_post(p, peer, i);
    assert_int_equal(
        nic_vi_rebind(p->app->session, p->vi, 5 * RIG_SECOND, rig_now, why, sizeof(why)),
        VIP_RC_SUCCESS);
}

static void kills(uint16_t level, uint64_t seed, unsigned loss_ppm)
{
    struct program p[2];
    unsigned count = 0, victim = 0;

    rig_more = VIP_FEATURE_REBIND;
    for (unsigned i = 0; i < 2; i++)
        p[i] = begin(i, level, true);
    rig_connect(p[0].app, p[0].vi, 0, p[1].app, p[1].vi, 1);
    for (unsigned i = 0; i < 2; i++)
        assert_true(nic_vi_checkpoint(p[i].app->session, p[i].vi, &p[i].past) &&
                    p[i].past.connected);
    rig_loss_ppm = loss_ppm;
    for (unsigned steps = 0; p[0].completed < TOTAL || p[1].completed < TOTAL; steps++) {
        assert_true(steps < 2000000);
        for (unsigned i = 0; i < 2; i++) {
            act(&p[i], &p[!i]);
            see_entries(&p[i]);
        }
        if (!left && steps % 3 == 0) {
            seed = seed * 6364136223846793005ull + 1442695040888963407ull;
            victim = (seed >> 33) & 1;
            left = 1 + (unsigned)(seed >> 40) % 40;
        }
        if (!step(victim))
            continue;
        count++;
        next_life(&p[victim], &p[!victim], seed >> 60 & 1);
    }
    left = 0;
    rig_pass(RIG_SECOND);
    for (unsigned i = 0; i < 2; i++) {
        act(&p[i], &p[!i]);
        see_entries(&p[i]);
        assert_int_equal(p[i].received, TAKING);
        assert_int_equal(p[i].entries[VIP_Q_SEND], TOTAL);
        assert_int_equal(p[i].entries[VIP_Q_RECV], TAKING);
        assert_int_equal(p[i].app->errors, 0);
        end(&p[i]);
    }
    assert_true(count > 2);
    rig_teardown(NULL);
}

static void test_delivery(void **state)
{
    for (uint64_t seed = 1; seed <= 5; seed++)
        kills(VIP_LVL_DELIVERY, seed, 0);
}

static void test_reception(void **state)
{
    for (uint64_t seed = 100; seed < 105; seed++)
        kills(VIP_LVL_RECEPTION, seed, 0);
}

static void test_with_losses(void **state)
{
    for (uint64_t seed = 200; seed < 208; seed++)
        kills(VIP_LVL_DELIVERY, seed, 100000);
}

/* A message that is too long for its receive descriptor ends the connection. vipd is killed after
 * its n-th store. If the segment shows the failed descriptor, it must also show this end. */
static bool end_is_seen(unsigned n)
{
    struct program p[2];
    bool died = false, over;

    rig_more = VIP_FEATURE_REBIND;
    for (unsigned i = 0; i < 2; i++)
        p[i] = begin(i, VIP_LVL_DELIVERY, true);
    rig_connect(p[0].app, p[0].vi, 0, p[1].app, p[1].vi, 1);
    assert_true(nic_vi_checkpoint(p[1].app->session, p[1].vi, &p[1].past) && p[1].past.connected);
    for (unsigned i = 0; i < 3; i++)
        rig_post_recv(p[1].app, p[1].vi, rig_seg(&p[1].in.mem, 0, 10));
    rig_post_send(p[0].app, p[0].vi, rig_seg(&p[0].out.mem, 0, 100));
    left = n;
    for (unsigned steps = 0; steps < 100 && !died; steps++)
        died = step(1);
    left = 0;
    nic_vi_recover(p[1].app->vipd, &p[1].past, &(struct nic_past_loan){0});
    over = !p[1].past.connected;
    assert_true(over || !vip_vipd_vi(p[1].app->vipd, p[1].vi)->commit.received);
    if (died) {
        leave_nic(p[1].app);
        rig_nics[1] = NULL;
    }
    for (unsigned i = 0; i < 2; i++)
        end(&p[i]);
    rig_teardown(NULL);
    return over;
}

static void test_end_of_connection(void **state)
{
    unsigned over = 0;

    for (unsigned n = 1; n <= 20; n++)
        over += end_is_seen(n);
    assert_true(over > 4 && over < 20);
}

/* The state of a VI's connection according to the segment. */
struct known {
    uint32_t state, ended;
};

/* vipd is killed after the n-th store while it restores a VI. The next vipd must find the state of
 * the connection unchanged. Returns true if vipd was killed. */
static bool restore_is_cut(struct known before, unsigned n)
{
    struct program p[2];
    struct nic_vi_checkpoint first;
    struct vip_vipd_vi *head;
    volatile bool died = true;
    char why[128] = "";

    rig_more = VIP_FEATURE_REBIND;
    for (unsigned i = 0; i < 2; i++)
        p[i] = begin(i, VIP_LVL_DELIVERY, true);
    rig_connect(p[0].app, p[0].vi, 0, p[1].app, p[1].vi, 1);
    assert_true(nic_vi_checkpoint(p[1].app->session, p[1].vi, &p[1].past));
    head = vip_vipd_vi(p[1].app->vipd, p[1].vi);
    head->state = before.state;
    head->ended = before.ended;
    nic_vi_recover(p[1].app->vipd, &p[1].past, &(struct nic_past_loan){0});
    first = p[1].past;
    session_again(&p[1]);
    left = n;
    armed = true;
    if (!setjmp(killed)) {
        assert_int_equal(nic_vi_restore(p[1].app->session, &p[1].past, rig_now, why, sizeof(why)),
                         VIP_RC_SUCCESS);
        died = false;
    }
    armed = false;
    left = 0;
    assert_int_not_equal(head->state, VIP_VIST_IDLE);
    p[1].past.connected = true; /* the ticket says that the connection exists */
    nic_vi_recover(p[1].app->vipd, &p[1].past, &(struct nic_past_loan){0});
    assert_int_equal(p[1].past.connected, first.connected);
    assert_int_equal(p[1].past.lost, first.lost);
    leave_nic(p[1].app);
    rig_nics[1] = NULL;
    for (unsigned i = 0; i < 2; i++)
        end(&p[i]);
    rig_teardown(NULL);
    return died;
}

static void test_killed_while_it_restores(void **state)
{
    static const struct known all[] = {
        {VIP_VIST_CONNECTED, 0}, {VIP_VIST_CONNECTED, 1}, {VIP_VIST_ERROR, 1}, {VIP_VIST_ERROR, 0}};

    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        unsigned n = 1;

        while (restore_is_cut(all[i], n))
            n++;
        assert_in_range(n, 4, 100);
    }
}

/* The next life begins with a nearly full CQ ring. Entries that find no room come later. */
static void test_full_cq(void **state)
{
    struct program p = begin(0, VIP_LVL_DELIVERY, true);
    uint32_t count = VIP_CQ_RING_SLOTS - 4;
    char why[128] = "";

    assert_true(nic_vi_checkpoint(p.app->session, p.vi, &p.past));
    for (uint32_t rest = count, some; rest; rest -= some) {
        some = rest < 2 * VIP_DESC_PER_QUEUE_MAX ? rest : 2 * VIP_DESC_PER_QUEUE_MAX;
        nic_vi_entries_again(p.app->session, p.vi, VIP_Q_RECV, some);
    }
    session_again(&p);
    assert_int_equal(nic_vi_restore(p.app->session, &p.past, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    nic_vi_entries_again(p.app->session, p.vi, VIP_Q_RECV, 10);
    see_entries(&p);
    assert_int_equal(p.entries[VIP_Q_RECV], VIP_CQ_RING_SLOTS);
    rig_pass(RIG_SECOND);
    see_entries(&p);
    assert_int_equal(p.entries[VIP_Q_RECV], count + 10);
    end(&p);
    rig_teardown(NULL);
}

/* A program says that impossibly many entries are missing. vipd writes at most CQ_UNREAD_MAX. */
static void test_owed(void **state)
{
    struct program p = begin(0, VIP_LVL_DELIVERY, true);

    nic_vi_entries_again(p.app->session, p.vi, VIP_Q_SEND, UINT32_MAX);
    see_entries(&p);
    assert_int_equal(p.entries[VIP_Q_SEND], 2 * VIP_DESC_PER_QUEUE_MAX);
    end(&p);
    rig_teardown(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delivery),
        cmocka_unit_test(test_reception),
        cmocka_unit_test(test_with_losses),
        cmocka_unit_test(test_end_of_connection),
        cmocka_unit_test(test_full_cq),
        cmocka_unit_test(test_owed),
        cmocka_unit_test(test_killed_while_it_restores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
