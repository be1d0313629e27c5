/* The notes that two vipperf exchange (tools/vipperf/plan.h): what one writes the other reads. */
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
    .remote_addr = 0xFFFF800012345678ull,
    .remote_handle = 0xFFFFFFFE,
};

static void a_plan_survives_the_note(void **state)
{
    struct note note = {0};
    struct plan plan;
    uint64_t number;
    char why[128];

    plan_put(&note, &example);
    assert_true(plan_get(&note, &plan, why, sizeof(why)));
    assert_int_equal(plan.test, example.test);
    assert_int_equal(plan.op, example.op);
    assert_int_equal(plan.level, example.level);
    assert_int_equal(plan.wait, example.wait);
    assert_int_equal(plan.size_bytes, example.size_bytes);
    assert_int_equal(plan.window, example.window);
    assert_true(plan.seed == example.seed);
    assert_true(plan.cq && plan.verify && plan.random_sizes);
    assert_true(plan.remote_addr == example.remote_addr);
    assert_true(plan.remote_handle == example.remote_handle);
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

/* A value cannot forge a line, and what does not fit is left out as a whole. */
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
        cmocka_unit_test(notes_stay_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
