/*
 * The part of connection management (vipd/engine/cm.h) for connections that go on when a vipd ends
 * and the next vipd begins.
 *
 * Owns: REBIND (cm_rebind.c), AWAY (cm_alive.c), discriminators that are kept (cm_disc.c).
 */
#ifndef VIPD_ENGINE_CM_OUTLIVE_H
#define VIPD_ENGINE_CM_OUTLIVE_H

#include "vipd/engine/cm.h"

/*
 * Call this when this vipd ends, and the next one goes on with the connections that can be bound
 * anew. It sends AWAY to the peers of these connections. A peer then waits for back_ns (1 to
 * CM_AWAY_NS_MAX), or for its own outlive_ns if that is less. If the AWAYs to a peer are lost, the
 * peer detects the end like that of a killed vipd. After this call, call only cm_deinit.
 */
void cm_leave(struct cm *cm, uint64_t back_ns, uint64_t now_ns);
#define CM_AWAY_NS_MAX 600000000000u

struct cm_rebind_args {
    uint64_t user;             /* the host's number of this rebind; cm_ops.rebound returns it */
    uint32_t uid;              /* the user of the session */
    uint64_t local_id;         /* new connection id of this end */
    struct cm_host remote;     /* the other end's host */
    struct siphash_key secret; /* secret, asked and features: from cm_conn of the earlier life */
    bool asked;
    uint64_t features;
    struct vip_counts counts; /* of this end */
    uint64_t timeout_ns;      /* from now */
};
/*
 * Go on with a connection of an earlier life of this vipd. The other end may call cm_rebind at the
 * same time. Outcomes: 0, and cm_ops.rebound follows; -ENOMEM; -EPROTO: this vipd lacks a feature
 * of the connection; -EALREADY: `user` has a rebind under way.
 */
int cm_rebind(struct cm *cm, const struct cm_rebind_args *args, uint64_t now_ns);
/* The program does not want the connection any more: cm_ops.rebound is not called. The rebind goes
 * on within its time limit, because the other end accepts a CLOSE with this reason only after the
 * rebind. False: the rebind has ended before. */
bool cm_rebind_cancel(struct cm *cm, uint64_t user, enum vip_close_reason reason, uint64_t now_ns);
/* The time at which the rebind of `user` gives up. 0: `user` has no rebind under way. */
uint64_t cm_rebind_until(struct cm *cm, uint64_t user);

/*
 * Make user `uid` the owner of the discriminator until until_ns: the user owned it in an earlier
 * life of vipd, and a program of the user may wait on it again. Outcomes: 0; -ENOMEM; -EINVAL
 * (len); -EPERM (another user owns it).
 */
int cm_disc_keep(struct cm *cm, const uint8_t *disc, uint8_t len, uint32_t uid, uint64_t until_ns,
                 uint64_t now_ns);

#endif
