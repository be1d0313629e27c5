/*
 * Staged memory: memory that cannot be moved is copied through a memfd that vipd maps. The first
 * half of the file is for bytes that go out, the second half for bytes that come in. So an outgoing
 * and an incoming copy of the same addresses never overwrite each other.
 *
 * The memory itself belongs to the program. It may be read-only, and the program may protect, unmap
 * or truncate it at any time, also during a copy. A load or store of this library would then fault.
 * Therefore the kernel copies: pwrite reads the program's memory, pread writes it, and an
 * inaccessible page is an error instead of a signal. Such pages are left out and reported. Words
 * are copied in the order of their addresses.
 */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Names that older system headers lack. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int vipl__mem_populate(void *map, size_t bytes, const char **why)
{
    if (bytes > MEM_POPULATE_BYTES_MAX || madvise(map, bytes, MADV_POPULATE_READ) == 0 ||
        errno == EINVAL) /* a kernel before 5.14 */
        return 0;
    *why = "the kernel does not give it memory";
    return -ENOMEM;
}

/*
 * Is each page readable? Write one byte of each page to the file: the kernel returns an error where
 * a load would fault. Outcomes: 0; -EFAULT: a page is not readable; another negative errno: the
 * write to the file failed.
 */
static int probe(int fd, uintptr_t addr, size_t bytes)
{
    for (uintptr_t at = addr; at < addr + bytes; at = mem_page_down(at) + MEM_PAGE_BYTES)
        if (pwrite(fd, (void *)at, 1, 0) != 1)
            return -errno;
    return 0;
}

/* Call probe with the lock, because adoptions by other threads make pages inaccessible. */
static int probe_locked(struct mem_state *st, int fd, uintptr_t addr, size_t bytes)
{
    int rc;

    pthread_mutex_lock(&st->lock);
    rc = probe(fd, addr, bytes);
    pthread_mutex_unlock(&st->lock);
    return rc;
}

/* Hide the area from the child of a fork; record the file, so that the child closes it. */
static int keep_from_child(struct mem_state *st, void *map, size_t bytes, int fd)
{
    int rc;

    if (madvise(map, bytes, MADV_DONTFORK) != 0)
        return -errno;
    pthread_mutex_lock(&st->lock);
    rc = vipl__mem_vec_reserve(&st->stages, st->stages.n + 1, sizeof(fd));
    if (rc == 0)
        ((int *)st->stages.items)[st->stages.n++] = fd;
    pthread_mutex_unlock(&st->lock);
    return rc;
}

int vipl__mem_stage_prepare(struct mem_state *st, uintptr_t addr, size_t bytes, bool known,
                            const struct vipl__mem_files *files, struct vipl__mem *ret,
                            const char **why)
{
    size_t offset = addr % MEM_PAGE_BYTES;
    size_t half_bytes = mem_page_up(offset + bytes);
    int fd = vipl__mem_file_room(half_bytes); /* RLIMIT_FSIZE limits pwrite of outgoing bytes */
    void *map;
    int rc;

    if (fd == 0)
        fd = files != NULL && files->make != NULL ? files->make(files->ctx, 2 * half_bytes)
                                                  : -ENOSYS;
    if (fd == -ENOSYS)
        fd = vipl__mem_file_own("vipl-staged", 2 * half_bytes);
    rc = fd < 0 ? fd : vipl__mem_file_map(fd, 2 * half_bytes, &map);
    if (rc != 0) {
        *why = "the memfd of a staging area could not be made";
        return rc;
    }
    if (!known)
        rc = probe_locked(st, fd, addr, bytes);
    if (rc != 0)
        *why = rc == -EFAULT ? "part of the range is not mapped or not readable"
                             : "its staging area cannot be written";
    else
        rc = vipl__mem_populate((uint8_t *)map + half_bytes, half_bytes, why);
    if (rc == 0) {
        *why = "no memory for bookkeeping";
        rc = keep_from_child(st, map, 2 * half_bytes, fd);
    }
    if (rc != 0) {
        munmap(map, 2 * half_bytes);
        close(fd);
        return rc;
    }
    *ret = (struct vipl__mem){
        .addr = addr,
        .bytes = bytes,
        .kind = VIPL__MEM_STAGED,
        .offset = offset,
        .fd = fd,
        .stage_out = (uint8_t *)map + offset,
        .stage_in = (uint8_t *)map + half_bytes + offset,
    };
    return 0;
}

void vipl__mem_stage_release(struct mem_state *st, struct vipl__mem *mem)
{
    int *fd;

    pthread_mutex_lock(&st->lock);
    fd = st->stages.items;
    for (size_t i = 0; i < st->stages.n; i++)
        if (fd[i] == mem->fd) {
            fd[i] = fd[--st->stages.n];
            munmap(mem->stage_out - mem->offset, 2 * (size_t)(mem->stage_in - mem->stage_out));
            close(mem->fd);
            break;
        }
    pthread_mutex_unlock(&st->lock);
}

/*
 * Copy by one pwrite to the area (out) or pread from it (in). Returns the number of bytes copied;
 * 0: the first byte is inaccessible.
 */
static size_t copy_some(const struct vipl__mem *mem, uintptr_t addr, size_t bytes, bool in)
{
    const uint8_t *stage = (in ? mem->stage_in : mem->stage_out) + (addr - mem->addr);
    off_t at = stage - (mem->stage_out - mem->offset);
    ssize_t done;

    do
        done = in ? pread(mem->fd, (void *)addr, bytes, at)
                  : pwrite(mem->fd, (const void *)addr, bytes, at);
    while (done < 0 && errno == EINTR);
    return done > 0 ? (size_t)done : 0;
}

/* Copy until a byte is inaccessible; usually one call is enough. Returns the bytes copied. */
static size_t copy_all(const struct vipl__mem *mem, uintptr_t addr, size_t bytes, bool in)
{
    size_t done = 0, more;

    while (done < bytes && (more = copy_some(mem, addr + done, bytes - done, in)) > 0)
        done += more;
    return done;
}

/*
 * Copy each page that is accessible; returns the number of bytes that were left out. Lock held,
 * because an adoption by another thread makes pages inaccessible for a moment.
 */
static size_t copy_pages(const struct vipl__mem *mem, uintptr_t addr, size_t bytes, bool in)
{
    uintptr_t end = addr + bytes, stop;
    size_t skipped_bytes = 0;

    for (; addr < end; addr = stop) {
        stop =
            mem_page_down(addr) + MEM_PAGE_BYTES < end ? mem_page_down(addr) + MEM_PAGE_BYTES : end;
        skipped_bytes += stop - addr - copy_all(mem, addr, stop - addr, in);
    }
    return skipped_bytes;
}

static bool copy(const struct vipl__mem *mem, uintptr_t addr, size_t bytes, bool in)
{
    struct mem_state *st = vipl__mem_state_peek();
    size_t done = copy_all(mem, addr, bytes, in), skipped_bytes;

    if (done == bytes)
        return true;
    if (st == NULL)
        return copy_pages(mem, addr + done, bytes - done, in) == 0;
    pthread_mutex_lock(&st->lock);
    skipped_bytes = copy_pages(mem, addr + done, bytes - done, in);
    st->stage_skipped_bytes += skipped_bytes;
    pthread_mutex_unlock(&st->lock);
    return skipped_bytes == 0;
}

bool vipl__mem_stage_out(const struct vipl__mem *mem, uintptr_t addr, size_t bytes)
{
    return copy(mem, addr, bytes, false);
}

bool vipl__mem_stage_in(const struct vipl__mem *mem, uintptr_t addr, size_t bytes)
{
    return copy(mem, addr, bytes, true);
}

/* Can the whole range be written at present? The kernel tries each page. */
static bool writable(uintptr_t addr, size_t bytes)
{
    uintptr_t start = mem_page_down(addr);

    return madvise((void *)start, mem_page_up(addr + bytes) - start, MADV_POPULATE_WRITE) == 0;
}

/* Would a store to this page succeed? */
static bool page_takes(struct mem_state *st, uintptr_t page)
{
    struct mem_piece piece;

    if (writable(page, MEM_PAGE_BYTES))
        return true;
    /*
     * EINVAL has three causes: read-only memory, device memory, an old kernel. The mapping tells
     * whether the page is writable.
     */
    if (errno != EINVAL)
        return false;
    return vipl__mem_query(st, page, &piece) != 0 || piece.start > page ||
           (piece.prot & PROT_WRITE) != 0;
}

bool vipl__mem_stage_takes(uintptr_t addr, size_t bytes)
{
    struct mem_state *st = vipl__mem_state_peek();
    bool takes = true;

    if (writable(addr, bytes) || st == NULL)
        return true;
    pthread_mutex_lock(&st->lock);
    for (uintptr_t at = mem_page_down(addr); takes && at < addr + bytes; at += MEM_PAGE_BYTES)
        takes = page_takes(st, at);
    pthread_mutex_unlock(&st->lock);
    return takes;
}
