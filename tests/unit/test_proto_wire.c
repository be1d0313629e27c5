/*
 * Wire format against the vectors in tests/vectors/. The vectors follow doc/wire.md, and the code
 * under test did not make them. Vectors must decode to the values in this file, and the values must
 * encode to the vectors.
 */
#include "tests/unit/wire_vectors.h"

#include <sys/uio.h>

#include "proto/status.h"

#define REQUEST_ID 0x5555666677778888ull
#define CLIENT_ID  0xc0c0c0c0c0c0c0c0ull
#define SERVER_ID  0x5050505050505050ull
#define COOKIE     0x99aabbccddeeff01ull
#define EPOCH_A    0x1111111111111111ull
#define EPOCH_B    0x2222222222222222ull

/* CRC32C bit by bit: slow, but simple. */
static uint32_t crc_reference(const uint8_t *bytes, size_t len)
{
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static uint32_t crc_of_packet(const uint8_t *packet, size_t len)
{
    uint8_t copy[VECTOR_BYTES_MAX];

    memcpy(copy, packet, len);
    memset(copy + 4, 0, 4);
    return crc_reference(copy, len);
}

static uint32_t crc_field(const uint8_t *packet)
{
    return packet[4] | (uint32_t)packet[5] << 8 | (uint32_t)packet[6] << 16 |
           (uint32_t)packet[7] << 24;
}

static void test_seal(void **state)
{
    uint64_t random = 1;

    /* The check value that every description of CRC32C gives. */
    assert_int_equal(crc_reference((const uint8_t *)"123456789", 9), 0xE3069283u);
    for (unsigned round = 0; round < 2000; round++) {
        uint8_t packet[VECTOR_BYTES_MAX];
        size_t len = 64 + vector_random(&random) % (sizeof(packet) - 64), at = 64, count = 1;
        struct iovec iov[5] = {{packet, 64}};

        for (size_t i = 0; i < len; i++)
            packet[i] = (uint8_t)vector_random(&random);
        /* Divide the bytes after the header at random places; a piece may be empty. */
        for (; count < 4; count++) {
            size_t piece = vector_random(&random) % (len - at + 1);

            iov[count] = (struct iovec){packet + at, piece};
            at += piece;
        }
        iov[count++] = (struct iovec){packet + at, len - at};
        vip_wire_seal(iov, count);
        assert_int_equal(crc_field(packet), crc_of_packet(packet, len));
        assert_true(vip_wire_check_seal(packet, len));
        assert_false(vip_wire_check_seal(packet, len - 1));
    }
}

/* ---- data packets ---- */

struct data_vector {
    const char *name;
    struct vip_packet packet;
    const char *payload[4];
};

#define HEADER(...)                                                                                \
    {                                                                                              \
        .kind = VIP_PKT_DATA, .conn_id = 0x0123456789abcdefull, .src_epoch = EPOCH_A,              \
        .dst_epoch = EPOCH_B, __VA_ARGS__                                                          \
    }

static const struct data_vector data_vectors[] =
    {
        {
            .name = "data_send",
            .packet =
                {
                    .hdr = HEADER(.flags = VIP_PKTF_ACK | VIP_PKTF_ELICITS, .packet_number = 7,
                                  .ts = 0x01020304, .ts_echo = 0x0a0b0c0d, .ack_delay = 0x55,
                                  .ack_cumulative = 5, .ops_done = 3, .range_count = 1,
                                  .frame_count = 1),
                    .ranges = {{2, 4}},
                    .frames = {{.type = VIP_FRM_SEND,
                                .flags = VIP_FRMF_LAST | VIP_FRMF_IMMEDIATE,
                                .op = 9,
                                .length = 5,
                                .total = 5,
                                .imm = 0xdeadbeef,
                                .payload = 112}},
                },
            .payload = {"hello"},
        },
        {
            .name = "data_ack",
            .packet =
                {
                    .hdr = HEADER(.flags = VIP_PKTF_ACK, .packet_number = 8, .ts = 1, .ts_echo = 2,
                                  .ack_delay = 3, .ack_cumulative = 0xfffffffff0ull,
                                  .ops_done = 0xffffffff, .range_count = 2),
                    .ranges = {{1, 2}, {2, 15}},
                },
        },
        {
            .name = "data_mixed",
            .packet =
                {
                    .hdr = HEADER(.flags = VIP_PKTF_ELICITS | VIP_PKTF_ACK_NOW, .packet_number = 1,
                                  .ts = 77, .frame_count = 4),
                    .frames =
                        {
                            {.type = VIP_FRM_WRITE,
                             .flags = VIP_FRMF_LAST | VIP_FRMF_IMMEDIATE | VIP_FRMF_IMM64,
                             .op = 0xffffffff,
                             .offset = 6,
                             .length = 4,
                             .total = 10,
                             .handle = 0x00010002,
                             .remote_addr = 0x7fff00001000ull,
                             .imm = 0x1122334455667788ull,
                             .payload = 104},
                            {.type = VIP_FRM_READ_REQ,
                             .flags = VIP_FRMF_LAST,
                             .total = VIP_TRANSFER_BYTES_MAX,
                             .handle = 0x00030004,
                             .remote_addr = 0xfffffffffffffff0ull,
                             .payload = 148},
                            {.type = VIP_FRM_READ_RESP,
                             .op = 5,
                             .length = 3,
                             .total = 100,
                             .payload = 188},
                            {.type = VIP_FRM_SEND, .flags = VIP_FRMF_LAST, .op = 1, .payload = 231},
                        },
                },
            .payload = {"wxyz", NULL, "abc"},
        },
        {
            .name = "data_write_msg",
            .packet =
                {
                    .hdr = HEADER(.flags = VIP_PKTF_ELICITS, .packet_number = 9, .ts = 5,
                                  .frame_count = 2),
                    .frames =
                        {
                            {.type = VIP_FRM_WRITE_MSG,
                             .message = 3,
                             .op = 7,
                             .length = 4,
                             .total = 9,
                             .handle = 0x00010002,
                             .remote_addr = 0x7fff00001000ull,
                             .payload = 104},
                            {.type = VIP_FRM_WRITE_MSG,
                             .flags = VIP_FRMF_LAST | VIP_FRMF_IMMEDIATE | VIP_FRMF_IMM64,
                             .message = 3,
                             .op = 7,
                             .offset = 4,
                             .length = 5,
                             .total = 9,
                             .handle = 0x00010002,
                             .remote_addr = 0x7fff00001000ull,
                             .imm = 0x1122334455667788ull,
                             .payload = 148},
                        },
                },
            .payload = {"abcd", "efmsg"},
        },
};

static void test_data_vectors(void **state)
{
    for (unsigned v = 0; v < sizeof(data_vectors) / sizeof(data_vectors[0]); v++) {
        const struct data_vector *want = &data_vectors[v];
        uint8_t bytes[VECTOR_BYTES_MAX], made[VECTOR_BYTES_MAX];
        size_t len = vector_load(want->name, bytes), at = VIP_WIRE_HEADER_BYTES;
        struct iovec iov = {made, len};
        struct vip_packet got;

        memset(&got, 0, sizeof(got));
        assert_true(vip_wire_check_seal(bytes, len));
        assert_int_equal(vip_wire_get_data(bytes, len, &got), VIP_WIRE_OK);
        assert_memory_equal(&got, &want->packet, sizeof(got));

        vip_wire_put_header(made, &want->packet.hdr);
        for (unsigned i = 0; i < want->packet.hdr.range_count; i++)
            at += vip_wire_put_range(made + at, &want->packet.ranges[i]);
        for (unsigned i = 0; i < want->packet.hdr.frame_count; i++) {
            at += vip_wire_put_frame(made + at, &want->packet.frames[i]);
            if (want->payload[i])
                memcpy(made + at, want->payload[i], want->packet.frames[i].length);
            at += want->packet.frames[i].length;
        }
        assert_int_equal(at, len);
        vip_wire_seal(&iov, 1);
        assert_memory_equal(made, bytes, len);
    }
}

/* ---- connection management ---- */

struct cm_vector {
    const char *name;
    uint64_t dst_epoch;
    struct vip_cm cm;
};

static const struct cm_vector cm_vectors[] = {
    {"cm_request",
     0,
     {.type = VIP_CM_REQUEST,
      .request_id = REQUEST_ID,
      .conn_id = CLIENT_ID,
      .packet_bytes = 8192,
      .window_bytes = 65536,
      .attrs = {.level = VIP_LVL_DELIVERY, .rdma_write = 1, .max_transfer_bytes = 65536, .qos = 7},
      .local = {.host_len = 6, .disc_len = 6, .host = {127, 0, 0, 1, 0x12, 0xba}, .disc = "client"},
      .remote =
          {.host_len = 6, .disc_len = 7, .host = {127, 0, 0, 2, 0x12, 0xba}, .disc = "service"}}},
    {"cm_request_features",
     0,
     {.type = VIP_CM_REQUEST,
      .request_id = REQUEST_ID,
      .conn_id = CLIENT_ID,
      .packet_bytes = 8192,
      .window_bytes = 65536,
      .attrs = {.level = VIP_LVL_DELIVERY,
                .rdma_write = 1,
                .features = VIP_FEATURE_IMM64_MSG,
                .max_transfer_bytes = 65536,
                .qos = 7},
      .local = {.host_len = 6, .disc_len = 6, .host = {127, 0, 0, 1, 0x12, 0xba}, .disc = "client"},
      .remote =
          {.host_len = 6, .disc_len = 7, .host = {127, 0, 0, 2, 0x12, 0xba}, .disc = "service"}}},
    {"cm_pending",
     EPOCH_B,
     {.type = VIP_CM_PENDING, .request_id = REQUEST_ID, .peer_conn_id = CLIENT_ID}},
    {"cm_accept",
     EPOCH_B,
     {.type = VIP_CM_ACCEPT,
      .request_id = REQUEST_ID,
      .conn_id = SERVER_ID,
      .peer_conn_id = CLIENT_ID,
      .packet_bytes = 512,
      .window_bytes = 512,
      .attrs = {.level = VIP_LVL_UNRELIABLE, .rdma_read = 1, .max_transfer_bytes = 1}}},
    {"cm_confirm",
     EPOCH_B,
     {.type = VIP_CM_CONFIRM,
      .request_id = REQUEST_ID,
      .conn_id = CLIENT_ID,
      .peer_conn_id = SERVER_ID}},
    {"cm_reject",
     EPOCH_B,
     {.type = VIP_CM_REJECT, .request_id = REQUEST_ID, .code = VIP_RC_REJECT}},
    {"cm_reject_data",
     EPOCH_B,
     {.type = VIP_CM_REJECT,
      .request_id = REQUEST_ID,
      .code = VIP_RC_REJECT,
      .data = {.len = 5, .bytes = "hello"}}},
    {"cm_accept_data",
     EPOCH_B,
     {.type = VIP_CM_ACCEPT,
      .request_id = REQUEST_ID,
      .conn_id = SERVER_ID,
      .peer_conn_id = CLIENT_ID,
      .packet_bytes = 512,
      .window_bytes = 512,
      .attrs = {.level = VIP_LVL_UNRELIABLE, .rdma_read = 1, .max_transfer_bytes = 1},
      .data = {.len = 5, .bytes = "hello"}}},
    {"cm_no_match", EPOCH_B, {.type = VIP_CM_NO_MATCH, .request_id = REQUEST_ID}},
    {"cm_cancel", 0, {.type = VIP_CM_CANCEL, .request_id = REQUEST_ID}},
    {"cm_close",
     EPOCH_B,
     {.type = VIP_CM_CLOSE,
      .reason = VIP_CLOSE_ERROR,
      .conn_id = CLIENT_ID,
      .peer_conn_id = SERVER_ID,
      .op_status = VIP_ST_REMOTE_DESC_ERROR,
      .failed_op = 12,
      .ops_done = 11,
      .ops_valid = 1}},
    {"cm_close_ack",
     EPOCH_B,
     {.type = VIP_CM_CLOSE_ACK, .conn_id = SERVER_ID, .peer_conn_id = CLIENT_ID}},
    {"cm_ping", EPOCH_B, {.type = VIP_CM_PING, .request_id = 1}},
    {"cm_pong", EPOCH_B, {.type = VIP_CM_PONG, .request_id = 1}},
    {"cm_reset", EPOCH_B, {.type = VIP_CM_RESET, .conn_id = SERVER_ID}},
    {"cm_cookie", EPOCH_B, {.type = VIP_CM_COOKIE, .request_id = REQUEST_ID, .cookie = COOKIE}},
    {"cm_setup",
     EPOCH_B,
     {.type = VIP_CM_SETUP,
      .request_id = REQUEST_ID,
      .conn_id = CLIENT_ID,
      .peer_conn_id = SERVER_ID,
      .features = VIP_FEATURES}},
    {"cm_setup_items",
     EPOCH_B,
     {.type = VIP_CM_SETUP,
      .request_id = REQUEST_ID,
      .conn_id = CLIENT_ID,
      .peer_conn_id = SERVER_ID,
      .features = 0x8000000000000183,
      .items = {.bytes = (const uint8_t *)"\x07\0\x03\0abc\xff\xff\0", .len = 11}}},
    {"cm_rebind",
     0,
     {.type = VIP_CM_REBIND, .request_id = REQUEST_ID, .conn_id = CLIENT_ID, .tag = COOKIE}},
    {"cm_challenge",
     EPOCH_B,
     {.type = VIP_CM_CHALLENGE,
      .request_id = REQUEST_ID,
      .conn_id = CLIENT_ID,
      .peer_conn_id = SERVER_ID,
      .nonce = COOKIE}},
    {"cm_proof",
     EPOCH_B,
     {.type = VIP_CM_PROOF,
      .request_id = REQUEST_ID,
      .conn_id = CLIENT_ID,
      .peer_conn_id = SERVER_ID,
      .nonce = COOKIE,
      .packet_bytes = 8192,
      .window_bytes = 65536,
      .items = {.bytes = (const uint8_t *)"\2\0\x8\0\5\0\0\0\7\0\0\0\3\0\x8\0\1\2\3\4\5\6\7\x8",
                .len = 24}}},
    {"cm_away",
     EPOCH_B,
     {.type = VIP_CM_AWAY, .conn_id = CLIENT_ID, .peer_conn_id = SERVER_ID, .back_ms = 10000}},
    {"cm_loan_offer",
     EPOCH_B,
     {.type = VIP_CM_LOAN_OFFER,
      .number = 3,
      .conn_id = CLIENT_ID,
      .peer_conn_id = SERVER_ID,
      .data_id = COOKIE,
      .packet_bytes = 8192,
      .window_bytes = 65536,
      .items = {.bytes = (const uint8_t *)"\2\0\x8\0\5\0\0\0\7\0\0\0\4\0\6\0\x7f\0\0\1\xc3\x50",
                .len = 22}}},
    {"cm_loan_agree",
     EPOCH_B,
     {.type = VIP_CM_LOAN_AGREE,
      .number = 9,
      .offered = 3,
      .conn_id = SERVER_ID,
      .peer_conn_id = CLIENT_ID,
      .data_id = COOKIE,
      .packet_bytes = 8192,
      .window_bytes = 65536,
      .items = {.bytes = (const uint8_t *)"\2\0\4\0\5\0\0\0", .len = 8}}},
    {"cm_loan_probe",
     EPOCH_B,
     {.type = VIP_CM_LOAN_PROBE,
      .request_id = REQUEST_ID,
      .conn_id = CLIENT_ID,
      .peer_conn_id = SERVER_ID}},
    {"cm_loan_probed",
     EPOCH_B,
     {.type = VIP_CM_LOAN_PROBED,
      .request_id = REQUEST_ID,
      .conn_id = SERVER_ID,
      .peer_conn_id = CLIENT_ID}},
    {"cm_request_cookie",
     EPOCH_B,
     {.type = VIP_CM_REQUEST,
      .request_id = REQUEST_ID,
      .conn_id = CLIENT_ID,
      .packet_bytes = 8192,
      .window_bytes = 65536,
      .cookie = COOKIE,
      .attrs = {.level = VIP_LVL_DELIVERY, .rdma_write = 1, .max_transfer_bytes = 65536, .qos = 7},
      .local = {.host_len = 6, .disc_len = 6, .host = {127, 0, 0, 1, 0x12, 0xba}, .disc = "client"},
      .remote =
          {.host_len = 6, .disc_len = 7, .host = {127, 0, 0, 2, 0x12, 0xba}, .disc = "service"}}},
};

static void check_cm_vector(const struct cm_vector *want)
{
    uint8_t bytes[VECTOR_BYTES_MAX], made[VIP_WIRE_CM_BYTES_MAX];
    size_t len = vector_load(want->name, bytes);
    struct vip_header hdr;
    struct vip_cm got;

    assert_true(vip_wire_check_seal(bytes, len));
    assert_int_equal(vip_wire_get_header(bytes, len, &hdr), VIP_WIRE_OK);
    assert_int_equal(hdr.kind, VIP_PKT_CM);
    assert_true(hdr.src_epoch == EPOCH_A && hdr.dst_epoch == want->dst_epoch);
    memset(&got, 0xff, sizeof(got));
    assert_int_equal(vip_wire_get_cm(bytes, len, &got), VIP_WIRE_OK);
    if (want->cm.items.len) { /* the decoded items are a pointer into the packet */
        assert_memory_equal(got.items.bytes, want->cm.items.bytes, want->cm.items.len);
        assert_ptr_equal(got.items.bytes, bytes + 144);
    }
    got.items.bytes = want->cm.items.bytes;
    assert_memory_equal(&got, &want->cm, sizeof(got));
    assert_int_equal(vip_wire_put_cm(made, EPOCH_A, want->dst_epoch, &want->cm), len);
    assert_memory_equal(made, bytes, len);
}

static void test_cm_vectors(void **state)
{
    static struct cm_vector longest = {"cm_request_longest",
                                       EPOCH_B,
                                       {.type = VIP_CM_REQUEST,
                                        .peer_to_peer = 1,
                                        .request_id = REQUEST_ID,
                                        .conn_id = CLIENT_ID,
                                        .packet_bytes = VIP_PACKET_BYTES_MAX,
                                        .window_bytes = UINT32_MAX,
                                        .attrs = {.level = VIP_LVL_RECEPTION,
                                                  .rdma_write = 1,
                                                  .rdma_read = 1,
                                                  .max_transfer_bytes = VIP_TRANSFER_BYTES_MAX,
                                                  .qos = UINT64_MAX}}};
    struct vip_addr *local = &longest.cm.local, *remote = &longest.cm.remote;

    for (unsigned v = 0; v < sizeof(cm_vectors) / sizeof(cm_vectors[0]); v++)
        check_cm_vector(&cm_vectors[v]);
    local->host_len = remote->host_len = VIP_HOST_ADDR_BYTES_MAX;
    local->disc_len = remote->disc_len = VIP_DISCRIMINATOR_BYTES_MAX;
    for (unsigned i = 0; i < VIP_HOST_ADDR_BYTES_MAX; i++) {
        local->host[i] = (uint8_t)i;
        remote->host[i] = (uint8_t)(100 + i);
    }
    for (unsigned i = 0; i < VIP_DISCRIMINATOR_BYTES_MAX; i++) {
        local->disc[i] = (uint8_t)i;
        remote->disc[i] = (uint8_t)(128 + i);
    }
    longest.cm.data.len = VIP_PRIVATE_BYTES_MAX;
    for (unsigned i = 0; i < VIP_PRIVATE_BYTES_MAX; i++)
        longest.cm.data.bytes[i] = (uint8_t)(0xc0 + i);
    check_cm_vector(&longest);
}

/* Fields that a message does not use are sent as zeros, whatever their values. */
static void test_unused_fields_are_not_sent(void **state)
{
    struct vip_cm full;
    struct vip_header hdr = {.kind = VIP_PKT_DATA,
                             .conn_id = 1,
                             .src_epoch = 2,
                             .dst_epoch = 3,
                             .packet_number = 4,
                             .ts_echo = 5,
                             .ack_delay = 6,
                             .ack_cumulative = 7,
                             .ops_done = 8,
                             .frame_count = 2};
    struct vip_frame frame = {
        .type = VIP_FRM_SEND, .flags = VIP_FRMF_LAST, .handle = 1, .remote_addr = 2, .imm = 3};
    static struct vip_packet got;
    uint8_t out[VIP_WIRE_CM_BYTES_MAX];

    memset(&full, 0xff, sizeof(full));
    full.ops_valid = 0;
    full.reason = VIP_CLOSE_DEATH;
    full.code = VIP_RC_REJECT;
    for (unsigned type = VIP_CM_PENDING; type < VIP_CM_TYPES; type++) {
        struct vip_cm cm;
        size_t len;

        if (type == VIP_CM_ACCEPT || type == VIP_CM_REJECT || type == VIP_CM_SETUP ||
            type == VIP_CM_PROOF || type == VIP_CM_LOAN_OFFER || type == VIP_CM_LOAN_AGREE)
            continue;
        full.type = (uint8_t)type;
        len = vip_wire_put_cm(out, 1, 2, &full);
        assert_int_equal(len, 144);
        assert_int_equal(vip_wire_get_cm(out, len, &cm), VIP_WIRE_OK);
        assert_int_equal(cm.ops_done | cm.op_status | cm.failed_op, 0);
        assert_int_equal(cm.local.host_len, 0);
    }

    vip_wire_put_header(out, &hdr);
    vip_wire_put_frame(out + 64, &frame);
    frame.flags |= VIP_FRMF_IMMEDIATE;
    frame.imm = UINT64_MAX;
    vip_wire_put_frame(out + 104, &frame);
    assert_int_equal(vip_wire_get_data(out, 144, &got), VIP_WIRE_OK);
    assert_true(!got.hdr.ack_cumulative && !got.hdr.ts_echo && !got.hdr.ops_done);
    assert_true(!got.frames[0].handle && !got.frames[0].remote_addr && !got.frames[0].imm);
    assert_true(got.frames[1].imm == UINT32_MAX);
}

static void test_verdict_names(void **state)
{
    for (unsigned i = 0; i < VIP_WIRE_VERDICTS; i++)
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(vip_wire_verdict_name((enum vip_wire_verdict)i),
                                    vip_wire_verdict_name((enum vip_wire_verdict)j));
    assert_string_equal(vip_wire_verdict_name(VIP_WIRE_CRC_BAD), "drop_crc");
    assert_string_equal(vip_wire_verdict_name((enum vip_wire_verdict)99), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seal),          cmocka_unit_test(test_data_vectors),
        cmocka_unit_test(test_cm_vectors),    cmocka_unit_test(test_unused_fields_are_not_sent),
        cmocka_unit_test(test_verdict_names),
    };

    return cmocka_run_group_tests_name("proto_wire", tests, NULL, NULL);
}
