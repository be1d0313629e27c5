/*
 * Making connections. The fabric's thread calls via_cm_round, which sleeps on the descriptors of
 * all listeners and of all attempts to connect (vipl_ext.h), and makes events of the results.
 * VipxConnectAccept waits for the client, so separate threads call it: at most FI_VIA_CM_THREADS,
 * started when they are needed.
 *
 * VIPL functions that do not wait are called under cm.lock, so that no thread frees the endpoint.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ofi/calls.h"

/* Interval between requests to a host that has no listener yet: 10 ms. */
#define RETRY_NS 10000000ull

/* One round handles at most this many requests of clients. */
#define ROUND_MAX 16

/* After the first answer "no listener", requests are repeated for this time: 5 s. */
#define ABSENT_NS 5000000000ull

static struct via_cm *cm_of(struct via_ep *ep)
{
    return &ep->domain->fabric->cm;
}

static void wake(struct via_cm *cm)
{
    uint64_t one = 1;

    if (write(cm->wake_fd, &one, sizeof(one)) < 0)
        VIA_WARN(FI_LOG_EP_CTRL, "eventfd: errno %d\n", errno);
}

static int watch(struct via_cm *cm, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(cm->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void unwatch(struct via_cm *cm, int fd)
{
    epoll_ctl(cm->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void remove_ep(struct via_ep **list, struct via_ep *ep)
{
    while (*list != ep)
        list = &(*list)->cm_next;
    *list = ep->cm_next;
}

/* ---- requests of clients --------------------------------------------------------------------- */

/* Put FI_CONNREQ into the event queue. false: the caller must reject the request. */
static bool tell_request(struct via_pep *pep, const VIP_NET_ADDRESS *from,
                         const VIPX_PRIVATE_DATA *data, VIP_CONN_HANDLE conn)
{
    struct via_request *request = calloc(1, sizeof(*request));
    struct fi_info *info = fi_dupinfo(pep->info);
    struct sockaddr_in *peer = malloc(sizeof(*peer));
    struct via_hello hello;

    if (request == NULL || info == NULL || peer == NULL || !via_hello_read(data, &hello)) {
        VIA_INFO(FI_LOG_EP_CTRL, "a connection request is rejected: %s\n",
                 request == NULL || info == NULL || peer == NULL ? "out of memory"
                                                                 : "no program with this provider");
        free(request);
        fi_freeinfo(info);
        free(peer);
        return false;
    }
    request->fid.fclass = FI_CLASS_CONNREQ;
    request->conn = conn;
    request->hello = hello;
    via_net_address_read(from, &request->from);
    *peer = request->from;
    free(info->dest_addr);
    info->dest_addr = peer;
    info->dest_addrlen = sizeof(*peer);
    info->handle = &request->fid;
    via_eq_put(pep->eq, FI_CONNREQ, &pep->fid.fid, info, data->Data + sizeof(hello),
               hello.user_bytes);
    return true;
}

/* Requests to reject after cm.lock is released, because a reject waits for vipd's answer. */
struct rejects {
    VIP_CONN_HANDLE conn[ROUND_MAX];
    unsigned count;
};

static void take_request(struct via_fabric *fabric, struct via_pep *pep, struct rejects *rejects)
{
    union via_net_address from;
    VIPX_PRIVATE_DATA data;
    VIP_CONN_HANDLE conn;
    VIP_RETURN code = VipxListenWait(pep->listener, 0, &from.net, NULL, &data, &conn);
    int fd;

    if (code == VIP_SUCCESS) {
        if (!tell_request(pep, &from.net, &data, conn))
            rejects->conn[rejects->count++] = conn;
        return;
    }
    /* If vipd has ended, the descriptor stays readable for ever: do not watch it any more. */
    if (code != VIP_TIMEOUT && VipxListenGetFd(pep->listener, &fd) == VIP_SUCCESS)
        unwatch(&fabric->cm, fd);
}

/*
 * Take one request of each of the first ROUND_MAX listeners, and move these listeners to the end of
 * the list. If a listener has more requests, its descriptor stays readable, and the next round
 * follows at once. Other threads can get cm.lock between two rounds.
 */
static void take_requests(struct via_fabric *fabric, struct rejects *rejects)
{
    struct via_cm *cm = &fabric->cm;
    struct via_pep *pep, **end;

    for (unsigned i = 0; i < ROUND_MAX && (pep = cm->listening) != NULL; i++) {
        take_request(fabric, pep, rejects);
        for (end = &pep->cm_next; *end != NULL; end = &(*end)->cm_next)
            continue;
        *end = pep;
        cm->listening = pep->cm_next;
        pep->cm_next = NULL;
    }
}

int via_cm_listen(struct via_pep *pep)
{
    struct via_cm *cm = &pep->fabric->cm;
    int fd, rc;

    if (VipxListenGetFd(pep->listener, &fd) != VIP_SUCCESS)
        return -FI_ENOMEM;
    pthread_mutex_lock(&cm->lock);
    rc = watch(cm, fd);
    if (rc == 0) {
        pep->cm_next = cm->listening;
        cm->listening = pep;
    }
    pthread_mutex_unlock(&cm->lock);
    return rc;
}

void via_cm_unlisten(struct via_pep *pep)
{
    struct via_cm *cm = &pep->fabric->cm;
    int fd;

    pthread_mutex_lock(&cm->lock);
    for (struct via_pep **at = &cm->listening; *at != NULL; at = &(*at)->cm_next) {
        if (*at == pep) {
            *at = pep->cm_next;
            break;
        }
    }
    if (VipxListenGetFd(pep->listener, &fd) == VIP_SUCCESS)
        unwatch(cm, fd);
    pthread_mutex_unlock(&cm->lock);
}

/* ---- attempts to connect --------------------------------------------------------------------- */

/* Under cm->lock, as all functions up to look_at. */
static VIP_RETURN start_attempt(struct via_ep *ep, uint64_t now_ns)
{
    union via_net_address local, remote;
    const VIP_NIC_ATTRIBUTES *nic = &ep->domain->fabric->attrs;
    VIP_RETURN code;

    via_net_address(&ep->own, nic, &local);
    via_net_address(&ep->peer, nic, &remote);
    ep->cm_retry_ns = 0;
    code =
        VipxConnectStart(ep->vi, &local.net, &remote.net,
                         (VIP_ULONG)((ep->cm_deadline_ns - now_ns) / 1000000 + 1), 0, &ep->cm_data);
    if (code == VIP_SUCCESS && ep->cm_fd < 0) {
        int fd;

        code = VipxConnectGetFd(ep->vi, &fd);
        if (code == VIP_SUCCESS && watch(cm_of(ep), fd) == 0)
            ep->cm_fd = fd;
        else
            code = VIP_ERROR_RESOURCE;
    }
    return code;
}

static void stop_attempt(struct via_ep *ep)
{
    struct via_cm *cm = cm_of(ep);

    remove_ep(&cm->connecting, ep);
    ep->cm_connecting = false;
    if (ep->cm_fd >= 0)
        unwatch(cm, ep->cm_fd);
    ep->cm_fd = -1;
}

/*
 * An attempt has failed. The error is always FI_ECONNREFUSED, because ofi_rxm waits for ever after
 * any other error. prov_errno has VIPL's code.
 */
static void refused(struct via_ep *ep, VIP_RETURN code, const VIPX_PRIVATE_DATA *data)
{
    struct via_hello hello = {0};
    bool said = code == VIP_REJECT && via_hello_read(data, &hello);

    VIA_INFO(FI_LOG_EP_CTRL, "connecting failed: %s\n", VipxLastError());
    /* After a reject the peer still runs. After any other outcome ofi_rxm would try for ever. */
    if (code != VIP_REJECT && via_settings.loss_fatal)
        __atomic_store_n(&ep->domain->fabric->lost, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&ep->state, VIA_EP_ENABLED, __ATOMIC_RELEASE);
    via_eq_put_error(ep->eq, &ep->fid.fid, FI_ECONNREFUSED, (int)code,
                     said ? data->Data + sizeof(hello) : NULL, said ? hello.user_bytes : 0);
}

/* The other host has no listener: should we repeat the request? */
static bool asks_again(struct via_ep *ep, uint64_t now_ns)
{
    if (ep->cm_absent_ns == 0)
        ep->cm_absent_ns = now_ns + ABSENT_NS;
    return now_ns + RETRY_NS < ep->cm_absent_ns && now_ns + RETRY_NS < ep->cm_deadline_ns;
}

/* Look for the result of one attempt. If there is a result, finish the attempt. */
static void look_at(struct via_ep *ep, uint64_t now_ns)
{
    VIPX_PRIVATE_DATA data = {0};
    struct via_hello hello;
    VIP_RETURN code;

    if (ep->cm_retry_ns != 0) {
        if (now_ns < ep->cm_retry_ns)
            return;
        code = start_attempt(ep, now_ns);
        if (code == VIP_SUCCESS)
            return;
    } else {
        code = VipxConnectFinish(ep->vi, NULL, &data);
    }
    if (code == VIP_NOT_DONE)
        return;
    if (code == VIP_NO_MATCH && asks_again(ep, now_ns)) {
        ep->cm_retry_ns = now_ns + RETRY_NS;
        return;
    }
    stop_attempt(ep);
    if (code == VIP_SUCCESS && !via_hello_read(&data, &hello)) {
        VipDisconnect(ep->vi);
        code = VIP_REJECT;
    }
    if (code == VIP_SUCCESS)
        via_ep_connected(ep, &hello, data.Data + sizeof(hello));
    else
        refused(ep, code, &data);
}

int via_cm_connect(struct via_ep *ep)
{
    struct via_cm *cm = cm_of(ep);
    uint64_t now_ns = via_now_ns();
    VIP_RETURN code;

    pthread_mutex_lock(&cm->lock);
    ep->cm_fd = -1;
    ep->cm_deadline_ns = now_ns + (uint64_t)via_settings.connect_timeout_ms * 1000000;
    ep->cm_absent_ns = 0;
    code = start_attempt(ep, now_ns);
    if (code == VIP_SUCCESS) {
        ep->cm_connecting = true;
        ep->cm_next = cm->connecting;
        cm->connecting = ep;
    }
    pthread_mutex_unlock(&cm->lock);
    if (code != VIP_SUCCESS)
        VIA_WARN(FI_LOG_EP_CTRL, "VipxConnectStart: %s\n", VipxLastError());
    return via_errno(code);
}

/* Milliseconds until a request must be repeated; -1: no request must be repeated. */
static int retry_ms(struct via_cm *cm, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;

    for (struct via_ep *ep = cm->connecting; ep != NULL; ep = ep->cm_next)
        if (ep->cm_retry_ns != 0 && ep->cm_retry_ns < next_ns)
            next_ns = ep->cm_retry_ns;
    if (next_ns == UINT64_MAX)
        return -1;
    return next_ns <= now_ns ? 0 : (int)((next_ns - now_ns) / 1000000 + 1);
}

bool via_cm_round(struct via_fabric *fabric)
{
    struct via_cm *cm = &fabric->cm;
    struct rejects rejects = {.count = 0};
    struct epoll_event events[8];
    uint64_t count;
    int timeout_ms;
    bool runs;

    pthread_mutex_lock(&cm->lock);
    timeout_ms = retry_ms(cm, via_now_ns());
    pthread_mutex_unlock(&cm->lock);
    /* Ignore which descriptor is ready, because its object may be closed already. */
    epoll_wait(cm->epoll_fd, events, 8, timeout_ms);
    pthread_mutex_lock(&cm->lock);
    runs = !cm->stop && (read(cm->wake_fd, &count, sizeof(count)) >= 0 || errno == EAGAIN);
    if (runs) {
        take_requests(fabric, &rejects);
        for (struct via_ep *ep = cm->connecting, *next; ep != NULL; ep = next) {
            next = ep->cm_next;
            look_at(ep, via_now_ns());
        }
    }
    pthread_mutex_unlock(&cm->lock);
    for (unsigned i = 0; i < rejects.count; i++)
        (void)VipxConnectReject(rejects.conn[i], NULL);
    return runs;
}

/* ---- accepting ------------------------------------------------------------------------------- */

/* Accept one request. Under cm->lock, which is released during VipxConnectAccept. */
static void accept_one(struct via_cm *cm, struct via_ep *ep)
{
    struct via_request *request = ep->cm_request;
    VIP_RETURN code;

    ep->cm_busy = true;
    pthread_mutex_unlock(&cm->lock);
    code = VipxConnectAccept(request->conn, ep->vi, &ep->cm_data);
    if (code != VIP_SUCCESS)
        VIA_INFO(FI_LOG_EP_CTRL, "VipxConnectAccept: %s\n", VipxLastError());
    pthread_mutex_lock(&cm->lock);
    if (code == VIP_SUCCESS) {
        via_ep_connected(ep, &request->hello, NULL);
    } else {
        __atomic_store_n(&ep->state, VIA_EP_DOWN, __ATOMIC_RELEASE);
        via_eq_put(ep->eq, FI_SHUTDOWN, &ep->fid.fid, NULL, NULL, 0);
    }
    ep->cm_request = NULL;
    /* If the accept failed, the client still waits for an answer: reject its request. */
    if (code == VIP_SUCCESS)
        free(request);
    else
        via_request_drop(&request->fid);
    ep->cm_busy = false;
    pthread_cond_broadcast(&cm->change);
}

static void *accept_thread(void *arg)
{
    struct via_cm *cm = arg;

    pthread_mutex_lock(&cm->lock);
    while (!cm->stop) {
        struct via_ep *ep = cm->accepting;

        if (ep == NULL) {
            cm->idle++;
            pthread_cond_wait(&cm->work, &cm->lock);
            cm->idle--;
            continue;
        }
        remove_ep(&cm->accepting, ep);
        ep->cm_accepting = false;
        accept_one(cm, ep);
    }
    pthread_mutex_unlock(&cm->lock);
    return NULL;
}

int via_cm_accept(struct via_ep *ep)
{
    struct via_cm *cm = cm_of(ep);
    struct via_ep **end;
    int rc = 0;

    pthread_mutex_lock(&cm->lock);
    if (cm->idle == 0 && cm->workers < (unsigned)via_settings.cm_threads) {
        rc = -pthread_create(&cm->worker[cm->workers], NULL, accept_thread, cm);
        cm->workers += rc == 0;
    }
    /* If no new thread can start, an existing thread makes the accept. */
    if (cm->workers > 0) {
        rc = 0;
        for (end = &cm->accepting; *end != NULL; end = &(*end)->cm_next)
            continue;
        ep->cm_next = NULL;
        ep->cm_accepting = true;
        *end = ep;
        pthread_cond_signal(&cm->work);
    }
    pthread_mutex_unlock(&cm->lock);
    return rc;
}

void via_cm_cancel(struct via_ep *ep)
{
    struct via_cm *cm = cm_of(ep);

    pthread_mutex_lock(&cm->lock);
    if (ep->cm_connecting)
        stop_attempt(ep);
    if (ep->cm_accepting) {
        remove_ep(&cm->accepting, ep);
        ep->cm_accepting = false;
    }
    if (ep->cm_busy)
        VipDisconnect(ep->vi);
    while (ep->cm_busy)
        pthread_cond_wait(&cm->change, &cm->lock);
    if (ep->cm_request != NULL)
        via_request_drop(&ep->cm_request->fid);
    ep->cm_request = NULL;
    pthread_mutex_unlock(&cm->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

int via_cm_start(struct via_fabric *fabric)
{
    struct via_cm *cm = &fabric->cm;
    int rc = 0;

    pthread_mutex_init(&cm->lock, NULL);
    pthread_cond_init(&cm->work, NULL);
    pthread_cond_init(&cm->change, NULL);
    cm->worker = calloc((size_t)via_settings.cm_threads, sizeof(*cm->worker));
    cm->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    cm->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cm->worker == NULL || cm->epoll_fd < 0 || cm->wake_fd < 0)
        rc = -FI_ENOMEM;
    if (rc == 0)
        rc = watch(cm, cm->wake_fd);
    if (rc != 0)
        via_cm_free(fabric);
    return rc;
}

void via_cm_stop(struct via_fabric *fabric)
{
    struct via_cm *cm = &fabric->cm;

    pthread_mutex_lock(&cm->lock);
    cm->stop = true;
    pthread_cond_broadcast(&cm->work);
    wake(cm);
    pthread_mutex_unlock(&cm->lock);
    for (unsigned i = 0; i < cm->workers; i++)
        pthread_join(cm->worker[i], NULL);
}

void via_cm_free(struct via_fabric *fabric)
{
    struct via_cm *cm = &fabric->cm;

    free(cm->worker);
    close(cm->epoll_fd);
    close(cm->wake_fd);
    pthread_cond_destroy(&cm->change);
    pthread_cond_destroy(&cm->work);
    pthread_mutex_destroy(&cm->lock);
}
