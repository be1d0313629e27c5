/*
 * News of interfaces and addresses from the kernel, for links that follow them (ether, udp).
 *
 * Owns: the netlink socket. It needs no privilege. It reports only that some interface or address
 * has changed. A link then asks the kernel about its own interface.
 */
#ifndef VIPD_LINK_NEWS_H
#define VIPD_LINK_NEWS_H

#include <stdbool.h>

/*
 * A socket that becomes readable when any interface changes; if `addresses`, also when an IP
 * address comes or goes. Outcomes: the descriptor, which the caller closes; negative errno.
 */
int link_news_open(bool addresses);

/* Empty the socket. Returns whether there was news; lost messages count as news. */
bool link_news_read(int news);

#endif
