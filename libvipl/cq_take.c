/* VipCQDone, VipCQWait (spec 2.7, 3.8): taking the oldest entry of a CQ. */
#include "libvipl/cq_fd.h"
#include "libvipl/direct.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/take.h"
#include "libvipl/sleep.h"

/*
 * Each time this many entries were taken, wake vipd if it sleeps. If the ring was full, vipd has
 * entries that wait for room, and nothing else tells vipd that there is room.
 */
#define TELL_EVERY (VIP_CQ_RING_SLOTS / 4)

/*
 * Every RINGS_EVERY-th look at a CQ begins with the rings of its VIs; all other looks begin with
 * vipd's entries. Otherwise many entries of vipd would block the ring messages for ever.
 */
#define RINGS_EVERY 64

/*
 * The VI that an entry names; NULL if the VI was destroyed after the entry was written (spec 3.8:
 * the entries of a destroyed VI are removed).
 */
static struct vipl__vi *entry_vi(struct vipl__cq *cq, const struct vip_cqe *entry,
                                 uint64_t *ret_handle)
{
    struct vipl__vi *vi;

    if (entry->vi >= VIP_VI_MAX || entry->queue > VIP_Q_RECV)
        return NULL;
    vi = __atomic_load_n(&cq->session->vi[entry->vi], __ATOMIC_ACQUIRE);
    if (vi == NULL)
        return NULL;
    *ret_handle = __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE);
    if (*ret_handle == 0 ||
        (__atomic_load_n(&vi->generation, __ATOMIC_RELAXED) & 0xFF) != entry->gen ||
        __atomic_load_n(&vi->queue[entry->queue].cq, __ATOMIC_RELAXED) != cq)
        return NULL;
    /* If the VI was destroyed and created again meanwhile, the entry belongs to the earlier VI. */
    return __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) == *ret_handle ? vi : NULL;
}

/*
 * Without vipd, and for VIs that vipd has refused, this library makes the CQ entries: each posted
 * descriptor of a bound queue counts as completed. The search starts at the VI found last, so that
 * no VI waits for ever.
 */
static __attribute__((cold, noinline)) struct vipl__vi *
flushed_vi(struct vipl__cq *cq, unsigned *ret_queue, uint64_t *ret_handle)
{
    for (unsigned n = 0; n < VIP_VI_MAX; n++) {
        unsigned index = (cq->flush_next + n) % VIP_VI_MAX;
        struct vipl__vi *vi = __atomic_load_n(&cq->session->vi[index], __ATOMIC_ACQUIRE);

        if (vi == NULL || (*ret_handle = __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE)) == 0 ||
            !vipl__vi_is_dead(vi))
            continue;
        for (unsigned q = 0; q < 2; q++) {
            struct vipl__queue *queue = &vi->queue[q];

            if (__atomic_load_n(&queue->cq, __ATOMIC_RELAXED) == cq &&
                __atomic_load_n(&queue->posted, __ATOMIC_ACQUIRE) != queue->reported) {
                cq->flush_next = index;
                *ret_queue = q;
                return vi;
            }
        }
    }
    return NULL;
}

/* In every RINGS_EVERY-th look: the VI of the next ring message, even if vipd has entries. NULL:
 * there is no message, or this is another look. */
static __attribute__((noinline)) struct vipl__vi *
ring_in_turn(struct vipl__cq *cq, unsigned *ret_queue, uint64_t *ret_handle)
{
    if (++cq->direct_turn < RINGS_EVERY)
        return NULL;
    cq->direct_turn = 0;
    return vipl__direct_entry(cq, ret_queue, ret_handle);
}

/* Which VIs have descriptors that this library flushes? */
enum dead {
    DEAD_NONE,
    DEAD_SOME, /* the VIs that vipd has refused */
    DEAD_ALL,  /* all VIs: there is no vipd */
};

/* As next_entry; `dead`: the VIs with descriptors to flush. */
static inline __attribute__((always_inline)) struct vipl__vi *
next_entry_when(struct vipl__cq *cq, enum dead dead, unsigned *ret_queue, uint64_t *ret_handle,
                bool *ret_tell)
{
    struct vipl__vi *vi = NULL;
    struct vip_cqe entry;

    if (__builtin_expect(cq->direct_count > 0, 0) && dead != DEAD_ALL)
        vi = ring_in_turn(cq, ret_queue, ret_handle);
    while (vi == NULL && vip_cq_read(cq->ring, cq->position, &entry)) {
        uint32_t next = cq->position + 1;

        __atomic_store_n(&cq->position, next, __ATOMIC_RELAXED);
        *ret_tell |= (next & (TELL_EVERY - 1)) == 0;
        vip_store32_release(&cq->app->cons, next);
        vi = entry_vi(cq, &entry, ret_handle);
        *ret_queue = entry.queue;
    }
    if (vi == NULL && dead != DEAD_ALL && cq->direct_count > 0)
        vi = vipl__direct_entry(cq, ret_queue, ret_handle);
    if (vi == NULL && dead != DEAD_NONE)
        vi = flushed_vi(cq, ret_queue, ret_handle);
    if (vi != NULL)
        vi->queue[*ret_queue].reported++;
    return vi;
}

static __attribute__((cold, noinline)) struct vipl__vi *next_entry_in_trouble(struct vipl__cq *cq,
                                                                              unsigned *ret_queue,
                                                                              uint64_t *ret_handle,
                                                                              bool *ret_tell)
{
    enum dead dead = vipl__is_dead(cq->session)     ? DEAD_ALL
                     : vipl__some_dead(cq->session) ? DEAD_SOME
                                                    : DEAD_NONE;

    return next_entry_when(cq, dead, ret_queue, ret_handle, ret_tell);
}

/* The VI of the next valid entry, or NULL. *ret_tell: the caller wakes vipd. Under done_lock. */
static inline struct vipl__vi *next_entry(struct vipl__cq *cq, unsigned *ret_queue,
                                          uint64_t *ret_handle, bool *ret_tell)
{
    /* Load vipd's state before the ring: then entries that vipd wrote come before flushed ones. */
    return vipl__in_trouble(cq->session)
               ? next_entry_in_trouble(cq, ret_queue, ret_handle, ret_tell)
               : next_entry_when(cq, DEAD_NONE, ret_queue, ret_handle, ret_tell);
}

/* The CQ is empty and has an fd: arm (cq_fd.c), look again, signal if there is a second entry. */
static __attribute__((noinline)) struct vipl__vi *
arm_and_look(struct vipl__cq *cq, unsigned *ret_queue, uint64_t *ret_handle, bool *ret_tell)
{
    struct vipl__vi *vi = NULL;
    struct vip_cqe entry;

    if (vipl__cq_fd_arm(cq))
        vi = next_entry(cq, ret_queue, ret_handle, ret_tell);
    if (vi != NULL && (vip_cq_read(cq->ring, cq->position, &entry) ||
                       vipl__some_dead(cq->session) || vipl__direct_waiting(cq)))
        vipl__cq_fd_signal(cq);
    return vi;
}

/*
 * Most calls of a program that polls find nothing. This check needs no lock: there is no entry at
 * the position, and the position is the same before and after the look. Other work at an empty CQ
 * (report flushed descriptors, arm a file descriptor, look at rings) needs the lock.
 */
static inline bool seems_empty(const struct vipl__cq *cq)
{
    uint32_t position = __atomic_load_n(&cq->position, __ATOMIC_ACQUIRE);
    struct vip_cqe entry;

    return !vip_cq_read(cq->ring, position, &entry) &&
           __atomic_load_n(&cq->position, __ATOMIC_RELAXED) == position &&
           __atomic_load_n(&cq->direct_count, __ATOMIC_RELAXED) == 0 &&
           __atomic_load_n(&cq->fd[0], __ATOMIC_RELAXED) < 0 && !vipl__some_dead(cq->session);
}

static inline VIP_RETURN look(struct vipl__cq *cq, uint64_t handle, VIP_VI_HANDLE *ret_vi,
                              VIP_BOOLEAN *ret_recv)
{
    struct vipl__vi *vi = NULL;
    uint64_t vi_handle = 0;
    unsigned which = 0;
    bool valid, tell = false;

    vipl__spin_lock(&cq->done_lock);
    valid = __atomic_load_n(&cq->handle, __ATOMIC_ACQUIRE) == handle;
    if (valid)
        vi = next_entry(cq, &which, &vi_handle, &tell);
    if (valid && vi == NULL && cq->fd[0] >= 0)
        vi = arm_and_look(cq, &which, &vi_handle, &tell);
    if (tell)
        vipl__spin_unlock_full(&cq->done_lock);
    else
        vipl__spin_unlock(&cq->done_lock);

    if (tell)
        vipl__ring_bell(cq->session);
    if (!valid)
        return VIP_INVALID_PARAMETER;
    if (vi == NULL)
        return VIP_NOT_DONE;
    *ret_vi = (VIP_VI_HANDLE)(uintptr_t)vi_handle;
    *ret_recv = which == VIP_Q_RECV ? VIP_TRUE : VIP_FALSE;
    return VIP_SUCCESS;
}

/* There is no entry: run the engine of a VI on loan, and look again. */
static __attribute__((noinline)) VIP_RETURN
poll_and_look(struct vipl__cq *cq, uint64_t handle, VIP_VI_HANDLE *ret_vi, VIP_BOOLEAN *ret_recv)
{
    vipl__lent_poll_cq(cq);
    return look(cq, handle, ret_vi, ret_recv);
}

static inline VIP_RETURN take(struct vipl__cq *cq, uint64_t handle, VIP_VI_HANDLE *ret_vi,
                              VIP_BOOLEAN *ret_recv)
{
    VIP_RETURN rc = look(cq, handle, ret_vi, ret_recv);

    if (rc == VIP_NOT_DONE &&
        __builtin_expect(__atomic_load_n(&cq->lent_count, __ATOMIC_RELAXED) > 0, 0))
        rc = poll_and_look(cq, handle, ret_vi, ret_recv);
    return rc;
}

VIP_RETURN vipl__take_entry(struct vipl__cq *cq, uint64_t handle, VIP_VI_HANDLE *ret_vi,
                            VIP_BOOLEAN *ret_recv)
{
    return take(cq, handle, ret_vi, ret_recv);
}

/* The CQ is empty: the VI of vipd's last entry may ask for a loan. Returns VIP_NOT_DONE. */
static __attribute__((noinline)) VIP_RETURN idle(const struct vipl__cq *cq)
{
    uint32_t position = __atomic_load_n(&cq->position, __ATOMIC_RELAXED);
    struct vipl__vi *vi = NULL;
    struct vip_cqe entry;

    if (!vipl__lends(cq->session))
        return VIP_NOT_DONE;
    if (vip_cq_read(cq->ring, position - 1, &entry) && entry.vi < VIP_VI_MAX)
        vi = __atomic_load_n(&cq->session->vi[entry.vi], __ATOMIC_ACQUIRE);
    if (vi != NULL)
        vipl__lent_idle(vi);
    return VIP_NOT_DONE;
}

static VIP_RETURN attempt(struct vipl__sleeper *wait)
{
    VIP_RETURN rc = vipl__take_entry(wait->object, wait->handle, wait->ret[0], wait->ret[1]);

    return rc == VIP_NOT_DONE ? idle(wait->object) : rc;
}

/* Publish in the rings whether a thread sleeps. If so, senders use vipd, not the ring. */
static void sleepers_changed(struct vipl__sleeper *wait)
{
    struct vipl__cq *cq = wait->object;

    vipl__direct_asleep_cq(cq);
    vipl__lent_sleep(cq->session, &cq->sleeps);
}

VIP_RETURN VipCQDone(VIP_CQ_HANDLE CQHandle, VIP_VI_HANDLE *ViHandle, VIP_BOOLEAN *RecvQueue)
{
    struct vipl__cq *cq = vipl__cq_find(CQHandle);
    VIP_RETURN rc;

    if (cq == NULL)
        return vipl__bad_cq("VipCQDone", CQHandle);
    if (ViHandle == NULL || RecvQueue == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipCQDone: an output pointer is NULL");
    if (seems_empty(cq))
        rc = idle(cq);
    else
        rc = take(cq, (uint64_t)(uintptr_t)CQHandle, ViHandle, RecvQueue);
    vipl__polled(cq->session, rc);
    return rc == VIP_INVALID_PARAMETER ? vipl__bad_cq("VipCQDone", CQHandle) : rc;
}

VIP_RETURN VipCQWait(VIP_CQ_HANDLE CQHandle, VIP_ULONG Timeout, VIP_VI_HANDLE *ViHandle,
                     VIP_BOOLEAN *RecvQueue)
{
    struct vipl__sleeper wait = {
        .attempt = attempt,
        .sleepers_changed = sleepers_changed,
        .handle = (uint64_t)(uintptr_t)CQHandle,
        .ret = {ViHandle, RecvQueue},
    };
    struct vipl__cq *cq;
    VIP_RETURN rc;

    if (ViHandle == NULL || RecvQueue == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipCQWait: an output pointer is NULL");
    cq = vipl__cq_enter(CQHandle, "VipCQWait");
    if (cq == NULL)
        return VIP_INVALID_PARAMETER;
    wait.object = cq;
    wait.prod = cq->prod;
    wait.waiters = &cq->app->waiters;
    wait.spin_ns = &cq->spin_ns;
    rc = vipl__sleep(cq->session, &wait, Timeout);
    vipl__leave(cq->session);
    return rc == VIP_INVALID_PARAMETER ? vipl__bad_cq("VipCQWait", CQHandle) : rc;
}
