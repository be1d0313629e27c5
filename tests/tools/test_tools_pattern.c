/* vipperf's contents: a message is correct only if every byte is correct (tools/vipperf/pattern.h). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "tools/vipperf/pattern.h"

#define SEED 7

/* Damage each byte of messages of many lengths once. The check must find the position of each. */
static void every_damaged_byte_is_found(void **state)
{
    static uint8_t bytes[300];

    for (size_t len = 0; len <= 67; len++) {
        pattern_fill(bytes, len, SEED, 42);
        assert_true(pattern_check(bytes, len, SEED, 42, NULL));
        for (size_t i = 0; i < len; i++) {
            struct pattern_fault fault = {0};
            uint8_t right = bytes[i];

            bytes[i] ^= 0x10;
            assert_false(pattern_check(bytes, len, SEED, 42, &fault));
            assert_int_equal(fault.offset, i);
            assert_int_equal(fault.expected, right);
            assert_int_equal(fault.found, right ^ 0x10);
            assert_false(pattern_check(bytes, len, SEED, 42, NULL));
            bytes[i] = right;
        }
    }
}

static void another_message_is_wrong(void **state)
{
    static uint8_t bytes[4096];

    for (uint64_t number = 0; number < 200; number++) {
        pattern_fill(bytes, sizeof(bytes), SEED, number);
        assert_true(pattern_check(bytes, sizeof(bytes), SEED, number, NULL));
        assert_false(pattern_check(bytes, sizeof(bytes), SEED, number + 1, NULL));
        assert_false(pattern_check(bytes, sizeof(bytes), SEED + 1, number, NULL));
    }
}

/* A message must be wrong if two of its packets are exchanged, or if its bytes are shifted. */
static void swapped_and_shifted_parts_are_wrong(void **state)
{
    static uint8_t bytes[4096], other[4096];

    pattern_fill(bytes, sizeof(bytes), SEED, 3);
    memcpy(other, bytes + 2048, 2048);
    memcpy(other + 2048, bytes, 2048);
    assert_false(pattern_check(other, sizeof(other), SEED, 3, NULL));
    for (size_t shift = 1; shift <= 64; shift++)
        assert_false(pattern_check(bytes + shift, 1024, SEED, 3, NULL));
}

static void buffers_may_lie_anywhere(void **state)
{
    static uint8_t bytes[200];

    for (size_t at = 0; at < 16; at++) {
        memset(bytes, 0xEE, sizeof(bytes));
        pattern_fill(bytes + at, 100, SEED, 9);
        assert_true(pattern_check(bytes + at, 100, SEED, 9, NULL));
        assert_int_equal(bytes[at + 100], 0xEE);
        if (at > 0)
            assert_int_equal(bytes[at - 1], 0xEE);
    }
}

static void random_sizes_cover_the_range(void **state)
{
    unsigned seen[5] = {0};
    uint64_t largest = 0;

    for (uint64_t number = 0; number < 5000; number++) {
        uint64_t size = pattern_size(SEED, number, 4);

        assert_in_range(size, 0, 4);
        assert_int_equal(size, pattern_size(SEED, number, 4));
        seen[size]++;
        size = pattern_size(SEED, number, 1 << 20);
        assert_in_range(size, 0, 1 << 20);
        if (size > largest)
            largest = size;
    }
    for (unsigned i = 0; i < 5; i++)
        assert_in_range(seen[i], 800, 1200);
    assert_true(largest > 1000000);
    assert_int_equal(pattern_size(SEED, 1, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_damaged_byte_is_found),
        cmocka_unit_test(another_message_is_wrong),
        cmocka_unit_test(swapped_and_shifted_parts_are_wrong),
        cmocka_unit_test(buffers_may_lie_anywhere),
        cmocka_unit_test(random_sizes_cover_the_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
