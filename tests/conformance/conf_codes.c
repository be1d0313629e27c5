/*
 * Specification, section 2: one test for each function and each code that the function can return.
 * conf_gone.c tests the codes of a vipd that has ended; conf_silence.c tests the codes of a network
 * without answers. Peer-to-peer, Notify and the name service have their own programs.
 */
#include "suite.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>

const size_t conf_buffer_bytes = 4194304;

/* True if every thread of the process is stopped. SIGSTOP stops the threads one after the other, so
 * some threads may still run when kill returns. */
static bool stands_still(pid_t pid)
{
    char path[300], state = '?';
    const struct dirent *entry;
    bool all = true;
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    tasks = opendir(path);
    while (tasks && all && (entry = readdir(tasks)) != NULL) {
        FILE *file = NULL;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%ld/task/%s/stat", (long)pid, entry->d_name);
        file = fopen(path, "re");
        all = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'T';
        if (file)
            fclose(file);
    }
    if (tasks)
        closedir(tasks);
    return tasks && all;
}

static void stop(pid_t pid)
{
    uint64_t started = 0;

    kill(pid, SIGSTOP);
    while (!stands_still(pid))
        assert_true(conf_pause(&started));
}

/* ---- NIC ---------------------------------------------------------------------------------- */

static void open_nic_success(void **state)
{
    VIP_NIC_HANDLE one, two;

    (void)state;
    conf_use('A');
    CONF_OK(VipOpenNic("vip0", &one));
    CONF_OK(VipOpenNic(conf_medium("lo") ? "/dev/via_lo" : "VINIC0", &two));
    assert_ptr_not_equal(one, two);
    CONF_OK(VipCloseNic(one));
    CONF_OK(VipCloseNic(two));
}

static void open_nic_invalid_parameter(void **state)
{
    VIP_NIC_HANDLE nic;

    (void)state;
    conf_use('A');
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipOpenNic("vip77", &nic));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipOpenNic(NULL, &nic));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipOpenNic("vip0", NULL));
}

static void open_nic_error_resource(void **state)
{
    VIP_NIC_HANDLE nic[200];
    VIP_RETURN rc = VIP_SUCCESS;
    unsigned n = 0;

    (void)state;
    setenv("VIPD_RUNTIME_DIR", "/nonexistent/place", 1);
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipOpenNic("vip0", &nic[0]));
    conf_use('A');
    while (n < 200 && (rc = VipOpenNic("vip0", &nic[n])) == VIP_SUCCESS)
        n++; /* up to [limits] sessions_per_uid */
    CONF_RETURNS(VIP_ERROR_RESOURCE, rc);
    assert_true(n >= 60);
    while (n > 0)
        CONF_OK(VipCloseNic(nic[--n]));
    CONF_OK(VipOpenNic("vip0", &nic[0]));
    CONF_OK(VipCloseNic(nic[0]));
}

static void close_nic_codes(void **state)
{
    VIP_NIC_HANDLE nic;

    (void)state;
    conf_use('A');
    CONF_OK(VipOpenNic("vip0", &nic));
    CONF_OK(VipCloseNic(nic));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCloseNic(nic));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCloseNic(NULL));
}

static void query_nic_codes(void **state)
{
    struct end a;
    VIP_NIC_ATTRIBUTES attrs;

    (void)state;
    conf_open(&a, 'A');
    CONF_OK(VipQueryNic(a.nic, &attrs));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryNic(a.nic, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryNic(&a, &attrs));
    conf_close(&a);
}

/* ---- VI ----------------------------------------------------------------------------------- */

/* Call VipCreateVi and VipSetViAttributes with the same attributes: both return the same code. */
static void vi_attributes(void **state)
{
    struct end a;
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_RETURN expected = (VIP_RETURN)conf_arg(state);
    VIP_VI_HANDLE vi;

    conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
    switch (expected) {
    case VIP_INVALID_RELIABILITY_LEVEL:
        attrs.ReliabilityLevel = 3;
        break;
    case VIP_INVALID_MTU:
        attrs.MaxTransferSize = a.attrs.MaxTransferSize + 1;
        break;
    case VIP_INVALID_PTAG:
        attrs.Ptag = (VIP_PROTECTION_HANDLE)&a;
        break;
    case VIP_INVALID_RDMAREAD:
        attrs.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
        attrs.EnableRdmaRead = VIP_TRUE;
        break;
    default:
        break;
    }
    CONF_RETURNS(expected, VipCreateVi(a.nic, &attrs, NULL, NULL, &vi));
    CONF_RETURNS(expected, VipSetViAttributes(a.vi, &attrs));
    if (expected == VIP_SUCCESS)
        memset(&attrs, 0xFF, sizeof(attrs)); /* no effect: libvipl has copied the structure */
    conf_close(&a);
}

static void create_vi_invalid_parameter(void **state)
{
    struct end a, c;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_HANDLE vi;
    VIP_CQ_HANDLE cq;

    (void)state;
    conf_open(&a, 'A');
    conf_open(&c, 'A');
    CONF_OK(VipCreateCQ(c.nic, 10, &cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(NULL, &attrs, NULL, NULL, &vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(a.nic, NULL, NULL, NULL, &vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(a.nic, &attrs, NULL, NULL, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(a.nic, &attrs, &a, NULL, &vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateVi(a.nic, &attrs, NULL, cq, &vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipCreateVi(a.handle ? a.memory : NULL, &attrs, NULL, NULL, &vi));
    conf_close(&a);
    conf_close(&c);
}

static void destroy_vi_codes(void **state)
{
    struct end a, b;
    VIP_VI_HANDLE gone;

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_RETURNS(VIP_INVALID_STATE, VipDestroyVi(a.vi));
    conf_post_recv(&a, conf_desc(&a, 0, 0, 10));
    CONF_OK(VipDisconnect(a.vi));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipDestroyVi(a.vi));
    conf_drain(&a);
    gone = a.vi;
    CONF_OK(VipDestroyVi(a.vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDestroyVi(gone));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDestroyVi(NULL));
    conf_close_pair(&a, &b);
}

static void query_vi_codes(void **state)
{
    struct end a;
    VIP_VI_STATE vi_state;
    VIP_VI_ATTRIBUTES attrs;
    VIP_BOOLEAN e;

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
    CONF_OK(VipQueryVi(a.vi, &vi_state, &attrs, &e, &e));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryVi(NULL, &vi_state, &attrs, &e, &e));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryVi(a.vi, NULL, &attrs, &e, &e));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryVi(a.vi, &vi_state, NULL, &e, &e));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryVi(a.vi, &vi_state, &attrs, NULL, &e));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryVi(a.vi, &vi_state, &attrs, &e, NULL));
    conf_close(&a);
}

static void set_vi_attributes_codes(void **state)
{
    struct end a, b;
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_UNRELIABLE);
    CONF_RETURNS(VIP_INVALID_STATE, VipSetViAttributes(a.vi, &attrs));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipSetViAttributes(a.vi, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipSetViAttributes(NULL, &attrs));
    CONF_OK(VipDisconnect(a.vi));
    CONF_OK(VipSetViAttributes(a.vi, &attrs));
    conf_close_pair(&a, &b);
}

/* ---- memory ------------------------------------------------------------------------------- */

static void ptag_codes(void **state)
{
    struct end a;
    VIP_PROTECTION_HANDLE tag;
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_HANDLE handle;

    (void)state;
    conf_open(&a, 'A');
    CONF_OK(VipCreatePtag(a.nic, &tag));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreatePtag(a.nic, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreatePtag(NULL, &tag));
    mem.Ptag = tag;
    CONF_OK(VipRegisterMem(a.nic, a.buffer, 10, &mem, &handle));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipDestroyPtag(a.nic, tag));
    CONF_OK(VipDeregisterMem(a.nic, a.buffer, handle));
    CONF_OK(VipDestroyPtag(a.nic, tag));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDestroyPtag(a.nic, tag));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDestroyPtag(NULL, tag));
    conf_close(&a);
}

static void register_mem_codes(void **state)
{
    struct end a;
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_TRUE, VIP_TRUE};
    VIP_MEM_HANDLE handle;

    (void)state;
    conf_open(&a, 'A');
    CONF_OK(VipRegisterMem(a.nic, a.buffer, 10, &mem, &handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(NULL, a.buffer, 10, &mem, &handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(a.nic, NULL, 10, &mem, &handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(a.nic, a.buffer, 0, &mem, &handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(a.nic, a.buffer, 10, &mem, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipRegisterMem(a.nic, (VIP_PVOID)(uintptr_t)4096, 10, &mem, &handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipRegisterMem(a.nic, a.buffer, a.attrs.MaxRegisterBlockBytes + 1, &mem, &handle));
    mem.Ptag = (VIP_PROTECTION_HANDLE)&a;
    CONF_RETURNS(VIP_INVALID_PTAG, VipRegisterMem(a.nic, a.buffer, 10, &mem, &handle));
    conf_close(&a);
}

static void deregister_mem_codes(void **state)
{
    struct end a;
    VIP_MEM_HANDLE handle;

    (void)state;
    conf_open(&a, 'A');
    CONF_OK(VipRegisterMem(a.nic, a.buffer, 10, NULL, &handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(NULL, a.buffer, handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(a.nic, a.buffer + 1, handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(a.nic, a.buffer, handle + 1));
    CONF_OK(VipDeregisterMem(a.nic, a.buffer, handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(a.nic, a.buffer, handle));
    conf_close(&a);
}

static void mem_attributes_codes(void **state)
{
    struct end a;
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};

    (void)state;
    conf_open(&a, 'A');
    CONF_OK(VipSetMemAttributes(a.nic, a.memory, a.handle, &mem));
    CONF_OK(VipQueryMem(a.nic, a.memory, a.handle, &mem));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(a.nic, a.memory, a.handle, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(a.nic, a.memory, 0, &mem));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(NULL, a.memory, a.handle, &mem));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(a.nic, a.memory, a.handle, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(a.nic, a.memory, 0, &mem));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(NULL, a.memory, a.handle, &mem));
    mem.Ptag = (VIP_PROTECTION_HANDLE)&a;
    CONF_RETURNS(VIP_INVALID_PTAG, VipSetMemAttributes(a.nic, a.memory, a.handle, &mem));
    conf_close(&a);
}

/* ---- connections -------------------------------------------------------------------------- */

static void wait_codes(void **state)
{
    struct end b;
    union conf_address local, from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;

    (void)state;
    conf_open(&b, 'B');
    conf_local(&local, "nobody", 6);
    CONF_RETURNS(VIP_TIMEOUT, VipConnectWait(b.nic, &local.net, 20, &from.net, &attrs, &request));
    CONF_RETURNS(VIP_TIMEOUT, VipConnectWait(b.nic, &local.net, 0, &from.net, &attrs, &request));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipConnectWait(NULL, &local.net, 0, &from.net, &attrs, &request));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipConnectWait(b.nic, NULL, 0, &from.net, &attrs, &request));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipConnectWait(b.nic, &local.net, 0, &from.net, &attrs, NULL));
    local.net.DiscriminatorLen = (VIP_UINT16)(b.attrs.MaxDiscriminatorLen + 1);
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipConnectWait(b.nic, &local.net, 0, &from.net, &attrs, &request));
    conf_close(&b);
}

static void accept_conflict(void **state)
{
    VIP_RETURN expected = (VIP_RETURN)conf_arg(state);
    struct end a, b;
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};

    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_ready(&b, 'B', VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_OK(VipSetViAttributes(a.vi, &attrs));
    if (expected == VIP_INVALID_RELIABILITY_LEVEL)
        attrs.ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION;
    else if (expected == VIP_INVALID_MTU)
        attrs.MaxTransferSize = 4097;
    else if (expected == VIP_INVALID_QOS)
        attrs.QoS = (VIP_QOS)(uintptr_t)7;
    CONF_OK(VipSetViAttributes(b.vi, &attrs));
    conf_conflict(&a, &b, expected);
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    conf_close_pair(&a, &b);
}

static void accept_invalid_parameter(void **state)
{
    struct end b;

    (void)state;
    conf_ready(&b, 'B', VIP_SERVICE_UNRELIABLE);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectAccept(NULL, b.vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectAccept((VIP_CONN_HANDLE)&b, b.vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectReject(NULL));
    conf_close(&b);
}

static void request_codes(void **state)
{
    struct end a, b;
    union conf_address local, remote;
    VIP_VI_ATTRIBUTES attrs;
    unsigned disc = conf_disc();

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
    conf_ready(&b, 'B', VIP_SERVICE_UNRELIABLE);
    conf_local(&local, &disc, sizeof(disc));
    conf_address(&remote, &a, 'B', &disc, sizeof(disc));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipConnectRequest(NULL, &local.net, &remote.net, 10, &attrs));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(a.vi, NULL, &remote.net, 10, &attrs));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipConnectRequest(a.vi, &local.net, NULL, 10, &attrs));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipConnectRequest(a.vi, &local.net, &remote.net, 0, &attrs));
    CONF_RETURNS(VIP_NO_MATCH,
                 VipConnectRequest(a.vi, &local.net, &remote.net, VIP_INFINITE, &attrs));
    conf_connect(&a, &b);
    CONF_RETURNS(VIP_INVALID_STATE, VipConnectRequest(a.vi, &local.net, &remote.net, 10, &attrs));
    conf_close_pair(&a, &b);
}

struct rejecter {
    struct end *end;
    union conf_address local;
};

static void *run_rejecter(void *arg)
{
    struct rejecter *rejecter = arg;
    union conf_address from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;

    if (VipConnectWait(rejecter->end->nic, &rejecter->local.net, CONF_LIMIT_MS, &from.net, &attrs,
                       &request) == VIP_SUCCESS)
        VipConnectReject(request);
    return NULL;
}

static void request_reject(void **state)
{
    struct end a, b;
    struct rejecter rejecter = {.end = &b};
    union conf_address remote;
    unsigned disc = conf_disc();
    pthread_t thread;

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
    conf_open(&b, 'B');
    conf_local(&rejecter.local, &disc, sizeof(disc));
    conf_address(&remote, &a, 'B', &disc, sizeof(disc));
    assert_int_equal(pthread_create(&thread, NULL, run_rejecter, &rejecter), 0);
    CONF_RETURNS(VIP_REJECT, conf_ask(a.vi, &rejecter.local, &remote, CONF_LIMIT_MS));
    pthread_join(thread, NULL);
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    conf_close_pair(&a, &b);
}

static void disconnect_codes(void **state)
{
    struct end a;
    VIP_VI_HANDLE gone;

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
    CONF_OK(VipDisconnect(a.vi));
    CONF_OK(VipDisconnect(a.vi));
    gone = a.vi;
    CONF_OK(VipDestroyVi(a.vi));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDisconnect(gone));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDisconnect(NULL));
    conf_close(&a);
}

/* ---- queues ------------------------------------------------------------------------------- */

static VIP_RETURN any_post(bool recv, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *desc, VIP_MEM_HANDLE handle)
{
    return recv ? VipPostRecv(vi, desc, handle) : VipPostSend(vi, desc, handle);
}

static void post_codes(void **state)
{
    bool recv = conf_arg(state) != 0;
    struct end a;

    conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
    CONF_OK(any_post(recv, a.vi, conf_desc(&a, 0, 0, 10), a.handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, any_post(recv, NULL, conf_desc(&a, 1, 0, 10), a.handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, any_post(recv, a.vi, NULL, a.handle));
    conf_close(&a);
}

/* A stopped vipd takes nothing from the submission ring. When the ring is full, a post must fail
 * soon. The test sets VIPL_DIRECT=0: with direct rings, VipPostRecv uses no submission ring. */
static void post_error_resource(void **state)
{
    bool recv = conf_arg(state) != 0;
    struct end a;
    pid_t vipd = (pid_t)atol(getenv("VIP_PID_A"));
    VIP_VI_HANDLE vis[8];
    VIP_RETURN rc = VIP_SUCCESS;
    unsigned posted = 0;

    setenv("VIPL_DIRECT", "0", 1);
    conf_open(&a, 'A');
    unsetenv("VIPL_DIRECT");
    for (unsigned i = 0; i < 8; i++) {
        conf_vi(&a, VIP_SERVICE_UNRELIABLE);
        vis[i] = a.vi;
    }
    memset(a.buffer, 0, 8 * 1024 * 64);
    stop(vipd);
    while (rc == VIP_SUCCESS && posted < 8 * 1024) {
        rc = any_post(recv, vis[posted / 1024], (VIP_DESCRIPTOR *)(void *)(a.buffer + posted * 64),
                      a.handle);
        posted++;
    }
    kill(vipd, SIGCONT);
    CONF_RETURNS(VIP_ERROR_RESOURCE, rc);
    assert_in_range(posted, 4000, 4200);
    CONF_OK(any_post(recv, vis[7], (VIP_DESCRIPTOR *)(void *)(a.buffer + 8000 * 64), a.handle));
    conf_close(&a);
}

static VIP_RETURN any_done(bool recv, VIP_VI_HANDLE vi, VIP_DESCRIPTOR **ret)
{
    return recv ? VipRecvDone(vi, ret) : VipSendDone(vi, ret);
}

static VIP_RETURN any_wait(bool recv, VIP_VI_HANDLE vi, VIP_ULONG ms, VIP_DESCRIPTOR **ret)
{
    return recv ? VipRecvWait(vi, ms, ret) : VipSendWait(vi, ms, ret);
}

/* Complete one descriptor of a's receive queue (if `recv`) or send queue. */
static void complete_one(struct end *a, struct end *b, bool recv)
{
    conf_post_recv(a, conf_desc(a, 40, 0, 64));
    conf_post_recv(b, conf_desc(b, 40, 0, 64));
    if (recv)
        conf_post_send(b, conf_desc(b, 41, 0, 10));
    else
        conf_post_send(a, conf_desc(a, 41, 0, 10));
}

static void done_success(void **state)
{
    bool recv = conf_arg(state) != 0;
    struct end a, b;
    VIP_DESCRIPTOR *got;
    VIP_RETURN rc;
    uint64_t started = 0;

    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    complete_one(&a, &b, recv);
    while ((rc = any_done(recv, a.vi, &got)) == VIP_NOT_DONE)
        assert_true(conf_pause(&started));
    CONF_OK(rc); /* the last Done call returned rc */
    assert_ptr_equal(got, conf_at(&a, recv ? 40 : 41));
    complete_one(&a, &b, recv);
    CONF_OK(any_wait(recv, a.vi, VIP_INFINITE, &got));
    assert_non_null(got);
    conf_close_pair(&a, &b);
}

static void done_descriptor_error(void **state)
{
    bool recv = conf_arg(state) != 0;
    struct end a;
    VIP_DESCRIPTOR *got = (VIP_DESCRIPTOR *)(void *)&a;

    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, any_done(recv, a.vi, &got)); /* the queue is empty */
    assert_null(got);
    got = (VIP_DESCRIPTOR *)(void *)&a;
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, any_wait(recv, a.vi, VIP_INFINITE, &got));
    assert_null(got);
    for (unsigned wait = 0; wait < 2; wait++) { /* a Done call, then a Wait call */
        CONF_OK(any_post(recv, a.vi, conf_desc(&a, 0, 0, 10), a.handle));
        CONF_OK(VipDisconnect(a.vi));
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR,
                     wait ? any_wait(recv, a.vi, CONF_LIMIT_MS, &got) : any_done(recv, a.vi, &got));
        assert_ptr_equal(got, conf_at(&a, 0));
    }
    conf_close(&a);
}

static void done_not_done_and_timeout(void **state)
{
    bool recv = conf_arg(state) != 0;
    struct end a, b;
    VIP_DESCRIPTOR *got = (VIP_DESCRIPTOR *)(void *)&a;
    pid_t vipd = (pid_t)atol(getenv("VIP_PID_A"));

    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_RECEPTION);
    if (!recv) /* a stopped vipd completes no send */
        stop(vipd);
    CONF_OK(any_post(recv, a.vi, conf_desc(&a, 0, 0, 10), a.handle));
    VIP_RETURN done = any_done(recv, a.vi, &got);
    conf_expected(VIP_NOT_DONE); /* `done` is checked when vipd runs again */
    VIP_RETURN wait = any_wait(recv, a.vi, 30, &got), look = any_wait(recv, a.vi, 0, &got);
    kill(vipd, SIGCONT);
    CONF_RETURNS(VIP_TIMEOUT, look);
    assert_int_equal(done, VIP_NOT_DONE);
    assert_int_equal(wait, VIP_TIMEOUT);
    assert_null(got);
    conf_close_pair(&a, &b);
}

static void done_invalid_parameter(void **state)
{
    bool recv = conf_arg(state) != 0;
    struct end a;
    VIP_DESCRIPTOR *got;

    conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
    CONF_RETURNS(VIP_INVALID_PARAMETER, any_done(recv, a.vi, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, any_done(recv, NULL, &got));
    CONF_RETURNS(VIP_INVALID_PARAMETER, any_done(recv, a.nic, &got));
    CONF_RETURNS(VIP_INVALID_PARAMETER, any_wait(recv, a.vi, 10, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, any_wait(recv, NULL, 10, &got));
    conf_close(&a);
}

static void cq_codes(void **state)
{
    struct end a;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    (void)state;
    conf_open(&a, 'A');
    CONF_OK(VipCreateCQ(a.nic, 16, &a.cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(NULL, 16, &cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(a.nic, 0, &cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreateCQ(a.nic, 16, NULL));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipCreateCQ(a.nic, a.attrs.MaxCQEntries + 1, &cq));
    CONF_OK(VipResizeCQ(a.cq, 32));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipResizeCQ(a.cq, 0));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipResizeCQ(NULL, 32));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipResizeCQ(a.cq, a.attrs.MaxCQEntries + 1));
    CONF_RETURNS(VIP_NOT_DONE, VipCQDone(a.cq, &vi, &recv));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQDone(NULL, &vi, &recv));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQDone(a.cq, NULL, &recv));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQDone(a.cq, &vi, NULL));
    CONF_RETURNS(VIP_TIMEOUT, VipCQWait(a.cq, 20, &vi, &recv));
    CONF_RETURNS(VIP_TIMEOUT, VipCQWait(a.cq, 0, &vi, &recv));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQWait(NULL, 20, &vi, &recv));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCQWait(a.cq, 20, NULL, &recv));
    conf_vi(&a, VIP_SERVICE_UNRELIABLE);
    conf_post_send(&a, conf_desc(&a, 0, 0, 10));
    CONF_OK(VipCQWait(a.cq, CONF_LIMIT_MS, &vi, &recv));
    assert_int_equal(recv, VIP_FALSE);
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipDestroyCQ(a.cq));
    conf_drop_vi(&a);
    CONF_OK(VipDestroyCQ(a.cq));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDestroyCQ(a.cq));
    conf_close(&a);
}

static void on_nothing(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    (void)error;
}

static void error_callback_codes(void **state)
{
    struct end a;

    (void)state;
    conf_open(&a, 'A');
    CONF_OK(VipErrorCallback(a.nic, NULL, on_nothing));
    CONF_OK(VipErrorCallback(a.nic, NULL, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipErrorCallback(NULL, NULL, on_nothing));
    conf_close(&a);
}

#define ATTRIBUTE(code)                                                                            \
    CONF_N("2.2", CONF_EARLY, vi_attributes, #code, code,                                          \
           "VipCreateVi and VipSetViAttributes give " #code)
#define CONFLICT(code)                                                                             \
    CONF_N("2.4", CONF_EARLY, accept_conflict, #code, code,                                        \
           "VipConnectAccept gives " #code "; nothing is sent, the handle stays valid")
#define QUEUES(fn, sentence)                                                                       \
    CONF_N("2.6", CONF_EARLY, fn, "send", 0, sentence " (send queue)"),                            \
        CONF_N("2.6", CONF_EARLY, fn, "recv", 1, sentence " (receive queue)")

static const struct conf_test tests[] = {
    CONF_T("2.1", CONF_EARLY, open_nic_success, "VipOpenNic gives VIP_SUCCESS, each time another"),
    CONF_T("2.1", CONF_EARLY, open_nic_invalid_parameter,
           "VipOpenNic gives VIP_INVALID_PARAMETER, also for a device that is not there"),
    CONF_T("2.1", CONF_EARLY, open_nic_error_resource,
           "VipOpenNic gives VIP_ERROR_RESOURCE: no vipd, too many handles"),
    CONF_T("2.1", CONF_EARLY, close_nic_codes, "VipCloseNic: each code"),
    CONF_T("2.1", CONF_EARLY, query_nic_codes, "VipQueryNic: each code"),
    ATTRIBUTE(VIP_SUCCESS),
    ATTRIBUTE(VIP_INVALID_RELIABILITY_LEVEL),
    ATTRIBUTE(VIP_INVALID_MTU),
    ATTRIBUTE(VIP_INVALID_PTAG),
    ATTRIBUTE(VIP_INVALID_RDMAREAD),
    CONF_T("2.2", CONF_EARLY, create_vi_invalid_parameter, "VipCreateVi: VIP_INVALID_PARAMETER"),
    CONF_DT("2.2", CONF_EARLY, destroy_vi_codes, "VipDestroyVi: each code"),
    CONF_T("2.2", CONF_EARLY, query_vi_codes, "VipQueryVi: each code"),
    CONF_DT("2.2", CONF_FUNCTIONAL, set_vi_attributes_codes,
            "VipSetViAttributes: VIP_SUCCESS, VIP_INVALID_STATE, VIP_INVALID_PARAMETER"),
    CONF_DT("2.3", CONF_FUNCTIONAL, ptag_codes, "VipCreatePtag, VipDestroyPtag: each code"),
    CONF_T("2.3", CONF_EARLY, register_mem_codes, "VipRegisterMem: each code"),
    CONF_T("2.3", CONF_EARLY, deregister_mem_codes, "VipDeregisterMem: each code"),
    CONF_T("2.3", CONF_FUNCTIONAL, mem_attributes_codes,
           "VipSetMemAttributes, VipQueryMem: each code"),
    CONF_T("2.4", CONF_EARLY, wait_codes,
           "VipConnectWait: VIP_TIMEOUT, VIP_INVALID_PARAMETER; 0 looks once"),
    CONFLICT(VIP_INVALID_RELIABILITY_LEVEL),
    CONFLICT(VIP_INVALID_MTU),
    CONFLICT(VIP_INVALID_QOS),
    CONF_T("2.4", CONF_EARLY, accept_invalid_parameter,
           "VipConnectAccept, VipConnectReject: VIP_INVALID_PARAMETER"),
    CONF_T("2.4", CONF_EARLY, request_codes,
           "VipConnectRequest: VIP_INVALID_PARAMETER, VIP_NO_MATCH, VIP_INVALID_STATE"),
    CONF_T("2.4", CONF_EARLY, request_reject, "VipConnectRequest: VIP_REJECT"),
    CONF_T("2.4", CONF_EARLY, disconnect_codes,
           "VipDisconnect: VIP_SUCCESS, VIP_INVALID_PARAMETER"),
    QUEUES(post_codes, "posting: VIP_SUCCESS, VIP_INVALID_PARAMETER"),
    QUEUES(post_error_resource, "posting: VIP_ERROR_RESOURCE when vipd takes nothing"),
    QUEUES(done_success, "Done and Wait: VIP_SUCCESS"),
    QUEUES(done_descriptor_error,
           "Done and Wait: VIP_DESCRIPTOR_ERROR: empty queue with NULL, or a completed error"),
    QUEUES(done_not_done_and_timeout, "Done: VIP_NOT_DONE, Wait: VIP_TIMEOUT, pointer NULL"),
    QUEUES(done_invalid_parameter, "Done and Wait: VIP_INVALID_PARAMETER"),
    CONF_T("2.7", CONF_EARLY, cq_codes, "the calls of completion queues: each code"),
    CONF_T("2.8", CONF_FUNCTIONAL, error_callback_codes, "VipErrorCallback: each code"),
};

CONF_MAIN(tests)
