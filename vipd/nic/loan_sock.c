/*
 * The socket of a loan. The program makes a UDP socket, and vipd has a second descriptor of it. So
 * both see the same queue of packets.
 *
 * The program may do anything with its socket, also at any later time. This harms its own
 * connection only: a peer judges packets by address and data id, and vipd reads nothing from the
 * socket but answers to probes.
 *
 * A thread of the program can hold the lock of the socket for any time: while it sends with MSG_MORE
 * from memory whose page does not come. So vipd makes no call that takes this lock, and none that
 * waits: no getsockname, connect, send or shutdown. recv, epoll and the options below do not take it.
 * The program itself sends the probe, and connects its socket to the peer's loan.
 *
 * Owns: the checks of a socket, every system call on it. Does not own: when a loan begins and ends.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"
#include "vipd/nic/sock_find.h"

/* Does the socket have this value of an option with an int? */
static bool has_option(int sock, int option, int want)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(sock, SOL_SOCKET, option, &value, &len) == 0 && value == want;
}

const char *nic_loan_sock_fault(const struct nic_conn *conn, int sock, uint16_t port,
                                struct cm_host *ret)
{
    struct nic *nic = conn->session->nic;
    struct link_addr self = nic->link->self;
    struct sock_found found;
    struct stat st;

    /* First look at what the socket is: other calls on other files may block. */
    if (!has_option(sock, SO_DOMAIN, AF_INET) || !has_option(sock, SO_TYPE, SOCK_DGRAM) ||
        !has_option(sock, SO_PROTOCOL, IPPROTO_UDP))
        return "the socket is no UDP socket over IPv4";
    if (port == 0)
        return "the request does not name the port of the socket: the libvipl of the program is "
               "too old";
    if (nic->sock_kernel < 0)
        return "this kernel does not tell vipd about UDP sockets (module udp_diag)";
    if (port == (self.bytes[4] << 8 | self.bytes[5]))
        return "the socket has the port of the NIC";
    VIP_ASSERT(self.len == SOCK_NAME_BYTES && conn->to.len == SOCK_NAME_BYTES);
    self.bytes[4] = (uint8_t)(port >> 8);
    self.bytes[5] = (uint8_t)port;
    if (fstat(sock, &st) < 0 ||
        sock_find(nic->sock_kernel, self.bytes, conn->to.bytes, &found) != 0 ||
        found.inode != st.st_ino)
        return "the socket is not bound to the address of the NIC and the port that the request "
               "names, is connected elsewhere, or is in another network namespace";
    if (memcmp(found.own, self.bytes, SOCK_NAME_BYTES) != 0)
        return "the socket is not bound to the address of the NIC";
    if (memcmp(found.peer, conn->to.bytes, SOCK_NAME_BYTES) != 0)
        return "the socket is not connected to the NIC of the peer";
    *ret = (struct cm_host){.len = self.len};
    memcpy(ret->bytes, self.bytes, sizeof(ret->bytes));
    return NULL;
}

uint32_t nic_loan_window(const struct nic_loan *loan, uint32_t packet_bytes)
{
    int buffer = 0;
    socklen_t len = sizeof(buffer);
    uint32_t window;

    (void)getsockopt(loan->sock, SOL_SOCKET, SO_RCVBUF, &buffer, &len);
    /* In its buffer the kernel counts more than the bytes of a packet: up to twice as many for a
     * large packet, and more for a small one. */
    window = buffer > 0 ? (uint32_t)buffer / 4 : 0;
    return window > 2 * packet_bytes ? window : 2 * packet_bytes;
}

size_t nic_loan_sock_recv(const struct nic_loan *loan, uint8_t *packet, size_t bytes)
{
    ssize_t got = recv(loan->sock, packet, bytes, MSG_DONTWAIT);

    return got > 0 ? (size_t)got : 0;
}

/*
 * A program can shut its socket down, or fill its queue of errors. Then the socket is ready for
 * ever, and a look for an answer finds none. So while vipd waits for an answer, the socket reports
 * each packet once.
 */
static struct epoll_event events_of(struct nic_loan *loan)
{
    return (struct epoll_event){.events = EPOLLIN | (loan->state == LOAN_ASKED ? EPOLLET : 0u),
                                .data.ptr = loan};
}

void nic_loan_hear_again(struct nic_loan *loan)
{
    struct epoll_event event = events_of(loan);

    if (loan->heard)
        (void)epoll_ctl(loan->nic->loan_fd, EPOLL_CTL_MOD, loan->sock, &event);
}

void nic_loan_hear(struct nic_loan *loan, bool hear)
{
    struct epoll_event event = events_of(loan);

    if (hear == loan->heard)
        return;
    /* If the kernel cannot add the socket, timers still run: a probe has no answer, or the loan
     * comes back for its timer. */
    if (epoll_ctl(loan->nic->loan_fd, hear ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, loan->sock, &event) < 0)
        return;
    loan->heard = hear;
    loan->nic->loans_heard += hear ? 1 : -1;
}

void nic_loan_shut(struct nic_loan *loan)
{
    if (loan->sock < 0)
        return;
    nic_loan_hear(loan, false); /* before the close, because the program has the file, too */
    close(loan->sock);
    loan->sock = -1;
}

void nic_loan_free(struct nic_loan *loan)
{
    nic_loan_shut(loan);
    nic_list_del(&loan->link);
    if (nic_list_empty(&loan->nic->loans))
        loan->nic->loans_over = false; /* a NIC without loans does not look any more */
    free(loan);
}
