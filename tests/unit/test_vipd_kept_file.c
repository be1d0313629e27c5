/*
 * Files for the next vipd on a full disk (vipd/kept_file.h): the old file stays until the new one
 * is whole. The test limits the size of files instead of the disk.
 */
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

#include "vipd/kept_file.h"

#define NAME        "kept"
#define ENTRY_BYTES 100u
#define ENTRIES     10u

static char dir[64];
static int dir_fd;

static void disk_ends_at(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static int setup(void **state)
{
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    strcpy(dir, "/tmp/vip-kept.XXXXXX");
    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir_fd >= 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    disk_ends_at(RLIM_INFINITY);
    (void)unlinkat(dir_fd, NAME, 0);
    (void)unlinkat(dir_fd, NAME ".new", 0);
    close(dir_fd);
    return rmdir(dir);
}

/* Check that the file has `count` entries, and that each byte is `fill`. */
static void holds(uint32_t count, uint8_t fill)
{
    uint8_t *bytes;

    assert_int_equal(
        kept_file_read(dir_fd, NAME, geteuid(), ENTRY_BYTES, 2 * ENTRIES, (void **)&bytes), count);
    for (uint32_t i = 0; i < count * ENTRY_BYTES; i++)
        assert_int_equal(bytes[i], fill);
    free(bytes);
    assert_int_equal(faccessat(dir_fd, NAME ".new", F_OK, 0), -1);
}

static void test_full_disk(void **state)
{
    uint8_t bytes[2][ENTRIES * ENTRY_BYTES];

    (void)state;
    memset(bytes[0], 1, sizeof(bytes[0]));
    memset(bytes[1], 2, sizeof(bytes[1]));
    disk_ends_at(0);
    assert_int_equal(kept_file_write(dir_fd, NAME, bytes[0], sizeof(bytes[0])), -EFBIG);
    holds(0, 0);
    disk_ends_at(RLIM_INFINITY);
    assert_int_equal(kept_file_write(dir_fd, NAME, bytes[0], sizeof(bytes[0])), 0);
    holds(ENTRIES, 1);
    for (rlim_t room = 0; room < sizeof(bytes[1]); room += 37) {
        disk_ends_at(room);
        assert_int_equal(kept_file_write(dir_fd, NAME, bytes[1], sizeof(bytes[1])), -EFBIG);
        holds(ENTRIES, 1);
    }
    disk_ends_at(RLIM_INFINITY);
    assert_int_equal(kept_file_write(dir_fd, NAME, bytes[1], sizeof(bytes[1])), 0);
    holds(ENTRIES, 2);
    assert_int_equal(kept_file_write(dir_fd, NAME, NULL, 0), 0);
    holds(0, 0);
}

/* The name is that of a directory, or the directory is gone: no part of a new file stays. */
static void test_no_place(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(dir_fd, NAME, 0700), 0);
    assert_int_equal(kept_file_write(dir_fd, NAME, "1", 1), -EISDIR);
    assert_int_equal(faccessat(dir_fd, NAME ".new", F_OK, 0), -1);
    assert_int_equal(unlinkat(dir_fd, NAME, AT_REMOVEDIR), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(kept_file_write(dir_fd, NAME, "1", 1), -ENOENT);
    assert_int_equal(mkdir(dir, 0700), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_place, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
