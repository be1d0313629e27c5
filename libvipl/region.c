/* The region table (region.h). */
#include "libvipl/region.h"

#include <errno.h>
#include <stdlib.h>

/* Number of slots in the first table: enough for most programs, which register a few regions. */
#define FIRST_SLOTS 64

static void put(struct vipl__regions *regions, struct vipl__region *region)
{
    uint32_t i = vipl__region_home(regions, region->handle);

    while (regions->slots[i].handle != 0)
        i = (i + 1) & regions->mask;
    regions->slots[i].handle = region->handle;
    regions->slots[i].region = region;
}

static int grow(struct vipl__regions *regions)
{
    struct vipl__regions bigger = {.count = regions->count};
    uint32_t slots = regions->slots == NULL ? FIRST_SLOTS : 2 * (regions->mask + 1);

    bigger.slots = calloc(slots, sizeof(*bigger.slots));
    if (bigger.slots == NULL)
        return -ENOMEM;
    bigger.mask = slots - 1;
    for (uint32_t i = 0; regions->slots != NULL && i <= regions->mask; i++)
        if (regions->slots[i].handle != 0)
            put(&bigger, regions->slots[i].region);
    free(regions->slots);
    *regions = bigger;
    return 0;
}

int vipl__region_add(struct vipl__regions *regions, struct vipl__region *region)
{
    if (regions->slots == NULL || 2 * (regions->count + 1) > regions->mask + 1) {
        int rc = grow(regions);

        if (rc < 0)
            return rc;
    }
    put(regions, region);
    regions->count++;
    return 0;
}

struct vipl__region *vipl__region_take(struct vipl__regions *regions, VIP_MEM_HANDLE handle)
{
    struct vipl__region *region = vipl__region_find(regions, handle);
    uint32_t hole;

    if (region == NULL)
        return NULL;
    hole = vipl__region_home(regions, handle);
    while (regions->slots[hole].handle != handle)
        hole = (hole + 1) & regions->mask;

    /* Close the hole: if the search for a later entry passes the hole, move this entry into it. */
    for (uint32_t i = (hole + 1) & regions->mask; regions->slots[i].handle != 0;
         i = (i + 1) & regions->mask) {
        uint32_t home = vipl__region_home(regions, regions->slots[i].handle);

        if (((i - home) & regions->mask) >= ((i - hole) & regions->mask)) {
            regions->slots[hole] = regions->slots[i];
            hole = i;
        }
    }
    regions->slots[hole].handle = 0;
    regions->slots[hole].region = NULL;
    regions->count--;
    return region;
}
