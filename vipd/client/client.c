/* The life of a client's connection: watching, reading, ending. */
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

/* Linux 6.5; Debian 12's headers do not know it. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define REQUESTS_PER_CALL 32 /* of one client, before others get their turn */

/* What requests of all clients together may cost in one look at the descriptors, before the NICs have
 * their turn: cheap ones count 1 (some microseconds), a view of many rows may take milliseconds. */
#define PASS_COST_MAX 64u
#define SHOW_COST     PASS_COST_MAX

static const struct {
    const char *name, *help;
} ends[CLIENT_ENDS] = {
    [CLIENT_END_NONE] = {"none", ""},
    [CLIENT_END_CLOSED] = {"closed", "VipCloseNic, or a tool that hung up"},
    [CLIENT_END_DIED] = {"died", "the program ended without VipCloseNic"},
    [CLIENT_END_MALFORMED] = {"malformed_message", "a control message that makes no sense"},
    [CLIENT_END_FDS] = {"wrong_descriptors", "a control message with wrong file descriptors"},
    [CLIENT_END_REOPEN] = {"second_open", "a second open on one connection"},
    [CLIENT_END_REPLIES] = {"replies_unread", "the program does not read its replies"},
    [CLIENT_END_EVENTS] = {"events_unread", "the program does not read its events"},
    [CLIENT_END_RING] = {"broken_ring", "the submission ring holds what no library writes"},
    [CLIENT_END_PLACED] = {"false_place_done", "confirmed bytes it was not asked to place"},
    [CLIENT_END_INTERNAL] = {"no_resources", "vipd lacked memory or file descriptors"},
    [CLIENT_END_SHUTDOWN] = {"shutdown", "vipd stopped"},
};

const char *client_end_name(enum client_end end)
{
    return ends[end].name;
}

const char *client_end_help(enum client_end end)
{
    return ends[end].help;
}

static bool is_ordinary(enum client_end end)
{
    return end == CLIENT_END_CLOSED || end == CLIENT_END_DIED || end == CLIENT_END_SHUTDOWN;
}

static void log_end(struct client *client, const char *detail)
{
    struct vipd *vipd = client->vipd;
    enum vipd_log_level level = is_ordinary(client->end) ? VIPD_LOG_INFO : VIPD_LOG_WARNING;
    uint64_t id = client->session ? client->session->id : 0;

    if (!client->session && is_ordinary(client->end))
        level = VIPD_LOG_DEBUG; /* tools come and go */
    vipd_log_limited(&vipd->client_log, client_now_ns(client), level,
                     "session %llu (%s, pid %ld, uid %lu) ended: %s%s%s", (unsigned long long)id,
                     client->program, (long)client->pid, (unsigned long)client->uid,
                     ends[client->end].help, detail ? ": " : "", detail ? detail : "");
}

uint64_t client_now_ns(const struct client *client)
{
    const struct vipd *vipd = client->vipd;
    uint64_t now_ns = vipd_loop_now(vipd->loop), nic_ns = 0;

    /* Which of the two is running is the one that has looked at the clock last. */
    if (client->session)
        nic_ns = vipd_loop_now(vipd->nics[client->session->nic].loop);
    return nic_ns > now_ns ? nic_ns : now_ns;
}

/* With vipd->shared held. */
static void note(const struct client *client, enum history_kind kind, bool is_error, uint32_t vi,
                 const char *key, const char *text)
{
    const struct vipd *vipd = client->vipd;
    struct history_who who = {
        .session = client->session ? client->session->id : 0,
        .vi = vi,
        .pid = client->pid,
        .uid = client->uid,
        .program = client->program,
        .nic = client->session ? vipd->nics[client->session->nic].config->name : NULL,
    };

    if (vipd->history)
        history_note(vipd->history, vipd_wall_now(), kind, is_error, &who, key, text);
}

void client_note(const struct client *client, enum history_kind kind, bool is_error, uint32_t vi,
                 const char *key, const char *text)
{
    pthread_mutex_lock(&client->vipd->shared);
    note(client, kind, is_error, vi, key, text);
    pthread_mutex_unlock(&client->vipd->shared);
}

/* Tools come and go without anybody wanting to know. */
static void note_end(const struct client *client, const char *detail)
{
    char text[HISTORY_TEXT_BYTES];
    bool ordinary = is_ordinary(client->end);

    if (!client->session && ordinary)
        return;
    snprintf(text, sizeof(text), "%s%s%s", ends[client->end].help, detail ? ": " : "",
             detail ? detail : "");
    note(client, ordinary && client->end != CLIENT_END_DIED ? HISTORY_CLOSE : HISTORY_DIED,
         !ordinary, HISTORY_NO_VI, ends[client->end].name, text);
}

void client_end(struct client *client, enum client_end end, const char *detail)
{
    struct vipd *vipd = client->vipd;

    VIP_ASSERT(end != CLIENT_END_NONE);
    if (client->end != CLIENT_END_NONE)
        return;
    client->end = end;
    pthread_mutex_lock(&vipd->shared);
    vipd->ending++;
    vipd->counters.ended[end]++;
    log_end(client, detail);
    note_end(client, detail);
    pthread_mutex_unlock(&vipd->shared);
    vipd_host_call(vipd->loop); /* clients_reap, if we are in another thread */
}

/* A hang-up. Only a close request before it tells VipCloseNic from a death. */
static void client_hung_up(struct client *client)
{
    client_end(client, client->session ? CLIENT_END_DIED : CLIENT_END_CLOSED, NULL);
}

/*
 * May this client have a request served in this look at the descriptors? What is not served stays
 * readable. Clients are looked at in about the same order each time, so the first one that comes too
 * late is the first to be served next time; or those in front would keep all others waiting.
 */
static bool has_turn(struct client *client, bool served)
{
    struct vipd *vipd = client->vipd;
    uint64_t now_ns = vipd_loop_now(vipd->loop);

    if (vipd->pass_ns != now_ns) {
        vipd->pass_ns = now_ns;
        vipd->pass_cost = 0;
        vipd->pass_first = vipd->pass_next;
        vipd->pass_next = NULL;
    }
    if (vipd->pass_first && vipd->pass_first != client)
        return false;
    vipd->pass_first = NULL;
    if (vipd->pass_cost < PASS_COST_MAX)
        return true;
    if (!vipd->pass_next && !served)
        vipd->pass_next = client;
    return false;
}

static void on_sock(void *ctx, unsigned events)
{
    struct client *client = ctx;

    (void)events;
    for (unsigned i = 0; i < REQUESTS_PER_CALL; i++) {
        if (!has_turn(client, i > 0) || !client_serve(client))
            return;
    }
}

static void on_pid(void *ctx, unsigned events)
{
    struct client *client = ctx;

    (void)events;
    /* The socket may stay open in a forked child; the VIs belong to the process that opened them. */
    client_hung_up(client);
}

bool client_serve(struct client *client)
{
    const Vip__Request *request;
    ProtobufCMessage *message;
    struct vip_fds fds;
    int r;

    if (client->end != CLIENT_END_NONE)
        return false;
    r = vip_control_recv(client->sock, &vip__request__descriptor, MSG_DONTWAIT, &message, &fds);
    if (r == -EAGAIN)
        return false;
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
    client->vipd->pass_cost += request->body_case == VIP__REQUEST__BODY_SHOW ? SHOW_COST : 1;
    request_dispatch(client, request, &fds);
    vip_fds_close(&fds);
    protobuf_c_message_free_unpacked(message, NULL);
    return client->end == CLIENT_END_NONE;
}

/* ---- new --------------------------------------------------------------------------------- */

/* What the kernel knows about the other side, as of its connect. */
static int read_identity(struct client *client)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);
    char path[64];
    FILE *comm;

    if (getsockopt(client->sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
        return -errno;
    client->pid = cred.pid;
    client->uid = cred.uid;
    client->gid = cred.gid;
    len = sizeof(client->pidfd);
    if (getsockopt(client->sock, SOL_SOCKET, SO_PEERPIDFD, &client->pidfd, &len) < 0) {
        /* Before Linux 6.5: a window between connect and here remains, so the socket decides. */
        client->pidfd = cred.pid > 0 ? pidfd_open(cred.pid, 0) : -1;
    }
    snprintf(client->program, sizeof(client->program), "?");
    snprintf(path, sizeof(path), "/proc/%ld/comm", (long)cred.pid);
    comm = fopen(path, "re");
    if (comm) {
        if (fgets(client->program, sizeof(client->program), comm))
            client->program[strcspn(client->program, "\n")] = '\0';
        fclose(comm);
    }
    vipd_log_clean(client->program);
    return 0;
}

bool client_in_group(const struct client *client, uint32_t gid)
{
    gid_t groups[1024]; /* more than a user has; the kernel tells if it is not */
    socklen_t len = sizeof(groups);

    if (gid == VIPD_NO_GID)
        return false;
    if (client->gid == gid)
        return true;
    if (getsockopt(client->sock, SOL_SOCKET, SO_PEERGROUPS, groups, &len) < 0)
        return false;
    for (size_t i = 0; i < len / sizeof(groups[0]); i++)
        if (groups[i] == gid)
            return true;
    return false;
}

static uint64_t connections_of(const struct vipd *vipd, uid_t uid)
{
    uint64_t count = 0;

    for (const struct client *c = vipd->clients; c; c = c->next)
        count += c->uid == uid;
    return count;
}

static void free_client(struct client *client)
{
    vipd_watch_free(client->sock_watch);
    vipd_watch_free(client->pid_watch);
    if (client->pidfd >= 0)
        close(client->pidfd);
    close(client->sock);
    free(client);
}

int client_new(struct vipd *vipd, int sock)
{
    struct client *client = calloc(1, sizeof(*client));
    int r;

    if (!client) {
        client_refuse(sock, "vipd has no memory for one more connection");
        close(sock);
        return -ENOMEM;
    }
    client->vipd = vipd;
    client->sock = sock;
    client->pidfd = -1;
    r = read_identity(client);
    if (r < 0)
        goto fail;
    if (connections_of(vipd, client->uid) >= vipd->config->connections_per_uid) {
        vipd->counters.refused_limit++;
        vipd_log_limited(&vipd->client_log, vipd_loop_now(vipd->loop), VIPD_LOG_WARNING,
                         "connection of %s (pid %ld) refused: uid %lu has %llu already; "
                         "[limits] connections_per_uid",
                         client->program, (long)client->pid, (unsigned long)client->uid,
                         (unsigned long long)vipd->config->connections_per_uid);
        client_refuse(sock,
                      "uid %lu has %llu connections to vipd: the limit is [limits] "
                      "connections_per_uid = %llu",
                      (unsigned long)client->uid,
                      (unsigned long long)connections_of(vipd, client->uid),
                      (unsigned long long)vipd->config->connections_per_uid);
        r = -EDQUOT;
        goto fail;
    }
    r = -ENOMEM;
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
    if (r != -EDQUOT)
        client_refuse(sock, "vipd cannot take one more connection: %s", strerror(-r));
    free_client(client);
    return r;
}

/* ---- end --------------------------------------------------------------------------------- */

static void remove_client(struct client *client)
{
    struct vipd *vipd = client->vipd;

    if (vipd->pass_first == client)
        vipd->pass_first = NULL;
    if (vipd->pass_next == client)
        vipd->pass_next = NULL;
    if (client->prev)
        client->prev->next = client->next;
    else
        vipd->clients = client->next;
    if (client->next)
        client->next->prev = client->prev;
    else
        vipd->clients_last = client->prev;
    session_free(client, client->end != CLIENT_END_CLOSED && client->end != CLIENT_END_SHUTDOWN);
    free_client(client);
}

bool clients_reap(struct vipd *vipd)
{
    struct client *next;
    bool any = false;

    /* Ending one session tells its peers on this host, whose events may end another one. */
    while (vipd->ending > 0) {
        vipd->ending = 0;
        for (struct client *c = vipd->clients; c; c = next) {
            next = c->next;
            if (c->end != CLIENT_END_NONE)
                remove_client(c);
        }
        any = true;
    }
    return any;
}

void clients_shutdown(struct vipd *vipd)
{
    for (unsigned i = 0; i < vipd->nic_count; i++)
        nic_stopping(vipd->nics[i].nic);
    for (struct client *c = vipd->clients; c; c = c->next)
        client_end(c, CLIENT_END_SHUTDOWN, NULL);
    clients_reap(vipd);
}
