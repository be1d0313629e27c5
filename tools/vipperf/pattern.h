/*
 * What the bytes of message number n must be: a pattern that depends on the message and on the
 * offset, so that a wrong, swapped, shifted, stale or torn byte is seen.
 *
 * Pure; called by both ends of a measurement and by the unit test.
 */
#ifndef TOOLS_VIPPERF_PATTERN_H
#define TOOLS_VIPPERF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first byte that is not as it should be. */
struct pattern_fault {
    size_t offset;
    uint8_t expected, found;
};

/* Write the pattern of message `number` of the stream `seed`. Any alignment, any length. */
void pattern_fill(void *bytes, size_t len_bytes, uint64_t seed, uint64_t number);

/* Is it there? If not, *ret (may be NULL) says where it differs first. */
bool pattern_check(const void *bytes, size_t len_bytes, uint64_t seed, uint64_t number,
                   struct pattern_fault *ret);

/*
 * Size of message `number` with --random-sizes: 0..size_max, the same on both sides without a word
 * exchanged.
 */
uint64_t pattern_size(uint64_t seed, uint64_t number, uint64_t size_max);

#endif
