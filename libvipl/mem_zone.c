/*
 * This file decides which arena offset stands for which address.
 *
 * vipd reaches a region as one contiguous piece of the arena, and regions may overlap. So pages
 * that are neighbours in memory must be neighbours in the arena, in whatever order they are
 * registered. For this the address space and the arena are divided into blocks. Each address block
 * with adopted pages owns one arena block, and a page has the same offset in both. So the arena
 * does not fragment. The arena is sparse: a block without pages costs no memory.
 *
 * Neighbouring address blocks get neighbouring arena blocks if these are free. A block without
 * neighbours gets the middle of the widest gap, so that there is room on both sides.
 *
 * Unused pages go back to the kernel, except in a file that vipd has made: such a file keeps its
 * pages, and later adoptions use them again. So an address block preferably gets an arena block
 * with unused pages at the same offsets. If the file has too many pages, memory that needs more is
 * not adopted.
 */
#include "libvipl/mem_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(MEM_BLOCKS *MEM_BLOCK_BYTES == VIP_ARENA_BYTES, "the arena is whole blocks");

static uint64_t block_of(uintptr_t addr)
{
    return addr / MEM_BLOCK_BYTES;
}

/* Arena block of an address block; MEM_BLOCKS if the address block has none. */
static size_t find_block(const struct mem_state *st, uint64_t block)
{
    for (size_t i = 0; i < MEM_BLOCKS; i++)
        if (st->block_owner[i] == block + 1)
            return i;
    return MEM_BLOCKS;
}

uint64_t vipl__mem_zone_offset(const struct mem_state *st, uintptr_t addr)
{
    size_t i = find_block(st, block_of(addr));

    return i < MEM_BLOCKS ? i * MEM_BLOCK_BYTES + addr % MEM_BLOCK_BYTES : MEM_NO_OFFSET;
}

/* Can the n address blocks from `first` on use the arena blocks from `at` on? */
static bool fits(const struct mem_state *st, size_t at, uint64_t first, uint64_t n)
{
    if (at >= MEM_BLOCKS || n > MEM_BLOCKS - at)
        return false;
    for (uint64_t i = 0; i < n; i++) {
        size_t owned = find_block(st, first + i);
        if (owned < MEM_BLOCKS ? owned != at + i : st->block_owner[at + i] != 0)
            return false;
    }
    return true;
}

/* Place for n blocks in the middle of the widest free gap; MEM_BLOCKS: no gap is wide enough. */
static size_t widest_gap(const struct mem_state *st, uint64_t n)
{
    size_t best_at = 0;
    size_t best_blocks = 0;
    size_t run = 0;

    for (size_t i = 0; i < MEM_BLOCKS; i++) {
        run = st->block_owner[i] == 0 ? run + 1 : 0;
        if (run > best_blocks) {
            best_blocks = run;
            best_at = i + 1 - run;
        }
    }
    return best_blocks >= n ? best_at + (best_blocks - n) / 2 : MEM_BLOCKS;
}

/* Does the arena's file have pages for all these bytes? */
static bool has_pages(const struct mem_state *st, uint64_t offset, uint64_t bytes)
{
    return lseek(st->arena_fd, (off_t)offset, SEEK_HOLE) >= (off_t)(offset + bytes);
}

/*
 * Find n free arena blocks side by side that have pages, for n address blocks that begin with
 * `start`. Prefer blocks that have all pages of [start, end). MEM_BLOCKS: there are no such blocks.
 */
static size_t full_gap(const struct mem_state *st, uintptr_t start, uintptr_t end, uint64_t n)
{
    size_t found = MEM_BLOCKS, run = 0;

    for (size_t i = 0; i < MEM_BLOCKS; i++) {
        run = st->block_owner[i] == 0 && st->block_full[i] ? run + 1 : 0;
        if (run < n)
            continue;
        found = i + 1 - n;
        if (has_pages(st, found * MEM_BLOCK_BYTES + start % MEM_BLOCK_BYTES, end - start))
            break;
    }
    return found;
}

/* Does this block have adopted pages? */
static bool in_use(const struct mem_state *st, size_t i)
{
    uintptr_t start = (st->block_owner[i] - 1) * MEM_BLOCK_BYTES;
    size_t at = vipl__mem_runs_find(st, start);

    return at < st->runs.n && vipl__mem_run(st, at)->start < start + MEM_BLOCK_BYTES;
}

/*
 * A place beside the arena block of a neighbouring address block; used_only: only if that block is
 * in use. MEM_BLOCKS: there is no such place.
 */
static size_t beside(const struct mem_state *st, uint64_t first, uint64_t n, bool used_only)
{
    size_t at = first > 0 ? find_block(st, first - 1) : MEM_BLOCKS;

    if (at < MEM_BLOCKS && fits(st, at + 1, first, n) && (!used_only || in_use(st, at)))
        return at + 1;
    at = find_block(st, first + n);
    if (at < MEM_BLOCKS && at >= n && fits(st, at - n, first, n) && (!used_only || in_use(st, at)))
        return at - n;
    return MEM_BLOCKS;
}

/*
 * Choose a place for the blocks: beside arena blocks that they already have; else beside a
 * neighbour that is in use; else where the file has pages; else beside any neighbour; else
 * anywhere.
 */
static size_t choose(const struct mem_state *st, uintptr_t start, uintptr_t end)
{
    uint64_t first = block_of(start), n = block_of(end - 1) - first + 1;
    size_t at;

    for (uint64_t i = 0; i < n; i++) {
        at = find_block(st, first + i);
        if (at < MEM_BLOCKS)
            return at >= i && fits(st, at - i, first, n) ? at - i : MEM_BLOCKS;
    }
    at = beside(st, first, n, true);
    if (at == MEM_BLOCKS)
        at = full_gap(st, start, end, n);
    if (at == MEM_BLOCKS)
        at = beside(st, first, n, false);
    return at < MEM_BLOCKS ? at : widest_gap(st, n);
}

/* Free blocks without adopted pages: all, or (full_only) those for which the file keeps pages. */
static void reclaim(struct mem_state *st, bool full_only)
{
    for (size_t i = 0; i < MEM_BLOCKS; i++)
        if (st->block_owner[i] != 0 && (!full_only || st->block_full[i]) && !in_use(st, i))
            st->block_owner[i] = 0;
}

int vipl__mem_zone_reserve(struct mem_state *st, uintptr_t start, uintptr_t end)
{
    uint64_t first = block_of(start);
    uint64_t n = block_of(end - 1) - first + 1;
    size_t at;

    if (n > MEM_BLOCKS)
        return 1;
    at = find_block(st, first);
    if (at == MEM_BLOCKS || !in_use(st, at))
        reclaim(st, true);
    at = choose(st, start, end);
    if (at == MEM_BLOCKS) {
        reclaim(st, false);
        at = choose(st, start, end);
    }
    if (at == MEM_BLOCKS)
        return 1;
    for (uint64_t i = 0; i < n; i++)
        st->block_owner[at + i] = first + i + 1;
    return 0;
}

void vipl__mem_zone_free(struct mem_state *st, uint64_t offset, size_t bytes)
{
    if (!st->keeps && !vipl__mem_switches.no_holes &&
        fallocate(st->arena_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                  (off_t)bytes) == 0)
        return;
    st->keeps = true;
    for (uint64_t at = offset / MEM_BLOCK_BYTES; at <= (offset + bytes - 1) / MEM_BLOCK_BYTES; at++)
        st->block_full[at] = true;
}

/* Number of bytes of [start, end) that are not adopted yet. */
static uint64_t fresh_bytes(const struct mem_state *st, uintptr_t start, uintptr_t end)
{
    uint64_t bytes = end - start;

    for (size_t i = vipl__mem_runs_find(st, start); i < st->runs.n; i++) {
        const struct mem_run *run = vipl__mem_run(st, i);

        if (run->start >= end)
            break;
        bytes -= (run->end < end ? run->end : end) - (run->start > start ? run->start : start);
    }
    return bytes;
}

/* Largest number of holes that one search looks at. The bytes after them count as without pages. */
#define HOLES_MAX 1000

/* Number of bytes of [offset, offset + bytes) for which the file has no pages. */
static uint64_t lacking_bytes(const struct mem_state *st, uint64_t offset, uint64_t bytes)
{
    uint64_t end = offset + bytes, lacking = 0;

    for (unsigned i = 0; offset < end && i < HOLES_MAX; i++) {
        off_t hole = lseek(st->arena_fd, (off_t)offset, SEEK_HOLE);
        off_t data = hole < 0 ? hole : lseek(st->arena_fd, hole, SEEK_DATA);

        if (hole < 0 || (uint64_t)hole >= end)
            return lacking + (hole < 0 ? end - offset : 0);
        offset = data < 0 || (uint64_t)data > end ? end : (uint64_t)data;
        lacking += offset - (uint64_t)hole;
    }
    return lacking + (end - offset);
}

bool vipl__mem_zone_room(const struct mem_state *st, uintptr_t start, uintptr_t end)
{
    uint64_t idle = MEM_IDLE_BYTES, lacking, most;
    struct stat file;

    if (!st->keeps || fstat(st->arena_fd, &file) != 0)
        return true;
    lacking = lacking_bytes(st, vipl__mem_zone_offset(st, start), end - start);
    if (vipl__mem_switches.idle_bytes)
        idle = vipl__mem_switches.idle_bytes;
    most = st->used_bytes + fresh_bytes(st, start, end);
    if (most < st->most_bytes)
        most = st->most_bytes;
    return !lacking || (uint64_t)file.st_blocks * 512 + lacking <= 2 * most + idle;
}
