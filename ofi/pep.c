/*
 * Passive endpoints: an address of this host, and a listener on the discriminator of its port.
 *
 * Ports have 16 bits, because ofi_rxm and MPI exchange ports of 16 bits. The discriminators of
 * VipxNewDiscriminator are longer, and VIPL lets several programs of a user listen at one
 * discriminator. So a TCP socket reserves the port: while the socket is bound, the kernel gives the
 * port to no other program. The socket carries no data. But a VIPL program of another user may
 * listen at the same discriminator without a TCP socket. In this case the provider tries another
 * port, unless the program has chosen the port.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ofi/calls.h"
#include "ofi/nosys.h"

/* Reserve the port own.sin_port. If own.sin_port is 0, reserve a free port and store it there.
 * Outcomes: 0; negative error. */
static int reserve_port(struct via_pep *pep)
{
    struct sockaddr_in addr = pep->own;
    socklen_t bytes = sizeof(addr);
    int rc;

    pep->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (pep->port_fd < 0)
        return -errno;
    rc = bind(pep->port_fd, (struct sockaddr *)&addr, sizeof(addr));
    if (rc < 0 && errno == EADDRNOTAVAIL) {
        /* vipd runs in another network namespace: this namespace does not have its address. */
        addr.sin_addr.s_addr = htonl(INADDR_ANY);
        rc = bind(pep->port_fd, (struct sockaddr *)&addr, sizeof(addr));
    }
    if (rc == 0)
        rc = getsockname(pep->port_fd, (struct sockaddr *)&addr, &bytes);
    if (rc < 0) {
        rc = -errno;
        close(pep->port_fd);
        pep->port_fd = -1;
        return rc;
    }
    pep->own.sin_port = addr.sin_port;
    return 0;
}

/* Most ports that an endpoint tries while other programs use their discriminators. */
#define PORT_TRIES 64

static VIP_RETURN listen_at_port(struct via_pep *pep)
{
    union via_net_address addr;
    VIP_RETURN code;

    via_net_address(&pep->own, &pep->fabric->attrs, &addr);
    code = VipxListen(pep->fabric->nic, &addr.net, VIPX_BACKLOG_MAX, &pep->listener);
    if (code != VIP_SUCCESS)
        VIA_WARN(FI_LOG_EP_CTRL, "VipxListen at port %u: %s\n", ntohs(pep->own.sin_port),
                 VipxLastError());
    return code;
}

/* Give the endpoint a port and a listener. Outcomes: 0; negative error. */
static int listen_somewhere(struct via_pep *pep)
{
    in_port_t chosen = pep->own.sin_port;
    int refused[PORT_TRIES], count = 0, rc;
    VIP_RETURN code;

    for (;;) {
        rc = reserve_port(pep);
        if (rc != 0)
            break;
        code = listen_at_port(pep);
        rc = via_errno(code);
        if (code == VIP_SUCCESS)
            break;
        /* Keep this port reserved until the end, so that the kernel next gives another port. */
        refused[count++] = pep->port_fd;
        pep->port_fd = -1;
        pep->own.sin_port = chosen;
        if (chosen != 0 || code != VIP_ERROR_RESOURCE || count == PORT_TRIES)
            break;
    }
    while (count > 0)
        close(refused[--count]);
    return rc;
}

static int pep_listen(struct fid_pep *fid)
{
    struct via_pep *pep = via_container(fid, struct via_pep, fid);
    int rc;

    if (pep->eq == NULL)
        return -FI_ENOEQ;
    if (pep->listener != NULL)
        return -FI_EALREADY;
    rc = listen_somewhere(pep);
    return rc == 0 ? via_cm_listen(pep) : rc;
}

static int pep_reject(struct fid_pep *fid, fid_t handle, const void *param, size_t bytes)
{
    struct via_request *request = via_container(handle, struct via_request, fid);
    struct via_hello hello = {.version = VIA_HELLO_VERSION, .user_bytes = (uint8_t)bytes};
    VIPX_PRIVATE_DATA data = {.Length = sizeof(hello) + bytes};

    if (handle == NULL || handle->fclass != FI_CLASS_CONNREQ || bytes > VIA_CM_DATA_MAX)
        return -FI_EINVAL;
    memcpy(data.Data, &hello, sizeof(hello));
    if (bytes > 0)
        memcpy(data.Data + sizeof(hello), param, bytes);
    /* Ignore a failure of the reject: it means that the client has ended meanwhile. */
    VipxConnectReject(request->conn, &data);
    free(request);
    return 0;
}

static int pep_setname(fid_t fid, void *addr, size_t bytes)
{
    struct via_pep *pep = via_container(fid, struct via_pep, fid.fid);
    struct sockaddr_in name;

    if (pep->listener != NULL)
        return -FI_EOPBADSTATE;
    if (bytes < sizeof(name))
        return -FI_EINVAL;
    memcpy(&name, addr, sizeof(name));
    if (name.sin_family != AF_INET || (name.sin_addr.s_addr != htonl(INADDR_ANY) &&
                                       name.sin_addr.s_addr != pep->own.sin_addr.s_addr))
        return -FI_EADDRNOTAVAIL;
    pep->own.sin_port = name.sin_port;
    return 0;
}

static int pep_getname(fid_t fid, void *addr, size_t *bytes)
{
    return via_addr_copy(&via_container(fid, struct via_pep, fid.fid)->own, addr, bytes);
}

static int pep_getopt(fid_t fid, int level, int name, void *value, size_t *bytes)
{
    size_t answer = VIA_CM_DATA_MAX;

    if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE)
        return -FI_ENOPROTOOPT;
    if (*bytes < sizeof(answer)) {
        *bytes = sizeof(answer);
        return -FI_ETOOSMALL;
    }
    memcpy(value, &answer, sizeof(answer));
    *bytes = sizeof(answer);
    return 0;
}

static int pep_setopt(fid_t fid, int level, int name, const void *value, size_t bytes)
{
    return -FI_ENOPROTOOPT;
}

static ssize_t pep_cancel(fid_t fid, void *context)
{
    return -FI_ENOSYS;
}

static int pep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct via_pep *pep = via_container(fid, struct via_pep, fid.fid);

    if (other->fclass != FI_CLASS_EQ)
        return -FI_EINVAL;
    pep->eq = via_container(other, struct via_eq, fid.fid);
    return 0;
}

static int pep_close(struct fid *fid)
{
    struct via_pep *pep = via_container(fid, struct via_pep, fid.fid);

    if (pep->listener != NULL) {
        via_cm_unlisten(pep);
        VipxListenClose(pep->listener);
    }
    if (pep->eq != NULL)
        via_eq_forget(pep->eq, fid);
    if (pep->port_fd >= 0)
        close(pep->port_fd);
    __atomic_sub_fetch(&pep->fabric->users, 1, __ATOMIC_RELEASE);
    fi_freeinfo(pep->info);
    free(pep);
    return 0;
}

static int pep_getpeer(struct fid_ep *fid, void *addr, size_t *bytes)
{
    return -FI_ENOTCONN;
}

static struct fi_ops pep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = pep_close,
    .bind = pep_bind,
    .control = via_no_control,
    .ops_open = via_no_ops_open,
    .tostr = via_no_tostr,
    .ops_set = via_no_ops_set,
};

static struct fi_ops_ep pep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = pep_cancel,
    .getopt = pep_getopt,
    .setopt = pep_setopt,
    .tx_ctx = via_no_tx_ctx,
    .rx_ctx = via_no_rx_ctx,
    .rx_size_left = via_no_size_left,
    .tx_size_left = via_no_size_left,
};

static struct fi_ops_cm pep_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = pep_setname,
    .getname = pep_getname,
    .getpeer = pep_getpeer,
    .connect = via_no_connect,
    .listen = pep_listen,
    .accept = via_no_accept,
    .reject = pep_reject,
    .shutdown = via_no_shutdown,
    .join = via_no_join,
};

int via_pep_open(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **ret, void *context)
{
    struct via_fabric *fabric = via_container(fid, struct via_fabric, fid);
    struct via_pep *pep;

    if (info == NULL || info->ep_attr == NULL || info->ep_attr->type != FI_EP_MSG)
        return -FI_EINVAL;
    pep = calloc(1, sizeof(*pep));
    if (pep != NULL)
        pep->info = fi_dupinfo(info);
    if (pep == NULL || pep->info == NULL) {
        free(pep);
        return -FI_ENOMEM;
    }
    pep->fabric = fabric;
    pep->own = fabric->addr;
    pep->port_fd = -1;
    if (info->src_addr != NULL && info->src_addrlen >= sizeof(struct sockaddr_in))
        pep->own.sin_port = ((const struct sockaddr_in *)info->src_addr)->sin_port;
    __atomic_add_fetch(&fabric->users, 1, __ATOMIC_RELAXED);
    pep->fid.fid.fclass = FI_CLASS_PEP;
    pep->fid.fid.context = context;
    pep->fid.fid.ops = &pep_fid_ops;
    pep->fid.ops = &pep_ops;
    pep->fid.cm = &pep_cm_ops;
    *ret = &pep->fid;
    return 0;
}
