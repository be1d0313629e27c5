/*
 * Functions that all files of vipd/client/ use: marking the end of a client, with its reason in log
 * and history; the time of a client's loop; groups of a user; charging a user for time. The end
 * itself is in end.c.
 */
#include "vipd/client/client.h"

#include <stdio.h>
#include <sys/socket.h>

#include "proto/assert.h"
#include "vipd/client/internal.h"
#include "vipd/host.h"
#include "vipd/nic/share.h"
#include "vipd/registry/undertaker.h"

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
    [CLIENT_END_MISSING] = {"missing_page", "the kernel refused a page of its memory (SIGBUS)"},
    [CLIENT_END_TAKEN] = {"memory_limit",
                          "the memory files of its user took more than the limit allows"},
    [CLIENT_END_LISTEN] = {"listen_reloaded",
                           "it waits on a discriminator that [listen] now keeps for another user"},
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
        level = VIPD_LOG_DEBUG; /* tools connect and leave often */
    vipd_log_limited(&vipd->client_log, client_now_ns(client), level,
                     "session %llu (%s, pid %ld, uid %lu) ended: %s%s%s", (unsigned long long)id,
                     client->program, (long)client->pid, (unsigned long)client->uid,
                     ends[client->end].help, detail ? ": " : "", detail ? detail : "");
}

uint64_t client_now_ns(const struct client *client)
{
    const struct vipd *vipd = client->vipd;
    uint64_t now_ns = vipd_loop_now(vipd->loop), nic_ns = 0;

    /* The loop that runs now has read the clock last, so it has the later time. */
    if (client->session)
        nic_ns = vipd_loop_now(vipd->nics[client->session->nic].loop);
    return nic_ns > now_ns ? nic_ns : now_ns;
}

/* The caller holds vipd->shared. */
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

/* Add the end of the client to the history, except the ordinary end of a tool. */
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
    vipd_host_call(vipd->loop); /* the control loop calls clients_reap next */
}

static void close_fd(void *ctx, int fd)
{
    const struct client *client = ctx;

    undertaker_close(client->vipd->undertaker, client->uid, fd);
}

struct vip_fd_drop client_fd_drop(struct client *client)
{
    return (struct vip_fd_drop){.close_fd = close_fd, .ctx = client};
}

bool client_held_back(struct client *client)
{
    struct vipd *vipd = client->vipd;

    if (!undertaker_full(vipd->undertaker, client->uid))
        return false;
    pthread_mutex_lock(&vipd->shared);
    vipd->held_back = true;
    pthread_mutex_unlock(&vipd->shared);
    vipd_host_call(vipd->loop); /* the control loop calls clients_reap, which starts the timer */
    return true;
}

bool client_in_group(const struct client *client, uint32_t gid)
{
    /* more groups than a user has in practice; with more of them, getsockopt fails */
    gid_t groups[1024];
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

void client_charge(const struct client *client, unsigned number, uint64_t cpu_ns)
{
    const struct vipd_nic *nic = &client->vipd->nics[number];

    nic_charge(nic->nic, client->uid, cpu_ns, nic->loop == client->vipd->loop);
}
