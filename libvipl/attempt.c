/*
 * The one connection attempt that a VI can have: its kind, its result, its file descriptor.
 *
 * A synchronous call claims the attempt, waits for its result, and ends it. An asynchronous call
 * (VipConnectPeerRequest, VipxConnectStart) leaves the attempt running; another call fetches the
 * result, once. A new attempt or VipDisconnect discards a result that was not fetched.
 *
 * session->lock guards all attempt_* members of struct vipl__vi.
 */
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "libvipl/connect.h"
#include "libvipl/error.h"

/* Longest wait, in ns, of a new attempt for the end of a cancelled attempt of another thread. */
#define ATTEMPT_OVER_NS 1000000000ull

/* ---- the file descriptor: readable while a result waits ------------------------------------ */

static void fd_raise(const struct vipl__vi *vi)
{
    uint64_t one = 1;

    if (vi->attempt_fd >= 0 && write(vi->attempt_fd, &one, sizeof(one)) < 0)
        return; /* the fd is readable already */
}

static void fd_lower(const struct vipl__vi *vi)
{
    uint64_t count;

    if (vi->attempt_fd >= 0 && read(vi->attempt_fd, &count, sizeof(count)) < 0)
        return; /* the fd was not readable */
}

void vipl__attempt_close_fd(struct vipl__vi *vi)
{
    vipl__fd_close(&vi->attempt_fd);
}

static VIP_RETURN get_fd(struct vipl__vi *vi, uint64_t handle, int *ret_fd)
{
    VIP_RETURN rc = VIP_SUCCESS;

    pthread_mutex_lock(&vi->session->lock);
    if (!vipl__vi_is(vi, handle)) {
        rc = vipl__bad_vi("VipxConnectGetFd", (VIP_VI_HANDLE)(uintptr_t)handle);
    } else if (vi->attempt_fd < 0) {
        vi->attempt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (vi->attempt_fd < 0)
            rc = vipl__fail(VIP_ERROR_RESOURCE,
                            "VipxConnectGetFd: no file descriptor (RLIMIT_NOFILE)");
        else if (vi->attempt_async && vi->attempt == VIPL__ATTEMPT_DONE)
            fd_raise(vi);
    }
    *ret_fd = vi->attempt_fd;
    pthread_mutex_unlock(&vi->session->lock);
    return rc;
}

VIP_RETURN VipxConnectGetFd(VIP_VI_HANDLE ViHandle, int *Fd)
{
    struct vipl__vi *vi;
    VIP_RETURN rc;

    if (Fd == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipxConnectGetFd: Fd is NULL");
    vi = vipl__vi_enter(ViHandle, "VipxConnectGetFd");
    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    rc = get_fd(vi, (uint64_t)(uintptr_t)ViHandle, Fd);
    vipl__leave(vi->session);
    return rc;
}

/* ---- begin and end -------------------------------------------------------------------------- */

/* Has the VI no attempt, or the result of an asynchronous attempt for which no call waits? */
static bool replaceable(const struct vipl__vi *vi)
{
    return vi->attempt == VIPL__ATTEMPT_NONE ||
           (vi->attempt == VIPL__ATTEMPT_DONE && vi->attempt_async && vi->attempt_waiters == 0);
}

/* Is the VI Connected or in Error state? False also if vipd is gone for good: then the later
 * request to vipd fails and gives the reason. */
static bool connected(const struct vipl__vi *vi)
{
    enum vip_vi_state state = vipl__vi_state(vi);

    return !vipl__is_dead(vi->session) && (state == VIP_VIST_CONNECTED || state == VIP_VIST_ERROR);
}

/*
 * Refuse an attempt on a connected VI. A recorded attempt means that the VI has no connection yet
 * (PastVi.idle), so the next vipd would make this VI Idle.
 */
VIP_RETURN vipl__attempt_begin(struct vipl__vi *vi, enum vipl__attempt kind, const char *call)
{
    struct vipl__session *session = vi->session;
    uint64_t deadline_ns = vipl__now_ns() + ATTEMPT_OVER_NS;
    bool in_time = true, idle, mine;

    pthread_mutex_lock(&session->lock);
    while (!replaceable(vi) && in_time && !vipl__closing(session) && !vipl__is_dead(session) &&
           vipl__vi_state(vi) == VIP_VIST_IDLE)
        in_time = vipl__await_change(session, deadline_ns);
    idle = !connected(vi);
    mine = idle && replaceable(vi);
    if (mine) {
        if (vi->attempt == VIPL__ATTEMPT_DONE)
            fd_lower(vi);
        vi->attempt = kind;
        vi->attempt_async = vi->attempt_cancelled = vi->attempt_sent = false;
    }
    pthread_mutex_unlock(&session->lock);
    if (mine)
        return VIP_SUCCESS;
    return vipl__fail(VIP_INVALID_STATE, "%s: %s", call,
                      idle ? "a connection attempt of this VI is under way" : "the VI is not Idle");
}

void vipl__attempt_end(struct vipl__vi *vi)
{
    pthread_mutex_lock(&vi->session->lock);
    vi->attempt = VIPL__ATTEMPT_NONE;
    pthread_cond_broadcast(&vi->session->changed);
    pthread_mutex_unlock(&vi->session->lock);
}

/* Give the result to the caller and end the attempt. Under session->lock. */
static VIP_RETURN take(struct vipl__vi *vi, const char *call, VIP_VI_ATTRIBUTES *attrs,
                       VIPX_PRIVATE_DATA *data)
{
    VIP_RETURN rc = VIP_SUCCESS;

    if (vi->attempt_rc != VIP_RC_SUCCESS)
        rc = vipl__fail((VIP_RETURN)vi->attempt_rc, "%s: %s", call,
                        vi->attempt_why[0] != '\0' ? vi->attempt_why : vip_rc_name(vi->attempt_rc));
    else if (attrs != NULL)
        *attrs = vi->attempt_attrs;
    if (data != NULL)
        vipl__write_private(data, &vi->attempt_data);
    if (vi->attempt_async)
        fd_lower(vi);
    vi->attempt = VIPL__ATTEMPT_NONE;
    pthread_cond_broadcast(&vi->session->changed);
    return rc;
}

/*
 * Wait until session->changed is signalled, under session->lock. vipd ends an attempt at its time
 * limit. While vipd is away, this function ends the attempt at that time, with VIP_TIMEOUT.
 */
static void await_result(struct vipl__vi *vi)
{
    struct vipl__session *session = vi->session;
    bool asks = vi->attempt == VIPL__ATTEMPT_CONNECT && vi->connect != NULL;
    bool away = vipl__is_gone(session);
    uint64_t until_ns = asks && away ? vi->connect->deadline_ns : VIPL__NEVER;

    if (!vipl__await_change(session, until_ns) && vi->attempt == VIPL__ATTEMPT_CONNECT &&
        vipl__is_gone(session) && !vipl__is_dead(session))
        vipl__attempt_fail(vi, VIP_RC_TIMEOUT, "vipd was away until the time limit");
}

VIP_RETURN vipl__attempt_result(struct vipl__vi *vi, const char *call, VIP_VI_ATTRIBUTES *attrs,
                                VIPX_PRIVATE_DATA *data)
{
    struct vipl__session *session = vi->session;
    VIP_RETURN rc = VIP_SUCCESS;
    bool done;

    pthread_mutex_lock(&session->lock);
    while (vi->attempt != VIPL__ATTEMPT_DONE && !vipl__is_dead(session) && !vipl__closing(session))
        await_result(vi);
    done = vi->attempt == VIPL__ATTEMPT_DONE;
    if (done)
        rc = take(vi, call, attrs, data);
    vi->attempt = VIPL__ATTEMPT_NONE;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
    return done ? rc : vipl__gone(session, call);
}

VIP_RETURN vipl__attempt_collect(struct vipl__vi *vi, const char *call, bool wait,
                                 VIP_VI_ATTRIBUTES *attrs, VIPX_PRIVATE_DATA *data)
{
    struct vipl__session *session = vi->session;
    VIP_RETURN rc;

    pthread_mutex_lock(&session->lock);
    vi->attempt_waiters++;
    while (wait && vi->attempt_async && vi->attempt == VIPL__ATTEMPT_CONNECT &&
           !vipl__is_dead(session) && !vipl__closing(session))
        await_result(vi);
    vi->attempt_waiters--;
    if (vi->attempt == VIPL__ATTEMPT_NONE || !vi->attempt_async) {
        rc = vipl__fail(VIP_INVALID_STATE,
                        "%s: no attempt of this VI is under way (its result was fetched already, "
                        "or VipDisconnect has cancelled it)",
                        call);
    } else if (vi->attempt == VIPL__ATTEMPT_DONE) {
        rc = take(vi, call, attrs, data);
    } else if (vipl__is_dead(session) || vipl__closing(session)) {
        vi->attempt = VIPL__ATTEMPT_NONE;
        rc = vipl__gone(session, call);
    } else {
        rc = VIP_NOT_DONE;
    }
    pthread_mutex_unlock(&session->lock);
    return rc;
}

void vipl__attempt_cancelled(struct vipl__vi *vi)
{
    pthread_mutex_lock(&vi->session->lock);
    if (vi->attempt_async && vi->attempt != VIPL__ATTEMPT_NONE) {
        vi->attempt_cancelled = true;
        if (vi->attempt == VIPL__ATTEMPT_DONE && vi->attempt_waiters == 0) {
            fd_lower(vi);
            vi->attempt = VIPL__ATTEMPT_NONE;
        }
    }
    pthread_mutex_unlock(&vi->session->lock);
}

/* ---- from the provider thread --------------------------------------------------------------- */

void vipl__attempt_done(struct vipl__vi *vi, const Vip__ConnResult *event)
{
    if (vi->attempt != VIPL__ATTEMPT_CONNECT && vi->attempt != VIPL__ATTEMPT_ACCEPT)
        return;
    vi->attempt_rc = event->code <= VIP_RC_ERROR_NOT_SUPPORTED ? (enum vip_rc)event->code
                                                               : VIP_RC_ERROR_RESOURCE;
    snprintf(vi->attempt_why, sizeof(vi->attempt_why), "%s",
             event->reason == NULL ? "" : event->reason);
    vipl__vi_attrs_get(&vi->attempt_attrs, event->attributes);
    vipl__get_private(&vi->attempt_data, &event->private_data);
    vi->attempt = VIPL__ATTEMPT_DONE;
    if (vi->attempt_cancelled) {
        vi->attempt_rc = VIP_RC_INVALID_STATE;
        if (vi->attempt_waiters == 0)
            vi->attempt = VIPL__ATTEMPT_NONE;
    } else if (vi->attempt_async) {
        fd_raise(vi);
    }
    pthread_cond_broadcast(&vi->session->changed);
}

void vipl__attempt_sent(struct vipl__vi *vi)
{
    pthread_mutex_lock(&vi->session->lock);
    vi->attempt_sent = true;
    pthread_mutex_unlock(&vi->session->lock);
}

void vipl__attempt_fail(struct vipl__vi *vi, enum vip_rc rc, const char *why)
{
    Vip__ConnResult event = VIP__CONN_RESULT__INIT;

    event.code = rc;
    event.reason = (char *)(uintptr_t)why;
    vipl__attempt_done(vi, &event);
}

void vipl__attempt_death(struct vipl__vi *vi)
{
    if (vi->attempt_async && vi->attempt == VIPL__ATTEMPT_CONNECT)
        fd_raise(vi);
}
