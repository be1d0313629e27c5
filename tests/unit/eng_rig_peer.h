/*
 * The second half of eng_rig.h; only eng_rig.h includes this file. It makes packets of the peer,
 * pulls and decodes packets of the engine, and lets time pass.
 */
#ifndef TESTS_UNIT_ENG_RIG_PEER_H
#define TESTS_UNIT_ENG_RIG_PEER_H

#ifndef TESTS_UNIT_ENG_RIG_H
#error "include eng_rig.h"
#endif

/* ---- the peer -------------------------------------------------------------------------- */

/* Returns a frame with fragment [offset, offset + length) of operation op. Its payload is at
 * `offset` in rig.packet. rig_paint() gives each byte there a value that depends on its offset. */
static inline struct vip_frame rig_frame(uint8_t type, uint32_t op, uint32_t offset,
                                         uint32_t length, uint32_t total)
{
    return (struct vip_frame){
        .type = type,
        .flags = offset + length == total ? VIP_FRMF_LAST : 0,
        .op = op,
        .offset = offset,
        .length = length,
        .total = total,
        .handle = type == VIP_FRM_WRITE || type == VIP_FRM_READ_REQ ? RIG_HANDLE : 0,
        .payload = offset};
}

static inline void rig_paint(struct rig *rig)
{
    for (uint32_t i = 0; i < RIG_MEM; i++)
        rig->packet[i] = (uint8_t)(i * 7 + 1);
}

static inline struct vip_packet rig_packet(struct rig *rig, unsigned count,
                                           const struct vip_frame *frames)
{
    struct vip_packet packet = {.hdr = {.kind = VIP_PKT_DATA,
                                        .flags = count ? VIP_PKTF_ELICITS : 0,
                                        .conn_id = 11,
                                        .src_epoch = 44,
                                        .dst_epoch = 33,
                                        .packet_number = rig->number++,
                                        .frame_count = (uint16_t)count}};

    for (unsigned i = 0; i < count; i++)
        packet.frames[i] = frames[i];
    return packet;
}

static inline enum eng_rx_verdict rig_feed_as(struct rig *rig, uint32_t token,
                                              const struct vip_packet *packet)
{
    return eng_rx(rig->eng, RIG_VI, packet, token, rig->now_ns);
}

static inline enum eng_rx_verdict rig_feed(struct rig *rig, uint32_t token, struct vip_frame frame)
{
    struct vip_packet packet = rig_packet(rig, 1, &frame);

    return rig_feed_as(rig, token, &packet);
}

/* Returns an acknowledgement of all packets below `cumulative`, with `ops` processed operations. */
static inline struct vip_packet rig_ack(struct rig *rig, uint64_t cumulative, uint32_t ops)
{
    struct vip_packet packet = rig_packet(rig, 0, NULL);

    packet.hdr.flags = VIP_PKTF_ACK;
    packet.hdr.ack_cumulative = cumulative;
    packet.hdr.ops_done = ops;
    packet.hdr.ts_echo = (uint32_t)((rig->now_ns - 20000) >> VIP_WIRE_TICK_SHIFT);
    return packet;
}

static inline enum eng_rx_verdict rig_feed_ack(struct rig *rig, uint64_t cumulative, uint32_t ops)
{
    struct vip_packet packet = rig_ack(rig, cumulative, ops);

    return rig_feed_as(rig, 1, &packet);
}

/* Pull one packet and decode it by the real codec. False: the engine has no packet to send. */
static inline bool rig_pull(struct rig *rig)
{
    static uint8_t bytes[VIP_PACKET_BYTES_MAX];
    uint32_t at = 0;

    if (!eng_pull_any(rig->eng, &rig->out, rig->now_ns))
        return false;
    for (unsigned i = 0; i < rig->out.piece_count; i++) {
        const struct eng_piece *piece = &rig->out.piece[i];

        assert_true(piece->len > 0 && at + piece->len <= sizeof(bytes));
        memcpy(bytes + at,
               piece->from_region ? rig->mem + piece->addr : rig->out.head + piece->offset,
               piece->len);
        at += piece->len;
    }
    assert_int_equal(at, rig->out.bytes);
    assert_int_equal(vip_wire_get_data(bytes, at, &rig->decoded), VIP_WIRE_OK);
    return true;
}

/* Pull all packets that the engine sends now. Returns their number. */
static inline unsigned rig_drain(struct rig *rig)
{
    unsigned count = 0;

    while (rig_pull(rig))
        count++;
    return count;
}

/* Let `ns` pass. Serve timers and pull packets, as a host does. Returns the number of packets. */
static inline unsigned rig_wait(struct rig *rig, uint64_t ns)
{
    uint64_t until_ns = rig->now_ns + ns;
    unsigned packets = 0;

    while (eng_deadline(rig->eng) <= until_ns) {
        if (eng_deadline(rig->eng) > rig->now_ns)
            rig->now_ns = eng_deadline(rig->eng);
        eng_tick(rig->eng, rig->now_ns);
        packets += rig_drain(rig);
    }
    rig->now_ns = until_ns;
    return packets;
}

static inline const struct rig_done *rig_last(const struct rig *rig)
{
    assert_true(rig->dones > 0);
    return &rig->done[rig->dones - 1];
}

/* Returns the newest event of this kind; fails if there is no such event. */
static inline const struct eng_event *rig_find(const struct rig *rig, enum eng_event_kind kind)
{
    for (unsigned i = rig->events; i-- > 0;)
        if (rig->event[i].kind == kind)
            return &rig->event[i];
    fail_msg("no event of kind %d", (int)kind);
    return NULL;
}

#endif
