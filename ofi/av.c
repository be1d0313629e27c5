/*
 * Address vectors: socket addresses with keys, numbered in the order of insertion. In both kinds of
 * vectors (FI_AV_TABLE and FI_AV_MAP) this number is the fi_addr_t. The number of a removed
 * address is not used again, so endpoints may remember which peer belongs to a number.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "ofi/nosys.h"
#include "ofi/rdm.h"

/* Insert an address and return its number. FI_ADDR_NOTAVAIL: the address is not IPv4, or no memory.
 * Under av->lock. */
static fi_addr_t insert_one(struct via_av *av, const struct via_name *name)
{
    if (name->at.sin_family != AF_INET)
        return FI_ADDR_NOTAVAIL;
    if (av->count == av->room) {
        size_t room = av->room == 0 ? 16 : 2 * av->room;
        struct via_name *grown = realloc(av->name, room * sizeof(*grown));

        if (grown == NULL)
            return FI_ADDR_NOTAVAIL;
        av->name = grown;
        av->room = room;
    }
    av->name[av->count] = *name;
    return av->count++;
}

/* Insert `count` addresses of `bytes` bytes each. */
static int insert(struct via_av *av, const char *addr, size_t bytes, size_t count, fi_addr_t *ret,
                  uint64_t flags, void *context)
{
    int done = 0;

    if ((flags & FI_SYNC_ERR) != 0 && context != NULL)
        memset(context, 0, count * sizeof(int));
    pthread_mutex_lock(&av->lock);
    for (size_t i = 0; i < count; i++) {
        struct via_name one = {.key = {{0}}};
        fi_addr_t number;

        memcpy(&one, addr + i * bytes, bytes);
        number = insert_one(av, &one);
        done += number != FI_ADDR_NOTAVAIL;
        if (ret != NULL)
            ret[i] = number;
        if (number == FI_ADDR_NOTAVAIL && (flags & FI_SYNC_ERR) != 0 && context != NULL)
            ((int *)context)[i] = FI_EINVAL;
    }
    pthread_mutex_unlock(&av->lock);
    return done;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *ret,
                     uint64_t flags, void *context)
{
    struct via_av *av = via_container(fid, struct via_av, fid);
    size_t bytes = av->domain->keyed ? sizeof(struct via_name) : sizeof(struct sockaddr_in);

    return insert(av, addr, bytes, count, ret, flags, context);
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *ret,
                        uint64_t flags, void *context)
{
    struct addrinfo ask = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list;
    int done;

    if (node == NULL || service == NULL || getaddrinfo(node, service, &ask, &list) != 0)
        return -FI_EINVAL;
    done = insert(via_container(fid, struct via_av, fid), (const char *)list->ai_addr,
                  sizeof(struct sockaddr_in), 1, ret, flags, context);
    freeaddrinfo(list);
    return done;
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodes, const char *service,
                        size_t services, fi_addr_t *ret, uint64_t flags, void *context)
{
    return -FI_ENOSYS;
}

static int av_remove(struct fid_av *fid, fi_addr_t *list, size_t count, uint64_t flags)
{
    struct via_av *av = via_container(fid, struct via_av, fid);
    int rc = 0;

    pthread_mutex_lock(&av->lock);
    for (size_t i = 0; i < count; i++) {
        if (list[i] >= av->count)
            rc = -FI_EINVAL;
        else
            av->name[list[i]].at.sin_family = AF_UNSPEC;
    }
    pthread_mutex_unlock(&av->lock);
    return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t number, void *addr, size_t *bytes)
{
    struct via_av *av = via_container(fid, struct via_av, fid);
    struct via_name one = {.key = {{0}}};

    pthread_mutex_lock(&av->lock);
    if (number < av->count)
        one = av->name[number];
    pthread_mutex_unlock(&av->lock);
    if (one.at.sin_family != AF_INET)
        return -FI_EINVAL;
    return via_name_copy(av->domain, &one, addr, bytes);
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *bytes)
{
    char host[INET_ADDRSTRLEN], text[64];
    struct sockaddr_in one;
    int length;

    memcpy(&one, addr, sizeof(one));
    inet_ntop(AF_INET, &one.sin_addr, host, sizeof(host));
    length =
        snprintf(text, sizeof(text), "fi_sockaddr_in://%s:%u", host, (unsigned)ntohs(one.sin_port));
    snprintf(buf, *bytes, "%s", text);
    *bytes = (size_t)length + 1;
    return buf;
}

static int av_close(struct fid *fid)
{
    struct via_av *av = via_container(fid, struct via_av, fid.fid);

    if (__atomic_load_n(&av->users, __ATOMIC_ACQUIRE) != 0)
        return -FI_EBUSY;
    __atomic_sub_fetch(&av->domain->users, 1, __ATOMIC_RELEASE);
    pthread_mutex_destroy(&av->lock);
    free(av->name);
    free(av);
    return 0;
}

static struct fi_ops av_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = av_close,
    .bind = via_no_bind,
    .control = via_no_control,
    .ops_open = via_no_ops_open,
    .tostr = via_no_tostr,
    .ops_set = via_no_ops_set,
};

static struct fi_ops_av av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = av_insert,
    .insertsvc = av_insertsvc,
    .insertsym = av_insertsym,
    .remove = av_remove,
    .lookup = av_lookup,
    .straddr = av_straddr,
    .av_set = via_no_av_set,
};

int via_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **ret, void *context)
{
    struct via_domain *domain = via_container(fid, struct via_domain, fid);
    struct via_av *av;

    /* Two things are not supported: insertion with events, and vectors of several processes. */
    if (attr == NULL || attr->name != NULL || (attr->flags & FI_EVENT) != 0 ||
        attr->rx_ctx_bits != 0)
        return attr == NULL ? -FI_EINVAL : -FI_ENOSYS;
    av = calloc(1, sizeof(*av));
    if (av == NULL)
        return -FI_ENOMEM;
    pthread_mutex_init(&av->lock, NULL);
    av->domain = domain;
    av->type = attr->type == FI_AV_UNSPEC ? FI_AV_TABLE : attr->type;
    attr->type = av->type;
    __atomic_add_fetch(&domain->users, 1, __ATOMIC_RELAXED);
    av->fid.fid.fclass = FI_CLASS_AV;
    av->fid.fid.context = context;
    av->fid.fid.ops = &av_fid_ops;
    av->fid.ops = &av_ops;
    *ret = &av->fid;
    return 0;
}
