/*
 * Rings between two programs whose vipd is killed (vipd/nic/direct_again.c). Both programs go on
 * using the ring, and give it to the next vipd. Hostile programs give something else. The programs
 * of these tests write tables and rings as libvipl does.
 */
#include "unit/nic_rig.h"
#include "vipd/nic/outlive.h"

#include "proto/direct.h"

#define VIS 2u /* number of connections between the two programs */

struct program {
    struct rig_app *app;
    void *table;
    int mem_fd;
    struct rig_mem mem;
    struct end {
        uint16_t vi;
        int fd; /* file of its ring; -1: no ring */
        struct vip_direct *map;
        struct vip_direct_out out;
        struct nic_past_ring told;
        uint32_t posted, taken; /* posted descriptors; messages taken from the ring */
        struct nic_vi_checkpoint past;
    } end[VIS];
};

static struct program programs[2];
static char why[160];

static bool on_direct(void *ctx, uint16_t vi, uint32_t generation, uint32_t first, unsigned half,
                      int fd)
{
    for (unsigned i = 0; i < 2 * VIS; i++) {
        struct end *end = &programs[i / VIS].end[i % VIS];

        if (programs[i / VIS].app != ctx || end->vi != vi)
            continue;
        end->fd = dup(fd);
        end->map = mmap(NULL, sizeof(*end->map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(end->map != MAP_FAILED);
        end->out.way = &end->map->way[half];
        end->told = (struct nic_past_ring){.fd = end->fd, .half = half, .first = first};
    }
    return true;
}

static struct vip_vipd_vi *block(const struct program *p, unsigned i)
{
    return rig_vi_head(p->app, p->end[i].vi);
}

static void register_memory(struct program *p)
{
    struct registry_region region = {.addr = (uintptr_t)p->mem.at,
                                     .bytes = p->mem.bytes,
                                     .kind = REGISTRY_SHARED,
                                     .attrs = {.enable_rdma_write = true}};

    if (p->mem.handle)
        assert_int_equal(registry_restore(p->app->registry, &region, dup(p->mem_fd), p->mem.handle,
                                          why, sizeof(why)),
                         VIP_RC_SUCCESS);
    else
        assert_int_equal(registry_add(p->app->registry, &region, dup(p->mem_fd), &p->mem.handle,
                                      why, sizeof(why)),
                         VIP_RC_SUCCESS);
}

static void begin(uint16_t level)
{
    struct nic *nic;

    rig_more = VIP_FEATURE_REBIND;
    rig_on_direct = on_direct;
    nic = rig_nic(0);
    for (unsigned k = 0; k < 2; k++) {
        struct program *p = &programs[k];

        memset(p, 0, sizeof(*p));
        p->app = rig_app(nic);
        p->table = rig_map(VIP_RECV_BYTES);
        assert_int_equal(nic_session_set_receives(p->app->session, p->table), 0);
        p->mem_fd = rig_memfd(16384);
        p->mem.bytes = 16384;
        p->mem.at = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, p->mem_fd, 0);
        register_memory(p);
        for (unsigned i = 0; i < VIS; i++) {
            p->end[i].vi = rig_vi(p->app, level);
            p->end[i].fd = -1;
        }
    }
    for (unsigned i = 0; i < VIS; i++) {
        rig_connect(programs[0].app, programs[0].end[i].vi, 0, programs[1].app,
                    programs[1].end[i].vi, 0);
        for (unsigned k = 0; k < 2; k++)
            assert_true(nic_vi_identify(programs[k].app->session, programs[k].end[i].vi,
                                        &programs[k].end[i].past) &&
                        programs[k].end[i].past.connected);
    }
}

static void end(void)
{
    rig_teardown(NULL);
    rig_on_direct = NULL;
    for (unsigned k = 0; k < 2; k++) {
        munmap(programs[k].table, VIP_RECV_BYTES);
        rig_mem_free(&programs[k].mem);
        close(programs[k].mem_fd);
        for (unsigned i = 0; i < VIS; i++) {
            if (programs[k].end[i].map)
                munmap(programs[k].end[i].map, sizeof(struct vip_direct));
            if (programs[k].end[i].fd >= 0)
                close(programs[k].end[i].fd);
        }
    }
}

/* Returns a copy of the segment as a killed vipd leaves it. */
static void *segment_left(const struct rig_app *app)
{
    static const uint64_t parts[][2] = {{0, 4096},
                                        {VIP_VIPD_VI_OFF, VIS * sizeof(struct vip_vipd_vi)},
                                        {VIP_VIPD_SHORT_OFF, VIS * 2 * VIP_COMP_UNIT},
                                        {VIP_VIPD_LONG_OFF, VIS * 2 * VIP_COMP_RING_BYTES}};
    char *copy = rig_map(VIP_VIPD_BYTES);

    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        memcpy(copy + parts[i][0], (const char *)app->vipd + parts[i][0], parts[i][1]);
    return copy;
}

/* vipd is killed, and the next vipd starts; both programs open their NIC again. */
static void next_vipd(void)
{
    struct rig_app old[2];
    struct nic *nic;

    for (unsigned k = 0; k < 2; k++) {
        old[k] = *programs[k].app;
        old[k].vipd = segment_left(programs[k].app);
    }
    for (unsigned k = 0; k < 2; k++)
        rig_app_end(programs[k].app, true);
    nic_close(rig_nics[0], rig_now);
    rig_life++;
    nic = rig_nic(0);
    for (unsigned k = 0; k < 2; k++) {
        struct rig_app *app;

        rig_vipd_again = old[k].vipd;
        app = programs[k].app = rig_app(nic);
        rig_vipd_again = NULL;
        memcpy(app->comp_position, old[k].comp_position, sizeof(app->comp_position));
        memcpy(app->vi_gen, old[k].vi_gen, sizeof(app->vi_gen));
        assert_int_equal(nic_session_set_receives(app->session, programs[k].table), 0);
        register_memory(&programs[k]);
    }
}

static enum vip_rc restore(unsigned k, unsigned i, const struct nic_past_ring *told)
{
    struct program *p = &programs[k];
    struct nic_vi_checkpoint past = p->end[i].past;

    past.recv_base = told ? 0 : p->end[i].taken;
    nic_vi_recover(p->app->vipd, &past, &(struct nic_past_loan){0});
    return nic_vi_restore_ring(p->app->session, &past, told, rig_now, why, sizeof(why));
}

static void rebind(unsigned k, unsigned i)
{
    assert_int_equal(nic_vi_rebind(programs[k].app->session, programs[k].end[i].vi, 5 * RIG_SECOND,
                                   rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
}

/* This end of the connection gives its state to the next vipd. */
static void come_back(unsigned k, unsigned i)
{
    assert_int_equal(restore(k, i, &programs[k].end[i].told), VIP_RC_SUCCESS);
    rebind(k, i);
}

/* vipd must refuse the ring in `told`, and the error must contain `reason`. */
static void refused(unsigned k, unsigned i, const struct nic_past_ring *told, const char *reason)
{
    assert_int_equal(restore(k, i, told), VIP_RC_ERROR_NOT_SUPPORTED);
    if (!strstr(why, reason))
        fail_msg("%s", why);
}

static void lost(unsigned k, unsigned i)
{
    struct rig_event event;

    assert_int_equal(restore(k, i, NULL), VIP_RC_SUCCESS);
    assert_int_equal(block(&programs[k], i)->ring, VIP_RING_LOST);
    rebind(k, i);
    event = rig_wait_event(programs[k].app, 'e');
    assert_int_equal(event.code, VIP_EC_CONN_LOST);
    assert_int_equal(event.vi, programs[k].end[i].vi);
}

static void post_recv(unsigned k, unsigned i, unsigned count)
{
    struct end *to = &programs[k].end[i];

    for (; count > 0; count--) {
        struct vip_sq_slot slot = {.vi = to->vi,
                                   .kind = VIP_SQ_RECV,
                                   .seg_count = 1,
                                   .length = 64,
                                   .vi_gen = programs[k].app->vi_gen[to->vi]};

        slot.seg[0] = rig_seg(&programs[k].mem, to->posted % 64 * 64, 64);
        vip_recv_write(programs[k].table, to->vi, to->posted++, &slot);
    }
}

/* Send `count` messages by the ring. take: the other program takes all messages of the ring. */
static void send_direct(unsigned k, unsigned i, unsigned count, bool take)
{
    struct end *from = &programs[k].end[i], *to = &programs[!k].end[i];
    struct vip_recv_head *head = vip_recv_head(programs[!k].table, to->vi);

    for (; count > 0; count--) {
        assert_true(vip_direct_room(&from->out, 8));
        memset(vip_direct_place(&from->out, 8), 1, 8);
        vip_direct_send(&from->out, 8, 0, 0);
    }
    if (take)
        head->taken = to->taken = (uint32_t)from->out.sent;
}

/* Send a message through vipd, after `direct` ring messages. It uses descriptor `number`. */
static void send_vipd(unsigned k, unsigned i, uint32_t number, uint32_t direct)
{
    struct program *p = &programs[k], *peer = &programs[!k];
    struct vip_comp comp;

    memset(p->mem.at + 8192, (int)(100 + number), 8);
    rig_post_send(p->app, p->end[i].vi, rig_seg(&p->mem, 8192, 8));
    assert_int_equal(rig_wait_done(p->app, p->end[i].vi, VIP_Q_SEND).status & VIP_ST_ERROR_MASK, 0);
    comp = rig_wait_done(peer->app, peer->end[i].vi, VIP_Q_RECV);
    assert_int_equal(comp.status & VIP_ST_ERROR_MASK, 0);
    assert_int_equal(comp.direct, direct);
    assert_int_equal(peer->mem.at[number % 64 * 64], 100 + number);
}

static void bound(uint64_t rebound)
{
    RIG_UNTIL(rig_counter(rig_nics[0], "conns_rebound") == rebound, 5 * RIG_SECOND);
}

/* ---- the ring goes on -------------------------------------------------------------------- */

/* End the connection. `count` ring messages have arrived; `flushed` descriptors must be flushed. */
static void ends_with(uint32_t count, unsigned flushed)
{
    struct vip_comp comp;

    assert_int_equal(nic_vi_disconnect(programs[0].app->session, programs[0].end[0].vi, rig_now),
                     VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(programs[1].app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(block(&programs[1], 0)->ring, VIP_RING_OVER);
    assert_int_equal(block(&programs[1], 0)->ring_end, count);
    for (; flushed > 0; flushed--) {
        comp = rig_wait_done(programs[1].app, programs[1].end[0].vi, VIP_Q_RECV);
        assert_int_equal(comp.status & VIP_ST_ERROR_MASK, VIP_ST_DESC_FLUSHED_ERROR);
    }
    rig_steps(10);
    assert_false(rig_done(programs[1].app, programs[1].end[0].vi, VIP_Q_RECV, &comp));
}

static void goes_on(uint16_t level, unsigned lives)
{
    begin(level);
    post_recv(1, 0, 30);
    send_direct(0, 0, 3, true);
    send_vipd(0, 0, 3, 3);
    for (unsigned life = 1; life <= lives; life++) {
        send_direct(0, 0, 1, true);
        send_direct(0, 0, 1, false);
        next_vipd();
        send_direct(0, 0, 1, true); /* at this time no vipd serves the VI */
        assert_int_equal(block(&programs[0], 0)->ring, VIP_RING_OPEN);
        come_back(life & 1, 0);
        assert_int_equal(block(&programs[life & 1], 0)->ring_mute, 0);
        send_direct(0, 0, 1, false);
        come_back(!(life & 1), 0);
        bound(2);
        assert_int_equal(rig_counter(rig_nics[0], "rings_again"), 1);
        assert_int_equal(block(&programs[0], 0)->ring, VIP_RING_OPEN);
        assert_int_equal(block(&programs[0], 0)->ring_mute, 0);
        assert_int_equal(block(&programs[0], 0)->ring_vipd, life);
        send_vipd(0, 0, 3 + 5 * life, 3 + 4 * life);
    }
    send_direct(0, 0, 2, false);
    ends_with(3 + 4 * lives + 2, 30 - (3 + 1 + 5 * lives + 2));
    end();
}

static void test_goes_on(void **state)
{
    (void)state;
    goes_on(VIP_LVL_DELIVERY, 1);
    goes_on(VIP_LVL_DELIVERY, 4);
    goes_on(VIP_LVL_UNRELIABLE, 2);
}

/* vipd is killed after it has taken a receive descriptor out of the table, but before the commit.
 * The next vipd takes this descriptor again. */
static void test_taken_and_not_committed(void **state)
{
    (void)state;
    for (unsigned first = 0; first < 2; first++) {
        begin(VIP_LVL_DELIVERY);
        post_recv(1, 0, 20);
        send_direct(0, 0, 2, true);
        send_vipd(0, 0, 2, 2);
        block(&programs[0], 0)->ring_vipd++;
        next_vipd();
        come_back(first, 0);
        come_back(!first, 0);
        bound(2);
        assert_int_equal(block(&programs[0], 0)->ring_vipd, 1);
        send_vipd(0, 0, 3, 2);
        send_direct(0, 0, 1, false);
        ends_with(3, 20 - 5);
        end();
    }
}

/* vipd is killed again after one end has given its state. */
static void test_killed_between_the_ends(void **state)
{
    (void)state;
    begin(VIP_LVL_DELIVERY);
    post_recv(1, 0, 20);
    send_direct(0, 0, 2, true);
    send_vipd(0, 0, 2, 2);
    next_vipd();
    come_back(1, 0);
    rig_pass(RIG_SECOND / 10);
    next_vipd();
    come_back(0, 0);
    send_direct(0, 0, 1, false);
    come_back(1, 0);
    bound(2);
    send_vipd(0, 0, 4, 3);
    ends_with(3, 20 - 5);
    end();
}

/* A program asks to break the connection before the other end has given its state. */
static void test_break_while_rebinding(void **state)
{
    struct vip_sq_slot ask = {.kind = VIP_SQ_ASK, .flags = VIP_ASK_BREAK};
    struct program *p = &programs[1];

    (void)state;
    begin(VIP_LVL_DELIVERY);
    post_recv(1, 0, 4);
    next_vipd();
    come_back(1, 0);
    ask.vi = p->end[0].vi;
    ask.vi_gen = p->app->vi_gen[ask.vi];
    vip_sq_write(vip_app_sq(p->app->app), p->app->sq_position++, &ask);
    rig_pass(RIG_SECOND / 10);
    come_back(0, 0);
    for (unsigned k = 0; k < 2; k++)
        assert_int_equal(rig_wait_event(programs[k].app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_counter(rig_nics[0], "ring_breaks"), 1);
    end();
}

/* The other end never gives its state: the connection ends, with the correct number of messages. */
static void test_other_end_stays_away(void **state)
{
    (void)state;
    begin(VIP_LVL_DELIVERY);
    post_recv(1, 0, 10);
    send_direct(0, 0, 3, true);
    next_vipd();
    send_direct(0, 0, 1, false);
    come_back(1, 0);
    assert_int_equal(rig_wait_event(programs[1].app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(block(&programs[1], 0)->ring, VIP_RING_OVER);
    assert_int_equal(block(&programs[1], 0)->ring_end, 4);
    for (unsigned n = 0; n < 6; n++)
        assert_int_equal(rig_wait_done(programs[1].app, programs[1].end[0].vi, VIP_Q_RECV).status &
                             VIP_ST_ERROR_MASK,
                         VIP_ST_DESC_FLUSHED_ERROR);
    /* It is too late for the other end to give its state. */
    lost(0, 0);
    end();
}

/* ---- programs that lie ------------------------------------------------------------------- */

static int file_of(uint64_t bytes, int seals)
{
    int fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void test_bad_files(void **state)
{
    const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct nic_past_ring told;

    (void)state;
    begin(VIP_LVL_DELIVERY);
    next_vipd();
    told = programs[0].end[0].told;
    told.fd = open("/dev/null", O_RDWR);
    refused(0, 0, &told, "not a memfd");
    close(told.fd);
    told.fd = file_of(sizeof(struct vip_direct) - 4096, all);
    refused(0, 0, &told, "wrong size");
    close(told.fd);
    for (unsigned i = 0; i < 3; i++) {
        const int one[] = {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL};

        told.fd = file_of(sizeof(struct vip_direct), all & ~one[i]);
        refused(0, 0, &told, "none that a vipd");
        close(told.fd);
    }
    if (geteuid() == 0) { /* a file of another user */
        told.fd = file_of(sizeof(struct vip_direct), all);
        assert_int_equal(fchown(told.fd, 12345, 12345), 0);
        refused(0, 0, &told, "none that a vipd");
        close(told.fd);
    }
    assert_int_equal(rig_counter(rig_nics[0], "rings_again"), 0);
    lost(0, 0);
    /* The other connection of the two programs goes on. */
    come_back(0, 1);
    come_back(1, 1);
    bound(2);
    end();
}

static void test_false_words(void **state)
{
    struct nic_past_ring told;

    (void)state;
    begin(VIP_LVL_DELIVERY);
    post_recv(1, 0, 10);
    send_vipd(0, 0, 0, 0);
    next_vipd();
    told = programs[0].end[0].told;
    told.half = 2;
    refused(0, 0, &told, "cannot have had");
    come_back(0, 0);
    told = programs[1].end[0].told;
    told.half ^= 1;
    refused(1, 0, &told, "in use already");
    told.half ^= 1;
    told.first--; /* a false value: as if vipd had taken two receives */
    refused(1, 0, &told, "contradicts");
    told.first += 2000;
    refused(1, 0, &told, "contradicts");
    lost(1, 0);
    assert_int_equal(rig_wait_event(programs[0].app, 'e').code, VIP_EC_CONN_LOST);
    end();
}

/* A program gives the ring of another VI, whose program has not given its state yet. Then that VI's
 * connection is lost, too. */
static void test_ring_of_another_pair(void **state)
{
    (void)state;
    begin(VIP_LVL_DELIVERY);
    next_vipd();
    assert_int_equal(restore(0, 0, &programs[0].end[1].told), VIP_RC_SUCCESS);
    assert_int_equal(restore(0, 1, &programs[0].end[0].told), VIP_RC_SUCCESS);
    rebind(0, 0);
    rebind(0, 1);
    come_back(1, 0);
    come_back(1, 1);
    for (unsigned n = 0; n < 4; n++)
        assert_int_equal(rig_wait_event(programs[n & 1].app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_counter(rig_nics[0], "conns_rebound"), 0);
    end();
}

/* After both ends of a ring have given it to vipd, a third VI cannot give it. A VI whose ring had
 * ended has no ring to give. */
static void test_third_end(void **state)
{
    (void)state;
    begin(VIP_LVL_DELIVERY);
    next_vipd();
    come_back(0, 0);
    come_back(1, 0);
    refused(0, 1, &programs[0].end[0].told, "in use already");
    bound(2);
    block(&programs[0], 1)->ring = VIP_RING_CLOSING;
    refused(0, 1, &programs[0].end[1].told, "cannot go on");
    block(&programs[0], 1)->ring = VIP_RING_OPEN;
    block(&programs[0], 1)->ring_mute = VIP_RING_MUTE_OVER;
    refused(0, 1, &programs[0].end[1].told, "cannot go on");
    lost(0, 1);
    end();
}

/* A lost connection stays lost, also if vipd is killed before the program learns of the loss. */
static void test_lost_stays_lost(void **state)
{
    struct nic_vi_checkpoint past;

    (void)state;
    begin(VIP_LVL_DELIVERY);
    next_vipd();
    assert_int_equal(restore(0, 0, NULL), VIP_RC_SUCCESS);
    next_vipd();
    past = programs[0].end[0].past;
    nic_vi_recover(programs[0].app->vipd, &past, &(struct nic_past_loan){0});
    assert_false(past.connected);
    assert_true(past.lost);
    lost(0, 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on),
        cmocka_unit_test(test_taken_and_not_committed),
        cmocka_unit_test(test_killed_between_the_ends),
        cmocka_unit_test(test_break_while_rebinding),
        cmocka_unit_test(test_other_end_stays_away),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_false_words),
        cmocka_unit_test(test_ring_of_another_pair),
        cmocka_unit_test(test_third_end),
        cmocka_unit_test(test_lost_stays_lost),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
