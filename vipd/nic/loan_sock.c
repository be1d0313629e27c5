/*
 * The socket of a loan. The program makes a UDP socket, and vipd has a second descriptor of it. So
 * both see the same queue of packets, the same addresses and the same shut-down.
 *
 * The program may do anything with its socket, also at any later time. This harms its own
 * connection only: a peer judges packets by address and data id, and vipd reads nothing from the
 * socket but answers to probes.
 *
 * Owns: the checks of a socket, every system call on it. Does not own: when a loan begins and ends.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vipd/nic/internal.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define UDP_ADDR_BYTES 6 /* of a struct link_addr over IPv4: address, port */

static struct sockaddr_in name_of(const struct link_addr *addr)
{
    struct sockaddr_in name = {.sin_family = AF_INET};

    memcpy(&name.sin_addr, addr->bytes, 4);
    memcpy(&name.sin_port, addr->bytes + 4, 2);
    return name;
}

static bool is_name(const struct sockaddr_in *name, socklen_t len, const struct link_addr *addr,
                    bool port)
{
    struct sockaddr_in want = name_of(addr);

    return len == sizeof(*name) && name->sin_family == AF_INET &&
           name->sin_addr.s_addr == want.sin_addr.s_addr &&
           (!port || name->sin_port == want.sin_port);
}

/* Does the socket have this value of an option with an int? */
static bool has_option(int sock, int option, int want)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(sock, SOL_SOCKET, option, &value, &len) == 0 && value == want;
}

/* The network namespace of a socket; 0: not known. */
static uint64_t netns_of(int sock)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof(cookie);

    return getsockopt(sock, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) == 0 ? cookie : 0;
}

/* Is the socket in the network namespace of vipd, which made the socket of the NIC? */
static bool in_own_netns(int sock)
{
    int own = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool same = own >= 0 && netns_of(own) && netns_of(own) == netns_of(sock);

    if (own >= 0)
        close(own);
    return same;
}

const char *nic_loan_sock_fault(const struct nic *nic, const struct nic_conn *conn, int sock)
{
    const struct link_addr *self = &nic->link->self;
    struct sockaddr_in name;
    socklen_t len = sizeof(name);

    /* First look at what the socket is: other calls on other files may block. */
    if (!has_option(sock, SO_DOMAIN, AF_INET) || !has_option(sock, SO_TYPE, SOCK_DGRAM) ||
        !has_option(sock, SO_PROTOCOL, IPPROTO_UDP))
        return "is no UDP socket over IPv4";
    if (!in_own_netns(sock))
        return "is in another network namespace";
    memset(&name, 0, sizeof(name));
    if (self->len != UDP_ADDR_BYTES || getsockname(sock, (struct sockaddr *)&name, &len) < 0 ||
        !is_name(&name, len, self, false) || name.sin_port == 0)
        return "is not bound to the address of the NIC";
    if (is_name(&name, len, self, true))
        return "has the port of the NIC";
    len = sizeof(name);
    memset(&name, 0, sizeof(name));
    if (getpeername(sock, (struct sockaddr *)&name, &len) < 0 ||
        !is_name(&name, len, &conn->to, true))
        return "is not connected to the NIC of the peer";
    return NULL;
}

bool nic_loan_sock_host(const struct nic_loan *loan, struct cm_host *ret)
{
    struct sockaddr_in name;
    socklen_t len = sizeof(name);

    memset(&name, 0, sizeof(name));
    *ret = (struct cm_host){.len = UDP_ADDR_BYTES};
    if (getsockname(loan->sock, (struct sockaddr *)&name, &len) < 0 || len != sizeof(name))
        return false;
    memcpy(ret->bytes, &name.sin_addr, 4);
    memcpy(ret->bytes + 4, &name.sin_port, 2);
    return true;
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

void nic_loan_sock_connect(const struct nic_loan *loan, const struct link_addr *to)
{
    struct sockaddr_in name = name_of(to);

    /* A failure has the effect of lost packets: vipd takes the loan back for its timer. */
    (void)connect(loan->sock, (const struct sockaddr *)&name, sizeof(name));
}

void nic_loan_sock_send(const struct nic_loan *loan, const struct link_addr *to,
                        const uint8_t *packet, size_t bytes)
{
    struct sockaddr_in name = name_of(to);

    (void)sendto(loan->sock, packet, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
                 (const struct sockaddr *)&name, sizeof(name));
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
    (void)shutdown(loan->sock, SHUT_RDWR);
    close(loan->sock);
    loan->sock = -1;
}

void nic_loan_free(struct nic_loan *loan)
{
    nic_loan_shut(loan);
    nic_list_del(&loan->link);
    free(loan);
}
