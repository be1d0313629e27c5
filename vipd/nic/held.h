/* Packets of a NIC that are kept for later, and where their bytes are; only for vipd/nic. */
#ifndef VIPD_NIC_HELD_H
#define VIPD_NIC_HELD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "vipd/nic/list.h"

struct nic_session;

/* Fragments of one write, one behind the other, that a library shall place. It is asked at the end
 * of the turn at the latest. */
struct nic_place {
    struct nic_session *session; /* NULL: none */
    uint64_t number;             /* of the last fragment */
    uint64_t addr, offset;       /* of the first byte; offset in the region */
    uint32_t handle, bytes, op;
    uint16_t vi;
};

/* A packet that the engine holds (ENG_RX_HOLD) or that waits for the library (parked). */
struct nic_held {
    void *buffer;         /* the link's, given back with release; NULL if `own` */
    uint8_t *own;         /* malloc'ed copy of a loopback packet */
    const uint8_t *bytes; /* the packet, in one of the two */
    uint32_t len;
    bool used, replay; /* replay: parked out of eng_replay, fed with eng_rx_replay */
    uint32_t staged;   /* parked: frames that the library was asked to place, one bit each */
    uint32_t spoiled;  /* parked: frames of these that it could not place */
    uint64_t conn_id;  /* local id; the connection may be gone meanwhile */
    uint64_t number;   /* parked: every placement up to this one must be done */
    struct nic_session *session;
    struct nic_list link; /* all of a session: session->held or session->parked */
    uint32_t next_free;   /* index + 1 */
};

/* The bytes of the packet that an engine processes. */
struct nic_src {
    const uint8_t *bytes; /* contiguous packet, or NULL: then `piece` */
    uint32_t len;
    void *buffer;              /* the link's, if it came from there */
    uint8_t *own;              /* malloc'ed, if `bytes` lie in it */
    const struct iovec *piece; /* loopback: pieces in packet order */
    unsigned piece_count;
    bool scarce;      /* the link needs the buffer back at once: keep a copy */
    bool placed;      /* the library has placed its staged writes, */
    uint32_t spoiled; /* except these frames of nic->replay_packet, one bit each */
};

#endif
