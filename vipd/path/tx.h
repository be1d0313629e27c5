/*
 * A packet on its way out: from the pieces that the engine names to sealed bytes. The host of the
 * engine is vipd (vipd/nic/tx.c) or a program that has a loan (vipd/engine/loan.h).
 *
 * Owns: the accesses of a packet's pieces; which packets leave from a copy. Does not own: packet
 * contents (engine), rights and addresses (the host), the medium.
 */
#ifndef VIPD_PATH_TX_H
#define VIPD_PATH_TX_H

#include <sys/uio.h>

#include "vipd/engine/engine.h"

/* Packets up to this size, in bytes, always leave from a copy: it costs no more than their
 * pieces. */
#define PATH_COPY_BYTES 1024u

/* One packet on its way out. */
struct path_tx {
    unsigned iov_count; /* number of pieces, or 1 if the whole packet is in `copy` */
    struct iovec iov[ENG_PIECES_MAX];
    uint8_t *copy; /* the host's memory: room for the largest packet of the medium */
    struct eng_packet packet;
};

/*
 * Find the addresses of the packet's pieces. address: the host's function, which checks an access
 * and returns the address of access->len bytes; NULL: the access is not allowed. It is known when
 * the call is compiled, so that the compiler can insert its code here. Outcomes: true: iov is
 * filled; false: an access is not allowed, so the operation of the packet must fail
 * (eng_tx_failed).
 */
static inline __attribute__((always_inline)) bool
path_tx_resolve(struct path_tx *tx, void *(*address)(void *ctx, const struct eng_access *access),
                void *ctx)
{
    const struct eng_packet *packet = &tx->packet;
    enum eng_access_kind kind = packet->remote_read ? ENG_ACCESS_REMOTE_READ : ENG_ACCESS_SEND;

    for (unsigned i = 0; i < packet->piece_count; i++) {
        const struct eng_piece *piece = &packet->piece[i];
        void *base = tx->packet.head + piece->offset;

        if (piece->from_region) {
            struct eng_access access = {.vi = packet->vi,
                                        .kind = kind,
                                        .handle = piece->handle,
                                        .addr = piece->addr,
                                        .len = piece->len};

            base = address(ctx, &access);
        }
        if (!base)
            return false;
        tx->iov[i] = (struct iovec){.iov_base = base, .iov_len = piece->len};
    }
    tx->iov_count = packet->piece_count;
    return true;
}

/* Copy the packet if it must leave from a copy, and seal it. path_tx_resolve must have returned
 * true since the last call. */
void path_tx_seal(struct path_tx *tx);

#endif
