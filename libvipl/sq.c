/* Send vipd requests about a VI, through the submission ring. */
#include "libvipl/sq.h"

#include <sched.h>

bool vipl__ask_locked(struct vipl__vi *vi, uint8_t ask)
{
    struct vipl__session *session = vi->session;
    struct vip_sq_slot slot = {
        .vi = vi->index, .kind = VIP_SQ_ASK, .flags = ask, .vi_gen = vi->generation};

    if (!vipl__sq_has_room(session, 1))
        return false;
    vip_sq_write(vip_app_sq(session->app_base), session->sq_position++, &slot);
    return true;
}

void vipl__ask(struct vipl__vi *vi, uint8_t ask)
{
    struct vipl__session *session = vi->session;
    uint64_t deadline_ns = vipl__now_ns() + VIPL__SQ_FULL_NS;
    bool done = false;

    while (!done && !vipl__is_gone(session) && vipl__now_ns() < deadline_ns) {
        vipl__spin_lock(&session->post_lock);
        done = vipl__ask_locked(vi, ask);
        vipl__spin_unlock_full(&session->post_lock);
        vipl__ring_bell(session);
        if (!done)
            sched_yield();
    }
}
