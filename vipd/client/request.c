/*
 * Requests: the number of descriptors of each, whether it needs a session, its function, and the
 * one reply to it. The functions themselves are in request_*.c and open.c.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "vipd/client/internal.h"
#include "vipd/names.h"

/* One kind of request. */
struct request_kind {
    const char *name;
    request_fn *fn;
    bool needs_session;
    unsigned fds_min, fds_max;
};

static const struct request_kind kinds[] = {
    [VIP__REQUEST__BODY_OPEN] = {"open", request_open, false, 2, 2},
    [VIP__REQUEST__BODY_DIRECT] = {"direct", request_direct, true, 1, 1},
    [VIP__REQUEST__BODY_CREATE_PTAG] = {"create_ptag", request_create_ptag, true, 0, 0},
    [VIP__REQUEST__BODY_DESTROY_PTAG] = {"destroy_ptag", request_destroy_ptag, true, 0, 0},
    [VIP__REQUEST__BODY_MAKE_MEMORY] = {"make_memory", request_make_memory, false, 0, 0},
    /* One for shared and staged memory, none for adopted: request_register_mem checks that. */
    [VIP__REQUEST__BODY_REGISTER_MEM] = {"register_mem", request_register_mem, true, 0, 1},
    [VIP__REQUEST__BODY_DEREGISTER_MEM] = {"deregister_mem", request_deregister_mem, true, 0, 0},
    [VIP__REQUEST__BODY_SET_MEM_ATTRIBUTES] = {"set_mem_attributes", request_set_mem_attributes,
                                               true, 0, 0},
    [VIP__REQUEST__BODY_CREATE_VI] = {"create_vi", request_create_vi, true, 0, 0},
    [VIP__REQUEST__BODY_DESTROY_VI] = {"destroy_vi", request_destroy_vi, true, 0, 0},
    [VIP__REQUEST__BODY_SET_VI_ATTRIBUTES] = {"set_vi_attributes", request_set_vi_attributes, true,
                                              0, 0},
    [VIP__REQUEST__BODY_DISCONNECT] = {"disconnect", request_disconnect, true, 0, 0},
    [VIP__REQUEST__BODY_CREATE_CQ] = {"create_cq", request_create_cq, true, 0, 0},
    [VIP__REQUEST__BODY_DESTROY_CQ] = {"destroy_cq", request_destroy_cq, true, 0, 0},
    [VIP__REQUEST__BODY_RESIZE_CQ] = {"resize_cq", request_resize_cq, true, 0, 0},
    [VIP__REQUEST__BODY_CONNECT_WAIT] = {"connect_wait", request_connect_wait, true, 0, 0},
    [VIP__REQUEST__BODY_CONNECT_WAIT_CANCEL] = {"connect_wait_cancel", request_connect_wait_cancel,
                                                true, 0, 0},
    [VIP__REQUEST__BODY_ACCEPT] = {"accept", request_accept, true, 0, 0},
    [VIP__REQUEST__BODY_REJECT] = {"reject", request_reject, true, 0, 0},
    [VIP__REQUEST__BODY_CONN_USER] = {"conn_user", request_conn_user, true, 0, 0},
    [VIP__REQUEST__BODY_CONNECT] = {"connect", request_connect, true, 0, 0},
    [VIP__REQUEST__BODY_CONNECT_CANCEL] = {"connect_cancel", request_connect_cancel, true, 0, 0},
    [VIP__REQUEST__BODY_RESOLVE] = {"resolve", request_resolve, false, 0, 0},
    [VIP__REQUEST__BODY_SHOW] = {"show", request_show, false, 0, 0},
    [VIP__REQUEST__BODY_NEW_DISCRIMINATOR] = {"new_discriminator", request_new_discriminator, true,
                                              0, 0},
    [VIP__REQUEST__BODY_CLOSE] = {"close", request_close, true, 0, 0},
    [VIP__REQUEST__BODY_CQ_FD] = {"cq_fd", request_cq_fd, true, 0, 0},
    [VIP__REQUEST__BODY_DISCOVER] = {"discover", request_discover, true, 0, 0},
    [VIP__REQUEST__BODY_ADMIN] = {"admin", request_admin, false, 0, 0},
    [VIP__REQUEST__BODY_PING] = {"ping", request_ping, false, 0, 0},
    [VIP__REQUEST__BODY_RELOAD] = {"reload", request_reload, false, 0, 0},
    [VIP__REQUEST__BODY_CAPTURE] = {"capture", request_capture, false, 0, 0},
    [VIP__REQUEST__BODY_EXPLAIN] = {"explain", request_explain, false, 0, 0},
};

/* Retry interval in ms while a name look-up on the segment is pending. */
#define ASK_AGAIN_MS 10

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

void answer_set(struct answer *answer, enum vip_rc rc, const char *format, ...)
{
    va_list args;

    answer->reply.code = rc;
    answer->reply.reason = NULL;
    if (rc == VIP_RC_SUCCESS)
        return;
    va_start(args, format);
    vsnprintf(answer->reason, sizeof(answer->reason), format, args);
    va_end(args);
    answer->reply.reason = answer->reason;
}

static void answer_init(struct answer *answer)
{
    /* Not all of it is zeroed: each request would pay for the messages of all other kinds. */
    vip__reply__init(&answer->reply);
    answer->reply.has_code = true;
    answer->page = NULL;
    answer->reload = NULL;
    answer->explain = NULL;
    answer->discover.host = NULL;
    answer->fds = VIP_FDS_NONE;
    answer_set(answer, VIP_RC_SUCCESS, "%s", "");
}

void answer_free(struct answer *answer)
{
    vip_fds_close(&answer->fds);
    show_page_free(answer->page);
    explain_free(answer->explain);
    free(answer->discover.host);
    if (answer->reload)
        vip__reload_reply__free_unpacked(answer->reload, NULL);
}

void client_refuse(int sock, const char *format, ...)
{
    Vip__Reply reply = VIP__REPLY__INIT;
    char reason[REASON_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(reason, sizeof(reason), format, args);
    va_end(args);
    reply.has_code = true;
    reply.code = VIP_RC_ERROR_RESOURCE;
    reply.reason = reason;
    /* A new socket has room for it; if not, only the reason is lost. */
    (void)vip_control_send(sock, &reply.base, NULL, 0, MSG_DONTWAIT);
}

static void answer_send(struct client *client, struct answer *answer)
{
    int r = vip_control_send(client->sock, &answer->reply.base, answer->fds.fd, answer->fds.count,
                             MSG_DONTWAIT);

    answer_free(answer);
    if (r == 0)
        return;
    if (r == -EPIPE) {
        client_end(client, client->session ? CLIENT_END_DIED : CLIENT_END_CLOSED, NULL);
    } else if (r == -EAGAIN) {
        client_end(client, CLIENT_END_REPLIES, NULL);
    } else {
        /* The kernel limits the unread descriptors of a user; vipd may not exceed that. */
        client_refuse(client->sock, "vipd cannot hand over the descriptors of this reply: %s%s",
                      strerror(-r),
                      r == -ETOOMANYREFS
                          ? "; programs of vipd's user have more of them unread in sockets than "
                            "vipd may open: end those, or raise LimitNOFILE= of the service or "
                            "'ulimit -n'"
                          : "");
        client_end(client, CLIENT_END_INTERNAL, strerror(-r));
    }
}

/* The fixed checks, in this order; true if the request's function may be called. */
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

/* A failed look-up of a name is no fault: libvipl asks the system's resolver next. */
static void note_refusal(const struct client *client, const Vip__Request *request,
                         const struct answer *answer)
{
    char key[HISTORY_KEY_BYTES];
    uint32_t vi = HISTORY_NO_VI;

    if (request->body_case == VIP__REQUEST__BODY_RESOLVE)
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
}

void request_close_done(struct client *client)
{
    struct answer answer;

    answer_init(&answer);
    answer_send(client, &answer);
}

struct nic *session_nic(const struct client *client)
{
    return client->vipd->nics[client->session->nic].nic;
}

/* ---- close, names and views -------------------------------------------------------------- */

/*
 * VipCloseNic. The session ends before the reply (request_close_done), so that a program that reads
 * the reply can rely on the end of everything. The connection ends with it.
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

/* The NIC that names are for: the one that is open, or the first one. */
static const struct vipd_nic_config *names_nic(const struct client *client)
{
    return &client->vipd->config->nics[client->session ? client->session->nic : 0];
}

/* The name of an address from [names], else from the host itself where the medium can ask it. */
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

/* The answer if nothing was found, or not yet. */
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
                   "not in [names], and nobody can be asked while the NIC is down");
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
