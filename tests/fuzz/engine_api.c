/* Fuzz: two connected engines used in every order over a link that only loses and mixes up. */
#include "fuzz/pair.h"

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct fuzz_in in = {bytes, bytes + len};

    pair_run(&in, false);
}
