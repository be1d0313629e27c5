/* News of interfaces and addresses (vipd/link/news.h). */
#include "vipd/link/news.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

/* Largest number of messages read in one call; further messages stay for the next call. */
#define NEWS_MAX 64

int link_news_open(bool addresses)
{
    struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (sock < 0)
        return -errno;
    if (addresses)
        addr.nl_groups |= RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
    if (bind(sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        int r = -errno;

        close(sock);
        return r;
    }
    return sock;
}

bool link_news_read(int news)
{
    bool changed = false;
    char byte;

    /* Contents and lost messages do not matter: the link asks the kernel about its interface. */
    for (unsigned i = 0; i < NEWS_MAX; i++) {
        if (recv(news, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) < 0 && errno != ENOBUFS)
            break;
        changed = true;
    }
    return changed;
}
