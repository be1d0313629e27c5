/*
 * The region of spread arrays is one mapping, at the same address in every process. It contains the
 * common heap for all_spread_malloc, the stack of automatic spread arrays, and one heap per process
 * for spread_malloc (heap.c).
 *
 * For RDMA a process registers its part of the common heap in chunks. It registers a chunk when
 * another process first asks for the chunk's memory handle.
 */
#include "splitc/lib/rt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* An address far from those that Linux uses for programs, libraries, stacks and sanitizers. */
#define REGION_ADDRESS 0x200000000000ull
/*
 * Default size of the common heap in GB; SPLITC_HEAP sets another size. The stack has a quarter of
 * this size, and each process's heap has a sixteenth. Only pages in use need memory.
 */
#define HEAP_GB     64
#define HEAP_GB_MAX 1024

/* Memory handles of this process's chunks of the common heap. 0: the chunk is not registered. */
static VIP_MEM_HANDLE *own;

/* The launcher gives all processes the same environment, so they choose the same sizes. */
static void choose_sizes(struct rt_region *region)
{
    const char *wanted = getenv("SPLITC_HEAP");
    long gb = wanted && *wanted ? strtol(wanted, NULL, 10) : HEAP_GB;

    if (gb < 1 || gb > HEAP_GB_MAX)
        rt_fatal("SPLITC_HEAP is %s; it is a number of GB from 1 to %d", wanted, HEAP_GB_MAX);
    region->heap_bytes = (size_t)gb << 30;
    region->stack_bytes = region->heap_bytes / 4;
    region->own_bytes = region->heap_bytes / 16;
}

void rt_region_map(void)
{
    struct rt_region *region = &rt.region;
    size_t total;
    char *start;

    choose_sizes(region);
    total = region->heap_bytes + region->stack_bytes + (size_t)sc_procs * region->own_bytes;
    start = mmap((void *)REGION_ADDRESS, total, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (start != (char *)REGION_ADDRESS)
        rt_fatal(
            "cannot map %zu GB of address space for spread arrays: %s; SPLITC_HEAP=4 (in GB) in "
            "the environment of all processes asks for less",
            total >> 30, strerror(errno));
    region->heap = start;
    region->stack = region->heap + region->heap_bytes;
    region->own = region->stack + region->stack_bytes + (size_t)sc_myproc * region->own_bytes;
}

long rt_region_chunk(uint64_t addr, char **ret_start)
{
    if (addr < REGION_ADDRESS || addr >= REGION_ADDRESS + rt.region.heap_bytes)
        return -1;
    *ret_start = (char *)(uintptr_t)(addr - addr % RT_CHUNK_BYTES);
    return (long)((addr - REGION_ADDRESS) / RT_CHUNK_BYTES);
}

VIP_MEM_HANDLE *rt_region_table(void)
{
    VIP_MEM_HANDLE *table = calloc(rt.region.heap_bytes / RT_CHUNK_BYTES, sizeof(*table));

    if (!table)
        rt_fatal("out of memory");
    return table;
}

uint64_t rt_region_here(uint64_t addr)
{
    VIP_MEM_ATTRIBUTES attrs = {NULL, VIP_TRUE, VIP_TRUE};
    char *start;
    long chunk = rt_region_chunk(addr, &start);

    if (chunk < 0)
        return 0;
    if (!own)
        own = rt_region_table();
    /* If the registration fails, for example at a limit of the NIC, messages carry the data. */
    if (!own[chunk] &&
        VipRegisterMem(rt.nic, start, RT_CHUNK_BYTES, &attrs, &own[chunk]) != VIP_SUCCESS)
        own[chunk] = 0;
    return own[chunk];
}
