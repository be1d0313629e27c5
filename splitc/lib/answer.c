/*
 * Replies to requests, and returns credits. Small replies to a peer are kept until the end of a
 * poll, and then leave together in one message.
 */
#include "splitc/lib/rt.h"

#include <string.h>

/* Send all kept small replies to this peer in one message. */
static void send_kept(struct rt_peer *peer)
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
        send_kept(rt.answering);
}

/* Send the data that an RT_READ request asks for. */
static void reply_data(struct rt_peer *peer, const struct rt_header *request)
{
    struct rt_buffer *buffer = rt_send_buffer(peer);

    buffer->header.type = RT_DATA;
    buffer->header.bytes = request->bytes;
    buffer->header.op = request->op;
    buffer->header.to = request->to;
    memcpy(buffer->data, (void *)(uintptr_t)request->addr, request->bytes);
    rt_send(peer, buffer, request->bytes);
}

void rt_reply(struct rt_peer *peer, const struct rt_header *request, enum rt_type type,
              uint64_t value)
{
    if (peer->answer_count == RT_CREDITS_AT_ONCE)
        send_kept(peer);
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

void rt_reply_read(struct rt_peer *peer, const struct rt_header *request)
{
    uint64_t value = 0;

    if (request->bytes > sizeof(value)) {
        reply_data(peer, request);
        return;
    }
    rt_copy(&value, (void *)(uintptr_t)request->addr, request->bytes);
    rt_reply(peer, request, RT_DATA, value);
}

static bool owes(const struct rt_peer *peer)
{
    return peer->owed >= RT_CREDITS_AT_ONCE || peer->notices_owed >= RT_CREDITS_AT_ONCE;
}

void rt_give_back(struct rt_peer *peer)
{
    if (owes(peer))
        send_kept(peer); /* the message also carries the owed credits */
    if (owes(peer)) {
        struct rt_buffer *buffer = rt_send_buffer(peer);

        buffer->header.type = RT_CREDIT;
        rt_send(peer, buffer, 0);
    }
}
