/*
 * What a message does where it arrives. The receive is posted again as soon as its contents are used,
 * and before the reply leaves, since the reply tells the other process that it may send again.
 */
#include "splitc/lib/rt.h"

#include <string.h>

/* Words of one access must arrive whole: memcpy does not promise that. */
void rt_copy(void *to, const void *from, size_t bytes)
{
    uintptr_t at = (uintptr_t)to;

    if (bytes == 8 && at % 8 == 0) {
        uint64_t word;

        memcpy(&word, from, 8);
        __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
    } else if (bytes == 4 && at % 4 == 0) {
        uint32_t word;

        memcpy(&word, from, 4);
        __atomic_store_n((uint32_t *)to, word, __ATOMIC_RELEASE);
    } else if (bytes == 2 && at % 2 == 0) {
        uint16_t word;

        memcpy(&word, from, 2);
        __atomic_store_n((uint16_t *)to, word, __ATOMIC_RELEASE);
    } else {
        memcpy(to, from, bytes);
    }
}

static void *address(uint64_t number)
{
    return (void *)(uintptr_t)number;
}

/* A reply to this request. */
static void reply(struct rt_peer *peer, const struct rt_header *request, enum rt_type type,
                  uint64_t value)
{
    struct rt_buffer *buffer = rt_send_buffer(peer);
    size_t bytes = type == RT_DATA ? request->bytes : 0;

    buffer->header.type = (uint8_t)type;
    buffer->header.bytes = request->bytes;
    buffer->header.op = request->op;
    buffer->header.to = request->to;
    buffer->header.value = value;
    if (bytes)
        memcpy(buffer->data, address(request->addr), bytes);
    rt_send(peer, buffer, bytes);
}

static void keep_mail(struct rt_peer *peer, const struct rt_buffer *buffer)
{
    struct rt_mail *mail = &peer->mail;

    if (mail->full)
        rt_fatal("the processes do not call the same collective operations in the same order "
                 "(process %d is ahead)",
                 peer->rank);
    mail->bytes = buffer->header.bytes;
    memcpy(mail->data, buffer->data, mail->bytes);
    mail->full = true;
}

void rt_serve(struct rt_peer *peer, struct rt_buffer *buffer)
{
    struct rt_header h = buffer->header;
    struct rt_op *op = address(h.op);

    if (h.bytes > RT_DATA_MAX)
        rt_fatal("a message of process %d is damaged", peer->rank);
    peer->credits += h.credits;
    if (h.type == RT_WRITE || h.type == RT_STORE)
        rt_copy(address(h.addr), buffer->data, h.bytes);
    else if (h.type == RT_DATA)
        rt_copy(address(h.to), buffer->data, h.bytes);
    else if (h.type == RT_COLLECT)
        keep_mail(peer, buffer);
    rt_post_receive(peer, buffer);
    switch ((enum rt_type)h.type) {
    case RT_READ:
        peer->owed++;
        reply(peer, &h, RT_DATA, 0);
        break;
    case RT_WRITE:
        peer->owed++;
        reply(peer, &h, RT_DONE, 0);
        break;
    case RT_ATOMIC:
        peer->owed++;
        reply(peer, &h, RT_VALUE, rt_atomic_here(h.kind, h.addr, h.to, h.value));
        break;
    case RT_DATA:
    case RT_DONE:
        op->pending--;
        break;
    case RT_VALUE:
        op->value = h.value;
        op->pending--;
        break;
    case RT_STORE:
        peer->owed++;
        rt.arrived += h.bytes;
        rt.store_count[h.kind & 1] += h.bytes;
        break;
    case RT_STORED:
        peer->owed++;
        rt.arrived += h.value;
        rt.store_count[h.kind & 1] += (long)h.value;
        break;
    case RT_COLLECT:
        peer->owed++;
        break;
    case RT_CREDIT:
        break;
    }
}
