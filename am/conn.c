/*
 * A connection of a pair: its VIs, buffers and descriptors, posting and reaping. Each request under
 * way and each reply has a send buffer of its own. So a message waits for its buffer only until the
 * earlier message in this buffer has left.
 */
#include "am/internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Receive buffers in addition to one per credit. Two are for a control message and its answer. One
 * is for a new request that uses the credit of a replied request whose handler still runs. */
#define RECVS_EXTRA 3

/* Send buffers in addition to one per credit: one for a control message, one for an answer. */
#define SENDS_EXTRA 2

#define ROUND(n, to) (((n) + (to)-1) / (to) * (to))

/* Bytes of one buffer of a lane. */
static size_t lane_room(const struct am_conn *conn, unsigned lane)
{
    return conn->lanes == 1 || lane == AM_MEDIUM ? AM_BUFFER_BYTES : AM_SMALL_BYTES;
}

/* Set the addresses of the lanes in conn->block. Returns the bytes needed, also for block NULL. */
static size_t lay_out(struct am_conn *conn)
{
    size_t at = 0;
    char *block = conn->block;

    for (unsigned i = 0; i < conn->lanes; i++) {
        struct am_lane *lane = &conn->lane[i];

        lane->conn = conn;
        lane->index = i;
        lane->room = lane_room(conn, i);
        lane->send = (struct am_slot *)(block + at);
        at += conn->sends * sizeof(struct am_slot);
        lane->recv = (VIP_DESCRIPTOR *)(block + at);
        at += conn->recvs * sizeof(VIP_DESCRIPTOR);
        at = ROUND(at, 4096);
        lane->send_bytes = block + at;
        at += conn->sends * lane->room;
        lane->recv_bytes = block + at;
        at = ROUND(at + conn->recvs * lane->room, 4096);
    }
    return at;
}

static int make_block(struct am_conn *conn)
{
    conn->landing_at = lay_out(conn);
    conn->block_bytes = conn->landing_at + (size_t)(conn->k + conn->peer_k) * AM_LONG_MAX;
    if (am_block_get(conn) < 0)
        return -1;
    lay_out(conn);
    return 0;
}

static int make_vi(struct am_lane *lane)
{
    struct am_conn *conn = lane->conn;
    VIP_VI_ATTRIBUTES attrs = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
                               .MaxTransferSize = AM_LONG_MAX,
                               .Ptag = am_net.ptag,
                               .EnableRdmaWrite = VIP_TRUE};

    if (VipCreateVi(am_net.nic, &attrs, conn->bundle->send_cq, conn->bundle->recv_cq, &lane->vi) !=
        VIP_SUCCESS) {
        lane->vi = NULL;
        return -1;
    }
    VipSetUserData(lane->vi, lane);
    for (unsigned i = 0; i < conn->recvs; i++)
        am_recv_post(lane, i);
    return 0;
}

static int make_tables(struct am_conn *conn)
{
    conn->request = calloc(conn->k, sizeof(*conn->request));
    conn->free_id = calloc(conn->k, sizeof(*conn->free_id));
    conn->peer_busy = calloc(conn->peer_k, 1);
    conn->reply = calloc(conn->peer_k, sizeof(*conn->reply));
    conn->arrival = calloc((size_t)conn->lanes * conn->recvs, sizeof(*conn->arrival));
    if (conn->request == NULL || conn->free_id == NULL || conn->peer_busy == NULL ||
        conn->reply == NULL || conn->arrival == NULL)
        return -1;
    for (unsigned i = 0; i < conn->k; i++)
        conn->free_id[conn->free_ids++] = (uint16_t)(conn->k - 1 - i);
    for (unsigned i = 0; i < conn->lanes; i++) {
        conn->lane[i].in_flight = calloc(conn->sends, 1);
        conn->lane[i].region = calloc(conn->sends, sizeof(struct am_region *));
        if (conn->lane[i].in_flight == NULL || conn->lane[i].region == NULL)
            return -1;
        for (unsigned n = 0; n < conn->recvs; n++)
            conn->arrival[i * conn->recvs + n] =
                (struct am_arrival){.lane = &conn->lane[i], .recv = n};
    }
    return 0;
}

struct am_conn *am_conn_new(struct am_map *map, unsigned k, unsigned peer_k)
{
    struct am_conn *conn = calloc(1, sizeof(*conn));
    bool good;

    if (conn == NULL) {
        am_fail(AM_ERR_RESOURCE, "no memory for a connection");
        return NULL;
    }
    conn->map = map;
    conn->bundle = map->ep->bundle;
    conn->k = k;
    conn->peer_k = peer_k;
    conn->lanes = am_net.lanes;
    conn->sends = k + peer_k + SENDS_EXTRA;
    conn->recvs = k + peer_k + RECVS_EXTRA;
    good = make_tables(conn) == 0 && make_block(conn) == 0;
    for (unsigned i = 0; i < conn->lanes && good; i++)
        good = make_vi(&conn->lane[i]) == 0;
    if (good)
        return conn;
    am_fail(AM_ERR_RESOURCE, "no connection: %s", VipxLastError());
    am_conn_free(conn);
    return NULL;
}

/* VipDestroyVi needs a VI without descriptors: take back those that VipDisconnect has flushed. */
static void destroy_vi(VIP_VI_HANDLE vi)
{
    VIP_DESCRIPTOR *desc;

    VipSetUserData(vi, NULL); /* am_reap and am_gather now ignore the VI's entries in the CQs */
    (void)VipDisconnect(vi);
    do
        (void)VipRecvDone(vi, &desc);
    while (desc != NULL);
    do
        (void)VipSendDone(vi, &desc);
    while (desc != NULL);
    (void)VipDestroyVi(vi);
}

void am_conn_free(struct am_conn *conn)
{
    if (conn == NULL)
        return;
    for (unsigned i = 0; i < conn->lanes; i++) {
        struct am_lane *lane = &conn->lane[i];

        if (lane->vi != NULL)
            destroy_vi(lane->vi);
        for (unsigned n = 0; lane->region != NULL && n < conn->sends; n++)
            am_region_put(lane->region[n]);
        free(lane->region);
        free(lane->in_flight);
    }
    am_block_put(conn);
    free(conn->request);
    free(conn->free_id);
    free(conn->peer_busy);
    free(conn->reply);
    free(conn->arrival);
    free(conn);
}

/* ---- receiving ------------------------------------------------------------------------------- */

void am_recv_post(struct am_lane *lane, unsigned n)
{
    VIP_DESCRIPTOR *desc = &lane->recv[n];
    enum am_part part = am_part(AM_PART_VI);

    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Length = (VIP_UINT32)lane->room;
    desc->DS[0].Local.Data.Address = lane->recv_bytes + n * lane->room;
    desc->DS[0].Local.Handle = lane->conn->mem;
    desc->DS[0].Local.Length = (VIP_UINT32)lane->room;
    /* Ignore errors: a broken connection flushes the descriptor, and am_gather handles this. */
    (void)VipPostRecv(lane->vi, desc, lane->conn->mem);
    am_part(part);
}

/* ---- sending --------------------------------------------------------------------------------- */

void am_reap(struct am_bundle *bundle)
{
    VIP_DESCRIPTOR *desc;
    VIP_BOOLEAN recv;
    VIP_VI_HANDLE vi;
    enum am_part part = am_part(AM_PART_VI);

    while (VipCQDone(bundle->send_cq, &vi, &recv) == VIP_SUCCESS) {
        struct am_lane *lane = VipGetUserData(vi);

        desc = NULL;
        (void)VipSendDone(vi, &desc);
        if (lane != NULL && desc != NULL)
            lane->in_flight[((char *)desc - (char *)lane->send) / sizeof(struct am_slot)]--;
    }
    am_part(part);
}

struct am_message *am_slot_get(struct am_lane *lane, unsigned n)
{
    enum am_part part = am_part(AM_PART_FLOW);

    /* The loop ends even if the other program does nothing: vipd completes or flushes all sends. */
    while (lane->in_flight[n] != 0) {
        am_reap(lane->conn->bundle);
        if (lane->in_flight[n] != 0)
            sched_yield();
    }
    if (lane->region[n] != NULL) {
        am_region_put(lane->region[n]);
        lane->region[n] = NULL;
    }
    am_part(part);
    return (struct am_message *)(lane->send_bytes + n * lane->room);
}

void am_slot_post(struct am_lane *lane, unsigned n, size_t bytes)
{
    VIP_DESCRIPTOR *desc = &lane->send[n].desc;
    enum am_part part = am_part(AM_PART_VI);

    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Length = (VIP_UINT32)bytes;
    desc->DS[0].Local.Data.Address = lane->send_bytes + n * lane->room;
    desc->DS[0].Local.Handle = lane->conn->mem;
    desc->DS[0].Local.Length = (VIP_UINT32)bytes;
    if (VipPostSend(lane->vi, desc, lane->conn->mem) == VIP_SUCCESS)
        lane->in_flight[n]++;
    am_part(part);
}

void am_slot_post_write(struct am_lane *lane, unsigned n, size_t msg_bytes,
                        const struct am_transfer *transfer)
{
    VIP_DESCRIPTOR *desc = &lane->send[n].write;
    struct am_conn *conn = lane->conn;
    VIP_RETURN rc = VIP_ERROR_NOT_SUPPORTED;

    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 2;
    desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    desc->CS.Length = (VIP_UINT32)transfer->bytes;
    desc->DS[0].Remote.Data.AddressBits = transfer->to;
    desc->DS[0].Remote.Handle = transfer->to_mem;
    desc->DS[1].Local.Data.Address = (void *)(uintptr_t)transfer->from;
    desc->DS[1].Local.Handle = transfer->from_mem;
    desc->DS[1].Local.Length = (VIP_UINT32)transfer->bytes;
    if (!conn->no_write_message)
        rc = VipxPostWriteMessage(lane->vi, desc, conn->mem, lane->send_bytes + n * lane->room,
                                  msg_bytes);
    if (rc == VIP_SUCCESS) {
        lane->in_flight[n]++;
        return;
    }
    conn->no_write_message = rc == VIP_ERROR_NOT_SUPPORTED;
    if (VipPostSend(lane->vi, desc, conn->mem) == VIP_SUCCESS)
        lane->in_flight[n]++;
    am_slot_post(lane, n, msg_bytes);
}

bool am_conn_sent(struct am_conn *conn)
{
    am_reap(conn->bundle);
    for (unsigned i = 0; i < conn->lanes; i++)
        for (unsigned n = 0; n < conn->sends; n++)
            if (conn->lane[i].in_flight[n] != 0)
                return false;
    return true;
}

/* ---- the bundle's counts and lists ----------------------------------------------------------- */

void am_conn_unlist(struct am_conn *conn)
{
    struct am_bundle *bundle = conn->bundle;

    if (!conn->listed)
        return;
    if (conn->newer != NULL)
        conn->newer->older = conn->older;
    else
        bundle->newest = conn->older;
    if (conn->older != NULL)
        conn->older->newer = conn->newer;
    else
        bundle->oldest = conn->newer;
    conn->newer = conn->older = NULL;
    conn->listed = false;
}

void am_conn_touch(struct am_conn *conn)
{
    struct am_bundle *bundle = conn->bundle;

    if (bundle->newest == conn)
        return;
    am_conn_unlist(conn);
    conn->older = bundle->newest;
    if (bundle->newest != NULL)
        bundle->newest->newer = conn;
    else
        bundle->oldest = conn;
    bundle->newest = conn;
    conn->listed = true;
}

void am_control_set(struct am_conn *conn, bool work)
{
    if (conn->control_work == work)
        return;
    conn->control_work = work;
    conn->bundle->control_conns += work ? 1u : -1u;
    if (work)
        __atomic_store_n(&conn->bundle->attention, 1, __ATOMIC_SEQ_CST);
}
