/* Requests on the control socket (call.h). */
#include "libvipl/call.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libvipl/error.h"

static __thread bool is_provider;

void vipl__call_provider(void)
{
    is_provider = true;
}

/* Does the error say that vipd has ended or has closed the session? If not, a system call of this
 * process has failed. */
static bool is_end(int error)
{
    return error == -EPIPE || error == -ECONNRESET;
}

/*
 * A request to the vipd of life number `life` has failed: shut the sockets down. If that vipd still
 * runs, it now ends the session, and no later vipd can continue the session. The shut event socket
 * wakes the provider thread, which looks for the next vipd or completes the posted
 * descriptors (events.c). Shut only our direction of the control socket: VipCloseNic must still see
 * how vipd closes the other direction (session.c).
 */
static void hang_up(struct vipl__session *session, uint32_t life, int error)
{
    pthread_mutex_lock(&session->lock);
    if (__atomic_load_n(&session->lives, __ATOMIC_ACQUIRE) == life && !vipl__is_gone(session)) {
        if (!is_end(error))
            __atomic_store_n(&session->broken, 1, __ATOMIC_SEQ_CST);
        shutdown(session->control_fd, SHUT_WR);
        if (session->event_fd >= 0)
            shutdown(session->event_fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&session->lock);
}

static VIP_RETURN lost(const struct vipl__session *session, const char *call, int error)
{
    return vipl__fail(VIP_ERROR_RESOURCE,
                      "%s: the connection to vipd (%s) is lost: %s; close this NIC handle and open "
                      "the NIC again once vipd runs",
                      call, session->socket_path,
                      is_end(error) ? "vipd has ended or closed it" : strerror(-error));
}

/* Sleep until session->changed is signalled (true) or until_ns (false). Under session->lock. */
static bool sleep_until(struct vipl__session *session, uint64_t until_ns)
{
    struct timespec limit = {.tv_sec = (time_t)(until_ns / 1000000000u),
                             .tv_nsec = (long)(until_ns % 1000000000u)};

    if (until_ns == VIPL__NEVER)
        return pthread_cond_wait(&session->changed, &session->lock) == 0;
    return pthread_cond_timedwait(&session->changed, &session->lock, &limit) != ETIMEDOUT;
}

/* May a later vipd go on with the session? */
static bool may_go_on(const struct vipl__session *session)
{
    return !is_provider && session->outlive_ns != 0 && !vipl__is_dead(session) &&
           __atomic_load_n(&session->broken, __ATOMIC_SEQ_CST) == 0 &&
           __atomic_load_n(&session->closing, __ATOMIC_SEQ_CST) == 0;
}

/*
 * The vipd of life number `life` has ended. Wait until a later vipd continues the session. False:
 * no vipd has done so by until_ns, or no vipd can.
 */
static bool await_vipd(struct vipl__session *session, uint32_t life, uint64_t until_ns)
{
    bool there;

    pthread_mutex_lock(&session->lock);
    for (;;) {
        there =
            !vipl__is_gone(session) && __atomic_load_n(&session->lives, __ATOMIC_ACQUIRE) != life;
        if (there || !may_go_on(session) || !sleep_until(session, until_ns))
            break;
    }
    pthread_mutex_unlock(&session->lock);
    return there;
}

/* Does the request have the number of a connection request or of a wait? Only the vipd that gave
 * this number knows it; the next vipd does not. */
static bool names_past(const Vip__Request *request)
{
    return request->body_case == VIP__REQUEST__BODY_ACCEPT ||
           request->body_case == VIP__REQUEST__BODY_REJECT ||
           request->body_case == VIP__REQUEST__BODY_CONN_USER ||
           request->body_case == VIP__REQUEST__BODY_CONNECT_WAIT_CANCEL;
}

/* An earlier version of vipd ends a session that sends a request about loans. */
static bool is_unknown(const struct vipl__session *session, const Vip__Request *request)
{
    return (request->body_case == VIP__REQUEST__BODY_LOAN ||
            request->body_case == VIP__REQUEST__BODY_LOAN_END) &&
           !__atomic_load_n(&session->loans_known, __ATOMIC_SEQ_CST);
}

/* Turn vipd's reply into a return code; an unknown code is a fault of vipd. */
static VIP_RETURN judge(const char *call, const Vip__Reply *reply)
{
    uint32_t code = reply->has_code ? reply->code : VIP_RC_SUCCESS;

    if (code == VIP_RC_SUCCESS)
        return VIP_SUCCESS;
    if (code > VIP_RC_ERROR_NOT_SUPPORTED)
        return vipl__fail(VIP_ERROR_RESOURCE, "%s: vipd answered with the unknown code %u", call,
                          code);
    if (reply->reason == NULL || reply->reason[0] == '\0')
        return vipl__fail((VIP_RETURN)code, "%s: vipd answered %s", call,
                          vipl__rc_name((VIP_RETURN)code));
    return vipl__fail((VIP_RETURN)code, "%s: %s", call, reply->reason);
}

/* Send one request to the present vipd and receive its reply. keep: as in vipl__call_keep. */
static int ask(struct vipl__session *session, const Vip__Request *request, const int *fds,
               unsigned fd_count, bool keep, ProtobufCMessage **ret, struct vip_fds *ret_fds)
{
    int rc = -EPIPE;

    pthread_mutex_lock(&session->call_lock);
    if (is_unknown(session, request))
        rc = -EOPNOTSUPP;
    else if (is_provider || !vipl__is_gone(session))
        rc = vip_control_ask_in(session->call_room, session->control_fd, &request->base, fds,
                                fd_count, &vip__reply__descriptor, ret, ret_fds);
    if (rc >= 0 && keep)
        __atomic_add_fetch(&session->kept, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&session->call_lock);
    return rc;
}

static VIP_RETURN no_descriptor(const char *call)
{
    return vipl__fail(VIP_ERROR_RESOURCE, "%s: no file descriptor (RLIMIT_NOFILE)", call);
}

static VIP_RETURN exchange(struct vipl__session *session, const char *call,
                           const Vip__Request *request, const int *fds, unsigned fd_count,
                           bool keep, uint64_t until_ns, Vip__Reply **ret_reply,
                           struct vip_fds *ret_fds)
{
    ProtobufCMessage *message = NULL;
    Vip__Reply *reply;
    VIP_RETURN code;
    int rc;

    for (;;) {
        uint32_t life = __atomic_load_n(&session->lives, __ATOMIC_ACQUIRE);

        rc = ask(session, request, fds, fd_count, keep, &message, ret_fds);
        if (rc >= 0)
            break;
        if (rc == -EOPNOTSUPP)
            return vipl__fail(VIP_ERROR_NOT_SUPPORTED, "%s: this vipd knows no loans", call);
        if (rc == -EMFILE) /* vipd has replied; this process has no room for the reply's fds */
            return no_descriptor(call);
        hang_up(session, life, rc);
        if (is_end(rc))
            __atomic_store_n(&session->unanswered, 1, __ATOMIC_RELAXED);
        if (names_past(request) && may_go_on(session))
            return vipl__fail(VIP_TIMEOUT, "%s: vipd has ended, and the next one does not know it",
                              call);
        if (await_vipd(session, life, until_ns))
            continue;
        if (may_go_on(session))
            return vipl__fail(VIP_TIMEOUT, "%s: vipd was away until the time limit", call);
        return lost(session, call, rc);
    }

    reply = (Vip__Reply *)message;
    code = judge(call, reply);
    if ((code == VIP_SUCCESS || (reply->open != NULL && reply->open->again_ms > 0)) &&
        ret_reply != NULL)
        *ret_reply = reply;
    else
        vipl__reply_free(reply);
    if (keep && code != VIP_SUCCESS)
        vipl__call_kept(session);
    return code;
}

VIP_RETURN vipl__call_keep_until(struct vipl__session *session, const char *call,
                                 const Vip__Request *request, uint64_t until_ns,
                                 Vip__Reply **ret_reply)
{
    struct vip_fds unwanted = VIP_FDS_NONE;
    VIP_RETURN rc = exchange(session, call, request, NULL, 0, true, until_ns, ret_reply, &unwanted);

    vip_fds_close(&unwanted);
    return rc;
}

void vipl__call_kept(struct vipl__session *session)
{
    __atomic_sub_fetch(&session->kept, 1, __ATOMIC_SEQ_CST);
}

VIP_RETURN vipl__call_keep(struct vipl__session *session, const char *call,
                           const Vip__Request *request, const int *fds, unsigned fd_count,
                           Vip__Reply **ret_reply)
{
    struct vip_fds unwanted = VIP_FDS_NONE;
    VIP_RETURN rc =
        exchange(session, call, request, fds, fd_count, true, VIPL__NEVER, ret_reply, &unwanted);

    vip_fds_close(&unwanted);
    return rc;
}

VIP_RETURN vipl__call(struct vipl__session *session, const char *call, const Vip__Request *request,
                      const int *fds, unsigned fd_count, Vip__Reply **ret_reply)
{
    struct vip_fds unwanted = VIP_FDS_NONE;
    VIP_RETURN rc =
        exchange(session, call, request, fds, fd_count, false, VIPL__NEVER, ret_reply, &unwanted);

    vip_fds_close(&unwanted);
    return rc;
}

/* Can this process receive two file descriptors? Test this before the request: vipd acts on the
 * request even if its reply's descriptors are lost. */
static bool has_room(void)
{
    int fd[2];

    if (pipe2(fd, O_CLOEXEC) != 0)
        return false;
    close(fd[0]);
    close(fd[1]);
    return true;
}

VIP_RETURN vipl__call_fds(struct vipl__session *session, const char *call,
                          const Vip__Request *request, bool keep, struct vip_fds *ret_fds)
{
    VIP_RETURN rc;

    if (!has_room())
        return no_descriptor(call);
    rc = exchange(session, call, request, NULL, 0, keep, VIPL__NEVER, NULL, ret_fds);
    if (rc != VIP_SUCCESS)
        vip_fds_close(ret_fds);
    return rc;
}

VIP_RETURN vipl__call_open(struct vipl__session *session, const Vip__Request *request,
                           const int *fds, unsigned fd_count, Vip__Reply **ret_reply,
                           struct vip_fds *ret_fds)
{
    VIP_RETURN rc = exchange(session, "VipOpenNic", request, fds, fd_count, false, VIPL__NEVER,
                             ret_reply, ret_fds);

    if (rc != VIP_SUCCESS)
        vip_fds_close(ret_fds);
    return rc;
}

void vipl__reply_free(Vip__Reply *reply)
{
    if (reply != NULL)
        protobuf_c_message_free_unpacked(&reply->base, NULL);
}

void vipl__vi_attrs_put(Vip__ViAttributes *out, const VIP_VI_ATTRIBUTES *attrs, uint32_t ptag)
{
    vip__vi_attributes__init(out);
    out->has_reliability_level = out->has_max_transfer_size = out->has_qos = out->has_ptag = 1;
    out->has_enable_rdma_write = out->has_enable_rdma_read = 1;
    out->reliability_level = attrs->ReliabilityLevel;
    out->max_transfer_size = attrs->MaxTransferSize;
    out->qos = (uint64_t)(uintptr_t)attrs->QoS;
    out->ptag = ptag;
    out->enable_rdma_write = attrs->EnableRdmaWrite != 0;
    out->enable_rdma_read = attrs->EnableRdmaRead != 0;
}

void vipl__vi_attrs_get(VIP_VI_ATTRIBUTES *out, const Vip__ViAttributes *attrs)
{
    memset(out, 0, sizeof(*out));
    if (attrs == NULL)
        return;
    out->ReliabilityLevel = (VIP_RELIABILITY_LEVEL)attrs->reliability_level;
    out->MaxTransferSize = (VIP_ULONG)attrs->max_transfer_size;
    out->QoS = (VIP_QOS)(uintptr_t)attrs->qos;
    out->EnableRdmaWrite = attrs->enable_rdma_write ? VIP_TRUE : VIP_FALSE;
    out->EnableRdmaRead = attrs->enable_rdma_read ? VIP_TRUE : VIP_FALSE;
}
