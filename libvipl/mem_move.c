/*
 * The two moves: private anonymous pages into the arena, and arena pages back into private memory,
 * while other threads write to them.
 *
 * In:  write-protect the pages with userfaultfd; copy them into the arena; register them for
 *      missing faults too; mremap(MREMAP_DONTUNMAP) takes the old pages away (userfaultfd holds up
 *      threads that touch the now empty range); map the arena over it; wake these threads.
 * Out: write-protect the shared mapping; copy the arena's bytes into the kept private mapping
 *      ("shadow"); one mremap puts the shadow over the shared one; wake threads that wait.
 *
 * A thread that writes to a page waits from before the copy until the page is in its new place. So
 * the write happens either before the copy or in the new page, and no write is lost.
 *
 * Why the emptied old mapping is kept: an anonymous mapping merges with its neighbours only at the
 * address at which it was first used. The old mapping merges again when it is moved back. A new
 * mapping would stay separate for ever, and a program with many small registrations would reach
 * vm.max_map_count.
 *
 * The window, from the first protection to the wake-up, runs on the calling thread. That thread
 * must not touch the pages that move, or it would wait for itself. Therefore in the window:
 * - only raw system calls, on values in registers and in this stack frame; mem_pin.c has made sure
 *   that neither this stack nor errno is in the range;
 * - no heap, no lock, no global of this library (a .bss page of a static program may be the one
 *   being moved; reading it would be harmless until the old pages are gone, and fatal after);
 * - all signals are blocked, because a handler may touch any page;
 * - pages are copied by pwrite and pread of the arena: a range that vanishes meanwhile gives EFAULT
 *   instead of a signal; no sanitizer's shadow memory is involved. Where RLIMIT_FSIZE forbids the
 *   pwrite, process_vm_writev writes a mapping of the arena, with the same outcomes.
 *
 * Without privilege userfaultfd stops user code only. A system call of another thread that writes
 * into the page during the window gets EFAULT. So does a system call that reads the page in the two
 * microseconds in which the page is away. If the kernel allows it, the mode without these limits is
 * used.
 */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8 && sizeof(off_t) == 8, "offsets travel in one register");

/* Names that older system headers lack. */
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#define UFFD_DEVICE_NEW _IO(0xAA, 0x00)

/* A move needs write protection of anonymous memory (Linux 5.7) and of shared memory (5.19). */
#define UFFD_FEATURES_NEEDED (UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM)

/* ---- guard --------------------------------------------------------------------------------- */

/* Open userfaultfd in the most capable mode that the kernel allows. Returns its fd, or -1. */
static int uffd_open(void)
{
    long fd = -1;

    if (vipl__mem_switches.no_userfaultfd)
        return -1;
    if (!vipl__mem_switches.user_mode_only) {
        fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
        if (fd < 0) {
            int device = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
            if (device >= 0) {
                fd = ioctl(device, UFFD_DEVICE_NEW, O_CLOEXEC | O_NONBLOCK);
                close(device);
            }
        }
    }
    if (fd < 0)
        fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    return (int)fd;
}

/*
 * Open a first userfaultfd to read the kernel's features. Then set up a second userfaultfd with the
 * needed features.
 */
static void guard_set_up(struct mem_state *st)
{
    struct uffdio_api api = {.api = UFFD_API};
    uint64_t offered = 0;
    int fd = uffd_open();

    st->uffd_tried = true;
    if (fd < 0)
        return;
    if (ioctl(fd, UFFDIO_API, &api) == 0)
        offered = api.features;
    close(fd);
    if ((offered & UFFD_FEATURES_NEEDED) != UFFD_FEATURES_NEEDED)
        return;
    if (vipl__mem_switches.no_unpopulated)
        offered &= ~(uint64_t)UFFD_FEATURE_WP_UNPOPULATED;

    api = (struct uffdio_api){
        .api = UFFD_API,
        .features = UFFD_FEATURES_NEEDED | (offered & UFFD_FEATURE_WP_UNPOPULATED),
    };
    fd = uffd_open();
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) != 0) {
        close(fd);
        fd = -1;
    }
    st->uffd = fd;
    st->uffd_unpopulated = (offered & UFFD_FEATURE_WP_UNPOPULATED) != 0;
}

enum mem_guard vipl__mem_guard(struct mem_state *st)
{
    struct stat tasks;

    if (!st->uffd_tried)
        guard_set_up(st);
    if (st->uffd >= 0)
        return MEM_GUARD_USERFAULTFD;
    /* /proc/self/task has two links and one more for each thread: 3 means a single thread. */
    if (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == 3)
        return MEM_GUARD_ALONE;
    return MEM_GUARD_IMPOSSIBLE;
}

/* ---- raw steps: outcome 0 (or an address) or negative errno ---------------------------------- */

MEM_RAW static long raw(long rc)
{
    return rc == -1 ? -errno : rc;
}

MEM_RAW static long raw_signals(const uint64_t *set, uint64_t *old)
{
    return raw(syscall(SYS_rt_sigprocmask, SIG_SETMASK, set, old, sizeof(*set)));
}

MEM_RAW static long raw_register(int uffd, uintptr_t addr, size_t bytes, uint64_t mode)
{
    struct uffdio_register arg = {.range = {.start = addr, .len = bytes}, .mode = mode};

    return raw(syscall(SYS_ioctl, uffd, UFFDIO_REGISTER, &arg));
}

MEM_RAW static long raw_protect(int uffd, uintptr_t addr, size_t bytes)
{
    struct uffdio_writeprotect arg = {.range = {.start = addr, .len = bytes},
                                      .mode = UFFDIO_WRITEPROTECT_MODE_WP};

    return raw(syscall(SYS_ioctl, uffd, UFFDIO_WRITEPROTECT, &arg));
}

/* Unregister the range, and wake the threads that wait for its pages. */
MEM_RAW static void raw_unregister(int uffd, uintptr_t addr, size_t bytes)
{
    struct uffdio_range arg = {.start = addr, .len = bytes};

    syscall(SYS_ioctl, uffd, UFFDIO_UNREGISTER, &arg);
    syscall(SYS_ioctl, uffd, UFFDIO_WAKE, &arg);
}

MEM_RAW static void raw_wake(int uffd, uintptr_t addr, size_t bytes)
{
    struct uffdio_range arg = {.start = addr, .len = bytes};

    syscall(SYS_ioctl, uffd, UFFDIO_WAKE, &arg);
}

/* Repeat the system call `call` (SYS_pwrite64 or SYS_pread64) until all bytes are copied. */
MEM_RAW static long raw_copy(long call, int fd, uintptr_t addr, size_t bytes, uint64_t offset)
{
    while (bytes > 0) {
        long done = raw(syscall(call, fd, addr, bytes, offset));
        if (done == -EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? done : -EIO;
        addr += (size_t)done;
        bytes -= (size_t)done;
        offset += (uint64_t)done;
    }
    return 0;
}

/* Let the kernel copy all bytes from addr to `to`, both in this process. */
MEM_RAW static long raw_copy_to(uintptr_t to, uintptr_t addr, size_t bytes)
{
    long pid = syscall(SYS_getpid);

    while (bytes > 0) {
        struct iovec from = {.iov_base = (void *)addr, .iov_len = bytes};
        struct iovec into = {.iov_base = (void *)to, .iov_len = bytes};
        /* Pass the counts as 64-bit values (1ul): the kernel reads whole registers. */
        long done = raw(syscall(SYS_process_vm_writev, pid, &from, 1ul, &into, 1ul, 0ul));
        if (done == -EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? done : -EIO;
        addr += (size_t)done;
        to += (size_t)done;
        bytes -= (size_t)done;
    }
    return 0;
}

MEM_RAW static long raw_remap(uintptr_t from, size_t bytes, int flags, uintptr_t to)
{
    return raw(syscall(SYS_mremap, from, bytes, bytes, MREMAP_MAYMOVE | flags, to));
}

/* ---- in ------------------------------------------------------------------------------------ */

/*
 * The window of the move into the arena: it uses only its arguments. uffd: -1 if there is no other
 * thread. view: a mapping of the arena's pages to copy into; 0: write the file instead.
 */
MEM_RAW static long window_in(int uffd, int arena_fd, uintptr_t addr, size_t bytes, uint64_t offset,
                              int prot, uintptr_t shadow, uintptr_t view)
{
    uint64_t all_signals = ~0ull;
    uint64_t old_signals = 0;
    int fixed = shadow != 0 ? MREMAP_FIXED : 0;
    long at = 0;
    long rc;

    raw_signals(&all_signals, &old_signals);
    rc = uffd >= 0 ? raw_register(uffd, addr, bytes, UFFDIO_REGISTER_MODE_WP) : 0;
    if (rc == 0 && uffd >= 0)
        rc = raw_protect(uffd, addr, bytes);
    if (rc == 0)
        rc = view != 0 ? raw_copy_to(view, addr, bytes)
                       : raw_copy(SYS_pwrite64, arena_fd, addr, bytes, offset);
    if (rc == 0 && uffd >= 0)
        rc =
            raw_register(uffd, addr, bytes, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
    if (rc == 0) {
        at = raw_remap(addr, bytes, MREMAP_DONTUNMAP | fixed, shadow);
        rc = at < 0 ? at : 0;
    }
    if (rc == 0) {
        long mapped =
            raw(syscall(SYS_mmap, addr, bytes, prot, MAP_SHARED | MAP_FIXED, arena_fd, offset));
        if (mapped < 0) {
            raw_remap((uintptr_t)at, bytes, MREMAP_FIXED, addr);
            rc = mapped;
        }
    }
    if (uffd >= 0 && rc != 0)
        raw_unregister(uffd, addr, bytes);
    else if (uffd >= 0)
        raw_wake(uffd, addr, bytes);
    raw_signals(&old_signals, NULL);
    return rc != 0 ? rc : at;
}

int vipl__mem_move_in(struct mem_state *st, enum mem_guard guard, uintptr_t addr, size_t bytes,
                      int prot, uintptr_t shadow, uintptr_t *ret_shadow)
{
    uint64_t offset = vipl__mem_zone_offset(st, addr);
    int uffd = guard == MEM_GUARD_USERFAULTFD ? st->uffd : -1;
    void *view = NULL;
    bool locked;
    long at;

    if (guard == MEM_GUARD_IMPOSSIBLE || offset == MEM_NO_OFFSET)
        return -EPERM;
    if (vipl__mem_file_room(offset + bytes) != 0)
        view = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, st->arena_fd, (off_t)offset);
    if (view == MAP_FAILED)
        return -errno;
    /*
     * Write to the mapping once. A mapping that was never written to loses its first address when
     * it moves, and cannot merge again later.
     */
    madvise((void *)addr, MEM_PAGE_BYTES, MADV_POPULATE_WRITE);
    /* Older kernels write-protect only pages that exist: make the missing ones exist by a read (as
     * zeros). */
    if (uffd >= 0 && !st->uffd_unpopulated)
        madvise((void *)addr, bytes, MADV_POPULATE_READ);

    at = window_in(uffd, st->arena_fd, addr, bytes, offset, prot, shadow, (uintptr_t)view);
    if (view != NULL)
        munmap(view, bytes);
    if (at < 0) {
        vipl__mem_zone_free(st, offset, bytes);
        return (int)at;
    }
    /* MADV_DONTNEED fails if the memory is locked (mlock). */
    locked = madvise((void *)at, bytes, MADV_DONTNEED) != 0;
    if (locked)
        madvise((void *)at, bytes, MADV_DONTNEED_LOCKED);
    st->pages_moved_in += bytes / MEM_PAGE_BYTES;
    *ret_shadow = (uintptr_t)at;
    return locked;
}

/* Does a mapping begin exactly at `page`? */
static bool begins_at(struct mem_state *st, uintptr_t page)
{
    struct mem_piece piece;

    return vipl__mem_query(st, page, &piece) != 0 || piece.start >= page;
}

/*
 * Restore the marks that vipl__mem_marked removed from the page. The marks are right when the page
 * and the page before it are one mapping again.
 */
static void restore_marks(struct mem_state *st, uintptr_t page)
{
    madvise((void *)page, MEM_PAGE_BYTES, MADV_DONTDUMP);
    if (!begins_at(st, page))
        return;
    madvise((void *)page, MEM_PAGE_BYTES, MADV_WIPEONFORK);
    if (begins_at(st, page))
        madvise((void *)page, MEM_PAGE_BYTES, MADV_DODUMP);
}

bool vipl__mem_marked(struct mem_state *st, uintptr_t *shadow, size_t bytes)
{
    bool one = bytes == MEM_PAGE_BYTES, marked;
    uintptr_t page;

    if (one) {
        void *map = mremap((void *)*shadow, bytes, 2 * bytes, MREMAP_MAYMOVE);

        if (map == MAP_FAILED)
            return true;
        *shadow = (uintptr_t)map;
        bytes *= 2;
    }
    /*
     * Remove the marks of the last page. If it had marks, it is now a separate mapping; if not,
     * nothing has changed.
     */
    page = *shadow + bytes - MEM_PAGE_BYTES;
    madvise((void *)page, MEM_PAGE_BYTES, MADV_DODUMP);
    madvise((void *)page, MEM_PAGE_BYTES, MADV_KEEPONFORK);
    marked = begins_at(st, page);
    if (one)
        munmap((void *)page, MEM_PAGE_BYTES);
    else if (marked)
        restore_marks(st, page);
    return marked;
}

/* ---- out ----------------------------------------------------------------------------------- */

MEM_RAW static long window_out(int uffd, int arena_fd, uintptr_t addr, size_t bytes,
                               uint64_t offset, int prot, uintptr_t shadow)
{
    uint64_t all_signals = ~0ull;
    uint64_t old_signals = 0;
    long rc;

    raw_signals(&all_signals, &old_signals);
    rc = uffd >= 0 ? raw_register(uffd, addr, bytes, UFFDIO_REGISTER_MODE_WP) : 0;
    if (rc == 0 && uffd >= 0)
        rc = raw_protect(uffd, addr, bytes);
    if (rc == 0)
        rc = raw_copy(SYS_pread64, arena_fd, shadow, bytes, offset);
    if (rc == 0)
        rc = raw(syscall(SYS_mprotect, shadow, bytes, prot));
    if (rc == 0) {
        rc = raw_remap(shadow, bytes, MREMAP_FIXED, addr);
        rc = rc < 0 ? rc : 0;
    }
    if (uffd >= 0 && rc != 0)
        raw_unregister(uffd, addr, bytes);
    else if (uffd >= 0)
        raw_wake(uffd, addr, bytes);
    raw_signals(&old_signals, NULL);
    return rc;
}

int vipl__mem_move_out(struct mem_state *st, enum mem_guard guard, uintptr_t addr, size_t bytes,
                       uint64_t offset, int prot, uintptr_t shadow)
{
    int uffd = guard == MEM_GUARD_USERFAULTFD ? st->uffd : -1;
    bool fresh = shadow == 0;
    long rc;

    if (guard == MEM_GUARD_IMPOSSIBLE)
        return -EPERM;
    if (fresh) {
        void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED)
            return -errno;
        shadow = (uintptr_t)map;
    }
    rc = window_out(uffd, st->arena_fd, addr, bytes, offset, prot, shadow);
    if (rc != 0) {
        if (fresh) {
            munmap((void *)shadow, bytes);
        } else {
            mprotect((void *)shadow, bytes, PROT_READ | PROT_WRITE);
            madvise((void *)shadow, bytes, MADV_DONTNEED);
        }
        return (int)rc;
    }
    st->pages_moved_out += bytes / MEM_PAGE_BYTES;
    return 0;
}
