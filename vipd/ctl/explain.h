/*
 * How each NIC would reach a host, for `vipctl explain peer`.
 *
 * Owns: the words. Does not own: finding addresses (vipd/names.h, vipd/nic/nic.h), nor the choice
 * of the best NIC, which is the caller's. Called by vipd/client/ only.
 */
#ifndef VIPD_CTL_EXPLAIN_H
#define VIPD_CTL_EXPLAIN_H

#include "proto/control.pb-c.h"
#include "vipd/daemon.h"

struct explain;

/*
 * Look the host up on every NIC. Hosts on a medium may have to be asked first: then the reply says
 * when to ask again. Outcomes: 0 and *ret, to be freed with explain_free; -EINVAL peer is no name;
 * -ENOMEM.
 */
int explain_new(const struct vipd *vipd, const char *peer, struct explain **ret);
/* The reply; it belongs to `explain`. */
Vip__ExplainReply *explain_reply(struct explain *explain);
/* Harmless on NULL. */
void explain_free(struct explain *explain);

#endif
