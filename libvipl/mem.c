/*
 * Registration and release of memory; allocation of memory that is shared from birth.
 *
 * Owns: the decision how vipd reaches a range, and the order of steps. The program may change its
 * mappings at any time, so each call reads them from the kernel. A registration adopts pages that
 * do not map the arena yet; a release moves back only pages that still map it. The counts
 * (mem_runs.c) only say when a page's last registration is gone. Each call holds one lock, so two
 * moves never overlap.
 */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/assert.h"

/*
 * Open the arena, unless it is open. offered: the file to use for it; -1: make a file. Outcomes:
 * the file descriptor of the arena; -errno. Lock held.
 */
static int arena_open(struct mem_state *st, int offered)
{
    struct stat file;
    int fd = offered;
    int rc;

    if (st->arena_fd >= 0)
        return st->arena_fd;
    if (fd < 0)
        fd = vipl__mem_file_own("vipl-arena", VIP_ARENA_BYTES);
    if (fd < 0)
        return fd;
    if (fstat(fd, &file) != 0) {
        rc = -errno;
        if (fd != offered)
            close(fd);
        return rc;
    }
    st->arena_fd = fd;
    st->arena_ino = file.st_ino;
    st->arena_dev = file.st_dev;
    return fd;
}

int vipl__mem_arena_hold(void)
{
    struct mem_state *st = vipl__mem_state();
    int fd = -ENOMEM;

    if (st == NULL)
        return fd;
    pthread_mutex_lock(&st->lock);
    fd = st->arena_fd >= 0 ? st->arena_fd : -ENOENT;
    if (fd >= 0)
        st->arena_users++;
    pthread_mutex_unlock(&st->lock);
    return fd;
}

int vipl__mem_arena_get(int offered)
{
    struct mem_state *st = vipl__mem_state();
    int fd = -ENOMEM;

    if (st != NULL) {
        pthread_mutex_lock(&st->lock);
        fd = arena_open(st, offered);
        if (fd >= 0)
            st->arena_users++;
        pthread_mutex_unlock(&st->lock);
    }
    if (offered >= 0 && fd != offered)
        close(offered);
    return fd;
}

void vipl__mem_arena_put(void)
{
    struct mem_state *st = vipl__mem_state();

    pthread_mutex_lock(&st->lock);
    if (st->arena_users > 0) /* a forked child starts with 0 */
        st->arena_users--;
    /* The last user is gone: close the file, which also frees its idle pages. */
    if (st->arena_users == 0 && st->runs.n == 0) {
        if (vipl__mem_arena_alive(
                st)) /* if not, the program closed arena_fd and may reuse its number */
            close(st->arena_fd);
        st->arena_fd = -1;
        st->arena_ino = 0;
        memset(st->block_owner, 0, sizeof(st->block_owner));
        memset(st->block_full, 0, sizeof(st->block_full));
        st->keeps = false;
        st->most_bytes = 0;
    }
    pthread_mutex_unlock(&st->lock);
}

/* ---- adoption ------------------------------------------------------------------------------- */

/*
 * Adopt one mapping's pages [start, end). Outcomes: 0; negative errno: some pages may be adopted.
 * -EPERM: the mapping is locked, excluded from core dumps (MADV_DONTDUMP), or empty in children
 * (MADV_WIPEONFORK). The arena's mapping would lose that attribute. Only a move shows such an
 * attribute; after -EPERM the caller moves the pages back.
 */
static int move_in_all(struct mem_state *st, uintptr_t start, uintptr_t end, int prot)
{
    enum mem_guard guard = vipl__mem_guard(st);
    uintptr_t reserve = 0;
    uintptr_t at = start;
    int rc = 0;

    /* Keep the emptied mappings of all pieces side by side, so that they merge into one mapping. */
    if (end - start > MEM_MOVE_BYTES_MAX) {
        void *map =
            mmap(NULL, end - start, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED)
            return -errno;
        reserve = (uintptr_t)map;
    }
    while (at < end && rc == 0) {
        bool first = at == start;
        size_t bytes = end - at < MEM_MOVE_BYTES_MAX ? end - at : MEM_MOVE_BYTES_MAX;
        uintptr_t shadow = 0;

        rc = vipl__mem_runs_reserve(st, 8);
        if (rc == 0)
            rc = vipl__mem_move_in(st, guard, at, bytes, prot,
                                   reserve != 0 ? reserve + (at - start) : 0, &shadow);
        if (rc >= 0) {
            bool stays = rc > 0 || (first && vipl__mem_marked(st, &shadow, bytes));

            vipl__mem_runs_moved_in(st, at, at + bytes, shadow);
            at += bytes;
            rc = stays ? -EPERM : 0;
        }
    }
    if (reserve != 0 && at < end)
        munmap((void *)(reserve + (at - start)), end - at);
    return rc;
}

/* Result of a look at the mappings of a range. */
struct look {
    bool movable; /* each page is adopted or can be adopted */
    bool known;   /* true: the whole range is mapped and readable; false: unknown */
};

static bool is_movable(const struct mem_piece *piece, uintptr_t start, uintptr_t end)
{
    return !piece->shared && piece->ino == 0 &&
           (piece->prot & (PROT_READ | PROT_WRITE)) == (PROT_READ | PROT_WRITE) &&
           !vipl__mem_pinned(piece, start, end);
}

/*
 * Read the mappings of [start, end) into st->pieces. Outcomes: 0 and *ret; -EFAULT: a part is not
 * mapped or not readable; -ENOMEM; another errno: the mappings cannot be read.
 */
static int look_at(struct mem_state *st, uintptr_t start, uintptr_t end, struct look *ret,
                   const char **why)
{
    struct look look = {.movable = true, .known = true};

    st->pieces.n = 0;
    while (start < end) {
        struct mem_piece piece;
        int rc = vipl__mem_query(st, start, &piece);

        if (rc == -ENOENT || (rc == 0 && piece.start > start)) {
            *why = "part of the range is not mapped";
            return -EFAULT;
        }
        if (rc != 0)
            return rc;
        if ((piece.prot & PROT_READ) == 0) {
            *why = "part of the range is not readable";
            return -EFAULT;
        }
        if (vipl__mem_vec_reserve(&st->pieces, st->pieces.n + 1, sizeof(piece)) != 0)
            return -ENOMEM;
        uintptr_t stop = piece.end < end ? piece.end : end;
        look.movable = look.movable &&
                       (vipl__mem_is_adopted(st, &piece, start) || is_movable(&piece, start, stop));
        piece.end = stop;
        ((struct mem_piece *)st->pieces.items)[st->pieces.n++] = piece;
        start = stop;
    }
    *ret = look;
    return 0;
}

/*
 * Adopt the range that look_at found movable. Outcomes: 0; negative errno: no registration is
 * counted, and the caller stages the range.
 */
static int adopt(struct mem_state *st, uintptr_t start, uintptr_t end)
{
    const struct mem_piece *piece = st->pieces.items;
    int rc = vipl__mem_runs_reserve(st, 2 * st->pieces.n + 8);

    for (size_t i = 0; i < st->pieces.n && rc == 0; i++) {
        uintptr_t from = piece[i].start > start ? piece[i].start : start;
        uint64_t offset = vipl__mem_zone_offset(st, from);
        size_t run = vipl__mem_runs_find(st, from);

        if (vipl__mem_is_adopted(st, &piece[i], from))
            continue;
        /*
         * A run exists for these pages, but they do not map the arena: the program has unmapped or
         * moved the adopted pages.
         */
        if (run < st->runs.n && vipl__mem_run(st, run)->start < piece[i].end)
            rc = vipl__mem_settle_strays(st, offset, piece[i].end - from);
        if (rc == 0)
            rc = move_in_all(st, from, piece[i].end, piece[i].prot);
    }
    if (rc == 0)
        rc = vipl__mem_runs_reserve(st, st->pieces.n + 4);
    if (rc == 0) {
        /* Adopted pages without a run: the program has moved them away and back (mremap). Count
         * them again. */
        vipl__mem_runs_fill(st, start, end);
        vipl__mem_runs_count_up(st, start, end);
    } else {
        vipl__mem_sweep(st, start, end);
    }
    return rc;
}

/*
 * If all of [start, end) is one adopted mapping and has runs, count one more registration. False:
 * it is not such a mapping, or there is no room for runs.
 */
static bool count_again(struct mem_state *st, uintptr_t start, uintptr_t end)
{
    struct mem_piece piece;
    size_t i = vipl__mem_runs_find(st, start);
    uintptr_t at = start;

    for (; i < st->runs.n && at < end && vipl__mem_run(st, i)->start <= at; i++)
        at = vipl__mem_run(st, i)->end;
    if (at < end || vipl__mem_query(st, start, &piece) != 0 || piece.start > start ||
        piece.end < end || (piece.prot & PROT_READ) == 0 ||
        !vipl__mem_is_adopted(st, &piece, start) || vipl__mem_runs_reserve(st, 4) != 0)
        return false;
    vipl__mem_runs_count_up(st, start, end);
    return true;
}

/* The allocation that holds [addr, addr + bytes), NULL if none does. */
static const struct mem_alloc *find_alloc(const struct mem_state *st, uintptr_t addr, size_t bytes)
{
    const struct mem_alloc *alloc = st->allocs.items;

    for (size_t i = 0; i < st->allocs.n; i++)
        if (addr >= alloc[i].start && addr - alloc[i].start < alloc[i].bytes &&
            bytes <= alloc[i].bytes - (addr - alloc[i].start))
            return &alloc[i];
    return NULL;
}

/* Is the range in memory of vipl__mem_alloc that is still mapped there? If so, fill in *ret. */
static bool prepare_shared(struct mem_state *st, uintptr_t addr, size_t bytes,
                           struct vipl__mem *ret)
{
    const struct mem_alloc *alloc = find_alloc(st, addr, bytes);
    struct mem_piece piece;

    if (alloc == NULL || vipl__mem_query(st, addr, &piece) != 0 || piece.start > addr ||
        piece.end < addr + bytes || !piece.shared || piece.ino != alloc->ino ||
        piece.dev != alloc->dev || piece.offset != piece.start - alloc->start)
        return false;
    *ret = (struct vipl__mem){.addr = addr,
                              .bytes = bytes,
                              .kind = VIPL__MEM_SHARED,
                              .offset = addr - alloc->start,
                              .fd = alloc->fd};
    return true;
}

/* Does each page of [start, end) still map the arena page that adoption gave it? */
static bool still_adopted(struct mem_state *st, uintptr_t start, uintptr_t end)
{
    struct mem_piece piece;

    while (start < end) {
        if (vipl__mem_query(st, start, &piece) != 0 || piece.start > start ||
            !vipl__mem_is_adopted(st, &piece, start))
            return false;
        start = piece.end;
    }
    return true;
}

bool vipl__mem_intact(const struct vipl__mem *mem)
{
    struct mem_state *st = vipl__mem_state_peek();
    uintptr_t start = mem_page_down(mem->addr), end = mem_page_up(mem->addr + mem->bytes);
    struct vipl__mem now;
    struct look look;
    const char *why;
    bool intact = false;

    if (st == NULL)
        return false;
    pthread_mutex_lock(&st->lock);
    switch (mem->kind) {
    case VIPL__MEM_SHARED:
        intact = prepare_shared(st, mem->addr, mem->bytes, &now) && now.offset == mem->offset;
        break;
    case VIPL__MEM_ADOPTED:
        intact = still_adopted(st, start, end);
        break;
    case VIPL__MEM_STAGED:
        /* Staged bytes are copied by their address, so any readable memory there is enough. */
        intact = look_at(st, start, end, &look, &why) == 0;
        break;
    }
    pthread_mutex_unlock(&st->lock);
    return intact;
}

/*
 * Decide how vipd reaches the range, and share or adopt it; lock held. Outcomes: as
 * vipl__mem_prepare; 1: the caller must stage the range. *ret_known: is the range known to be
 * readable?
 */
static int prepare_locked(struct mem_state *st, uintptr_t addr, size_t bytes, bool no_shared,
                          struct vipl__mem *ret, bool *ret_known, const char **why)
{
    uintptr_t start = mem_page_down(addr);
    uintptr_t end = mem_page_up(addr + bytes);
    struct look look = {.movable = false, .known = false};
    bool adopted;
    int rc;

    if (!no_shared && prepare_shared(st, addr, bytes, ret))
        return 0;
    rc = arena_open(st, -1);
    if (rc < 0) {
        *why = "the memfd of adopted memory could not be made";
        return rc;
    }
    adopted = vipl__mem_arena_alive(st);
    if (!adopted || !count_again(st, start, end)) {
        rc = look_at(st, start, end, &look, why);
        /* After any other error the mappings are unknown: stage the range. A probe then tests
         * whether the range is readable. */
        if (rc == -EFAULT || rc == -ENOMEM)
            return rc;
        adopted = rc == 0 && adopted && look.movable &&
                  vipl__mem_zone_reserve(st, start, end) == 0 &&
                  vipl__mem_zone_room(st, start, end) && adopt(st, start, end) == 0;
    }
    *ret_known = look.known;
    if (!adopted)
        return 1;
    *ret = (struct vipl__mem){.addr = addr,
                              .bytes = bytes,
                              .kind = VIPL__MEM_ADOPTED,
                              .offset = vipl__mem_zone_offset(st, addr),
                              .fd = -1};
    return 0;
}

/* ---- calls ---------------------------------------------------------------------------------- */

int vipl__mem_prepare(void *addr, size_t bytes, const struct vipl__mem_files *files,
                      struct vipl__mem *ret, const char **why)
{
    struct mem_state *st = vipl__mem_state();
    uintptr_t start = (uintptr_t)addr;
    bool known = false;
    int rc;

    VIP_ASSERT(bytes > 0);
    *why = "no memory for bookkeeping";
    if (st == NULL)
        return -ENOMEM;
    if (start > UINTPTR_MAX - bytes - MEM_PAGE_BYTES) {
        *why = "the range exceeds the address space";
        return -EFAULT;
    }
    pthread_mutex_lock(&st->lock);
    rc = prepare_locked(st, start, bytes, files != NULL && files->no_shared, ret, &known, why);
    pthread_mutex_unlock(&st->lock);
    if (rc == 1)
        return vipl__mem_stage_prepare(st, start, bytes, known, files, ret, why);
    if (rc == 0 && ret->kind == VIPL__MEM_SHARED)
        rc = vipl__mem_populate((void *)mem_page_down(start),
                                mem_page_up(start + bytes) - mem_page_down(start), why);
    return rc;
}

void vipl__mem_release(struct vipl__mem *mem)
{
    struct mem_state *st = vipl__mem_state();
    uintptr_t start = mem_page_down(mem->addr);
    uintptr_t end = mem_page_up(mem->addr + mem->bytes);

    if (mem->kind == VIPL__MEM_STAGED && st != NULL)
        vipl__mem_stage_release(st, mem);
    if (mem->kind == VIPL__MEM_ADOPTED && st != NULL) {
        pthread_mutex_lock(&st->lock);
        /* If there is no room for runs, the pages stay adopted: a leak, but no error. */
        if (vipl__mem_runs_reserve(st, 4) == 0) {
            vipl__mem_runs_count_down(st, start, end);
            vipl__mem_sweep(st, start, end);
        }
        pthread_mutex_unlock(&st->lock);
    }
    *mem = (struct vipl__mem){.fd = -1};
}

void *vipl__mem_alloc(size_t bytes)
{
    struct mem_state *st = vipl__mem_state();
    struct mem_alloc alloc = {.bytes = mem_page_up(bytes)};
    struct stat file;
    void *map = NULL;
    int rc = st == NULL || alloc.bytes < bytes ? -ENOMEM : 0;

    VIP_ASSERT(bytes > 0);
    if (rc == 0)
        alloc.fd = rc = vipl__mem_file_any("vipl-shared", alloc.bytes);
    if (rc >= 0)
        rc = vipl__mem_file_map(alloc.fd, alloc.bytes, &map);
    if (rc != 0) {
        errno = -rc;
        return NULL;
    }
    madvise(map, alloc.bytes, MADV_HUGEPAGE);
    alloc.start = (uintptr_t)map;

    pthread_mutex_lock(&st->lock);
    rc = fstat(alloc.fd, &file) != 0 ? -errno : 0;
    if (rc == 0)
        rc = vipl__mem_vec_reserve(&st->allocs, st->allocs.n + 1, sizeof(alloc));
    if (rc == 0) {
        alloc.ino = file.st_ino;
        alloc.dev = file.st_dev;
        ((struct mem_alloc *)st->allocs.items)[st->allocs.n++] = alloc;
    }
    pthread_mutex_unlock(&st->lock);
    if (rc != 0) {
        munmap(map, alloc.bytes);
        close(alloc.fd);
        errno = -rc;
        return NULL;
    }
    return map;
}

int vipl__mem_free(void *addr)
{
    struct mem_state *st = vipl__mem_state_peek();
    int rc = -EINVAL;

    if (st == NULL)
        return -EINVAL;
    pthread_mutex_lock(&st->lock);
    struct mem_alloc *alloc = st->allocs.items;
    for (size_t i = 0; i < st->allocs.n; i++) {
        if (alloc[i].start != (uintptr_t)addr)
            continue;
        munmap(addr, alloc[i].bytes);
        close(alloc[i].fd);
        alloc[i] = alloc[--st->allocs.n];
        rc = 0;
        break;
    }
    pthread_mutex_unlock(&st->lock);
    return rc;
}
