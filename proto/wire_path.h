/*
 * Messages between the paths of two hosts (doc/wire.md, "Several paths"): is there an answer by this
 * path, and which addresses has the host?
 *
 * Owns: their encoding and validation. Does not own: who asks, and what an answer means
 * (vipd/link/path_hosts.h). Pure functions. Any thread.
 */
#ifndef VIP_PROTO_WIRE_PATH_H
#define VIP_PROTO_WIRE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

/* Paths of one NIC. */
#define VIP_PATHS_MAX 4

/* All messages have this length, so an answer is never longer than its question. */
#define VIP_WIRE_PATH_BYTES 128

enum vip_path_type {
    VIP_PATH_PROBE = 1, /* a question */
    VIP_PATH_ECHO = 2,  /* its answer, by the same path */
};

/* The address of a host on one path, without discriminator. */
struct vip_path_addr {
    uint8_t len; /* 0: there is none */
    uint8_t bytes[VIP_HOST_ADDR_BYTES_MAX];
};

struct vip_path_message {
    uint8_t type;   /* enum vip_path_type */
    uint8_t path;   /* number of the path, below VIP_PATHS_MAX */
    uint64_t nonce; /* drawn by the host that asks; not 0 */
    uint32_t ts;    /* clock of the host that asks, in us modulo 2^32 */
    /* Answer: the sender accepts packets by this path from the address that has asked. */
    bool accepts;
    /* Address on path 0 of the host that is asked: its name. */
    struct vip_path_addr host;
    /* Answer by path 0: the addresses of this host on the other paths; else none. */
    uint8_t count;
    struct vip_path_addr addr[VIP_PATHS_MAX - 1];
};

/* Is a received packet such a message? Only the first byte is looked at. */
bool vip_wire_is_path(const uint8_t *packet, size_t len_bytes);

/* Encode, checksum included. message must obey the comments above (asserted). */
void vip_wire_put_path(uint8_t out[VIP_WIRE_PATH_BYTES], const struct vip_path_message *message);

/* Validate and decode. false: it is no message that vip_wire_put_path writes. */
bool vip_wire_get_path(const uint8_t *packet, size_t len_bytes, struct vip_path_message *ret);

#endif
