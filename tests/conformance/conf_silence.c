/*
 * The peer's vipd does not answer (3.6, 3.9, 2.4): data cannot be delivered, a server is silent.
 * The tests stop the vipd of end B for a while. The environment sets short time limits.
 * Over loop both ends use one vipd without a network, so these tests are skipped.
 */
#include "suite.h"

#include <signal.h>
#include <sys/types.h>

static void only_between_two(void)
{
    if (strcmp(getenv("VIP_LINK"), "loop") == 0)
        CONF_NOT_HERE("over loop no network lies between the ends");
}

static void vipd_a(int signal_number)
{
    assert_int_equal(kill((pid_t)atol(getenv("VIP_PID_A")), signal_number), 0);
}

static void vipd_b(int signal_number)
{
    assert_int_equal(kill((pid_t)atol(getenv("VIP_PID_B")), signal_number), 0);
}

/* `what` is 0 for a send, 1 for an RDMA Write, 2 for an RDMA Read. */
static void undeliverable(VIP_RELIABILITY_LEVEL level, unsigned what)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;
    VIP_UINT32 first, second;

    only_between_two();
    conf_pair(&a, &b, level);
    desc = what == 0 ? conf_desc(&a, 0, 0, 64) : conf_write(&a, 0, 0, 64, &b, 0);
    if (what == 2)
        desc->CS.Control = VIP_CONTROL_OP_RDMAREAD;
    vipd_b(SIGSTOP);
    conf_post_send(&a, desc);
    conf_post_send(&a, conf_desc(&a, 1, 0, 64));
    first = conf_take(&a, false, desc);
    second = conf_take(&a, false, conf_at(&a, 1));
    if (level == VIP_SERVICE_UNRELIABLE) {
        vipd_b(SIGCONT);
        assert_int_equal(first, 0);
        assert_int_equal(second, 0);
    } else {
        conf_broken(&a);
        vipd_b(SIGCONT);
        assert_int_equal(first, VIP_STATUS_TRANSPORT_ERROR);
        assert_int_equal(second, VIP_STATUS_DESC_FLUSHED_ERROR);
        conf_broken(&b);
    }
    conf_close_pair(&a, &b);
}

static void send_that_cannot_be_delivered(void **state)
{
    undeliverable(conf_level(state), 0);
}

static void write_that_cannot_be_delivered(void **state)
{
    undeliverable(conf_level(state), 1);
}

static void read_that_cannot_be_delivered(void **state)
{
    undeliverable(conf_level(state), 2);
}

/* True if the callback has got this code; then *ret is the error descriptor. Records the code. */
static bool heard(struct end *end, VIP_ERROR_CODE code, VIP_ERROR_DESCRIPTOR *ret)
{
    for (unsigned i = 0; i < conf_error_count(end) && i < CONF_ERRORS; i++)
        if (end->errors[i].ErrorCode == code) {
            *ret = conf_await_error(end, code);
            return true;
        }
    return false;
}

/* The test stops b's vipd, and a posts an RDMA Read. When a later send of c completes, a's vipd has
 * also sent the read. The test stops a's vipd and continues b's vipd, which gets the read but can
 * not deliver the answer. If the read was lost, or vipd served c before a, the test repeats. */
static void answer_that_cannot_be_delivered(void **state)
{
    struct end a, b, c, d;
    VIP_ERROR_DESCRIPTOR error = {0};
    bool seen = false;

    only_between_two();
    for (unsigned n = 0; n < 20 && !seen; n++) {
        conf_pair(&a, &b, conf_level(state));
        conf_pair(&c, &d, VIP_SERVICE_UNRELIABLE);
        vipd_b(SIGSTOP);
        conf_post_send(&a, conf_read(&a, 0, 0, 64, &b, 0));
        conf_post_send(&c, conf_desc(&c, 0, 0, 64));
        conf_sent(&c, conf_at(&c, 0));
        vipd_a(SIGSTOP);
        vipd_b(SIGCONT);
        conf_broken(&b);
        vipd_a(SIGCONT);
        seen = heard(&b, VIP_ERROR_RDMA_TRANSPORT, &error);
        if (seen) {
            assert_int_equal(error.ResourceCode, VIP_RESOURCE_VI);
            assert_ptr_equal(error.ViHandle, b.vi);
            assert_ptr_equal(error.NicHandle, b.nic);
            assert_int_equal(error.OpCode, VIP_CONTROL_OP_RDMAREAD);
        }
        conf_close_pair(&a, &b);
        conf_close_pair(&c, &d);
    }
    assert_true(seen);
}

static void idle_connection_to_a_dead_peer(void **state)
{
    struct end a, b;

    only_between_two();
    conf_pair(&a, &b, conf_level(state));
    conf_post_recv(&a, conf_desc(&a, 0, 0, 64));
    vipd_b(SIGSTOP);
    conf_broken(&a);
    vipd_b(SIGCONT);
    conf_failed(&a, true, conf_at(&a, 0), VIP_STATUS_DESC_FLUSHED_ERROR);
    conf_close_pair(&a, &b);
}

/* Check the return codes of connection calls while the other vipd is stopped. */
static void request_to_a_silent_server(void **state)
{
    VIP_RETURN expected = (VIP_RETURN)conf_arg(state), got;
    struct end a, b;
    union conf_address local, remote;
    VIP_VI_ATTRIBUTES attrs;
    unsigned disc = conf_disc();

    only_between_two();
    conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
    conf_ready(&b, 'B', VIP_SERVICE_UNRELIABLE);
    conf_local(&local, &disc, sizeof(disc));
    conf_address(&remote, &a, 'B', &disc, sizeof(disc));
    vipd_b(SIGSTOP);
    got = VipConnectRequest(a.vi, &local.net, &remote.net,
                            expected == VIP_TIMEOUT ? 100 : VIP_INFINITE, &attrs);
    vipd_b(SIGCONT);
    CONF_RETURNS(expected, got);
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    conf_close_pair(&a, &b);
}

static const struct conf_test tests[] = {
    CONF_DEACH(
        "3.6", CONF_FUNCTIONAL, send_that_cannot_be_delivered,
        "data cannot be delivered: unreliable: not noticed, success; else TRANSPORT_ERROR at "
        "the sender, breaks, CONN_LOST"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, write_that_cannot_be_delivered,
               "RDMA Write that cannot be delivered: as a send"),
    CONF_DRELIABLE("3.6", CONF_FULL, read_that_cannot_be_delivered,
                   "RDMA Read that cannot be delivered: TRANSPORT_ERROR, breaks"),
    CONF_DRELIABLE(
        "3.9", CONF_FULL, answer_that_cannot_be_delivered,
        "the answer to an RDMA Read cannot be delivered: VIP_ERROR_RDMA_TRANSPORT to the "
        "target's callback, with VI and operation"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, idle_connection_to_a_dead_peer,
               "loss of the peer is detected without traffic: Error, CONN_LOST, flush"),
    CONF_N("2.4", CONF_EARLY, request_to_a_silent_server, "timeout", VIP_TIMEOUT,
           "VipConnectRequest gives VIP_TIMEOUT when no answer comes in time"),
    CONF_N("2.4", CONF_EARLY, request_to_a_silent_server, "not_reachable", VIP_NOT_REACHABLE,
           "VipConnectRequest without limit gives VIP_NOT_REACHABLE when no answer comes at all"),
};

CONF_MAIN(tests)
