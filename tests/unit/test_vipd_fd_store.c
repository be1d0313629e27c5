/* Descriptors that the service manager passes: vipd takes all of them, or closes all if one is wrong. */
#include "vipd/fd_store.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cmocka.h>

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
    struct sockaddr_un any = {.sun_family = AF_UNIX}; /* a name of the kernel's choice */
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

/* vipd also closes descriptors that it took before the wrong one. */
static void test_a_wrong_one_closes_all(void **state)
{
    struct fd_store fd_store;
    char err[256];

    (void)state;
    pass(0, listener());
    pass(1, socket(AF_INET, SOCK_DGRAM, 0));
    pass(2, open("/dev/null", O_RDONLY));
    pass(3, socket(AF_INET, SOCK_DGRAM, 0));
    environment("4", "vipd.socket:nic-vip0:strange:nic-vip1");
    assert_int_equal(fd_store_inherit(&fd_store, err, sizeof(err)), -EINVAL);
    assert_int_equal(fd_store.listener, -1);
    assert_int_equal(fd_store.count, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(fcntl(SD_LISTEN_FDS_START + i, F_GETFD), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_are_taken),
        cmocka_unit_test(test_a_socket_of_each_path),
        cmocka_unit_test(test_a_wrong_one_closes_all),
    };

    /* ctest may have these open. */
    for (int i = 0; i < 4; i++)
        close(SD_LISTEN_FDS_START + i);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
