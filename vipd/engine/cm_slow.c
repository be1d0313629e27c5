/*
 * Sources whose accepts came to nothing: until when no server gets their requests.
 *
 * An accept without CONFIRM costs a serial server accept_timeout_ns. After one such accept its
 * source stands behind all others for a minute. After a second one in that time, no server gets a
 * request of the source for a while; each further one doubles this time. So a source that asks
 * without end and never confirms takes a small part of the server's time.
 *
 * A stranger is a host that has made no connection here, or none since its last failed accept. A
 * host that can invent addresses has any number of sources, and each of them fails for the first
 * time. So all strangers have one more record together, of the first failures of all sources. Hosts
 * that are no strangers do not wait for it.
 *
 * Owns: the records. Does not own: whose turn it is (cm_kept.c).
 */
#include "vipd/engine/cm_internal.h"

/* How long a source stands behind others after one of its accepts failed. */
#define BEHIND_NS 60000000000ull
/* The source is held back for accept_timeout_ns times 2, 4, ... up to 2 to the power of this. */
#define HELD_MAX      5
#define STRANGERS_MAX 2

/* Count a failed accept. False: it failed together with the last one, and both count as one. */
static bool add(const struct cm *cm, struct cm_slow *slow, unsigned max, uint64_t now_ns)
{
    if (now_ns >= slow->until_ns)
        slow->times = 0;
    else if (now_ns < cm_add_ns(slow->failed_ns, cm->config.accept_timeout_ns / 5))
        return false;
    slow->failed_ns = now_ns;
    slow->held_ns = now_ns;
    if (slow->times)
        slow->held_ns = cm_add_ns(now_ns, cm->config.accept_timeout_ns << slow->times);
    slow->until_ns = cm_add_ns(slow->held_ns, BEHIND_NS);
    if (slow->times < max)
        slow->times++;
    return true;
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

void cm_slow_add(struct cm *cm, const struct cm_holder *source, uint64_t now_ns)
{
    struct cm_slow *slow = &cm->slow[source->by_key.key % CM_SLOW_MAX];

    if (*proof_of(cm, source) == source->by_key.key)
        *proof_of(cm, source) = 0;
    if (slow->key != source->by_key.key)
        *slow = (struct cm_slow){.key = source->by_key.key};
    if (add(cm, slow, HELD_MAX, now_ns) && slow->times == 1)
        (void)add(cm, &cm->strangers, STRANGERS_MAX, now_ns);
}

uint64_t cm_slow_behind_ns(const struct cm *cm, const struct cm_holder *source)
{
    const struct cm_slow *slow = &cm->slow[source->by_key.key % CM_SLOW_MAX];

    return slow->key == source->by_key.key ? slow->until_ns : 0;
}

uint64_t cm_slow_held_ns(const struct cm *cm, const struct cm_holder *source)
{
    const struct cm_slow *slow = &cm->slow[source->by_key.key % CM_SLOW_MAX];
    uint64_t held_ns = slow->key == source->by_key.key ? slow->held_ns : 0;

    if (cm_slow_stranger(cm, source) && cm->strangers.held_ns > held_ns)
        held_ns = cm->strangers.held_ns;
    return held_ns;
}

bool cm_slow_holds(struct cm *cm, const struct cm_in *in)
{
    struct cm_holder *source = cm_source_get(cm, in);
    bool held = source && cm_slow_held_ns(cm, source) > in->now_ns;

    cm_holder_put(cm, source);
    return held;
}
