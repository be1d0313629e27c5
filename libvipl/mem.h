/*
 * Registered memory, the library's half: makes any address range of this process reachable for vipd
 * (design of doc/architecture.md, "registered memory"): shared, adopted or staged.
 *
 * Owns: the process-wide arena, adoption of pages and their return, staging copies, fork safety.
 * Does not own: handles and rights (vipd's registry), the VIPL calls (register.c).
 *
 * The arena is one per process and shared by all NIC handles: a page adopted for one handle serves
 * the others. All functions may be called from any thread; none may be called in a signal handler.
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
     * NULL: files are made here. A sealed memfd of that size that vipd has made. Outcomes: a descriptor; -ENOSYS: make one
     * here; another negative errno.
     */
    int (*make)(void *ctx, size_t bytes);
    void *ctx;
    bool no_shared; /* vipd does not take the file of memory that is shared from birth: stage it */
};

/* Is it memory of just so many bytes (> 0) that nobody can make shorter or longer (sealed SHRINK and GROW)? */
bool vipl__mem_file_is(int fd, size_t bytes);
/*
 * The memory file in an answer of vipd. fds is empty afterwards. Outcomes: a descriptor; -ENOSYS: there is not just one,
 * or it is not as asked for.
 */
int vipl__mem_file_take(struct vip_fds *fds, size_t bytes);

/*
 * A NIC handle is being opened: the process's arena memfd (VIP_ARENA_BYTES, sealed SHRINK|GROW), to be passed in
 * OpenRequest. Outcomes: fd (stays owned here), until vipl__mem_arena_put; -ENOENT: there is none yet, vipd is
 * to be asked and vipl__mem_arena_get called; -ENOMEM.
 */
int vipl__mem_arena_hold(void);
/*
 * The same with what vipd has made for it, or -1: vipd makes no files. offered is owned here from now on. Outcomes: fd as
 * above; negative errno.
 */
int vipl__mem_arena_get(int offered);
/* The NIC handle is closed, or was not opened. */
void vipl__mem_arena_put(void);

/*
 * Make [addr, addr + bytes) reachable. bytes > 0. Never fails for lack of a way (STAGED is the last
 * resort), only for lack of memory or if the range is not mapped. files: may be NULL.
 * Outcomes: 0 and *ret; -EFAULT some byte is not mapped or not readable; -ENOMEM, -EMFILE.
 * On failure why (a static sentence) says what was wrong.
 */
int vipl__mem_prepare(void *addr, size_t bytes, const struct vipl__mem_files *files,
                      struct vipl__mem *ret, const char **why);

/*
 * Undo one prepare, after vipd has forgotten the region. At the last one for a page it becomes
 * private anonymous memory again, contents kept, no concurrent write lost.
 */
void vipl__mem_release(struct vipl__mem *mem);

/*
 * Whether what is mapped at the addresses of a prepared range now still is what was prepared: the
 * program may have unmapped it, or mapped something else there, since.
 */
bool vipl__mem_intact(const struct vipl__mem *mem);

/*
 * STAGED only, bounds were checked by the caller, bytes > 0: copy out before a post, copy in after
 * arrival. Outcomes: true; false: the program's memory does not allow it in some pages (read-only,
 * unmapped, a file that was cut short), which were left out and counted; the rest was copied.
 */
bool vipl__mem_stage_out(const struct vipl__mem *mem, uintptr_t addr, size_t bytes);
bool vipl__mem_stage_in(const struct vipl__mem *mem, uintptr_t addr, size_t bytes);
/* Would stage_in succeed at present? For receives, before anything is sent to them. */
bool vipl__mem_stage_takes(uintptr_t addr, size_t bytes);

/*
 * Memory that is shared from birth (VipxAllocMem). bytes > 0, rounded up to pages. NULL on failure
 * with errno. free: addr as returned; outcomes 0, -EINVAL unknown address.
 */
void *vipl__mem_alloc(size_t bytes);
int vipl__mem_free(void *addr);

/*
 * For libvipl's single set of pthread_atfork handlers. child turns adopted and shared pages into
 * private copies and closes the arena; it must be the first thing the child's handler does, for
 * until then a write to any heap object may be a write to the parent's. prepare and parent take and
 * release this module's lock around the fork; parent waits until the child has its copies.
 */
void vipl__mem_fork_prepare(void);
void vipl__mem_fork_parent(void);
void vipl__mem_fork_child(void);

#endif
