/*
 * What the files mem*.c share: the state of registered memory in this process.
 *
 * mem.c       registration and release, the memory allocator; mem_state.c  the state, made once
 * mem_return.c  return of pages without a registration
 * mem_maps.c  what is mapped at an address (as the kernel reports it, not from our records)
 * mem_pin.c   memory that must not be moved although it is private and anonymous
 * mem_move.c  the two moves: private pages into the arena, and back
 * mem_runs.c  page counts; mem_zone.c  which arena offset stands for which address
 * mem_file.c  the files that vipd maps
 * mem_stage.c copies for what cannot be moved; mem_fork.c  the child of a fork
 *
 * doc/memory.md explains the reasons. Outside of libvipl only tests include this header.
 *
 * All state is in separate pages, which no program can register. In .bss or the heap, a page with
 * state could be adopted together with a neighbouring buffer. A forked child would then read
 * records that its parent is changing.
 */
#ifndef LIBVIPL_MEM_INTERNAL_H
#define LIBVIPL_MEM_INTERNAL_H

#include "libvipl/mem.h"

#include <pthread.h>
#include <sys/types.h>

#include "proto/limits.h"

#define MEM_PAGE_BYTES 4096ul

/* Largest size of one move, in bytes. Threads that write to the moved pages wait during the copy,
 * for 1 ms at this size. */
#define MEM_MOVE_BYTES_MAX (1ul << 20)

/*
 * Registration allocates all pages of shared and staged memory up to this size, in bytes. So the
 * program's cgroup pays for the pages; otherwise vipd would allocate them later. Larger memory is
 * often sparse, so its pages are allocated on use.
 */
#define MEM_POPULATE_BYTES_MAX (64ul << 20)
/* Unused bytes that the arena's file may always keep (vipl__mem_zone_room has the whole rule). */
#define MEM_IDLE_BYTES (64ul << 20)

/* Bytes of a block: the arena and the address space are divided into blocks (mem_zone.c). */
#define MEM_BLOCK_BYTES (1ull << 28)
#define MEM_BLOCKS      (VIP_ARENA_BYTES / MEM_BLOCK_BYTES)

#define MEM_NO_OFFSET UINT64_MAX

/* For functions in the window of a move (mem_move.c): no sanitizer may add code to them that
 * touches other memory. */
#if defined(__clang__)
#define MEM_RAW __attribute__((noinline, no_sanitize("address", "thread", "undefined")))
#else
#define MEM_RAW                                                                                    \
    __attribute__((noinline, no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif

/* One mapping as the kernel reports it. */
struct mem_piece {
    uintptr_t start;
    uintptr_t end;
    uint64_t offset; /* offset of `start` in the mapped file */
    uint64_t ino;    /* inode number; 0: the mapping has no file */
    dev_t dev;
    int prot; /* PROT_* */
    bool shared;
};

/* Adjacent adopted pages with the same count. The runs are sorted and do not overlap. */
struct mem_run {
    uintptr_t start;
    uintptr_t end;
    uintptr_t shadow; /* where the emptied old mapping of `start` is kept; 0 = it is lost */
    uint32_t count;   /* registrations; 0 = none, but the pages are still adopted */
};

/* One allocation of vipl__mem_alloc. */
struct mem_alloc {
    uintptr_t start;
    size_t bytes;
    uint64_t ino;
    dev_t dev;
    int fd;
};

/* A growing array in its own pages, not in the heap. */
struct mem_vec {
    void *items;
    size_t n;
    size_t bytes_mapped;
};

/* How to stop other threads from writing to pages while these pages are moved. */
enum mem_guard {
    MEM_GUARD_USERFAULTFD = 1, /* userfaultfd makes the writing threads wait */
    MEM_GUARD_ALONE,           /* the process has no other thread */
    MEM_GUARD_IMPOSSIBLE,      /* no userfaultfd, but other threads: move no pages */
};

struct mem_state {
    pthread_mutex_t lock; /* guards all fields below */
    int arena_fd;
    uint64_t arena_ino;
    dev_t arena_dev;

    int uffd; /* -1: none */
    bool uffd_tried;
    bool uffd_unpopulated; /* uffd also write-protects pages never touched (Linux 6.4) */
    int maps_fd;           /* /proc/self/maps for PROCMAP_QUERY; -1: none */
    bool maps_tried;

    struct mem_vec runs;              /* items: struct mem_run */
    uint64_t used_bytes, most_bytes;  /* sum of all runs: now; largest so far */
    struct mem_vec allocs;            /* items: struct mem_alloc */
    struct mem_vec stages;            /* items: int, the files of the staging areas */
    struct mem_vec pieces;            /* items: struct mem_piece, the range being prepared */
    uint64_t block_owner[MEM_BLOCKS]; /* 1 + address / MEM_BLOCK_BYTES of the owner; 0 = free */
    bool block_full[MEM_BLOCKS];      /* the arena's file keeps unused pages of this block */
    bool keeps;                       /* the arena's file keeps its pages, because vipd made it */
    unsigned arena_users;             /* NIC handles that are open or being opened */
    int fork_pipe[2];                 /* the child reports here that it has its copies */
    uint64_t pages_moved_in;          /* total so far */
    uint64_t pages_moved_out;         /* total so far */
    uint64_t stage_skipped_bytes;     /* bytes that could not be copied from or to staged memory */
};

/* Only tests set these, before the first use: behave as if the kernel lacked a feature. */
struct mem_switches {
    bool no_userfaultfd;
    bool user_mode_only;
    bool no_procmap_query;
    bool no_unpopulated;
    bool no_holes;       /* no holes can be punched into the arena's file */
    uint64_t idle_bytes; /* if not 0: replaces MEM_IDLE_BYTES */
};
extern struct mem_switches vipl__mem_switches;

/* ---- mem_state.c and mem.c */

/* The process's state, made on first use; NULL if there is no memory for it. */
struct mem_state *vipl__mem_state(void);
/* The process's state; NULL if it was not made yet. */
struct mem_state *vipl__mem_state_peek(void);
/* Make room for n items in total. Outcomes: 0; -ENOMEM. */
int vipl__mem_vec_reserve(struct mem_vec *vec, size_t n, size_t item_bytes);
/* Is arena_fd still the arena? A program that closes all fds may have reused its number. */
bool vipl__mem_arena_alive(const struct mem_state *st);

static inline uintptr_t mem_page_down(uintptr_t addr)
{
    return addr & ~(MEM_PAGE_BYTES - 1);
}

static inline uintptr_t mem_page_up(uintptr_t addr)
{
    return mem_page_down(addr + MEM_PAGE_BYTES - 1);
}

/* ---- mem_return.c; all with the lock held */

/* Does the mapping map, at addr, the arena page that adoption chose for addr? */
bool vipl__mem_is_adopted(const struct mem_state *st, const struct mem_piece *piece,
                          uintptr_t addr);
/*
 * The program has unmapped the arena pages [offset, offset + bytes), or moved them with mremap
 * (realloc does). Where the pages still are mapped, make them private memory, so that the offsets
 * can be used again. This is rare, so the call may read all mappings. Outcomes: 0; negative errno:
 * some pages could not be moved.
 */
int vipl__mem_settle_strays(struct mem_state *st, uint64_t offset, size_t bytes);
/* Make the pages of [start, end) that have no registration private memory again. */
void vipl__mem_sweep(struct mem_state *st, uintptr_t start, uintptr_t end);

/* ---- mem_maps.c */

/*
 * Find the mapping that covers addr or, if no mapping does, the next mapping above. Outcomes: 0;
 * -ENOENT: no mapping at or above addr; other negative errno: the mappings cannot be read.
 */
int vipl__mem_query(struct mem_state *st, uintptr_t addr, struct mem_piece *ret);

/* ---- mem_pin.c */

/*
 * Must the private anonymous pages [start, end) of piece stay where they are? Yes if the kernel or
 * the calling thread may access them during a move and cannot be made to wait (mem_pin.c).
 */
bool vipl__mem_pinned(const struct mem_piece *piece, uintptr_t start, uintptr_t end);

/* ---- mem_zone.c */

/* The arena offset that stands for addr; MEM_NO_OFFSET if addr has no offset. */
uint64_t vipl__mem_zone_offset(const struct mem_state *st, uintptr_t addr);
/* Give [start, end) one contiguous piece of the arena. Outcomes: 0; 1: no piece fits. */
int vipl__mem_zone_reserve(struct mem_state *st, uintptr_t start, uintptr_t end);
/*
 * May the pages of the reserved range [start, end) be adopted? No, if the arena's file keeps its
 * pages, needs new pages, and would then exceed its limit. The limit is MEM_IDLE_BYTES plus twice
 * the largest number of bytes that were adopted at one time.
 */
bool vipl__mem_zone_room(const struct mem_state *st, uintptr_t start, uintptr_t end);
/*
 * The arena's pages [offset, offset + bytes) are no longer used. Give them back to the kernel. A
 * file that keeps its pages keeps these for later adoptions.
 */
void vipl__mem_zone_free(struct mem_state *st, uint64_t offset, size_t bytes);

/* ---- mem_runs.c */

/* Index of the first run that ends above addr (may be the number of runs). */
size_t vipl__mem_runs_find(const struct mem_state *st, uintptr_t addr);
struct mem_run *vipl__mem_run(const struct mem_state *st, size_t i);
/* Make room for `more` runs, because operations split runs. Outcomes: 0; -ENOMEM. */
int vipl__mem_runs_reserve(struct mem_state *st, size_t more);
/* [start, end) was moved into the arena. Pages that have a run keep its count; other pages get
 * count 0. shadow: the kept old mapping of start. */
void vipl__mem_runs_moved_in(struct mem_state *st, uintptr_t start, uintptr_t end,
                             uintptr_t shadow);
/* Pages of [start, end) that have no run get one with count 0. */
void vipl__mem_runs_fill(struct mem_state *st, uintptr_t start, uintptr_t end);
void vipl__mem_runs_count_up(struct mem_state *st, uintptr_t start, uintptr_t end);
void vipl__mem_runs_count_down(struct mem_state *st, uintptr_t start, uintptr_t end);
/* Forget the runs of [start, end); the caller handles their shadows. */
void vipl__mem_runs_drop(struct mem_state *st, uintptr_t start, uintptr_t end);

/* ---- mem_move.c */

enum mem_guard vipl__mem_guard(struct mem_state *st);

/*
 * Move private anonymous pages of one mapping into the arena; the range is at most
 * MEM_MOVE_BYTES_MAX. shadow: reserved address at which to keep the emptied mapping; 0 = anywhere.
 * Outcomes: 0 and *ret_shadow; 1 and *ret_shadow: moved, but the memory was locked (mlock), and the
 * arena is not; negative errno: nothing has changed.
 */
int vipl__mem_move_in(struct mem_state *st, enum mem_guard guard, uintptr_t addr, size_t bytes,
                      int prot, uintptr_t shadow, uintptr_t *ret_shadow);

/*
 * Was the emptied mapping at *shadow marked with MADV_DONTDUMP or MADV_WIPEONFORK? The arena's
 * mapping would lose such a mark. Also true if the test fails. The test may move a mapping of one
 * page: then *shadow is its new address. A mapping in a reservation is never that small.
 */
bool vipl__mem_marked(struct mem_state *st, uintptr_t *shadow, size_t bytes);

/*
 * Move pages that map the arena at `offset` back to private memory with protection prot, into the
 * mapping kept at shadow (0 = a new mapping). Outcomes: 0: that kept mapping is used up; negative
 * errno: the pages still map the arena.
 */
int vipl__mem_move_out(struct mem_state *st, enum mem_guard guard, uintptr_t addr, size_t bytes,
                       uint64_t offset, int prot, uintptr_t shadow);

/* ---- mem_stage.c */

/*
 * Make a staging area for the range. known: the range is known to be readable; if false, test it.
 * Outcomes: as vipl__mem_prepare. The caller does not hold the lock, because this call may ask vipd
 * for the file.
 */
int vipl__mem_stage_prepare(struct mem_state *st, uintptr_t addr, size_t bytes, bool known,
                            const struct vipl__mem_files *files, struct vipl__mem *ret,
                            const char **why);
/* Free a staging area. In the child of a fork, do nothing for the parent's areas. */
void vipl__mem_stage_release(struct mem_state *st, struct vipl__mem *mem);
/*
 * Allocate the pages [map, map + bytes) of a shared mapping of the library, if they are not more
 * than MEM_POPULATE_BYTES_MAX. Outcomes: 0; -ENOMEM with a sentence in *why.
 */
int vipl__mem_populate(void *map, size_t bytes, const char **why);

/* ---- mem_file.c */

/* Make a memfd, sealed SHRINK and GROW. name: as shown in /proc. Outcomes: fd; -errno. */
int vipl__mem_file_own(const char *name, size_t bytes);
/* As vipl__mem_file_own, but vipd makes the file if it can. */
int vipl__mem_file_any(const char *name, size_t bytes);
/* Map the file fd for reading and writing. Outcomes: 0; negative errno, and fd is closed. */
int vipl__mem_file_map(int fd, size_t bytes, void **ret);

#endif
