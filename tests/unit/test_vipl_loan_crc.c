/* The library's own CRC32C: with the processor's instruction and without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The test sees the functions of the file; the library's objects have it, too. */
#define vip_crc_add crc_under_test
#include "libvipl/loan/crc.c"
#undef vip_crc_add

enum { BYTES = 300 };

static uint32_t crc_of(const void *bytes, size_t len)
{
    return ~crc_under_test(VIP_CRC_START, bytes, len);
}

/* The examples of RFC 3720, B.4, and the usual check of nine digits. */
static void known_values(void **state)
{
    uint8_t bytes[32];

    (void)state;
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x62a8ab43);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x46dd794e);
    assert_int_equal(crc_of("123456789", 9), 0xe3069283);
    assert_int_equal(crc_of("", 0), 0);
}

/* Every length and alignment, in one part and in two. */
static void both_ways_agree(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values),
        cmocka_unit_test(both_ways_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
