/*
 * This file counts how often each adopted page (a page that was moved into the arena) is
 * registered. It stores sorted runs of pages with the same count.
 *
 * A run does not prove that its pages still map the arena; only the kernel knows that (mem.c).
 * Callers reserve room first, so no function here fails half way.
 */
#include "libvipl/mem_internal.h"

#include <string.h>
#include <sys/mman.h>

#include "proto/assert.h"

struct mem_run *vipl__mem_run(const struct mem_state *st, size_t i)
{
    return (struct mem_run *)st->runs.items + i;
}

size_t vipl__mem_runs_find(const struct mem_state *st, uintptr_t addr)
{
    size_t low = 0;
    size_t high = st->runs.n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (vipl__mem_run(st, mid)->end > addr)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

int vipl__mem_runs_reserve(struct mem_state *st, size_t more)
{
    return vipl__mem_vec_reserve(&st->runs, st->runs.n + more, sizeof(struct mem_run));
}

static void insert_at(struct mem_state *st, size_t i, struct mem_run run)
{
    VIP_ASSERT((st->runs.n + 1) * sizeof(run) <= st->runs.bytes_mapped);
    memmove(vipl__mem_run(st, i + 1), vipl__mem_run(st, i), (st->runs.n - i) * sizeof(run));
    *vipl__mem_run(st, i) = run;
    st->runs.n++;
}

static void remove_at(struct mem_state *st, size_t i)
{
    st->runs.n--;
    memmove(vipl__mem_run(st, i), vipl__mem_run(st, i + 1),
            (st->runs.n - i) * sizeof(struct mem_run));
}

/* If a run contains addr, split the run there. Returns the index of the first run that starts at or
 * above addr. */
static size_t split_at(struct mem_state *st, uintptr_t addr)
{
    size_t i = vipl__mem_runs_find(st, addr);

    if (i < st->runs.n && vipl__mem_run(st, i)->start < addr) {
        struct mem_run upper = *vipl__mem_run(st, i);
        if (upper.shadow != 0)
            upper.shadow += addr - upper.start;
        upper.start = addr;
        vipl__mem_run(st, i)->end = addr;
        insert_at(st, ++i, upper);
    }
    return i;
}

/* Unite neighbouring runs with equal counts in and around [start, end), to keep the number of runs
 * small. */
static void unite(struct mem_state *st, uintptr_t start, uintptr_t end)
{
    size_t i = vipl__mem_runs_find(st, start == 0 ? 0 : start - 1);

    while (i + 1 < st->runs.n && vipl__mem_run(st, i)->start <= end) {
        struct mem_run *a = vipl__mem_run(st, i);
        struct mem_run *b = vipl__mem_run(st, i + 1);
        bool shadows =
            a->shadow == 0 ? b->shadow == 0 : b->shadow == a->shadow + (b->start - a->start);

        if (a->end == b->start && a->count == b->count && shadows) {
            a->end = b->end;
            remove_at(st, i + 1);
        } else {
            i++;
        }
    }
}

void vipl__mem_runs_fill(struct mem_state *st, uintptr_t start, uintptr_t end)
{
    size_t i = vipl__mem_runs_find(st, start);

    while (start < end) {
        uintptr_t next = i < st->runs.n ? vipl__mem_run(st, i)->start : end;
        if (next > start) {
            uintptr_t stop = next < end ? next : end;
            insert_at(st, i, (struct mem_run){.start = start, .end = stop});
            st->used_bytes += stop - start;
        }
        start = vipl__mem_run(st, i)->end;
        i++;
    }
    if (st->used_bytes > st->most_bytes)
        st->most_bytes = st->used_bytes;
}

void vipl__mem_runs_moved_in(struct mem_state *st, uintptr_t start, uintptr_t end, uintptr_t shadow)
{
    vipl__mem_runs_fill(st, start, end);
    split_at(st, end);
    for (size_t i = split_at(st, start); i < st->runs.n; i++) {
        struct mem_run *run = vipl__mem_run(st, i);
        if (run->start >= end)
            break;
        /* The run has an old shadow if the program mapped other memory here after an adoption: drop
         * that shadow. */
        if (run->shadow != 0)
            munmap((void *)run->shadow, run->end - run->start);
        run->shadow = shadow + (run->start - start);
    }
    unite(st, start, end);
}

void vipl__mem_runs_count_up(struct mem_state *st, uintptr_t start, uintptr_t end)
{
    split_at(st, end);
    for (size_t i = split_at(st, start); i < st->runs.n && vipl__mem_run(st, i)->start < end; i++)
        vipl__mem_run(st, i)->count++;
    unite(st, start, end);
}

void vipl__mem_runs_count_down(struct mem_state *st, uintptr_t start, uintptr_t end)
{
    split_at(st, end);
    for (size_t i = split_at(st, start); i < st->runs.n && vipl__mem_run(st, i)->start < end; i++)
        if (vipl__mem_run(st, i)->count > 0)
            vipl__mem_run(st, i)->count--;
    unite(st, start, end);
}

void vipl__mem_runs_drop(struct mem_state *st, uintptr_t start, uintptr_t end)
{
    size_t i;

    split_at(st, end);
    i = split_at(st, start);
    while (i < st->runs.n && vipl__mem_run(st, i)->start < end) {
        st->used_bytes -= vipl__mem_run(st, i)->end - vipl__mem_run(st, i)->start;
        remove_at(st, i);
    }
}
