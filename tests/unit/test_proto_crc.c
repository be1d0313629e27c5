/* proto/crc.h: the checksum, and the state of the processor's registers after it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/crc.h"
#include "unit/crc_known.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

enum { LARGE_BYTES = 1400 };

static uint32_t crc_of(const void *bytes, size_t len)
{
    return ~vip_crc_add(VIP_CRC_START, bytes, len);
}

static void test_known_values(void **state)
{
    (void)state;
    crc_known(crc_of);
}

static void test_pieces_are_the_whole(void **state)
{
    uint8_t bytes[LARGE_BYTES];
    uint32_t whole;

    (void)state;
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + (i >> 5));
    whole = vip_crc_add(VIP_CRC_START, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut += cut < 300 ? 1 : 97) {
        uint32_t crc = vip_crc_add(VIP_CRC_START, bytes, cut);

        assert_int_equal(vip_crc_add(crc, bytes + cut, sizeof(bytes) - cut), whole);
    }
}

#if defined(__x86_64__) && !defined(__AVX__)

#define XINUSE_AVX (1u << 2) /* bit of XINUSE: the upper halves of ymm0..15 are in use */

/* True if xgetbv with 1 (XGETBV_ECX_1) reports which registers of the processor are in use. */
static int tells_use(void)
{
    unsigned a, b, c, d;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    return __get_cpuid_count(0xd, 1, &a, &b, &c, &d) && a & 1u << 2;
}

static uint32_t in_use(void)
{
    uint32_t low, high;

    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return low;
}

/* If the checksum left the upper halves in use, each later SSE instruction would be slow. */
static void test_leaves_clean_registers(void **state)
{
    uint8_t bytes[LARGE_BYTES] = {1};

    (void)state;
    if (!__builtin_cpu_supports("avx") || !tells_use()) {
        print_message("this processor does not tell which registers are in use\n");
        skip();
    }
    __asm__ volatile("vpcmpeqb %%xmm0, %%xmm0, %%xmm0\n\tvinsertf128 $1, %%xmm0, %%ymm0, %%ymm0" ::
                         : "xmm0");
    assert_true(in_use() & XINUSE_AVX); /* in_use detects upper halves in use */
    (void)vip_crc_add(VIP_CRC_START, bytes, sizeof(bytes));
    assert_false(in_use() & XINUSE_AVX);
}

#else

static void test_leaves_clean_registers(void **state)
{
    (void)state;
    print_message("no SSE instructions on this machine, or none in this build\n");
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_pieces_are_the_whole),
        cmocka_unit_test(test_leaves_clean_registers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
