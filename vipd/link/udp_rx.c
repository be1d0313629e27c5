/*
 * Receiving over UDP: recvmmsg batches, splitting of coalesced messages (vipd/link/udp.h).
 *
 * Owns: the conversion of messages of a socket to struct link_rx. Does not own: the meaning of a
 * packet; this file uses only its length. Called from the engine's thread.
 */
#include "vipd/link/udp.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>

#include "proto/assert.h"

/* Attach two buffers to message i of the next batch. false: a buffer is missing. */
static bool attach(struct udp *udp, unsigned i)
{
    if (!udp->rx_small[i])
        udp->rx_small[i] = udp_buf_take(&udp->small);
    if (!udp->rx_large[i])
        udp->rx_large[i] = udp_buf_take(&udp->large);
    if (!udp->rx_small[i] || !udp->rx_large[i])
        return false;
    udp->rx_iovs[i][0] = (struct iovec){udp->rx_small[i]->bytes, UDP_SMALL_BYTES};
    udp->rx_iovs[i][1] = (struct iovec){udp->rx_large[i]->bytes + UDP_SMALL_BYTES, UDP_LARGE_BYTES};
    udp->rx_msgs[i].msg_hdr =
        (struct msghdr){.msg_name = &udp->rx_names[i],
                        .msg_namelen = sizeof(udp->rx_names[i]),
                        .msg_iov = udp->rx_iovs[i],
                        .msg_iovlen = 2,
                        .msg_control = udp->gro ? udp->rx_control[i] : NULL,
                        .msg_controllen = udp->gro ? sizeof(udp->rx_control[i]) : 0};
    return true;
}

/*
 * Attach buffers to the messages of the next batch; returns the number of messages with buffers.
 * Only messages that the last batch used need new ones, so polling an idle socket costs only the
 * system call.
 */
static unsigned attach_used(struct udp *udp)
{
    for (unsigned i = 0; i < udp->rx_used; i++)
        if (!attach(udp, i))
            return i;
    udp->rx_used = 0;
    return UDP_RX_BATCH;
}

/* Length of each packet that the kernel has joined in this message; 0: it has only one packet. */
static uint32_t segment_bytes(const struct msghdr *msg)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg;
         cmsg = CMSG_NXTHDR((struct msghdr *)(uintptr_t)msg, cmsg)) {
        int size;

        if (cmsg->cmsg_level != SOL_UDP || cmsg->cmsg_type != UDP_GRO ||
            cmsg->cmsg_len < CMSG_LEN(sizeof(size)))
            continue;
        memcpy(&size, CMSG_DATA(cmsg), sizeof(size));
        return size > 0 ? (uint32_t)size : 0;
    }
    return 0;
}

/* Append received message i of a batch to udp->ready, or drop and count it. */
static void take_message(struct udp *udp, unsigned i)
{
    const struct mmsghdr *mmsg = &udp->rx_msgs[i];
    struct link_addr from;
    uint32_t len = mmsg->msg_len, segment = segment_bytes(&mmsg->msg_hdr);
    struct udp_buf *buf;
    struct udp_msg *ready;

    if (segment == 0 || segment > len)
        segment = len;
    if (mmsg->msg_hdr.msg_flags & MSG_TRUNC || segment > VIP_PACKET_BYTES_MAX) {
        udp->stats.rx_truncated++;
        return;
    }
    if (len == 0 || !udp_name_get(udp, &udp->rx_names[i], mmsg->msg_hdr.msg_namelen, &from)) {
        udp->stats.rx_errors++;
        return;
    }
    if (len <= UDP_SMALL_BYTES) {
        buf = udp->rx_small[i];
        udp->rx_small[i] = NULL;
    } else {
        buf = udp->rx_large[i];
        udp->rx_large[i] = NULL;
        memcpy(buf->bytes, udp->rx_small[i]->bytes, UDP_SMALL_BYTES);
    }
    buf->from = from;
    buf->refs = 1; /* the reference that the message in udp->ready has */
    ready = &udp->ready[udp->ready_count++];
    *ready = (struct udp_msg){.buf = buf, .at = buf->bytes, .left = len, .segment = segment};
}

/* No buffer is free: drop messages, because otherwise the socket would stay readable for ever. */
static void discard(struct udp *udp)
{
    for (unsigned i = 0; i < UDP_RX_BATCH; i++) {
        if (recv(udp->sock, NULL, 0, MSG_DONTWAIT | MSG_TRUNC) < 0)
            return;
        udp->stats.rx_syscalls++;
        udp->stats.rx_errors++;
    }
}

/* Receive at most `want` messages into the empty udp->ready, by one recvmmsg call. Returns whether
 * more messages may wait in the socket. */
static bool receive_batch(struct udp *udp, unsigned want)
{
    unsigned room = attach_used(udp);
    int n;

    VIP_ASSERT(udp->ready_at == udp->ready_count);
    udp->ready_at = udp->ready_count = 0;
    if (room == 0) {
        discard(udp);
        return true;
    }
    if (room > want)
        room = want;
    do
        n = recvmmsg(udp->sock, udp->rx_msgs, room, MSG_DONTWAIT, NULL);
    while (n < 0 && errno == EINTR);
    udp->stats.rx_syscalls++;
    if (n < 0) {
        if (errno == EAGAIN)
            return false;
        udp->stats.rx_errors++;
        return true;
    }
    if (udp->rx_used < (unsigned)n)
        udp->rx_used = (unsigned)n;
    for (unsigned i = 0; i < (unsigned)n; i++)
        take_message(udp, i);
    return (unsigned)n == room;
}

/* Hand out the next packet of a received message. false: the message has no more packets. */
static bool next_packet(struct udp *udp, struct udp_msg *msg, struct link_rx *ret)
{
    uint32_t len = msg->left < msg->segment ? msg->left : msg->segment;

    if (len == 0)
        return false;
    *ret = (struct link_rx){.from = &msg->buf->from,
                            .bytes = msg->at,
                            .len = len,
                            .buffer = msg->buf,
                            .scarce = udp_pool_scarce(msg->buf->large ? &udp->large : &udp->small)};
    msg->buf->refs++;
    msg->at += len;
    msg->left -= len;
    udp->stats.rx_packets++;
    udp->stats.rx_bytes += len;
    return true;
}

unsigned udp_recv(struct link *link, struct link_rx *packets, unsigned count, uint64_t now_ns)
{
    struct udp *udp = (struct udp *)link;
    bool asked = false, more = false;
    unsigned n = 0;

    udp_check(udp, now_ns);
    while (n < count) {
        if (udp->ready_at < udp->ready_count) {
            struct udp_msg *msg = &udp->ready[udp->ready_at];

            if (next_packet(udp, msg, &packets[n])) {
                n++;
            } else {
                udp->ready_at++;
                udp_release(link, msg->buf);
            }
            continue;
        }
        /* Each call of udp_recv makes one recvmmsg call. Later messages wait for the next call. */
        if (asked || udp->sock < 0)
            break;
        more = receive_batch(udp, count - n);
        asked = true;
    }
    link->behind = more || n == count;
    return n;
}

void udp_release(struct link *link, void *buffer)
{
    struct udp *udp = (struct udp *)link;
    struct udp_buf *buf = buffer;

    VIP_ASSERT(buf->refs > 0);
    if (--buf->refs == 0)
        udp_buf_give(buf->large ? &udp->large : &udp->small, buf);
}

bool udp_rx_pending(const struct udp *udp)
{
    /* The first message may have no packet left, so look at the later messages, too. */
    for (unsigned i = udp->ready_at; i < udp->ready_count; i++)
        if (udp->ready[i].left > 0)
            return true;
    return false;
}

void udp_rx_drain(struct udp *udp)
{
    for (; udp->ready_at < udp->ready_count; udp->ready_at++)
        udp_release(&udp->link, udp->ready[udp->ready_at].buf);
    for (unsigned i = 0; i < UDP_RX_BATCH; i++) {
        if (udp->rx_small[i])
            udp_buf_give(&udp->small, udp->rx_small[i]);
        if (udp->rx_large[i])
            udp_buf_give(&udp->large, udp->rx_large[i]);
    }
    udp_pool_drain(&udp->small);
    udp_pool_drain(&udp->large);
}
