/*
 * Takes descriptors from the submission ring of a session.
 *
 * The contents of the ring are hostile: each slot is copied once, the copy is checked, and a loop
 * over slots has a budget. A malformed descriptor fails alone. If no libvipl can have written what
 * is in the ring, the session becomes broken.
 *
 * Owns: the submission position.
 */
#include "proto/assert.h"
#include "vipd/nic/internal.h"

static void ring_broken(struct nic_session *session)
{
    if (session->broken)
        return;
    session->broken = true;
    session->nic->counts.sessions_broken++;
    if (session->sink->broken)
        session->sink->broken(session->ctx);
}

/* Does the VI of the posting exist? Only a race in the application posts to a destroyed VI. */
static bool post_vi_valid(struct nic_session *session, const struct vip_sq_slot *slot)
{
    const struct nic_vi *vi = nic_vi_get(session, slot->vi);

    if (!vi) {
        session->nic->counts.post_bad_vi++;
        nic_session_fault(session);
        return false;
    }
    if (vi->generation != slot->vi_gen) {
        session->nic->counts.post_bad_gen++;
        nic_session_fault(session);
        return false;
    }
    return true;
}

/* Take the descriptor at the current position; `slot` is a copy of its first slot. Returns the
 * number of its slots; 0: the descriptor is not complete yet. */
static unsigned take_post(struct nic_session *session, const struct vip_sq_slot *slot)
{
    struct nic_counts *counts = &session->nic->counts;
    uint32_t at = session->sq_position + 1;
    struct path_parts parts;
    struct eng_post post;
    int taken;

    session->sq_skip_conts = false;
    if (slot->seg_count > PATH_SEGS_MAX) {
        /* Too many segments: the descriptor fails in its turn like every malformed descriptor. The
         * number of its continuations is unknown, so skip all continuations that follow. */
        counts->post_bad_segs++;
        session->sq_skip_conts = true;
        if (post_vi_valid(session, slot)) {
            post = path_post_malformed(slot, &parts);
            nic_session_post(session, &post);
        }
        return 1;
    }
    taken = path_segs(session->sq, &at, slot, &parts);
    if (taken > 0 && (slot->flags & VIP_SQF_MSG))
        taken = path_message(session->sq, &at, slot, &parts);
    if (taken == 0) {
        /* The program is between two stores: try again when this stamp is there. */
        session->sq_watch = at;
        return 0;
    }
    if (taken < 0) {
        counts->post_stray++;
        ring_broken(session);
        return 1;
    }
    if (post_vi_valid(session, slot)) {
        post = path_post(slot, &parts);
        nic_session_post(session, &post);
    }
    return at - session->sq_position;
}

/* Take a slot that begins neither a descriptor nor a request. */
static void take_stray(struct nic_session *session, const struct vip_sq_slot *slot)
{
    struct nic_counts *counts = &session->nic->counts;

    if (slot->kind != VIP_SQ_CONT && slot->kind != VIP_SQ_MSG) {
        counts->post_bad_kind++;
        session->sq_skip_conts = true;
        nic_session_fault(session);
    } else if (!session->sq_skip_conts) {
        counts->post_stray++;
        ring_broken(session);
    }
}

/* In this turn, allow at most as many slots as the ring has, from the present position on. */
static void fetch_begin(struct nic_session *session)
{
    session->fetch_turn = session->nic->counts.turns;
    session->fetch_end = session->sq_position + VIP_SQ_SLOTS;
}

unsigned nic_session_drain(struct nic_session *session, unsigned budget, bool cut)
{
    unsigned taken = 0, tabled = 0; /* slots; descriptors of the tables that they named */
    struct vip_sq_slot slot;

    /* eng_post may call this function again, through eng_ops.fetch_posts. */
    if (session->draining || session->broken || !nic_session_has_posts(session))
        return 0;
    if (session->fetch_turn != session->nic->counts.turns)
        fetch_begin(session);
    /* The slots of the last descriptor may go beyond fetch_end. */
    if ((int32_t)(session->fetch_end - session->sq_position) <= 0)
        return 0;
    if (budget > session->fetch_end - session->sq_position)
        budget = session->fetch_end - session->sq_position;
    session->draining = true;
    while (taken + (cut ? tabled : 0) < budget && !session->broken &&
           !(cut && session->nic->meter.over)) {
        unsigned slots = 1;

        vip_fetch_begin();
        /* The program may have removed the slot again: then vipd waits for the slot once more. */
        if (!vip_sq_read(session->sq, session->sq_position, &slot)) {
            session->sq_watch = session->sq_position;
            slots = 0;
        } else if (slot.kind == VIP_SQ_SEND || slot.kind == VIP_SQ_RECV) {
            slots = take_post(session, &slot);
        } else if (slot.kind == VIP_SQ_ASK) {
            uint64_t before = session->slots;

            if (post_vi_valid(session, &slot))
                nic_direct_ask(session, slot.vi, slot.flags);
            tabled += (unsigned)(session->slots - before);
        } else {
            take_stray(session, &slot);
        }
        vip_fetch_end();
        if (!slots)
            break;
        session->sq_position += slots;
        session->sq_watch = session->sq_position;
        taken += slots;
    }
    session->draining = false;
    session->slots += taken;
    if (taken)
        vip_store32_release(&session->head->sq_cons, session->sq_position); /* [doorbell CONS] */
    return taken + tabled;
}

void nic_session_fetch(struct nic_session *session)
{
    struct nic *nic = session->nic;
    struct nic_session *before;

    if (nic_session_throttled(session) || !nic_session_has_posts(session))
        return;
    before = nic_share_switch(nic, session);
    nic_share_worked(nic, nic_session_drain(session, VIP_SQ_SLOTS, false));
    nic_share_switch(nic, before);
}

void nic_begin(struct nic_session *session, uint64_t now_ns)
{
    session->nic->now_ns = now_ns;
    fetch_begin(session);
    nic_session_drain(session, VIP_SQ_SLOTS, false);
}

uint64_t nic_session_slots(const struct nic_session *session)
{
    return session->slots;
}

bool nic_session_broken(const struct nic_session *session)
{
    return session->broken;
}
