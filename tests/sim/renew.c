/*
 * A vipd is killed and started again while its programs live on. A connection that can be
 * bound anew goes on: its program makes its objects again, and posts again the descriptors that
 * have not completed. Every other connection of the host ends. The vipd is killed between two
 * turns, when everything is published, or within a turn (kill.c). Or it ends in order and announces
 * the next vipd.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/ring.h"
#include "tests/sim/actor.h"

/* Time for which a program tries to go on with a connection. */
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
    free(*at); /* `post` may be a part of *at */
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

/* Record what the next life must know. If the connection cannot go on, the end becomes Idle. */
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

static void memory_free(struct sess *sess)
{
    nic_session_free(sess->nic, true, sess_now(sess));
    registry_free(sess->registry);
    sess->nic = NULL;
    sess->registry = NULL;
}

static void library_forgets(struct sess *sess)
{
    sess->placing_first = sess->placing_end;
    sess->listener = (struct listener){0};
    munmap(sess->app, VIP_APP_BYTES);
    sess->app = NULL;
}

static void sess_leave(struct sess *sess)
{
    sess_events(sess);
    for (struct end *end = end_next(sess, NULL); end; end = end_next(sess, end))
        end_leave(end);
    if (sess->play->plan.leaves)
        (void)nic_session_stay(sess->nic);
    memory_free(sess);
    library_forgets(sess);
}

static void attempts_may_end(struct play *play, unsigned host)
{
    for (struct attempt *attempt = play->attempts; attempt; attempt = attempt->next)
        if ((attempt->pair->end[0].sess->host == host ||
             attempt->pair->end[1].sess->host == host) &&
            !(attempt->up[0] && attempt->up[1]))
            attempt->may_end = true;
}

void renew_begin(struct play *play, unsigned host)
{
    struct world_host *of = &play->world.host[host];

    of->mute = !play->plan.leaves;
    if (play->plan.leaves)
        nic_stopping(of->nic);
    for (unsigned i = 0; i < play->plan.sessions; i++)
        if (play->sess[host][i].alive)
            sess_leave(&play->sess[host][i]);
    if (play->plan.leaves)
        nic_leave(of->nic, WORLD_OUTLIVE_NS, world_host_now(of));
    of->mute = true;
    world_host_down(&play->world, host);
    play->renewing[host] = true;
    attempts_may_end(play, host);
}

/* ---- killed in a turn ------------------------------------------------------------------ */

void renew_record(struct sess *sess)
{
    if (!sess->play->plan.kills)
        return;
    for (unsigned i = 0; i < sess->event_count; i++) {
        const struct event *event = &sess->event[i];
        struct end *end = end_next(sess, NULL);

        if (event->kind != EVENT_RESULT || event->code != VIP_RC_SUCCESS)
            continue;
        while (end->vi != event->vi)
            end = end_next(sess, end);
        if (!nic_vi_checkpoint(sess->nic, end->vi, &end->past))
            play_fail(sess->play, "nic_vi_checkpoint");
    }
}

/* The next life gets the state of this end from its record and from the segment. A connection is
 * over if it has no record or is already ending. Then the next life flushes the descriptors,
 * because only vipd writes completions. */
static void end_orphan(struct end *end, bool reads)
{
    if (reads)
        (void)end_judge(end);
    end->past.connected = end->past.connected && end->state == END_UP;
    if (end->past.connected)
        nic_vi_recover(end->sess->vipd, &end->past, &(struct nic_past_loan){0});
    end->past.lost = false; /* the program of this end calls VipDisconnect itself */
    if (end->past.connected || end->state == END_IDLE)
        return;
    if (end->attempt)
        end->attempt->may_end = true;
    meet_abandon(end);
}

static void sess_orphan(struct sess *sess)
{
    bool reads = chance_below(&sess->play->extra, 2); /* true: read while there is no vipd */

    sess_events(sess);
    for (struct end *end = end_next(sess, NULL); end; end = end_next(sess, end))
        end_orphan(end, reads);
    if (reads)
        sess_read_cq(sess);
    library_forgets(sess);
    sess->killed = false;
}

void renew_killed(struct play *play, unsigned host)
{
    struct sess *sess = play->sess[host];

    for (unsigned i = 0; i < play->plan.sessions; i++)
        if (sess[i].alive)
            memory_free(&sess[i]);
    world_host_down(&play->world, host);
    kill_end(play);
    play->renewing[host] = true;
    attempts_may_end(play, host);
    for (unsigned i = 0; i < play->plan.sessions; i++)
        if (sess[i].alive)
            sess_orphan(&sess[i]);
}

/* ---- the next life --------------------------------------------------------------------- */

/* Register all memory again, with the same tags and handles. */
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
    sess_publish_cq(sess);
}

/* Returns how many entries of this queue are unread in the CQ's ring. */
static uint32_t unread(const struct end *end, unsigned queue)
{
    const struct sess *sess = end->sess;
    const struct vip_cqe *ring = vip_vipd_cq_ring(sess->vipd, (uint32_t)sess->cq);
    uint32_t count = 0;
    struct vip_cqe entry;

    for (uint32_t at = sess->cq_position; vip_cq_read(ring, at, &entry); at++)
        count += entry.vi == end->vi && entry.queue == queue;
    return count;
}

/* Ask vipd to write CQ entries for completions that have none. */
static void entries_again(struct end *end)
{
    for (unsigned queue = 0; queue < 2; queue++)
        if (end->cq[queue] >= 0)
            nic_vi_entries_again(end->sess->nic, end->vi, (enum vip_queue)queue,
                                 end_written(end, (enum vip_queue)queue) - end->cq_seen[queue] -
                                     unread(end, queue));
}

/* Post again the descriptors that have not completed. */
static void end_post_again(struct end *end, enum vip_queue queue)
{
    struct sess *sess = end->sess;
    struct play *play = sess->play;
    uint32_t posted = end->posted[queue];

    for (uint32_t i = end_written(end, queue); i != posted; i++) {
        const struct post post = end->kept[queue][i % FIFO]->post;

        end->posted[queue] = i;
        /* If the ring is full, let vipd take descriptors from it. */
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

    nic_vi_recover(sess->vipd, &told, &(struct nic_past_loan){0});
    if (told.connected != end->past.connected)
        play_fail(sess->play, "the segment says %d connected, the old vipd %d", told.connected,
                  end->past.connected);
    /* Unreliable Delivery does not store that it skips lost operations: `done` may differ. */
    if (told.connected &&
        (told.completed != end->past.completed ||
         (told.done != end->past.done && told.args.attrs.level != VIP_LVL_UNRELIABLE)))
        play_fail(sess->play, "the segment says %u completed and %u done, the old vipd %u and %u",
                  told.completed, told.done, end->past.completed, end->past.done);
    if (nic_vi_restore(sess->nic, &end->past, sess_now(sess), why, sizeof(why)) != VIP_RC_SUCCESS)
        play_fail(sess->play, "nic_vi_restore: %s", why);
    entries_again(end);
    end_post_again(end, VIP_Q_RECV);
    end_post_again(end, VIP_Q_SEND);
    if (end->past.connected && nic_vi_rebind(sess->nic, end->vi, REBIND_NS, sess_now(sess), why,
                                             sizeof(why)) != VIP_RC_SUCCESS)
        play_fail(sess->play, "nic_vi_rebind: %s", why);
    if (end->past.connected || end->state == END_IDLE)
        return;
    end->pair->cycles += end->state == END_LOST;
    end_disconnect(end);
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
