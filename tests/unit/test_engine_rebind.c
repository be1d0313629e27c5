/*
 * Tests one end of a connection that is bound anew (eng_vi_pause, eng_vi_restore, eng_vi_rebind):
 * which packets it repeats and accepts, and false counts. For random runs: simrun --pair --rebind.
 */
#include "eng_rig.h"

#include <errno.h>

#define MS 1000000ull

static const struct eng_conn conn = {.local_id = 12,
                                     .remote_id = 23,
                                     .local_epoch = 34,
                                     .remote_epoch = 45,
                                     .packet_bytes = 1472,
                                     .window_bytes = 1 << 20,
                                     .path = 6};

static int rebind(struct rig *rig, const struct vip_counts *peer)
{
    rig->number = 1;
    return eng_vi_rebind(rig->eng, RIG_VI, &conn, peer, rig->now_ns);
}

/* Returns a rig whose engine has sent `count` messages of 10 bytes, in one packet or several. */
static struct rig *sent(unsigned count)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);

    for (unsigned i = 0; i < count; i++)
        rig_send(rig, 100 + 10 * i, 10);
    (void)rig_drain(rig);
    return rig;
}

static struct vip_frame peer_read(uint32_t op)
{
    struct vip_frame frame = rig_frame(VIP_FRM_READ_REQ, op, 0, 0, 100);

    frame.remote_addr = 100;
    return frame;
}

/* A paused VI sends no packet, accepts no packet, and never times out. */
static void test_paused(void **state)
{
    struct rig *rig = sent(3);

    rig_recv(rig, 0, 100);
    eng_vi_pause(rig->eng, RIG_VI);
    rig_send(rig, 0, 10);
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 10, 10)), ENG_RX_STALE);
    assert_int_equal(rig_wait(rig, 10 * ENG_CONFIG_DEFAULT.conn_timeout_ns), 0);
    assert_int_equal(rig_drain(rig), 0);
    assert_int_equal(rig->dones, 0);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_CONNECTED);
    /* A paused VI can be disconnected like any other VI. The next connection is not paused. */
    uint32_t ops_done;

    eng_vi_disconnect(rig->eng, RIG_VI, &ops_done);
    assert_int_equal(rig->dones, 5);
    rig_connect(rig, 1472, 1 << 20);
    rig_send(rig, 0, 10);
    assert_int_equal(rig_drain(rig), 1);
    rig_free(rig);
}

/* A packet of the new binding is lost. It leaves again when the round trip of the last binding, which
 * the caller knows, is over; not after rto_initial. */
static void test_round_trip(void **state)
{
    struct eng_conn known = conn;
    struct rig *rig = sent(1);

    known.rtt_ns = MS / 10;
    eng_vi_pause(rig->eng, RIG_VI);
    rig->number = 1;
    assert_int_equal(eng_vi_rebind(rig->eng, RIG_VI, &known, &(struct vip_counts){0}, rig->now_ns),
                     0);
    assert_int_equal(rig_drain(rig), 1);
    assert_true(rig_wait(rig, ENG_CONFIG_DEFAULT.rto_min_ns) > 0);
    rig_free(rig);
}

/* The peer has processed one of three operations: this one completes, the others are sent again. */
static void test_rewind(void **state)
{
    struct rig *rig = sent(3);
    struct vip_counts counts;

    eng_vi_pause(rig->eng, RIG_VI);
    eng_vi_counts(rig->eng, RIG_VI, &counts);
    assert_int_equal(eng_vi_completed(rig->eng, RIG_VI), 0);
    assert_int_equal(counts.done, 0);
    assert_int_equal(counts.reads, 0);
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 1}), 0);
    assert_int_equal(rig->dones, 1);
    assert_int_equal(rig_last(rig)->status, VIP_ST_DONE);
    assert_true(rig_pull(rig));
    assert_true(rig->decoded.hdr.conn_id == 23 && rig->decoded.hdr.src_epoch == 34);
    assert_true(rig->decoded.hdr.packet_number == 1);
    assert_int_equal(rig->decoded.hdr.frame_count, 2);
    assert_int_equal(rig->decoded.frames[0].op, 1);
    assert_int_equal(rig->decoded.frames[1].op, 2);
    assert_int_equal(rig->out.path, 6);
    rig_feed_ack(rig, 2, 3);
    assert_int_equal(rig->dones, 3);
    rig_free(rig);
}

/* Half of a message of two packets has arrived. After the rebind the message arrives again from its
 * first byte, for the same receive descriptor. */
static void test_half_placed(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);
    struct vip_counts counts;

    rig_paint(rig);
    rig_recv(rig, 0, 2000);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 1000, 2000)), ENG_RX_DONE);
    eng_vi_pause(rig->eng, RIG_VI);
    eng_vi_counts(rig->eng, RIG_VI, &counts);
    assert_int_equal(counts.done, 0);
    assert_int_equal(rebind(rig, &(struct vip_counts){0}), 0);
    assert_int_equal(rig->dones, 0);
    assert_int_equal(rig_feed(rig, 2, rig_frame(VIP_FRM_SEND, 0, 1000, 1000, 2000)), ENG_RX_HOLD);
    assert_int_equal(rig_feed(rig, 3, rig_frame(VIP_FRM_SEND, 0, 0, 1000, 2000)), ENG_RX_DONE);
    rig_free(rig);
}

/* Unreliable Delivery: a half-placed message fails. A half-sent message is sent from its start. */
static void test_unreliable(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_UNRELIABLE);

    rig_recv(rig, 0, 2000);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 1000, 2000)), ENG_RX_DONE);
    rig_send(rig, 0, 2000);
    assert_true(rig_pull(rig));
    eng_vi_pause(rig->eng, RIG_VI);
    assert_int_equal(rig->dones, 1);
    assert_true(rig_last(rig)->status & VIP_ST_PARTIAL_ERROR);
    /* A reliable peer must not send this count. Without reliability the count has no meaning. */
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 77}), 0);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.frames[0].op, 0);
    assert_int_equal(rig->decoded.frames[0].offset, 0);
    rig_free(rig);
}

/* The peer has processed operation 0, a read, but answered only half of it. It has not processed
 * read 2. The engine requests both reads again. */
static void test_reads_of_ours(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);
    struct vip_frame answer = rig_frame(VIP_FRM_READ_RESP, 0, 0, 50, 100);
    struct vip_counts counts;

    rig_paint(rig);
    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 100, 100);
    rig_send(rig, 0, 10);
    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 200, 100);
    (void)rig_drain(rig);
    /* Half of the first answer has arrived. */
    assert_int_equal(rig_feed(rig, 1, answer), ENG_RX_DONE);
    eng_vi_pause(rig->eng, RIG_VI);
    eng_vi_counts(rig->eng, RIG_VI, &counts);
    assert_int_equal(counts.reads, 2);
    assert_int_equal(counts.read[0], 0);
    assert_int_equal(counts.read[1], 2);
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 2}), 0);
    assert_int_equal(rig->dones, 0); /* the send completes only after the read */
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.frames[0].type, VIP_FRM_READ_REQ);
    assert_int_equal(rig->decoded.frames[0].op, 0);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.frames[0].type, VIP_FRM_READ_REQ);
    assert_int_equal(rig->decoded.frames[0].op, 2);
    rig_feed_ack(rig, rig->decoded.hdr.packet_number + 1, 3);
    assert_int_equal(rig->dones, 0);
    /* The answer to read 0 arrives again from its first byte. */
    assert_int_equal(rig_feed(rig, 2, rig_frame(VIP_FRM_READ_RESP, 0, 0, 100, 100)), ENG_RX_DONE);
    assert_int_equal(rig->dones, 2);
    assert_int_equal(rig_feed(rig, 3, rig_frame(VIP_FRM_READ_RESP, 2, 0, 100, 100)), ENG_RX_DONE);
    assert_int_equal(rig->dones, 3);
    assert_int_equal(rig_last(rig)->status & VIP_ST_ERROR_MASK, 0);
    rig_free(rig);
}

/* The engine asks again for a read, and this request is lost. The peer has already counted the read
 * as processed. The next timeout must still repeat the request. */
static void test_request_lost_again(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);

    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 100, 100);
    (void)rig_drain(rig);
    eng_vi_pause(rig->eng, RIG_VI);
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 1}), 0);
    assert_true(rig_pull(rig)); /* this packet is lost */
    rig->now_ns = eng_deadline(rig->eng);
    eng_tick(rig->eng, rig->now_ns);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.frames[0].type, VIP_FRM_READ_REQ);
    assert_int_equal(rig->decoded.frames[0].op, 0);
    rig_free(rig);
}

/* The peer first repeats its requests for processed reads, in order; then it requests new reads. */
static void test_reads_of_the_peer(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);
    const struct vip_counts peer = {.reads = 3, .read = {0, 2, 3}};
    struct vip_counts counts;

    rig_recv(rig, 0, 100);
    assert_int_equal(rig_feed(rig, 1, peer_read(0)), ENG_RX_DONE);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 1, 0, 10, 10)), ENG_RX_DONE);
    assert_int_equal(rig_feed(rig, 1, peer_read(2)), ENG_RX_DONE);
    eng_vi_pause(rig->eng, RIG_VI);
    eng_vi_counts(rig->eng, RIG_VI, &counts);
    assert_int_equal(counts.done, 3); /* the request of read 3 has not arrived */
    assert_int_equal(rebind(rig, &peer), 0);
    assert_int_equal(rig_drain(rig), 0);
    assert_int_equal(rig_feed(rig, 1, peer_read(3)), ENG_RX_FULL);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 4, 0, 10, 10)), ENG_RX_FULL);
    assert_int_equal(rig_feed(rig, 1, peer_read(2)), ENG_RX_FULL);
    assert_int_equal(rig_feed(rig, 1, peer_read(0)), ENG_RX_DONE);
    assert_int_equal(rig_feed(rig, 1, peer_read(0)), ENG_RX_DONE); /* a copy gets no new answer */
    assert_int_equal(rig_feed(rig, 1, peer_read(1)), ENG_RX_DONE); /* an old operation; no answer */
    assert_int_equal(rig_feed(rig, 1, peer_read(2)), ENG_RX_DONE);
    assert_int_equal(rig_feed(rig, 1, peer_read(3)), ENG_RX_DONE);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.hdr.frame_count, 3);
    assert_int_equal(rig->decoded.frames[0].op, 0);
    assert_int_equal(rig->decoded.frames[1].op, 2);
    assert_int_equal(rig->decoded.frames[2].op, 3);
    assert_int_equal(rig->decoded.hdr.ops_done, 4);
    rig_free(rig);
}

/* Restore a VI: two sends had completed, four are posted again, one of the four is processed. */
static void test_restore(void **state)
{
    struct rig *rig = rig_new_with(VIP_LVL_RECEPTION, &ENG_CONFIG_DEFAULT);

    rig_recv(rig, 0, 100);
    eng_vi_restore(rig->eng, RIG_VI, &conn, 2, 7, rig->now_ns);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_CONNECTED);
    for (unsigned i = 0; i < 4; i++)
        rig_send(rig, 100 * i, 10);
    assert_int_equal(rig_drain(rig), 0);
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 7}),
                     -EPROTO); /* more operations than were posted */
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 1}),
                     -EPROTO); /* fewer operations than had completed */
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 3}), 0);
    assert_int_equal(rig->dones, 1);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.frames[0].op, 3);
    assert_int_equal(rig->decoded.hdr.frame_count, 3);
    /* The peer goes on with operation 7; its operation 6 is old. */
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 6, 0, 10, 10)), ENG_RX_DONE);
    assert_int_equal(rig->dones, 1);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 7, 0, 10, 10)), ENG_RX_DONE);
    assert_int_equal(rig->dones, 2);
    rig_free(rig);
}

/* A peer sends false counts. The VI stays paused, and a true count still binds it. */
static void test_false_counts(void **state)
{
    struct rig *rig = sent(3);
    struct vip_counts many = {.reads = VIP_COUNTS_READS_MAX + 1};

    rig_feed_ack(rig, 2, 1);
    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 100, 100);
    (void)rig_drain(rig);
    rig_send(rig, 100, 10);
    eng_vi_pause(rig->eng, RIG_VI);
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 0}),
                     -EPROTO); /* fewer operations than were acknowledged */
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 5}),
                     -EPROTO); /* more operations than were sent */
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = UINT32_MAX}), -EPROTO);
    assert_int_equal(rebind(rig, &many), -EPROTO);
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 1, .reads = 2, .read = {5, 5}}),
                     -EPROTO);
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 1, .reads = 2, .read = {5, 4}}),
                     -EPROTO);
    assert_int_equal(rig_drain(rig), 0);
    assert_int_equal(rig->dones, 1);
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 4}), 0);
    assert_int_equal(rig->dones, 3);
    rig_free(rig);
}

/* The peer has answered a read, but later reports it as not processed: eng_vi_rebind fails. */
static void test_read_unprocessed(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);

    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 100, 100);
    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 200, 100);
    (void)rig_drain(rig);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_READ_RESP, 0, 0, 100, 100)), ENG_RX_DONE);
    assert_int_equal(rig->dones, 0); /* no acknowledgement has arrived */
    eng_vi_pause(rig->eng, RIG_VI);
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 0}), -EPROTO);
    assert_int_equal(rebind(rig, &(struct vip_counts){.done = 1}), 0);
    assert_int_equal(rig->dones, 1);
    rig_free(rig);
}

/* The pause drops held packets. After the rebind, packet numbers start again at 1. */
static void test_old_packets(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);
    uint32_t token;
    uint16_t vi;
    bool feed;

    rig_recv(rig, 0, 100);
    assert_int_equal(rig_feed(rig, 9, rig_frame(VIP_FRM_SEND, 1, 0, 10, 10)), ENG_RX_HOLD);
    eng_vi_pause(rig->eng, RIG_VI);
    assert_true(eng_replay(rig->eng, &vi, &token, &feed));
    assert_int_equal(token, 9);
    assert_false(feed);
    assert_int_equal(rebind(rig, &(struct vip_counts){0}), 0);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 10, 10)), ENG_RX_DONE);
    assert_int_equal(rig->dones, 1);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paused),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_half_placed),
        cmocka_unit_test(test_unreliable),
        cmocka_unit_test(test_reads_of_ours),
        cmocka_unit_test(test_request_lost_again),
        cmocka_unit_test(test_reads_of_the_peer),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_false_counts),
        cmocka_unit_test(test_read_unprocessed),
        cmocka_unit_test(test_old_packets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
