/*
 * Frames: the Ethernet header, a VLAN tag, and our own four bytes (doc/wire.md, "On Ethernet").
 *
 * Owns: layout and checks of these headers. Pure functions. Does not own: the packet after them.
 */
#include "vipd/link/ether.h"

#include <string.h>

#include "proto/assert.h"

#define MACS_BYTES 12 /* bytes of the destination's and the source's address */
#define TYPE_BYTES 2
#define TAG_BYTES  4
#define TAG_TYPE   0x8100
#define VLAN_MASK  0x0fff

static uint16_t get_be16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static uint8_t *put_be16(uint8_t *out, uint16_t value)
{
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
    return out + 2;
}

unsigned ether_frame_put(uint8_t out[ETHER_HEADS_MAX], const struct ether_want *own,
                         const uint8_t to[ETHER_MAC_BYTES], uint8_t kind, uint32_t packet_bytes)
{
    uint8_t *at = out;

    VIP_ASSERT(packet_bytes > 0 && packet_bytes <= VIP_PACKET_BYTES_MAX);
    memcpy(at, to, ETHER_MAC_BYTES);
    memcpy(at + ETHER_MAC_BYTES, own->mac, ETHER_MAC_BYTES);
    at += MACS_BYTES;
    if (own->vlan) {
        at = put_be16(at, TAG_TYPE);
        at = put_be16(at, own->vlan);
    }
    at = put_be16(at, own->ethertype);
    /* From here on the bytes are our own header, little-endian. */
    *at++ = ETHER_MAGIC;
    *at++ = ETHER_VERSION | kind;
    *at++ = (uint8_t)packet_bytes;
    *at++ = (uint8_t)(packet_bytes >> 8);
    return (unsigned)(at - out);
}

/* Can this MAC be the address of one card? */
static bool mac_of_card(const uint8_t mac[ETHER_MAC_BYTES])
{
    static const uint8_t zero[ETHER_MAC_BYTES];

    return !(mac[0] & 1) && memcmp(mac, zero, sizeof(zero)) != 0;
}

static bool mac_of_all(const uint8_t mac[ETHER_MAC_BYTES])
{
    static const uint8_t all[ETHER_MAC_BYTES] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    return memcmp(mac, all, sizeof(all)) == 0;
}

/* Check our four bytes, and set *ret to the contents after them. */
static enum ether_verdict get_content(const struct ether_want *want, const uint8_t *bytes,
                                      uint32_t len, bool to_all, struct ether_content *ret)
{
    bool peer;

    if (len < ETHER_HEAD_BYTES)
        return ETHER_SHORT;
    ret->kind = bytes[1] & 0x0f;
    peer = want->peers && ret->kind >= ETHER_PEER_ANNOUNCE && ret->kind <= ETHER_PEER_QUERY;
    if (bytes[0] != ETHER_MAGIC || (bytes[1] & 0xf0) != ETHER_VERSION ||
        (ret->kind != ETHER_KIND && !peer))
        return ETHER_HEADER;
    /* A SOLICIT goes to all cards; all other frames go to one card. */
    if (to_all != (ret->kind == ETHER_PEER_SOLICIT))
        return ETHER_MAC;
    ret->len = (uint32_t)bytes[2] | (uint32_t)bytes[3] << 8;
    ret->bytes = bytes + ETHER_HEAD_BYTES;
    /* Bytes after the packet are allowed: padding of a short frame, or a trailer of the card. */
    if (ret->len == 0 || ret->len > len - ETHER_HEAD_BYTES || ret->len > VIP_PACKET_BYTES_MAX)
        return ETHER_LENGTH;
    return peer ? ETHER_PEER : ETHER_OK;
}

enum ether_verdict ether_frame_get(const struct ether_want *want, const struct ether_frame *frame,
                                   struct ether_content *ret)
{
    const uint8_t *bytes = frame->bytes;
    uint32_t at = MACS_BYTES, len = frame->len;
    uint16_t tag = frame->tagged ? frame->tag : 0, type;
    bool to_all;

    if (len < MACS_BYTES + TYPE_BYTES)
        return ETHER_SHORT;
    to_all = want->peers && mac_of_all(bytes);
    if ((!to_all && memcmp(bytes, want->mac, ETHER_MAC_BYTES) != 0) ||
        !mac_of_card(bytes + ETHER_MAC_BYTES))
        return ETHER_MAC;
    type = get_be16(bytes + at);
    if (type == TAG_TYPE && !frame->tagged) {
        if (len < MACS_BYTES + TAG_BYTES + TYPE_BYTES)
            return ETHER_SHORT;
        tag = get_be16(bytes + at + TYPE_BYTES);
        at += TAG_BYTES;
        type = get_be16(bytes + at);
    }
    at += TYPE_BYTES;
    /* VLAN 0 means no VLAN: such a tag carries a priority only. */
    if (frame->foreign || (tag & VLAN_MASK) != want->vlan)
        return ETHER_VLAN;
    if (type != want->ethertype)
        return ETHER_ETHERTYPE;
    return get_content(want, bytes + at, len - at, to_all, ret);
}

void ether_frame_count(struct link_stats *stats, enum ether_verdict verdict)
{
    switch (verdict) {
    case ETHER_OK:
    case ETHER_PEER:
        break;
    case ETHER_SHORT:
        stats->drop_frame_short++;
        break;
    case ETHER_MAC:
        stats->drop_frame_mac++;
        break;
    case ETHER_VLAN:
        stats->drop_frame_vlan++;
        break;
    case ETHER_ETHERTYPE:
        stats->drop_frame_ethertype++;
        break;
    case ETHER_HEADER:
        stats->drop_frame_header++;
        break;
    case ETHER_LENGTH:
        stats->drop_frame_length++;
        break;
    }
}

bool ether_sendable(const struct ether *ether, const struct link_tx *packet)
{
    return packet->to->len == ETHER_MAC_BYTES && packet->bytes > 0 &&
           packet->bytes <= ether->link.packet_bytes;
}
