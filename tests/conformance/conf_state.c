/*
 * Specification 3.1: every transition of a VI's state; 3.2: posting in every state; both queues.
 */
#include "suite.h"

#include <pthread.h>

struct asker {
    struct end *end;
    union conf_address local, remote;
    VIP_RETURN result;
    pthread_t thread;
};

static void *run_asker(void *arg)
{
    struct asker *asker = arg;

    asker->result = conf_ask(asker->end->vi, &asker->local, &asker->remote, VIP_INFINITE);
    return NULL;
}

/* b's VipConnectWait takes a's request. a's VI is Connect Pending until b answers. */
static VIP_CONN_HANDLE pending(struct asker *asker, struct end *a, struct end *b)
{
    unsigned disc = conf_disc();
    union conf_address local, from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request = NULL;

    memset(asker, 0, sizeof(*asker));
    asker->end = a;
    conf_local(&asker->local, &disc, sizeof(disc));
    conf_local(&local, &disc, sizeof(disc));
    conf_address(&asker->remote, a, 'B', &disc, sizeof(disc));
    assert_int_equal(pthread_create(&asker->thread, NULL, run_asker, asker), 0);
    CONF_OK(VipConnectWait(b->nic, &local.net, CONF_LIMIT_MS, &from.net, &attrs, &request));
    conf_await_state(a, VIP_STATE_CONNECT_PENDING);
    return request;
}

static void answer(struct asker *asker, VIP_RETURN expected)
{
    pthread_join(asker->thread, NULL);
    assert_int_equal(asker->result, expected);
}

static void both_ready(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level)
{
    conf_ready(a, 'A', level);
    conf_ready(b, 'B', level);
}

/* ---- 3.1 --------------------------------------------------------------------------------- */

static void create_gives_idle_with_empty_queues(void **state)
{
    struct end a;
    VIP_VI_ATTRIBUTES attrs;
    VIP_VI_STATE vi_state = VIP_STATE_ERROR;
    VIP_BOOLEAN send_empty = VIP_FALSE, recv_empty = VIP_FALSE;
    VIP_DESCRIPTOR *got;

    conf_ready(&a, 'A', conf_level(state));
    CONF_OK(VipQueryVi(a.vi, &vi_state, &attrs, &send_empty, &recv_empty));
    assert_int_equal(vi_state, VIP_STATE_IDLE);
    assert_int_equal(attrs.ReliabilityLevel, conf_level(state));
    assert_int_equal(send_empty, VIP_TRUE);
    assert_int_equal(recv_empty, VIP_TRUE);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipSendDone(a.vi, &got));
    assert_null(got);
    conf_close(&a);
}

static void request_makes_connect_pending(void **state)
{
    struct end a, b;
    struct asker asker;
    VIP_CONN_HANDLE request;

    both_ready(&a, &b, conf_level(state));
    request = pending(&asker, &a, &b);
    assert_int_equal(conf_state(&a), VIP_STATE_CONNECT_PENDING);
    assert_int_equal(conf_state(&b), VIP_STATE_IDLE); /* the request has no VI of b yet */
    CONF_OK(VipConnectReject(request));
    answer(&asker, VIP_REJECT);
    conf_close_pair(&a, &b);
}

static void accept_makes_both_connected(void **state)
{
    struct end a, b;
    struct asker asker;

    both_ready(&a, &b, conf_level(state));
    CONF_OK(VipConnectAccept(pending(&asker, &a, &b), b.vi));
    answer(&asker, VIP_SUCCESS);
    conf_alive(&a, &b);
    conf_close_pair(&a, &b);
}

static void receives_posted_before_are_usable_when_connected(void **state)
{
    struct end a, b;
    struct asker asker;
    VIP_CONN_HANDLE request;

    both_ready(&a, &b, conf_level(state));
    conf_post_recv(&a, conf_desc(&a, 0, 0, 64)); /* a is Idle */
    request = pending(&asker, &a, &b);
    conf_post_recv(&a, conf_desc(&a, 1, 100, 64)); /* a is Connect Pending */
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));   /* b has not yet accepted */
    CONF_OK(VipConnectAccept(request, b.vi));
    answer(&asker, VIP_SUCCESS);
    for (unsigned i = 0; i < 2; i++) {
        CONF_OK(conf_carry(&b, conf_desc(&b, 5, 0, 10 + i), &a, conf_at(&a, i), NULL));
        assert_int_equal(conf_at(&a, i)->CS.Length, 10 + i);
    }
    CONF_OK(conf_carry(&a, conf_desc(&a, 5, 0, 33), &b, conf_at(&b, 0), NULL));
    conf_close_pair(&a, &b);
}

enum failure { REJECTED, TIMED_OUT, NO_MATCH, UNREACHABLE, CONFLICT };

/* After any failed connection attempt the VI is Idle again, and its receives stay posted. */
static void failed_attempt(void **state)
{
    enum failure failure = (enum failure)conf_arg(state);
    struct end a, b;
    struct asker asker;
    VIP_DESCRIPTOR *got;
    VIP_CONN_HANDLE request;
    VIP_VI_ATTRIBUTES attrs;
    unsigned disc = conf_disc();
    union conf_address local, remote;

    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_ready(&b, 'B',
               failure == CONFLICT ? VIP_SERVICE_UNRELIABLE : VIP_SERVICE_RELIABLE_DELIVERY);
    conf_post_recv(&a, conf_desc(&a, 0, 0, 64));
    conf_local(&local, &disc, sizeof(disc));
    conf_address(&remote, &a, 'B', &disc, sizeof(disc));
    switch (failure) {
    case REJECTED:
    case CONFLICT:
        request = pending(&asker, &a, &b);
        if (failure == CONFLICT)
            CONF_RETURNS(VIP_INVALID_RELIABILITY_LEVEL, VipConnectAccept(request, b.vi));
        CONF_OK(VipConnectReject(request));
        answer(&asker, VIP_REJECT);
        break;
    case TIMED_OUT:
        request = conf_timed_out_request(&a, &b);
        CONF_RETURNS(VIP_TIMEOUT, VipConnectAccept(request, b.vi));
        break;
    case NO_MATCH:
        CONF_RETURNS(VIP_NO_MATCH,
                     VipConnectRequest(a.vi, &local.net, &remote.net, CONF_LIMIT_MS, &attrs));
        break;
    case UNREACHABLE: /* no vipd listens at this address */
        remote.bytes[4 + 3] = 77;
        CONF_RETURNS(VIP_TIMEOUT, VipConnectRequest(a.vi, &local.net, &remote.net, 200, &attrs));
        break;
    }
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    CONF_RETURNS(VIP_NOT_DONE, VipRecvDone(a.vi, &got));
    if (failure == CONFLICT) {
        CONF_OK(VipDestroyVi(b.vi));
        conf_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
    }
    conf_connect(&a, &b); /* a client may send a new request at once */
    CONF_OK(conf_carry(&b, conf_desc(&b, 5, 0, 10), &a, conf_at(&a, 0), NULL));
    conf_close_pair(&a, &b);
}

static void disconnect_cancels_a_pending_attempt(void **state)
{
    struct end a, b;
    struct asker asker;
    VIP_CONN_HANDLE request;

    both_ready(&a, &b, conf_level(state));
    conf_post_recv(&a, conf_desc(&a, 0, 0, 64));
    request = pending(&asker, &a, &b);
    CONF_OK(VipDisconnect(a.vi));
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    conf_failed(&a, true, conf_at(&a, 0), VIP_STATUS_DESC_FLUSHED_ERROR);
    pthread_join(asker.thread, NULL);
    assert_int_not_equal(asker.result, VIP_SUCCESS);
    CONF_RETURNS(VIP_TIMEOUT, VipConnectAccept(request, b.vi));
    assert_int_equal(conf_state(&b), VIP_STATE_IDLE);
    conf_close_pair(&a, &b);
}

static void disconnect_here_makes_idle_and_flushes(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 3; i++)
        conf_post_recv(&a, conf_desc(&a, i, 0, 64));
    CONF_OK(VipDisconnect(a.vi));
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    for (unsigned i = 0; i < 3; i++)
        conf_failed(&a, true, conf_at(&a, i), VIP_STATUS_DESC_FLUSHED_ERROR);
    assert_int_equal(conf_error_count(&a), 0); /* a has disconnected itself, so it gets no error */
    conf_close_pair(&a, &b);
}

static void peers_disconnect_makes_error(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    CONF_OK(VipDisconnect(a.vi));
    conf_broken(&b);
    conf_failed(&b, true, conf_at(&b, 0), VIP_STATUS_DESC_FLUSHED_ERROR);
    conf_close_pair(&a, &b);
}

static void peers_end_makes_error(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    conf_close(&a);
    conf_broken(&b);
    conf_failed(&b, true, conf_at(&b, 0), VIP_STATUS_DESC_FLUSHED_ERROR);
    conf_drop_vi(&b);
    conf_close(&b);
}

static void error_is_left_by_disconnect_only(void **state)
{
    struct end a, b;
    VIP_VI_ATTRIBUTES attrs = {conf_level(state), 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    union conf_address local, remote;
    unsigned disc = conf_disc();

    conf_pair(&a, &b, conf_level(state));
    CONF_OK(VipDisconnect(a.vi));
    conf_await_state(&b, VIP_STATE_ERROR);
    conf_local(&local, &disc, sizeof(disc));
    conf_address(&remote, &b, 'A', &disc, sizeof(disc));
    CONF_RETURNS(VIP_INVALID_STATE, VipConnectRequest(b.vi, &local.net, &remote.net, 100, &attrs));
    CONF_RETURNS(VIP_INVALID_STATE, VipSetViAttributes(b.vi, &attrs));
    CONF_RETURNS(VIP_INVALID_STATE, VipDestroyVi(b.vi));
    assert_int_equal(conf_state(&b), VIP_STATE_ERROR);
    CONF_OK(VipDisconnect(b.vi));
    assert_int_equal(conf_state(&b), VIP_STATE_IDLE);
    conf_connect(&a, &b);
    conf_alive(&a, &b);
    conf_close_pair(&a, &b);
}

static void destroy_in_each_state(void **state)
{
    struct end a, b;
    struct asker asker;
    VIP_CONN_HANDLE request;

    both_ready(&a, &b, conf_level(state));
    request = pending(&asker, &a, &b);
    CONF_RETURNS(VIP_INVALID_STATE, VipDestroyVi(a.vi)); /* the VI is Connect Pending */
    CONF_OK(VipConnectAccept(request, b.vi));
    answer(&asker, VIP_SUCCESS);
    CONF_RETURNS(VIP_INVALID_STATE, VipDestroyVi(a.vi)); /* Connected */
    CONF_OK(VipDisconnect(b.vi));
    conf_await_state(&a, VIP_STATE_ERROR);
    CONF_RETURNS(VIP_INVALID_STATE, VipDestroyVi(a.vi)); /* Error */
    CONF_OK(VipDisconnect(a.vi));
    conf_post_recv(&a, conf_desc(&a, 0, 0, 64));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipDestroyVi(a.vi)); /* a receive is still posted */
    conf_drop_vi(&a);
    CONF_OK(VipDestroyVi(b.vi)); /* Idle */
    conf_close_pair(&a, &b);
}

static void attributes_change_in_idle_only(void **state)
{
    struct end a, b;
    struct asker asker;
    VIP_CONN_HANDLE request;
    VIP_VI_ATTRIBUTES attrs = {conf_level(state), 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};

    both_ready(&a, &b, conf_level(state));
    CONF_OK(VipSetViAttributes(a.vi, &attrs));
    CONF_OK(VipSetViAttributes(b.vi, &attrs));
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    request = pending(&asker, &a, &b);
    CONF_RETURNS(VIP_INVALID_STATE, VipSetViAttributes(a.vi, &attrs));
    assert_int_equal(conf_state(&a), VIP_STATE_CONNECT_PENDING);
    CONF_OK(VipConnectAccept(request, b.vi));
    answer(&asker, VIP_SUCCESS);
    CONF_RETURNS(VIP_INVALID_STATE, VipSetViAttributes(a.vi, &attrs));
    CONF_OK(VipDisconnect(b.vi));
    conf_await_state(&a, VIP_STATE_ERROR);
    CONF_RETURNS(VIP_INVALID_STATE, VipSetViAttributes(a.vi, &attrs));
    conf_close_pair(&a, &b);
}

static void accept_wants_an_idle_vi(void **state)
{
    struct end a, b, c;
    struct asker asker;
    VIP_CONN_HANDLE request;

    conf_pair(&a, &b, conf_level(state));
    conf_ready(&c, 'A', conf_level(state));
    request = pending(&asker, &c, &b);
    CONF_RETURNS(VIP_INVALID_STATE, VipConnectAccept(request, b.vi)); /* Connected */
    CONF_OK(VipDisconnect(a.vi));
    conf_await_state(&b, VIP_STATE_ERROR);
    CONF_RETURNS(VIP_INVALID_STATE, VipConnectAccept(request, b.vi)); /* Error */
    CONF_OK(VipDisconnect(b.vi));
    CONF_OK(VipConnectAccept(request, b.vi));
    answer(&asker, VIP_SUCCESS);
    conf_close(&c);
    conf_close_pair(&a, &b);
}

/* ---- 3.2 --------------------------------------------------------------------------------- */

/* Check that a send or an RDMA operation, posted now, completes at once as flushed. */
static void send_is_flushed(struct end *a)
{
    for (unsigned op = 0; op < 3; op++) {
        VIP_DESCRIPTOR *send = op == 0 ? conf_desc(a, 20, 0, 64) : conf_write(a, 20, 0, 64, a, 0);

        if (op == 2)
            send->CS.Control = VIP_CONTROL_OP_RDMAREAD;
        conf_post_send(a, send);
        conf_failed(a, false, send, VIP_STATUS_DESC_FLUSHED_ERROR);
        assert_int_equal(send->CS.Status & VIP_STATUS_OP_MASK, op == 0   ? VIP_STATUS_OP_SEND
                                                               : op == 1 ? VIP_STATUS_OP_RDMA_WRITE
                                                                         : VIP_STATUS_OP_RDMA_READ);
    }
}

static void receive_is_kept(struct end *a)
{
    VIP_DESCRIPTOR *got;

    conf_post_recv(a, conf_desc(a, 21, 0, 64));
    CONF_RETURNS(VIP_TIMEOUT, VipRecvWait(a->vi, 20, &got));
    assert_null(got);
}

static void post_send_in_idle(void **state)
{
    struct end a;

    conf_ready(&a, 'A', conf_level(state));
    send_is_flushed(&a);
    conf_close(&a);
}

static void post_recv_in_idle(void **state)
{
    struct end a;

    conf_ready(&a, 'A', conf_level(state));
    receive_is_kept(&a);
    conf_close(&a);
}

static void post_in_connect_pending(void **state)
{
    struct end a, b;
    struct asker asker;
    VIP_CONN_HANDLE request;

    both_ready(&a, &b, conf_level(state));
    request = pending(&asker, &a, &b);
    send_is_flushed(&a);
    receive_is_kept(&a);
    CONF_OK(VipConnectReject(request));
    answer(&asker, VIP_REJECT);
    conf_close_pair(&a, &b);
}

static void post_in_connected(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    receive_is_kept(&b);
    CONF_OK(conf_carry(&a, conf_desc(&a, 0, 0, 40), &b, conf_at(&b, 21), NULL));
    conf_close_pair(&a, &b);
}

static void post_in_error(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    CONF_OK(VipDisconnect(b.vi));
    conf_await_state(&a, VIP_STATE_ERROR);
    send_is_flushed(&a);
    conf_post_recv(&a, conf_desc(&a, 21, 0, 64));
    conf_failed(&a, true, conf_at(&a, 21), VIP_STATUS_DESC_FLUSHED_ERROR);
    conf_close_pair(&a, &b);
}

/* Without a connection a faulty descriptor also completes with an error, and the VI stays Idle. */
static void faulty_posts_without_connection(void **state)
{
    struct end a;
    VIP_DESCRIPTOR *send;

    conf_ready(&a, 'A', conf_level(state));
    send = conf_desc(&a, 0, 0, 64);
    send->DS[0].Local.Handle = 0;
    conf_post_send(&a, send);
    assert_int_not_equal(conf_take(&a, false, send), 0);
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    conf_close(&a);
}

static const struct conf_test tests[] = {
    CONF_EACH("3.1", CONF_EARLY, create_gives_idle_with_empty_queues,
              "VipCreateVi: Idle, empty queues"),
    CONF_DEACH("3.1", CONF_EARLY, request_makes_connect_pending,
               "Idle, VipConnectRequest begins: Connect Pending"),
    CONF_EACH("3.1", CONF_EARLY, accept_makes_both_connected,
              "Connect Pending, accepted: Connected; Idle, VipConnectAccept succeeds: Connected"),
    CONF_EACH("3.1", CONF_EARLY, receives_posted_before_are_usable_when_connected,
              "posted receives become usable when Connected; an accepting server may post between "
              "VipConnectWait and VipConnectAccept"),
    CONF_N("3.1", CONF_EARLY, failed_attempt, "rejected", REJECTED,
           "Connect Pending, rejected: Idle, posted receives stay posted"),
    CONF_N("3.1", CONF_EARLY, failed_attempt, "timed_out", TIMED_OUT,
           "Connect Pending, timed out: Idle, posted receives stay posted"),
    CONF_N("3.1", CONF_EARLY, failed_attempt, "no_match", NO_MATCH,
           "Connect Pending, no match: Idle, posted receives stay posted"),
    CONF_N("3.1", CONF_EARLY, failed_attempt, "unreachable", UNREACHABLE,
           "Connect Pending, nobody there: Idle, posted receives stay posted"),
    CONF_N("3.1", CONF_EARLY, failed_attempt, "attribute_conflict", CONFLICT,
           "Connect Pending, attribute conflict and rejection: Idle, posted receives stay posted"),
    CONF_DEACH("3.1", CONF_EARLY, disconnect_cancels_a_pending_attempt,
               "Connect Pending, VipDisconnect: Idle, attempt cancelled, queues flushed"),
    CONF_EACH("3.1", CONF_EARLY, disconnect_here_makes_idle_and_flushes,
              "Connected, VipDisconnect here: Idle, queues flushed"),
    CONF_EACH("3.1", CONF_FUNCTIONAL, peers_disconnect_makes_error,
              "Connected, the other side disconnects: Error, flush, CONN_LOST to the callback"),
    CONF_EACH("3.1", CONF_FUNCTIONAL, peers_end_makes_error,
              "Connected, the other side ends: Error, flush, CONN_LOST to the callback"),
    CONF_DEACH("3.1", CONF_FUNCTIONAL, error_is_left_by_disconnect_only,
               "Error, VipDisconnect: Idle; the only way out"),
    CONF_DEACH("3.1", CONF_EARLY, destroy_in_each_state,
               "VipDestroyVi: only in Idle with empty queues"),
    CONF_DEACH("3.1", CONF_FUNCTIONAL, attributes_change_in_idle_only,
               "VipSetViAttributes: only in Idle, the state stays"),
    CONF_EACH("3.1", CONF_EARLY, accept_wants_an_idle_vi,
              "VipConnectAccept with a VI that is not Idle: VIP_INVALID_STATE, the handle stays"),
    CONF_DEACH("3.2", CONF_EARLY, post_send_in_idle, "Idle: a send completes at once as flushed"),
    CONF_EACH("3.2", CONF_EARLY, post_recv_in_idle, "Idle: a receive is accepted and kept"),
    CONF_DEACH("3.2", CONF_EARLY, post_in_connect_pending,
               "Connect Pending: a receive is kept, a send completes at once as flushed"),
    CONF_EACH("3.2", CONF_EARLY, post_in_connected, "Connected: both queues work"),
    CONF_DEACH("3.2", CONF_EARLY, post_in_error,
               "Error: sends and receives complete at once as flushed"),
    CONF_DEACH("3.2", CONF_FUNCTIONAL, faulty_posts_without_connection,
               "a faulty send without connection completes with an error, the state stays"),
};

CONF_MAIN(tests)
