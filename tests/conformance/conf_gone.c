/*
 * After the death of the program's own vipd each call returns at once. Calls that need vipd return
 * VIP_ERROR_RESOURCE; the others still work (sections 2, 3.9). die() kills the vipd of end B.
 */
#include "suite.h"

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

static struct end b;              /* die() kills the vipd of this end */
static VIP_CONN_HANDLE accept_me; /* a request that b had not answered when vipd died */
static VIP_CONN_HANDLE reject_me;
static VIP_PROTECTION_HANDLE ptag;
static VIP_VI_HANDLE peers[2]; /* VIs with a peer request under way when vipd died */
static VIP_VI_HANDLE idle;     /* a VI that was Idle when vipd died */

struct asker {
    struct end end;
    union conf_address local, remote;
    VIP_RETURN result;
    pthread_t thread;
};
static struct asker askers[2];

static void *run_asker(void *arg)
{
    struct asker *asker = arg;

    asker->result = conf_ask(asker->end.vi, &asker->local, &asker->remote, CONF_LIMIT_MS);
    return NULL;
}

static VIP_CONN_HANDLE ask(struct asker *asker)
{
    unsigned disc = conf_disc();
    union conf_address from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request = NULL;

    conf_ready(&asker->end, 'B', VIP_SERVICE_UNRELIABLE);
    conf_local(&asker->local, &disc, sizeof(disc));
    conf_address(&asker->remote, &asker->end, 'B', &disc, sizeof(disc));
    assert_int_equal(pthread_create(&asker->thread, NULL, run_asker, asker), 0);
    CONF_OK(VipConnectWait(b.nic, &asker->local.net, CONF_LIMIT_MS, &from.net, &attrs, &request));
    return request;
}

/* Returns a VI of b with a peer request that no peer answers. */
static VIP_VI_HANDLE ask_peer(void)
{
    VIP_VI_HANDLE before = b.vi, vi;
    union conf_address local, remote;
    unsigned disc = conf_disc();

    conf_vi(&b, VIP_SERVICE_UNRELIABLE);
    vi = b.vi;
    b.vi = before;
    conf_local(&local, &disc, sizeof(disc));
    conf_address(&remote, &b, 'B', &disc, sizeof(disc));
    CONF_OK(VipConnectPeerRequest(vi, &local.net, &remote.net, VIP_INFINITE));
    return vi;
}

/* The first test: makes the objects and kills vipd. The later tests use these objects. */
static void die(void **state)
{
    VIP_ERROR_DESCRIPTOR error;

    (void)state;
    conf_open(&b, 'B');
    CONF_OK(VipCreateCQ(b.nic, 16, &b.cq));
    conf_vi(&b, VIP_SERVICE_UNRELIABLE);
    idle = b.vi;
    conf_vi(&b, VIP_SERVICE_UNRELIABLE);
    peers[0] = ask_peer();
    peers[1] = ask_peer();
    CONF_OK(VipCreatePtag(b.nic, &ptag));
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    accept_me = ask(&askers[0]);
    reject_me = ask(&askers[1]);
    assert_int_equal(kill((pid_t)atol(getenv("VIP_PID_B")), SIGKILL), 0);
    error = conf_await_error(&b, VIP_ERROR_CATASTROPHIC);
    assert_int_equal(error.ResourceCode, VIP_RESOURCE_NIC);
    assert_ptr_equal(error.NicHandle, b.nic);
    assert_null(error.ViHandle);
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(askers[i].thread, NULL);
        assert_int_equal(askers[i].result, VIP_ERROR_RESOURCE);
        CONF_OK(VipCloseNic(askers[i].end.nic));
    }
}

static void call(void **state)
{
    union conf_address address;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_PROTECTION_HANDLE tag;
    VIP_CONN_HANDLE request;
    VIP_MEM_HANDLE handle;
    VIP_NIC_HANDLE nic;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi;
    VIP_RETURN rc = VIP_SUCCESS;

    conf_local(&address, "x", 1);
    conf_use('B');
    switch (conf_arg(state)) {
    case 0:
        rc = VipOpenNic("vip0", &nic);
        break;
    case 1:
        rc = VipCreateVi(b.nic, &attrs, NULL, NULL, &vi);
        break;
    case 2:
        rc = VipDestroyVi(b.vi);
        break;
    case 3:
        rc = VipSetViAttributes(b.vi, &attrs);
        break;
    case 4:
        rc = VipCreatePtag(b.nic, &tag);
        break;
    case 5:
        rc = VipDestroyPtag(b.nic, ptag);
        break;
    case 6:
        rc = VipRegisterMem(b.nic, b.buffer, 10, NULL, &handle);
        break;
    case 7:
        rc = VipSetMemAttributes(b.nic, b.memory, b.handle, &mem);
        break;
    case 8:
        rc = VipConnectWait(b.nic, &address.net, 1000, &address.net, &attrs, &request);
        break;
    case 9:
        rc = VipConnectRequest(b.vi, &address.net, &address.net, 1000, &attrs);
        break;
    case 10:
        rc = VipConnectAccept(accept_me, b.vi);
        break;
    case 11:
        rc = VipConnectReject(reject_me);
        break;
    case 12:
        rc = VipDisconnect(b.vi);
        break;
    case 13:
        rc = VipCreateCQ(b.nic, 16, &cq);
        break;
    case 14:
        rc = VipResizeCQ(b.cq, 32);
        break;
    case 15:
        rc = VipDestroyCQ(b.cq);
        break;
    case 16:
        rc = VipConnectPeerRequest(idle, &address.net, &address.net, 1000);
        break;
    case 17:
        rc = VipConnectPeerDone(peers[0], NULL);
        break;
    case 18:
        rc = VipConnectPeerWait(peers[1], NULL);
        break;
    case 19:
        rc = VipNSInit(b.nic, NULL);
        break;
    default:
        break;
    }
    CONF_RETURNS(VIP_ERROR_RESOURCE, rc);
    assert_string_not_equal(VipxLastError(), "");
}

/* Calls that need no vipd still work. */
static void local_calls_go_on(void **state)
{
    VIP_NIC_ATTRIBUTES nic;
    VIP_MEM_ATTRIBUTES mem;
    VIP_DESCRIPTOR *got;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    (void)state;
    CONF_OK(VipQueryNic(b.nic, &nic));
    CONF_OK(VipQueryMem(b.nic, b.memory, b.handle, &mem));
    CONF_OK(VipCQWait(b.cq, CONF_LIMIT_MS, &vi, &recv));
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &got));
    assert_ptr_equal(got, conf_at(&b, 0));
    assert_int_equal(conf_state(&b), VIP_STATE_ERROR);
    CONF_OK(VipErrorCallback(b.nic, NULL, NULL));
    CONF_OK(VipCloseNic(b.nic));
}

#define CALL(function, number)                                                                     \
    CONF_N("2", CONF_FUNCTIONAL, call, #function, number,                                          \
           #function " gives VIP_ERROR_RESOURCE when vipd has ended")

static const struct conf_test tests[] = {
    CONF_DT(
        "3.9", CONF_FUNCTIONAL, die,
        "catastrophic error: the NIC is unusable; callback with VIP_RESOURCE_NIC; blocked calls "
        "return VIP_ERROR_RESOURCE"),
    CALL(VipOpenNic, 0),
    CALL(VipCreateVi, 1),
    CALL(VipDestroyVi, 2),
    CALL(VipSetViAttributes, 3),
    CALL(VipCreatePtag, 4),
    CALL(VipDestroyPtag, 5),
    CALL(VipRegisterMem, 6),
    CALL(VipSetMemAttributes, 7),
    CALL(VipConnectWait, 8),
    CALL(VipConnectRequest, 9),
    CALL(VipConnectAccept, 10),
    CALL(VipConnectReject, 11),
    CALL(VipDisconnect, 12),
    CALL(VipCreateCQ, 13),
    CALL(VipResizeCQ, 14),
    CALL(VipDestroyCQ, 15),
    CALL(VipConnectPeerRequest, 16),
    CALL(VipConnectPeerDone, 17),
    CALL(VipConnectPeerWait, 18),
    CALL(VipNSInit, 19),
    CONF_T(
        "3.9", CONF_FUNCTIONAL, local_calls_go_on,
        "after the end of vipd: queries work, posted descriptors are flushed, the NIC is closed"),
};

CONF_MAIN(tests)
