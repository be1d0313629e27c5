/*
 * Waits for connection requests: VipConnectWait, listeners, and the requests delivered to them that
 * the application has not answered.
 *
 * Owns: the list of waits, listeners and requests of a session. Does not own: accept and reject
 * (connect.c), the match of requests and waits (vipd/engine/cm_server.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"

static struct nic_waiter *wait_find(const struct nic_session *session, uint64_t id)
{
    for (uint32_t i = 0; i < session->wait_count; i++)
        if (session->waits[i].id == id)
            return &session->waits[i];
    return NULL;
}

struct nic_waiter *nic_waiter_of_handle(const struct nic_session *session, uint64_t handle)
{
    for (uint32_t i = 0; i < session->wait_count; i++)
        if (session->waits[i].handle_valid && session->waits[i].handle == handle)
            return &session->waits[i];
    return NULL;
}

void nic_waiter_remove(struct nic_session *session, struct nic_waiter *wait)
{
    *wait = session->waits[--session->wait_count];
}

/* A new wait; the low bits of its number are the session's slot. NULL: too many, or no memory. */
static struct nic_waiter *wait_new(struct nic_session *session)
{
    struct nic *nic = session->nic;
    struct nic_waiter *wait;

    if (session->wait_count == session->wait_cap) {
        uint32_t cap = session->wait_cap ? session->wait_cap * 2 : 8;
        struct nic_waiter *waits;

        if (cap > NIC_WAITS_MAX)
            return NULL;
        waits = realloc(session->waits, cap * sizeof(*waits));
        if (!waits)
            return NULL;
        session->waits = waits;
        session->wait_cap = cap;
    }
    wait = &session->waits[session->wait_count++];
    *wait = (struct nic_waiter){.id = ++nic->next_wait * NIC_SESSIONS_MAX + session->slot};
    return wait;
}

/* Copy the discriminator if it is not too long; else the connection manager refuses the wait. */
static void wait_local(struct nic_waiter *wait, const struct vip_addr *local)
{
    if (local->disc_len > sizeof(wait->local_disc))
        return;
    wait->local_disc_len = local->disc_len;
    memcpy(wait->local_disc, local->disc, local->disc_len);
}

bool nic_waiters_end(struct nic_session *session, unsigned *ends)
{
    struct nic *nic = session->nic;

    /* End all waits first, so that new requests go to other programs that wait for them. The end of
     * a wait costs little, so *ends does not count it. */
    for (uint32_t i = session->wait_count; i-- > 0;) {
        struct nic_waiter *wait = &session->waits[i];

        if (wait->handle_valid)
            continue;
        (void)cm_unwait(nic->cm, wait->id, nic->now_ns);
        nic_waiter_remove(session, wait);
    }
    for (; session->wait_count; session->wait_count--) {
        if (*ends == 0)
            return false;
        (*ends)--;
        if (session->stays)
            continue; /* the remote client repeats its request, and the program waits again */
        (void)cm_reject(nic->cm, session->waits[session->wait_count - 1].handle, VIP_RC_REJECT,
                        NULL, nic->now_ns);
    }
    return true;
}

static enum vip_rc refuse(int rc, char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "%s",
             rc == -EPERM ? NIC_WHY_OWNER : "too many waits, listeners and unanswered requests");
    return VIP_RC_ERROR_RESOURCE;
}

enum vip_rc nic_connect_wait(struct nic_session *session, const struct vip_addr *local,
                             bool immediate, uint64_t now_ns, uint64_t *ret_wait, bool *ret_found,
                             char *why, size_t why_bytes)
{
    struct nic *nic = session->nic;
    struct nic_waiter *wait = wait_new(session);
    uint64_t id;
    int rc;

    nic->now_ns = now_ns;
    if (!wait)
        return refuse(-ENOMEM, why, why_bytes);
    wait_local(wait, local);
    id = wait->id;
    rc = cm_wait(nic->cm, id, session->id, session->uid, local->disc, local->disc_len, now_ns);
    if (rc < 0) {
        nic_waiter_remove(session, wait_find(session, id));
        return refuse(rc, why, why_bytes);
    }
    wait = wait_find(session, id);
    *ret_wait = id;
    *ret_found = wait->handle_valid;
    if (immediate && !wait->handle_valid) {
        (void)cm_unwait(nic->cm, id, now_ns);
        nic_waiter_remove(session, wait);
    }
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_connect_wait_cancel(struct nic_session *session, uint64_t wait_id, uint64_t now_ns,
                                    bool *ret_found)
{
    struct nic_waiter *wait = wait_find(session, wait_id);

    session->nic->now_ns = now_ns;
    if (!wait || wait->listener)
        return VIP_RC_INVALID_PARAMETER;
    *ret_found = wait->handle_valid;
    if (!wait->handle_valid) {
        (void)cm_unwait(session->nic->cm, wait_id, now_ns);
        nic_waiter_remove(session, wait);
    }
    return VIP_RC_SUCCESS;
}

/* ---- listeners ------------------------------------------------------------------------- */

enum vip_rc nic_listen(struct nic_session *session, const struct vip_addr *local, uint32_t backlog,
                       uint64_t now_ns, uint64_t *ret_wait, char *why, size_t why_bytes)
{
    struct nic *nic = session->nic;
    struct nic_waiter *wait = wait_new(session);
    uint64_t id;
    int rc;

    nic->now_ns = now_ns;
    if (!wait)
        return refuse(-ENOMEM, why, why_bytes);
    if (backlog == 0)
        backlog = 1;
    if (backlog > NIC_BACKLOG_MAX)
        backlog = NIC_BACKLOG_MAX;
    wait->listener = true;
    wait_local(wait, local);
    id = wait->id;
    rc = cm_listen(nic->cm, id, session->uid, local->disc, local->disc_len, backlog, now_ns);
    if (rc < 0) {
        nic_waiter_remove(session, wait_find(session, id));
        return refuse(rc, why, why_bytes);
    }
    *ret_wait = id;
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_listen_close(struct nic_session *session, uint64_t wait_id, uint64_t now_ns,
                             uint64_t *ret_delivered)
{
    struct nic_waiter *wait = wait_find(session, wait_id);

    session->nic->now_ns = now_ns;
    if (!wait || !wait->listener)
        return VIP_RC_INVALID_PARAMETER;
    *ret_delivered = wait->delivered;
    (void)cm_unwait(session->nic->cm, wait_id, now_ns);
    nic_waiter_remove(session, wait);
    return VIP_RC_SUCCESS;
}

bool nic_session_waits_where(const struct nic_session *session,
                             bool (*where)(void *ctx, const uint8_t *disc, uint8_t len), void *ctx)
{
    struct cm *cm = session->nic->cm;

    for (uint32_t i = 0; i < session->wait_count; i++)
        if (where(ctx, session->waits[i].local_disc, session->waits[i].local_disc_len))
            return true;
    for (uint32_t i = 0; i < session->vi_high; i++) {
        const struct nic_conn *conn = session->vis[i].used ? session->vis[i].conn : NULL;

        if (conn && conn->state == NIC_CONN_REQUESTED &&
            cm_meets_where(cm, conn->local_id, where, ctx))
            return true;
    }
    return cm_serves_where(cm, session->id, where, ctx);
}

uint64_t nic_new_discriminator(struct nic *nic)
{
    uint8_t bytes[8];
    uint64_t number;

    do {
        number = nic_random(nic);
        for (unsigned i = 0; i < sizeof(bytes); i++)
            bytes[i] = (uint8_t)(number >> 8 * i);
    } while (cm_disc_in_use(nic->cm, bytes, sizeof(bytes)));
    return number;
}

/* ---- requests that come in -------------------------------------------------------------- */

/* The entry for a request: the entry of the wait, or a new entry for a listener. NULL: no room. */
static struct nic_waiter *take_request(struct nic_session *session, uint64_t wait_id)
{
    struct nic_waiter *wait = wait_find(session, wait_id), *entry;

    VIP_ASSERT(wait && !wait->handle_valid);
    if (!wait->listener)
        return wait;
    entry = wait_new(session);
    if (!entry)
        return NULL;
    entry->id = 0;
    wait = wait_find(session, wait_id);
    entry->local_disc_len = wait->local_disc_len;
    memcpy(entry->local_disc, wait->local_disc, sizeof(entry->local_disc));
    wait_find(session, wait_id)->delivered++;
    return entry;
}

enum vip_rc nic_request_user(const struct nic_session *session, uint64_t conn_handle,
                             uint32_t *ret_uid)
{
    int rc = -ENOENT;

    if (nic_waiter_of_handle(session, conn_handle))
        rc = cm_pending_user(session->nic->cm, conn_handle, ret_uid);
    if (rc == -EREMOTE)
        return VIP_RC_ERROR_NOT_SUPPORTED;
    return rc ? VIP_RC_INVALID_PARAMETER : VIP_RC_SUCCESS;
}

void nic_op_incoming(void *ctx, uint64_t wait_id, uint64_t handle, const struct vip_addr *remote,
                     const struct vip_cm_attrs *attrs, const struct vip_private *data)
{
    struct nic *nic = ctx;
    uint32_t slot = (uint32_t)(wait_id % NIC_SESSIONS_MAX);
    struct nic_session *session = nic->session_slots[slot];
    struct nic_waiter *wait = session->closing ? NULL : take_request(session, wait_id);

    if (!wait) {
        (void)cm_reject(nic->cm, handle, session->closing ? VIP_RC_REJECT : VIP_RC_ERROR_RESOURCE,
                        NULL, nic->now_ns);
        return;
    }
    wait->handle = handle;
    wait->handle_valid = true;
    wait->remote_disc_len = remote->disc_len;
    session->sink->incoming(session->ctx, wait_id, handle, remote, attrs, data);
}
