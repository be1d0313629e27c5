/* Finds the addresses in registered memory for the pieces of a packet that leaves. */
#include "vipd/nic/internal.h"

bool nic_tx_resolve(struct nic_session *session, struct nic_tx *tx)
{
    const struct eng_packet *packet = &tx->packet;
    struct registry_vi vi = nic_registry_vi(&session->vis[packet->vi]);
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

            base = registry_access(session->registry, &vi, &access, NULL);
        }
        if (!base)
            return false;
        tx->iov[i] = (struct iovec){.iov_base = base, .iov_len = piece->len};
    }
    tx->iov_count = packet->piece_count;
    return true;
}
