/* Requests about connections. */
#include <stdio.h>
#include <string.h>

#include "vipd/client/internal.h"
#include "vipd/config_listen.h"

/* Copy an address out of a message. false: it is too long, and the answer says so. */
static bool read_address(const Vip__NetAddress *address, struct vip_addr *ret,
                         struct answer *answer)
{
    memset(ret, 0, sizeof(*ret));
    if (!address)
        return true; /* the address is empty */
    if (address->host.len > VIP_HOST_ADDR_BYTES_MAX) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "a host address of %zu bytes: at most %d",
                   address->host.len, VIP_HOST_ADDR_BYTES_MAX);
        return false;
    }
    if (address->discriminator.len > VIP_DISCRIMINATOR_BYTES_MAX) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "a discriminator of %zu bytes: at most %d",
                   address->discriminator.len, VIP_DISCRIMINATOR_BYTES_MAX);
        return false;
    }
    ret->host_len = (uint8_t)address->host.len;
    ret->disc_len = (uint8_t)address->discriminator.len;
    if (ret->host_len > 0)
        memcpy(ret->host, address->host.data, ret->host_len);
    if (ret->disc_len > 0)
        memcpy(ret->disc, address->discriminator.data, ret->disc_len);
    return true;
}

/* Copy private data out of a message. false: they are too long, and the answer says so. */
static bool read_private(protobuf_c_boolean given, const ProtobufCBinaryData *data,
                         struct vip_private *ret, struct answer *answer)
{
    memset(ret, 0, sizeof(*ret));
    if (!given || data->len == 0)
        return true;
    if (data->len > VIP_PRIVATE_BYTES_MAX) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "private data of %zu bytes: at most %d",
                   data->len, VIP_PRIVATE_BYTES_MAX);
        return false;
    }
    ret->len = (uint8_t)data->len;
    memcpy(ret->bytes, data->data, data->len);
    return true;
}

static uint64_t now_of(const struct client *client)
{
    return vipd_loop_now(client->vipd->loop);
}

static void answer_why(struct answer *answer, enum vip_rc rc)
{
    answer->reply.code = rc;
    if (rc != VIP_RC_SUCCESS)
        answer->reply.reason = answer->reason;
}

static void answer_wait(struct answer *answer, uint64_t wait_id, bool found)
{
    vip__connect_wait_reply__init(&answer->connect_wait);
    answer->connect_wait.has_wait_id = true;
    answer->connect_wait.wait_id = wait_id;
    answer->connect_wait.has_found = true;
    answer->connect_wait.found = found;
    answer->reply.connect_wait = &answer->connect_wait;
}

/* May new connections be made? false after vipctl drain; then the answer says so. */
static bool not_draining(const struct client *client, struct answer *answer)
{
    if (client->vipd->draining)
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   "vipd is being drained for its end: no connection is made until vipctl resume");
    return !client->vipd->draining;
}

/* Does [listen] let the client's user wait on this discriminator? If not, the answer says why. */
static bool may_listen(const struct client *client, const struct vip_addr *local,
                       struct answer *answer)
{
    const char *pattern, *user;
    char disc[DISC_TEXT_BYTES];

    if (config_may_listen(client->vipd->config, client->uid, local->disc, local->disc_len, &pattern,
                          &user))
        return true;
    client->vipd->counters.refused_quota++;
    config_disc_text(local->disc, local->disc_len, disc);
    answer_set(answer, VIP_RC_ERROR_RESOURCE,
               "uid %lu may not wait on discriminator %.40s: [listen] %s = %s",
               (unsigned long)client->uid, disc, pattern, user);
    return false;
}

/* A discriminator on which a session of this user waits although [listen] forbids it. */
struct misplaced {
    const struct client *client;
    char text[2 * DISC_TEXT_BYTES];
};

static bool is_misplaced(void *ctx, const uint8_t *disc, uint8_t len)
{
    struct misplaced *found = ctx;
    const char *pattern, *user;
    char name[DISC_TEXT_BYTES];

    if (config_may_listen(found->client->vipd->config, found->client->uid, disc, len, &pattern,
                          &user))
        return false;
    config_disc_text(disc, len, name);
    snprintf(found->text, sizeof(found->text), "%.40s: [listen] %.128s = %.64s", name, pattern,
             user);
    return true;
}

void clients_judge(struct vipd *vipd)
{
    for (struct client *c = vipd->clients; c; c = c->next) {
        struct misplaced found = {.client = c};

        if (c->end == CLIENT_END_NONE && c->session && c->session->nic_session &&
            nic_session_waits_where(c->session->nic_session, is_misplaced, &found))
            client_end(c, CLIENT_END_LISTEN, found.text);
    }
}

void request_connect_wait(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                          struct answer *answer)
{
    const Vip__ConnectWaitRequest *r = request->connect_wait;
    struct vip_addr local;
    uint64_t wait_id = 0;
    bool found = false;
    enum vip_rc rc;

    (void)fds;
    if (!read_address(r->local, &local, answer) || !not_draining(client, answer) ||
        !may_listen(client, &local, answer) || !answer_room(client, QUOTA_WAITS, 1, answer))
        return;
    answer->reason[0] = '\0';
    if (r->backlog > 0)
        rc = nic_listen(client->session->nic_session, &local, r->backlog, now_of(client), &wait_id,
                        answer->reason, sizeof(answer->reason));
    else
        rc = nic_connect_wait(client->session->nic_session, &local, r->immediate, now_of(client),
                              &wait_id, &found, answer->reason, sizeof(answer->reason));
    answer_why(answer, rc);
    if (rc == VIP_RC_SUCCESS)
        answer_wait(answer, wait_id, found);
}

void request_connect_wait_cancel(struct client *client, const Vip__Request *request,
                                 struct vip_fds *fds, struct answer *answer)
{
    struct nic_session *session = client->session->nic_session;
    uint64_t wait_id = request->connect_wait_cancel->wait_id, delivered = 0;
    bool found = false;
    enum vip_rc rc = nic_listen_close(session, wait_id, now_of(client), &delivered);

    (void)fds;
    if (rc == VIP_RC_INVALID_PARAMETER)
        rc = nic_connect_wait_cancel(session, wait_id, now_of(client), &found);
    answer_set(answer, rc, "there is no wait or listener number %llu", (unsigned long long)wait_id);
    if (rc != VIP_RC_SUCCESS)
        return;
    answer_wait(answer, wait_id, found);
    answer->connect_wait.has_delivered = true;
    answer->connect_wait.delivered = delivered;
}

void request_accept(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                    struct answer *answer)
{
    const Vip__AcceptRequest *r = request->accept;
    struct vip_private data;

    (void)fds;
    if (!read_private(r->has_private_data, &r->private_data, &data, answer) ||
        !answer_room(client, QUOTA_CONNECTS, 1, answer))
        return;
    answer->reason[0] = '\0';
    answer_why(answer, nic_accept(client->session->nic_session, r->conn_handle, r->vi, &data,
                                  now_of(client), answer->reason, sizeof(answer->reason)));
}

void request_reject(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                    struct answer *answer)
{
    const Vip__RejectRequest *r = request->reject;
    struct vip_private data;

    (void)fds;
    if (!read_private(r->has_private_data, &r->private_data, &data, answer))
        return;
    answer_set(answer,
               nic_reject(client->session->nic_session, r->conn_handle, &data, now_of(client)),
               "this connection handle is not pending (any more)");
}

void request_connect(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                     struct answer *answer)
{
    const Vip__ConnectRequest *r = request->connect;
    struct nic_connect_args args = {.timeout_ns = UINT64_MAX, .peer_to_peer = r->peer_to_peer};
    const char *pattern, *user;

    (void)fds;
    if (!not_draining(client, answer) || !read_address(r->local, &args.local, answer) ||
        !read_address(r->remote, &args.remote, answer) ||
        !read_private(r->has_private_data, &r->private_data, &args.data, answer) ||
        (args.peer_to_peer && (!may_listen(client, &args.local, answer) ||
                               !answer_room(client, QUOTA_WAITS, 1, answer))) ||
        !answer_room(client, QUOTA_CONNECTS, 1, answer))
        return;
    /* If [listen] keeps the program's own discriminator for another user, send an empty
     * discriminator. Otherwise the server could believe that the other user's program sent the
     * request. */
    if (!config_may_listen(client->vipd->config, client->uid, args.local.disc, args.local.disc_len,
                           &pattern, &user))
        args.local.disc_len = 0;
    if (r->has_timeout_ms && __builtin_mul_overflow(r->timeout_ms, 1000000u, &args.timeout_ns))
        args.timeout_ns = UINT64_MAX;
    answer->reason[0] = '\0';
    answer_why(answer, nic_connect(client->session->nic_session, r->vi, &args, now_of(client),
                                   answer->reason, sizeof(answer->reason)));
}

void request_connect_cancel(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                            struct answer *answer)
{
    uint32_t vi = request->connect_cancel->vi;

    (void)fds;
    answer_set(answer, nic_connect_cancel(client->session->nic_session, vi, now_of(client)),
               "VI %u has no connection attempt under way", vi);
}

void request_conn_user(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                       struct answer *answer)
{
    uint32_t uid = 0;
    enum vip_rc rc =
        nic_request_user(client->session->nic_session, request->conn_user->conn_handle, &uid);

    (void)fds;
    answer_set(answer, rc, "%s",
               rc == VIP_RC_ERROR_NOT_SUPPORTED
                   ? "the request comes from another host, whose users this vipd does not know"
                   : "this connection handle is not pending (any more)");
    answer->reply.has_number64 = rc == VIP_RC_SUCCESS;
    answer->reply.number64 = uid;
}

void request_new_discriminator(struct client *client, const Vip__Request *request,
                               struct vip_fds *fds, struct answer *answer)
{
    (void)request;
    (void)fds;
    answer->reply.has_number64 = true;
    answer->reply.number64 = nic_new_discriminator(session_nic(client));
}
