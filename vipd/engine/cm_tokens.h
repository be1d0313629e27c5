/* A bucket of tokens. It gets new tokens at a rate per second, up to its size. Zeroed = full. */
#ifndef VIPD_ENGINE_CM_TOKENS_H
#define VIPD_ENGINE_CM_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

struct cm_tokens {
    uint64_t credit_ns, last_ns;
    bool used;
};

/* Take a token. per_s: rate, 1 to 10^9; burst: size of the bucket, at least 1. False: none left. */
static inline bool cm_tokens_take(struct cm_tokens *tokens, uint64_t per_s, uint64_t burst,
                                  uint64_t now_ns)
{
    uint64_t each = 1000000000ull / per_s, full = burst * each;
    uint64_t passed = now_ns > tokens->last_ns ? now_ns - tokens->last_ns : 0;

    if (!tokens->used || passed >= full || tokens->credit_ns + passed > full)
        tokens->credit_ns = full;
    else
        tokens->credit_ns += passed;
    tokens->used = true;
    if (now_ns > tokens->last_ns)
        tokens->last_ns = now_ns;
    if (tokens->credit_ns < each)
        return false;
    tokens->credit_ns -= each;
    return true;
}

#endif
