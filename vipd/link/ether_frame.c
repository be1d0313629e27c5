/*
 * Frames: the Ethernet header, a VLAN tag, and our own four bytes (doc/wire.md, "On Ethernet").
 *
 * Owns: their layout and the checks in front of it. Pure functions. Does not own: the packet behind.
 */
#include "vipd/link/ether.h"

#include <string.h>

#include "proto/assert.h"

#define MACS_BYTES 12 /* destination and source */
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
                         const uint8_t to[ETHER_MAC_BYTES], uint32_t packet_bytes)
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
    /* From here on everything is ours, and little-endian. */
    *at++ = ETHER_MAGIC;
    *at++ = ETHER_KIND;
    *at++ = (uint8_t)packet_bytes;
    *at++ = (uint8_t)(packet_bytes >> 8);
    return (unsigned)(at - out);
}

/* Can this be the address of one card? */
static bool mac_of_card(const uint8_t mac[ETHER_MAC_BYTES])
{
    static const uint8_t zero[ETHER_MAC_BYTES];

    return !(mac[0] & 1) && memcmp(mac, zero, sizeof(zero)) != 0;
}

enum ether_verdict ether_frame_get(const struct ether_want *want, const struct ether_frame *frame,
                                   const uint8_t **ret_packet, uint32_t *ret_len)
{
    const uint8_t *bytes = frame->bytes;
    uint32_t at = MACS_BYTES, len = frame->len, packet_bytes;
    uint16_t tag = frame->tagged ? frame->tag : 0, type;

    if (len < MACS_BYTES + TYPE_BYTES)
        return ETHER_SHORT;
    if (memcmp(bytes, want->mac, ETHER_MAC_BYTES) != 0 || !mac_of_card(bytes + ETHER_MAC_BYTES))
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
    if ((tag & VLAN_MASK) != want->vlan)
        return ETHER_VLAN;
    if (type != want->ethertype)
        return ETHER_ETHERTYPE;
    if (len - at < ETHER_HEAD_BYTES)
        return ETHER_SHORT;
    if (bytes[at] != ETHER_MAGIC || bytes[at + 1] != ETHER_KIND)
        return ETHER_HEADER;
    packet_bytes = (uint32_t)bytes[at + 2] | (uint32_t)bytes[at + 3] << 8;
    at += ETHER_HEAD_BYTES;
    /* What follows the packet is padding of a short frame, or a trailer of the card. */
    if (packet_bytes == 0 || packet_bytes > len - at || packet_bytes > VIP_PACKET_BYTES_MAX)
        return ETHER_LENGTH;
    *ret_packet = bytes + at;
    *ret_len = packet_bytes;
    return ETHER_OK;
}

void ether_frame_count(struct link_stats *stats, enum ether_verdict verdict)
{
    switch (verdict) {
    case ETHER_OK:
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
