/*
 * The history of vipd: events in order, and distinct errors with counts. The numbers of events and
 * errors are limited, and users share the room.
 */
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
    note(history, 11 * SEC, "A"); /* one second after the first event */
    note(history, 11 * SEC, "B");
    assert_int_equal(history->error_count, 2);
    assert_int_equal(history->errors[0].count, 3);
    assert_int_equal(history->errors[0].first_ns, 10 * SEC);
    assert_int_equal(history->errors[0].last_ns, 11 * SEC);
    assert_string_equal(history->errors[0].last.text, "because?[1m");
    assert_string_equal(history->errors[0].last.program, "prog?");
    assert_int_equal(history->errors[1].count, 1);

    /* The repetition within a second is counted, but is not an event. */
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

/* The same fault of another session is another event; so is a fault after the clock went back. */
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
    note(history, 2000 * SEC, "error 0"); /* error 0 occurs again, so it is not the oldest now */
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

static struct history_who user(uid_t uid)
{
    struct history_who who = somebody;

    who.uid = uid;
    return who;
}

static void note_opens(struct history *history, uid_t uid, unsigned times)
{
    struct history_who who = user(uid);

    for (unsigned i = 0; i < times; i++)
        history_note(history, 1, HISTORY_OPEN, false, &who, "open", NULL);
}

/* Returns the number of the user's events. The numbers of all events must increase. */
static unsigned events_of(const struct history *history, uid_t uid)
{
    const struct history_event *event;
    unsigned count = 0, all = 0;

    for (uint64_t from = 0; (event = history_event_from(history, from)); from = event->number + 1) {
        assert_true(event->number >= from);
        count += event->uid == uid;
        all++;
    }
    assert_int_equal(all, history->event_count);
    assert_in_range(all, 0, HISTORY_EVENTS);
    return count;
}

static void test_a_flood_of_one_user_takes_no_event_of_another(void **state)
{
    struct history *history = history_new();
    uint64_t next;

    (void)state;
    note_opens(history, 1, 10);
    note_opens(history, 2, 3 * HISTORY_EVENTS);
    assert_int_equal(events_of(history, 1), 10);
    assert_int_equal(events_of(history, 2), HISTORY_EVENTS - 10);
    assert_int_equal(history_event_from(history, 0)->number, 1);
    /* A reader of the ten events goes on with the events of the flood that still exist. */
    assert_int_equal(history_event_from(history, 11)->number,
                     10 + 3 * HISTORY_EVENTS - (HISTORY_EVENTS - 10) + 1);
    next = history->next;
    assert_null(history_event_from(history, next));

    /* New events of user 1 replace only the flood's events, until both have the same number. */
    note_opens(history, 1, 1);
    assert_int_equal(history_event_from(history, next)->uid, 1);
    assert_int_equal(events_of(history, 1), 11);
    note_opens(history, 1, HISTORY_EVENTS);
    assert_int_equal(events_of(history, 1), HISTORY_EVENTS / 2);
    assert_int_equal(events_of(history, 2), HISTORY_EVENTS / 2);
    assert_int_equal(history->user_count, 2);
    history_free(history);
}

/* There are more users than room. Each new event replaces an event of some user. Users without
 * events and errors are forgotten. */
static void test_many_users(void **state)
{
    struct history *history = history_new();

    (void)state;
    for (uid_t uid = 1; uid <= HISTORY_EVENTS; uid++)
        note_opens(history, uid, 1);
    for (uid_t uid = 1; uid <= HISTORY_ERRORS; uid++) {
        struct history_who who = user(1000000 + uid);

        history_note(history, uid * SEC, HISTORY_ASYNC, true, &who, "A", NULL);
    }
    for (uid_t uid = 1; uid <= 10; uid++) {
        note_opens(history, 2000000 + uid, 2);
        assert_int_equal(events_of(history, 2000000 + uid),
                         1); /* the second event replaced the first one */
    }
    assert_int_equal(history->event_count, HISTORY_EVENTS);
    assert_int_equal(history->error_count, HISTORY_ERRORS);
    assert_in_range(history->user_count, HISTORY_EVENTS, HISTORY_USERS - 1);
    for (uint32_t i = 0; i < history->user_count; i++)
        assert_true(history->users[i].events + history->users[i].errors > 0);
    history_free(history);
}

static void test_errors_of_users_are_apart(void **state)
{
    struct history *history = history_new();
    struct history_who victim = user(1), flood = user(2);
    char key[40];

    (void)state;
    victim.session = 7;
    flood.session = 8;
    history_note(history, 10 * SEC, HISTORY_ASYNC, true, &victim, "A", "its reason");
    history_note(history, 11 * SEC, HISTORY_ASYNC, true, &flood, "A", "another reason");
    assert_int_equal(history->error_count, 2);
    assert_int_equal(history->errors[0].count, 1);
    assert_int_equal(history->errors[0].last.session, 7);
    assert_string_equal(history->errors[0].last.text, "its reason");
    assert_int_equal(history->errors[1].last.session, 8);
    /* The flood makes more errors than there is room for, all later. The victim's error stays. */
    for (unsigned i = 0; i < 2 * HISTORY_ERRORS; i++) {
        snprintf(key, sizeof(key), "error %u", i);
        history_note(history, (12 + i) * SEC, HISTORY_ASYNC, true, &flood, key, NULL);
    }
    assert_int_equal(history->error_count, HISTORY_ERRORS);
    assert_string_equal(history->errors[0].last.text, "its reason");
    assert_int_equal(history->forgotten, 2 * HISTORY_ERRORS + 2 - HISTORY_ERRORS);
    history_free(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_are_counted),
        cmocka_unit_test(test_sessions_and_clock),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_a_flood_of_one_user_takes_no_event_of_another),
        cmocka_unit_test(test_many_users),
        cmocka_unit_test(test_errors_of_users_are_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
