/*
 * Peers and their channels. The first message to a peer makes its channel. For this the provider
 * uses fi_connect and fi_accept on FI_EP_MSG endpoints, with an internal event queue.
 *
 * The address of the called endpoint contains a key (job/key.h). Caller and called endpoint prove
 * to each other that they know this key. A caller without the key is refused before any memory is
 * allocated for it.
 *
 * If both peers call at the same time, only the request of the peer with the lower address counts.
 * That peer refuses the other request. The other peer gives up its own request when it gets the
 * request that counts. Events are handled when the program reads a completion queue, and by the
 * fabric's thread. So channels are made even while the program computes.
 */
#include <stdlib.h>
#include <string.h>

#include "ofi/rdm.h"

/* Wait 5 ms after a refusal with VIA_REFUSE_AGAIN before the next attempt. */
#define AGAIN_NS 5000000ull

/* Data that two endpoints send to each other when they make a channel. */
struct via_channel_hello {
    uint16_t version; /* VIA_CHANNEL_VERSION */
    uint16_t recvs;   /* VIA_CHANNEL_RECVS */
    uint16_t port;    /* port at which the sender of the hello listens, as in sin_port */
    uint16_t unused;
    uint32_t ring_bytes, ring_handle;
    uint64_t ring;
    struct job_proof proof; /* zeros if the called endpoint has no key */
};
_Static_assert(sizeof(struct via_channel_hello) == 40, "no padding");
_Static_assert(sizeof(struct via_channel_hello) <= VIA_CM_DATA_MAX, "it fits");

/* The bytes that struct job_proof proves. */
struct via_claim {
    uint32_t caller_host, called_host;
    uint16_t caller_port, called_port;
    uint32_t zero;
    struct via_channel_hello said; /* copy of the hello, with zeros as its proof */
};

/* The reason of a refusal. It is the only byte of data of a reject. */
enum via_refusal {
    VIA_REFUSE_MISFIT = 1, /* wrong version, settings or proof, or the peer counts as dead */
    VIA_REFUSE_AGAIN,      /* both sides have called, or the old channel still exists: call again */
};

/* Define an order of addresses. The only condition: both sides use the same order. */
static int compare(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
    if (a->sin_addr.s_addr != b->sin_addr.s_addr)
        return a->sin_addr.s_addr < b->sin_addr.s_addr ? -1 : 1;
    if (a->sin_port != b->sin_port)
        return a->sin_port < b->sin_port ? -1 : 1;
    return 0;
}

/* Find or make the peer with this address. NULL: no memory. Under core->lock. */
static struct via_peer *peer_at(struct via_rdm *rdm, const struct sockaddr_in *addr)
{
    struct via_peer *peer;

    for (peer = rdm->peers; peer != NULL; peer = peer->next)
        if (compare(&peer->addr, addr) == 0)
            return peer;
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL)
        return NULL;
    peer->addr = *addr;
    peer->is_self = compare(addr, &rdm->own) == 0;
    peer->sends_end = &peer->sends;
    peer->next = rdm->peers;
    rdm->peers = peer;
    return peer;
}

static struct via_peer *resolve(struct via_rdm *rdm, fi_addr_t index)
{
    struct via_name name = {.key = {{0}}};
    struct via_peer **grown, *peer;
    size_t room;

    pthread_mutex_lock(&rdm->av->lock);
    if (index < rdm->av->count)
        name = rdm->av->name[index];
    room = rdm->av->count;
    pthread_mutex_unlock(&rdm->av->lock);
    if (name.at.sin_family != AF_INET)
        return NULL;
    peer = peer_at(rdm, &name.at);
    if (peer != NULL)
        peer->key = name.key;
    if (peer == NULL || index < rdm->by_addr_count) {
        if (peer != NULL)
            rdm->by_addr[index] = peer;
        return peer;
    }
    grown = realloc(rdm->by_addr, room * sizeof(struct via_peer *));
    /* No memory for the table: later calls will search the list of peers again. */
    if (grown == NULL)
        return peer;
    memset(grown + rdm->by_addr_count, 0, (room - rdm->by_addr_count) * sizeof(struct via_peer *));
    rdm->by_addr = grown;
    rdm->by_addr_count = room;
    rdm->by_addr[index] = peer;
    return peer;
}

struct via_peer *via_peer_of(struct via_rdm *rdm, fi_addr_t addr)
{
    if (addr < rdm->by_addr_count && rdm->by_addr[addr] != NULL)
        return rdm->by_addr[addr];
    return resolve(rdm, addr);
}

/* ---- channels: made and ended ---------------------------------------------------------------- */

/* Allocate and register the rings `in` and `out`. */
static int rings_make(struct via_channel *channel)
{
    struct via_domain *domain = channel->rdm->domain;
    VIP_MEM_ATTRIBUTES own = {.Ptag = domain->ptag};
    VIP_MEM_ATTRIBUTES open = {.Ptag = domain->ptag, .EnableRdmaWrite = VIP_TRUE};
    VIP_NIC_HANDLE nic = domain->fabric->nic;
    VIP_PVOID memory;

    channel->ring_bytes = via_ring_bytes();
    if (VipxAllocMem(2 * channel->ring_bytes, &memory) != VIP_SUCCESS)
        return -FI_ENOMEM;
    channel->in = memory;
    channel->out = channel->in + channel->ring_bytes;
    if (VipRegisterMem(nic, channel->in, channel->ring_bytes, &open, &channel->in_handle) !=
            VIP_SUCCESS ||
        VipRegisterMem(nic, channel->out, channel->ring_bytes, &own, &channel->out_handle) !=
            VIP_SUCCESS) {
        VIA_WARN(FI_LOG_EP_CTRL, "VipRegisterMem: %s\n", VipxLastError());
        return -FI_ENOMEM;
    }
    return 0;
}

static void rings_free(struct via_channel *channel)
{
    struct via_fabric *fabric = channel->rdm->domain->fabric;
    bool gone = true;

    if (channel->in_handle != 0)
        gone = VipDeregisterMem(fabric->nic, channel->in, channel->in_handle) == VIP_SUCCESS;
    if (channel->out_handle != 0)
        gone =
            VipDeregisterMem(fabric->nic, channel->out, channel->out_handle) == VIP_SUCCESS && gone;
    /* If VipDeregisterMem has failed, vipd may still write to the rings: do not free them. */
    if (!gone && __atomic_load_n(&fabric->lost, __ATOMIC_RELAXED) == 0)
        VIA_WARN(FI_LOG_EP_CTRL, "VipDeregisterMem: %s; a ring is not freed\n", VipxLastError());
    else if (channel->in != NULL)
        VipxFreeMem(channel->in);
}

/* End a channel. Give every operation of the channel a completion before the return. */
static void channel_close(struct via_channel *channel, enum via_peer_state state)
{
    struct via_rdm *rdm = channel->rdm;
    struct via_peer *peer = channel->peer;
    struct via_ep *ep = channel->ep;
    struct via_channel **at;

    pthread_mutex_lock(&rdm->core->lock);
    channel->up = false;
    channel->ep = NULL;
    peer->channel = NULL;
    peer->state = state;
    pthread_mutex_unlock(&rdm->core->lock);
    /* fi_close needs core->lock free. It puts the last completions into the core's list. */
    if (ep != NULL)
        fi_close(&ep->fid.fid);
    pthread_mutex_lock(&rdm->core->lock);
    via_channel_take_done(rdm);
    via_channel_fail(channel);
    if (state == VIA_PEER_NEW || state == VIA_PEER_DEAD) {
        via_match_lost(rdm, peer);
        via_sends_fail(rdm, peer);
    }
    for (at = &rdm->channels; *at != NULL && *at != channel; at = &(*at)->next)
        continue;
    if (*at == channel)
        *at = channel->next;
    pthread_mutex_unlock(&rdm->core->lock);
    rings_free(channel);
    free(channel);
}

/* Open the endpoint of the channel, and post all its receive descriptors. */
static int open_ep(struct via_channel *channel, struct fi_info *info)
{
    struct via_rdm *rdm = channel->rdm;
    struct fid_ep *fid;
    int rc = via_ep_open(&rdm->domain->fid, info, &fid, channel);

    if (rc != 0)
        return rc;
    /* From now on the endpoint owns the request in info->handle and frees it. */
    info->handle = NULL;
    channel->ep = via_container(fid, struct via_ep, fid);
    channel->ep->inject_bytes = 0;
    channel->ep->tx_size = VIA_CHANNEL_SENDS;
    channel->ep->rx_size = VIA_CHANNEL_RECVS;
    rc = fi_ep_bind(fid, &rdm->eq->fid.fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(fid, &rdm->core->fid.fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0)
        rc = fi_enable(fid);
    pthread_mutex_lock(&channel->ep->lock);
    for (unsigned i = 0; i < VIA_CHANNEL_RECVS && rc == 0; i++)
        rc = (int)via_channel_receive(channel);
    pthread_mutex_unlock(&channel->ep->lock);
    return rc;
}

/* Make a channel that is ready to connect. info: from the peer's request, or rdm->channel_info.
 * NULL: the channel cannot be made; the log has the reason. */
static struct via_channel *channel_make(struct via_rdm *rdm, struct via_peer *peer,
                                        struct fi_info *info, enum via_peer_state state)
{
    struct via_channel *channel = calloc(1, sizeof(*channel));
    int rc;

    if (channel == NULL)
        return NULL;
    channel->rdm = rdm;
    channel->peer = peer;
    channel->answers_end = &channel->answers;
    channel->reads_end = &channel->reads;
    pthread_mutex_lock(&rdm->core->lock);
    peer->channel = channel;
    peer->state = state;
    channel->next = rdm->channels;
    rdm->channels = channel;
    pthread_mutex_unlock(&rdm->core->lock);
    rc = rings_make(channel);
    if (rc == 0)
        rc = open_ep(channel, info);
    if (rc == 0)
        return channel;
    VIA_WARN(FI_LOG_EP_CTRL, "a channel cannot be made: %s\n", fi_strerror(-rc));
    channel_close(channel, VIA_PEER_DEAD);
    return NULL;
}

/* ---- hello and proof ------------------------------------------------------------------------- */

static bool is_key(const struct job_key *key)
{
    static const struct job_key none;

    return memcmp(key, &none, sizeof(none)) != 0;
}

static struct via_claim claim_of(const struct sockaddr_in *caller, const struct sockaddr_in *called,
                                 const struct via_channel_hello *said)
{
    struct via_claim claim = {.caller_host = caller->sin_addr.s_addr,
                              .called_host = called->sin_addr.s_addr,
                              .caller_port = caller->sin_port,
                              .called_port = called->sin_port,
                              .said = *said};

    memset(&claim.said.proof, 0, sizeof(claim.said.proof));
    return claim;
}

/* Put a proof into the hello `said`, unless the key is zeros. */
static void prove(const struct job_key *key, enum job_role role, const struct sockaddr_in *caller,
                  const struct sockaddr_in *called, struct via_channel_hello *said)
{
    struct via_claim claim = claim_of(caller, called, said);

    if (is_key(key))
        said->proof = job_prove(key, role, &claim, sizeof(claim));
}

/* Does the hello `said` have the right proof? If the key is zeros, every hello is right. */
static bool proved(const struct job_key *key, enum job_role role, const struct sockaddr_in *caller,
                   const struct sockaddr_in *called, const struct via_channel_hello *said)
{
    struct via_claim claim = claim_of(caller, called, said);

    return !is_key(key) || job_proved(key, role, &claim, sizeof(claim), &said->proof);
}

static struct via_channel_hello hello_of(const struct via_channel *channel)
{
    return (struct via_channel_hello){
        .version = VIA_CHANNEL_VERSION,
        .recvs = VIA_CHANNEL_RECVS,
        .port = channel->rdm->own.sin_port,
        .ring_bytes = (uint32_t)channel->ring_bytes,
        .ring_handle = channel->in_handle,
        .ring = (uintptr_t)channel->in,
    };
}

/* Read a hello. false: its version, count of receives or ring size differs from ours. */
static bool hello_fits(const void *data, size_t bytes, struct via_channel_hello *ret)
{
    if (bytes < sizeof(*ret))
        return false;
    memcpy(ret, data, sizeof(*ret));
    return ret->version == VIA_CHANNEL_VERSION && ret->recvs == VIA_CHANNEL_RECVS &&
           ret->ring_bytes == via_ring_bytes();
}

static void take_hello(struct via_channel *channel, const struct via_channel_hello *hello)
{
    channel->peer_ring = hello->ring;
    channel->peer_handle = hello->ring_handle;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void refuse(struct via_rdm *rdm, struct fi_info *info, enum via_refusal why)
{
    uint8_t reason = (uint8_t)why;

    fi_reject(&rdm->pep->fid, info->handle, &reason, sizeof(reason));
}

/* Decide on a peer's connection request. Returns 0 (accept it) or an enum via_refusal. */
static int refusal(const struct via_rdm *rdm, const struct via_peer *peer)
{
    switch (peer->state) {
    case VIA_PEER_NEW:
        return 0;
    case VIA_PEER_CONNECTING:
        return compare(&rdm->own, &peer->addr) < 0 ? VIA_REFUSE_AGAIN : 0;
    case VIA_PEER_ACCEPTING:
    case VIA_PEER_UP:
        return VIA_REFUSE_AGAIN;
    case VIA_PEER_DEAD:
        break;
    }
    return VIA_REFUSE_MISFIT;
}

/*
 * Check a request and find the peer that calls. NULL: refuse the request. vipd names the caller's
 * host; the hello names its port, and the proof covers the port. An endpoint has no channel to
 * itself, so refuse a request with our own address.
 */
static struct via_peer *asking(struct via_rdm *rdm, const struct fi_info *info, const void *data,
                               size_t bytes, struct via_channel_hello *ret)
{
    struct sockaddr_in from = *(const struct sockaddr_in *)info->dest_addr;
    struct via_peer *peer;

    if (!hello_fits(data, bytes, ret)) {
        VIA_WARN(FI_LOG_EP_CTRL,
                 "a peer with another FI_VIA_RING, or another provider, is refused\n");
        return NULL;
    }
    from.sin_port = ret->port;
    if (compare(&from, &rdm->own) == 0 || !proved(&rdm->key, JOB_CALLS, &from, &rdm->own, ret)) {
        VIA_WARN(FI_LOG_EP_CTRL, "a program that is not of this job is refused\n");
        return NULL;
    }
    pthread_mutex_lock(&rdm->core->lock);
    peer = peer_at(rdm, &from);
    pthread_mutex_unlock(&rdm->core->lock);
    return peer;
}

static void requested(struct via_rdm *rdm, struct fi_info *info, const void *data, size_t bytes)
{
    struct via_channel_hello hello, own;
    struct via_peer *peer = asking(rdm, info, data, bytes, &hello);
    struct via_channel *channel;
    int why = VIA_REFUSE_MISFIT;

    if (peer != NULL)
        why = refusal(rdm, peer);
    if (why != 0) {
        VIA_INFO(FI_LOG_EP_CTRL, "a channel is refused: reason %d\n", why);
        refuse(rdm, info, (enum via_refusal)why);
        return;
    }
    /* The peer's request counts. Close the channel of our own request: it has sent nothing yet. */
    if (peer->channel != NULL)
        channel_close(peer->channel, VIA_PEER_ACCEPTING);
    channel = channel_make(rdm, peer, info, VIA_PEER_ACCEPTING);
    if (channel == NULL) {
        if (info->handle != NULL)
            refuse(rdm, info, VIA_REFUSE_MISFIT);
        return;
    }
    take_hello(channel, &hello);
    own = hello_of(channel);
    prove(&rdm->key, JOB_ANSWERS, &peer->addr, &rdm->own, &own);
    if (fi_accept(&channel->ep->fid, &own, sizeof(own)) != 0)
        channel_close(channel, VIA_PEER_DEAD);
}

static void connected(struct via_channel *channel, const void *data, size_t bytes)
{
    struct via_rdm *rdm = channel->rdm;
    struct via_channel_hello hello;

    /* The caller reads the hello of the answer. (The called side has read that of the request.) */
    if (channel->peer->state == VIA_PEER_CONNECTING) {
        if (!hello_fits(data, bytes, &hello) ||
            !proved(&channel->peer->key, JOB_ANSWERS, &rdm->own, &channel->peer->addr, &hello)) {
            VIA_WARN(FI_LOG_EP_CTRL, "what answers for a peer is not of this job\n");
            channel_close(channel, VIA_PEER_DEAD);
            return;
        }
        take_hello(channel, &hello);
    }
    pthread_mutex_lock(&rdm->core->lock);
    channel->peer->state = VIA_PEER_UP;
    channel->up = true;
    via_channel_go_on(rdm);
    pthread_mutex_unlock(&rdm->core->lock);
}

/* The peer has refused our connection request, or the request has failed. */
static void refused(struct via_channel *channel, const struct fi_eq_err_entry *error)
{
    bool again = error->err_data_size == 1 && *(uint8_t *)error->err_data == VIA_REFUSE_AGAIN;

    channel->peer->retry_ns = again ? via_now_ns() + AGAIN_NS : 0;
    if (!again)
        VIA_INFO(FI_LOG_EP_CTRL, "a peer cannot be reached\n");
    channel_close(channel, again ? VIA_PEER_NEW : VIA_PEER_DEAD);
}

/* The connection of a channel has ended. The peer has closed it, the peer is lost, or the peer gave
 * up its request while we accepted the request. */
static void ended(struct via_channel *channel)
{
    bool orderly = channel->peer->state == VIA_PEER_ACCEPTING ||
                   __atomic_load_n(&channel->ep->control->peer_bye, __ATOMIC_ACQUIRE) != 0;

    channel_close(channel, orderly ? VIA_PEER_NEW : VIA_PEER_DEAD);
}

/* Handle one event of rdm->eq. false: the queue was empty. */
static bool event(struct via_rdm *rdm)
{
    union {
        struct fi_eq_cm_entry entry;
        char room[sizeof(struct fi_eq_cm_entry) + VIA_CM_DATA_MAX];
    } got;
    struct fi_eq_err_entry error = {0};
    uint32_t number;
    ssize_t bytes = fi_eq_read(&rdm->eq->fid, &number, &got, sizeof(got), 0);
    const char *data = got.room + sizeof(got.entry);

    if (bytes == -FI_EAVAIL) {
        if (fi_eq_readerr(&rdm->eq->fid, &error, 0) > 0)
            refused(error.fid->context, &error);
        return true;
    }
    if (bytes < (ssize_t)sizeof(got.entry))
        return false;
    bytes -= (ssize_t)sizeof(got.entry);
    switch (number) {
    case FI_CONNREQ:
        requested(rdm, got.entry.info, data, (size_t)bytes);
        fi_freeinfo(got.entry.info);
        break;
    case FI_CONNECTED:
        connected(got.entry.fid->context, data, (size_t)bytes);
        break;
    case FI_SHUTDOWN:
        ended(got.entry.fid->context);
        break;
    }
    return true;
}

void via_peer_events(struct via_rdm *rdm)
{
    /* Look again after the unlock. If another thread sees an event but cannot get the lock, it
     * leaves the event to this thread. */
    while (via_eq_trywait(rdm->eq) != 0 && pthread_mutex_trylock(&rdm->cm_lock) == 0) {
        while (event(rdm))
            continue;
        pthread_mutex_unlock(&rdm->cm_lock);
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static ssize_t begin(struct via_rdm *rdm, struct via_peer *peer)
{
    struct via_channel *channel;
    struct via_channel_hello hello;
    int rc;

    if (peer->state == VIA_PEER_DEAD)
        return -FI_EHOSTUNREACH;
    if (peer->state != VIA_PEER_NEW || via_now_ns() < peer->retry_ns)
        return -FI_EAGAIN;
    channel = channel_make(rdm, peer, rdm->channel_info, VIA_PEER_CONNECTING);
    if (channel == NULL)
        return -FI_ENOMEM;
    hello = hello_of(channel);
    prove(&peer->key, JOB_CALLS, &rdm->own, &peer->addr, &hello);
    rc = fi_connect(&channel->ep->fid, &peer->addr, &hello, sizeof(hello));
    if (rc == 0)
        return -FI_EAGAIN;
    channel_close(channel, VIA_PEER_DEAD);
    return rc;
}

ssize_t via_peer_connect(struct via_rdm *rdm, struct via_peer *peer)
{
    ssize_t rc;

    pthread_mutex_lock(&rdm->cm_lock);
    rc = begin(rdm, peer);
    pthread_mutex_unlock(&rdm->cm_lock);
    via_peer_events(rdm);
    return rc;
}

void via_peer_close_channels(struct via_rdm *rdm)
{
    while (rdm->channels != NULL)
        channel_close(rdm->channels, VIA_PEER_DEAD);
}
