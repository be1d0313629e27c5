/*
 * Registered memory, the library's half: makes any address range of this process reachable for vipd
 * (design of doc/architecture.md, "registered memory"): shared, adopted or staged.
 *
 * Owns: the process-wide arena, adoption of pages and their return, staging copies, fork safety.
 * Does not own: handles and rights (vipd's registry), the VIPL calls (register.c).
 *
 * The arena is one per process and shared by all NIC handles: a page adopted for one handle serves
 * the others. All functions may be called from any thread, but not from a signal handler.
 */
#ifndef LIBVIPL_MEM_H
#define LIBVIPL_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As control.proto's MemKind. */
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
    uint64_t offset;    /* of addr in the arena (ADOPTED) or in fd (SHARED; STAGED: page offset) */
    int fd;             /* memfd to pass to vipd (SHARED, STAGED); -1 otherwise; owned here */
    uint8_t *stage_out; /* STAGED: what goes out: stage_out[i] stands for byte addr + i */
    uint8_t *stage_in;  /* STAGED: what comes in, likewise */
};

/* Where files for staged memory come from. */
struct vipl__mem_files {
    /*
     * Get a sealed memfd of that size from vipd; NULL: the library makes files. Outcomes: a file
     * descriptor; -ENOSYS: the library makes it; another negative errno.
     */
    int (*make)(void *ctx, size_t bytes);
    void *ctx;
    bool no_shared; /* vipd refuses files of memory that is shared from birth: stage it */
};

/* Is fd memory of exactly `bytes` bytes (> 0), of a fixed size (sealed SHRINK and GROW)? */
bool vipl__mem_file_is(int fd, size_t bytes);
/*
 * May this process make a file of that size, or write into one up to there? RLIMIT_FSIZE counts for
 * files in memory too, and the signal SIGXFSZ follows a vain try: ask before ftruncate and pwrite.
 * It does not count for stores in mappings. Outcomes: 0; -EFBIG. Any thread.
 */
int vipl__mem_file_room(uint64_t bytes);
/* Make the new memfd fd that large. Outcomes: 0; -EFBIG: RLIMIT_FSIZE; other negative errno. */
int vipl__mem_file_grow(int fd, uint64_t bytes);
/*
 * The words for a negative errno of this module. After -EFBIG they name RLIMIT_FSIZE, the limit and
 * the size that it has refused this thread last. Valid until the thread calls it again.
 */
const char *vipl__mem_file_error(int error);
/*
 * Keep memory that is shared with vipd out of forked children and core dumps. base, bytes: a
 * mapping, whole pages. Outcomes: 0; a negative errno. Any thread.
 */
int vipl__shared_advise(void *base, size_t bytes);
/*
 * Take the memory file out of a reply of vipd. fds is empty afterwards. Outcomes: a file
 * descriptor; -ENOSYS: there is not exactly one, or its size or seals are wrong.
 */
int vipl__mem_file_take(struct vip_fds *fds, size_t bytes);

/*
 * A NIC handle is being opened: hold the process's arena memfd (VIP_ARENA_BYTES, sealed
 * SHRINK|GROW) for OpenRequest, until vipl__mem_arena_put. Outcomes: fd (stays owned here);
 * -ENOENT: there is none yet, ask vipd for one and call vipl__mem_arena_get; -ENOMEM.
 */
int vipl__mem_arena_hold(void);
/*
 * The same with the file that vipd has made, or -1: vipd makes no files. offered is owned here from
 * now on. Outcomes: fd as above; negative errno.
 */
int vipl__mem_arena_get(int offered);
/* The NIC handle is closed, or was not opened. */
void vipl__mem_arena_put(void);

/*
 * Make [addr, addr + bytes) reachable. bytes > 0. There always is a way (STAGED is the last one);
 * it fails only without memory, behind RLIMIT_FSIZE or if the range is not mapped. files: may be
 * NULL. Outcomes: 0 and *ret; -EFAULT some byte is not mapped or not readable; -ENOMEM, -EMFILE,
 * -EFBIG. On failure why (a static sentence) says what was wrong.
 */
int vipl__mem_prepare(void *addr, size_t bytes, const struct vipl__mem_files *files,
                      struct vipl__mem *ret, const char **why);

/*
 * Undo one prepare, after vipd has forgotten the region. The last release of a page makes it
 * private anonymous memory again; it keeps its contents, and no concurrent write is lost.
 */
void vipl__mem_release(struct vipl__mem *mem);

/*
 * Are the addresses of a prepared range still mapped as they were prepared? The program may have
 * unmapped them, or mapped other pages there.
 */
bool vipl__mem_intact(const struct vipl__mem *mem);

/*
 * STAGED only, bounds were checked by the caller, bytes > 0: copy out before a post, copy in after
 * arrival. Outcomes: true; false: the program's memory does not allow it in some pages (read-only,
 * unmapped, a truncated file). These were left out and counted; the rest was copied.
 */
bool vipl__mem_stage_out(const struct vipl__mem *mem, uintptr_t addr, size_t bytes);
bool vipl__mem_stage_in(const struct vipl__mem *mem, uintptr_t addr, size_t bytes);
/* Would stage_in succeed now? For receives, before messages are sent to them. */
bool vipl__mem_stage_takes(uintptr_t addr, size_t bytes);

/*
 * Memory that is shared from birth (VipxAllocMem). bytes > 0, rounded up to pages. NULL on failure
 * with errno. free: addr as returned; outcomes 0, -EINVAL unknown address.
 */
void *vipl__mem_alloc(size_t bytes);
int vipl__mem_free(void *addr);

/*
 * For libvipl's single set of pthread_atfork handlers. child turns adopted and shared pages into
 * private copies and closes the arena. The child's handler must call it first, because until then a
 * write to any heap object may write to the parent's. prepare and parent take and release this
 * module's lock around the fork; parent waits until the child has its copies.
 */
void vipl__mem_fork_prepare(void);
void vipl__mem_fork_parent(void);
void vipl__mem_fork_child(void);

#endif
