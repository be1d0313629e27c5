/*
 * The socket of a loan, which the program owns: its options, its addresses.
 *
 * Does not own: its packets (libvipl/loan/sock.h), vipd's checks of it (vipd/nic/loan_sock.c).
 * A host is an address in VIPL's form for UDP over IPv4: 4 bytes of address, 2 bytes of port, in
 * network order.
 */
#ifndef LIBVIPL_LENT_SOCK_H
#define LIBVIPL_LENT_SOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Make a socket that is bound to this IPv4 address (4 bytes, network order) and a free port. It
 * never blocks. Outcomes: the socket, which the caller closes; -1: no memory, no descriptor, or
 * this host does not have the address. */
int vipl__lent_sock(const uint8_t *address);

/* The port of the socket; 0: it has none. */
uint16_t vipl__lent_sock_port(int sock);

/* Connect the socket to this host. False: the host is none of IPv4, or there is no route. */
bool vipl__lent_sock_connect(int sock, const uint8_t *host, size_t len);

#endif
