/*
 * Two ways in which vipd/nic signals completions without a thread that sleeps on a queue: the word
 * for Notify registrations, and the socket of a CQ. Also: the list of peers for auto-discovery.
 */
#include "unit/nic_rig.h"

#include <sys/socket.h>

static uint32_t cq_new(struct rig_app *app)
{
    uint32_t cq, position;
    char why[128];

    assert_int_equal(nic_cq_create(app->session, 64, &cq, &position, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    app->cq_position[cq] = position;
    vip_store32_release(&rig_cq_words(app, cq)->cons, position);
    return cq;
}

/* Flush one descriptor of the VI: this makes a completion, and a CQ entry if the VI has a CQ. */
static void flush_one(struct rig_app *app, uint16_t vi, const struct rig_mem *mem)
{
    rig_post_recv(app, vi, rig_seg(mem, 0, 64));
    assert_int_equal(nic_vi_disconnect(app->session, vi, rig_now), VIP_RC_SUCCESS);
    rig_steps(3);
}

static uint32_t notify_word(const struct rig_app *app)
{
    return vip_load32(&((struct vip_vipd_head *)app->vipd)->notify);
}

static void test_notify_word(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    struct vip_app_head *head = app->app;
    uint32_t cq = cq_new(app);
    uint16_t plain = rig_vi(app, VIP_LVL_DELIVERY);
    uint16_t marked = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);

    /* The word changes only if the queue is marked and a thread sleeps. */
    vip_store32_release(rig_waiters(app, marked, VIP_Q_RECV), VIP_APP_WAITERS_NOTIFY);
    flush_one(app, marked, &mem);
    assert_int_equal(notify_word(app), 0);
    vip_store32_release(&head->sleepers, 1);
    flush_one(app, plain, &mem);
    assert_int_equal(notify_word(app), 0);
    flush_one(app, marked, &mem);
    assert_int_equal(notify_word(app), 1);
    /* The queue and its CQ are marked: the word changes once for both. */
    vip_store32_release(&rig_cq_words(app, cq)->waiters, VIP_APP_WAITERS_NOTIFY | 1);
    flush_one(app, marked, &mem);
    assert_int_equal(notify_word(app), 2);
    rig_mem_free(&mem);
}

static unsigned messages(int sock)
{
    unsigned count = 0;
    char byte;

    while (recv(sock, &byte, 1, MSG_DONTWAIT) == 1)
        count++;
    return count;
}

/* Give the CQ one end of a socket pair. Returns the other end. */
static int socket_of(struct rig_app *app, uint32_t cq, enum vip_rc expected)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(nic_cq_set_socket(app->session, cq, pair[1]), expected);
    return pair[0];
}

static uint32_t signaled(struct rig_app *app, uint32_t cq)
{
    return vip_load32(&vip_vipd_cq(app->vipd, cq)->signaled);
}

static void test_one_message_for_each_arm_word(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint32_t cq = cq_new(app), *arm = rig_arm(app, cq);
    uint16_t vi = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    int sock;

    vip_store32_release(arm, 0xFFFFFFFFu);
    sock = socket_of(app, cq, VIP_RC_SUCCESS);
    assert_int_equal(messages(sock), 0);
    assert_int_not_equal(signaled(app, cq), 0xFFFFFFFFu);
    flush_one(app, vi, &mem);
    assert_int_equal(messages(sock), 1);
    assert_int_equal(signaled(app, cq), 0xFFFFFFFFu);
    flush_one(app, vi, &mem);
    assert_int_equal(messages(sock), 0);
    vip_store32_release(arm, 0);
    flush_one(app, vi, &mem);
    flush_one(app, vi, &mem);
    assert_int_equal(messages(sock), 1);
    assert_int_equal(signaled(app, cq), 0);
    /* vipd refuses and closes a second socket; the first socket stays in use. */
    close(socket_of(app, cq, VIP_RC_ERROR_RESOURCE));
    vip_store32_release(arm, 1);
    flush_one(app, vi, &mem);
    assert_int_equal(messages(sock), 1);
    close(sock);
    /* The other end of the socket is closed: vipd goes on. */
    vip_store32_release(arm, 2);
    flush_one(app, vi, &mem);
    rig_mem_free(&mem);
}

static void test_entries_that_are_there_are_told_at_once(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint32_t cq = cq_new(app);
    uint16_t vi = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    int sock;

    flush_one(app, vi, &mem);
    vip_store32_release(rig_arm(app, cq), 5);
    sock = socket_of(app, cq, VIP_RC_SUCCESS);
    assert_int_equal(messages(sock), 1);
    assert_int_equal(signaled(app, cq), 5);
    close(sock);
    rig_mem_free(&mem);
}

/* The application does not read its socket, which becomes full. vipd neither waits nor ends. */
static void test_a_full_socket_holds_nobody_up(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint32_t cq = cq_new(app);
    uint16_t vi = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    int sock = socket_of(app, cq, VIP_RC_SUCCESS);

    for (uint32_t i = 1; i < 1000; i++) {
        vip_store32_release(rig_arm(app, cq), i);
        flush_one(app, vi, &mem);
        assert_int_equal(signaled(app, cq), i);
    }
    assert_true(messages(sock) > 0);
    close(sock);
    rig_mem_free(&mem);
}

static void test_a_socket_ends_with_its_cq(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    uint32_t cq = cq_new(app);
    int sock = socket_of(app, cq, VIP_RC_SUCCESS);

    assert_int_equal(nic_cq_destroy(app->session, cq), VIP_RC_SUCCESS);
    assert_int_equal(recv(sock, &(char){0}, 1, MSG_DONTWAIT), 0); /* end of file */
    close(sock);
    close(socket_of(app, cq, VIP_RC_INVALID_PARAMETER));
    close(socket_of(app, 0xFFFFFFFFu, VIP_RC_INVALID_PARAMETER));
    /* There is no limit for sockets that are used one after the other. */
    for (unsigned i = 0; i < 2 * NIC_CQ_SOCKS_MAX; i++) {
        close(socket_of(app, cq_new(app), VIP_RC_SUCCESS));
        assert_int_equal(nic_cq_destroy(app->session, cq), VIP_RC_SUCCESS);
    }
}

/* A CQ ends after its last entry and before the next turn. The next CQ with its number gets no
 * message for that entry. */
static void test_no_message_after_the_end(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint32_t cq = cq_new(app), *arm = rig_arm(app, cq);
    uint16_t vi = rig_vi_cq(app, VIP_LVL_DELIVERY, -1, (int32_t)cq);
    int sock = socket_of(app, cq, VIP_RC_SUCCESS);

    vip_store32_release(arm, 1);
    rig_post_recv(app, vi, rig_seg(&mem, 0, 64));
    assert_int_equal(nic_vi_disconnect(app->session, vi, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(nic_vi_destroy(app->session, vi, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(nic_cq_destroy(app->session, cq), VIP_RC_SUCCESS);
    assert_int_equal(messages(sock), 1); /* the socket was armed */
    close(sock);
    assert_int_equal(cq_new(app), cq);
    sock = socket_of(app, cq, VIP_RC_SUCCESS);
    rig_steps(3);
    assert_int_equal(messages(sock), 0);
    close(sock);
    rig_mem_free(&mem);
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* The peers that nic_peers reports. on_peer takes `room` more of them. */
struct peers {
    unsigned count, room;
    struct link_addr last;
};

static bool on_peer(void *ctx, const struct link_addr *peer)
{
    struct peers *peers = ctx;

    if (peers->room == 0)
        return false;
    peers->room--;
    peers->count++;
    peers->last = *peer;
    return true;
}

static void test_peers_are_listed_in_pages(void **state)
{
    struct rig_app *a = rig_app(rig_nic(0)), *b = rig_app(rig_nic(1));
    struct peers peers = {.room = 100};
    uint32_t next;

    assert_int_equal(nic_peers(rig_nics[0], 0, on_peer, &peers), UINT32_MAX);
    assert_int_equal(peers.count, 0);
    for (unsigned i = 0; i < 3; i++)
        rig_connect(a, rig_vi(a, VIP_LVL_DELIVERY), 0, b, rig_vi(b, VIP_LVL_DELIVERY), 1);
    assert_int_equal(nic_peers(rig_nics[0], 0, on_peer, &peers), UINT32_MAX);
    assert_int_equal(peers.count, 3);
    assert_true(link_addr_equal(&peers.last, &nic_link(rig_nics[1])->self));

    peers = (struct peers){.room = 2};
    next = nic_peers(rig_nics[0], 0, on_peer, &peers);
    assert_int_not_equal(next, UINT32_MAX);
    assert_int_equal(nic_peers(rig_nics[0], next, on_peer, &peers), next); /* no room yet */
    peers.room = 1;
    assert_int_equal(nic_peers(rig_nics[0], next, on_peer, &peers), UINT32_MAX);
    assert_int_equal(peers.count, 3);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(test_notify_word),
        T(test_one_message_for_each_arm_word),
        T(test_entries_that_are_there_are_told_at_once),
        T(test_a_full_socket_holds_nobody_up),
        T(test_a_socket_ends_with_its_cq),
        T(test_no_message_after_the_end),
        T(test_peers_are_listed_in_pages),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
