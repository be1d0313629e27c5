/*
 * Mappings of an application's files (vipd/registry/mapping.h).
 *
 * Called on set-up only, from registry.c. The descriptor that a program passes may be any kind of
 * file that the program can open; the checks must hold against all kinds.
 */
#include "vipd/registry/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "proto/assert.h"
#include "vipd/registry/guard.h"
#include "vipd/registry/memfile.h"
#include "vipd/registry/taken.h"
#include "vipd/registry/undertaker.h"

int mapping_check_fd(int fd, struct mapping *ret, const char **why)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    /*
     * Read the seals before the size, because a file with these seals keeps its size. Also read the
     * seals before other calls, which may block for ever on a file without seals (FUSE, NFS).
     */
    int seals = flags < 0 ? -1 : fcntl(fd, F_GET_SEALS);

    if (seals < 0 || fstat(fd, &st) < 0) {
        *why = "the descriptor passed for memory is not a memfd";
        return -EBADMSG;
    }
    /* Refuse files of huge pages and of other file systems, where pages are missing more often. */
    if (!memfile_is_like(fd, &st)) {
        *why = "the descriptor passed for memory is not a memfd of ordinary pages";
        return -EBADMSG;
    }
    if ((flags & O_ACCMODE) != O_RDWR || (flags & O_PATH)) {
        *why = "the memfd is not open for reading and writing";
        return -EBADMSG;
    }
    /* F_GET_SEALS succeeds for a plain tmpfs file, too, but without these two bits. */
    if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW)) {
        *why = "the memfd lacks the SHRINK and GROW seals";
        return -EBADMSG;
    }
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) {
        *why = "the memfd is sealed against writing";
        return -EBADMSG;
    }
    if (memfile_protects() && !memfile_is_protected(fd)) {
        *why = "the memfd is not one that vipd made (MakeMemory): the program could hold vipd by "
               "punching holes into it";
        return -EBADMSG;
    }
    if (st.st_size <= 0) {
        *why = "the memfd is empty";
        return -EBADMSG;
    }
    *ret = (struct mapping){.dev = st.st_dev,
                            .ino = st.st_ino,
                            .bytes = (uint64_t)st.st_size,
                            .pages_bytes = (uint64_t)st.st_blocks * TAKEN_BLOCK_BYTES};
    return 0;
}

static struct mapping **bucket_of(struct mappings *all, ino_t ino)
{
    return &all->bucket[(uint64_t)ino % MAPPING_BUCKETS];
}

/* Map a file and enter the mapping into its bucket. `like` has dev, ino and bytes. fd: as in
 * mapping_get. */
static struct mapping *map_new(struct mappings *all, int *fd, uint64_t offset,
                               const struct mapping *like, const char **why)
{
    struct mapping **bucket = bucket_of(all, like->ino);
    struct mapping *mapping;
    void *base;

    if (all->count >= MAPPING_FILES_MAX) {
        *why = "too many memory files of this session are mapped";
        errno = EMFILE;
        return NULL;
    }
    if (like->bytes > MAPPING_BYTES_MAX - all->bytes) {
        *why = "the memory files of this session take too much address space";
        errno = ENOMEM;
        return NULL;
    }
    if (all->limited && all->count >= all->count_max) {
        *why =
            "too many memory files of this user are mapped, or were and are being freed ([limits] "
            "mapped_files_per_uid)";
        errno = EMFILE;
        return NULL;
    }
    if (all->limited &&
        (all->bytes > all->bytes_max || like->bytes > all->bytes_max - all->bytes)) {
        *why = "the memory files of this user, with those being freed, take too much address space "
               "([limits] mapped_bytes_per_uid)";
        errno = ENOMEM;
        return NULL;
    }
    mapping = malloc(sizeof(*mapping));
    if (!mapping) {
        *why = "vipd is out of memory";
        errno = ENOMEM;
        return NULL;
    }
    *mapping = *like;
    base = memfile_map(*fd, like->bytes, (off_t)offset, true);
    if (!base) {
        free(mapping);
        *why = "the kernel refused to map the memory";
        return NULL;
    }
    if (like->ino)
        mapping->taken =
            taken_get(all->taken, all->owner, fd, like->dev, like->ino, like->pages_bytes);
    if (like->ino && all->taken && !mapping->taken) {
        munmap(base, like->bytes);
        free(mapping);
        *why = "vipd is out of memory";
        errno = ENOMEM;
        return NULL;
    }
    mapping->guard = guard_add(all->guard, base, like->bytes);
    mapping->base = base;
    mapping->refs = 1;
    mapping->next = *bucket;
    *bucket = mapping;
    all->count++;
    all->bytes += mapping->bytes;
    return mapping;
}

struct mapping *mapping_get(struct mappings *all, int *fd, const struct mapping *checked,
                            const char **why)
{
    for (struct mapping *m = *bucket_of(all, checked->ino); m; m = m->next) {
        if (m->ino != checked->ino || m->dev != checked->dev || m->ino == 0)
            continue;
        /*
         * A mapped file keeps its inode number. But before Linux 5.9 inode numbers of memfds have
         * 32 bits, so two files may have the same number. If the sizes differ, these are two files.
         */
        if (m->bytes != checked->bytes) {
            *why = "another memfd of this session has the same inode number: make a new one";
            errno = EBADMSG;
            return NULL;
        }
        m->refs++;
        return m;
    }
    return map_new(all, fd, 0, checked, why);
}

struct mapping *mapping_get_part(struct mappings *all, int fd, uint64_t offset, uint64_t bytes,
                                 const char **why)
{
    return map_new(all, &fd, offset, &(struct mapping){.bytes = bytes}, why);
}

static bool is_small(struct mappings *all, uint64_t bytes)
{
    uint64_t cost = bytes > MAPPING_COST_BYTES ? bytes : MAPPING_COST_BYTES;

    if (cost > MAPPING_SMALL_BYTES - all->small_bytes)
        return false;
    if (all->ending)
        all->small_bytes += cost;
    return true;
}

/* Unmap a small mapping at once; let the undertaker unmap any other mapping. pages_bytes: memory
 * that the file takes. The mapping does not have more pages. */
static void unmap(struct mappings *all, const struct mapping *mapping, uint64_t pages_bytes)
{
    struct undertaker_share share = {.bytes = mapping->bytes, .files = 1};

    if (all->arena)
        share = (struct undertaker_share){.sessions = 1};
    if (is_small(all, mapping->bytes))
        munmap(mapping->base, mapping->bytes);
    else
        undertaker_unmap_sparse(all->undertaker, all->owner, mapping->base, mapping->bytes,
                                pages_bytes, &share);
}

void mapping_put(struct mappings *all, struct mapping *mapping)
{
    struct mapping **at;
    uint64_t pages_bytes;

    VIP_ASSERT(mapping->refs > 0);
    if (--mapping->refs > 0)
        return;
    at = bucket_of(all, mapping->ino);
    while (*at != mapping)
        at = &(*at)->next;
    *at = mapping->next;
    VIP_ASSERT(all->count > 0 && all->bytes >= mapping->bytes);
    all->count--;
    all->bytes -= mapping->bytes;
    guard_remove(mapping->guard);
    /* Call this before unmapping: the mapping still keeps the file, so the call frees no page. */
    pages_bytes = taken_put(all->taken, mapping->taken);
    unmap(all, mapping, pages_bytes);
    free(mapping);
}

uint64_t mappings_taken(const struct mappings *all)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < MAPPING_BUCKETS; i++)
        for (const struct mapping *m = all->bucket[i]; m; m = m->next)
            bytes += taken_file_bytes(m->taken);
    return bytes;
}
