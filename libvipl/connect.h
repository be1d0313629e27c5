/*
 * Functions that the files about connections share: connect.c (client and server), attempt.c (the
 * one attempt of a VI), connect_start.c (peer-to-peer, asynchronous), listen.c, connect_util.c, and
 * events.c, which delivers the results.
 */
#ifndef LIBVIPL_CONNECT_H
#define LIBVIPL_CONNECT_H

#include "libvipl/call.h"
#include "libvipl/session.h"
#include "libvipl/vipl_ext.h"

/* ---- connect_util.c ---- */

bool vipl__closing(const struct vipl__session *session);
/* Wait until session->changed is signalled; false: the deadline is over. Under session->lock. */
bool vipl__await_change(struct vipl__session *session, uint64_t deadline_ns);
/* Return VIP_ERROR_RESOURCE, with the reason: vipd has ended, or the NIC handle was closed. */
VIP_RETURN vipl__gone(const struct vipl__session *session, const char *call);

VIP_RETURN vipl__read_address(const struct vipl__session *session, const char *call,
                              const char *which, const VIP_NET_ADDRESS *address,
                              struct vip_addr *ret);
VIP_RETURN vipl__read_local(const struct vipl__session *session, const char *call,
                            const VIP_NET_ADDRESS *address, struct vip_addr *ret);
void vipl__put_address(Vip__NetAddress *out, struct vip_addr *address);
void vipl__write_address(VIP_NET_ADDRESS *out, const struct vip_addr *address);

/* _read private data of a caller (NULL: none), _write it for a caller, _get it from a message. */
VIP_RETURN vipl__read_private(const char *call, const VIPX_PRIVATE_DATA *given,
                              struct vip_private *ret);
void vipl__write_private(VIPX_PRIVATE_DATA *out, const struct vip_private *data);
void vipl__get_private(struct vip_private *out, const ProtobufCBinaryData *data);

/* ---- connect.c ---- */

/* Make a connection handle for the request `incoming`. Frees `incoming`, also on failure. */
VIP_RETURN vipl__incoming_take(struct vipl__session *session, const char *call,
                               struct vipl__incoming *incoming, VIP_NET_ADDRESS *ret_remote,
                               VIP_VI_ATTRIBUTES *ret_attrs, VIPX_PRIVATE_DATA *ret_data,
                               VIP_CONN_HANDLE *ret_handle);
void vipl__reject_quietly(struct vipl__session *session, const char *call, uint64_t conn_handle);

/* The next vipd does not know the connection requests that the last vipd sent: drop them. Under
 * session->lock. */
void vipl__requests_forget(struct vipl__session *session);

/* ---- attempt.c ---- */

/*
 * Claim the VI's one attempt; wait up to 1 s for the end of another thread's cancelled attempt.
 * VIP_INVALID_STATE: the VI is Connected or in Error state, or an attempt is under way.
 */
VIP_RETURN vipl__attempt_begin(struct vipl__vi *vi, enum vipl__attempt kind, const char *call);
void vipl__attempt_end(struct vipl__vi *vi);
/* Wait for the result of the attempt and end the attempt. attrs and data may be NULL. */
VIP_RETURN vipl__attempt_result(struct vipl__vi *vi, const char *call, VIP_VI_ATTRIBUTES *attrs,
                                VIPX_PRIVATE_DATA *data);
/* As vipl__attempt_result, for an asynchronous attempt. If !wait: VIP_NOT_DONE if not finished. */
VIP_RETURN vipl__attempt_collect(struct vipl__vi *vi, const char *call, bool wait,
                                 VIP_VI_ATTRIBUTES *attrs, VIPX_PRIVATE_DATA *data);
/* VipDisconnect has cancelled the attempt: its result is discarded. */
void vipl__attempt_cancelled(struct vipl__vi *vi);
/* vipd has sent the result of the attempt: store it. Under session->lock. */
void vipl__attempt_done(struct vipl__vi *vi, const Vip__ConnResult *event);
/* vipd has answered the attempt's request. The result of the attempt comes later, as an event. */
void vipl__attempt_sent(struct vipl__vi *vi);
/* No event will come for this attempt: end it with this result. Under session->lock. */
void vipl__attempt_fail(struct vipl__vi *vi, enum vip_rc rc, const char *why);
/* vipd has died: make the VI's file descriptor readable. Under session->lock. */
void vipl__attempt_death(struct vipl__vi *vi);
/* The VI ends: close the eventfd of its attempts. Under session->lock, or when no thread is in the
 * session. */
void vipl__attempt_close_fd(struct vipl__vi *vi);

/* Contents of a connection request. */
struct vipl__connect {
    struct vip_addr local, remote;
    VIP_ULONG timeout_ms;
    bool peer_to_peer;
    struct vip_private data;
    uint64_t deadline_ns; /* vipl__connect_start sets it */
};
/* Check the time limit and the addresses; put the addresses into *ret. */
VIP_RETURN vipl__connect_read(struct vipl__vi *vi, const char *call, VIP_NET_ADDRESS *local,
                              VIP_NET_ADDRESS *remote, struct vipl__connect *ret);
/* Send the request to vipd. `async`: the caller fetches the result with vipl__attempt_collect. */
VIP_RETURN vipl__connect_start(struct vipl__vi *vi, const char *call, struct vipl__connect *connect,
                               bool async);
/* The next vipd does not know the VI's attempt: repeat the attempt's request, or end the
 * attempt. */
void vipl__connect_again(struct vipl__vi *vi);

#endif
