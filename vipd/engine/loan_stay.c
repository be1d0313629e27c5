#include "vipd/engine/loan_stay.h"

#include "proto/assert.h"
#include "proto/fence.h"
#include "proto/ring.h"
#include "vipd/engine/mutant.h"

/* Store a word that another process may read; other stores may become visible before it. */
static void store32(uint32_t *own, uint32_t value)
{
    loan_step();
    __atomic_store_n(own, value, __ATOMIC_RELAXED);
}

static void store64(uint64_t *own, uint64_t value)
{
    loan_step();
    __atomic_store_n(own, value, __ATOMIC_RELAXED);
}

static void store32_release(uint32_t *own, uint32_t value)
{
    loan_step();
    vip_store32_release(own, value);
}

static uint32_t load32(const uint32_t *foreign)
{
    loan_step();
    return vip_load32(foreign);
}

static uint32_t load32_acquire(const uint32_t *foreign)
{
    loan_step();
    return vip_load32_acquire(foreign);
}

static void checkpoint_store(struct vip_loan_checkpoint *own,
                             const struct vip_loan_checkpoint *from)
{
    store32(&own->done, from->done);
    store32(&own->received, from->received);
    store32(&own->completed, from->completed);
}

static void checkpoint_load(const struct vip_loan_checkpoint *foreign,
                            struct vip_loan_checkpoint *ret)
{
    ret->done = load32(&foreign->done);
    ret->received = load32(&foreign->received);
    ret->completed = load32(&foreign->completed);
}

/* ---- the owner ------------------------------------------------------------------------- */

void loan_owner_init(struct loan_owner *owner, struct vip_loan_owner *words,
                     const struct vip_loan_vipd *vipd)
{
    *owner = (struct loan_owner){.words = words, .vipd = vipd};
}

uint32_t loan_offered(const struct loan_owner *owner)
{
    return load32(&owner->vipd->lent);
}

/* Has vipd ended loan `number`? */
static bool is_over(const struct loan_owner *owner, uint32_t number)
{
    return !loan_before(load32(&owner->vipd->revoked), number);
}

bool loan_enter(struct loan_owner *owner, uint32_t number)
{
    bool early = VIP_MUTANT(LOAN_ENTER_ORDER) && is_over(owner, number);

    VIP_ASSERT(owner->number == 0);
    /* Only the owner writes the beat, so this load needs no order. */
    store32(&owner->words->beat, __atomic_load_n(&owner->words->beat, __ATOMIC_RELAXED) + 1);
    store32(&owner->words->inside, number);
    vip_fence_sleep(); /* [loan ENTER] [loan_sleep ENTER] */
    if (VIP_MUTANT(LOAN_ENTER_ORDER) ? early : is_over(owner, number)) {
        store32_release(&owner->words->inside, 0);
        return false;
    }
    owner->number = number;
    owner->packets = LOAN_STAY_PACKETS;
    loan_step();
    owner->look_ns = vip_load64(&owner->vipd->look_ns);
    return true;
}

bool loan_packet(struct loan_owner *owner)
{
    VIP_ASSERT(owner->number != 0);
    if (owner->packets == 0)
        return VIP_MUTANT(LOAN_LONG_STAY);
    owner->packets--;
    return true;
}

bool loan_leave(struct loan_owner *owner, uint64_t timer_ns,
                const struct vip_loan_checkpoint *checkpoint)
{
    struct vip_loan_owner *words = owner->words;

    VIP_ASSERT(owner->number != 0);
    if (VIP_MUTANT(LOAN_LEFT_EARLY))
        store32_release(&words->inside, 0);
    store64(&words->timer_ns, timer_ns);
    store32(&words->number, owner->number);
    checkpoint_store(&words->checkpoint, checkpoint);
    owner->number = 0;
    store32_release(&words->inside, 0); /* [loan LEAVE] */
    /* vipd acts LOAN_TIMER_NS after the timer, or a little later. */
    return timer_ns && timer_ns < owner->look_ns && owner->look_ns - timer_ns > 2 * LOAN_TIMER_NS &&
           !VIP_MUTANT(LOAN_NO_BELL);
}

void loan_words_asleep(struct vip_loan_owner *words, bool asleep)
{
    store32_release(&words->asleep, asleep);
}

/* ---- vipd ------------------------------------------------------------------------------ */

bool loan_words_outside(const struct vip_loan_owner *words)
{
    bool outside;

    vip_fetch_begin();
    outside = load32_acquire(&words->inside) == 0; /* [loan LOOK] */
    vip_fetch_end();
    return outside || VIP_MUTANT(LOAN_NOT_ASKED);
}

void loan_words_look(const struct vip_loan_owner *words, struct loan_look *ret)
{
    vip_fetch_begin();
    /* First: an owner that is awake again has come, and its beat has changed. */
    ret->asleep = load32_acquire(&words->asleep) != 0;
    ret->inside = load32(&words->inside) != 0;
    ret->app_beat = load32(&words->beat);
    ret->app_number = load32(&words->number);
    loan_step();
    ret->app_timer_ns = vip_load64(&words->timer_ns);
    vip_fetch_end();
}

bool loan_words_checkpoint(const struct vip_loan_owner *words, uint32_t number,
                           struct vip_loan_checkpoint *ret_app)
{
    bool left;

    vip_fetch_begin();
    left = load32(&words->number) == number;
    if (left)
        checkpoint_load(&words->checkpoint, ret_app);
    vip_fetch_end();
    return left && !VIP_MUTANT(LOAN_STATE);
}

bool loan_words_out(const struct vip_loan_vipd *words)
{
    return vip_load32_own(&words->lent) != vip_load32_own(&words->taken);
}

void loan_words_lend(struct vip_loan_vipd *words, uint32_t number,
                     const struct vip_loan_checkpoint *checkpoint, uint64_t look_ns)
{
    checkpoint_store(&words->checkpoint, checkpoint);
    store64(&words->look_ns, look_ns);
    /* Without this store, an old `revoked` would seem newer after 2^31 numbers. */
    store32(&words->revoked, number - 1);
    store32_release(&words->lent, number); /* [loan LENT] */
}

void loan_words_revoke(struct vip_loan_vipd *words)
{
    if (!VIP_MUTANT(LOAN_TWO_OWNERS))
        store32(&words->revoked, words->lent);
    vip_fence_sleep(); /* [loan REVOKE] */
}

void loan_words_taken(struct vip_loan_vipd *words)
{
    store32_release(&words->taken, words->lent);
}

void loan_words_number(struct vip_loan_vipd *words, uint32_t number, uint32_t peer)
{
    store32(&words->number, number);
    store32(&words->peer, peer);
}

void loan_words_awake(struct vip_loan_vipd *words, uint64_t look_ns)
{
    store64(&words->look_ns, look_ns);
}

void loan_words_sleep(struct vip_loan_vipd *words, uint64_t look_ns)
{
    store64(&words->look_ns, look_ns);
    vip_fence_sleep(); /* [loan_sleep SLEEP] */
}
