/*
 * Take messages out of a VI's ring (direct.h). The sender is another program, which may write
 * anything into the ring at any time. So each word is loaded once and checked. A wrong word costs
 * one receive descriptor of this VI and, at worst, the connection.
 */
#include <string.h>

#include "libvipl/direct.h"
#include "libvipl/lent.h"

/* ---- arrival ------------------------------------------------------------------------------ */

/*
 * May message n be taken? While the ring is open: yes, if the message is written. When the ring is
 * over: yes, if vipd has counted the message. Load the message's stamp before the ring's state: if
 * the ring is still open then, vipd will see the stamp when it counts the messages
 * (vipd/nic/direct.c).
 */
static bool arrived(const struct vipl__direct *direct, const struct vipl__vi *vi, uint32_t n)
{
    const struct vip_vipd_vi *block = vip_vipd_vi((void *)vi->session->vipd, vi->index);
    bool there = vip_direct_there(direct->in, n);
    uint32_t state;

    vip_fence_others();                       /* [ring_end SEEN] */
    state = vip_load32_acquire(&block->ring); /* [ring_end STATE] */
    if (state == VIP_RING_OPEN)
        return there;
    return state == VIP_RING_OVER && (int32_t)(vip_load32(&block->ring_end) - n) > 0;
}

/* Has the CQ reported message n? Then a Done call must return its receive descriptor, even if the
 * sender has overwritten the message. */
static bool told(const struct vipl__direct *direct, uint32_t n)
{
    return (int32_t)(__atomic_load_n(&direct->reported, __ATOMIC_RELAXED) - n) > 0;
}

bool vipl__direct_hint(const struct vipl__direct *direct, const struct vipl__vi *vi)
{
    uint32_t n = __atomic_load_n(&direct->taken, __ATOMIC_RELAXED);

    return told(direct, n) || arrived(direct, vi, n);
}

/* ---- into the receive descriptor ------------------------------------------------------------ */

static void scatter(const struct vip_sq_slot *slot, const uint8_t *from, uint32_t len)
{
    for (unsigned i = 0; i < slot->seg_count && len > 0; i++) {
        uint32_t bytes = slot->seg[i].len < len ? slot->seg[i].len : len;

        if (bytes > 0)
            memcpy((void *)(uintptr_t)slot->seg[i].addr, from, bytes);
        from += bytes;
        len -= bytes;
    }
}

static uint64_t sum_of(const struct vip_sq_slot *slot)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < slot->seg_count; i++)
        sum += slot->seg[i].len;
    return sum;
}

/* May receive descriptor k take a message? *ret_room: its longest, in bytes. Under post_lock. */
static bool receive_takes(struct vipl__vi *vi, const struct vipl__direct *direct, uint32_t k,
                          const struct vip_sq_slot *slot, uint32_t *ret_room)
{
    uint32_t at = k & (VIP_DESC_PER_QUEUE_MAX - 1);

    /* The offered room is still right if no region has ended or changed since the posting. */
    *ret_room = direct->lent[at];
    if (*ret_room != VIPL__NOT_LENT &&
        vi->queue[VIP_Q_RECV].origin[at].region_epoch ==
            __atomic_load_n(&vi->session->region_epoch, __ATOMIC_RELAXED))
        return true;
    return vipl__direct_receive_good(vi, slot, ret_room);
}

/*
 * Copy message n to receive descriptor k. Returns the error bits of the descriptor's status.
 * *ret_break: true if the connection must end, because of the error or because the sender does not
 * keep to the ring's rules. An unreliable connection survives errors of the descriptor (spec 3.6).
 */
static uint32_t deliver(struct vipl__vi *vi, const struct vipl__direct *direct, uint32_t n,
                        uint32_t k, struct vip_direct_slot *message, bool *ret_break)
{
    const struct vip_sq_slot *slot = vip_recv_slot(vi->session->recv_base, vi->index, k);
    const uint8_t *bytes = NULL;
    uint32_t room = 0;

    if (vip_direct_there(direct->in, n))
        bytes = vip_direct_read(direct->in, n, message);
    if (bytes == NULL) {
        *ret_break = true;
        return VIP_ST_TRANSPORT_ERROR;
    }
    *ret_break = !direct->unreliable;
    if (!receive_takes(vi, direct, k, slot, &room))
        return VIP_ST_PROTECTION_ERROR;
    if (message->len > room)
        return message->len > sum_of(slot) ? VIP_ST_LENGTH_ERROR : VIP_ST_PROTECTION_ERROR;
    scatter(slot, bytes, message->len);
    *ret_break = false;
    return 0;
}

/* Take message n from the ring; it completes receive descriptor k. */
static void take(struct vipl__vi *vi, struct vipl__direct *direct, uint32_t n, uint32_t k,
                 struct vip_comp *ret, bool *ret_break)
{
    struct vip_recv_head *head = vip_recv_head(vi->session->recv_base, vi->index);
    struct vip_direct_slot message = {0};
    uint32_t errors = VIP_ST_DESC_FLUSHED_ERROR;

    if (!direct->broken)
        errors = deliver(vi, direct, n, k, &message, ret_break);
    direct->broken |= *ret_break;
    *ret = (struct vip_comp){.status = VIP_ST_DONE | VIP_ST_OP_RECEIVE | errors, .direct = n};
    if (errors == 0) {
        ret->length = message.len;
        ret->imm = message.imm;
        if ((message.flags & VIP_DIRECT_IMMEDIATE) != 0)
            ret->status |= VIP_ST_IMMEDIATE;
        direct->bytes += message.len;
        __atomic_store_n(&head->bytes, direct->bytes, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&direct->taken, n + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&head->taken, head->taken + 1, __ATOMIC_RELAXED);
    /* Do this last: after this store the sender may overwrite the message. */
    vip_store32_release(&direct->in->taken, n + 1); /* [pair TAKEN] */
}

/* ---- what is next -------------------------------------------------------------------------- */

/* Can message n be taken next, if vipd has no completion before it? */
static bool from_ring(const struct vipl__vi *vi, const struct vipl__direct *direct, uint32_t n)
{
    const struct vip_vipd_vi *block = vip_vipd_vi((void *)vi->session->vipd, vi->index);

    if (direct->over)
        return false;
    /* After an error, until vipd has ended the connection, take only messages that the CQ has
     * reported. Each message after the error completes its descriptor as flushed. */
    if (direct->broken && vip_load32_acquire(&block->ring) != VIP_RING_OVER)
        return told(direct, n);
    return told(direct, n) || arrived(direct, vi, n);
}

/*
 * Order: a completion of vipd says how many messages of the ring come before it. Without a
 * completion the message in the ring is next. Look at the ring before the completions: the peer
 * writes a message only after all its earlier sends through vipd were complete. A peer that breaks
 * this rule loses its connection. Even then each completion of vipd completes one receive.
 */
enum vipl__next vipl__direct_next(struct vipl__vi *vi, struct vipl__direct *direct, uint32_t k,
                                  bool locked, struct vip_comp *ret, bool *ret_break)
{
    struct vipl__queue *queue = &vi->queue[VIP_Q_RECV];
    uint32_t n = direct->taken;
    bool ring = from_ring(vi, direct, n);
    bool vipd = vip_comps_read(&queue->comps, queue->position, queue->position, ret);

    if (vipd && (direct->over || (int32_t)(ret->direct - n) <= 0)) {
        *ret_break = !direct->over && !direct->broken && ret->direct != n;
        direct->broken |= *ret_break;
        return VIPL__NEXT_VIPD;
    }
    if (!ring && !vipd)
        return VIPL__NEXT_NONE;
    if (!locked)
        return VIPL__NEXT_LOCK;
    take(vi, direct, n, k, ret, ret_break);
    return VIPL__NEXT_RING;
}

void vipl__direct_flushed(struct vipl__vi *vi)
{
    struct vipl__direct *direct = vipl__direct_of(vi);

    if (direct != NULL)
        direct->over = true;
}

/* ---- completion queues --------------------------------------------------------------------- */

static bool entry_of(const struct vipl__cq_direct *at)
{
    const struct vipl__direct *direct = vipl__direct_of(at->vi);
    const struct vipl__queue *send = &at->vi->queue[VIP_Q_SEND];
    uint32_t n;

    if (direct == NULL) /* a VI on loan has no ring */
        return at->queue >= VIPL__CQ_LOAN &&
               vipl__lent_has_entry(at->vi, (enum vip_queue)(at->queue - VIPL__CQ_LOAN));
    if (at->queue == VIP_Q_SEND)
        return __atomic_load_n(&send->direct_done, __ATOMIC_ACQUIRE) != send->direct_reported;
    if (at->queue >= VIPL__CQ_LOAN)
        return false;
    n = __atomic_load_n(&direct->reported, __ATOMIC_RELAXED);
    /*
     * A Done call may take a message before the CQ has reported it. The CQ still has an entry for
     * this message, but the slot may hold another message by now.
     */
    return (int32_t)(__atomic_load_n(&direct->taken, __ATOMIC_RELAXED) - n) > 0 ||
           arrived(direct, at->vi, n);
}

struct vipl__vi *vipl__direct_entry(struct vipl__cq *cq, unsigned *ret_queue, uint64_t *ret_handle)
{
    for (unsigned i = 0; i < cq->direct_count; i++) {
        const struct vipl__cq_direct *at = &cq->direct[(cq->direct_next + i) % cq->direct_count];

        if (!entry_of(at))
            continue;
        *ret_handle = __atomic_load_n(&at->vi->handle, __ATOMIC_ACQUIRE);
        if (*ret_handle == 0)
            continue;
        *ret_queue = at->queue % VIPL__CQ_LOAN;
        if (at->queue == VIP_Q_SEND)
            at->vi->queue[VIP_Q_SEND].direct_reported++;
        else if (at->queue == VIP_Q_RECV)
            __atomic_add_fetch(&at->vi->direct->reported, 1, __ATOMIC_RELAXED);
        else
            vipl__lent_report(at->vi, (enum vip_queue) * ret_queue);
        /* The next search begins at the next queue, so that no queue waits for ever. */
        cq->direct_next = (cq->direct_next + i + 1) % cq->direct_count;
        return at->vi;
    }
    return NULL;
}

bool vipl__direct_waiting(const struct vipl__cq *cq)
{
    for (unsigned i = 0; i < cq->direct_count; i++)
        if (entry_of(&cq->direct[i]))
            return true;
    return false;
}
