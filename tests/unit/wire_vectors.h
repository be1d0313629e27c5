/*
 * Reads tests/vectors/NAME.hex: bytes as hexadecimal digits; '#' begins a comment. Only the
 * test_proto_wire*.c programs include this file.
 */
#ifndef TESTS_UNIT_WIRE_VECTORS_H
#define TESTS_UNIT_WIRE_VECTORS_H

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/wire.h"

#define VECTOR_BYTES_MAX 1024

static const char *const vector_names[] __attribute__((unused)) = {
    "data_send",
    "data_ack",
    "data_mixed",
    "cm_request",
    "cm_request_longest",
    "cm_pending",
    "cm_accept",
    "cm_confirm",
    "cm_reject",
    "cm_no_match",
    "cm_cancel",
    "cm_close",
    "cm_close_ack",
    "cm_ping",
    "cm_pong",
    "cm_reset",
    "data_write_msg",
    "cm_request_features",
    "cm_cookie",
    "cm_request_cookie",
    "cm_setup",
    "cm_setup_items",
    "cm_rebind",
    "cm_challenge",
    "cm_proof",
    "cm_loan_offer",
    "cm_loan_agree",
    "cm_loan_probe",
    "cm_loan_probed",
};
#define VECTOR_COUNT (sizeof(vector_names) / sizeof(vector_names[0]))

static inline size_t vector_load(const char *name, uint8_t ret[VECTOR_BYTES_MAX])
{
    char path[512], line[256];
    size_t len = 0;
    FILE *file;

    snprintf(path, sizeof(path), "%s/tests/vectors/%s.hex", VIP_SOURCE_DIR, name);
    file = fopen(path, "r");
    if (!file)
        fail_msg("cannot open %s", path);
    while (fgets(line, sizeof(line), file)) {
        char *at = line, *end;

        line[strcspn(line, "#\n")] = 0;
        for (;;) {
            unsigned long value = strtoul(at, &end, 16);

            if (end == at)
                break;
            assert_true(value <= 255 && len < VECTOR_BYTES_MAX);
            ret[len++] = (uint8_t)value;
            at = end;
        }
        while (isspace((unsigned char)*at))
            at++;
        if (*at)
            fail_msg("%s: not hexadecimal: %s", path, at);
    }
    fclose(file);
    return len;
}

/* The next number of a random sequence that follows from *state. */
static inline uint64_t vector_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Each message has only one correct form. If the bytes can be decoded, encoding must give the same
 * bytes, except for the checksum. Returns the verdict of the decoder. */
static inline enum vip_wire_verdict vector_check_canonical(const uint8_t *bytes, size_t len)
{
    static struct vip_packet packet;
    uint8_t again[VECTOR_BYTES_MAX];
    struct vip_header hdr;
    struct vip_cm cm;
    enum vip_wire_verdict verdict = vip_wire_get_header(bytes, len, &hdr);
    size_t at = VIP_WIRE_HEADER_BYTES;

    if (verdict != VIP_WIRE_OK)
        return verdict;
    if (hdr.kind == VIP_PKT_CM) {
        verdict = vip_wire_get_cm(bytes, len, &cm);
        if (verdict != VIP_WIRE_OK)
            return verdict;
        assert_int_equal(vip_wire_put_cm(again, hdr.src_epoch, hdr.dst_epoch, &cm), len);
    } else {
        verdict = vip_wire_get_data(bytes, len, &packet);
        if (verdict != VIP_WIRE_OK)
            return verdict;
        assert_true(len <= sizeof(again));
        vip_wire_put_header(again, &packet.hdr);
        for (unsigned i = 0; i < packet.hdr.range_count; i++)
            at += vip_wire_put_range(again + at, &packet.ranges[i]);
        for (unsigned i = 0; i < packet.hdr.frame_count; i++) {
            at += vip_wire_put_frame(again + at, &packet.frames[i]);
            assert_int_equal(packet.frames[i].payload, at);
            memcpy(again + at, bytes + at, packet.frames[i].length);
            at += packet.frames[i].length;
        }
        assert_true(at <= len);
        memset(again + at, 0, len - at); /* clear the padding */
    }
    assert_memory_equal(again, bytes, 4);
    assert_memory_equal(again + 8, bytes + 8, len - 8);
    return VIP_WIRE_OK;
}

#endif
