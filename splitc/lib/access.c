/*
 * Accesses (read, write, get, put, store) to objects in other processes, and stores in any process.
 * The inline functions of split-c/runtime.h do the other accesses to objects in this process.
 */
#include "splitc/lib/rt.h"

#include <string.h>

static size_t piece(size_t left)
{
    return left < RT_DATA_MAX ? left : RT_DATA_MAX;
}

/* Wait for a credit, and return a send buffer with the header of a request. */
static struct rt_buffer *request(struct rt_peer *peer, enum rt_type type, uint64_t addr,
                                 size_t bytes, struct rt_op *op)
{
    struct rt_buffer *buffer;

    rt_take_credit(peer);
    buffer = rt_send_buffer(peer);
    buffer->header.type = (uint8_t)type;
    buffer->header.bytes = (uint32_t)bytes;
    buffer->header.addr = addr;
    buffer->header.op = (uintptr_t)op;
    return buffer;
}

void rt_start_read(struct rt_op *op, void *to, sc_ptr from, size_t bytes)
{
    struct rt_peer *peer = rt_peer(from.proc);

    for (size_t at = rt_rdma_read(op, to, from, bytes); at < bytes; at += piece(bytes - at)) {
        struct rt_buffer *buffer =
            request(peer, RT_READ, (uintptr_t)from.addr + at, piece(bytes - at), op);

        buffer->header.to = (uintptr_t)to + at;
        op->pending++;
        rt_send(peer, buffer, 0);
    }
}

void rt_start_write(struct rt_op *op, sc_ptr to, const void *from, size_t bytes)
{
    struct rt_peer *peer = rt_peer(to.proc);

    for (size_t at = rt_rdma_write(op, to, from, bytes); at < bytes; at += piece(bytes - at)) {
        size_t n = piece(bytes - at);
        struct rt_buffer *buffer = request(peer, RT_WRITE, (uintptr_t)to.addr + at, n, op);

        memcpy(buffer->data, (const char *)from + at, n);
        op->pending++;
        rt_send(peer, buffer, n);
    }
}

void rt_start_store(sc_ptr to, const void *from, size_t bytes)
{
    struct rt_peer *peer = rt_peer(to.proc);
    size_t written = rt_rdma_write(NULL, to, from, bytes);

    rt.stored += written;
    for (size_t at = written; at < bytes; at += piece(bytes - at)) {
        size_t n = piece(bytes - at);
        struct rt_buffer *buffer = request(peer, RT_STORE, (uintptr_t)to.addr + at, n, NULL);

        buffer->header.kind = (uint8_t)rt.epoch;
        memcpy(buffer->data, (const char *)from + at, n);
        rt.stored += n;
        rt_send(peer, buffer, n);
    }
}

void sc_remote_read(void *to, sc_ptr from, size_t size)
{
    struct rt_op op = {0};

    rt_enter();
    rt_start_read(&op, to, from, size);
    rt_finish(&op);
    rt_leave();
}

void sc_remote_write(sc_ptr to, const void *from, size_t size)
{
    struct rt_op op = {0};

    rt_enter();
    rt_start_write(&op, to, from, size);
    rt_finish(&op);
    rt_leave();
}

void sc_remote_get(void *to, sc_ptr from, size_t size)
{
    rt_enter();
    rt_poll();
    rt_start_read(&rt.split, to, from, size);
    rt_leave();
}

void sc_remote_put(sc_ptr to, const void *from, size_t size)
{
    rt_enter();
    rt_poll();
    rt_start_write(&rt.split, to, from, size);
    rt_leave();
}

void sc_any_store(sc_ptr to, const void *from, size_t size)
{
    rt_enter();
    rt_poll();
    if (to.proc == sc_myproc) {
        memmove(to.addr, from, size);
        rt.stored += size;
        rt.arrived += size;
        rt.store_count[rt.epoch] += (long)size;
    } else {
        rt_start_store(to, from, size);
    }
    rt_leave();
}
