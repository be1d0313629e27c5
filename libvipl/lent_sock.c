#include "libvipl/lent_sock.h"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Wanted size of both buffers of the socket, in bytes. The kernel gives what net.core.rmem_max and
 * wmem_max allow. From the receive buffer follows how many bytes the peer may have under way. */
#define BUFFER_BYTES (1 << 20)

/* Wish for a larger buffer; the kernel doubles the number. */
static void buffer_raise(int sock, int option)
{
    int now = 0, wanted = BUFFER_BYTES;
    socklen_t len = sizeof(now);

    if (getsockopt(sock, SOL_SOCKET, option, &now, &len) == 0 && now < 2 * BUFFER_BYTES)
        (void)setsockopt(sock, SOL_SOCKET, option, &wanted, sizeof(wanted));
}

/*
 * All options are wishes: without them, a loan is only slower. Fragments are forbidden, as for
 * vipd's socket: one lost fragment loses the whole packet, and any host can forge a message about
 * the MTU of the path.
 */
static void options_set(int sock)
{
    int discover = IP_PMTUDISC_PROBE, join = 1;

    buffer_raise(sock, SO_RCVBUF);
    buffer_raise(sock, SO_SNDBUF);
    (void)setsockopt(sock, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
    (void)setsockopt(sock, SOL_UDP, UDP_GRO, &join, sizeof(join));
}

int vipl__lent_sock(const uint8_t *address)
{
    struct sockaddr_in self = {.sin_family = AF_INET};
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (sock < 0)
        return -1;
    memcpy(&self.sin_addr, address, sizeof(self.sin_addr));
    options_set(sock);
    if (bind(sock, (struct sockaddr *)&self, sizeof(self)) == 0)
        return sock;
    close(sock);
    return -1;
}

uint16_t vipl__lent_sock_port(int sock)
{
    struct sockaddr_in self = {0};
    socklen_t len = sizeof(self);

    return getsockname(sock, (struct sockaddr *)&self, &len) == 0 ? ntohs(self.sin_port) : 0;
}

bool vipl__lent_sock_connect(int sock, const uint8_t *host, size_t len)
{
    struct sockaddr_in peer = {.sin_family = AF_INET};

    if (len != sizeof(peer.sin_addr) + sizeof(peer.sin_port))
        return false;
    memcpy(&peer.sin_addr, host, sizeof(peer.sin_addr));
    memcpy(&peer.sin_port, host + sizeof(peer.sin_addr), sizeof(peer.sin_port));
    return connect(sock, (struct sockaddr *)&peer, sizeof(peer)) == 0;
}
