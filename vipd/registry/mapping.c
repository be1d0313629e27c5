/*
 * Mappings of an application's files (vipd/registry/mapping.h).
 *
 * Called on set-up only, from registry.c. The checks follow the threat model: whatever was passed
 * may be any kind of file that the application could open.
 */
#include "vipd/registry/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "proto/assert.h"

int mapping_check_fd(int fd, struct mapping *ret, const char **why)
{
    struct stat st;
    struct statfs fs;
    int flags = fcntl(fd, F_GETFL);
    /* Read before the size: once these seals are there the size is what it will always be. */
    int seals = flags < 0 ? -1 : fcntl(fd, F_GET_SEALS);

    if (flags < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0) {
        *why = "the descriptor passed for memory is not a file";
        return -EBADMSG;
    }
    /* Huge pages and foreign file systems can fail to deliver a page; tmpfs cannot. */
    if (!S_ISREG(st.st_mode) || fs.f_type != TMPFS_MAGIC) {
        *why = "the descriptor passed for memory is not a memfd of ordinary pages";
        return -EBADMSG;
    }
    if ((flags & O_ACCMODE) != O_RDWR || (flags & O_PATH)) {
        *why = "the memfd is not open for reading and writing";
        return -EBADMSG;
    }
    /* A plain tmpfs file answers F_GET_SEALS too, without these two bits. */
    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW)) {
        *why = "the memfd lacks the SHRINK and GROW seals";
        return -EBADMSG;
    }
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) {
        *why = "the memfd is sealed against writing";
        return -EBADMSG;
    }
    if (st.st_size <= 0) {
        *why = "the memfd is empty";
        return -EBADMSG;
    }
    *ret = (struct mapping){.dev = st.st_dev, .ino = st.st_ino, .bytes = (uint64_t)st.st_size};
    return 0;
}

static struct mapping **bucket_of(struct mappings *all, ino_t ino)
{
    return &all->bucket[(uint64_t)ino % MAPPING_BUCKETS];
}

/* Map and enter into the bucket. `like` gives dev, ino and bytes. */
static struct mapping *map_new(struct mappings *all, int fd, uint64_t offset,
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
        *why = "too many memory files of this user are mapped ([limits] mapped_files_per_uid)";
        errno = EMFILE;
        return NULL;
    }
    if (all->limited &&
        (all->bytes > all->bytes_max || like->bytes > all->bytes_max - all->bytes)) {
        *why = "the memory files of this user take too much address space ([limits] "
               "mapped_bytes_per_uid)";
        errno = ENOMEM;
        return NULL;
    }
    mapping = malloc(sizeof(*mapping));
    if (!mapping) {
        *why = "vipd is out of memory";
        errno = ENOMEM;
        return NULL;
    }
    base = mmap(NULL, like->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                (off_t)offset);
    if (base == MAP_FAILED) {
        free(mapping);
        *why = "the kernel refused to map the memory";
        return NULL;
    }
    *mapping = *like;
    mapping->base = base;
    mapping->refs = 1;
    mapping->next = *bucket;
    *bucket = mapping;
    all->count++;
    all->bytes += mapping->bytes;
    return mapping;
}

struct mapping *mapping_get(struct mappings *all, int fd, const struct mapping *checked,
                            const char **why)
{
    for (struct mapping *m = *bucket_of(all, checked->ino); m; m = m->next) {
        /* The mapping keeps the inode alive, so its number cannot mean another file meanwhile. */
        if (m->ino == checked->ino && m->dev == checked->dev && m->ino != 0) {
            VIP_ASSERT(m->bytes == checked->bytes && m->refs < UINT32_MAX);
            m->refs++;
            return m;
        }
    }
    return map_new(all, fd, 0, checked, why);
}

struct mapping *mapping_get_part(struct mappings *all, int fd, uint64_t offset, uint64_t bytes,
                                 const char **why)
{
    return map_new(all, fd, offset, &(struct mapping){.bytes = bytes}, why);
}

void mapping_put(struct mappings *all, struct mapping *mapping)
{
    struct mapping **at;

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
    munmap(mapping->base, mapping->bytes);
    free(mapping);
}
