/*
 * The file of owners on a full disk (vipd/owners.h): the file of the last vipd stays until a new
 * one is whole. The test limits the size of files instead of the disk.
 */
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
#include <unistd.h>

#include <cmocka.h>

#include "vipd/config.h"
#include "vipd/log.h"
#include "vipd/loop.h"
#include "vipd/nic/outlive.h"
#include "vipd/owners.h"
#include "vipd/start.h"

#define ENTRY_BYTES 256u /* of the file */
#define OWNERS      5u
#define PART        OWNERS_FILE ".new"

static char dir[64], config_path[80];
static int dir_fd;
static struct vipd_config *config;
static struct vipd vipd;
static bool running;
static char log_text[8192];

/* ---- a life of vipd ------------------------------------------------------------------------- */

static void disk_ends_at(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* From log_begin to log_end the log goes into a pipe. log_end copies it to log_text. */
static int log_ends[2], log_saved;

static void log_begin(void)
{
    fflush(stderr);
    assert_int_equal(pipe(log_ends), 0);
    log_saved = dup(STDERR_FILENO);
    assert_int_equal(dup2(log_ends[1], STDERR_FILENO), STDERR_FILENO);
    close(log_ends[1]);
}

static void log_end(void)
{
    ssize_t bytes;

    assert_int_equal(dup2(log_saved, STDERR_FILENO), STDERR_FILENO);
    close(log_saved);
    bytes = read(log_ends[0], log_text, sizeof(log_text) - 1);
    log_text[bytes > 0 ? bytes : 0] = '\0';
    close(log_ends[0]);
}

static unsigned said(const char *words)
{
    unsigned count = 0;

    for (const char *at = log_text; (at = strstr(at, words)) != NULL; at++)
        count++;
    return count;
}

static void begin(rlim_t disk_bytes)
{
    char err[512] = "";

    assert_int_equal(vipd_start(config, dir, NULL, &vipd, err, sizeof(err)), 0);
    running = true;
    vipd_log_set_level(VIPD_LOG_INFO);
    disk_ends_at(disk_bytes);
    log_begin();
    owners_begin(&vipd, dir_fd, geteuid());
    log_end();
    disk_ends_at(RLIM_INFINITY);
}

static void end(void)
{
    vipd_log_set_level(VIPD_LOG_ERROR);
    vipd_stop(&vipd);
    owners_end(&vipd);
    running = false;
}

/* Make user 1000 + `number` the owner of the discriminator `number`. */
static void own(uint32_t number)
{
    uint64_t now_ns = vipd_clock_now();

    assert_int_equal(nic_disc_keep(vipd.nics[0].nic, (const uint8_t *)&number, sizeof(number),
                                   1000 + number, now_ns + config->outlive_ns, now_ns),
                     0);
}

/* ---- files ---------------------------------------------------------------------------------- */

static size_t file_read(uint8_t ret[4096])
{
    int fd = openat(dir_fd, OWNERS_FILE, O_RDONLY);
    ssize_t bytes = read(fd, ret, 4096);

    close(fd);
    assert_true(bytes >= 0);
    return (size_t)bytes;
}

static int setup(void **state)
{
    FILE *file;
    char err[512] = "";

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    strcpy(dir, "/tmp/vip-kept.XXXXXX");
    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(config_path, sizeof(config_path), "%s/conf", dir);
    file = fopen(config_path, "w");
    assert_non_null(file);
    fputs("[reliability]\noutlive = 60s\n[nic:a]\nlink = loop\n", file);
    assert_int_equal(fclose(file), 0);
    vipd_log_set_level(VIPD_LOG_ERROR);
    config = vipd_config_load(config_path, err, sizeof(err));
    assert_non_null(config);
    begin(RLIM_INFINITY);
    for (uint32_t i = 0; i < OWNERS; i++)
        own(i);
    end();
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = {OWNERS_FILE, PART, "vipd.stats", "conf"};

    (void)state;
    disk_ends_at(RLIM_INFINITY);
    if (running) /* a failed test has left vipd running */
        end();
    vipd_config_free(config);
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)unlinkat(dir_fd, names[i], 0);
    close(dir_fd);
    return rmdir(dir);
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* There is no room for the entries of the last vipd: its file stays. */
static void test_full_at_the_beginning(void **state)
{
    static const rlim_t disks[] = {0, 1, ENTRY_BYTES, 2 * ENTRY_BYTES + 100};
    uint8_t before[4096], now[4096];
    size_t bytes = file_read(before);

    (void)state;
    assert_int_equal(bytes, OWNERS * ENTRY_BYTES);
    for (unsigned i = 0; i < sizeof(disks) / sizeof(disks[0]); i++) {
        begin(disks[i]);
        assert_int_equal(said(OWNERS_FILE), 1);
        assert_int_equal(said("5 discriminators of the last vipd are reserved"), 1);
        assert_int_equal(file_read(now), bytes);
        assert_memory_equal(now, before, bytes);
        assert_int_equal(faccessat(dir_fd, PART, F_OK, 0), -1);
        own(100); /* vipd goes on without a file */
        end();
        assert_int_equal(file_read(now), bytes);
        assert_memory_equal(now, before, bytes);
    }
    begin(RLIM_INFINITY); /* there is room again */
    assert_int_equal(said("5 discriminators of the last vipd are reserved"), 1);
    own(200);
    end();
    assert_int_equal(file_read(now), bytes + ENTRY_BYTES);
}

/* A vipd could not make a file of its own. When a user loses a discriminator, the last vipd's file
 * goes: a later vipd must not keep the discriminator for this user. */
static void test_no_old_file_for_ever(void **state)
{
    uint64_t later_ns;

    (void)state;
    begin(0);
    later_ns = vipd_clock_now() + config->outlive_ns + 2000000000;
    assert_int_equal(faccessat(dir_fd, OWNERS_FILE, F_OK, 0), 0);
    for (unsigned i = 0; i < 3; i++)
        (void)nic_turn(vipd.nics[0].nic, later_ns);
    assert_int_equal(faccessat(dir_fd, OWNERS_FILE, F_OK, 0), -1);
    end();
    begin(RLIM_INFINITY);
    assert_int_equal(said("are reserved"), 0);
    end();
}

/* The disk becomes full later: the file gets no partial entries; one log line has the reason. */
static void test_full_later(void **state)
{
    static const uint8_t none[ENTRY_BYTES];
    uint8_t now[4096];

    (void)state;
    begin(RLIM_INFINITY);
    disk_ends_at(OWNERS * ENTRY_BYTES + 80);
    log_begin();
    own(100);
    own(101);
    log_end();
    disk_ends_at(RLIM_INFINITY);
    assert_int_equal(said(OWNERS_FILE), 1);
    own(102);
    end();
    assert_int_equal(file_read(now), (OWNERS + 3) * ENTRY_BYTES);
    assert_memory_equal(now + OWNERS * ENTRY_BYTES, none, ENTRY_BYTES);
    assert_memory_equal(now + (OWNERS + 1) * ENTRY_BYTES, none, ENTRY_BYTES);
    begin(RLIM_INFINITY);
    assert_int_equal(said("6 discriminators of the last vipd are reserved"), 1);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_full_at_the_beginning, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_old_file_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_later, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
