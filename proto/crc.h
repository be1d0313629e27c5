/* CRC32C, the checksum of packets and of messages between ether links. Any thread. */
#ifndef VIP_PROTO_CRC_H
#define VIP_PROTO_CRC_H

#include <stddef.h>
#include <stdint.h>

/* CRC32C starts from all ones and ends inverted (RFC 3385); the caller does both. */
#define VIP_CRC_START 0xffffffffu

/* Continue the checksum `crc` of earlier bytes over len_bytes (0..INT_MAX) more bytes. */
uint32_t vip_crc_add(uint32_t crc, const void *bytes, size_t len_bytes);

#endif
