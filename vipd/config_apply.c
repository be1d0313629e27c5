/* Makes the configuration take effect; see config_apply.h. */
#include "vipd/config_apply.h"

#include <grp.h>
#include <string.h>

#include "proto/wire.h"
#include "vipd/client/client.h"
#include "vipd/ctl/stats_file.h"
#include "vipd/host.h"
#include "vipd/owners.h"
#include "vipd/quota.h"

/* Values of struct cm_config (vipd/engine/cm.h) that no key sets: times in ns, and the backlog.
 * Other times of the connection manager have keys in [reliability]. */
#define GRACE_NS       20000000ull
#define GRACE_BUSY_NS  200000000ull
#define GRACE_LOOP_NS  2000000000ull
#define GRACE_WORK_NS  10000000000ull
#define BACKLOG_MAX    128
#define CM_RETRY_NS    10000000ull
#define CM_RETRY_MAX   500000000ull
#define CLOSE_LIMIT_NS 20000000000ull

/* In each NIC, vipd keeps at most register_bytes_per_uid / SEGS_PART bytes of memory for the
 * descriptors of one user. */
#define SEGS_PART 8

void settle_nic_config(struct vipd *vipd, const struct vipd_nic_config *from,
                       struct nic_config *ret)
{
    const struct vipd_config *config = vipd->config;

    memset(ret, 0, sizeof(*ret));
    ret->name = from->name;
    ret->engine = config->engine;
    ret->epoch = vipd->epoch;
    ret->vi_max = (uint32_t)config->vis;
    ret->cq_max = (uint32_t)config->cqs;
    ret->kept_bytes_user = quota_register_bytes(vipd) / SEGS_PART;
    ret->direct = config->direct;
    ret->latency = config->stats_latency;
    ret->vi_latency = config->stats_vi_latency;
    ret->clock = vipd_clock_now;
    ret->linger_ns = config->linger_ns;
    ret->loan_moves = (uint32_t)config->loan_moves;
    ret->loan_moves_user = (uint32_t)config->loan_moves_per_uid;
    ret->cpu_clock = vipd_cpu_now;
    ret->owners = &owners_of_nic;
    ret->owners_ctx = vipd;
    ret->cm.grace_ns = GRACE_NS;
    ret->cm.grace_busy_ns = GRACE_BUSY_NS;
    ret->cm.grace_loop_ns = GRACE_LOOP_NS;
    ret->cm.grace_work_ns = GRACE_WORK_NS;
    ret->cm.backlog_max = BACKLOG_MAX;
    ret->cm.waits_max = (uint32_t)config->waits_per_uid;
    ret->cm.retry_ns = CM_RETRY_NS;
    ret->cm.retry_max_ns = CM_RETRY_MAX;
    ret->cm.accept_timeout_ns = config->accept_timeout_ns;
    ret->cm.close_timeout_ns = CLOSE_LIMIT_NS;
    ret->cm.keepalive_ns = config->keepalive_ns;
    ret->cm.peer_dead_ns = config->peer_dead_ns;
    ret->cm.outlive_ns = config->outlive_ns;
    ret->more = config->outlive_ns > 0 ? VIP_FEATURE_REBIND : 0;
    ret->more |= config->loan ? VIP_FEATURE_LOAN : 0;
    ret->cm.verify_all = true;
}

static uint32_t group_number(const char *name, const char *key)
{
    const struct group *group = name[0] != '\0' ? getgrnam(name) : NULL;

    if (group)
        return group->gr_gid;
    if (name[0] != '\0')
        vipd_debug("[daemon] %s = %s: there is no such group", key, name);
    return VIPD_NO_GID;
}

static bool has_sessions(const struct vipd *vipd)
{
    for (const struct client *c = vipd->clients; c; c = c->next)
        if (c->session)
            return true;
    return false;
}

static uint64_t idle_limit_ns(const struct vipd *vipd)
{
    return vipd->config->idle_exit_ns ? vipd->config->idle_exit_ns : vipd->idle_exit_ns;
}

/* End vipd if no program has had a NIC open for the time idle_exit. Otherwise set the timer again,
 * for the earliest time when vipd may end. */
static void on_idle_timer(void *ctx)
{
    struct vipd *vipd = ctx;
    uint64_t idle_ns = vipd_loop_now(vipd->loop) - vipd->used_ns;
    uint64_t limit_ns = idle_limit_ns(vipd);

    if (limit_ns == 0)
        return;
    if (has_sessions(vipd)) {
        vipd_timer_start(vipd->idle_timer, limit_ns);
    } else if (idle_ns >= limit_ns) {
        vipd_info("no program has had a NIC open for [daemon] idle_exit: ending");
        vipd_host_stop(vipd->loop);
    } else {
        vipd_timer_start(vipd->idle_timer, limit_ns - idle_ns);
    }
}

void vipd_settle(struct vipd *vipd)
{
    const struct vipd_config *config = vipd->config;

    if (!vipd->log_level_fixed)
        vipd_log_set_level(config->log_level);
    vipd_host_set_wait(vipd->loop, config->wait, config->spin_ns);
    for (unsigned i = 0; i < vipd->nic_count; i++) {
        struct nic_config nic_config;

        settle_nic_config(vipd, vipd->nics[i].config, &nic_config);
        nic_set_config(vipd->nics[i].nic, &nic_config);
    }
    vipd->admin_gid = group_number(config->admin_group, "admin_group");
    vipd->open_gid = group_number(config->open_group, "open_group");
    stats_file_settle(vipd->stats_file);
    if (!vipd->idle_timer && idle_limit_ns(vipd) > 0)
        vipd->idle_timer = vipd_timer_new(vipd->loop, on_idle_timer, vipd);
    if (vipd->idle_timer && idle_limit_ns(vipd) > 0)
        vipd_timer_start(vipd->idle_timer, idle_limit_ns(vipd));
}
