/* Objects that the next vipd refuses (refused.h). */
#include "libvipl/refused.h"

#include <stdio.h>
#include <string.h>

#include "libvipl/callback.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/vipl_ext.h"

/* Report vipd's refusal of an object as an asynchronous error. `what` names the object. */
static void report(struct vipl__session *session, VIP_RESOURCE_CODE resource, VIP_ERROR_CODE code,
                   const struct vipl__vi *vi, const char *what)
{
    const char *reason = strchr(VipxLastError(), ':'); /* the text after the function's name */
    char why[VIPL__REASON_BYTES];

    snprintf(why, sizeof(why), "vipd has begun anew and refuses %.120s%.320s", what,
             reason != NULL ? reason : "");
    vipl__async_error(session, resource, code, vi, NULL, 0, why);
}

void vipl__refuse_vi(struct vipl__vi *vi)
{
    struct vipl__session *session = vi->session;
    bool told = vipl__vi_state(vi) == VIP_VIST_ERROR;

    pthread_mutex_lock(&session->lock);
    vipl__lent_dead(vi);
    pthread_mutex_unlock(&session->lock);
    vipl__spin_lock(&session->post_lock);
    __atomic_store_n(&session->trouble, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&vi->refused, VIPL__REFUSED, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&session->refused, 1, __ATOMIC_SEQ_CST);
    vipl__spin_unlock(&session->post_lock);
    if (!told)
        report(session, VIP_RESOURCE_VI, VIP_ERROR_CONN_LOST, vi, "this VI");
}

void vipl__refuse_cq(struct vipl__cq *cq)
{
    char what[64];

    __atomic_store_n(&cq->session->trouble, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&cq->refused, VIPL__REFUSED, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&cq->session->refused, 1, __ATOMIC_SEQ_CST);
    snprintf(what, sizeof(what), "completion queue %u, and so the VIs that use it", cq->index);
    report(cq->session, VIP_RESOURCE_NIC, VIP_ERROR_COMP_PROT, NULL, what);
}

void vipl__refuse_region(struct vipl__session *session, struct vipl__region *region)
{
    char what[128];

    vipl__spin_lock(&session->post_lock);
    region->refused = true;
    vipl__spin_unlock(&session->post_lock);
    snprintf(what, sizeof(what), "the region of %zu bytes at %p (memory handle 0x%x)",
             region->bytes, (void *)region->addr, region->handle);
    report(session, VIP_RESOURCE_NIC, VIP_ERROR_COMP_PROT, NULL, what);
}

void vipl__refuse_ptag(struct vipl__session *session, uint32_t number)
{
    char what[96];

    snprintf(what, sizeof(what), "protection tag %u, and so what has this tag", number);
    report(session, VIP_RESOURCE_NIC, VIP_ERROR_COMP_PROT, NULL, what);
}

void vipl__refuse_listener(struct vipl__session *session)
{
    report(session, VIP_RESOURCE_NIC, VIP_ERROR_COMP_PROT, NULL,
           "a listener, which gets no request any more");
}

struct vipl__region *vipl__refused_region(struct vipl__session *session, VIP_MEM_HANDLE handle)
{
    struct vipl__loans *loans;
    struct vipl__region *region;

    loans = vipl__lent_lock(session);
    vipl__spin_lock(&session->post_lock);
    region = vipl__region_find(&session->regions, handle);
    /* While vipd is away, only the provider thread may change the table. */
    if (region != NULL && !vipl__is_gone(session) && region->refused)
        region = vipl__region_take(&session->regions, handle);
    else
        region = NULL;
    if (region != NULL)
        __atomic_add_fetch(&session->region_epoch, 1, __ATOMIC_RELEASE);
    vipl__spin_unlock(&session->post_lock);
    vipl__lent_unlock(loans);
    return region;
}

bool vipl__refused_disconnect(struct vipl__vi *vi)
{
    uint32_t refused = VIPL__REFUSED;

    /* Change only VIPL__REFUSED: a VI that is Idle or not refused stays as it is. */
    (void)__atomic_compare_exchange_n(&vi->refused, &refused, VIPL__REFUSED_IDLE, false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return refused != VIPL__TAKEN;
}

void vipl__refused_over(struct vipl__session *session, uint32_t *refused)
{
    if (__atomic_exchange_n(refused, VIPL__TAKEN, __ATOMIC_SEQ_CST) != VIPL__TAKEN)
        __atomic_sub_fetch(&session->refused, 1, __ATOMIC_SEQ_CST);
}
