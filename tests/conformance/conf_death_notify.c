/*
 * A program with Notify registrations, or with a file descriptor of a completion queue, loses its
 * vipd: the test kills the vipd that two_vipd.sh started as B.
 */
#include "calls.h"

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

static bool readable(int fd, int limit_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    assert_true(poll(&poll_fd, 1, limit_ms) >= 0);
    return poll_fd.revents != 0;
}

static void registrations_are_served_after_vipds_death(void **state)
{
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    const char *pid = getenv("VIP_PID_B");
    VIP_CQ_HANDLE cq, fd_cq;
    VIP_VI_HANDLE bound, fd_bound, vi;
    VIP_BOOLEAN recv;
    VIP_DESCRIPTOR *got;
    VIP_AUTODISCOVERY_LIST list;
    VIP_CHAR node[] = "node-b", name[64];
    VIP_ULONG len = sizeof(name);
    union conf_address address = {{0}};
    struct end end;
    int fd;

    (void)state;
    reset();
    conf_ready(&end, 'B', VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_OK(VipCreateCQ(end.nic, 16, &cq));
    CONF_OK(VipCreateCQ(end.nic, 16, &fd_cq));
    CONF_OK(VipCreateVi(end.nic, &attrs, cq, cq, &bound));
    CONF_OK(VipCreateVi(end.nic, &attrs, fd_cq, fd_cq, &fd_bound));
    for (unsigned i = 0; i < 2; i++)
        conf_post_recv(&end, conf_desc(&end, i, 0, 64));
    for (unsigned i = 0; i < 3; i++)
        CONF_OK(VipRecvNotify(end.vi, number(i), on_desc));
    CONF_OK(VipCQNotify(cq, number(9), on_entry));
    CONF_OK(VipxCQGetFd(fd_cq, &fd));
    CONF_OK(VipPostRecv(fd_bound, conf_desc(&end, 5, 0, 64), end.handle));
    assert_false(readable(fd, 0));
    assert_int_equal(called(), 0);

    assert_non_null(pid);
    assert_int_equal(kill((pid_t)atol(pid), SIGKILL), 0);
    await_calls(2);
    for (unsigned i = 0; i < 2; i++) {
        assert_ptr_equal(calls[i].context, number(i));
        assert_ptr_equal(calls[i].desc, end.memory + i * CONF_DESC_BYTES);
        assert_int_equal(calls[i].status,
                         VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_OP_RECEIVE);
    }
    assert_true(readable(fd, CONF_LIMIT_MS));
    CONF_OK(VipCQDone(fd_cq, &vi, &recv));
    assert_ptr_equal(vi, fd_bound);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &got));
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(fd_cq, &vi, &recv));
    assert_false(readable(fd, 0));

    /* Descriptors that are posted after vipd's death are flushed at once. */
    conf_post_recv(&end, conf_desc(&end, 2, 0, 64));
    await_calls(3);
    assert_ptr_equal(calls[2].context, number(2));
    CONF_OK(VipPostRecv(bound, conf_desc(&end, 6, 0, 64), end.handle));
    await_calls(4);
    assert_ptr_equal(calls[3].context, number(9));
    assert_ptr_equal(calls[3].vi, bound);
    CONF_OK(VipPostRecv(fd_bound, conf_desc(&end, 7, 0, 64), end.handle));
    assert_true(readable(fd, 0));
    CONF_OK(VipCQDone(fd_cq, &vi, &recv));
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvNotify(end.vi, NULL, on_desc));
    CONF_OK(VipCQNotify(cq, NULL, on_entry));

    CONF_RETURNS(VIP_ERROR_RESOURCE, VipNSGetHostByName(end.nic, node, &address.net, 0));
    address.net.HostAddressLen = CONF_HOST_BYTES;
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipNSGetHostByAddr(end.nic, &address.net, name, &len));
    CONF_RETURNS(VIP_ERROR_RESOURCE,
                 VipQuerySystemManagementInfo(end.nic, VIP_SMI_AUTODISCOVERY, &list));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipxCQGetFd(cq, &fd));
    conf_close(&end);
    assert_int_equal(called(), 4);
}

static const struct conf_test tests[] = {
    CONF_T("3.10", CONF_FULL, registrations_are_served_after_vipds_death,
           "handlers are called for what is flushed when vipd dies, and later"),
};

CONF_MAIN(tests)
