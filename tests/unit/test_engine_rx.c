/*
 * Received packets: which are impossible, which the engine holds, and where their bytes are placed.
 */
#include "eng_rig.h"

#define UD VIP_LVL_UNRELIABLE
#define RD VIP_LVL_DELIVERY

static void in_order(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_frame frames[3] = {rig_frame(VIP_FRM_SEND, 0, 0, 100, 100),
                                  rig_frame(VIP_FRM_SEND, 1, 0, 0, 0),
                                  rig_frame(VIP_FRM_SEND, 2, 0, 50, 80)};
    struct vip_packet packet = rig_packet(rig, 3, frames);

    rig_paint(rig);
    for (unsigned i = 0; i < 3; i++)
        rig_recv(rig, i * 1000, 500);
    assert_int_equal(rig_feed_as(rig, 1, &packet), ENG_RX_DONE);
    assert_int_equal(rig->dones, 2);
    assert_int_equal(rig->done[0].length, 100);
    assert_int_equal(rig->done[1].length, 0);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 2, 50, 30, 80)), ENG_RX_DONE);
    assert_int_equal(rig_last(rig)->length, 80);
    assert_int_equal(rig_last(rig)->status, VIP_ST_DONE | VIP_ST_OP_RECEIVE);
    assert_memory_equal(rig->mem + 2000, rig->packet, 80);
    assert_int_equal(rig->mem[2080], 0);
    rig_free(rig);
}

/* An impossible packet is dropped and has no effect. */
static void impossible(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_packet packet;

    rig_recv(rig, 0, 100);
    rig_send(rig, 0, 10);
    assert_int_equal(rig_drain(rig), 1);
    /* The engine has sent only packet 1 and operation 0. */
    assert_int_equal(rig_feed_ack(rig, 3, 0), ENG_RX_STALE);
    assert_int_equal(rig_feed_ack(rig, 2, 2), ENG_RX_STALE);
    packet = rig_ack(rig, 1, 0);
    packet.hdr.range_count = 1;
    packet.ranges[0] = (struct vip_range){.start = 1, .end = 2};
    assert_int_equal(rig_feed_as(rig, 1, &packet), ENG_RX_STALE);
    packet = rig_ack(rig, UINT64_MAX - 1, 0);
    packet.hdr.range_count = 1;
    packet.ranges[0] = (struct vip_range){.start = 1, .end = 5};
    assert_int_equal(rig_feed_as(rig, 1, &packet), ENG_RX_STALE);
    packet = rig_ack(rig, 2, 1);
    packet.hdr.packet_number = 0;
    assert_int_equal(rig_feed_as(rig, 1, &packet), ENG_RX_STALE);
    packet.hdr.packet_number = UINT64_MAX;
    assert_int_equal(rig_feed_as(rig, 1, &packet), ENG_RX_STALE);
    assert_int_equal(rig->dones, 0);
    /* The number of this operation is larger than the peer can have reached. */
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 5000, 0, 1, 1)), ENG_RX_STALE);
    /* This packet answers a read that was not posted. */
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_READ_RESP, 7, 0, 1, 1)), ENG_RX_STALE);
    assert_int_equal(rig_feed_ack(rig, 2, 1), ENG_RX_DONE);
    assert_int_equal(rig_last(rig)->status, VIP_ST_DONE | VIP_ST_OP_SEND);
    rig_free(rig);
}

static void not_connected(void **state)
{
    struct rig *rig = rig_new_with(RD, &ENG_CONFIG_DEFAULT);

    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 1, 1)), ENG_RX_STALE);
    assert_false(eng_tx_ready(rig->eng));
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    rig_free(rig);
}

static void duplicate_number(void **state)
{
    struct rig *rig = rig_new(RD);

    rig_recv(rig, 0, 100);
    rig_recv(rig, 0, 100);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 1, 1)), ENG_RX_DONE);
    rig->number = 1;
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 1, 1)), ENG_RX_DUPLICATE);
    assert_int_equal(rig->dones, 1);
    /* The duplicate is acknowledged again at once: the first acknowledgement may be lost. */
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.hdr.ack_cumulative, 2);
    assert_int_equal(rig->decoded.hdr.ops_done, 1);
    /* The same content arrives in a new packet. The packet is accepted and has no effect. */
    rig->number = 9;
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 1, 1)), ENG_RX_DONE);
    assert_int_equal(rig->dones, 1);
    rig_free(rig);
}

/* A fragment overlaps bytes that are already placed. Only its new bytes are placed. */
static void overlap(void **state)
{
    struct rig *rig = rig_new(RD);

    rig_paint(rig);
    rig_recv(rig, 100, 1000);
    rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 300, 1000));
    rig->mem[100] = 0xaa;
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 200, 1000)), ENG_RX_DONE);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 600, 1000)), ENG_RX_DONE);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 599, 401, 1000)), ENG_RX_DONE);
    assert_int_equal(rig_last(rig)->length, 1000);
    assert_int_equal(rig->mem[100], 0xaa);
    assert_memory_equal(rig->mem + 101, rig->packet + 1, 999);
    assert_int_equal(rig->mem[1100], 0);
    rig_free(rig);
}

/* A fragment that contradicts an earlier fragment of its operation is dropped. */
static void contradiction(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_frame frame;

    rig_recv(rig, 0, 1000);
    rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 300, 1000));
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 300, 100, 2000)), ENG_RX_STALE);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_WRITE, 0, 300, 700, 1000)), ENG_RX_STALE);
    rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 300, 700, 1000));
    rig_feed(rig, 1, rig_frame(VIP_FRM_WRITE, 1, 0, 10, 20));
    frame = rig_frame(VIP_FRM_WRITE, 1, 10, 10, 20);
    frame.remote_addr = 4096;
    assert_int_equal(rig_feed(rig, 1, frame), ENG_RX_STALE);
    assert_int_equal(rig->mem[4096 + 10], 0);
    rig_free(rig);
}

static void replay_all(struct rig *rig, const struct vip_packet *held, unsigned *order)
{
    uint32_t token;
    uint16_t vi;
    bool feed;

    while (eng_replay(rig->eng, &vi, &token, &feed)) {
        assert_int_equal(vi, RIG_VI);
        assert_true(feed);
        *order = *order * 10 + token;
        eng_rx_replay(rig->eng, vi, &held[token], rig->now_ns);
    }
}

/* Packets ahead of their turn are replayed in the order of their turns. */
static void held_order(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_packet held[5];
    unsigned order = 0;

    for (unsigned i = 0; i < 5; i++) {
        struct vip_frame frame = rig_frame(VIP_FRM_SEND, i, 0, 10, 10);

        rig_recv(rig, i * 100, 100);
        held[i] = rig_packet(rig, 1, &frame);
    }
    assert_int_equal(rig_feed_as(rig, 3, &held[3]), ENG_RX_HOLD);
    assert_int_equal(rig_feed_as(rig, 1, &held[1]), ENG_RX_HOLD);
    assert_int_equal(rig_feed_as(rig, 4, &held[4]), ENG_RX_HOLD);
    replay_all(rig, held, &order);
    assert_int_equal(order, 0);
    assert_int_equal(rig_feed_as(rig, 2, &held[2]), ENG_RX_HOLD);
    assert_int_equal(rig_feed_as(rig, 2, &held[2]), ENG_RX_DUPLICATE);
    assert_int_equal(rig_feed_as(rig, 5, &held[0]), ENG_RX_DONE);
    replay_all(rig, held, &order);
    assert_int_equal(order, 1234);
    assert_int_equal(rig->dones, 5);
    rig_drain(rig);
    assert_int_equal(rig->decoded.hdr.ops_done, 5);
    assert_int_equal(rig->decoded.hdr.ack_cumulative, 6);
    rig_free(rig);
}

/* The second frame of a packet is ahead of its turn: only the first frame is processed at once. */
static void held_rest(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_frame frames[2] = {rig_frame(VIP_FRM_SEND, 0, 0, 10, 10),
                                  rig_frame(VIP_FRM_SEND, 2, 0, 30, 30)};
    struct vip_packet held[2];
    unsigned order = 0;

    for (unsigned i = 0; i < 3; i++)
        rig_recv(rig, i * 100, 100);
    held[1] = rig_packet(rig, 2, frames);
    assert_int_equal(rig_feed_as(rig, 1, &held[1]), ENG_RX_HOLD);
    assert_int_equal(rig->dones, 1);
    assert_int_equal(rig_feed(rig, 2, rig_frame(VIP_FRM_SEND, 1, 0, 20, 20)), ENG_RX_DONE);
    replay_all(rig, held, &order);
    assert_int_equal(rig->dones, 3);
    assert_int_equal(rig_last(rig)->length, 30);
    rig_free(rig);
}

/* The engine has no room for a packet ahead of its turn: it does not acknowledge this packet. */
static void held_full(void **state)
{
    struct eng_config config = ENG_CONFIG_DEFAULT;
    struct rig *rig;
    struct eng_vi_stats stats;

    config.held_packets_max = 2;
    rig = rig_new_with(RD, &config);
    rig_connect(rig, 1472, 65536);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(rig_feed(rig, i, rig_frame(VIP_FRM_SEND, i, 0, 10, 10)),
                         i < 3 ? ENG_RX_HOLD : ENG_RX_FULL);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.hdr.range_count, 0);
    assert_int_equal(rig->decoded.hdr.ack_cumulative, 3);
    eng_vi_stats(rig->eng, RIG_VI, &stats);
    assert_int_equal(stats.held, 2);
    rig_free(rig);
}

static void drop_expected(struct rig *rig, unsigned count)
{
    uint32_t token, seen = 0;
    uint16_t vi;
    bool feed;

    for (unsigned i = 0; i < count; i++) {
        assert_true(eng_replay(rig->eng, &vi, &token, &feed));
        assert_false(feed);
        assert_int_equal(vi, RIG_VI);
        seen |= 1u << token;
    }
    assert_int_equal(seen, (2u << count) - 2);
    assert_false(eng_replay(rig->eng, &vi, &token, &feed));
}

/* When a connection ends in any way, eng_replay returns its held packets, to be freed. */
static void held_dropped(void **state)
{
    struct rig *rig = rig_new(RD);
    struct eng_close close = {0};
    uint32_t ops_done;

    for (unsigned i = 1; i < 4; i++)
        rig_feed(rig, i, rig_frame(VIP_FRM_SEND, i, 0, 10, 10));
    eng_vi_disconnect(rig->eng, RIG_VI, &ops_done);
    drop_expected(rig, 3);
    rig_connect(rig, 1472, 65536);
    for (unsigned i = 1; i < 4; i++)
        rig_feed(rig, i, rig_frame(VIP_FRM_SEND, i, 0, 10, 10));
    eng_vi_closed(rig->eng, RIG_VI, &close, rig->now_ns);
    drop_expected(rig, 3);
    eng_vi_disconnect(rig->eng, RIG_VI, &ops_done);
    rig_connect(rig, 1472, 65536);
    for (unsigned i = 1; i < 4; i++)
        rig_feed(rig, i, rig_frame(VIP_FRM_SEND, i, 0, 10, 10));
    eng_vi_disconnect(rig->eng, RIG_VI, &ops_done);
    eng_vi_destroy(rig->eng, RIG_VI);
    free(rig->vi_memory);
    rig->vi_memory = NULL;
    drop_expected(rig, 3);
    rig_free(rig);
}

/* A held packet whose turn has come has a frame ahead of its turn: the connection breaks. */
static void held_nonsense(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_frame frames[2] = {rig_frame(VIP_FRM_SEND, 1, 0, 10, 10),
                                  rig_frame(VIP_FRM_SEND, 3, 0, 10, 10)};
    struct vip_packet held[2];
    unsigned order = 0;

    for (unsigned i = 0; i < 5; i++)
        rig_recv(rig, 0, 100);
    held[1] = rig_packet(rig, 2, frames);
    assert_int_equal(rig_feed_as(rig, 1, &held[1]), ENG_RX_HOLD);
    rig_feed(rig, 2, rig_frame(VIP_FRM_SEND, 0, 0, 10, 10));
    replay_all(rig, held, &order);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_ERROR);
    assert_int_equal(rig_find(rig, ENG_EVENT_BROKEN)->reason, VIP_CLOSE_ERROR);
    assert_int_equal(rig_find(rig, ENG_EVENT_BROKEN)->ops_done, 2);
    rig_free(rig);
}

static void expects(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_frame next = rig_frame(VIP_FRM_SEND, 0, 100, 100, 300);
    struct vip_frame old = rig_frame(VIP_FRM_SEND, 0, 0, 100, 300);
    struct vip_frame ahead = rig_frame(VIP_FRM_SEND, 1, 0, 100, 100);

    rig_recv(rig, 0, 1000);
    assert_true(eng_rx_expects(rig->eng, RIG_VI, &old));
    assert_false(eng_rx_expects(rig->eng, RIG_VI, &next));
    rig_feed(rig, 1, old);
    assert_false(eng_rx_expects(rig->eng, RIG_VI, &old));
    assert_true(eng_rx_expects(rig->eng, RIG_VI, &next));
    assert_false(eng_rx_expects(rig->eng, RIG_VI, &ahead));
    rig_free(rig);
}

/* Unreliable Delivery never waits for a missing packet, and never accepts an older operation. */
static void unreliable_order(void **state)
{
    struct rig *rig = rig_new(UD);
    struct vip_frame next = rig_frame(VIP_FRM_SEND, 4, 0, 10, 10);

    for (unsigned i = 0; i < 6; i++)
        rig_recv(rig, i * 100, 100);
    assert_true(eng_rx_expects(rig->eng, RIG_VI, &next));
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 3, 0, 10, 10)), ENG_RX_DONE);
    assert_int_equal(rig->dones, 1);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 2, 0, 10, 10)), ENG_RX_DONE);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 3, 0, 10, 10)), ENG_RX_DONE);
    assert_int_equal(rig->dones, 1);
    /* The end of a message arrives, then its beginning. The engine ignores both packets. */
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 5, 5, 5, 10)), ENG_RX_DONE);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 5, 0, 5, 10)), ENG_RX_DONE);
    assert_int_equal(rig->dones, 1);
    /* A write that fails causes an error event, because no descriptor reports the failure. */
    rig_feed(rig, 1, rig_frame(VIP_FRM_WRITE, 6, 0, 5, 10));
    rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 7, 0, 5, 5));
    assert_int_equal(rig_find(rig, ENG_EVENT_ERROR)->code, VIP_EC_RDMAW_ABORT);
    assert_int_equal(rig->dones, 2);
    rig_free(rig);
}

/* The engine accepts at most 16 open reads of a peer, and no read on an unreliable connection. */
static void read_flood(void **state)
{
    struct rig *rig = rig_new(RD);

    for (unsigned i = 0; i < 17; i++) {
        struct vip_frame frame = rig_frame(VIP_FRM_READ_REQ, i, 0, 0, 100);

        frame.flags = VIP_FRMF_LAST;
        assert_int_equal(rig_feed(rig, 1, frame), i < 16 ? ENG_RX_DONE : ENG_RX_STALE);
    }
    /* The first packet from the engine contains answers. */
    assert_true(rig_pull(rig));
    assert_true(rig->out.remote_read);
    assert_int_equal(rig->decoded.frames[0].type, VIP_FRM_READ_RESP);
    rig_free(rig);

    rig = rig_new(UD);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_READ_REQ, 0, 0, 0, 0)), ENG_RX_STALE);
    rig_free(rig);
}

/* Gaps in the received packet numbers make ranges. Of too many ranges only the newest are sent. */
static void ranges(void **state)
{
    struct rig *rig = rig_new(RD);
    unsigned op = 0;

    for (unsigned i = 0; i < 100; i++) {
        rig_recv(rig, 0, 100);
        rig->number = 2 + 3 * i;
        rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, op++, 0, 1, 1));
    }
    rig_drain(rig);
    assert_int_equal(rig->decoded.hdr.ack_cumulative, 1);
    assert_int_equal(rig->decoded.hdr.range_count, VIP_WIRE_RANGES_MAX);
    assert_int_equal(rig->decoded.ranges[VIP_WIRE_RANGES_MAX - 1].start, 298);
    assert_int_equal(rig->decoded.ranges[VIP_WIRE_RANGES_MAX - 1].end, 299);
    assert_int_equal(rig->decoded.ranges[0].start, 298 - 31 * 3);
    /* After the window of packet numbers has moved on, packet 1 counts as received. */
    rig_recv(rig, 0, 100);
    rig->number = 2500;
    rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, op++, 0, 1, 1));
    rig_wait(rig, 1000000);
    assert_int_equal(rig->decoded.hdr.ack_cumulative, 2500 - 2047);
    assert_int_equal(rig->decoded.hdr.range_count, 1);
    rig->number = 1;
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 1, 1)), ENG_RX_DUPLICATE);
    rig_free(rig);
}

static void recv_memory_gone(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_RECEPTION);

    rig_recv(rig, 0, 1000);
    rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 100, 200));
    rig->deny = true;
    rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 100, 100, 200));
    assert_int_equal(rig_last(rig)->status,
                     VIP_ST_DONE | VIP_ST_OP_RECEIVE | VIP_ST_PROTECTION_ERROR);
    assert_int_equal(rig_find(rig, ENG_EVENT_BROKEN)->op_status, VIP_ST_REMOTE_DESC_ERROR);
    assert_int_equal(rig_find(rig, ENG_EVENT_BROKEN)->failed_op, 0);
    rig_free(rig);
}

/* A receive descriptor of 1000 bytes at `offset` takes no message. The event must give `why`. */
static void denied_because(unsigned offset, const char *why)
{
    struct rig *rig = rig_new(VIP_LVL_RECEPTION);

    rig_recv(rig, offset, 1000);
    rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 100, 200));
    assert_int_equal(rig_last(rig)->status,
                     VIP_ST_DONE | VIP_ST_OP_RECEIVE | VIP_ST_PROTECTION_ERROR);
    assert_string_equal(rig_find(rig, ENG_EVENT_BROKEN)->why, why);
    rig_free(rig);
}

/* One segment is after the registered memory, the other reaches past the end of this memory. */
static void recv_denied(void **state)
{
    denied_because(RIG_MEM, "a posted receive names memory that is not accessible");
    denied_because(RIG_MEM - 150,
                   "a posted receive has a segment that reaches past its registered memory");
}

/* Remote addresses near the end of the address space do not wrap around. */
static void write_wraps(void **state)
{
    struct rig *rig = rig_new(UD);
    struct vip_frame frame = rig_frame(VIP_FRM_WRITE, 0, 0, 100, 100);

    frame.remote_addr = UINT64_MAX - 50;
    rig_feed(rig, 1, frame);
    assert_int_equal(rig_find(rig, ENG_EVENT_ERROR)->code, VIP_EC_RDMAW_PROT);
    rig_free(rig);
}

/* Memory becomes inaccessible while a write arrives: the write fails at its last fragment. */
static void write_memory_gone(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_RECEPTION);

    rig_feed(rig, 1, rig_frame(VIP_FRM_WRITE, 0, 0, 100, 300));
    rig->deny = true;
    rig_feed(rig, 1, rig_frame(VIP_FRM_WRITE, 0, 100, 100, 300));
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_CONNECTED);
    rig->deny = false;
    rig_feed(rig, 1, rig_frame(VIP_FRM_WRITE, 0, 200, 100, 300));
    assert_int_equal(rig_find(rig, ENG_EVENT_ERROR)->code, VIP_EC_RDMAW_PROT);
    assert_int_equal(rig_find(rig, ENG_EVENT_BROKEN)->op_status, VIP_ST_RDMA_PROT_ERROR);
    rig_free(rig);
}

/* Bytes of a write cannot be placed, although its memory is accessible. An error event reports this
 * failure, or the receive descriptor if the write has immediate data. */
static void write_memory_spoiled(void **state)
{
    for (unsigned imm = 0; imm < 2; imm++) {
        struct rig *rig = rig_new(VIP_LVL_RECEPTION);
        struct vip_frame end = rig_frame(VIP_FRM_WRITE, 0, 100, 100, 200);

        rig_recv(rig, 0, 0);
        rig->spoil = true;
        rig_feed(rig, 1, rig_frame(VIP_FRM_WRITE, 0, 0, 100, 200));
        assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_CONNECTED);
        rig->spoil = false;
        if (imm)
            end.flags |= VIP_FRMF_IMMEDIATE;
        rig_feed(rig, 1, end);
        assert_int_equal(rig_find(rig, ENG_EVENT_BROKEN)->op_status, VIP_ST_TRANSPORT_ERROR);
        /* The receive descriptor has completed: by the write with immediate data, or as flushed. */
        assert_int_equal(rig->dones, 1);
        if (imm) {
            for (unsigned i = 0; i < rig->events; i++)
                assert_int_not_equal(rig->event[i].kind, ENG_EVENT_ERROR);
            assert_int_equal(rig_last(rig)->status, VIP_ST_DONE | VIP_ST_OP_REMOTE_RDMA_WRITE |
                                                        VIP_ST_IMMEDIATE | VIP_ST_TRANSPORT_ERROR);
        } else {
            assert_int_equal(rig_find(rig, ENG_EVENT_ERROR)->code, VIP_EC_RDMAW_DATA);
            assert_true(rig_last(rig)->status & VIP_ST_DESC_FLUSHED_ERROR);
        }
        rig_free(rig);
    }
}

/* Unreliable Delivery: bytes of a write cannot be placed, then the write fails. The event must
 * report the first error. */
static void write_memory_spoiled_breaks_off(void **state)
{
    struct rig *rig = rig_new(UD);

    rig->spoil = true;
    rig_feed(rig, 1, rig_frame(VIP_FRM_WRITE, 0, 0, 100, 200));
    rig->spoil = false;
    rig_feed(rig, 1, rig_frame(VIP_FRM_WRITE, 1, 0, 100, 100));
    assert_int_equal(rig_find(rig, ENG_EVENT_ERROR)->code, VIP_EC_RDMAW_DATA);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_CONNECTED);
    rig_free(rig);
}

/* The destination of a read becomes inaccessible before the answer arrives: the read fails. */
static void read_memory_gone(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_frame frame = rig_frame(VIP_FRM_READ_RESP, 0, 0, 10, 10);

    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 0, 10);
    rig_drain(rig);
    rig_feed_ack(rig, 2, 1);
    assert_true(eng_rx_expects(rig->eng, RIG_VI, &frame));
    rig->deny = true;
    assert_int_equal(rig_feed(rig, 1, frame), ENG_RX_DONE);
    assert_int_equal(rig_last(rig)->status,
                     VIP_ST_DONE | VIP_ST_OP_RDMA_READ | VIP_ST_PROTECTION_ERROR);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_ERROR);
    assert_false(eng_rx_expects(rig->eng, RIG_VI, &frame));
    rig_free(rig);
}

/* A faulty receive descriptor completes without the flag for immediate data. */
static void write_finds_faulty_recv(void **state)
{
    struct rig *rig = rig_new(UD);
    struct vip_frame frame = rig_frame(VIP_FRM_WRITE, 0, 0, 10, 10);

    frame.flags |= VIP_FRMF_IMMEDIATE;
    frame.imm = 42;
    rig_post(rig, VIP_Q_RECV, VIP_CTL_OP_RDMAWRITE, 0, 10);
    assert_int_equal(rig_feed(rig, 1, frame), ENG_RX_DONE);
    assert_int_equal(rig_last(rig)->status,
                     VIP_ST_DONE | VIP_ST_OP_REMOTE_RDMA_WRITE | VIP_ST_FORMAT_ERROR);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(impossible),
        cmocka_unit_test(not_connected),
        cmocka_unit_test(duplicate_number),
        cmocka_unit_test(overlap),
        cmocka_unit_test(contradiction),
        cmocka_unit_test(held_order),
        cmocka_unit_test(held_rest),
        cmocka_unit_test(held_full),
        cmocka_unit_test(held_dropped),
        cmocka_unit_test(held_nonsense),
        cmocka_unit_test(expects),
        cmocka_unit_test(unreliable_order),
        cmocka_unit_test(read_flood),
        cmocka_unit_test(ranges),
        cmocka_unit_test(recv_memory_gone),
        cmocka_unit_test(recv_denied),
        cmocka_unit_test(write_wraps),
        cmocka_unit_test(write_memory_gone),
        cmocka_unit_test(write_memory_spoiled),
        cmocka_unit_test(write_memory_spoiled_breaks_off),
        cmocka_unit_test(read_memory_gone),
        cmocka_unit_test(write_finds_faulty_recv),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
