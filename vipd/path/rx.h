/*
 * The steps of a packet that arrives which do not depend on the host of the engine. The host is
 * vipd (vipd/nic/rx.c) or a program that has a loan (vipd/engine/loan.h).
 *
 * Owns: the order of the checks that need no connection; which packets the engine may hold. Does not
 * own: checks against the connection, the bytes of held packets (the host).
 */
#ifndef VIPD_PATH_RX_H
#define VIPD_PATH_RX_H

#include "proto/wire.h"
#include "vipd/engine/engine.h"
#include "vipd/engine/mutant.h"

/* Check length and checksum of a packet, then decode its header. Outcomes: VIP_WIRE_OK with *ret,
 * or the reason why the packet must be dropped, with *ret in an unspecified state. */
static inline enum vip_wire_verdict path_open(const uint8_t *bytes, uint32_t len_bytes,
                                              struct vip_header *ret)
{
    if (len_bytes < VIP_WIRE_HEADER_BYTES)
        return VIP_WIRE_SHORT;
    if (!vip_wire_check_seal(bytes, len_bytes) && !VIP_MUTANT(CHECKSUM))
        return VIP_WIRE_CRC_BAD;
    return vip_wire_get_header(bytes, len_bytes, ret);
}

/* Does every frame follow the frame before it? Then the engine takes all frames if it takes the
 * first. For packets with at least two frames. */
bool path_frames_follow(const struct vip_packet *packet);

/* Call this before eng_rx. True: the packet is ahead of its turn, or the engine may find this after
 * some frames, so the verdict may be ENG_RX_HOLD. False: the engine will not hold the packet, or
 * the packet has several frames and the first one is in its turn. */
static inline bool path_is_ahead(const struct eng *eng, uint16_t vi,
                                 const struct vip_packet *packet)
{
    return packet->hdr.frame_count &&
           (!eng_rx_expects(eng, vi, &packet->frames[0]) ||
            (packet->hdr.frame_count > 1 && !path_frames_follow(packet)));
}

/* Decode a held packet again, for eng_rx_replay. This cannot fail: the host has decoded the same
 * bytes before, and no other process can write them. */
void path_decode_again(const uint8_t *bytes, uint32_t len_bytes, struct vip_packet *ret);

#endif
