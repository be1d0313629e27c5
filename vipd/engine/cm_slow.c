/*
 * Sources with failed accepts, and the time until a server gets their requests again.
 *
 * An accept without CONFIRM blocks a serial server (VipConnectWait) for accept_timeout_ns. After
 * one such accept, the requests of its source come after those of all others for a minute. After
 * the second failed accept in this minute, no serial server gets a request of the source for a
 * while. Each further failure doubles this time, up to a limit. So a source that never confirms
 * costs a server little time.
 *
 * A stranger is a host that has made no connection here, or none since its last failed accept. A
 * machine that can forge addresses has any number of sources, so each of its failed accepts can be
 * the first one of a source. So each discriminator also has one record for all strangers together:
 * it counts the first failure of each source there. This record does not delay requests of hosts
 * that are no strangers.
 *
 * Owns: the records. Does not own: the turns of the requests (cm_kept.c).
 */
#include "vipd/engine/cm_internal.h"

/* For this time after a failed accept, requests of the source come after requests of other sources.
 * If twice accept_timeout_ns is longer, that time counts. */
#define BEHIND_NS 60000000000ull
/* Serial servers get no request of a source for accept_timeout_ns times 2, 4, 8, ... The largest
 * factor is 2 to the power of HELD_TIMES; for the record of all strangers it is 2 to the power of
 * STRANGERS_TIMES. The time is at most HELD_MAX_NS. */
#define HELD_TIMES      5
#define STRANGERS_TIMES 2
#define HELD_MAX_NS     600000000000ull

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/* Note a failed accept. False: the accept began before the last failure. Then both count as one
 * failure, because they may have the same cause. */
static bool add(const struct cm *cm, struct cm_slow *slow, uint64_t began_ns, uint64_t now_ns)
{
    uint64_t behind_ns = later(2 * cm->config.accept_timeout_ns, BEHIND_NS);

    if (now_ns >= slow->until_ns)
        slow->times = 0;
    else if (began_ns < slow->failed_ns)
        return false;
    slow->failed_ns = now_ns;
    slow->until_ns = later(slow->held_ns, now_ns) + behind_ns;
    return true;
}

/* An accept of a serial server failed: from the second failure on, hold back the source. */
static void hold(const struct cm *cm, struct cm_slow *slow, unsigned max, uint64_t now_ns)
{
    uint64_t held_ns = slow->times ? cm->config.accept_timeout_ns << slow->times : 0;

    slow->held_ns = cm_add_ns(now_ns, held_ns < HELD_MAX_NS ? held_ns : HELD_MAX_NS);
    slow->until_ns += slow->held_ns - now_ns;
    if (slow->times < max)
        slow->times++;
}

static uint64_t *proof_of(const struct cm *cm, const struct cm_holder *source)
{
    return (uint64_t *)&cm->proven[source->by_key.key % CM_PROVEN_MAX];
}

bool cm_slow_stranger(const struct cm *cm, const struct cm_holder *source)
{
    return source->kind == CM_HOLDER_HOST && *proof_of(cm, source) != source->by_key.key;
}

void cm_slow_confirmed(struct cm *cm, const struct cm_holder *source)
{
    if (source->kind == CM_HOLDER_HOST)
        *proof_of(cm, source) = source->by_key.key;
}

static struct cm_slow *record_of(const struct cm *cm, const struct cm_holder *source)
{
    return (struct cm_slow *)&cm->slow[source->by_key.key % CM_SLOW_MAX];
}

void cm_slow_add(struct cm *cm, const struct cm_pending *pending, uint64_t now_ns)
{
    const struct cm_holder *source = pending->source;
    struct cm_slow *slow = record_of(cm, source);
    uint64_t accept_ns = cm->config.accept_timeout_ns;
    uint64_t began_ns = pending->give_up_ns > accept_ns ? pending->give_up_ns - accept_ns : 0;
    struct cm_slow *strangers = pending->served ? &pending->served->strangers : NULL;

    if (*proof_of(cm, source) == source->by_key.key)
        *proof_of(cm, source) = 0;
    if (slow->key != source->by_key.key)
        *slow = (struct cm_slow){.key = source->by_key.key};
    if (!add(cm, slow, began_ns, now_ns) || !strangers)
        return;
    hold(cm, slow, HELD_TIMES, now_ns);
    if (slow->times == 1 && add(cm, strangers, began_ns, now_ns))
        hold(cm, strangers, STRANGERS_TIMES, now_ns);
}

uint64_t cm_slow_behind_ns(const struct cm *cm, const struct cm_holder *source)
{
    const struct cm_slow *slow = record_of(cm, source);

    return slow->key == source->by_key.key ? slow->until_ns : 0;
}

uint64_t cm_slow_held_ns(const struct cm *cm, const struct cm_disc *disc,
                         const struct cm_holder *source)
{
    const struct cm_slow *slow = record_of(cm, source);
    uint64_t held_ns = slow->key == source->by_key.key ? slow->held_ns : 0;

    if (cm_slow_stranger(cm, source) && disc->strangers.held_ns > held_ns)
        held_ns = disc->strangers.held_ns;
    return held_ns;
}

bool cm_slow_holds(struct cm *cm, const struct cm_in *in, const struct cm_waiter *waiter)
{
    struct cm_holder *source = waiter->backlog ? NULL : cm_source_get(cm, in);
    bool held = source && cm_slow_held_ns(cm, waiter->disc, source) > in->now_ns;

    cm_holder_put(cm, source);
    return held;
}
