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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vipd/nic/internal.h"

#define UDP_ADDR_BYTES 6 /* of a struct link_addr over IPv4: address, port */

/* Does the socket have this value of an option with an int? */
static bool has_option(int sock, int option, int want)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(sock, SOL_SOCKET, option, &value, &len) == 0 && value == want;
}

/* Both addresses of a socket, in the form of /proc/net/udp: the address as the number whose bytes
 * are in network order, the port as a number. */
struct names {
    unsigned address[2], port[2]; /* own, peer's */
};

static bool is_name(const struct names *names, unsigned which, const struct link_addr *addr)
{
    uint32_t address;

    memcpy(&address, addr->bytes, 4);
    return addr->len == UDP_ADDR_BYTES && names->address[which] == address &&
           names->port[which] == (unsigned)(addr->bytes[4] << 8 | addr->bytes[5]);
}

/* Looks at the kernel's list of UDP sockets, at most. The kernel gives the list in pages. If another
 * socket is closed between two pages, the list may leave out any one socket. */
#define LIST_LOOKS      3u
#define LIST_PAGE_BYTES 4096u

/* Find the addresses of the socket with this inode in the kernel's list, which takes no lock of a
 * socket. */
static bool list_look(ino_t wanted, struct names *ret)
{
    FILE *list = fopen("/proc/self/net/udp", "re");
    char page[LIST_PAGE_BYTES], line[256];
    bool found = false;

    if (!list)
        return false;
    (void)setvbuf(list, page, _IOFBF, sizeof(page));
    while (!found && fgets(line, sizeof(line), list)) {
        unsigned long inode = 0;

        found =
            sscanf(line, " %*u: %x:%x %x:%x %*x %*x:%*x %*x:%*x %*x %*u %*u %lu", &ret->address[0],
                   &ret->port[0], &ret->address[1], &ret->port[1], &inode) == 5 &&
            inode == wanted;
    }
    fclose(list);
    return found;
}

/* Find the addresses of a UDP socket of vipd's network namespace. false: it is none. */
static bool names_find(int sock, struct names *ret)
{
    struct stat st;
    bool found = false;

    if (fstat(sock, &st) < 0)
        return false;
    for (unsigned look = 0; !found && look < LIST_LOOKS; look++)
        found = list_look(st.st_ino, ret);
    return found;
}

const char *nic_loan_sock_fault(const struct nic_conn *conn, int sock, struct cm_host *ret)
{
    struct link_addr self = conn->session->nic->link->self;
    struct names names;

    /* First look at what the socket is: other calls on other files may block. */
    if (!has_option(sock, SO_DOMAIN, AF_INET) || !has_option(sock, SO_TYPE, SOCK_DGRAM) ||
        !has_option(sock, SO_PROTOCOL, IPPROTO_UDP))
        return "the socket is no UDP socket over IPv4";
    if (!names_find(sock, &names))
        return "the socket is not bound, or is in another network namespace";
    if (is_name(&names, 0, &self))
        return "the socket has the port of the NIC";
    self.bytes[4] = (uint8_t)(names.port[0] >> 8);
    self.bytes[5] = (uint8_t)names.port[0];
    if (!is_name(&names, 0, &self) || names.port[0] == 0)
        return "the socket is not bound to the address of the NIC";
    if (!is_name(&names, 1, &conn->to))
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

void nic_loan_hear(struct nic_loan *loan, bool hear)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = loan};

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
