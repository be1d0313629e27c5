/*
 * Requests of administrators. Administrators are, by the uid and groups that the kernel reports:
 * root, the user that vipd runs as, and the members of [daemon] admin_group. Every such request is
 * logged with uid and pid, whether it is allowed or refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/limits.h"
#include "vipd/client/internal.h"
#include "vipd/ctl/capture.h"
#include "vipd/handover.h"
#include "vipd/names.h"
#include "vipd/nic/objects.h"
#include "vipd/reload.h"

/* Size in bytes of the text about faults in the configuration files. vipd leaves out faults for
 * which the text has no room. */
#define FAULTS_BYTES 8192

bool client_is_admin(const struct client *client)
{
    return client->uid == 0 || client->uid == geteuid() ||
           client_in_group(client, client->vipd->admin_gid);
}

bool answer_admin(struct client *client, const char *verb, const char *on, struct answer *answer)
{
    struct vipd *vipd = client->vipd;
    const char *group = vipd->config->admin_group;

    if (client_is_admin(client)) {
        vipd_info("%s%s%s asked for by uid %lu (%s, pid %ld)", verb, on ? " " : "", on ? on : "",
                  (unsigned long)client->uid, client->program, (long)client->pid);
        client_note(client, HISTORY_ADMIN, false, HISTORY_NO_VI, verb, on);
        return true;
    }
    vipd->counters.admin_denied++;
    vipd_log_limited(&vipd->client_log, vipd_loop_now(vipd->loop), VIPD_LOG_WARNING,
                     "%s%s%s refused to uid %lu (%s, pid %ld)", verb, on ? " " : "", on ? on : "",
                     (unsigned long)client->uid, client->program, (long)client->pid);
    answer_set(answer, VIP_RC_ERROR_RESOURCE,
               "uid %lu may not %s: root may, the user that vipd runs as, and the group '%s' "
               "([daemon] admin_group)",
               (unsigned long)client->uid, verb, group);
    answer->reply.has_refusal = true;
    answer->reply.refusal = VIP__REFUSAL__REFUSAL_DENIED;
    return false;
}

/* For the log, write what a request is about: "VI 3:17", "peer node2", "everything". */
#define ON_BYTES 96
static void name_target(char buf[ON_BYTES], const uint32_t *vi, const uint64_t *session,
                        const char *peer)
{
    if (vi && session)
        snprintf(buf, ON_BYTES, "VI %llu:%u", (unsigned long long)*session, *vi);
    else if (vi)
        snprintf(buf, ON_BYTES, "VI %u", *vi);
    else
        snprintf(buf, ON_BYTES, "%s%.64s", peer ? "peer " : "everything", peer ? peer : "");
    vipd_log_clean(buf);
}

/* ---- reload ------------------------------------------------------------------------------ */

/* The changes of a reload, as many as fit into one message. */
struct changes {
    Vip__ReloadReply *reply;
    size_t bytes;
    bool failed;
};

static Vip__ConfigRow *row_of(const struct vipd_change *change)
{
    Vip__ConfigRow *row = malloc(sizeof(*row));

    if (!row)
        return NULL;
    vip__config_row__init(row);
    row->section = strdup(change->section);
    row->key = strdup(change->key);
    row->value = strdup(change->from);
    row->pending = strdup(change->to);
    row->reload = strdup(change->reload);
    if (row->section && row->key && row->value && row->pending && row->reload)
        return row;
    vip__config_row__free_unpacked(row, NULL);
    return NULL;
}

static void add_change(void *ctx, const struct vipd_change *change)
{
    struct changes *changes = ctx;
    Vip__ReloadReply *reply = changes->reply;
    Vip__ConfigRow **grown, *row = row_of(change);
    size_t bytes;

    if (!row) {
        changes->failed = true;
        return;
    }
    bytes = vip__config_row__get_packed_size(row) + 16;
    grown = reallocarray(reply->changes, reply->n_changes + 1, sizeof(*grown));
    if (grown)
        reply->changes = grown;
    if (!grown || changes->bytes + bytes > VIP_CONTROL_BYTES_MAX / 2) {
        vip__config_row__free_unpacked(row, NULL);
        changes->failed |= !grown;
        return;
    }
    changes->bytes += bytes;
    reply->changes[reply->n_changes++] = row;
}

static void log_change(const struct client *client, const Vip__ConfigRow *row)
{
    vipd_info("reload (uid %lu): [%s] %s: %s -> %s (%s)", (unsigned long)client->uid, row->section,
              row->key, row->value, row->pending, row->reload);
}

void request_reload(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                    struct answer *answer)
{
    bool dry_run = request->reload->dry_run;
    struct changes changes = {0};
    char *faults;
    int r;

    (void)fds;
    if (!answer_admin(client, dry_run ? "reload --dry-run" : "reload", NULL, answer))
        return;
    faults = calloc(1, FAULTS_BYTES);
    answer->reload = calloc(1, sizeof(*answer->reload));
    if (!faults || !answer->reload) {
        free(faults);
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd has no memory to read its configuration");
        return;
    }
    vip__reload_reply__init(answer->reload);
    changes.reply = answer->reload;
    answer->reply.reload = answer->reload;
    r = vipd_reload(client->vipd, dry_run, add_change, &changes, faults, FAULTS_BYTES);
    if (r >= 0 && !dry_run)
        clients_judge(client->vipd);
    if (r == -EINVAL) {
        answer->reload->faults = faults;
        answer_set(answer, VIP_RC_INVALID_PARAMETER,
                   "the configuration has faults; what runs has not been changed");
        answer->reply.has_refusal = true;
        answer->reply.refusal = VIP__REFUSAL__REFUSAL_CONFIG;
        vipd_error("reload refused: %.*s", (int)strcspn(faults, "\n"), faults);
        return;
    }
    free(faults);
    if (r < 0 || changes.failed)
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   r < 0 ? "vipd has no memory for a reload; nothing has been changed"
                         : "reloaded, but there is no memory to say what changed");
    for (size_t i = 0; !dry_run && i < answer->reload->n_changes; i++)
        log_change(client, answer->reload->changes[i]);
}

/* ---- disconnect, drain, resume ----------------------------------------------------------- */

static void refuse(struct answer *answer, Vip__Refusal refusal)
{
    answer->reply.has_refusal = true;
    answer->reply.refusal = refusal;
}

static void sever_vi(struct client *admin, const Vip__AdminRequest *r, struct answer *answer)
{
    struct vipd *vipd = admin->vipd;
    uint64_t now_ns = vipd_loop_now(vipd->loop);
    const struct client *found = NULL;
    unsigned count = 0;
    enum vip_rc rc;

    for (const struct client *c = vipd->clients; c; c = c->next) {
        if (!c->session || (r->has_session && c->session->id != r->session) ||
            !nic_session_has_vi(c->session->nic_session, r->vi))
            continue;
        found = c;
        count++;
    }
    if (count == 0) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER,
                   "there is no VI %u%s: vipctl show vi lists them", r->vi,
                   r->has_session ? " of that client" : "");
        refuse(answer, VIP__REFUSAL__REFUSAL_NO_SUCH);
        return;
    }
    if (count > 1) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER,
                   "%u clients have a VI %u: say which, as CLIENT:%u (vipctl show vi)", count,
                   r->vi, r->vi);
        return;
    }
    rc = nic_vi_sever(found->session->nic_session, r->vi,
                      "an administrator ended the connection (vipctl disconnect)", now_ns);
    if (rc != VIP_RC_SUCCESS)
        answer_set(answer, rc, "VI %u is not connected", r->vi);
    else
        answer->admin.connections = 1;
}

/* End the next connection with `host` from VI *from on. Returns whether there was a connection. */
static bool sever_one_of_peer(struct nic_session *session, const struct cm_host *host,
                              uint64_t now_ns, uint32_t *from)
{
    struct nic_conn_view view;

    while (nic_session_next_conn(session, from, &view)) {
        if (strcmp(view.state, "established") == 0 && view.peer.len == host->len &&
            memcmp(view.peer.bytes, host->bytes, host->len) == 0 &&
            nic_vi_sever(
                session, view.vi,
                "an administrator ended all connections with this peer (vipctl disconnect)",
                now_ns) == VIP_RC_SUCCESS)
            return true;
    }
    return false;
}

/* Find a peer on one NIC: text is an address of the NIC's medium or a name of [names]. */
static bool peer_address(const struct vipd *vipd, unsigned nic, const char *text,
                         struct cm_host *ret)
{
    enum link_kind kind = nic_link(vipd->nics[nic].nic)->kind;
    uint16_t port = (uint16_t)vipd->config->nics[nic].keys.port;
    struct link_addr addr;

    if (link_addr_parse_as(kind, text, port, &addr) < 0 &&
        !vipd_host_find(vipd->config, &vipd->config->nics[nic], text, 0, &addr))
        return false;
    if (addr.len > sizeof(ret->bytes))
        return false;
    *ret = (struct cm_host){.len = addr.len};
    memcpy(ret->bytes, addr.bytes, addr.len);
    return true;
}

static void sever_peer(struct client *admin, const Vip__AdminRequest *r, struct answer *answer)
{
    struct vipd *vipd = admin->vipd;
    uint64_t now_ns = vipd_loop_now(vipd->loop);
    bool known = false;
    struct cm_host host;

    for (unsigned n = 0; n < vipd->nic_count; n++) {
        if (!peer_address(vipd, n, r->peer ? r->peer : "", &host))
            continue;
        known = true;
        for (struct client *c = vipd->clients; c; c = c->next) {
            uint32_t from = 0;

            if (!c->session || c->session->nic != n || c->end != CLIENT_END_NONE)
                continue;
            while (sever_one_of_peer(c->session->nic_session, &host, now_ns, &from))
                answer->admin.connections++;
        }
    }
    if (!known || answer->admin.connections == 0) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER,
                   known ? "there is no connection with '%.64s': vipctl show peers lists them"
                         : "'%.64s' is neither an address of a NIC's medium nor a name of [names]",
                   r->peer ? r->peer : "");
        refuse(answer, VIP__REFUSAL__REFUSAL_NO_SUCH);
    }
}

/* Set the filter's peer: the address of `text` on the first NIC for which peer_address finds one.
 * false: there is no such NIC. */
static bool filter_peer(const struct vipd *vipd, const char *text, struct capture_filter *filter)
{
    for (unsigned n = 0; n < vipd->nic_count && !filter->has_peer; n++)
        filter->has_peer = peer_address(vipd, n, text, &filter->peer);
    return filter->has_peer;
}

void request_capture(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                     struct answer *answer)
{
    const Vip__CaptureRequest *r = request->capture;
    struct capture_filter filter = {.has_session = r->has_session,
                                    .session = r->session,
                                    .has_vi = r->has_vi,
                                    .vi = r->vi,
                                    .payload = r->payload};
    char on[ON_BYTES];
    int sock, error;

    (void)fds;
    name_target(on, r->has_vi ? &r->vi : NULL, r->has_session ? &r->session : NULL, r->peer);
    if (!answer_admin(client, r->payload ? "capture --payload" : "capture", on, answer))
        return;
    if (r->peer && !filter_peer(client->vipd, r->peer, &filter)) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER,
                   "'%.64s' is neither an address of a NIC's medium nor a name of [names]",
                   r->peer);
        refuse(answer, VIP__REFUSAL__REFUSAL_NO_SUCH);
        return;
    }
    error = capture_begin(client->vipd, &filter, &sock);
    if (error == 0)
        answer->fds.fd[answer->fds.count++] = sock;
    else if (error == -EBUSY)
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   "another vipctl capture goes on; there is one at a time");
    else
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd cannot begin a capture: %s",
                   strerror(-error));
}

void request_admin(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                   struct answer *answer)
{
    const Vip__AdminRequest *r = request->admin;
    struct vipd *vipd = client->vipd;
    int what = r->has_what ? (int)r->what : -1;
    const char *verb = what == VIP__ADMIN_REQUEST__WHAT__DRAIN    ? "drain"
                       : what == VIP__ADMIN_REQUEST__WHAT__RESUME ? "resume"
                                                                  : "disconnect";
    char on[ON_BYTES];

    (void)fds;
    vip__admin_reply__init(&answer->admin);
    name_target(on, what == VIP__ADMIN_REQUEST__WHAT__DISCONNECT_VI ? &r->vi : NULL,
                r->has_session ? &r->session : NULL, r->peer ? r->peer : "?");
    if (!answer_admin(client, verb, strcmp(verb, "disconnect") == 0 ? on : NULL, answer))
        return;
    switch (what) {
    case VIP__ADMIN_REQUEST__WHAT__DISCONNECT_VI:
        sever_vi(client, r, answer);
        break;
    case VIP__ADMIN_REQUEST__WHAT__DISCONNECT_PEER:
        sever_peer(client, r, answer);
        break;
    case VIP__ADMIN_REQUEST__WHAT__DRAIN:
        vipd->draining = true;
        break;
    case VIP__ADMIN_REQUEST__WHAT__RESUME:
        vipd->draining = false;
        break;
    default:
        answer_set(answer, VIP_RC_ERROR_NOT_SUPPORTED, "vipd " VIP_VERSION " cannot do this");
        return;
    }
    for (const struct client *c = vipd->clients; c; c = c->next)
        answer->admin.sessions += c->session != NULL;
    answer->admin.has_sessions = true;
    answer->admin.has_connections = true;
    answer->admin.has_draining = true;
    answer->admin.draining = vipd->draining;
    answer->reply.admin = &answer->admin;
}

/* ---- takeover ---------------------------------------------------------------------------- */

void request_takeover(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                      struct answer *answer)
{
    char why[REASON_BYTES];
    int sock;

    (void)fds;
    /* Not every administrator may take over: with vipd's sockets, a process can send packets as
     * this host. */
    if (client->uid != 0 && client->uid != geteuid()) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   "only root and vipd's own user can take over from it");
        refuse(answer, VIP__REFUSAL__REFUSAL_DENIED);
        return;
    }
    if (handover_begin(client->vipd, request->takeover->uid, client->pid, &sock, why, sizeof(why)) <
        0) {
        answer_set(answer, VIP_RC_INVALID_STATE, "%s", why);
        return;
    }
    vipd_info("vipd (pid %ld) is taking over", (long)client->pid);
    answer->fds.fd[answer->fds.count++] = sock;
}

/* ---- ping: allowed to every user --------------------------------------------------------- */

static int ping_nic(const struct vipd *vipd, const char *name)
{
    if (!name || name[0] == '\0')
        return 0;
    for (unsigned n = 0; n < vipd->nic_count; n++)
        if (strcmp(vipd->config->nics[n].name, name) == 0)
            return (int)n;
    return -1;
}

void request_ping(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                  struct answer *answer)
{
    const Vip__PingRequest *r = request->ping;
    struct vipd *vipd = client->vipd;
    int n = ping_nic(vipd, r->nic), known;
    struct cm_host host;

    (void)fds;
    if (n < 0) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "there is no NIC '%.64s'", r->nic);
        refuse(answer, VIP__REFUSAL__REFUSAL_NO_SUCH);
        return;
    }
    vip__ping_reply__init(&answer->ping);
    answer->reply.ping = &answer->ping;
    answer->ping.nic = (char *)vipd->nics[n].config->name;
    if (r->has_number) {
        known = nic_probe_result(vipd->nics[n].nic, r->number, &answer->ping.rtt_ns,
                                 &answer->ping.epoch);
        if (known < 0)
            answer_set(answer, VIP_RC_INVALID_PARAMETER, "this question has been forgotten");
        answer->ping.has_answered = true;
        answer->ping.answered = known == 1;
        answer->ping.has_rtt_ns = answer->ping.has_epoch = known == 1;
        return;
    }
    if (!peer_address(vipd, (unsigned)n, r->peer ? r->peer : "", &host)) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER,
                   "'%.64s' is neither an address of %s nor a name of [names]",
                   r->peer ? r->peer : "", vipd->nics[n].config->name);
        refuse(answer, VIP__REFUSAL__REFUSAL_NO_SUCH);
        return;
    }
    answer->reply.has_number64 = true;
    answer->reply.number64 =
        nic_probe(vipd->nics[n].nic, &host, client->uid, vipd_loop_now(vipd->loop));
}
