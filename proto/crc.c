/* CRC32C by ISA-L; afterwards the upper halves of the vector registers are cleared. */
#include "proto/crc.h"

#include <isa-l/crc.h>
#include <limits.h>

#include "proto/assert.h"

/*
 * ISA-L (2.30) leaves the upper halves of the vector registers dirty. Until they are cleaned, the
 * processor merges them into each following SSE instruction, and our programs use many of these.
 * That costs more than three times the checksum of 1,400 bytes itself (doc/performance.md).
 */
static void clean_vectors(void)
{
/* Code compiled for AVX has no SSE instructions. */
#if defined(__x86_64__) && !defined(__AVX__)
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroupper" ::: "memory");
#endif
}

uint32_t vip_crc_add(uint32_t crc, const void *bytes, size_t len_bytes)
{
    VIP_ASSERT(len_bytes <= INT_MAX);
    /* ISA-L's prototype lacks const; it only reads. */
    crc = crc32_iscsi((unsigned char *)(uintptr_t)bytes, (int)len_bytes, crc);
    clean_vectors();
    return crc;
}
