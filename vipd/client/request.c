/*
 * Requests: vipd checks a request as the table requests.def demands, calls the request's function,
 * and sends one reply. Most requests' functions are in request_*.c, discover.c and open.c.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "vipd/client/internal.h"
#include "vipd/names.h"

/* One row of requests.def. */
struct request_kind {
    const char *name;
    request_fn *fn;
    bool needs_session;
    unsigned fds_min, fds_max;
};

static const struct request_kind kinds[] = {
#define REQUEST(BODY, name, function, needs_session, fds_min, fds_max)                             \
    [VIP__REQUEST__BODY_##BODY] = {#name, function, needs_session, fds_min, fds_max},
#include "vipd/client/requests.def"
};

/* Retry interval in ms while a name look-up on the segment is pending. */
#define ASK_AGAIN_MS 10

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Check a request. true: its function may be called. */
static bool acceptable(struct client *client, const Vip__Request *request,
                       const struct vip_fds *fds, struct answer *answer)
{
    const struct request_kind *kind = NULL;

    if ((size_t)request->body_case < KINDS)
        kind = &kinds[request->body_case];
    if (!kind || !kind->fn) {
        if (request->base.n_unknown_fields == 0 || fds->count > 0) {
            client_end(client, CLIENT_END_MALFORMED, "an empty request");
            return false;
        }
        answer_set(answer, VIP_RC_ERROR_NOT_SUPPORTED,
                   "vipd " VIP_VERSION " does not know this request: the library is newer");
        return false;
    }
    if (fds->count < kind->fds_min || fds->count > kind->fds_max) {
        client_end(client, CLIENT_END_FDS, kind->name);
        return false;
    }
    if (kind->needs_session && !client->session) {
        answer_set(answer, VIP_RC_INVALID_STATE, "%s: no NIC is open on this connection",
                   kind->name);
        return false;
    }
    return true;
}

/* Add a refused request to the history. A failed look-up of a name is no fault: libvipl asks the
 * system's resolver next. A loan that vipd does not make now is none, either: libvipl asks again. */
static void note_refusal(const struct client *client, const Vip__Request *request,
                         const struct answer *answer)
{
    char key[HISTORY_KEY_BYTES];
    uint32_t vi = HISTORY_NO_VI;

    if (request->body_case == VIP__REQUEST__BODY_RESOLVE ||
        request->body_case == VIP__REQUEST__BODY_LOAN)
        return;
    if (request->body_case == VIP__REQUEST__BODY_CONNECT)
        vi = request->connect->vi;
    else if (request->body_case == VIP__REQUEST__BODY_ACCEPT)
        vi = request->accept->vi;
    snprintf(key, sizeof(key), "%s %s",
             (size_t)request->body_case < KINDS && kinds[request->body_case].name
                 ? kinds[request->body_case].name
                 : "unknown",
             vip_rc_name((enum vip_rc)answer->reply.code));
    client_note(client, HISTORY_REFUSED, true, vi, key, answer->reply.reason);
}

void request_dispatch(struct client *client, const Vip__Request *request, struct vip_fds *fds)
{
    struct vipd *vipd = client->vipd;
    struct answer answer;

    vipd->counters.requests++;
    answer_init(&answer);
    client->answering = true;
    if (acceptable(client, request, fds, &answer))
        kinds[request->body_case].fn(client, request, fds, &answer);
    client->answering = false;
    if (answer.reply.code != VIP_RC_SUCCESS) {
        vipd->counters.requests_failed++;
        note_refusal(client, request, &answer);
    }
    if (client->end != CLIENT_END_NONE) {
        answer_free(&answer);
        return;
    }
    answer_send(client, &answer);
    if (client->session && client->end == CLIENT_END_NONE)
        events_flush(client);
    else if (client->session && client->session->claimed &&
             request->body_case == VIP__REQUEST__BODY_OPEN)
        /* without a reply, the program may claim the session again */
        segment_hand_back(client->session);
}

void request_lost(struct client *client, int r)
{
    struct answer answer;

    client->vipd->counters.requests++;
    client->vipd->counters.requests_failed++;
    answer_init(&answer);
    answer_set(&answer, VIP_RC_ERROR_RESOURCE, "vipd cannot take this request: %s%s", strerror(-r),
               r == -EMFILE ? VIPD_FEW_FDS : "");
    client_note(client, HISTORY_REFUSED, true, HISTORY_NO_VI, "request lost", answer.reply.reason);
    answer_send(client, &answer);
}

void request_close_done(struct client *client)
{
    struct answer answer;

    answer_init(&answer);
    answer_send(client, &answer);
}

/* ---- close, names and views -------------------------------------------------------------- */

/*
 * VipCloseNic. vipd sends the reply when the session has ended (request_close_done), and then
 * closes the client's connection.
 */
void request_close(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                   struct answer *answer)
{
    (void)request;
    (void)fds;
    (void)answer;
    client->closing = true;
    client_end(client, CLIENT_END_CLOSED, NULL);
}

/* The NIC for which names are looked up: the NIC that the client has opened, or the first NIC. */
static const struct vipd_nic_config *names_nic(const struct client *client)
{
    return &client->vipd->config->nics[client->session ? client->session->nic : 0];
}

/* Find the name of an address: look in [names], then ask the host, if the medium can do that. */
static int find_name(struct client *client, const struct link_addr *addr, struct answer *answer)
{
    struct vipd *vipd = client->vipd;
    const char *name = vipd_host_name(vipd->config, names_nic(client)->link, addr);

    if (name) {
        answer->resolve.name = (char *)name;
        return 0;
    }
    if (!client->session)
        return -EOPNOTSUPP;
    answer->resolve.name = answer->resolved_name;
    return nic_host_name(session_nic(client), addr, vipd_loop_now(vipd->loop),
                         answer->resolved_name);
}

static int find_host(struct client *client, const char *name, uint32_t index, struct link_addr *ret)
{
    struct vipd *vipd = client->vipd;

    if (!name)
        return -EINVAL;
    if (vipd_host_find(vipd->config, names_nic(client), name, index, ret))
        return 0;
    if (!client->session || index > 0)
        return -EOPNOTSUPP;
    return nic_find(session_nic(client), name, vipd_loop_now(vipd->loop), ret);
}

/* Fill the answer if the look-up has found nothing, or nothing yet (r is -EAGAIN). */
static void not_found(int r, bool address, struct answer *answer)
{
    answer->resolve.name = NULL;
    switch (r) {
    case -EAGAIN:
        answer->resolve.has_again_ms = true;
        answer->resolve.again_ms = ASK_AGAIN_MS;
        break;
    case -ENOENT:
        answer_set(answer, VIP_RC_ERROR_NAMESERVICE,
                   address ? "not in [names], and the host with this address does not say its name"
                           : "not in [names], and no host on the segment answers to this name");
        break;
    case -ENETDOWN:
        answer_set(answer, VIP_RC_ERROR_NAMESERVICE,
                   "not in [names], and no host can be asked while the NIC is down");
        break;
    case -EBUSY:
        answer_set(answer, VIP_RC_ERROR_NAMESERVICE,
                   "not in [names], and too many other names are being asked for");
        break;
    default:
        answer_set(answer, VIP_RC_ERROR_NAMESERVICE,
                   address ? "no host of [names] has this address"
                           : "no such host (or address number) in [names]");
        break;
    }
}

static void resolve_address(struct client *client, const ProtobufCBinaryData *host,
                            struct answer *answer)
{
    struct link_addr addr = {0};
    int r;

    if (host->len == 0 || host->len > sizeof(addr.bytes)) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "an address has 1 to %zu bytes, not %zu",
                   sizeof(addr.bytes), host->len);
        return;
    }
    addr.len = (uint8_t)host->len;
    memcpy(addr.bytes, host->data, host->len);
    r = find_name(client, &addr, answer);
    if (r < 0)
        not_found(r, true, answer);
}

static void resolve_name(struct client *client, const Vip__ResolveRequest *resolve,
                         struct answer *answer)
{
    struct link_addr *addr = &answer->resolved;
    int r = find_host(client, resolve->name, resolve->index, addr);

    if (r < 0) {
        not_found(r, false, answer);
        return;
    }
    answer->resolve.has_host = true;
    answer->resolve.host.len = addr->len;
    answer->resolve.host.data = addr->bytes;
}

void request_resolve(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                     struct answer *answer)
{
    (void)fds;
    vip__resolve_reply__init(&answer->resolve);
    if (request->resolve->has_host)
        resolve_address(client, &request->resolve->host, answer);
    else
        resolve_name(client, request->resolve, answer);
    answer->reply.resolve = &answer->resolve;
}

void request_show(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                  struct answer *answer)
{
    uid_t viewer = client_is_admin(client) ? 0 : client->uid;
    int r = show_page_new(client->vipd, request->show, viewer, &answer->page);

    (void)fds;
    if (r == -EINVAL)
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "vipd " VIP_VERSION " has no such view");
    else if (r < 0)
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd has no memory for this view");
    else
        answer->reply.show = show_page_reply(answer->page);
}

void request_explain(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                     struct answer *answer)
{
    int r = explain_new(client->vipd, request->explain->peer, &answer->explain);

    (void)fds;
    if (r == -EINVAL)
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "the name of a host has 1 to 255 bytes");
    else if (r < 0)
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd has no memory for this answer");
    else
        answer->reply.explain = explain_reply(answer->explain);
}
