/*
 * Listeners (VipxListen): the servers of several pairs of a session share one discriminator. The
 * attempt in a request tells its pair. If this pair's server is busy, it rejects the request.
 */
#include <inttypes.h>

#include "tests/sim/actor.h"

#define BACKLOG_MAX 3u

static struct vip_addr listener_addr(const struct end *end)
{
    return end_address(end->sess->host, end->pair->disc, end->pair->disc_len);
}

static void open_listener(struct end *end)
{
    struct sess *sess = end->sess;
    struct listener *listener = &sess->listener;
    struct vip_addr local = listener_addr(end);
    uint64_t wait;

    *listener = (struct listener){
        .opening = true, .backlog = (uint32_t)chance_between(&sess->play->extra, 1, BACKLOG_MAX)};
    if (nic_listen(sess->nic, &local, listener->backlog, sess_now(sess), &wait, NULL, 0) !=
        VIP_RC_SUCCESS)
        play_fail(sess->play, "nic_listen");
    listener->wait = wait;
    listener->opening = false;
    listener->open = true;
}

static void close_listener(struct sess *sess)
{
    struct listener *listener = &sess->listener;
    uint64_t delivered;

    listener->open = false;
    if (nic_listen_close(sess->nic, listener->wait, sess_now(sess), &delivered) != VIP_RC_SUCCESS)
        play_fail(sess->play, "nic_listen_close");
    if (delivered != listener->delivered)
        play_fail(sess->play, "a listener was given %" PRIu64 " requests, vipd says %" PRIu64,
                  listener->delivered, delivered);
}

void listener_ready(struct end *end)
{
    struct sess *sess = end->sess;

    /* Sometimes open a new listener. Requests that the old listener has got stay valid. */
    if (sess->listener.open && chance_ppm(&sess->play->extra, 50000))
        close_listener(sess);
    if (!sess->listener.open)
        open_listener(end);
    sess->play->world.host[sess->host].due = true;
}

void listener_leave(struct end *end)
{
    struct sess *sess = end->sess;
    struct play *play = sess->play;

    for (unsigned i = 0; i < play->plan.pairs; i++) {
        const struct pair *pair = &play->pair[i];

        if (pair->listens && pair->end[1].sess == sess &&
            (pair_wanted(pair) || pair->end[1].state == END_WAITING))
            return;
    }
    if (sess->listener.open)
        close_listener(sess);
}

bool listener_takes(struct sess *sess, uint64_t wait)
{
    struct listener *listener = &sess->listener;

    /* nic_listen reports kept requests before it returns the listener's number. */
    if (!listener->opening && !(listener->open && listener->wait == wait))
        return false;
    listener->delivered++;
    if (++listener->offered > listener->backlog)
        play_fail(sess->play, "host %u session %u: %u requests for a listener of %u", sess->host,
                  sess->index, listener->offered, listener->backlog);
    return true;
}

void listener_answered(struct sess *sess, uint64_t wait)
{
    if (sess->listener.open && sess->listener.wait == wait)
        sess->listener.offered--;
}

struct end *listener_end(struct sess *sess, const struct event *event)
{
    struct play *play = sess->play;
    const struct attempt *attempt = attempt_find(play, event->attempt);
    struct end *end = attempt ? &attempt->pair->end[1] : NULL;

    if (end && (!attempt->pair->listens || end->sess != sess))
        play_fail(play, "pair %u: its request went to another server", attempt->pair->number);
    if (end && end->exists && end->state == END_WAITING)
        return end;
    listener_answered(sess, event->wait);
    if (nic_reject(sess->nic, event->handle, NULL, sess_now(sess)) != VIP_RC_SUCCESS)
        play_fail(play, "nic_reject of a listener's request");
    play->world.host[sess->host].due = true;
    return NULL;
}
