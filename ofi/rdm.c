/*
 * Start, end and progress of FI_EP_RDM endpoints (rdm.h has the design).
 *
 * fi_close first sends the waiting answers of the endpoint. Without these the senders of received
 * messages would wait for ever. Then it closes the endpoint of each channel (ep.c).
 */
#include <arpa/inet.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ofi/nosys.h"
#include "ofi/rdm.h"

/* ---- progress -------------------------------------------------------------------------------- */

void via_rdm_progress(struct via_rdm *rdm)
{
    if (rdm->core == NULL)
        return;
    via_peer_events(rdm);
    pthread_mutex_lock(&rdm->core->lock);
    for (unsigned i = 0; i < VIA_PROGRESS_MAX && via_reap_cq(rdm->core); i++)
        via_channel_take_done(rdm);
    if (rdm->busy != NULL)
        via_channel_go_on(rdm);
    pthread_mutex_unlock(&rdm->core->lock);
}

void via_rdm_events_all(struct via_fabric *fabric)
{
    pthread_mutex_lock(&fabric->rdm_lock);
    for (struct via_rdm *rdm = fabric->rdms; rdm != NULL; rdm = rdm->next)
        via_peer_events(rdm);
    pthread_mutex_unlock(&fabric->rdm_lock);
}

/* ---- enable ---------------------------------------------------------------------------------- */

/* Make the fi_info with which channels are opened. NULL: no memory, or the NIC is missing. */
static struct fi_info *channel_info(const struct via_rdm *rdm)
{
    const struct via_fabric *fabric = rdm->domain->fabric;
    struct fi_info *hints = fi_allocinfo(), *info = NULL;

    if (hints == NULL)
        return NULL;
    hints->caps = FI_MSG | FI_RMA;
    hints->mode = FI_RX_CQ_DATA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->name = strdup(fabric->attrs.Name);
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    if (hints->domain_attr->name != NULL &&
        via_getinfo(via_provider.fi_version, NULL, NULL, 0, hints, &info) != 0)
        info = NULL;
    fi_freeinfo(hints);
    if (info != NULL)
        ((struct sockaddr_in *)info->src_addr)->sin_port = rdm->own.sin_port;
    return info;
}

/* Open the passive endpoint that peers call, and the queues that all channels use. */
static int open_parts(struct via_rdm *rdm)
{
    struct fi_eq_attr eq_attr = {0};
    struct fid_pep *pep;
    struct fid_eq *eq;
    size_t bytes = sizeof(rdm->own);
    int rc;

    rdm->channel_info = channel_info(rdm);
    if (rdm->channel_info == NULL)
        return -FI_ENODATA;
    rc = via_eq_open(&rdm->domain->fabric->fid, &eq_attr, &eq, NULL);
    if (rc != 0)
        return rc;
    rdm->eq = via_container(eq, struct via_eq, fid);
    rc = via_cq_make(rdm->domain, &rdm->core);
    if (rc != 0)
        return rc;
    rc = via_pep_open(&rdm->domain->fabric->fid, rdm->channel_info, &pep, NULL);
    if (rc != 0)
        return rc;
    rdm->pep = via_container(pep, struct via_pep, fid);
    rc = fi_pep_bind(pep, &rdm->eq->fid.fid, 0);
    if (rc == 0)
        rc = fi_listen(pep);
    return rc == 0 ? fi_getname(&pep->fid, &rdm->own, &bytes) : rc;
}

static void close_parts(struct via_rdm *rdm)
{
    if (rdm->pep != NULL)
        fi_close(&rdm->pep->fid.fid);
    if (rdm->core != NULL)
        via_cq_free(rdm->core);
    if (rdm->eq != NULL)
        fi_close(&rdm->eq->fid.fid);
    fi_freeinfo(rdm->channel_info);
    rdm->pep = NULL;
    rdm->core = NULL;
    rdm->eq = NULL;
    rdm->channel_info = NULL;
}

/* Let reads of cq drive this endpoint. Outcomes: 0; -FI_EBUSY: they drive another endpoint. */
static int attach(struct via_cq *cq, struct via_rdm *rdm)
{
    int rc = 0;

    pthread_mutex_lock(&cq->rdm_lock);
    if (cq->rdm != NULL && cq->rdm != rdm)
        rc = -FI_EBUSY;
    else
        __atomic_store_n(&cq->rdm, rdm, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&cq->rdm_lock);
    return rc;
}

static void detach(struct via_cq *cq, const struct via_rdm *rdm)
{
    pthread_mutex_lock(&cq->rdm_lock);
    if (cq->rdm == rdm)
        __atomic_store_n(&cq->rdm, NULL, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&cq->rdm_lock);
}

static int enable(struct via_rdm *rdm)
{
    struct via_fabric *fabric = rdm->domain->fabric;
    int rc;

    if (rdm->enabled)
        return 0;
    if (rdm->av == NULL)
        return -FI_ENOAV;
    if (rdm->tx_cq == NULL || rdm->rx_cq == NULL)
        return -FI_ENOCQ;
    rc = open_parts(rdm);
    if (rc == 0)
        rc = attach(rdm->tx_cq, rdm);
    if (rc == 0)
        rc = attach(rdm->rx_cq, rdm);
    if (rc != 0) {
        detach(rdm->tx_cq, rdm);
        close_parts(rdm);
        return rc;
    }
    VIA_INFO(FI_LOG_EP_CTRL, "an endpoint that matches tags itself, port %u\n",
             (unsigned)ntohs(rdm->own.sin_port));
    rdm->enabled = true;
    pthread_mutex_lock(&fabric->rdm_lock);
    rdm->next = fabric->rdms;
    fabric->rdms = rdm;
    pthread_mutex_unlock(&fabric->rdm_lock);
    return 0;
}

/* ---- close ----------------------------------------------------------------------------------- */

static bool owes_answers(struct via_rdm *rdm)
{
    bool owes = false;

    pthread_mutex_lock(&rdm->core->lock);
    for (const struct via_channel *channel = rdm->busy; channel != NULL && !owes;
         channel = channel->busy_next)
        owes = channel->answers != NULL;
    pthread_mutex_unlock(&rdm->core->lock);
    return owes;
}

static void disable(struct via_rdm *rdm)
{
    uint64_t end_ns = via_now_ns() + (uint64_t)via_settings.linger_ms * 1000000;
    struct via_fabric *fabric = rdm->domain->fabric;
    struct via_rdm **at;

    pthread_mutex_lock(&fabric->rdm_lock);
    for (at = &fabric->rdms; *at != rdm; at = &(*at)->next)
        continue;
    *at = rdm->next;
    pthread_mutex_unlock(&fabric->rdm_lock);
    while (owes_answers(rdm) && via_now_ns() < end_ns &&
           __atomic_load_n(&fabric->lost, __ATOMIC_RELAXED) == 0) {
        via_rdm_progress(rdm);
        sched_yield();
    }
    detach(rdm->tx_cq, rdm);
    detach(rdm->rx_cq, rdm);
    pthread_mutex_lock(&rdm->cm_lock);
    via_peer_close_channels(rdm);
    pthread_mutex_unlock(&rdm->cm_lock);
    via_match_drop(rdm);
    close_parts(rdm);
}

static int rdm_close(struct fid *fid)
{
    struct via_rdm *rdm = via_container(fid, struct via_rdm, fid.fid);
    struct via_peer *next;

    if (rdm->enabled)
        disable(rdm);
    for (struct via_peer *peer = rdm->peers; peer != NULL; peer = next) {
        next = peer->next;
        via_sends_fail(rdm, peer);
        free(peer);
    }
    free(rdm->by_addr);
    if (rdm->tx_cq != NULL)
        __atomic_sub_fetch(&rdm->tx_cq->users, 1, __ATOMIC_RELEASE);
    if (rdm->rx_cq != NULL)
        __atomic_sub_fetch(&rdm->rx_cq->users, 1, __ATOMIC_RELEASE);
    if (rdm->av != NULL)
        __atomic_sub_fetch(&rdm->av->users, 1, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&rdm->domain->users, 1, __ATOMIC_RELEASE);
    pthread_mutex_destroy(&rdm->cm_lock);
    free(rdm);
    return 0;
}

/* ---- the other calls of the program ---------------------------------------------------------- */

static int bind_cq(struct via_rdm *rdm, struct via_cq *cq, uint64_t flags)
{
    bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;

    if (cq->domain != rdm->domain || (flags & (FI_TRANSMIT | FI_RECV)) == 0 ||
        ((flags & FI_TRANSMIT) != 0 && rdm->tx_cq != NULL) ||
        ((flags & FI_RECV) != 0 && rdm->rx_cq != NULL))
        return -FI_EINVAL;
    /* Messages arrive in the core, not in cq. They would not make the file descriptor of cq
     * readable. */
    if (cq->wait_obj == FI_WAIT_FD)
        return -FI_ENOSYS;
    if ((flags & FI_TRANSMIT) != 0) {
        rdm->tx_cq = cq;
        rdm->tx_selective = selective;
        __atomic_add_fetch(&cq->users, 1, __ATOMIC_RELAXED);
    }
    if ((flags & FI_RECV) != 0) {
        rdm->rx_cq = cq;
        rdm->rx_selective = selective;
        __atomic_add_fetch(&cq->users, 1, __ATOMIC_RELAXED);
    }
    return 0;
}

static int rdm_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct via_rdm *rdm = via_container(fid, struct via_rdm, fid.fid);

    if (rdm->enabled)
        return -FI_EOPBADSTATE;
    switch (other->fclass) {
    case FI_CLASS_CQ:
        return bind_cq(rdm, via_container(other, struct via_cq, fid.fid), flags);
    case FI_CLASS_AV:
        if (rdm->av != NULL)
            return -FI_EINVAL;
        rdm->av = via_container(other, struct via_av, fid.fid);
        __atomic_add_fetch(&rdm->av->users, 1, __ATOMIC_RELAXED);
        return 0;
    case FI_CLASS_EQ:
        /* Ignore the event queue: channels are internal and cause no events for the program. */
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

static int rdm_control(struct fid *fid, int command, void *arg)
{
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    return enable(via_container(fid, struct via_rdm, fid.fid));
}

static ssize_t rdm_cancel(fid_t fid, void *context)
{
    struct via_rdm *rdm = via_container(fid, struct via_rdm, fid.fid);
    ssize_t rc;

    if (rdm->core == NULL)
        return -FI_EOPBADSTATE;
    pthread_mutex_lock(&rdm->core->lock);
    rc = via_match_cancel(rdm, context);
    pthread_mutex_unlock(&rdm->core->lock);
    return rc;
}

static int rdm_getopt(fid_t fid, int level, int name, void *value, size_t *bytes)
{
    return -FI_ENOPROTOOPT;
}

static int rdm_setopt(fid_t fid, int level, int name, const void *value, size_t bytes)
{
    return -FI_ENOPROTOOPT;
}

static int rdm_getname(fid_t fid, void *addr, size_t *bytes)
{
    struct via_rdm *rdm = via_container(fid, struct via_rdm, fid.fid);
    struct via_name name = {.at = rdm->own, .key = rdm->key};

    return via_name_copy(rdm->domain, &name, addr, bytes);
}

static struct fi_ops rdm_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = rdm_close,
    .bind = rdm_bind,
    .control = rdm_control,
    .ops_open = via_no_ops_open,
    .tostr = via_no_tostr,
    .ops_set = via_no_ops_set,
};

static struct fi_ops_ep rdm_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = rdm_cancel,
    .getopt = rdm_getopt,
    .setopt = rdm_setopt,
    .tx_ctx = via_no_tx_ctx,
    .rx_ctx = via_no_rx_ctx,
    .rx_size_left = via_no_size_left,
    .tx_size_left = via_no_size_left,
};

static struct fi_ops_cm rdm_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = via_no_setname,
    .getname = rdm_getname,
    .getpeer = via_no_getpeer,
    .connect = via_no_connect,
    .listen = via_no_listen,
    .accept = via_no_accept,
    .reject = via_no_reject,
    .shutdown = via_no_shutdown,
    .join = via_no_join,
};

/*
 * Set the address to listen at, and the key that callers must have. There is no key if the program
 * has chosen the port: then callers may know only host and port. There is also no key if addresses
 * are plain socket addresses, which have no room for it.
 */
static int take_address(struct via_rdm *rdm, const struct via_domain *domain,
                        const struct fi_info *info)
{
    rdm->own = domain->fabric->addr;
    if (info->src_addr != NULL && info->src_addrlen >= sizeof(rdm->own))
        rdm->own.sin_port = ((const struct sockaddr_in *)info->src_addr)->sin_port;
    return domain->keyed && rdm->own.sin_port == 0 ? job_key_draw(&rdm->key) : 0;
}

int via_rdm_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret, void *context)
{
    struct via_domain *domain = via_container(fid, struct via_domain, fid);
    struct via_rdm *rdm = calloc(1, sizeof(*rdm));

    if (rdm == NULL)
        return -FI_ENOMEM;
    if (take_address(rdm, domain, info) != 0) {
        free(rdm);
        return -FI_EIO;
    }
    pthread_mutex_init(&rdm->cm_lock, NULL);
    rdm->domain = domain;
    rdm->eager_bytes = via_eager_bytes();
    rdm->directed = (info->caps & FI_DIRECTED_RECV) != 0;
    if (info->tx_attr != NULL)
        rdm->tx_op_flags = info->tx_attr->op_flags;
    if (info->rx_attr != NULL)
        rdm->rx_op_flags = info->rx_attr->op_flags;
    for (int tagged = 0; tagged < 2; tagged++)
        rdm->wants_end[tagged] = &rdm->wants[tagged];
    __atomic_add_fetch(&domain->users, 1, __ATOMIC_RELAXED);
    rdm->fid.fid.fclass = FI_CLASS_EP;
    rdm->fid.fid.context = context;
    rdm->fid.fid.ops = &rdm_fid_ops;
    rdm->fid.ops = &rdm_ops;
    rdm->fid.cm = &rdm_cm_ops;
    rdm->fid.msg = &via_rdm_msg_ops;
    rdm->fid.tagged = &via_rdm_tagged_ops;
    *ret = &rdm->fid;
    return 0;
}
