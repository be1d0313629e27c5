/*
 * The start of a client's connection, and the client's requests. Each look at the descriptors
 * serves a bounded part of the requests. Does not own: the end of a client (end.c).
 */
#include "vipd/client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

#include "proto/assert.h"
#include "vipd/client/internal.h"
#include "vipd/host.h"
#include "vipd/nic/share.h"
#include "vipd/registry/undertaker.h"

/* Linux has this option since 6.5. The headers of Debian 12 do not have it. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define REQUESTS_PER_CALL 32 /* largest number of requests of one client in a row */

/* Costs of requests (turns.h). Other requests cost 1. */
#define SHOW_COST        TURNS_COST_MAX
#define MAKE_MEMORY_COST 8u
/* A request may make the NIC take earlier postings first: they cost 1 per COST_SLOTS slots. */
#define COST_SLOTS 16u

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
    /* The process has ended. A child may still have the socket, but VIs end with their process. */
    client_hung_up(client);
}

/* Submission slots taken from the client's session, 0 if it has none. */
static uint64_t slots_taken(const struct client *client)
{
    return client->session && client->session->nic_session
               ? nic_session_slots(client->session->nic_session)
               : 0;
}

/*
 * The clock that measures a client's cost: processor time, which needs a system call. If the NIC
 * has only one user, elapsed time is enough, because no other user shares the NIC's time.
 */
static uint64_t (*clock_for(const struct client *client))(void)
{
    const struct session *session = client->session;

    return session && nic_has_one_user(client->vipd->nics[session->nic].nic) ? vipd_clock_now
                                                                             : vipd_cpu_now;
}

/* Charge the client's user with the time that vipd has worked for the client. */
static void charge(struct client *client, uint64_t took_ns)
{
    client->vipd->counters.request_time += took_ns;
    if (client->session)
        client_charge(client, client->session->nic, took_ns);
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
    if (r < 0) /* to connect and hang up costs time, too */
        turns_spent(&client->vipd->turns, client->turns, 1);
    if (r == -EPIPE) {
        client_hung_up(client);
        return false;
    }
    if (r == -EBADMSG) {
        client_end(client, CLIENT_END_MALFORMED, NULL);
        return false;
    }
    if ((r == -EMFILE || r == -ENOMEM) && client->session) {
        clock = clock_for(client);
        start_ns = clock();
        request_lost(client, r);
        charge(client, clock() - start_ns);
        return client->end == CLIENT_END_NONE;
    }
    if (r < 0) {
        client_refuse(client->sock, "vipd cannot take this request: %s%s", strerror(-r),
                      r == -EMFILE ? VIPD_FEW_FDS : "");
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

/* Read the pidfd and the name of the process, which costs more than to refuse a connection. */
static void read_process(struct client *client)
{
    socklen_t len = sizeof(client->pidfd);
    char path[64];
    FILE *comm;

    if (getsockopt(client->sock, SOL_SOCKET, SO_PEERPIDFD, &client->pidfd, &len) < 0) {
        /* Before Linux 6.5, only the pid is known. If the process has ended since it connected, the
         * socket reports a hang-up. */
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

/* Has the user all connections that [limits] allow? If so, send the program the reason. The refusal
 * must cost little: otherwise a user that connects without end would make other users wait in the
 * queue of the listening socket. */
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
        if (!client_free(client))
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
    (void)client_free(client);
    return r;
}
