/*
 * Congestion control, the replaceable part: how many bytes a connection may have under way.
 *
 * Owns: the window. Does not own: what is under way, when something is lost (loss.c), the peer's
 * own limit (the caller takes the smaller one). This one: slow start, then additive increase and
 * multiplicative decrease, never below a few packets.
 */
#ifndef VIPD_ENGINE_CC_H
#define VIPD_ENGINE_CC_H

#include <stdbool.h>
#include <stdint.h>

struct eng_cc {
    uint64_t window_bytes;    /* what may be under way */
    uint64_t threshold_bytes; /* slow start ends here */
    uint64_t limit_bytes;     /* more than this is never useful */
    uint64_t credit_bytes;    /* acknowledged since the last additive step */
    uint64_t recovery_end;    /* losses of packets below this number have been answered */
    uint32_t packet_bytes;
};

void eng_cc_init(struct eng_cc *cc, uint32_t packet_bytes, uint32_t limit_bytes);
/* `bytes` were acknowledged; `limited` says whether the window was what held the sender back. */
void eng_cc_acked(struct eng_cc *cc, uint64_t bytes, bool limited);
/* Packet `number` was lost; `next_number` is the first not sent yet. */
void eng_cc_lost(struct eng_cc *cc, uint64_t number, uint64_t next_number);
/* Nothing was heard for several timer periods. */
void eng_cc_silence(struct eng_cc *cc, uint64_t next_number);

#endif
