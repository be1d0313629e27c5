/*
 * How each NIC would reach a host, for `vipctl explain peer`.
 *
 * Owns: the texts. Does not own: finding addresses (vipd/names.h, vipd/nic/nic.h), the choice of
 * the best NIC (the tool). Called by vipd/client/ only.
 */
#ifndef VIPD_CTL_EXPLAIN_H
#define VIPD_CTL_EXPLAIN_H

#include "proto/control.pb-c.h"
#include "vipd/daemon.h"

struct explain;

/*
 * Look the host up on every NIC. If vipd must first ask the hosts on a medium, the reply says when
 * the tool should repeat its request. Outcomes: 0, and *ret, to be freed by explain_free; -EINVAL:
 * peer is no name; -ENOMEM.
 */
int explain_new(const struct vipd *vipd, const char *peer, struct explain **ret);
/* The reply; it belongs to `explain`. */
Vip__ExplainReply *explain_reply(struct explain *explain);
/* NULL is harmless. */
void explain_free(struct explain *explain);

#endif
