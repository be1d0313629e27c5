/*
 * Serving the clients: a new one, its requests, its end. Each look at the descriptors serves a
 * bounded part of the requests, and each turn ends a bounded part of the sessions.
 */
#include "vipd/client/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/assert.h"
#include "vipd/client/internal.h"
#include "vipd/host.h"
#include "vipd/nic/share.h"
#include "vipd/registry/undertaker.h"

/* Linux 6.5; Debian 12's headers do not know it. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define REQUESTS_PER_CALL 32 /* requests of one client, before other clients get their turn */

/* Costs of requests (turns.h); others cost 1. */
#define SHOW_COST        TURNS_COST_MAX
#define MAKE_MEMORY_COST 8u
/* A request that makes the NIC take earlier postings first costs 1 more for each COST_SLOTS
 * slots. */
#define COST_SLOTS 16u

/* The program has hung up. If a close request came before, it was VipCloseNic: client_end keeps the
 * first reason. */
static void client_hung_up(struct client *client)
{
    client_end(client, client->session ? CLIENT_END_DIED : CLIENT_END_CLOSED, NULL);
}

static void on_sock(void *ctx, unsigned events)
{
    struct client *client = ctx;
    struct turns *turns = &client->vipd->turns;

    (void)events;
    for (unsigned i = 0; i < REQUESTS_PER_CALL; i++) {
        if (!turns_may(turns, client->turns, client, i > 0, vipd_loop_now(client->vipd->loop)) ||
            !client_serve(client))
            return;
    }
}

static void on_pid(void *ctx, unsigned events)
{
    struct client *client = ctx;

    (void)events;
    /* The socket may stay open in a forked child; VIs belong to the process that opened them. */
    client_hung_up(client);
}

/* Submission slots taken from the client's session, 0 if it has none. */
static uint64_t slots_taken(const struct client *client)
{
    return client->session && client->session->nic_session
               ? nic_session_slots(client->session->nic_session)
               : 0;
}

/* A worker's NIC uses the processor time of its own thread, not of this one. */
static void charge_nic(const struct client *client, unsigned number, uint64_t cpu_ns)
{
    const struct vipd_nic *nic = &client->vipd->nics[number];

    nic_charge(nic->nic, client->uid, cpu_ns, nic->loop == client->vipd->loop);
}

/*
 * The clock for what a client costs: processor time, which takes two system calls. If a NIC has
 * only one user, no other user shares its time: elapsed time will do.
 */
static uint64_t (*clock_for(const struct client *client))(void)
{
    const struct session *session = client->session;

    return session && nic_has_one_user(client->vipd->nics[session->nic].nic) ? vipd_clock_now
                                                                             : vipd_cpu_now;
}

/* The time that vipd has worked for the client counts in the share of the client's user. */
static void charge(struct client *client, uint64_t took_ns)
{
    client->vipd->counters.request_time += took_ns;
    if (client->session)
        charge_nic(client, client->session->nic, took_ns);
}

static unsigned cost_of(const Vip__Request *request)
{
    switch (request->body_case) {
    case VIP__REQUEST__BODY_SHOW:
        return SHOW_COST;
    case VIP__REQUEST__BODY_MAKE_MEMORY:
        return MAKE_MEMORY_COST;
    default:
        return 1;
    }
}

bool client_serve(struct client *client)
{
    const Vip__Request *request;
    ProtobufCMessage *message;
    struct vip_fd_drop drop = client_fd_drop(client);
    struct vip_fds fds;
    uint64_t (*clock)(void);
    uint64_t before, start_ns;
    int r;

    if (client->end != CLIENT_END_NONE)
        return false;
    if (client_held_back(client)) {
        vipd_watch_set(client->sock_watch, 0);
        return false;
    }
    r = vip_control_recv_from(client->sock, &vip__request__descriptor, MSG_DONTWAIT, &drop,
                              &message, &fds);
    if (r == -EAGAIN)
        return false;
    if (r < 0) /* to connect and hang up costs, too */
        turns_spent(&client->vipd->turns, client->turns, 1);
    if (r == -EPIPE) {
        client_hung_up(client);
        return false;
    }
    if (r == -EBADMSG) {
        client_end(client, CLIENT_END_MALFORMED, NULL);
        return false;
    }
    if (r < 0) {
        client_refuse(client->sock, "vipd cannot take this request: %s%s", strerror(-r),
                      r == -EMFILE ? " in vipd; raise LimitNOFILE= of the service or 'ulimit -n'"
                                   : "");
        client_end(client, CLIENT_END_INTERNAL, strerror(-r));
        return false;
    }
    request = (const Vip__Request *)message;
    turns_spent(&client->vipd->turns, client->turns, cost_of(request));
    before = slots_taken(client);
    clock = clock_for(client);
    start_ns = clock();
    request_dispatch(client, request, &fds);
    turns_spent(&client->vipd->turns, client->turns,
                (unsigned)((slots_taken(client) - before) / COST_SLOTS));
    charge(client, clock() - start_ns);
    vip_fds_drop(&fds, &drop);
    protobuf_c_message_free_unpacked(message, NULL);
    return client->end == CLIENT_END_NONE;
}

/* Read the user and the process that connected, as the kernel knows them. */
static int read_cred(int sock, struct ucred *ret)
{
    socklen_t len = sizeof(*ret);

    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, ret, &len) < 0 ? -errno : 0;
}

void client_hang_up(const struct vipd *vipd, int sock)
{
    struct ucred cred;

    (void)undertaker_hang_up(vipd->undertaker, read_cred(sock, &cred) == 0 ? cred.uid : 0, sock);
}

static int read_user(struct client *client)
{
    struct ucred cred;
    int r = read_cred(client->sock, &cred);

    if (r < 0)
        return r;
    client->pid = cred.pid;
    client->uid = cred.uid;
    client->gid = cred.gid;
    return 0;
}

/* Read what else the kernel knows of that process. This costs more than a whole refusal. */
static void read_process(struct client *client)
{
    socklen_t len = sizeof(client->pidfd);
    char path[64];
    FILE *comm;

    if (getsockopt(client->sock, SOL_SOCKET, SO_PEERPIDFD, &client->pidfd, &len) < 0) {
        /* Before Linux 6.5. If the process has ended since it connected, the socket reports a
         * hang-up. */
        client->pidfd = client->pid > 0 ? pidfd_open(client->pid, 0) : -1;
    }
    snprintf(client->program, sizeof(client->program), "?");
    snprintf(path, sizeof(path), "/proc/%ld/comm", (long)client->pid);
    comm = fopen(path, "re");
    if (comm) {
        if (fgets(client->program, sizeof(client->program), comm))
            client->program[strcspn(client->program, "\n")] = '\0';
        fclose(comm);
    }
    vipd_log_clean(client->program);
}

/* Returns whether the socket waits for the undertaker, so that vipd still has its descriptor. */
static bool free_client(struct client *client)
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

/* Has the user all connections that [limits] allow? Then the program gets the reason. This must
 * cost little: otherwise a user who connects without end would keep other users waiting in the
 * queue of the socket. */
static bool over_limit(struct client *client)
{
    struct vipd *vipd = client->vipd;
    unsigned long long has = turns_connections(&vipd->turns, client->uid);
    unsigned long long max = vipd->config->connections_per_uid;

    if (has < max)
        return false;
    vipd->counters.refused_limit++;
    vipd_log_limited(&vipd->client_log, vipd_loop_now(vipd->loop), VIPD_LOG_WARNING,
                     "connection of pid %ld refused: uid %lu has %llu already; "
                     "[limits] connections_per_uid",
                     (long)client->pid, (unsigned long)client->uid, has);
    client_refuse(client->sock,
                  "uid %lu has %llu connections to vipd: the limit is [limits] "
                  "connections_per_uid = %llu",
                  (unsigned long)client->uid, has, max);
    return true;
}

int client_new(struct vipd *vipd, int sock)
{
    struct client *client = calloc(1, sizeof(*client));
    uid_t uid;
    int r;

    if (!client) {
        client_refuse(sock, "vipd has no memory for one more connection");
        client_hang_up(vipd, sock);
        return -ENOMEM;
    }
    client->vipd = vipd;
    client->sock = sock;
    client->pidfd = -1;
    r = read_user(client);
    if (r < 0)
        goto fail;
    uid = client->uid;
    if (over_limit(client)) {
        if (!free_client(client))
            return -EDQUOT;
        return undertaker_full(vipd->undertaker, uid) ? -EBUSY : -EINPROGRESS;
    }
    read_process(client);
    r = -ENOMEM;
    client->turns = turns_join(&vipd->turns, client->uid);
    if (!client->turns)
        goto fail;
    client->sock_watch = vipd_watch_new(vipd->loop, sock, VIPD_READ, on_sock, client);
    if (!client->sock_watch)
        goto fail;
    if (client->pidfd >= 0) {
        client->pid_watch = vipd_watch_new(vipd->loop, client->pidfd, VIPD_READ, on_pid, client);
        if (!client->pid_watch)
            goto fail;
    }
    client->prev = vipd->clients_last;
    if (client->prev)
        client->prev->next = client;
    else
        vipd->clients = client;
    vipd->clients_last = client;
    vipd->counters.accepted++;
    return 0;

fail:
    client_refuse(sock, "vipd cannot take one more connection: %s", strerror(-r));
    (void)free_client(client);
    return r;
}

/* ---- end --------------------------------------------------------------------------------- */

/* Limit of the cost of ending clients in one turn. A VI with its connection, a wait or a request
 * costs 1 (0.1 ms of processor time at most); a session costs SESSION_COST beside these. */
#define REAP_COST_MAX 32u
#define SESSION_COST  8u

/* Call session_end; the time of the call counts in the share of the client's user. */
static bool end_session(struct client *client, unsigned *cost)
{
    bool died = client->end != CLIENT_END_CLOSED && client->end != CLIENT_END_SHUTDOWN;
    unsigned number = client->session ? client->session->nic : VIPD_NICS_MAX;
    uint64_t start_ns = vipd_cpu_now();
    bool gone = session_end(client, died, cost);

    if (number < VIPD_NICS_MAX)
        charge_nic(client, number, vipd_cpu_now() - start_ns);
    return gone;
}

/* Interval in ns of looks at the undertaker while clients are held back; the same in libvipl. */
#define HELD_BACK_NS 10000000u

/* Look again at the clients of users for which the undertaker has room. */
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
    vipd_host_call(vipd->loop); /* clients_reap */
}

/* The undertaker does not report that it has room, so a timer looks. */
static void held_back_wait(struct vipd *vipd)
{
    if (vipd->held_back_timed)
        return;
    if (!vipd->held_back_timer)
        vipd->held_back_timer = vipd_timer_new(vipd->loop, on_held_back, vipd);
    if (!vipd->held_back_timer) { /* no memory for a timer: look each time */
        on_held_back(vipd);
        return;
    }
    vipd->held_back_timed = true;
    vipd_timer_start(vipd->held_back_timer, HELD_BACK_NS);
}

/*
 * May the connection of an ended client be closed? Not while many descriptors of its user wait: an
 * open connection counts in connections_per_uid, which bounds the number of such closes.
 */
static bool may_close(struct client *client, bool all)
{
    return all || client->session || !client_held_back(client);
}

/*
 * Returns true if the client is gone or held back (`all`: never held back), false if the next turn
 * must go on with it. *cost: cost that this turn may still have.
 */
static bool remove_client(struct client *client, unsigned *cost, bool all)
{
    struct vipd *vipd = client->vipd;
    unsigned begin = client->session ? SESSION_COST : 1;

    /* Ignore messages that the client still sends: its readable socket would wake the loop without
     * end. */
    vipd_watch_set(client->sock_watch, 0);
    if (client->pid_watch)
        vipd_watch_set(client->pid_watch, 0);
    /* No other client has to wait for its turn any more. */
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
    /* The peers know of the end now; only the connection may have to wait. */
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
    (void)free_client(client);
    return true;
}

/* Remove clients that have ended. all: no client is held back. Returns whether a client had
 * ended. */
static bool reap(struct vipd *vipd, bool all)
{
    struct client *next;
    unsigned cost = REAP_COST_MAX, left = 0;

    if (vipd->ending == 0)
        return false;
    /* Ending a session sends events to its peers on this host. These may end another session, which
     * then counts in `ending` again. */
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

void clients_shutdown(struct vipd *vipd)
{
    for (unsigned i = 0; i < vipd->nic_count; i++)
        nic_stopping(vipd->nics[i].nic);
    for (struct client *c = vipd->clients; c; c = c->next)
        client_end(c, CLIENT_END_SHUTDOWN, NULL);
    /* End also clients that were held back before: no NIC moves messages any more. */
    vipd->ending++;
    while (reap(vipd, true))
        continue;
    vipd_timer_free(vipd->held_back_timer);
    vipd->held_back_timer = NULL;
}
