/*
 * Table of a session's registered regions by memory handle, for the library's own checks and for
 * staged copies. The table has no lock of its own: session.h says which lock guards it.
 */
#ifndef LIBVIPL_REGION_H
#define LIBVIPL_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libvipl/mem.h"
#include "libvipl/vipl.h"

/* One registered region. */
struct vipl__region {
    VIP_MEM_HANDLE handle;    /* given by vipd */
    uintptr_t addr;           /* first byte */
    size_t bytes;             /* length of the region */
    uint32_t ptag;            /* vipd's number of the tag; 0 = no tag, which matches every tag */
    VIP_MEM_ATTRIBUTES attrs; /* as the program registered or last set them */
    struct vipl__mem mem;     /* how vipd reaches the region's memory */
    bool refused;             /* the present vipd refuses it (refused.h); written under post_lock */
};

struct vipl__region_slot {
    VIP_MEM_HANDLE handle; /* 0 = free slot; no region has handle 0 */
    struct vipl__region *region;
};

/* Hash table: open addressing with linear probing; never more than half full. */
struct vipl__regions {
    struct vipl__region_slot *slots; /* NULL while empty */
    uint32_t mask;                   /* slots - 1 */
    uint32_t count;                  /* regions in the table */
};

/*
 * First slot to try for a handle. A multiplicative hash is enough: handles (index and generation)
 * differ in their low bits.
 */
static inline uint32_t vipl__region_home(const struct vipl__regions *regions, VIP_MEM_HANDLE handle)
{
    return (handle * 0x9E3779B1u >> 15) & regions->mask;
}

/* Find the region of a handle; NULL if there is none. */
static inline struct vipl__region *vipl__region_find(const struct vipl__regions *regions,
                                                     VIP_MEM_HANDLE handle)
{
    if (regions->slots == NULL || handle == 0)
        return NULL;
    for (uint32_t i = vipl__region_home(regions, handle);; i = (i + 1) & regions->mask) {
        if (regions->slots[i].handle == handle)
            return regions->slots[i].region;
        if (regions->slots[i].handle == 0)
            return NULL;
    }
}

/* Does the region hold [addr, addr + bytes)? */
static inline bool vipl__region_holds(const struct vipl__region *region, uintptr_t addr,
                                      size_t bytes)
{
    return addr >= region->addr && bytes <= region->bytes &&
           addr - region->addr <= region->bytes - bytes;
}

/* Bytes from addr to the end of the region; 0 if addr is outside. */
static inline size_t vipl__region_rest(const struct vipl__region *region, uintptr_t addr)
{
    size_t offset = addr - region->addr; /* wraps to a huge value if addr is below the region */

    return offset < region->bytes ? region->bytes - offset : 0;
}

/* Add a region whose handle is not in the table yet. Outcomes: 0; -ENOMEM. */
int vipl__region_add(struct vipl__regions *regions, struct vipl__region *region);

/* Remove a region from the table and return it; NULL if the table does not have it. */
struct vipl__region *vipl__region_take(struct vipl__regions *regions, VIP_MEM_HANDLE handle);

#endif
