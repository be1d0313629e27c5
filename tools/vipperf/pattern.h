/*
 * The contents of message number n: a pattern that depends on n and on the offset. So a byte of
 * another message or of another offset is detected.
 *
 * Pure; called by both ends of a measurement and by the unit test.
 */
#ifndef TOOLS_VIPPERF_PATTERN_H
#define TOOLS_VIPPERF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first wrong byte. */
struct pattern_fault {
    size_t offset;
    uint8_t expected, found;
};

/* Write the pattern of message `number` of the stream `seed`. Any alignment, any length. */
void pattern_fill(void *bytes, size_t len_bytes, uint64_t seed, uint64_t number);

/* Is the pattern correct? If it is not, *ret (may be NULL) is the first wrong byte. */
bool pattern_check(const void *bytes, size_t len_bytes, uint64_t seed, uint64_t number,
                   struct pattern_fault *ret);

/* Size of message `number` with --random-sizes, 0 to size_max; the same at both sides. */
uint64_t pattern_size(uint64_t seed, uint64_t number, uint64_t size_max);

#endif
