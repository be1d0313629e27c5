/* For tests: use an engine without the limits of a NIC's turn. One function takes the next packet
 * of any VI, the other one does all work that is due. */
#ifndef TESTS_ENG_ALL_H
#define TESTS_ENG_ALL_H

#include "vipd/engine/engine.h"

/* Get the next packet of any VI. False: no VI has a packet. */
static inline bool eng_pull_any(struct eng *eng, struct eng_packet *ret, uint64_t now_ns)
{
    /* A call may return false although another VI has a packet: try each VI twice. */
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
