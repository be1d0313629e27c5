/*
 * The end of clients: VipCloseNic, a program that hangs up, ends or is killed, and the end of vipd.
 * client_end (client.c) marks a client. The functions here end its session, a bounded part in each
 * turn.
 */
#include "vipd/client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vipd/client/internal.h"
#include "vipd/host.h"
#include "vipd/log.h"
#include "vipd/registry/undertaker.h"

void client_hung_up(struct client *client)
{
    client_end(client, client->session ? CLIENT_END_DIED : CLIENT_END_CLOSED, NULL);
}

bool client_free(struct client *client)
{
    bool waits;

    vipd_watch_free(client->sock_watch);
    vipd_watch_free(client->pid_watch);
    if (client->pidfd >= 0)
        close(client->pidfd);
    waits = undertaker_hang_up(client->vipd->undertaker, client->uid, client->sock);
    turns_leave(&client->vipd->turns, client->turns);
    free(client);
    return waits;
}

/* Limit of the cost of ending clients in one turn. Ending a VI with its connection, a wait or a
 * request costs 1 (at most 0.1 ms of processor time). A client with a session costs SESSION_COST
 * more, a client without a session 1. */
#define REAP_COST_MAX 32u
#define SESSION_COST  8u

/* Call session_end, and charge the client's user for the time of the call. */
static bool end_session(struct client *client, unsigned *cost)
{
    bool died = client->end != CLIENT_END_CLOSED && client->end != CLIENT_END_SHUTDOWN;
    unsigned number = client->session ? client->session->nic : VIPD_NICS_MAX;
    uint64_t start_ns = vipd_cpu_now();
    bool gone = session_end(client, died, cost);

    if (number < VIPD_NICS_MAX)
        client_charge(client, number, vipd_cpu_now() - start_ns);
    return gone;
}

/* While clients are held back, vipd looks at the undertaker once in this interval, in ns. */
#define HELD_BACK_NS 10000000u

/* If the undertaker has room for a user again, read from this user's clients again. */
static void on_held_back(void *ctx)
{
    struct vipd *vipd = ctx;
    bool full = false, ended = false;

    for (struct client *c = vipd->clients; c; c = c->next) {
        if (undertaker_full(vipd->undertaker, c->uid)) {
            full = true;
        } else if (c->end != CLIENT_END_NONE) {
            ended = true;
        } else {
            vipd_watch_set(c->sock_watch, VIPD_READ);
            if (c->session)
                events_listen(c->session);
        }
    }
    pthread_mutex_lock(&vipd->shared);
    vipd->held_back = full;
    vipd->ending += ended;
    pthread_mutex_unlock(&vipd->shared);
    vipd->held_back_timed = false;
    vipd_host_call(vipd->loop); /* the control loop calls clients_reap next */
}

/* The undertaker does not report when it has room, so a timer makes vipd look. */
static void held_back_wait(struct vipd *vipd)
{
    if (vipd->held_back_timed)
        return;
    if (!vipd->held_back_timer)
        vipd->held_back_timer = vipd_timer_new(vipd->loop, on_held_back, vipd);
    if (!vipd->held_back_timer) { /* no memory for the timer: look now */
        on_held_back(vipd);
        return;
    }
    vipd->held_back_timed = true;
    vipd_timer_start(vipd->held_back_timer, HELD_BACK_NS);
}

/*
 * May vipd close the connection of an ended client? No, if many descriptors of its user wait for
 * the undertaker. Then the connection stays open and counts in connections_per_uid, so this limit
 * also bounds the number of sockets to close.
 */
static bool may_close(struct client *client, bool all)
{
    return all || client->session || !client_held_back(client);
}

/*
 * End and free a client. Returns true if the client is freed, or held back (never with `all`);
 * false if the next turn must go on with this client. *cost: the cost that is left for this turn.
 */
static bool remove_client(struct client *client, unsigned *cost, bool all)
{
    struct vipd *vipd = client->vipd;
    unsigned begin = client->session ? SESSION_COST : 1;

    /* Ignore messages that the client still sends. Otherwise its readable socket would wake the
     * loop again and again. */
    vipd_watch_set(client->sock_watch, 0);
    if (client->pid_watch)
        vipd_watch_set(client->pid_watch, 0);
    /* Other clients of the user need not wait for this client any more. */
    turns_forget(client->turns, client);
    /* A held-back client costs nothing: otherwise such clients would use up every turn. */
    if (!may_close(client, all))
        return true;
    if (*cost < begin)
        return false;
    *cost -= begin;
    if (!end_session(client, cost))
        return false;
    if (client->closing)
        request_close_done(client);
    client->closing = false;
    /* The session has ended, and its peers have got CLOSE. The socket may have to stay open
     * longer. */
    if (!may_close(client, all))
        return true;
    if (client->prev)
        client->prev->next = client->next;
    else
        vipd->clients = client->next;
    if (client->next)
        client->next->prev = client->prev;
    else
        vipd->clients_last = client->prev;
    (void)client_free(client);
    return true;
}

/* Remove clients that have ended. all: hold no client back. Returns whether a client had ended. */
static bool reap(struct vipd *vipd, bool all)
{
    struct client *next;
    unsigned cost = REAP_COST_MAX, left = 0;

    if (vipd->ending == 0)
        return false;
    /* Set `ending` to 0 before the loop. The end of a session sends events to peers on this host.
     * Such an event may end another session, for which client_end increments `ending` again. */
    vipd->ending = 0;
    for (struct client *c = vipd->clients; c; c = next) {
        next = c->next;
        if (c->end != CLIENT_END_NONE)
            left += !remove_client(c, &cost, all);
    }
    vipd->ending += left;
    if (vipd->ending > 0)
        vipd_host_call(vipd->loop);
    return true;
}

bool clients_reap(struct vipd *vipd)
{
    bool any = reap(vipd, false);

    if (vipd->held_back)
        held_back_wait(vipd);
    return any;
}

/* Can the session go on with the next vipd? The program must be alive, and no event that asks to
 * copy bytes of a message may wait, because such an event is lost with this vipd. */
static bool may_stay(const struct client *client)
{
    struct pollfd look[2] = {{.fd = client->sock, .events = POLLRDHUP},
                             {.fd = client->pidfd, .events = POLLIN}};

    return client->end == CLIENT_END_NONE && client->session && client->session->outlives &&
           !events_hold_data(client->session) && poll(look, 2, 0) == 0;
}

/*
 * Prepare the end of sessions whose programs wait for the next vipd ([reliability] outlive). These
 * programs do not notice that vipd ends. For a connection that can go on, vipd sends no CLOSE.
 */
static void sessions_stay(struct vipd *vipd)
{
    uint32_t conns = 0, sessions = 0;

    for (struct client *c = vipd->clients; c; c = c->next) {
        uint32_t count;

        if (!may_stay(c))
            continue;
        count = nic_session_stay(c->session->nic_session);
        if (!segment_let_go(c->session)) {
            nic_session_stay_not(c->session->nic_session);
            vipd_warning("%s (pid %ld) cannot go on with the next vipd: %s", c->program,
                         (long)c->pid, strerror(errno));
            continue;
        }
        conns += count;
        sessions++;
    }
    if (sessions > 0)
        vipd_info("the next vipd can go on with %u connections of %u NIC handles, if it starts "
                  "within %llu ms",
                  conns, sessions, (unsigned long long)vipd->config->outlive_ns / 1000000);
}

void clients_shutdown(struct vipd *vipd)
{
    for (unsigned i = 0; i < vipd->nic_count; i++)
        nic_stopping(vipd->nics[i].nic);
    if (vipd->config->outlive_ns > 0)
        sessions_stay(vipd);
    for (struct client *c = vipd->clients; c; c = c->next)
        client_end(c, CLIENT_END_SHUTDOWN, NULL);
    /* End held-back clients, too. Closing their sockets may take long, but no NIC moves messages
     * any more. */
    vipd->ending++;
    while (reap(vipd, true))
        continue;
    vipd_timer_free(vipd->held_back_timer);
    vipd->held_back_timer = NULL;
}
