/*
 * A vipd is killed directly after a store to shared memory (proto/store.h), in the middle of its
 * turn. The turn goes on without effect: the host sends nothing, its programs get no reports, and
 * later writes are undone. So the memory of this vipd can be freed as usual.
 *
 * Owns: the bytes at the moment of the kill. Does not own: the actions of programs after the kill
 * (renew.c).
 */
#include <stdlib.h>
#include <string.h>

#include "proto/ring.h"
#include "tests/sim/actor.h"

/* The bytes that vipd may write, copied at the moment of the kill. */
struct shot {
    struct shot *next;
    void *at;
    size_t bytes;
    uint8_t copy[];
};

static void shoot(struct play *play, void *at, size_t bytes)
{
    struct shot *shot = malloc(sizeof(*shot) + bytes);

    *shot = (struct shot){.next = play->shots, .at = at, .bytes = bytes};
    memcpy(shot->copy, at, bytes);
    play->shots = shot;
}

static void shoot_end(struct end *end)
{
    struct play *play = end->sess->play;

    shoot(play, vip_vipd_vi(end->sess->vipd, end->vi), sizeof(struct vip_vipd_vi));
    for (unsigned queue = 0; queue < 2; queue++) {
        shoot(play, vip_comp_ring(end->sess->vipd, vip_comp_short_off(end->vi, queue)),
              VIP_COMP_UNIT);
        shoot(play, vip_comp_ring(end->sess->vipd, vip_comp_long_off(end->vi, queue)),
              VIP_COMP_RING_BYTES);
    }
    shoot(play, end->recv.bytes, end->recv.len);
    shoot(play, end->window.bytes, end->window.len);
    shoot(play, end->landing.bytes, end->landing.len);
}

void kill_begin(struct play *play, unsigned host)
{
    for (unsigned i = 0; i < play->plan.sessions; i++) {
        struct sess *sess = &play->sess[host][i];

        if (!sess->alive)
            continue;
        sess->killed = true;
        shoot(play, sess->vipd, sizeof(struct vip_vipd_head));
        if (sess->cq >= 0)
            shoot(play, vip_vipd_cq(sess->vipd, (uint32_t)sess->cq), VIP_VIPD_CQ_STRIDE);
        for (struct end *end = end_next(sess, NULL); end; end = end_next(sess, end))
            shoot_end(end);
    }
}

void kill_end(struct play *play)
{
    while (play->shots) {
        struct shot *shot = play->shots;

        play->shots = shot->next;
        memcpy(shot->at, shot->copy, shot->bytes);
        free(shot);
    }
}
