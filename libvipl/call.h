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
 * Send a request to vipd and wait for the reply. fds: file descriptors to send with the request
 * (they stay open here). Outcomes: VIP_SUCCESS with *ret_reply (free it with vipl__reply_free), or
 * without a reply if ret_reply is NULL; vipd's code, with its reason kept for VipxLastError;
 * VIP_ERROR_RESOURCE if vipd has gone. If the next vipd may go on with the session, the request
 * waits and goes to that one; VIP_TIMEOUT: the request names something that only the last vipd knew.
 * `call` is the name of the VIPL function, for texts. Any thread.
 */
VIP_RETURN vipl__call(struct vipl__session *session, const char *call, const Vip__Request *request,
                      const int *fds, unsigned fd_count, Vip__Reply **ret_reply);

/*
 * The same for a request after which the caller changes what it knows of vipd's objects. After
 * success it calls vipl__call_kept when that is done; until then no other vipd goes on with the
 * session. In between it waits for nothing.
 */
VIP_RETURN vipl__call_keep(struct vipl__session *session, const char *call,
                           const Vip__Request *request, const int *fds, unsigned fd_count,
                           Vip__Reply **ret_reply);
/* The same for a call with a time limit: VIP_TIMEOUT, too, if there was no vipd until until_ns. */
VIP_RETURN vipl__call_keep_until(struct vipl__session *session, const char *call,
                                 const Vip__Request *request, uint64_t until_ns,
                                 Vip__Reply **ret_reply);
void vipl__call_kept(struct vipl__session *session);

/*
 * The calling thread is the provider thread, which looks for the next vipd: its requests go to a vipd
 * that is still being told what there is, and wait for no other one.
 */
void vipl__call_provider(void);

/*
 * The same for a request whose reply brings only file descriptors, two at most; keep: as
 * vipl__call_keep. VIP_ERROR_RESOURCE, too, if there is no room for them.
 */
VIP_RETURN vipl__call_fds(struct vipl__session *session, const char *call,
                          const Vip__Request *request, bool keep, struct vip_fds *ret_fds);

void vipl__reply_free(Vip__Reply *reply);

/*
 * The same for a session's first request; its reply brings file descriptors. One more outcome:
 * VIP_ERROR_RESOURCE with *ret_reply: send the request again after its again_ms.
 */
VIP_RETURN vipl__call_open(struct vipl__session *session, const Vip__Request *request,
                           const int *fds, unsigned fd_count, Vip__Reply **ret_reply,
                           struct vip_fds *ret_fds);

/* VI attributes to and from the wire form; ptag is vipd's number. */
void vipl__vi_attrs_put(Vip__ViAttributes *out, const VIP_VI_ATTRIBUTES *attrs, uint32_t ptag);
void vipl__vi_attrs_get(VIP_VI_ATTRIBUTES *out, const Vip__ViAttributes *attrs);

#endif
