/*
 * A small reproducible generator of random numbers (splitmix64). Each part of the simulator has its
 * own generator; equal states give equal numbers on every machine.
 *
 * Owns: the sequence of numbers. Does not own: seeds. Callers: medium.c and app.c.
 */
#ifndef TESTS_SIM_RAND_H
#define TESTS_SIM_RAND_H

#include <stdbool.h>
#include <stdint.h>

struct sim_rand {
    uint64_t state; /* at the beginning: the seed */
};

static inline uint32_t sim_rand(struct sim_rand *rand)
{
    uint64_t z = rand->state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t)((z ^ (z >> 31)) >> 16);
}

/* Returns a random number from 0 to limit - 1. */
static inline uint32_t sim_below(struct sim_rand *rand, uint32_t limit)
{
    return (uint32_t)(((uint64_t)sim_rand(rand) * limit) >> 32);
}

/* True with a chance of `ppm` in a million. With `ppm` 0 it draws no number. */
static inline bool sim_chance(struct sim_rand *rand, uint32_t ppm)
{
    return ppm && sim_below(rand, 1000000) < ppm;
}

#endif
