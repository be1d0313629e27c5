/*
 * Messages between the paths of two hosts (doc/wire.md, "Several paths"). They find out whether a
 * path works, and which addresses the other host has.
 *
 * Owns: encoding and validation. Does not own: when a question is sent, and the meaning of an
 * answer (vipd/link/path_hosts.h). Pure functions. Any thread.
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
    VIP_PATH_ECHO = 2,  /* the answer, by the same path */
};

/* The address of a host on one path, without discriminator. */
struct vip_path_addr {
    uint8_t len; /* 0: no address */
    uint8_t bytes[VIP_HOST_ADDR_BYTES_MAX];
};

struct vip_path_message {
    uint8_t type;   /* enum vip_path_type */
    uint8_t path;   /* number of the path, below VIP_PATHS_MAX */
    uint64_t nonce; /* random number of the host that sends the question; not 0 */
    uint32_t ts;    /* clock of the host that sends the question, in us modulo 2^32 */
    /* Answer: the answering host accepts packets by this path from the address of the question. */
    bool accepts;
    /* The host that must answer, named by its address on path 0. */
    struct vip_path_addr host;
    /* Answers by path 0: the answering host's addresses on its other paths. Else: none. */
    uint8_t count;
    struct vip_path_addr addr[VIP_PATHS_MAX - 1];
};

/* Is a received packet a message between paths? The function reads the first byte only. */
bool vip_wire_is_path(const uint8_t *packet, size_t len_bytes);

/* Encode *message, with its checksum. Its members must obey their comments (asserted). */
void vip_wire_put_path(uint8_t out[VIP_WIRE_PATH_BYTES], const struct vip_path_message *message);

/* Validate and decode. False: vip_wire_put_path does not write such a message. */
bool vip_wire_get_path(const uint8_t *packet, size_t len_bytes, struct vip_path_message *ret);

#endif
