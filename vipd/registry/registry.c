/*
 * The region table of one session and registry_access (vipd/registry/registry.h, spec 3.5).
 *
 * Owns: handles, bounds, rights, protection tags and quotas. Does not own: files and mappings
 * (mapping.c). Called by vipd/client on set-up and by vipd/nic for every piece of every packet, so
 * the part of a region that registry_access reads is one cache line.
 */
#include "vipd/registry/registry.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/assert.h"
#include "vipd/engine/mutant.h"
#include "proto/siphash.h"
#include "vipd/registry/guard.h"
#include "vipd/registry/mapping.h"
#include "vipd/registry/undertaker.h"

/*
 * A handle is (generation << 16 | index). Generations run from 1 to 0xFFFE, so that neither 0 nor
 * 0xFFFFFFFF is ever a handle. The first generation of each slot is random, so a peer that does not
 * know the handle must guess one of 65534 values. The handle is no protection: VI, tag, rights and
 * bounds protect memory.
 */
#define INDEX_BITS     16
#define INDEX_MASK     ((1u << INDEX_BITS) - 1)
#define GENERATION_MAX 0xFFFEu
_Static_assert(VIP_REGION_MAX <= 1u << INDEX_BITS, "an index fits a handle");

/* Least number of free slots before the oldest free slot is used again. So a stale handle is valid
 * again only after FREE_SLOTS_MIN * GENERATION_MAX registrations. */
#define FREE_SLOTS_MIN 64

#define NO_SLOT UINT32_MAX

/* The part of a region that an access reads: exactly one cache line. */
struct slot {
    struct registry_region region;
    uint8_t *out;    /* the region's first byte as source: SEND, REMOTE_READ */
    uint8_t *in;     /* the region's first byte as target: RECV, REMOTE_WRITE */
    uint32_t handle; /* of a free slot: the result of free_handle, which no look-up can match */
};
_Static_assert(sizeof(struct slot) == 64, "one cache line");

/* The rest of a region. */
struct slot_rest {
    struct mapping *mapping; /* reference; NULL if the arena is mapped as a whole */
    uint32_t next_free;      /* next in the queue of free slots */
    uint16_t generation;     /* generation of the slot's last handle; at first random */
};

/* One protection tag; number = uses of this place so far * VIP_PTAG_MAX + index + 1. */
struct ptag {
    uint32_t number; /* 0 = free */
    uint32_t last;   /* last number of this place; 0: none */
    uint32_t users;  /* number of regions and VIs that carry the tag */
};

struct registry {
    struct slot *slots; /* [slot_room]; the first slot_count slots exist, used or free */
    struct slot_rest *rest;
    uint32_t slot_count, slot_room;
    struct guard guard; /* each access reads it, so it lies beside slots */
    uint32_t free_head, free_tail, free_count;
    struct registry_limits limits;
    struct registry_usage usage;
    struct mappings mappings;
    int arena_fd;                  /* the arena if each region maps its own part of it; else -1 */
    struct mapping *arena;         /* the whole arena, or NULL */
    struct mappings arena_account; /* counts the whole arena, which is not in `mappings` */
    struct ptag *ptags;            /* [limits.ptags_max] */
    uint32_t ptag_next;            /* index from which to look for a free tag */
};

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Let the undertaker close a file, because vipd may have the last reference. */
static void bury_fd(const struct registry *registry, int fd)
{
    undertaker_close(registry->limits.undertaker, registry->limits.owner, fd);
}

/* ---- life ------------------------------------------------------------------------------ */

/* Check and map the arena. On success, the registry keeps or closes arena_fd; on failure, the
 * caller still has it. */
static int open_arena(struct registry *registry, int arena_fd)
{
    struct mapping checked;
    const char *why;
    int rc = mapping_check_fd(arena_fd, &checked, &why);

    if (rc < 0)
        return rc;
    if (checked.bytes != VIP_ARENA_BYTES)
        return -EBADMSG;
    registry->arena = mapping_get(&registry->arena_account, &arena_fd, &checked, &why);
    /* If the whole arena cannot be mapped, each region maps its own part. */
    if (!registry->arena)
        registry->arena_fd = arena_fd;
    else if (arena_fd >= 0)
        close(arena_fd);
    return 0;
}

int registry_new(const struct registry_limits *limits, int arena_fd, struct registry **ret)
{
    struct registry *registry = calloc(1, sizeof(*registry));
    int rc = -ENOMEM;

    if (!registry)
        goto fail;
    registry->limits = *limits;
    if (registry->limits.regions_max > VIP_REGION_MAX)
        registry->limits.regions_max = VIP_REGION_MAX;
    if (registry->limits.ptags_max > VIP_PTAG_MAX)
        registry->limits.ptags_max = VIP_PTAG_MAX;
    registry->arena_fd = -1;
    registry->mappings.undertaker = limits->undertaker;
    registry->mappings.owner = limits->owner;
    registry->arena_account.undertaker = limits->undertaker;
    registry->arena_account.owner = limits->owner;
    registry->arena_account.arena = true;
    registry->mappings.guard = registry->arena_account.guard = &registry->guard;
    registry->mappings.taken = registry->arena_account.taken = limits->taken;
    registry->free_head = registry->free_tail = NO_SLOT;
    registry->ptags = calloc((size_t)registry->limits.ptags_max + 1, sizeof(struct ptag));
    if (!registry->ptags)
        goto fail;
    rc = open_arena(registry, arena_fd);
    if (rc < 0)
        goto fail;
    *ret = registry;
    return 0;
fail:
    if (registry)
        free(registry->ptags);
    free(registry);
    undertaker_close(limits->undertaker, limits->owner, arena_fd);
    return rc;
}

static bool slot_used(const struct registry *registry, uint32_t index)
{
    return (registry->slots[index].handle & INDEX_MASK) == index;
}

/* The handle of a free slot has another slot's index, so that it never equals a handle that is
 * looked up. */
static uint32_t free_handle(uint32_t index)
{
    return index ^ 1u;
}

void registry_unmap(const struct registry *registry, void *base, uint64_t bytes)
{
    undertaker_unmap(registry ? registry->limits.undertaker : NULL,
                     registry ? registry->limits.owner : 0, base, bytes, NULL);
}

/* Mappings whose release (five system calls each) costs as much as the end of a VI. */
#define MAPPINGS_PER_END 8u

bool registry_empty(struct registry *registry, unsigned *ends)
{
    unsigned left = *ends < UINT_MAX / MAPPINGS_PER_END ? *ends * MAPPINGS_PER_END : UINT_MAX;

    if (!registry)
        return true;
    registry->mappings.ending = true;
    for (; registry->slot_count > 0; registry->slot_count--) {
        uint32_t i = registry->slot_count - 1;

        if (!slot_used(registry, i) || !registry->rest[i].mapping)
            continue;
        if (!left) {
            *ends = 0;
            return false;
        }
        left--;
        mapping_put(&registry->mappings, registry->rest[i].mapping);
    }
    *ends = left / MAPPINGS_PER_END;
    return true;
}

void registry_free(struct registry *registry)
{
    unsigned all = UINT_MAX;

    if (!registry)
        return;
    (void)registry_empty(registry, &all);
    if (registry->arena)
        mapping_put(&registry->arena_account, registry->arena);
    VIP_ASSERT(registry->mappings.count == 0 && registry->arena_account.count == 0);
    bury_fd(registry, registry->arena_fd);
    free(registry->ptags);
    free(registry->slots);
    free(registry->rest);
    free(registry);
}

/* ---- slots ----------------------------------------------------------------------------- */

static bool slots_grow(struct registry *registry)
{
    uint32_t room = registry->slot_room ? 2 * registry->slot_room : 64;
    struct slot *slots;
    struct slot_rest *rest;

    slots = aligned_alloc(64, room * sizeof(*slots));
    if (!slots)
        return false;
    rest = realloc(registry->rest, room * sizeof(*rest));
    if (!rest) {
        free(slots);
        return false;
    }
    registry->rest = rest;
    if (registry->slot_count > 0)
        memcpy(slots, registry->slots, registry->slot_count * sizeof(*slots));
    free(registry->slots);
    registry->slots = slots;
    registry->slot_room = room;
    return true;
}

/* A random generation for a new slot. It does not reveal the generations of other slots. */
static uint16_t first_generation(const struct registry *registry, uint32_t index)
{
    struct siphash_key key = {registry->limits.handle_seed, 0};

    return (uint16_t)(1 + siphash(&key, &index, sizeof(index)) % GENERATION_MAX);
}

/* Make one more slot, which is not in the queue of free slots; NO_SLOT: no memory. */
static uint32_t slot_new(struct registry *registry)
{
    uint32_t index = registry->slot_count;

    if (index == registry->slot_room && !slots_grow(registry))
        return NO_SLOT;
    registry->slot_count++;
    registry->rest[index] = (struct slot_rest){
        .next_free = NO_SLOT,
        .generation = first_generation(registry, index),
    };
    registry->slots[index] = (struct slot){.handle = free_handle(index)};
    return index;
}

/* Take a free slot; NO_SLOT: no memory. The caller has checked the number of regions. */
static uint32_t slot_take(struct registry *registry)
{
    bool may_grow = registry->slot_count < registry->limits.regions_max;
    uint32_t index = NO_SLOT;

    if (may_grow && registry->free_count < FREE_SLOTS_MIN)
        index = slot_new(registry);
    if (index != NO_SLOT)
        return index;
    index = registry->free_head;
    if (index == NO_SLOT)
        return NO_SLOT;
    registry->free_head = registry->rest[index].next_free;
    if (registry->free_head == NO_SLOT)
        registry->free_tail = NO_SLOT;
    registry->free_count--;
    return index;
}

/* Put a slot behind the other free slots. */
static void slot_give(struct registry *registry, uint32_t index)
{
    registry->slots[index] = (struct slot){.handle = free_handle(index)};
    registry->rest[index].mapping = NULL;
    registry->rest[index].next_free = NO_SLOT;
    if (registry->free_tail == NO_SLOT)
        registry->free_head = index;
    else
        registry->rest[registry->free_tail].next_free = index;
    registry->free_tail = index;
    registry->free_count++;
}

/* Take this slot out of the queue of free slots. false: it is not there. */
static bool slot_pick(struct registry *registry, uint32_t index)
{
    uint32_t before = NO_SLOT, at = registry->free_head;

    for (; at != NO_SLOT && at != index; at = registry->rest[at].next_free)
        before = at;
    if (at == NO_SLOT)
        return false;
    if (before == NO_SLOT)
        registry->free_head = registry->rest[index].next_free;
    else
        registry->rest[before].next_free = registry->rest[index].next_free;
    if (registry->free_tail == index)
        registry->free_tail = before;
    registry->free_count--;
    return true;
}

/*
 * Take the slot that belongs to a handle from an earlier life of vipd. libvipl claims handles in
 * the order of their slots, so slot_pick is rare. Outcomes: SUCCESS; INVALID_PARAMETER;
 * ERROR_RESOURCE (no memory).
 */
static enum vip_rc slot_claim(struct registry *registry, uint32_t handle)
{
    uint32_t index = handle & INDEX_MASK, generation = handle >> INDEX_BITS;

    if (generation == 0 || generation > GENERATION_MAX || index >= registry->limits.regions_max)
        return VIP_RC_INVALID_PARAMETER;
    if (index < registry->slot_count)
        return slot_pick(registry, index) ? VIP_RC_SUCCESS : VIP_RC_INVALID_PARAMETER;
    while (registry->slot_count < index) {
        uint32_t between = slot_new(registry);

        if (between == NO_SLOT)
            return VIP_RC_ERROR_RESOURCE;
        slot_give(registry, between);
    }
    return slot_new(registry) == index ? VIP_RC_SUCCESS : VIP_RC_ERROR_RESOURCE;
}

static struct slot *slot_find(const struct registry *registry, uint32_t handle)
{
    uint32_t index = handle & INDEX_MASK;

    if (index >= registry->slot_count || registry->slots[index].handle != handle)
        return NULL;
    return &registry->slots[index];
}

/* ---- registration ---------------------------------------------------------------------- */

/* The mapping of a new region, and its first byte as source (out) and target (in). */
struct place {
    struct mapping *mapping;
    uint8_t *out, *in;
};

/* Find the place of an ADOPTED region in the arena. The caller has checked its range. */
static enum vip_rc place_adopted(struct registry *registry, const struct registry_region *region,
                                 struct place *ret, const char **why)
{
    uint64_t first = region->offset & ~(page_bytes() - 1);

    if (registry->arena) {
        ret->out = ret->in = registry->arena->base + region->offset;
        return VIP_RC_SUCCESS;
    }
    ret->mapping = mapping_get_part(&registry->mappings, registry->arena_fd, first,
                                    region->offset - first + region->bytes, why);
    if (!ret->mapping)
        return VIP_RC_ERROR_RESOURCE;
    ret->out = ret->in = ret->mapping->base + (region->offset - first);
    return VIP_RC_SUCCESS;
}

/* Find the place of a region in its memfd. SHARED: out and in are the same range. STAGED: the memfd
 * has two halves of whole pages, out and in. */
static enum vip_rc place_file(struct registry *registry, const struct registry_region *region,
                              int *fd, struct place *ret, const char **why)
{
    bool staged = region->kind == REGISTRY_STAGED;
    struct mapping checked;
    uint64_t half;

    if (mapping_check_fd(*fd, &checked, why) < 0)
        return VIP_RC_INVALID_PARAMETER;
    half = staged ? checked.bytes / 2 : checked.bytes;
    if (staged && checked.bytes % (2 * page_bytes()) != 0) {
        *why = "the staging memfd does not consist of two halves of whole pages";
        return VIP_RC_INVALID_PARAMETER;
    }
    if (region->offset > half || region->bytes > half - region->offset) {
        *why = "the region does not lie inside its memfd";
        return VIP_RC_INVALID_PARAMETER;
    }
    ret->mapping = mapping_get(&registry->mappings, fd, &checked, why);
    if (!ret->mapping)
        return VIP_RC_ERROR_RESOURCE;
    ret->out = ret->mapping->base + region->offset;
    ret->in = ret->out + (staged ? half : 0);
    return VIP_RC_SUCCESS;
}

/* All checks of a region that do not need its memory. */
static enum vip_rc check_region(const struct registry *registry,
                                const struct registry_region *region, int fd, const char **why)
{
    const struct registry_limits *limits = &registry->limits;

    *why = "the region is empty or its address wraps";
    if (region->bytes == 0 || region->bytes > UINT64_MAX - region->addr)
        return VIP_RC_INVALID_PARAMETER;
    *why = "the kind of memory does not fit the descriptors passed";
    if (region->kind == REGISTRY_ADOPTED ? fd >= 0 : fd < 0)
        return VIP_RC_INVALID_PARAMETER;
    *why = "the protection tag is not one of this NIC handle";
    if (!registry_ptag_valid(registry, region->attrs.ptag))
        return VIP_RC_INVALID_PTAG;
    *why = "the region is longer than MaxRegisterBlockBytes";
    if (region->bytes > VIP_REGION_BYTES_MAX)
        return VIP_RC_ERROR_RESOURCE;
    *why = "too many registered regions (MaxRegisterRegions)";
    if (registry->usage.regions >= limits->regions_max)
        return VIP_RC_ERROR_RESOURCE;
    *why = "too many registered bytes (MaxRegisterBytes)";
    if (registry->usage.bytes > limits->bytes_max ||
        region->bytes > limits->bytes_max - registry->usage.bytes)
        return VIP_RC_ERROR_RESOURCE;
    *why = "the region does not lie inside the arena";
    if (region->kind == REGISTRY_ADOPTED &&
        (region->offset > VIP_ARENA_BYTES || region->bytes > VIP_ARENA_BYTES - region->offset))
        return VIP_RC_INVALID_PARAMETER;
    return VIP_RC_SUCCESS;
}

static enum vip_rc place_region(struct registry *registry, const struct registry_region *region,
                                int *fd, struct place *ret, const char **why)
{
    switch (region->kind) {
    case REGISTRY_ADOPTED:
        return place_adopted(registry, region, ret, why);
    case REGISTRY_SHARED:
    case REGISTRY_STAGED:
        return place_file(registry, region, fd, ret, why);
    }
    /* A program may send any number as the region's kind. */
    *why = "unknown kind of memory";
    return VIP_RC_INVALID_PARAMETER;
}

/* Enter a region into the slot of its handle. */
static void slot_fill(struct registry *registry, uint32_t handle,
                      const struct registry_region *region, const struct place *place)
{
    uint32_t index = handle & INDEX_MASK;

    registry->rest[index].generation = (uint16_t)(handle >> INDEX_BITS);
    registry->rest[index].mapping = place->mapping;
    registry->slots[index] =
        (struct slot){.region = *region, .out = place->out, .in = place->in, .handle = handle};
    registry_ptag_use(registry, region->attrs.ptag, 1);
    registry->usage.regions++;
    registry->usage.staged += region->kind == REGISTRY_STAGED;
    registry->usage.bytes += region->bytes;
    registry->usage.held_bytes += registry_held_bytes(region);
}

/* A slot for a new region, and its handle. Outcomes: SUCCESS; ERROR_RESOURCE. */
static enum vip_rc handle_new(struct registry *registry, uint32_t *ret)
{
    uint32_t index = slot_take(registry), generation;

    if (index == NO_SLOT)
        return VIP_RC_ERROR_RESOURCE;
    generation = registry->rest[index].generation;
    generation = generation < GENERATION_MAX ? generation + 1 : 1;
    *ret = generation << INDEX_BITS | index;
    return VIP_RC_SUCCESS;
}

/* Add a region. want: its handle in an earlier life of vipd; 0: a new handle. */
static enum vip_rc add(struct registry *registry, const struct registry_region *region, int fd,
                       uint32_t want, uint32_t *ret_handle, const char **why)
{
    struct place place = {0};
    enum vip_rc rc = check_region(registry, region, fd, why);
    uint32_t handle = want;

    if (rc == VIP_RC_SUCCESS)
        rc = place_region(registry, region, &fd, &place, why);
    /* Let the undertaker close a refused file, because vipd may have the last reference. */
    if (rc != VIP_RC_SUCCESS) {
        bury_fd(registry, fd);
        return rc;
    }
    if (fd >= 0)
        close(fd);
    rc = want ? slot_claim(registry, want) : handle_new(registry, &handle);
    if (rc == VIP_RC_SUCCESS) {
        slot_fill(registry, handle, region, &place);
        *ret_handle = handle;
        return VIP_RC_SUCCESS;
    }
    if (place.mapping)
        mapping_put(&registry->mappings, place.mapping);
    *why = rc == VIP_RC_ERROR_RESOURCE
               ? "vipd is out of memory"
               : "the handle is in use, is no handle, or is above the limit of [limits] "
                 "register_regions";
    return rc;
}

enum vip_rc registry_add(struct registry *registry, const struct registry_region *region, int fd,
                         uint32_t *ret_handle, char *why, size_t why_bytes)
{
    const char *sentence = "";
    enum vip_rc rc = add(registry, region, fd, 0, ret_handle, &sentence);

    if (rc != VIP_RC_SUCCESS && why && why_bytes > 0)
        snprintf(why, why_bytes, "%s", sentence);
    return rc;
}

enum vip_rc registry_restore(struct registry *registry, const struct registry_region *region,
                             int fd, uint32_t handle, char *why, size_t why_bytes)
{
    const char *sentence = "";
    enum vip_rc rc = add(registry, region, fd, handle ? handle : UINT32_MAX, &handle, &sentence);

    if (rc != VIP_RC_SUCCESS && why && why_bytes > 0)
        snprintf(why, why_bytes, "%s", sentence);
    return rc;
}

enum vip_rc registry_remove(struct registry *registry, uint32_t handle, uint64_t addr)
{
    struct slot *slot = slot_find(registry, handle);
    uint32_t index = handle & INDEX_MASK;

    if (!slot || slot->region.addr != addr)
        return VIP_RC_INVALID_PARAMETER;
    registry_ptag_use(registry, slot->region.attrs.ptag, -1);
    VIP_ASSERT(registry->usage.regions > 0 && registry->usage.bytes >= slot->region.bytes);
    registry->usage.regions--;
    registry->usage.staged -= slot->region.kind == REGISTRY_STAGED;
    registry->usage.bytes -= slot->region.bytes;
    registry->usage.held_bytes -= registry_held_bytes(&slot->region);
    if (registry->rest[index].mapping)
        mapping_put(&registry->mappings, registry->rest[index].mapping);
    slot_give(registry, index);
    return VIP_RC_SUCCESS;
}

enum vip_rc registry_set_attrs(struct registry *registry, uint32_t handle, uint64_t addr,
                               const struct registry_attrs *attrs)
{
    struct slot *slot = slot_find(registry, handle);

    if (!slot || slot->region.addr != addr)
        return VIP_RC_INVALID_PARAMETER;
    if (!registry_ptag_valid(registry, attrs->ptag))
        return VIP_RC_INVALID_PTAG;
    registry_ptag_use(registry, slot->region.attrs.ptag, -1);
    registry_ptag_use(registry, attrs->ptag, 1);
    slot->region.attrs = *attrs;
    return VIP_RC_SUCCESS;
}

const struct registry_region *registry_get(const struct registry *registry, uint32_t handle)
{
    const struct slot *slot = slot_find(registry, handle);

    return slot ? &slot->region : NULL;
}

/* ---- protection tags ------------------------------------------------------------------- */

static struct ptag *ptag_find(const struct registry *registry, uint32_t number)
{
    uint32_t index = (number - 1) % VIP_PTAG_MAX;

    if (number == 0 || index >= registry->limits.ptags_max ||
        registry->ptags[index].number != number)
        return NULL;
    return &registry->ptags[index];
}

enum vip_rc registry_ptag_create(struct registry *registry, uint32_t *ret_ptag)
{
    uint32_t max = registry->limits.ptags_max;

    for (uint32_t i = 0; i < max; i++) {
        uint32_t index = (registry->ptag_next + i) % max;
        struct ptag *ptag = &registry->ptags[index];

        if (ptag->number != 0)
            continue;
        /* Each tag in this place gets a new number, so the number of a destroyed tag is invalid. */
        if (ptag->last == 0 || ptag->last > UINT32_MAX - VIP_PTAG_MAX)
            ptag->number = index + 1;
        else
            ptag->number = ptag->last + VIP_PTAG_MAX;
        ptag->last = ptag->number;
        registry->ptag_next = index + 1;
        registry->usage.ptags++;
        *ret_ptag = ptag->number;
        return VIP_RC_SUCCESS;
    }
    return VIP_RC_ERROR_RESOURCE;
}

enum vip_rc registry_ptag_restore(struct registry *registry, uint32_t number)
{
    uint32_t index = (number - 1) % VIP_PTAG_MAX;
    struct ptag *ptag = &registry->ptags[index];

    if (number == 0 || index >= registry->limits.ptags_max || ptag->number != 0)
        return VIP_RC_INVALID_PARAMETER;
    ptag->number = ptag->last = number;
    registry->usage.ptags++;
    return VIP_RC_SUCCESS;
}

enum vip_rc registry_ptag_destroy(struct registry *registry, uint32_t number)
{
    struct ptag *ptag = ptag_find(registry, number);

    if (!ptag)
        return VIP_RC_INVALID_PARAMETER;
    if (ptag->users > 0)
        return VIP_RC_ERROR_RESOURCE;
    ptag->number = 0;
    VIP_ASSERT(registry->usage.ptags > 0);
    registry->usage.ptags--;
    return VIP_RC_SUCCESS;
}

void registry_ptags_each(const struct registry *registry,
                         void (*visit)(void *ctx, uint32_t ptag, uint32_t users), void *ctx)
{
    for (uint32_t i = 0; i < registry->limits.ptags_max; i++)
        if (registry->ptags[i].number != 0)
            visit(ctx, registry->ptags[i].number, registry->ptags[i].users);
}

bool registry_ptag_valid(const struct registry *registry, uint32_t ptag)
{
    return ptag == 0 || ptag_find(registry, ptag);
}

void registry_ptag_use(struct registry *registry, uint32_t number, int delta)
{
    struct ptag *ptag;

    if (number == 0)
        return;
    ptag = ptag_find(registry, number);
    /* Callers use only valid tags, and a tag in use cannot be destroyed. */
    VIP_ASSERT(ptag && (delta >= 0 || ptag->users >= (uint32_t)-delta));
    ptag->users += (uint32_t)delta;
}

/* ---- access ---------------------------------------------------------------------------- */

void *registry_access(struct registry *registry, const struct registry_vi *vi,
                      const struct eng_access *access, bool *ret_staged)
{
    const struct slot *slot;
    uint64_t offset;
    uint8_t *base;

    if (ret_staged)
        *ret_staged = false;
    if (guard_faulted(&registry->guard))
        return NULL;
    slot = slot_find(registry, access->handle);
    if (!slot)
        return NULL;
    /* Below the region, `offset` becomes very large. Zero bytes fit into any region. */
    offset = access->len ? access->addr - slot->region.addr : 0;
    if (offset >= slot->region.bytes ||
        access->len > slot->region.bytes - offset + VIP_MUTANT(BOUNDS))
        return NULL;
    /* Spec 3.5: the tags must be equal, but no tag (0), on either side, matches every tag. */
    if (vi->ptag != slot->region.attrs.ptag && vi->ptag != 0 && slot->region.attrs.ptag != 0 &&
        !VIP_MUTANT(PTAG))
        return NULL;
    base = slot->out;
    switch (access->kind) {
    case ENG_ACCESS_SEND:
        break;
    case ENG_ACCESS_RECV:
        base = slot->in;
        break;
    case ENG_ACCESS_REMOTE_WRITE:
        if (!vi->enable_rdma_write ||
            (!slot->region.attrs.enable_rdma_write && !VIP_MUTANT(RIGHTS)))
            return NULL;
        base = slot->in;
        break;
    case ENG_ACCESS_REMOTE_READ:
        if (!vi->enable_rdma_read || !slot->region.attrs.enable_rdma_read)
            return NULL;
        break;
    }
    if (ret_staged)
        *ret_staged = slot->region.kind == REGISTRY_STAGED;
    return base + offset;
}

/* ---- looking inside -------------------------------------------------------------------- */

void registry_each(const struct registry *registry, registry_visit *visit, void *ctx)
{
    for (uint32_t i = 0; i < registry->slot_count; i++)
        if (slot_used(registry, i))
            visit(ctx, registry->slots[i].handle, &registry->slots[i].region);
}

void registry_set_mapping_room(struct registry *registry, uint64_t bytes, uint64_t files)
{
    struct mappings *all = &registry->mappings;

    all->limited = true;
    all->bytes_max = all->bytes + bytes;
    all->count_max = all->count + files;
}

uint64_t registry_held_bytes(const struct registry_region *region)
{
    uint64_t page = page_bytes(), first = region->offset & ~(page - 1), end, held;

    if (__builtin_add_overflow(region->offset, region->bytes, &end) ||
        __builtin_add_overflow(end, page - 1, &end))
        return 0;
    held = (end & ~(page - 1)) - first;
    return region->kind == REGISTRY_STAGED ? 2 * held : held;
}

uint64_t registry_taken(const struct registry *registry)
{
    return mappings_taken(&registry->mappings) + mappings_taken(&registry->arena_account);
}

struct guard *registry_guard(struct registry *registry)
{
    return &registry->guard;
}

void registry_usage(const struct registry *registry, struct registry_usage *ret)
{
    *ret = registry->usage;
    ret->mapped_bytes = registry->mappings.bytes;
    ret->mapped_files = registry->mappings.count;
}
