/*
 * Sending over UDP: coalescing into UDP_SEGMENT messages, sendmmsg (vipd/link/udp.h).
 *
 * Owns: the choice of packets for one message, and the meaning of socket errors. A packet that the
 * medium refuses for good counts as lost; the engine recovers from loss.
 */
#include "vipd/link/udp.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>

#include "proto/assert.h"

/* Returns how many of the first packets may share one message. They have one destination and equal
 * lengths; only the last packet may be shorter. *ret_iovs: gather entries that they need. */
static unsigned coalesce(const struct udp *udp, const struct link_tx *packets, unsigned count,
                         unsigned iov_room, unsigned *ret_iovs)
{
    uint32_t segment = packets[0].bytes, bytes = segment;
    unsigned n = 1, iovs = packets[0].iov_count;

    if (udp->gso && segment > 0) {
        while (n < count && n < UDP_GSO_SEGMENTS_MAX) {
            const struct link_tx *next = &packets[n];

            if (next->bytes > segment || next->bytes == 0 ||
                bytes + next->bytes > VIP_PACKET_BYTES_MAX ||
                iovs + next->iov_count > UDP_MSG_IOVS_MAX || iovs + next->iov_count > iov_room ||
                !link_addr_equal(packets[0].to, next->to))
                break;
            bytes += next->bytes;
            iovs += next->iov_count;
            n++;
            if (next->bytes < segment)
                break;
        }
    }
    *ret_iovs = iovs;
    return n;
}

static void set_segment(struct udp *udp, unsigned m, uint16_t segment)
{
    struct msghdr *msg = &udp->tx_msgs[m].msg_hdr;
    struct cmsghdr *cmsg;

    msg->msg_control = udp->tx_control[m];
    msg->msg_controllen = sizeof(udp->tx_control[m]);
    cmsg = CMSG_FIRSTHDR(msg);
    cmsg->cmsg_level = SOL_UDP;
    cmsg->cmsg_type = UDP_SEGMENT;
    cmsg->cmsg_len = CMSG_LEN(sizeof(segment));
    memcpy(CMSG_DATA(cmsg), &segment, sizeof(segment));
}

/* Build message m from the first packets; advance *iovs_used. Returns how many packets it has. */
static unsigned build_message(struct udp *udp, unsigned m, const struct link_tx *packets,
                              unsigned count, unsigned *iovs_used)
{
    unsigned iovs, n = coalesce(udp, packets, count, UDP_TX_IOVS - *iovs_used, &iovs);
    struct msghdr *msg = &udp->tx_msgs[m].msg_hdr;
    union udp_name *name = &udp->tx_names[m];

    *msg = (struct msghdr){.msg_name = name, .msg_namelen = udp_name_put(udp, packets[0].to, name)};
    if (n == 1) {
        /* The cast is safe: sendmsg does not write to the memory in its gather list. */
        msg->msg_iov = (struct iovec *)(uintptr_t)packets[0].iov;
        msg->msg_iovlen = packets[0].iov_count;
    } else {
        msg->msg_iov = &udp->tx_iovs[*iovs_used];
        msg->msg_iovlen = iovs;
        for (unsigned i = 0; i < n; i++) {
            memcpy(&udp->tx_iovs[*iovs_used], packets[i].iov,
                   packets[i].iov_count * sizeof(struct iovec));
            *iovs_used += packets[i].iov_count;
        }
        set_segment(udp, m, (uint16_t)packets[0].bytes);
    }
    udp->tx_packets[m] = n;
    return n;
}

static void count_sent(struct udp *udp, const struct link_tx *packets, unsigned count)
{
    udp->stats.tx_packets += count;
    for (unsigned i = 0; i < count; i++)
        udp->stats.tx_bytes += packets[i].bytes;
}

static void log_oversize(struct udp *udp, uint32_t bytes)
{
    char self[64];

    if (udp->oversize_logged)
        return;
    udp->oversize_logged = true;
    link_addr_format(&udp->link.self, self, sizeof(self));
    link_say("udp %s: a packet of %u bytes is larger than the interface takes; set a smaller mtu "
             "for this NIC (said once)",
             self, (unsigned)bytes);
}

/*
 * The kernel has refused the first message with errno `err`. Outcomes: number of lost packets to
 * skip (0: send the same packets again); -EAGAIN: the socket is full.
 */
static int refused(struct udp *udp, int err, const struct link_tx *packets)
{
    bool joined = udp->tx_packets[0] > 1;

    if (err == EAGAIN || err == EWOULDBLOCK) {
        udp->stats.tx_again++;
        return -EAGAIN;
    }
    /* The device or the path may not accept joined packets: send the packets one by one. */
    if (joined && (err == EIO || err == EINVAL || err == EOPNOTSUPP || err == EMSGSIZE)) {
        udp->gso = false;
        udp->gso_doubt = err;
        return 0;
    }
    /* If a single packet is refused with the same error, join packets again: joining was not the
     * cause. The interface may have lost our address, for instance. */
    if (udp->gso_doubt == err)
        udp->gso = true;
    udp->gso_doubt = 0;
    if (err == EMSGSIZE)
        log_oversize(udp, packets[0].bytes);
    if (udp->link.down)
        udp->stats.tx_down += udp->tx_packets[0];
    else
        udp->stats.tx_errors += udp->tx_packets[0];
    return (int)udp->tx_packets[0];
}

/* Send messages 0..count-1. Returns the number of packets sent or lost. *ret_full becomes true if
 * the socket is full. */
static unsigned send_messages(struct udp *udp, unsigned count, const struct link_tx *packets,
                              bool *ret_full)
{
    unsigned done = 0;
    int n, lost;

    do
        n = sendmmsg(udp->sock, udp->tx_msgs, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    udp->stats.tx_syscalls++;
    if (n > 0) {
        udp->gso_doubt = 0;
        for (unsigned m = 0; m < (unsigned)n; m++)
            done += udp->tx_packets[m];
        count_sent(udp, packets, done);
        return done;
    }
    lost = refused(udp, n < 0 ? errno : EAGAIN, packets);
    if (lost < 0)
        *ret_full = true;
    return lost < 0 ? 0 : (unsigned)lost;
}

unsigned udp_send(struct link *link, const struct link_tx *packets, unsigned count, uint64_t now_ns)
{
    struct udp *udp = (struct udp *)link;
    unsigned done = 0;
    bool full = false;

    (void)now_ns;
    if (udp->sock < 0) {
        udp->stats.tx_down += count;
        return count;
    }
    while (done < count && !full) {
        unsigned m = 0, planned = done, iovs_used = 0;

        while (m < UDP_TX_BATCH && planned < count) {
            /* An address of another kind of link: end the batch before this packet. A batch without
             * messages means that its first packet is dropped. */
            if (packets[planned].to->len != udp->own.len)
                break;
            planned += build_message(udp, m, &packets[planned], count - planned, &iovs_used);
            m++;
        }
        if (m == 0) {
            udp->stats.tx_errors++;
            done++;
            continue;
        }
        done += send_messages(udp, m, &packets[done], &full);
    }
    return done;
}
