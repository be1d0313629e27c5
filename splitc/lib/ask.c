/* Asks the process that owns a word for an atomic operation on the word (owner.c). */
#include "splitc/lib/rt.h"

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
