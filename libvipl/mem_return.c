/*
 * Return of adopted pages: pages become private memory again when their last registration is gone.
 *
 * Owns: what happens to pages without a registration, also if the program has unmapped or moved
 * them meanwhile. mem_runs.c counts the registrations.
 */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <sys/mman.h>

static bool is_arena(const struct mem_state *st, const struct mem_piece *piece)
{
    return piece->shared && piece->ino == st->arena_ino && piece->dev == st->arena_dev &&
           st->arena_fd >= 0;
}

bool vipl__mem_is_adopted(const struct mem_state *st, const struct mem_piece *piece, uintptr_t addr)
{
    return is_arena(st, piece) &&
           piece->offset + (addr - piece->start) == vipl__mem_zone_offset(st, addr);
}

/*
 * Make arena pages [start, end) private again, in moves of at most MEM_MOVE_BYTES_MAX. offset: the
 * arena offset of start. Outcomes: 0; negative errno. *ret_done: the end of the pages that were
 * moved.
 */
static int move_out_all(struct mem_state *st, uintptr_t start, uintptr_t end, uint64_t offset,
                        int prot, uintptr_t shadow, uintptr_t *ret_done)
{
    enum mem_guard guard = vipl__mem_guard(st);
    int rc = 0;

    while (start < end && rc == 0) {
        size_t bytes = end - start < MEM_MOVE_BYTES_MAX ? end - start : MEM_MOVE_BYTES_MAX;
        rc = vipl__mem_move_out(st, guard, start, bytes, offset, prot, shadow);
        if (rc == 0) {
            vipl__mem_zone_free(st, offset, bytes);
            start += bytes;
            offset += bytes;
            shadow += shadow != 0 ? bytes : 0;
        }
    }
    *ret_done = start;
    return rc;
}

int vipl__mem_settle_strays(struct mem_state *st, uint64_t offset, size_t bytes)
{
    struct mem_piece piece;
    uintptr_t at = 0;
    int rc;

    while ((rc = vipl__mem_query(st, at, &piece)) == 0) {
        uint64_t first = piece.offset > offset ? piece.offset : offset;
        uint64_t last = piece.offset + (piece.end - piece.start);
        uintptr_t start = piece.start + (uintptr_t)(first - piece.offset);

        at = piece.end;
        if (last > offset + bytes)
            last = offset + bytes;
        if (!is_arena(st, &piece) || first >= last || vipl__mem_is_adopted(st, &piece, start))
            continue;
        rc = move_out_all(st, start, start + (uintptr_t)(last - first), first, piece.prot, 0,
                          &start);
        if (rc != 0)
            return rc;
    }
    return rc == -ENOENT ? 0 : rc;
}

/*
 * No page of [start, end) is mapped at the address where it was adopted: free the pages and their
 * shadow. Outcomes as vipl__mem_settle_strays.
 */
static int forget_pages(struct mem_state *st, uintptr_t start, uintptr_t end, uintptr_t shadow)
{
    uint64_t offset = vipl__mem_zone_offset(st, start);
    int rc = vipl__mem_settle_strays(st, offset, end - start);

    if (rc != 0)
        return rc;
    if (shadow != 0)
        munmap((void *)shadow, end - start);
    vipl__mem_zone_free(st, offset, end - start);
    return 0;
}

/*
 * Make the pages of one run private again. If this fails for a page, the page stays adopted, and
 * its run stays with count 0 for the next registration.
 */
static void return_run(struct mem_state *st, struct mem_run run)
{
    uintptr_t at = run.start;

    while (at < run.end) {
        struct mem_piece piece;
        uintptr_t shadow = run.shadow != 0 ? run.shadow + (at - run.start) : 0;
        uintptr_t stop = run.end;
        uintptr_t done;
        int rc = vipl__mem_query(st, at, &piece);

        if (rc != 0 && rc != -ENOENT)
            return;
        if (rc == 0 && piece.start > at)
            stop = piece.start < run.end ? piece.start : run.end;
        else if (rc == 0 && piece.end < run.end)
            stop = piece.end;
        if (rc == 0 && piece.start <= at && vipl__mem_is_adopted(st, &piece, at)) {
            rc = move_out_all(st, at, stop, vipl__mem_zone_offset(st, at), piece.prot, shadow,
                              &done);
        } else {
            rc = forget_pages(st, at, stop, shadow);
            done = rc == 0 ? stop : at;
        }
        vipl__mem_runs_drop(st, at, done);
        if (rc != 0)
            return;
        at = stop;
    }
}

void vipl__mem_sweep(struct mem_state *st, uintptr_t start, uintptr_t end)
{
    size_t i;

    if (!vipl__mem_arena_alive(st))
        return;
    while (start < end && (i = vipl__mem_runs_find(st, start)) < st->runs.n) {
        struct mem_run run = *vipl__mem_run(st, i);
        if (run.start >= end)
            return;
        if (run.start < start) {
            run.shadow += run.shadow != 0 ? start - run.start : 0;
            run.start = start;
        }
        if (run.end > end)
            run.end = end;
        /* Reserve room for runs first, because return_run splits the run. */
        if (run.count == 0 && vipl__mem_runs_reserve(st, 4) == 0)
            return_run(st, run);
        start = run.end;
    }
}
