/*
 * Helpers for tests of the connection manager's shares (cm_share.h): listeners, clients that
 * connect, requests from hosts outside the world. The limits are larger than those of cm_world.h.
 */
#ifndef TESTS_UNIT_CM_SHARES_H
#define TESTS_UNIT_CM_SHARES_H

#define FLIGHT_MAX 32768
#define THINGS_MAX 8192
#include "tests/unit/cm_world_run.h"
#include "vipd/engine/cm_internal.h"

#include <errno.h>

enum { HOG = 1001, HONEST = 2002, ATTEMPTS = 5000 };

static inline void listener(struct world *w, unsigned host, uint64_t wait, const char *disc)
{
    assert_int_equal(cm_listen(w->hosts[host].cm, wait, w->uid, (const uint8_t *)disc,
                               (uint8_t)strlen(disc), 1024, w->now_ns),
                     0);
}

/* A client of user HONEST on host `from` connects to a server of the same user on host SERVER. */
static inline void connects(struct world *w, unsigned from, const char *disc)
{
    struct host *server = &w->hosts[SERVER];
    unsigned offered = server->incoming_count, request;

    w->uid = HONEST;
    host_listen(w, SERVER, 7000 + offered, disc);
    request = host_request(w, from, SERVER, disc, 5 * S);
    world_run(w, 5 * MS);
    assert_int_equal(server->incoming[server->incoming_count - 1].wait, 7000 + offered);
    assert_int_equal(host_accept(w, SERVER, server->incoming_count - 1), 0);
    world_run(w, 5 * MS);
    assert_int_equal(w->hosts[from].requests[request].rc, VIP_RC_SUCCESS);
}

/* Returns the address of a host outside the world, with this port. `host` must not be 0. */
static inline struct cm_host address(const struct world *w, unsigned host, unsigned port)
{
    struct cm_host ret = w->hosts[CLIENT].addr;

    ret.bytes[1] = (uint8_t)(host >> 8);
    ret.bytes[2] = (uint8_t)host;
    ret.bytes[4] = (uint8_t)(port >> 8);
    ret.bytes[5] = (uint8_t)port;
    return ret;
}

/* Returns the address of host CLIENT with this port. */
static inline struct cm_host port_of(const struct world *w, unsigned port)
{
    struct cm_host ret = w->hosts[CLIENT].addr;

    ret.bytes[4] = (uint8_t)(port >> 8);
    ret.bytes[5] = (uint8_t)port;
    return ret;
}

/* SERVER receives a REQUEST from address `from`, which may belong to no host of the world. The test
 * must not use cookies: nobody at this address returns them. */
static inline void from_address(struct world *w, struct cm_host from, uint64_t id, const char *disc)
{
    struct vip_cm msg = {.type = VIP_CM_REQUEST,
                         .request_id = id,
                         .conn_id = id,
                         .packet_bytes = 1000,
                         .window_bytes = 1000,
                         .attrs = world_attrs,
                         .remote = world_addr(&w->hosts[SERVER], disc)};
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes = vip_wire_put_cm(packet, 4711, 0, &msg);

    cm_rx(w->hosts[SERVER].cm, &from, packet, len_bytes, w->now_ns);
}

#endif
