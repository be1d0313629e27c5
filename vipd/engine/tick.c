/*
 * Work that is due: delayed acknowledgements, losses that time proves, the retransmission timer,
 * the end of a wait for the pace, completions of Unreliable Delivery.
 */
#include "vipd/engine/internal.h"

/* This many completions of sends cost as much time as one timer. */
#define SENDS_PER_STEP 4u

uint64_t eng_deadline(const struct eng *eng)
{
    if (eng->list[ENG_LIST_SENT].head != ENG_NONE)
        return 0;
    return eng->timer_count ? eng->timer[0].at_ns : ENG_NEVER;
}

static void vi_tick(struct eng_vi *vi, uint64_t now_ns)
{
    static const struct eng_fault silent = {
        .reason = VIP_CLOSE_TIMEOUT,
        .first_status = VIP_ST_TRANSPORT_ERROR,
        .why = "the peer did not answer within the connection timeout"};

    if (vi->rx.ack_ns <= now_ns) {
        vi->rx.ack_now = true;
        vi->rx.ack_ns = ENG_NEVER;
    }
    eng_pace_refresh(vi, now_ns);
    if (vi->tx.loss_ns <= now_ns) {
        eng_loss_detect(vi, now_ns);
        eng_loss_arm(vi, now_ns);
    }
    if (vi->tx.timer_ns <= now_ns && !eng_loss_expired(vi, now_ns))
        eng_break(vi, &silent);
    eng_vi_update(vi);
}

unsigned eng_tick(struct eng *eng, uint64_t now_ns)
{
    struct eng_vi *vi;
    unsigned steps = 0;

    eng->now_ns = now_ns;
    while (steps < ENG_TICK_STEPS && (vi = eng_list_first(eng, ENG_LIST_SENT))) {
        eng_list_del(vi, ENG_LIST_SENT);
        steps += 1 + eng_send_advance_sent(vi) / SENDS_PER_STEP;
    }
    /* Each vi_tick moves the VI's timer into the future or stops it. Timers beyond the budget of
     * ENG_TICK_STEPS stay due. */
    while (steps < ENG_TICK_STEPS && eng->timer_count && eng->timer[0].at_ns <= now_ns) {
        vi = eng->vi[eng->timer[0].vi];
        vi_tick(vi, now_ns);
        /* To end a connection costs as much time as many timers. */
        steps += vi->state == VIP_VIST_CONNECTED ? 1 : ENG_TICK_STEPS;
    }
    return steps < ENG_TICK_STEPS ? steps : ENG_TICK_STEPS;
}
