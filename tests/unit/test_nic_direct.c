/*
 * Direct rings in vipd/nic. Tests: receive descriptors from a program's table; their order if some
 * messages use a ring and others go through vipd; a connection that ends with messages in its ring;
 * wake-ups; false values of programs. The programs of these tests write tables and rings as libvipl
 * does.
 */
#include "unit/nic_rig.h"

#include <sys/stat.h>

#include "proto/direct.h"
#include "vipd/nic/see.h"
#include "vipd/nic/share.h"

/* One end of a connection with a ring. */
struct end {
    struct rig_app *app;
    uint16_t vi;
    uint32_t cq;
    void *table;
    struct vip_direct *map; /* mapping of the ring; NULL: this end got no ring */
    struct vip_direct_out out;
    struct vip_direct_way *in;
    uint32_t first;
    uint32_t posted; /* number of posted receive descriptors */
    struct rig_mem mem;
};

static struct end ends[2];

static const struct end *refuses; /* the end that does not take its ring */

static bool on_direct(void *ctx, uint16_t vi, uint32_t generation, uint32_t first, unsigned half,
                      int fd)
{
    if (refuses && refuses->app == ctx)
        return false;
    for (unsigned i = 0; i < 2; i++) {
        struct end *end = &ends[i];

        if (end->app != ctx || end->vi != vi)
            continue;
        assert_int_equal(generation, end->app->vi_gen[vi]);
        end->map = mmap(NULL, sizeof(*end->map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(end->map != MAP_FAILED);
        assert_int_not_equal(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK, 0);
        end->out.way = &end->map->way[half];
        end->in = &end->map->way[1 - half];
        end->first = first;
    }
    return true;
}

static void post_recv(struct end *end, uint32_t len)
{
    struct vip_sq_slot slot = {.vi = end->vi,
                               .kind = VIP_SQ_RECV,
                               .seg_count = 1,
                               .length = len,
                               .vi_gen = end->app->vi_gen[end->vi]};

    slot.seg[0] = rig_seg(&end->mem, (uint64_t)end->posted % 64 * 64, len);
    vip_recv_write(end->table, end->vi, end->posted++, &slot);
}

static void ask(struct end *end, enum vip_ask what)
{
    struct vip_sq_slot slot = {.vi = end->vi,
                               .kind = VIP_SQ_ASK,
                               .flags = (uint8_t)what,
                               .vi_gen = end->app->vi_gen[end->vi]};

    vip_sq_write(vip_app_sq(end->app->app), end->app->sq_position++, &slot);
}

static void send_direct(struct end *end, uint8_t byte)
{
    assert_true(vip_direct_room(&end->out, 8));
    memset(vip_direct_place(&end->out, 8), byte, 8);
    vip_direct_send(&end->out, 8, 0, 0);
}

/* Send a message through vipd and wait for its completion. */
static void send_vipd(struct end *end, uint8_t byte)
{
    memset(end->mem.at + 8192, byte, 8);
    rig_post_send(end->app, end->vi, rig_seg(&end->mem, 8192, 8));
    assert_int_equal(rig_wait_done(end->app, end->vi, VIP_Q_SEND).status & VIP_ST_ERROR_MASK, 0);
}

static const struct vip_vipd_vi *block(const struct end *end)
{
    return rig_vi_head(end->app, end->vi);
}

static void end_open(struct end *end, struct nic *nic, uint16_t level)
{
    uint32_t position;
    char why[128];

    memset(end, 0, sizeof(*end));
    end->app = rig_app(nic);
    end->table = rig_map(VIP_RECV_BYTES);
    assert_int_equal(nic_session_set_receives(end->app->session, end->table), 0);
    assert_int_equal(nic_session_set_receives(end->app->session, end->table), -EBUSY);
    assert_int_equal(nic_cq_create(end->app->session, 64, &end->cq, &position, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    end->mem = rig_mem(end->app, 16384, REGISTRY_SHARED);
    end->vi = rig_vi_cq(end->app, level, -1, (int32_t)end->cq);
}

static void open_pair(uint16_t level)
{
    struct nic *nic = rig_nic(0);

    end_open(&ends[0], nic, level);
    end_open(&ends[1], nic, level);
}

static void connect_pair(void)
{
    rig_connect(ends[0].app, ends[0].vi, 0, ends[1].app, ends[1].vi, 0);
}

static void close_pair(void)
{
    rig_teardown(NULL);
    for (unsigned i = 0; i < 2; i++) {
        munmap(ends[i].table, VIP_RECV_BYTES);
        if (ends[i].map)
            munmap(ends[i].map, sizeof(*ends[i].map));
        rig_mem_free(&ends[i].mem);
    }
}

/* vipd takes receive descriptors, posted before and after the connection, from the table. */
static void test_receives_from_the_table(void **state)
{
    struct vip_comp comp;

    open_pair(VIP_LVL_DELIVERY);
    for (unsigned i = 0; i < 3; i++)
        post_recv(&ends[1], 64);
    connect_pair();
    assert_non_null(ends[0].map);
    assert_non_null(ends[1].map);
    assert_int_equal(ends[1].first, 0);
    for (unsigned i = 0; i < 40; i++) {
        post_recv(&ends[1], 64);
        send_vipd(&ends[0], (uint8_t)i);
        comp = rig_wait_done(ends[1].app, ends[1].vi, VIP_Q_RECV);
        assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_RECEIVE);
        assert_int_equal(ends[1].mem.at[i % 64 * 64], i);
        assert_int_equal(block(&ends[0])->ring_vipd, i + 1);
    }
    close_pair();
}

/* Messages of the ring use up receive descriptors before a later message through vipd does. */
static void test_both_ways_share_the_receives(void **state)
{
    struct vip_comp comp;
    uint32_t direct = 0;

    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    for (unsigned i = 0; i < 200; i++) {
        unsigned by_ring = i % 5;

        for (unsigned k = 0; k <= by_ring; k++)
            post_recv(&ends[1], 64);
        for (unsigned k = 0; k < by_ring; k++)
            send_direct(&ends[0], 77);
        direct += by_ring;
        send_vipd(&ends[0], (uint8_t)i);
        comp = rig_wait_done(ends[1].app, ends[1].vi, VIP_Q_RECV);
        assert_int_equal(comp.direct, direct);
        /* The message is in the descriptor after the descriptors of the ring's messages. */
        assert_int_equal(ends[1].mem.at[(uint64_t)(ends[1].posted - 1) % 64 * 64], (uint8_t)i);
    }
    close_pair();
}

/* A message of the ring uses up the last receive descriptor. Then a message through vipd breaks the
 * connection, as without a ring. */
static void test_no_receive_left(void **state)
{
    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    post_recv(&ends[1], 64);
    send_direct(&ends[0], 1);
    rig_post_send(ends[0].app, ends[0].vi, rig_seg(&ends[0].mem, 8192, 8));
    assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_RECVQ_EMPTY);
    assert_int_equal(block(&ends[1])->ring, VIP_RING_OVER);
    assert_int_equal(block(&ends[1])->ring_end, 1);
    close_pair();
}

/* A connection ends with messages in its ring. These keep their receive descriptors; vipd flushes
 * the others. who: 0: the sender disconnects; 1: the sender dies; 2: the receiver disconnects. */
static void test_end_with_messages_in_the_ring(void **state)
{
    for (unsigned who = 0; who < 3; who++) {
        struct vip_comp comp;
        unsigned flushed = 0;
        uint32_t prod;

        open_pair(who == 2 ? VIP_LVL_UNRELIABLE : VIP_LVL_DELIVERY);
        connect_pair();
        for (unsigned i = 0; i < 10; i++)
            post_recv(&ends[1], 64);
        for (unsigned i = 0; i < 4; i++)
            send_direct(&ends[0], 1);
        prod = block(&ends[1])->prod[VIP_Q_RECV];
        if (who == 1) {
            rig_app_end(ends[0].app, true);
            ends[0].app = NULL;
        } else {
            assert_int_equal(
                nic_vi_disconnect(ends[who ? 1 : 0].app->session, ends[who ? 1 : 0].vi, rig_now),
                VIP_RC_SUCCESS);
        }
        rig_steps(20);
        assert_int_equal(block(&ends[1])->ring, VIP_RING_OVER);
        assert_int_equal(block(&ends[1])->ring_end, 4);
        send_direct(&ends[0], 2);
        while (rig_done(ends[1].app, ends[1].vi, VIP_Q_RECV, &comp)) {
            assert_int_equal(comp.status & VIP_ST_ERROR_MASK, VIP_ST_DESC_FLUSHED_ERROR);
            assert_int_equal(comp.direct, 4);
            flushed++;
        }
        assert_int_equal(flushed, 6);
        /* The word changes once for each flushed descriptor, and once more. So a thread that has
         * just read the ring does not sleep. */
        assert_int_equal(block(&ends[1])->prod[VIP_Q_RECV], prod + 6 + 1);
        close_pair();
    }
}

/* A sender dies after it has written stamps of messages, before it has counted them in `sent`. */
static void test_stamp_without_word(void **state)
{
    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    for (unsigned i = 0; i < 10; i++)
        post_recv(&ends[1], 64);
    for (unsigned i = 0; i < 5; i++)
        send_direct(&ends[0], 1);
    ends[0].out.way->sent = 3;
    rig_app_end(ends[0].app, true);
    ends[0].app = NULL;
    rig_steps(20);
    assert_int_equal(block(&ends[1])->ring_end, 5);
    close_pair();
}

static void test_wake_ups(void **state)
{
    uint32_t prod, cq_prod;

    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    post_recv(&ends[1], 64);
    prod = block(&ends[1])->prod[VIP_Q_RECV];
    cq_prod = vip_vipd_cq(ends[1].app->vipd, ends[1].cq)->prod;
    send_direct(&ends[0], 1);
    ask(&ends[0], VIP_ASK_WAKE_PEER);
    rig_steps(3);
    assert_int_equal(block(&ends[1])->prod[VIP_Q_RECV], prod + 1);
    assert_int_equal(vip_vipd_cq(ends[1].app->vipd, ends[1].cq)->prod, cq_prod + 1);
    /* A completion changes the word once more. */
    post_recv(&ends[1], 64);
    send_vipd(&ends[0], 1);
    assert_int_equal(block(&ends[1])->prod[VIP_Q_RECV], prod + 2);
    ask(&ends[0], VIP_ASK_WAKE_SELF);
    ask(&ends[0], (enum vip_ask)200);
    rig_steps(3);
    assert_int_equal(block(&ends[0])->prod[VIP_Q_SEND], 1);
    close_pair();
}

static void test_break_and_flush(void **state)
{
    struct vip_comp comp;

    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    post_recv(&ends[1], 64);
    ask(&ends[1], VIP_ASK_FLUSH); /* this has no effect, because the VI is not in Error state */
    rig_steps(3);
    assert_false(rig_done(ends[1].app, ends[1].vi, VIP_Q_RECV, &comp));
    ask(&ends[1], VIP_ASK_BREAK);
    assert_int_equal(rig_wait_event(ends[0].app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(block(&ends[1])->state, VIP_VIST_ERROR);
    comp = rig_wait_done(ends[1].app, ends[1].vi, VIP_Q_RECV);
    assert_int_equal(comp.status & VIP_ST_ERROR_MASK, VIP_ST_DESC_FLUSHED_ERROR);
    post_recv(&ends[1], 64);
    rig_steps(3);
    assert_false(rig_done(ends[1].app, ends[1].vi, VIP_Q_RECV, &comp));
    ask(&ends[1], VIP_ASK_FLUSH);
    comp = rig_wait_done(ends[1].app, ends[1].vi, VIP_Q_RECV);
    assert_int_equal(comp.status & VIP_ST_ERROR_MASK, VIP_ST_DESC_FLUSHED_ERROR);
    close_pair();
}

/* A program posts many requests to flush. vipd takes them at once and flushes in the next turn. */
static void test_flush_in_its_turn(void **state)
{
    enum { RECEIVES = 1000, ASKS = 100 };
    struct vip_comp comp;
    struct end *end = &ends[1];
    uint64_t slots;

    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    ask(end, VIP_ASK_BREAK);
    rig_wait_event(end->app, 'e');
    for (unsigned i = 0; i < RECEIVES; i++)
        post_recv(end, 64);
    for (unsigned i = 0; i < ASKS; i++)
        ask(end, VIP_ASK_FLUSH);
    slots = nic_session_slots(end->app->session);
    assert_int_equal(nic_vi_destroy(end->app->session, end->vi, rig_now), VIP_RC_INVALID_STATE);
    assert_int_equal(nic_session_slots(end->app->session) - slots, ASKS);
    assert_false(rig_done(end->app, end->vi, VIP_Q_RECV, &comp));
    assert_false(nic_try_sleep(rig_nics[0]));
    rig_step();
    for (unsigned i = 0; i < RECEIVES; i++) {
        assert_true(rig_done(end->app, end->vi, VIP_Q_RECV, &comp));
        assert_int_equal(comp.status & VIP_ST_ERROR_MASK, VIP_ST_DESC_FLUSHED_ERROR);
    }
    assert_int_equal(nic_session_slots(end->app->session) - slots, ASKS + RECEIVES);
    close_pair();
}

/* Each reading of the clock advances it by 0.1 ms, the cost of one request. */
static uint64_t dear_looks;

static uint64_t dear_clock(void)
{
    return rig_now + 100000 * dear_looks++;
}

/* In each turn, one program makes more requests than the turn has time for. vipd still breaks a
 * connection of another program, and still serves the request of a third program. */
static void test_asks_without_end(void **state)
{
    enum { VIS = 20 };
    struct rig_app *a, *c;
    uint16_t vis[VIS], vc;
    struct rig_event event;
    struct vip_comp comp;
    unsigned turns = 0, flushed = 0;
    bool refused = false;

    rig_cost_clock = dear_clock;
    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    a = rig_app(rig_nics[0]);
    c = rig_app(rig_nics[0]);
    for (unsigned i = 0; i < VIS; i++) {
        uint16_t other = rig_vi(c, VIP_LVL_DELIVERY);

        vis[i] = rig_vi(a, VIP_LVL_DELIVERY);
        rig_connect(a, vis[i], 0, c, other, 0);
        rig_post(a, vis[i], VIP_Q_SEND, VIP_CTL_RESERVED, 0, NULL, 0);
        rig_wait_event(a, 'e');
    }
    /* The third program, of ends[0], has one receive descriptor to flush. */
    ask(&ends[0], VIP_ASK_BREAK);
    rig_wait_event(ends[0].app, 'e');
    post_recv(&ends[0], 64);
    ask(&ends[0], VIP_ASK_FLUSH);
    vc = rig_vi(c, VIP_LVL_DELIVERY);
    rig_connect_start(c, vc, 0, 0, "nobody");
    while (!refused || !flushed) {
        assert_true(turns++ < 100000);
        for (unsigned i = 0; i < VIS; i++) {
            struct vip_sq_slot slot = {.vi = vis[i],
                                       .kind = VIP_SQ_ASK,
                                       .flags = VIP_ASK_FLUSH,
                                       .vi_gen = a->vi_gen[vis[i]]};

            if (a->sq_position - vip_load32(&((struct vip_vipd_head *)a->vipd)->sq_cons) <
                VIP_SQ_SLOTS)
                vip_sq_write(vip_app_sq(a->app), a->sq_position++, &slot);
        }
        dear_looks = 0;
        rig_step();
        while (rig_event(c, 'r', &event))
            refused = refused || (event.vi == vc && event.code == VIP_RC_NO_MATCH);
        flushed += rig_done(ends[0].app, ends[0].vi, VIP_Q_RECV, &comp);
    }
    rig_cost_clock = NULL;
    close_pair();
}

/* When a session ends, vipd touches no page of a receive table that the program never used. */
static void test_table_not_touched(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    int fd = rig_memfd(VIP_RECV_BYTES);
    void *table = mmap(NULL, VIP_RECV_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    struct stat file;

    assert_true(table != MAP_FAILED);
    assert_int_equal(nic_session_set_receives(app->session, table), 0);
    for (unsigned i = 0; i < 20; i++)
        rig_vi(app, VIP_LVL_DELIVERY);
    rig_app_end(app, true);
    assert_int_equal(fstat(fd, &file), 0);
    assert_int_equal(file.st_blocks, 0);
    munmap(table, VIP_RECV_BYTES);
    close(fd);
    rig_teardown(NULL);
}

static void test_who_gets_none(void **state)
{
    /* Connections with Reliable Reception get no ring. */
    open_pair(VIP_LVL_RECEPTION);
    connect_pair();
    assert_null(ends[0].map);
    assert_null(ends[1].map);
    close_pair();
    /* A VI that has had a ring gets no second ring. */
    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    assert_int_equal(nic_vi_disconnect(ends[0].app->session, ends[0].vi, rig_now), VIP_RC_SUCCESS);
    rig_steps(20);
    assert_int_equal(nic_vi_disconnect(ends[1].app->session, ends[1].vi, rig_now), VIP_RC_SUCCESS);
    munmap(ends[0].map, sizeof(*ends[0].map));
    ends[0].map = NULL;
    while (rig_event(ends[1].app, 'e', &(struct rig_event){0}))
        continue;
    connect_pair();
    assert_null(ends[0].map);
    post_recv(&ends[1], 64);
    send_vipd(&ends[0], 3);
    assert_int_equal(rig_wait_done(ends[1].app, ends[1].vi, VIP_Q_RECV).status & VIP_ST_ERROR_MASK,
                     0);
    close_pair();
}

static void message_by_vipd(struct end *from, struct end *to)
{
    struct vip_comp comp;

    post_recv(to, 64);
    send_vipd(from, 3);
    comp = rig_wait_done(to->app, to->vi, VIP_Q_RECV);
    assert_int_equal(comp.status & VIP_ST_ERROR_MASK, 0);
    assert_int_equal(comp.direct, 0);
}

/* A program does not get its ring, or reports that it cannot take the ring. Then the ring ends at
 * both ends, and the connection goes on through vipd. A ring with messages stays. */
static void test_not_taken(void **state)
{
    for (unsigned asks = 0; asks < 2; asks++) {
        open_pair(VIP_LVL_DELIVERY);
        refuses = asks ? NULL : &ends[1];
        connect_pair();
        post_recv(&ends[0], 64); /* a receive descriptor at the end that has the ring */
        if (asks)
            ask(&ends[1], VIP_ASK_NO_RING);
        rig_steps(3);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(block(&ends[i])->ring, VIP_RING_NONE);
        send_vipd(&ends[1], 3);
        assert_int_equal(
            rig_wait_done(ends[0].app, ends[0].vi, VIP_Q_RECV).status & VIP_ST_ERROR_MASK, 0);
        for (unsigned i = 0; i < 20; i++)
            message_by_vipd(&ends[i % 2], &ends[1 - i % 2]);
        ask(&ends[0], VIP_ASK_NO_RING); /* no effect, because the ring has ended */
        message_by_vipd(&ends[0], &ends[1]);
        close_pair();
    }
    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    post_recv(&ends[1], 64);
    send_direct(&ends[0], 1);
    ask(&ends[1], VIP_ASK_NO_RING);
    rig_steps(3);
    assert_int_equal(block(&ends[1])->ring, VIP_RING_OPEN);
    close_pair();
}

/* While vipd counts the messages in the ring, the program posts a receive descriptor, and a message
 * for it arrives. vipd counts only the earlier messages. */
static void test_message_to_a_later_receive(void **state)
{
    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    for (unsigned i = 0; i < 3; i++) {
        post_recv(&ends[1], 64);
        send_direct(&ends[0], 1);
    }
    /* vipd must read the value that `posted` had before the third descriptor. */
    vip_recv_head(ends[1].table, ends[1].vi)->posted = 2;
    assert_int_equal(nic_vi_disconnect(ends[1].app->session, ends[1].vi, rig_now), VIP_RC_SUCCESS);
    rig_steps(20);
    assert_int_equal(block(&ends[1])->ring, VIP_RING_OVER);
    assert_int_equal(block(&ends[1])->ring_end, 2);
    close_pair();
}

/* A slot with the correct stamp and generation is no receive descriptor until `posted` counts it.
 * Until then its other fields may be of an earlier VI with the same number. */
static void test_receive_half_written(void **state)
{
    open_pair(VIP_LVL_RECEPTION);
    connect_pair();
    assert_null(ends[0].map);
    post_recv(&ends[1], 64);
    vip_recv_head(ends[1].table, ends[1].vi)->posted = 0;
    rig_post_send(ends[0].app, ends[0].vi, rig_seg(&ends[0].mem, 8192, 8));
    assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_RECVQ_EMPTY);
    close_pair();
}

static void see_anything(void *ctx, const struct nic_seen *seen)
{
    (void)seen;
    ++*(unsigned *)ctx;
}

/* While a capture runs, vipd asks programs to send through vipd instead of by their rings. */
static void test_watched(void **state)
{
    unsigned seen = 0, before;

    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    assert_int_equal(block(&ends[0])->ring_mute, 0);
    nic_look_on(rig_nics[0], see_anything, &seen);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(block(&ends[i])->ring, VIP_RING_OPEN);
        assert_int_equal(block(&ends[i])->ring_mute, VIP_RING_MUTE_WATCHED);
    }
    /* A program still sends by its ring. The message arrives, but the capture does not show it. */
    post_recv(&ends[1], 64);
    post_recv(&ends[1], 64);
    send_direct(&ends[0], 1);
    rig_steps(3);
    before = seen;
    send_vipd(&ends[0], 2);
    assert_true(seen > before);
    assert_int_equal(rig_wait_done(ends[1].app, ends[1].vi, VIP_Q_RECV).direct, 1);
    nic_look_on(rig_nics[0], NULL, NULL);
    assert_int_equal(block(&ends[0])->ring_mute, 0);
    assert_int_equal(block(&ends[1])->ring_mute, 0);
    close_pair();
}

/* The end of a capture does not open a ring that has ended. */
static void test_watched_at_the_beginning_and_the_end(void **state)
{
    unsigned seen = 0;

    open_pair(VIP_LVL_DELIVERY);
    nic_look_on(rig_nics[0], see_anything, &seen);
    connect_pair();
    assert_non_null(ends[0].map);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(block(&ends[i])->ring_mute, VIP_RING_MUTE_WATCHED);
    rig_app_end(ends[1].app, true);
    ends[1].app = NULL;
    assert_int_equal(block(&ends[0])->ring_mute, VIP_RING_MUTE_WATCHED | VIP_RING_MUTE_OVER);
    nic_look_on(rig_nics[0], NULL, NULL);
    assert_int_not_equal(block(&ends[0])->ring_mute & VIP_RING_MUTE_OVER, 0);
    close_pair();
}

static bool see_vi(void *ctx, const struct nic_vi_view *view)
{
    *(struct eng_vi_stats *)ctx = view->stats;
    return false;
}

static void test_statistics(void **state)
{
    struct eng_vi_stats stats;

    open_pair(VIP_LVL_DELIVERY);
    connect_pair();
    for (unsigned i = 0; i < 5; i++)
        post_recv(&ends[1], 64);
    for (unsigned i = 0; i < 3; i++)
        send_direct(&ends[0], 1);
    vip_recv_head(ends[0].table, ends[0].vi)->sent = 3;
    vip_recv_head(ends[0].table, ends[0].vi)->sent_bytes = 24;
    /* The peer can write `sent` in the ring, so this word does not count here. */
    ends[0].out.way->sent = 1000;
    nic_session_vis(ends[0].app->session, 0, see_vi, &stats);
    assert_true(stats.tx_messages == 3 && stats.tx_bytes == 24 && stats.rx_messages == 0);
    ends[0].out.way->sent = 3;
    vip_recv_head(ends[1].table, ends[1].vi)->taken = 2;
    vip_recv_head(ends[1].table, ends[1].vi)->bytes = 16;
    nic_session_vis(ends[1].app->session, 0, see_vi, &stats);
    assert_true(stats.rx_messages == 2 && stats.rx_bytes == 16 && stats.recv_depth == 3);
    /* The counters never decrease, and they never count more bytes than the messages can have. */
    vip_recv_head(ends[1].table, ends[1].vi)->taken = 1;
    vip_recv_head(ends[1].table, ends[1].vi)->bytes = UINT64_MAX;
    nic_session_vis(ends[1].app->session, 0, see_vi, &stats);
    assert_true(stats.rx_messages == 2 && stats.rx_bytes == 2 * VIP_DIRECT_BYTES_MAX);
    send_vipd(&ends[0], 1);
    nic_session_vis(ends[0].app->session, 0, see_vi, &stats);
    assert_true(stats.tx_messages == 4);
    close_pair();
}

/* Both programs write random values into ring and table. Each descriptor completes at most once. */
static void test_liars(void **state)
{
    for (unsigned round = 0; round < 300; round++) {
        unsigned completions = 0;
        struct vip_comp comp;

        srand(round);
        open_pair(round % 2 ? VIP_LVL_DELIVERY : VIP_LVL_UNRELIABLE);
        connect_pair();
        for (unsigned i = 0; i < 20; i++)
            post_recv(&ends[1], 64);
        for (unsigned step = 0; step < 20; step++) {
            uint32_t *word = (uint32_t *)(void *)ends[0].map;

            ends[0].out.way->sent = (uint64_t)(rand() % 2 ? rand() % 64 : rand());
            for (unsigned i = 0; i < 200; i++)
                word[(unsigned)rand() % (sizeof(*ends[0].map) / 4)] = (uint32_t)rand() % 70;
            if (round % 3 == 0)
                vip_recv_head(ends[1].table, ends[1].vi)->taken = (uint64_t)rand() % 40;
            if (round % 7 == 0)
                vip_recv_head(ends[1].table, ends[1].vi)->posted = (uint32_t)rand() % 40;
            if (rand() % 3 == 0)
                rig_post_send(ends[0].app, ends[0].vi, rig_seg(&ends[0].mem, 8192, 8));
            rig_steps(2);
        }
        assert_int_equal(nic_vi_disconnect(ends[1].app->session, ends[1].vi, rig_now),
                         VIP_RC_SUCCESS);
        rig_steps(20);
        while (rig_done(ends[1].app, ends[1].vi, VIP_Q_RECV, &comp))
            completions++;
        /* If the receiver falsifies `posted`, one of its descriptors may complete twice. */
        if (round % 7)
            assert_true(completions <= 20);
        /* If only the sender lies, ring_end counts each descriptor or vipd completes it. */
        if (round % 3 && round % 7)
            assert_int_equal(block(&ends[1])->ring_end + completions, 20);
        close_pair();
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(test_receives_from_the_table),
        T(test_both_ways_share_the_receives),
        T(test_no_receive_left),
        T(test_end_with_messages_in_the_ring),
        T(test_stamp_without_word),
        T(test_message_to_a_later_receive),
        T(test_receive_half_written),
        T(test_wake_ups),
        T(test_break_and_flush),
        T(test_flush_in_its_turn),
        T(test_asks_without_end),
        T(test_table_not_touched),
        T(test_who_gets_none),
        T(test_not_taken),
        T(test_watched),
        T(test_watched_at_the_beginning_and_the_end),
        T(test_statistics),
        T(test_liars),
    };

    rig_on_direct = on_direct;
    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
