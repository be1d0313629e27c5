/*
 * Does atomic operations on words of this process, one after the other. A request for the memory
 * handle of a chunk of the spread heap (RT_KIND_REGION) also comes as an atomic operation.
 */
#include "splitc/lib/rt.h"

uint64_t rt_atomic_here(int kind, uint64_t addr, uint64_t arg, uint64_t value)
{
    int *word = (int *)(uintptr_t)addr, operand = (int)(uint32_t)value, old;
    int (*function)(void *, int);

    switch (kind) {
    case RT_KIND_ADD:
        return (uint32_t)__atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case RT_KIND_EXCHANGE:
        return (uint32_t)__atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case RT_KIND_SWAP:
        old = (int)arg;
        __atomic_compare_exchange_n(word, &old, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return (uint32_t)old;
    case RT_KIND_CALL:
        /* All processes run the same file, so `addr` is the same function in each process. */
        function = (int (*)(void *, int))(uintptr_t)addr;
        return (uint32_t)function((void *)(uintptr_t)arg, operand);
    case RT_KIND_REGION:
        return rt_region_here(addr);
    default:
        rt_fatal("an atomic operation that does not exist");
    }
}
