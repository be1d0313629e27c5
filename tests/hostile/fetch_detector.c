/*
 * Tests the double-fetch detector (proto/fetch.h): two loads of the same memory within one
 * transaction end the process, also if their widths differ, or if one is in an inner transaction.
 * Loads in different transactions do not end it.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/ring.h"

static struct vip_sq_slot ring[VIP_SQ_SLOTS];

static void read_once(void)
{
    struct vip_sq_slot copy;

    vip_fetch_begin();
    (void)vip_sq_read(ring, 0, &copy);
    (void)vip_sq_read(ring, 1, &copy);
    vip_fetch_end();
    vip_fetch_begin();
    (void)vip_sq_read(ring, 0, &copy);
    vip_fetch_end();
}

static void read_twice(void)
{
    struct vip_sq_slot copy;

    vip_fetch_begin();
    (void)vip_sq_read(ring, 0, &copy);
    (void)vip_load32(&ring[0].length);
    vip_fetch_end();
}

static void read_twice_inside(void)
{
    vip_fetch_begin();
    (void)vip_load32(&ring[0].length);
    vip_fetch_begin();
    (void)vip_load64((const uint64_t *)(const void *)&ring[0].control);
    vip_fetch_end();
    vip_fetch_end();
}

static void read_outside(void)
{
    (void)vip_load32(&ring[0].length);
}

/* Run the function in a child process. Returns the signal that ended the child, or 0. */
static int ends_with(void (*function)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        (void)close(2);
        function();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_detector(void **state)
{
    struct vip_sq_slot slot = {.kind = VIP_SQ_SEND};

    (void)state;
    vip_sq_write(ring, 0, &slot);
    assert_int_equal(ends_with(read_once), 0);
    assert_int_equal(ends_with(read_twice), SIGABRT);
    assert_int_equal(ends_with(read_twice_inside), SIGABRT);
    assert_int_equal(ends_with(read_outside), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_detector)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
