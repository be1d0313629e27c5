/* A domain: one protection tag of the fabric's NIC, and the memory registered with this tag. */
#include <stdlib.h>
#include <string.h>

#include "ofi/nosys.h"
#include "ofi/rdm.h"

static int domain_close(struct fid *fid)
{
    struct via_domain *domain = via_container(fid, struct via_domain, fid.fid);

    if (__atomic_load_n(&domain->users, __ATOMIC_ACQUIRE) != 0)
        return -FI_EBUSY;
    via_mr_cache_drop(domain);
    VipDestroyPtag(domain->fabric->nic, domain->ptag);
    __atomic_sub_fetch(&domain->fabric->users, 1, __ATOMIC_RELEASE);
    pthread_mutex_destroy(&domain->wait_lock);
    pthread_mutex_destroy(&domain->lock);
    free(domain);
    return 0;
}

/* Open an endpoint of the kind that the program asks for. */
static int endpoint(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret,
                    void *context)
{
    if (info != NULL && info->ep_attr != NULL && info->ep_attr->type == FI_EP_RDM)
        return via_rdm_open(fid, info, ret, context);
    return via_ep_open(fid, info, ret, context);
}

static struct fi_ops domain_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = domain_close,
    .bind = via_no_bind,
    .control = via_no_control,
    .ops_open = via_no_ops_open,
    .tostr = via_no_tostr,
    .ops_set = via_no_ops_set,
};

static struct fi_ops_domain domain_ops = {
    .size = sizeof(struct fi_ops_domain),
    .av_open = via_av_open,
    .cq_open = via_cq_open,
    .endpoint = endpoint,
    .scalable_ep = via_no_sep,
    .cntr_open = via_no_cntr,
    .poll_open = via_no_poll,
    .stx_ctx = via_no_stx,
    .srx_ctx = via_no_srx,
    .query_atomic = via_no_query_atomic,
    .query_collective = via_no_query_collective,
};

int via_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **ret,
                    void *context)
{
    struct via_fabric *fabric = via_container(fid, struct via_fabric, fid);
    struct via_domain *domain;
    VIP_RETURN code;

    if (info->domain_attr != NULL && info->domain_attr->name != NULL &&
        strcmp(info->domain_attr->name, fabric->attrs.Name) != 0)
        return -FI_EINVAL;
    domain = calloc(1, sizeof(*domain));
    if (domain == NULL)
        return -FI_ENOMEM;
    code = VipCreatePtag(fabric->nic, &domain->ptag);
    if (code != VIP_SUCCESS) {
        VIA_WARN(FI_LOG_DOMAIN, "VipCreatePtag: %s\n", VipxLastError());
        free(domain);
        return via_errno(code);
    }
    pthread_mutex_init(&domain->lock, NULL);
    pthread_mutex_init(&domain->wait_lock, NULL);
    domain->fabric = fabric;
    domain->keyed = info->addr_format == VIA_ADDR_FORMAT;
    __atomic_add_fetch(&fabric->users, 1, __ATOMIC_RELAXED);
    domain->fid.fid.fclass = FI_CLASS_DOMAIN;
    domain->fid.fid.context = context;
    domain->fid.fid.ops = &domain_fid_ops;
    domain->fid.ops = &domain_ops;
    domain->fid.mr = &via_mr_ops;
    *ret = &domain->fid;
    return 0;
}
