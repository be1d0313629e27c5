/*
 * CRC32C for libvipl, which links libc only (proto/crc.h; vipd uses ISA-L). An instruction of the
 * processor computes it, where there is one.
 */
#include "proto/crc.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

/* What four bits that leave the checksum add to the rest of it, by the value of these bits. */
static const uint32_t nibble[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static uint32_t add_table(uint32_t crc, const uint8_t *at, size_t len)
{
    for (; len; len--, at++) {
        crc ^= *at;
        crc = crc >> 4 ^ nibble[crc & 15];
        crc = crc >> 4 ^ nibble[crc & 15];
    }
    return crc;
}

#if defined(__x86_64__)
static bool has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

__attribute__((target("sse4.2"))) static uint32_t add_instruction(uint32_t crc, const uint8_t *at,
                                                                  size_t len)
{
    uint64_t sum = crc, word;

    for (; len >= sizeof(word); len -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        sum = _mm_crc32_u64(sum, word);
    }
    crc = (uint32_t)sum;
    for (; len; len--, at++)
        crc = _mm_crc32_u8(crc, *at);
    return crc;
}
#elif defined(__aarch64__)
static bool has_instruction(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

__attribute__((target("+crc"))) static uint32_t add_instruction(uint32_t crc, const uint8_t *at,
                                                                size_t len)
{
    uint64_t word;

    for (; len >= sizeof(word); len -= sizeof(word), at += sizeof(word)) {
        memcpy(&word, at, sizeof(word));
        crc = __crc32cd(crc, word);
    }
    for (; len; len--, at++)
        crc = __crc32cb(crc, *at);
    return crc;
}
#else
static bool has_instruction(void)
{
    return false;
}

#define add_instruction add_table
#endif

uint32_t vip_crc_add(uint32_t crc, const void *bytes, size_t len_bytes)
{
    return has_instruction() ? add_instruction(crc, bytes, len_bytes)
                             : add_table(crc, bytes, len_bytes);
}
