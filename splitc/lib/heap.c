/*
 * Memory of spread arrays: two heaps and the stack in the region (region.c). The lists of blocks
 * are outside the region. An address depends only on earlier calls. So if all processes make the
 * same calls in the same order, they get the same addresses without messages.
 */
#include "splitc/lib/library.h"

#include <stdlib.h>

#define ALIGN_BYTES 64

/* A used or free block of a heap. The list of blocks is in the order of addresses. */
struct block {
    struct block *next;
    char *start;
    size_t bytes;
    bool used;
};

static struct block *common_heap, *own_heap;
static char *stack_top, *stack_end;

static struct block *new_block(char *start, size_t bytes, struct block *next)
{
    struct block *b = malloc(sizeof(*b));

    if (!b)
        rt_fatal("out of memory");
    b->start = start;
    b->bytes = bytes;
    b->used = false;
    b->next = next;
    return b;
}

void rt_heap_start(void)
{
    const struct rt_region *region = &rt.region;

    rt_region_map();
    common_heap = new_block(region->heap, region->heap_bytes, NULL);
    stack_top = region->stack;
    stack_end = stack_top + region->stack_bytes;
    own_heap = new_block(region->own, region->own_bytes, NULL);
}

/* Use the first free block that is large enough. NULL: no room. */
static char *take(struct block *heap, size_t bytes)
{
    for (struct block *b = heap; b; b = b->next) {
        if (b->used || b->bytes < bytes)
            continue;
        if (b->bytes > bytes) {
            b->next = new_block(b->start + bytes, b->bytes - bytes, b->next);
            b->bytes = bytes;
        }
        b->used = true;
        return b->start;
    }
    return NULL;
}

static void give_back(struct block *heap, const char *start)
{
    struct block *b;

    for (b = heap; b && !(b->used && b->start == start); b = b->next)
        ;
    if (!b)
        rt_fatal("spread memory is freed that is not allocated");
    b->used = false;
    for (b = heap; b; b = b->next)
        while (!b->used && b->next && !b->next->used) {
            struct block *next = b->next;

            b->bytes += next->bytes;
            b->next = next->next;
            free(next);
        }
}

/* Return the bytes that an array needs in each process, rounded up to ALIGN_BYTES. SIZE_MAX:
 * `blocks` is negative, or the array is larger than the heap. */
static size_t share(long blocks, size_t block_bytes)
{
    size_t per_process = ((size_t)blocks + (size_t)sc_procs - 1) / (size_t)sc_procs, bytes;

    if (blocks < 0 || __builtin_mul_overflow(per_process, block_bytes, &bytes) ||
        bytes > rt.region.heap_bytes)
        return SIZE_MAX;
    return bytes ? (bytes + ALIGN_BYTES - 1) & ~(size_t)(ALIGN_BYTES - 1) : ALIGN_BYTES;
}

static sc_ptr allocate(struct block *heap, int blocks, int block_bytes)
{
    size_t bytes = block_bytes < 0 ? SIZE_MAX : share(blocks, (size_t)block_bytes);
    sc_ptr none = {0, NULL};
    char *start;

    rt_enter();
    rt_poll();
    start = bytes == SIZE_MAX ? NULL : take(heap, bytes);
    rt_leave();
    return start ? sc_base(start) : none;
}

sc_ptr all_spread_malloc(int blocks, int block_bytes)
{
    return allocate(common_heap, blocks, block_bytes);
}

void all_spread_free(sc_ptr array)
{
    if (array.addr)
        give_back(common_heap, array.addr);
}

sc_ptr spread_malloc(int blocks, int block_bytes)
{
    return allocate(own_heap, blocks, block_bytes);
}

void spread_free(sc_ptr array)
{
    if (array.addr)
        give_back(own_heap, array.addr);
}

sc_ptr sc_spread_enter(long blocks, size_t block_bytes)
{
    size_t bytes = share(blocks, block_bytes);
    char *start = stack_top;

    if (bytes > (size_t)(stack_end - stack_top))
        rt_fatal("no room for a spread array of %ld blocks of %zu bytes", blocks, block_bytes);
    stack_top += bytes;
    return sc_base(start);
}

void sc_spread_leave(sc_ptr *array)
{
    stack_top = array->addr;
}

uint64_t rt_stack_used(void)
{
    return (uint64_t)(stack_top - rt.region.stack);
}

void sc_spread_static(sc_ptr *array, long blocks, size_t block_bytes)
{
    size_t bytes = share(blocks, block_bytes);
    char *start;

    if (array->addr)
        return;
    start = bytes == SIZE_MAX ? NULL : take(common_heap, bytes);
    if (!start)
        rt_fatal("no room for a static spread array of %ld blocks of %zu bytes", blocks,
                 block_bytes);
    *array = sc_base(start);
}

/* In the section sc_statics, the translator puts a pointer to a function for each static spread
 * array. The function allocates the array. Without static spread arrays there is no section. */
extern void (*const __start_sc_statics[])(void) __attribute__((weak));
extern void (*const __stop_sc_statics[])(void) __attribute__((weak));

void rt_heap_statics(void)
{
    for (void (*const *entry)(void) = __start_sc_statics; entry < __stop_sc_statics; entry++)
        (*entry)();
}
