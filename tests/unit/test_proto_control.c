/*
 * Control messages over a socket pair: round trip, file descriptors in messages, hostile packets.
 */
#include "proto/control.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/control.pb-c.h"

struct pair {
    int a, b;
};

static int setup(void **state)
{
    static struct pair pair;
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
        return -1;
    pair = (struct pair){fds[0], fds[1]};
    *state = &pair;
    return 0;
}

static int teardown(void **state)
{
    struct pair *pair = *state;

    close(pair->a);
    if (pair->b >= 0)
        close(pair->b);
    return 0;
}

static unsigned open_fds(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            count++;
    return count;
}

static int send_open(int sock, const char *device, const int *fds, unsigned fd_count)
{
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    open.has_abi = 1;
    open.abi = 7;
    open.device = (char *)(uintptr_t)device;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    return vip_control_send(sock, &request.base, fds, fd_count, MSG_DONTWAIT);
}

static int recv_request(int sock, Vip__Request **ret, struct vip_fds *fds)
{
    ProtobufCMessage *message;
    int rc = vip_control_recv(sock, &vip__request__descriptor, MSG_DONTWAIT, &message, fds);

    *ret = (Vip__Request *)(void *)message;
    return rc;
}

static void test_round_trip(void **state)
{
    struct pair *pair = *state;
    Vip__Request *request;
    struct vip_fds fds;

    assert_int_equal(send_open(pair->a, "vip0", NULL, 0), 0);
    assert_int_equal(recv_request(pair->b, &request, &fds), 0);
    assert_int_equal(request->body_case, VIP__REQUEST__BODY_OPEN);
    assert_int_equal(request->open->abi, 7);
    assert_string_equal(request->open->device, "vip0");
    assert_int_equal(fds.count, 0);
    vip__request__free_unpacked(request, NULL);
    assert_int_equal(recv_request(pair->b, &request, &fds), -EAGAIN);
    assert_null(request);
}

static void test_descriptors_arrive_close_on_exec(void **state)
{
    struct pair *pair = *state;
    unsigned before = open_fds();
    Vip__Request *request;
    struct vip_fds fds;
    int mine[4], taken;
    char byte = 0;

    for (int i = 0; i < 4; i++)
        mine[i] = memfd_create("test", 0);
    assert_int_equal(pwrite(mine[2], "x", 1, 0), 1);
    assert_int_equal(send_open(pair->a, "vip0", mine, 4), 0);
    for (int i = 0; i < 4; i++)
        close(mine[i]);
    assert_int_equal(recv_request(pair->b, &request, &fds), 0);
    vip__request__free_unpacked(request, NULL);
    assert_int_equal(fds.count, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(fcntl(fds.fd[i], F_GETFD), FD_CLOEXEC);
    taken = fds.fd[2];
    fds.fd[2] = -1;
    vip_fds_close(&fds);
    vip_fds_close(&fds);
    assert_int_equal(pread(taken, &byte, 1, 0), 1);
    assert_int_equal(byte, 'x');
    close(taken);
    assert_int_equal(open_fds(), before);
}

/* Send raw bytes with descriptors, as an attacker can. */
static void send_raw(int sock, const void *bytes, size_t len, unsigned fd_count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 253)];
    } ancillary;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd_count > 0) {
        struct cmsghdr *cmsg;

        memset(&ancillary, 0, sizeof(ancillary));
        msg.msg_control = ancillary.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        for (unsigned i = 0; i < fd_count; i++)
            memcpy(CMSG_DATA(cmsg) + i * sizeof(int), &sock, sizeof(int));
    }
    assert_int_equal(sendmsg(sock, &msg, 0), len);
}

static void test_bad_packets_close_their_descriptors(void **state)
{
    struct pair *pair = *state;
    unsigned before = open_fds();
    static uint8_t big[VIP_CONTROL_BYTES_MAX + 1];
    /* The first field of this message claims to be longer than the message. */
    static const uint8_t malformed[] = {0x0a, 0x7f, 0x01};
    static const uint8_t good[] = {0x0a, 0x02, 0x08, 0x01};
    Vip__Request *request;
    struct vip_fds fds;

    send_raw(pair->a, malformed, sizeof(malformed), 3);
    assert_int_equal(recv_request(pair->b, &request, &fds), -EBADMSG);
    assert_int_equal(open_fds(), before);

    send_raw(pair->a, good, sizeof(good), 5);
    assert_int_equal(recv_request(pair->b, &request, &fds), -EBADMSG);
    assert_int_equal(open_fds(), before);

    send_raw(pair->a, good, sizeof(good), 253);
    assert_int_equal(recv_request(pair->b, &request, &fds), -EBADMSG);
    assert_int_equal(open_fds(), before);

    send_raw(pair->a, big, sizeof(big), 1);
    assert_int_equal(recv_request(pair->b, &request, &fds), -EBADMSG);
    assert_null(request);
    assert_int_equal(fds.count, 0);
    assert_int_equal(open_fds(), before);

    send_raw(pair->a, good, sizeof(good), 4);
    assert_int_equal(recv_request(pair->b, &request, &fds), 0);
    vip_fds_close(&fds);
    vip__request__free_unpacked(request, NULL);
    assert_int_equal(open_fds(), before);
}

static void test_every_prefix_of_a_message_is_survived(void **state)
{
    struct pair *pair = *state;
    uint8_t bytes[256];
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT, *got;
    struct vip_fds fds;
    char device[] = "vip0", program[] = "test";
    size_t len;

    open.device = device;
    open.program = program;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    len = vip__request__pack(&request, bytes);
    for (size_t n = 1; n < len; n++) {
        send_raw(pair->a, bytes, n, 1);
        assert_int_equal(recv_request(pair->b, &got, &fds), -EBADMSG);
        assert_null(got);
    }
}

static void test_oversized_and_empty_are_not_sent(void **state)
{
    struct pair *pair = *state;
    Vip__Request empty = VIP__REQUEST__INIT;
    char *device = malloc(VIP_CONTROL_BYTES_MAX + 1);
    int fds[5] = {0, 0, 0, 0, 0};

    memset(device, 'a', VIP_CONTROL_BYTES_MAX);
    device[VIP_CONTROL_BYTES_MAX] = 0;
    assert_int_equal(send_open(pair->a, device, NULL, 0), -EMSGSIZE);
    free(device);
    assert_int_equal(vip_control_send(pair->a, &empty.base, NULL, 0, 0), -EINVAL);
    assert_int_equal(send_open(pair->a, "x", fds, 5), -EINVAL);
}

static void test_closed_and_full(void **state)
{
    struct pair *pair = *state;
    Vip__Request *request;
    struct vip_fds fds;
    int rc = 0;

    for (unsigned i = 0; i < 100000 && rc == 0; i++)
        rc = send_open(pair->a, "vip0", NULL, 0);
    assert_int_equal(rc, -EAGAIN);
    close(pair->b);
    pair->b = -1;
    assert_int_equal(send_open(pair->a, "vip0", NULL, 0), -EPIPE);
    assert_int_equal(recv_request(pair->a, &request, &fds), -EPIPE);
}

/* vipd refuses a connection: it sends the reason and closes, before (late: after) the client sends
 * its request. The client gets the reason. */
static void test_ask_hears_who_hangs_up(void **state)
{
    for (unsigned late = 0; late < 2; late++) {
        struct pair pair;
        Vip__Reply reply = VIP__REPLY__INIT;
        Vip__Request request = VIP__REQUEST__INIT;
        Vip__CloseRequest close_request = VIP__CLOSE_REQUEST__INIT;
        ProtobufCMessage *message;
        struct vip_fds fds;
        int both[2];

        (void)state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both), 0);
        pair = (struct pair){both[0], both[1]};
        request.body_case = VIP__REQUEST__BODY_CLOSE;
        request.close = &close_request;
        reply.reason = (char *)"too many";
        if (late)
            assert_int_equal(vip_control_send(pair.a, &request.base, NULL, 0, 0), 0);
        assert_int_equal(vip_control_send(pair.b, &reply.base, NULL, 0, 0), 0);
        close(pair.b);
        assert_int_equal(vip_control_ask(pair.a, &request.base, NULL, 0, &vip__reply__descriptor,
                                         &message, &fds),
                         0);
        assert_string_equal(((const Vip__Reply *)message)->reason, "too many");
        protobuf_c_message_free_unpacked(message, NULL);
        assert_int_equal(vip_control_ask(pair.a, &request.base, NULL, 0, &vip__reply__descriptor,
                                         &message, &fds),
                         -EPIPE);
        assert_null(message);
        close(pair.a);
    }
}

static void test_socket_path(void **state)
{
    char path[256], longdir[300];

    setenv("VIPD_RUNTIME_DIR", "/tmp/x", 1);
    assert_int_equal(vip_control_socket_path(path, sizeof(path)), 0);
    assert_string_equal(path, "/tmp/x/vipd.sock");
    assert_int_equal(vip_control_socket_path(path, 16), -ENAMETOOLONG);
    memset(longdir, 'a', sizeof(longdir));
    longdir[0] = '/';
    longdir[100] = 0;
    setenv("VIPD_RUNTIME_DIR", longdir, 1);
    assert_int_equal(vip_control_socket_path(path, sizeof(path)), -ENAMETOOLONG);
    unsetenv("VIPD_RUNTIME_DIR");
    unsetenv("XDG_RUNTIME_DIR");
    assert_int_equal(vip_control_socket_path(path, sizeof(path)), 0);
    assert_string_equal(path, "/run/vipd/vipd.sock");
}

static void test_connect(void **state)
{
    char dir[] = "/tmp/vip-test-control-XXXXXX", path[128];
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int listener, sock;

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/s", dir);
    assert_int_equal(vip_control_connect(path), -ENOENT);
    assert_int_equal(vip_control_connect(""), -ENOENT);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    memcpy(addr.sun_path, path, strlen(path) + 1);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(listener, 1), 0);
    sock = vip_control_connect(path);
    assert_true(sock >= 0);
    assert_int_equal(fcntl(sock, F_GETFD), FD_CLOEXEC);
    close(sock);
    close(listener);
    assert_int_equal(vip_control_connect(path), -ECONNREFUSED);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_descriptors_arrive_close_on_exec, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_packets_close_their_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_prefix_of_a_message_is_survived, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_oversized_and_empty_are_not_sent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closed_and_full, setup, teardown),
        cmocka_unit_test(test_ask_hears_who_hangs_up),
        cmocka_unit_test(test_socket_path),
        cmocka_unit_test(test_connect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
