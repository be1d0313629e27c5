/*
 * Fuzz: the codec decodes one packet. If the codec accepts the packet, encoding and decoding must
 * give the same contents again, and the contents must be as proto/wire.h says.
 */
#include "fuzz/fuzz.h"

#include <sys/uio.h>

#include "proto/wire.h"
#include "proto/wire_path.h"

static void data(const uint8_t *bytes, size_t len)
{
    static struct vip_packet packet, again;
    uint8_t *copy = malloc(len);
    size_t at = VIP_WIRE_HEADER_BYTES;

    memset(&packet, 0, sizeof(packet));
    memset(&again, 0, sizeof(again));
    if (vip_wire_get_data(bytes, len, &packet) != VIP_WIRE_OK) {
        free(copy);
        return;
    }
    memcpy(copy, bytes, len);
    vip_wire_put_header(copy, &packet.hdr);
    for (unsigned i = 0; i < packet.hdr.range_count; i++)
        at += vip_wire_put_range(copy + at, &packet.ranges[i]);
    for (unsigned i = 0; i < packet.hdr.frame_count; i++) {
        const struct vip_frame *frame = &packet.frames[i];

        FUZZ_CHECK((uint64_t)frame->offset + frame->length <= frame->total);
        FUZZ_CHECK(frame->message <= frame->total);
        FUZZ_CHECK(vip_frame_bulk(frame) <= VIP_TRANSFER_BYTES_MAX);
        FUZZ_CHECK((uint64_t)frame->payload + frame->length <= len);
        at += vip_wire_put_frame(copy + at, frame);
        FUZZ_CHECK(at == frame->payload);
        at += frame->length;
    }
    FUZZ_CHECK(at <= len && len - at <= (packet.hdr.frame_count ? VIP_WIRE_PAD_MAX : 0));
    memset(copy + at, 0, len - at);
    /* A packet has only one encoding, apart from its checksum. So copy the checksum. */
    memcpy(copy + 4, bytes + 4, 4);
    FUZZ_CHECK(memcmp(copy, bytes, len) == 0);
    vip_wire_seal(&(struct iovec){.iov_base = copy, .iov_len = len}, 1);
    FUZZ_CHECK(vip_wire_check_seal(copy, len));
    FUZZ_CHECK(vip_wire_get_data(copy, len, &again) == VIP_WIRE_OK);
    FUZZ_CHECK(memcmp(&packet, &again, sizeof(packet)) == 0);
    free(copy);
}

static void cm(const uint8_t *bytes, size_t len)
{
    uint8_t copy[VIP_WIRE_CM_BYTES_MAX];
    struct vip_header hdr;
    struct vip_cm msg, again;

    memset(&msg, 0, sizeof(msg));
    memset(&again, 0, sizeof(again));
    if (vip_wire_get_cm(bytes, len, &msg) != VIP_WIRE_OK)
        return;
    FUZZ_CHECK(vip_wire_get_header(bytes, len, &hdr) == VIP_WIRE_OK);
    FUZZ_CHECK(vip_wire_put_cm(copy, hdr.src_epoch, hdr.dst_epoch, &msg) == len);
    FUZZ_CHECK(vip_wire_check_seal(copy, len));
    memcpy(copy + 4, bytes + 4, 4);
    FUZZ_CHECK(memcmp(copy, bytes, len) == 0);
    FUZZ_CHECK(vip_wire_get_cm(copy, len, &again) == VIP_WIRE_OK);
    again.items.bytes = msg.items.bytes; /* the two pointers differ, but point to equal bytes */
    FUZZ_CHECK(memcmp(&msg, &again, sizeof(msg)) == 0);
}

static void path(const uint8_t *bytes, size_t len)
{
    uint8_t copy[VIP_WIRE_PATH_BYTES];
    struct vip_path_message message;

    if (!vip_wire_get_path(bytes, len, &message))
        return;
    vip_wire_put_path(copy, &message);
    FUZZ_CHECK(len == sizeof(copy) && memcmp(copy, bytes, len) == 0);
}

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct vip_header hdr;

    if (len > VIP_PACKET_BYTES_MAX)
        return;
    FUZZ_CHECK(vip_wire_verdict_name(vip_wire_get_header(bytes, len, &hdr)));
    vip_wire_check_seal(bytes, len);
    data(bytes, len);
    cm(bytes, len);
    path(bytes, len);
}
