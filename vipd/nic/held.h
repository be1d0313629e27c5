/* Packets of a NIC that are kept for later, and where their bytes are; only for vipd/nic. */
#ifndef VIPD_NIC_HELD_H
#define VIPD_NIC_HELD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "vipd/nic/list.h"

struct nic_session;

/* Adjacent fragments of one write that a library must place. vipd asks the library at the end of
 * the turn at the latest. */
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
    uint8_t *own;         /* malloc'ed copy of a loopback packet */
    const uint8_t *bytes; /* the packet, in `buffer` or in `own` */
    uint32_t len;
    bool used, replay; /* replay: eng_replay named it; eng_rx_replay takes it after parking */
    uint32_t staged;   /* parked: frames that the library was asked to place, one bit each */
    uint32_t spoiled;  /* parked: of these, frames that the library could not place */
    uint64_t conn_id;  /* local id; the connection may be gone meanwhile */
    uint64_t number;   /* parked: every placement up to this one must be done */
    struct nic_session *session;
    struct nic_list link; /* in session->held or session->parked */
    uint32_t next_free;   /* index + 1 of the next free slot */
};

/* The bytes of the packet that an engine processes. */
struct nic_src {
    const uint8_t *bytes; /* contiguous packet; NULL: the bytes are in `piece` */
    uint32_t len;
    void *buffer;              /* buffer of the link; NULL: the packet is not from the link */
    uint8_t *own;              /* malloc'ed, if `bytes` lie in it */
    const struct iovec *piece; /* loopback: pieces in packet order */
    unsigned piece_count;
    bool scarce;      /* the link needs the buffer back at once: keep a copy */
    bool placed;      /* the library has placed its staged writes, */
    uint32_t spoiled; /* except these frames of nic->replay_packet, one bit each */
};

#endif
