/*
 * Registered memory and protection tags of one session, and the only way to reach an application's
 * bytes: registry_access. Every access checks handle (index + generation), protection tag, rights
 * and bounds with overflow-safe arithmetic.
 *
 * Owns: the region table, mappings of the session's arena and memfds, checks of seals and sizes of
 * the files that the application passed. Does not own: requests (vipd/client/), when to copy
 * (vipd/nic).
 */
#ifndef VIPD_REGISTRY_REGISTRY_H
#define VIPD_REGISTRY_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/status.h"
#include "vipd/engine/engine.h"

struct guard;
struct registry;
struct taken;
struct undertaker;

/* Kinds of memory, with the numbers of MemKind in proto/control.proto. */
enum registry_kind {
    REGISTRY_SHARED = 1,
    REGISTRY_ADOPTED = 2,
    REGISTRY_STAGED = 3,
};

struct registry_attrs {
    uint32_t ptag; /* 0: no tag, which matches every tag of the session */
    bool enable_rdma_write, enable_rdma_read;
};

struct registry_region {
    uint64_t addr, bytes;
    enum registry_kind kind;
    struct registry_attrs attrs;
    uint64_t offset; /* offset of the region's first byte in the arena or memfd */
};

struct registry_limits {
    uint32_t regions_max;
    uint64_t bytes_max; /* sum of registered bytes of the session */
    uint32_t ptags_max;
    uint64_t handle_seed;          /* random; the first generation of each handle depends on it */
    struct undertaker *undertaker; /* frees memory; NULL: the caller's thread frees it */
    uint32_t owner;                /* uid for which the memory counts until it is freed */
    struct taken *taken; /* counts the memory of the files for uid `owner`; NULL: not counted */
};

/* Set how many more bytes and files may be mapped for regions from now on. mapping.h has more
 * limits. */
void registry_set_mapping_room(struct registry *registry, uint64_t bytes, uint64_t files);

/*
 * arena_fd: the session's arena (seals SHRINK|GROW, size VIP_ARENA_BYTES); the registry closes it.
 * Outcomes: 0; -EBADMSG: wrong seals, size or file type; -ENOMEM.
 */
int registry_new(const struct registry_limits *limits, int arena_fd, struct registry **ret);
void registry_free(struct registry *registry);
/*
 * The session ends: release the memory of its regions, at most 8 mappings for each of *ends, and
 * reduce *ends. true: no region is left; false: *ends is 0, and the caller must call this function
 * again later. NULL is harmless.
 */
bool registry_empty(struct registry *registry, unsigned *ends);
/* Let the undertaker unmap memory of this session that is no region. If registry is NULL, unmap the
 * memory now. base NULL is harmless. */
void registry_unmap(const struct registry *registry, void *base, uint64_t bytes);

/*
 * Register a region. fd: memfd of SHARED and STAGED, which the registry closes; -1 for ADOPTED.
 * Outcomes: VIP_RC_SUCCESS and *ret_handle (never 0 or 0xFFFFFFFF); VIP_RC_ERROR_RESOURCE,
 * VIP_RC_INVALID_PARAMETER or VIP_RC_INVALID_PTAG, with a sentence in why.
 */
enum vip_rc registry_add(struct registry *registry, const struct registry_region *region, int fd,
                         uint32_t *ret_handle, char *why, size_t why_bytes);
/* As registry_add, for a region that had this handle in an earlier life of vipd. One more reason
 * for VIP_RC_INVALID_PARAMETER: the number is in use, is not a valid handle, or is above the
 * limit. */
enum vip_rc registry_restore(struct registry *registry, const struct registry_region *region,
                             int fd, uint32_t handle, char *why, size_t why_bytes);
/* Outcomes: SUCCESS; INVALID_PARAMETER: unknown handle, or addr is not the registered address;
 * INVALID_PTAG: there is no protection tag attrs->ptag. */
enum vip_rc registry_remove(struct registry *registry, uint32_t handle, uint64_t addr);
enum vip_rc registry_set_attrs(struct registry *registry, uint32_t handle, uint64_t addr,
                               const struct registry_attrs *attrs);
/* Find a region. The result is valid until the table changes; NULL: the handle is unknown. */
const struct registry_region *registry_get(const struct registry *registry, uint32_t handle);

/* Protection tags are numbers > 0. Outcomes of create: SUCCESS; ERROR_RESOURCE: there are ptags_max
 * tags. Outcomes of destroy: SUCCESS; INVALID_PARAMETER: no such tag; ERROR_RESOURCE: the tag is in
 * use. */
enum vip_rc registry_ptag_create(struct registry *registry, uint32_t *ret_ptag);
/* Create a tag with its number from an earlier life of vipd. Outcomes: SUCCESS; INVALID_PARAMETER:
 * the number is not valid for a tag, or its place is in use. */
enum vip_rc registry_ptag_restore(struct registry *registry, uint32_t ptag);
enum vip_rc registry_ptag_destroy(struct registry *registry, uint32_t ptag);
bool registry_ptag_valid(const struct registry *registry, uint32_t ptag); /* 0 (no tag) is valid */
/* delta: 1: a VI begins to use the tag; -1: a VI stops using the tag. */
void registry_ptag_use(struct registry *registry, uint32_t ptag, int delta);

/* Attributes of the VI that makes an access. */
struct registry_vi {
    uint32_t ptag;
    bool enable_rdma_write, enable_rdma_read;
};

/*
 * Check an access. Returns a pointer to access->len bytes in vipd's mapping; NULL: the access is
 * not allowed, or a page of the session is missing. *ret_staged (may be NULL): the region is
 * staged, so libvipl must place incoming RDMA. If access->len is 0, the address is not checked, but
 * handle, tag and rights are.
 */
void *registry_access(struct registry *registry, const struct registry_vi *vi,
                      const struct eng_access *access, bool *ret_staged);

/* For views: registry_each calls visit for every region. */
typedef void registry_visit(void *ctx, uint32_t handle, const struct registry_region *region);
void registry_each(const struct registry *registry, registry_visit *visit, void *ctx);

/* For views: call visit for every tag. users: number of regions and VIs that carry the tag. */
void registry_ptags_each(const struct registry *registry,
                         void (*visit)(void *ctx, uint32_t ptag, uint32_t users), void *ctx);

struct registry_usage {
    uint32_t regions, ptags;
    uint32_t staged; /* number of staged regions */
    uint64_t bytes;
    uint64_t held_bytes; /* the pages that can exist: `bytes` in whole pages, twice if staged */
    /* size of mapped files of regions; a wholly mapped arena does not count */
    uint64_t mapped_bytes;
    uint32_t mapped_files;
};
void registry_usage(const struct registry *registry, struct registry_usage *ret);

/* What a region adds to held_bytes. 0: its offset and size overflow; registry_add refuses it. */
uint64_t registry_held_bytes(const struct registry_region *region);

/* Memory of the session's files, with the arena, as last measured (taken.h). */
uint64_t registry_taken(const struct registry *registry);

/*
 * The owner (guard.h) of all memory that vipd shares with this session, also for mappings that the
 * registry does not make. Once a page of this memory was missing, registry_access allows no access.
 */
struct guard *registry_guard(struct registry *registry);

#endif
