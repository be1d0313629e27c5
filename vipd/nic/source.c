/* Where the bytes of a packet are: in a buffer of the link, in pieces, or in a copy. */
#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"
#include "vipd/registry/guard.h"

void nic_src_release(struct nic *nic, const struct nic_src *src)
{
    if (src->buffer)
        nic->link->class->release(nic->link, src->buffer);
    free(src->own);
}

bool nic_src_copy(const struct nic_src *src, uint32_t offset, void *to, uint32_t len)
{
    uint32_t faults = guard_copy_faults();
    uint8_t *out = to;

    VIP_ASSERT((uint64_t)offset + len <= src->len);
    if (src->bytes) {
        memcpy(out, src->bytes + offset, len);
        return guard_copy_faults() == faults;
    }
    /* Loopback: one copy from region to region; source and target may be in the same region. */
    for (unsigned i = 0; len; i++) {
        uint32_t piece = (uint32_t)src->piece[i].iov_len;
        uint32_t count;

        VIP_ASSERT(i < src->piece_count);
        if (offset >= piece) {
            offset -= piece;
            continue;
        }
        count = piece - offset < len ? piece - offset : len;
        memmove(out, (const uint8_t *)src->piece[i].iov_base + offset, count);
        out += count;
        len -= count;
        offset = 0;
    }
    return guard_copy_faults() == faults;
}

bool nic_src_must_copy(const struct nic_src *src)
{
    return !src->bytes || (src->buffer && src->scarce);
}

bool nic_src_own(struct nic *nic, struct nic_src *src)
{
    uint8_t *copy = malloc(src->len);

    if (!copy)
        return false;
    if (!nic_src_copy(src, 0, copy, src->len)) {
        free(copy);
        return false;
    }
    nic_src_release(nic, src);
    src->own = copy;
    src->bytes = copy;
    src->buffer = NULL;
    return true;
}
