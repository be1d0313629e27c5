/*
 * What is due: delayed acknowledgements, losses found by time, the retransmission timer.
 */
#include "vipd/engine/internal.h"

/* Timers that one call of eng_tick serves, to bound its time. */
#define TICK_VIS_MAX 256u

uint64_t eng_deadline(const struct eng *eng)
{
    if (eng->list[ENG_LIST_SENT].head != ENG_NONE)
        return 0;
    return eng->timer_count ? eng->timer[0].at_ns : ENG_NEVER;
}

static void vi_tick(struct eng_vi *vi, uint64_t now_ns)
{
    if (vi->rx.ack_ns <= now_ns) {
        vi->rx.ack_now = true;
        vi->rx.ack_ns = ENG_NEVER;
    }
    eng_pace_refresh(vi, now_ns);
    if (vi->tx.loss_ns <= now_ns) {
        eng_loss_detect(vi, now_ns);
        eng_loss_arm(vi, now_ns);
    }
    if (vi->tx.timer_ns <= now_ns)
        eng_loss_expired(vi, now_ns);
    eng_vi_update(vi);
}

void eng_tick(struct eng *eng, uint64_t now_ns)
{
    struct eng_vi *vi;

    eng->now_ns = now_ns;
    while ((vi = eng_list_first(eng, ENG_LIST_SENT))) {
        eng_list_del(vi, ENG_LIST_SENT);
        eng_send_advance_sent(vi);
    }
    /* Every expiry moves its own timer into the future. Timers beyond the budget stay due. */
    for (uint32_t budget = TICK_VIS_MAX; budget; budget--) {
        if (!eng->timer_count || eng->timer[0].at_ns > now_ns)
            return;
        vi_tick(eng->vi[eng->timer[0].vi], now_ns);
    }
}
