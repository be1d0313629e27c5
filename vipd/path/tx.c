#include "vipd/path/tx.h"

#include <string.h>

#include "proto/assert.h"
#include "proto/wire.h"
#include "vipd/engine/mutant.h"

/*
 * Should the packet leave from a copy? The program may write its memory between our checksum and
 * the copy that the medium makes; then the peer drops the packet. Small memory often changes (for
 * example a word that another host polls). So small packets always leave from a copy. Large packets
 * leave from the program's pages, except for some time after a loss.
 */
static bool copy_wanted(const struct path_tx *tx)
{
    if (tx->iov_count < 2 || VIP_MUTANT(COPY_LEFT_OUT))
        return false;
    return tx->packet.bytes <= PATH_COPY_BYTES || tx->packet.copy;
}

static void copy(struct path_tx *tx)
{
    size_t at = 0;

    for (unsigned i = 0; i < tx->iov_count; i++) {
        memcpy(tx->copy + at, tx->iov[i].iov_base, tx->iov[i].iov_len);
        at += tx->iov[i].iov_len;
    }
    VIP_ASSERT(at == tx->packet.bytes);
    tx->iov[0] = (struct iovec){.iov_base = tx->copy, .iov_len = at};
    tx->iov_count = 1;
}

void path_tx_seal(struct path_tx *tx)
{
    if (copy_wanted(tx))
        copy(tx);
    vip_wire_seal(tx->iov, tx->iov_count);
}
