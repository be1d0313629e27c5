/*
 * A completion queue of libfabric has two parts: a completion queue of VIPL, and a list of the
 * completions that the program has not read yet. All completions pass through the list, for two
 * reasons. The close of an endpoint returns all its descriptors at once, and an error must wait
 * until the program calls fi_cq_readerr.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "ofi/calls.h"

#define ENTRIES_FIRST 1024 /* initial entries of VIPL's queue, which grows with the endpoints */
#define FIFO_FIRST    64   /* initial entries of the list; a power of two, like all later sizes */

/* ---- the list -------------------------------------------------------------------------------- */

void via_cq_signal(struct via_cq *cq)
{
    bool raise = cq->fifo_in != cq->fifo_out || __atomic_load_n(&cq->signaled, __ATOMIC_RELAXED);
    uint64_t count = 1;
    ssize_t rc = 0;

    if (cq->soft_fd < 0 || raise == cq->soft_raised)
        return;
    cq->soft_raised = raise;
    rc = raise ? write(cq->soft_fd, &count, sizeof(count))
               : read(cq->soft_fd, &count, sizeof(count));
    if (rc < 0)
        VIA_WARN(FI_LOG_CQ, "eventfd: errno %d\n", errno);
}

static bool fifo_grow(struct via_cq *cq)
{
    uint32_t size = 2 * cq->fifo_size;
    struct via_comp *fifo = malloc(size * sizeof(*fifo));

    if (fifo == NULL)
        return false;
    for (uint32_t i = cq->fifo_out; i != cq->fifo_in; i++)
        fifo[i & (size - 1)] = cq->fifo[i & (cq->fifo_size - 1)];
    free(cq->fifo);
    cq->fifo = fifo;
    cq->fifo_size = size;
    return true;
}

void via_cqs_fail(struct via_domain *domain, const char *why)
{
    VIA_WARN(FI_LOG_CQ, "%s\n", why);
    __atomic_store_n(&domain->fabric->lost, 1, __ATOMIC_RELEASE);
}

void via_cq_put(struct via_cq *cq, const struct via_comp *comp)
{
    if (cq->fifo_in - cq->fifo_out == cq->fifo_size && !fifo_grow(cq)) {
        via_cqs_fail(cq->domain, "out of memory: a completion is lost");
        return;
    }
    cq->fifo[cq->fifo_in++ & (cq->fifo_size - 1)] = *comp;
}

const struct via_comp *via_cq_take(struct via_cq *cq)
{
    if (cq->fifo_in == cq->fifo_out)
        return NULL;
    return &cq->fifo[cq->fifo_out++ & (cq->fifo_size - 1)];
}

void via_cq_tell(struct via_cq *cq, const struct via_comp *comp)
{
    pthread_mutex_lock(&cq->lock);
    via_cq_put(cq, comp);
    if (cq->soft_fd >= 0)
        via_cq_signal(cq);
    pthread_mutex_unlock(&cq->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

int via_cq_make(struct via_domain *domain, struct via_cq **ret)
{
    struct via_cq *cq = calloc(1, sizeof(*cq));
    VIP_RETURN code;

    if (cq != NULL)
        cq->fifo = calloc(FIFO_FIRST, sizeof(*cq->fifo));
    if (cq == NULL || cq->fifo == NULL) {
        free(cq);
        return -FI_ENOMEM;
    }
    code = VipCreateCQ(domain->fabric->nic, ENTRIES_FIRST, &cq->cq);
    if (code != VIP_SUCCESS) {
        VIA_WARN(FI_LOG_CQ, "VipCreateCQ: %s\n", VipxLastError());
        free(cq->fifo);
        free(cq);
        return via_errno(code);
    }
    cq->domain = domain;
    cq->fifo_size = FIFO_FIRST;
    cq->epoll_fd = cq->soft_fd = -1;
    pthread_mutex_init(&cq->lock, NULL);
    pthread_mutex_init(&cq->rdm_lock, NULL);
    __atomic_add_fetch(&domain->users, 1, __ATOMIC_RELAXED);
    cq->fid.fid.fclass = FI_CLASS_CQ;
    *ret = cq;
    return 0;
}

int via_cq_bind(struct via_cq *cq, size_t operations)
{
    VIP_ULONG most = cq->domain->fabric->attrs.MaxCQEntries;
    VIP_ULONG have, want;
    VIP_RETURN code = VIP_SUCCESS;

    pthread_mutex_lock(&cq->lock);
    have = cq->entries < most ? cq->entries : most;
    cq->entries += operations;
    want = cq->entries < most ? cq->entries : most;
    /* Entries beyond the limit are not lost: vipd keeps them until there is room. */
    if (want > have && want > ENTRIES_FIRST)
        code = VipResizeCQ(cq->cq, want);
    pthread_mutex_unlock(&cq->lock);
    if (code != VIP_SUCCESS)
        VIA_WARN(FI_LOG_CQ, "VipResizeCQ: %s\n", VipxLastError());
    return via_errno(code);
}

void via_cq_free(struct via_cq *cq)
{
    if (cq->epoll_fd >= 0) {
        close(cq->epoll_fd);
        close(cq->soft_fd);
    }
    VipDestroyCQ(cq->cq);
    pthread_mutex_destroy(&cq->lock);
    pthread_mutex_destroy(&cq->rdm_lock);
    __atomic_sub_fetch(&cq->domain->users, 1, __ATOMIC_RELEASE);
    free(cq->fifo);
    free(cq);
}
