/* Log lines for the administrator: they are complete, and vipd never waits until they are read. */
#include "vipd/link/link.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/log.h"

static int ends[2], saved;

/* stderr is a pipe from now on. */
static int setup(void **state)
{
    (void)state;
    saved = dup(STDERR_FILENO);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static void test_whole_lines(void **state)
{
    char bytes[4096], longer[2000];
    ssize_t got;

    (void)state;
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    link_say("udp %s: down (%s)", "127.0.0.1", "no carrier");
    got = read(ends[0], bytes, sizeof(bytes));
    assert_int_equal(got, strlen("vipd: udp 127.0.0.1: down (no carrier)\n"));
    assert_memory_equal(bytes, "vipd: udp 127.0.0.1: down (no carrier)\n", got);
    link_say("%s", longer);
    got = read(ends[0], bytes, sizeof(bytes));
    assert_in_range(got, 1000, 1024);
    assert_int_equal(bytes[got - 1], '\n');
}

/* The reader of the log has stopped; the pipe is full. If vipd waited, this test would not end. */
static void test_no_reader(void **state)
{
    static const char page[4096];

    (void)state;
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], page, sizeof(page)) > 0)
        ;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    errno = EXFULL;
    link_say("ether %s: up", "eth0");
    vipd_log(VIPD_LOG_ERROR, "a line of the daemon itself");
    assert_int_equal(errno, EXFULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_reader, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
