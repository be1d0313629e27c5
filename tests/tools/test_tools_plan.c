/* The notes of two vipperf processes (tools/vipperf/plan.h): each must read the other's notes. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tools/vipperf/plan.h"

static const struct plan example = {
    .test = PLAN_BW,
    .op = PLAN_WRITE_IMM,
    .level = PLAN_RR,
    .wait = PLAN_BLOCK,
    .size_bytes = 4194304,
    .window = 17,
    .seed = UINT64_MAX - 1,
    .cq = true,
    .verify = true,
    .random_sizes = true,
    .segments = 252,
    .buffers = 128,
    .apart = true,
    .both_ways = true,
    .own = {.addr = 0xFFFF800012345678ull, .handle = 0xFFFFFFFE},
};

static void a_plan_survives_the_note(void **state)
{
    struct note note = {0};
    struct plan sent = example, plan;
    uint64_t number;
    char why[128];

    /* Add the largest number of handles, each with the largest number of digits. */
    for (uint32_t i = 0; i < PLAN_APART_MAX; i++)
        sent.own.handles[sent.own.handle_count++] = 0xFFFFFF00 + i;
    plan_put(&note, &sent);
    assert_true(plan_get(&note, &plan, why, sizeof(why)));
    assert_int_equal(plan.test, example.test);
    assert_int_equal(plan.op, example.op);
    assert_int_equal(plan.level, example.level);
    assert_int_equal(plan.wait, example.wait);
    assert_int_equal(plan.size_bytes, example.size_bytes);
    assert_int_equal(plan.window, example.window);
    assert_true(plan.seed == example.seed);
    assert_true(plan.cq && plan.verify && plan.random_sizes);
    assert_int_equal(plan.segments, example.segments);
    assert_int_equal(plan.buffers, example.buffers);
    assert_true(plan.apart && plan.both_ways);
    assert_memory_equal(&plan.own, &sent.own, sizeof(plan.own));
    assert_true(note_get_number(&note, "protocol", &number));
    assert_int_equal(number, PLAN_PROTOCOL);
}

static void a_missing_or_unknown_word_is_named(void **state)
{
    static const char *const wrong[] = {
        "",
        "test=lat\n",
        "test=dance\nop=send\nreliability=rd\nwait=poll\n",
        "test=lat\nop=send\nreliability=rd\nwait=poll\nsize_bytes=1x\n",
        "test=lat\nop=send\nreliability=rd\nwait=poll\nsize_bytes=-1\n",
        "test=lat\nop=send\nreliability=rd\nwait=poll\nsize_bytes=99999999999999999999\n",
        "test=lat\nop=send\nreliability=rd\nwait=poll\nsize_bytes=\n",
    };
    static const char *const named[] = {"test",       "op",         "test",      "size_bytes",
                                        "size_bytes", "size_bytes", "size_bytes"};

    for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct note note = {.len_bytes = strlen(wrong[i])};
        char why[128], quoted[32];
        struct plan plan;

        memcpy(note.text, wrong[i], note.len_bytes + 1);
        assert_false(plan_get(&note, &plan, why, sizeof(why)));
        snprintf(quoted, sizeof(quoted), "\"%s\"", named[i]);
        assert_non_null(strstr(why, quoted));
    }
}

/* target_get must refuse a malformed list of the other host's handles. */
static void handles_that_are_none_are_refused(void **state)
{
    static const char *const wrong[] = {"1", "1 2", "x ", "1  2 ", "100000000 ", "1 -"};
    struct plan_target target;
    char many[2 * PLAN_APART_MAX + 3] = "";

    for (unsigned i = 0; i <= PLAN_APART_MAX; i++)
        strcat(many, "1 ");
    for (unsigned i = 0; i <= sizeof(wrong) / sizeof(*wrong); i++) {
        struct note note = {0};

        note_put_number(&note, "remote_addr", 1);
        note_put_number(&note, "remote_handle", 1);
        assert_false(target_get(&note, &target));
        note_put(&note, "remote_handles", i < sizeof(wrong) / sizeof(*wrong) ? wrong[i] : many);
        assert_false(target_get(&note, &target));
    }
}

/* A value with a line break must not make a second line. A line that does not fit is left out. */
static void notes_stay_lines(void **state)
{
    static char big[NOTE_BYTES_MAX];
    struct note note = {0};
    char text[64];

    note_put(&note, "why", "first\nstatus=ok");
    assert_false(note_get(&note, "status", text, sizeof(text)));
    assert_true(note_get(&note, "why", text, sizeof(text)));
    assert_string_equal(text, "first status=ok");
    memset(big, 'x', sizeof(big) - 1);
    note_put(&note, "big", big);
    assert_false(note_get(&note, "big", text, sizeof(text)));
    note_put(&note, "after", "here");
    assert_true(note_get(&note, "after", text, sizeof(text)));
    assert_string_equal(text, "here");
    assert_false(note_get(&note, "afte", text, sizeof(text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_survives_the_note),
        cmocka_unit_test(a_missing_or_unknown_word_is_named),
        cmocka_unit_test(handles_that_are_none_are_refused),
        cmocka_unit_test(notes_stay_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
