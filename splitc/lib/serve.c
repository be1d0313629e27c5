/*
 * Handles received messages. rt_serve posts the receive descriptor again before the reply leaves,
 * because the peer may send its next message as soon as the peer has the reply.
 */
#include "splitc/lib/rt.h"

#include <string.h>

static void *address(uint64_t number)
{
    return (void *)(uintptr_t)number;
}

/* Handle a small reply to one of our requests: data for our memory, a value, or only "done". */
static void take_answer(const struct rt_answer *answer)
{
    struct rt_op *op = address(answer->op);

    if (answer->type == RT_DATA)
        rt_copy(address(answer->to), &answer->value, answer->bytes);
    else if (answer->type == RT_VALUE)
        op->value = answer->value;
    op->pending--;
}

static void take_answers(const struct rt_buffer *buffer)
{
    struct rt_answer answer;

    for (size_t at = 0; at + sizeof(answer) <= buffer->header.bytes; at += sizeof(answer)) {
        memcpy(&answer, buffer->data + at, sizeof(answer));
        if (answer.bytes > sizeof(answer.value) && answer.type == RT_DATA)
            rt_fatal("a message with replies is damaged");
        take_answer(&answer);
    }
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
    peer->notices += h.notices;
    if (h.type == RT_WRITE || h.type == RT_STORE)
        rt_copy(address(h.addr), buffer->data, h.bytes);
    else if (h.type == RT_DATA)
        rt_copy(address(h.to), buffer->data, h.bytes);
    else if (h.type == RT_COLLECT)
        keep_mail(peer, buffer);
    else if (h.type == RT_ANSWERS)
        take_answers(buffer);
    rt_post_receive(peer, buffer);
    switch ((enum rt_type)h.type) {
    case RT_READ:
        peer->owed++;
        rt_reply_read(peer, &h);
        break;
    case RT_WRITE:
        peer->owed++;
        rt_reply(peer, &h, RT_DONE, 0);
        break;
    case RT_ATOMIC:
        peer->owed++;
        rt_reply(peer, &h, RT_VALUE, rt_atomic_here(h.kind, h.addr, h.to, h.value));
        break;
    case RT_DATA:
        op->pending--;
        break;
    case RT_STORE:
        peer->owed++;
        rt.arrived += h.bytes;
        rt.store_count[h.kind & 1] += h.bytes;
        break;
    case RT_COLLECT:
        peer->owed++;
        break;
    case RT_CREDIT:
    case RT_ANSWERS:
    case RT_DONE:
    case RT_VALUE:
        break;
    }
}
