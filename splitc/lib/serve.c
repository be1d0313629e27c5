/*
 * Handling of received messages. The receive is posted again when its contents are used, before the
 * reply leaves. The reply tells the other process that it may send again.
 */
#include "splitc/lib/rt.h"

#include <string.h>

/* An aligned word must be written as a whole; memcpy does not guarantee that. */
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

/* Send the data of a read. */
static void reply_data(struct rt_peer *peer, const struct rt_header *request)
{
    struct rt_buffer *buffer = rt_send_buffer(peer);

    buffer->header.type = RT_DATA;
    buffer->header.bytes = request->bytes;
    buffer->header.op = request->op;
    buffer->header.to = request->to;
    memcpy(buffer->data, address(request->addr), request->bytes);
    rt_send(peer, buffer, request->bytes);
}

/* Keep a small reply; it leaves with the others of this poll. */
static void reply(struct rt_peer *peer, const struct rt_header *request, enum rt_type type,
                  uint64_t value)
{
    if (peer->answer_count == RT_CREDITS_AT_ONCE)
        rt_answer(peer);
    if (peer->answer_count == 0) {
        peer->answers_next = rt.answering;
        rt.answering = peer;
    }
    peer->answers[peer->answer_count++] = (struct rt_answer){.op = request->op,
                                                             .to = request->to,
                                                             .value = value,
                                                             .type = type,
                                                             .bytes = request->bytes};
}

static void reply_read(struct rt_peer *peer, const struct rt_header *request)
{
    uint64_t value = 0;

    if (request->bytes > sizeof(value)) {
        reply_data(peer, request);
        return;
    }
    rt_copy(&value, address(request->addr), request->bytes);
    reply(peer, request, RT_DATA, value);
}

void rt_answer(struct rt_peer *peer)
{
    struct rt_buffer *buffer;
    size_t bytes = (size_t)peer->answer_count * sizeof(peer->answers[0]);

    if (bytes == 0)
        return;
    buffer = rt_send_buffer(peer);
    buffer->header.type = RT_ANSWERS;
    buffer->header.bytes = (uint32_t)bytes;
    memcpy(buffer->data, peer->answers, bytes);
    peer->answer_count = 0;
    for (struct rt_peer **at = &rt.answering; *at; at = &(*at)->answers_next)
        if (*at == peer) {
            *at = peer->answers_next;
            break;
        }
    rt_send(peer, buffer, bytes);
}

void rt_answer_all(void)
{
    while (rt.answering)
        rt_answer(rt.answering);
}

/* Handle a reply: data for the requester's memory, a value, or only "done". */
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
        reply_read(peer, &h);
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
