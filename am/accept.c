/*
 * The service thread takes connection requests of other processes. It does not need the program's
 * polls, so others can connect to a process that computes for a long time. The thread finds the
 * called endpoint, makes the connection, and gives the connection to the endpoint's bundle.
 */
#include "am/internal.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Largest number of calls with a wrong proof that wait at one endpoint for its program's poll. */
#define DOUBTED_MAX 32

/* Largest number of requests that the thread takes from one listener in one round. */
#define ROUND_MAX 16

static struct {
    pthread_t thread;
    bool running;
    bool stop; /* am_net.lock */
} service;

/* ---- one request ----------------------------------------------------------------------------- */

static void put_answer(VIPX_PRIVATE_DATA *data, const struct am_answer *answer)
{
    data->Length = sizeof(*answer);
    memcpy(data->Data, answer, sizeof(*answer));
}

static void reject(struct am_caller *caller, uint16_t status, uint16_t depth)
{
    struct am_answer answer = {.magic = AM_WIRE_MAGIC, .status = status, .depth = depth};
    VIPX_PRIVATE_DATA data;

    put_answer(&data, &answer);
    (void)VipxConnectReject(caller->handle, &data);
    free(caller);
}

/* What to do with a request. */
enum verdict {
    ACCEPT_FIRST, /* make a connection */
    ACCEPT_LANE,  /* add a lane to a connection that is being made */
    PARKED,       /* no answer now: the request waits in a list */
    REFUSE        /* reject the request with decision.status and decision.depth */
};

struct decision {
    enum verdict verdict;
    uint16_t status, depth;
    struct am_ep *ep;
    struct am_map *map;
    struct am_conn *conn;
    const struct job_key *key; /* key for the proof in the answer, or NULL */
    bool stranger; /* the tag AM_ALL admits the caller, and the program has not mapped the caller */
};

/* The two endpoints already have a connection: keep the request until the connection ends. Keep
 * only the newest request of a pair of endpoints, and reject the older one. */
static void park(struct am_map *map, struct am_caller *caller)
{
    struct am_caller *older = map->again;

    map->again = caller;
    if (older != NULL)
        reject(older, AM_ANSWER_CROSS, 0);
    am_attend(map->ep->bundle);
}

/*
 * Check the caller's proof that it knows our key or tag. A program may set its tag after other
 * processes got the endpoint's name. So a call of another process with a wrong proof waits for the
 * next poll, and is refused if it is still wrong. true: d has the verdict. Under am_net.lock.
 */
static bool doubt(struct am_caller *caller, struct decision *d)
{
    struct am_ep *ep = d->ep;
    tag_t tag = __atomic_load_n(&ep->tag, __ATOMIC_RELAXED);
    bool early = false;

    d->key = am_spmd_key(ep, &caller->name, &ep->name, &early);
    if (!early && d->key == NULL && tag == AM_ALL) {
        struct am_map *map = am_map_find(ep, &caller->name);

        d->stranger = map == NULL || map->entries == 0;
        return false;
    }
    if (!early && (d->key != NULL || tag != AM_NONE) &&
        am_call_proved(d->key, tag, &caller->name, &ep->name, &caller->call))
        return false;
    d->status = EBADTAG;
    if (caller->polled || (caller->name.process == am_net.process && !early))
        return true;
    if (ep->doubted_count == DOUBTED_MAX) {
        d->status = AM_ANSWER_CROSS;
        return true;
    }
    d->verdict = PARKED;
    caller->next = ep->doubted;
    ep->doubted = caller;
    ep->doubted_count++;
    am_net.doubts++;
    am_attend(ep->bundle);
    return true;
}

/*
 * Refuse a stranger if strangers at this endpoint already have half of the connections that the
 * process may have, so that other callers find room. True: refused. If the process has no room
 * at all, a stranger waits for room like any other caller.
 */
static bool crowded(struct decision *d)
{
    if (!d->stranger || d->ep->strangers < (am_net.live_max + 1) / 2 ||
        am_net.live >= am_net.live_max)
        return false;
    am_net.doubts += !d->ep->crowded;
    d->ep->crowded = true;
    am_attend(d->ep->bundle);
    d->status = AM_ANSWER_CROSS;
    return true;
}

/* Decide about the request by the phase of the pair of endpoints. Under am_net.lock. */
static void decide_pair(struct am_caller *caller, const en_t *from, struct decision *d)
{
    struct am_map *map = d->map;

    if (map->passive != NULL && map->passive->serial == caller->call.serial &&
        caller->call.lane < map->passive->lanes &&
        !(map->passive->lanes_seen & 1u << caller->call.lane)) {
        d->verdict = ACCEPT_LANE;
        d->conn = map->passive;
        return;
    }
    if (crowded(d))
        return;
    switch (map->phase) {
    case AM_PHASE_CALLING:
        /* Both sides call at the same time: the call of the endpoint with the lower name wins. */
        if (memcmp(&d->ep->name, from, sizeof(*from)) < 0) {
            d->status = AM_ANSWER_CROSS;
            return;
        }
        am_room_fill();
        d->verdict = ACCEPT_FIRST;
        return;
    case AM_PHASE_ACCEPTING:
    case AM_PHASE_UP:
        d->verdict = PARKED;
        park(map, caller);
        return;
    case AM_PHASE_NONE:
        break;
    }
    /* Serve requests in their order. Otherwise a peer whose connection was closed to make room
     * could get this room before the callers that wait for it. */
    if (am_service_waiting() || !am_room_take()) {
        d->verdict = PARKED;
        am_service_want_room(caller);
        return;
    }
    d->verdict = ACCEPT_FIRST;
}

/* Decide what to do with a request. Under am_net.lock. */
static struct decision decide(struct am_caller *caller)
{
    struct decision d = {.verdict = REFUSE, .status = EBADENDPOINT};
    const struct am_call *call = &caller->call;

    if (call->magic != AM_WIRE_MAGIC || call->version != AM_WIRE_VERSION ||
        call->lanes != am_net.lanes || call->lane >= call->lanes || call->depth == 0 ||
        call->depth > AM_DEPTH_MAX) {
        d.status = EBADARGS;
        return d;
    }
    d.ep = am_ep_find(call->number);
    if (d.ep == NULL || d.ep->closing)
        return d;
    if (d.ep->moving) {
        d.status = AM_ANSWER_CROSS;
        return d;
    }
    if (doubt(caller, &d))
        return d;
    d.depth = (uint16_t)am_ep_depth(d.ep);
    if (call->answer_depth < d.depth) {
        d.status = AM_ANSWER_DEPTH;
        return d;
    }
    d.status = ECONGESTION;
    d.map = am_map_get(d.ep, &caller->name);
    if (d.map != NULL)
        decide_pair(caller, &caller->name, &d);
    return d;
}

/* Accept one lane; serve() has counted it in the endpoint's pins. Call without am_net.lock. */
static void accept_lane(struct am_caller *caller, struct am_conn *conn, const struct job_key *key)
{
    struct am_answer answer = {.magic = AM_WIRE_MAGIC,
                               .depth = (uint16_t)conn->k,
                               .landing = (uintptr_t)conn->block + conn->landing_at,
                               .landing_mem = conn->landing_mem};
    VIPX_PRIVATE_DATA data;
    struct am_ep *ep = conn->map->ep;
    VIP_RETURN rc;

    am_answer_prove(key, &caller->name, &ep->name, &caller->call, &answer);
    put_answer(&data, &answer);
    rc = VipxConnectAccept(caller->handle, conn->lane[caller->call.lane].vi, &data);
    if (rc != VIP_SUCCESS && rc != VIP_TIMEOUT)
        (void)VipConnectReject(caller->handle);
    pthread_mutex_lock(&am_net.lock);
    conn->accepting--;
    if (rc == VIP_SUCCESS && caller->call.lane == 0)
        am_net.counts.connects++;
    if (rc != VIP_SUCCESS && !conn->accept_failed) {
        conn->accept_failed = true;
        conn->next_failed = ep->bundle->failed;
        ep->bundle->failed = conn;
    }
    am_attend(ep->bundle);
    ep->pins--;
    pthread_cond_broadcast(&am_net.changed);
    pthread_mutex_unlock(&am_net.lock);
    free(caller);
}

/* There are no resources for the connection: undo what decide and serve have recorded for it. */
static void give_up(struct am_caller *caller, const struct decision *d)
{
    pthread_mutex_lock(&am_net.lock);
    d->map->phase = AM_PHASE_NONE;
    am_net.live--;
    d->ep->pins--;
    am_map_drop(d->map);
    pthread_cond_broadcast(&am_net.changed);
    pthread_mutex_unlock(&am_net.lock);
    am_service_kick(); /* waiting requests can use the freed room */
    reject(caller, ECONGESTION, 0);
}

static void accept_first(struct am_caller *caller, const struct decision *d)
{
    struct am_conn *conn = am_conn_new(d->map, am_ep_depth(d->ep), caller->call.depth);
    struct am_bundle *bundle = d->ep->bundle;

    if (conn == NULL) {
        give_up(caller, d);
        return;
    }
    conn->state = AM_CONN_ACCEPTED;
    conn->serial = caller->call.serial;
    conn->peer_landing = caller->call.landing;
    conn->peer_landing_mem = caller->call.landing_mem;
    conn->lanes_seen = 1u << caller->call.lane;
    conn->accepting = 1;
    pthread_mutex_lock(&am_net.lock);
    /* Give the connection to the bundle before the accept: after the accept, messages may come. */
    d->map->conns++;
    d->map->passive = conn;
    conn->stranger = d->stranger;
    d->ep->strangers += d->stranger;
    am_net.counts.live++;
    conn->next = bundle->incoming;
    bundle->incoming = conn;
    pthread_mutex_unlock(&am_net.lock);
    accept_lane(caller, conn, d->key);
}

static void serve(struct am_caller *caller)
{
    struct decision d;

    pthread_mutex_lock(&am_net.lock);
    d = decide(caller);
    if (d.verdict == ACCEPT_FIRST || d.verdict == ACCEPT_LANE)
        d.ep->pins++;
    if (d.verdict == ACCEPT_FIRST)
        d.map->phase = AM_PHASE_ACCEPTING;
    if (d.verdict == ACCEPT_LANE) {
        d.conn->accepting++;
        d.conn->lanes_seen |= 1u << caller->call.lane;
    }
    if (d.verdict == REFUSE && d.map != NULL)
        am_map_drop(d.map);
    pthread_mutex_unlock(&am_net.lock);
    switch (d.verdict) {
    case ACCEPT_FIRST:
        accept_first(caller, &d);
        break;
    case ACCEPT_LANE:
        accept_lane(caller, d.conn, d.key);
        break;
    case REFUSE:
        reject(caller, d.status, d.depth);
        break;
    case PARKED:
        break;
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Serve the waiting requests again, in order. */
static void serve_waiting(void)
{
    struct am_caller *caller, *list;

    pthread_mutex_lock(&am_net.lock);
    list = am_service_take();
    pthread_mutex_unlock(&am_net.lock);
    while ((caller = list) != NULL) {
        list = caller->next;
        serve(caller);
    }
}

/* Make the name of the calling endpoint from its address and number. false: the address is not
 * valid. */
static bool read_name(const VIP_NET_ADDRESS *from, struct am_caller *caller)
{
    en_t *name = &caller->name;

    if (from->HostAddressLen > sizeof(name->host) ||
        from->DiscriminatorLen != sizeof(name->process))
        return false;
    name->host_bytes = from->HostAddressLen;
    name->number = caller->call.caller_number;
    memcpy(name->host, from->HostAddress, from->HostAddressLen);
    memcpy(&name->process, from->HostAddress + from->HostAddressLen, sizeof(name->process));
    return true;
}

static bool stopping(void)
{
    bool stop;

    pthread_mutex_lock(&am_net.lock);
    stop = service.stop;
    pthread_mutex_unlock(&am_net.lock);
    return stop;
}

/*
 * Take up to ROUND_MAX requests of one listener; more wait for the next round. Thus a listener
 * with many requests delays neither the other listeners nor am_service_stop. false: vipd has ended.
 */
static bool take_requests(VIPX_LISTENER listener)
{
    for (unsigned taken = 0; taken < ROUND_MAX && !stopping(); taken++) {
        union {
            VIP_NET_ADDRESS address;
            char room[256]; /* enough for the longest address */
        } from;
        VIPX_PRIVATE_DATA data = {.Length = 0};
        struct am_caller *caller = calloc(1, sizeof(*caller));
        VIP_RETURN rc;

        if (caller == NULL)
            return true;
        rc = VipxListenWait(listener, 0, &from.address, NULL, &data, &caller->handle);
        if (rc != VIP_SUCCESS) {
            free(caller);
            return rc != VIP_ERROR_RESOURCE;
        }
        if (data.Length == sizeof(caller->call))
            memcpy(&caller->call, data.Data, sizeof(caller->call));
        if (!read_name(&from.address, caller))
            caller->call.magic = 0;
        serve(caller);
    }
    return true;
}

static void *run(void *arg)
{
    struct pollfd wait[AM_KNOWN_MAX + 2];
    VIPX_LISTENER listener[AM_KNOWN_MAX + 2];
    uint64_t count;

    (void)arg;
    while (!stopping()) {
        unsigned n = am_service_fds(wait, listener);

        if (poll(wait, n, -1) < 0)
            continue;
        if (wait[0].revents != 0 && read(wait[0].fd, &count, sizeof(count)) > 0)
            serve_waiting();
        for (unsigned i = 1; i < n; i++) {
            if (wait[i].revents != 0 && !take_requests(listener[i]))
                return NULL;
        }
    }
    return NULL;
}

int am_service_start(void)
{
    sigset_t all, before;
    int rc = am_service_open();

    if (rc != AM_OK)
        return rc;
    service.stop = false;
    /* Block all signals in the new thread: the threads of the program get them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&service.thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        am_service_close();
        return am_fail(AM_ERR_RESOURCE, "no thread: %s", strerror(rc));
    }
    service.running = true;
    return AM_OK;
}

void am_service_stop(void)
{
    struct am_caller *caller, *list;

    if (!service.running)
        return;
    pthread_mutex_lock(&am_net.lock);
    service.stop = true;
    pthread_mutex_unlock(&am_net.lock);
    am_service_kick();
    pthread_join(service.thread, NULL);
    service.running = false;
    am_service_close();
    pthread_mutex_lock(&am_net.lock);
    list = am_service_take();
    pthread_mutex_unlock(&am_net.lock);
    while ((caller = list) != NULL) {
        list = caller->next;
        reject(caller, EBADENDPOINT, 0);
    }
}
