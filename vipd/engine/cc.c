#include "vipd/engine/cc.h"

/* Packets of the first window, and of the smallest: fast retransmission needs three behind a loss. */
#define CC_FIRST_PACKETS 10
#define CC_FLOOR_PACKETS 4
/* With small packets the first window is at least this, which every receive buffer holds. */
#define CC_FIRST_BYTES 32768

static uint64_t cc_floor(const struct eng_cc *cc)
{
    uint64_t floor = CC_FLOOR_PACKETS * (uint64_t)cc->packet_bytes;

    return floor < cc->limit_bytes ? floor : cc->limit_bytes;
}

static void cc_set(struct eng_cc *cc, uint64_t window)
{
    uint64_t floor = cc_floor(cc);

    if (window < floor)
        window = floor;
    if (window > cc->limit_bytes)
        window = cc->limit_bytes;
    cc->window_bytes = window;
}

void eng_cc_init(struct eng_cc *cc, uint32_t packet_bytes, uint32_t limit_bytes)
{
    uint64_t first = CC_FIRST_PACKETS * (uint64_t)packet_bytes;

    cc->limit_bytes = limit_bytes;
    cc->packet_bytes = packet_bytes;
    cc->threshold_bytes = UINT64_MAX;
    cc->credit_bytes = 0;
    cc->recovery_end = 0;
    cc_set(cc, first > CC_FIRST_BYTES ? first : CC_FIRST_BYTES);
}

void eng_cc_acked(struct eng_cc *cc, uint64_t bytes, bool limited)
{
    /* A window that was not used proves nothing about the path. */
    if (!limited || cc->window_bytes >= cc->limit_bytes)
        return;
    if (cc->window_bytes < cc->threshold_bytes) {
        cc_set(cc, cc->window_bytes + bytes);
        return;
    }
    cc->credit_bytes += bytes;
    if (cc->credit_bytes >= cc->window_bytes) {
        cc->credit_bytes = 0;
        cc_set(cc, cc->window_bytes + cc->packet_bytes);
    }
}

void eng_cc_lost(struct eng_cc *cc, uint64_t number, uint64_t next_number)
{
    /* One answer per window of packets, however many of them were lost. */
    if (number < cc->recovery_end)
        return;
    cc->recovery_end = next_number;
    cc->credit_bytes = 0;
    cc_set(cc, cc->window_bytes - cc->window_bytes * 3 / 10);
    cc->threshold_bytes = cc->window_bytes;
}

void eng_cc_silence(struct eng_cc *cc, uint64_t next_number)
{
    uint64_t half = cc->window_bytes / 2;

    cc->threshold_bytes = half > cc_floor(cc) ? half : cc_floor(cc);
    cc->recovery_end = next_number;
    cc->credit_bytes = 0;
    cc_set(cc, 0);
}
