/* Known values of CRC32C, for the tests of both implementations. Include after cmocka.h. */
#ifndef TESTS_UNIT_CRC_KNOWN_H
#define TESTS_UNIT_CRC_KNOWN_H

#include <stdint.h>
#include <string.h>

/* The examples of RFC 3720, B.4, and the usual check of nine digits. */
static void crc_known(uint32_t (*crc_of)(const void *bytes, size_t len))
{
    uint8_t bytes[32];

    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x62a8ab43);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x46dd794e);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(31 - i);
    assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x113fdb5c);
    assert_int_equal(crc_of("123456789", 9), 0xe3069283);
    assert_int_equal(crc_of(bytes, 0), 0);
}

#endif
