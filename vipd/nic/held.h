/* Packets of a NIC that are kept for later, and where their bytes are; only for vipd/nic. */
#ifndef VIPD_NIC_HELD_H
#define VIPD_NIC_HELD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "vipd/nic/list.h"

struct nic_session;

/* Adjacent fragments of one RDMA Write to staged memory. vipd collects them. At the latest at the
 * end of the turn, it asks libvipl to place them all. */
struct nic_place {
    struct nic_session *session; /* NULL: no fragment is collected */
    uint64_t number;             /* number of the last fragment, for sink.place */
    uint64_t addr, offset;       /* address of the first byte, and its offset in the region */
    uint32_t handle, bytes, op;
    uint16_t vi;
};

/* A packet that the engine holds (ENG_RX_HOLD) or that waits for the library (parked). */
struct nic_held {
    void *buffer;         /* buffer of the link, to be released; NULL if the bytes are in `own` */
    uint8_t *own;         /* malloc'ed copy of the packet, or NULL */
    const uint8_t *bytes; /* the packet, in `buffer` or in `own` */
    uint32_t len;
    bool used, replay; /* replay: the engine held this packet before vipd parked it */
    uint32_t staged;   /* of a parked packet: frames that libvipl must place, one bit each */
    uint32_t spoiled;  /* of a parked packet: frames that libvipl failed to place, one bit each */
    uint64_t data_id;  /* of the connection, which may have ended or have another one meanwhile */
    uint64_t number;   /* of a parked packet: number of the last range that libvipl must place */
    struct nic_session *session;
    struct nic_list link; /* in session->held or session->parked */
    uint32_t next_free;   /* index + 1 of the next free slot; 0: none */
};

/* The bytes of the packet that an engine processes. */
struct nic_src {
    const uint8_t *bytes; /* contiguous packet; NULL: the bytes are in `piece` */
    uint32_t len;
    void *buffer;              /* buffer of the link; NULL: the packet is not from the link */
    uint8_t *own;              /* malloc'ed copy of the packet, or NULL */
    const struct iovec *piece; /* loopback: pieces in packet order */
    unsigned piece_count;
    bool scarce;      /* the link needs its buffer back soon: to keep the packet, copy it */
    bool placed;      /* libvipl has placed the packet's writes to staged memory */
    uint32_t spoiled; /* frames of nic->replay_packet that libvipl failed to place, one bit each */
};

#endif
