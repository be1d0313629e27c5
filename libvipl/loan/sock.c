#include "libvipl/loan/sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/assert.h"
#include "proto/limits.h"

/* ---- packets that leave ----------------------------------------------------------------- */

bool vipl__burst_joins(const struct vipl__burst *burst, const struct path_tx *tx)
{
    return burst->packets > 0 && !burst->alone && !burst->full &&
           burst->packets < VIPL__BURST_PACKETS && tx->packet.bytes <= burst->segment &&
           burst->bytes + tx->packet.bytes <= VIP_PACKET_BYTES_MAX &&
           burst->iovs + tx->iov_count <= VIPL__BURST_IOVS;
}

void vipl__burst_add(struct vipl__burst *burst, struct path_tx *tx)
{
    const uint8_t *head = tx->packet.head;

    VIP_ASSERT(burst->packets == 0 || vipl__burst_joins(burst, tx));
    tx->copy = burst->memory + burst->used;
    path_tx_seal(tx);
    for (unsigned i = 0; i < tx->iov_count; i++) {
        struct iovec iov = tx->iov[i];
        const uint8_t *base = iov.iov_base;

        if (iov.iov_len == 0)
            continue;
        if (base >= head && base < head + sizeof(tx->packet.head)) {
            memcpy(burst->memory + burst->used, base, iov.iov_len);
            iov.iov_base = burst->memory + burst->used;
        }
        if ((uint8_t *)iov.iov_base == burst->memory + burst->used)
            burst->used += (uint32_t)iov.iov_len;
        burst->iov[burst->iovs++] = iov;
    }
    if (burst->packets++ == 0)
        burst->segment = tx->packet.bytes;
    burst->bytes += tx->packet.bytes;
    burst->full = tx->packet.bytes < burst->segment;
}

/* Send these pieces, as packets of `segment` bytes; 0: as one packet. Returns 0 or errno. */
static int transmit(int sock, struct iovec *iov, unsigned iovs, uint16_t segment)
{
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(segment))];
    } control = {0};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = iovs};

    if (segment > 0) {
        struct cmsghdr *cmsg;

        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        cmsg = CMSG_FIRSTHDR(&message);
        cmsg->cmsg_level = SOL_UDP;
        cmsg->cmsg_type = UDP_SEGMENT;
        cmsg->cmsg_len = CMSG_LEN(sizeof(segment));
        memcpy(CMSG_DATA(cmsg), &segment, sizeof(segment));
    }
    for (unsigned tries = 0; sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0; tries++)
        /* The socket reports once that an earlier packet found no socket at the peer. */
        if (errno != ECONNREFUSED || tries > 0)
            return errno;
    return 0;
}

/* Send the packets one by one. Returns how many the socket has not taken. */
static unsigned send_alone(struct vipl__burst *burst, int sock)
{
    unsigned lost = 0;

    for (unsigned at = 0; at < burst->iovs;) {
        unsigned first = at;
        uint32_t bytes = 0;

        while (at < burst->iovs && bytes < burst->segment)
            bytes += (uint32_t)burst->iov[at++].iov_len;
        lost += transmit(sock, burst->iov + first, at - first, 0) != 0;
    }
    return lost;
}

unsigned vipl__burst_send(struct vipl__burst *burst, int sock)
{
    unsigned lost = 0;
    int err = 0;

    if (burst->packets > 0)
        err = transmit(sock, burst->iov, burst->iovs,
                       burst->packets > 1 ? (uint16_t)burst->segment : 0);
    if (err != 0)
        lost = burst->packets;
    /* The device or the path may not take joined packets. */
    if (burst->packets > 1 &&
        (err == EIO || err == EINVAL || err == EOPNOTSUPP || err == EMSGSIZE)) {
        lost = send_alone(burst, sock);
        burst->alone = lost == 0;
    }
    burst->packets = burst->iovs = 0;
    burst->bytes = burst->used = 0;
    burst->full = false;
    return lost;
}

/* ---- packets that arrive ---------------------------------------------------------------- */

/* Bytes of each packet that the kernel has joined in this message of `bytes` bytes. */
static uint32_t segment_of(struct msghdr *message, uint32_t bytes)
{
    const struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);
    int segment = 0;

    if (cmsg != NULL && cmsg->cmsg_level == SOL_UDP && cmsg->cmsg_type == UDP_GRO &&
        cmsg->cmsg_len >= CMSG_LEN(sizeof(segment)))
        memcpy(&segment, CMSG_DATA(cmsg), sizeof(segment));
    return segment > 0 && (uint32_t)segment < bytes ? (uint32_t)segment : bytes;
}

/* Receive one message into the empty inbox. False: there is none. */
static bool receive(struct vipl__inbox *inbox, int sock)
{
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = inbox->memory, .iov_len = VIP_PACKET_BYTES_MAX};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(sock, &message, MSG_DONTWAIT);

    /* Nothing waits, an earlier packet found no socket at the peer (ECONNREFUSED, which the socket
     * reports once), or vipd has shut the socket down. */
    if (got <= 0)
        return false;
    inbox->at = 0;
    inbox->end = (uint32_t)got;
    inbox->segment = segment_of(&message, inbox->end);
    return true;
}

bool vipl__inbox_next(struct vipl__inbox *inbox, int sock, const uint8_t **ret, uint32_t *ret_bytes)
{
    uint32_t left = inbox->end - inbox->at;

    if (left == 0) {
        if (!receive(inbox, sock))
            return false;
        left = inbox->end;
    }
    *ret = inbox->memory + inbox->at;
    *ret_bytes = left < inbox->segment ? left : inbox->segment;
    inbox->at += *ret_bytes;
    return true;
}
