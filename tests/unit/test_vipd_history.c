/* Events in order, distinct errors counted, both bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "vipd/history.h"

#define SEC 1000000000ull

static const struct history_who somebody = {
    .session = 7, .vi = 3, .pid = 42, .uid = 1000, .program = "prog\n", .nic = "vip0"};

static void note(struct history *history, uint64_t now_ns, const char *key)
{
    history_note(history, now_ns, HISTORY_ASYNC, true, &somebody, key, "because\x1b[1m");
}

static void test_errors_are_counted(void **state)
{
    struct history *history = history_new();
    const struct history_event *event;

    (void)state;
    assert_null(history_event_from(history, 0));
    note(history, 10 * SEC, "A");
    note(history, 10 * SEC + 1, "A");
    note(history, 11 * SEC, "A"); /* a second after the first one */
    note(history, 11 * SEC, "B");
    assert_int_equal(history->error_count, 2);
    assert_int_equal(history->errors[0].count, 3);
    assert_int_equal(history->errors[0].first_ns, 10 * SEC);
    assert_int_equal(history->errors[0].last_ns, 11 * SEC);
    assert_string_equal(history->errors[0].last.text, "because?[1m");
    assert_string_equal(history->errors[0].last.program, "prog?");
    assert_int_equal(history->errors[1].count, 1);

    /* The repetition within the same second is counted, not kept. */
    event = history_event_from(history, 0);
    assert_int_equal(event->number, 1);
    assert_int_equal(event->vi, 3);
    event = history_event_from(history, 2);
    assert_int_equal(event->time_ns, 11 * SEC);
    assert_string_equal(event->key, "A");
    event = history_event_from(history, 3);
    assert_string_equal(event->key, "B");
    assert_null(history_event_from(history, 4));
    history_free(history);
}

/* The same kind of fault of another session is an event of its own; the clock may go back. */
static void test_sessions_and_clock(void **state)
{
    struct history *history = history_new();
    struct history_who other = somebody;

    (void)state;
    other.session = 8;
    note(history, 10 * SEC, "A");
    history_note(history, 10 * SEC, HISTORY_ASYNC, true, &other, "A", NULL);
    note(history, 5 * SEC, "A");
    assert_int_equal(history->errors[0].count, 3);
    assert_int_equal(history->next, 4);
    /* Equal keys of different kinds are different errors. */
    history_note(history, 10 * SEC, HISTORY_REFUSED, true, &other, "A", NULL);
    assert_int_equal(history->error_count, 2);
    history_note(NULL, 0, HISTORY_OPEN, false, &somebody, "A", NULL);
    history_free(history);
}

static void test_bounds(void **state)
{
    struct history *history = history_new();
    char key[80];

    (void)state;
    for (unsigned i = 0; i < HISTORY_EVENTS + 10; i++)
        history_note(history, i, HISTORY_OPEN, false, &somebody, "open", NULL);
    assert_int_equal(history_event_from(history, 0)->number, 11);
    assert_int_equal(history_event_from(history, HISTORY_EVENTS + 10)->number, HISTORY_EVENTS + 10);
    for (unsigned i = 0; i < HISTORY_ERRORS; i++) {
        snprintf(key, sizeof(key), "error %u", i);
        note(history, (i + 1) * SEC, key);
    }
    note(history, 2000 * SEC, "error 0"); /* used again: not the oldest any more */
    note(history, 2001 * SEC,
         "one more, with a name that is longer than a key may be, which is cut");
    assert_int_equal(history->error_count, HISTORY_ERRORS);
    assert_int_equal(history->forgotten, 1);
    assert_int_equal(history->errors[0].count, 2);
    assert_string_equal(history->errors[1].last.key,
                        "one more, with a name that is longer than a key");
    assert_int_equal(history->errors[1].count, 1);
    for (enum history_kind kind = 0; kind < HISTORY_KINDS; kind++)
        assert_non_null(history_kind_name(kind));
    history_free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_counted),
        cmocka_unit_test(test_sessions_and_clock),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
