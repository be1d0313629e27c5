/*
 * Extensions of VIPL 1.0 in the engine, at both ends: 64-bit immediate data, RDMA Write with
 * message. Also tested: faulty posts and frames, posts on a connection without the extensions.
 */
#include "unit/eng_rig.h"

#define UD VIP_LVL_UNRELIABLE
#define RD VIP_LVL_DELIVERY
#define RR VIP_LVL_RECEPTION

static uint8_t message[VIP_MESSAGE_BYTES_MAX];

static struct rig *rig_with(uint16_t level, uint32_t features)
{
    struct rig *rig = rig_new_with(level, &ENG_CONFIG_DEFAULT);
    struct eng_conn conn = {.local_id = 11,
                            .remote_id = 22,
                            .local_epoch = 33,
                            .remote_epoch = 44,
                            .packet_bytes = 1472,
                            .window_bytes = 1 << 20,
                            .features = features};

    rig->number = 1;
    eng_vi_connect(rig->eng, RIG_VI, &conn, rig->now_ns);
    rig_paint(rig);
    for (unsigned i = 0; i < sizeof(message); i++)
        message[i] = (uint8_t)(i * 3 + 5);
    return rig;
}

/* Post an operation with `bytes` bytes of data and a message of `message_bytes` bytes. */
static void post_message(struct rig *rig, uint16_t control, uint32_t bytes, uint32_t message_bytes)
{
    struct vip_shm_seg segs[2] = {{.addr = 0x5000, .handle = 0x99},
                                  {.addr = 100, .handle = RIG_HANDLE, .len = bytes}};
    bool rdma = (control & VIP_CTL_OP_MASK) != VIP_CTL_OP_SENDRECV;
    struct eng_post post = {.vi = RIG_VI,
                            .queue = VIP_Q_SEND,
                            .control = control,
                            .seg_count = rdma ? 2 : 1,
                            .flags = VIP_SQF_MSG,
                            .length = bytes,
                            .app_segs = rdma ? segs : segs + 1,
                            .message_bytes = message_bytes,
                            .app_message = message};

    eng_post(rig->eng, &post, rig->now_ns);
}

static void post_imm(struct rig *rig, enum vip_queue queue, uint8_t flags, uint64_t imm)
{
    struct eng_post post = {
        .vi = RIG_VI, .queue = queue, .control = VIP_CTL_IMMEDIATE, .flags = flags, .imm = imm};

    eng_post(rig->eng, &post, rig->now_ns);
}

/* Returns fragment [offset, offset + length) of a write of `bulk` bytes and a message. */
static struct vip_frame fragment(uint32_t op, uint32_t offset, uint32_t length, uint32_t bulk,
                                 uint16_t message_bytes)
{
    struct vip_frame frame = rig_frame(VIP_FRM_WRITE_MSG, op, offset, length, bulk + message_bytes);

    frame.message = message_bytes;
    frame.handle = RIG_HANDLE;
    frame.remote_addr = 1000;
    return frame;
}

/* On a connection without the extensions both descriptors fail in their order, like other
 * descriptors of a wrong format. */
static void not_agreed(void **state)
{
    struct rig *rig = rig_with(UD, 0);

    post_message(rig, VIP_CTL_OP_RDMAWRITE, 10, 10);
    post_imm(rig, VIP_Q_SEND, VIP_SQF_IMM64, 1ull << 32);
    rig_drain(rig);
    rig_wait(rig, 1000);
    assert_int_equal(rig->dones, 2);
    assert_int_equal(rig->done[0].status, VIP_ST_DONE | VIP_ST_OP_RDMA_WRITE | VIP_ST_FORMAT_ERROR);
    assert_int_equal(rig->done[1].status, VIP_ST_DONE | VIP_ST_OP_SEND | VIP_ST_FORMAT_ERROR);
    rig_free(rig);
}

/* The connection has the extensions, but the descriptors are faulty. */
static void faulty(void **state)
{
    struct rig *rig = rig_with(UD, VIP_FEATURES);

    post_message(rig, VIP_CTL_OP_SENDRECV, 10, 10);
    post_message(rig, VIP_CTL_OP_RDMAREAD, 10, 10);
    post_message(rig, VIP_CTL_OP_RDMAWRITE, 10, 0);
    post_message(rig, VIP_CTL_OP_RDMAWRITE, 10, VIP_MESSAGE_BYTES_MAX + 1);
    post_imm(rig, VIP_Q_SEND, 0x80, 1);
    rig_drain(rig);
    rig_wait(rig, 1000);
    assert_int_equal(rig->dones, 5);
    for (unsigned i = 0; i < rig->dones; i++)
        assert_int_equal(rig->done[i].status & VIP_ST_ERROR_MASK, VIP_ST_FORMAT_ERROR);
    post_imm(rig, VIP_Q_RECV, VIP_SQF_IMM64, 1);
    rig_feed(rig, 1, rig_frame(VIP_FRM_SEND, 0, 0, 0, 0));
    assert_true(rig_last(rig)->status & VIP_ST_FORMAT_ERROR);
    rig_free(rig);
}

/* A frame has the upper half of immediate data, and a flag for it, only if the half is not zero. */
static void immediate_64(void **state)
{
    struct rig *rig = rig_with(RD, VIP_FEATURES);
    const struct vip_frame *frame = &rig->decoded.frames[0];

    post_imm(rig, VIP_Q_SEND, VIP_SQF_IMM64, 0x1122334455667788ull);
    post_imm(rig, VIP_Q_SEND, VIP_SQF_IMM64, 0x55667788ull);
    post_imm(rig, VIP_Q_SEND, 0, 0x55667788ull);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.hdr.frame_count, 3);
    assert_int_equal(frame[0].imm, 0x1122334455667788ull);
    assert_int_equal(frame[0].flags, VIP_FRMF_LAST | VIP_FRMF_IMMEDIATE | VIP_FRMF_IMM64);
    for (unsigned i = 1; i < 3; i++) {
        assert_int_equal(frame[i].imm, 0x55667788);
        assert_int_equal(frame[i].flags, VIP_FRMF_LAST | VIP_FRMF_IMMEDIATE);
    }
    rig_free(rig);
}

/* Data with lengths around the size of a packet is sent in order. The last fragment has the whole
 * message and, in the room that is left, the end of the data. */
static void cutting(void **state)
{
    static const uint32_t sizes[] = {0, 1, 1100, 1111, 1112, 1113, 1367, 1368, 1369, 2700, 3000};

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct rig *rig = rig_with(RD, VIP_FEATURES);
        uint32_t at = 0, total = sizes[i] + 256;
        const struct vip_frame *frame = NULL;

        post_message(rig, VIP_CTL_OP_RDMAWRITE, sizes[i], 256);
        memset(message, 0, sizeof(message)); /* the engine has copied the message */
        while (rig_pull(rig)) {
            assert_int_equal(rig->decoded.hdr.frame_count, 1);
            frame = &rig->decoded.frames[0];
            assert_int_equal(frame->type, VIP_FRM_WRITE_MSG);
            assert_int_equal(frame->offset, at);
            assert_int_equal(frame->total, total);
            assert_int_equal(frame->message, 256);
            assert_int_equal(frame->handle, 0x99);
            assert_int_equal(frame->remote_addr, 0x5000);
            at += frame->length;
        }
        assert_int_equal(at, total);
        assert_true(frame && frame->flags & VIP_FRMF_LAST);
        for (unsigned b = 0; b < 256; b++)
            assert_int_equal(rig->out.head[VIP_WIRE_HEADER_BYTES + VIP_WIRE_FRAME_BYTES + b],
                             (uint8_t)(b * 3 + 5));
        rig_feed_ack(rig, rig->out.bytes ? 100 : 1, 0);
        rig_free(rig);
    }
}

/* Several operations share a packet while its head has room for their messages. */
static void many(void **state)
{
    struct rig *rig = rig_with(RD, VIP_FEATURES);
    unsigned seen = 0, packets = 0;

    for (unsigned i = 0; i < 40; i++)
        post_message(rig, VIP_CTL_OP_RDMAWRITE, i % 3, 1 + i * 6);
    while (rig_pull(rig)) {
        packets++;
        for (unsigned i = 0; i < rig->decoded.hdr.frame_count; i++) {
            assert_int_equal(rig->decoded.frames[i].op, seen);
            seen += rig->decoded.frames[i].flags & VIP_FRMF_LAST;
        }
    }
    assert_int_equal(seen, 40);
    assert_true(packets < 20);
    rig_feed_ack(rig, packets + 1, 40);
    assert_int_equal(rig->dones, 40);
    rig_free(rig);
}

/* A lost message is sent again as a whole. */
static void lost(void **state)
{
    struct rig *rig = rig_with(RD, VIP_FEATURES);
    bool again = false;

    post_message(rig, VIP_CTL_OP_RDMAWRITE, 1368, 200);
    assert_int_equal(rig_drain(rig), 2);
    rig_feed_ack(rig, 2, 0);
    for (unsigned i = 0; i < 50 && !again; i++) {
        eng_tick(rig->eng, rig->now_ns += 20000000);
        while (rig_pull(rig))
            again = again ||
                    (rig->decoded.hdr.frame_count == 1 && rig->decoded.frames[0].offset == 1368 &&
                     rig->decoded.frames[0].length == 200);
    }
    assert_true(again);
    rig_free(rig);
}

/* When the receive descriptor completes with the message, the data is already in memory. */
static void arrives(void **state)
{
    static const uint16_t levels[] = {UD, RD, RR};

    for (unsigned l = 0; l < 3; l++) {
        struct rig *rig = rig_with(levels[l], VIP_FEATURES);
        struct vip_frame last = fragment(0, 1200, 800 + 50, 2000, 50);

        last.flags |= VIP_FRMF_IMMEDIATE | VIP_FRMF_IMM64;
        last.imm = 1ull << 40;
        rig_recv(rig, 10000, 100);
        assert_int_equal(rig_feed(rig, 1, fragment(0, 0, 1200, 2000, 50)), ENG_RX_DONE);
        assert_int_equal(rig->dones, 0);
        assert_int_equal(rig_feed(rig, 1, last), ENG_RX_DONE);
        assert_int_equal(rig_last(rig)->status, VIP_ST_DONE | VIP_ST_OP_REMOTE_RDMA_WRITE |
                                                    VIP_ST_IMMEDIATE | VIP_ST_MESSAGE);
        assert_int_equal(rig_last(rig)->length, 50);
        assert_int_equal(rig_last(rig)->imm, 1ull << 40);
        assert_memory_equal(rig->mem + 1000, rig->packet, 2000);
        assert_memory_equal(rig->mem + 10000, rig->packet + 2000, 50);
        assert_int_equal(rig->mem[3000], 0);
        assert_int_equal(rig->mem[10050], 0);
        rig_free(rig);
    }
}

/* First a message without data arrives, then a write whose repetition is cut at other places. */
static void alone_and_overlapping(void **state)
{
    struct rig *rig = rig_with(RD, VIP_FEATURES);

    rig_recv(rig, 10000, 256);
    rig_recv(rig, 20000, 50);
    rig_feed(rig, 1, fragment(0, 0, 256, 0, 256));
    assert_int_equal(rig_last(rig)->length, 256);
    assert_memory_equal(rig->mem + 10000, rig->packet, 256);
    rig_feed(rig, 1, fragment(1, 0, 700, 1000, 50));
    rig_feed(rig, 1, fragment(1, 500, 550, 1000, 50));
    assert_int_equal(rig->dones, 2);
    assert_int_equal(rig_last(rig)->length, 50);
    assert_memory_equal(rig->mem + 1000, rig->packet, 1000);
    assert_memory_equal(rig->mem + 20000, rig->packet + 1000, 50);
    rig_free(rig);
}

/* Fragments of one operation must agree about the length of its message. */
static void contradiction(void **state)
{
    struct rig *rig = rig_with(RD, VIP_FEATURES);

    rig_recv(rig, 10000, 256);
    rig_feed(rig, 1, fragment(0, 0, 100, 1000, 50));
    assert_int_equal(rig_feed(rig, 1, fragment(0, 100, 950, 999, 51)), ENG_RX_STALE);
    assert_int_equal(rig_feed(rig, 1, rig_frame(VIP_FRM_WRITE, 0, 100, 950, 1050)), ENG_RX_STALE);
    assert_int_equal(rig->dones, 0);
    rig_free(rig);
}

/* Errors at the target, and what Reliable Reception reports of them to the sender (op_status). */
static void target_faults(void **state)
{
    static const struct {
        uint32_t recv_bytes;  /* UINT32_MAX: no receive descriptor */
        uint64_t remote_addr; /* target address of the write */
        uint64_t recv_addr;
        uint32_t status, op_status;
        enum vip_error_code code; /* of the error event; 0: no error event */
    } cases[] = {
        {49, 1000, 10000, VIP_ST_LENGTH_ERROR, VIP_ST_REMOTE_DESC_ERROR, 0},
        {50, 1000, RIG_MEM - 49, VIP_ST_PROTECTION_ERROR, VIP_ST_REMOTE_DESC_ERROR, 0},
        {50, RIG_MEM - 1999, 10000, VIP_ST_RDMA_PROT_ERROR, VIP_ST_RDMA_PROT_ERROR, 0},
        {UINT32_MAX, 1000, 0, 0, VIP_ST_REMOTE_DESC_ERROR, VIP_EC_RECVQ_EMPTY},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig *rig = rig_with(RR, VIP_FEATURES);
        struct vip_frame frame = fragment(0, 0, 2050, 2000, 50);

        frame.remote_addr = cases[i].remote_addr;
        if (cases[i].recv_bytes != UINT32_MAX)
            rig_recv(rig, cases[i].recv_addr, cases[i].recv_bytes);
        rig_feed(rig, 1, frame);
        if (cases[i].status) {
            assert_int_equal(rig->dones, 1);
            assert_int_equal(rig_last(rig)->status,
                             VIP_ST_DONE | VIP_ST_OP_REMOTE_RDMA_WRITE | cases[i].status);
        }
        if (cases[i].code)
            assert_int_equal(rig_find(rig, ENG_EVENT_ERROR)->code, cases[i].code);
        assert_int_equal(rig_find(rig, ENG_EVENT_BROKEN)->op_status, cases[i].op_status);
        assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_ERROR);
        rig_free(rig);
    }
}

/* A flush frees the copies of messages that were not sent. AddressSanitizer checks this. */
static void flushed(void **state)
{
    struct rig *rig = rig_with(RD, VIP_FEATURES);
    uint32_t done;

    for (unsigned i = 0; i < 5; i++)
        post_message(rig, VIP_CTL_OP_RDMAWRITE, 5000, 77);
    rig_pull(rig);
    eng_vi_disconnect(rig->eng, RIG_VI, &done);
    assert_int_equal(rig->dones, 5);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(not_agreed),    cmocka_unit_test(faulty),
        cmocka_unit_test(immediate_64),  cmocka_unit_test(cutting),
        cmocka_unit_test(many),          cmocka_unit_test(lost),
        cmocka_unit_test(arrives),       cmocka_unit_test(alone_and_overlapping),
        cmocka_unit_test(contradiction), cmocka_unit_test(target_faults),
        cmocka_unit_test(flushed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
