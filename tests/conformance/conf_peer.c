/*
 * Peer-to-peer connections (spec 2.5): either side begins; many connect at the same time; both
 * sides are in one process; the three calls return every code.
 */
#include "conf.h"
#include "suite.h"

#include <poll.h>
#include <pthread.h>
#include <time.h>

/* Start a peer request of `vi` to side `to`. `own` and `other` are the two discriminators. */
static VIP_RETURN ask(struct end *end, VIP_VI_HANDLE vi, char to, unsigned own, unsigned other,
                      VIP_ULONG timeout_ms)
{
    union conf_address local, remote;

    conf_local(&local, &own, sizeof(own));
    conf_address(&remote, end, to, &other, sizeof(other));
    return VipConnectPeerRequest(vi, &local.net, &remote.net, timeout_ms);
}

/* Send one message each way. */
static void talk(struct end *a, struct end *b)
{
    for (unsigned i = 0; i < 2; i++) {
        struct end *from = i ? b : a, *to = i ? a : b;
        VIP_DESCRIPTOR *recv = conf_desc(to, 10, 0, 100), *send = conf_desc(from, 11, 200, 100);

        conf_fill(from->buffer + 200, 100, i);
        conf_post_recv(to, recv);
        conf_post_send(from, send);
        conf_sent(from, send);
        conf_received(to, recv, 100);
        conf_same(to->buffer, 100, i);
    }
}

static void both_ready(struct end *a, struct end *b)
{
    conf_ready(a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_ready(b, 'B', VIP_SERVICE_RELIABLE_DELIVERY);
}

/* Returns an attempt's result, which VipConnectPeerDone or VipConnectPeerWait returns. */
static VIP_RETURN result_of(VIP_VI_HANDLE vi, bool by_done)
{
    uint64_t started = 0;
    VIP_RETURN rc;

    if (!by_done)
        return VipConnectPeerWait(vi, NULL);
    while ((rc = VipConnectPeerDone(vi, NULL)) == VIP_NOT_DONE)
        if (!conf_pause(&started))
            break;
    return rc;
}

static void either_side_may_be_first(void **state)
{
    struct end a, b;
    VIP_VI_ATTRIBUTES attrs;

    (void)state;
    both_ready(&a, &b);
    for (unsigned i = 0; i < 2; i++) {
        struct end *first = i ? &b : &a, *second = i ? &a : &b;
        unsigned disc = conf_disc();

        CONF_OK(ask(first, first->vi, second->side, disc, disc, VIP_INFINITE));
        assert_int_equal(conf_state(first), VIP_STATE_CONNECT_PENDING);
        CONF_RETURNS(VIP_NOT_DONE, VipConnectPeerDone(first->vi, &attrs));
        CONF_OK(ask(second, second->vi, first->side, disc, disc, CONF_LIMIT_MS));
        CONF_OK(VipConnectPeerWait(second->vi, &attrs));
        assert_int_equal(attrs.ReliabilityLevel, VIP_SERVICE_RELIABLE_DELIVERY);
        assert_int_equal(attrs.MaxTransferSize, first->attrs.MaxTransferSize);
        assert_int_equal(attrs.EnableRdmaWrite, VIP_TRUE);
        CONF_OK(VipConnectPeerWait(first->vi, &attrs));
        assert_int_equal(conf_state(first), VIP_STATE_CONNECTED);
        assert_int_equal(conf_state(second), VIP_STATE_CONNECTED);
        talk(first, second);
        /* A program can take each result only once. */
        CONF_RETURNS(VIP_INVALID_STATE, VipConnectPeerDone(first->vi, &attrs));
        CONF_RETURNS(VIP_INVALID_STATE, VipConnectPeerWait(second->vi, &attrs));
        CONF_OK(VipDisconnect(first->vi));
        conf_await_state(second, VIP_STATE_ERROR);
        CONF_OK(VipDisconnect(second->vi));
    }
    conf_close(&a);
    conf_close(&b);
}

static void addresses_meet_crosswise(void **state)
{
    struct end a, b;
    unsigned x = conf_disc(), y = conf_disc();

    (void)state;
    both_ready(&a, &b);
    CONF_OK(ask(&a, a.vi, 'B', x, y, 300));
    CONF_OK(ask(&b, b.vi, 'A', x, y, 300));
    CONF_RETURNS(VIP_TIMEOUT, result_of(a.vi, false));
    CONF_RETURNS(VIP_TIMEOUT, result_of(b.vi, true));
    CONF_OK(ask(&a, a.vi, 'B', x, y, CONF_LIMIT_MS));
    CONF_OK(ask(&b, b.vi, 'A', y, x, CONF_LIMIT_MS));
    CONF_OK(result_of(a.vi, true));
    CONF_OK(result_of(b.vi, false));
    talk(&a, &b);
    conf_close(&a);
    conf_close(&b);
}

/* If the other side makes no request, a's peer request waits until its time limit and does not get
 * VIP_NO_MATCH. Then a's VI is Idle again, and its receive is still posted. */
static void one_side_alone_waits_for_its_limit(void **state)
{
    struct end a, b;
    unsigned disc = conf_disc();
    uint64_t started_ns, limit_ms;
    VIP_RETURN rc;

    (void)state;
    both_ready(&a, &b);
    conf_post_recv(&a, conf_desc(&a, 0, 0, 64));
    /* On a busy machine the limit may end before VipConnectPeerDone. Then double the limit. */
    for (limit_ms = 400;; limit_ms *= 2) {
        started_ns = conf_now_ns();
        CONF_OK(ask(&a, a.vi, 'B', disc, disc, (VIP_ULONG)limit_ms));
        rc = VipConnectPeerDone(a.vi, NULL);
        if (rc == VIP_NOT_DONE || limit_ms > CONF_LIMIT_MS)
            break;
        CONF_RETURNS(VIP_TIMEOUT, rc);
    }
    CONF_RETURNS(VIP_NOT_DONE, rc);
    CONF_RETURNS(VIP_TIMEOUT, VipConnectPeerWait(a.vi, NULL));
    assert_true(conf_now_ns() - started_ns >= (limit_ms - 1) * 1000000ull);
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    disc = conf_disc();
    CONF_OK(ask(&b, b.vi, 'A', disc, disc, CONF_LIMIT_MS));
    CONF_OK(ask(&a, a.vi, 'B', disc, disc, CONF_LIMIT_MS));
    CONF_OK(VipConnectPeerWait(a.vi, NULL));
    CONF_OK(VipConnectPeerWait(b.vi, NULL));
    conf_post_send(&b, conf_desc(&b, 0, 0, 10)); /* the receive is still posted */
    conf_received(&a, (VIP_DESCRIPTOR *)(void *)a.memory, 10);
    conf_close(&a);
    conf_close(&b);
}

static void differing_attributes_end_both_sides(void **state)
{
    static const VIP_RETURN codes[] = {VIP_INVALID_RELIABILITY_LEVEL, VIP_INVALID_MTU,
                                       VIP_INVALID_QOS};
    struct end a, b;
    VIP_VI_ATTRIBUTES mine = {VIP_SERVICE_RELIABLE_DELIVERY, 0, NULL, NULL, VIP_TRUE, VIP_FALSE};

    (void)state;
    both_ready(&a, &b);
    for (unsigned i = 0; i < 3; i++) {
        unsigned disc = conf_disc();

        mine.ReliabilityLevel =
            i == 0 ? VIP_SERVICE_RELIABLE_RECEPTION : VIP_SERVICE_RELIABLE_DELIVERY;
        mine.MaxTransferSize = i == 1 ? 1000 : a.attrs.MaxTransferSize;
        mine.QoS = i == 2 ? (VIP_QOS)(uintptr_t)77 : NULL;
        if (VipSetViAttributes(b.vi, &mine) != VIP_SUCCESS)
            continue; /* this NIC refuses the QoS */
        CONF_OK(ask(&a, a.vi, 'B', disc, disc, CONF_LIMIT_MS));
        CONF_OK(ask(&b, b.vi, 'A', disc, disc, CONF_LIMIT_MS));
        CONF_RETURNS(codes[i], result_of(a.vi, false));
        CONF_RETURNS(codes[i], result_of(b.vi, true));
        assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
        assert_int_equal(conf_state(&b), VIP_STATE_IDLE);
    }
    conf_close(&a);
    conf_close(&b);
}

/* All requests start before the first wait. Half of the pairs use the same discriminators. */
static void many_are_started_before_one_is_waited_for(void **state)
{
    enum { MANY = 64 };
    struct end a, b;
    VIP_VI_HANDLE va[MANY], vb[MANY];
    unsigned disc = conf_disc();

    (void)state;
    conf_open(&a, 'A');
    conf_open(&b, 'B');
    for (unsigned i = 0; i < MANY; i++) {
        conf_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
        conf_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
        va[i] = a.vi;
        vb[i] = b.vi;
        CONF_OK(ask(&a, va[i], 'B', i % 2 ? disc : disc + 10000 + i,
                    i % 2 ? disc : disc + 10000 + i, CONF_LIMIT_MS));
    }
    for (unsigned i = 0; i < MANY; i++)
        CONF_OK(ask(&b, vb[i], 'A', i % 2 ? disc : disc + 10000 + i,
                    i % 2 ? disc : disc + 10000 + i, CONF_LIMIT_MS));
    for (unsigned i = MANY; i-- > 0;)
        CONF_OK(VipConnectPeerWait(va[i], NULL));
    for (unsigned i = 0; i < MANY; i++)
        CONF_OK(VipConnectPeerWait(vb[i], NULL));
    a.vi = va[0];
    b.vi = vb[0];
    talk(&a, &b);
    conf_close(&a);
    conf_close(&b);
}

static void both_ends_in_one_nic_handle(void **state)
{
    struct end a, b;
    unsigned disc = conf_disc();

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    b = a;
    conf_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_OK(ask(&a, a.vi, 'A', disc, disc, VIP_INFINITE));
    CONF_RETURNS(VIP_NOT_DONE, VipConnectPeerDone(a.vi, NULL)); /* a request is not its own peer */
    CONF_OK(ask(&b, b.vi, 'A', disc, disc, VIP_INFINITE));
    CONF_OK(VipConnectPeerWait(a.vi, NULL));
    CONF_OK(VipConnectPeerWait(b.vi, NULL));
    conf_post_recv(&b, conf_desc(&b, 0, 1000, 100));
    conf_post_send(&a, conf_desc(&a, 1, 0, 100));
    conf_received(&b, (VIP_DESCRIPTOR *)(void *)b.memory, 100);
    conf_close(&a);
}

static void a_peer_never_meets_a_server(void **state)
{
    struct end a, b;
    union conf_address local, remote, from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;
    unsigned disc = conf_disc();

    (void)state;
    both_ready(&a, &b);
    CONF_OK(ask(&a, a.vi, 'B', disc, disc, 1000));
    conf_local(&local, &disc, sizeof(disc));
    CONF_RETURNS(VIP_TIMEOUT, VipConnectWait(b.nic, &local.net, 300, &from.net, &attrs, &request));
    conf_address(&remote, &b, 'A', &disc, sizeof(disc));
    CONF_RETURNS(VIP_NO_MATCH,
                 VipConnectRequest(b.vi, &local.net, &remote.net, CONF_LIMIT_MS, &attrs));
    CONF_RETURNS(VIP_TIMEOUT, VipConnectPeerWait(a.vi, &attrs));
    conf_close(&a);
    conf_close(&b);
}

static void disconnect_cancels_a_peer_request(void **state)
{
    struct end a, b;
    unsigned disc = conf_disc();

    (void)state;
    both_ready(&a, &b);
    conf_post_recv(&a, conf_desc(&a, 0, 0, 64));
    CONF_OK(ask(&a, a.vi, 'B', disc, disc, VIP_INFINITE));
    CONF_OK(VipDisconnect(a.vi));
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    conf_failed(&a, true, (VIP_DESCRIPTOR *)(void *)a.memory, VIP_STATUS_DESC_FLUSHED_ERROR);
    for (uint64_t started = 0; VipConnectPeerDone(a.vi, NULL) == VIP_NOT_DONE;)
        assert_true(conf_pause(&started));
    CONF_RETURNS(VIP_INVALID_STATE, VipConnectPeerDone(a.vi, NULL));
    CONF_RETURNS(VIP_INVALID_STATE, VipConnectPeerWait(a.vi, NULL));
    /* After a's cancelled attempt, b finds no peer. a can start a new attempt at once. */
    CONF_OK(ask(&b, b.vi, 'A', disc, disc, 300));
    CONF_RETURNS(VIP_TIMEOUT, VipConnectPeerWait(b.vi, NULL));
    for (unsigned i = 0; i < 20; i++) {
        CONF_OK(ask(&a, a.vi, 'B', disc, disc, VIP_INFINITE));
        CONF_OK(VipDisconnect(a.vi));
    }
    CONF_OK(ask(&a, a.vi, 'B', disc, disc, VIP_INFINITE));
    CONF_OK(ask(&b, b.vi, 'A', disc, disc, VIP_INFINITE));
    CONF_OK(VipConnectPeerWait(b.vi, NULL));
    CONF_OK(VipConnectPeerWait(a.vi, NULL));
    conf_close(&a);
    conf_close(&b);
}

static void *run_wait(void *arg)
{
    struct end *end = arg;

    return (void *)(uintptr_t)VipConnectPeerWait(end->vi, NULL);
}

/* A thread in VipConnectPeerWait returns when the attempt is cancelled or the NIC is closed. */
static void a_wait_of_another_thread_ends(void **state)
{
    struct timespec pause = {.tv_nsec = 20000000};
    struct end a;
    pthread_t thread;
    unsigned disc = conf_disc();
    void *result;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
        CONF_OK(ask(&a, a.vi, 'B', disc, disc, VIP_INFINITE));
        assert_int_equal(pthread_create(&thread, NULL, run_wait, &a), 0);
        nanosleep(&pause, NULL); /* let the thread reach VipConnectPeerWait; it may be late */
        if (i == 0)
            CONF_OK(VipDisconnect(a.vi));
        else
            conf_close(&a);
        pthread_join(thread, &result);
        assert_int_not_equal((VIP_RETURN)(uintptr_t)result, VIP_SUCCESS);
        if (i == 0) {
            assert_int_equal((VIP_RETURN)(uintptr_t)result, VIP_INVALID_STATE);
            conf_close(&a);
        }
    }
}

static void peer_calls_refuse_bad_arguments(void **state)
{
    struct end a, b;
    union conf_address local, remote;
    unsigned disc = conf_disc();

    (void)state;
    both_ready(&a, &b);
    conf_local(&local, &disc, sizeof(disc));
    conf_address(&remote, &a, 'B', &disc, sizeof(disc));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(a.vi, NULL, &remote.net, 10));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(a.vi, &local.net, NULL, 10));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(a.vi, &local.net, &remote.net, 0));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(&a, &local.net, &remote.net, 10));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerDone(NULL, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerWait(&a, NULL));
    CONF_RETURNS(VIP_INVALID_STATE, VipConnectPeerDone(a.vi, NULL));
    CONF_RETURNS(VIP_INVALID_STATE, VipConnectPeerWait(a.vi, NULL));
    remote.net.DiscriminatorLen = 129;
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(a.vi, &local.net, &remote.net, 10));
    remote.net.DiscriminatorLen = 4;
    remote.net.HostAddressLen = 3;
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectPeerRequest(a.vi, &local.net, &remote.net, 10));
    CONF_OK(ask(&a, a.vi, 'B', disc, disc, VIP_INFINITE));
    CONF_RETURNS(VIP_INVALID_STATE, ask(&a, a.vi, 'B', disc, disc, VIP_INFINITE));
    CONF_OK(VipDisconnect(a.vi));
    conf_connect(&a, &b);
    CONF_RETURNS(VIP_INVALID_STATE, ask(&a, a.vi, 'B', disc, disc, VIP_INFINITE));
    conf_close(&a);
    conf_close(&b);
}

/* The other host has no vipd. An attempt without a time limit also ends, with NOT_REACHABLE. */
static void a_host_without_vipd_is_not_reachable(void **state)
{
    struct end a, b;
    union conf_address local, remote;
    unsigned disc = conf_disc();

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    b = a;
    conf_local(&local, &disc, sizeof(disc));
    conf_address(&remote, &a, 'A', &disc, sizeof(disc));
    remote.bytes[4 + 2] = 3; /* 127.0.3.1 */
    CONF_OK(VipConnectPeerRequest(a.vi, &local.net, &remote.net, 200));
    CONF_RETURNS(VIP_TIMEOUT, VipConnectPeerWait(a.vi, NULL));
    if (strcmp(getenv("VIP_LINK"), "udp") == 0) { /* only here: it takes 10 s */
        conf_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
        CONF_OK(VipConnectPeerRequest(a.vi, &local.net, &remote.net, VIP_INFINITE));
        CONF_OK(VipConnectPeerRequest(b.vi, &local.net, &remote.net, VIP_INFINITE));
        CONF_RETURNS(VIP_NOT_REACHABLE, result_of(a.vi, false));
        CONF_RETURNS(VIP_NOT_REACHABLE, result_of(b.vi, true));
    }
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    conf_close(&a);
}

static const struct conf_test tests[] = {
    CONF_T("2.5", CONF_FUNCTIONAL, either_side_may_be_first,
           "VIP_NOT_DONE while pending, then the result once, on both sides"),
    CONF_DT("2.5", CONF_FUNCTIONAL, addresses_meet_crosswise,
            "each one's remote address is the other's local address"),
    CONF_DT("2.5", CONF_FUNCTIONAL, one_side_alone_waits_for_its_limit,
            "one side alone: no VIP_NO_MATCH, pending until the time limit"),
    CONF_DT("2.5", CONF_FUNCTIONAL, differing_attributes_end_both_sides,
            "level, MaxTransferSize and QoS must match"),
    CONF_T("2.5", CONF_FUNCTIONAL, many_are_started_before_one_is_waited_for,
           "one process may start many before waiting for the first"),
    CONF_T("3.11", CONF_FUNCTIONAL, both_ends_in_one_nic_handle,
           "peer to peer within one NIC handle"),
    CONF_T("2.5", CONF_FUNCTIONAL, a_peer_never_meets_a_server,
           "peer requests and client-server requests do not meet"),
    CONF_DT("3.1", CONF_FUNCTIONAL, disconnect_cancels_a_peer_request,
            "VipDisconnect in Connect Pending cancels and flushes"),
    CONF_T("2.5", CONF_FUNCTIONAL, a_wait_of_another_thread_ends,
           "VipConnectPeerWait ends with the attempt or the NIC handle"),
    CONF_T("2.5", CONF_FUNCTIONAL, peer_calls_refuse_bad_arguments,
           "VIP_INVALID_PARAMETER and VIP_INVALID_STATE"),
    CONF_DT("2.5", CONF_FUNCTIONAL, a_host_without_vipd_is_not_reachable,
            "VIP_TIMEOUT, or VIP_NOT_REACHABLE without a limit"),
};

CONF_MAIN(tests)
