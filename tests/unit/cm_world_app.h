/*
 * The third part of the world of connection managers (cm_world.h): actions of applications, filters
 * that lose messages, and helpers. Only cm_world_run.h includes this file.
 */
#ifndef TESTS_UNIT_CM_WORLD_APP_H
#define TESTS_UNIT_CM_WORLD_APP_H

#include <errno.h>

#include "tests/unit/cm_world.h"

/* ---- actions of applications ------------------------------------------------------------- */

static const struct vip_cm_attrs world_attrs UNUSED = {
    .level = VIP_LVL_DELIVERY, .rdma_write = 1, .max_transfer_bytes = 65536, .qos = 7};

/* Check each member of the attributes against world_attrs. Padding bytes may differ. */
static inline void world_attrs_check(const struct vip_cm_attrs *attrs)
{
    assert_int_equal(attrs->level, world_attrs.level);
    assert_int_equal(attrs->rdma_write, world_attrs.rdma_write);
    assert_int_equal(attrs->rdma_read, world_attrs.rdma_read);
    assert_int_equal(attrs->features, world_attrs.features);
    assert_int_equal(attrs->max_transfer_bytes, world_attrs.max_transfer_bytes);
    assert_int_equal(attrs->qos, world_attrs.qos);
}

static inline struct vip_addr world_addr(const struct host *host, const char *disc)
{
    struct vip_addr addr = {.host_len = host->addr.len, .disc_len = (uint8_t)strlen(disc)};

    memcpy(addr.host, host->addr.bytes, host->addr.len);
    memcpy(addr.disc, disc, addr.disc_len);
    return addr;
}

/* Start a request. Returns the request's index. */
static inline unsigned host_request(struct world *w, unsigned from, unsigned to, const char *disc,
                                    uint64_t timeout_ns)
{
    struct host *host = &w->hosts[from];
    unsigned index = host->request_count++;
    struct cm_request_args args = {
        .user = index,
        .uid = w->uid,
        .local_id = (uint64_t)(from + 1) << 32 | ++host->id_counter,
        .timeout_ns = timeout_ns,
        .local = world_addr(host, "client"),
        .remote = world_addr(&w->hosts[to], disc),
        .attrs = world_attrs,
    };

    assert_true(index < THINGS_MAX);
    host->requests[index] =
        (struct attempt){.used = true, .rc = VIP_RC_NOT_DONE, .local_id = args.local_id};
    assert_int_equal(cm_request(host->cm, &args, w->now_ns), 0);
    return index;
}

/* Start a peer-to-peer request with private data `data`. Returns the request's index. */
static inline unsigned host_peer_attrs(struct world *w, unsigned from, unsigned to,
                                       const char *local, const char *remote, uint64_t timeout_ns,
                                       const struct vip_cm_attrs *attrs, const char *data)
{
    struct host *host = &w->hosts[from];
    unsigned index = host->request_count++;
    struct cm_request_args args = {
        .user = index,
        .uid = w->uid,
        .local_id = (uint64_t)(from + 1) << 32 | ++host->id_counter,
        .timeout_ns = timeout_ns,
        .peer_to_peer = true,
        .local = world_addr(host, local),
        .remote = world_addr(&w->hosts[to], remote),
        .attrs = *attrs,
        .data = {.len = (uint8_t)strlen(data)},
    };
    int rc;

    assert_true(index < THINGS_MAX);
    memcpy(args.data.bytes, data, args.data.len);
    host->requests[index] =
        (struct attempt){.used = true, .rc = VIP_RC_NOT_DONE, .local_id = args.local_id};
    rc = cm_request(host->cm, &args, w->now_ns);
    if (rc == -EPERM) /* another user owns the discriminator `local` */
        host->requests[index] = (struct attempt){.given_up = true};
    else
        assert_int_equal(rc, 0);
    return index;
}

static inline unsigned host_peer(struct world *w, unsigned from, unsigned to, const char *local,
                                 const char *remote, uint64_t timeout_ns)
{
    return host_peer_attrs(w, from, to, local, remote, timeout_ns, &world_attrs, "");
}

static inline void host_listen(struct world *w, unsigned index, uint64_t wait, const char *disc)
{
    assert_int_equal(cm_wait(w->hosts[index].cm, wait, 1 + index, w->uid, (const uint8_t *)disc,
                             (uint8_t)strlen(disc), w->now_ns),
                     0);
}

/* The program that waits since host_listen() closes its NIC. */
static inline void host_server_ends(struct world *w, unsigned index)
{
    cm_server_gone(w->hosts[index].cm, 1 + index, w->now_ns);
}

/* Accept incoming[i]; returns the result of cm_accept. */
static inline int host_accept(struct world *w, unsigned index, unsigned i)
{
    struct host *host = &w->hosts[index];
    unsigned user = host->accept_count++;
    uint64_t local_id = (uint64_t)(index + 1) << 32 | ++host->id_counter;
    int rc;

    assert_true(user < THINGS_MAX && !host->incoming[i].answered);
    host->incoming[i].answered = true;
    host->accepts[user] =
        (struct attempt){.used = true, .rc = VIP_RC_NOT_DONE, .local_id = local_id};
    rc = cm_accept(host->cm, host->incoming[i].handle, local_id, &world_attrs, NULL, user,
                   w->now_ns);
    if (rc)
        host->accepts[user].used = false;
    return rc;
}

enum { CLIENT = 0, SERVER = 1, OTHER = 2 };

#define FOR_EVER UINT64_MAX

/* ---- filters (true: the message passes; false: it is lost) ---- */

static inline bool drop_all(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    return false;
}

static unsigned dropped_type UNUSED, dropped_left UNUSED;

/* Lose the next dropped_left messages of type dropped_type. */
static inline bool drop_type(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    if (msg->type != dropped_type || !dropped_left)
        return true;
    dropped_left--;
    return false;
}

static inline void lose(struct world *w, unsigned type, unsigned count)
{
    dropped_type = type;
    dropped_left = count;
    w->filter = drop_type;
}

static inline bool drop_from_server(struct world *w, unsigned from, unsigned to,
                                    const struct vip_cm *msg)
{
    return from != SERVER;
}

/* ---- helpers ---- */

static inline struct cm_stats stats_of(struct world *w, unsigned host)
{
    struct cm_stats stats;

    cm_stats(w->hosts[host].cm, &stats);
    return stats;
}

/* Make one connection from CLIENT to SERVER through discriminator "svc". */
static inline void connect_pair(struct world *w, struct conn **ret_client, struct conn **ret_server)
{
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];
    unsigned request, offered = server->incoming_count;

    host_listen(w, SERVER, 900 + offered, "svc");
    request = host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(server->incoming_count, offered + 1);
    assert_int_equal(host_accept(w, SERVER, offered), 0);
    world_run(w, 5 * MS);
    assert_int_equal(client->requests[request].rc, VIP_RC_SUCCESS);
    assert_int_equal(client->requests[request].done, 1);
    assert_int_equal(server->accepts[server->accept_count - 1].done, 1);
    *ret_client = &client->conns[client->conn_count - 1];
    *ret_server = &server->conns[server->conn_count - 1];
    assert_true((*ret_client)->alive && (*ret_server)->alive);
}

/* Host `to` receives this message of host `from` at once, without the link. */
static inline void inject(struct world *w, unsigned from, unsigned to, uint64_t src_epoch,
                          uint64_t dst_epoch, const struct vip_cm *msg)
{
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes = vip_wire_put_cm(packet, src_epoch, dst_epoch, msg);

    cm_rx(w->hosts[to].cm, &w->hosts[from].addr, packet, len_bytes, w->now_ns);
    host_settle(&w->hosts[to]);
}

#endif
