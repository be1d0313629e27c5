/* Packets that the engine of a loan holds until their turn; only for libvipl/loan. */
#ifndef LIBVIPL_LOAN_HELD_H
#define LIBVIPL_LOAN_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "libvipl/loan/loan.h"

struct vipl__held {
    uint8_t *bytes; /* malloc'ed copy of the packet; NULL: the slot is free */
    uint32_t len;
    uint32_t next_free; /* token of the next free slot; 0: none */
};

/* A token is the index of a slot + 1. */
struct vipl__helds {
    struct vipl__held slot[VIPL__LOAN_HELD];
    uint32_t free;        /* token of the first free slot; 0: none */
    uint8_t *spare;       /* malloc'ed memory for the next copy; NULL: none */
    uint32_t spare_bytes; /* size of each copy's memory */
};

/* Begin with no packets; none is longer than `bytes`. */
void vipl__held_init(struct vipl__helds *helds, uint32_t bytes);
void vipl__held_deinit(struct vipl__helds *helds);

/* Make sure that vipl__held_keep succeeds. False: no memory. */
bool vipl__held_room(struct vipl__helds *helds);

/* Copy a packet to the slot of token helds->free. vipl__held_room must have returned true. */
void vipl__held_keep(struct vipl__helds *helds, const uint8_t *bytes, uint32_t len);

const struct vipl__held *vipl__held_get(const struct vipl__helds *helds, uint32_t token);
void vipl__held_free(struct vipl__helds *helds, uint32_t token);

#endif
