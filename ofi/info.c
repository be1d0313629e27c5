/*
 * fi_getinfo: the attributes of the provider. The answer has an entry for each NIC of FI_VIA_NIC
 * and each kind of endpoint.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "ofi/rdm.h"

#define CAPS_MSG                                                                                   \
    (FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define CAPS_RDM    (FI_MSG | FI_TAGGED | FI_SEND | FI_RECV | FI_DIRECTED_RECV)
#define CAPS_DOMAIN (FI_LOCAL_COMM | FI_REMOTE_COMM)
/* VIA keeps the order of sends and RDMA Writes, but an RDMA Read may end after later operations. */
#define ORDER (FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAS | FI_ORDER_WAW)
#define OP_FLAGS                                                                                   \
    (FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE)
#define MR_MODE  (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)
#define NICS_MAX 16
/* libfabric's notation for a tag of 64 fields of one bit: the program may use all 64 bits. */
#define TAG_FORMAT 0xaaaaaaaaaaaaaaaaull

/* Most bytes of one operation. transfer.c cuts long RDMA operations into pieces, so in practice the
 * size of a memory region is the limit. */
#define MESSAGE_MAX ((size_t)1 << 36)

/* What the provider offers for a kind of endpoint: FI_EP_MSG or FI_EP_RDM. */
struct offer {
    enum fi_ep_type type;
    uint64_t caps, order, op_flags;
    uint64_t comp_order; /* completion orders that a program may ask for */
    size_t iov_max, rma_iov_max, cq_data_bytes;
    int mr_mode; /* mr_mode bits that the program must support */
};

static const struct offer offers[] = {
    {
        .type = FI_EP_MSG,
        .caps = CAPS_MSG,
        .order = ORDER,
        .op_flags = OP_FLAGS,
        .comp_order = FI_ORDER_STRICT | FI_ORDER_DATA,
        .iov_max = VIA_IOV_MAX,
        .rma_iov_max = 1,
        .cq_data_bytes = 4,
        .mr_mode = MR_MODE,
    },
    {
        .type = FI_EP_RDM,
        .caps = CAPS_RDM,
        .order = FI_ORDER_SAS,
        .op_flags = OP_FLAGS | FI_MATCH_COMPLETE,
        .iov_max = 1,
        .cq_data_bytes = 8,
    },
};

size_t via_ring_bytes(void)
{
    return (size_t)via_settings.ring_bytes & ~(size_t)4095;
}

size_t via_eager_bytes(void)
{
    size_t most = via_ring_bytes() / 4 - sizeof(struct via_head) - VIA_RECORD;

    return (size_t)via_settings.eager_bytes < most ? (size_t)via_settings.eager_bytes : most;
}

static size_t inject_bytes(const struct offer *offer)
{
    return offer->type == FI_EP_RDM ? via_eager_bytes() : (size_t)via_settings.inject_bytes;
}

/* Kept results of VipQueryNic: an MPI process calls fi_getinfo about ten times. */
static struct {
    pthread_mutex_t lock;
    unsigned count;
    VIP_NIC_ATTRIBUTES attrs[NICS_MAX];
    uint8_t host[NICS_MAX][8];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the NICs -------------------------------------------------------------------------------- */

static void query(const char *name)
{
    VIP_NIC_ATTRIBUTES *attrs = &known.attrs[known.count];
    VIP_NIC_HANDLE nic;
    VIP_RETURN rc = VipOpenNic(name, &nic);

    if (rc != VIP_SUCCESS) {
        VIA_INFO(FI_LOG_CORE, "NIC \"%s\": %s\n", name, VipxLastError());
        return;
    }
    rc = VipQueryNic(nic, attrs);
    if (rc == VIP_SUCCESS && attrs->NicAddressLen == 6 &&
        (attrs->ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_RECEPTION) != 0 &&
        (attrs->RDMAReadSupport & VIP_SERVICE_RELIABLE_RECEPTION) != 0) {
        memcpy(known.host[known.count], attrs->LocalNicAddress, 6);
        attrs->LocalNicAddress = known.host[known.count];
        known.count++;
    } else {
        VIA_WARN(FI_LOG_CORE, "NIC \"%s\" lacks reliable reception, RDMA Read, or IPv4 addresses\n",
                 name);
    }
    VipCloseNic(nic);
}

/* Query the NICs if none is known. vipd may have started since the last call. Under
 * known.lock. */
static void query_all(void)
{
    char *names, *name, *rest;

    if (known.count > 0)
        return;
    if (via_settings.nic == NULL) {
        query("");
        return;
    }
    names = strdup(via_settings.nic);
    for (name = names == NULL ? NULL : strtok_r(names, ",", &rest);
         name != NULL && known.count < NICS_MAX; name = strtok_r(NULL, ",", &rest))
        query(name);
    free(names);
}

void via_info_cleanup(void)
{
    pthread_mutex_lock(&known.lock);
    known.count = 0;
    pthread_mutex_unlock(&known.lock);
}

/* ---- check of the hints ---------------------------------------------------------------------- */

static bool tx_fits(const struct fi_tx_attr *tx, const struct offer *offer)
{
    return tx == NULL ||
           ((tx->caps & ~(offer->caps | CAPS_DOMAIN)) == 0 &&
            (tx->op_flags & ~offer->op_flags) == 0 && (tx->msg_order & ~offer->order) == 0 &&
            (tx->comp_order & ~offer->comp_order) == 0 && tx->inject_size <= inject_bytes(offer) &&
            tx->size <= VIA_QUEUE_MAX && tx->iov_limit <= offer->iov_max &&
            tx->rma_iov_limit <= offer->rma_iov_max);
}

static bool rx_fits(const struct fi_rx_attr *rx, const struct offer *offer)
{
    return rx == NULL ||
           ((rx->caps & ~(offer->caps | CAPS_DOMAIN)) == 0 &&
            (rx->op_flags & ~FI_COMPLETION) == 0 && (rx->msg_order & ~offer->order) == 0 &&
            (rx->comp_order & ~offer->comp_order) == 0 && rx->total_buffered_recv == 0 &&
            rx->size <= VIA_QUEUE_MAX && rx->iov_limit <= offer->iov_max);
}

static bool ep_fits(const struct fi_ep_attr *ep, const struct offer *offer)
{
    return ep == NULL || ((ep->type == FI_EP_UNSPEC || ep->type == offer->type) &&
                          ep->protocol == FI_PROTO_UNSPEC && ep->max_msg_size <= MESSAGE_MAX &&
                          ep->msg_prefix_size == 0 && ep->max_order_raw_size == 0 &&
                          ep->max_order_war_size == 0 && ep->max_order_waw_size <= MESSAGE_MAX &&
                          ep->tx_ctx_cnt <= 1 && ep->rx_ctx_cnt <= 1 && ep->auth_key_size == 0);
}

/* Does the program support the mr_mode bits that this kind of endpoint needs? */
static bool mr_fits(const struct fi_info *hints, const struct offer *offer)
{
    int mode = hints->domain_attr->mr_mode;
    int needed = offer->mr_mode;

    if (needed == 0)
        return true;
    if (hints->caps != 0 && (hints->caps & FI_RMA) == 0)
        needed = FI_MR_LOCAL;
    if (mode == FI_MR_UNSPEC || mode == FI_MR_BASIC)
        return (hints->mode & FI_LOCAL_MR) != 0;
    return (mode & needed) == needed;
}

static bool domain_fits(const struct fi_info *hints, const struct offer *offer,
                        const VIP_NIC_ATTRIBUTES *nic)
{
    const struct fi_domain_attr *domain = hints->domain_attr;
    bool is_msg = offer->type == FI_EP_MSG;

    return domain == NULL ||
           ((domain->name == NULL || strcmp(domain->name, nic->Name) == 0) &&
            mr_fits(hints, offer) && domain->mr_key_size <= sizeof(VIP_MEM_HANDLE) &&
            domain->cq_data_size <= offer->cq_data_bytes &&
            (!is_msg || domain->cq_data_size == 0 || (hints->mode & FI_RX_CQ_DATA) != 0) &&
            /* FI_EP_RDM endpoints move data only in calls of the program, never in a thread. */
            (is_msg || domain->data_progress != FI_PROGRESS_AUTO) && domain->mr_iov_limit <= 1 &&
            domain->max_ep_stx_ctx == 0 && domain->max_ep_srx_ctx == 0 &&
            (domain->caps & ~CAPS_DOMAIN) == 0 && domain->auth_key_size == 0);
}

static void fabric_name(const VIP_NIC_ATTRIBUTES *nic, char *ret, size_t bytes)
{
    snprintf(ret, bytes, "via:%s", nic->Name);
}

static bool fits(const struct fi_info *hints, const struct offer *offer,
                 const VIP_NIC_ATTRIBUTES *nic)
{
    char name[sizeof(nic->Name) + 8];

    if (hints == NULL)
        return true;
    fabric_name(nic, name, sizeof(name));
    return (hints->caps & ~(offer->caps | CAPS_DOMAIN)) == 0 &&
           (hints->addr_format == FI_FORMAT_UNSPEC || hints->addr_format == FI_SOCKADDR ||
            hints->addr_format == FI_SOCKADDR_IN ||
            (hints->addr_format == VIA_ADDR_FORMAT && offer->type == FI_EP_RDM)) &&
           tx_fits(hints->tx_attr, offer) && rx_fits(hints->rx_attr, offer) &&
           ep_fits(hints->ep_attr, offer) && domain_fits(hints, offer, nic) &&
           (hints->fabric_attr == NULL || hints->fabric_attr->name == NULL ||
            strcmp(hints->fabric_attr->name, name) == 0);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Return the offered capabilities that the program asks for, and those that they imply. */
static uint64_t answer_caps(uint64_t asked, const struct offer *offer)
{
    uint64_t caps = asked & offer->caps;

    if (caps == 0)
        return offer->caps | CAPS_DOMAIN;
    if ((caps & (FI_MSG | FI_TAGGED)) != 0 && (caps & (FI_SEND | FI_RECV)) == 0)
        caps |= FI_SEND | FI_RECV;
    if ((caps & FI_RMA) != 0 &&
        (caps & (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)) == 0)
        caps |= FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    return caps | CAPS_DOMAIN;
}

static void fill_queues(struct fi_info *info, const struct fi_info *hints,
                        const struct offer *offer)
{
    *info->tx_attr = (struct fi_tx_attr){
        .caps = info->caps & (FI_MSG | FI_TAGGED | FI_RMA | FI_SEND | FI_READ | FI_WRITE),
        .mode = info->mode,
        .msg_order = offer->order,
        .comp_order = offer->comp_order & FI_ORDER_STRICT,
        .inject_size = inject_bytes(offer),
        .size = VIA_QUEUE,
        .iov_limit = offer->iov_max,
        .rma_iov_limit = offer->rma_iov_max,
    };
    *info->rx_attr = (struct fi_rx_attr){
        .caps = info->caps & (FI_MSG | FI_TAGGED | FI_RMA | FI_RECV | FI_DIRECTED_RECV |
                              FI_REMOTE_READ | FI_REMOTE_WRITE),
        .mode = info->mode,
        .msg_order = offer->order,
        .comp_order = offer->comp_order & FI_ORDER_STRICT,
        .size = VIA_QUEUE,
        .iov_limit = offer->iov_max,
    };
    if (hints != NULL && hints->tx_attr != NULL) {
        info->tx_attr->op_flags = hints->tx_attr->op_flags;
        if (hints->tx_attr->size > 0)
            info->tx_attr->size = hints->tx_attr->size;
    }
    if (hints != NULL && hints->rx_attr != NULL) {
        info->rx_attr->op_flags = hints->rx_attr->op_flags;
        if (hints->rx_attr->size > 0)
            info->rx_attr->size = hints->rx_attr->size;
    }
    *info->ep_attr = (struct fi_ep_attr){
        .type = offer->type,
        .protocol = FI_PROTO_UNSPEC,
        .protocol_version = offer->type == FI_EP_MSG ? VIA_HELLO_VERSION : VIA_CHANNEL_VERSION,
        .max_msg_size = MESSAGE_MAX,
        .max_order_waw_size = offer->type == FI_EP_MSG ? MESSAGE_MAX : 0,
        .mem_tag_format = (info->caps & FI_TAGGED) != 0 ? TAG_FORMAT : 0,
        .tx_ctx_cnt = 1,
        .rx_ctx_cnt = 1,
    };
}

static void fill_domain(struct fi_info *info, const struct fi_info *hints,
                        const struct offer *offer, const VIP_NIC_ATTRIBUTES *nic)
{
    const struct fi_domain_attr *asked = hints == NULL ? NULL : hints->domain_attr;
    bool old = asked != NULL && (asked->mr_mode == FI_MR_UNSPEC || asked->mr_mode == FI_MR_BASIC);

    *info->domain_attr = (struct fi_domain_attr){
        .name = strdup(nic->Name),
        .threading = FI_THREAD_SAFE,
        .control_progress = FI_PROGRESS_AUTO,
        .data_progress = offer->type == FI_EP_MSG ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL,
        .resource_mgmt = FI_RM_ENABLED,
        .av_type = FI_AV_UNSPEC,
        .mr_mode = offer->mr_mode,
        .mr_key_size = sizeof(VIP_MEM_HANDLE),
        .cq_data_size = offer->type == FI_EP_MSG && (info->mode & FI_RX_CQ_DATA) == 0
                            ? 0
                            : offer->cq_data_bytes,
        .cq_cnt = nic->MaxCQ,
        .ep_cnt = nic->MaxVI,
        .tx_ctx_cnt = nic->MaxVI,
        .rx_ctx_cnt = nic->MaxVI,
        .max_ep_tx_ctx = 1,
        .max_ep_rx_ctx = 1,
        .mr_iov_limit = 1,
        .caps = CAPS_DOMAIN,
        .max_err_data = VIA_CM_DATA_MAX,
        .mr_cnt = nic->MaxRegisterRegions,
    };
    if (old) {
        info->domain_attr->mr_mode = asked->mr_mode;
        if (offer->mr_mode != 0) {
            info->domain_attr->mr_mode = FI_MR_BASIC;
            info->mode |= FI_LOCAL_MR;
        }
    } else if (asked != NULL) {
        info->domain_attr->mr_mode = asked->mr_mode & offer->mr_mode;
    }
    if (asked == NULL)
        return;
    if (offer->type == FI_EP_RDM)
        info->domain_attr->av_type = asked->av_type;
    /* Return the modes that the program asks for. domain_fits has refused unsupported modes. */
    if (asked->threading != FI_THREAD_UNSPEC)
        info->domain_attr->threading = asked->threading;
    if (asked->control_progress != FI_PROGRESS_UNSPEC)
        info->domain_attr->control_progress = asked->control_progress;
    if (asked->data_progress != FI_PROGRESS_UNSPEC)
        info->domain_attr->data_progress = asked->data_progress;
    if (asked->resource_mgmt != FI_RM_UNSPEC)
        info->domain_attr->resource_mgmt = asked->resource_mgmt;
}

/* Copy an address, with its key if `keyed` is set. */
static void *copy_address(const struct via_name *name, bool keyed, size_t *ret_bytes)
{
    struct via_name *copy = malloc(sizeof(*copy));

    if (copy != NULL) {
        *copy = *name;
        *ret_bytes = keyed ? sizeof(*copy) : sizeof(copy->at);
    }
    return copy;
}

/* Make the fi_info of an offer. dest: has family 0 if there is no destination. Returns NULL if
 * there is no memory. */
static struct fi_info *describe(const VIP_NIC_ATTRIBUTES *nic, const struct fi_info *hints,
                                const struct offer *offer, const struct via_name *src,
                                const struct via_name *dest)
{
    struct fi_info *info = fi_allocinfo();
    bool keyed =
        offer->type == FI_EP_RDM && (hints == NULL || hints->addr_format == FI_FORMAT_UNSPEC ||
                                     hints->addr_format == VIA_ADDR_FORMAT);
    char name[sizeof(nic->Name) + 8];

    if (info == NULL)
        return NULL;
    fabric_name(nic, name, sizeof(name));
    info->caps = answer_caps(hints == NULL ? 0 : hints->caps, offer);
    /* A peer's RDMA Write with immediate data uses up a receive descriptor: FI_RX_CQ_DATA. */
    if (offer->type == FI_EP_MSG && (hints == NULL || (hints->mode & FI_RX_CQ_DATA) != 0))
        info->mode = FI_RX_CQ_DATA;
    info->addr_format = keyed ? VIA_ADDR_FORMAT : FI_SOCKADDR_IN;
    fill_domain(info, hints, offer, nic);
    fill_queues(info, hints, offer);
    info->fabric_attr->name = strdup(name);
    info->fabric_attr->prov_version = via_provider.version;
    info->fabric_attr->api_version = via_provider.fi_version;
    info->src_addr = copy_address(src, keyed, &info->src_addrlen);
    if (dest->at.sin_family == AF_INET)
        info->dest_addr = copy_address(dest, keyed, &info->dest_addrlen);
    if (info->domain_attr->name == NULL || info->fabric_attr->name == NULL ||
        info->src_addr == NULL || (dest->at.sin_family == AF_INET && info->dest_addr == NULL)) {
        fi_freeinfo(info);
        return NULL;
    }
    return info;
}

/* ---- addresses of the call ------------------------------------------------------------------- */

static int resolve(const char *node, const char *service, uint64_t flags, struct sockaddr_in *ret)
{
    struct addrinfo ask = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list;

    if ((flags & FI_NUMERICHOST) != 0)
        ask.ai_flags |= AI_NUMERICHOST;
    if ((flags & FI_SOURCE) != 0)
        ask.ai_flags |= AI_PASSIVE;
    if (getaddrinfo(node, service, &ask, &list) != 0)
        return -FI_ENODATA;
    memcpy(ret, list->ai_addr, sizeof(*ret));
    freeaddrinfo(list);
    return 0;
}

/* Read an address that the program gives as struct via_name or struct sockaddr_in. */
static int take_address(const void *addr, size_t bytes, struct via_name *ret)
{
    if (addr == NULL || bytes == 0)
        return 0;
    if (bytes < sizeof(ret->at))
        return -FI_EINVAL;
    memcpy(ret, addr, bytes >= sizeof(*ret) ? sizeof(*ret) : sizeof(ret->at));
    return ret->at.sin_family == AF_INET ? 0 : -FI_ENODATA;
}

/* Find the source and the destination in the parameters of fi_getinfo. A missing address gets
 * family 0. */
static int addresses(const char *node, const char *service, uint64_t flags,
                     const struct fi_info *hints, struct via_name *src, struct via_name *dest)
{
    int rc = 0;

    memset(src, 0, sizeof(*src));
    memset(dest, 0, sizeof(*dest));
    if (hints != NULL)
        rc = take_address(hints->src_addr, hints->src_addrlen, src);
    if (rc == 0 && hints != NULL)
        rc = take_address(hints->dest_addr, hints->dest_addrlen, dest);
    if (rc == 0 && (node != NULL || service != NULL)) {
        bool source = (flags & FI_SOURCE) != 0;

        /* Without a node and FI_SOURCE, ignore the service, as other providers do. */
        if (source || node != NULL)
            rc = resolve(node, service, flags, source ? &src->at : &dest->at);
    }
    return rc;
}

/* Append the fi_info entries of one NIC to the list, at *end. Outcomes: 0; -FI_ENOMEM. */
static int answer(unsigned nic, const struct fi_info *hints, const struct via_name *src,
                  const struct via_name *dest, struct fi_info ***end)
{
    struct via_name own = {.key = {{0}}};

    via_addr_from_host(known.host[nic], &own.at);
    if (src->at.sin_family == AF_INET && src->at.sin_addr.s_addr != htonl(INADDR_ANY) &&
        src->at.sin_addr.s_addr != own.at.sin_addr.s_addr)
        return 0;
    own.at.sin_port = src->at.sin_port;
    for (size_t i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
        if (!fits(hints, &offers[i], &known.attrs[nic]))
            continue;
        **end = describe(&known.attrs[nic], hints, &offers[i], &own, dest);
        if (**end == NULL)
            return -FI_ENOMEM;
        *end = &(**end)->next;
    }
    return 0;
}

int via_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **ret)
{
    struct via_name src, dest;
    struct fi_info *first = NULL, **end = &first;
    int rc = addresses(node, service, flags, hints, &src, &dest);

    if (rc != 0)
        return rc;
    pthread_mutex_lock(&known.lock);
    query_all();
    for (unsigned i = 0; i < known.count && rc == 0; i++)
        rc = answer(i, hints, &src, &dest, &end);
    pthread_mutex_unlock(&known.lock);
    if (rc == 0 && first == NULL)
        rc = -FI_ENODATA;
    if (rc != 0)
        fi_freeinfo(first);
    else
        *ret = first;
    return rc;
}
