/*
 * Ending sessions because of their memory: a page was missing, or the files of their user take more
 * than [limits] register_bytes_per_uid.
 *
 * Owns: when vipd looks, and which session ends. Does not own: the faults (vipd/registry/guard.h),
 * the memory that files take (vipd/registry/taken.h), the limit (quota.h).
 */
#include <stdio.h>

#include "vipd/client/internal.h"
#include "vipd/quota.h"
#include "vipd/registry/guard.h"
#include "vipd/registry/registry.h"
#include "vipd/registry/taken.h"

/*
 * While vipd works, it looks at LOOK_FILES files every LOOK_NS. A look takes half a microsecond per
 * file, so the looks take less than one thousandth of the time. Up to 1280 files get a look each
 * second.
 */
#define LOOK_FILES 128u
#define LOOK_NS    100000000ull

static bool is_live(const struct client *client)
{
    return client->end == CLIENT_END_NONE && client->session && client->session->registry;
}

/* End sessions that had a fault (vipd/registry/guard.h). */
static void end_faulted(struct vipd *vipd)
{
    for (struct client *c = vipd->clients; c; c = c->next)
        if (is_live(c) && guard_faulted(registry_guard(c->session->registry)))
            client_end(c, CLIENT_END_MISSING,
                       "memory is short with vm.overcommit_memory = 2, or broken");
}

/* Memory that the session's files take. */
static uint64_t taken_by_session(const struct session *session)
{
    uint64_t bytes = registry_taken(session->registry);

    for (unsigned i = 0; i < SESSION_MAPS; i++)
        bytes += taken_file_bytes(session->taken[i]);
    return bytes;
}

/* Memory that the user's files take, without the files of sessions that are about to end. */
static uint64_t taken_by_live(const struct vipd *vipd, uid_t uid)
{
    uint64_t taken = taken_by(vipd->taken, uid);

    for (const struct client *c = vipd->clients; c; c = c->next)
        if (c->uid == uid && c->end != CLIENT_END_NONE && c->session && c->session->registry) {
            uint64_t gone = taken_by_session(c->session);

            taken -= gone < taken ? gone : taken;
        }
    return taken;
}

static struct client *largest_of(const struct vipd *vipd, uid_t uid)
{
    struct client *largest = NULL;
    uint64_t most = 0;

    for (struct client *c = vipd->clients; c; c = c->next) {
        uint64_t taken;

        if (c->uid != uid || !is_live(c))
            continue;
        taken = taken_by_session(c->session);
        if (taken > most) {
            most = taken;
            largest = c;
        }
    }
    return largest;
}

/* End the largest sessions of the client's user, until the remaining files are within the limit. */
static void keep_limit(const struct client *client)
{
    struct vipd *vipd = client->vipd;
    uint64_t limit = quota_register_bytes(vipd), taken;
    uid_t uid = client->uid;

    while ((taken = taken_by_live(vipd, uid)) > limit) {
        struct client *largest = largest_of(vipd, uid);
        char detail[200];

        if (!largest)
            return;
        snprintf(detail, sizeof(detail),
                 "the files of uid %lu took %llu bytes, %llu of them this session's; [limits] "
                 "register_bytes_per_uid is %llu",
                 (unsigned long)uid, (unsigned long long)taken,
                 (unsigned long long)taken_by_session(largest->session), (unsigned long long)limit);
        client_end(largest, CLIENT_END_TAKEN, detail);
    }
}

bool memory_within_limit(struct client *client, struct answer *answer)
{
    uint64_t limit = quota_register_bytes(client->vipd);
    uint64_t taken = taken_by(client->vipd->taken, client->uid);

    if (taken <= limit)
        return true;
    /* Measure again: some files may have been freed since the last look. */
    taken_look(client->vipd->taken, LOOK_FILES);
    taken = taken_by(client->vipd->taken, client->uid);
    if (taken <= limit)
        return true;
    client->vipd->counters.refused_quota++;
    answer_set(answer, VIP_RC_ERROR_RESOURCE,
               "the memory files of uid %lu take %llu bytes with what this asks for: the limit is "
               "[limits] "
               "register_bytes_per_uid = %llu",
               (unsigned long)client->uid, (unsigned long long)taken, (unsigned long long)limit);
    return false;
}

void clients_memory(struct vipd *vipd, bool worked)
{
    uint64_t now_ns = vipd_loop_now(vipd->loop);
    uint32_t faults = guard_faults();
    uint64_t limit;

    if (faults != vipd->faults_seen) {
        vipd->faults_seen = faults;
        end_faulted(vipd);
    }
    vipd->taken_due = vipd->taken_due || worked;
    if (!vipd->taken_due || now_ns - vipd->taken_ns < LOOK_NS)
        return;
    vipd->taken_due = false;
    vipd->taken_ns = now_ns;
    taken_look(vipd->taken, LOOK_FILES);
    limit = quota_register_bytes(vipd);
    for (const struct client *c = vipd->clients; c; c = c->next)
        if (is_live(c) && taken_by(vipd->taken, c->uid) > limit)
            keep_limit(c);
}
