/*
 * The contents of message number n: a pattern that depends on n and on the offset. So a check
 * detects a byte that belongs to another message or to another offset.
 *
 * Pure; called by both ends of a measurement and by the unit test.
 */
#ifndef TOOLS_VIPPERF_PATTERN_H
#define TOOLS_VIPPERF_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Describes the first wrong byte. */
struct pattern_fault {
    size_t offset;
    uint8_t expected, found;
};

/* Write the pattern of message `number` of the stream `seed`, at any alignment and length. */
void pattern_fill(void *bytes, size_t len_bytes, uint64_t seed, uint64_t number);

/* Is the pattern correct? If not, *ret describes the first wrong byte; ret may be NULL. */
bool pattern_check(const void *bytes, size_t len_bytes, uint64_t seed, uint64_t number,
                   struct pattern_fault *ret);

/* Size (0 to size_max) of message `number` with --random-sizes. Both sides get the same size. */
uint64_t pattern_size(uint64_t seed, uint64_t number, uint64_t size_max);

#endif
