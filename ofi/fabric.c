/*
 * A fabric is one opened NIC. Its domains and passive endpoints share the NIC handle, because a VI
 * can accept only requests that a listener of the same NIC handle has received.
 */
#include <stdlib.h>
#include <string.h>

#include "ofi/nosys.h"
#include "ofi/rdm.h"

static int fabric_close(struct fid *fid)
{
    struct via_fabric *fabric = via_container(fid, struct via_fabric, fid.fid);

    if (__atomic_load_n(&fabric->users, __ATOMIC_ACQUIRE) != 0)
        return -FI_EBUSY;
    via_cm_stop(fabric);
    pthread_join(fabric->thread, NULL);
    via_cm_free(fabric);
    VipCloseNic(fabric->nic);
    pthread_mutex_destroy(&fabric->lock);
    pthread_mutex_destroy(&fabric->rdm_lock);
    free(fabric);
    return 0;
}

/* May the program sleep on the file descriptors of these queues? 0: yes; -FI_EAGAIN: not now. */
static int trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
    int rc = 0;

    for (int i = 0; i < count && rc == 0; i++) {
        switch (fids[i]->fclass) {
        case FI_CLASS_CQ:
            rc = via_cq_trywait(via_container(fids[i], struct via_cq, fid.fid));
            break;
        case FI_CLASS_EQ:
            rc = via_eq_trywait(via_container(fids[i], struct via_eq, fid.fid));
            break;
        default:
            rc = -FI_EINVAL;
            break;
        }
    }
    return rc;
}

static struct fi_ops fabric_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = fabric_close,
    .bind = via_no_bind,
    .control = via_no_control,
    .ops_open = via_no_ops_open,
    .tostr = via_no_tostr,
    .ops_set = via_no_ops_set,
};

static struct fi_ops_fabric fabric_ops = {
    .size = sizeof(struct fi_ops_fabric),
    .domain = via_domain_open,
    .passive_ep = via_pep_open,
    .eq_open = via_eq_open,
    .wait_open = via_no_wait_open,
    .trywait = trywait,
};

/* The fabric's thread. It makes connections and channels even while the program computes. */
static void *connect_thread(void *arg)
{
    struct via_fabric *fabric = arg;

    do
        via_rdm_events_all(fabric);
    while (via_cm_round(fabric));
    return NULL;
}

/* Open the NIC and start the fabric's thread. Outcomes: 0; negative error, nothing stays open. */
static int start(struct via_fabric *fabric, const char *nic_name)
{
    VIP_RETURN code = VipOpenNic(nic_name, &fabric->nic);
    int rc;

    if (code != VIP_SUCCESS) {
        VIA_WARN(FI_LOG_FABRIC, "VipOpenNic(\"%s\"): %s\n", nic_name, VipxLastError());
        return -FI_ENODEV;
    }
    code = VipQueryNic(fabric->nic, &fabric->attrs);
    if (code == VIP_SUCCESS && fabric->attrs.NicAddressLen != 6)
        code = VIP_ERROR_NOT_SUPPORTED;
    if (code == VIP_SUCCESS)
        code = VipErrorCallback(fabric->nic, fabric, via_error_handler);
    rc = via_errno(code);
    if (rc == 0) {
        via_addr_from_host(fabric->attrs.LocalNicAddress, &fabric->addr);
        rc = via_cm_start(fabric);
    }
    if (rc == 0) {
        rc = -pthread_create(&fabric->thread, NULL, connect_thread, fabric);
        if (rc != 0)
            via_cm_free(fabric);
    }
    if (rc != 0)
        VipCloseNic(fabric->nic);
    return rc;
}

int via_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **ret, void *context)
{
    const char *name = attr->name == NULL ? "" : attr->name;
    struct via_fabric *fabric;
    int rc;

    if (strncmp(name, "via:", 4) != 0)
        return -FI_ENODATA;
    fabric = calloc(1, sizeof(*fabric));
    if (fabric == NULL)
        return -FI_ENOMEM;
    pthread_mutex_init(&fabric->lock, NULL);
    pthread_mutex_init(&fabric->rdm_lock, NULL);
    rc = start(fabric, name + 4);
    if (rc != 0) {
        pthread_mutex_destroy(&fabric->lock);
        pthread_mutex_destroy(&fabric->rdm_lock);
        free(fabric);
        return rc;
    }
    fabric->fid.fid.fclass = FI_CLASS_FABRIC;
    fabric->fid.fid.context = context;
    fabric->fid.fid.ops = &fabric_fid_ops;
    fabric->fid.ops = &fabric_ops;
    fabric->fid.api_version = attr->api_version;
    *ret = &fabric->fid;
    return 0;
}
