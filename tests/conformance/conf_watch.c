/*
 * Specification 3.3: a program may watch VIP_STATUS_DONE in memory, without a Done or Wait call.
 * The test sets VIPL_STATUS_IN_MEMORY=1 (conformance_notes.md says why). The status in memory must
 * be complete, and a Done call must still return the descriptor once.
 */
#include "suite.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static VIP_UINT32 seen(const VIP_DESCRIPTOR *desc)
{
    return __atomic_load_n(&desc->CS.Status, __ATOMIC_ACQUIRE);
}

/* Read the descriptor's status until it is done; call no VIPL function. */
static void watch(const VIP_DESCRIPTOR *desc, VIP_UINT32 status)
{
    uint64_t started = 0;

    while ((seen(desc) & VIP_STATUS_DONE) == 0)
        if (!conf_pause(&started))
            fail_msg("VIP_STATUS_DONE never came");
    assert_int_equal(seen(desc), status | VIP_STATUS_DONE);
}

/* Watch a receive complete. If a lossy network has lost the unreliable message, send it again. */
static void watch_receive(struct end *a, VIP_DESCRIPTOR *send, VIP_DESCRIPTOR *recv,
                          VIP_UINT32 sent, VIP_UINT32 received)
{
    VIP_DESCRIPTOR *got;

    for (;;) {
        conf_post_send(a, send);
        watch(send, sent);
        for (unsigned i = 0; i < 100 && (seen(recv) & VIP_STATUS_DONE) == 0; i++)
            usleep(1000);
        if ((seen(recv) & VIP_STATUS_DONE) != 0 || a->level != VIP_SERVICE_UNRELIABLE ||
            !conf_lossy())
            break;
        CONF_OK(VipSendDone(a->vi, &got));
    }
    watch(recv, received);
}

static void watched_pair(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level)
{
    setenv("VIPL_STATUS_IN_MEMORY", "1", 1);
    conf_pair(a, b, level);
    unsetenv("VIPL_STATUS_IN_MEMORY");
}

/* Take the descriptor with a Done call, which must return `code`. The queue is then empty. */
static void take_once(struct end *end, bool recv, VIP_DESCRIPTOR *desc, VIP_RETURN code)
{
    VIP_RETURN (*done)(VIP_VI_HANDLE, VIP_DESCRIPTOR **) = recv ? VipRecvDone : VipSendDone;
    VIP_DESCRIPTOR *got = NULL;
    VIP_UINT32 status = seen(desc);

    CONF_RETURNS(code, done(end->vi, &got));
    assert_ptr_equal(got, desc);
    assert_int_equal(seen(desc), status);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, done(end->vi, &got));
    assert_null(got);
}

static void sends_and_receives(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *send, *recv;

    watched_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 20; i++) {
        size_t bytes = i * 3001;

        send = conf_desc(&a, 0, 0, bytes);
        recv = conf_desc(&b, 0, 0, bytes + 100);
        send->CS.Control = VIP_CONTROL_IMMEDIATE;
        send->CS.ImmediateData = 7 * i;
        conf_fill(a.buffer, bytes, i);
        conf_post_recv(&b, recv);
        watch_receive(&a, send, recv, VIP_STATUS_OP_SEND,
                      VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE);
        assert_int_equal(recv->CS.Length, bytes);
        assert_int_equal(recv->CS.ImmediateData, 7 * i);
        conf_same(b.buffer, bytes, i);
        take_once(&a, false, send, VIP_SUCCESS);
        take_once(&b, true, recv, VIP_SUCCESS);
    }
    conf_close_pair(&a, &b);
}

static void rdma_writes(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *write, *recv;

    watched_pair(&a, &b, conf_level(state));
    conf_fill(a.buffer, 5000, 3);
    write = conf_write(&a, 0, 0, 5000, &b, 0);
    conf_post_send(&a, write);
    watch(write, VIP_STATUS_OP_RDMA_WRITE);
    take_once(&a, false, write, VIP_SUCCESS);

    write = conf_write(&a, 1, 0, 5000, &b, 6000);
    write->CS.Control |= VIP_CONTROL_IMMEDIATE;
    write->CS.ImmediateData = 99;
    recv = conf_empty(&b, 0);
    conf_post_recv(&b, recv);
    watch_receive(&a, write, recv, VIP_STATUS_OP_RDMA_WRITE,
                  VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE);
    assert_int_equal(recv->CS.ImmediateData, 99);
    conf_same(b.buffer + 6000, 5000, 3);
    take_once(&a, false, write, VIP_SUCCESS);
    take_once(&b, true, recv, VIP_SUCCESS);
    conf_close_pair(&a, &b);
}

static void rdma_reads(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *read;

    watched_pair(&a, &b, conf_level(state));
    conf_fill(b.buffer, 70000, 4);
    read = conf_read(&a, 0, 0, 70000, &b, 0);
    conf_post_send(&a, read);
    watch(read, VIP_STATUS_OP_RDMA_READ);
    conf_same(a.buffer, 70000, 4);
    take_once(&a, false, read, VIP_SUCCESS);
    conf_close_pair(&a, &b);
}

/* Post several descriptors, watch all of them, then take them in order. Do the same with
 * descriptors that the end of the connection flushes. */
static void several_and_flushed(void **state)
{
    enum { N = 10 };
    struct end a, b;

    watched_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 2 * N; i++)
        conf_post_recv(&b, conf_desc(&b, i, i * 64, 64));
    for (unsigned i = 0; i < N; i++)
        conf_post_send(&a, conf_desc(&a, i, i * 64, 64));
    for (unsigned i = N; i-- > 0;) {
        watch(conf_at(&a, i), VIP_STATUS_OP_SEND);
        if (a.level != VIP_SERVICE_UNRELIABLE)
            watch(conf_at(&b, i), VIP_STATUS_OP_RECEIVE);
    }
    for (unsigned i = 0; i < N; i++)
        conf_sent(&a, conf_at(&a, i));
    CONF_OK(VipDisconnect(b.vi));
    watch(conf_at(&b, 2 * N - 1), VIP_STATUS_OP_RECEIVE | VIP_STATUS_DESC_FLUSHED_ERROR);
    for (unsigned i = 0; i < 2 * N; i++) {
        VIP_UINT32 status = seen(conf_at(&b, i));

        conf_take(&b, true, conf_at(&b, i));
        assert_int_equal(seen(conf_at(&b, i)), status);
    }
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    assert_int_equal(seen(conf_at(&b, 0)), 0);
    conf_close_pair(&a, &b);
}

/* libvipl copies a message to staged memory only once, before libvipl writes the status. */
static void staged_memory(void **state)
{
    struct end a, b;
    char *mapped;
    VIP_MEM_HANDLE handle;
    VIP_DESCRIPTOR *send, *recv;
    FILE *file = tmpfile();

    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), 8192), 0);
    mapped = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    assert_ptr_not_equal(mapped, MAP_FAILED);
    watched_pair(&a, &b, conf_level(state));
    CONF_OK(VipRegisterMem(b.nic, mapped, 8192, NULL, &handle));
    send = conf_desc(&a, 0, 0, 5000);
    recv = conf_desc(&b, 0, 0, 5000);
    recv->DS[0].Local.Data.Address = mapped + 100;
    recv->DS[0].Local.Handle = handle;
    conf_fill(a.buffer, 5000, 8);
    conf_post_recv(&b, recv);
    watch_receive(&a, send, recv, VIP_STATUS_OP_SEND, VIP_STATUS_OP_RECEIVE);
    conf_same(mapped + 100, 5000, 8);
    conf_fill(mapped + 100, 5000, 9);
    take_once(&b, true, recv, VIP_SUCCESS);
    conf_same(mapped + 100, 5000, 9);
    take_once(&a, false, send, VIP_SUCCESS);
    CONF_OK(VipDeregisterMem(b.nic, mapped, handle));
    munmap(mapped, 8192);
    fclose(file);
    conf_close_pair(&a, &b);
}

/* The descriptor's region was deregistered. So libvipl does not write the status, and VipRecvDone
 * returns VIP_DESCRIPTOR_ERROR, as it does without VIPL_STATUS_IN_MEMORY. */
static void memory_that_was_deregistered(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc = NULL, *got;
    VIP_MEM_HANDLE handle;

    (void)state;
    watched_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    assert_int_equal(posix_memalign((void **)&desc, 4096, 4096), 0);
    memset((void *)desc, 0, 4096);
    CONF_OK(VipRegisterMem(b.nic, desc, 4096, NULL, &handle));
    CONF_OK(VipPostRecv(b.vi, desc, handle));
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    CONF_OK(VipDeregisterMem(b.nic, desc, handle));
    memset((void *)desc, 0x77, 4096);
    conf_post_send(&a, conf_empty(&a, 0));
    conf_post_send(&a, conf_desc(&a, 1, 0, 64));
    watch(conf_at(&b, 0), VIP_STATUS_OP_RECEIVE);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(b.vi, &got));
    assert_ptr_equal(got, desc);
    conf_await_error(&b, VIP_ERROR_COMP_PROT);
    for (unsigned i = 0; i < 4096; i++)
        assert_int_equal(((unsigned char *)desc)[i], 0x77);
    conf_received(&b, conf_at(&b, 0), 64);
    free(desc);
    conf_close_pair(&a, &b);
}

#define WATCH(fn, sentence) CONF_EACH("3.3", CONF_FULL, fn, sentence)

static const struct conf_test tests[] = {
    WATCH(sends_and_receives, "VIP_STATUS_DONE of sends and receives can be watched in memory "
                              "(with VIPL_STATUS_IN_MEMORY=1), the "
                              "rest is there by then"),
    WATCH(rdma_writes, "VIP_STATUS_DONE of RDMA Writes can be watched in memory (with "
                       "VIPL_STATUS_IN_MEMORY=1), at both ends"),
    CONF_N("3.3", CONF_FULL, rdma_reads, "rd", VIP_SERVICE_RELIABLE_DELIVERY,
           "VIP_STATUS_DONE of RDMA Reads can be watched in memory (with VIPL_STATUS_IN_MEMORY=1)"),
    CONF_N("3.3", CONF_FULL, rdma_reads, "rr", VIP_SERVICE_RELIABLE_RECEPTION,
           "VIP_STATUS_DONE of RDMA Reads can be watched in memory (with VIPL_STATUS_IN_MEMORY=1)"),
    WATCH(several_and_flushed, "several can be watched in memory (with VIPL_STATUS_IN_MEMORY=1) at "
                               "once, flushed ones too; Done returns them in order"),
    WATCH(staged_memory, "data in memory that the library copies is there when the status is"),
    CONF_T("3.3", CONF_FULL, memory_that_was_deregistered,
           "nothing is written to a descriptor whose region has gone"),
};

CONF_MAIN(tests)
