/*
 * Sends frames, made of our headers and the registered pages: one sendmmsg call per batch.
 *
 * Owns: the meaning of socket errors. A frame that the medium refuses for good counts as lost; the
 * engine recovers from loss. Called from the engine's thread.
 */
#include "vipd/link/ether.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/assert.h"

/* Build messages for the first of packets[0..count-1], as many as fit; returns their number. */
static unsigned build(struct ether *ether, const struct link_tx *packets, unsigned count)
{
    unsigned iovs = 0, m;

    for (m = 0; m < count && m < ETHER_TX_BATCH; m++) {
        const struct link_tx *packet = &packets[m];
        struct iovec *iov = &ether->tx_iovs[iovs];

        if (!ether_sendable(ether, packet) || iovs + packet->iov_count + 1 > ETHER_TX_IOVS)
            break;
        iov[0].iov_base = ether->tx_heads[m];
        iov[0].iov_len = ether_frame_put(ether->tx_heads[m], &ether->want, packet->to->bytes,
                                         ETHER_KIND, packet->bytes);
        memcpy(iov + 1, packet->iov, packet->iov_count * sizeof(*iov));
        ether->tx_msgs[m].msg_hdr =
            (struct msghdr){.msg_iov = iov, .msg_iovlen = packet->iov_count + 1};
        iovs += packet->iov_count + 1;
    }
    return m;
}

/* Drop a packet that the link cannot carry. */
static void refuse(struct ether *ether, const struct link_tx *packet)
{
    ether->stats.tx_errors++;
    if (packet->bytes <= ether->link.packet_bytes || ether->oversize_logged)
        return;
    ether->oversize_logged = true;
    link_say("ether %s: a packet of %u bytes is larger than the interface takes now; its MTU "
             "was lowered while connections were open (said once)",
             ether->interface, (unsigned)packet->bytes);
}

/* The device is full. true: wait; false: the device has been full for too long, drop the frame. */
static bool full(struct ether *ether, uint64_t now_ns)
{
    ether->stats.tx_again++;
    if (ether->full_ns == 0)
        ether->full_ns = now_ns;
    return now_ns - ether->full_ns < ETHER_FULL_NS;
}

/* The kernel refused the first frame with errno `err`. true: the frame is lost, so continue with
 * the next frame; false: try the frame later. */
static bool refused(struct ether *ether, int err, uint64_t now_ns)
{
    switch (err) {
    case EAGAIN:
    case ENOBUFS: /* a queue of the device dropped the frame; no frame was sent */
    case ENOMEM:
        if (full(ether, now_ns))
            return false;
        break;
    case ENETDOWN:
    case ENXIO:
    case ENODEV:
        ether->look = true;
        ether->next_ns = 0;
        ether->stats.tx_down++;
        return true;
    default:
        break;
    }
    ether->stats.tx_errors++;
    return true;
}

/* Send the first `count` of tx_msgs. Returns the number of packets that are sent or lost. */
static unsigned transmit(struct ether *ether, unsigned count, const struct link_tx *packets,
                         uint64_t now_ns)
{
    int n;

    do
        n = sendmmsg(ether->sock, ether->tx_msgs, count, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    ether->stats.tx_syscalls++;
    if (n <= 0)
        return refused(ether, n < 0 ? errno : EAGAIN, now_ns) ? 1 : 0;
    ether->full_ns = 0;
    ether->stats.tx_packets += (unsigned)n;
    for (unsigned i = 0; i < (unsigned)n; i++)
        ether->stats.tx_bytes += packets[i].bytes;
    return (unsigned)n;
}

unsigned ether_send(struct link *link, const struct link_tx *packets, unsigned count,
                    uint64_t now_ns)
{
    struct ether *ether = (struct ether *)link;
    unsigned done = 0;

    if (link->down) {
        ether->stats.tx_down += count;
        return count;
    }
    done = ether_xdp_send(ether, packets, count, now_ns);
    while (done < count) {
        unsigned m = build(ether, &packets[done], count - done), sent;

        if (m == 0) {
            refuse(ether, &packets[done]);
            done++;
            continue;
        }
        sent = transmit(ether, m, &packets[done], now_ns);
        if (sent == 0)
            break;
        done += sent;
    }
    return done;
}
