/*
 * Copies payload into registered memory. libvipl helps with staged regions.
 *
 * The bytes of a staged region exist twice: in the application and in a memfd. Bytes of RDMA Writes
 * must be in the application's memory before vipd acknowledges them, and only libvipl can put them
 * there. So vipd puts the bytes into the memfd, asks the library to copy them (sink.place), and
 * parks the packet until the library answers (nic_placed). Then the engine gets the packet. vipd
 * also parks packets that continue a parked packet, so that a long write does not need a round trip
 * per packet. Adjacent fragments of a write that come in one turn share a request.
 *
 * Packets with RDMA Reads of a staged region are parked, too. Before the engine gets such a packet,
 * libvipl copies the bytes from the application's memory to the memfd (sink.fetch).
 *
 * Owns: the parked packets and their order. Does not own: rights (registry), the order of frames
 * (engine).
 */
#include <string.h>

#include "proto/assert.h"
#include "vipd/engine/mutant.h"
#include "vipd/nic/internal.h"
#include "vipd/registry/guard.h"

struct registry_vi nic_registry_vi(const struct nic_vi *vi)
{
    return (struct registry_vi){.ptag = vi->ptag,
                                .enable_rdma_write = vi->attrs.enable_rdma_write,
                                .enable_rdma_read = vi->attrs.enable_rdma_read};
}

static void *access_bytes(struct nic_session *session, const struct eng_access *access,
                          bool *ret_staged)
{
    struct registry_vi vi = nic_registry_vi(&session->vis[access->vi]);

    *ret_staged = false;
    return registry_access(session->registry, &vi, access, ret_staged);
}

static bool spoiled(const struct nic_session *session, const struct eng_access *access);

/* eng_ops.check. A peer's RDMA Read must not read memory that the library could not read. */
bool nic_op_check(void *ctx, const struct eng_access *access)
{
    bool staged;

    return access_bytes(ctx, access, &staged) != NULL &&
           (access->kind != ENG_ACCESS_REMOTE_READ || !spoiled(ctx, access));
}

bool nic_op_place(void *ctx, const struct eng_access *access, uint32_t payload_offset)
{
    struct nic_session *session = ctx;
    const struct nic_src *src = session->cur;
    bool staged;
    void *to = access_bytes(session, access, &staged);

    VIP_ASSERT(src);
    if (!to)
        return false;
    if (!access->len)
        return true;
    staged = staged && access->kind == ENG_ACCESS_REMOTE_WRITE;
    if (staged && src->placed)
        return !spoiled(session, access); /* libvipl has placed the bytes, or has failed */
    if (!nic_src_copy(src, payload_offset, to, access->len))
        return false;
    if (staged) {
        /* vipd did not foresee that the frame would be in its turn, so it did not park the packet.
         * The library places the bytes late, just after their acknowledgement. */
        session->nic->counts.places_late++;
        nic_place_ask(session, access, NULL);
        session->late[session->place_issued % NIC_LATE_MAX] =
            (struct nic_late){.number = session->place_issued,
                              .vi = access->vi,
                              .generation = session->vis[access->vi].generation};
    }
    return true;
}

/* ---- staged writes --------------------------------------------------------------------- */

/* What stage_look finds out about a packet. */
struct stage {
    uint32_t mask;       /* one bit for each frame for which libvipl copies bytes */
    bool in_turn;        /* some frame is the next one, or follows the parked frames */
    bool again;          /* some frame is parked already */
    uint32_t op, offset; /* operation and offset that follow the last frame in turn */
};

/* The frame's access to memory of this host: a fragment of an RDMA Write, or the range of an RDMA
 * Read. false: the frame has no such access. */
static bool remote_access(const struct nic_conn *conn, const struct vip_frame *frame,
                          struct eng_access *ret)
{
    uint32_t bulk = vip_frame_bulk(frame);
    uint32_t len = frame->flags & VIP_FRMF_LAST ? frame->length - frame->message : frame->length;

    if (frame->type == VIP_FRM_READ_REQ && frame->total && !VIP_MUTANT(STAGE_FETCH)) {
        *ret = (struct eng_access){.vi = conn->vi,
                                   .kind = ENG_ACCESS_REMOTE_READ,
                                   .handle = frame->handle,
                                   .addr = frame->remote_addr,
                                   .len = frame->total};
        return true;
    }
    if ((frame->type != VIP_FRM_WRITE && frame->type != VIP_FRM_WRITE_MSG) || !len ||
        frame->remote_addr > UINT64_MAX - bulk)
        return false;
    *ret = (struct eng_access){.vi = conn->vi,
                               .kind = ENG_ACCESS_REMOTE_WRITE,
                               .handle = frame->handle,
                               .addr = frame->remote_addr + frame->offset,
                               .len = len};
    return true;
}

/* Did the library fail to place, or to read, the range that the engine accesses now? The engine may
 * skip the beginning of a frame and knows no frame numbers. So this function compares ranges. */
static bool spoiled(const struct nic_session *session, const struct eng_access *access)
{
    const struct nic_src *src = session->cur;
    const struct vip_packet *packet = &session->nic->replay_packet;

    if (!src || !src->spoiled)
        return false;
    for (unsigned i = 0; i < packet->hdr.frame_count; i++) {
        const struct vip_frame *frame = &packet->frames[i];
        uint64_t start = frame->remote_addr + frame->offset;
        uint32_t len = frame->type == VIP_FRM_READ_REQ ? frame->total : frame->length;

        if ((src->spoiled & (1u << i)) && frame->handle == access->handle &&
            (frame->type == VIP_FRM_READ_REQ) == (access->kind == ENG_ACCESS_REMOTE_READ) &&
            access->addr - start < len)
            return true;
    }
    return false;
}

/* Must the library copy bytes for this frame? Only if the whole operation is allowed. Like the
 * engine, vipd checks the whole range before it places the first byte (spec 3.5). */
static bool frame_staged(const struct nic_conn *conn, const struct vip_frame *frame)
{
    struct eng_access access;
    bool staged;

    if (!remote_access(conn, frame, &access) || !access_bytes(conn->session, &access, &staged) ||
        !staged)
        return false;
    access.addr = frame->remote_addr;
    access.len = vip_frame_bulk(frame);
    return access_bytes(conn->session, &access, &staged) != NULL;
}

/* Does the frame come before this offset of this operation? */
static bool frame_before(const struct vip_frame *frame, uint32_t op, uint32_t offset)
{
    if (frame->op != op)
        return (int32_t)(frame->op - op) < 0;
    return frame->offset < offset;
}

static void stage_look(const struct nic_conn *conn, const struct vip_packet *packet,
                       struct stage *ret)
{
    const struct nic_session *session = conn->session;
    bool chain = conn->parked > 0, known = chain;
    bool gaps = session->vis[conn->vi].attrs.level == VIP_LVL_UNRELIABLE;

    *ret = (struct stage){.op = conn->parked_op, .offset = conn->parked_offset};
    for (unsigned i = 0; i < packet->hdr.frame_count; i++) {
        const struct vip_frame *frame = &packet->frames[i];
        bool turn = known && frame->op == ret->op && frame->offset == ret->offset;

        /* A fragment sent again with other borders may overlap the end of a parked fragment. */
        if (known && !gaps && frame->op == ret->op && frame->offset < ret->offset &&
            frame->length > ret->offset - frame->offset)
            turn = true;
        if (frame->type == VIP_FRM_READ_RESP)
            continue; /* numbered by our own send queue; libvipl never places its bytes */
        if (!turn && chain) {
            bool before = frame_before(frame, conn->parked_op, conn->parked_offset);

            ret->again = ret->again || before;
            turn = gaps && !before;
        } else if (!turn) {
            turn = eng_rx_expects(session->eng, conn->vi, frame);
        }
        if (!turn)
            continue;
        known = true;
        ret->in_turn = true;
        ret->op = frame->flags & VIP_FRMF_LAST ? frame->op + 1 : frame->op;
        ret->offset = frame->flags & VIP_FRMF_LAST ? 0 : frame->offset + frame->length;
        if (frame_staged(conn, frame))
            ret->mask |= 1u << i;
    }
}

static void stage_place(struct nic_conn *conn, const struct vip_packet *packet,
                        const struct nic_src *src, uint32_t mask)
{
    struct nic_session *session = conn->session;

    for (unsigned i = 0; i < packet->hdr.frame_count; i++) {
        struct eng_access access;
        bool staged;
        void *to;

        if (!(mask & (1u << i)) || !remote_access(conn, &packet->frames[i], &access))
            continue;
        /* NULL: a page has become missing since stage_look. The missing page ends the session. */
        to = access_bytes(session, &access, &staged);
        if (to && access.kind == ENG_ACCESS_REMOTE_WRITE)
            /* If a page is missing, the connection ends before any of its operations completes. */
            (void)nic_src_copy(src, packet->frames[i].payload, to, access.len);
        nic_place_ask(session, &access, &packet->frames[i]);
    }
}

/* A cheap test before stage_look: most packets have no access to a staged region. */
static bool may_stage(const struct nic_conn *conn, const struct vip_packet *packet)
{
    if (conn->parked)
        return packet->hdr.frame_count > 0;
    for (unsigned i = 0; i < packet->hdr.frame_count; i++)
        if (frame_staged(conn, &packet->frames[i]))
            return true;
    return false;
}

/*
 * May vipd park one more packet of this session? A library that does not answer must not use up the
 * slots that other sessions need. A session without kept packets may use the reserve, but not the
 * last slot: without a free slot vipd drops even packets in their turn.
 */
static bool may_park(const struct nic_conn *conn, const struct vip_packet *packet, uint32_t len)
{
    const struct nic_session *session = conn->session;
    const struct nic *nic = session->nic;
    bool claim = !session->held_count && nic->held_used < NIC_HELD_MAX - 1 &&
                 nic->held_bytes + len <= NIC_HELD_BYTES;

    return conn->parked < NIC_PARKED_MAX && (claim || nic_held_room(session, len)) &&
           session->place_issued - session->place_done + packet->hdr.frame_count <= NIC_PLACES_MAX;
}

enum nic_stage nic_stage(struct nic_conn *conn, const struct vip_packet *packet,
                         struct nic_src *src, struct nic_held *replay)
{
    struct nic_session *session = conn->session;
    struct nic_counts *counts = &session->nic->counts;
    struct nic_held *held = replay;
    struct stage look;

    if (!may_stage(conn, packet) || VIP_MUTANT(STAGE_EARLY))
        return NIC_STAGE_NO;
    stage_look(conn, packet, &look);
    if (!conn->parked && !look.mask)
        return NIC_STAGE_NO;
    if (!replay) {
        if (look.again) {
            counts->drop_parked_again++;
            return NIC_STAGE_DROP;
        }
        if (!look.in_turn)
            return NIC_STAGE_NO; /* the packet is ahead of its turn: the engine holds it */
        if (!may_park(conn, packet, src->len) || !(held = nic_held_new(conn, src))) {
            counts->drop_park_full++;
            return NIC_STAGE_DROP;
        }
    }
    /* A replayed packet is acknowledged already, so it is never dropped. */
    stage_place(conn, packet, src, look.mask);
    nic_list_del(&held->link);
    nic_list_add_tail(&session->parked, &held->link);
    held->replay = replay != NULL;
    held->number = session->place_issued;
    held->staged = look.mask;
    held->spoiled = 0;
    conn->parked++;
    conn->parked_op = look.op;
    conn->parked_offset = look.offset;
    counts->parked++;
    return NIC_STAGE_PARKED;
}

/* The library could not place the ranges `first` to `last`: mark their frames; if a range was late,
 * report an error to the program. */
static void place_failed(struct nic_session *session, uint64_t first, uint64_t last)
{
    session->nic->counts.places_spoiled += last - first + 1;
    for (struct nic_list *item = session->parked.next; item != &session->parked;
         item = item->next) {
        struct nic_held *held = NIC_ITEM(item, struct nic_held, link);
        uint64_t number = held->number;

        /* The packet's ranges are numbered in frame order; its last range has held->number. */
        for (uint32_t left = held->staged; left && number >= first; number--) {
            uint32_t frame = 1u << (31 - __builtin_clz(left));

            if (number <= last)
                held->spoiled |= frame;
            left &= ~frame;
        }
        if (held->number >= last)
            break;
    }
    for (unsigned i = 0; i < NIC_LATE_MAX && !session->closing; i++) {
        const struct nic_late *late = &session->late[i];

        if (late->number >= first && late->number <= last)
            session->sink->error(session->ctx, VIP_RES_VI, VIP_EC_RDMAW_DATA, late->vi,
                                 late->generation, VIP_CTL_OP_RDMAWRITE,
                                 "memory that the peer may write to did not take the bytes");
    }
}

bool nic_placed(struct nic_session *session, uint64_t number, bool good, uint64_t now_ns)
{
    uint64_t first = session->place_done + 1;

    session->nic->now_ns = now_ns;
    if (number < first || number > session->place_issued)
        return false;
    session->place_done = number;
    if (!good)
        place_failed(session, first, number);
    return true;
}

bool nic_placed_any(const struct nic_session *session)
{
    return !nic_list_empty(&session->parked) && !session->closing &&
           (NIC_ITEM(session->parked.next, struct nic_held, link)->number <= session->place_done ||
            VIP_MUTANT(STAGE_ORDER));
}
