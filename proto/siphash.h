/*
 * SipHash-2-4 (Aumasson and Bernstein): a keyed hash that cannot be predicted or inverted without
 * its key. Used for cookies, MACs, and numbers that other hosts see but must not predict.
 *
 * Owns: the function. Does not own: keys. Used by vipd.
 */
#ifndef VIP_PROTO_SIPHASH_H
#define VIP_PROTO_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct siphash_key {
    uint64_t k0, k1;
};

static inline uint64_t siphash_rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static inline void siphash_rounds(uint64_t v[4], int count)
{
    while (count--) {
        v[0] += v[1];
        v[1] = siphash_rotl(v[1], 13) ^ v[0];
        v[0] = siphash_rotl(v[0], 32);
        v[2] += v[3];
        v[3] = siphash_rotl(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = siphash_rotl(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = siphash_rotl(v[1], 17) ^ v[2];
        v[2] = siphash_rotl(v[2], 32);
    }
}

/* The function reads words as little-endian on every machine, as the published vectors do. */
static inline uint64_t siphash(const struct siphash_key *key, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    uint64_t v[4] = {key->k0 ^ 0x736f6d6570736575ull, key->k1 ^ 0x646f72616e646f6dull,
                     key->k0 ^ 0x6c7967656e657261ull, key->k1 ^ 0x7465646279746573ull};
    uint64_t word = 0;

    for (size_t i = 0; i < len; i++) {
        word |= (uint64_t)at[i] << 8 * (i % 8);
        if (i % 8 == 7) {
            v[3] ^= word;
            siphash_rounds(v, 2);
            v[0] ^= word;
            word = 0;
        }
    }
    word |= (uint64_t)len << 56;
    v[3] ^= word;
    siphash_rounds(v, 2);
    v[0] ^= word;
    v[2] ^= 0xff;
    siphash_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
