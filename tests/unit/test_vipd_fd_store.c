/* Descriptors that the service manager passes: vipd takes those that it can use, and goes on. */
#include "vipd/fd_store.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cmocka.h>

/* A number above those of all passed descriptors. */
#define HIGH 100

/* Pass fd as descriptor number `at`, where sd_listen_fds_with_names finds it. */
static void pass(int at, int fd)
{
    assert_true(fd >= 0);
    if (fd == SD_LISTEN_FDS_START + at)
        return;
    assert_true(dup2(fd, SD_LISTEN_FDS_START + at) >= 0);
    close(fd);
}

static int listener(void)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX}; /* the kernel chooses the name */
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void environment(const char *count, const char *names)
{
    char pid[16];

    snprintf(pid, sizeof(pid), "%ld", (long)getpid());
    assert_int_equal(setenv("LISTEN_PID", pid, 1), 0);
    assert_int_equal(setenv("LISTEN_FDS", count, 1), 0);
    assert_int_equal(setenv("LISTEN_FDNAMES", names, 1), 0);
}

static void test_all_are_taken(void **state)
{
    struct fd_store fd_store;
    char err[256];

    (void)state;
    pass(0, listener());
    pass(1, socket(AF_INET, SOCK_DGRAM, 0));
    environment("2", "vipd.socket:nic-vip0");
    assert_int_equal(fd_store_inherit(&fd_store, err, sizeof(err)), 0);
    assert_int_equal(fd_store.listener, SD_LISTEN_FDS_START);
    assert_int_equal(fd_store_of(&fd_store, "vip0", 0)->fd, SD_LISTEN_FDS_START + 1);
    close(fd_store.listener);
    fd_store_forget_rest(&fd_store);
    assert_int_equal(fcntl(SD_LISTEN_FDS_START + 1, F_GETFD), -1);
}

static void test_a_socket_of_each_path(void **state)
{
    struct fd_store fd_store;
    char err[256], name[FD_STORE_NAME_BYTES];

    (void)state;
    pass(0, listener());
    pass(1, socket(AF_INET, SOCK_DGRAM, 0));
    pass(2, socket(AF_INET, SOCK_DGRAM, 0));
    environment("3", "vipd.socket:nic-vip0:nic-vip0+2");
    assert_int_equal(fd_store_inherit(&fd_store, err, sizeof(err)), 0);
    assert_int_equal(fd_store_of(&fd_store, "vip0", 0)->fd, SD_LISTEN_FDS_START + 1);
    assert_int_equal(fd_store_of(&fd_store, "vip0", 1)->fd, SD_LISTEN_FDS_START + 2);
    fd_store_name(fd_store_of(&fd_store, "vip0", 1), name);
    assert_string_equal(name, "nic-vip0+2");
    assert_true(fd_store_is_of(&fd_store.sock[1], "vip0", 2));
    assert_false(fd_store_is_of(&fd_store.sock[1], "vip0", 1));
    assert_false(fd_store_is_of(&fd_store.sock[0], "vip", 2));
    close(fd_store.listener);
    fd_store_forget_rest(&fd_store);
}

/* ---- what vipd cannot use ---------------------------------------------------------------- */

/* The service manager's socket for messages. */
static int manager(void)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX}, name;
    socklen_t len = sizeof(name);
    char text[64];
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    snprintf(text, sizeof(text), "@%.*s", (int)(len - offsetof(struct sockaddr_un, sun_path) - 1),
             name.sun_path + 1);
    assert_int_equal(setenv("NOTIFY_SOCKET", text, 1), 0);
    assert_int_equal(dup2(fd, HIGH), HIGH); /* this number is not one of the passed descriptors */
    close(fd);
    return HIGH;
}

/* Check that the next message to the service manager is `wanted`; "": there is none. */
static void hears(int manager, const char *wanted)
{
    char text[256];
    ssize_t bytes = recv(manager, text, sizeof(text) - 1, 0);

    text[bytes > 0 ? bytes : 0] = '\0';
    assert_string_equal(text, wanted);
}

static void end(struct fd_store *fd_store, int manager)
{
    unsetenv("NOTIFY_SOCKET");
    close(manager);
    if (fd_store->listener >= 0)
        close(fd_store->listener);
    fd_store_forget_rest(fd_store);
}

static bool is_open(int at)
{
    return fcntl(SD_LISTEN_FDS_START + at, F_GETFD) >= 0;
}

/* vipd closes each wrong descriptor, and the service manager forgets it. vipd keeps the others. */
static void test_wrong_ones_are_let_go(void **state)
{
    struct fd_store fd_store;
    char err[256];
    int from;

    (void)state;
    pass(0, listener());
    pass(1, socket(AF_INET, SOCK_DGRAM, 0));
    pass(2, open("/dev/null", O_RDONLY));
    pass(3, socket(AF_INET, SOCK_STREAM, 0));
    /* 4 is closed */
    pass(5, socket(AF_UNIX, SOCK_DGRAM, 0));
    pass(6, listener());
    pass(7, socket(AF_INET, SOCK_DGRAM, 0));
    pass(8, socket(AF_INET, SOCK_DGRAM, 0));
    from = manager();
    environment("9", "vipd.socket:nic-vip0:strange:nic-vip1:nic-vip2:nic-vip3:nic-vip4:"
                     "nic-a-name-longer-than-that-of-any-nic-of-vipd-can-ever-be-0123456789-"
                     "0123456789:nic-vip5");
    assert_int_equal(fd_store_inherit(&fd_store, err, sizeof(err)), 0);
    assert_int_equal(fd_store.listener, SD_LISTEN_FDS_START);
    assert_int_equal(fd_store_of(&fd_store, "vip0", 0)->fd, SD_LISTEN_FDS_START + 1);
    assert_int_equal(fd_store_of(&fd_store, "vip5", 0)->fd, SD_LISTEN_FDS_START + 8);
    assert_int_equal(fd_store.count, 2);
    for (int i = 0; i < 9; i++)
        assert_int_equal(is_open(i), i < 2 || i == 8);
    hears(from, "FDSTOREREMOVE=1\nFDNAME=strange");
    hears(from, "FDSTOREREMOVE=1\nFDNAME=nic-vip1");
    hears(from, "FDSTOREREMOVE=1\nFDNAME=nic-vip2");
    hears(from, "FDSTOREREMOVE=1\nFDNAME=nic-vip3");
    hears(from, "FDSTOREREMOVE=1\nFDNAME=nic-vip4");
    hears(from, "FDSTOREREMOVE=1\nFDNAME=nic-a-name-longer-than-that-of-any-nic-of-vipd-can-ever-"
                "be-0123456789-0123456789");
    hears(from, "");
    end(&fd_store, from);
}

/* The service manager forgets sockets by name, so it forgets a good one of the same name, too. vipd
 * stores the good socket again. */
static void test_a_good_one_beside_a_wrong_one_is_stored_again(void **state)
{
    struct fd_store fd_store;
    struct fd_store_sock *sock;
    char err[256];
    int from;

    (void)state;
    pass(0, socket(AF_INET, SOCK_STREAM, 0));
    pass(1, socket(AF_INET, SOCK_DGRAM, 0));
    pass(2, socket(AF_INET, SOCK_DGRAM, 0)); /* of two good sockets vipd takes the first */
    from = manager();
    environment("3", "nic-vip0:nic-vip0:nic-vip0");
    assert_int_equal(fd_store_inherit(&fd_store, err, sizeof(err)), 0);
    sock = fd_store_of(&fd_store, "vip0", 0);
    assert_int_equal(sock->fd, SD_LISTEN_FDS_START + 1);
    assert_false(is_open(0));
    assert_false(is_open(2));
    hears(from, "FDSTOREREMOVE=1\nFDNAME=nic-vip0");
    hears(from, "FDSTOREREMOVE=1\nFDNAME=nic-vip0");
    sock->fd = -1; /* the link now owns the descriptor */
    fd_store_opened(sock, SD_LISTEN_FDS_START + 1);
    assert_true(sock->used);
    hears(from, "FDSTORE=1\nFDPOLL=0\nFDNAME=nic-vip0");
    hears(from, "");
    close(SD_LISTEN_FDS_START + 1);
    end(&fd_store, from);
}

/* If the listener is a wrong socket, vipd names its unit. A strange name is no unit. */
static void test_a_bad_listener(void **state)
{
    struct fd_store fd_store;
    char err[256];

    (void)state;
    pass(0, socket(AF_UNIX, SOCK_STREAM, 0));
    pass(1, socket(AF_INET, SOCK_DGRAM, 0));
    environment("2", "vipd.socket:nic-vip0");
    assert_int_equal(fd_store_inherit(&fd_store, err, sizeof(err)), -EINVAL);
    assert_non_null(strstr(err, "'vipd.socket'"));
    assert_int_equal(fd_store.listener, -1);
    assert_int_equal(fd_store.count, 0);
    assert_false(is_open(0) || is_open(1));

    pass(0, socket(AF_UNIX, SOCK_STREAM, 0));
    pass(1, listener());
    environment("2", "vipd.socket:vipd.socket");
    assert_int_equal(fd_store_inherit(&fd_store, err, sizeof(err)), 0);
    assert_int_equal(fd_store.listener, SD_LISTEN_FDS_START + 1);
    close(fd_store.listener);

    pass(0, socket(AF_UNIX, SOCK_STREAM, 0));
    environment("1", "stored");
    assert_int_equal(fd_store_inherit(&fd_store, err, sizeof(err)), 0);
    assert_int_equal(fd_store.listener, -1);
    assert_false(is_open(0));
}

/* The kept socket does not fit. vipd closes it before the link opens a new one of its address. */
static void test_one_that_does_not_fit(void **state)
{
    struct fd_store fd_store;
    struct fd_store_sock *sock;
    char err[256];
    int from;

    (void)state;
    pass(0, socket(AF_INET, SOCK_DGRAM, 0));
    from = manager();
    environment("1", "nic-vip0");
    assert_int_equal(fd_store_inherit(&fd_store, err, sizeof(err)), 0);
    sock = fd_store_of(&fd_store, "vip0", 0);
    hears(from, "");
    fd_store_opened(sock, -1);
    hears(from, "FDSTOREREMOVE=1\nFDNAME=nic-vip0");
    assert_false(is_open(0));
    pass(0, socket(AF_INET, SOCK_DGRAM, 0));
    fd_store_opened(sock, SD_LISTEN_FDS_START);
    hears(from, "FDSTORE=1\nFDPOLL=0\nFDNAME=nic-vip0");
    fd_store_opened(sock, -1); /* the address is gone for a moment: the socket stays in the store */
    hears(from, "");
    assert_non_null(fd_store_unused(&fd_store));
    close(SD_LISTEN_FDS_START);
    end(&fd_store, from);
}

/* A bound UDP socket in place of the next descriptor; port 0: a free port. Returns the port. */
static uint16_t pass_bound(int number, const char *address, uint16_t port)
{
    struct sockaddr_in bound = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof(bound);
    int sock = socket(AF_INET, SOCK_DGRAM, 0);

    assert_int_equal(inet_pton(AF_INET, address, &bound.sin_addr), 1);
    assert_int_equal(bind(sock, (struct sockaddr *)&bound, len), 0);
    assert_int_equal(getsockname(sock, (struct sockaddr *)&bound, &len), 0);
    pass(number, sock);
    return ntohs(bound.sin_port);
}

/* The address of a NIC is in use: vipd gives up only kept sockets that block it. If none does, vipd
 * keeps all of them, and does not wait. */
static void test_only_those_that_block(void **state)
{
    struct fd_store fd_store;
    char err[256];
    uint16_t port;
    int from;

    (void)state;
    port = pass_bound(0, "127.0.0.1", 0);
    (void)pass_bound(1, "127.0.0.3", port);
    from = manager();
    environment("2", "nic-vip1:nic-vip2");
    assert_int_equal(fd_store_inherit(&fd_store, err, sizeof(err)), 0);
    assert_false(fd_store_make_room(&fd_store, "127.0.0.2", port));
    assert_false(fd_store_make_room(&fd_store, "127.0.0.1", port + 1u));
    assert_false(fd_store_make_room(&fd_store, "::1", port));
    assert_true(is_open(0) && is_open(1));
    hears(from, "");
    assert_true(fd_store_make_room(&fd_store, "127.0.0.1", port));
    hears(from, "FDSTOREREMOVE=1\nFDNAME=nic-vip1");
    assert_true(!is_open(0) && is_open(1));
    assert_true(fd_store_make_room(&fd_store, "auto", port));
    hears(from, "FDSTOREREMOVE=1\nFDNAME=nic-vip2");
    assert_false(is_open(1));
    end(&fd_store, from);
}

/* Close the descriptors that ctest or a failed test may have left open. */
static int setup(void **state)
{
    (void)state;
    unsetenv("NOTIFY_SOCKET");
    for (int i = SD_LISTEN_FDS_START; i <= HIGH; i++)
        close(i);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_are_taken, setup),
        cmocka_unit_test_setup(test_a_socket_of_each_path, setup),
        cmocka_unit_test_setup(test_wrong_ones_are_let_go, setup),
        cmocka_unit_test_setup(test_a_good_one_beside_a_wrong_one_is_stored_again, setup),
        cmocka_unit_test_setup(test_a_bad_listener, setup),
        cmocka_unit_test_setup(test_one_that_does_not_fit, setup),
        cmocka_unit_test_setup(test_only_those_that_block, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
