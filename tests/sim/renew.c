/*
 * A vipd that is killed and comes back while its programs live on. A connection that can be bound anew goes on: its
 * program makes everything again as it was, and posts once more what has not completed. Every other connection of the
 * host ends.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/ring.h"
#include "tests/sim/actor.h"

/* How long a program tries to go on with a connection. */
#define REBIND_NS (5 * WORLD_S)

/* ---- posted descriptors ---------------------------------------------------------------- */

struct kept {
    struct post post;
    uint8_t message[VIP_MESSAGE_BYTES_MAX];
    struct vip_shm_seg segs[];
};

void kept_add(struct end *end, const struct post *post)
{
    struct kept **at = &end->kept[post->queue][end->posted[post->queue] % FIFO], *kept;

    if (!end->pair->play->plan.renews)
        return;
    kept = malloc(sizeof(*kept) + post->count * sizeof(*post->segs));
    kept->post = *post;
    if (post->count)
        memcpy(kept->segs, post->segs, post->count * sizeof(*post->segs));
    if (post->message_bytes)
        memcpy(kept->message, post->message, post->message_bytes);
    kept->post.segs = kept->segs;
    kept->post.message = kept->message;
    free(*at); /* `post` may be its own */
    *at = kept;
}

void kept_free(struct end *end)
{
    for (unsigned queue = 0; queue < 2; queue++)
        for (unsigned i = 0; i < FIFO; i++) {
            free(end->kept[queue][i]);
            end->kept[queue][i] = NULL;
        }
}

/* ---- the end of a vipd ----------------------------------------------------------------- */

/* The next end of the session after `end` (NULL: the first one); NULL: no more. */
static struct end *end_next(struct sess *sess, struct end *end)
{
    struct play *play = sess->play;
    unsigned at = end ? 2 * end->pair->number + end->side + 1 : 0;

    for (; at < 2 * play->plan.pairs; at++) {
        end = &play->pair[at / 2].end[at % 2];
        if (end->sess == sess && end->exists)
            return end;
    }
    return NULL;
}

/* Note what the next life must know. An end that is not connected, or cannot go on, becomes Idle. */
static void end_leave(struct end *end)
{
    struct sess *sess = end->sess;

    if (!nic_vi_checkpoint(sess->nic, end->vi, &end->past))
        play_fail(sess->play, "nic_vi_checkpoint");
    if (end->state == END_IDLE || (end->state == END_UP && end->past.connected))
        return;
    end->pair->cycles += end->state == END_LOST;
    end_disconnect(end);
    (void)nic_vi_checkpoint(sess->nic, end->vi, &end->past);
}

static void sess_leave(struct sess *sess)
{
    sess_events(sess);
    for (struct end *end = end_next(sess, NULL); end; end = end_next(sess, end))
        end_leave(end);
    /* The library forgets what the old vipd has asked for. */
    sess->placing_first = sess->placing_end;
    sess->listener = (struct listener){0};
    nic_session_free(sess->nic, true, sess_now(sess));
    registry_free(sess->registry);
    munmap(sess->app, VIP_APP_BYTES);
    sess->nic = NULL;
    sess->registry = NULL;
    sess->app = NULL;
}

void renew_begin(struct play *play, unsigned host)
{
    play->world.host[host].mute = true;
    for (unsigned i = 0; i < play->plan.sessions; i++)
        if (play->sess[host][i].alive)
            sess_leave(&play->sess[host][i]);
    world_host_down(&play->world, host);
    play->renewing[host] = true;
    /* What was not established at both ends may end. */
    for (struct attempt *attempt = play->attempts; attempt; attempt = attempt->next)
        if ((attempt->pair->end[0].sess->host == host ||
             attempt->pair->end[1].sess->host == host) &&
            !(attempt->up[0] && attempt->up[1]))
            attempt->may_end = true;
}

/* ---- the next life --------------------------------------------------------------------- */

/* Register memory as it was, with the same tags and handles. */
static void memory_return(struct sess *sess)
{
    if (registry_new(&SESS_LIMITS, dup(sess->arena_fd), &sess->registry) < 0 ||
        registry_ptag_restore(sess->registry, sess->ptag) != VIP_RC_SUCCESS ||
        registry_ptag_restore(sess->registry, sess->ptag_other) != VIP_RC_SUCCESS)
        play_fail(sess->play, "the registry of a new vipd");
    mem_restore(sess, &sess->pattern);
    mem_restore(sess, &sess->other);
    mem_restore(sess, &sess->closed);
    for (struct end *end = end_next(sess, NULL); end; end = end_next(sess, end)) {
        mem_restore(sess, &end->recv);
        mem_restore(sess, &end->source);
        mem_restore(sess, &end->landing);
        mem_restore(sess, &end->window);
    }
}

static void cq_return(struct sess *sess)
{
    if (sess->cq < 0)
        return;
    vip_store32_release(&vip_app_cq(sess->app, (uint32_t)sess->cq)->cons, sess->cq_position);
    if (nic_cq_restore(sess->nic, (uint32_t)sess->cq) != VIP_RC_SUCCESS)
        play_fail(sess->play, "nic_cq_restore");
}

/* Post again what has not completed. */
static void end_post_again(struct end *end, enum vip_queue queue)
{
    struct sess *sess = end->sess;
    struct play *play = sess->play;
    uint32_t posted = end->posted[queue];

    for (uint32_t i = end_written(end, queue); i != posted; i++) {
        const struct post post = end->kept[queue][i % FIFO]->post;

        end->posted[queue] = i;
        /* The ring is full: vipd takes what is there. */
        while (!end_post(end, &post))
            (void)nic_turn(play->world.host[sess->host].nic, sess_now(sess));
    }
    end->posted[queue] = posted;
}

static void end_return(struct end *end)
{
    struct sess *sess = end->sess;
    struct nic_vi_checkpoint told = end->past;
    char why[128] = "";

    nic_vi_recover(sess->vipd, &told);
    if (told.connected != end->past.connected)
        play_fail(sess->play, "the segment says %d connected, the old vipd %d", told.connected,
                  end->past.connected);
    /* Unreliable Delivery passes over operations that it has not got, without a store. */
    if (told.connected &&
        (told.completed != end->past.completed ||
         (told.done != end->past.done && told.args.attrs.level != VIP_LVL_UNRELIABLE)))
        play_fail(sess->play, "the segment says %u completed and %u done, the old vipd %u and %u",
                  told.completed, told.done, end->past.completed, end->past.done);
    if (nic_vi_restore(sess->nic, &end->past, sess_now(sess), why, sizeof(why)) != VIP_RC_SUCCESS)
        play_fail(sess->play, "nic_vi_restore: %s", why);
    end_post_again(end, VIP_Q_RECV);
    end_post_again(end, VIP_Q_SEND);
    if (end->past.connected && nic_vi_rebind(sess->nic, end->vi, REBIND_NS, sess_now(sess), why,
                                             sizeof(why)) != VIP_RC_SUCCESS)
        play_fail(sess->play, "nic_vi_rebind: %s", why);
}

static void sess_return(struct sess *sess)
{
    struct play *play = sess->play;
    struct nic_session_args args = {
        .id = sess->index, .layout = nic_layout(VIP_SHM_ABI), .sink = &sess_sink, .ctx = sess};

    memory_return(sess);
    sess->app = map_zeroes(play, VIP_APP_BYTES);
    sess->sq_position = 0;
    args.app_base = sess->app;
    args.vipd_base = sess->vipd;
    args.registry = sess->registry;
    if (nic_session_new(play->world.host[sess->host].nic, &args, sess_now(sess), &sess->nic) < 0)
        play_fail(play, "nic_session_new");
    cq_return(sess);
    for (struct end *end = end_next(sess, NULL); end; end = end_next(sess, end))
        end_return(end);
}

void renew_end(struct play *play, unsigned host)
{
    play->renewing[host] = false;
    world_host_up(&play->world, host);
    for (unsigned i = 0; i < play->plan.sessions; i++)
        if (play->sess[host][i].alive)
            sess_return(&play->sess[host][i]);
}
