/*
 * News of interfaces and addresses from the kernel, for links that follow them (ether, udp).
 *
 * Owns: the netlink socket. It works without privilege and says that something has changed, not
 * what: a link then asks about its own interface.
 */
#ifndef VIPD_LINK_NEWS_H
#define VIPD_LINK_NEWS_H

#include <stdbool.h>

/*
 * A socket that becomes readable when any interface changes, with `addresses` also when an IP address
 * comes or goes. Outcomes: the descriptor, to be closed by the caller; negative errno.
 */
int link_news_open(bool addresses);

/* Empty it. Whether it said something; lost messages count as such. */
bool link_news_read(int news);

#endif
