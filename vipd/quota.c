/* Sums over all sessions of one user; see quota.h. */
#include "vipd/quota.h"

#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vipd/client/client.h"
#include "vipd/nic/nic.h"
#include "vipd/registry/registry.h"
#include "vipd/registry/taken.h"
#include "vipd/registry/undertaker.h"

static const struct {
    const char *key, *noun;
    size_t limit_off; /* offset of the limit in struct vipd_config */
} quotas[QUOTAS] = {
    [QUOTA_VIS] = {"vis_per_uid", "VIs", offsetof(struct vipd_config, vis_per_uid)},
    [QUOTA_CQS] = {"cqs_per_uid", "completion queues", offsetof(struct vipd_config, cqs_per_uid)},
    [QUOTA_REGIONS] = {"regions_per_uid", "registered regions",
                       offsetof(struct vipd_config, regions_per_uid)},
    [QUOTA_REGISTER_BYTES] = {"register_bytes_per_uid", "bytes registered",
                              offsetof(struct vipd_config, register_bytes_per_uid)},
    [QUOTA_MAPPED_BYTES] = {"mapped_bytes_per_uid", "bytes of memory files mapped",
                            offsetof(struct vipd_config, mapped_bytes_per_uid)},
    [QUOTA_MAPPED_FILES] = {"mapped_files_per_uid", "memory files mapped",
                            offsetof(struct vipd_config, mapped_files_per_uid)},
    [QUOTA_WAITS] = {"waits_per_uid", "waits, listeners and unanswered requests",
                     offsetof(struct vipd_config, waits_per_uid)},
    [QUOTA_CONNECTS] = {"connects_per_uid", "connections being made",
                        offsetof(struct vipd_config, connects_per_uid)},
    [QUOTA_LOANS] = {"loans_per_uid", "connections on loan, or to be lent",
                     offsetof(struct vipd_config, loans_per_uid)},
};

static uint64_t used_by(const struct session *session, enum quota quota)
{
    struct nic_session_view view;
    struct registry_usage usage;

    switch (quota) {
    case QUOTA_VIS:
    case QUOTA_CQS:
    case QUOTA_WAITS:
    case QUOTA_CONNECTS:
    case QUOTA_LOANS:
        nic_session_view(session->nic_session, &view);
        if (quota == QUOTA_VIS)
            return view.vis;
        if (quota == QUOTA_CQS)
            return view.cqs;
        if (quota == QUOTA_LOANS)
            return view.loans;
        return quota == QUOTA_WAITS ? view.waits : view.connects;
    case QUOTA_REGIONS:
    case QUOTA_REGISTER_BYTES:
    case QUOTA_MAPPED_BYTES:
    case QUOTA_MAPPED_FILES:
    case QUOTAS:
        break;
    }
    registry_usage(session->registry, &usage);
    if (quota == QUOTA_REGIONS)
        return usage.regions;
    if (quota == QUOTA_REGISTER_BYTES)
        return usage.held_bytes;
    return quota == QUOTA_MAPPED_BYTES ? usage.mapped_bytes : usage.mapped_files;
}

/* What still counts although the user has freed it. These are mappings that vipd has not given back
 * to the kernel yet, and files that the user's programs keep (taken.h). */
static uint64_t waiting(const struct vipd *vipd, uid_t uid, enum quota quota)
{
    struct undertaker_share share;

    if (quota != QUOTA_MAPPED_BYTES && quota != QUOTA_MAPPED_FILES)
        return 0;
    undertaker_waiting(vipd->undertaker, uid, &share);
    return quota == QUOTA_MAPPED_BYTES ? share.bytes : share.files + taken_left(vipd->taken, uid);
}

static uint64_t used(const struct vipd *vipd, uid_t uid, enum quota quota)
{
    uint64_t sum = waiting(vipd, uid, quota);

    /* Skip a session that is being opened: it has no parts yet. */
    for (const struct client *c = vipd->clients; c; c = c->next)
        if (c->uid == uid && c->session && c->session->nic_session)
            sum += used_by(c->session, quota);
    return sum;
}

/* Memory of this machine. The kernel is asked once, not with each request. */
static uint64_t ram_bytes(void)
{
    static uint64_t bytes;

    if (!bytes)
        bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return bytes;
}

static uint64_t descriptors_max(void)
{
    static struct rlimit fds;

    if (!fds.rlim_cur && getrlimit(RLIMIT_NOFILE, &fds) < 0)
        fds.rlim_cur = RLIM_INFINITY;
    return fds.rlim_cur;
}

uint64_t quota_register_bytes(const struct vipd *vipd)
{
    uint64_t limit = vipd->config->register_bytes_per_uid;

    return limit > 0 ? limit : ram_bytes() / 4;
}

static uint64_t limit_of(const struct vipd *vipd, enum quota quota)
{
    uint64_t limit;

    if (quota == QUOTA_REGISTER_BYTES)
        return quota_register_bytes(vipd);
    memcpy(&limit, (const char *)vipd->config + quotas[quota].limit_off, sizeof(limit));
    /* vipd keeps a descriptor per file (taken.h). One user may have 1/4 of all descriptors. */
    if (quota == QUOTA_MAPPED_FILES && limit > descriptors_max() / 4)
        limit = descriptors_max() / 4;
    return limit;
}

void quota_look(const struct vipd *vipd, uid_t uid, enum quota quota, struct quota_view *ret)
{
    *ret = (struct quota_view){quotas[quota].key, quotas[quota].noun, used(vipd, uid, quota),
                               limit_of(vipd, quota)};
}

uint64_t quota_left(const struct client *client, enum quota quota)
{
    struct quota_view view;

    quota_look(client->vipd, client->uid, quota, &view);
    return view.used < view.max ? view.max - view.used : 0;
}

void quota_each(const struct vipd *vipd, uid_t uid,
                void (*visit)(void *ctx, const struct quota_view *view), void *ctx)
{
    uint64_t sessions = 0, connections = 0;

    for (const struct client *c = vipd->clients; c; c = c->next) {
        if (c->uid != uid)
            continue;
        connections++;
        sessions += c->session != NULL;
    }
    visit(ctx, &(struct quota_view){"sessions_per_uid", "NIC handles", sessions,
                                    vipd->config->sessions_per_uid});
    visit(ctx, &(struct quota_view){"connections_per_uid", "connections to vipd.sock", connections,
                                    vipd->config->connections_per_uid});
    for (enum quota quota = QUOTA_VIS; quota < QUOTAS; quota++) {
        struct quota_view view;

        quota_look(vipd, uid, quota, &view);
        visit(ctx, &view);
    }
}
