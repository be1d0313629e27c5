/*
 * Bundles and endpoints: making, moving and freeing them; the names of endpoints.
 */
#include "am/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Entries of a completion queue. If more completions come, vipd keeps them until there is room. */
#define CQ_ENTRIES 4096

/* Discriminator of a known endpoint's listener: a fixed prefix, then the port. Discriminators of
 * VipxNewDiscriminator never have this prefix. */
#define KNOWN_PROCESS(port) (0x414D4B4E00000000u | (uint32_t)(port))

/*
 * am_ep_flush waits at most this many ns until the endpoint's messages have left. Normally the wait
 * ends when they have left, or when the connection ends. The limit is for a peer that is stopped
 * and acknowledges nothing. The limit is longer than the delays of a busy machine.
 */
#define AM_FLUSH_NS 30000000000LL

/* ---- names ----------------------------------------------------------------------------------- */

static en_t make_name(uint64_t process, uint32_t number)
{
    en_t name;

    memset(&name, 0, sizeof(name));
    name.process = process;
    name.number = number;
    name.host_bytes = am_net.attrs.NicAddressLen;
    memcpy(name.host, am_net.attrs.LocalNicAddress, name.host_bytes);
    return name;
}

int amvia_KnownName(const char *host, int port, en_t *name)
{
    char room[AM_ADDRESS_BYTES + 256];
    VIP_NET_ADDRESS *addr = (VIP_NET_ADDRESS *)room;

    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "amvia_KnownName: AM_Init was not called");
    if (name == NULL || port < 1)
        return am_fail(AM_ERR_BAD_ARG, "amvia_KnownName: %s",
                       name == NULL ? "NULL" : "a port is 1 to 2^31 - 1");
    *name = make_name(KNOWN_PROCESS(port), (uint32_t)port | AM_KNOWN_BIT);
    if (host == NULL)
        return AM_OK;
    memset(room, 0, sizeof(room));
    if (VipNSGetHostByName(am_net.nic, (char *)(uintptr_t)host, addr, 0) != VIP_SUCCESS ||
        addr->HostAddressLen > sizeof(name->host))
        return am_fail(AM_ERR_RESOURCE, "amvia_KnownName: %s", VipxLastError());
    memset(name->host, 0, sizeof(name->host));
    name->host_bytes = addr->HostAddressLen;
    memcpy(name->host, addr->HostAddress, addr->HostAddressLen);
    return AM_OK;
}

/* Under am_net.lock. */
static void ep_enter(struct am_ep *ep)
{
    struct am_ep **at = &am_net.known[ep->name.number % AM_EP_BUCKETS];

    ep->next_known = *at;
    *at = ep;
}

static void ep_leave(struct am_ep *ep)
{
    struct am_ep **at = &am_net.known[ep->name.number % AM_EP_BUCKETS];

    while (*at != ep)
        at = &(*at)->next_known;
    *at = ep->next_known;
}

/* ---- bundles --------------------------------------------------------------------------------- */

static int make_queues(struct am_bundle *bundle)
{
    if (VipCreateCQ(am_net.nic, CQ_ENTRIES, &bundle->send_cq) != VIP_SUCCESS)
        return am_fail(AM_ERR_RESOURCE, "AM_AllocateBundle: %s", VipxLastError());
    if (VipCreateCQ(am_net.nic, CQ_ENTRIES, &bundle->recv_cq) != VIP_SUCCESS) {
        (void)VipDestroyCQ(bundle->send_cq);
        return am_fail(AM_ERR_RESOURCE, "AM_AllocateBundle: %s", VipxLastError());
    }
    bundle->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bundle->wake_fd >= 0)
        return AM_OK;
    (void)VipDestroyCQ(bundle->send_cq);
    (void)VipDestroyCQ(bundle->recv_cq);
    return am_fail(AM_ERR_RESOURCE, "AM_AllocateBundle: no eventfd (RLIMIT_NOFILE)");
}

int AM_AllocateBundle(int type, eb_t *endb)
{
    struct am_bundle *bundle;
    int rc;

    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_AllocateBundle: AM_Init was not called");
    if (endb == NULL || (type != AM_SEQ && type != AM_PAR))
        return am_fail(AM_ERR_BAD_ARG, "AM_AllocateBundle: %s",
                       endb == NULL ? "NULL" : "neither AM_SEQ nor AM_PAR");
    bundle = calloc(1, sizeof(*bundle));
    if (bundle == NULL)
        return am_fail(AM_ERR_RESOURCE, "AM_AllocateBundle: no memory");
    bundle->par = type == AM_PAR;
    bundle->cq_fd = -1;
    rc = make_queues(bundle);
    if (rc != AM_OK) {
        free(bundle);
        return rc;
    }
    pthread_mutex_init(&bundle->lock, NULL);
    pthread_mutex_lock(&am_net.lock);
    bundle->next = am_net.bundles;
    if (bundle->next != NULL)
        bundle->next->prev = bundle;
    am_net.bundles = bundle;
    pthread_mutex_unlock(&am_net.lock);
    *endb = bundle;
    return AM_OK;
}

int AM_FreeBundle(eb_t bundle)
{
    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_FreeBundle: AM_Init was not called");
    if (bundle == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_FreeBundle: NULL");
    while (bundle->eps != NULL) {
        int rc = AM_FreeEndpoint(bundle->eps);

        if (rc != AM_OK)
            return rc;
    }
    pthread_mutex_lock(&am_net.lock);
    if (bundle->next != NULL)
        bundle->next->prev = bundle->prev;
    if (bundle->prev != NULL)
        bundle->prev->next = bundle->next;
    else
        am_net.bundles = bundle->next;
    pthread_mutex_unlock(&am_net.lock);
    (void)VipDestroyCQ(bundle->send_cq);
    (void)VipDestroyCQ(bundle->recv_cq);
    close(bundle->wake_fd);
    pthread_mutex_destroy(&bundle->lock);
    free(bundle);
    return AM_OK;
}

/* ---- endpoints ------------------------------------------------------------------------------- */

static void ep_link(struct am_ep *ep, struct am_bundle *bundle)
{
    ep->bundle = bundle;
    ep->prev = NULL;
    ep->next = bundle->eps;
    if (ep->next != NULL)
        ep->next->prev = ep;
    bundle->eps = ep;
}

static void ep_unlink(struct am_ep *ep)
{
    if (ep->next != NULL)
        ep->next->prev = ep->prev;
    if (ep->prev != NULL)
        ep->prev->next = ep->next;
    else
        ep->bundle->eps = ep->next;
}

static struct am_ep *ep_new(void)
{
    struct am_ep *ep = calloc(1, sizeof(*ep));

    if (ep == NULL)
        return NULL;
    ep->trans_count = AM_TRANSLATIONS_MIN;
    ep->trans = calloc(AM_TRANSLATIONS_MIN, sizeof(*ep->trans));
    if (ep->trans == NULL) {
        free(ep);
        return NULL;
    }
    ep->tag = AM_NONE;
    ep->handler[0] = (amvia_handler_fn_t)am_default_returned;
    ep->self.ep = ep;
    ep->self.entry = -1;
    return ep;
}

/* Make an endpoint. If `port` is 0, it has no port. */
static int allocate(struct am_bundle *bundle, int port, struct am_ep **ret)
{
    struct am_ep *ep;
    int rc = AM_OK;

    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_AllocateEndpoint: AM_Init was not called");
    if (bundle == NULL || ret == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_AllocateEndpoint: NULL");
    ep = ep_new();
    if (ep == NULL)
        return am_fail(AM_ERR_RESOURCE, "AM_AllocateEndpoint: no memory");
    am_lock(bundle);
    pthread_mutex_lock(&am_net.lock);
    if (port != 0)
        ep->name = make_name(KNOWN_PROCESS(port), (uint32_t)port | AM_KNOWN_BIT);
    else
        ep->name = make_name(am_net.process, ++am_net.next_number & ~AM_KNOWN_BIT);
    ep->self.name = ep->name;
    if (am_ep_find(ep->name.number) != NULL)
        rc = AM_ERR_IN_USE;
    else
        ep_enter(ep);
    if (rc == AM_OK)
        ep_link(ep, bundle);
    pthread_mutex_unlock(&am_net.lock);
    am_unlock(bundle);
    if (rc == AM_OK) {
        *ret = ep;
        return AM_OK;
    }
    free(ep->trans);
    free(ep);
    return am_fail(rc, "AM_AllocateKnownEndpoint: port %d has an endpoint in this process", port);
}

int AM_AllocateEndpoint(eb_t bundle, ep_t *endp, en_t *name)
{
    int rc = allocate(bundle, 0, endp);

    if (rc == AM_OK && name != NULL)
        *name = (*endp)->name;
    return rc;
}

int AM_AllocateKnownEndpoint(eb_t bundle, ep_t *endp, en_t **name, int port)
{
    struct am_ep *ep = NULL;
    int rc;

    if (port < 1)
        return am_fail(AM_ERR_BAD_ARG, "AM_AllocateKnownEndpoint: a port is 1 to 2^31 - 1");
    rc = allocate(bundle, port, &ep);
    if (rc != AM_OK)
        return rc;
    rc = am_listen(ep->name.process, &ep->listener);
    if (rc == AM_OK)
        rc = am_service_listen(ep->listener);
    if (rc != AM_OK) {
        (void)AM_FreeEndpoint(ep);
        return rc;
    }
    *endp = ep;
    if (name != NULL)
        *name = &ep->name;
    return AM_OK;
}

/* From now on the service thread makes no connection for this endpoint. It refuses each caller; if
 * the endpoint moves, the caller must call again. */
static void ep_shut(struct am_ep *ep, bool moves)
{
    pthread_mutex_lock(&am_net.lock);
    ep->closing = !moves;
    ep->moving = moves;
    am_service_judge(ep);
    am_net.doubts -= ep->crowded;
    ep->crowded = false;
    while (ep->pins > 0)
        pthread_cond_wait(&am_net.changed, &am_net.lock);
    pthread_mutex_unlock(&am_net.lock);
    am_bundle_adopt(ep->bundle);
}

/* Remove the endpoint's messages from a queue. */
static void purge(struct am_queue *queue, const struct am_ep *ep)
{
    struct am_arrival **at = &queue->first, *arrival;

    queue->last = NULL;
    while ((arrival = *at) != NULL) {
        if (arrival->lane->conn->map->ep == ep) {
            arrival->lane->conn->running--;
            *at = arrival->next;
        } else {
            queue->last = arrival;
            at = &arrival->next;
        }
    }
}

void am_ep_flush(struct am_ep *ep)
{
    int64_t until = am_now_ns() + AM_FLUSH_NS;
    unsigned turns = 0;

    for (unsigned i = 0; i < AM_MAP_BUCKETS; i++)
        for (struct am_map *map = ep->map_bucket[i]; map != NULL; map = map->next)
            while (map->conn != NULL && !am_conn_sent(map->conn) && am_now_ns() < until) {
                am_reap(ep->bundle);
                am_pause(ep->bundle, turns++);
            }
}

/* End the endpoint's connections, without running handlers. */
static void break_all(struct am_ep *ep)
{
    struct am_bundle *bundle = ep->bundle;
    struct am_conn **at = &bundle->dead, *conn;

    for (unsigned i = 0; i < AM_MAP_BUCKETS; i++)
        for (struct am_map *map = ep->map_bucket[i]; map != NULL; map = map->next) {
            map->waiters++; /* so that am_map_drop does not free the map in this loop */
            if (map->conn != NULL)
                am_conn_broken(map->conn);
            map->waiters--;
        }
    while ((conn = *at) != NULL) {
        if (conn->map->ep != ep) {
            at = &conn->next;
            continue;
        }
        *at = conn->next;
        am_map_bury(conn);
    }
}

static void drop_maps(struct am_ep *ep)
{
    pthread_mutex_lock(&am_net.lock);
    for (unsigned i = 0; i < AM_MAP_BUCKETS; i++) {
        struct am_map *map;

        while ((map = ep->map_bucket[i]) != NULL) {
            ep->map_bucket[i] = map->next;
            free(map);
        }
    }
    pthread_mutex_unlock(&am_net.lock);
}

int AM_FreeEndpoint(ep_t ep)
{
    struct am_bundle *bundle;

    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_FreeEndpoint: AM_Init was not called");
    if (ep == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_FreeEndpoint: NULL");
    bundle = ep->bundle;
    am_lock(bundle);
    if (ep->busy) {
        am_unlock(bundle);
        return am_fail(AM_ERR_RESOURCE, "AM_FreeEndpoint: a handler of this endpoint runs");
    }
    ep_shut(ep, false);
    am_ep_flush(ep);
    purge(&bundle->requests, ep);
    purge(&bundle->replies, ep);
    break_all(ep);
    pthread_mutex_lock(&am_net.lock);
    ep_leave(ep);
    pthread_mutex_unlock(&am_net.lock);
    drop_maps(ep);
    ep_unlink(ep);
    am_unlock(bundle);
    if (ep->listener != NULL)
        am_service_unlisten(ep->listener);
    am_segment_drop(ep);
    free(ep->loop_medium[0]);
    free(ep->loop_medium[1]);
    free(ep->trans);
    free(ep);
    return AM_OK;
}

/* Close all connections of the endpoint by agreement. */
static void close_all(struct am_ep *ep)
{
    unsigned empty = 0, open;

    do {
        open = 0;
        for (unsigned i = 0; i < AM_MAP_BUCKETS; i++)
            for (struct am_map *map = ep->map_bucket[i]; map != NULL; map = map->next) {
                if (map->conn != NULL)
                    am_conn_close(map->conn);
                open += map->conns;
            }
        if (open > 0 && am_poll(ep->bundle) == 0)
            am_pause(ep->bundle, empty++);
    } while (open > 0);
}

int AM_MoveEndpoint(ep_t ep, eb_t from, eb_t to)
{
    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_MoveEndpoint: AM_Init was not called");
    if (ep == NULL || from == NULL || to == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_MoveEndpoint: NULL");
    if (ep->bundle != from)
        return am_fail(AM_ERR_RESOURCE, "AM_MoveEndpoint: the endpoint is not in that bundle");
    if (am_in_handler > 0)
        return am_fail(AM_ERR_RESOURCE, "AM_MoveEndpoint: not in handlers");
    if (from == to)
        return AM_OK;
    /* A VI cannot change its completion queues. Close the connections; requests make new ones. */
    am_lock(from);
    ep_shut(ep, true);
    close_all(ep);
    pthread_mutex_lock(&am_net.lock);
    ep_unlink(ep);
    pthread_mutex_unlock(&am_net.lock);
    am_unlock(from);
    am_lock(to);
    pthread_mutex_lock(&am_net.lock);
    ep_link(ep, to);
    ep->moving = false;
    pthread_mutex_unlock(&am_net.lock);
    am_unlock(to);
    return AM_OK;
}

int AM_SetExpectedResources(ep_t ep, int n_endpoints, int n_outstanding_requests)
{
    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_SetExpectedResources: AM_Init was not called");
    if (ep == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_SetExpectedResources: NULL");
    if (ep->depth != 0)
        return am_fail(AM_ERR_RESOURCE, "AM_SetExpectedResources: called before");
    if (n_outstanding_requests < 1 || n_outstanding_requests > AM_DEPTH_ASK_MAX)
        return am_fail(AM_ERR_BAD_ARG,
                       "AM_SetExpectedResources: %d outstanding requests; 1 to %d are possible",
                       n_outstanding_requests, AM_DEPTH_ASK_MAX);
    (void)n_endpoints;
    ep->depth = n_outstanding_requests > (int)AM_DEPTH_MAX ? AM_DEPTH_MAX
                                                           : (unsigned)n_outstanding_requests;
    return AM_OK;
}
