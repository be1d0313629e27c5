/*
 * Staged memory: what cannot be moved is copied through a memfd that vipd maps, its first half for
 * what goes out and its second for what comes in. Two halves, so that bytes on their way out and
 * bytes coming in for the same addresses never overwrite each other.
 *
 * Read-only memory can be sent from. What comes in for it is dropped and counted, for a fault in
 * this library would be blamed on it, and a NIC would not write there either. A range that was not
 * writable as a whole when it was registered is asked about again each time: the program may have
 * changed its protection since.
 */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* vipl__mem.backing of a range in which stage_in has to look before it writes. */
static char look_first;

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

/* Read one byte of each page by way of the kernel, which says what a load would die of. */
static int probe(int fd, uintptr_t addr, size_t bytes)
{
    for (uintptr_t at = addr; at < addr + bytes; at = mem_page_down(at) + MEM_PAGE_BYTES)
        if (pwrite(fd, (void *)at, 1, 0) != 1)
            return -EFAULT;
    return 0;
}

int vipl__mem_stage_prepare(uintptr_t addr, size_t bytes, enum mem_access access,
                            struct vipl__mem *ret, const char **why)
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
    if (access == MEM_ACCESS_UNKNOWN && probe(fd, addr, bytes) != 0) {
        *why = "part of the range is not mapped or not readable";
        munmap(map, 2 * half_bytes);
        close(fd);
        return -EFAULT;
    }
    *ret = (struct vipl__mem){
        .addr = addr,
        .bytes = bytes,
        .kind = VIPL__MEM_STAGED,
        .offset = offset,
        .fd = fd,
        .stage_out = (uint8_t *)map + offset,
        .stage_in = (uint8_t *)map + half_bytes + offset,
        .backing = access == MEM_ACCESS_WRITABLE ? NULL : &look_first,
    };
    return 0;
}

void vipl__mem_stage_release(struct vipl__mem *mem)
{
    munmap(mem->stage_out - mem->offset, 2 * (size_t)(mem->stage_in - mem->stage_out));
    close(mem->fd);
}

void vipl__mem_stage_out(const struct vipl__mem *mem, uintptr_t addr, size_t bytes)
{
    memcpy(mem->stage_out + (addr - mem->addr), (const void *)addr, bytes);
}

/* Copy in what lands in writable memory; returns the bytes that did not. Lock held. */
static size_t stage_in_looking(struct mem_state *st, const struct vipl__mem *mem, uintptr_t addr,
                               size_t bytes)
{
    uintptr_t end = addr + bytes;
    size_t skipped_bytes = 0;

    while (addr < end) {
        struct mem_piece piece;
        const uint8_t *from = mem->stage_in + (addr - mem->addr);
        uintptr_t stop = end;
        int rc = vipl__mem_query(st, addr, &piece);

        if (rc == 0) {
            uintptr_t bound = piece.start > addr ? piece.start : piece.end;
            stop = bound < end ? bound : end;
        }
        if (rc == 0 && piece.start <= addr && (piece.prot & PROT_WRITE) != 0) {
            memcpy((void *)addr, from, stop - addr);
        } else if (rc == 0 || rc == -ENOENT) {
            skipped_bytes += stop - addr;
        } else {
            /* Nobody tells what is mapped: let the kernel write, as far as it can. */
            off_t at = (off_t)(from - (mem->stage_out - mem->offset));
            ssize_t done = pread(mem->fd, (void *)addr, stop - addr, at);
            skipped_bytes += stop - addr - (done > 0 ? (size_t)done : 0);
        }
        addr = stop;
    }
    return skipped_bytes;
}

void vipl__mem_stage_in(const struct vipl__mem *mem, uintptr_t addr, size_t bytes)
{
    struct mem_state *st = vipl__mem_state_peek();

    if (mem->backing == NULL || st == NULL) {
        memcpy((void *)addr, mem->stage_in + (addr - mem->addr), bytes);
        return;
    }
    pthread_mutex_lock(&st->lock);
    st->stage_in_skipped_bytes += stage_in_looking(st, mem, addr, bytes);
    pthread_mutex_unlock(&st->lock);
}
