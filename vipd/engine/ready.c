/* After every input: put the VI on the ready list if it may send, and set its timer. */
#include "vipd/engine/ready.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void eng_vi_timer(struct eng_vi *vi)
{
    uint64_t at_ns = ENG_NEVER;

    if (vi->state == VIP_VIST_CONNECTED && !vi->paused) {
        at_ns = earlier(vi->tx.timer_ns, vi->tx.loss_ns);
        if (vi->tx.paced && eng_tx_held_back(vi))
            at_ns = earlier(at_ns, vi->tx.paced_until_ns);
        if (!vi->rx.ack_now)
            at_ns = earlier(at_ns, vi->rx.ack_ns);
    }
    eng_timer_set(vi, at_ns);
}

void eng_vi_update(struct eng_vi *vi)
{
    if (eng_tx_wants(vi))
        eng_list_add(vi, ENG_LIST_READY);
    eng_vi_timer(vi);
}
