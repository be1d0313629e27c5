/*
 * What a program sees when its own vipd or the peer's vipd is killed (specification 3.1, 3.9). The
 * test kills the vipd that two_vipd.sh started as B.
 */
#include "suite.h"

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

/* Three threads that wait in a VIPL call when vipd dies, and the results of these calls. */
struct blocked {
    struct end *end;
    VIP_CQ_HANDLE cq;
    union conf_address local;
    VIP_RETURN recv_result, cq_result, wait_result;
    VIP_DESCRIPTOR *desc;
    pthread_t threads[3];
};

static void *run_recv(void *arg)
{
    struct blocked *blocked = arg;

    blocked->recv_result = VipRecvWait(blocked->end->vi, VIP_INFINITE, &blocked->desc);
    return NULL;
}

static void *run_cq(void *arg)
{
    struct blocked *blocked = arg;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    blocked->cq_result = VipCQWait(blocked->cq, CONF_LIMIT_MS, &vi, &recv);
    return NULL;
}

static void *run_wait(void *arg)
{
    struct blocked *blocked = arg;
    union conf_address from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;

    blocked->wait_result = VipConnectWait(blocked->end->nic, &blocked->local.net, VIP_INFINITE,
                                          &from.net, &attrs, &request);
    return NULL;
}

static void kill_vipd(char side)
{
    const char *pid = getenv(side == 'A' ? "VIP_PID_A" : "VIP_PID_B");

    assert_non_null(pid);
    assert_int_equal(kill((pid_t)atol(pid), SIGKILL), 0);
}

/* After vipd's death, new posts are flushed at once. Calls that need vipd report vipd's end. */
static void nothing_works_but_closing(struct end *end, VIP_VI_HANDLE bound, VIP_CQ_HANDLE cq)
{
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    VIP_MEM_HANDLE handle;

    conf_post_send(end, conf_desc(end, 0, 0, 64));
    conf_failed(end, false, (VIP_DESCRIPTOR *)(void *)end->memory, VIP_STATUS_DESC_FLUSHED_ERROR);
    CONF_OK(VipPostRecv(bound, conf_desc(end, 9, 0, 64), end->handle));
    CONF_OK(VipCQWait(cq, CONF_LIMIT_MS, &vi, &recv));
    assert_ptr_equal(vi, bound);
    /* No other descriptor can complete, so VipCQWait must not wait. */
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipCQWait(cq, VIP_INFINITE, &vi, &recv));
    assert_non_null(strstr(VipxLastError(), "vipd has ended"));

    CONF_RETURNS(VIP_ERROR_RESOURCE, VipCreateCQ(end->nic, 16, &cq));
    assert_non_null(strstr(VipxLastError(), "vipd"));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipRegisterMem(end->nic, end->buffer, 10, NULL, &handle));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipDisconnect(end->vi));
}

/* End B's vipd dies: all posts of B complete as flushed, B's blocked threads return, B's callback
 * gets errors for the VI and the NIC, later calls report the end, and no call hangs. */
static void everything_ends_when_vipd_dies(void **state)
{
    struct end a, b;
    struct blocked blocked = {.end = &b};
    VIP_VI_HANDLE bound, vi;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_BOOLEAN recv;
    VIP_NIC_HANDLE nic;
    VIP_DESCRIPTOR *desc;
    unsigned disc = conf_disc();
    uint64_t started = 0;
    bool same = strcmp(getenv("VIP_LINK"), "loop") == 0;

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_ready(&b, 'B', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_connect(&a, &b);
    CONF_OK(VipCreateCQ(b.nic, 16, &blocked.cq));
    CONF_OK(VipCreateVi(b.nic, &attrs, blocked.cq, blocked.cq, &bound));
    CONF_OK(VipPostRecv(bound, conf_desc(&b, 9, 0, 64), b.handle));
    for (unsigned i = 0; i < 5; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    conf_post_recv(&a, conf_desc(&a, 0, 0, 64));
    conf_local(&blocked.local, &disc, sizeof(disc));
    pthread_create(&blocked.threads[0], NULL, run_recv, &blocked);
    pthread_create(&blocked.threads[1], NULL, run_cq, &blocked);
    pthread_create(&blocked.threads[2], NULL, run_wait, &blocked);
    for (unsigned i = 0; i < 50; i++)
        conf_pause(&started);

    kill_vipd('B');
    for (unsigned i = 0; i < 3; i++)
        pthread_join(blocked.threads[i], NULL);
    assert_int_equal(blocked.recv_result, VIP_DESCRIPTOR_ERROR);
    assert_ptr_equal(blocked.desc, b.memory);
    assert_int_equal(blocked.desc->CS.Status,
                     VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_OP_RECEIVE);
    assert_int_equal(blocked.wait_result, VIP_ERROR_RESOURCE);
    assert_int_equal(blocked.cq_result, VIP_SUCCESS);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(bound, &desc));
    assert_ptr_equal(desc, b.memory + 9 * CONF_DESC_BYTES);
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(blocked.cq, &vi, &recv));
    for (unsigned i = 1; i < 5; i++)
        conf_failed(&b, true, (VIP_DESCRIPTOR *)(void *)(b.memory + i * CONF_DESC_BYTES),
                    VIP_STATUS_DESC_FLUSHED_ERROR);
    assert_ptr_equal(conf_await_error(&b, VIP_ERROR_CONN_LOST).ViHandle, b.vi);
    assert_int_equal(conf_await_error(&b, VIP_ERROR_CATASTROPHIC).ResourceCode, VIP_RESOURCE_NIC);
    assert_int_equal(conf_state(&b), VIP_STATE_ERROR);

    nothing_works_but_closing(&b, bound, blocked.cq);
    conf_close(&b);
    conf_use('B');
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipOpenNic("vip0", &nic));

    /* End A's vipd still runs. End A gets the error within the configured time limits. */
    conf_await_error(&a, VIP_ERROR_CONN_LOST);
    conf_failed(&a, true, (VIP_DESCRIPTOR *)(void *)a.memory, VIP_STATUS_DESC_FLUSHED_ERROR);
    assert_int_equal(conf_state(&a), VIP_STATE_ERROR);
    if (!same)
        conf_drop_vi(&a);
    conf_close(&a);
}

static const struct conf_test tests[] = {
    CONF_T("3.9", CONF_FUNCTIONAL, everything_ends_when_vipd_dies,
           "the end of vipd: flush, CONN_LOST, CATASTROPHIC, every blocked call returns"),
};

CONF_MAIN(tests)
