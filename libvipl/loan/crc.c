/*
 * CRC32C for libvipl, which links libc only (proto/crc.h; vipd uses ISA-L). An instruction of the
 * processor computes it, where there is one. Long parts are first folded, where the processor can
 * multiply without carries.
 */
#include "proto/crc.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
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
#define WITH_CRC        __attribute__((target("sse4.2")))
#define WITH_FOLDS      __attribute__((target("sse4.2,pclmul")))
#define WITH_WIDE_FOLDS __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))

enum { FOLD_BYTES = 64, WIDE_BYTES = 256 };

static bool has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2") != 0;
}

static bool has_folds(void)
{
    return has_instruction() && __builtin_cpu_supports("pclmul") != 0;
}

static bool has_wide_folds(void)
{
    return has_folds() && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("vpclmulqdq") != 0;
}

WITH_CRC static uint32_t add_instruction(uint32_t crc, const uint8_t *at, size_t len)
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

/*
 * Folding. The instruction above needs the result of the one before it. Folds do not: they shorten
 * the bytes to 16 that have the same checksum. To fold 16 bytes is to replace them by a product
 * that has the same rest and stands FACTOR_n bits later, and to add it to the bytes there. The two
 * numbers of FACTOR_n are, for the first and the second 8 bytes, the rests of the powers n + 32 and
 * n - 32 of x by the polynomial of CRC32C, bits reversed, and shifted left by one bit. The checksum
 * of earlier bytes is added to the first 4 bytes.
 */
#define FACTOR_128  _mm_set_epi64x(0x14cd00bd6, 0xf20c0dfe)
#define FACTOR_512  _mm_set_epi64x(0x9e4addf8, 0x740eef02)
#define FACTOR_2048 _mm_set_epi64x(0xb9e02b86, 0xdcb17aa4)

WITH_FOLDS static inline __m128i load(const uint8_t *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

WITH_FOLDS static inline __m128i fold(__m128i sum, __m128i factor, __m128i later)
{
    __m128i first = _mm_clmulepi64_si128(sum, factor, 0x00);
    __m128i second = _mm_clmulepi64_si128(sum, factor, 0x11);

    return _mm_xor_si128(_mm_xor_si128(first, second), later);
}

WITH_FOLDS static uint32_t folded(__m128i sum)
{
    uint64_t crc = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(sum));

    return (uint32_t)_mm_crc32_u64(crc, (uint64_t)_mm_extract_epi64(sum, 1));
}

/* len: at least FOLD_BYTES */
WITH_FOLDS static uint32_t add_folds(uint32_t crc, const uint8_t *at, size_t len)
{
    __m128i sum[4];

    for (unsigned i = 0; i < 4; i++)
        sum[i] = load(at + 16 * i);
    sum[0] = _mm_xor_si128(sum[0], _mm_cvtsi32_si128((int)crc));
    for (at += FOLD_BYTES, len -= FOLD_BYTES; len >= FOLD_BYTES;
         at += FOLD_BYTES, len -= FOLD_BYTES)
        for (unsigned i = 0; i < 4; i++)
            sum[i] = fold(sum[i], FACTOR_512, load(at + 16 * i));
    for (unsigned i = 1; i < 4; i++)
        sum[0] = fold(sum[0], FACTOR_128, sum[i]);
    return add_instruction(folded(sum[0]), at, len);
}

WITH_WIDE_FOLDS static inline __m512i fold4(__m512i sum, __m512i factor, __m512i later)
{
    __m512i first = _mm512_clmulepi64_epi128(sum, factor, 0x00);
    __m512i second = _mm512_clmulepi64_epi128(sum, factor, 0x11);

    return _mm512_xor_si512(_mm512_xor_si512(first, second), later);
}

/* The same with four folds per instruction. len: at least WIDE_BYTES */
WITH_WIDE_FOLDS static uint32_t add_wide_folds(uint32_t crc, const uint8_t *at, size_t len)
{
    __m512i far = _mm512_broadcast_i32x4(FACTOR_2048), near = _mm512_broadcast_i32x4(FACTOR_512);
    __m512i sum[4];
    __m128i one;

    for (unsigned i = 0; i < 4; i++)
        sum[i] = _mm512_loadu_si512(at + 64 * i);
    sum[0] = _mm512_xor_si512(sum[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (at += WIDE_BYTES, len -= WIDE_BYTES; len >= WIDE_BYTES;
         at += WIDE_BYTES, len -= WIDE_BYTES)
        for (unsigned i = 0; i < 4; i++)
            sum[i] = fold4(sum[i], far, _mm512_loadu_si512(at + 64 * i));
    for (unsigned i = 1; i < 4; i++)
        sum[0] = fold4(sum[0], near, sum[i]);
    for (; len >= FOLD_BYTES; at += FOLD_BYTES, len -= FOLD_BYTES)
        sum[0] = fold4(sum[0], near, _mm512_loadu_si512(at));
    one = _mm512_castsi512_si128(sum[0]);
    one = fold(one, FACTOR_128, _mm512_extracti32x4_epi32(sum[0], 1));
    one = fold(one, FACTOR_128, _mm512_extracti32x4_epi32(sum[0], 2));
    one = fold(one, FACTOR_128, _mm512_extracti32x4_epi32(sum[0], 3));
    return add_instruction(folded(one), at, len);
}

static uint32_t add_best(uint32_t crc, const uint8_t *at, size_t len)
{
    if (len >= WIDE_BYTES && has_wide_folds())
        return add_wide_folds(crc, at, len);
    if (len >= FOLD_BYTES && has_folds())
        return add_folds(crc, at, len);
    return has_instruction() ? add_instruction(crc, at, len) : add_table(crc, at, len);
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

static uint32_t add_best(uint32_t crc, const uint8_t *at, size_t len)
{
    return has_instruction() ? add_instruction(crc, at, len) : add_table(crc, at, len);
}
#else
#define add_best add_table
#endif

uint32_t vip_crc_add(uint32_t crc, const void *bytes, size_t len_bytes)
{
    return add_best(crc, bytes, len_bytes);
}
