/*
 * The item VIP_ITEM_COUNTS: the progress of one end of a connection, in messages that bind the
 * connection anew.
 *
 * Owns: no state. Called by cm_rebind.c and cm_loan.c.
 */
#include "vipd/engine/cm_internal.h"

#include <endian.h>
#include <string.h>

#include "proto/assert.h"

struct cm_counts_item cm_counts_put(const struct vip_counts *counts)
{
    struct cm_counts_item item = {.word[0] = htole32(counts->done),
                                  .bytes = (uint16_t)(4 + 4 * counts->reads)};

    VIP_ASSERT(counts->reads <= VIP_COUNTS_READS_MAX);
    for (uint32_t i = 0; i < counts->reads; i++)
        item.word[1 + i] = htole32(counts->read[i]);
    return item;
}

bool cm_counts_get(const struct vip_items *items, struct cm_counts_item *ret_item,
                   struct vip_counts *ret)
{
    uint16_t len = 0;
    const uint8_t *value = vip_items_find(items, VIP_ITEM_COUNTS, &len);

    if (!value || len < 4 || len % 4 || len > sizeof(ret_item->word))
        return false;
    memset(ret, 0, sizeof(*ret));
    memcpy(ret_item->word, value, len);
    ret_item->bytes = len;
    ret->done = le32toh(ret_item->word[0]);
    ret->reads = len / 4u - 1;
    for (uint32_t i = 0; i < ret->reads; i++)
        ret->read[i] = le32toh(ret_item->word[1 + i]);
    return true;
}
