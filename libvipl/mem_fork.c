/*
 * The child of a fork must not write into its parent's heap. Pages that are shared with vipd are
 * shared with the child too, until the child has its own copies.
 *
 * The child makes the copies in its atfork handler, before user code runs. It asks the kernel for
 * every mapping of the arena, so that it misses no page. The parent's forking thread waits for the
 * copies: otherwise the thread's next writes would already be in the child's copies. (Other threads
 * of the parent do not wait. POSIX limits what the child of a program with several threads may do,
 * and that does not depend on the writes of these threads.)
 *
 * posix_spawn, system, popen and vfork run no fork handlers and need none. A bare clone system call
 * without CLONE_VM is not handled: such a child must exec or exit.
 */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Longest wait, in ms, for the child's copies; a child that a debugger stopped makes none. */
#define CHILD_WAIT_MS 10000

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void vipl__mem_fork_prepare(void)
{
    struct mem_state *st = vipl__mem_state_peek();

    if (st == NULL)
        return;
    pthread_mutex_lock(&st->lock);
    /*
     * If there is no pipe (EMFILE), the parent does not wait. Then the child's copies may contain
     * what the parent writes after the fork.
     */
    if ((st->runs.n > 0 || st->allocs.n > 0) && pipe2(st->fork_pipe, O_CLOEXEC) != 0)
        st->fork_pipe[0] = st->fork_pipe[1] = -1;
}

void vipl__mem_fork_parent(void)
{
    struct mem_state *st = vipl__mem_state_peek();

    if (st == NULL)
        return;
    close_fd(&st->fork_pipe[1]);
    if (st->fork_pipe[0] >= 0) {
        struct pollfd child = {.fd = st->fork_pipe[0], .events = POLLIN};
        while (poll(&child, 1, CHILD_WAIT_MS) < 0 && errno == EINTR)
            continue;
        close_fd(&st->fork_pipe[0]);
    }
    pthread_mutex_unlock(&st->lock);
}

/* The file of this module (arena or allocation) that the mapping maps; -1: none. */
static int fd_of(const struct mem_state *st, const struct mem_piece *piece)
{
    const struct mem_alloc *alloc = st->allocs.items;

    if (!piece->shared || piece->ino == 0)
        return -1;
    if (piece->ino == st->arena_ino && piece->dev == st->arena_dev)
        return st->arena_fd;
    for (size_t i = 0; i < st->allocs.n; i++)
        if (piece->ino == alloc[i].ino && piece->dev == alloc[i].dev)
            return alloc[i].fd;
    return -1;
}

/* Replace a shared mapping by a private copy. Outcomes: 0; negative errno: nothing has changed. */
static int copy_piece(const struct mem_piece *piece, int fd)
{
    size_t bytes = piece->end - piece->start;
    size_t done = 0;
    int rc = 0;
    uint8_t *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        return -errno;
    while (rc == 0 && done < bytes) {
        ssize_t got = pread(fd, copy + done, bytes - done, (off_t)(piece->offset + done));
        if (got > 0)
            done += (size_t)got;
        else if (got == 0 || errno != EINTR)
            rc = got == 0 ? -EIO : -errno;
    }
    if (rc == 0 && (mprotect(copy, bytes, piece->prot) != 0 ||
                    mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                           (void *)piece->start) == MAP_FAILED))
        rc = -errno;
    if (rc != 0)
        munmap(copy, bytes);
    return rc;
}

/*
 * Give the child its own pages. Without memory for a copy, map the pages copy-on-write: the child
 * sees its parent's changes, but cannot change its parent's memory. If that fails, make the pages
 * read-only: the death of the child is better than damage to its parent.
 */
static void own_piece(const struct mem_piece *piece, int fd)
{
    void *start = (void *)piece->start;
    size_t bytes = piece->end - piece->start;

    if (copy_piece(piece, fd) != 0 && mmap(start, bytes, piece->prot, MAP_PRIVATE | MAP_FIXED, fd,
                                           (off_t)piece->offset) == MAP_FAILED)
        mprotect(start, bytes, piece->prot & ~PROT_WRITE);
}

/*
 * Used if the mappings cannot be read (no file descriptor, no /proc): copy all memory that this
 * module has adopted or allocated.
 */
static void copy_known(struct mem_state *st)
{
    const struct mem_alloc *alloc = st->allocs.items;

    for (size_t i = 0; i < st->runs.n; i++) {
        const struct mem_run *run = vipl__mem_run(st, i);

        own_piece(&(struct mem_piece){.start = run->start,
                                      .end = run->end,
                                      .offset = vipl__mem_zone_offset(st, run->start),
                                      .prot = PROT_READ | PROT_WRITE},
                  st->arena_fd);
    }
    for (size_t i = 0; i < st->allocs.n; i++)
        own_piece(&(struct mem_piece){.start = alloc[i].start,
                                      .end = alloc[i].start + alloc[i].bytes,
                                      .prot = PROT_READ | PROT_WRITE},
                  alloc[i].fd);
}

static void copy_all(struct mem_state *st)
{
    struct mem_piece piece;
    uintptr_t at = 0;
    int rc;

    while ((rc = vipl__mem_query(st, at, &piece)) == 0) {
        int fd = fd_of(st, &piece);

        at = piece.end;
        if (fd >= 0)
            own_piece(&piece, fd);
    }
    if (rc != -ENOENT)
        copy_known(st);
}

void vipl__mem_fork_child(void)
{
    struct mem_state *st = vipl__mem_state_peek();

    if (st == NULL)
        return;
    /* maps_fd and uffd refer to the parent's address space: close them; later calls open new
     * ones. */
    close_fd(&st->maps_fd);
    st->maps_tried = false;
    close_fd(&st->uffd);
    st->uffd_tried = false;

    if (st->runs.n > 0 || st->allocs.n > 0)
        copy_all(st);
    for (size_t i = 0; i < st->runs.n; i++) {
        const struct mem_run *run = vipl__mem_run(st, i);
        if (run->shadow != 0)
            munmap((void *)run->shadow, run->end - run->start);
    }
    for (size_t i = 0; i < st->allocs.n; i++)
        close(((struct mem_alloc *)st->allocs.items)[i].fd);
    for (size_t i = 0; i < st->stages.n; i++)
        close(((int *)st->stages.items)[i]);
    st->stages.n = 0;
    st->runs.n = 0;
    st->used_bytes = st->most_bytes = 0;
    st->allocs.n = 0;
    memset(st->block_owner, 0, sizeof(st->block_owner));
    memset(st->block_full, 0, sizeof(st->block_full));
    st->arena_users = 0;
    close_fd(&st->arena_fd);
    st->arena_ino = 0;

    if (st->fork_pipe[1] >= 0) {
        ssize_t told = write(st->fork_pipe[1], "", 1);
        (void)told; /* without the byte, the parent sees the end of the pipe */
    }
    close_fd(&st->fork_pipe[0]);
    close_fd(&st->fork_pipe[1]);
    pthread_mutex_init(&st->lock, NULL);
}
