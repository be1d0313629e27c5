/*
 * Specification 2.6, 2.7, 3.10: the Notify calls.
 */
#include "calls.h"

#include <sys/mman.h>

/* ---- one queue ------------------------------------------------------------------------------- */

static void what_is_there_is_removed_and_handed_over(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc, *got = NULL;
    uint64_t started = 0;

    (void)state;
    pair(&a, &b, false);
    desc = conf_desc(&b, 0, 0, 64);
    conf_post_recv(&b, desc);
    send_one(&a);
    CONF_OK(VipRecvNotify(b.vi, number(7), on_desc));
    await_calls(1);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(b.vi, &got));
    assert_null(got);
    assert_ptr_equal(calls[0].context, number(7));
    assert_ptr_equal(calls[0].nic, b.nic);
    assert_ptr_equal(calls[0].vi, b.vi);
    assert_ptr_equal(calls[0].desc, desc);
    assert_int_equal(calls[0].status, VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE);
    assert_int_equal(desc->CS.Length, 64);
    assert_false(pthread_equal(calls[0].thread, pthread_self()));
    conf_pause(&started);
    assert_int_equal(called(), 1);
    conf_close_pair(&a, &b);
}

/* VipDisconnect flushes the receives before it returns, so VipRecvNotify finds them completed. */
static void it_is_removed_before_the_call_returns(void **state)
{
    VIP_DESCRIPTOR *got = NULL;
    struct end end;

    (void)state;
    reset();
    conf_ready(&end, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned i = 0; i < 3; i++)
        conf_post_recv(&end, conf_desc(&end, i, 0, 64));
    CONF_OK(VipDisconnect(end.vi));
    CONF_OK(VipRecvNotify(end.vi, NULL, on_desc));
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(end.vi, &got));
    assert_ptr_equal(got, end.memory + CONF_DESC_BYTES);
    CONF_OK(VipRecvNotify(end.vi, NULL, on_desc));
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(end.vi, &got));
    assert_null(got);
    await_calls(2);
    for (unsigned i = 0; i < 2; i++) {
        assert_ptr_equal(calls[i].desc, end.memory + 2 * i * CONF_DESC_BYTES);
        assert_int_equal(calls[i].status,
                         VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_OP_RECEIVE);
    }
    conf_close(&end);
}

static void one_registration_is_one_call(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *descs[2];
    uint64_t started = 0;

    (void)state;
    pair(&a, &b, false);
    for (unsigned i = 0; i < 2; i++)
        conf_post_recv(&b, descs[i] = conf_desc(&b, i, 0, 64));
    CONF_OK(VipRecvNotify(b.vi, NULL, on_desc));
    for (unsigned i = 0; i < 20; i++)
        conf_pause(&started);
    assert_int_equal(called(), 0);
    send_one(&a);
    await_calls(1);
    send_one(&a);
    conf_received(&b, descs[1], 64);
    assert_int_equal(called(), 1);
    assert_ptr_equal(calls[0].desc, descs[0]);
    conf_close_pair(&a, &b);
}

static void sends_are_notified_too(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    (void)state;
    pair(&a, &b, false);
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    desc = conf_desc(&a, 0, 0, 64);
    conf_post_send(&a, desc);
    CONF_OK(VipSendNotify(a.vi, number(3), on_desc));
    await_calls(1);
    assert_ptr_equal(calls[0].context, number(3));
    assert_ptr_equal(calls[0].nic, a.nic);
    assert_ptr_equal(calls[0].vi, a.vi);
    assert_ptr_equal(calls[0].desc, desc);
    assert_int_equal(calls[0].status, VIP_STATUS_DONE | VIP_STATUS_OP_SEND);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipSendDone(a.vi, &desc));
    assert_null(desc);
    conf_close_pair(&a, &b);
}

static void registrations_are_served_in_order(void **state)
{
    struct end a, b;
    enum { N = 16 };

    (void)state;
    pair(&a, &b, false);
    for (unsigned i = 0; i < N; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    for (unsigned i = 0; i < N; i++)
        CONF_OK(VipRecvNotify(b.vi, number(i), on_desc));
    for (unsigned i = 0; i < N; i++)
        send_one(&a);
    await_calls(N);
    for (unsigned i = 0; i < N; i++) {
        assert_ptr_equal(calls[i].context, number(i));
        assert_ptr_equal(calls[i].desc, b.memory + i * CONF_DESC_BYTES);
        assert_true(pthread_equal(calls[i].thread, calls[0].thread));
    }
    conf_close_pair(&a, &b);
}

/* If there are more registrations than descriptors, the later registrations stay and wait. */
static void a_registration_outlives_an_empty_queue(void **state)
{
    struct end a, b;

    (void)state;
    pair(&a, &b, false);
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    for (unsigned i = 0; i < 3; i++)
        CONF_OK(VipRecvNotify(b.vi, number(i), on_desc));
    for (unsigned i = 0; i < 3; i++) {
        send_one(&a);
        await_calls(i + 1);
        assert_ptr_equal(calls[i].context, number(i));
        assert_ptr_equal(calls[i].desc, b.memory + i * CONF_DESC_BYTES);
        if (i < 2)
            conf_post_recv(&b, conf_desc(&b, i + 1, 0, 64));
    }
    conf_close_pair(&a, &b);
}

static void an_empty_queue_is_an_error(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    (void)state;
    pair(&a, &b, false);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipSendNotify(a.vi, NULL, on_desc));
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvNotify(a.vi, NULL, on_desc));
    desc = conf_desc(&b, 0, 0, 64);
    conf_post_recv(&b, desc);
    send_one(&a);
    conf_received(&b, desc, 64);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvNotify(b.vi, NULL, on_desc));
    assert_int_equal(called(), 0);
    conf_close_pair(&a, &b);
}

static void wrong_arguments_are_refused(void **state)
{
    struct end end;
    VIP_CQ_HANDLE cq;

    (void)state;
    conf_ready(&end, 'A', VIP_SERVICE_UNRELIABLE);
    CONF_OK(VipCreateCQ(end.nic, 8, &cq));
    conf_post_recv(&end, conf_desc(&end, 0, 0, 64));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRecvNotify(end.vi, NULL, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipSendNotify(end.vi, NULL, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQNotify(cq, NULL, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRecvNotify(NULL, NULL, on_desc));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipSendNotify(end.nic, NULL, on_desc));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQNotify(end.vi, NULL, on_entry));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQNotify(NULL, NULL, on_entry));
    CONF_OK(VipDestroyCQ(cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQNotify(cq, NULL, on_entry));
    conf_drop_vi(&end);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRecvNotify(end.vi, NULL, on_desc));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipSendNotify(end.vi, NULL, on_desc));
    conf_close(&end);
}

static void registrations_have_a_limit(void **state)
{
    struct end end;
    VIP_VI_HANDLE sender;
    VIP_RETURN rc = VIP_SUCCESS;
    unsigned count = 0;

    (void)state;
    reset();
    conf_open(&end, 'A');
    conf_vi(&end, VIP_SERVICE_UNRELIABLE);
    sender = end.vi;
    conf_post_send(&end, conf_desc(&end, 1, 0, 64));
    CONF_OK(VipCreateCQ(end.nic, 8, &end.cq));
    conf_vi(&end, VIP_SERVICE_UNRELIABLE);
    conf_post_recv(&end, conf_desc(&end, 0, 0, 64));
    while (count < 1000000 && (rc = VipCQNotify(end.cq, NULL, on_entry)) == VIP_SUCCESS)
        count++;
    CONF_RETURNS(VIP_ERROR_RESOURCE, rc);
    assert_true(count >= 1024);
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipRecvNotify(end.vi, NULL, on_desc));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipSendNotify(sender, NULL, on_desc));
    assert_int_equal(called(), 0);
    conf_close(&end);
}

/* ---- completion queues ----------------------------------------------------------------------- */

static void a_cq_entry_is_removed_its_descriptor_not(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc, *got;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    (void)state;
    pair(&a, &b, true);
    CONF_OK(VipCQNotify(b.cq, number(1), on_entry));
    CONF_OK(VipCQNotify(b.cq, number(2), on_entry));
    desc = conf_desc(&b, 0, 0, 64);
    conf_post_recv(&b, desc);
    send_one(&a);
    await_calls(1);
    assert_ptr_equal(calls[0].context, number(1));
    assert_ptr_equal(calls[0].nic, b.nic);
    assert_ptr_equal(calls[0].vi, b.vi);
    assert_int_equal(calls[0].recv, VIP_TRUE);
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(b.cq, &vi, &recv));
    CONF_OK(VipRecvDone(b.vi, &got));
    assert_ptr_equal(got, desc);

    conf_post_recv(&a, conf_desc(&a, 0, 0, 64));
    desc = conf_desc(&b, 1, 0, 64);
    conf_post_send(&b, desc);
    await_calls(2);
    assert_ptr_equal(calls[1].context, number(2));
    assert_int_equal(calls[1].recv, VIP_FALSE);
    CONF_OK(VipSendDone(b.vi, &got));
    assert_ptr_equal(got, desc);
    conf_close_pair(&a, &b);
}

static void a_cq_entry_that_is_there_is_taken_at_once(void **state)
{
    struct end end;
    VIP_DESCRIPTOR *got;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    (void)state;
    reset();
    conf_open(&end, 'A');
    CONF_OK(VipCreateCQ(end.nic, 8, &end.cq));
    conf_vi(&end, VIP_SERVICE_UNRELIABLE);
    for (unsigned i = 0; i < 2; i++)
        conf_post_recv(&end, conf_desc(&end, i, 0, 64));
    CONF_OK(VipDisconnect(end.vi));
    CONF_OK(VipCQNotify(end.cq, NULL, on_entry));
    CONF_OK(VipCQDone(end.cq, &vi, &recv));
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(end.cq, &vi, &recv));
    await_calls(1);
    for (unsigned i = 0; i < 2; i++) {
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(end.vi, &got));
        assert_ptr_equal(got, end.memory + i * CONF_DESC_BYTES);
    }
    conf_close(&end);
}

/* ---- calls inside a handler ------------------------------------------------------------------ */

/* A server that works only in its handler: the handler posts and registers again. */
struct server {
    struct end *end;
    unsigned left; /* atomic; messages to come */
    VIP_RETURN bad;
};

static void serve(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *desc)
{
    struct server *server = context;
    VIP_RETURN rc = VIP_SUCCESS;

    (void)nic;
    if (__atomic_load_n(&server->left, __ATOMIC_RELAXED) > 1) {
        desc->CS.Length = 64;
        rc = VipPostRecv(vi, desc, server->end->handle);
        if (rc == VIP_SUCCESS)
            rc = VipRecvNotify(vi, server, serve);
    }
    if (rc != VIP_SUCCESS)
        server->bad = rc;
    __atomic_sub_fetch(&server->left, 1, __ATOMIC_RELEASE);
}

static void a_handler_may_register_again(void **state)
{
    struct end a, b;
    struct server server = {.end = &b, .left = 1000};
    uint64_t started = 0;

    (void)state;
    pair(&a, &b, false);
    for (unsigned i = 0; i < 32; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    CONF_OK(VipRecvNotify(b.vi, &server, serve));
    for (unsigned n = 1000; n > 0; n--) {
        send_one(&a);
        while (__atomic_load_n(&server.left, __ATOMIC_ACQUIRE) >= n)
            if (!conf_pause(&started))
                fail_msg("message %u of 1000 found no handler", 1001 - n);
        started = 0;
    }
    assert_int_equal(server.bad, VIP_SUCCESS);
    conf_close_pair(&a, &b);
}

/* The return codes of calls inside a handler. The test checks these codes later. */
static VIP_RETURN results[4];
static unsigned done_count; /* atomic */

static void await_done(unsigned count)
{
    uint64_t started = 0;

    while (__atomic_load_n(&done_count, __ATOMIC_ACQUIRE) < count)
        if (!conf_pause(&started))
            fail_msg("the handler does not return");
}

static void destroy_vi(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                       VIP_DESCRIPTOR *desc)
{
    struct end *end = context;
    VIP_DESCRIPTOR *got = desc;

    (void)nic;
    results[0] = VipDisconnect(vi);
    while (got != NULL)
        VipRecvDone(vi, &got);
    results[1] = VipDestroyVi(vi);
    results[2] = VipRecvNotify(vi, end, destroy_vi);
    __atomic_add_fetch(&done_count, 1, __ATOMIC_RELEASE);
}

static void a_handler_may_destroy_its_vi(void **state)
{
    struct end a, b;

    (void)state;
    pair(&a, &b, false);
    done_count = 0;
    for (unsigned i = 0; i < 4; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    CONF_OK(VipRecvNotify(b.vi, &b, destroy_vi));
    for (unsigned i = 0; i < 3; i++)
        CONF_OK(VipRecvNotify(b.vi, NULL, on_desc)); /* cancelled */
    send_one(&a);
    await_done(1);
    assert_int_equal(results[0], VIP_SUCCESS);
    assert_int_equal(results[1], VIP_SUCCESS);
    assert_int_equal(results[2], VIP_INVALID_PARAMETER);
    assert_int_equal(called(), 0);
    conf_close_pair(&a, &b);
}

static void close_nic(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *desc)
{
    (void)context;
    (void)vi;
    (void)desc;
    results[0] = VipCloseNic(nic);
    results[1] = VipCloseNic(nic);
    __atomic_add_fetch(&done_count, 1, __ATOMIC_RELEASE);
}

/* A new NIC handle may reuse the object of a closed one whose thread has not yet ended. */
static void a_handler_may_close_its_nic(void **state)
{
    (void)state;
    reset();
    done_count = 0;
    for (unsigned round = 0; round < 20; round++) {
        struct end end;

        conf_ready(&end, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
        for (unsigned i = 0; i < 4; i++)
            conf_post_recv(&end, conf_desc(&end, i, 0, 64));
        CONF_OK(VipRecvNotify(end.vi, NULL, close_nic));
        for (unsigned i = 0; i < 4; i++)
            CONF_OK(VipRecvNotify(end.vi, NULL, on_desc)); /* never called */
        VipDisconnect(end.vi);                             /* the flush makes close_nic run */
        await_done(round + 1);
        assert_int_equal(results[0], VIP_SUCCESS);
        assert_int_equal(results[1], VIP_INVALID_PARAMETER);
        CONF_RETURNS(VIP_INVALID_PARAMETER, VipRecvNotify(end.vi, NULL, on_desc));
        munmap(end.memory, end.memory_bytes);
    }
    assert_int_equal(called(), 0);
}

static void wait_in_handler(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                            VIP_DESCRIPTOR *desc)
{
    struct end *a = context;
    VIP_DESCRIPTOR *got = NULL;

    (void)nic;
    (void)desc;
    /* The handler of b's VI posts a send at a, then waits for the message and for a's sends. */
    results[0] =
        VipPostSend(a->vi, (VIP_DESCRIPTOR *)(void *)(a->memory + 5 * CONF_DESC_BYTES), a->handle);
    results[1] = VipRecvWait(vi, CONF_LIMIT_MS, &got);
    for (unsigned i = 2; i < 4; i++)
        results[i] = VipSendWait(a->vi, CONF_LIMIT_MS, &got);
    __atomic_add_fetch(&done_count, 1, __ATOMIC_RELEASE);
}

static void a_handler_may_wait(void **state)
{
    struct end a, b;

    (void)state;
    pair(&a, &b, false);
    done_count = 0;
    conf_desc(&a, 5, 0, 64);
    for (unsigned i = 0; i < 2; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    CONF_OK(VipRecvNotify(b.vi, &a, wait_in_handler));
    conf_post_send(&a, conf_desc(&a, 0, 0, 64));
    await_done(1);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(results[i], VIP_SUCCESS);
    conf_close_pair(&a, &b);
}

/* ---- the end of objects ---------------------------------------------------------------------- */

static void destroying_a_vi_cancels(void **state)
{
    struct end end;
    VIP_DESCRIPTOR *got;
    uint64_t started = 0;

    (void)state;
    reset();
    conf_open(&end, 'A');
    for (unsigned round = 0; round < 5; round++) {
        conf_vi(&end, VIP_SERVICE_RELIABLE_DELIVERY);
        conf_post_recv(&end, conf_desc(&end, 0, 0, 64));
        if (round > 0) {
            /* No registration of the destroyed VI, which had the same slot, must exist. */
            CONF_OK(VipDisconnect(end.vi));
            conf_pause(&started);
            CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(end.vi, &got));
            assert_non_null(got);
            conf_post_recv(&end, conf_desc(&end, 0, 0, 64));
        }
        for (unsigned i = 0; i < 3; i++)
            CONF_OK(VipRecvNotify(end.vi, number(10 * round + i), on_desc));
        CONF_OK(VipDisconnect(end.vi));
        await_calls(round + 1);
        assert_ptr_equal(calls[round].context, number(10 * round));
        CONF_OK(VipDestroyVi(end.vi));
    }
    assert_int_equal(called(), 5);
    conf_close(&end);
}

static void destroying_a_cq_cancels(void **state)
{
    struct end end;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    (void)state;
    reset();
    conf_open(&end, 'A');
    CONF_OK(VipCreateCQ(end.nic, 8, &cq));
    for (unsigned i = 0; i < 10; i++)
        CONF_OK(VipCQNotify(cq, NULL, on_entry));
    CONF_OK(VipDestroyCQ(cq));
    CONF_OK(VipCreateCQ(end.nic, 8, &end.cq)); /* this CQ gets the slot of the destroyed CQ */
    conf_vi(&end, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_post_recv(&end, conf_desc(&end, 0, 0, 64));
    CONF_OK(VipDisconnect(end.vi));
    CONF_OK(VipCQWait(end.cq, CONF_LIMIT_MS, &vi, &recv));
    assert_ptr_equal(vi, end.vi);
    assert_int_equal(called(), 0);
    conf_close(&end);
}

static const struct conf_test tests[] = {
    CONF_T("3.10", CONF_FULL, what_is_there_is_removed_and_handed_over,
           "a completion that is there is handed to the handler, in a thread of the provider"),
    CONF_T("3.10", CONF_FULL, it_is_removed_before_the_call_returns,
           "a completion that is there is removed from its queue by the Notify call"),
    CONF_T("3.10", CONF_FULL, one_registration_is_one_call,
           "one registration leads to one handler call, at the next completion"),
    CONF_T("2.6", CONF_FULL, sends_are_notified_too, "VipSendNotify serves the send queue"),
    CONF_T("3.10", CONF_FULL, registrations_are_served_in_order,
           "several registrations are served in the order of completions"),
    CONF_DT("3.10", CONF_FULL, a_registration_outlives_an_empty_queue,
            "a registration waits for descriptors that are posted later"),
    CONF_DT("2.6", CONF_FULL, an_empty_queue_is_an_error,
            "VipSendNotify and VipRecvNotify on an empty queue give VIP_DESCRIPTOR_ERROR"),
    CONF_T("2.6", CONF_FULL, wrong_arguments_are_refused,
           "the Notify calls refuse handles that are none and a NULL handler"),
    CONF_T("2.6", CONF_FULL, registrations_have_a_limit,
           "too many registrations give VIP_ERROR_RESOURCE"),
    CONF_T("3.10", CONF_FULL, a_cq_entry_is_removed_its_descriptor_not,
           "VipCQNotify removes the entry and leaves the descriptor on its queue"),
    CONF_T("3.10", CONF_FULL, a_cq_entry_that_is_there_is_taken_at_once,
           "an entry that is there is removed by VipCQNotify"),
    CONF_T("3.10", CONF_FULL, a_handler_may_register_again,
           "a handler may call the Notify function again"),
    CONF_T("3.10", CONF_FULL, a_handler_may_destroy_its_vi, "a handler may call VipDestroyVi"),
    CONF_T("3.10", CONF_FULL, a_handler_may_close_its_nic, "a handler may call VipCloseNic"),
    CONF_T("3.10", CONF_FULL, a_handler_may_wait, "a handler may call a function that waits"),
    CONF_T("3.10", CONF_FULL, destroying_a_vi_cancels,
           "destroying a VI cancels the registrations on its queues"),
    CONF_T("2.7", CONF_FULL, destroying_a_cq_cancels,
           "VipDestroyCQ cancels pending VipCQNotify handlers"),
};

CONF_MAIN(tests)
