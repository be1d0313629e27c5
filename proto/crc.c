/* CRC32C, computed by ISA-L. */
#include "proto/crc.h"

#include <isa-l/crc.h>
#include <limits.h>

#include "proto/assert.h"

/*
 * Clear the upper halves of the vector registers, because ISA-L (2.30) does not. Otherwise each
 * later SSE instruction is slow, because the processor must keep the upper halves. This costs more
 * than three times as much as the checksum of 1,400 bytes (doc/performance.md).
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
    /* ISA-L only reads the bytes, but its prototype has no const. */
    crc = crc32_iscsi((unsigned char *)(uintptr_t)bytes, (int)len_bytes, crc);
    clean_vectors();
    return crc;
}
