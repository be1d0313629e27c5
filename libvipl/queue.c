/* Queues whose completions do not all come from vipd (queue.h). */
#include "libvipl/session.h"

bool vipl__cq_list_add(struct vipl__cq *cq, struct vipl__vi *vi, unsigned which)
{
    bool added = false;

    if (cq == NULL)
        return true;
    vipl__spin_lock(&cq->done_lock);
    for (unsigned i = 0; i < cq->direct_count; i++)
        added |= cq->direct[i].vi == vi && cq->direct[i].queue == which;
    if (!added && cq->direct_count < VIPL__CQ_DIRECT_MAX) {
        __atomic_store_n(&cq->direct[cq->direct_count].vi, vi, __ATOMIC_RELAXED);
        cq->direct[cq->direct_count].queue = which;
        if (which >= VIPL__CQ_LOAN)
            __atomic_store_n(&cq->lent_count, cq->lent_count + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&cq->direct_count, cq->direct_count + 1, __ATOMIC_RELEASE);
        added = true;
    }
    vipl__spin_unlock(&cq->done_lock);
    return added;
}

void vipl__cq_list_remove(struct vipl__cq *cq, const struct vipl__vi *vi)
{
    if (cq == NULL)
        return;
    vipl__spin_lock(&cq->done_lock);
    for (unsigned i = cq->direct_count; i-- > 0;)
        if (cq->direct[i].vi == vi) {
            unsigned last = cq->direct_count - 1;

            if (cq->direct[i].queue >= VIPL__CQ_LOAN)
                __atomic_store_n(&cq->lent_count, cq->lent_count - 1, __ATOMIC_RELAXED);
            __atomic_store_n(&cq->direct_count, last, __ATOMIC_RELAXED);
            cq->direct[i].queue = cq->direct[last].queue;
            __atomic_store_n(&cq->direct[i].vi, cq->direct[last].vi, __ATOMIC_RELAXED);
        }
    vipl__spin_unlock(&cq->done_lock);
}

uint32_t vipl__first_undone(struct vipl__queue *queue)
{
    uint32_t posted = __atomic_load_n(&queue->posted, __ATOMIC_ACQUIRE), at;
    uint32_t position = queue->position;
    struct vip_comp comp;

    for (at = queue->reaped; at != posted; at++) {
        uint8_t how =
            __atomic_load_n(&queue->how[at & (VIP_DESC_PER_QUEUE_MAX - 1)], __ATOMIC_ACQUIRE);

        if ((how & VIPL__HOW_RING) != 0)
            continue;
        if ((how & VIPL__HOW_LOAN) == 0 &&
            !vip_comps_read(&queue->comps, queue->position, position, &comp))
            break;
        position++;
    }
    return at;
}
