/* The library's own CRC32C: each way that this processor has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The test sees the functions of the file; the library's objects have it, too. */
#define vip_crc_add crc_under_test
#include "libvipl/loan/crc.c"
#undef vip_crc_add
#include "unit/crc_known.h"

enum { BYTES = 1500 };

static uint32_t crc_of(const void *bytes, size_t len)
{
    return ~crc_under_test(VIP_CRC_START, bytes, len);
}

static void known_values(void **state)
{
    (void)state;
    crc_known(crc_of);
}

/* Every length and alignment, in one part and in two. */
static void parts_agree(void **state)
{
    uint8_t bytes[BYTES];

    (void)state;
    for (unsigned i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    for (unsigned from = 0; from < 9; from++)
        for (unsigned len = 0; len <= BYTES - 9; len++) {
            uint32_t want = add_table(VIP_CRC_START, bytes + from, len);

            assert_int_equal(crc_under_test(VIP_CRC_START, bytes + from, len), want);
            assert_int_equal(crc_under_test(crc_under_test(VIP_CRC_START, bytes + from, len / 3),
                                            bytes + from + len / 3, len - len / 3),
                             want);
        }
}

#if defined(__x86_64__)
/* The ways that a processor without wide folds, or without folds, takes. */
static void each_way_agrees(void **state)
{
    uint8_t bytes[BYTES];

    (void)state;
    for (unsigned i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 101 + i / 7);
    for (unsigned len = 0; len <= BYTES; len++) {
        uint32_t want = add_table(0x12345678, bytes, len);

        if (has_instruction())
            assert_int_equal(add_instruction(0x12345678, bytes, len), want);
        if (len >= FOLD_BYTES && has_folds())
            assert_int_equal(add_folds(0x12345678, bytes, len), want);
        if (len >= WIDE_BYTES && has_wide_folds())
            assert_int_equal(add_wide_folds(0x12345678, bytes, len), want);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(parts_agree),
#if defined(__x86_64__)
        cmocka_unit_test(each_way_agrees),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
