/*
 * Each allocation and each system call of vipd fails once: while vipd starts, and while a program
 * opens a NIC or comes back to it, creates VIs and CQs, registers memory, connects and accepts. The
 * program must get a code and a reason, or vipd must close its connection for lack of a resource.
 * Afterwards no memory or descriptor may be left, and vipd must serve the next program.
 */
#include "faults/faults.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/shm.h"
#include "vipd/client/client.h"
#include "vipd/client/internal.h"
#include "vipd/nic/nic.h"
#include "vipd/runtime.h"
#include "vipd/start.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static char dir[] = "/tmp/vip-faults-XXXXXX"; /* runtime directory of vipd */
static uint16_t port;                         /* UDP port of the NIC */

static struct vipd vipd;
static struct vipd_config *config;
static struct runtime runtime;
static struct client_listener *listener;
static uint64_t now_ns;
static const char *hit; /* name of the function that failed in vipd; none fails in the test */

/* A program that has opened a NIC or is opening it. */
struct program {
    int sock, events, doorbell, segment;
};

struct outcome {
    bool ended;    /* vipd closed the connection */
    bool later;    /* vipd told a returning program to try again later */
    uint32_t code; /* enum vip_rc; valid only if `ended` is false */
    uint32_t number;
};

/* ---- the daemon ------------------------------------------------------------------------------ */

static void daemon_stop(void)
{
    client_listener_free(listener);
    if (vipd.loop)
        vipd_stop(&vipd);
    runtime_close(&runtime);
    vipd_config_free(config);
    listener = NULL;
    config = NULL;
}

/* Start vipd's parts in the order of main.c. Returns 0, or a negative errno and a reason in err. */
static int daemon_start(char *err, size_t err_bytes)
{
    int r = -ENOMEM;

    memset(&vipd, 0, sizeof(vipd));
    runtime = (struct runtime){.lock_fd = -1, .sock = -1, .dir_fd = -1};
    vipd_log_set_level((enum vipd_log_level)0);
    snprintf(err, err_bytes, "out of memory");
    config = vipd_config_default();
    if (!config)
        return r;
    snprintf(config->nics[0].keys.address, sizeof(config->nics[0].keys.address), "127.0.0.1");
    config->nics[0].keys.port = port;
    config->threads = 2; /* adds a worker, whose set-up can fail; the worker never runs */
    err[0] = '\0';
    r = runtime_open(dir, geteuid(), &runtime, err, err_bytes);
    if (r == 0)
        r = vipd_start(config, dir, NULL, &vipd, err, err_bytes);
    if (r == 0)
        r = runtime_listen(&runtime, 0600, err, err_bytes);
    if (r == 0) {
        r = client_listen(&vipd, runtime.sock, &listener);
        if (r < 0)
            snprintf(err, err_bytes, "%s", strerror(-r)); /* as in main.c */
    }
    if (r == 0)
        now_ns = vipd_loop_now(vipd.loop);
    return r;
}

static void serve(void)
{
    for (unsigned round = 0; round < 8; round++) {
        for (struct client *c = vipd.clients; c; c = c->next)
            client_serve(c);
        nic_turn(vipd.nics[0].nic, now_ns);
        clients_reap(&vipd);
    }
}

/* ---- programs -------------------------------------------------------------------------------- */

static int memfd(uint64_t bytes, int seals)
{
    int fd = memfd_create("faults", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    FAULT_CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    FAULT_CHECK(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void leave(struct program *program)
{
    const int fds[] = {program->sock, program->events, program->doorbell, program->segment};

    for (unsigned i = 0; i < 4; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    serve();
}

static struct outcome hear(struct program *program)
{
    struct outcome outcome = {.ended = true};
    ProtobufCMessage *message;
    struct vip_fds fds;
    Vip__Reply *reply;
    int r = vip_control_recv(program->sock, &vip__reply__descriptor, MSG_DONTWAIT, &message, &fds);

    FAULT_CHECK(r == 0 || r == -EPIPE);
    if (r == -EPIPE)
        return outcome;
    reply = (Vip__Reply *)message;
    outcome = (struct outcome){.code = reply->code, .number = reply->number};
    if (reply->create_vi)
        outcome.number = reply->create_vi->vi;
    outcome.later = reply->hangs_up || (reply->open && reply->open->again_ms > 0);
    FAULT_CHECK(reply->has_code && (reply->code == VIP_RC_SUCCESS) == !reply->reason);
    FAULT_CHECK(!reply->reason || strlen(reply->reason) > 10);
    if (fds.count == 3) {
        program->segment = fds.fd[0];
        program->doorbell = fds.fd[1];
        program->events = fds.fd[2];
        fds.count = 0;
    }
    vip_fds_close(&fds);
    protobuf_c_message_free_unpacked(message, NULL);
    return outcome;
}

/* If vipd lacked a resource, its code must be SUCCESS or ERROR_RESOURCE. Or it may have closed the
 * control connection. */
static struct outcome right_code(struct outcome outcome)
{
    if (hit && fault_of_resources() && !outcome.ended)
        FAULT_CHECK(outcome.code == VIP_RC_SUCCESS || outcome.code == VIP_RC_ERROR_RESOURCE);
    return outcome;
}

/* Send a request, serve it and read the answer. vipd's n-th call fails; n = 0: none fails. */
static struct outcome ask(struct program *program, const Vip__Request *request, const int *fds,
                          unsigned fd_count, unsigned n)
{
    /* An earlier failure may have made vipd close the control connection. */
    if (vip_control_send(program->sock, &request->base, fds, fd_count, MSG_DONTWAIT) < 0)
        return (struct outcome){.ended = true};
    fault_arm(n);
    serve();
    if (n)
        hit = fault_disarm();
    return right_code(hear(program));
}

/* The program opens a NIC. It returns to its session in `segment`, or is new (segment -1). */
static struct outcome open_with(struct program *program, int segment, unsigned n)
{
    Vip__Claim claim = VIP__CLAIM__INIT;
    Vip__OpenRequest open_request = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vip_app_head head = {
        .magic = VIP_SHM_APP_MAGIC, .abi = VIP_SHM_ABI, .bytes = VIP_APP_BYTES};
    struct outcome outcome;
    int fds[3] = {-1, -1, segment}, pair[2], r;

    fds[0] = memfd(VIP_APP_BYTES, 0);
    FAULT_CHECK(pwrite(fds[0], &head, sizeof(head), 0) == sizeof(head));
    FAULT_CHECK(fcntl(fds[0], F_ADD_SEALS,
                      F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) == 0);
    fds[1] = memfd(VIP_ARENA_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
    FAULT_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    *program = (struct program){.sock = pair[1], .events = -1, .doorbell = -1, .segment = -1};
    open_request.has_abi = true;
    open_request.abi = VIP_SHM_ABI;
    open_request.device = (char *)"vip0";
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open_request;
    open_request.claim = segment >= 0 ? &claim : NULL;
    FAULT_CHECK(vip_control_send(pair[1], &request.base, fds, segment >= 0 ? 3 : 2, 0) == 0);
    fault_arm(n);
    r = client_new(&vipd, pair[0]);
    if (r == 0)
        serve();
    if (n)
        hit = fault_disarm();
    outcome = right_code(hear(program));
    /* If vipd refuses the control connection, it must first answer ERROR_RESOURCE. */
    FAULT_CHECK(r == 0 || (!outcome.ended && outcome.code == VIP_RC_ERROR_RESOURCE));
    close(fds[0]);
    close(fds[1]);
    return outcome;
}

static struct outcome open_nic(struct program *program, unsigned n)
{
    return open_with(program, -1, n);
}

/* Make a segment like one that an earlier vipd has left for this process. */
static int past_segment(void)
{
    struct vip_vipd_head head = {.magic = VIP_SHM_VIPD_MAGIC,
                                 .abi = VIP_SHM_ABI,
                                 .bytes = VIP_VIPD_BYTES,
                                 .epoch = 7,
                                 .start_ticks = process_start(getpid()),
                                 .pid = (uint32_t)getpid(),
                                 .uid = geteuid()};
    int fd = memfd(VIP_VIPD_BYTES, 0);

    FAULT_CHECK(pwrite(fd, &head, sizeof(head), 0) == sizeof(head) && fchmod(fd, 0600) == 0);
    FAULT_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    return fd;
}

static struct outcome create_vi(struct program *program, unsigned n)
{
    Vip__CreateViRequest create = VIP__CREATE_VI_REQUEST__INIT;
    Vip__ViAttributes attributes = VIP__VI_ATTRIBUTES__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    attributes.has_reliability_level = true;
    attributes.reliability_level = VIP_LVL_DELIVERY;
    attributes.has_max_transfer_size = true;
    attributes.max_transfer_size = 4096;
    create.attributes = &attributes;
    request.body_case = VIP__REQUEST__BODY_CREATE_VI;
    request.create_vi = &create;
    return ask(program, &request, NULL, 0, n);
}

static struct outcome create_cq(struct program *program, unsigned n)
{
    Vip__CqRequest create = VIP__CQ_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    create.has_entries = true;
    create.entries = 100;
    request.body_case = VIP__REQUEST__BODY_CREATE_CQ;
    request.create_cq = &create;
    return ask(program, &request, NULL, 0, n);
}

static struct outcome register_mem(struct program *program, Vip__MemKind kind, unsigned n)
{
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fd = memfd(16384, F_SEAL_SHRINK | F_SEAL_GROW);
    struct outcome outcome;

    mem.has_address = mem.has_bytes = mem.has_kind = mem.has_offset = true;
    mem.address = 0x10000;
    mem.bytes = 8192;
    mem.kind = kind;
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    outcome = ask(program, &request, &fd, kind == VIP__MEM_KIND__MEM_ADOPTED ? 0 : 1, n);
    close(fd);
    return outcome;
}

/* ---- connections ----------------------------------------------------------------------------- */

static Vip__NetAddress address(uint8_t host[6])
{
    Vip__NetAddress ret = VIP__NET_ADDRESS__INIT;

    memcpy(host, (uint8_t[]){127, 0, 0, 1, (uint8_t)(port >> 8), (uint8_t)port}, 6);
    ret.has_host = true;
    ret.host.len = 6;
    ret.host.data = host;
    ret.has_discriminator = true;
    ret.discriminator.len = 3;
    ret.discriminator.data = (uint8_t *)(uintptr_t) "svc";
    return ret;
}

static struct outcome wait_for(struct program *program, unsigned n)
{
    uint8_t host[6];
    Vip__NetAddress local = address(host);
    Vip__ConnectWaitRequest wait = VIP__CONNECT_WAIT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    wait.local = &local;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT;
    request.connect_wait = &wait;
    return ask(program, &request, NULL, 0, n);
}

static struct outcome connect_vi(struct program *program, uint32_t vi, unsigned n)
{
    uint8_t host[6];
    Vip__NetAddress where = address(host);
    Vip__ConnectRequest connect_request = VIP__CONNECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    connect_request.has_vi = connect_request.has_timeout_ms = true;
    connect_request.vi = vi;
    connect_request.timeout_ms = 20000;
    connect_request.local = connect_request.remote = &where;
    request.body_case = VIP__REQUEST__BODY_CONNECT;
    request.connect = &connect_request;
    return ask(program, &request, NULL, 0, n);
}

static bool readable(int sock)
{
    char byte;

    return recv(sock, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* Advance the time until the program gets an event. NOT_SET: vipd has closed the program's control
 * connection, or `other` (may be NULL) has got an event first. */
static Vip__Event__BodyCase next_event(struct program *program, const struct program *other,
                                       uint64_t *ret_handle, uint32_t *ret_code)
{
    for (unsigned i = 0; i < 4000; i++) {
        ProtobufCMessage *message;
        struct vip_fds fds;
        int r = vip_control_recv(program->events, &vip__event__descriptor, MSG_DONTWAIT, &message,
                                 &fds);

        if (r == 0) {
            Vip__Event *event = (Vip__Event *)message;
            Vip__Event__BodyCase body = event->body_case;

            if (body == VIP__EVENT__BODY_INCOMING)
                *ret_handle = event->incoming->conn_handle;
            if (body == VIP__EVENT__BODY_RESULT) {
                *ret_code = event->result->code;
                FAULT_CHECK(event->result->code == VIP_RC_SUCCESS || event->result->reason);
            }
            protobuf_c_message_free_unpacked(message, NULL);
            return body;
        }
        if (r != -EAGAIN || (other && readable(other->events)))
            return VIP__EVENT__BODY__NOT_SET;
        now_ns += 10000000;
        serve();
    }
    FAULT_CHECK(!"an event never came");
    return VIP__EVENT__BODY__NOT_SET;
}

static struct outcome accept_vi(struct program *program, uint64_t handle, uint32_t vi, unsigned n)
{
    Vip__AcceptRequest accept_request = VIP__ACCEPT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    accept_request.has_conn_handle = accept_request.has_vi = true;
    accept_request.conn_handle = handle;
    accept_request.vi = vi;
    request.body_case = VIP__REQUEST__BODY_ACCEPT;
    request.accept = &accept_request;
    return ask(program, &request, NULL, 0, n);
}

enum stage { STAGE_NONE, STAGE_WAIT, STAGE_CONNECT, STAGE_ACCEPT };

static bool good(struct outcome outcome)
{
    return !outcome.ended && outcome.code == VIP_RC_SUCCESS;
}

/* Connect two programs; in `stage` vipd's n-th call fails. STAGE_WAIT: do only the wait. True: all
 * steps succeeded. A program that waits for an event must get it, or vipd must close its control
 * connection. */
static bool connect_both(struct program *server, struct program *client, enum stage stage,
                         unsigned n)
{
    struct outcome server_vi = create_vi(server, 0), client_vi = create_vi(client, 0);
    uint32_t code = VIP_RC_SUCCESS;
    uint64_t handle = 0;

    FAULT_CHECK(good(server_vi) && good(client_vi));
    if (!good(wait_for(server, stage == STAGE_WAIT ? n : 0)))
        return false;
    if (stage == STAGE_WAIT)
        return true;
    if (!good(connect_vi(client, client_vi.number, stage == STAGE_CONNECT ? n : 0)))
        return false;
    if (next_event(server, client, &handle, &code) != VIP__EVENT__BODY_INCOMING)
        return false;
    if (!good(accept_vi(server, handle, server_vi.number, stage == STAGE_ACCEPT ? n : 0)))
        return false;
    if (next_event(server, NULL, &handle, &code) != VIP__EVENT__BODY_RESULT ||
        code != VIP_RC_SUCCESS)
        return false;
    return next_event(client, NULL, &handle, &code) == VIP__EVENT__BODY_RESULT &&
           code == VIP_RC_SUCCESS;
}

/* ---- attempts -------------------------------------------------------------------------------- */

/* Open a NIC. While the undertaker still frees the memory of earlier programs, vipd tells a program to
 * ask again. */
static void open_soon(struct program *program)
{
    struct outcome outcome = open_nic(program, 0);

    while (outcome.later) {
        leave(program);
        (void)sched_yield();
        outcome = open_nic(program, 0);
    }
    FAULT_CHECK(good(outcome));
}

static void check_serving(void)
{
    struct program a, b;

    open_soon(&a);
    open_soon(&b);
    FAULT_CHECK(good(create_cq(&a, 0)));
    FAULT_CHECK(good(register_mem(&a, VIP__MEM_KIND__MEM_SHARED, 0)));
    FAULT_CHECK(connect_both(&a, &b, STAGE_NONE, 0));
    leave(&a);
    leave(&b);
    FAULT_CHECK(!vipd.clients);
}

/* Check that vipd has blamed no program for the end of a control connection. */
static void check_ends(void)
{
    const uint64_t *ended = vipd.counters.ended;

    FAULT_CHECK(!ended[CLIENT_END_MALFORMED] && !ended[CLIENT_END_FDS] && !ended[CLIENT_END_RING]);
    FAULT_CHECK(!ended[CLIENT_END_REOPEN] && !ended[CLIENT_END_PLACED]);
}

static const char *attempt_start(unsigned n)
{
    long live = fault_live();
    unsigned fds = fault_fds();
    char err[512];
    const char *what;
    int r;

    fault_arm(n);
    r = daemon_start(err, sizeof(err));
    what = fault_disarm();
    FAULT_CHECK(what || r == 0);
    if (r < 0)
        FAULT_CHECK(strlen(err) > 5);
    else
        check_serving();
    daemon_stop();
    FAULT_CHECK(fault_live() == live && fault_fds() == fds);
    return what;
}

enum request_case { CASE_OPEN, CASE_VI, CASE_CQ, CASE_SHARED, CASE_ADOPTED, CASE_STAGED };

static const char *attempt_request(enum request_case which, unsigned n)
{
    long live = fault_live();
    unsigned fds = fault_fds();
    struct outcome outcome;
    struct program program;
    char err[512];

    FAULT_CHECK(daemon_start(err, sizeof(err)) == 0);
    if (which != CASE_OPEN)
        FAULT_CHECK(good(open_nic(&program, 0)));
    switch (which) {
    case CASE_OPEN:
        outcome = open_nic(&program, n);
        break;
    case CASE_VI:
        outcome = create_vi(&program, n);
        break;
    case CASE_CQ:
        outcome = create_cq(&program, n);
        break;
    case CASE_SHARED:
        outcome = register_mem(&program, VIP__MEM_KIND__MEM_SHARED, n);
        break;
    case CASE_ADOPTED:
        outcome = register_mem(&program, VIP__MEM_KIND__MEM_ADOPTED, n);
        break;
    case CASE_STAGED:
        outcome = register_mem(&program, VIP__MEM_KIND__MEM_STAGED, n);
        break;
    }
    FAULT_CHECK(hit || good(outcome));
    check_ends();
    leave(&program);
    FAULT_CHECK(!vipd.clients);
    check_serving();
    daemon_stop();
    FAULT_CHECK(fault_live() == live && fault_fds() == fds);
    return hit;
}

/*
 * A program comes back to its session. If vipd lacks a resource, the program tries again until vipd
 * takes the session. The first try locks the segment until the undertaker has unmapped it.
 */
static const char *attempt_claim(unsigned n)
{
    long live = fault_live();
    unsigned fds = fault_fds();
    struct outcome outcome;
    struct program program;
    int segment = past_segment();
    const char *what;
    char err[512];

    FAULT_CHECK(daemon_start(err, sizeof(err)) == 0);
    outcome = open_with(&program, segment, n);
    what = hit;
    FAULT_CHECK(what || good(outcome));
    if (what && fault_of_resources())
        FAULT_CHECK(good(outcome) || outcome.ended || outcome.later);
    hit = NULL;
    while (outcome.ended || outcome.later) {
        leave(&program);
        /* If the tries of the program are faster than the undertaker, the client waits for it. */
        while (vipd.clients) {
            (void)sched_yield();
            serve();
        }
        outcome = open_with(&program, segment, 0);
        FAULT_CHECK(good(outcome) || outcome.later);
    }
    check_ends();
    leave(&program);
    FAULT_CHECK(!vipd.clients);
    check_serving();
    daemon_stop();
    close(segment);
    FAULT_CHECK(fault_live() == live && fault_fds() == fds);
    return what;
}

static const char *attempt_connect(enum stage stage, unsigned n)
{
    long live = fault_live();
    unsigned fds = fault_fds();
    struct program server, client;
    char err[512];
    bool connected;

    FAULT_CHECK(daemon_start(err, sizeof(err)) == 0);
    FAULT_CHECK(good(open_nic(&server, 0)) && good(open_nic(&client, 0)));
    connected = connect_both(&server, &client, stage, n);
    FAULT_CHECK(hit || connected);
    check_ends();
    leave(&server);
    leave(&client);
    FAULT_CHECK(!vipd.clients);
    check_serving();
    daemon_stop();
    FAULT_CHECK(fault_live() == live && fault_fds() == fds);
    return hit;
}

#define REQUEST_CASE(name, which)                                                                  \
    static const char *name(unsigned n)                                                            \
    {                                                                                              \
        return attempt_request(which, n);                                                          \
    }
#define CONNECT_CASE(name, stage)                                                                  \
    static const char *name(unsigned n)                                                            \
    {                                                                                              \
        return attempt_connect(stage, n);                                                          \
    }

REQUEST_CASE(attempt_open, CASE_OPEN)
REQUEST_CASE(attempt_vi, CASE_VI)
REQUEST_CASE(attempt_cq, CASE_CQ)
REQUEST_CASE(attempt_shared, CASE_SHARED)
REQUEST_CASE(attempt_adopted, CASE_ADOPTED)
REQUEST_CASE(attempt_staged, CASE_STAGED)
CONNECT_CASE(attempt_wait, STAGE_WAIT)
CONNECT_CASE(attempt_request_connect, STAGE_CONNECT)
CONNECT_CASE(attempt_accept, STAGE_ACCEPT)

static uint16_t free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int sock = socket(AF_INET, SOCK_DGRAM, 0);

    FAULT_CHECK(bind(sock, (struct sockaddr *)&addr, len) == 0);
    FAULT_CHECK(getsockname(sock, (struct sockaddr *)&addr, &len) == 0);
    close(sock);
    return ntohs(addr.sin_port);
}

int main(int argc, char **argv)
{
    static const struct fault_case cases[] = {
        {"start", attempt_start},
        {"open", attempt_open},
        {"claim", attempt_claim},
        {"create_vi", attempt_vi},
        {"create_cq", attempt_cq},
        {"register_shared", attempt_shared},
        {"register_adopted", attempt_adopted},
        {"register_staged", attempt_staged},
        {"connect_wait", attempt_wait},
        {"connect", attempt_request_connect},
        {"accept", attempt_accept},
    };
    char path[64];
    int result;

    FAULT_CHECK(mkdtemp(dir));
    port = free_port();
    result = fault_run(cases, sizeof(cases) / sizeof(cases[0]), argc > 1 ? argv[1] : NULL);
    snprintf(path, sizeof(path), "%s/vipd.lock", dir);
    unlink(path);
    rmdir(dir);
    return result;
}
