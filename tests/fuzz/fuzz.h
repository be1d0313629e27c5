/*
 * Shared by the fuzz targets: reading numbers from an input, and a check that prints its condition.
 *
 * A target is one file with fuzz_one(). It runs under libFuzzer (tests/fuzz/run) and, with any
 * compiler, under replay.c, which feeds it the corpus. The same input always gives the same run: a
 * target uses no clock and no entropy, and keeps no state from one input to the next.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Run one input. Its block has exactly `len` bytes, so that a sanitizer finds every overrun. */
void fuzz_one(const uint8_t *bytes, size_t len);

/* A target that must prepare something once, before the first input, defines this function. */
void fuzz_begin(void) __attribute__((weak));

#define FUZZ_CHECK(cond)                                                                           \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A place in the input. At the end, fuzz_more() is false, and all further bytes are zeros. */
struct fuzz_in {
    const uint8_t *at, *end;
};

static inline bool fuzz_more(const struct fuzz_in *in)
{
    return in->at < in->end;
}

static inline uint8_t fuzz_8(struct fuzz_in *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static inline uint16_t fuzz_16(struct fuzz_in *in)
{
    uint16_t low = fuzz_8(in);

    return (uint16_t)(low | fuzz_8(in) << 8);
}

static inline uint32_t fuzz_32(struct fuzz_in *in)
{
    uint32_t low = fuzz_16(in);

    return low | (uint32_t)fuzz_16(in) << 16;
}

static inline uint64_t fuzz_64(struct fuzz_in *in)
{
    uint64_t low = fuzz_32(in);

    return low | (uint64_t)fuzz_32(in) << 32;
}

/* Returns a number below limit. Uses one or two bytes of the input. */
static inline uint32_t fuzz_below(struct fuzz_in *in, uint32_t limit)
{
    return (limit <= 256 ? fuzz_8(in) : fuzz_16(in)) % limit;
}

/* Copy `len` bytes of the input. If fewer bytes are left, add zeros. */
static inline void fuzz_bytes(struct fuzz_in *in, void *to, size_t len)
{
    size_t left = (size_t)(in->end - in->at);
    size_t have = len < left ? len : left;

    if (have)
        memcpy(to, in->at, have);
    memset((char *)to + have, 0, len - have);
    in->at += have;
}

/* A number for a field of 64 bits: often a boundary (a power of 2, the largest), or any number. */
static inline uint64_t fuzz_number(struct fuzz_in *in)
{
    uint8_t kind = fuzz_8(in);

    switch (kind >> 4) {
    case 0:
        return UINT64_MAX - (kind & 15);
    case 1:
        return 1ull << 4 * (kind & 15);
    case 2:
        return (1ull << 4 * (kind & 15)) - 1;
    case 3:
        return (1ull << 32) - 8 + (kind & 15);
    case 4:
        return fuzz_64(in);
    case 5:
        return fuzz_32(in);
    case 6:
    case 7:
        return fuzz_16(in);
    default:
        return kind & 127;
    }
}

#endif
