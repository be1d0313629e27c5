/*
 * Messages and their credits.
 *
 * A request uses up a credit. A credit stands for a receive descriptor that the other process has
 * posted. Each message returns the credits that its sender owes. A process that owes
 * RT_CREDITS_AT_ONCE credits returns them in a separate message. A reply needs no credit,
 * because a process posts a receive descriptor for the reply to each of its requests. So a process
 * can always serve a request, also while it waits for credits: no deadlock.
 */
#include "splitc/lib/rt.h"

#include <string.h>
#include <time.h>

/* Time, in ns, that rt_lost waits before it reports the loss. */
#define CAUSE_FIRST_NS 200000000

void rt_lost(const struct rt_peer *peer)
{
    const struct timespec a_while = {.tv_nsec = CAUSE_FIRST_NS};

    if (rt.leaving || rt.ended)
        return;
    /* Wait, so that the launcher first reports the cause, the end of the other process. */
    nanosleep(&a_while, NULL);
    rt_fatal("the connection to process %d is lost", peer->rank);
}

void rt_post_receive(struct rt_peer *peer, struct rt_buffer *buffer)
{
    VIP_DESCRIPTOR *desc = &buffer->desc;

    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Length = RT_MESSAGE_BYTES;
    desc->DS[0].Local.Data.Address = &buffer->header;
    desc->DS[0].Local.Handle = peer->receive_memory;
    desc->DS[0].Local.Length = RT_MESSAGE_BYTES;
    if (VipPostRecv(peer->vi, desc, peer->receive_memory) != VIP_SUCCESS)
        rt_lost(peer);
}

/* Remove one completed send from the queue. false: none is complete, and `wait` is false. */
static bool reap(struct rt_peer *peer, bool wait)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN code =
        wait ? VipSendWait(peer->vi, RT_SEND_MS, &desc) : VipSendDone(peer->vi, &desc);

    if (code == VIP_NOT_DONE)
        return false;
    if (code != VIP_SUCCESS)
        rt_lost(peer);
    peer->sends_posted--;
    return true;
}

struct rt_buffer *rt_send_buffer(struct rt_peer *peer)
{
    struct rt_buffer *buffer;

    while (peer->sends_posted && (peer->sends_posted > RT_SENDS / 2) && reap(peer, false))
        ;
    while (peer->sends_posted >= RT_SENDS - 1)
        reap(peer, true);
    buffer = &peer->sends[peer->send_next];
    peer->send_next = (peer->send_next + 1) % RT_SENDS;
    memset(&buffer->header, 0, sizeof(buffer->header));
    return buffer;
}

void rt_send(struct rt_peer *peer, struct rt_buffer *buffer, size_t bytes)
{
    VIP_DESCRIPTOR *desc = &buffer->desc;

    buffer->header.credits = (uint8_t)peer->owed;
    buffer->header.notices = (uint8_t)peer->notices_owed;
    peer->owed = peer->notices_owed = 0;
    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Length = (VIP_UINT32)(sizeof(buffer->header) + bytes);
    desc->DS[0].Local.Data.Address = &buffer->header;
    desc->DS[0].Local.Handle = peer->memory;
    desc->DS[0].Local.Length = desc->CS.Length;
    if (VipPostSend(peer->vi, desc, peer->memory) != VIP_SUCCESS)
        rt_lost(peer);
    peer->sends_posted++;
}

void rt_drain(struct rt_peer *peer)
{
    while (peer->state == RT_CONNECTED && peer->sends_posted)
        reap(peer, true);
}
