/* Atomic operations on a word. The process that owns the word does the operation (owner.c); it may
 * be this process. */
#include "splitc/lib/library.h"

#include <sched.h>

static int perform(sc_ptr word, int kind, uint64_t arg, int value)
{
    uint64_t result;

    rt_enter();
    rt_poll();
    if (word.proc == sc_myproc)
        result = rt_atomic_here(kind, (uintptr_t)word.addr, arg, (uint32_t)value);
    else
        result = rt_ask(word, kind, arg, value);
    rt_leave();
    return (int)(uint32_t)result;
}

int fetch_and_add(sc_ptr word, int value)
{
    return perform(word, RT_KIND_ADD, 0, value);
}

int exchange(sc_ptr word, int value)
{
    return perform(word, RT_KIND_EXCHANGE, 0, value);
}

int test_and_set(sc_ptr word)
{
    return perform(word, RT_KIND_EXCHANGE, 0, 1);
}

int compare_and_swap(sc_ptr word, int expected, int value)
{
    return perform(word, RT_KIND_SWAP, (uint32_t)expected, value);
}

int atomic(int proc, int (*function)(void *arg, int value), void *arg, int value)
{
    return perform(sc_global(proc, (void *)(uintptr_t)function), RT_KIND_CALL, (uintptr_t)arg,
                   value);
}

int splitc_trylock(sc_ptr lock)
{
    return perform(lock, RT_KIND_EXCHANGE, 0, 1) == 0;
}

void splitc_lock(sc_ptr lock)
{
    while (perform(lock, RT_KIND_EXCHANGE, 0, 1) != 0)
        sched_yield();
}

void splitc_unlock(sc_ptr lock)
{
    perform(lock, RT_KIND_EXCHANGE, 0, 0);
}
