/*
 * Specification 3.13: minimum limits, and a program gets what VipQueryNic promises; 3.8: completion
 * queues that VIs share; 3.11: the connection model; 3.12: threads.
 */
#include "suite.h"

#include <pthread.h>

#define ATTRIBUTE(name, low)                                                                       \
    static void attribute_##name(void **state)                                                     \
    {                                                                                              \
        struct end a;                                                                              \
        (void)state;                                                                               \
        conf_open(&a, 'A');                                                                        \
        if (a.attrs.name < (low))                                                                  \
            fail_msg(#name " is %lu", (unsigned long)a.attrs.name);                                \
        conf_close(&a);                                                                            \
    }
ATTRIBUTE(MaxTransferSize, 1048576)
ATTRIBUTE(MaxSegmentsPerDesc, 252)
ATTRIBUTE(MaxDiscriminatorLen, 128)
ATTRIBUTE(MaxVI, 1024)
ATTRIBUTE(MaxDescriptorsPerQueue, 1024)
ATTRIBUTE(MaxCQ, 1)
ATTRIBUTE(MaxCQEntries, 1024)
ATTRIBUTE(MaxPtags, a.attrs.MaxVI)
ATTRIBUTE(MaxRegisterRegions, a.attrs.MaxVI)
ATTRIBUTE(MaxRegisterBlockBytes, 32768)
ATTRIBUTE(MaxRegisterBytes, a.attrs.MaxRegisterBlockBytes)
ATTRIBUTE(NativeMTU, 512)

static void attributes_of_the_address_and_services(void **state)
{
    struct end a;
    VIP_NIC_ATTRIBUTES again;

    (void)state;
    conf_open(&a, 'A');
    assert_int_equal(a.attrs.NicAddressLen, CONF_HOST_BYTES);
    assert_int_equal(a.attrs.ReliabilityLevelSupport, 7);
    assert_int_equal(a.attrs.RDMAReadSupport,
                     VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION);
    assert_int_equal(a.attrs.ThreadSafe, VIP_TRUE);
    assert_string_not_equal(a.attrs.Name, "");
    CONF_OK(VipQueryNic(a.nic, &again));
    assert_memory_equal(&again, &a.attrs, sizeof(again)); /* the attributes never change */
    conf_close(&a);
}

static void as_many_vis_as_promised(void **state)
{
    struct end a;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_HANDLE vi;

    (void)state;
    conf_open(&a, 'A');
    for (VIP_ULONG i = 0; i < a.attrs.MaxVI; i++)
        CONF_OK(VipCreateVi(a.nic, &attrs, NULL, NULL, &vi));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipCreateVi(a.nic, &attrs, NULL, NULL, &a.vi));
    CONF_OK(VipDestroyVi(vi));
    CONF_OK(VipCreateVi(a.nic, &attrs, NULL, NULL, &vi));
    conf_close(&a);
}

static void as_many_cqs_as_promised(void **state)
{
    struct end a;
    VIP_CQ_HANDLE cq;

    (void)state;
    conf_open(&a, 'A');
    for (VIP_ULONG i = 0; i < a.attrs.MaxCQ; i++)
        CONF_OK(VipCreateCQ(a.nic, 16, &cq));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipCreateCQ(a.nic, 16, &a.cq));
    CONF_OK(VipDestroyCQ(cq));
    CONF_OK(VipCreateCQ(a.nic, 16, &cq));
    conf_close(&a);
}

static void as_many_ptags_as_promised(void **state)
{
    struct end a;
    VIP_PROTECTION_HANDLE tag, more;

    (void)state;
    conf_open(&a, 'A');
    for (VIP_ULONG i = 0; i < a.attrs.MaxPtags; i++)
        CONF_OK(VipCreatePtag(a.nic, &tag));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipCreatePtag(a.nic, &more));
    CONF_OK(VipDestroyPtag(a.nic, tag));
    CONF_OK(VipCreatePtag(a.nic, &more));
    assert_ptr_not_equal(tag, more);
    conf_close(&a);
}

static void as_many_regions_as_promised(void **state)
{
    struct end a;
    VIP_MEM_HANDLE handle, more;
    VIP_ULONG room;

    (void)state;
    conf_open(&a, 'A');
    room = a.attrs.MaxRegisterRegions - 1; /* conf_open has registered one region */
    for (VIP_ULONG i = 0; i < room; i++)
        CONF_OK(VipRegisterMem(a.nic, a.buffer + i, 100, NULL, &handle));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipRegisterMem(a.nic, a.buffer, 100, NULL, &more));
    CONF_OK(VipDeregisterMem(a.nic, a.buffer + room - 1, handle));
    CONF_OK(VipRegisterMem(a.nic, a.buffer, 100, NULL, &more));
    conf_close(&a);
}

static void the_longest_discriminator(void **state)
{
    struct end a, b;
    union conf_address local, remote, from;
    VIP_VI_ATTRIBUTES attrs;
    char disc[128];

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
    conf_ready(&b, 'B', VIP_SERVICE_UNRELIABLE);
    conf_fill(disc, sizeof(disc), conf_disc());
    conf_local(&local, disc, sizeof(disc));
    conf_address(&remote, &a, 'B', disc, sizeof(disc));
    CONF_RETURNS(VIP_NO_MATCH,
                 VipConnectRequest(a.vi, &local.net, &remote.net, CONF_LIMIT_MS, &attrs));
    memset(&from, 0, sizeof(from));
    conf_close_pair(&a, &b);
}

/* ---- 3.8 ----------------------------------------------------------------------------------- */

static void entries_come_in_order_of_completion(void **state)
{
    enum { VIS = 4, EACH = 10 };
    struct end a;
    VIP_VI_HANDLE vis[VIS], vi;
    VIP_BOOLEAN recv;
    VIP_DESCRIPTOR *got;

    (void)state;
    conf_open(&a, 'A');
    CONF_OK(VipCreateCQ(a.nic, 4, &a.cq));
    for (unsigned i = 0; i < VIS; i++) {
        conf_vi(&a, VIP_SERVICE_UNRELIABLE);
        vis[i] = a.vi;
    }
    for (unsigned n = 0; n < EACH; n++) /* the VIs are Idle, so each send completes at once */
        for (unsigned i = 0; i < VIS; i++)
            CONF_OK(VipPostSend(vis[(i + n) % VIS], conf_desc(&a, n * VIS + i, 0, 10), a.handle));
    for (unsigned n = 0; n < EACH; n++)
        for (unsigned i = 0; i < VIS; i++) {
            CONF_OK(VipCQWait(a.cq, CONF_LIMIT_MS, &vi, &recv));
            assert_ptr_equal(vi, vis[(i + n) % VIS]);
            assert_int_equal(recv, VIP_FALSE);
        }
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(a.cq, &vi, &recv));
    for (unsigned n = 0; n < EACH; n++) /* VipCQDone has left the descriptors on their queues */
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipSendDone(vis[0], &got));
    assert_non_null(got);
    conf_close(&a);
}

static void queues_with_and_without_cq(void **state)
{
    struct end a, b;
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_TRUE, VIP_FALSE};
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    VIP_DESCRIPTOR *got;

    (void)state;
    conf_open(&a, 'A');
    conf_open(&b, 'B');
    a.level = b.level = VIP_SERVICE_RELIABLE_DELIVERY;
    CONF_OK(VipCreateCQ(b.nic, 4, &b.cq));
    CONF_OK(VipCreateVi(a.nic, &attrs, NULL, NULL, &a.vi));
    CONF_OK(VipCreateVi(b.nic, &attrs, NULL, b.cq, &b.vi)); /* only the receive queue has the CQ */
    conf_connect(&a, &b);
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    conf_post_recv(&a, conf_desc(&a, 0, 0, 64));
    conf_post_send(&b, conf_desc(&b, 1, 0, 10));
    conf_sent(&b, conf_at(&b, 1));
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(b.cq, &vi, &recv));
    conf_post_send(&a, conf_desc(&a, 1, 0, 10));
    CONF_OK(VipCQWait(b.cq, CONF_LIMIT_MS, &vi, &recv));
    assert_ptr_equal(vi, b.vi);
    assert_int_equal(recv, VIP_TRUE);
    CONF_OK(VipRecvDone(vi, &got));
    conf_close_pair(&a, &b);
}

static void resizing_in_use_loses_nothing(void **state)
{
    enum { N = 60 };
    struct end a, b;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    VIP_DESCRIPTOR *got;

    (void)state;
    conf_open(&a, 'A');
    conf_open(&b, 'B');
    CONF_OK(VipCreateCQ(b.nic, 64, &b.cq));
    conf_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_connect(&a, &b);
    for (unsigned i = 0; i < N; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    for (unsigned i = 0; i < N; i++) {
        conf_post_send(&a, conf_desc(&a, i, 0, 1));
        CONF_OK(VipResizeCQ(b.cq, i % 2 ? 1 : 1000 + i)); /* 1 is less than the CQ's entries */
    }
    for (unsigned i = 0; i < N; i++) {
        CONF_OK(VipCQWait(b.cq, CONF_LIMIT_MS, &vi, &recv));
        CONF_OK(VipRecvDone(vi, &got));
        assert_ptr_equal(got, conf_at(&b, i));
    }
    conf_close_pair(&a, &b);
}

/* ---- 3.11, 3.12 ---------------------------------------------------------------------------- */

struct server {
    struct end *end;
    union conf_address local;
    VIP_RETURN result;
    pthread_t thread;
};

static void *run_server(void *arg)
{
    struct server *server = arg;
    union conf_address from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;

    server->result = VipConnectWait(server->end->nic, &server->local.net, CONF_LIMIT_MS, &from.net,
                                    &attrs, &request);
    if (server->result == VIP_SUCCESS)
        server->result = VipConnectAccept(request, server->end->vi);
    return NULL;
}

static void two_threads_wait_on_one_address(void **state)
{
    struct end a[2], b[2];
    struct server servers[2];
    VIP_VI_ATTRIBUTES attrs;
    union conf_address remote;
    unsigned disc = conf_disc();

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        conf_ready(&a[i], 'A', VIP_SERVICE_UNRELIABLE);
        conf_ready(&b[i], 'B', VIP_SERVICE_UNRELIABLE);
        servers[i].end = &b[i];
        conf_local(&servers[i].local, &disc, sizeof(disc));
        pthread_create(&servers[i].thread, NULL, run_server, &servers[i]);
    }
    conf_address(&remote, &a[0], 'B', &disc, sizeof(disc));
    for (unsigned i = 0; i < 2; i++) {
        VIP_RETURN rc;
        uint64_t started = 0;

        do
            rc = VipConnectRequest(a[i].vi, &servers[0].local.net, &remote.net, CONF_LIMIT_MS,
                                   &attrs);
        while (rc == VIP_NO_MATCH && conf_pause(&started));
        CONF_OK(rc);
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(servers[i].thread, NULL);
        CONF_OK(servers[i].result);
        conf_await_state(&b[i], VIP_STATE_CONNECTED);
    }
    for (unsigned i = 0; i < 2; i++)
        conf_close_pair(&a[i], &b[i]);
}

static void rdma_flags_and_tags_need_not_match(void **state)
{
    struct end a, b;
    VIP_VI_ATTRIBUTES attrs = {conf_level(state), 4096, NULL, NULL, VIP_TRUE, VIP_FALSE};

    conf_ready(&a, 'A', conf_level(state));
    conf_ready(&b, 'B', conf_level(state));
    CONF_OK(VipSetViAttributes(a.vi, &attrs));
    attrs.EnableRdmaWrite = VIP_FALSE;
    CONF_OK(VipCreatePtag(b.nic, &attrs.Ptag));
    CONF_OK(VipSetViAttributes(b.vi, &attrs));
    conf_connect(&a, &b);
    conf_alive(&a, &b);
    conf_close_pair(&a, &b);
}

#define LIMIT(name, text) CONF_DT("3.13", CONF_EARLY, attribute_##name, #name " is at least " text)

static const struct conf_test tests[] = {
    LIMIT(MaxTransferSize, "1 MiB (required: 32768)"),
    LIMIT(MaxSegmentsPerDesc, "252"),
    LIMIT(MaxDiscriminatorLen, "128 (required: 16)"),
    LIMIT(MaxVI, "1024"),
    LIMIT(MaxDescriptorsPerQueue, "1024"),
    LIMIT(MaxCQ, "1"),
    LIMIT(MaxCQEntries, "1024"),
    LIMIT(MaxPtags, "MaxVI"),
    LIMIT(MaxRegisterRegions, "MaxVI"),
    LIMIT(MaxRegisterBlockBytes, "32768"),
    LIMIT(MaxRegisterBytes, "MaxRegisterBlockBytes"),
    LIMIT(NativeMTU, "that of the smallest packet"),
    CONF_T("1.5", CONF_EARLY, attributes_of_the_address_and_services,
           "NicAddressLen 6 (18 over IPv6), all three levels, RDMA Read at the reliable ones, "
           "thread-safe, constant"),
    CONF_T("3.13", CONF_FULL, as_many_vis_as_promised, "MaxVI VIs, then VIP_ERROR_RESOURCE"),
    CONF_T("3.13", CONF_FULL, as_many_cqs_as_promised, "MaxCQ CQs, then VIP_ERROR_RESOURCE"),
    CONF_T("3.13", CONF_FULL, as_many_ptags_as_promised, "MaxPtags tags, then VIP_ERROR_RESOURCE"),
    CONF_T("3.13", CONF_FULL, as_many_regions_as_promised,
           "MaxRegisterRegions regions, then VIP_ERROR_RESOURCE"),
    CONF_T("3.13", CONF_EARLY, the_longest_discriminator, "MaxDiscriminatorLen bytes are possible"),
    CONF_T("3.8", CONF_EARLY, entries_come_in_order_of_completion,
           "entries come in order of completion, of several VIs; taken first, dequeued later"),
    CONF_T("3.8", CONF_EARLY, queues_with_and_without_cq, "one queue with a CQ, the other without"),
    CONF_T("2.7", CONF_FUNCTIONAL, resizing_in_use_loses_nothing,
           "VipResizeCQ while in use loses no entry"),
    CONF_T("3.11", CONF_EARLY, two_threads_wait_on_one_address,
           "VipConnectWait on one address from two threads: each request goes to one"),
    CONF_EACH("3.11", CONF_EARLY, rdma_flags_and_tags_need_not_match,
              "RDMA flags and tags of the two VIs need not match"),
};

CONF_MAIN(tests)
