/*
 * The library's part of registered memory: makes any address range of this process reachable for
 * vipd, as shared, adopted or staged memory (doc/memory.md).
 *
 * Owns: the process-wide arena, adoption of pages and their return, staging copies, fork safety.
 * Does not own: handles and rights (vipd's registry), the VIPL calls (register.c).
 *
 * A process has one arena, which all NIC handles share: a page adopted for one handle serves the
 * other handles. All functions may be called from any thread, but not from a signal handler.
 */
#ifndef LIBVIPL_MEM_H
#define LIBVIPL_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The values are those of MemKind in control.proto. */
enum vipl__mem_kind {
    VIPL__MEM_SHARED = 1,
    VIPL__MEM_ADOPTED = 2,
    VIPL__MEM_STAGED = 3,
};

struct vip_fds;

/* One registered range as this module prepared it. */
struct vipl__mem {
    uintptr_t addr;
    size_t bytes;
    enum vipl__mem_kind kind;
    uint64_t offset;    /* of addr: in the arena (ADOPTED), fd (SHARED) or its page (STAGED) */
    int fd;             /* memfd to pass to vipd (SHARED, STAGED), else -1; this module owns it */
    uint8_t *stage_out; /* STAGED, outgoing bytes: stage_out[i] stands for byte addr + i */
    uint8_t *stage_in;  /* STAGED, incoming bytes: stage_in[i] stands for byte addr + i */
};

/* Where files for staged memory come from. */
struct vipl__mem_files {
    /*
     * Get a sealed memfd of `bytes` bytes from vipd. NULL: the library makes the files. Outcomes: a
     * file descriptor; -ENOSYS: vipd makes no files, so the library makes this one; another
     * negative errno.
     */
    int (*make)(void *ctx, size_t bytes);
    void *ctx;
    bool no_shared; /* vipd refuses files of memory that is shared from birth: stage such memory */
};

/* Is fd a file in memory of exactly `bytes` bytes (> 0), sealed with SHRINK and GROW? */
bool vipl__mem_file_is(int fd, size_t bytes);
/*
 * May this process make a file of `bytes` bytes, or write a file up to that offset? Call this
 * before ftruncate and pwrite: beyond RLIMIT_FSIZE, which also limits files in memory, they raise
 * SIGXFSZ. The limit does not apply to stores in mappings. Outcomes: 0; -EFBIG. Any thread.
 */
int vipl__mem_file_room(uint64_t bytes);
/* Set the size of a new memfd. Outcomes: 0; -EFBIG: RLIMIT_FSIZE; other negative errno. */
int vipl__mem_file_grow(int fd, uint64_t bytes);
/*
 * The text for a negative errno of this module. For -EFBIG it names RLIMIT_FSIZE, its value, and
 * the size that was last refused to this thread. Valid until the thread calls this function again.
 */
const char *vipl__mem_file_error(int error);
/*
 * Keep memory that is shared with vipd out of forked children and core dumps. base, bytes: a
 * mapping, whole pages. Outcomes: 0; a negative errno. Any thread.
 */
int vipl__shared_advise(void *base, size_t bytes);
/*
 * Take the memory file out of a reply of vipd. fds: the reply's descriptors, empty afterwards.
 * Outcomes: a file descriptor; -ENOSYS: the reply does not have exactly one file, or the file's
 * size or seals are wrong.
 */
int vipl__mem_file_take(struct vip_fds *fds, size_t bytes);

/*
 * A NIC handle is being opened: hold the process's arena memfd (VIP_ARENA_BYTES, sealed
 * SHRINK|GROW) for OpenRequest, until vipl__mem_arena_put. Outcomes: the fd (this module owns it);
 * -ENOENT: no arena yet; the caller asks vipd for a file and calls vipl__mem_arena_get; -ENOMEM.
 */
int vipl__mem_arena_hold(void);
/*
 * As vipl__mem_arena_hold, and make the arena if there is none. offered: the file that vipd has
 * made for it; -1 if vipd makes no files. This module owns `offered` from now on. Outcomes: the fd
 * as above; negative errno.
 */
int vipl__mem_arena_get(int offered);
/* End one hold of the arena: the NIC handle is closed, or could not be opened. */
void vipl__mem_arena_put(void);

/*
 * Make [addr, addr + bytes) reachable for vipd; bytes > 0. Memory that cannot be shared or adopted
 * is staged. So this fails only without memory or file descriptors, at RLIMIT_FSIZE, or if the
 * range is not mapped. files: may be NULL. Outcomes: 0 and *ret; -EFAULT: a byte is not mapped or
 * not readable; -ENOMEM, -EMFILE, -EFBIG. On failure *why is a static sentence with the cause.
 */
int vipl__mem_prepare(void *addr, size_t bytes, const struct vipl__mem_files *files,
                      struct vipl__mem *ret, const char **why);

/*
 * Undo one vipl__mem_prepare, after vipd has forgotten the region. The last release of a page makes
 * it private anonymous memory again; the page keeps its contents, and no concurrent write is lost.
 */
void vipl__mem_release(struct vipl__mem *mem);

/*
 * Does a prepared range still reach the memory at its addresses? The program may have unmapped that
 * memory, or mapped other pages there. STAGED: true if any readable memory is there.
 */
bool vipl__mem_intact(const struct vipl__mem *mem);

/*
 * For STAGED ranges only: copy bytes from the program's memory to the staging area before a post
 * (_out), or back after arrival (_in). The caller has checked the bounds; bytes > 0. Outcomes:
 * true; false: some pages of the program's memory are inaccessible (read-only, unmapped, a
 * truncated file). Their bytes were left out and counted; all other bytes were copied.
 */
bool vipl__mem_stage_out(const struct vipl__mem *mem, uintptr_t addr, size_t bytes);
bool vipl__mem_stage_in(const struct vipl__mem *mem, uintptr_t addr, size_t bytes);
/* Would vipl__mem_stage_in succeed now? Asked when a receive descriptor is posted. */
bool vipl__mem_stage_takes(uintptr_t addr, size_t bytes);

/*
 * Make memory that is shared from birth (VipxAllocMem); bytes > 0, rounded up to pages. Returns
 * NULL with errno on failure. vipl__mem_free takes the returned address; outcomes: 0; -EINVAL:
 * unknown address.
 */
void *vipl__mem_alloc(size_t bytes);
int vipl__mem_free(void *addr);

/*
 * Called by libvipl's pthread_atfork handlers (handle.c). _prepare takes this module's lock before
 * the fork. _child turns adopted and shared pages into private copies and closes the arena. The
 * child must call it first: until then a write to any heap object may change the parent's object.
 * _parent waits until the child has its copies, and releases the lock.
 */
void vipl__mem_fork_prepare(void);
void vipl__mem_fork_parent(void);
void vipl__mem_fork_child(void);

#endif
