/*
 * Asks the kernel about one UDP socket over IPv4 (sock_diag(7)). The kernel looks into a hash table
 * and takes no lock of the socket. So the cost does not depend on the number of sockets of the
 * host, and no program can make the call wait.
 *
 * Owns: the messages to the kernel. Does not own: what a socket must be (loan_sock.c).
 */
#ifndef VIPD_NIC_SOCK_FIND_H
#define VIPD_NIC_SOCK_FIND_H

#include <stdint.h>
#include <sys/types.h>

#define SOCK_NAME_BYTES 6 /* address and port, in network order, as in struct link_addr */

struct sock_found {
    ino_t inode;
    uint8_t own[SOCK_NAME_BYTES], peer[SOCK_NAME_BYTES]; /* peer: zeros if it is not connected */
};

/* Get a descriptor for sock_find. Outcomes: the descriptor; -EOPNOTSUPP: this kernel does not tell
 * (it lacks udp_diag); -errno. */
int sock_find_open(void);

/* Find the socket of this network namespace that gets packets from `peer` to `own`. Outcomes: 0;
 * -ENOENT: there is none; -errno. */
int sock_find(int kernel, const uint8_t own[SOCK_NAME_BYTES], const uint8_t peer[SOCK_NAME_BYTES],
              struct sock_found *ret);

#endif
