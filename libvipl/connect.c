/*
 * VipConnectWait, VipConnectAccept, VipConnectReject, VipConnectRequest, VipDisconnect (spec 2.4).
 *
 * vipd answers every request at once; what takes long comes as an event, which the provider thread
 * leaves in the session (events.c) and the caller waits for here. A request that vipd has handed to
 * a wait is never lost: a wait that gives up asks vipd whether it came too late.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libvipl/call.h"
#include "libvipl/error.h"
#include "libvipl/session.h"

/* The index in a connection handle has 16 bits. */
#define CONNS_MAX 65536u

/* How long a new attempt waits for another thread's cancelled one on the same VI to be over. */
#define ATTEMPT_OVER_NS 1000000000ull

/* ---- waiting for the provider thread ------------------------------------------------------ */

static bool closing(const struct vipl__session *session)
{
    return __atomic_load_n(&session->closing, __ATOMIC_SEQ_CST) != 0;
}

/* Wait for a change until the deadline, under session->lock. false: the time is over. */
static bool await_change(struct vipl__session *session, uint64_t deadline_ns)
{
    struct timespec limit;

    if (deadline_ns == VIPL__NEVER) {
        pthread_cond_wait(&session->changed, &session->lock);
        return true;
    }
    limit.tv_sec = (time_t)(deadline_ns / 1000000000ull);
    limit.tv_nsec = (long)(deadline_ns % 1000000000ull);
    return pthread_cond_timedwait(&session->changed, &session->lock, &limit) != ETIMEDOUT;
}

static VIP_RETURN gone(const struct vipl__session *session, const char *call)
{
    if (closing(session))
        return vipl__fail(VIP_ERROR_RESOURCE, "%s: the NIC handle was closed meanwhile", call);
    return vipl__fail(VIP_ERROR_RESOURCE,
                      "%s: vipd (%s) has ended; close this NIC handle and open the NIC again", call,
                      session->socket_path);
}

/* ---- addresses ---------------------------------------------------------------------------- */

/*
 * Take an address of the application apart. The discriminator follows the host part without any
 * alignment. Copied, because it may be unaligned and the caller may change it.
 */
static VIP_RETURN read_address(const struct vipl__session *session, const char *call,
                               const char *which, const VIP_NET_ADDRESS *address,
                               struct vip_addr *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (address == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: %s is NULL", call, which);
    if (address->HostAddressLen > VIP_HOST_ADDR_BYTES_MAX)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "%s: HostAddressLen of %s is %u; this NIC's is %u "
                          "(VIP_NIC_ATTRIBUTES.NicAddressLen)",
                          call, which, address->HostAddressLen, session->nic.NicAddressLen);
    if (address->DiscriminatorLen > session->nic.MaxDiscriminatorLen ||
        address->DiscriminatorLen > VIP_DISCRIMINATOR_BYTES_MAX)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "%s: DiscriminatorLen of %s is %u; at most %u are possible "
                          "(VIP_NIC_ATTRIBUTES.MaxDiscriminatorLen)",
                          call, which, address->DiscriminatorLen, session->nic.MaxDiscriminatorLen);
    ret->host_len = (uint8_t)address->HostAddressLen;
    ret->disc_len = (uint8_t)address->DiscriminatorLen;
    memcpy(ret->host, address->HostAddress, ret->host_len);
    memcpy(ret->disc, (const uint8_t *)address->HostAddress + ret->host_len, ret->disc_len);
    return VIP_SUCCESS;
}

/*
 * A local address: only its discriminator counts (spec 3.11: programs leave the host part
 * uninitialised), the host part is this NIC's.
 */
static VIP_RETURN read_local(const struct vipl__session *session, const char *call,
                             const VIP_NET_ADDRESS *address, struct vip_addr *ret)
{
    VIP_RETURN rc = read_address(session, call, "LocalAddr", address, ret);

    if (rc != VIP_SUCCESS)
        return rc;
    memset(ret->host, 0, sizeof(ret->host));
    ret->host_len = (uint8_t)session->nic.NicAddressLen;
    memcpy(ret->host, session->address, ret->host_len);
    return VIP_SUCCESS;
}

static void put_address(Vip__NetAddress *out, struct vip_addr *address)
{
    vip__net_address__init(out);
    out->has_host = out->has_discriminator = 1;
    out->host.data = address->host;
    out->host.len = address->host_len;
    out->discriminator.data = address->disc;
    out->discriminator.len = address->disc_len;
}

/* Write no more than the lengths say: programs pass buffers of 40 bytes, or less. */
static void write_address(VIP_NET_ADDRESS *out, const struct vip_addr *address)
{
    out->HostAddressLen = address->host_len;
    out->DiscriminatorLen = address->disc_len;
    memcpy(out->HostAddress, address->host, address->host_len);
    memcpy((uint8_t *)out->HostAddress + address->host_len, address->disc, address->disc_len);
}

/* ---- connection handles -------------------------------------------------------------------- */

/* Under session->lock. 0: no memory, or too many. */
static uint64_t conn_add(struct vipl__session *session, uint64_t conn_handle)
{
    struct vipl__conn *conns;
    uint32_t i, slots;

    for (i = 0; i < session->conn_slots && session->conns[i].handle != 0; i++)
        continue;
    if (i == session->conn_slots) {
        slots = session->conn_slots == 0 ? 16 : 2 * session->conn_slots;
        if (slots > CONNS_MAX)
            return 0;
        conns = realloc(session->conns, slots * sizeof(*conns));
        if (conns == NULL)
            return 0;
        memset(conns + session->conn_slots, 0, (slots - session->conn_slots) * sizeof(*conns));
        session->conns = conns;
        session->conn_slots = slots;
    }
    session->conns[i].uses++;
    session->conns[i].conn_handle = conn_handle;
    session->conns[i].handle =
        vipl__handle_make(VIPL__KIND_CONN, session, (uint32_t)session->conns[i].uses << 16 | i);
    return session->conns[i].handle;
}

/* Under session->lock. NULL: not a pending request (any more). */
static struct vipl__conn *conn_find(struct vipl__session *session, uint64_t handle)
{
    uint32_t i = handle & 0xFFFF;

    if (i >= session->conn_slots || session->conns[i].handle != handle)
        return NULL;
    return &session->conns[i];
}

/*
 * Enter the session of a connection handle and look up vipd's number. NULL with the reason set if
 * there is no such pending request.
 */
static struct vipl__session *conn_enter(VIP_CONN_HANDLE conn_handle, const char *call,
                                        uint64_t *ret_number)
{
    uint64_t handle = (uint64_t)(uintptr_t)conn_handle;
    struct vipl__session *session = vipl__handle_session(handle, VIPL__KIND_CONN);
    struct vipl__conn *conn = NULL;

    if (session != NULL) {
        __atomic_add_fetch(&session->users, 1, __ATOMIC_SEQ_CST);
        pthread_mutex_lock(&session->lock);
        if (__atomic_load_n(&session->handle, __ATOMIC_SEQ_CST) != 0)
            conn = conn_find(session, handle);
        if (conn != NULL)
            *ret_number = conn->conn_handle;
        pthread_mutex_unlock(&session->lock);
        if (conn != NULL)
            return session;
        vipl__leave(session);
    }
    vipl__fail(VIP_INVALID_PARAMETER,
               "%s: %p is not a pending connection request (accepted or rejected already, given up "
               "by the client, or its NIC is closed)",
               call, conn_handle);
    return NULL;
}

static void conn_forget(struct vipl__session *session, VIP_CONN_HANDLE conn_handle)
{
    struct vipl__conn *conn;

    pthread_mutex_lock(&session->lock);
    conn = conn_find(session, (uint64_t)(uintptr_t)conn_handle);
    if (conn != NULL)
        conn->handle = 0;
    pthread_mutex_unlock(&session->lock);
}

/* ---- VipConnectWait ------------------------------------------------------------------------ */

/* Wait for the request that belongs to wait_id. NULL: the time is over, vipd died, or we close. */
static struct vipl__incoming *await_incoming(struct vipl__session *session, uint64_t wait_id,
                                             uint64_t deadline_ns)
{
    struct vipl__incoming *incoming = NULL, **at;
    bool in_time = true;

    pthread_mutex_lock(&session->lock);
    for (;;) {
        for (at = &session->incoming; *at != NULL; at = &(*at)->next)
            if ((*at)->wait_id == wait_id) {
                incoming = *at;
                *at = incoming->next;
                break;
            }
        if (incoming != NULL || !in_time || vipl__is_dead(session) || closing(session))
            break;
        in_time = await_change(session, deadline_ns);
    }
    pthread_mutex_unlock(&session->lock);
    return incoming;
}

static VIP_RETURN ask_wait(struct vipl__session *session, struct vip_addr *local, bool immediate,
                           uint64_t *ret_wait_id, bool *ret_found)
{
    Vip__ConnectWaitRequest wait = VIP__CONNECT_WAIT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__NetAddress address;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    put_address(&address, local);
    wait.local = &address;
    wait.has_immediate = 1;
    wait.immediate = immediate;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT;
    request.connect_wait = &wait;
    rc = vipl__call(session, "VipConnectWait", &request, NULL, 0, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    *ret_wait_id = reply->connect_wait == NULL ? 0 : reply->connect_wait->wait_id;
    *ret_found = reply->connect_wait != NULL && reply->connect_wait->found;
    vipl__reply_free(reply);
    return VIP_SUCCESS;
}

/* Give up a wait. *ret_found: too late, its request is on its way. */
static VIP_RETURN ask_cancel(struct vipl__session *session, uint64_t wait_id, bool *ret_found)
{
    Vip__ConnectWaitCancel cancel = VIP__CONNECT_WAIT_CANCEL__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    cancel.has_wait_id = 1;
    cancel.wait_id = wait_id;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT_CANCEL;
    request.connect_wait_cancel = &cancel;
    rc = vipl__call(session, "VipConnectWait", &request, NULL, 0, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    *ret_found = reply->connect_wait != NULL && reply->connect_wait->found;
    vipl__reply_free(reply);
    return VIP_SUCCESS;
}

/* The request for a local address within the time limit. */
static VIP_RETURN wait_incoming(struct vipl__session *session, struct vip_addr *local,
                                VIP_ULONG timeout_ms, struct vipl__incoming **ret)
{
    bool immediate = timeout_ms == 0, found = false;
    uint64_t deadline_ns = vipl__deadline(timeout_ms), wait_id;
    VIP_RETURN rc = ask_wait(session, local, immediate, &wait_id, &found);

    if (rc != VIP_SUCCESS)
        return rc;
    *ret = NULL;
    if (!immediate)
        *ret = await_incoming(session, wait_id, deadline_ns);
    if (*ret == NULL && !immediate && !vipl__is_dead(session) && !closing(session)) {
        rc = ask_cancel(session, wait_id, &found);
        if (rc != VIP_SUCCESS)
            return rc;
    }
    if (*ret == NULL && found)
        *ret = await_incoming(session, wait_id, VIPL__NEVER);
    if (*ret != NULL)
        return VIP_SUCCESS;
    if (vipl__is_dead(session) || closing(session))
        return gone(session, "VipConnectWait");
    return vipl__fail(VIP_TIMEOUT,
                      "VipConnectWait: no connection request came within the time limit");
}

static VIP_RETURN connect_wait(struct vipl__session *session, struct vip_addr *local,
                               VIP_ULONG timeout_ms, VIP_NET_ADDRESS *ret_remote,
                               VIP_VI_ATTRIBUTES *ret_attrs, VIP_CONN_HANDLE *ret_handle)
{
    struct vipl__incoming *incoming;
    uint64_t handle;
    VIP_RETURN rc = wait_incoming(session, local, timeout_ms, &incoming);

    if (rc != VIP_SUCCESS)
        return rc;
    pthread_mutex_lock(&session->lock);
    handle = conn_add(session, incoming->conn_handle);
    pthread_mutex_unlock(&session->lock);
    if (handle == 0) {
        Vip__RejectRequest reject = VIP__REJECT_REQUEST__INIT;
        Vip__Request request = VIP__REQUEST__INIT;

        reject.has_conn_handle = 1;
        reject.conn_handle = incoming->conn_handle;
        request.body_case = VIP__REQUEST__BODY_REJECT;
        request.reject = &reject;
        vipl__call(session, "VipConnectWait", &request, NULL, 0, NULL);
        free(incoming);
        return vipl__fail(VIP_ERROR_RESOURCE,
                          "VipConnectWait: out of memory, or more than %u requests are pending; a "
                          "request was rejected",
                          CONNS_MAX);
    }
    if (ret_remote != NULL)
        write_address(ret_remote, &incoming->remote);
    if (ret_attrs != NULL)
        *ret_attrs = incoming->attrs;
    *ret_handle = (VIP_CONN_HANDLE)(uintptr_t)handle;
    free(incoming);
    return VIP_SUCCESS;
}

VIP_RETURN VipConnectWait(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *LocalAddr, VIP_ULONG Timeout,
                          VIP_NET_ADDRESS *RemoteAddr, VIP_VI_ATTRIBUTES *RemoteViAttribs,
                          VIP_CONN_HANDLE *ConnHandle)
{
    struct vipl__session *session;
    struct vip_addr local;
    VIP_RETURN rc;

    if (ConnHandle == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipConnectWait: ConnHandle is NULL");
    session = vipl__nic_enter(NicHandle, "VipConnectWait");
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    rc = read_local(session, "VipConnectWait", LocalAddr, &local);
    if (rc == VIP_SUCCESS)
        rc = connect_wait(session, &local, Timeout, RemoteAddr, RemoteViAttribs, ConnHandle);
    vipl__leave(session);
    return rc;
}

/* ---- attempts ------------------------------------------------------------------------------ */

/* Claim the VI's one attempt. Another thread's cancelled attempt may still be on its way out. */
static VIP_RETURN attempt_begin(struct vipl__vi *vi, enum vipl__attempt kind, const char *call)
{
    struct vipl__session *session = vi->session;
    uint64_t deadline_ns = vipl__now_ns() + ATTEMPT_OVER_NS;
    bool in_time = true, mine;

    pthread_mutex_lock(&session->lock);
    while (vi->attempt != VIPL__ATTEMPT_NONE && in_time && !closing(session) &&
           vipl__vi_state(vi) == VIP_VIST_IDLE)
        in_time = await_change(session, deadline_ns);
    mine = vi->attempt == VIPL__ATTEMPT_NONE;
    if (mine)
        vi->attempt = kind;
    pthread_mutex_unlock(&session->lock);
    if (mine)
        return VIP_SUCCESS;
    return vipl__fail(VIP_INVALID_STATE, "%s: another thread is connecting this VI", call);
}

static void attempt_end(struct vipl__vi *vi)
{
    pthread_mutex_lock(&vi->session->lock);
    vi->attempt = VIPL__ATTEMPT_NONE;
    pthread_cond_broadcast(&vi->session->changed);
    pthread_mutex_unlock(&vi->session->lock);
}

/* Wait for the result of the attempt and end it. attrs may be NULL. */
static VIP_RETURN attempt_result(struct vipl__vi *vi, const char *call, VIP_VI_ATTRIBUTES *attrs)
{
    struct vipl__session *session = vi->session;
    VIP_RETURN rc = VIP_SUCCESS;
    bool done;

    pthread_mutex_lock(&session->lock);
    while (vi->attempt != VIPL__ATTEMPT_DONE && !vipl__is_dead(session) && !closing(session))
        await_change(session, VIPL__NEVER);
    done = vi->attempt == VIPL__ATTEMPT_DONE;
    if (done && vi->attempt_rc != VIP_RC_SUCCESS)
        rc = vipl__fail((VIP_RETURN)vi->attempt_rc, "%s: %s", call,
                        vi->attempt_why[0] != '\0' ? vi->attempt_why : vip_rc_name(vi->attempt_rc));
    else if (done && attrs != NULL)
        *attrs = vi->attempt_attrs;
    vi->attempt = VIPL__ATTEMPT_NONE;
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
    return done ? rc : gone(session, call);
}

static VIP_RETURN accept_on(struct vipl__session *session, uint64_t number,
                            VIP_CONN_HANDLE conn_handle, struct vipl__vi *vi)
{
    static const char call[] = "VipConnectAccept";
    Vip__AcceptRequest accept = VIP__ACCEPT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    VIP_RETURN rc = attempt_begin(vi, VIPL__ATTEMPT_ACCEPT, call);

    if (rc != VIP_SUCCESS)
        return rc;
    accept.has_conn_handle = accept.has_vi = 1;
    accept.conn_handle = number;
    accept.vi = vi->index;
    request.body_case = VIP__REQUEST__BODY_ACCEPT;
    request.accept = &accept;
    rc = vipl__call(session, call, &request, NULL, 0, NULL);
    if (rc != VIP_SUCCESS)
        attempt_end(vi);
    /* Spec 2.4: after a conflict of attributes the handle stays valid; the client's having given
     * up, or success, uses it up. */
    if (rc == VIP_SUCCESS || rc == VIP_TIMEOUT)
        conn_forget(session, conn_handle);
    return rc == VIP_SUCCESS ? attempt_result(vi, call, NULL) : rc;
}

VIP_RETURN VipConnectAccept(VIP_CONN_HANDLE ConnHandle, VIP_VI_HANDLE ViHandle)
{
    uint64_t number = 0;
    struct vipl__session *session = conn_enter(ConnHandle, "VipConnectAccept", &number);
    struct vipl__vi *vi;
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    vi = vipl__vi_find(ViHandle);
    if (vi == NULL)
        rc = vipl__bad_vi("VipConnectAccept", ViHandle);
    else if (vi->session != session)
        rc = vipl__fail(VIP_INVALID_PARAMETER,
                        "VipConnectAccept: VI %p belongs to another NIC handle than the request",
                        ViHandle);
    else
        rc = accept_on(session, number, ConnHandle, vi);
    vipl__leave(session);
    return rc;
}

VIP_RETURN VipConnectReject(VIP_CONN_HANDLE ConnHandle)
{
    Vip__RejectRequest reject = VIP__REJECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vipl__session *session = conn_enter(ConnHandle, "VipConnectReject", &reject.conn_handle);
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    reject.has_conn_handle = 1;
    request.body_case = VIP__REQUEST__BODY_REJECT;
    request.reject = &reject;
    rc = vipl__call(session, "VipConnectReject", &request, NULL, 0, NULL);
    conn_forget(session, ConnHandle);
    vipl__leave(session);
    return rc;
}

static VIP_RETURN connect_request(struct vipl__vi *vi, struct vip_addr *local,
                                  struct vip_addr *remote, VIP_ULONG timeout_ms,
                                  VIP_VI_ATTRIBUTES *ret_attrs)
{
    static const char call[] = "VipConnectRequest";
    Vip__ConnectRequest connect = VIP__CONNECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__NetAddress from, to;
    VIP_RETURN rc = attempt_begin(vi, VIPL__ATTEMPT_CONNECT, call);

    if (rc != VIP_SUCCESS)
        return rc;
    put_address(&from, local);
    put_address(&to, remote);
    connect.has_vi = 1;
    connect.vi = vi->index;
    connect.local = &from;
    connect.remote = &to;
    connect.has_timeout_ms = vipl__deadline(timeout_ms) != VIPL__NEVER;
    connect.timeout_ms = timeout_ms;
    request.body_case = VIP__REQUEST__BODY_CONNECT;
    request.connect = &connect;
    rc = vipl__call(vi->session, call, &request, NULL, 0, NULL);
    if (rc != VIP_SUCCESS) {
        attempt_end(vi);
        return rc;
    }
    return attempt_result(vi, call, ret_attrs);
}

VIP_RETURN VipConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                             VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout,
                             VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
    static const char call[] = "VipConnectRequest";
    struct vipl__vi *vi = vipl__vi_enter(ViHandle, call);
    struct vip_addr local, remote;
    VIP_RETURN rc;

    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    if (Timeout == 0)
        rc = vipl__fail(VIP_INVALID_PARAMETER, "%s: Timeout is 0", call);
    else
        rc = read_local(vi->session, call, LocalAddr, &local);
    if (rc == VIP_SUCCESS)
        rc = read_address(vi->session, call, "RemoteAddr", RemoteAddr, &remote);
    if (rc == VIP_SUCCESS)
        rc = connect_request(vi, &local, &remote, Timeout, RemoteViAttribs);
    vipl__leave(vi->session);
    return rc;
}

VIP_RETURN VipDisconnect(VIP_VI_HANDLE ViHandle)
{
    struct vipl__vi *vi = vipl__vi_enter(ViHandle, "VipDisconnect");
    Vip__ViRequest disconnect = VIP__VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    VIP_RETURN rc;

    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    /* A thread that is blocked in an attempt on this VI gets its result from vipd. */
    disconnect.has_vi = 1;
    disconnect.vi = vi->index;
    request.body_case = VIP__REQUEST__BODY_DISCONNECT;
    request.disconnect = &disconnect;
    rc = vipl__call(vi->session, "VipDisconnect", &request, NULL, 0, NULL);
    vipl__leave(vi->session);
    return rc;
}
