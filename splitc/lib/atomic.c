/*
 * Atomic operations: only the owner of a word carries them out, one after the other, while it
 * serves messages.
 */
#include "splitc/lib/library.h"

#include <sched.h>

enum { ATOMIC_ADD, ATOMIC_EXCHANGE, ATOMIC_SWAP, ATOMIC_CALL };

uint64_t rt_atomic_here(int kind, uint64_t addr, uint64_t arg, uint64_t value)
{
    int *word = (int *)(uintptr_t)addr, operand = (int)(uint32_t)value, old;
    int (*function)(void *, int);

    switch (kind) {
    case ATOMIC_ADD:
        return (uint32_t)__atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case ATOMIC_EXCHANGE:
        return (uint32_t)__atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    case ATOMIC_SWAP:
        old = (int)arg;
        __atomic_compare_exchange_n(word, &old, operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return (uint32_t)old;
    case ATOMIC_CALL:
        /* All processes run the same file, so a function has the same address in all. */
        function = (int (*)(void *, int))(uintptr_t)addr;
        return (uint32_t)function((void *)(uintptr_t)arg, operand);
    case RT_KIND_REGION:
        return rt_region_here(addr);
    default:
        rt_fatal("an atomic operation that does not exist");
    }
}

uint64_t rt_ask(sc_ptr word, int kind, uint64_t arg, int value)
{
    struct rt_peer *peer = rt_peer(word.proc);
    struct rt_op op = {.pending = 1};
    struct rt_buffer *buffer;

    rt_take_credit(peer);
    buffer = rt_send_buffer(peer);
    buffer->header.type = RT_ATOMIC;
    buffer->header.kind = (uint8_t)kind;
    buffer->header.addr = (uintptr_t)word.addr;
    buffer->header.to = arg;
    buffer->header.value = (uint32_t)value;
    buffer->header.op = (uintptr_t)&op;
    rt_send(peer, buffer, 0);
    rt_finish(&op);
    return op.value;
}

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
    return perform(word, ATOMIC_ADD, 0, value);
}

int exchange(sc_ptr word, int value)
{
    return perform(word, ATOMIC_EXCHANGE, 0, value);
}

int test_and_set(sc_ptr word)
{
    return perform(word, ATOMIC_EXCHANGE, 0, 1);
}

int compare_and_swap(sc_ptr word, int expected, int value)
{
    return perform(word, ATOMIC_SWAP, (uint32_t)expected, value);
}

int atomic(int proc, int (*function)(void *arg, int value), void *arg, int value)
{
    return perform(sc_global(proc, (void *)(uintptr_t)function), ATOMIC_CALL, (uintptr_t)arg,
                   value);
}

int splitc_trylock(sc_ptr lock)
{
    return perform(lock, ATOMIC_EXCHANGE, 0, 1) == 0;
}

void splitc_lock(sc_ptr lock)
{
    while (perform(lock, ATOMIC_EXCHANGE, 0, 1) != 0)
        sched_yield();
}

void splitc_unlock(sc_ptr lock)
{
    perform(lock, ATOMIC_EXCHANGE, 0, 0);
}
