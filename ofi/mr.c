/*
 * Memory regions. MPI registers its buffers for each large message, and a registration takes as
 * long as sending 20 KB. So the domain keeps unused regions. If a kept region contains the range of
 * a later registration and has sufficient rights, the registration uses this region.
 *
 * A program may unmap memory that it has deregistered, and the C library may use the addresses
 * again for other pages. So before each reuse of a region, the provider asks libvipl (VipxCheckMem)
 * whether the region's pages are still mapped at its addresses. The check takes a microsecond.
 */
#include <stdlib.h>

#include "ofi/calls.h"
#include "ofi/nosys.h"

/* A domain keeps unused regions only up to 2 GiB of registered memory in total. */
#define KEEP_BYTES_MAX ((size_t)2 << 30)

static void forget(struct via_domain *domain, struct via_region *region)
{
    if (VipDeregisterMem(domain->fabric->nic, (VIP_PVOID)region->addr, region->handle) !=
            VIP_SUCCESS &&
        __atomic_load_n(&domain->fabric->lost, __ATOMIC_RELAXED) == 0)
        VIA_WARN(FI_LOG_MR, "VipDeregisterMem: %s\n", VipxLastError());
    free(region);
}

static bool intact(const struct via_domain *domain, const struct via_region *region)
{
    return VipxCheckMem(domain->fabric->nic, (VIP_PVOID)region->addr, region->handle) ==
           VIP_SUCCESS;
}

/* Remove *link from the list. This function and all others up to sweep need domain->lock. */
static struct via_region *take(struct via_domain *domain, struct via_region **link)
{
    struct via_region *region = *link;

    *link = region->next;
    domain->region_count--;
    domain->region_bytes -= region->bytes;
    return region;
}

static void put_first(struct via_domain *domain, struct via_region *region)
{
    region->next = domain->regions;
    domain->regions = region;
    domain->region_count++;
    domain->region_bytes += region->bytes;
}

/* Find a region that contains the range and has these rights. Move it to the front of the list.
 * NULL: no such region. */
static struct via_region *find(struct via_domain *domain, uintptr_t addr, size_t bytes,
                               uint64_t rights)
{
    struct via_region **link = &domain->regions, *region;

    while ((region = *link) != NULL) {
        bool holds = addr >= region->addr && bytes <= region->bytes &&
                     addr - region->addr <= region->bytes - bytes &&
                     (rights & ~region->rights) == 0;

        if (!holds || (region->users > 0 && !intact(domain, region))) {
            link = &region->next;
        } else if (!intact(domain, region)) {
            forget(domain, take(domain, link));
        } else {
            take(domain, link);
            put_first(domain, region);
            return region;
        }
    }
    return NULL;
}

static bool too_much(const struct via_domain *domain)
{
    return domain->region_count > (unsigned)via_settings.mr_cache ||
           domain->region_bytes > KEEP_BYTES_MAX;
}

/*
 * While the domain exceeds a limit, drop the unused region with the oldest use. Also check one
 * region per call. If the program has unmapped it, drop it: its pages stay in use until then.
 */
static void sweep(struct via_domain *domain)
{
    unsigned look_at = domain->region_count == 0 ? 0 : domain->swept++ % domain->region_count;
    struct via_region **link, **last;

    do {
        last = NULL;
        for (link = &domain->regions; *link != NULL; link = &(*link)->next)
            if ((*link)->users == 0)
                last = link;
        if (last != NULL && too_much(domain))
            forget(domain, take(domain, last));
    } while (last != NULL && too_much(domain));
    for (link = &domain->regions; *link != NULL && look_at > 0; look_at--)
        link = &(*link)->next;
    if (*link != NULL && (*link)->users == 0 && !intact(domain, *link))
        forget(domain, take(domain, link));
}

void via_mr_cache_drop(struct via_domain *domain)
{
    while (domain->regions != NULL)
        forget(domain, take(domain, &domain->regions));
}

static int reg_range(struct via_domain *domain, uintptr_t addr, size_t bytes, uint64_t rights,
                     struct via_region **ret)
{
    VIP_MEM_ATTRIBUTES attrs = {
        .Ptag = domain->ptag,
        .EnableRdmaWrite = (rights & FI_REMOTE_WRITE) != 0,
        .EnableRdmaRead = (rights & FI_REMOTE_READ) != 0,
    };
    struct via_region *region = calloc(1, sizeof(*region));
    VIP_RETURN code;

    if (region == NULL)
        return -FI_ENOMEM;
    code = VipRegisterMem(domain->fabric->nic, (VIP_PVOID)addr, bytes, &attrs, &region->handle);
    if (code != VIP_SUCCESS) {
        VIA_WARN(FI_LOG_MR, "VipRegisterMem: %s\n", VipxLastError());
        free(region);
        return via_errno(code);
    }
    region->addr = addr;
    region->bytes = bytes;
    region->rights = rights;
    put_first(domain, region);
    *ret = region;
    return 0;
}

int via_region_get(struct via_domain *domain, const void *buf, size_t len, uint64_t rights,
                   struct via_region **ret)
{
    struct via_region *region;
    int rc = 0;

    pthread_mutex_lock(&domain->lock);
    region = find(domain, (uintptr_t)buf, len, rights);
    if (region == NULL)
        rc = reg_range(domain, (uintptr_t)buf, len, rights, &region);
    if (rc == 0) {
        region->users++;
        *ret = region;
    }
    pthread_mutex_unlock(&domain->lock);
    return rc;
}

void via_region_put(struct via_domain *domain, struct via_region *region)
{
    pthread_mutex_lock(&domain->lock);
    region->users--;
    sweep(domain);
    pthread_mutex_unlock(&domain->lock);
}

static int mr_close(struct fid *fid)
{
    struct via_mr *mr = via_container(fid, struct via_mr, fid.fid);
    struct via_domain *domain = mr->domain;

    via_region_put(domain, mr->region);
    __atomic_sub_fetch(&domain->users, 1, __ATOMIC_RELEASE);
    free(mr);
    return 0;
}

static struct fi_ops mr_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = mr_close,
    .bind = via_no_bind,
    .control = via_no_control,
    .ops_open = via_no_ops_open,
    .tostr = via_no_tostr,
    .ops_set = via_no_ops_set,
};

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                  uint64_t requested_key, uint64_t flags, struct fid_mr **ret, void *context)
{
    struct via_domain *domain = via_container(fid, struct via_domain, fid.fid);
    uint64_t rights = access & (FI_REMOTE_READ | FI_REMOTE_WRITE);
    struct via_mr *mr;
    int rc;

    if (fid->fclass != FI_CLASS_DOMAIN || buf == NULL || len == 0 || offset != 0)
        return -FI_EINVAL;
    mr = calloc(1, sizeof(*mr));
    if (mr == NULL)
        return -FI_ENOMEM;
    rc = via_region_get(domain, buf, len, rights, &mr->region);
    if (rc != 0) {
        free(mr);
        return rc;
    }
    mr->domain = domain;
    __atomic_add_fetch(&domain->users, 1, __ATOMIC_RELAXED);
    mr->fid.fid.fclass = FI_CLASS_MR;
    mr->fid.fid.context = context;
    mr->fid.fid.ops = &mr_fid_ops;
    mr->fid.mem_desc = mr;
    mr->fid.key = mr->region->handle;
    *ret = &mr->fid;
    return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                   uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **ret,
                   void *context)
{
    if (count != 1)
        return -FI_EINVAL;
    return mr_reg(fid, iov[0].iov_base, iov[0].iov_len, access, offset, requested_key, flags, ret,
                  context);
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                      struct fid_mr **ret)
{
    return mr_regv(fid, attr->mr_iov, attr->iov_count, attr->access, attr->offset,
                   attr->requested_key, flags, ret, attr->context);
}

struct fi_ops_mr via_mr_ops = {
    .size = sizeof(struct fi_ops_mr),
    .reg = mr_reg,
    .regv = mr_regv,
    .regattr = mr_regattr,
};
