/* Fuzz: two connected engines on a link that also changes their packets. */
#include "fuzz/pair.h"

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct fuzz_in in = {bytes, bytes + len};

    pair_run(&in, true);
}
