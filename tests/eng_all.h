/* For tests: run an engine without the bounds of a NIC's turn. Take the next packet of any VI; do all work that is
 * due. */
#ifndef TESTS_ENG_ALL_H
#define TESTS_ENG_ALL_H

#include "vipd/engine/engine.h"

/* The next packet, of whichever VI has one; false: there is none. */
static inline bool eng_pull_any(struct eng *eng, struct eng_packet *ret, uint64_t now_ns)
{
    /* On average each VI may be in turn twice and then not send. */
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
