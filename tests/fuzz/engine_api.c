/* Fuzz: calls in any order to two engines on a link that loses, repeats and reorders packets. */
#include "fuzz/pair.h"

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct fuzz_in in = {bytes, bytes + len};

    pair_run(&in, false);
}
