/*
 * Staged memory: what cannot be moved is copied through a memfd that vipd maps, its first half for
 * what goes out and its second for what comes in. Two halves, so that bytes on their way out and
 * bytes coming in for the same addresses never overwrite each other.
 *
 * The memory itself belongs to the program, which may have registered it read-only, and may protect,
 * unmap or truncate it later. A load or store that faults would be blamed on this library, so the
 * kernel is asked first: MADV_POPULATE_READ and _WRITE do what the copy is about to do and return
 * errors instead of signals. What cannot be copied is left out and reported. The copy itself is
 * memcpy, because programs poll words that an RDMA Write brings, and the kernel's copies may write
 * a word byte by byte.
 */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Names that system headers older than the kernel lack. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

int vipl__mem_fd_make(const char *name, size_t bytes, int *ret_fd, void **ret_map)
{
    void *map = NULL;
    int rc;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)bytes) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        goto fail;
    if (ret_map != NULL) {
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            goto fail;
        *ret_map = map;
    }
    *ret_fd = fd;
    return 0;

fail:
    rc = -errno;
    close(fd);
    return rc;
}

/*
 * Read one byte of each page by way of the kernel, which says what a load would die of. Outcomes: 0;
 * -EFAULT a page is not readable; another negative errno: no room for the byte.
 */
static int probe(int fd, uintptr_t addr, size_t bytes)
{
    for (uintptr_t at = addr; at < addr + bytes; at = mem_page_down(at) + MEM_PAGE_BYTES)
        if (pwrite(fd, (void *)at, 1, 0) != 1)
            return -errno;
    return 0;
}

int vipl__mem_stage_prepare(uintptr_t addr, size_t bytes, bool known, struct vipl__mem *ret,
                            const char **why)
{
    size_t offset = addr % MEM_PAGE_BYTES;
    size_t half_bytes = mem_page_up(offset + bytes);
    void *map;
    int fd;
    int rc = vipl__mem_fd_make("vipl-staged", 2 * half_bytes, &fd, &map);

    if (rc != 0) {
        *why = "the memfd of a staging area could not be made";
        return rc;
    }
    if (!known)
        rc = probe(fd, addr, bytes);
    if (rc != 0) {
        *why = rc == -EFAULT ? "part of the range is not mapped or not readable"
                             : "its staging area cannot be written";
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

void vipl__mem_stage_release(struct vipl__mem *mem)
{
    munmap(mem->stage_out - mem->offset, 2 * (size_t)(mem->stage_in - mem->stage_out));
    close(mem->fd);
}

/* Can the whole range be read, or written, without a fault? */
static bool accessible(uintptr_t addr, size_t bytes, int advice)
{
    uintptr_t start = mem_page_down(addr);

    return madvise((void *)start, mem_page_up(addr + bytes) - start, advice) == 0;
}

/*
 * Copy page by page what can be copied; returns the bytes that cannot. Where madvise has no answer
 * (device memory, an old kernel) the kernel copies. Lock held: an adoption under way elsewhere makes
 * pages look inaccessible for a moment.
 */
static size_t copy_pages(const struct vipl__mem *mem, uintptr_t addr, size_t bytes, bool in)
{
    uintptr_t end = addr + bytes, stop;
    size_t skipped_bytes = 0;

    for (; addr < end; addr = stop) {
        uint8_t *stage = (in ? mem->stage_in : mem->stage_out) + (addr - mem->addr);
        off_t at = stage - (mem->stage_out - mem->offset);
        ssize_t done;

        stop =
            mem_page_down(addr) + MEM_PAGE_BYTES < end ? mem_page_down(addr) + MEM_PAGE_BYTES : end;
        if (accessible(addr, stop - addr, in ? MADV_POPULATE_WRITE : MADV_POPULATE_READ)) {
            memcpy(in ? (void *)addr : stage, in ? stage : (void *)addr, stop - addr);
            continue;
        }
        done = in ? pread(mem->fd, (void *)addr, stop - addr, at)
                  : pwrite(mem->fd, (void *)addr, stop - addr, at);
        skipped_bytes += stop - addr - (done > 0 ? (size_t)done : 0);
    }
    return skipped_bytes;
}

static bool copy(const struct vipl__mem *mem, uintptr_t addr, size_t bytes, bool in)
{
    struct mem_state *st = vipl__mem_state_peek();
    size_t skipped_bytes;

    if (st == NULL)
        return copy_pages(mem, addr, bytes, in) == 0;
    pthread_mutex_lock(&st->lock);
    skipped_bytes = copy_pages(mem, addr, bytes, in);
    st->stage_skipped_bytes += skipped_bytes;
    pthread_mutex_unlock(&st->lock);
    return skipped_bytes == 0;
}

/* Would one page take a store? */
static bool page_takes(struct mem_state *st, uintptr_t page)
{
    struct mem_piece piece;

    if (accessible(page, MEM_PAGE_BYTES, MADV_POPULATE_WRITE))
        return true;
    /* EINVAL: read-only memory, but also device memory and an old kernel: nobody knows better. */
    if (errno != EINVAL)
        return false;
    return vipl__mem_query(st, page, &piece) != 0 || piece.start > page ||
           (piece.prot & PROT_WRITE) != 0;
}

bool vipl__mem_stage_takes(uintptr_t addr, size_t bytes)
{
    struct mem_state *st = vipl__mem_state_peek();
    bool takes = true;

    if (accessible(addr, bytes, MADV_POPULATE_WRITE) || st == NULL)
        return true;
    pthread_mutex_lock(&st->lock);
    for (uintptr_t at = mem_page_down(addr); takes && at < addr + bytes; at += MEM_PAGE_BYTES)
        takes = page_takes(st, at);
    pthread_mutex_unlock(&st->lock);
    return takes;
}

bool vipl__mem_stage_out(const struct vipl__mem *mem, uintptr_t addr, size_t bytes)
{
    if (!accessible(addr, bytes, MADV_POPULATE_READ))
        return copy(mem, addr, bytes, false);
    memcpy(mem->stage_out + (addr - mem->addr), (const void *)addr, bytes);
    return true;
}

bool vipl__mem_stage_in(const struct vipl__mem *mem, uintptr_t addr, size_t bytes)
{
    if (!accessible(addr, bytes, MADV_POPULATE_WRITE))
        return copy(mem, addr, bytes, true);
    memcpy((void *)addr, mem->stage_in + (addr - mem->addr), bytes);
    return true;
}
