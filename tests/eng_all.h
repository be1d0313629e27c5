/* For tests: run an engine without the bounds of a NIC's turn. The functions take the next packet
 * of any VI, and do all work that is due. */
#ifndef TESTS_ENG_ALL_H
#define TESTS_ENG_ALL_H

#include "vipd/engine/engine.h"

/* The next packet of any VI; false: no VI has a packet. */
static inline bool eng_pull_any(struct eng *eng, struct eng_packet *ret, uint64_t now_ns)
{
    /* eng_tx may pass over a VI without a packet. Two passes for each VI are enough. */
    for (unsigned budget = 2 * VIP_VI_MAX; budget && eng_tx_ready(eng); budget--)
        if (eng_tx_pull(eng, ret, now_ns))
            return true;
    return false;
}

static inline void eng_tick_all(struct eng *eng, uint64_t now_ns)
{
    do
        (void)eng_tick(eng, now_ns);
    while (eng_deadline(eng) <= now_ns);
}

#endif
