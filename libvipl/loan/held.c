#include "libvipl/loan/held.h"

#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"

void vipl__held_init(struct vipl__helds *helds, uint32_t bytes)
{
    helds->free = 0;
    helds->spare = NULL;
    helds->spare_bytes = bytes;
    for (uint32_t token = VIPL__LOAN_HELD; token > 0; token--) {
        helds->slot[token - 1] = (struct vipl__held){.next_free = helds->free};
        helds->free = token;
    }
}

void vipl__held_deinit(struct vipl__helds *helds)
{
    for (unsigned i = 0; i < VIPL__LOAN_HELD; i++) {
        free(helds->slot[i].bytes);
        helds->slot[i].bytes = NULL;
    }
    free(helds->spare);
    helds->spare = NULL;
}

bool vipl__held_room(struct vipl__helds *helds)
{
    if (helds->spare == NULL)
        helds->spare = malloc(helds->spare_bytes);
    return helds->free != 0 && helds->spare != NULL;
}

void vipl__held_keep(struct vipl__helds *helds, const uint8_t *bytes, uint32_t len)
{
    struct vipl__held *held;

    VIP_ASSERT(helds->free != 0 && helds->spare != NULL && len <= helds->spare_bytes);
    held = &helds->slot[helds->free - 1];
    helds->free = held->next_free;
    memcpy(helds->spare, bytes, len);
    held->bytes = helds->spare;
    held->len = len;
    helds->spare = NULL;
}

const struct vipl__held *vipl__held_get(const struct vipl__helds *helds, uint32_t token)
{
    VIP_ASSERT(token > 0 && token <= VIPL__LOAN_HELD && helds->slot[token - 1].bytes != NULL);
    return &helds->slot[token - 1];
}

void vipl__held_free(struct vipl__helds *helds, uint32_t token)
{
    struct vipl__held *held = &helds->slot[token - 1];

    VIP_ASSERT(held->bytes != NULL);
    if (helds->spare == NULL)
        helds->spare = held->bytes;
    else
        free(held->bytes);
    held->bytes = NULL;
    held->next_free = helds->free;
    helds->free = token;
}
