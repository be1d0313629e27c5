/* The link between the two engines of a pair, and their clock. */
#include "fuzz/pair.h"

static struct pair_vi *other_end(struct pair *pair, unsigned side, unsigned vi)
{
    return &pair->side[!side].vi[vi];
}

/* Copy the pieces of a packet into ret. False if the memory of a piece is not accessible. */
static bool gather(struct pair_side *side, const struct eng_packet *packet, struct pair_flight *ret)
{
    ret->len = 0;
    for (unsigned i = 0; i < packet->piece_count; i++) {
        const struct eng_piece *piece = &packet->piece[i];
        const uint8_t *from = packet->head + piece->offset;

        FUZZ_CHECK(piece->len > 0 && ret->len + piece->len <= PAIR_PACKET);
        if (piece->from_region) {
            if (side->deny || piece->handle != PAIR_HANDLE || piece->addr > PAIR_MEM_BYTES ||
                piece->len > PAIR_MEM_BYTES - piece->addr)
                return false;
            from = side->mem + piece->addr;
        } else {
            FUZZ_CHECK(piece->offset + piece->len <= sizeof(packet->head));
        }
        memcpy(ret->bytes + ret->len, from, piece->len);
        ret->len += piece->len;
    }
    FUZZ_CHECK(ret->len == packet->bytes && ret->len <= side->pair->packet_bytes);
    return true;
}

void pair_pull(struct pair *pair, unsigned side_index, unsigned count)
{
    static struct eng_packet packet;
    static struct vip_packet decoded;
    static struct pair_flight lost;
    struct pair_side *side = &pair->side[side_index];

    while (count-- && eng_pull_any(side->eng, &packet, pair->now_ns)) {
        bool full = side->flights == PAIR_FLIGHTS;
        struct pair_flight *flight = full ? &lost : &side->flight[side->flights];

        FUZZ_CHECK(packet.vi < PAIR_VIS && packet.path == packet.vi);
        if (!gather(side, &packet, flight)) {
            eng_tx_failed(side->eng, packet.vi, packet.op, pair->now_ns);
            pair_replay(pair, side_index);
            continue;
        }
        flight->vi = packet.vi;
        flight->life = side->vi[packet.vi].life;
        flight->touched = false;
        FUZZ_CHECK(vip_wire_get_data(flight->bytes, flight->len, &decoded) == VIP_WIRE_OK);
        side->flights += !full;
    }
}

static void take_out(struct pair_side *side, unsigned index)
{
    side->flights--;
    memmove(&side->flight[index], &side->flight[index + 1],
            (side->flights - index) * sizeof(side->flight[0]));
}

void pair_drop(struct pair *pair, unsigned side, unsigned index)
{
    if (index < pair->side[side].flights)
        take_out(&pair->side[side], index);
}

void pair_double(struct pair *pair, unsigned side_index, unsigned index)
{
    struct pair_side *side = &pair->side[side_index];

    if (index < side->flights && side->flights < PAIR_FLIGHTS)
        side->flight[side->flights++] = side->flight[index];
}

/* Change some bytes of a packet, mostly in its first 192 bytes, or truncate the packet. */
void pair_touch(struct pair *pair, unsigned side_index, unsigned index, struct fuzz_in *in)
{
    struct pair_side *side = &pair->side[side_index];
    struct pair_flight *flight = &side->flight[index];
    unsigned count = 1 + fuzz_8(in) % 4;

    if (index >= side->flights)
        return;
    flight->touched = true;
    while (count--) {
        uint8_t where = fuzz_8(in), what = fuzz_8(in);
        uint32_t at = where < 192 ? where : fuzz_16(in);

        if (at >= flight->len)
            continue;
        switch (what >> 6) {
        case 0:
            flight->bytes[at] ^= (uint8_t)(1u << what % 8);
            break;
        case 1:
            flight->bytes[at] = (uint8_t)(flight->bytes[at] + what % 16 - 8);
            break;
        case 2:
            flight->bytes[at] = fuzz_8(in);
            break;
        default:
            flight->len = at > VIP_WIRE_HEADER_BYTES ? at : flight->len;
        }
    }
}

static uint32_t keep(struct pair_side *side, const struct pair_flight *flight)
{
    for (uint32_t i = 1; i < PAIR_HELD; i++)
        if (!side->held_used[i]) {
            side->held[i] = *flight;
            return i;
        }
    FUZZ_CHECK(!"tokens leak");
    return 0;
}

static void feed(struct pair_side *side, const struct pair_flight *flight)
{
    static struct vip_packet packet;
    struct pair *pair = side->pair;
    struct pair_vi *vi = &side->vi[flight->vi];
    uint32_t token;

    if (!vi->exists || flight->life != vi->life ||
        vip_wire_get_data(flight->bytes, flight->len, &packet) != VIP_WIRE_OK ||
        eng_vi_state(side->eng, flight->vi) != VIP_VIST_CONNECTED)
        return;
    token = keep(side, flight);
    side->now = flight;
    for (unsigned i = 0; i < packet.hdr.frame_count; i++)
        (void)eng_rx_expects(side->eng, flight->vi, &packet.frames[i]);
    side->held_used[token] = true;
    if (eng_rx(side->eng, flight->vi, &packet, token, pair->now_ns) != ENG_RX_HOLD)
        side->held_used[token] = false;
    side->now = NULL;
    pair_replay(pair, side->index);
}

void pair_deliver(struct pair *pair, unsigned side_index, unsigned index)
{
    struct pair_side *side = &pair->side[side_index];
    struct pair_flight flight;

    if (index >= side->flights)
        return;
    flight = side->flight[index];
    take_out(side, index);
    feed(&pair->side[!side_index], &flight);
}

void pair_replay(struct pair *pair, unsigned side_index)
{
    static struct vip_packet packet;
    struct pair_side *side = &pair->side[side_index];
    struct pair_flight flight;
    uint32_t token;
    uint16_t vi;
    bool again;

    while (eng_replay(side->eng, &vi, &token, &again)) {
        FUZZ_CHECK(token > 0 && token < PAIR_HELD && side->held_used[token]);
        FUZZ_CHECK(side->held[token].vi == vi);
        side->held_used[token] = false;
        if (!again)
            continue;
        flight = side->held[token];
        FUZZ_CHECK(vip_wire_get_data(flight.bytes, flight.len, &packet) == VIP_WIRE_OK);
        side->now = &flight;
        eng_rx_replay(side->eng, vi, &packet, pair->now_ns);
        side->now = NULL;
    }
}

void pair_tick(struct pair *pair, uint64_t ns)
{
    pair->now_ns += ns;
    for (unsigned i = 0; i < 2; i++) {
        eng_tick_all(pair->side[i].eng, pair->now_ns);
        pair_replay(pair, i);
    }
}

/* Report each ended connection to the other end. (In vipd the connection manager reports it.) */
void pair_tell_closed(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++)
        for (unsigned vi = 0; vi < PAIR_VIS; vi++) {
            struct pair_side *side = &pair->side[i], *peer = &pair->side[!i];

            if (!side->close_due[vi])
                continue;
            side->close_due[vi] = false;
            if (!peer->vi[vi].exists || side->close_life[vi] != other_end(pair, i, vi)->life)
                continue;
            eng_vi_closed(peer->eng, (uint16_t)vi, &side->close[vi], pair->now_ns);
            pair_replay(pair, !i);
        }
}

static bool quiet(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        const struct pair_side *side = &pair->side[i];

        if (side->flights || eng_tx_ready(side->eng))
            return false;
        for (unsigned vi = 0; vi < PAIR_VIS; vi++)
            if (side->vi[vi].queue[VIP_Q_SEND].head != side->vi[vi].queue[VIP_Q_SEND].tail ||
                side->close_due[vi])
                return false;
    }
    return true;
}

void pair_settle(struct pair *pair)
{
    uint64_t limit_ns = pair->now_ns + 20 * ENG_CONFIG_DEFAULT.conn_timeout_ns;

    for (unsigned i = 0; i < 2; i++)
        pair->side[i].deny = pair->side[i].no_segs = false;
    while (!quiet(pair)) {
        uint64_t next_ns = UINT64_MAX;

        for (unsigned i = 0; i < 2; i++)
            pair_pull(pair, i, PAIR_FLIGHTS / 2);
        for (unsigned i = 0; i < 2; i++)
            while (pair->side[i].flights)
                pair_deliver(pair, i, 0);
        pair_tell_closed(pair);
        for (unsigned i = 0; i < 2; i++)
            if (eng_deadline(pair->side[i].eng) < next_ns)
                next_ns = eng_deadline(pair->side[i].eng);
        if (eng_tx_ready(pair->side[0].eng) || eng_tx_ready(pair->side[1].eng))
            next_ns = pair->now_ns + 1000;
        FUZZ_CHECK(next_ns != UINT64_MAX || quiet(pair));
        if (next_ns == UINT64_MAX)
            break;
        pair_tick(pair, next_ns > pair->now_ns ? next_ns - pair->now_ns : 1);
        FUZZ_CHECK(pair->now_ns < limit_ns);
    }
}
