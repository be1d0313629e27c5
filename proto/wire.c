/*
 * Packet header, acknowledgement ranges, frame heads and the checksum (doc/wire.md).
 *
 * Owns: the bytes of data packets. Does not own: connection-management messages (wire_cm.c). Called
 * for every packet, so the decoder reads each byte once and writes only the fields of the packet.
 */
#include "proto/wire.h"

#include <sys/uio.h>

#include "proto/assert.h"
#include "proto/crc.h"
#include "proto/wire_bytes.h"

/* Frame head (doc/wire.md, "Frames"). */
enum {
    FRM_TYPE = 0,
    FRM_FLAGS = 1,
    FRM_MESSAGE = 2,
    FRM_OP = 4,
    FRM_OFFSET = 8,
    FRM_LENGTH = 12,
    FRM_TOTAL = 16,
    FRM_HANDLE = 20,
    FRM_REMOTE_ADDR = 24,
    FRM_IMM = 32,
};

#define FLAGS_KNOWN (VIP_PKTF_ACK | VIP_PKTF_ELICITS | VIP_PKTF_ACK_NOW)
#define FRMF_KNOWN  (VIP_FRMF_LAST | VIP_FRMF_IMMEDIATE | VIP_FRMF_IMM64)

_Static_assert(OFF_OPS_DONE + 4 == VIP_WIRE_HEADER_BYTES, "header has no holes");
_Static_assert(FRM_IMM + 8 == VIP_WIRE_FRAME_BYTES, "frame head has no tail");
_Static_assert(VIP_WIRE_VERSION < 16, "the version has four bits");

const char *vip_wire_verdict_name(enum vip_wire_verdict verdict)
{
    switch (verdict) {
    case VIP_WIRE_OK:
        return "ok";
    case VIP_WIRE_SHORT:
        return "drop_short";
    case VIP_WIRE_TRAILING:
        return "drop_trailing";
    case VIP_WIRE_VERSION_BAD:
        return "drop_version";
    case VIP_WIRE_KIND_BAD:
        return "drop_kind";
    case VIP_WIRE_CRC_BAD:
        return "drop_crc";
    case VIP_WIRE_RESERVED:
        return "drop_reserved";
    case VIP_WIRE_COUNT_BAD:
        return "drop_count";
    case VIP_WIRE_RANGE_BAD:
        return "drop_range";
    case VIP_WIRE_FRAME_BAD:
        return "drop_frame";
    case VIP_WIRE_CM_BAD:
        return "drop_cm";
    case VIP_WIRE_VERDICTS:
        break;
    }
    return "?";
}

/* Check the fields of a header. Encoding asserts VIP_WIRE_OK, decoding returns the verdict. */
static enum vip_wire_verdict header_verdict(const struct vip_header *hdr)
{
    if (hdr->flags & ~FLAGS_KNOWN)
        return VIP_WIRE_RESERVED;
    if (hdr->range_count > VIP_WIRE_RANGES_MAX || hdr->frame_count > VIP_WIRE_FRAMES_MAX)
        return VIP_WIRE_COUNT_BAD;
    if (hdr->range_count && !(hdr->flags & VIP_PKTF_ACK))
        return VIP_WIRE_COUNT_BAD;
    if (!hdr->src_epoch)
        return VIP_WIRE_RESERVED;
    if (hdr->kind == VIP_PKT_DATA)
        return hdr->conn_id && hdr->dst_epoch && hdr->packet_number ? VIP_WIRE_OK
                                                                    : VIP_WIRE_RESERVED;
    if (hdr->kind != VIP_PKT_CM)
        return VIP_WIRE_KIND_BAD;
    /* A CM packet has no connection id and no packet number. */
    if (hdr->flags || hdr->frame_count || hdr->conn_id || hdr->packet_number || hdr->ts)
        return VIP_WIRE_RESERVED;
    return VIP_WIRE_OK;
}

void vip_wire_put_header(uint8_t out[VIP_WIRE_HEADER_BYTES], const struct vip_header *hdr)
{
    bool ack = hdr->flags & VIP_PKTF_ACK;

    VIP_ASSERT(header_verdict(hdr) == VIP_WIRE_OK);
    out[OFF_VERSION_KIND] = (uint8_t)(VIP_WIRE_VERSION << 4 | hdr->kind);
    out[OFF_FLAGS] = (uint8_t)hdr->flags;
    out[OFF_RANGE_COUNT] = (uint8_t)hdr->range_count;
    out[OFF_FRAME_COUNT] = (uint8_t)hdr->frame_count;
    put32(out + OFF_CRC, 0);
    put64(out + OFF_CONN_ID, hdr->conn_id);
    put64(out + OFF_SRC_EPOCH, hdr->src_epoch);
    put64(out + OFF_DST_EPOCH, hdr->dst_epoch);
    put64(out + OFF_PACKET_NUMBER, hdr->packet_number);
    put64(out + OFF_ACK_CUMULATIVE, ack ? hdr->ack_cumulative : 0);
    put32(out + OFF_TS, hdr->ts);
    put32(out + OFF_TS_ECHO, ack ? hdr->ts_echo : 0);
    put32(out + OFF_ACK_DELAY, ack ? hdr->ack_delay : 0);
    put32(out + OFF_OPS_DONE, ack ? hdr->ops_done : 0);
}

enum vip_wire_verdict vip_wire_get_header(const uint8_t *packet, size_t len_bytes,
                                          struct vip_header *ret)
{
    if (len_bytes < VIP_WIRE_HEADER_BYTES)
        return VIP_WIRE_SHORT;
    if (packet[OFF_VERSION_KIND] >> 4 != VIP_WIRE_VERSION)
        return VIP_WIRE_VERSION_BAD;
    ret->kind = packet[OFF_VERSION_KIND] & 0x0f;
    if (ret->kind != VIP_PKT_DATA && ret->kind != VIP_PKT_CM)
        return VIP_WIRE_KIND_BAD;
    ret->flags = packet[OFF_FLAGS];
    ret->range_count = packet[OFF_RANGE_COUNT];
    ret->frame_count = packet[OFF_FRAME_COUNT];
    ret->conn_id = get64(packet + OFF_CONN_ID);
    ret->src_epoch = get64(packet + OFF_SRC_EPOCH);
    ret->dst_epoch = get64(packet + OFF_DST_EPOCH);
    ret->packet_number = get64(packet + OFF_PACKET_NUMBER);
    ret->ack_cumulative = get64(packet + OFF_ACK_CUMULATIVE);
    ret->ts = get32(packet + OFF_TS);
    ret->ts_echo = get32(packet + OFF_TS_ECHO);
    ret->ack_delay = get32(packet + OFF_ACK_DELAY);
    ret->ops_done = get32(packet + OFF_OPS_DONE);
    if (!(ret->flags & VIP_PKTF_ACK) &&
        (ret->ack_cumulative | ret->ts_echo | ret->ack_delay | ret->ops_done))
        return VIP_WIRE_RESERVED;
    return header_verdict(ret);
}

size_t vip_wire_put_range(uint8_t out[VIP_WIRE_RANGE_BYTES], const struct vip_range *range)
{
    VIP_ASSERT(range->start > 0 && range->end > range->start);
    put32(out, range->start);
    put32(out + 4, range->end);
    return VIP_WIRE_RANGE_BYTES;
}

/* Has this frame type a remote address and a handle? In other types these fields are zero. */
static bool frame_is_remote(uint8_t type)
{
    return type == VIP_FRM_WRITE || type == VIP_FRM_READ_REQ || type == VIP_FRM_WRITE_MSG;
}

/* Is the message of an RDMA Write correct? It must be short, and the last fragment must have all of
 * it, so that one packet is enough to deliver it. The caller must check offset + length before. */
static bool message_is_sound(const struct vip_frame *frame)
{
    uint32_t bulk = vip_frame_bulk(frame);

    if (frame->type != VIP_FRM_WRITE_MSG)
        return !frame->message;
    if (!frame->message || frame->message > VIP_MESSAGE_BYTES_MAX)
        return false;
    return frame->flags & VIP_FRMF_LAST ? frame->offset <= bulk
                                        : frame->offset + frame->length <= bulk;
}

/*
 * Do the fields of a frame head fit together? Remote address and handle are not checked here,
 * because the sending application chooses them. If they are wrong, its descriptor must get a
 * protection error (spec 3.5), so the packet must not be dropped.
 */
static bool frame_is_sound(const struct vip_frame *frame)
{
    bool last = frame->flags & VIP_FRMF_LAST;

    if (frame->type < VIP_FRM_SEND || frame->type > VIP_FRM_WRITE_MSG ||
        frame->message > frame->total || vip_frame_bulk(frame) > VIP_TRANSFER_BYTES_MAX)
        return false;
    if (frame->type == VIP_FRM_READ_REQ)
        return frame->flags == VIP_FRMF_LAST && !frame->length && !frame->offset && !frame->message;
    if (frame->offset > frame->total || frame->length > frame->total - frame->offset)
        return false;
    if (last != (frame->offset + frame->length == frame->total) || !message_is_sound(frame))
        return false;
    /* Only an operation of 0 bytes may have an empty fragment. */
    if (!frame->length && frame->total)
        return false;
    if ((frame->flags & VIP_FRMF_IMM64) && !(frame->flags & VIP_FRMF_IMMEDIATE))
        return false;
    if (frame->flags & VIP_FRMF_IMMEDIATE)
        return last && frame->type != VIP_FRM_READ_RESP;
    return true;
}

size_t vip_wire_put_frame(uint8_t out[VIP_WIRE_FRAME_BYTES], const struct vip_frame *frame)
{
    bool remote = frame_is_remote(frame->type);
    uint64_t imm = frame->flags & VIP_FRMF_IMMEDIATE ? frame->imm : 0;

    VIP_ASSERT(!(frame->flags & ~FRMF_KNOWN) && frame_is_sound(frame));
    if (!(frame->flags & VIP_FRMF_IMM64))
        imm &= 0xffffffffu;
    out[FRM_TYPE] = frame->type;
    out[FRM_FLAGS] = frame->flags;
    put16(out + FRM_MESSAGE, frame->message);
    put32(out + FRM_OP, frame->op);
    put32(out + FRM_OFFSET, frame->offset);
    put32(out + FRM_LENGTH, frame->length);
    put32(out + FRM_TOTAL, frame->total);
    put32(out + FRM_HANDLE, remote ? frame->handle : 0);
    put64(out + FRM_REMOTE_ADDR, remote ? frame->remote_addr : 0);
    put64(out + FRM_IMM, imm);
    return VIP_WIRE_FRAME_BYTES;
}

static enum vip_wire_verdict get_frame(const uint8_t *in, struct vip_frame *ret)
{
    ret->type = in[FRM_TYPE];
    ret->flags = in[FRM_FLAGS];
    ret->message = get16(in + FRM_MESSAGE);
    ret->op = get32(in + FRM_OP);
    ret->offset = get32(in + FRM_OFFSET);
    ret->length = get32(in + FRM_LENGTH);
    ret->total = get32(in + FRM_TOTAL);
    ret->handle = get32(in + FRM_HANDLE);
    ret->remote_addr = get64(in + FRM_REMOTE_ADDR);
    ret->imm = get64(in + FRM_IMM);
    if ((ret->flags & ~FRMF_KNOWN) || (ret->message && ret->type != VIP_FRM_WRITE_MSG))
        return VIP_WIRE_RESERVED;
    if (!frame_is_sound(ret))
        return VIP_WIRE_FRAME_BAD;
    if (!frame_is_remote(ret->type) && (ret->handle | ret->remote_addr))
        return VIP_WIRE_RESERVED;
    if (!(ret->flags & VIP_FRMF_IMMEDIATE) && ret->imm)
        return VIP_WIRE_RESERVED;
    if (!(ret->flags & VIP_FRMF_IMM64) && ret->imm >> 32)
        return VIP_WIRE_RESERVED;
    return VIP_WIRE_OK;
}

/* Decode the ranges at `in`; the caller must check the length. A range may begin where the previous
 * range ends. */
static enum vip_wire_verdict get_ranges(const uint8_t *in, struct vip_packet *ret)
{
    uint32_t floor = 1; /* offset 0 is packet ack_cumulative, which has not arrived */

    for (unsigned i = 0; i < ret->hdr.range_count; i++) {
        struct vip_range *range = &ret->ranges[i];

        range->start = get32(in + i * VIP_WIRE_RANGE_BYTES);
        range->end = get32(in + i * VIP_WIRE_RANGE_BYTES + 4);
        if (range->start < floor || range->end <= range->start)
            return VIP_WIRE_RANGE_BAD;
        floor = range->end;
    }
    /* After this check, ack_cumulative plus an offset cannot overflow in the engine. */
    if (ret->hdr.range_count && ret->hdr.ack_cumulative > UINT64_MAX - floor)
        return VIP_WIRE_RANGE_BAD;
    return VIP_WIRE_OK;
}

/* Are the bytes after the last frame padding? */
static bool is_padding(const uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes > VIP_WIRE_PAD_MAX)
        return false;
    for (size_t i = 0; i < len_bytes; i++)
        if (bytes[i])
            return false;
    return true;
}

enum vip_wire_verdict vip_wire_get_data(const uint8_t *packet, size_t len_bytes,
                                        struct vip_packet *ret)
{
    enum vip_wire_verdict verdict = vip_wire_get_header(packet, len_bytes, &ret->hdr);
    size_t at = VIP_WIRE_HEADER_BYTES;

    if (verdict != VIP_WIRE_OK)
        return verdict;
    if (ret->hdr.kind != VIP_PKT_DATA)
        return VIP_WIRE_KIND_BAD;
    /* After this check, every offset fits in 32 bits. */
    if (len_bytes > VIP_PACKET_BYTES_MAX)
        return VIP_WIRE_TRAILING;
    if (len_bytes - at < (size_t)ret->hdr.range_count * VIP_WIRE_RANGE_BYTES)
        return VIP_WIRE_SHORT;
    verdict = get_ranges(packet + at, ret);
    if (verdict != VIP_WIRE_OK)
        return verdict;
    at += (size_t)ret->hdr.range_count * VIP_WIRE_RANGE_BYTES;

    for (unsigned i = 0; i < ret->hdr.frame_count; i++) {
        struct vip_frame *frame = &ret->frames[i];

        if (len_bytes - at < VIP_WIRE_FRAME_BYTES)
            return VIP_WIRE_SHORT;
        verdict = get_frame(packet + at, frame);
        if (verdict != VIP_WIRE_OK)
            return verdict;
        at += VIP_WIRE_FRAME_BYTES;
        if (len_bytes - at < frame->length)
            return VIP_WIRE_SHORT;
        frame->payload = (uint32_t)at;
        at += frame->length;
    }
    if (at == len_bytes || (ret->hdr.frame_count && is_padding(packet + at, len_bytes - at)))
        return VIP_WIRE_OK;
    return VIP_WIRE_TRAILING;
}

void vip_wire_seal(const struct iovec *iov, size_t iov_count)
{
    uint8_t *head = iov[0].iov_base;
    uint32_t crc = VIP_CRC_START;

    VIP_ASSERT(iov_count > 0 && iov[0].iov_len >= VIP_WIRE_HEADER_BYTES);
    put32(head + OFF_CRC, 0);
    for (size_t i = 0; i < iov_count; i++)
        crc = vip_crc_add(crc, iov[i].iov_base, iov[i].iov_len);
    put32(head + OFF_CRC, ~crc);
}

bool vip_wire_check_seal(const uint8_t *packet, size_t len_bytes)
{
    uint8_t start[OFF_CRC + 4];
    uint32_t crc;

    if (len_bytes < VIP_WIRE_HEADER_BYTES || len_bytes > VIP_PACKET_BYTES_MAX)
        return false;
    memcpy(start, packet, OFF_CRC);
    put32(start + OFF_CRC, 0);
    crc = vip_crc_add(VIP_CRC_START, start, sizeof(start));
    crc = vip_crc_add(crc, packet + sizeof(start), len_bytes - sizeof(start));
    return ~crc == get32(packet + OFF_CRC);
}
