/*
 * Requests on the control socket: the calling thread sends and receives itself, one request at a
 * time.
 */
#ifndef LIBVIPL_CALL_H
#define LIBVIPL_CALL_H

#include "libvipl/session.h"
#include "proto/control.h"
#include "proto/control.pb-c.h"

/*
 * Ask vipd and wait for the answer. fds: file descriptors to send with it (they stay open here).
 * Outcomes: VIP_SUCCESS with *ret_reply (free with vipl__reply_free), or without it if ret_reply is
 * NULL; vipd's code with its reason kept for VipxLastError; VIP_ERROR_RESOURCE if vipd has gone.
 * `call` is the name of the VIPL function, for texts. Any thread.
 */
VIP_RETURN vipl__call(struct vipl__session *session, const char *call, const Vip__Request *request,
                      const int *fds, unsigned fd_count, Vip__Reply **ret_reply);

/* The same for a request that only file descriptors answer. */
VIP_RETURN vipl__call_fds(struct vipl__session *session, const char *call,
                          const Vip__Request *request, struct vip_fds *ret_fds);

void vipl__reply_free(Vip__Reply *reply);

/*
 * The same for a session's first request; its reply brings file descriptors. One more outcome:
 * ERROR_RESOURCE with *ret_reply and its again_ms: send the request again.
 */
VIP_RETURN vipl__call_open(struct vipl__session *session, const Vip__Request *request,
                           const int *fds, unsigned fd_count, Vip__Reply **ret_reply,
                           struct vip_fds *ret_fds);

/* VI attributes to and from the wire form; ptag is vipd's number. */
void vipl__vi_attrs_put(Vip__ViAttributes *out, const VIP_VI_ATTRIBUTES *attrs, uint32_t ptag);
void vipl__vi_attrs_get(VIP_VI_ATTRIBUTES *out, const Vip__ViAttributes *attrs);

#endif
