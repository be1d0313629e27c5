/*
 * Helpers of the conformance programs (conf.h).
 */
#include "conf.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

const size_t conf_buffer_bytes __attribute__((weak)) = 256 * 1024;

void conf_use(char side)
{
    const char *dir = getenv(side == 'A' ? "VIPD_RUNTIME_DIR_A" : "VIPD_RUNTIME_DIR_B");

    if (dir == NULL)
        fail_msg("run this program with tests/lib/two_vipd.sh");
    setenv("VIPD_RUNTIME_DIR", dir, 1);
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    struct end *end = context;
    unsigned n = __atomic_load_n(&end->error_count, __ATOMIC_RELAXED);

    if (n < CONF_ERRORS)
        end->errors[n] = *error;
    __atomic_store_n(&end->error_count, n + 1, __ATOMIC_RELEASE);
}

void conf_open(struct end *end, char side)
{
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_TRUE, VIP_FALSE};

    memset(end, 0, sizeof(*end));
    end->side = side;
    conf_use(side);
    CONF_OK(VipOpenNic("vip0", &end->nic));
    CONF_OK(VipErrorCallback(end->nic, end, on_error));
    CONF_OK(VipQueryNic(end->nic, &end->attrs));
    CONF_OK(VipNSInit(end->nic, NULL));
    end->memory_bytes = CONF_DESCS * CONF_DESC_BYTES + conf_buffer_bytes;
    end->memory =
        mmap(NULL, end->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(end->memory, MAP_FAILED);
    end->buffer = end->memory + CONF_DESCS * CONF_DESC_BYTES;
    mem.EnableRdmaRead = end->attrs.RDMAReadSupport != 0;
    CONF_OK(VipRegisterMem(end->nic, end->memory, end->memory_bytes, &mem, &end->handle));
}

void conf_vi(struct end *end, VIP_RELIABILITY_LEVEL level)
{
    VIP_VI_ATTRIBUTES attrs = {level, end->attrs.MaxTransferSize, NULL, NULL, VIP_TRUE, VIP_FALSE};

    attrs.EnableRdmaRead = (end->attrs.RDMAReadSupport & level) != 0;
    end->level = level;
    CONF_OK(VipCreateVi(end->nic, &attrs, end->cq, end->cq, &end->vi));
}

void conf_ready(struct end *end, char side, VIP_RELIABILITY_LEVEL level)
{
    conf_open(end, side);
    conf_vi(end, level);
}

void conf_close(struct end *end)
{
    CONF_OK(VipCloseNic(end->nic));
    munmap(end->memory, end->memory_bytes);
}

void conf_address(union conf_address *ret, struct end *asker, char side, const void *disc,
                  size_t disc_bytes)
{
    const char *name = getenv(side == 'A' ? "VIP_ADDRESS_A" : "VIP_ADDRESS_B");

    memset(ret, 0, sizeof(*ret));
    assert_non_null(name);
    CONF_OK(VipNSGetHostByName(asker->nic, (VIP_CHAR *)(uintptr_t)name, &ret->net, 0));
    ret->net.DiscriminatorLen = (VIP_UINT16)disc_bytes;
    memcpy(ret->bytes + 4 + ret->net.HostAddressLen, disc, disc_bytes);
}

void conf_local(union conf_address *ret, const void *disc, size_t disc_bytes)
{
    memset(ret, 0, sizeof(*ret));
    ret->net.HostAddressLen = 6;
    memset(ret->bytes + 4, 0xEE, 6); /* libvipl ignores the host part of a local address */
    ret->net.DiscriminatorLen = (VIP_UINT16)disc_bytes;
    memcpy(ret->bytes + 10, disc, disc_bytes);
}

unsigned conf_disc(void)
{
    static unsigned next = 1000;

    return __atomic_add_fetch(&next, 1, __ATOMIC_RELAXED);
}

VIP_RETURN conf_ask(VIP_VI_HANDLE vi, const union conf_address *local,
                    const union conf_address *remote, VIP_ULONG timeout_ms)
{
    union conf_address from = *local, to = *remote;
    VIP_VI_ATTRIBUTES attrs;
    uint64_t started = 0;
    VIP_RETURN rc;

    do
        rc = VipConnectRequest(vi, &from.net, &to.net, timeout_ms, &attrs);
    while (rc == VIP_NO_MATCH && conf_pause(&started));
    return rc;
}

/* The client's half of conf_connect. Its thread must not use the macros of cmocka. */
struct client {
    struct end *end;
    union conf_address local, remote;
    VIP_ULONG limit_ms;
    VIP_RETURN result;
};

static void *run_client(void *arg)
{
    struct client *client = arg;

    client->result = conf_ask(client->end->vi, &client->local, &client->remote, client->limit_ms);
    return NULL;
}

VIP_CONN_HANDLE conf_timed_out_request(struct end *client_end, struct end *server)
{
    union conf_address from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;
    pthread_t thread;
    VIP_RETURN rc;

    for (VIP_ULONG limit_ms = 150;; limit_ms *= 2) {
        struct client client = {.end = client_end, .limit_ms = limit_ms};
        unsigned disc = conf_disc();
        union conf_address local;

        conf_local(&client.local, &disc, sizeof(disc));
        conf_local(&local, &disc, sizeof(disc));
        conf_address(&client.remote, client_end, server->side, &disc, sizeof(disc));
        assert_int_equal(pthread_create(&thread, NULL, run_client, &client), 0);
        rc = VipConnectWait(server->nic, &local.net, limit_ms, &from.net, &attrs, &request);
        pthread_join(thread, NULL);
        if (rc == VIP_SUCCESS) {
            assert_int_equal(client.result, VIP_TIMEOUT);
            return request;
        }
        CONF_RETURNS(VIP_TIMEOUT, rc);
        assert_true(limit_ms < CONF_LIMIT_MS);
    }
}

void conf_connect(struct end *client_end, struct end *server)
{
    struct client client = {.end = client_end, .limit_ms = CONF_LIMIT_MS};
    unsigned disc = conf_disc();
    union conf_address local, from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;
    pthread_t thread;

    conf_local(&client.local, &disc, sizeof(disc));
    conf_address(&client.remote, client_end, server->side, &disc, sizeof(disc));
    conf_local(&local, &disc, sizeof(disc));
    assert_int_equal(pthread_create(&thread, NULL, run_client, &client), 0);
    CONF_OK(VipConnectWait(server->nic, &local.net, CONF_LIMIT_MS, &from.net, &attrs, &request));
    CONF_OK(VipConnectAccept(request, server->vi));
    pthread_join(thread, NULL);
    assert_int_equal(client.result, VIP_SUCCESS);
}

void conf_conflict(struct end *a, struct end *b, VIP_RETURN code)
{
    struct client client = {.end = a, .limit_ms = CONF_LIMIT_MS};
    unsigned disc = conf_disc();
    union conf_address local, from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;
    pthread_t thread;

    conf_local(&client.local, &disc, sizeof(disc));
    conf_address(&client.remote, a, b->side, &disc, sizeof(disc));
    conf_local(&local, &disc, sizeof(disc));
    assert_int_equal(pthread_create(&thread, NULL, run_client, &client), 0);
    CONF_OK(VipConnectWait(b->nic, &local.net, CONF_LIMIT_MS, &from.net, &attrs, &request));
    CONF_RETURNS(code, VipConnectAccept(request, b->vi));
    CONF_OK(VipConnectReject(request));
    pthread_join(thread, NULL);
    assert_int_equal(client.result, VIP_REJECT);
}

VIP_DESCRIPTOR *conf_empty(struct end *end, unsigned i)
{
    VIP_DESCRIPTOR *desc = (VIP_DESCRIPTOR *)(void *)(end->memory + i * CONF_DESC_BYTES);

    assert_true(i < CONF_DESCS);
    memset((void *)desc, 0, CONF_DESC_BYTES);
    return desc;
}

VIP_DESCRIPTOR *conf_desc(struct end *end, unsigned i, size_t offset, size_t bytes)
{
    VIP_DESCRIPTOR *desc = conf_empty(end, i);

    desc->CS.SegCount = 1;
    desc->CS.Length = (VIP_UINT32)bytes;
    desc->DS[0].Local.Data.Address = end->buffer + offset;
    desc->DS[0].Local.Handle = end->handle;
    desc->DS[0].Local.Length = (VIP_UINT32)bytes;
    return desc;
}

VIP_DESCRIPTOR *conf_write(struct end *end, unsigned i, size_t offset, size_t bytes,
                           const struct end *peer, size_t to)
{
    VIP_DESCRIPTOR *desc = conf_empty(end, i);

    desc->CS.SegCount = 2;
    desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    desc->CS.Length = (VIP_UINT32)bytes;
    desc->DS[0].Remote.Data.Address = peer->buffer + to;
    desc->DS[0].Remote.Handle = peer->handle;
    desc->DS[1].Local.Data.Address = end->buffer + offset;
    desc->DS[1].Local.Handle = end->handle;
    desc->DS[1].Local.Length = (VIP_UINT32)bytes;
    return desc;
}

void conf_post_send(struct end *end, VIP_DESCRIPTOR *desc)
{
    CONF_OK(VipPostSend(end->vi, desc, end->handle));
}

void conf_post_recv(struct end *end, VIP_DESCRIPTOR *desc)
{
    CONF_OK(VipPostRecv(end->vi, desc, end->handle));
}

void conf_sent(struct end *end, VIP_DESCRIPTOR *desc)
{
    VIP_DESCRIPTOR *got = NULL;

    CONF_OK(VipSendWait(end->vi, CONF_LIMIT_MS, &got));
    assert_ptr_equal(got, desc);
    assert_int_equal(desc->CS.Status & (VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK), VIP_STATUS_DONE);
}

void conf_received(struct end *end, VIP_DESCRIPTOR *desc, size_t bytes)
{
    VIP_DESCRIPTOR *got = NULL;

    CONF_OK(VipRecvWait(end->vi, CONF_LIMIT_MS, &got));
    assert_ptr_equal(got, desc);
    assert_int_equal(desc->CS.Status & (VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK), VIP_STATUS_DONE);
    assert_int_equal(desc->CS.Length, bytes);
}

void conf_failed(struct end *end, bool recv, VIP_DESCRIPTOR *desc, VIP_UINT32 errors)
{
    VIP_DESCRIPTOR *got = NULL;

    if (recv)
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvWait(end->vi, CONF_LIMIT_MS, &got));
    else
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipSendWait(end->vi, CONF_LIMIT_MS, &got));
    assert_ptr_equal(got, desc);
    assert_int_equal(desc->CS.Status & (VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK),
                     VIP_STATUS_DONE | errors);
    conf_expected_status(recv, errors);
}

static unsigned char content(size_t at, unsigned seed)
{
    uint32_t x = (uint32_t)at * 2654435761u + seed * 40503u;

    return (unsigned char)(x >> 16 ^ x >> 24);
}

void conf_fill(void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)memory)[i] = content(i, seed);
}

void conf_same(const void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)memory)[i] != content(i, seed))
            fail_msg("byte %zu of %zu (seed %u) is 0x%02x, not 0x%02x", i, bytes, seed,
                     ((const unsigned char *)memory)[i], content(i, seed));
}

VIP_VI_STATE conf_state(struct end *end)
{
    VIP_VI_STATE state;
    VIP_VI_ATTRIBUTES attrs;
    VIP_BOOLEAN send_empty, recv_empty;

    CONF_OK(VipQueryVi(end->vi, &state, &attrs, &send_empty, &recv_empty));
    return state;
}

uint64_t conf_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

bool conf_pause(uint64_t *started_ns)
{
    struct timespec ts = {.tv_nsec = 1000000};

    if (*started_ns == 0)
        *started_ns = conf_now_ns();
    nanosleep(&ts, NULL);
    return conf_now_ns() - *started_ns < CONF_LIMIT_MS * 1000000ull;
}

void conf_await_state(struct end *end, VIP_VI_STATE state)
{
    uint64_t started = 0;

    while (conf_state(end) != state)
        if (!conf_pause(&started))
            fail_msg("the VI is in state %d and never came to %d", (int)conf_state(end),
                     (int)state);
}

unsigned conf_error_count(const struct end *end)
{
    return __atomic_load_n(&end->error_count, __ATOMIC_ACQUIRE);
}

void conf_forget_errors(struct end *end)
{
    __atomic_store_n(&end->error_count, 0, __ATOMIC_RELEASE);
}

VIP_ERROR_DESCRIPTOR conf_await_error(struct end *end, VIP_ERROR_CODE code)
{
    uint64_t started = 0;
    VIP_ERROR_DESCRIPTOR none = {0};
    unsigned count;

    do {
        count = conf_error_count(end);
        for (unsigned i = 0; i < count && i < CONF_ERRORS; i++)
            if (end->errors[i].ErrorCode == code) {
                conf_expected_error(code, end->errors[i].ResourceCode);
                return end->errors[i];
            }
    } while (conf_pause(&started));
    fail_msg("asynchronous error %d never came (%u others did)", (int)code, count);
    return none;
}

void conf_drain(struct end *end)
{
    VIP_DESCRIPTOR *desc;

    do
        VipSendDone(end->vi, &desc);
    while (desc != NULL);
    do
        VipRecvDone(end->vi, &desc);
    while (desc != NULL);
}

void conf_disconnect_idle(struct end *a, struct end *b)
{
    CONF_OK(VipDisconnect(a->vi));
    CONF_OK(VipDisconnect(b->vi));
    conf_drain(a);
    conf_drain(b);
}

void conf_drop_vi(struct end *end)
{
    CONF_OK(VipDisconnect(end->vi));
    conf_drain(end);
    CONF_OK(VipDestroyVi(end->vi));
    end->vi = NULL;
}

/* ---- both ends --------------------------------------------------------------------------- */

bool conf_medium(const char *medium)
{
    const char *is = getenv("VIP_MEDIUM");

    return is != NULL && strcmp(is, medium) == 0;
}

bool conf_lossy(void)
{
    return getenv("VIP_LOSS") != NULL;
}

void conf_pair(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level)
{
    conf_ready(a, 'A', level);
    conf_ready(b, 'B', level);
    conf_connect(a, b);
}

void conf_pair_with(struct end *a, struct end *b, const VIP_VI_ATTRIBUTES *attrs)
{
    VIP_VI_ATTRIBUTES copy = *attrs;

    conf_open(a, 'A');
    conf_open(b, 'B');
    a->level = b->level = copy.ReliabilityLevel;
    CONF_OK(VipCreateVi(a->nic, &copy, NULL, NULL, &a->vi));
    CONF_OK(VipCreateVi(b->nic, &copy, NULL, NULL, &b->vi));
    conf_connect(a, b);
}

void conf_close_pair(struct end *a, struct end *b)
{
    conf_close(a);
    conf_close(b);
}

VIP_DESCRIPTOR *conf_at(const struct end *end, unsigned i)
{
    assert_true(i < CONF_DESCS);
    return (VIP_DESCRIPTOR *)(void *)(end->memory + i * CONF_DESC_BYTES);
}

VIP_DESCRIPTOR *conf_read(struct end *end, unsigned i, size_t offset, size_t bytes,
                          const struct end *peer, size_t to)
{
    VIP_DESCRIPTOR *desc = conf_write(end, i, offset, bytes, peer, to);

    desc->CS.Control = VIP_CONTROL_OP_RDMAREAD;
    return desc;
}

/* A lost unreliable message is sent again after CONF_LOST_MS, at most CONF_REPEATS times. */
#define CONF_LOST_MS 100
#define CONF_REPEATS 60

static bool may_be_lost(const struct end *end)
{
    return conf_lossy() && end->level == VIP_SERVICE_UNRELIABLE;
}

VIP_RETURN conf_carry(struct end *a, VIP_DESCRIPTOR *send, struct end *b, VIP_DESCRIPTOR *recv,
                      VIP_RETURN *ret_send)
{
    VIP_DESCRIPTOR *got = NULL;
    VIP_RETURN rc, sent;

    for (unsigned n = 0; n < CONF_REPEATS; n++) {
        conf_post_send(a, send);
        rc = VipRecvWait(b->vi, may_be_lost(a) ? CONF_LOST_MS : CONF_LIMIT_MS, &got);
        if (rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR)
            assert_ptr_equal(got, recv);
        sent = VipSendWait(a->vi, CONF_LIMIT_MS, &got);
        assert_ptr_equal(got, send);
        conf_expected_status(0, send->CS.Status);
        if (rc != VIP_TIMEOUT)
            conf_expected_status(1, recv->CS.Status);
        if (ret_send != NULL)
            *ret_send = sent;
        conf_expect_nothing(); /* the last VIPL call did not return rc */
        if (rc != VIP_TIMEOUT)
            return rc;
        if (!may_be_lost(a))
            break;
    }
    fail_msg("the message never came");
    return VIP_TIMEOUT;
}

void conf_alive(struct end *a, struct end *b)
{
    VIP_DESCRIPTOR *send, *recv;
    VIP_RETURN sent;

    assert_int_equal(conf_state(a), VIP_STATE_CONNECTED);
    assert_int_equal(conf_state(b), VIP_STATE_CONNECTED);
    send = conf_desc(a, 62, conf_buffer_bytes - 1000, 77);
    recv = conf_desc(b, 63, conf_buffer_bytes - 2000, 100);
    conf_fill(a->buffer + conf_buffer_bytes - 1000, 77, 62);
    conf_post_recv(b, recv);
    CONF_OK(conf_carry(a, send, b, recv, &sent));
    assert_int_equal(sent, VIP_SUCCESS);
    assert_int_equal(recv->CS.Length, 77);
    conf_same(b->buffer + conf_buffer_bytes - 2000, 77, 62);
}

void conf_broken(struct end *end)
{
    VIP_ERROR_DESCRIPTOR error;

    conf_await_state(end, VIP_STATE_ERROR);
    error = conf_await_error(end, VIP_ERROR_CONN_LOST);
    assert_int_equal(error.ResourceCode, VIP_RESOURCE_VI);
    assert_ptr_equal(error.ViHandle, end->vi);
    assert_ptr_equal(error.NicHandle, end->nic);
}

VIP_ERROR_DESCRIPTOR conf_provoke(struct end *a, VIP_DESCRIPTOR *send, struct end *b,
                                  VIP_ERROR_CODE code, bool reap)
{
    uint64_t started;
    VIP_DESCRIPTOR *got;

    for (unsigned n = 0; may_be_lost(a) && n < CONF_REPEATS; n++) {
        conf_post_send(a, send);
        CONF_OK(VipSendWait(a->vi, CONF_LIMIT_MS, &got));
        started = conf_now_ns();
        while (conf_now_ns() - started < CONF_LOST_MS * 1000000ull)
            for (unsigned i = 0; i < conf_error_count(b) && i < CONF_ERRORS; i++)
                if (b->errors[i].ErrorCode == code)
                    return conf_await_error(b, code);
    }
    conf_post_send(a, send);
    if (reap) {
        VipSendWait(a->vi, CONF_LIMIT_MS, &got);
        assert_ptr_equal(got, send);
    }
    return conf_await_error(b, code);
}

VIP_UINT32 conf_take(struct end *end, bool recv, VIP_DESCRIPTOR *desc)
{
    VIP_DESCRIPTOR *got = NULL;
    VIP_RETURN rc = recv ? VipRecvWait(end->vi, CONF_LIMIT_MS, &got)
                         : VipSendWait(end->vi, CONF_LIMIT_MS, &got);

    assert_ptr_equal(got, desc);
    assert_int_equal(desc->CS.Status & VIP_STATUS_DONE, VIP_STATUS_DONE);
    assert_int_equal(rc, (desc->CS.Status & VIP_STATUS_ERROR_MASK) != 0 ? VIP_DESCRIPTOR_ERROR
                                                                        : VIP_SUCCESS);
    conf_expected_status(recv, desc->CS.Status);
    return desc->CS.Status & VIP_STATUS_ERROR_MASK;
}
