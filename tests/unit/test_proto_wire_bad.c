/*
 * Bad packets for the decoders: a case of each verdict, each bit flipped, each length, random
 * bytes. A decoder may get any bytes, and never reads beyond their length. (The test allocates
 * exactly the size of each input, so the address sanitizer detects a read beyond it.)
 */
#include "tests/unit/wire_vectors.h"

#include <sys/uio.h>

#include "proto/status.h"

/* Decode a private copy of exactly len bytes, as a data packet and as a CM packet. */
static enum vip_wire_verdict judge(const uint8_t *bytes, size_t len)
{
    static struct vip_packet packet;
    uint8_t *exact = malloc(len ? len : 1);
    enum vip_wire_verdict verdict;
    struct vip_header hdr;
    struct vip_cm cm;

    memcpy(exact, bytes, len);
    (void)vip_wire_get_header(exact, len, &hdr);
    (void)vip_wire_get_data(exact, len, &packet);
    (void)vip_wire_get_cm(exact, len, &cm);
    (void)vip_wire_check_seal(exact, len);
    verdict = vector_check_canonical(exact, len);
    free(exact);
    return verdict;
}

struct bad_case {
    const char *vector;
    size_t offset;  /* place of the change in the packet */
    unsigned bytes; /* length of the change */
    uint64_t value;
    enum vip_wire_verdict verdict;
};

static const struct bad_case bad_cases[] = {
    {"data_send", 0, 1, 0x01, VIP_WIRE_VERSION_BAD},
    {"data_send", 0, 1, 0x21, VIP_WIRE_VERSION_BAD},
    {"data_send", 0, 1, 0x10, VIP_WIRE_KIND_BAD},
    {"data_send", 0, 1, 0x13, VIP_WIRE_KIND_BAD},
    {"data_send", 0, 1, 0x12, VIP_WIRE_RESERVED}, /* a CM packet cannot have flags */
    {"data_send", 1, 1, 0x0b, VIP_WIRE_RESERVED},
    {"data_send", 1, 1, 0x02, VIP_WIRE_RESERVED}, /* ack fields without VIP_PKTF_ACK */
    {"data_send", 2, 1, 33, VIP_WIRE_COUNT_BAD},
    {"data_send", 3, 1, 33, VIP_WIRE_COUNT_BAD},
    {"data_mixed", 2, 1, 1, VIP_WIRE_COUNT_BAD}, /* ranges without VIP_PKTF_ACK */
    {"data_send", 2, 1, 32, VIP_WIRE_SHORT},
    {"data_send", 3, 1, 2, VIP_WIRE_SHORT},
    {"data_send", 3, 1, 0, VIP_WIRE_TRAILING},
    {"data_send", 8, 8, 0, VIP_WIRE_RESERVED},                /* a `conn_id` of 0 */
    {"data_send", 16, 8, 0, VIP_WIRE_RESERVED},               /* a `src_epoch` of 0 */
    {"data_send", 24, 8, 0, VIP_WIRE_RESERVED},               /* a `dst_epoch` of 0 */
    {"data_send", 32, 8, 0, VIP_WIRE_RESERVED},               /* a `packet_number` of 0 */
    {"data_send", 40, 8, UINT64_MAX - 3, VIP_WIRE_RANGE_BAD}, /* a range beyond UINT64_MAX */
    {"data_send", 40, 8, UINT64_MAX - 4, VIP_WIRE_OK},
    {"data_send", 64, 4, 0, VIP_WIRE_RANGE_BAD},
    {"data_send", 64, 4, 4, VIP_WIRE_RANGE_BAD}, /* an empty range */
    {"data_send", 68, 4, 1, VIP_WIRE_RANGE_BAD}, /* a range that runs backwards */
    {"data_ack", 68, 4, 3, VIP_WIRE_RANGE_BAD},  /* ranges that overlap */
    {"data_send", 72, 1, 0, VIP_WIRE_FRAME_BAD},
    {"data_send", 72, 1, 5, VIP_WIRE_FRAME_BAD},
    {"data_send", 72, 1, VIP_FRM_READ_RESP, VIP_WIRE_FRAME_BAD}, /* immediate data in a response */
    {"data_send", 73, 1, 0x0b, VIP_WIRE_RESERVED},
    {"data_send", 73, 1, 0x02, VIP_WIRE_FRAME_BAD}, /* LAST missing */
    {"data_send", 73, 1, 0x05, VIP_WIRE_FRAME_BAD}, /* IMM64 alone */
    {"data_send", 73, 1, 0x01, VIP_WIRE_RESERVED},  /* immediate data without VIP_FRMF_IMMEDIATE */
    {"data_send", 74, 2, 1, VIP_WIRE_RESERVED},
    {"data_send", 80, 4, 1, VIP_WIRE_FRAME_BAD},          /* offset + length > total */
    {"data_send", 80, 4, 0xfffffffb, VIP_WIRE_FRAME_BAD}, /* offset + length wraps around */
    {"data_send", 84, 4, 4, VIP_WIRE_FRAME_BAD},          /* LAST, but offset + length < total */
    {"data_send", 84, 4, 0xffffffff, VIP_WIRE_FRAME_BAD},
    {"data_send", 88, 4, VIP_TRANSFER_BYTES_MAX + 1, VIP_WIRE_FRAME_BAD},
    {"data_send", 92, 4, 1, VIP_WIRE_RESERVED},    /* a memory handle in a send */
    {"data_send", 96, 8, 1, VIP_WIRE_RESERVED},    /* a remote address in a send */
    {"data_send", 108, 4, 1, VIP_WIRE_RESERVED},   /* 64-bit immediate data without IMM64 */
    {"data_mixed", 109, 1, 0, VIP_WIRE_FRAME_BAD}, /* a read request without LAST */
    {"data_mixed", 116, 4, 1, VIP_WIRE_FRAME_BAD}, /* a read request with an offset */
    {"data_mixed", 120, 4, 1, VIP_WIRE_FRAME_BAD}, /* a read request with a length */
    {"data_mixed", 160, 4, 0, VIP_WIRE_FRAME_BAD}, /* a fragment of no bytes */
    {"data_write_msg", 64, 1, 6, VIP_WIRE_RESERVED},
    {"data_send", 72, 1, 6, VIP_WIRE_FRAME_BAD},
    {"data_write_msg", 64, 1, VIP_FRM_WRITE, VIP_WIRE_RESERVED}, /* a message in a plain WRITE */
    {"data_write_msg", 66, 2, 0, VIP_WIRE_FRAME_BAD},            /* WRITE_MSG without a message */
    {"data_write_msg", 66, 2, 5, VIP_WIRE_OK},                   /* no check compares the frames */
    {"data_write_msg", 66, 2, 6, VIP_WIRE_FRAME_BAD},            /* the frame ends in the message */
    {"data_write_msg", 66, 2, 10, VIP_WIRE_FRAME_BAD},           /* message longer than the total */
    {"data_write_msg", 66, 2, 257, VIP_WIRE_FRAME_BAD},          /* a message that is too long */
    {"data_write_msg", 110, 2, 6, VIP_WIRE_FRAME_BAD},           /* the message begins earlier */
    {"data_write_msg", 80, 4, VIP_TRANSFER_BYTES_MAX + 3, VIP_WIRE_OK},
    {"data_write_msg", 80, 4, VIP_TRANSFER_BYTES_MAX + 4, VIP_WIRE_FRAME_BAD},
    {"data_mixed", 132, 8, UINT64_MAX, VIP_WIRE_OK}, /* only the receiver can judge addresses */

    {"cm_request", 1, 1, 1, VIP_WIRE_RESERVED},
    {"cm_request", 3, 1, 1, VIP_WIRE_RESERVED},
    {"cm_request", 8, 8, 1, VIP_WIRE_RESERVED},
    {"cm_request", 16, 8, 0, VIP_WIRE_RESERVED},
    {"cm_request", 32, 8, 1, VIP_WIRE_RESERVED},
    {"cm_request", 40, 8, 1, VIP_WIRE_RESERVED},
    {"cm_request", 48, 4, 1, VIP_WIRE_RESERVED},
    {"cm_request", 64, 1, 0, VIP_WIRE_CM_BAD},
    {"cm_request", 64, 1, VIP_CM_TYPES, VIP_WIRE_CM_BAD},
    {"cm_request", 65, 1, 1, VIP_WIRE_CM_BAD},   /* a reason in a REQUEST */
    {"cm_request", 66, 1, 2, VIP_WIRE_CM_BAD},   /* a wrong `peer_to_peer` */
    {"cm_request", 68, 4, 5, VIP_WIRE_CM_BAD},   /* a code in a REQUEST */
    {"cm_request", 72, 8, 0, VIP_WIRE_CM_BAD},   /* a `request_id` of 0 */
    {"cm_request", 80, 8, 0, VIP_WIRE_CM_BAD},   /* a `conn_id` of 0 */
    {"cm_request", 88, 8, 1, VIP_WIRE_CM_BAD},   /* a wrong `peer_conn_id` */
    {"cm_request", 96, 4, 511, VIP_WIRE_CM_BAD}, /* a wrong `packet_bytes` */
    {"cm_request", 96, 4, 65508, VIP_WIRE_CM_BAD},
    {"cm_request", 100, 4, 511, VIP_WIRE_CM_BAD}, /* a wrong `window_bytes` */
    {"cm_request", 116, 2, 0, VIP_WIRE_CM_BAD},   /* a `level` of 0 */
    {"cm_request", 116, 2, 3, VIP_WIRE_CM_BAD},
    {"cm_request", 118, 1, 4, VIP_WIRE_RESERVED},
    {"cm_request", 119, 1, 0xfe, VIP_WIRE_OK}, /* unknown features of a later version */
    {"cm_close", 119, 1, 1, VIP_WIRE_CM_BAD},
    {"cm_request", 141, 1, 1, VIP_WIRE_RESERVED},
    {"cm_request", 142, 2, 1, VIP_WIRE_CM_BAD}, /* items, which a REQUEST cannot have */
    {"cm_request", 140, 1, 1, VIP_WIRE_SHORT},  /* private data beyond the packet's end */
    {"cm_request_longest", 140, 1, 65, VIP_WIRE_CM_BAD},
    {"cm_request_longest", 140, 1, 63, VIP_WIRE_TRAILING},
    {"cm_accept_data", 140, 1, 4, VIP_WIRE_TRAILING},
    {"cm_accept_data", 140, 1, 6, VIP_WIRE_SHORT},
    {"cm_reject_data", 140, 1, 65, VIP_WIRE_CM_BAD},
    {"cm_pending", 140, 1, 1, VIP_WIRE_CM_BAD}, /* private data, which PENDING cannot have */
    {"cm_request", 136, 1, 25, VIP_WIRE_CM_BAD},
    {"cm_request", 137, 1, 129, VIP_WIRE_CM_BAD},
    {"cm_request", 138, 1, 25, VIP_WIRE_CM_BAD},
    {"cm_request", 139, 1, 129, VIP_WIRE_CM_BAD},
    {"cm_request", 139, 1, 8, VIP_WIRE_SHORT},
    {"cm_request", 139, 1, 6, VIP_WIRE_TRAILING},
    {"cm_ping", 96, 4, 512, VIP_WIRE_CM_BAD}, /* sizes, which a PING cannot have */
    {"cm_ping", 120, 8, 1, VIP_WIRE_CM_BAD},  /* attributes, which a PING cannot have */
    {"cm_ping", 136, 1, 1, VIP_WIRE_CM_BAD},  /* addresses, which a PING cannot have */
    {"cm_ping", 80, 8, 1, VIP_WIRE_CM_BAD},   /* a wrong `conn_id` */
    {"cm_reset", 72, 8, 1, VIP_WIRE_CM_BAD},  /* a wrong `request_id` */
    {"cm_reject", 68, 4, 0, VIP_WIRE_CM_BAD}, /* a REJECT with the code SUCCESS */
    {"cm_reject", 68, 4, 17, VIP_WIRE_CM_BAD},
    {"cm_close", 65, 1, 5, VIP_WIRE_CM_BAD},  /* a wrong `reason` */
    {"cm_close", 67, 1, 2, VIP_WIRE_CM_BAD},  /* a wrong `ops_valid` */
    {"cm_close", 67, 1, 0, VIP_WIRE_CM_BAD},  /* operation numbers, but `ops_valid` is 0 */
    {"cm_close", 104, 4, 1, VIP_WIRE_CM_BAD}, /* `op_status` is DONE, which is no error */
    {"cm_close", 104, 4, 0, VIP_WIRE_CM_BAD}, /* `failed_op` without `op_status` */
    {"cm_close", 88, 8, 0, VIP_WIRE_CM_BAD},

    {"cm_setup", 72, 8, 0, VIP_WIRE_CM_BAD},       /* a `request_id` of 0 */
    {"cm_setup", 80, 8, 0, VIP_WIRE_CM_BAD},       /* a `conn_id` of 0 */
    {"cm_setup", 88, 8, 0, VIP_WIRE_CM_BAD},       /* a `peer_conn_id` of 0 */
    {"cm_setup", 104, 8, UINT64_MAX, VIP_WIRE_OK}, /* unknown features of a later version */
    {"cm_setup", 112, 4, 1, VIP_WIRE_CM_BAD},      /* a wrong `ops_done` */
    {"cm_setup", 119, 1, 1, VIP_WIRE_CM_BAD},      /* features of another message, REQUEST */
    {"cm_setup", 142, 2, 1, VIP_WIRE_SHORT},
    {"cm_setup", 142, 2, 257, VIP_WIRE_CM_BAD},      /* more bytes than VIP_ITEMS_BYTES_MAX */
    {"cm_setup_items", 142, 2, 10, VIP_WIRE_CM_BAD}, /* the items end inside an item */
    {"cm_setup_items", 142, 2, 7, VIP_WIRE_TRAILING},
    {"cm_setup_items", 146, 2, 4,
     VIP_WIRE_CM_BAD}, /* a longer first item leaves 3 bytes for the next item's head of 4 bytes */
    {"cm_setup_items", 146, 2, 7, VIP_WIRE_OK},          /* one item instead of two */
    {"cm_setup_items", 146, 2, 8, VIP_WIRE_CM_BAD},      /* an item longer than all items */
    {"cm_setup_items", 144, 2, 0xffff, VIP_WIRE_CM_BAD}, /* the next item has the same type */
    {"cm_rebind", 80, 8, 0, VIP_WIRE_CM_BAD},            /* a `conn_id` of 0 */
    {"cm_rebind", 88, 8, 1, VIP_WIRE_CM_BAD},            /* a wrong `peer_conn_id` */
    {"cm_rebind", 104, 8, 0, VIP_WIRE_CM_BAD},           /* a `tag` of 0 */
    {"cm_rebind", 96, 4, 512, VIP_WIRE_CM_BAD},          /* sizes, which a REBIND cannot have */
    {"cm_challenge", 104, 8, 0, VIP_WIRE_CM_BAD},        /* a `nonce` of 0 */
    {"cm_challenge", 142, 2, 1, VIP_WIRE_CM_BAD},        /* items, which CHALLENGE cannot have */
    {"cm_proof", 104, 8, 0, VIP_WIRE_CM_BAD},            /* a `nonce` of 0 */
    {"cm_proof", 96, 4, 511, VIP_WIRE_CM_BAD},           /* a wrong `packet_bytes` */
    {"cm_proof", 142, 2, 12, VIP_WIRE_TRAILING},         /* the items end before the second one */
    {"cm_setup_items", 151, 2, 6, VIP_WIRE_CM_BAD},      /* item types that descend */
    {"cm_loan_offer", 72, 4, 0, VIP_WIRE_CM_BAD},        /* a `number` of 0 */
    {"cm_loan_offer", 76, 4, 1, VIP_WIRE_CM_BAD},        /* `offered`, which an offer cannot have */
    {"cm_loan_offer", 80, 8, 0, VIP_WIRE_CM_BAD},        /* a `conn_id` of 0 */
    {"cm_loan_offer", 88, 8, 0, VIP_WIRE_CM_BAD},        /* a `peer_conn_id` of 0 */
    {"cm_loan_offer", 96, 4, 511, VIP_WIRE_CM_BAD},      /* a wrong `packet_bytes` */
    {"cm_loan_offer", 96, 4, 65508, VIP_WIRE_CM_BAD},
    {"cm_loan_offer", 100, 4, 511, VIP_WIRE_CM_BAD}, /* a wrong `window_bytes` */
    {"cm_loan_offer", 104, 8, 0, VIP_WIRE_CM_BAD},   /* a `data_id` of 0 */
    {"cm_loan_offer", 142, 2, 12, VIP_WIRE_TRAILING},
    {"cm_loan_offer", 158, 2, 7, VIP_WIRE_CM_BAD},   /* the last item is longer than all items */
    {"cm_loan_agree", 72, 4, 0, VIP_WIRE_CM_BAD},    /* a `number` of 0 */
    {"cm_loan_agree", 76, 4, 0, VIP_WIRE_CM_BAD},    /* an `offered` of 0 */
    {"cm_loan_agree", 104, 8, 0, VIP_WIRE_CM_BAD},   /* a `data_id` of 0 */
    {"cm_loan_probe", 72, 8, 0, VIP_WIRE_CM_BAD},    /* a nonce of 0 */
    {"cm_loan_probe", 88, 8, 0, VIP_WIRE_CM_BAD},    /* a `peer_conn_id` of 0 */
    {"cm_loan_probe", 104, 8, 1, VIP_WIRE_CM_BAD},   /* a `data_id`, which a probe cannot have */
    {"cm_loan_probed", 96, 4, 512, VIP_WIRE_CM_BAD}, /* sizes, which LOAN_PROBED cannot have */
};

static void test_every_verdict(void **state)
{
    bool seen[VIP_WIRE_VERDICTS] = {false};

    for (unsigned i = 0; i < sizeof(bad_cases) / sizeof(bad_cases[0]); i++) {
        const struct bad_case *bad = &bad_cases[i];
        uint8_t bytes[VECTOR_BYTES_MAX];
        size_t len = vector_load(bad->vector, bytes);
        enum vip_wire_verdict got;

        for (unsigned b = 0; b < bad->bytes; b++)
            bytes[bad->offset + b] = (uint8_t)(bad->value >> 8 * b);
        got = judge(bytes, len);
        if (got != bad->verdict)
            fail_msg("case %u (%s, offset %zu): %s instead of %s", i, bad->vector, bad->offset,
                     vip_wire_verdict_name(got), vip_wire_verdict_name(bad->verdict));
        seen[got] = true;
        /* The separate check of the checksum detects each change, too. */
        assert_false(vip_wire_check_seal(bytes, len));
        seen[VIP_WIRE_CRC_BAD] = true;
    }
    for (unsigned i = 0; i < VIP_WIRE_VERDICTS; i++)
        if (!seen[i])
            fail_msg("no case for %s", vip_wire_verdict_name((enum vip_wire_verdict)i));
}

/* A decoder that gets the wrong kind of packet returns an error. */
static void test_kinds(void **state)
{
    uint8_t bytes[VECTOR_BYTES_MAX];
    static struct vip_packet packet;
    struct vip_cm cm;
    size_t len = vector_load("data_send", bytes);

    assert_int_equal(vip_wire_get_cm(bytes, len, &cm), VIP_WIRE_KIND_BAD);
    len = vector_load("cm_ping", bytes);
    assert_int_equal(vip_wire_get_data(bytes, len, &packet), VIP_WIRE_KIND_BAD);
}

static void test_every_bit(void **state)
{
    for (unsigned v = 0; v < VECTOR_COUNT; v++) {
        uint8_t bytes[VECTOR_BYTES_MAX];
        size_t len = vector_load(vector_names[v], bytes);

        for (size_t bit = 0; bit < 8 * len; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_false(vip_wire_check_seal(bytes, len));
            (void)judge(bytes, len);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_int_equal(judge(bytes, len), VIP_WIRE_OK);
    }
}

static bool padded(const char *vector)
{
    uint8_t bytes[VECTOR_BYTES_MAX];
    size_t len = vector_load(vector, bytes);
    struct vip_header hdr;

    return vip_wire_get_header(bytes, len, &hdr) == VIP_WIRE_OK && hdr.kind == VIP_PKT_DATA &&
           hdr.frame_count > 0;
}

static void test_every_length(void **state)
{
    for (unsigned v = 0; v < VECTOR_COUNT; v++) {
        uint8_t bytes[VECTOR_BYTES_MAX];
        size_t len = vector_load(vector_names[v], bytes);

        for (size_t cut = 0; cut < len; cut++) {
            assert_int_equal(judge(bytes, cut), VIP_WIRE_SHORT);
            assert_false(vip_wire_check_seal(bytes, cut));
        }
        /* A packet with frames may be padded. */
        bytes[len] = 0;
        assert_int_equal(judge(bytes, len + 1),
                         padded(vector_names[v]) ? VIP_WIRE_OK : VIP_WIRE_TRAILING);
        bytes[len] = 1;
        assert_int_equal(judge(bytes, len + 1), VIP_WIRE_TRAILING);
    }
}

/* Padding is zeros after the last frame, at most VIP_WIRE_PAD_MAX bytes. */
static void test_padding(void **state)
{
    uint8_t bytes[VECTOR_BYTES_MAX + VIP_WIRE_PAD_MAX + 1] = {0};
    size_t len = vector_load("data_send", bytes);

    memset(bytes + len, 0, VIP_WIRE_PAD_MAX + 1);
    for (size_t pad = 0; pad <= VIP_WIRE_PAD_MAX; pad++)
        assert_int_equal(judge(bytes, len + pad), VIP_WIRE_OK);
    assert_int_equal(judge(bytes, len + VIP_WIRE_PAD_MAX + 1), VIP_WIRE_TRAILING);
    for (size_t at = 0; at < VIP_WIRE_PAD_MAX; at++) {
        bytes[len + at] = 0x80;
        assert_int_equal(judge(bytes, len + VIP_WIRE_PAD_MAX), VIP_WIRE_TRAILING);
        bytes[len + at] = 0;
    }
}

/* The packet has more bytes than any packet may have. */
static void test_longer_than_a_packet(void **state)
{
    size_t len = VIP_PACKET_BYTES_MAX + 1;
    uint8_t *bytes = calloc(1, len);
    struct vip_header hdr = {
        .kind = VIP_PKT_DATA, .conn_id = 1, .src_epoch = 2, .dst_epoch = 3, .packet_number = 4};
    static struct vip_packet packet;

    vip_wire_put_header(bytes, &hdr);
    assert_int_equal(vip_wire_get_data(bytes, len, &packet), VIP_WIRE_TRAILING);
    assert_false(vip_wire_check_seal(bytes, len));
    free(bytes);
}

/* ---- random packets ---- */

static uint32_t pick(uint64_t *random, uint32_t below)
{
    return (uint32_t)(vector_random(random) % below);
}

static void random_frame(uint64_t *random, struct vip_frame *frame, uint32_t room)
{
    static const uint32_t totals[] = {0, 1, 2, 100, 65536, VIP_TRANSFER_BYTES_MAX};

    memset(frame, 0, sizeof(*frame));
    frame->type = (uint8_t)(VIP_FRM_SEND + pick(random, 5));
    frame->op = (uint32_t)vector_random(random);
    frame->total = totals[pick(random, 6)];
    if (frame->type == VIP_FRM_READ_REQ) {
        frame->flags = VIP_FRMF_LAST;
    } else if (frame->total) {
        frame->length = 1 + pick(random, room < frame->total ? room : frame->total);
        frame->offset = pick(random, 2) ? frame->total - frame->length
                                        : pick(random, frame->total - frame->length + 1);
    }
    if (frame->type == VIP_FRM_WRITE_MSG) {
        frame->message = (uint16_t)(1 + pick(random, VIP_MESSAGE_BYTES_MAX));
        frame->total += frame->message;
        /* The frame with the last data may also have the message; a frame without data has it. */
        if (frame->offset + frame->length + frame->message == frame->total && pick(random, 2))
            frame->length += frame->message;
        else if (!frame->length)
            frame->length = frame->message;
    }
    if (frame->type != VIP_FRM_READ_REQ && frame->offset + frame->length == frame->total) {
        frame->flags = VIP_FRMF_LAST;
        if (frame->type != VIP_FRM_READ_RESP && pick(random, 2)) {
            frame->flags |= VIP_FRMF_IMMEDIATE;
            frame->imm = vector_random(random);
            if (pick(random, 2))
                frame->flags |= VIP_FRMF_IMM64;
            else
                frame->imm &= UINT32_MAX;
        }
    }
    if (frame->type == VIP_FRM_WRITE || frame->type == VIP_FRM_READ_REQ ||
        frame->type == VIP_FRM_WRITE_MSG) {
        frame->handle = (uint32_t)vector_random(random);
        frame->remote_addr = vector_random(random);
    }
}

static size_t random_data(uint64_t *random, struct vip_packet *packet, uint8_t *bytes)
{
    struct vip_header *hdr = &packet->hdr;
    size_t at = VIP_WIRE_HEADER_BYTES;
    uint32_t floor = 1;

    memset(packet, 0, sizeof(*packet));
    /* Set the members one by one: padding stays zero, because the test compares whole structs. */
    hdr->kind = VIP_PKT_DATA;
    hdr->flags = (uint16_t)pick(random, 8);
    hdr->conn_id = vector_random(random);
    hdr->src_epoch = vector_random(random);
    hdr->dst_epoch = vector_random(random);
    hdr->packet_number = vector_random(random);
    hdr->ts = (uint32_t)vector_random(random);
    hdr->frame_count = (uint16_t)pick(random, VIP_WIRE_FRAMES_MAX + 1);
    if (hdr->flags & VIP_PKTF_ACK) {
        hdr->ack_cumulative = vector_random(random) >> 1;
        hdr->ts_echo = (uint32_t)vector_random(random);
        hdr->ack_delay = (uint32_t)vector_random(random);
        hdr->ops_done = (uint32_t)vector_random(random);
        hdr->range_count = (uint16_t)pick(random, VIP_WIRE_RANGES_MAX + 1);
    }
    for (unsigned i = 0; i < hdr->range_count; i++) {
        packet->ranges[i].start = floor + pick(random, 1000000);
        floor = packet->ranges[i].end = packet->ranges[i].start + 1 + pick(random, 1000000);
        at += vip_wire_put_range(bytes + at, &packet->ranges[i]);
    }
    for (unsigned i = 0; i < hdr->frame_count; i++) {
        random_frame(random, &packet->frames[i], 900);
        at += vip_wire_put_frame(bytes + at, &packet->frames[i]);
        packet->frames[i].payload = (uint32_t)at;
        for (uint32_t b = 0; b < packet->frames[i].length; b++)
            bytes[at++] = (uint8_t)vector_random(random);
    }
    vip_wire_put_header(bytes, hdr);
    return at;
}

static void test_random_data(void **state)
{
    static struct vip_packet packet, got;
    static uint8_t bytes[VIP_PACKET_BYTES_MAX];
    uint64_t random = 42;

    for (unsigned round = 0; round < 20000; round++) {
        size_t len = random_data(&random, &packet, bytes);
        struct iovec iov = {bytes, len};

        vip_wire_seal(&iov, 1);
        assert_true(vip_wire_check_seal(bytes, len));
        memset(&got, 0, sizeof(got));
        assert_int_equal(vip_wire_get_data(bytes, len, &got), VIP_WIRE_OK);
        assert_memory_equal(&got, &packet, sizeof(got));
    }
}

static void test_random_cm(void **state)
{
    uint64_t random = 43;

    for (unsigned round = 0; round < 20000; round++) {
        uint8_t bytes[VIP_WIRE_CM_BYTES_MAX];
        struct vip_cm cm, got;
        size_t len;

        memset(&cm, 0, sizeof(cm));
        cm.type = (uint8_t)(1 + pick(&random, VIP_CM_TYPES - 1));
        cm.request_id = vector_random(&random);
        cm.conn_id = vector_random(&random);
        cm.peer_conn_id = vector_random(&random);
        cm.packet_bytes = VIP_PACKET_BYTES_MIN + pick(&random, 60000);
        cm.window_bytes = VIP_PACKET_BYTES_MIN + pick(&random, 1u << 31);
        cm.code = 1 + pick(&random, 16);
        cm.cookie = vector_random(&random) | 1;
        cm.features = cm.cookie;
        cm.tag = cm.cookie;
        cm.nonce = cm.cookie;
        cm.back_ms = cm.cookie;
        cm.data_id = cm.cookie;
        cm.number = 1 + pick(&random, UINT32_MAX - 1);
        cm.offered = 1 + pick(&random, UINT32_MAX - 1);
        cm.reason = (uint8_t)pick(&random, 5);
        cm.ops_valid = (uint8_t)pick(&random, 2);
        cm.ops_done = (uint32_t)vector_random(&random);
        cm.op_status = (uint32_t)vector_random(&random);
        cm.failed_op = (uint32_t)vector_random(&random);
        cm.attrs.level = (uint16_t)(1u << pick(&random, 3));
        cm.attrs.rdma_write = (uint8_t)pick(&random, 2);
        cm.attrs.rdma_read = (uint8_t)pick(&random, 2);
        cm.attrs.max_transfer_bytes = vector_random(&random);
        cm.local.host_len = (uint8_t)pick(&random, VIP_HOST_ADDR_BYTES_MAX + 1);
        cm.local.disc_len = (uint8_t)pick(&random, VIP_DISCRIMINATOR_BYTES_MAX + 1);
        cm.remote.disc_len = (uint8_t)pick(&random, VIP_DISCRIMINATOR_BYTES_MAX + 1);
        for (unsigned i = 0; i < cm.local.disc_len; i++)
            cm.local.disc[i] = (uint8_t)vector_random(&random);
        cm.data.len = (uint8_t)pick(&random, VIP_PRIVATE_BYTES_MAX + 1);
        for (unsigned i = 0; i < cm.data.len; i++)
            cm.data.bytes[i] = (uint8_t)vector_random(&random);
        len = vip_wire_put_cm(bytes, 5, 6, &cm);
        assert_true(vip_wire_check_seal(bytes, len));
        assert_int_equal(vip_wire_get_cm(bytes, len, &got), VIP_WIRE_OK);
        assert_int_equal(got.type, cm.type);
        assert_int_equal(judge(bytes, len), VIP_WIRE_OK);
        if (cm.type == VIP_CM_REQUEST)
            assert_memory_equal(&got.local, &cm.local, sizeof(cm.local));
        if (cm.type == VIP_CM_REQUEST || cm.type == VIP_CM_ACCEPT || cm.type == VIP_CM_REJECT)
            assert_memory_equal(&got.data, &cm.data, sizeof(cm.data));
    }
}

/* Change random bytes of the vectors. If the verdict is OK, the bytes must be canonical. */
static void test_random_damage(void **state)
{
    static const uint8_t likely[] = {0, 1, 2, 3, 4, 7, 0x10, 0x11, 0x12, 0x7f, 0x80, 0xff};
    uint64_t random = 44;
    unsigned verdicts[VIP_WIRE_VERDICTS] = {0};

    for (unsigned round = 0; round < 60000; round++) {
        uint8_t bytes[VECTOR_BYTES_MAX];
        static uint8_t vector[VECTOR_COUNT][VECTOR_BYTES_MAX];
        static size_t lens[VECTOR_COUNT];
        unsigned v = pick(&random, VECTOR_COUNT);
        size_t len;

        if (!lens[v])
            lens[v] = vector_load(vector_names[v], vector[v]);
        memcpy(bytes, vector[v], lens[v]);
        len = lens[v];
        for (unsigned i = 1 + pick(&random, 4); i > 0; i--)
            bytes[pick(&random, (uint32_t)len)] = likely[pick(&random, sizeof(likely))];
        if (!pick(&random, 4))
            len = pick(&random, (uint32_t)len + 1);
        verdicts[judge(bytes, len)]++;
    }
    for (unsigned i = 0; i < VIP_WIRE_VERDICTS; i++)
        if (i != VIP_WIRE_CRC_BAD)
            assert_true(verdicts[i] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_verdict), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_every_bit),     cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_padding),       cmocka_unit_test(test_longer_than_a_packet),
        cmocka_unit_test(test_random_data),   cmocka_unit_test(test_random_cm),
        cmocka_unit_test(test_random_damage),
    };

    return cmocka_run_group_tests_name("proto_wire_bad", tests, NULL, NULL);
}
