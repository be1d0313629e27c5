/* Packets kept for later: held by an engine, or parked until a library has placed their bytes. */
#include "proto/assert.h"
#include "vipd/nic/internal.h"

struct nic_held *nic_held_new(struct nic_conn *conn, struct nic_src *src)
{
    struct nic_session *session = conn->session;
    struct nic *nic = session->nic;
    struct nic_held *held;

    if (!nic->held_free)
        return NULL;
    if (nic_src_must_copy(src) && !nic_src_own(nic, src) && !src->bytes)
        return NULL;
    held = &nic->held[nic->held_free - 1];
    nic->held_free = held->next_free;
    nic->held_used++;
    *held = (struct nic_held){.buffer = src->buffer,
                              .own = src->own,
                              .bytes = src->bytes,
                              .len = src->len,
                              .used = true,
                              .data_id = conn->data_id,
                              .session = session};
    nic_list_add_tail(&session->held, &held->link);
    session->held_count++;
    session->held_bytes += held->len;
    session->user->held_count++;
    session->user->held_bytes += held->len;
    nic->held_bytes += held->len;
    return held;
}

void nic_held_slot_free(struct nic *nic, struct nic_held *held)
{
    VIP_ASSERT(held->used);
    nic_list_del(&held->link);
    held->session->held_count--;
    held->session->held_bytes -= held->len;
    held->session->user->held_count--;
    held->session->user->held_bytes -= held->len;
    nic->held_bytes -= held->len;
    held->used = false;
    held->next_free = nic->held_free;
    nic->held_free = (uint32_t)(held - nic->held) + 1;
    nic->held_used--;
}

struct nic_src nic_held_src(const struct nic_held *held)
{
    return (struct nic_src){
        .bytes = held->bytes, .len = held->len, .buffer = held->buffer, .own = held->own};
}

void nic_held_free(struct nic *nic, struct nic_held *held)
{
    struct nic_src src = nic_held_src(held);

    nic_held_slot_free(nic, held);
    nic_src_release(nic, &src);
}

bool nic_held_room(const struct nic_session *session, uint32_t len)
{
    const struct nic *nic = session->nic;
    const struct nic_pool packets = {.have = session->user->held_count,
                                     .used = nic->held_used,
                                     .max = NIC_HELD_MAX - NIC_HELD_RESERVE,
                                     .small = NIC_HELD_SMALL,
                                     .reserve = NIC_HELD_KEPT,
                                     .times = 2};
    const struct nic_pool bytes = {.have = session->user->held_bytes,
                                   .used = nic->held_bytes,
                                   .max = NIC_HELD_BYTES - NIC_HELD_BYTES_RESERVE,
                                   .small = NIC_HELD_BYTES_SMALL,
                                   .reserve = NIC_HELD_BYTES_KEPT,
                                   .times = 2};

    return session->held_count < NIC_HELD_SESSION &&
           session->held_bytes + len <= NIC_HELD_BYTES_SESSION && nic_pool_room(&packets, 1) &&
           nic_pool_room(&bytes, len);
}
