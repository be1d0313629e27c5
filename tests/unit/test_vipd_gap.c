/* For how long a loop took no turn, and the text of the reason. */
#include "vipd/turn_gap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/loop.h"

#define MS 1000000ull

/* A gap begins at the previous turn, or at the end of a sleep. If vipd woke later than the deadline
 * of the sleep, the gap begins at the deadline. */
static void test_length(void **state)
{
    struct gap gap = {.account = -1};

    (void)state;
    gap_begin(&gap, 1000 * MS);
    assert_int_equal(gap_end(&gap, 1000 * MS), 0);
    assert_int_equal(gap_end(&gap, 1003 * MS), 3 * MS);
    gap_slept(&gap, UINT64_MAX, 9000 * MS); /* there was no timer, so no part of the sleep counts */
    assert_int_equal(gap_end(&gap, 9001 * MS), MS);
    gap_slept(&gap, 9500 * MS, 9400 * MS); /* something arrived before the deadline */
    assert_int_equal(gap_end(&gap, 9402 * MS), 2 * MS);
    gap_slept(&gap, 9500 * MS, 9585 * MS); /* vipd woke 85 ms after the deadline */
    assert_int_equal(gap_end(&gap, 9586 * MS), 86 * MS);
    gap_deinit(&gap);
}

/* A packet woke vipd before its timer was due. The thread got no processor for 300 ms. */
static void test_no_processor(void **state)
{
    struct gap gap = {.account = memfd_create("account", MFD_CLOEXEC)};

    (void)state;
    gap.last = (struct gap_sample){.at_ns = 8000 * MS, .wait_ns = 700 * MS, .known = true};
    assert_int_equal(pwrite(gap.account, "5000000 705000000 3\n", 20, 0), 20);
    gap_slept(&gap, UINT64_MAX, 9000 * MS);
    assert_int_equal(gap.from_ns, 9000 * MS); /* the 5 ms may have been before the sleep */
    assert_int_equal(gap.last.at_ns, 9000 * MS);
    assert_int_equal(pwrite(gap.account, "5000000 1005000000 3\n", 21, 0), 21);
    gap_slept(&gap, UINT64_MAX, 9010 * MS);
    assert_int_equal(gap.from_ns, 9010 * MS); /* too early to read the account again */
    gap_slept(&gap, 9900 * MS, 9600 * MS);
    assert_int_equal(gap.from_ns, 9300 * MS);
    assert_int_equal(gap.last.at_ns, 9000 * MS); /* the account of the reason begins at this time */
    gap_slept(&gap, 9200 * MS, 9600 * MS);
    assert_int_equal(gap.from_ns, 9200 * MS);
    /* The timer was due long ago. The thread waited for no processor: SIGSTOP stopped it. */
    assert_int_equal(pwrite(gap.account, "5000000 705000000 3\n\n", 21, 0), 21);
    gap_slept(&gap, 9100 * MS, 9600 * MS);
    assert_int_equal(gap.from_ns, 9100 * MS);
    assert_int_equal(gap.last.at_ns, 9000 * MS);
    gap_deinit(&gap);
}

static void test_reason(void **state)
{
    struct gap_sample before = {.at_ns = 1000 * MS, .known = true};
    struct gap_sample after = {.at_ns = 1500 * MS,
                               .cpu_ns = 12 * MS,
                               .wait_ns = 395 * MS,
                               .voluntary = 3,
                               .involuntary = 15,
                               .known = true};
    char text[400];

    (void)state;
    gap_reason(412 * MS, 0, &before, &after, text, sizeof(text));
    assert_string_equal(text,
                        "no messages were moved for 412 ms; in the last 500 ms the thread had "
                        "12 ms of processor time, waited 395 ms for a processor, gave it away "
                        "3 times and lost it 15 times");
    gap_reason(412 * MS, 400 * MS, &before, &after, text, sizeof(text));
    assert_non_null(strstr(text, "for 412 ms, of which requests of programs took 400 ms; in the"));
    after.wait_ns = 3 * MS; /* as if SIGSTOP had stopped the thread */
    gap_reason(412 * MS, 0, &before, &after, text, sizeof(text));
    assert_non_null(strstr(text, "15 times; so it was stopped, or the computer was, or a system"));
    after.known = false;
    gap_reason(412 * MS, 0, &before, &after, text, sizeof(text));
    assert_string_equal(text, "no messages were moved for 412 ms; the kernel does not say why");
    gap_reason(412 * MS, 400 * MS, &before, &after, text, 20);
    assert_int_equal(strlen(text), 19);
}

/* The kernel's account of this thread must contain the processor time that it has just used. */
static void test_account(void **state)
{
    struct gap gap = {.account = -1};
    struct gap_sample before;
    struct timespec ts;
    uint64_t spent_ns;

    (void)state;
    gap_begin(&gap, vipd_clock_now());
    before = gap.last;
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        spent_ns = (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
    } while (spent_ns < before.cpu_ns + 30 * MS);
    gap_look(&gap, before.at_ns + GAP_SAMPLE_NS - 1);
    assert_int_equal(gap.last.cpu_ns, before.cpu_ns); /* too early to read the account again */
    gap_look(&gap, before.at_ns + GAP_SAMPLE_NS);
    assert_int_equal(gap.last.known, before.known);
    if (before.known)
        assert_true(gap.last.cpu_ns >= before.cpu_ns + 20 * MS);
    gap_deinit(&gap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_no_processor),
        cmocka_unit_test(test_reason),
        cmocka_unit_test(test_account),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
