/*
 * A server with many clients that loops over VipConnectWait loses no request (spec 3.11). The file
 * also tests listeners, asynchronous connect, private data and free discriminators of vipl_ext.h.
 */
#include "conf.h"
#include "suite.h"

#include <poll.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 128, GRACE_MS = 2000 /* grace time of a server that waits again (wire.md) */ };

struct many {
    struct end end;
    VIP_VI_HANDLE vi[CLIENTS];
    bool connected[CLIENTS];
};

static void many_open(struct many *many, char side)
{
    conf_open(&many->end, side);
    for (unsigned i = 0; i < CLIENTS; i++) {
        conf_vi(&many->end, VIP_SERVICE_RELIABLE_DELIVERY);
        many->vi[i] = many->end.vi;
    }
}

static void start(struct end *end, VIP_VI_HANDLE vi, char to, const void *disc, size_t disc_bytes,
                  VIP_ULONG timeout_ms, const VIPX_PRIVATE_DATA *data)
{
    union conf_address local, remote;

    conf_local(&local, disc, disc_bytes);
    conf_address(&remote, end, to, disc, disc_bytes);
    CONF_OK(VipxConnectStart(vi, &local.net, &remote.net, timeout_ms, 0, data));
}

/* Wait with poll for the result of an asynchronous attempt. */
static VIP_RETURN finish(VIP_VI_HANDLE vi, VIP_VI_ATTRIBUTES *attrs, VIPX_PRIVATE_DATA *data)
{
    struct pollfd pollfd = {.events = POLLIN};
    VIP_RETURN rc;

    CONF_OK(VipxConnectGetFd(vi, &pollfd.fd));
    if (poll(&pollfd, 1, CONF_LIMIT_MS) != 1)
        fail_msg("no result of an attempt within the time limit");
    rc = VipxConnectFinish(vi, attrs, data);
    assert_int_not_equal(rc, VIP_NOT_DONE);
    assert_int_equal(poll(&pollfd, 1, 0), 0); /* no result is left */
    return rc;
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Called when no request has come for 500 ms. On a slow machine the server may have made no
 * VipConnectWait for GRACE_MS. Then some clients correctly get VIP_NO_MATCH and connect again.
 * away_ms: the longest time from the start of one VipConnectWait to the end of the next one. */
static void lost_are_legal(struct many *a, uint64_t away_ms, const unsigned *disc)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        VIP_RETURN rc = a->connected[i] ? VIP_NOT_DONE : VipxConnectFinish(a->vi[i], NULL, NULL);

        if (rc == VIP_NOT_DONE)
            continue;
        if (rc == VIP_SUCCESS) {
            a->connected[i] = true;
            continue;
        }
        assert_int_equal(rc, VIP_NO_MATCH);
        assert_true(away_ms >= GRACE_MS);
        start(&a->end, a->vi[i], 'B', disc, sizeof(*disc), VIP_INFINITE, NULL);
    }
}

/* All clients connect at once. The server takes their requests by VipConnectWait, one by one. */
static void a_looping_server_loses_no_request(void **state)
{
    static struct many a, b;
    struct timespec pause = {.tv_nsec = 20000000};
    union conf_address local, from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;
    unsigned disc = conf_disc();
    uint64_t called_ms, away_ms = 0, end_ms = now_ms() + CONF_LIMIT_MS;

    (void)state;
    many_open(&a, 'A');
    many_open(&b, 'B');
    conf_local(&local, &disc, sizeof(disc));
    /* After these two waits vipd keeps requests for GRACE_MS. */
    for (unsigned i = 0; i < 2; i++)
        CONF_RETURNS(VIP_TIMEOUT,
                     VipConnectWait(b.end.nic, &local.net, 0, &from.net, &attrs, &request));
    called_ms = now_ms();
    for (unsigned i = 0; i < CLIENTS; i++)
        start(&a.end, a.vi[i], 'B', &disc, sizeof(disc), VIP_INFINITE, NULL);
    for (unsigned taken = 0; taken < CLIENTS;) {
        uint64_t before_ms = called_ms;
        VIP_RETURN rc;

        called_ms = now_ms();
        assert_true(called_ms < end_ms);
        rc = VipConnectWait(b.end.nic, &local.net, 500, &from.net, &attrs, &request);
        if (now_ms() - before_ms > away_ms)
            away_ms = now_ms() - before_ms;
        if (rc == VIP_TIMEOUT) {
            lost_are_legal(&a, away_ms, &disc);
            continue;
        }
        CONF_OK(rc);
        if (taken % 16 == 0)
            nanosleep(&pause, NULL); /* the server is busy for a while */
        CONF_OK(VipConnectAccept(request, b.vi[taken++]));
        end_ms = now_ms() + CONF_LIMIT_MS;
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        if (!a.connected[i])
            CONF_OK(finish(a.vi[i], NULL, NULL));
    conf_close(&a.end);
    conf_close(&b.end);
}

static void a_listener_keeps_every_request(void **state)
{
    static struct many a, b;
    struct timespec pause = {.tv_nsec = 400000000};
    struct pollfd pollfd = {.events = POLLIN};
    union conf_address local, from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;
    VIPX_LISTENER listener;
    unsigned disc = conf_disc();

    (void)state;
    many_open(&a, 'A');
    many_open(&b, 'B');
    conf_local(&local, &disc, sizeof(disc));
    CONF_OK(VipxListen(b.end.nic, &local.net, CLIENTS / 2, &listener));
    CONF_OK(VipxListenGetFd(listener, &pollfd.fd));
    assert_int_equal(poll(&pollfd, 1, 0), 0);
    CONF_RETURNS(VIP_TIMEOUT, VipxListenWait(listener, 0, NULL, NULL, NULL, &request));
    CONF_RETURNS(VIP_TIMEOUT, VipxListenWait(listener, 20, NULL, NULL, NULL, &request));
    /* Make twice as many requests as the back-log can hold. Take the first request 400 ms later.
     * Without a listener vipd would keep a request for only 20 ms. */
    for (unsigned i = 0; i < CLIENTS; i++)
        start(&a.end, a.vi[i], 'B', &disc, sizeof(disc), VIP_INFINITE, NULL);
    nanosleep(&pause, NULL);
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(poll(&pollfd, 1, CONF_LIMIT_MS), 1);
        CONF_OK(VipxListenWait(listener, 0, &from.net, &attrs, NULL, &request));
        assert_int_equal(from.net.DiscriminatorLen, sizeof(disc));
        assert_memory_equal(from.bytes + 4 + from.net.HostAddressLen, &disc, sizeof(disc));
        assert_int_equal(attrs.ReliabilityLevel, VIP_SERVICE_RELIABLE_DELIVERY);
        CONF_OK(VipConnectAccept(request, b.vi[i]));
    }
    assert_int_equal(poll(&pollfd, 1, 0), 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        CONF_OK(finish(a.vi[i], &attrs, NULL));
    CONF_OK(VipxListenClose(listener));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListenClose(listener));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListenWait(listener, 0, NULL, NULL, NULL, &request));
    conf_close(&a.end);
    conf_close(&b.end);
}

/* Closing a listener rejects the requests that the program has not taken. Taken requests stay
 * valid. Later requests find no listener. */
static void closing_a_listener(void **state)
{
    struct end a, b;
    union conf_address local, from;
    VIP_VI_HANDLE first, second;
    VIP_CONN_HANDLE request;
    VIPX_LISTENER listener, again;
    unsigned disc = conf_disc();
    struct timespec pause = {.tv_nsec = 100000000};

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_ready(&b, 'B', VIP_SERVICE_RELIABLE_DELIVERY);
    first = a.vi;
    conf_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
    second = a.vi;
    conf_local(&local, &disc, sizeof(disc));
    CONF_OK(VipxListen(b.nic, &local.net, 0, &listener));
    start(&a, first, 'B', &disc, sizeof(disc), VIP_INFINITE, NULL);
    CONF_OK(VipxListenWait(listener, CONF_LIMIT_MS, &from.net, NULL, NULL, &request));
    start(&a, second, 'B', &disc, sizeof(disc), VIP_INFINITE, NULL);
    nanosleep(&pause, NULL);
    CONF_OK(VipxListenClose(listener));
    {
        /* A request that was still under way finds no listener. */
        VIP_RETURN rc = finish(second, NULL, NULL);

        assert_true(rc == VIP_REJECT || rc == VIP_NO_MATCH);
    }
    CONF_OK(VipConnectAccept(request, b.vi));
    CONF_OK(finish(first, NULL, NULL));
    start(&a, second, 'B', &disc, sizeof(disc), VIP_INFINITE, NULL);
    CONF_RETURNS(VIP_NO_MATCH, finish(second, NULL, NULL));
    /* The new listener may use the same object, but the old handle stays invalid. */
    CONF_OK(VipxListen(b.nic, &local.net, 1, &again));
    assert_ptr_not_equal(again, listener);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListenWait(listener, 0, NULL, NULL, NULL, &request));
    conf_close(&b); /* although a listener is open */
    conf_close(&a);
}

static void *run_listen_wait(void *arg)
{
    VIP_CONN_HANDLE request;

    return (void *)(uintptr_t)VipxListenWait(arg, VIP_INFINITE, NULL, NULL, NULL, &request);
}

static void a_wait_of_another_thread_ends(void **state)
{
    struct timespec pause = {.tv_nsec = 20000000};
    union conf_address local;
    VIPX_LISTENER listener;
    unsigned disc = conf_disc();
    pthread_t thread;
    struct end b;
    void *result;

    (void)state;
    conf_local(&local, &disc, sizeof(disc));
    for (unsigned i = 0; i < 2; i++) {
        conf_open(&b, 'B');
        CONF_OK(VipxListen(b.nic, &local.net, 0, &listener));
        assert_int_equal(pthread_create(&thread, NULL, run_listen_wait, listener), 0);
        nanosleep(&pause, NULL);
        if (i == 0)
            CONF_OK(VipxListenClose(listener));
        conf_close(&b);
        pthread_join(thread, &result);
        assert_int_not_equal((VIP_RETURN)(uintptr_t)result, VIP_SUCCESS);
    }
}

static void private_data_reaches_the_other_side(void **state)
{
    struct end a, b;
    union conf_address local, remote;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;
    VIPX_LISTENER listener;
    VIPX_PRIVATE_DATA hello = {.Length = 5, .Data = "hello"}, longest = {.Length = 64}, got;
    unsigned disc = conf_disc();

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_ready(&b, 'B', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_fill(longest.Data, 64, 5);
    conf_local(&local, &disc, sizeof(disc));
    CONF_OK(VipxListen(b.nic, &local.net, 0, &listener));

    start(&a, a.vi, 'B', &disc, sizeof(disc), VIP_INFINITE, &hello);
    CONF_OK(VipxListenWait(listener, CONF_LIMIT_MS, NULL, NULL, &got, &request));
    assert_int_equal(got.Length, 5);
    assert_memory_equal(got.Data, "hello", 5);
    longest.Length = 65;
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxConnectReject(request, &longest));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxConnectAccept(request, b.vi, &longest));
    longest.Length = 64;
    CONF_OK(VipxConnectReject(request, &longest));
    CONF_RETURNS(VIP_REJECT, finish(a.vi, &attrs, &got));
    assert_int_equal(got.Length, 64);
    conf_same(got.Data, 64, 5);

    start(&a, a.vi, 'B', &disc, sizeof(disc), VIP_INFINITE, &longest);
    CONF_OK(VipxListenWait(listener, CONF_LIMIT_MS, NULL, NULL, &got, &request));
    conf_same(got.Data, 64, 5);
    CONF_OK(VipxConnectAccept(request, b.vi, &hello));
    CONF_OK(finish(a.vi, &attrs, &got));
    assert_int_equal(got.Length, 5);
    assert_memory_equal(got.Data, "hello", 5);
    CONF_OK(VipxListenClose(listener));

    /* In a peer-to-peer connection each side gets the private data of the other side. */
    CONF_OK(VipDisconnect(a.vi));
    CONF_OK(VipDisconnect(b.vi));
    conf_address(&remote, &a, 'B', &disc, sizeof(disc));
    CONF_OK(
        VipxConnectStart(a.vi, &local.net, &remote.net, VIP_INFINITE, VIPX_CONNECT_PEER, &hello));
    conf_address(&remote, &b, 'A', &disc, sizeof(disc));
    CONF_OK(
        VipxConnectStart(b.vi, &local.net, &remote.net, VIP_INFINITE, VIPX_CONNECT_PEER, &longest));
    CONF_OK(finish(a.vi, &attrs, &got));
    assert_int_equal(got.Length, 64);
    CONF_OK(finish(b.vi, &attrs, &got));
    assert_int_equal(got.Length, 5);
    conf_close(&a);
    conf_close(&b);
}

static void asynchronous_connect(void **state)
{
    struct end a, b;
    struct pollfd pollfd = {.events = POLLIN};
    VIP_VI_ATTRIBUTES attrs;
    unsigned disc = conf_disc();
    int again;

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_ready(&b, 'B', VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_RETURNS(VIP_INVALID_STATE, VipxConnectFinish(a.vi, &attrs, NULL));
    CONF_OK(VipxConnectGetFd(a.vi, &pollfd.fd));
    CONF_OK(VipxConnectGetFd(a.vi, &again));
    assert_int_equal(pollfd.fd, again);
    assert_int_equal(poll(&pollfd, 1, 0), 0);
    start(&a, a.vi, 'B', &disc, sizeof(disc), VIP_INFINITE, NULL);
    CONF_RETURNS(VIP_NO_MATCH, finish(a.vi, &attrs, NULL));
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    /* If the program does not fetch a result, the next attempt of any kind replaces it. */
    start(&a, a.vi, 'B', &disc, sizeof(disc), VIP_INFINITE, NULL);
    assert_int_equal(poll(&pollfd, 1, CONF_LIMIT_MS), 1);
    conf_connect(&a, &b);
    assert_int_equal(poll(&pollfd, 1, 0), 0);
    CONF_RETURNS(VIP_INVALID_STATE, VipxConnectFinish(a.vi, &attrs, NULL));
    CONF_OK(VipDisconnect(a.vi));
    CONF_OK(VipDisconnect(b.vi));
    CONF_OK(VipDestroyVi(a.vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxConnectGetFd(a.vi, &again));
    conf_close(&a);
    conf_close(&b);
}

static void new_discriminators_are_free(void **state)
{
    struct end a, b;
    union conf_address local;
    VIP_UINT64 seen[50];
    VIPX_LISTENER listener;
    VIP_CONN_HANDLE request;
    VIP_UINT32 uid;

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_ready(&b, 'B', VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned i = 0; i < 50; i++) {
        CONF_OK(VipxNewDiscriminator(b.nic, &seen[i]));
        for (unsigned j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
    }
    conf_local(&local, &seen[7], 8);
    CONF_OK(VipxListen(b.nic, &local.net, 0, &listener));
    start(&a, a.vi, 'B', &seen[7], 8, VIP_INFINITE, NULL);
    CONF_OK(VipxListenWait(listener, CONF_LIMIT_MS, NULL, NULL, NULL, &request));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxConnectUser(request, NULL));
    if (strcmp(getenv("VIP_LINK"), "loop") == 0) {
        CONF_OK(VipxConnectUser(request, &uid));
        assert_int_equal(uid, geteuid());
    } else {
        CONF_RETURNS(VIP_ERROR_NOT_SUPPORTED, VipxConnectUser(request, &uid));
    }
    CONF_OK(VipConnectAccept(request, b.vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxConnectUser(request, &uid));
    CONF_OK(finish(a.vi, NULL, NULL));
    conf_close(&a);
    conf_close(&b);
}

static void the_calls_refuse_bad_arguments(void **state)
{
    struct end a;
    union conf_address local;
    VIPX_LISTENER listener;
    VIP_CONN_HANDLE request;
    VIPX_PRIVATE_DATA data = {.Length = 65};
    VIP_UINT64 number;
    unsigned disc = conf_disc();
    int fd;

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_local(&local, &disc, sizeof(disc));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListen(NULL, &local.net, 0, &listener));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListen(a.nic, NULL, 0, &listener));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListen(a.nic, &local.net, 0, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListenGetFd(&a, &fd));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListenWait(NULL, 0, NULL, NULL, NULL, &request));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListenClose(a.nic));
    CONF_OK(VipxListen(a.nic, &local.net, 1000000, &listener));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListenGetFd(listener, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxListenWait(listener, 0, NULL, NULL, NULL, NULL));
    CONF_OK(VipxListenClose(listener));
    for (unsigned i = 0; i < 256; i++)
        CONF_OK(VipxListen(a.nic, &local.net, 0, &listener));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipxListen(a.nic, &local.net, 0, &request));
    CONF_OK(VipxListenClose(listener));
    CONF_OK(VipxListen(a.nic, &local.net, 0, &listener));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipxConnectStart(a.vi, &local.net, &local.net, 10, 2, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxConnectStart(a.vi, &local.net, &local.net, 0, 0, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipxConnectStart(a.vi, &local.net, &local.net, 10, 0, &data));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxConnectFinish(NULL, NULL, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxConnectGetFd(a.vi, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxNewDiscriminator(a.nic, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxNewDiscriminator(NULL, &number));
    conf_close(&a);
}

static const struct conf_test tests[] = {
    CONF_T("3.11", CONF_FUNCTIONAL, a_looping_server_loses_no_request,
           "128 clients at once, one server that loops over VipConnectWait"),
    CONF_T("ext", CONF_FULL, a_listener_keeps_every_request,
           "VipxListen: a back-log, and a descriptor that tells of requests"),
    CONF_T("ext", CONF_FULL, closing_a_listener, "VipxListenClose rejects what nobody has taken"),
    CONF_T("ext", CONF_FULL, a_wait_of_another_thread_ends,
           "VipxListenWait ends with the listener or the NIC handle"),
    CONF_T("ext", CONF_FULL, private_data_reaches_the_other_side,
           "private data with request, accept, reject and peer request"),
    CONF_T("ext", CONF_FULL, asynchronous_connect,
           "VipxConnectStart, VipxConnectFinish, VipxConnectGetFd"),
    CONF_T("ext", CONF_FULL, new_discriminators_are_free,
           "VipxNewDiscriminator gives numbers that are not in use; VipxConnectUser"),
    CONF_T("ext", CONF_FULL, the_calls_refuse_bad_arguments,
           "impossible arguments and too many listeners are refused"),
};

CONF_MAIN(tests)
