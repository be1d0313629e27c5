/* Tickets of connections, and the file of their key (vipd/ticket.h). */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/ticket.h"

static char dir[64];
static int dir_fd;

static int setup(void **state)
{
    strcpy(dir, "/tmp/vip-ticket.XXXXXX");
    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir_fd >= 0);
    return ticket_init();
}

static int teardown(void **state)
{
    (void)unlinkat(dir_fd, TICKET_KEY_FILE, 0);
    (void)unlinkat(dir_fd, "other", 0);
    close(dir_fd);
    return rmdir(dir);
}

static struct ticket sample(void)
{
    struct ticket ticket;

    memset(&ticket, 0, sizeof(ticket));
    ticket.uid = 1000;
    ticket.pid = 4711;
    ticket.start_ticks = 123456789;
    strcpy(ticket.nic, "vip0");
    ticket.vi.vi = 7;
    ticket.vi.generation = 3;
    ticket.vi.connected = true;
    ticket.vi.secret.k0 = 0x0123456789abcdef;
    return ticket;
}

static struct ticket_key load(void)
{
    struct ticket_key key;

    memset(&key, 0, sizeof(key));
    assert_int_equal(ticket_key_load(dir_fd, geteuid(), &key), 0);
    return key;
}

static void test_round_trip(void **state)
{
    struct ticket_key key = load();
    struct ticket ticket = sample(), ret;
    uint8_t bytes[2][TICKET_BYTES];

    ticket_seal(&key, &ticket, bytes[0]);
    ticket_seal(&key, &ticket, bytes[1]);
    assert_memory_not_equal(bytes[0], bytes[1], TICKET_BYTES); /* each ticket has its own nonce */
    for (unsigned i = 0; i < 2; i++) {
        assert_true(ticket_open(&key, bytes[i], TICKET_BYTES, &ret));
        assert_memory_equal(&ret, &ticket, sizeof(ticket));
    }
}

/* ticket_open refuses a changed bit, a wrong length and another key, and then writes no output. */
static void test_forged(void **state)
{
    struct ticket_key key = load(), other;
    struct ticket ticket = sample(), ret, before;
    uint8_t bytes[TICKET_BYTES + 1];

    memset(&ret, 0x5a, sizeof(ret));
    before = ret;
    ticket_seal(&key, &ticket, bytes);
    for (size_t i = 0; i < 8 * TICKET_BYTES; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_false(ticket_open(&key, bytes, TICKET_BYTES, &ret));
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t len = 0; len <= sizeof(bytes); len++)
        assert_true(len == TICKET_BYTES || !ticket_open(&key, bytes, len, &ret));
    other = key;
    other.bytes[31] ^= 1;
    assert_false(ticket_open(&other, bytes, TICKET_BYTES, &ret));
    assert_memory_equal(&ret, &before, sizeof(ret));
    assert_true(ticket_open(&key, bytes, TICKET_BYTES, &ret));
}

/* The next life reads the same key. No other user can read it. */
static void test_key_stays(void **state)
{
    struct ticket_key first = load(), second = load();
    struct stat st;

    assert_memory_equal(&first, &second, sizeof(first));
    assert_int_equal(fstatat(dir_fd, TICKET_KEY_FILE, &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, sizeof(first));
}

/* vipd makes a new key if others could read or write the file, or if the file is cut short. */
static void test_bad_files(void **state)
{
    struct ticket_key key = load(), next;
    struct stat st;

    for (unsigned how = 0; how < 5; how++) {
        if (how == 0) { /* a group may read the file */
            assert_int_equal(fchmodat(dir_fd, TICKET_KEY_FILE, 0640, 0), 0);
        } else if (how == 1) { /* the file has a second name */
            assert_int_equal(linkat(dir_fd, TICKET_KEY_FILE, dir_fd, "other", 0), 0);
        } else if (how == 2) { /* the file is cut short */
            int fd = openat(dir_fd, TICKET_KEY_FILE, O_WRONLY);

            assert_int_equal(ftruncate(fd, 31), 0);
            close(fd);
        } else { /* the file is a symbolic link or a pipe */
            assert_int_equal(unlinkat(dir_fd, TICKET_KEY_FILE, 0), 0);
            if (how == 3)
                assert_int_equal(symlinkat("other", dir_fd, TICKET_KEY_FILE), 0);
            else
                assert_int_equal(mkfifoat(dir_fd, TICKET_KEY_FILE, 0600), 0);
        }
        next = load();
        assert_memory_not_equal(&key, &next, sizeof(key));
        assert_int_equal(fstatat(dir_fd, TICKET_KEY_FILE, &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(S_ISREG(st.st_mode) && (st.st_mode & 07777) == 0600 && st.st_nlink == 1);
        key = next;
    }
}

/* The directory does not exist: there is a key, and the caller learns that it is not stored. */
static void test_no_directory(void **state)
{
    struct ticket_key key, zero;

    memset(&key, 0, sizeof(key));
    memset(&zero, 0, sizeof(zero));
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(ticket_key_load(dir_fd, geteuid(), &key), -ENOENT);
    assert_memory_not_equal(&key, &zero, sizeof(key));
    assert_int_equal(mkdir(dir, 0700), 0);
}

/* The disk is full: no part of the key's file is left. */
static void test_full_disk(void **state)
{
    struct rlimit before, full;
    struct ticket_key key;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    full = before;
    full.rlim_cur = sizeof(key) - 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    assert_int_equal(ticket_key_load(dir_fd, geteuid(), &key), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(faccessat(dir_fd, TICKET_KEY_FILE, F_OK, 0), -1);
    assert_int_equal(faccessat(dir_fd, TICKET_KEY_FILE ".new", F_OK, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_key_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
