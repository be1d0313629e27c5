/*
 * The cache of registered memory from which long messages are sent. Registering takes longer than
 * sending some tens of kilobytes, and programs often send from the same addresses.
 *
 * A program may unmap registered memory and get other memory at the same address. The registration
 * still belongs to the old pages then. So before each use the library asks the kernel for the
 * mappings at this address (ioctl PROCMAP_QUERY, since Linux 6.11, takes a microsecond). If the
 * ioctl does not work, the library registers memory anew for each message.
 */
#include "am/internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Maximum number of ranges in the cache. */
#define REGIONS 32

/* Byte limit of the cache, because registered pages stay in memory. Ranges in use may exceed it. */
#define REGION_BYTES_MAX ((size_t)64 << 20)

#define PAGE 4096u

/* The kernel's struct procmap_query, which the headers of older systems do not have. */
struct map_query {
    uint64_t size, flags, addr;
    uint64_t start, end, vma_flags, page_size, offset;
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint32_t name_size, build_id_size;
    uint64_t name_addr, build_id_addr;
};
#define MAP_QUERY _IOWR('f', 17, struct map_query)

/* A hash of the mappings of a range. If the hash has changed, the range has other pages. */
struct identity {
    uint64_t hash;
};

struct am_region {
    uintptr_t at;
    size_t len; /* 0: the entry is free */
    VIP_MEM_HANDLE mem;
    struct identity identity;
    unsigned pins;
    uint64_t used; /* value of cache.stamp at the last use */
    bool stale;    /* do not use again; deregister when pins is 0 */
};

static struct {
    pthread_mutex_t lock;
    struct am_region region[REGIONS];
    uint64_t stamp;
    int maps_fd; /* -1: not opened yet, -2: PROCMAP_QUERY does not work */
    pid_t pid;   /* the process that opened maps_fd */
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER, .maps_fd = -1};

static bool ask_kernel(uintptr_t at, struct map_query *query)
{
    memset(query, 0, sizeof(*query));
    query->size = sizeof(*query);
    query->addr = at;
    return ioctl(cache.maps_fd, MAP_QUERY, query) == 0;
}

/* Hash a range's mappings. false: PROCMAP_QUERY does not work, or a part is not mapped. */
static bool identify(uintptr_t at, size_t len, struct identity *ret)
{
    uintptr_t end = at + len;
    struct map_query query;
    uint64_t hash = 14695981039346656037u;

    if (cache.maps_fd == -1 || (cache.maps_fd >= 0 && cache.pid != getpid())) {
        cache.maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        cache.pid = getpid();
        if (cache.maps_fd < 0 || !ask_kernel(at, &query))
            cache.maps_fd = -2;
    }
    if (cache.maps_fd < 0)
        return false;
    while (at < end) {
        if (!ask_kernel(at, &query))
            return false;
        /* Hash the file of this mapping and the file's offset at this address. */
        hash = (hash ^ query.inode) * 1099511628211u;
        hash = (hash ^ ((uint64_t)query.dev_major << 32 | query.dev_minor)) * 1099511628211u;
        if (query.inode != 0)
            hash = (hash ^ (query.offset + (at - query.start))) * 1099511628211u;
        at = query.end;
    }
    ret->hash = hash;
    return true;
}

/* Under cache.lock. */
static void give_back(struct am_region *region)
{
    (void)VipDeregisterMem(am_net.nic, (void *)region->at, region->mem);
    region->len = 0;
}

static void drop(struct am_region *region)
{
    region->stale = true;
    if (region->pins == 0)
        give_back(region);
}

static struct am_region *find(uintptr_t at, size_t len)
{
    for (unsigned i = 0; i < REGIONS; i++) {
        struct am_region *region = &cache.region[i];
        struct identity now;

        if (region->len == 0 || region->stale || at < region->at ||
            at + len > region->at + region->len)
            continue;
        if (identify(region->at, region->len, &now) && now.hash == region->identity.hash)
            return region;
        drop(region);
    }
    return NULL;
}

/* Find a free entry for a region of len bytes. Free the least recently used regions until there is
 * room. NULL: all entries are in use. */
static struct am_region *make_room(size_t len)
{
    for (;;) {
        struct am_region *oldest = NULL, *empty = NULL;
        size_t bytes = len;

        for (unsigned i = 0; i < REGIONS; i++) {
            struct am_region *region = &cache.region[i];

            bytes += region->len;
            if (region->len == 0)
                empty = region;
            else if (region->pins == 0 && (oldest == NULL || region->used < oldest->used))
                oldest = region;
        }
        if (empty != NULL && (bytes <= REGION_BYTES_MAX || oldest == NULL))
            return empty;
        if (oldest == NULL)
            return NULL;
        give_back(oldest);
    }
}

static struct am_region *add(uintptr_t at, size_t len)
{
    VIP_MEM_ATTRIBUTES attrs = {.Ptag = am_net.ptag};
    uintptr_t from = at / PAGE * PAGE, to = (at + len + PAGE - 1) / PAGE * PAGE;
    struct am_region *region = make_room(to - from);

    if (region == NULL)
        return NULL;
    *region = (struct am_region){.at = from, .len = to - from};
    /* Register whole pages, so that later messages from the same pages can use the region. If that
     * fails, register only the bytes of this message. */
    if (VipRegisterMem(am_net.nic, (void *)from, region->len, &attrs, &region->mem) !=
        VIP_SUCCESS) {
        region->at = at;
        region->len = len;
        if (VipRegisterMem(am_net.nic, (void *)at, len, &attrs, &region->mem) != VIP_SUCCESS) {
            region->len = 0;
            return NULL;
        }
    }
    region->stale = !identify(region->at, region->len, &region->identity);
    return region;
}

struct am_region *am_region_get(const void *from, size_t len, VIP_MEM_HANDLE *ret)
{
    uintptr_t at = (uintptr_t)from;
    struct am_region *region;

    pthread_mutex_lock(&cache.lock);
    region = find(at, len);
    if (region != NULL)
        am_net.counts.regions_found++;
    else if ((region = add(at, len)) != NULL)
        am_net.counts.regions_new++;
    if (region != NULL) {
        region->pins++;
        region->used = ++cache.stamp;
        *ret = region->mem;
    }
    pthread_mutex_unlock(&cache.lock);
    return region;
}

void am_region_put(struct am_region *region)
{
    if (region == NULL)
        return;
    pthread_mutex_lock(&cache.lock);
    if (--region->pins == 0 && region->stale)
        give_back(region);
    pthread_mutex_unlock(&cache.lock);
}

void am_region_flush(void)
{
    pthread_mutex_lock(&cache.lock);
    for (unsigned i = 0; i < REGIONS; i++)
        if (cache.region[i].len != 0)
            drop(&cache.region[i]);
    if (cache.maps_fd >= 0)
        close(cache.maps_fd);
    cache.maps_fd = -1;
    pthread_mutex_unlock(&cache.lock);
}
