/*
 * Append one fragment of an operation to the packet that is being built. The header of its frame
 * goes into the packet's head buffer. For the payload, the packet has references to registered
 * memory.
 */
#include "vipd/engine/internal.h"

#include <string.h>

void eng_build_begin(struct eng_build *build, struct eng_vi *vi, struct eng_packet *packet)
{
    build->packet = packet;
    build->head_bytes = 0;
    build->message_bytes = 0;
    build->frames = 0;
    build->limit_bytes = vi->tx.packet_bytes;
    build->unheard = false;
    packet->vi = vi->index;
    packet->path = vi->conn.path;
    packet->bytes = 0;
    packet->remote_read = false;
    packet->copy = vi->tx.lost || vi->eng->now_ns < vi->tx.copy_until_ns;
    packet->op = 0;
    packet->posted_ns = 0;
    packet->piece_count = 0;
    eng_build_head(build, VIP_WIRE_HEADER_BYTES);
}

/* Add `bytes` bytes at the end of the head buffer to the packet. The caller writes them before or
 * after this call. */
void eng_build_head(struct eng_build *build, uint32_t bytes)
{
    struct eng_packet *packet = build->packet;
    struct eng_piece *last;

    VIP_ASSERT(build->head_bytes + bytes <= ENG_HEAD_BYTES);
    if (packet->piece_count && !packet->piece[packet->piece_count - 1].from_region) {
        last = &packet->piece[packet->piece_count - 1];
        last->len += bytes;
    } else {
        VIP_ASSERT(packet->piece_count < ENG_PIECES_MAX);
        last = &packet->piece[packet->piece_count++];
        last->from_region = false;
        last->len = bytes;
        last->offset = build->head_bytes;
        last->handle = 0;
        last->addr = 0;
    }
    build->head_bytes += bytes;
    packet->bytes += bytes;
}

static void build_region(struct eng_build *build, uint32_t handle, uint64_t addr, uint32_t len)
{
    struct eng_packet *packet = build->packet;
    struct eng_piece *piece = &packet->piece[packet->piece_count++];

    VIP_ASSERT(packet->piece_count <= ENG_PIECES_MAX && len);
    piece->from_region = true;
    piece->len = len;
    piece->offset = 0;
    piece->handle = handle;
    piece->addr = addr;
    packet->bytes += len;
}

/* Payload bytes that one more frame may have. *ret_room false: not even an empty frame fits. */
static uint32_t payload_room(const struct eng_build *build, bool *ret_room)
{
    uint32_t used = build->packet->bytes + VIP_WIRE_FRAME_BYTES;

    *ret_room = build->frames < VIP_WIRE_FRAMES_MAX && used <= build->limit_bytes &&
                build->packet->piece_count + 1 < ENG_PIECES_MAX;
    return *ret_room ? build->limit_bytes - used : 0;
}

void eng_build_fill(struct eng_build *build, const struct eng_vi *vi)
{
    uint32_t left = build->limit_bytes - build->packet->bytes;

    if (!left || left > VIP_WIRE_PAD_MAX || vi->conn.local ||
        !(vi->conn.features & VIP_FEATURE_PADDING) || build->packet->piece_count == ENG_PIECES_MAX)
        return;
    memset(build->packet->head + build->head_bytes, 0, left);
    eng_build_head(build, left);
}

/* Number of data bytes in [offset, offset + want) that fit into `pieces` pieces. */
static uint32_t fit_pieces(const struct eng_desc *desc, uint32_t offset, uint32_t want,
                           unsigned pieces)
{
    const struct vip_shm_seg *seg;
    unsigned count = eng_desc_data(desc, &seg);
    uint32_t got = 0;

    for (; count && got < want && pieces; count--, seg++) {
        if (offset >= seg->len) {
            offset -= seg->len;
            continue;
        }
        got += eng_min32(seg->len - offset, want - got);
        offset = 0;
        pieces--;
    }
    return got;
}

static void add_payload(struct eng_build *build, const struct eng_desc *desc, uint32_t offset,
                        uint32_t len)
{
    const struct vip_shm_seg *seg;

    (void)eng_desc_data(desc, &seg);
    for (; len; seg++) {
        uint32_t part;

        if (offset >= seg->len) {
            offset -= seg->len;
            continue;
        }
        part = eng_min32(seg->len - offset, len);
        build_region(build, seg->handle, seg->addr + offset, part);
        len -= part;
        offset = 0;
    }
}

static void add_frame(struct eng_build *build, const struct vip_frame *frame)
{
    uint8_t *out = build->packet->head + build->head_bytes;

    eng_build_head(build, VIP_WIRE_FRAME_BYTES);
    vip_wire_put_frame(out, frame);
    build->frames++;
}

static void describe(struct vip_frame *frame, const struct eng_desc *desc)
{
    const struct vip_shm_seg *remote = eng_desc_segs(desc);

    switch (desc->control & VIP_CTL_OP_MASK) {
    case VIP_CTL_OP_RDMAWRITE:
        frame->type = desc->message_bytes ? VIP_FRM_WRITE_MSG : VIP_FRM_WRITE;
        frame->message = desc->message_bytes;
        frame->handle = remote->handle;
        frame->remote_addr = remote->addr;
        break;
    case VIP_CTL_OP_RDMAREAD:
        frame->type = VIP_FRM_READ_REQ;
        frame->handle = remote->handle;
        frame->remote_addr = remote->addr;
        frame->flags = VIP_FRMF_LAST;
        return;
    }
    if (!(frame->flags & VIP_FRMF_LAST) || !(desc->control & VIP_CTL_IMMEDIATE))
        return;
    frame->flags |= VIP_FRMF_IMMEDIATE;
    frame->imm = desc->imm;
    if (desc->imm >> 32)
        frame->flags |= VIP_FRMF_IMM64;
}

/* Copy the message into the packet, because it is in engine memory, not in a region. */
static void add_message(struct eng_build *build, const struct eng_desc *desc)
{
    uint8_t *out = build->packet->head + build->head_bytes;

    eng_build_head(build, desc->message_bytes);
    memcpy(out, eng_desc_message(desc), desc->message_bytes);
    build->message_bytes += desc->message_bytes;
}

/*
 * Length of the next fragment in bytes: end - offset, or less if `room` or the number of free
 * pieces is too small. A message is not divided: the fragment has the whole message or none of it.
 */
static uint32_t fragment(const struct eng_build *build, const struct eng_desc *desc,
                         uint32_t offset, uint32_t end, uint32_t room)
{
    unsigned pieces = ENG_PIECES_MAX - 1 - build->packet->piece_count;
    bool message = desc->message_bytes && end == eng_desc_bytes(desc);
    uint32_t want = eng_min32(end, desc->sum) - offset, got = 0;

    if (want)
        got = fit_pieces(desc, offset, eng_min32(want, room), message ? pieces - 1 : pieces);
    if (message && got == want && room - got >= desc->message_bytes &&
        build->message_bytes + desc->message_bytes <= ENG_MESSAGES_BYTES)
        got += desc->message_bytes;
    return got;
}

bool eng_build_op(struct eng_build *build, struct eng_vi *vi, const struct eng_desc *desc,
                  struct eng_pos *at, uint32_t end)
{
    bool read = (desc->control & VIP_CTL_OP_MASK) == VIP_CTL_OP_RDMAREAD;
    uint32_t want = read ? 0 : end - at->off;
    struct vip_frame frame = {.type = VIP_FRM_SEND, .op = at->op, .total = eng_desc_bytes(desc)};
    bool room;
    uint32_t bytes = payload_room(build, &room);

    if (!room || (want && !bytes))
        return false;
    if (want) {
        frame.length = fragment(build, desc, at->off, end, bytes);
        /* Only a message can find no room here. It then goes into the next packet. */
        VIP_ASSERT(frame.length || (desc->message_bytes && build->frames));
        if (!frame.length)
            return false;
    }
    frame.offset = at->off;
    if (at->off + frame.length == frame.total)
        frame.flags = VIP_FRMF_LAST;
    describe(&frame, desc);
    if (!build->frames)
        build->packet->op = at->op;
    add_frame(build, &frame);
    add_payload(build, desc, at->off, eng_min32(at->off + frame.length, desc->sum) - at->off);
    if (desc->message_bytes && (frame.flags & VIP_FRMF_LAST))
        add_message(build, desc);
    at->off += frame.length;
    if (frame.flags & VIP_FRMF_LAST) {
        at->op++;
        at->off = 0;
    }
    return true;
}

bool eng_build_answer(struct eng_build *build, struct eng_vi *vi, const struct eng_read *read,
                      struct eng_pos *at, uint32_t end)
{
    bool room;
    uint32_t bytes = payload_room(build, &room);
    struct vip_frame frame = {.type = VIP_FRM_READ_RESP,
                              .op = read->op,
                              .offset = at->off,
                              .length = eng_min32(bytes, end - at->off),
                              .total = read->total};

    if (!room || (!frame.length && end != at->off))
        return false;
    if (frame.offset + frame.length == read->total)
        frame.flags = VIP_FRMF_LAST;
    if (!build->frames)
        build->packet->op = read->op;
    build->packet->remote_read = true;
    add_frame(build, &frame);
    if (frame.length)
        build_region(build, read->handle, read->addr + frame.offset, frame.length);
    at->off += frame.length;
    if (frame.flags & VIP_FRMF_LAST) {
        at->op++;
        at->off = 0;
    }
    return true;
}
