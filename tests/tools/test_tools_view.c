/* vipctl's output of single values (tools/vipctl/view.h). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/control.pb-c.h"
#include "tools/vipctl/view.h"

static void check_text(enum field_kind kind, uint64_t value, const char *expected)
{
    struct column column = COLUMN(FIELD_COUNT, Vip__NicRow, "X", "x", tx_bytes);
    Vip__NicRow row = VIP__NIC_ROW__INIT;
    char text[64];

    column.kind = kind;
    row.has_tx_bytes = true;
    row.tx_bytes = value;
    view_format(&column, &row, text, sizeof(text));
    assert_string_equal(text, expected);
}

static void values_have_units_that_compare(void **state)
{
    check_text(FIELD_COUNT, 0, "0");
    check_text(FIELD_COUNT, UINT64_MAX, "18446744073709551615");
    check_text(FIELD_BYTES, 0, "0 B");
    check_text(FIELD_BYTES, 1023, "1023 B");
    check_text(FIELD_BYTES, 1024, "1 KiB");
    check_text(FIELD_BYTES, 1536, "1.5 KiB");
    check_text(FIELD_BYTES, 150 * 1024 + 1, "150 KiB");
    check_text(FIELD_BYTES, 1ull << 30, "1 GiB");
    check_text(FIELD_BYTES, UINT64_MAX, "16 EiB");
    check_text(FIELD_NS, 999, "999 ns");
    check_text(FIELD_NS, 12345, "12.3 us");
    check_text(FIELD_NS, 2500000, "2.5 ms");
    check_text(FIELD_NS, 3000000000ull, "3.0 s");
    check_text(FIELD_MS, 20, "20 ms");
    check_text(FIELD_MS, 59999, "59 s");
    check_text(FIELD_MS, 65000, "1 min 05 s");
    check_text(FIELD_MS, 3660000, "1 h 01 min");
    check_text(FIELD_MS, 90000000, "1 d 01 h");
    check_text(FIELD_HEX, 0x7f0000001000ull, "0x7f0000001000");
}

static void what_vipd_did_not_say_is_a_dash(void **state)
{
    const struct column number = COLUMN(FIELD_BYTES, Vip__NicRow, "X", "x", tx_bytes);
    const struct column words = COLUMN_TEXT(Vip__NicRow, "X", "x", name);
    Vip__NicRow row = VIP__NIC_ROW__INIT;
    char text[64];

    view_format(&number, &row, text, sizeof(text));
    assert_string_equal(text, "-");
    view_format(&words, &row, text, sizeof(text));
    assert_string_equal(text, "-");
}

static void check_json(const char *text, const char *expected)
{
    char *written = NULL;
    size_t written_bytes = 0;
    FILE *out = open_memstream(&written, &written_bytes);

    assert_non_null(out);
    view_json_string(out, text);
    fclose(out);
    assert_string_equal(written, expected);
    free(written);
}

static void strings_are_valid_json_whatever_a_program_calls_itself(void **state)
{
    check_json("", "\"\"");
    check_json("plain", "\"plain\"");
    check_json("a\"b\\c", "\"a\\\"b\\\\c\"");
    check_json("tab\tesc\x1b[31m\x7f", "\"tab\\u0009esc\\u001b[31m\\u007f\"");
    check_json("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"");
    check_json("\xff", "\"\\ufffd\"");
    check_json("\xc3", "\"\\ufffd\"");
    check_json("\xc3x", "\"\\ufffdx\"");
    check_json("\xc0\x80", "\"\\ufffd\\ufffd\"");
    check_json("\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\"");
    check_json("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
    check_json("\xf0\x80\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    check_json("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_units_that_compare),
        cmocka_unit_test(what_vipd_did_not_say_is_a_dash),
        cmocka_unit_test(strings_are_valid_json_whatever_a_program_calls_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
