/*
 * A window of ENG_BITS consecutive packet numbers. Number n has the bit n % ENG_BITS. The caller
 * keeps the first number of the window, and clears the bits of numbers that leave it.
 */
#ifndef VIPD_ENGINE_BITS_H
#define VIPD_ENGINE_BITS_H

#include <stdbool.h>
#include <stdint.h>

#define ENG_BITS 2048u

struct eng_bits {
    uint64_t word[ENG_BITS / 64];
};

static inline bool eng_bits_test(const struct eng_bits *bits, uint64_t n)
{
    return (bits->word[n % ENG_BITS / 64] >> (n % 64)) & 1;
}

static inline void eng_bits_set(struct eng_bits *bits, uint64_t n)
{
    bits->word[n % ENG_BITS / 64] |= 1ull << (n % 64);
}

static inline void eng_bits_clear(struct eng_bits *bits, uint64_t n)
{
    bits->word[n % ENG_BITS / 64] &= ~(1ull << (n % 64));
}

/* Returns the lowest n of [from, to) whose bit is set, or `to`. to - from <= ENG_BITS. */
static inline uint64_t eng_bits_next(const struct eng_bits *bits, uint64_t from, uint64_t to)
{
    while (from < to) {
        uint64_t word = bits->word[from % ENG_BITS / 64] >> (from % 64);

        if (word) {
            from += (unsigned)__builtin_ctzll(word);
            return from < to ? from : to;
        }
        from += 64 - from % 64;
    }
    return to;
}

/* Returns the highest n of [floor, from] whose bit is `value`, or floor - 1. floor > 0. */
static inline uint64_t eng_bits_prev(const struct eng_bits *bits, uint64_t from, uint64_t floor,
                                     bool value)
{
    while (from >= floor) {
        uint64_t word = bits->word[from % ENG_BITS / 64];

        word = (value ? word : ~word) << (63 - from % 64);
        if (word) {
            from -= (unsigned)__builtin_clzll(word);
            return from >= floor ? from : floor - 1;
        }
        if (from < from % 64 + 1)
            break;
        from -= from % 64 + 1;
    }
    return floor - 1;
}

#endif
