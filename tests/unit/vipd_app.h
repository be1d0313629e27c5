/*
 * A program's session with the daemon of vipd_daemon.h, opened by hand.
 */
#ifndef TESTS_UNIT_VIPD_APP_H
#define TESTS_UNIT_VIPD_APP_H

#include "proto/shm3.h"
#include "unit/vipd_daemon.h"

/* ---- a session --------------------------------------------------------------------------- */

/* The state of an application after its OpenRequest. */
struct app {
    int sock, events, doorbell, segment;
    uint8_t address[6]; /* address of the NIC */
};

static inline int make_memfd(uint64_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static inline int make_app_segment_of(uint32_t abi, uint64_t bytes, int seals, uint32_t magic)
{
    int fd = make_memfd(bytes, 0);
    struct vip_app_head head = {.magic = magic, .abi = abi, .bytes = bytes};

    assert_int_equal(pwrite(fd, &head, sizeof(head), 0), sizeof(head));
    if (seals != 0)
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static inline int make_app_segment(uint64_t bytes, int seals, uint32_t magic)
{
    return make_app_segment_of(VIP_SHM_ABI, bytes, seals, magic);
}

static inline int make_arena(void)
{
    return make_memfd(VIP_ARENA_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
}

static inline void send_open(int sock, uint32_t abi, const char *device, int app_fd, int arena_fd)
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

static inline void try_open(uint32_t abi, const char *device, int app_fd, int arena_fd,
                            enum vip_rc code, const char *word)
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

static inline struct app open_app_of(uint32_t abi, const char *device, int app_fd)
{
    struct app app = {.sock = connect_daemon()};
    struct vip_fds fds;
    Vip__Reply *reply;

    send_open(app.sock, abi, device, app_fd, make_arena());
    reply = receive(app.sock, &fds);
    if (reply->code != VIP_RC_SUCCESS)
        fail_msg("open: %s", reply->reason);
    assert_int_equal(fds.count, 3);
    assert_non_null(reply->open);
    assert_int_equal(reply->open->abi, abi);
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

static inline struct app open_app_with(const char *device, int app_fd)
{
    return open_app_of(VIP_SHM_ABI, device, app_fd);
}

static inline struct app open_app(const char *device)
{
    return open_app_with(device, make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC));
}

static inline void close_app(struct app *app)
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

/* Check that vipd has ended the session of this application. */
static inline void assert_ended(struct app *app)
{
    assert_closed(app->sock);
    close(app->events);
    close(app->doorbell);
    close(app->segment);
}

/* Check that the session still answers: create and destroy a protection tag. */
static inline void assert_alive(const struct app *app)
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

static inline Vip__Request vi_request(Vip__CreateViRequest *create, Vip__ViAttributes *attributes)
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

#endif
