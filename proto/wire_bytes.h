/*
 * Little-endian loads and stores on byte buffers of any alignment, and the offsets of the packet
 * header. Private to proto/wire*.c.
 */
#ifndef VIP_PROTO_WIRE_BYTES_H
#define VIP_PROTO_WIRE_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* Packet header (doc/wire.md, "Header"). */
enum {
    OFF_VERSION_KIND = 0, /* version in the upper four bits, kind in the lower four */
    OFF_FLAGS = 1,
    OFF_RANGE_COUNT = 2,
    OFF_FRAME_COUNT = 3,
    OFF_CRC = 4,
    OFF_CONN_ID = 8,
    OFF_SRC_EPOCH = 16,
    OFF_DST_EPOCH = 24,
    OFF_PACKET_NUMBER = 32,
    OFF_ACK_CUMULATIVE = 40,
    OFF_TS = 48,
    OFF_TS_ECHO = 52,
    OFF_ACK_DELAY = 56,
    OFF_OPS_DONE = 60,
};

static inline void put16(uint8_t *out, uint16_t value)
{
    value = htole16(value);
    memcpy(out, &value, sizeof(value));
}

static inline void put32(uint8_t *out, uint32_t value)
{
    value = htole32(value);
    memcpy(out, &value, sizeof(value));
}

static inline void put64(uint8_t *out, uint64_t value)
{
    value = htole64(value);
    memcpy(out, &value, sizeof(value));
}

static inline uint16_t get16(const uint8_t *in)
{
    uint16_t value;

    memcpy(&value, in, sizeof(value));
    return le16toh(value);
}

static inline uint32_t get32(const uint8_t *in)
{
    uint32_t value;

    memcpy(&value, in, sizeof(value));
    return le32toh(value);
}

static inline uint64_t get64(const uint8_t *in)
{
    uint64_t value;

    memcpy(&value, in, sizeof(value));
    return le64toh(value);
}

#endif
