/*
 * vipd's side of the control socket, spoken to in raw messages: what is right is answered once, what
 * is wrong ends that session and no other.
 *
 * A child process runs the daemon (everything but main.c's command line) with one NIC on 127.0.0.1;
 * it must end with exit code 0 after SIGTERM, under the sanitizers too.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/ring.h"
#include "proto/shm.h"
#include "proto/status.h"
#include "vipd/client/client.h"
#include "vipd/host.h"
#include "vipd/runtime.h"
#include "vipd/start.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define APP_SEALS    (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
#define SESSIONS_MAX 3 /* sessions_per_uid of the daemon under test */
#define EVENTS_MAX   16

static char dir[] = "/tmp/vip-control-XXXXXX";
static char socket_path[64];
static pid_t daemon_pid;

/* ---- the daemon -------------------------------------------------------------------------- */

/* A UDP port that is free now. */
static uint16_t free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int sock = socket(AF_INET, SOCK_DGRAM, 0);

    assert_int_equal(bind(sock, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(getsockname(sock, (struct sockaddr *)&addr, &len), 0);
    close(sock);
    return ntohs(addr.sin_port);
}

static int run_daemon(uint16_t port)
{
    static struct runtime runtime;
    static struct vipd vipd;
    struct client_listener *listener;
    struct vipd_config *config = vipd_config_default();
    char err[512] = "";

    snprintf(config->nics[0].address, sizeof(config->nics[0].address), "127.0.0.1");
    config->nics[0].port = port;
    config->sessions_per_uid = SESSIONS_MAX;
    config->events_queued = EVENTS_MAX;
    config->register_bytes = 1 << 20;
    vipd_log_set_level(VIPD_LOG_ERROR);
    if (runtime_open(dir, &runtime, err, sizeof(err)) < 0 ||
        vipd_start(config, dir, &vipd, err, sizeof(err)) < 0 ||
        runtime_listen(&runtime, 0600, err, sizeof(err)) < 0 ||
        client_listen(&vipd, runtime.sock, &listener) < 0) {
        fprintf(stderr, "daemon: %s\n", err);
        return 1;
    }
    vipd_host_run(vipd.loop);
    client_listener_free(listener);
    vipd_stop(&vipd);
    runtime_close(&runtime);
    vipd_config_free(config);
    return 0;
}

static int start_daemon(void **state)
{
    uint16_t port = free_port();
    int sock = -1;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(socket_path, sizeof(socket_path), "%s/vipd.sock", dir);
    daemon_pid = fork();
    if (daemon_pid == 0)
        exit(run_daemon(port));
    /* It can be connected to as soon as the socket is there; a daemon that fails ends. */
    while (sock < 0 && waitpid(daemon_pid, NULL, WNOHANG) == 0) {
        sock = vip_control_connect(socket_path);
        if (sock < 0)
            usleep(1000);
    }
    assert_true(sock >= 0);
    close(sock);
    return 0;
}

static int stop_daemon(void **state)
{
    char path[64];
    int status;

    (void)state;
    kill(daemon_pid, SIGTERM);
    assert_int_equal(waitpid(daemon_pid, &status, 0), daemon_pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(access(socket_path, F_OK), -1);
    snprintf(path, sizeof(path), "%s/vipd.lock", dir);
    unlink(path);
    return rmdir(dir);
}

/* ---- messages ---------------------------------------------------------------------------- */

static int connect_daemon(void)
{
    int sock = vip_control_connect(socket_path);

    assert_true(sock >= 0);
    return sock;
}

static Vip__Reply *receive(int sock, struct vip_fds *fds)
{
    ProtobufCMessage *message;

    assert_int_equal(vip_control_recv(sock, &vip__reply__descriptor, 0, &message, fds), 0);
    return (Vip__Reply *)message;
}

static Vip__Reply *ask(int sock, const Vip__Request *request, const int *send_fds, unsigned count)
{
    struct vip_fds fds;
    Vip__Reply *reply;

    assert_int_equal(vip_control_send(sock, &request->base, send_fds, count, 0), 0);
    reply = receive(sock, &fds);
    assert_int_equal(fds.count, 0);
    return reply;
}

/* Send a request, look at the code (and a word of the reason), forget the reply. */
static uint32_t ask_code(int sock, const Vip__Request *request, enum vip_rc code, const char *word)
{
    Vip__Reply *reply = ask(sock, request, NULL, 0);
    uint32_t number = reply->number;

    if (reply->code != code)
        fail_msg("code %u instead of %u: %s", reply->code, code, reply->reason);
    if (code == VIP_RC_SUCCESS)
        assert_null(reply->reason);
    else
        assert_non_null(reply->reason);
    if (word && !strstr(reply->reason, word))
        fail_msg("no '%s' in: %s", word, reply->reason);
    vip__reply__free_unpacked(reply, NULL);
    return number;
}

static void assert_closed(int sock)
{
    ProtobufCMessage *message;
    struct vip_fds fds;

    assert_int_equal(vip_control_recv(sock, &vip__reply__descriptor, 0, &message, &fds), -EPIPE);
    close(sock);
}

/* ---- a session --------------------------------------------------------------------------- */

/* What an application has after open. */
struct app {
    int sock, events, doorbell, segment;
    uint8_t address[6]; /* of the NIC */
};

static int make_memfd(uint64_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static int make_app_segment(uint64_t bytes, int seals, uint32_t magic)
{
    int fd = make_memfd(bytes, 0);
    struct vip_app_head head = {.magic = magic, .abi = VIP_SHM_ABI, .bytes = bytes};

    assert_int_equal(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static int make_arena(void)
{
    return make_memfd(VIP_ARENA_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
}

static void send_open(int sock, uint32_t abi, const char *device, int app_fd, int arena_fd)
{
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fds[2] = {app_fd, arena_fd};

    open.has_abi = true;
    open.abi = abi;
    open.device = (char *)device;
    open.program = (char *)"test\n\x1b[1m";
    open.library_version = (char *)"1";
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    assert_int_equal(vip_control_send(sock, &request.base, fds, 2, 0), 0);
    close(app_fd);
    close(arena_fd);
}

static void try_open(uint32_t abi, const char *device, int app_fd, int arena_fd, enum vip_rc code,
                     const char *word)
{
    int sock = connect_daemon();
    struct vip_fds fds;
    Vip__Reply *reply;

    send_open(sock, abi, device, app_fd, arena_fd);
    reply = receive(sock, &fds);
    if (reply->code != code || !strstr(reply->reason, word))
        fail_msg("%u %s (want %u and '%s')", reply->code, reply->reason, code, word);
    assert_int_equal(fds.count, 0);
    assert_null(reply->open);
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
}

static struct app open_app_with(const char *device, int app_fd)
{
    struct app app = {.sock = connect_daemon()};
    struct vip_fds fds;
    Vip__Reply *reply;

    send_open(app.sock, VIP_SHM_ABI, device, app_fd, make_arena());
    reply = receive(app.sock, &fds);
    if (reply->code != VIP_RC_SUCCESS)
        fail_msg("open: %s", reply->reason);
    assert_int_equal(fds.count, 3);
    assert_non_null(reply->open);
    assert_int_equal(reply->open->abi, VIP_SHM_ABI);
    assert_string_equal(reply->open->nic->name, "vip0");
    assert_int_equal(reply->open->nic->local_address.len, 6);
    memcpy(app.address, reply->open->nic->local_address.data, 6);
    assert_int_equal(reply->open->nic->max_vi, VIP_VI_MAX);
    assert_true(reply->open->cpus >= 1);
    vip__reply__free_unpacked(reply, NULL);
    app.segment = fds.fd[0];
    app.doorbell = fds.fd[1];
    app.events = fds.fd[2];
    return app;
}

static struct app open_app(const char *device)
{
    return open_app_with(device, make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC));
}

static void close_app(struct app *app)
{
    Vip__CloseRequest close_request = VIP__CLOSE_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    request.body_case = VIP__REQUEST__BODY_CLOSE;
    request.close = &close_request;
    ask_code(app->sock, &request, VIP_RC_SUCCESS, NULL);
    assert_closed(app->sock);
    close(app->events);
    close(app->doorbell);
    close(app->segment);
}

/* It was ended by vipd. */
static void assert_ended(struct app *app)
{
    assert_closed(app->sock);
    close(app->events);
    close(app->doorbell);
    close(app->segment);
}

/* Any request that needs a session and changes little. */
static void assert_alive(const struct app *app)
{
    Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    uint32_t number;

    request.body_case = VIP__REQUEST__BODY_CREATE_PTAG;
    request.create_ptag = &ptag;
    number = ask_code(app->sock, &request, VIP_RC_SUCCESS, NULL);
    assert_true(number > 0);
    ptag.has_ptag = true;
    ptag.ptag = number;
    request.body_case = VIP__REQUEST__BODY_DESTROY_PTAG;
    request.destroy_ptag = &ptag;
    ask_code(app->sock, &request, VIP_RC_SUCCESS, NULL);
    ask_code(app->sock, &request, VIP_RC_INVALID_PARAMETER, "protection tag");
}

/* ---- open -------------------------------------------------------------------------------- */

static void test_open(void **state)
{
    struct app app = open_app("/dev/via_lo"), other = open_app("vip0");
    struct vip_vipd_head head;

    (void)state;
    assert_int_equal(pread(app.segment, &head, sizeof(head), 0), sizeof(head));
    assert_int_equal(head.magic, VIP_SHM_VIPD_MAGIC);
    assert_int_equal(head.abi, VIP_SHM_ABI);
    assert_int_equal(head.bytes, VIP_VIPD_BYTES);
    assert_int_equal(fcntl(app.segment, F_GET_SEALS), APP_SEALS);
    /* No application can write what vipd writes. */
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, app.segment, 0),
                     MAP_FAILED);
    assert_int_equal(pwrite(app.segment, "x", 1, 0), -1);
    assert_int_equal(ftruncate(app.segment, 0), -1);
    assert_alive(&app);
    close_app(&app);
    assert_alive(&other);
    close_app(&other);
}

static void test_open_wrong_segments(void **state)
{
    const uint32_t magic = VIP_SHM_APP_MAGIC;
    int file;

    (void)state;
    for (int missing = 0; missing < 4; missing++) {
        const int seals[] = {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE};

        try_open(VIP_SHM_ABI, "vip0",
                 make_app_segment(VIP_APP_BYTES, APP_SEALS & ~seals[missing], magic), make_arena(),
                 VIP_RC_INVALID_PARAMETER, "seals");
    }
    try_open(VIP_SHM_ABI, "vip0", make_app_segment(VIP_APP_BYTES - 4096, APP_SEALS, magic),
             make_arena(), VIP_RC_INVALID_PARAMETER, "size");
    try_open(VIP_SHM_ABI, "vip0", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic + 1),
             make_arena(), VIP_RC_INVALID_PARAMETER, "magic");
    file = open("/dev/null", O_RDONLY);
    try_open(VIP_SHM_ABI, "vip0", file, make_arena(), VIP_RC_INVALID_PARAMETER, "memfd");
    file = open(VIP_SOURCE_DIR "/LICENSE", O_RDONLY);
    try_open(VIP_SHM_ABI, "vip0", file, make_arena(), VIP_RC_INVALID_PARAMETER, "segment");
    try_open(VIP_SHM_ABI, "vip0", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic),
             make_memfd(VIP_ARENA_BYTES, F_SEAL_SHRINK), VIP_RC_INVALID_PARAMETER, "arena");
    try_open(VIP_SHM_ABI, "vip0", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic),
             make_memfd(4096, F_SEAL_SHRINK | F_SEAL_GROW), VIP_RC_INVALID_PARAMETER, "arena");
}

static void test_open_wrong_words(void **state)
{
    const uint32_t magic = VIP_SHM_APP_MAGIC;

    (void)state;
    try_open(VIP_SHM_ABI + 1, "vip0", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic),
             make_arena(), VIP_RC_ERROR_RESOURCE, "ABI");
    try_open(VIP_SHM_ABI, "vip9", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic), make_arena(),
             VIP_RC_INVALID_PARAMETER, "'vip9'");
}

static void test_sessions_per_uid(void **state)
{
    struct app apps[SESSIONS_MAX];

    (void)state;
    for (int i = 0; i < SESSIONS_MAX; i++)
        apps[i] = open_app("");
    try_open(VIP_SHM_ABI, "", make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC),
             make_arena(), VIP_RC_ERROR_RESOURCE, "sessions_per_uid");
    close_app(&apps[0]);
    apps[0] = open_app("");
    for (int i = 0; i < SESSIONS_MAX; i++)
        close_app(&apps[i]);
}

static void test_second_open(void **state)
{
    struct app app = open_app("vip0"), other = open_app("vip0");

    (void)state;
    send_open(app.sock, VIP_SHM_ABI, "vip0",
              make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC), make_arena());
    assert_ended(&app);
    assert_alive(&other);
    close_app(&other);
}

/* ---- hostile messages -------------------------------------------------------------------- */

static void test_wrong_descriptor_counts(void **state)
{
    Vip__OpenRequest open_request = VIP__OPEN_REQUEST__INIT;
    Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct app other = open_app("vip0");
    int null = open("/dev/null", O_RDONLY), fds[4] = {null, null, null, null};

    (void)state;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open_request;
    for (unsigned count = 0; count <= 4; count++) {
        int sock;

        if (count == 2)
            continue;
        sock = connect_daemon();
        assert_int_equal(vip_control_send(sock, &request.base, fds, count, 0), 0);
        assert_closed(sock);
    }
    request.body_case = VIP__REQUEST__BODY_CREATE_PTAG;
    request.create_ptag = &ptag;
    for (unsigned count = 1; count <= 4; count++) {
        struct app app = open_app("vip0");

        assert_int_equal(vip_control_send(app.sock, &request.base, fds, count, 0), 0);
        assert_ended(&app);
    }
    close(null);
    assert_alive(&other);
    close_app(&other);
}

static void test_register_descriptor_counts(void **state)
{
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fd = make_memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW);

    (void)state;
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    mem.has_address = mem.has_bytes = mem.has_kind = true;
    mem.address = 0x10000;
    mem.bytes = 4096;
    for (int kind = VIP__MEM_KIND__MEM_SHARED; kind <= VIP__MEM_KIND__MEM_STAGED; kind++) {
        struct app app = open_app("vip0");
        unsigned wrong = kind == VIP__MEM_KIND__MEM_ADOPTED ? 1 : 0;

        mem.kind = kind;
        assert_int_equal(vip_control_send(app.sock, &request.base, &fd, wrong, 0), 0);
        assert_ended(&app);
    }
    close(fd);
}

static void test_garbage(void **state)
{
    struct app other = open_app("vip0");
    char garbage[512];
    int sock;

    (void)state;
    for (unsigned seed = 1; seed < 64; seed++) {
        for (unsigned i = 0; i < sizeof(garbage); i++)
            garbage[i] = (char)((seed * 2654435761u + i * 40503u) >> 7);
        garbage[0] = (char)0xff; /* no field has this tag */
        sock = connect_daemon();
        assert_int_equal(send(sock, garbage, sizeof(garbage) - seed, 0), sizeof(garbage) - seed);
        assert_closed(sock);
    }
    assert_alive(&other);
    close_app(&other);
}

static void test_oversize(void **state)
{
    struct app app = open_app("vip0"), other = open_app("vip0");
    char *large = calloc(1, VIP_CONTROL_BYTES_MAX + 1);

    (void)state;
    assert_int_equal(send(app.sock, large, VIP_CONTROL_BYTES_MAX + 1, 0),
                     VIP_CONTROL_BYTES_MAX + 1);
    assert_ended(&app);
    assert_alive(&other);
    close_app(&other);
    free(large);
}

static void test_unknown_request(void **state)
{
    static const uint8_t unknown[] = {0xc2, 0x3e, 0x00}; /* field 1000, empty message */
    int sock = connect_daemon();
    struct vip_fds fds;
    Vip__Reply *reply;

    (void)state;
    assert_int_equal(send(sock, unknown, sizeof(unknown), 0), sizeof(unknown));
    reply = receive(sock, &fds);
    assert_int_equal(reply->code, VIP_RC_ERROR_NOT_SUPPORTED);
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
}

static void test_without_session(void **state)
{
    Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
    Vip__ResolveRequest resolve = VIP__RESOLVE_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();

    (void)state;
    request.body_case = VIP__REQUEST__BODY_CREATE_PTAG;
    request.create_ptag = &ptag;
    ask_code(sock, &request, VIP_RC_INVALID_STATE, "no NIC is open");
    resolve.name = (char *)"nobody";
    request.body_case = VIP__REQUEST__BODY_RESOLVE;
    request.resolve = &resolve;
    ask_code(sock, &request, VIP_RC_ERROR_NAMESERVICE, NULL);
    close(sock);
}

/* One that asks and never reads fills its own socket and is ended; others are served meanwhile. */
static void test_replies_unread(void **state)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct app other = open_app("vip0");
    int sock = connect_daemon(), r = 0;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__STATS;
    for (int i = 0; i < 100000 && r == 0; i++)
        r = vip_control_send(sock, &request.base, NULL, 0, 0);
    assert_int_equal(r, -EPIPE);
    close(sock);
    assert_alive(&other);
    close_app(&other);
}

static void test_event_socket(void **state)
{
    Vip__PlaceDone done = VIP__PLACE_DONE__INIT;
    struct app app = open_app("vip0");

    (void)state;
    done.has_number = true;
    done.number = 5; /* nothing was asked to be placed */
    assert_int_equal(vip_control_send(app.events, &done.base, NULL, 0, 0), 0);
    assert_ended(&app);

    app = open_app("vip0");
    assert_int_equal(send(app.events, "\xff\xff", 2, 0), 2);
    assert_ended(&app);

    app = open_app("vip0");
    assert_int_equal(vip_control_send(app.events, &done.base, &app.doorbell, 1, 0), 0);
    assert_ended(&app);
}

/*
 * The doorbell's file is shared. Neither emptying it with O_NONBLOCK switched off, nor ringing it
 * when the session is gone, may stop vipd.
 */
static void test_doorbell(void **state)
{
    struct app app = open_app("vip0"), other = open_app("vip0");
    uint64_t one = 1;
    int kept;

    (void)state;
    assert_int_equal(fcntl(app.doorbell, F_SETFL, 0), 0);
    for (int i = 0; i < 200; i++) {
        uint64_t value;

        assert_int_equal(write(app.doorbell, &one, sizeof(one)), sizeof(one));
        assert_int_equal(fcntl(app.doorbell, F_SETFL, O_NONBLOCK), 0);
        if (read(app.doorbell, &value, sizeof(value)) < 0)
            assert_int_equal(errno, EAGAIN);
        assert_int_equal(fcntl(app.doorbell, F_SETFL, 0), 0);
    }
    assert_alive(&app);
    kept = dup(app.doorbell);
    close_app(&app);
    assert_int_equal(write(kept, &one, sizeof(one)), sizeof(one));
    assert_alive(&other);
    close_app(&other);
    close(kept);
}

/* A continuation without a descriptor before it: no library writes that. */
static void test_broken_ring(void **state)
{
    int fd = make_app_segment(VIP_APP_BYTES, 0, VIP_SHM_APP_MAGIC);
    void *base = mmap(NULL, VIP_APP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct app other = open_app("vip0"), app;
    struct vip_sq_slot slot = {.kind = VIP_SQ_CONT};
    uint64_t one = 1;

    (void)state;
    assert_ptr_not_equal(base, MAP_FAILED);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, APP_SEALS), 0);
    app = open_app_with("vip0", fd);
    vip_sq_write(vip_app_sq(base), 0, &slot);
    assert_int_equal(write(app.doorbell, &one, sizeof(one)), sizeof(one));
    assert_ended(&app);
    munmap(base, VIP_APP_BYTES);
    assert_alive(&other);
    close_app(&other);
}

/* A program that is killed while its child keeps the socket open: the pidfd tells. */
static void test_death_with_inherited_socket(void **state)
{
    struct app other = open_app("vip0");
    int ready[2], hold[2], status;
    pid_t owner;
    char byte;
    ProtobufCMessage *message;
    struct vip_fds fds;
    int sock;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, hold), 0);
    owner = fork();
    if (owner == 0) {
        struct app app = open_app("vip0");

        if (fork() == 0) { /* hands its socket to the test and keeps it until told */
            Vip__PlaceDone done = VIP__PLACE_DONE__INIT;

            done.has_number = true;
            vip_control_send(hold[1], &done.base, &app.sock, 1, 0);
            _exit(0);
        }
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(vip_control_recv(hold[0], &vip__place_done__descriptor, 0, &message, &fds), 0);
    protobuf_c_message_free_unpacked(message, NULL);
    assert_int_equal(fds.count, 1);
    sock = fds.fd[0];
    assert_int_equal(kill(owner, SIGKILL), 0);
    assert_int_equal(waitpid(owner, &status, 0), owner);
    assert_closed(sock);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(hold[i]);
    }
    assert_alive(&other);
    close_app(&other);
}

/* ---- requests ---------------------------------------------------------------------------- */

static Vip__Request vi_request(Vip__CreateViRequest *create, Vip__ViAttributes *attributes)
{
    Vip__Request request = VIP__REQUEST__INIT;

    vip__create_vi_request__init(create);
    vip__vi_attributes__init(attributes);
    attributes->has_reliability_level = true;
    attributes->reliability_level = VIP_LVL_DELIVERY;
    attributes->has_max_transfer_size = true;
    attributes->max_transfer_size = 65536;
    create->attributes = attributes;
    request.body_case = VIP__REQUEST__BODY_CREATE_VI;
    request.create_vi = create;
    return request;
}

static void test_vi_attributes(void **state)
{
    struct app app = open_app("vip0");
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request request = vi_request(&create, &attributes);

    (void)state;
    ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    attributes.reliability_level = 0;
    ask_code(app.sock, &request, VIP_RC_INVALID_RELIABILITY_LEVEL, "0x0");
    attributes.reliability_level = VIP_LVL_DELIVERY | VIP_LVL_RECEPTION;
    ask_code(app.sock, &request, VIP_RC_INVALID_RELIABILITY_LEVEL, "0x6");
    attributes.reliability_level = VIP_LVL_UNRELIABLE;
    attributes.max_transfer_size = 0;
    ask_code(app.sock, &request, VIP_RC_INVALID_MTU, "MaxTransferSize 0");
    attributes.max_transfer_size = VIP_TRANSFER_BYTES_MAX + 1ull;
    ask_code(app.sock, &request, VIP_RC_INVALID_MTU, NULL);
    attributes.max_transfer_size = VIP_TRANSFER_BYTES_MAX;
    attributes.has_ptag = true;
    attributes.ptag = 77;
    ask_code(app.sock, &request, VIP_RC_INVALID_PTAG, NULL);
    attributes.ptag = 0;
    create.has_send_cq = true;
    create.send_cq = 0x80000000u;
    ask_code(app.sock, &request, VIP_RC_INVALID_PARAMETER, "completion queue");
    create.send_cq = 3;
    ask_code(app.sock, &request, VIP_RC_INVALID_PARAMETER, NULL);
    create.attributes = NULL;
    ask_code(app.sock, &request, VIP_RC_INVALID_RELIABILITY_LEVEL, NULL);
    close_app(&app);
}

static void test_memory_quota(void **state)
{
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__MemRequest other = VIP__MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct app app = open_app("vip0");

    (void)state;
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    mem.has_address = mem.has_bytes = mem.has_kind = mem.has_offset = true;
    mem.kind = VIP__MEM_KIND__MEM_ADOPTED;
    mem.address = 0x7000000;
    mem.bytes = 1 << 20;
    other.has_handle = other.has_address = true;
    other.handle = ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    other.address = 0x7000000;
    mem.bytes = 1;
    ask_code(app.sock, &request, VIP_RC_ERROR_RESOURCE, "register_bytes");
    mem.bytes = UINT64_MAX;
    ask_code(app.sock, &request, VIP_RC_ERROR_RESOURCE, "register_bytes");

    request.body_case = VIP__REQUEST__BODY_DEREGISTER_MEM;
    request.deregister_mem = &other;
    other.address++;
    ask_code(app.sock, &request, VIP_RC_INVALID_PARAMETER, "handle");
    other.address--;
    ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    close_app(&app);
}

static void test_connect_addresses(void **state)
{
    Vip__ConnectWaitRequest wait = VIP__CONNECT_WAIT_REQUEST__INIT;
    Vip__NetAddress address = VIP__NET_ADDRESS__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct app app = open_app("vip0");
    uint8_t bytes[VIP_DISCRIMINATOR_BYTES_MAX + 1] = {1};
    Vip__Reply *reply;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT;
    request.connect_wait = &wait;
    wait.local = &address;
    address.has_discriminator = true;
    address.discriminator.data = bytes;
    address.discriminator.len = sizeof(bytes);
    ask_code(app.sock, &request, VIP_RC_INVALID_PARAMETER, "discriminator of 129");
    address.discriminator.len--;
    address.has_host = true;
    address.host.data = bytes;
    address.host.len = VIP_HOST_ADDR_BYTES_MAX + 1;
    ask_code(app.sock, &request, VIP_RC_INVALID_PARAMETER, "address of 25");
    address.has_host = false;
    wait.has_immediate = true;
    wait.immediate = true;
    reply = ask(app.sock, &request, NULL, 0);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    assert_non_null(reply->connect_wait);
    assert_false(reply->connect_wait->found);
    vip__reply__free_unpacked(reply, NULL);
    close_app(&app);
}

/*
 * Connection attempts that nobody answers each end in an event; a program that reads none of them is
 * ended when the socket and the queue behind it are full.
 */
static void test_events_unread(void **state)
{
    struct app app = open_app("vip0"), other = open_app("vip0");
    Vip__ConnectRequest connect_request = VIP__CONNECT_REQUEST__INIT;
    Vip__NetAddress remote = VIP__NET_ADDRESS__INIT;
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request create_vi = vi_request(&create, &attributes), request = VIP__REQUEST__INIT;
    ProtobufCMessage *message;
    struct vip_fds fds;
    int r = 0;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        ask_code(app.sock, &create_vi, VIP_RC_SUCCESS, NULL);
    request.body_case = VIP__REQUEST__BODY_CONNECT;
    request.connect = &connect_request;
    connect_request.has_vi = connect_request.has_timeout_ms = true;
    connect_request.timeout_ms = 50; /* by then each has its NO_MATCH, or this as its result */
    connect_request.remote = &remote;
    remote.has_host = remote.has_discriminator = true;
    remote.host.data = app.address;
    remote.host.len = sizeof(app.address);
    remote.discriminator.data = (uint8_t *)"nobody";
    remote.discriminator.len = 6;
    for (unsigned i = 0; i < 1000 && r == 0; i++) {
        connect_request.vi = i;
        r = vip_control_send(app.sock, &request.base, NULL, 0, 0);
        if (r == 0)
            r = vip_control_recv(app.sock, &vip__reply__descriptor, 0, &message, &fds);
        if (r == 0)
            protobuf_c_message_free_unpacked(message, NULL);
    }
    assert_true(r == 0 || r == -EPIPE);
    assert_ended(&app);
    assert_alive(&other);
    close_app(&other);
}

/* ---- views ------------------------------------------------------------------------------- */

/* All pages of a view; returns the rows and, in *ret_pages, how many pages they took. */
static size_t count_rows(int sock, Vip__ShowRequest__What what, unsigned *ret_pages)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    uint64_t last_vi = UINT64_MAX;
    size_t rows = 0;
    bool more = true;

    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    show.has_what = show.has_cursor = true;
    show.what = what;
    *ret_pages = 0;
    while (more) {
        Vip__Reply *reply = ask(sock, &request, NULL, 0);

        assert_int_equal(reply->code, VIP_RC_SUCCESS);
        assert_non_null(reply->show);
        assert_true(vip__reply__get_packed_size(reply) <= VIP_CONTROL_BYTES_MAX);
        rows += reply->show->n_nics + reply->show->n_vis + reply->show->n_mems +
                reply->show->n_clients + reply->show->n_counters;
        for (size_t i = 0; i < reply->show->n_vis; i++) {
            assert_int_equal(reply->show->vis[i]->vi, last_vi + 1);
            last_vi = reply->show->vis[i]->vi;
            assert_string_equal(reply->show->vis[i]->program, "test??[1m");
            assert_int_equal(reply->show->vis[i]->pid, getpid());
            assert_int_equal(reply->show->vis[i]->uid, getuid());
        }
        more = reply->show->has_next_cursor;
        show.cursor = reply->show->next_cursor;
        (*ret_pages)++;
        vip__reply__free_unpacked(reply, NULL);
    }
    return rows;
}

static void test_show(void **state)
{
    struct app app = open_app("vip0");
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request request = vi_request(&create, &attributes);
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    int sock = connect_daemon();
    unsigned pages;

    (void)state;
    for (int i = 0; i < 1500; i++)
        ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    mem.has_address = mem.has_bytes = mem.has_kind = mem.has_offset = true;
    mem.kind = VIP__MEM_KIND__MEM_ADOPTED;
    mem.bytes = 64;
    for (uint64_t i = 0; i < 2000; i++) {
        mem.address = 0x7000000 + i * 64;
        mem.offset = i * 64;
        ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    }
    assert_int_equal(count_rows(sock, VIP__SHOW_REQUEST__WHAT__NIC, &pages), 1);
    assert_int_equal(count_rows(sock, VIP__SHOW_REQUEST__WHAT__CLIENT, &pages), 1);
    assert_int_equal(count_rows(sock, VIP__SHOW_REQUEST__WHAT__VI, &pages), 1500);
    assert_true(pages > 1);
    assert_int_equal(count_rows(sock, VIP__SHOW_REQUEST__WHAT__MEM, &pages), 2000);
    assert_true(pages > 1);
    assert_true(count_rows(sock, VIP__SHOW_REQUEST__WHAT__STATS, &pages) > 60);
    close_app(&app);
    assert_int_equal(count_rows(sock, VIP__SHOW_REQUEST__WHAT__VI, &pages), 0);
    assert_int_equal(pages, 1);
    close(sock);
}

static void test_show_summary(void **state)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();
    Vip__Reply *reply;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    ask_code(sock, &request, VIP_RC_INVALID_PARAMETER, "no such view");
    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__SUMMARY;
    reply = ask(sock, &request, NULL, 0);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    assert_non_null(reply->show->summary);
    assert_int_equal(reply->show->summary->pid, daemon_pid);
    assert_string_equal(reply->show->summary->runtime_dir, dir);
    assert_true(reply->show->summary->epoch != 0);
    vip__reply__free_unpacked(reply, NULL);
    /* A cursor from nowhere is an empty page, not an accident. */
    show.what = VIP__SHOW_REQUEST__WHAT__VI;
    show.has_cursor = true;
    for (int bit = 0; bit < 64; bit++) {
        show.cursor = ~0ull << bit;
        ask_code(sock, &request, VIP_RC_SUCCESS, NULL);
    }
    close(sock);
}

/* Every way to be ended that the tests above used has been counted under its name. */
static void test_ends_are_counted(void **state)
{
    static const char *const names[] = {
        "ended_closed",
        "ended_died",
        "ended_malformed_message",
        "ended_second_open",
        "ended_wrong_descriptors",
        "ended_replies_unread",
        "ended_events_unread",
        "ended_broken_ring",
        "ended_false_place_done",
        "open_refused",
        "events_delayed",
    };
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();
    unsigned found = 0;
    Vip__Reply *reply;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__STATS;
    reply = ask(sock, &request, NULL, 0);
    for (size_t i = 0; i < reply->show->n_counters; i++) {
        const Vip__Counter *counter = reply->show->counters[i];

        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            if (strcmp(counter->scope, "vipd") != 0 || strcmp(counter->name, names[k]) != 0)
                continue;
            if (counter->value == 0)
                fail_msg("%s is 0", counter->name);
            found++;
        }
        /* Nothing of this was vipd's own fault. */
        if (strcmp(counter->name, "ended_no_resources") == 0)
            assert_int_equal(counter->value, 0);
    }
    assert_int_equal(found, sizeof(names) / sizeof(names[0]));
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_open_wrong_segments),
        cmocka_unit_test(test_open_wrong_words),
        cmocka_unit_test(test_sessions_per_uid),
        cmocka_unit_test(test_second_open),
        cmocka_unit_test(test_wrong_descriptor_counts),
        cmocka_unit_test(test_register_descriptor_counts),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_unknown_request),
        cmocka_unit_test(test_without_session),
        cmocka_unit_test(test_replies_unread),
        cmocka_unit_test(test_event_socket),
        cmocka_unit_test(test_doorbell),
        cmocka_unit_test(test_death_with_inherited_socket),
        cmocka_unit_test(test_broken_ring),
        cmocka_unit_test(test_events_unread),
        cmocka_unit_test(test_vi_attributes),
        cmocka_unit_test(test_memory_quota),
        cmocka_unit_test(test_connect_addresses),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_show_summary),
        cmocka_unit_test(test_ends_are_counted),
    };

    return cmocka_run_group_tests_name("vipd_control", tests, start_daemon, stop_daemon);
}
