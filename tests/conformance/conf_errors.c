/*
 * Specification 3.2, 3.4, 3.5, 3.6, 3.9: faults of descriptors, states and protection, and the
 * calls of the error callback.
 */
#include "suite.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void pair(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level)
{
    conf_ready(a, 'A', level);
    conf_ready(b, 'B', level);
    conf_connect(a, b);
}

static void close_both(struct end *a, struct end *b)
{
    conf_close(a);
    conf_close(b);
}

/* 3.2: without a connection a send completes as flushed; a receive stays posted. */
static void posting_in_idle(void **state)
{
    struct end end;
    VIP_DESCRIPTOR *send, *recv, *got;
    VIP_VI_STATE vi_state;
    VIP_VI_ATTRIBUTES attrs;
    VIP_BOOLEAN send_empty, recv_empty;

    (void)state;
    conf_ready(&end, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    send = conf_desc(&end, 0, 0, 64);
    recv = conf_desc(&end, 1, 0, 64);
    conf_post_send(&end, send);
    conf_post_recv(&end, recv);
    conf_failed(&end, false, send, VIP_STATUS_DESC_FLUSHED_ERROR);
    assert_int_equal(send->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_SEND);
    CONF_RETURNS(VIP_NOT_DONE, VipRecvDone(end.vi, &got));
    CONF_OK(VipQueryVi(end.vi, &vi_state, &attrs, &send_empty, &recv_empty));
    assert_int_equal(send_empty, VIP_TRUE);
    assert_int_equal(recv_empty, VIP_FALSE);
    CONF_OK(VipDisconnect(end.vi));
    conf_failed(&end, true, recv, VIP_STATUS_DESC_FLUSHED_ERROR);
    assert_int_equal(recv->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_RECEIVE);
    conf_close(&end);
}

static void posting_in_error_state_is_flushed(void **state)
{
    struct end a, b;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_OK(VipDisconnect(a.vi));
    conf_await_state(&b, VIP_STATE_ERROR);
    conf_post_send(&b, conf_desc(&b, 0, 0, 64));
    conf_post_recv(&b, conf_desc(&b, 1, 0, 64));
    conf_failed(&b, false, (VIP_DESCRIPTOR *)(void *)b.memory, VIP_STATUS_DESC_FLUSHED_ERROR);
    conf_failed(&b, true, (VIP_DESCRIPTOR *)(void *)(b.memory + CONF_DESC_BYTES),
                VIP_STATUS_DESC_FLUSHED_ERROR);
    close_both(&a, &b);
}

static void disconnect_flushes_both_queues_in_order(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *got;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned i = 0; i < 10; i++)
        conf_post_recv(&a, conf_desc(&a, i, 0, 64));
    CONF_OK(VipDisconnect(a.vi));
    for (unsigned i = 0; i < 10; i++)
        conf_failed(&a, true, (VIP_DESCRIPTOR *)(void *)(a.memory + i * CONF_DESC_BYTES),
                    VIP_STATUS_DESC_FLUSHED_ERROR);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(a.vi, &got));
    assert_null(got);
    CONF_OK(VipDestroyVi(a.vi));
    close_both(&a, &b);
}

/* 3.4: a wrong address or region of a descriptor is an asynchronous error; nothing is queued. */
static void misplaced_descriptors_are_told_asynchronously(void **state)
{
    struct end end;
    VIP_DESCRIPTOR *desc, *got, outside[2];
    VIP_ERROR_DESCRIPTOR error;
    VIP_VI_HANDLE vi;

    (void)state;
    conf_ready(&end, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    vi = end.vi;
    desc = (VIP_DESCRIPTOR *)(void *)(end.memory + 8); /* not on a 64-byte boundary */
    CONF_OK(VipPostSend(vi, desc, end.handle));
    error = conf_await_error(&end, VIP_ERROR_POST_DESC);
    assert_ptr_equal(error.NicHandle, end.nic);
    assert_ptr_equal(error.ViHandle, vi);
    assert_ptr_equal(error.DescriptorPtr, desc);
    assert_int_equal(error.ResourceCode, VIP_RESOURCE_DESCRIPTOR);

    conf_forget_errors(&end);
    desc = conf_desc(&end, 0, 0, 64);
    CONF_OK(VipPostRecv(vi, desc, end.handle + 12345)); /* no region has this handle */
    conf_await_error(&end, VIP_ERROR_POST_DESC);

    conf_forget_errors(&end);
    desc = (VIP_DESCRIPTOR *)(((uintptr_t)outside + 63) & ~(uintptr_t)63); /* not in the region */
    CONF_OK(VipPostRecv(vi, desc, end.handle));
    conf_await_error(&end, VIP_ERROR_POST_DESC);

    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipSendDone(vi, &got));
    assert_null(got);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &got));
    assert_null(got);
    CONF_OK(VipDestroyVi(vi));
    conf_close(&end);
}

static void a_descriptor_must_have_the_vis_protection_tag(void **state)
{
    struct end end;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_HANDLE other;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipCreatePtag(end.nic, &attrs.Ptag));
    CONF_OK(VipCreatePtag(end.nic, &mem.Ptag));
    CONF_OK(VipCreateVi(end.nic, &attrs, NULL, NULL, &end.vi));
    CONF_OK(VipRegisterMem(end.nic, end.memory, 4096, &mem, &other));
    CONF_OK(VipPostRecv(end.vi, conf_empty(&end, 0), other));
    conf_await_error(&end, VIP_ERROR_POST_DESC);
    conf_forget_errors(&end);
    /* A region without a tag matches every VI (3.5, checklist 8). */
    conf_post_recv(&end, conf_empty(&end, 1));
    conf_drop_vi(&end);
    assert_int_equal(conf_error_count(&end), 0);
    conf_close(&end);
}

static void too_many_descriptors_overrun(void **state)
{
    struct end end;
    VIP_ERROR_DESCRIPTOR error;
    VIP_ULONG max, n = 0;
    VIP_DESCRIPTOR *got;

    (void)state;
    conf_ready(&end, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    max = end.attrs.MaxDescriptorsPerQueue;
    for (VIP_ULONG i = 0; i < max; i++)
        CONF_OK(VipPostRecv(end.vi, (VIP_DESCRIPTOR *)(void *)(end.buffer + i * 64), end.handle));
    assert_int_equal(conf_error_count(&end), 0);
    CONF_OK(VipPostRecv(end.vi, (VIP_DESCRIPTOR *)(void *)(end.buffer + max * 64), end.handle));
    error = conf_await_error(&end, VIP_ERROR_VI_OVERRUN);
    assert_int_equal(error.ResourceCode, VIP_RESOURCE_VI);
    assert_ptr_equal(error.ViHandle, end.vi);
    CONF_OK(VipDisconnect(end.vi));
    while (VipRecvWait(end.vi, CONF_LIMIT_MS, &got) == VIP_DESCRIPTOR_ERROR && got != NULL)
        n++;
    assert_int_equal(n, max);
    conf_close(&end);
}

/* 3.4, 3.6: format errors of a send; at the unreliable level the queue continues. */
static void bad_formats_are_format_errors(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    (void)state;
    pair(&a, &b, VIP_SERVICE_UNRELIABLE);
    for (unsigned fault = 0; fault < 6; fault++) {
        desc = conf_desc(&a, 0, 0, 64);
        switch (fault) {
        case 0:
            desc->CS.Control = 0x0100;
            break;
        case 1:
            desc->CS.Control = VIP_CONTROL_OP_RESERVED;
            break;
        case 2:
            desc->CS.Reserved = 1;
            break;
        case 3:
            desc->CS.SegCount = 60000;
            break;
        case 4: /* an RDMA Write without an address segment */
            desc = conf_empty(&a, 0);
            desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
            break;
        default: /* an RDMA Read at a NIC without RDMA Read */
            desc->CS.SegCount = 2;
            desc->CS.Control = VIP_CONTROL_OP_RDMAREAD;
            if (a.attrs.RDMAReadSupport != 0)
                continue;
            break;
        }
        conf_post_send(&a, desc);
        conf_failed(&a, false, desc, VIP_STATUS_FORMAT_ERROR);
    }
    /* The connection must still work. */
    conf_alive(&a, &b);
    close_both(&a, &b);
}

static void bad_segments_are_protection_errors(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    (void)state;
    pair(&a, &b, VIP_SERVICE_UNRELIABLE);
    for (unsigned fault = 0; fault < 4; fault++) {
        desc = conf_desc(&a, 0, 0, 64);
        switch (fault) {
        case 0:
            desc->DS[0].Local.Handle = 0;
            break;
        case 1:
            desc->DS[0].Local.Data.Address = NULL;
            break;
        case 2: /* one byte is after the region's end */
            desc->DS[0].Local.Data.Address = a.buffer + conf_buffer_bytes - 63;
            break;
        default: /* the segment's end wraps around */
            desc->DS[0].Local.Data.AddressBits = ~0ull - 10;
            break;
        }
        conf_post_send(&a, desc);
        conf_failed(&a, false, desc, VIP_STATUS_PROTECTION_ERROR);
    }
    close_both(&a, &b);
}

static void wrong_lengths_are_length_errors(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    (void)state;
    pair(&a, &b, VIP_SERVICE_UNRELIABLE);
    desc = conf_desc(&a, 0, 0, 64);
    desc->CS.Length = 63; /* for a send, Length must be the sum of the segments */
    conf_post_send(&a, desc);
    conf_failed(&a, false, desc, VIP_STATUS_LENGTH_ERROR);
    /* In a receive descriptor the segments, not Length, limit the message's length. */
    desc = conf_desc(&b, 0, 0, 64);
    desc->CS.Length = 0;
    conf_post_recv(&b, desc);
    CONF_OK(conf_carry(&a, conf_desc(&a, 1, 0, 64), &b, desc, NULL));
    assert_int_equal(desc->CS.Length, 64);
    close_both(&a, &b);
}

static void a_faulty_send_breaks_a_reliable_connection(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    desc = conf_desc(&a, 0, 0, 64);
    desc->DS[0].Local.Handle = 0;
    conf_post_send(&a, desc);
    conf_failed(&a, false, desc, VIP_STATUS_PROTECTION_ERROR);
    conf_await_state(&a, VIP_STATE_ERROR);
    conf_await_error(&b, VIP_ERROR_CONN_LOST);
    conf_await_state(&b, VIP_STATE_ERROR);
    conf_drop_vi(&a);
    conf_drop_vi(&b);
    close_both(&a, &b);
}

static void a_message_without_receive_reliable(void **state)
{
    struct end a, b;
    VIP_ERROR_DESCRIPTOR error;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_post_send(&a, conf_desc(&a, 0, 0, 64));
    error = conf_await_error(&b, VIP_ERROR_RECVQ_EMPTY);
    assert_int_equal(error.ResourceCode, VIP_RESOURCE_VI);
    assert_ptr_equal(error.ViHandle, b.vi);
    conf_await_state(&b, VIP_STATE_ERROR);
    conf_await_error(&a, VIP_ERROR_CONN_LOST);
    conf_await_state(&a, VIP_STATE_ERROR);
    conf_drop_vi(&a);
    conf_drop_vi(&b);
    close_both(&a, &b);
}

static void a_message_without_receive_unreliable(void **state)
{
    struct end a, b;

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_UNRELIABLE);
    conf_provoke(&a, conf_desc(&a, 0, 0, 64), &b, VIP_ERROR_RECVQ_EMPTY, true);
    conf_alive(&a, &b); /* b dropped the message, but the next one arrives */
    close_both(&a, &b);
}

static void a_receive_that_is_too_small(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *recv;

    (void)state;
    for (unsigned reliable = 0; reliable < 2; reliable++) {
        pair(&a, &b, reliable ? VIP_SERVICE_RELIABLE_DELIVERY : VIP_SERVICE_UNRELIABLE);
        memset(b.buffer, 0, 200);
        memset(a.buffer, 0xAA, 200);
        recv = conf_desc(&b, 0, 0, 63);
        conf_post_recv(&b, recv);
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, conf_carry(&a, conf_desc(&a, 0, 0, 64), &b, recv, NULL));
        assert_int_equal(recv->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_LENGTH_ERROR);
        assert_int_equal(b.buffer[63], 0);
        conf_await_state(&b, reliable ? VIP_STATE_ERROR : VIP_STATE_CONNECTED);
        if (reliable)
            conf_await_state(&a, VIP_STATE_ERROR);
        close_both(&a, &b);
    }
}

static void rdma_write_needs_the_vis_permission(void **state)
{
    struct end a, b;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_RELIABLE_DELIVERY, 0, NULL, NULL, VIP_FALSE, VIP_FALSE};

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_open(&b, 'B');
    attrs.MaxTransferSize = b.attrs.MaxTransferSize;
    CONF_OK(VipCreateVi(b.nic, &attrs, NULL, NULL, &b.vi));
    conf_connect(&a, &b);
    conf_post_send(&a, conf_write(&a, 0, 0, 64, &b, 0));
    conf_await_error(&b, VIP_ERROR_RDMAW_PROT);
    conf_await_state(&b, VIP_STATE_ERROR); /* the refusal breaks a reliable connection */
    conf_await_state(&a, VIP_STATE_ERROR);
    close_both(&a, &b);
}

/* 3.5, 2.3: after VipDeregisterMem a send cannot use the region. */
static void deregistered_memory_is_not_reached(void **state)
{
    struct end a, b;
    VIP_MEM_HANDLE once;
    VIP_DESCRIPTOR *desc;

    (void)state;
    pair(&a, &b, VIP_SERVICE_UNRELIABLE);
    CONF_OK(VipRegisterMem(a.nic, a.buffer, 100, NULL, &once));
    CONF_OK(VipDeregisterMem(a.nic, a.buffer, once));
    desc = conf_desc(&a, 0, 0, 64);
    desc->DS[0].Local.Handle = once;
    conf_post_send(&a, desc);
    conf_failed(&a, false, desc, VIP_STATUS_PROTECTION_ERROR);
    close_both(&a, &b);
}

/* 3.9: the handler may call any VIPL function, even one that waits for vipd. */
static void reconnect_in_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    struct end *end = context;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    union conf_address address = {{0}};
    VIP_VI_HANDLE vi;
    VIP_RETURN rc;

    (void)error;
    address.net.HostAddressLen = end->attrs.NicAddressLen;
    memcpy(address.bytes + 4, end->attrs.LocalNicAddress, end->attrs.NicAddressLen);
    VipDisconnect(end->vi);
    rc = VipCreateVi(end->nic, &attrs, NULL, NULL, &vi);
    if (rc == VIP_SUCCESS)
        rc = VipConnectRequest(vi, &address.net, &address.net, 2000, &attrs);
    __atomic_store_n(&end->error_count, rc == VIP_NO_MATCH ? 1000 : 2000, __ATOMIC_RELEASE);
}

static void a_handler_may_call_anything(void **state)
{
    struct end a, b;
    uint64_t started = 0;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_OK(VipErrorCallback(b.nic, &b, reconnect_in_handler));
    CONF_OK(VipDisconnect(a.vi));
    while (conf_error_count(&b) == 0)
        assert_true(conf_pause(&started));
    assert_int_equal(conf_error_count(&b), 1000);
    assert_int_equal(conf_state(&b), VIP_STATE_IDLE);
    close_both(&a, &b);
}

/* Standard error of this program, redirected to a file until restore_stderr. */
struct kept_stderr {
    int saved;
    FILE *file;
};

static void keep_stderr(struct kept_stderr *kept)
{
    kept->file = tmpfile();
    assert_non_null(kept->file);
    kept->saved = dup(STDERR_FILENO);
    assert_true(kept->saved >= 0);
    assert_true(dup2(fileno(kept->file), STDERR_FILENO) >= 0);
}

/* Get the text that this program wrote. Wait for a whole line, but at most CONF_LIMIT_MS. */
static void restore_stderr(struct kept_stderr *kept, char *text, size_t size)
{
    uint64_t started = 0;
    ssize_t length;

    do
        length = pread(fileno(kept->file), text, size - 1, 0);
    while (length >= 0 && memchr(text, '\n', (size_t)length) == NULL && conf_pause(&started));
    dup2(kept->saved, STDERR_FILENO);
    close(kept->saved);
    fclose(kept->file);
    assert_true(length >= 0);
    text[length] = '\0';
}

static void without_a_handler_the_error_is_logged(void **state)
{
    struct end a, b;
    struct kept_stderr kept;
    char text[512], expected[256];

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_OK(VipErrorCallback(b.nic, NULL, NULL));
    keep_stderr(&kept);
    VipDisconnect(a.vi);
    restore_stderr(&kept, text, sizeof(text));
    snprintf(expected, sizeof(expected), "libvipl: VIP_ERROR_CONN_LOST on VI %p of NIC %p", b.vi,
             b.nic);
    if (strncmp(text, expected, strlen(expected)) != 0)
        fail_msg("the log says \"%s\", not \"%s...\"", text, expected);
    assert_non_null(strstr(text, "(no VipErrorCallback handler is set)\n"));
    close_both(&a, &b);
}

static unsigned closed_in_handler;

static void close_in_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    struct end *end = context;

    (void)error;
    __atomic_store_n(&closed_in_handler, VipCloseNic(end->nic) == VIP_SUCCESS ? 1 : 2,
                     __ATOMIC_RELEASE);
}

static void a_handler_may_close_its_nic(void **state)
{
    struct end a, b;
    uint64_t started = 0;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_OK(VipErrorCallback(b.nic, &b, close_in_handler));
    CONF_OK(VipDisconnect(a.vi));
    while (__atomic_load_n(&closed_in_handler, __ATOMIC_ACQUIRE) == 0)
        assert_true(conf_pause(&started));
    assert_int_equal(closed_in_handler, 1);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCloseNic(b.nic));
    conf_close(&a);
}

/* handler_is: 0 not begun, 1 running, 2 ended. handler_needs: the lock that the handler takes. */
static unsigned handler_is;
static pthread_mutex_t handler_needs = PTHREAD_MUTEX_INITIALIZER;

static void slow_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    const struct timespec pause = {.tv_nsec = 200000000};

    (void)error;
    __atomic_store_n(&handler_is, 1, __ATOMIC_RELEASE);
    nanosleep(&pause, NULL);
    if (context != NULL) {
        pthread_mutex_lock(&handler_needs);
        pthread_mutex_unlock(&handler_needs);
    }
    __atomic_store_n(&handler_is, 2, __ATOMIC_RELEASE);
}

static void a_replaced_handler_has_ended(void **state)
{
    bool locked = conf_arg(state) != 0; /* the caller holds a lock that the handler needs */
    struct end a, b;
    uint64_t started = 0;

    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    __atomic_store_n(&handler_is, 0, __ATOMIC_RELEASE);
    CONF_OK(VipErrorCallback(b.nic, locked ? &b : NULL, slow_handler));
    if (locked)
        pthread_mutex_lock(&handler_needs);
    CONF_OK(VipDisconnect(a.vi));
    while (__atomic_load_n(&handler_is, __ATOMIC_ACQUIRE) == 0)
        assert_true(conf_pause(&started));
    CONF_OK(VipErrorCallback(b.nic, NULL, NULL));
    assert_int_equal(__atomic_load_n(&handler_is, __ATOMIC_ACQUIRE), locked ? 1 : 2);
    if (locked)
        pthread_mutex_unlock(&handler_needs);
    close_both(&a, &b);
}

/* Runs in a child process. There the parent's handles are invalid, VipOpenNic works, and writes to
 * memory do not change the parent's memory. */
static int child_looks(struct end *end)
{
    VIP_NIC_ATTRIBUTES attrs;
    VIP_DESCRIPTOR *desc;
    VIP_NIC_HANDLE nic;

    if (VipQueryNic(end->nic, &attrs) != VIP_INVALID_PARAMETER ||
        VipSendDone(end->vi, &desc) != VIP_INVALID_PARAMETER ||
        VipRecvWait(end->vi, 10, &desc) != VIP_INVALID_PARAMETER ||
        VipPostSend(end->vi, (VIP_DESCRIPTOR *)(void *)end->memory, end->handle) !=
            VIP_INVALID_PARAMETER ||
        VipDisconnect(end->vi) != VIP_INVALID_PARAMETER ||
        VipCloseNic(end->nic) != VIP_INVALID_PARAMETER)
        return 1;
    memset(end->memory, 0x77, end->memory_bytes); /* the child's own copy */
#ifndef __SANITIZE_THREAD__                       /* TSan allows no threads in a child */
    if (VipOpenNic("vip0", &nic) != VIP_SUCCESS || VipCloseNic(nic) != VIP_SUCCESS)
        return 2;
#else
    (void)nic;
#endif
    return 0;
}

static void a_child_does_not_touch_its_parents_session(void **state)
{
    struct end a, b;
    pid_t pid;
    int status;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_fill(a.buffer, 1000, 8);
    conf_post_recv(&b, conf_desc(&b, 0, 0, 1000));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(child_looks(&a));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    conf_same(a.buffer, 1000, 8);
    conf_post_send(&a, conf_desc(&a, 0, 0, 1000));
    conf_sent(&a, (VIP_DESCRIPTOR *)(void *)a.memory);
    conf_received(&b, (VIP_DESCRIPTOR *)(void *)b.memory, 1000);
    conf_same(b.buffer, 1000, 8);
    close_both(&a, &b);
}

static const struct conf_test tests[] = {
    CONF_T("3.2", CONF_EARLY, posting_in_idle, "posting in idle"),
    CONF_T("3.2", CONF_EARLY, posting_in_error_state_is_flushed,
           "posting in error state is flushed"),
    CONF_T("3.6", CONF_EARLY, disconnect_flushes_both_queues_in_order,
           "disconnect flushes both queues in order"),
    CONF_T("3.4", CONF_FUNCTIONAL, misplaced_descriptors_are_told_asynchronously,
           "misplaced descriptors are told asynchronously"),
    CONF_T("3.5", CONF_FUNCTIONAL, a_descriptor_must_have_the_vis_protection_tag,
           "a descriptor must have the vis protection tag"),
    CONF_T("3.4", CONF_FUNCTIONAL, too_many_descriptors_overrun, "too many descriptors overrun"),
    CONF_T("3.4", CONF_FUNCTIONAL, bad_formats_are_format_errors, "bad formats are format errors"),
    CONF_T("3.4", CONF_FUNCTIONAL, bad_segments_are_protection_errors,
           "bad segments are protection errors"),
    CONF_T("3.4", CONF_FUNCTIONAL, wrong_lengths_are_length_errors,
           "wrong lengths are length errors"),
    CONF_T("3.6", CONF_FUNCTIONAL, a_faulty_send_breaks_a_reliable_connection,
           "a faulty send breaks a reliable connection"),
    CONF_T("3.6", CONF_FUNCTIONAL, a_message_without_receive_reliable,
           "a message without receive reliable"),
    CONF_T("3.6", CONF_FUNCTIONAL, a_message_without_receive_unreliable,
           "a message without receive unreliable"),
    CONF_T("3.6", CONF_FUNCTIONAL, a_receive_that_is_too_small, "a receive that is too small"),
    CONF_T("3.5", CONF_FUNCTIONAL, rdma_write_needs_the_vis_permission,
           "rdma write needs the vis permission"),
    CONF_T("2.3", CONF_EARLY, deregistered_memory_is_not_reached,
           "deregistered memory is not reached"),
    CONF_T("3.9", CONF_FUNCTIONAL, without_a_handler_the_error_is_logged,
           "without a handler the error is written to standard error"),
    CONF_T("3.9", CONF_FUNCTIONAL, a_handler_may_call_anything, "a handler may call anything"),
    CONF_T("3.9", CONF_FUNCTIONAL, a_handler_may_close_its_nic, "a handler may close its nic"),
    CONF_N("3.9", CONF_FUNCTIONAL, a_replaced_handler_has_ended, "by_itself", 0,
           "VipErrorCallback(NULL) returns when the old handler has"),
    CONF_N("3.9", CONF_FUNCTIONAL, a_replaced_handler_has_ended, "in_time", 1,
           "VipErrorCallback(NULL) returns although the old handler needs a lock of its caller"),
    CONF_T("3.9", CONF_FUNCTIONAL, a_child_does_not_touch_its_parents_session,
           "a child does not touch its parents session"),
};

CONF_MAIN(tests)
