/*
 * The table of connection ids. The low bits of an id are its table index; the other bits are
 * random. So a packet finds its connection in O(1), and a guessed or old id finds nothing. A
 * connection has one id for the connection manager, and one for data packets.
 *
 * Owns: allocation of connections, ids, the lists by peer. Does not own: events and packets of a
 * connection (connect.c, rx.c).
 */
#include <stdlib.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"

/* Make one more connection object. The table of pointers may move; the objects never move. */
static struct nic_conn *conn_grow(struct nic *nic)
{
    if (nic->conns_used == nic->conns_cap) {
        uint32_t cap = nic->conns_cap ? nic->conns_cap * 2 : 64;
        struct nic_conn **table;

        if (cap > NIC_CONNS_MAX)
            return NULL;
        table = realloc(nic->conns, cap * sizeof(*table));
        if (!table)
            return NULL;
        nic->conns = table;
        nic->conns_cap = cap;
    }

    struct nic_conn *conn = calloc(1, sizeof(*conn));

    if (!conn)
        return NULL;
    conn->index = nic->conns_used;
    nic_list_init(&conn->by_peer);
    nic->conns[nic->conns_used++] = conn;
    return conn;
}

uint64_t nic_conn_id(const struct nic_conn *conn)
{
    uint64_t id;

    do
        id = (nic_random(conn->session->nic) << NIC_CONN_BITS) | conn->index;
    while (id >> NIC_CONN_BITS == 0);
    return id;
}

void nic_conn_renew(struct nic_conn *conn)
{
    conn->local_id = conn->data_id = nic_conn_id(conn);
}

/* Make a connection object for a VI, with a fresh id. NULL: no memory, or NIC_CONNS_MAX exist. */
struct nic_conn *nic_conn_new(struct nic_session *session, uint16_t vi, enum nic_conn_state state)
{
    struct nic *nic = session->nic;
    struct nic_conn *conn = nic->conn_free;
    uint32_t index;

    if (conn)
        nic->conn_free = conn->next_free;
    else
        conn = conn_grow(nic);
    if (!conn)
        return NULL;
    VIP_ASSERT(conn->state == NIC_CONN_FREE && state != NIC_CONN_FREE);
    VIP_ASSERT(!session->vis[vi].conn);

    index = conn->index;
    *conn = (struct nic_conn){
        .index = index, .state = state, .session = session, .vi = vi, .since_ns = nic->now_ns};
    nic_list_init(&conn->by_peer);
    nic_conn_renew(conn);
    session->vis[vi].conn = conn;
    session->connects++;
    return conn;
}

/* Free the connection; its id finds nothing from now on. */
void nic_conn_free(struct nic_conn *conn)
{
    struct nic *nic = conn->session->nic;

    VIP_ASSERT(conn->state != NIC_CONN_FREE);
    VIP_ASSERT(conn->session->vis[conn->vi].conn == conn);
    nic_list_del(&conn->by_peer);
    if (conn->loan)
        nic_loan_free(conn->loan);
    if (conn->state != NIC_CONN_ESTABLISHED) {
        conn->session->connects--;
        conn->session->meets -= conn->waits;
    }
    conn->session->vis[conn->vi].conn = NULL;
    conn->state = NIC_CONN_FREE;
    conn->local_id = conn->data_id = 0;
    conn->session = NULL;
    conn->next_free = nic->conn_free;
    nic->conn_free = conn;
}

/* The connection with exactly this id, or NULL. The id is not trusted: any host may send any id. */
struct nic_conn *nic_conn_find(const struct nic *nic, uint64_t local_id)
{
    uint32_t index = (uint32_t)(local_id & (NIC_CONNS_MAX - 1));

    if (index >= nic->conns_used || nic->conns[index]->local_id != local_id)
        return NULL;
    return nic->conns[index]->state == NIC_CONN_FREE ? NULL : nic->conns[index];
}

/* The same for the id in the header of a data packet. */
struct nic_conn *nic_conn_of_data(const struct nic *nic, uint64_t data_id)
{
    uint32_t index = (uint32_t)(data_id & (NIC_CONNS_MAX - 1));

    if (index >= nic->conns_used || nic->conns[index]->data_id != data_id)
        return NULL;
    return nic->conns[index]->state == NIC_CONN_FREE ? NULL : nic->conns[index];
}

bool nic_conn_goes_on(const struct nic_conn *conn)
{
    return (conn->features & VIP_FEATURE_REBIND) != 0 &&
           (conn->state == NIC_CONN_ESTABLISHED || conn->state == NIC_CONN_REBINDING) &&
           !conn->lost;
}

void nic_rebound_tell(const struct nic_conn *conn, const char *why)
{
    const struct nic_session *session = conn->session;

    if (session->sink->rebound && !session->closing && !conn->lost_before)
        session->sink->rebound(session->ctx, conn->vi, why);
}

struct nic_binding_view nic_conn_binding(const struct nic_conn *conn)
{
    struct nic_binding_view view = {0};
    struct cm_peer_view peer;
    struct cm *cm;

    if (!conn || (conn->state != NIC_CONN_ESTABLISHED && conn->state != NIC_CONN_REBINDING))
        return view;
    cm = conn->session->nic->cm;
    view.rebound = conn->rebound;
    view.since_ns = conn->since_ns;
    if (conn->state == NIC_CONN_REBINDING) {
        view.until_ns = cm_rebind_until(cm, conn->local_id);
        view.wait = view.until_ns ? NIC_WAIT_ANSWER : NIC_WAIT_PROGRAM;
    } else if (nic_conn_goes_on(conn) && cm_peer_away(cm, conn->peer, &peer)) {
        view.wait = NIC_WAIT_PEER;
        view.since_ns = peer.since_ns;
        view.until_ns = peer.away_until_ns;
        view.told_ns = peer.told_ns;
    }
    return view;
}

void nic_conn_set_peer(struct nic_conn *conn, uint32_t peer)
{
    struct nic *nic = conn->session->nic;

    conn->peer = peer;
    nic_list_del(&conn->by_peer); /* a connection that is bound anew leaves an old list */
    nic_list_add_tail(&nic->peers[peer % NIC_PEER_BUCKETS], &conn->by_peer);
}

#define PEERS_PER_CALL 65536 /* table entries per call; the whole table would take too long */

uint32_t nic_peers(const struct nic *nic, uint32_t from,
                   bool (*visit)(void *ctx, const struct link_addr *peer), void *ctx)
{
    uint32_t index = from;

    for (; index < nic->conns_used && index - from < PEERS_PER_CALL; index++) {
        const struct nic_conn *conn = nic->conns[index];

        if (conn->state == NIC_CONN_ESTABLISHED && !visit(ctx, &conn->to))
            break;
    }
    return index < nic->conns_used ? index : UINT32_MAX;
}

void nic_conns_deinit(struct nic *nic)
{
    for (uint32_t i = 0; i < nic->conns_used; i++)
        free(nic->conns[i]);
    free(nic->conns);
    nic->conns = NULL;
    nic->conns_used = nic->conns_cap = 0;
}
