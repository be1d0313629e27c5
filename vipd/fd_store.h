/*
 * Sockets that the service manager keeps while vipd is away. A UDP port above 1023 belongs to the
 * first process that binds it. If vipd gave up its port for a moment, any user could take the port
 * and speak for this host. So systemd holds a duplicate of each NIC's socket (its descriptor
 * store), and the next vipd gets it back, bound. Without a service manager nothing is kept.
 *
 * Owns: the descriptors that vipd was started with, their names, what is stored. Called by main.c
 * and start.c.
 */
#ifndef VIPD_FD_STORE_H
#define VIPD_FD_STORE_H

#include <stddef.h>

#include "proto/limits.h"
#include "vipd/config.h"

struct fd_store {
    int listener; /* the listening socket of programs, from a .socket unit; -1: none */
    unsigned count;
    struct fd_store_sock {
        char nic[VIP_NIC_NAME_BYTES];
        int fd;                /* inherited and not used yet, or -1 */
        bool stored;           /* the service manager has a socket of this name */
    } sock[2 * VIPD_NICS_MAX]; /* sockets of the previous life and of new NICs */
};

/*
 * Take over the descriptors that the service manager passes ($LISTEN_FDS). Outcomes: 0; -EINVAL
 * with a sentence in err: one of them is neither the listening SEQPACKET socket nor a UDP socket
 * that vipd stored; then all are closed.
 */
int fd_store_inherit(struct fd_store *ret, char *err, size_t err_bytes);

/* The entry of a NIC; a new entry if there is none. NULL: the table is full, so this NIC's socket
 * is not kept. */
struct fd_store_sock *fd_store_of(struct fd_store *fd_store, const char *nic);

/* ctx: a fd_store_sock. The NIC has this socket now: give a duplicate of it to the service manager,
 * in place of an older one. */
void fd_store_opened(void *ctx, int sock);

/* Close the inherited sockets that no NIC has taken, and have the service manager drop these,
 * too. */
void fd_store_forget_rest(struct fd_store *fd_store);

#endif
