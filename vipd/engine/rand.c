/* Random numbers of an engine. */
#include "vipd/engine/internal.h"

/* xorshift64*, for the jitter of retries: the same seed gives the same numbers. */
uint32_t eng_random(struct eng *eng)
{
    eng->random ^= eng->random >> 12;
    eng->random ^= eng->random << 25;
    eng->random ^= eng->random >> 27;
    return (uint32_t)((eng->random * 0x2545f4914f6cdd1dull) >> 32);
}
