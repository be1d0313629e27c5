/*
 * Connection requests: the peer-to-peer calls (spec 2.5), and the asynchronous calls of vipl_ext.h.
 * Each of these calls, like VipConnectRequest, sends one message to vipd; the result comes as an
 * event.
 */
#include <stdlib.h>

#include "libvipl/connect.h"
#include "libvipl/error.h"

VIP_RETURN vipl__connect_read(struct vipl__vi *vi, const char *call, VIP_NET_ADDRESS *local,
                              VIP_NET_ADDRESS *remote, struct vipl__connect *ret)
{
    VIP_RETURN rc;

    if (ret->timeout_ms == 0)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: Timeout is 0", call);
    rc = vipl__read_local(vi->session, call, local, &ret->local);
    if (rc != VIP_SUCCESS)
        return rc;
    return vipl__read_address(vi->session, call, "RemoteAddr", remote, &ret->remote);
}

/* Send the connection request. timeout_ms: as in VIPL. After success call vipl__call_kept. */
static VIP_RETURN ask_connect(struct vipl__vi *vi, const char *call, struct vipl__connect *connect,
                              VIP_ULONG timeout_ms)
{
    Vip__ConnectRequest body = VIP__CONNECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__NetAddress from, to;

    vipl__put_address(&from, &connect->local);
    vipl__put_address(&to, &connect->remote);
    body.has_vi = 1;
    body.vi = vi->index;
    body.local = &from;
    body.remote = &to;
    body.has_timeout_ms = vipl__deadline(timeout_ms) != VIPL__NEVER;
    body.timeout_ms = timeout_ms;
    body.has_peer_to_peer = connect->peer_to_peer;
    body.peer_to_peer = connect->peer_to_peer;
    body.has_private_data = connect->data.len > 0;
    body.private_data.data = connect->data.bytes;
    body.private_data.len = connect->data.len;
    request.body_case = VIP__REQUEST__BODY_CONNECT;
    request.connect = &body;
    return vipl__call_keep_until(vi->session, call, &request, connect->deadline_ns, NULL);
}

VIP_RETURN vipl__connect_start(struct vipl__vi *vi, const char *call, struct vipl__connect *connect,
                               bool async)
{
    VIP_RETURN rc;

    if (vi->connect == NULL)
        vi->connect = calloc(1, sizeof(*vi->connect));
    if (vi->connect == NULL)
        return vipl__fail(VIP_ERROR_RESOURCE, "%s: out of memory", call);
    rc = vipl__attempt_begin(vi, VIPL__ATTEMPT_CONNECT, call);
    if (rc != VIP_SUCCESS)
        return rc;
    connect->deadline_ns = vipl__deadline(connect->timeout_ms);
    /* Set both fields first: the result may come before this thread reads vipd's reply. */
    pthread_mutex_lock(&vi->session->lock);
    vi->attempt_async = async;
    *vi->connect = *connect;
    pthread_mutex_unlock(&vi->session->lock);
    rc = ask_connect(vi, call, connect, connect->timeout_ms);
    if (rc != VIP_SUCCESS) {
        vipl__attempt_end(vi);
        return rc;
    }
    vipl__attempt_sent(vi);
    vipl__call_kept(vi->session);
    return VIP_SUCCESS;
}

/* The rest of the time limit, as VIPL counts it (ms or VIP_INFINITE); 0: the time is over. */
static VIP_ULONG left_ms(const struct vipl__connect *connect)
{
    uint64_t now_ns = vipl__now_ns();

    if (connect->deadline_ns == VIPL__NEVER)
        return VIP_INFINITE;
    return connect->deadline_ns > now_ns
               ? (VIP_ULONG)((connect->deadline_ns - now_ns + 999999) / 1000000)
               : 0;
}

void vipl__connect_again(struct vipl__vi *vi)
{
    static const char late[] = "vipd began anew, and the time limit is over";
    struct vipl__session *session = vi->session;
    struct vipl__connect connect;
    enum vipl__attempt kind;
    enum vip_rc rc = VIP_RC_TIMEOUT;
    VIP_ULONG timeout_ms = 0;

    pthread_mutex_lock(&session->lock);
    kind = vi->attempt_sent ? vi->attempt : VIPL__ATTEMPT_NONE;
    if (kind == VIPL__ATTEMPT_CONNECT) {
        connect = *vi->connect;
        timeout_ms = left_ms(&connect);
    }
    pthread_mutex_unlock(&session->lock);
    if (kind != VIPL__ATTEMPT_CONNECT && kind != VIPL__ATTEMPT_ACCEPT)
        return;
    if (timeout_ms > 0) {
        rc = (enum vip_rc)ask_connect(vi, "VipConnectRequest", &connect, timeout_ms);
        if (rc == VIP_RC_SUCCESS) {
            vipl__call_kept(session);
            return;
        }
    }
    pthread_mutex_lock(&session->lock);
    vipl__attempt_fail(vi, rc, timeout_ms > 0 ? NULL : late);
    pthread_mutex_unlock(&session->lock);
}

static VIP_RETURN start(const char *call, VIP_VI_HANDLE vi_handle, VIP_NET_ADDRESS *local,
                        VIP_NET_ADDRESS *remote, VIP_ULONG timeout_ms, bool peer_to_peer,
                        const VIPX_PRIVATE_DATA *data)
{
    struct vipl__connect connect = {.timeout_ms = timeout_ms, .peer_to_peer = peer_to_peer};
    struct vipl__vi *vi = vipl__vi_enter(vi_handle, call);
    VIP_RETURN rc;

    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    rc = vipl__read_private(call, data, &connect.data);
    if (rc == VIP_SUCCESS)
        rc = vipl__connect_read(vi, call, local, remote, &connect);
    if (rc == VIP_SUCCESS)
        rc = vipl__connect_start(vi, call, &connect, true);
    vipl__leave(vi->session);
    return rc;
}

static VIP_RETURN collect(const char *call, VIP_VI_HANDLE vi_handle, bool wait,
                          VIP_VI_ATTRIBUTES *attrs, VIPX_PRIVATE_DATA *data)
{
    struct vipl__vi *vi = vipl__vi_enter(vi_handle, call);
    VIP_RETURN rc;

    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    rc = vipl__attempt_collect(vi, call, wait, attrs, data);
    vipl__leave(vi->session);
    return rc;
}

VIP_RETURN VipConnectPeerRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                                 VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout)
{
    return start("VipConnectPeerRequest", ViHandle, LocalAddr, RemoteAddr, Timeout, true, NULL);
}

VIP_RETURN VipConnectPeerDone(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
    return collect("VipConnectPeerDone", ViHandle, false, RemoteViAttribs, NULL);
}

VIP_RETURN VipConnectPeerWait(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
    return collect("VipConnectPeerWait", ViHandle, true, RemoteViAttribs, NULL);
}

VIP_RETURN VipxConnectStart(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                            VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout, VIP_ULONG Flags,
                            const VIPX_PRIVATE_DATA *Data)
{
    if ((Flags & ~(VIP_ULONG)VIPX_CONNECT_PEER) != 0)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "VipxConnectStart: Flags 0x%lx: only VIPX_CONNECT_PEER is known", Flags);
    return start("VipxConnectStart", ViHandle, LocalAddr, RemoteAddr, Timeout, Flags != 0, Data);
}

VIP_RETURN VipxConnectFinish(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *RemoteViAttribs,
                             VIPX_PRIVATE_DATA *Data)
{
    return collect("VipxConnectFinish", ViHandle, false, RemoteViAttribs, Data);
}
