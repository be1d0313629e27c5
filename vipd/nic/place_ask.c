/* Requests to libvipl to copy bytes of staged regions. Adjacent bytes share one request. */
#include "proto/assert.h"
#include "vipd/nic/internal.h"

void nic_place_flush(struct nic *nic)
{
    struct nic_place *place = &nic->place;
    struct nic_session *session = place->session;

    place->session = NULL;
    if (session && !session->closing)
        session->sink->place(session->ctx, place->number, place->handle, place->offset,
                             place->bytes);
}

/* Do the frame's bytes follow the collected bytes in the same RDMA Write, and may they join? */
static bool place_follows(const struct nic_session *session, const struct eng_access *access,
                          const struct vip_frame *frame)
{
    const struct nic_place *place = &session->nic->place;

    return frame && frame->offset && place->session == session && place->vi == access->vi &&
           place->op == frame->op && place->addr + place->bytes == access->addr &&
           place->bytes + access->len <= NIC_PLACE_BYTES;
}

/* libvipl's answer has the number place_issued, or a later number if more bytes of the write
 * follow. The fragments of a write can share an answer: the whole write fails if any byte fails. */
void nic_place_ask(struct nic_session *session, const struct eng_access *access,
                   const struct vip_frame *frame)
{
    const struct registry_region *region = registry_get(session->registry, access->handle);
    struct nic_place *place = &session->nic->place;

    VIP_ASSERT(region && access->addr >= region->addr);
    session->nic->counts.places++;
    session->place_issued++;
    if (session->closing)
        return;
    if (access->kind == ENG_ACCESS_REMOTE_READ) {
        nic_place_flush(session->nic);
        session->sink->fetch(session->ctx, session->place_issued, access->handle,
                             access->addr - region->addr, access->len);
        return;
    }
    if (!place_follows(session, access, frame)) {
        nic_place_flush(session->nic);
        *place = (struct nic_place){.session = session,
                                    .vi = access->vi,
                                    .op = frame ? frame->op : 0,
                                    .handle = access->handle,
                                    .addr = access->addr,
                                    .offset = access->addr - region->addr};
    }
    place->bytes += access->len;
    place->number = session->place_issued;
}
