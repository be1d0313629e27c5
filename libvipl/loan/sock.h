/*
 * The packets of a loan's socket. Packets that leave together leave by one system call: the kernel
 * cuts one message into packets of equal length (UDP_SEGMENT). The kernel also joins packets that
 * arrive, if the owner of the socket wants this (UDP_GRO), and an inbox takes them apart.
 *
 * Owns: which packets share a message, received bytes that are not taken yet. Does not own: the
 * socket and its options, what a packet means. No function blocks.
 */
#ifndef LIBVIPL_LOAN_SOCK_H
#define LIBVIPL_LOAN_SOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/path/tx.h"

/* Packets of one message, at most. Many packets cost the peer a late begin: it reads nothing before
 * the last checksum is computed. */
#define VIPL__BURST_PACKETS 32u
#define VIPL__BURST_IOVS    512u

/* Packets that leave together. */
struct vipl__burst {
    uint8_t *memory; /* [VIP_PACKET_BYTES_MAX] for all bytes that are not in a region */
    uint32_t used;   /* bytes of it in use */
    unsigned packets, iovs;
    uint32_t bytes;   /* of all packets */
    uint32_t segment; /* bytes of the first packet; only the last one may be shorter */
    bool full;        /* no packet can join: the last one is shorter */
    bool alone;       /* the socket takes no joined packets */
    struct iovec iov[VIPL__BURST_IOVS];
};

/* Can the packet, which is resolved, leave with those of the burst? */
bool vipl__burst_joins(const struct vipl__burst *burst, const struct path_tx *tx);

/* Seal the packet and add it. It joins, or the burst is empty. Memory of the packet that is not in
 * a region can then be used again. */
void vipl__burst_add(struct vipl__burst *burst, struct path_tx *tx);

/* Send all packets; the burst is empty then. Returns how many packets the socket has not taken. */
unsigned vipl__burst_send(struct vipl__burst *burst, int sock);

/* Received bytes. Zeroed memory with `memory` is an empty inbox. */
struct vipl__inbox {
    uint8_t *memory; /* [VIP_PACKET_BYTES_MAX] */
    uint32_t at, end;
    uint32_t segment; /* bytes of each packet; the last one may be shorter */
};

/* Take the next packet. It stays valid until the next call. False: the socket has none now. */
bool vipl__inbox_next(struct vipl__inbox *inbox, int sock, const uint8_t **ret,
                      uint32_t *ret_bytes);

/* Does the inbox have packets that are not taken? */
static inline bool vipl__inbox_waits(const struct vipl__inbox *inbox)
{
    return inbox->at < inbox->end;
}

#endif
