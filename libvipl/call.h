/* Requests on the control socket, one at a time. The calling thread sends and reads the reply. */
#ifndef LIBVIPL_CALL_H
#define LIBVIPL_CALL_H

#include "libvipl/session.h"
#include "proto/control.h"
#include "proto/control.pb-c.h"

/*
 * Send a request to vipd and wait for the reply. fds: file descriptors to send with the request
 * (they stay open here). `call` is the name of the VIPL function, for error texts. If vipd has
 * ended but a next vipd may continue the session, the request waits for the next vipd. Outcomes:
 * VIP_SUCCESS with *ret_reply (free it with vipl__reply_free), or without a reply if ret_reply is
 * NULL; vipd's code, with its reason kept for VipxLastError; VIP_ERROR_RESOURCE: vipd has ended;
 * VIP_TIMEOUT: the request names an object that only the ended vipd knew. Any thread.
 */
VIP_RETURN vipl__call(struct vipl__session *session, const char *call, const Vip__Request *request,
                      const int *fds, unsigned fd_count, Vip__Reply **ret_reply);

/*
 * As vipl__call, for a request after which the caller updates libvipl's record of vipd's objects.
 * After success the caller updates it, without waiting for anything, and calls vipl__call_kept.
 * Until then libvipl tells no next vipd about the session, because the record would be wrong.
 */
VIP_RETURN vipl__call_keep(struct vipl__session *session, const char *call,
                           const Vip__Request *request, const int *fds, unsigned fd_count,
                           Vip__Reply **ret_reply);
/* As vipl__call_keep. Also VIP_TIMEOUT if vipd has ended and no next vipd came before until_ns. */
VIP_RETURN vipl__call_keep_until(struct vipl__session *session, const char *call,
                                 const Vip__Request *request, uint64_t until_ns,
                                 Vip__Reply **ret_reply);
void vipl__call_kept(struct vipl__session *session);

/*
 * The provider thread calls this when it starts. Its later requests go also to a next vipd that
 * does not know all objects of the session yet. They never wait for another vipd.
 */
void vipl__call_provider(void);

/*
 * As vipl__call (or vipl__call_keep, if `keep`), for a request whose reply is one or two file
 * descriptors. Also VIP_ERROR_RESOURCE if this process has no room for them.
 */
VIP_RETURN vipl__call_fds(struct vipl__session *session, const char *call,
                          const Vip__Request *request, bool keep, struct vip_fds *ret_fds);

void vipl__reply_free(Vip__Reply *reply);

/*
 * As vipl__call, for a session's first request; its reply has file descriptors. One more outcome:
 * VIP_ERROR_RESOURCE with *ret_reply: send the request again after the reply's again_ms.
 */
VIP_RETURN vipl__call_open(struct vipl__session *session, const Vip__Request *request,
                           const int *fds, unsigned fd_count, Vip__Reply **ret_reply,
                           struct vip_fds *ret_fds);

/* Convert VI attributes to and from messages. ptag: vipd's number of the protection tag. */
void vipl__vi_attrs_put(Vip__ViAttributes *out, const VIP_VI_ATTRIBUTES *attrs, uint32_t ptag);
void vipl__vi_attrs_get(VIP_VI_ATTRIBUTES *out, const Vip__ViAttributes *attrs);

#endif
