/* The window of the congestion control, and its limits. */
#include "vipd/engine/cc.h"

/* Smallest window, in packets. */
#define CC_FLOOR_PACKETS 4

uint64_t eng_cc_floor(const struct eng_cc *cc)
{
    uint64_t floor = CC_FLOOR_PACKETS * (uint64_t)cc->packet_bytes;

    return floor < cc->limit_bytes ? floor : cc->limit_bytes;
}

void eng_cc_set(struct eng_cc *cc, uint64_t window_bytes)
{
    uint64_t floor = eng_cc_floor(cc);

    if (window_bytes < floor)
        window_bytes = floor;
    if (window_bytes > cc->limit_bytes)
        window_bytes = cc->limit_bytes;
    cc->now.window_bytes = window_bytes;
}
