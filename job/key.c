/*
 * SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein). Its input is the role in eight
 * bytes, then the claim.
 */
#include "job/key.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

struct sip {
    uint64_t v[4];
    uint64_t word; /* input bytes that are not yet a whole word */
    size_t len;    /* number of input bytes so far */
};

static uint64_t load(const unsigned char *from)
{
    uint64_t word = 0;

    for (int i = 7; i >= 0; i--)
        word = word << 8 | from[i];
    return word;
}

static void store(unsigned char *to, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(word >> 8 * i);
}

static uint64_t turn(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

static void rounds(uint64_t v[4], int count)
{
    while (count-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = turn(v[1], 13) ^ v[0];
        v[3] = turn(v[3], 16) ^ v[2];
        v[0] = turn(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = turn(v[1], 17) ^ v[2];
        v[3] = turn(v[3], 21) ^ v[0];
        v[2] = turn(v[2], 32);
    }
}

static void take_word(struct sip *sip, uint64_t word)
{
    sip->v[3] ^= word;
    rounds(sip->v, 2);
    sip->v[0] ^= word;
}

static void take(struct sip *sip, const unsigned char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        sip->word |= (uint64_t)from[i] << 8 * (sip->len++ % 8);
        if (sip->len % 8 == 0) {
            take_word(sip, sip->word);
            sip->word = 0;
        }
    }
}

int job_key_draw(struct job_key *ret)
{
    ssize_t got;

    do
        got = getrandom(ret->bytes, sizeof(ret->bytes), 0);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    /* getrandom returns all bytes of a request for 256 bytes or fewer. */
    return got == (ssize_t)sizeof(ret->bytes) ? 0 : -EIO;
}

struct job_proof job_prove(const struct job_key *key, enum job_role role, const void *claim,
                           size_t bytes)
{
    uint64_t k0 = load(key->bytes), k1 = load(key->bytes + 8);
    struct sip sip = {.v = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du ^ 0xee,
                            k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u}};
    unsigned char first[8] = {(unsigned char)role};
    struct job_proof ret;

    take(&sip, first, sizeof(first));
    take(&sip, claim, bytes);
    take_word(&sip, sip.word | (uint64_t)sip.len << 56);
    sip.v[2] ^= 0xee;
    rounds(sip.v, 4);
    store(ret.bytes, sip.v[0] ^ sip.v[1] ^ sip.v[2] ^ sip.v[3]);
    sip.v[1] ^= 0xdd;
    rounds(sip.v, 4);
    store(ret.bytes + 8, sip.v[0] ^ sip.v[1] ^ sip.v[2] ^ sip.v[3]);
    return ret;
}

bool job_proved(const struct job_key *key, enum job_role role, const void *claim, size_t bytes,
                const struct job_proof *shown)
{
    struct job_proof right = job_prove(key, role, claim, bytes);
    volatile unsigned char different = 0;

    for (size_t i = 0; i < sizeof(right.bytes); i++)
        different |= (unsigned char)(right.bytes[i] ^ shown->bytes[i]);
    return different == 0;
}
