/*
 * Finds peers through the Ethernet link: passes messages between ether_peer.c (names and rates) and
 * the socket (vipd/link/ether.h). Called from the engine's thread.
 */
#include <errno.h>
#include <string.h>

#include "vipd/link/ether.h"

/* Largest number of messages sent in one turn; the other messages follow in the next turn. */
#define MESSAGES_PER_TURN 16

void ether_find_rx(struct ether *ether, const uint8_t *frame, const struct ether_content *content,
                   uint64_t now_ns)
{
    ether_peers_rx(ether->peers, (enum ether_peer_kind)content->kind, frame + ETHER_MAC_BYTES,
                   content->bytes, content->len, now_ns);
}

/* Send a message. If the socket is full, the message is lost; ether_peer.c repeats questions. */
static void transmit(struct ether *ether, const struct ether_peer_frame *message)
{
    uint8_t head[ETHER_HEADS_MAX];
    struct iovec iov[2] = {{head, 0}, {(void *)(uintptr_t)message->body, message->len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    iov[0].iov_len =
        ether_frame_put(head, &ether->want, message->to, (uint8_t)message->kind, message->len);
    ether->stats.tx_syscalls++;
    if (sendmsg(ether->sock, &msg, MSG_DONTWAIT) < 0)
        ether->stats.tx_errors++;
}

void ether_find_run(struct ether *ether, uint64_t now_ns)
{
    struct ether_peer_frame message;

    if (!ether->peers || ether_peers_deadline(ether->peers) > now_ns)
        return;
    for (unsigned i = 0; i < MESSAGES_PER_TURN; i++) {
        if (!ether_peers_next(ether->peers, now_ns, &message))
            break;
        if (ether->link.down)
            ether->stats.tx_down++;
        else
            transmit(ether, &message);
    }
}

int ether_find(struct link *link, const char *name, uint64_t now_ns, struct link_addr *ret)
{
    struct ether *ether = (struct ether *)link;

    if (!ether->peers)
        return -EOPNOTSUPP;
    if (link->self.len > 0 && link_host_match(ether->peers->own, name)) {
        *ret = link->self;
        return 0;
    }
    return link->down ? -ENETDOWN : ether_peers_find(ether->peers, name, now_ns, ret);
}

int ether_name_of(struct link *link, const struct link_addr *host, uint64_t now_ns,
                  char ret[LINK_NAME_BYTES])
{
    struct ether *ether = (struct ether *)link;

    if (!ether->peers)
        return -EOPNOTSUPP;
    if (link->self.len > 0 && link_addr_equal(host, &link->self)) {
        if (ether->peers->own[0] == '\0')
            return -ENOENT;
        memcpy(ret, ether->peers->own, LINK_NAME_BYTES);
        return 0;
    }
    return link->down ? -ENETDOWN : ether_peers_name(ether->peers, host, now_ns, ret);
}

uint32_t ether_known(const struct link *link, uint32_t from, uint64_t now_ns, link_visit_fn *visit,
                     void *ctx)
{
    const struct ether *ether = (const struct ether *)link;

    return ether->peers ? ether_peers_known(ether->peers, from, now_ns, visit, ctx) : UINT32_MAX;
}
