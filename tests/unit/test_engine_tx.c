/* Packets to the peer: how operations are cut, which VI sends next, which packets are repeated. */
#include "eng_rig.h"

#define UD VIP_LVL_UNRELIABLE
#define RD VIP_LVL_DELIVERY

static void one_small(void **state)
{
    struct rig *rig = rig_new(RD);
    const struct vip_header *hdr = &rig->decoded.hdr;

    assert_false(eng_tx_ready(rig->eng));
    rig_send(rig, 64, 100);
    assert_true(eng_tx_ready(rig->eng));
    assert_true(rig_pull(rig));
    assert_int_equal(rig->out.vi, RIG_VI);
    assert_int_equal(rig->out.path, 5);
    assert_int_equal(rig->out.piece_count, 2);
    assert_int_equal(rig->out.piece[1].handle, RIG_HANDLE);
    assert_int_equal(rig->out.piece[1].addr, 64);
    assert_int_equal(hdr->conn_id, 22);
    assert_int_equal(hdr->src_epoch, 33);
    assert_int_equal(hdr->dst_epoch, 44);
    assert_int_equal(hdr->packet_number, 1);
    /* A single message asks for no extra acknowledgement, because the reply can carry it. */
    assert_int_equal(hdr->flags, VIP_PKTF_ELICITS);
    assert_false(rig_pull(rig));
    assert_false(eng_tx_ready(rig->eng));
    assert_int_equal(rig->dones, 0);
    rig_feed_ack(rig, 2, 1);
    assert_int_equal(rig->dones, 1);
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    rig_free(rig);
}

/* A single large RDMA Write asks for an acknowledgement, because the peer's program does not see
 * the write and sends no reply. */
static void lone_writes(void **state)
{
    static const struct {
        uint16_t control;
        uint32_t len;
        bool asks;
    } cases[] = {
        {VIP_CTL_OP_RDMAWRITE, 16384, true},
        {VIP_CTL_OP_RDMAWRITE, 64, false},
        {VIP_CTL_OP_RDMAWRITE | VIP_CTL_IMMEDIATE, 16384, false},
        {VIP_CTL_OP_SENDRECV, 16384, false},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig *rig = rig_new_with(RD, &ENG_CONFIG_DEFAULT);

        rig_connect(rig, 32768, 1 << 20);
        rig_post(rig, VIP_Q_SEND, cases[i].control, 0, cases[i].len);
        assert_true(rig_pull(rig));
        assert_true(rig->decoded.frames[0].flags & VIP_FRMF_LAST);
        assert_int_equal(rig->decoded.hdr.flags,
                         VIP_PKTF_ELICITS | (cases[i].asks ? VIP_PKTF_ACK_NOW : 0));
        assert_false(rig_pull(rig));
        rig_free(rig);
    }
}

/* All packets of a bulk transfer except the last have the same size, also across messages. */
static void equal_sizes(void **state)
{
    struct rig *rig = rig_new(RD);
    uint32_t next = 0, op = 0, bytes = 0;
    unsigned packets = 0;

    rig_send(rig, 0, 10000);
    rig_send(rig, 7, 10000);
    rig_send(rig, 3, 5000);
    while (rig_pull(rig)) {
        assert_true(!bytes || bytes == 1472);
        bytes = rig->out.bytes;
        packets++;
        for (unsigned i = 0; i < rig->decoded.hdr.frame_count; i++) {
            const struct vip_frame *frame = &rig->decoded.frames[i];

            assert_int_equal(frame->op, op);
            assert_int_equal(frame->offset, next);
            next = frame->flags & VIP_FRMF_LAST ? 0 : next + frame->length;
            op += (frame->flags & VIP_FRMF_LAST) != 0;
        }
    }
    assert_int_equal(op, 3);
    assert_int_equal(packets, 19);
    assert_true(rig->decoded.hdr.flags & VIP_PKTF_ACK_NOW);
    rig_free(rig);
}

/* Each message of 4 KiB ends 8 bytes before the end of a packet of 1,472 bytes, and no frame fits
 * in 8 bytes. With padding all packets have the same size. Without padding (the peer is an older
 * vipd) they do not. The last packet is never padded. */
static void padded_sizes(void **state)
{
    for (unsigned known = 0; known < 2; known++) {
        struct rig *rig = rig_new_with(RD, &ENG_CONFIG_DEFAULT);
        struct eng_conn conn = {.local_id = 11,
                                .remote_id = 22,
                                .local_epoch = 33,
                                .remote_epoch = 44,
                                .packet_bytes = 1472,
                                .window_bytes = 1 << 20,
                                .features =
                                    known ? VIP_FEATURES : VIP_FEATURES & ~VIP_FEATURE_PADDING};
        uint32_t last = 0;

        rig->number = 1;
        eng_vi_connect(rig->eng, RIG_VI, &conn, rig->now_ns);
        for (unsigned i = 0; i < 4; i++)
            rig_send(rig, 0, 4096);
        for (unsigned i = 1; i <= 12; i++) {
            assert_true(rig_pull(rig));
            last = rig->out.bytes;
            assert_int_equal(last, i % 3 || (known && i < 12) ? 1472 : 1464);
        }
        assert_int_equal(last, 1464);
        assert_false(rig_pull(rig));
        rig_free(rig);
    }
}

static void frames_limit(void **state)
{
    struct rig *rig = rig_new_with(RD, &ENG_CONFIG_DEFAULT);

    rig_connect(rig, 9000, 65536);
    for (unsigned i = 0; i < VIP_WIRE_FRAMES_MAX + 3; i++)
        rig_send(rig, 0, i & 1);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.hdr.frame_count, VIP_WIRE_FRAMES_MAX);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.hdr.frame_count, 3);
    rig_free(rig);
}

/* A descriptor of 252 segments of one byte has too many pieces for one packet: two are needed. */
static void pieces_limit(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX];
    struct eng_post post = {.vi = RIG_VI,
                            .queue = VIP_Q_SEND,
                            .seg_count = VIP_SEGS_PER_DESC_MAX,
                            .length = VIP_SEGS_PER_DESC_MAX,
                            .app_segs = segs};

    for (unsigned i = 0; i < VIP_SEGS_PER_DESC_MAX; i++) {
        segs[i] = (struct vip_shm_seg){.addr = 1000 - 3 * i, .handle = RIG_HANDLE, .len = 1};
        rig->mem[1000 - 3 * i] = (uint8_t)i;
    }
    eng_post(rig->eng, &post, rig->now_ns);
    memset(segs, 0xff, sizeof(segs)); /* the engine has its own copy of `segs` */
    assert_true(rig_pull(rig));
    assert_true(rig->out.piece_count <= ENG_PIECES_MAX);
    assert_int_equal(rig->decoded.frames[0].length, ENG_PIECES_MAX - 2);
    assert_int_equal(rig->out.piece[5].addr, 1000 - 3 * 4);
    assert_int_equal(rig_drain(rig), 1);
    assert_true(rig->decoded.frames[0].flags & VIP_FRMF_LAST);
    rig_feed_ack(rig, 3, 1);
    assert_int_equal(rig->dones, 1);
    rig_free(rig);
}

/* If the peer's window is full, new packets wait. The last packet asks for an acknowledgement. */
static void window(void **state)
{
    struct rig *rig = rig_new_with(RD, &ENG_CONFIG_DEFAULT);
    struct eng_vi_stats stats;

    rig_connect(rig, 1472, 4 * 1472);
    rig_send(rig, 0, 60000);
    assert_int_equal(rig_drain(rig), 4);
    assert_true(rig->decoded.hdr.flags & VIP_PKTF_ACK_NOW);
    assert_false(eng_tx_ready(rig->eng));
    eng_vi_stats(rig->eng, RIG_VI, &stats);
    assert_int_equal(stats.inflight_bytes, 4 * 1472);
    rig->now_ns += 30000;
    rig_feed_ack(rig, 3, 0);
    assert_int_equal(rig_drain(rig), 2);
    rig_free(rig);
}

static void acknowledge_piggyback(void **state)
{
    struct rig *rig = rig_new(RD);

    rig_recv(rig, 0, 100);
    rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 10, 10));
    assert_false(eng_tx_ready(rig->eng));
    rig->now_ns += 10000;
    rig_send(rig, 0, 10);
    assert_int_equal(rig_drain(rig), 1);
    assert_true(rig->decoded.hdr.flags & VIP_PKTF_ACK);
    assert_int_equal(rig->decoded.hdr.ack_cumulative, 2);
    assert_int_equal(rig->decoded.hdr.ops_done, 1);
    assert_true(rig->decoded.hdr.ack_delay >= 10000 >> VIP_WIRE_TICK_SHIFT);
    /* The message has carried the acknowledgement, so the timer of the acknowledgement is off. */
    rig_feed_ack(rig, 2, 1);
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    rig_free(rig);
}

static void acknowledge_when(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_frame frame = rig_frame(VIP_FRM_SEND, 0, 0, 1, 1);
    struct vip_packet packet;

    for (unsigned i = 0; i < 20; i++)
        rig_recv(rig, 0, 100);
    /* The acknowledgement is sent after ack_delay_ns, in a packet of its own. */
    rig_feed(rig, 1, frame);
    assert_true(eng_deadline(rig->eng) == rig->now_ns + ENG_CONFIG_DEFAULT.ack_delay_ns);
    assert_int_equal(rig_wait(rig, 100000), 1);
    /* The acknowledgement is sent at once, if the peer asks for it. */
    frame.op++;
    packet = rig_packet(rig, 1, &frame);
    packet.hdr.flags |= VIP_PKTF_ACK_NOW;
    rig_feed_as(rig, 1, &packet);
    assert_int_equal(rig_drain(rig), 1);
    assert_int_equal(rig->decoded.hdr.flags, VIP_PKTF_ACK);
    /* The acknowledgement is sent at once after ack_every_packets packets. */
    for (unsigned i = 0; i < ENG_CONFIG_DEFAULT.ack_every_packets; i++) {
        assert_false(eng_tx_ready(rig->eng));
        frame.op++;
        rig_feed(rig, 1, frame);
    }
    assert_int_equal(rig_drain(rig), 1);
    /* An acknowledgement itself is not acknowledged. */
    assert_int_equal(rig_feed_ack(rig, 2, 0), ENG_RX_DONE);
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    rig_free(rig);
}

/* Three packets after a missing one have arrived. Its content is sent again, with a new number. */
static void fast_retransmit(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_packet ack;
    struct eng_vi_stats stats;

    rig_send(rig, 0, 8000);
    assert_int_equal(rig_drain(rig), 6);
    rig->now_ns += 20000;
    ack = rig_ack(rig, 2, 0);
    ack.hdr.range_count = 1;
    ack.ranges[0] = (struct vip_range){.start = 1, .end = 3};
    rig_feed_as(rig, 1, &ack);
    assert_int_equal(rig_drain(rig), 0);
    ack = rig_ack(rig, 2, 0);
    ack.hdr.range_count = 1;
    ack.ranges[0] = (struct vip_range){.start = 1, .end = 4};
    rig_feed_as(rig, 1, &ack);
    assert_int_equal(rig_drain(rig), 1);
    assert_int_equal(rig->decoded.hdr.packet_number, 7);
    assert_int_equal(rig->decoded.frames[0].offset, 1368);
    assert_int_equal(rig->decoded.frames[0].length, 1368);
    /* The original packet was only late: its content is not sent a third time. */
    rig_feed_ack(rig, 7, 1);
    assert_int_equal(rig->dones, 1);
    rig_feed_ack(rig, 8, 1);
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    eng_vi_stats(rig->eng, RIG_VI, &stats);
    assert_int_equal(stats.retransmits, 1);
    assert_int_equal(stats.inflight_bytes, 0);
    rig_free(rig);
}

/* The peer has acknowledged all packets, but no operation as processed: the engine sends a PING. */
static void probe_for_operations(void **state)
{
    struct rig *rig = rig_new(RD);

    rig_send(rig, 0, 100);
    assert_int_equal(rig_drain(rig), 1);
    rig->now_ns += 20000;
    rig_feed_ack(rig, 2, 0);
    assert_int_equal(rig->dones, 0);
    assert_true(rig_wait(rig, 5000000) > 0);
    assert_int_equal(rig->decoded.hdr.frame_count, 0);
    assert_int_equal(rig->decoded.hdr.flags, VIP_PKTF_ACK | VIP_PKTF_ELICITS | VIP_PKTF_ACK_NOW);
    rig_feed_ack(rig, rig->decoded.hdr.packet_number + 1, 1);
    assert_int_equal(rig->dones, 1);
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    rig_free(rig);
}

/* Send message `number`. The peer acknowledges it 20 us after it has kept it back for `kept_ns`.
 * Returns how long the engine would have waited before it sends a probe. */
static uint64_t probe_after(struct rig *rig, uint32_t number, uint64_t kept_ns)
{
    struct vip_packet ack;
    uint64_t wait_ns;

    rig_send(rig, 0, 100);
    assert_int_equal(rig_drain(rig), 1);
    wait_ns = eng_deadline(rig->eng) - rig->now_ns;
    ack = rig_ack(rig, number + 1, number);
    ack.hdr.ts_echo = rig->decoded.hdr.ts;
    ack.hdr.ack_delay = (uint32_t)(kept_ns >> VIP_WIRE_TICK_SHIFT);
    rig->now_ns += 20000 + kept_ns;
    assert_int_equal(rig_feed_as(rig, number, &ack), ENG_RX_DONE);
    assert_int_equal(rig->dones, number);
    return wait_ns;
}

/* A peer that computes between two messages acknowledges late. That is no loss: a probe waits as
 * long as the peer's habit is, but no longer than the retransmission timeout. */
static void a_peer_that_thinks(void **state)
{
    struct rig *rig = rig_new(RD);
    uint64_t usual_ns = ENG_CONFIG_DEFAULT.rto_min_ns / 4, now_ns;
    uint32_t number = 0;

    for (unsigned i = 0; i < 20; i++)
        (void)probe_after(rig, ++number, 0);
    assert_in_range(probe_after(rig, ++number, 900000), 1, usual_ns);
    assert_in_range(probe_after(rig, ++number, 900000), 1000000, ENG_CONFIG_DEFAULT.rto_min_ns);
    assert_in_range(probe_after(rig, ++number, 60000000000), 1000000,
                    ENG_CONFIG_DEFAULT.rto_min_ns);
    now_ns = probe_after(rig, ++number, 0);
    assert_in_range(now_ns, 1000000, ENG_CONFIG_DEFAULT.rto_min_ns);
    for (unsigned i = 0; i < 40; i++)
        now_ns = probe_after(rig, ++number, 0);
    assert_in_range(now_ns, 1, usual_ns);
    rig_free(rig);
}

/* A probe was sent, and 900 us after the message comes an acknowledgement. It has all packets up to
 * `cumulative` and, in any case, the probe. How long would the next probe wait? */
static uint64_t after_a_probe(uint64_t cumulative)
{
    struct rig *rig = rig_new(RD);
    struct vip_packet ack;
    uint64_t probe, wait_ns;
    uint32_t number = 0;

    for (unsigned i = 0; i < 20; i++)
        (void)probe_after(rig, ++number, 0);
    rig_send(rig, 0, 100);
    assert_int_equal(rig_drain(rig), 1);
    assert_int_equal(rig->decoded.hdr.packet_number, ++number);
    assert_int_equal(rig_wait(rig, 300000), 1);
    probe = rig->decoded.hdr.packet_number;
    assert_int_equal(probe, number + 1);
    ack = rig_ack(rig, number + cumulative, number);
    ack.hdr.ts_echo = rig->decoded.hdr.ts;
    ack.hdr.ack_delay = 0;
    if (cumulative == 0) {
        ack.hdr.range_count = 1;
        ack.ranges[0] = (struct vip_range){.start = 1, .end = 2};
    }
    rig->now_ns += 600000;
    assert_int_equal(rig_feed_as(rig, number, &ack), ENG_RX_DONE);
    assert_int_equal(rig->dones, number);
    rig_send(rig, 0, 100);
    assert_int_equal(rig_drain(rig), 1);
    wait_ns = eng_deadline(rig->eng) - rig->now_ns;
    rig_free(rig);
    return wait_ns;
}

/* The packet that a probe repeats had arrived: the peer only thinks. If the packet was lost, the
 * acknowledgement says nothing about the peer. */
static void a_needless_probe(void **state)
{
    uint64_t lost_ns = after_a_probe(0), thinks_ns = after_a_probe(2);

    assert_in_range(thinks_ns, lost_ns + 900000, ENG_CONFIG_DEFAULT.rto_min_ns);
}

static void times_out(void **state)
{
    struct rig *rig = rig_new(RD);
    unsigned packets;

    rig_send(rig, 0, 100);
    rig_send(rig, 0, 200);
    rig_drain(rig);
    packets = rig_wait(rig, ENG_CONFIG_DEFAULT.conn_timeout_ns - 1000);
    assert_int_equal(rig->dones, 0);
    assert_in_range(packets, 10, 60);
    rig_wait(rig, 2000);
    assert_int_equal(rig->dones, 2);
    assert_int_equal(rig->done[0].status, VIP_ST_DONE | VIP_ST_TRANSPORT_ERROR);
    assert_int_equal(rig->done[1].status, VIP_ST_DONE | VIP_ST_DESC_FLUSHED_ERROR);
    assert_int_equal(rig_find(rig, ENG_EVENT_BROKEN)->reason, VIP_CLOSE_TIMEOUT);
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    rig_free(rig);
}

/* An idle connection does not time out. The timeout begins when the VI sends a packet. */
static void idle_is_patient(void **state)
{
    struct rig *rig = rig_new(RD);

    rig->now_ns += 100 * ENG_CONFIG_DEFAULT.conn_timeout_ns;
    rig_send(rig, 0, 100);
    rig_drain(rig);
    rig_wait(rig, ENG_CONFIG_DEFAULT.conn_timeout_ns / 2);
    assert_int_equal(rig->dones, 0);
    assert_int_equal(rig_feed_ack(rig, 2, 1), ENG_RX_DONE);
    assert_int_equal(rig->dones, 1);
    rig_free(rig);
}

/* Unreliable: a send completes at the tick after its packet left. Lost packets free the window. */
static void unreliable(void **state)
{
    struct rig *rig = rig_new(UD);
    struct eng_vi_stats stats;

    rig_send(rig, 0, 100);
    rig_send(rig, 0, 3000);
    assert_true(rig_drain(rig) > 0);
    assert_int_equal(rig->dones, 0);
    assert_true(eng_deadline(rig->eng) == 0);
    eng_tick(rig->eng, rig->now_ns);
    assert_int_equal(rig->dones, 2);
    rig_wait(rig, 1000000000);
    eng_vi_stats(rig->eng, RIG_VI, &stats);
    assert_int_equal(stats.inflight_bytes, 0);
    assert_int_equal(stats.retransmits, 0);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_CONNECTED);
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    rig_free(rig);
}

/* An unreliable connection ends: a send whose packets have left completes, others are flushed. */
static void unreliable_then_gone(void **state)
{
    struct rig *rig = rig_new(UD);
    uint32_t ops_done;

    rig_send(rig, 0, 100);
    rig_drain(rig);
    rig_send(rig, 0, 100);
    eng_vi_disconnect(rig->eng, RIG_VI, &ops_done);
    assert_int_equal(rig->dones, 2);
    assert_int_equal(rig->done[0].status, VIP_ST_DONE);
    assert_int_equal(rig->done[1].status, VIP_ST_DONE | VIP_ST_DESC_FLUSHED_ERROR);
    rig_free(rig);
}

/* The peer's CLOSE reports processed operations and one failed operation. The processed ones
 * complete; the ones after the failed one are flushed. */
static void closed_with_news(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_RECEPTION);
    struct eng_close close = {
        .ops_valid = true, .ops_done = 2, .op_status = VIP_ST_REMOTE_DESC_ERROR, .failed_op = 2};

    for (unsigned i = 0; i < 4; i++)
        rig_send(rig, 0, 10);
    rig_recv(rig, 0, 10);
    rig_drain(rig);
    rig_send(rig, 0, 10);
    eng_vi_closed(rig->eng, RIG_VI, &close, rig->now_ns);
    assert_int_equal(rig->dones, 6);
    assert_int_equal(rig->done[1].status, VIP_ST_DONE);
    assert_int_equal(rig->done[2].status, VIP_ST_DONE | VIP_ST_REMOTE_DESC_ERROR);
    assert_int_equal(rig->done[3].status, VIP_ST_DONE | VIP_ST_DESC_FLUSHED_ERROR);
    assert_int_equal(rig->done[5].queue, VIP_Q_RECV);
    assert_int_equal(rig_find(rig, ENG_EVENT_ERROR)->code, VIP_EC_CONN_LOST);
    rig_free(rig);

    /* A CLOSE counts more operations than were sent: the engine ignores the count. */
    rig = rig_new(RD);
    rig_send(rig, 0, 10);
    rig_drain(rig);
    close = (struct eng_close){.ops_valid = true, .ops_done = 77};
    eng_vi_closed(rig->eng, RIG_VI, &close, rig->now_ns);
    assert_int_equal(rig->done[0].status, VIP_ST_DONE | VIP_ST_DESC_FLUSHED_ERROR);
    rig_free(rig);
}

/* Acknowledgements without data use up packet numbers while an old packet is not acknowledged. The
 * old packet must still be repeated. */
static void numbers_run_out(void **state)
{
    struct rig *rig = rig_new(RD);
    struct eng_vi_stats stats;
    uint64_t last = 0;

    rig_send(rig, 0, 100);
    rig_drain(rig);
    for (unsigned i = 0; i < 3000; i++) {
        struct vip_frame frame = rig_frame(VIP_FRM_SEND, i, 0, 1, 1);
        struct vip_packet packet = rig_packet(rig, 1, &frame);

        packet.hdr.flags |= VIP_PKTF_ACK_NOW;
        rig_recv(rig, 0, 10);
        rig_feed_as(rig, 1, &packet);
        rig_drain(rig);
    }
    eng_vi_stats(rig->eng, RIG_VI, &stats);
    assert_in_range(stats.acks_sent, 1000, 2048);
    rig_wait(rig, ENG_CONFIG_DEFAULT.rto_initial_ns + 1000000);
    last = rig->decoded.hdr.packet_number;
    eng_vi_stats(rig->eng, RIG_VI, &stats);
    assert_int_equal(stats.retransmits, 1);
    assert_int_equal(rig_feed_ack(rig, last + 1, 1), ENG_RX_DONE);
    assert_int_equal(rig_last(rig)->queue, VIP_Q_SEND);
    rig_free(rig);
}

/* A second VI sends after one turn of the first VI, even if the first VI has more to send. */
static void turns(void **state)
{
    struct eng_config config = ENG_CONFIG_DEFAULT;
    struct rig *rig;
    struct eng_vi_attrs attrs = {.level = RD, .max_transfer_bytes = 65536};
    struct eng_conn conn = {.local_id = 1,
                            .remote_id = 2,
                            .local_epoch = 3,
                            .remote_epoch = 4,
                            .packet_bytes = 1472,
                            .window_bytes = 1 << 20};
    struct vip_shm_seg seg = {.addr = 0, .handle = RIG_HANDLE, .len = 60000};
    struct eng_post post = {.queue = VIP_Q_SEND, .seg_count = 1, .length = 60000, .app_segs = &seg};
    void *memory = rig_zeroed(eng_vi_bytes());
    unsigned first = 0;

    config.turn_packets = 5;
    rig = rig_new_with(RD, &config);
    rig_connect(rig, 1472, 1 << 20);
    eng_vi_create(rig->eng, 9, memory, &attrs);
    eng_vi_connect(rig->eng, 9, &conn, rig->now_ns);
    rig_send(rig, 0, 60000);
    post.vi = 9;
    eng_post(rig->eng, &post, rig->now_ns);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(rig_pull(rig));
        assert_int_equal(rig->out.vi, i / 5 % 2 ? 9 : RIG_VI);
        first += rig->out.vi == RIG_VI;
    }
    assert_int_equal(first, 10);
    eng_vi_destroy(rig->eng, 9);
    free(memory);
    rig_free(rig);
}

static void read_completes(void **state)
{
    struct rig *rig = rig_new(RD);

    rig_paint(rig);
    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 1000, 300);
    rig_send(rig, 0, 10);
    rig_drain(rig);
    assert_int_equal(rig->decoded.frames[0].type, VIP_FRM_READ_REQ);
    assert_int_equal(rig->decoded.frames[0].remote_addr, 0x5000);
    assert_int_equal(rig->decoded.frames[0].total, 300);
    /* The peer has processed both operations, but they complete in the order of the queue. */
    rig_feed_ack(rig, 2, 2);
    assert_int_equal(rig->dones, 0);
    assert_int_equal(rig_feed(rig, 7, rig_frame(VIP_FRM_READ_RESP, 0, 200, 100, 300)), ENG_RX_HOLD);
    rig_feed(rig, 1, rig_frame(VIP_FRM_READ_RESP, 0, 0, 250, 300));
    assert_int_equal(rig->dones, 0);
    rig_feed(rig, 1, rig_frame(VIP_FRM_READ_RESP, 0, 250, 50, 300));
    assert_int_equal(rig->dones, 2);
    assert_int_equal(rig->done[0].status, VIP_ST_DONE | VIP_ST_OP_RDMA_READ);
    assert_memory_equal(rig->mem + 1000, rig->packet, 300);
    assert_int_equal(rig->mem[1300], 0);
    rig_free(rig);
}

/* At most 16 reads are open. The seventeenth read waits, and so do all later operations. */
static void reads_limit(void **state)
{
    struct rig *rig = rig_new(RD);

    for (unsigned i = 0; i < 17; i++)
        rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, i, 1);
    rig_drain(rig);
    assert_int_equal(rig->decoded.hdr.frame_count, 16);
    rig_feed_ack(rig, 2, 16);
    for (unsigned i = 0; i < 16; i++)
        rig_feed(rig, 1, rig_frame(VIP_FRM_READ_RESP, i, 0, 1, 1));
    assert_int_equal(rig->dones, 16);
    rig_drain(rig);
    assert_int_equal(rig->decoded.frames[0].op, 16);
    rig_free(rig);
}

/* A packet cannot be repeated: its memory is inaccessible. The peer may have its first copy. */
static void failed_but_arrived(void **state)
{
    struct rig *rig = rig_new(RD);

    rig_send(rig, 0, 10);
    rig_send(rig, 100, 20);
    rig_drain(rig);
    rig_wait(rig, ENG_CONFIG_DEFAULT.rto_initial_ns + 1000000);
    assert_int_equal(rig->decoded.hdr.packet_number, 2);
    rig->deny = true;
    rig->now_ns++;
    rig_send(rig, 0, 5);
    eng_tx_failed(rig->eng, RIG_VI, rig->out.op, rig->now_ns);
    /* The memory of the oldest operation is inaccessible: this operation fails at once. */
    assert_int_equal(rig->dones, 3);
    assert_int_equal(rig->done[0].status, VIP_ST_DONE | VIP_ST_PROTECTION_ERROR);
    assert_int_equal(rig_find(rig, ENG_EVENT_BROKEN)->reason, VIP_CLOSE_ERROR);
    rig_free(rig);

    rig = rig_new(RD);
    rig_send(rig, 0, 10);
    rig_drain(rig);
    rig_send(rig, 0, 3000);
    rig_drain(rig);
    /* The second of two operations fails. Then the peer reports both operations as processed. */
    rig->deny = true;
    eng_tx_failed(rig->eng, RIG_VI, 1, rig->now_ns);
    assert_int_equal(rig->dones, 0);
    rig->deny = false;
    rig->now_ns += 20000;
    rig_feed_ack(rig, 5, 2);
    assert_int_equal(rig->dones, 2);
    assert_int_equal(rig->done[1].status, VIP_ST_DONE);
    rig_send(rig, 0, 10);
    assert_int_equal(rig_drain(rig), 1);
    rig_free(rig);
}

/* Two operations lose their memory: first the later one, whose packets are half cut, then the
 * earlier one. The peer has processed the earlier one. The later one fails in its turn. */
static void failed_behind_arrived(void **state)
{
    struct rig *rig = rig_new(RD);

    rig_send(rig, 0, 10);
    rig_drain(rig);
    rig_send(rig, 0, 1000);
    rig_drain(rig);
    rig_send(rig, 0, 60000);
    rig_drain(rig);
    assert_int_equal(rig->decoded.frames[0].op, 2);
    assert_false(rig->decoded.frames[0].flags & VIP_FRMF_LAST);
    rig->deny = true;
    eng_tx_failed(rig->eng, RIG_VI, 2, rig->now_ns);
    eng_tx_failed(rig->eng, RIG_VI, 1, rig->now_ns);
    assert_int_equal(rig->dones, 0);
    rig->now_ns += 20000;
    rig_feed_ack(rig, 3, 2);
    assert_int_equal(rig->dones, 3);
    assert_int_equal(rig->done[0].status, VIP_ST_DONE);
    assert_int_equal(rig->done[1].status, VIP_ST_DONE);
    assert_int_equal(rig->done[2].status, VIP_ST_DONE | VIP_ST_PROTECTION_ERROR);
    assert_int_equal(rig_find(rig, ENG_EVENT_BROKEN)->reason, VIP_CLOSE_ERROR);
    assert_int_equal(rig_drain(rig), 0);
    rig_free(rig);
}

/* An operation has lost its memory. The engine still repeats later operations: the peer may already
 * have this operation, and then it needs the later ones. */
static void repeats_behind_failed(void **state)
{
    struct rig *rig = rig_new(RD);
    struct vip_packet ack;
    bool again = false;

    rig_send(rig, 0, 10);
    rig_drain(rig);
    rig_send(rig, 0, 20);
    rig_send(rig, 0, 30);
    assert_int_equal(rig_drain(rig), 1);
    assert_int_equal(rig->decoded.hdr.frame_count, 2);
    rig->deny = true;
    eng_tx_failed(rig->eng, RIG_VI, 1, rig->now_ns);
    rig->deny = false;
    /* An acknowledgement of a later packet makes both data packets count as lost. The peer reports
     * late that it has the first two operations. */
    assert_true(rig_wait(rig, 4 * ENG_CONFIG_DEFAULT.rto_initial_ns) > 0);
    ack = rig_ack(rig, 1, 0);
    ack.hdr.range_count = 1;
    ack.ranges[0].start = rig->decoded.hdr.packet_number - 1;
    ack.ranges[0].end = ack.ranges[0].start + 1;
    rig_feed_as(rig, 1, &ack);
    (void)rig_wait(rig, ENG_CONFIG_DEFAULT.rto_initial_ns);
    rig_feed_ack(rig, 1, 2);
    assert_int_equal(rig->dones, 2);
    for (unsigned i = 0; i < 100 && !again; i++) {
        rig->now_ns += ENG_CONFIG_DEFAULT.rto_initial_ns;
        eng_tick(rig->eng, rig->now_ns);
        while (rig_pull(rig))
            again |= rig->decoded.hdr.frame_count && rig->decoded.frames[0].op == 2;
    }
    assert_true(again);
    rig_feed_ack(rig, rig->decoded.hdr.packet_number, 3);
    assert_int_equal(rig->dones, 3);
    assert_int_equal(rig->done[2].status, VIP_ST_DONE);
    rig_free(rig);
}

static struct vip_shm_seg *no_segs(void *ctx, unsigned count)
{
    return NULL;
}

/* The session gets no memory for a long descriptor, which fails in its turn (spec 3.3). */
static void segments_refused(void **state)
{
    struct rig *rig = rig_new(RD);
    struct eng_ops ops = {.check = rig_check,
                          .place = rig_place,
                          .complete = rig_complete,
                          .event = rig_event,
                          .fetch_posts = rig_fetch,
                          .segs_alloc = no_segs,
                          .segs_free = rig_segs_free};
    struct eng_vi_attrs attrs = {.level = RD, .max_transfer_bytes = 1000};
    struct vip_shm_seg segs[3] = {{.handle = RIG_HANDLE, .len = 1}};
    struct eng_post post = {
        .vi = RIG_VI, .queue = VIP_Q_RECV, .seg_count = 3, .length = 1, .app_segs = segs};
    void *memory = rig_zeroed(eng_vi_bytes());
    struct eng *eng =
        eng_init(rig_zeroed(eng_bytes()), &ENG_CONFIG_DEFAULT, &ops, rig, rig->now_ns);
    struct eng_vi_stats stats;

    eng_vi_create(eng, RIG_VI, memory, &attrs);
    eng_post(eng, &post, rig->now_ns);
    assert_int_equal(rig_find(rig, ENG_EVENT_ERROR)->code, VIP_EC_VI_OVERRUN);
    post.seg_count = 2;
    eng_post(eng, &post, rig->now_ns);
    eng_vi_stats(eng, RIG_VI, &stats);
    /* The failed descriptor keeps its place, because each descriptor must have one completion. */
    assert_int_equal(stats.recv_depth, 2);
    eng_vi_destroy(eng, RIG_VI);
    free(memory);
    free(eng);
    rig_free(rig);
}

/* The engine measures latencies of all VIs, and of one VI after the call of eng_vi_measure. */
static void latency(void **state)
{
    struct eng_latency all = {0}, own = {0};
    struct eng_config config = ENG_CONFIG_DEFAULT;
    struct rig *rig;

    config.latency = &all;
    rig = rig_new_with(RD, &config);
    rig_connect(rig, 1472, 1 << 20);
    for (uint64_t i = 0; i < 2; i++) {
        rig_send(rig, 0, 100);
        rig->now_ns += 3000;
        assert_true(rig_pull(rig));
        assert_in_range(rig->out.posted_ns, rig->now_ns - 3064, rig->now_ns - 2936);
        rig->now_ns += 10000;
        rig_feed_ack(rig, 2 + i, 1 + (uint32_t)i);
        assert_int_equal(rig->dones, 1 + i);
        assert_int_equal(all.wire_to_ack.count, 1 + i);
        assert_int_equal(all.post_to_complete.count, 1 + i);
        assert_int_equal(own.wire_to_ack.count, i);
        assert_int_equal(own.post_to_complete.count, i);
        eng_vi_measure(rig->eng, RIG_VI, &own);
    }
    assert_int_equal(own.wire_to_ack.max_ns, 10000);
    assert_in_range(own.post_to_complete.max_ns, 12000, 14000);
    assert_int_equal(own.post_to_wire.count, 0); /* measured outside of the engine */
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_small),
        cmocka_unit_test(lone_writes),
        cmocka_unit_test(equal_sizes),
        cmocka_unit_test(padded_sizes),
        cmocka_unit_test(frames_limit),
        cmocka_unit_test(pieces_limit),
        cmocka_unit_test(window),
        cmocka_unit_test(acknowledge_piggyback),
        cmocka_unit_test(acknowledge_when),
        cmocka_unit_test(fast_retransmit),
        cmocka_unit_test(probe_for_operations),
        cmocka_unit_test(a_peer_that_thinks),
        cmocka_unit_test(a_needless_probe),
        cmocka_unit_test(times_out),
        cmocka_unit_test(idle_is_patient),
        cmocka_unit_test(unreliable),
        cmocka_unit_test(unreliable_then_gone),
        cmocka_unit_test(closed_with_news),
        cmocka_unit_test(numbers_run_out),
        cmocka_unit_test(turns),
        cmocka_unit_test(read_completes),
        cmocka_unit_test(reads_limit),
        cmocka_unit_test(failed_but_arrived),
        cmocka_unit_test(failed_behind_arrived),
        cmocka_unit_test(repeats_behind_failed),
        cmocka_unit_test(segments_refused),
        cmocka_unit_test(latency),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
