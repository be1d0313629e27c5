/*
 * Names of devices and hosts; the runtime directory; bad bytes in log lines, and limits.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/control.h"
#include "vipd/config.h"
#include "vipd/log.h"
#include "vipd/names.h"
#include "vipd/runtime.h"

static struct vipd_config *two_nics(void)
{
    struct vipd_config *config = vipd_config_default();

    assert_non_null(config);
    config->nics[1] = config->nics[0];
    snprintf(config->nics[1].name, sizeof(config->nics[1].name), "vip1");
    config->nic_count = 2;
    return config;
}

static void test_historical_device_names(void **state)
{
    static const char *const first[] = {
        "vip0", "/dev/via_eth0", "/dev/via_lo", "/etc/via_lo", "/dev/clanvi0",
        "nic0", "VINIC",         "VINIC0",      "\\\\.\\VI1",  ""};
    static const char *const second[] = {"vip1", "/dev/via_eth1", "/dev/clanvi1",
                                         "nic1", "VINIC1",        "\\\\.\\VI2"};
    static const char *const none[] = {"vip2", "/dev/via_eth2", "VINIC2",         "\\\\.\\VI0",
                                       "VIP0", "nic",           "/dev/via_eth00", "nic01",
                                       " ",    "vip",           "eth0",           "/dev/via_lo0"};
    struct vipd_config *config = two_nics();

    (void)state;
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
        assert_int_equal(vipd_device_find(config, first[i]), 0);
    for (size_t i = 0; i < sizeof(second) / sizeof(second[0]); i++)
        assert_int_equal(vipd_device_find(config, second[i]), 1);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_int_equal(vipd_device_find(config, none[i]), -1);
    vipd_config_free(config);
}

static void test_configured_aliases(void **state)
{
    struct vipd_config *config = two_nics();
    char text[512];

    (void)state;
    config->nics[1].aliases_given = true;
    config->nics[1].alias_count = 2;
    snprintf(config->nics[1].aliases[0], VIP_NIC_NAME_BYTES, "VINIC0");
    snprintf(config->nics[1].aliases[1], VIP_NIC_NAME_BYTES, "vip0");
    /* A configured alias has precedence over a historical name, and a NIC's own name over both. */
    assert_int_equal(vipd_device_find(config, "VINIC0"), 1);
    assert_int_equal(vipd_device_find(config, "vip0"), 0);
    assert_int_equal(vipd_device_find(config, "nic0"), 0);
    assert_int_equal(vipd_device_find(config, "nic1"), -1);
    vipd_device_aliases(config, 1, text, sizeof(text));
    assert_string_equal(text, "VINIC0 vip0");
    vipd_device_aliases(config, 0, text, sizeof(text));
    assert_string_equal(text, "/dev/via_eth0 /dev/clanvi0 nic0 VINIC0 \\\\.\\VI1 /dev/via_lo "
                              "/etc/via_lo VINIC (empty)");
    vipd_device_aliases(config, 0, text, 10);
    assert_string_equal(text, "/dev/via_");
    vipd_config_free(config);
}

static void put(struct vipd_name *name, enum link_kind kind, const char *text)
{
    assert_int_equal(link_addr_parse_as(kind, text, 1, &name->addr[name->addr_count]), 0);
    name->kind[name->addr_count++] = kind;
}

/* Check that the name has this address on this medium; want NULL: that it has none. */
static void host(const struct vipd_config *config, enum link_kind kind, const char *name,
                 unsigned index, const char *want)
{
    struct vipd_nic_config nic = {.link = kind, .keys.port = 4794};
    struct link_addr addr;
    char text[64];

    /* `nic` is the only NIC of this medium. With IPv6 it is on eth1. */
    if (kind == LINK_UDP6)
        snprintf(nic.keys.address, sizeof(nic.keys.address), "fe80::1%%eth1");
    if (!vipd_host_find(config, &nic, name, index, &addr)) {
        if (want)
            fail_msg("%s number %u is unknown", name, index);
        return;
    }
    link_addr_format_as(kind, &addr, text, sizeof(text));
    assert_non_null(want);
    assert_string_equal(text, want);
}

static void test_hosts(void **state)
{
    static struct vipd_name names[] = {
        {.name = "node1.site.org"},
        {.name = "node1"},
        {.name = "node2.site.org"},
        {.name = "10.0.0.1"},
        {.name = "node6", .scope = {"", "eth2", "eth1"}},
    };
    struct vipd_config *config = vipd_config_default();
    struct link_addr addr;

    (void)state;
    put(&names[0], LINK_UDP, "10.0.0.7");
    put(&names[1], LINK_ETHER, "02:00:00:00:00:aa");
    put(&names[1], LINK_UDP, "10.0.0.1:7");
    put(&names[1], LINK_UDP, "10.0.0.2:7");
    put(&names[2], LINK_UDP, "10.0.0.3");
    put(&names[3], LINK_UDP, "10.0.0.4");
    put(&names[4], LINK_UDP6, "2001:db8::7");
    put(&names[4], LINK_UDP6, "[fe80::2]:7");
    put(&names[4], LINK_UDP6, "[fe80::3]:7");
    put(&names[4], LINK_UDP, "10.0.0.6");
    config->names = names;
    config->name_count = 5;

    host(config, LINK_UDP, "NODE1", 0, "10.0.0.1:7");
    host(config, LINK_UDP, "node1", 1, "10.0.0.2:7");
    host(config, LINK_UDP, "node1", 2, NULL);
    host(config, LINK_UDP, "node1.site.org", 0, "10.0.0.7:1");
    host(config, LINK_UDP, "node2", 0, "10.0.0.3:1");
    host(config, LINK_UDP, "Node2.Site.org", 0, "10.0.0.3:1");
    host(config, LINK_UDP, "node2.other.org", 0, NULL);
    host(config, LINK_UDP, "node", 0, NULL);
    host(config, LINK_UDP, "", 0, NULL);
    host(config, LINK_UDP, "10", 0, NULL);
    host(config, LINK_UDP, "10.0.0.1", 0, "10.0.0.4:1");
    host(config, LINK_UDP, "02:00:00:00:00:bb", 0, NULL);

    /* A name has its own addresses on each medium; a MAC address is a name, too. */
    host(config, LINK_ETHER, "node1", 0, "02:00:00:00:00:aa");
    host(config, LINK_ETHER, "node1", 1, NULL);
    host(config, LINK_ETHER, "node2", 0, NULL);
    host(config, LINK_ETHER, "02:00:00:00:00:BB", 0, "02:00:00:00:00:bb");
    host(config, LINK_ETHER, "02:00:00:00:00:bb", 1, NULL);
    host(config, LINK_LOOP, "LocalHost", 0, "00:00:00:00:00:01");
    host(config, LINK_LOOP, "localhost", 1, NULL);
    host(config, LINK_LOOP, "node1", 0, NULL);

    /* IPv6: an address on the link of another interface is unknown, whether it is a name of the
     * table or written as digits. */
    host(config, LINK_UDP6, "node6", 0, "[2001:db8::7]:1");
    host(config, LINK_UDP6, "node6", 1, "[fe80::3]:7");
    host(config, LINK_UDP6, "node6", 2, NULL);
    host(config, LINK_UDP, "node6", 0, "10.0.0.6:1");
    host(config, LINK_UDP6, "node1", 0, NULL);
    host(config, LINK_UDP6, "2001:db8::9", 0, "[2001:db8::9]:4794");
    host(config, LINK_UDP6, "[2001:db8::9]:5", 0, "[2001:db8::9]:5");
    host(config, LINK_UDP6, "fe80::9", 0, "[fe80::9]:4794");
    host(config, LINK_UDP6, "fe80::9%eth1", 0, "[fe80::9]:4794");
    host(config, LINK_UDP6, "[fe80::9%eth1]:5", 0, "[fe80::9]:5");
    host(config, LINK_UDP6, "fe80::9%eth2", 0, NULL);
    host(config, LINK_UDP6, "10.0.0.1", 0, NULL);
    assert_string_equal(vipd_host_name(config, LINK_UDP6, &names[4].addr[0]), "node6");

    assert_string_equal(vipd_host_name(config, LINK_UDP, &names[1].addr[2]), "node1");
    assert_string_equal(vipd_host_name(config, LINK_ETHER, &names[1].addr[0]), "node1");
    assert_null(vipd_host_name(config, LINK_UDP, &names[1].addr[0]));
    addr = (struct link_addr){.len = 6};
    assert_null(vipd_host_name(config, LINK_UDP, &addr));
    assert_string_equal(vipd_host_name(config, LINK_LOOP, &addr), "localhost");
    config->names = NULL;
    config->name_count = 0;
    vipd_config_free(config);
}

/* A NIC with link = loop has the loopback names and no number. */
static void test_loop_device_names(void **state)
{
    struct vipd_config *config = two_nics();
    char text[512];

    (void)state;
    config->nics[2] = config->nics[1];
    snprintf(config->nics[2].name, sizeof(config->nics[2].name), "vip2");
    config->nic_count = 3;
    config->nics[1].link = LINK_LOOP;
    assert_int_equal(vipd_device_find(config, "/dev/via_lo"), 1);
    assert_int_equal(vipd_device_find(config, "/etc/via_lo"), 1);
    assert_int_equal(vipd_device_find(config, "VINIC"), 0);
    assert_int_equal(vipd_device_find(config, ""), 0);
    assert_int_equal(vipd_device_find(config, "nic1"), 2);
    assert_int_equal(vipd_device_find(config, "nic2"), -1);
    vipd_device_aliases(config, 1, text, sizeof(text));
    assert_string_equal(text, "/dev/via_lo /etc/via_lo");
    config->nics[0].link = LINK_LOOP;
    assert_int_equal(vipd_device_find(config, "/dev/via_lo"), 0);
    assert_int_equal(vipd_device_find(config, "VINIC"), 2);
    /* If there are only loop NICs, old programs still find a NIC. */
    config->nic_count = 2;
    assert_int_equal(vipd_device_find(config, "VINIC"), 0);
    vipd_config_free(config);
}

/* ---- runtime directory ------------------------------------------------------------------- */

static void test_default_dir(void **state)
{
    char dir[256], err[256];

    (void)state;
    setenv("RUNTIME_DIRECTORY", "/run/one:/run/two", 1);
    assert_int_equal(runtime_default_dir(dir, sizeof(dir), err, sizeof(err)), 0);
    assert_string_equal(dir, "/run/one");
    unsetenv("RUNTIME_DIRECTORY");
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    assert_int_equal(runtime_default_dir(dir, sizeof(dir), err, sizeof(err)), 0);
    assert_string_equal(dir, geteuid() == 0 ? "/run/vipd" : "/run/user/7/vipd");
    unsetenv("XDG_RUNTIME_DIR");
    if (geteuid() != 0) {
        assert_int_equal(runtime_default_dir(dir, sizeof(dir), err, sizeof(err)), -ENOENT);
        assert_non_null(strstr(err, "--runtime-dir"));
    }
}

static void test_lock_and_socket(void **state)
{
    static struct runtime first, second;
    char top[] = "/tmp/vip-runtime-XXXXXX", dir[64], path[96], err[512], want[160];
    struct stat st;
    int sock;

    (void)state;
    assert_non_null(mkdtemp(top));
    snprintf(dir, sizeof(dir), "%s/d", top);
    snprintf(path, sizeof(path), "%s/vipd.sock", dir);
    assert_int_equal(runtime_open(dir, geteuid(), &first, err, sizeof(err)), 0);
    assert_int_equal(runtime_open(dir, geteuid(), &second, err, sizeof(err)), -EBUSY);
    snprintf(want, sizeof(want), "another vipd (pid %ld) uses %s", (long)getpid(), dir);
    assert_non_null(strstr(err, want));
    runtime_close(&second);

    assert_int_equal(runtime_listen(&first, 0640, err, sizeof(err)), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    sock = vip_control_connect(path);
    assert_true(sock >= 0);
    close(sock);

    /* A vipd that was killed leaves its socket. The next vipd replaces the socket. */
    close(first.sock);
    close(first.lock_fd);
    assert_int_equal(vip_control_connect(path), -ECONNREFUSED);
    assert_int_equal(runtime_open(dir, geteuid(), &second, err, sizeof(err)), 0);
    assert_int_equal(runtime_listen(&second, 0600, err, sizeof(err)), 0);
    sock = vip_control_connect(path);
    assert_true(sock >= 0);
    close(sock);
    runtime_close(&second);
    assert_int_equal(stat(path, &st), -1);

    snprintf(path, sizeof(path), "%s/vipd.lock", dir);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(rmdir(top), 0);
}

/* Returns the length of the kernel's longest queue of connects, but at most 500. */
static unsigned connects_that_wait(void)
{
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "re");
    unsigned most = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%u", &most), 1);
    fclose(file);
    return most < 500 ? most : 500;
}

static void test_hundreds_of_connects_wait_without_a_look_of_vipd(void **state)
{
    static struct runtime runtime;
    char dir[] = "/tmp/vip-runtime-XXXXXX", path[64], err[512];
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    unsigned count = connects_that_wait();
    int socks[500];

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/vipd.sock", dir);
    assert_int_equal(runtime_open(dir, geteuid(), &runtime, err, sizeof(err)), 0);
    assert_int_equal(runtime_listen(&runtime, 0600, err, sizeof(err)), 0);
    for (unsigned i = 0; i < count; i++) {
        socks[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(socks[i] >= 0);
        assert_int_equal(connect(socks[i], (struct sockaddr *)&addr, sizeof(addr)), 0);
    }
    for (unsigned i = 0; i < count; i++)
        close(socks[i]);
    runtime_close(&runtime);
    snprintf(path, sizeof(path), "%s/vipd.lock", dir);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

/* A user that can read the lock file can lock it, and then no vipd starts. So vipd makes the file
 * private, also if an older vipd left a file that others can read. */
static void test_lock_private(void **state)
{
    static struct runtime runtime;
    char dir[] = "/tmp/vip-runtime-XXXXXX", path[64], err[512];
    struct stat st;
    int held;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/vipd.lock", dir);
    close(open(path, O_RDWR | O_CREAT, 0644));
    assert_int_equal(chmod(path, 0644), 0);
    held = open(path, O_RDONLY);
    assert_true(held >= 0);
    assert_int_equal(runtime_open(dir, geteuid(), &runtime, err, sizeof(err)), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* `held` was opened earlier, so it refers to the old file, not to the new lock file. */
    assert_int_equal(flock(held, LOCK_SH | LOCK_NB), 0);
    runtime_close(&runtime);
    assert_int_equal(runtime_open(dir, geteuid(), &runtime, err, sizeof(err)), 0);
    runtime_close(&runtime);
    close(held);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

/* A lock file with a second name may be the file of another user, so vipd does not write to it. */
static void test_lock_of_two_names(void **state)
{
    static struct runtime runtime;
    char dir[] = "/tmp/vip-runtime-XXXXXX", path[64], other[64], err[512], text[16] = "";
    int fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/vipd.lock", dir);
    snprintf(other, sizeof(other), "%s/other", dir);
    fd = open(other, O_RDWR | O_CREAT, 0600);
    assert_int_equal(write(fd, "precious", 8), 8);
    assert_int_equal(link(other, path), 0);
    assert_int_equal(runtime_open(dir, geteuid(), &runtime, err, sizeof(err)), 0);
    assert_int_equal(pread(fd, text, sizeof(text), 0), 8);
    assert_string_equal(text, "precious");
    runtime_close(&runtime);
    close(fd);
    unlink(path);
    unlink(other);
    assert_int_equal(rmdir(dir), 0);
}

static unsigned chmods;

/* This function replaces libc's chmod and counts its calls. */
int chmod(const char *path, mode_t mode)
{
    chmods++;
    return fchmodat(AT_FDCWD, path, mode, 0);
}

/* vipd must not change the socket's mode by its name. The owner of the directory could put another
 * file in the place of the socket, and root would change the mode of that file. */
static void test_no_chmod_by_name(void **state)
{
    static struct runtime runtime;
    char dir[] = "/tmp/vip-runtime-XXXXXX", path[64], err[512];
    struct stat st;
    mode_t mask;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/vipd.sock", dir);
    mask = umask(022);
    assert_int_equal(runtime_open(dir, geteuid(), &runtime, err, sizeof(err)), 0);
    chmods = 0;
    assert_int_equal(runtime_listen(&runtime, 0666, err, sizeof(err)), 0);
    assert_int_equal(chmods, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666);
    assert_int_equal(umask(mask), 022);
    runtime_close(&runtime);
    snprintf(path, sizeof(path), "%s/vipd.lock", dir);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

static void test_bad_dirs(void **state)
{
    static struct runtime runtime;
    char err[512], longest[200];

    (void)state;
    assert_int_equal(runtime_open("/nonexistent/a", geteuid(), &runtime, err, sizeof(err)),
                     -ENOENT);
    assert_non_null(strstr(err, "/nonexistent/a"));
    runtime_close(&runtime);
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(runtime_open(longest, geteuid(), &runtime, err, sizeof(err)), -ENAMETOOLONG);
    runtime_close(&runtime);
}

/* In a directory where another user may write, that user could replace vipd's socket. */
static void test_foreign_dirs(void **state)
{
    static struct runtime runtime;
    char dir[] = "/tmp/vip-runtime-XXXXXX", path[64], err[512];
    const uid_t other = 54321;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/vipd.lock", dir);
    for (mode_t mode = 0; mode < 01000; mode++) {
        bool writable = mode & (S_IWGRP | S_IWOTH);

        if ((mode & 0700) != 0700)
            continue;
        assert_int_equal(chmod(dir, mode), 0);
        assert_int_equal(runtime_open(dir, geteuid(), &runtime, err, sizeof(err)),
                         writable ? -EPERM : 0);
        if (writable)
            assert_non_null(strstr(err, "chmod go-w"));
        runtime_close(&runtime);
        assert_int_equal(chmod(dir, mode | S_ISVTX), 0);
        assert_int_equal(runtime_open(dir, geteuid(), &runtime, err, sizeof(err)), 0);
        runtime_close(&runtime);
    }
    assert_int_equal(chmod(dir, 0755), 0);
    if (geteuid() == 0) { /* only root can make a directory of another user */
        assert_int_equal(chown(dir, other, (gid_t)-1), 0);
        assert_int_equal(runtime_open(dir, 0, &runtime, err, sizeof(err)), -EPERM);
        assert_non_null(strstr(err, "belongs to uid 54321"));
        runtime_close(&runtime);
        assert_int_equal(runtime_open(dir, other, &runtime, err, sizeof(err)), 0);
        runtime_close(&runtime);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Root gives its files to the user, but no system file with a second name in the directory. */
static void test_give(void **state)
{
    static struct runtime runtime;
    char dir[] = "/tmp/vip-runtime-XXXXXX", lock[64], log[64], elsewhere[64], err[512];
    struct stat st;
    const uid_t other = 54321;

    (void)state;
    if (geteuid() != 0) {
        print_message("not root: nothing can be given to another user\n");
        return;
    }
    assert_non_null(mkdtemp(dir));
    snprintf(lock, sizeof(lock), "%s/vipd.lock", dir);
    snprintf(log, sizeof(log), "%s/vipd.log", dir);
    snprintf(elsewhere, sizeof(elsewhere), "%s.secret", dir);
    close(open(elsewhere, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(link(elsewhere, log), 0);
    assert_int_equal(runtime_open(dir, other, &runtime, err, sizeof(err)), 0);
    assert_int_equal(runtime_give(&runtime, other, err, sizeof(err)), 0);
    assert_int_equal(stat(dir, &st), 0);
    assert_int_equal(st.st_uid, other);
    assert_int_equal(stat(lock, &st), 0);
    assert_int_equal(st.st_uid, other);
    assert_int_equal(stat(log, &st), 0);
    assert_int_equal(st.st_uid, 0);
    runtime_close(&runtime);
    assert_int_equal(unlink(lock), 0);
    assert_int_equal(unlink(log), 0);
    assert_int_equal(unlink(elsewhere), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* ---- log --------------------------------------------------------------------------------- */

static void test_log_limit(void **state)
{
    struct vipd_log_limit limit = {0};
    uint64_t now = 5000000000, suppressed;

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_true(vipd_log_allow(&limit, now, &suppressed));
    for (int i = 0; i < 7; i++)
        assert_false(vipd_log_allow(&limit, now, &suppressed));
    now += 1000000000;
    assert_true(vipd_log_allow(&limit, now, &suppressed));
    assert_int_equal(suppressed, 7);
    assert_false(vipd_log_allow(&limit, now, &suppressed));
}

static void test_log_clean(void **state)
{
    char text[] = "a\x1b[31m\n\xc3\xa4z";

    (void)state;
    vipd_log_clean(text);
    assert_string_equal(text, "a?[31m???z");
}

/* If the reader of the log has stopped, vipd must go on. */
static void test_log_unread(void **state)
{
    int saved = dup(STDERR_FILENO), ends[2];
    char byte, text[8] = "";

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], "x", 1) == 1)
        continue;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    alarm(60); /* ends the program if the next call blocks */
    vipd_error("%s", "nobody reads this");
    alarm(0);
    while (read(ends[0], &byte, 1) == 1 && byte == 'x') {
        int left = 0;

        assert_int_equal(ioctl(ends[0], FIONREAD, &left), 0);
        if (left == 0)
            break;
    }
    /* When there is room again, vipd writes lines again. */
    vipd_error("%s", "again");
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    assert_int_not_equal(text[0], 'x');
    close(saved);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_historical_device_names),
        cmocka_unit_test(test_configured_aliases),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_loop_device_names),
        cmocka_unit_test(test_default_dir),
        cmocka_unit_test(test_lock_and_socket),
        cmocka_unit_test(test_hundreds_of_connects_wait_without_a_look_of_vipd),
        cmocka_unit_test(test_lock_private),
        cmocka_unit_test(test_lock_of_two_names),
        cmocka_unit_test(test_no_chmod_by_name),
        cmocka_unit_test(test_bad_dirs),
        cmocka_unit_test(test_foreign_dirs),
        cmocka_unit_test(test_give),
        cmocka_unit_test(test_log_limit),
        cmocka_unit_test(test_log_clean),
        cmocka_unit_test(test_log_unread),
    };

    return cmocka_run_group_tests_name("vipd_names", tests, NULL, NULL);
}
