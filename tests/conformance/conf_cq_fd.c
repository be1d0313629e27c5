/*
 * The extension VipxCQGetFd: a completion queue as a descriptor for epoll and poll.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

const size_t conf_buffer_bytes = 4194304;

static void pair(struct end *a, struct end *b)
{
    conf_open(a, 'A');
    conf_open(b, 'B');
    CONF_OK(VipCreateCQ(b->nic, 64, &b->cq));
    conf_vi(a, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_vi(b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_connect(a, b);
}

/* Open an end whose VI has a CQ, and put the entries of `count` flushed receives into the CQ. */
static void flushed(struct end *end, unsigned count)
{
    conf_open(end, 'A');
    CONF_OK(VipCreateCQ(end->nic, 64, &end->cq));
    conf_vi(end, VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned i = 0; i < count; i++)
        conf_post_recv(end, conf_desc(end, i, 0, 64));
    CONF_OK(VipDisconnect(end->vi));
}

static bool readable(int fd, int limit_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    assert_true(poll(&poll_fd, 1, limit_ms) >= 0);
    return poll_fd.revents != 0;
}

/* Take entries until the CQ is empty; returns their number. */
static unsigned drain(struct end *end)
{
    VIP_DESCRIPTOR *desc;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    unsigned count = 0;

    while (VipCQDone(end->cq, &vi, &recv) == VIP_SUCCESS) {
        VipRecvDone(vi, &desc);
        assert_non_null(desc);
        count++;
    }
    return count;
}

static void arguments_and_lifetime(void **state)
{
    struct end end;
    int fd = -1, again = -2;
    VIP_CQ_HANDLE cq;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipCreateCQ(end.nic, 8, &cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxCQGetFd(cq, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxCQGetFd(NULL, &fd));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxCQGetFd(end.nic, &fd));
    CONF_OK(VipxCQGetFd(cq, &fd));
    CONF_OK(VipxCQGetFd(cq, &again));
    assert_int_equal(fd, again);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    CONF_OK(VipDestroyCQ(cq));
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxCQGetFd(cq, &fd));
    CONF_OK(VipCreateCQ(end.nic, 8, &cq));
    CONF_OK(VipxCQGetFd(cq, &fd));
    conf_close(&end);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void descriptors_have_a_limit(void **state)
{
    struct end end;
    VIP_CQ_HANDLE cq;
    VIP_RETURN rc = VIP_SUCCESS;
    unsigned count = 0;
    int fd;

    (void)state;
    conf_open(&end, 'A');
    while (count < 1000 && rc == VIP_SUCCESS) {
        CONF_OK(VipCreateCQ(end.nic, 8, &cq));
        rc = VipxCQGetFd(cq, &fd);
        count++;
    }
    assert_int_equal(rc, VIP_ERROR_RESOURCE);
    assert_true(count > 16);
    /* The handle of a destroyed CQ is invalid. */
    CONF_OK(VipDestroyCQ(cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxCQGetFd(cq, &fd));
    conf_close(&end);
}

static void readable_while_there_are_entries(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    int fd;

    (void)state;
    pair(&a, &b);
    CONF_OK(VipxCQGetFd(b.cq, &fd));
    assert_false(readable(fd, 0));
    for (unsigned round = 0; round < 50; round++) {
        for (unsigned i = 0; i < 3; i++)
            conf_post_recv(&b, conf_desc(&b, i, 0, 64));
        for (unsigned i = 0; i < 3; i++) {
            conf_post_send(&a, conf_desc(&a, i, 0, 64));
            conf_sent(&a, (VIP_DESCRIPTOR *)(void *)(a.memory + i * CONF_DESC_BYTES));
        }
        for (unsigned i = 0; i < 3; i++) {
            assert_true(readable(fd, CONF_LIMIT_MS));
            CONF_OK(VipCQWait(b.cq, CONF_LIMIT_MS, &vi, &recv));
            CONF_OK(VipRecvDone(vi, &desc));
        }
        CONF_RETURNS(VIP_NOT_DONE, VipCQDone(b.cq, &vi, &recv));
        /* The message by which vipd makes fd readable may come late. VipCQDone then reads it. */
        while (readable(fd, 0))
            CONF_RETURNS(VIP_NOT_DONE, VipCQDone(b.cq, &vi, &recv));
    }
    conf_close_pair(&a, &b);
}

static void readable_at_once_if_entries_are_there(void **state)
{
    struct end end;
    int fd;

    (void)state;
    flushed(&end, 5);
    CONF_OK(VipxCQGetFd(end.cq, &fd));
    assert_true(readable(fd, 0));
    assert_int_equal(drain(&end), 5);
    assert_false(readable(fd, 0));
    conf_close(&end);
}

/* A new CQ gets the number of a destroyed CQ. The new CQ's file descriptor must not be readable
 * because of entries of the destroyed CQ. */
static void a_new_queue_starts_unreadable(void **state)
{
    struct end end;
    int fd;

    (void)state;
    flushed(&end, 5);
    for (unsigned round = 0; round < 5; round++) {
        CONF_OK(VipxCQGetFd(end.cq, &fd));
        assert_int_equal(drain(&end), 5);
        CONF_OK(VipDestroyVi(end.vi));
        CONF_OK(VipDestroyCQ(end.cq));
        CONF_OK(VipCreateCQ(end.nic, 64, &end.cq));
        CONF_OK(VipxCQGetFd(end.cq, &fd));
        assert_false(readable(fd, 0));
        conf_vi(&end, VIP_SERVICE_RELIABLE_DELIVERY);
        for (unsigned i = 0; i < 5; i++)
            conf_post_recv(&end, conf_desc(&end, i, 0, 64));
        CONF_OK(VipDisconnect(end.vi));
        assert_true(readable(fd, CONF_LIMIT_MS));
    }
    conf_close(&end);
}

/* There are more entries than the shared ring can hold. vipd adds the other entries later. */
static void a_backlog_keeps_it_readable(void **state)
{
    enum { VIS = 20, EACH = 1000 };
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    struct end end;
    unsigned count = 0;
    int fd;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipCreateCQ(end.nic, 64, &end.cq));
    CONF_OK(VipxCQGetFd(end.cq, &fd));
    memset(end.buffer, 0, 64);
    for (unsigned v = 0; v < VIS; v++) {
        conf_vi(&end, VIP_SERVICE_RELIABLE_DELIVERY);
        for (unsigned i = 0; i < EACH; i++)
            CONF_OK(VipPostRecv(
                end.vi, (VIP_DESCRIPTOR *)(void *)(end.buffer + (v * EACH + i) * 64), end.handle));
        CONF_OK(VipDisconnect(end.vi));
    }
    while (count < VIS * EACH) {
        if (!readable(fd, CONF_LIMIT_MS))
            fail_msg("not readable after %u of %u entries", count, VIS * EACH);
        while (VipCQDone(end.cq, &vi, &recv) == VIP_SUCCESS)
            count++;
    }
    assert_int_equal(count, VIS * EACH);
    conf_close(&end);
}

/* ---- no wake-up is lost ---------------------------------------------------------------------- */

struct sender {
    struct end *end;
    unsigned count; /* messages; atomic if run_waiter uses it */
    unsigned ahead; /* the sender waits while so many messages are not yet taken */
    unsigned taken; /* atomic; messages that the receiver has taken */
    VIP_RETURN result;
};

/* Send the messages one after the other, so that the receiver's queue is often empty. */
static void *run_sender(void *arg)
{
    struct sender *sender = arg;
    struct end *end = sender->end;
    VIP_DESCRIPTOR *desc = (VIP_DESCRIPTOR *)(void *)end->memory, *got;

    for (unsigned i = 0; i < sender->count && sender->result == VIP_SUCCESS; i++) {
        while (i - __atomic_load_n(&sender->taken, __ATOMIC_ACQUIRE) >= sender->ahead)
            sched_yield();
        desc->CS.Length = 64;
        sender->result = VipPostSend(end->vi, desc, end->handle);
        if (sender->result == VIP_SUCCESS)
            sender->result = VipSendWait(end->vi, CONF_LIMIT_MS, &got);
    }
    return NULL;
}

/* How the test takes entries after a wake-up. */
enum { UNTIL_EMPTY, ONE_AT_A_TIME, EDGE };

static void every_entry_wakes(void **state)
{
    enum { N = 3000, POSTED = 60 };
    uintptr_t how = conf_arg(state);
    struct end a, b;
    struct sender sender = {.end = &a, .count = N, .ahead = POSTED / 2};
    struct epoll_event event = {.events = EPOLLIN | (how == EDGE ? (uint32_t)EPOLLET : 0)};
    int epoll = epoll_create1(EPOLL_CLOEXEC), fd;
    pthread_t thread;
    unsigned count = 0;

    pair(&a, &b);
    conf_desc(&a, 0, 0, 64);
    for (unsigned i = 0; i < POSTED; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    CONF_OK(VipxCQGetFd(b.cq, &fd));
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_sender, &sender), 0);
    while (count < N) {
        VIP_DESCRIPTOR *desc;
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN recv;

        if (epoll_wait(epoll, &event, 1, CONF_LIMIT_MS) != 1)
            fail_msg("no wake-up after %u of %u messages", count, N);
        while (VipCQDone(b.cq, &vi, &recv) == VIP_SUCCESS) {
            CONF_OK(VipRecvDone(vi, &desc));
            desc->CS.Length = 64;
            conf_post_recv(&b, desc);
            __atomic_store_n(&sender.taken, ++count, __ATOMIC_RELEASE);
            if (how == ONE_AT_A_TIME)
                break;
        }
    }
    pthread_join(thread, NULL);
    assert_int_equal(sender.result, VIP_SUCCESS);
    assert_int_equal(count, N);
    close(epoll);
    conf_close_pair(&a, &b);
}

/* This thread waits in VipCQWait. Another thread waits in poll for the same CQ. */
static void *run_waiter(void *arg)
{
    struct sender *waiter = arg;
    VIP_DESCRIPTOR *desc;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    while (VipCQWait(waiter->end->cq, VIP_INFINITE, &vi, &recv) == VIP_SUCCESS) {
        waiter->result = VipRecvDone(vi, &desc);
        if (waiter->result != VIP_SUCCESS)
            break;
        __atomic_add_fetch(&waiter->count, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void a_waiting_thread_may_share_the_queue(void **state)
{
    enum { N = 40 };
    struct end a, b;
    struct sender sender = {.end = &a, .count = N, .ahead = N}, waiter = {.end = &b};
    pthread_t threads[2];
    unsigned count = 0;
    uint64_t started = 0;
    int fd;

    (void)state;
    pair(&a, &b);
    conf_desc(&a, 0, 0, 64);
    for (unsigned i = 0; i < N; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    CONF_OK(VipxCQGetFd(b.cq, &fd));
    pthread_create(&threads[0], NULL, run_waiter, &waiter);
    pthread_create(&threads[1], NULL, run_sender, &sender);
    while (count + __atomic_load_n(&waiter.count, __ATOMIC_SEQ_CST) < N) {
        if (readable(fd, 1))
            count += drain(&b);
        if (!conf_pause(&started))
            fail_msg("%u + %u of %u entries", count, waiter.count, N);
    }
    pthread_join(threads[1], NULL);
    conf_close_pair(&a, &b);
    pthread_join(threads[0], NULL);
    assert_int_equal(waiter.result, VIP_SUCCESS);
    assert_int_equal(count + waiter.count, N);
}

static const struct conf_test tests[] = {
    CONF_T("ext", CONF_FULL, arguments_and_lifetime,
           "VipxCQGetFd: one descriptor per queue, which ends with it"),
    CONF_T("ext", CONF_FULL, descriptors_have_a_limit,
           "VipxCQGetFd: VIP_ERROR_RESOURCE when too many queues have one"),
    CONF_T("ext", CONF_FULL, readable_while_there_are_entries,
           "VipxCQGetFd: readable from the first entry until the queue is found empty"),
    CONF_T("ext", CONF_FULL, readable_at_once_if_entries_are_there,
           "VipxCQGetFd: readable at once if entries are there"),
    CONF_T("ext", CONF_FULL, a_new_queue_starts_unreadable,
           "VipxCQGetFd: a queue that takes the place of another starts afresh"),
    CONF_T("ext", CONF_FULL, a_backlog_keeps_it_readable,
           "VipxCQGetFd: entries beyond the size of the queue are told as well"),
    CONF_N("ext", CONF_FULL, every_entry_wakes, "until_empty", UNTIL_EMPTY,
           "VipxCQGetFd: no wake-up is lost if every wake-up empties the queue"),
    CONF_N("ext", CONF_FULL, every_entry_wakes, "one_at_a_time", ONE_AT_A_TIME,
           "VipxCQGetFd: no wake-up is lost if every wake-up takes one entry (level-triggered)"),
    CONF_N("ext", CONF_FULL, every_entry_wakes, "edge", EDGE,
           "VipxCQGetFd: no wake-up is lost with EPOLLET if every wake-up empties the queue"),
    CONF_T("ext", CONF_FULL, a_waiting_thread_may_share_the_queue,
           "VipxCQGetFd: a thread in VipCQWait may serve the same queue"),
};

CONF_MAIN(tests)
