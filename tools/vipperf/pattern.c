/* The contents of test messages; see pattern.h. */
#include "tools/vipperf/pattern.h"

#include <endian.h>
#include <string.h>

/* An odd constant with well-mixed bits, so that neighbouring words differ in every byte. */
#define STEP 0x9E3779B97F4A7C15ull

/* Spread a number over 64 bits, so that neighbouring numbers get unrelated values. */
static uint64_t scatter(uint64_t x)
{
    x += STEP;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
    x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
    return x ^ (x >> 32);
}

static uint64_t first_word(uint64_t seed, uint64_t number)
{
    return scatter(seed ^ scatter(number));
}

void pattern_fill(void *bytes, size_t len_bytes, uint64_t seed, uint64_t number)
{
    uint64_t word = first_word(seed, number);
    uint8_t *at = bytes;

    for (; len_bytes >= 8; len_bytes -= 8, at += 8, word += STEP) {
        uint64_t little = htole64(word);

        memcpy(at, &little, 8);
    }
    if (len_bytes > 0) {
        uint64_t little = htole64(word);

        memcpy(at, &little, len_bytes);
    }
}

static void find_fault(const uint8_t *at, uint64_t word, size_t len_bytes, size_t offset,
                       struct pattern_fault *ret)
{
    uint64_t little = htole64(word);
    const uint8_t *expected = (const uint8_t *)&little;

    for (size_t i = 0; i < len_bytes; i++) {
        if (at[i] != expected[i]) {
            *ret = (struct pattern_fault){
                .offset = offset + i, .expected = expected[i], .found = at[i]};
            return;
        }
    }
}

bool pattern_check(const void *bytes, size_t len_bytes, uint64_t seed, uint64_t number,
                   struct pattern_fault *ret)
{
    uint64_t word = first_word(seed, number);
    struct pattern_fault ignored;
    const uint8_t *at = bytes;
    size_t offset = 0;

    for (; offset < len_bytes; offset += 8, word += STEP) {
        size_t take = len_bytes - offset < 8 ? len_bytes - offset : 8;
        uint64_t little = htole64(word);

        if (take == 8) {
            uint64_t found;

            memcpy(&found, at + offset, 8);
            if (found == little)
                continue;
        } else if (memcmp(at + offset, &little, take) == 0) {
            continue;
        }
        find_fault(at + offset, word, take, offset, ret ? ret : &ignored);
        return false;
    }
    return true;
}

uint64_t pattern_size(uint64_t seed, uint64_t number, uint64_t size_max)
{
    return scatter(~seed ^ scatter(number)) % (size_max + 1);
}
