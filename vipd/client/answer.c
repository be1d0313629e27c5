/* The reply to a request, and the reply to a client that vipd does not serve. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "vipd/client/internal.h"

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

void answer_again(struct answer *answer, uint32_t again_ms)
{
    vip__open_reply__init(&answer->open);
    answer->open.has_again_ms = true;
    answer->open.again_ms = again_ms;
    answer->reply.open = &answer->open;
}

bool lacks_resources(int rc)
{
    switch (-rc) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case ENOLCK:
    case ENOSPC:
    case EAGAIN:
        return true;
    default:
        return false;
    }
}

bool answer_claimed(const struct client *client, struct answer *answer)
{
    if (client->session->claimed)
        return true;
    answer_set(
        answer, VIP_RC_INVALID_STATE,
        "this NIC handle was not open in an earlier vipd, so nothing of it has an old number");
    return false;
}

void answer_init(struct answer *answer)
{
    /* Do not zero the whole struct: it is large, with messages for all kinds of replies. */
    vip__reply__init(&answer->reply);
    answer->reply.has_code = true;
    answer->page = NULL;
    answer->reload = NULL;
    answer->explain = NULL;
    answer->discover.host = NULL;
    answer->fds = VIP_FDS_NONE;
    answer_set(answer, VIP_RC_SUCCESS, "%s", "");
}

bool answer_room(const struct client *client, enum quota quota, uint64_t more,
                 struct answer *answer)
{
    struct quota_view view;

    quota_look(client->vipd, client->uid, quota, &view);
    if (view.used <= view.max && more <= view.max - view.used)
        return true;
    client->vipd->counters.refused_quota++;
    answer_set(answer, VIP_RC_ERROR_RESOURCE,
               "uid %lu has %llu %s and asks for %llu more: the limit is [limits] %s = %llu",
               (unsigned long)client->uid, (unsigned long long)view.used, view.noun,
               (unsigned long long)more, view.key, (unsigned long long)view.max);
    return false;
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
    reply.has_hangs_up = reply.hangs_up = true;
    /* A new socket has room for the reply. If the socket has no room, only the reason is lost. */
    (void)vip_control_send(sock, &reply.base, NULL, 0, MSG_DONTWAIT);
}

void answer_send(struct client *client, struct answer *answer)
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
        /* A possible cause: for each sending user, the kernel limits the descriptors that are
         * unread in sockets. */
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

struct nic *session_nic(const struct client *client)
{
    return client->vipd->nics[client->session->nic].nic;
}
