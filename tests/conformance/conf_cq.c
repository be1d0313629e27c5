/*
 * Specification 2.7, 3.8: completion queues.
 */
#include "suite.h"

#include <pthread.h>

const size_t conf_buffer_bytes = 4194304;

static void pair_with_cq(struct end *a, struct end *b, VIP_ULONG entries)
{
    conf_open(a, 'A');
    conf_open(b, 'B');
    CONF_OK(VipCreateCQ(b->nic, entries, &b->cq));
    conf_vi(a, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_vi(b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_connect(a, b);
}

static void create_resize_destroy(void **state)
{
    struct end end;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipCreateCQ(end.nic, 1, &cq));
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(cq, &vi, &recv));
    CONF_RETURNS(VIP_TIMEOUT, VipCQWait(cq, 20, &vi, &recv));
    CONF_RETURNS(VIP_TIMEOUT, VipCQWait(cq, 0, &vi, &recv));
    CONF_OK(VipResizeCQ(cq, 100));
    CONF_OK(VipResizeCQ(cq, end.attrs.MaxCQEntries));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipResizeCQ(cq, end.attrs.MaxCQEntries + 1));
    assert_non_null(strstr(VipxLastError(), "MaxCQEntries"));
    CONF_OK(VipDestroyCQ(cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDestroyCQ(cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipResizeCQ(cq, 10));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQDone(cq, &vi, &recv));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQWait(cq, 1, &vi, &recv));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipCreateCQ(end.nic, end.attrs.MaxCQEntries + 1, &cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(end.nic, 0, &cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(end.nic, 10, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(NULL, 10, &cq));
    conf_close(&end);
}

static void a_cq_of_another_nic_handle_is_refused(void **state)
{
    struct end one, two;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi;

    (void)state;
    conf_open(&one, 'A');
    conf_open(&two, 'A');
    CONF_OK(VipCreateCQ(one.nic, 10, &cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(two.nic, &attrs, cq, NULL, &vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(two.nic, &attrs, NULL, cq, &vi));
    conf_close(&one);
    conf_close(&two);
}

static void a_bound_cq_is_not_destroyed(void **state)
{
    struct end end;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipCreateCQ(end.nic, 10, &end.cq));
    conf_vi(&end, VIP_SERVICE_UNRELIABLE);
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipDestroyCQ(end.cq));
    CONF_OK(VipDestroyVi(end.vi));
    CONF_OK(VipDestroyCQ(end.cq));
    conf_close(&end);
}

/* Each completion has one CQ entry. Its descriptor is complete and on a queue (checklist 10). */
static void every_completion_is_reported_once(void **state)
{
    struct end a, b;
    enum { N = 60 };
    VIP_DESCRIPTOR *desc;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    (void)state;
    pair_with_cq(&a, &b, 4); /* the CQ is smaller than the number of completions */
    for (unsigned i = 0; i < N; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    for (unsigned i = 0; i < N; i++)
        conf_post_send(&a, conf_desc(&a, i, 0, i % 65));
    for (unsigned i = 0; i < N; i++) {
        CONF_OK(VipCQWait(b.cq, CONF_LIMIT_MS, &vi, &recv));
        assert_ptr_equal(vi, b.vi);
        assert_int_equal(recv, VIP_TRUE);
        CONF_OK(VipRecvDone(vi, &desc));
        assert_ptr_equal(desc, b.memory + i * CONF_DESC_BYTES);
        assert_int_equal(desc->CS.Length, i % 65);
    }
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(b.cq, &vi, &recv));
    conf_drop_vi(&a);
    conf_close(&a);
    conf_close(&b);
}

static void both_queues_share_a_cq(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    unsigned sends = 0, recvs = 0;

    (void)state;
    pair_with_cq(&a, &b, 16);
    for (unsigned i = 0; i < 8; i++) {
        conf_post_recv(&a, conf_desc(&a, i, 0, 64));
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    }
    for (unsigned i = 8; i < 16; i++) {
        conf_post_send(&a, conf_desc(&a, i, 0, 64));
        conf_post_send(&b, conf_desc(&b, i, 0, 64));
    }
    for (unsigned i = 0; i < 16; i++) {
        CONF_OK(VipCQWait(b.cq, VIP_INFINITE, &vi, &recv));
        if (recv) {
            CONF_OK(VipRecvDone(vi, &desc));
            assert_ptr_equal(desc, b.memory + recvs++ * CONF_DESC_BYTES);
        } else {
            CONF_OK(VipSendDone(vi, &desc));
            assert_ptr_equal(desc, b.memory + (8 + sends++) * CONF_DESC_BYTES);
        }
    }
    assert_int_equal(sends, 8);
    assert_int_equal(recvs, 8);
    conf_close(&a);
    conf_close(&b);
}

static void flushed_descriptors_are_reported(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    (void)state;
    pair_with_cq(&a, &b, 16);
    for (unsigned i = 0; i < 5; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    CONF_OK(VipDisconnect(b.vi));
    for (unsigned i = 0; i < 5; i++) {
        CONF_OK(VipCQWait(b.cq, CONF_LIMIT_MS, &vi, &recv));
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &desc));
        assert_ptr_equal(desc, b.memory + i * CONF_DESC_BYTES);
    }
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(b.cq, &vi, &recv));
    conf_close(&a);
    conf_close(&b);
}

/* 3.8: destroying a VI removes its entries from the CQ, even if a new VI gets the same slot. */
static void entries_of_a_destroyed_vi_are_gone(void **state)
{
    struct end end;
    VIP_DESCRIPTOR *desc;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipCreateCQ(end.nic, 16, &end.cq));
    for (unsigned round = 0; round < 3; round++) {
        conf_vi(&end, VIP_SERVICE_RELIABLE_DELIVERY);
        conf_post_recv(&end, conf_desc(&end, 0, 0, 64));
        CONF_OK(VipDisconnect(end.vi));
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvWait(end.vi, CONF_LIMIT_MS, &desc));
        assert_non_null(desc);
        CONF_OK(VipDestroyVi(end.vi)); /* its entry is still in the CQ */
        CONF_RETURNS(VIP_NOT_DONE, VipCQDone(end.cq, &vi, &recv));
    }
    conf_vi(&end, VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(end.cq, &vi, &recv));
    CONF_OK(VipDestroyVi(end.vi));
    CONF_OK(VipDestroyCQ(end.cq));
    conf_close(&end);
}

static void a_large_backlog_loses_no_entry(void **state)
{
    struct end a, b;
    enum { VIS = 20, EACH = 1000 };
    VIP_VI_HANDLE vis[VIS], vi;
    VIP_BOOLEAN recv;
    VIP_DESCRIPTOR *desc;
    unsigned got[VIS] = {0};

    (void)state;
    /* 20 VIs with 1000 flushed receives each make more entries than the shared ring holds. */
    conf_open(&a, 'A');
    conf_open(&b, 'A');
    CONF_OK(VipCreateCQ(b.nic, 10, &b.cq));
    memset(b.buffer, 0, 64);
    for (unsigned v = 0; v < VIS; v++) {
        conf_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
        vis[v] = b.vi;
        for (unsigned i = 0; i < EACH; i++)
            CONF_OK(VipPostRecv(vis[v], (VIP_DESCRIPTOR *)(void *)(b.buffer + (v * EACH + i) * 64),
                                b.handle));
        CONF_OK(VipDisconnect(vis[v]));
    }
    for (unsigned n = 0; n < VIS * EACH; n++) {
        unsigned v = 0;

        CONF_OK(VipCQWait(b.cq, CONF_LIMIT_MS, &vi, &recv));
        while (v < VIS && vis[v] != vi)
            v++;
        assert_true(v < VIS);
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &desc));
        assert_ptr_equal(desc, b.buffer + (v * EACH + got[v]++) * 64);
    }
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(b.cq, &vi, &recv));
    conf_close(&a);
    conf_close(&b);
}

/* A thread sleeps in VipCQWait while other threads call libvipl, create VIs and resize this CQ. */
struct sleeper {
    struct end *end;
    unsigned wanted;
    VIP_RETURN result;
};

static void *run_sleeper(void *arg)
{
    struct sleeper *sleeper = arg;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    VIP_DESCRIPTOR *desc;

    for (unsigned i = 0; i < sleeper->wanted; i++) {
        sleeper->result = VipCQWait(sleeper->end->cq, VIP_INFINITE, &vi, &recv);
        if (sleeper->result == VIP_SUCCESS)
            sleeper->result = VipRecvDone(vi, &desc);
        if (sleeper->result != VIP_SUCCESS)
            break;
    }
    return NULL;
}

static void a_sleeping_thread_is_woken_by_every_message(void **state)
{
    struct end a, b;
    enum { N = 50 };
    struct sleeper sleeper = {.end = &b, .wanted = N};
    pthread_t thread;
    uint64_t started = 0;

    (void)state;
    pair_with_cq(&a, &b, 16);
    for (unsigned i = 0; i < N; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    assert_int_equal(pthread_create(&thread, NULL, run_sleeper, &sleeper), 0);
    for (unsigned i = 0; i < N; i++) {
        VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
        VIP_VI_HANDLE vi;

        conf_pause(&started);
        CONF_OK(VipResizeCQ(b.cq, 16 + i));
        CONF_OK(VipCreateVi(b.nic, &attrs, b.cq, b.cq, &vi));
        conf_post_send(&a, conf_desc(&a, i, 0, 64));
        conf_sent(&a, (VIP_DESCRIPTOR *)(void *)(a.memory + i * CONF_DESC_BYTES));
        CONF_OK(VipDestroyVi(vi));
    }
    pthread_join(thread, NULL);
    assert_int_equal(sleeper.result, VIP_SUCCESS);
    conf_close(&a);
    conf_close(&b);
}

static void closing_the_nic_ends_a_sleep(void **state)
{
    struct end end;
    struct sleeper sleeper = {.end = &end, .wanted = 1};
    pthread_t thread;
    uint64_t started = 0;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipCreateCQ(end.nic, 16, &end.cq));
    assert_int_equal(pthread_create(&thread, NULL, run_sleeper, &sleeper), 0);
    for (unsigned i = 0; i < 20; i++)
        conf_pause(&started);
    conf_close(&end);
    pthread_join(thread, NULL);
    assert_int_equal(sleeper.result, VIP_INVALID_PARAMETER);
}

static const struct conf_test tests[] = {
    CONF_T("2.7", CONF_EARLY, create_resize_destroy, "create, resize, destroy and their codes"),
    CONF_T("3.8", CONF_EARLY, a_cq_of_another_nic_handle_is_refused,
           "a CQ belongs to one NIC handle"),
    CONF_T("2.7", CONF_EARLY, a_bound_cq_is_not_destroyed,
           "VipDestroyCQ with a VI bound to it: VIP_ERROR_RESOURCE"),
    CONF_T("3.8", CONF_EARLY, every_completion_is_reported_once,
           "one entry per completed descriptor, which is there at once; none is lost"),
    CONF_T("3.8", CONF_EARLY, both_queues_share_a_cq, "both queues of a VI may share a CQ"),
    CONF_T("3.8", CONF_EARLY, flushed_descriptors_are_reported,
           "flushed descriptors have entries, too"),
    CONF_T("3.8", CONF_EARLY, entries_of_a_destroyed_vi_are_gone,
           "destroying a VI removes its entries"),
    CONF_T("3.8", CONF_EARLY, a_large_backlog_loses_no_entry,
           "a CQ never loses an entry, however small it was asked for"),
    CONF_T("3.12", CONF_FUNCTIONAL, a_sleeping_thread_is_woken_by_every_message,
           "a thread in VipCQWait while another posts, creates VIs and resizes the CQ"),
    CONF_T("2.7", CONF_EARLY, closing_the_nic_ends_a_sleep, "VipCloseNic ends a VipCQWait"),
};

CONF_MAIN(tests)
