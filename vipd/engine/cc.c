/* Congestion control: the choice of the algorithm, episodes of losses, and "fixed" (cc.h). */
#include "vipd/engine/cc.h"

#include <stddef.h>

/* Size of the first window, in packets. */
#define CC_FIRST_PACKETS 10
/* Smallest size of the first window, in bytes: every receive buffer has this room. */
#define CC_FIRST_BYTES 32768

static void fixed_start(struct eng_cc *cc)
{
    cc->now.window_bytes = cc->limit_bytes;
}

static void fixed_acked(struct eng_cc *cc, const struct eng_cc_ack *ack)
{
    (void)cc;
    (void)ack;
}

static void fixed_lost(struct eng_cc *cc, const struct eng_cc_loss *loss, bool first)
{
    (void)cc;
    (void)loss;
    (void)first;
}

static void fixed_silence(struct eng_cc *cc)
{
    (void)cc;
}

static bool fixed_searching(const struct eng_cc *cc)
{
    (void)cc;
    return false;
}

/* "fixed": the window is always the peer's limit. Use: paths without congestion, comparisons. */
static const struct eng_cc_class eng_cc_fixed = {.name = "fixed",
                                                 .start = fixed_start,
                                                 .acked = fixed_acked,
                                                 .lost = fixed_lost,
                                                 .silence = fixed_silence,
                                                 .paced = false,
                                                 .searching = fixed_searching};

static const struct eng_cc_class *class_of(const struct eng_cc *cc)
{
    switch ((enum eng_congestion)cc->kind) {
    case ENG_CONGESTION_DELAY:
        return &eng_cc_delay;
    case ENG_CONGESTION_CUBIC:
        return &eng_cc_cubic;
    case ENG_CONGESTION_FIXED:
        break;
    }
    return &eng_cc_fixed;
}

void eng_cc_init(struct eng_cc *cc, enum eng_congestion kind, uint32_t packet_bytes,
                 uint32_t limit_bytes)
{
    uint64_t first = CC_FIRST_PACKETS * (uint64_t)packet_bytes;

    *cc = (struct eng_cc){
        .limit_bytes = limit_bytes, .packet_bytes = packet_bytes, .kind = (uint8_t)kind};
    eng_cc_set(cc, first > CC_FIRST_BYTES ? first : CC_FIRST_BYTES);
    class_of(cc)->start(cc);
    cc->before = cc->now;
}

static void take_back(struct eng_cc *cc)
{
    uint64_t window = cc->now.window_bytes;

    cc->now = cc->before;
    if (window > cc->now.window_bytes)
        cc->now.window_bytes = window;
}

void eng_cc_acked(struct eng_cc *cc, const struct eng_cc_ack *ack)
{
    if (cc->silence_end) {
        /* All packets that arrived were sent before the silence: they were late, not lost. */
        if (ack->newest < cc->silence_end)
            take_back(cc);
        cc->silence_end = 0;
    }
    class_of(cc)->acked(cc, ack);
}

void eng_cc_lost(struct eng_cc *cc, const struct eng_cc_loss *loss)
{
    bool first = loss->number >= cc->recovery_end;

    /* `first`: an episode begins. All losses within one window of packets are one episode. */
    if (first) {
        cc->before = cc->now;
        cc->unproven = 0;
        cc->recovery_begin = loss->number;
        cc->recovery_end = loss->next;
    }
    cc->unproven++;
    class_of(cc)->lost(cc, loss, first);
}

void eng_cc_spurious(struct eng_cc *cc, uint64_t number)
{
    if (!cc->unproven || number < cc->recovery_begin || number >= cc->recovery_end)
        return;
    if (--cc->unproven == 0)
        take_back(cc);
}

void eng_cc_silence(struct eng_cc *cc, uint64_t next_number)
{
    if (!cc->silence_end) {
        cc->before = cc->now;
        cc->silence_end = next_number;
    }
    cc->unproven = 0;
    cc->recovery_begin = cc->recovery_end = next_number;
    class_of(cc)->silence(cc);
}

unsigned eng_cc_pace(const struct eng_cc *cc)
{
    const struct eng_cc_class *class = class_of(cc);

    if (!class->paced)
        return 0;
    return class->searching(cc) ? 16 : 10;
}
