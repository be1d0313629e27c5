/*
 * Sockets that the service manager keeps until the next vipd starts. A UDP port above 1023 belongs
 * to the first process that binds it. If vipd gave up its port for a moment, any user could bind
 * the port and send as this host. So systemd holds a duplicate of each NIC's socket in its
 * descriptor store, and the next vipd gets this bound socket. Without a service manager no socket
 * is kept, but a vipd that takes over (vipd/takeover.h) gets the sockets of the running one.
 *
 * Owns: the descriptors that vipd was started with, their names, what is stored. Called by main.c,
 * start.c, takeover.c and handover.c.
 */
#ifndef VIPD_FD_STORE_H
#define VIPD_FD_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/limits.h"
#include "vipd/config.h"

/* Bytes of the name of a NIC and a path, with its terminating zero: "vip0", "vip0+2". */
#define FD_STORE_NIC_BYTES (VIP_NIC_NAME_BYTES + 2)

struct fd_store {
    int listener; /* the inherited listening socket of programs; -1: none */
    bool in_use;  /* another vipd still uses the inherited sockets */
    bool dropped; /* vipd could not use a descriptor that the service manager passed */
    unsigned count;
    struct fd_store_sock {
        char nic[FD_STORE_NIC_BYTES];
        int fd;         /* inherited and not used yet, or -1 */
        int open;       /* the NIC's socket, which its link owns; -1: there is none */
        uint64_t inode; /* of the inherited socket; 0: none was inherited */
        bool used;      /* the NIC has the inherited socket */
        bool stored;    /* the service manager has a socket of this name */
    } sock[2 * VIPD_NICS_MAX * VIP_PATHS_MAX]; /* sockets of the previous life and of new NICs */
};

/* Bytes of a socket's name, with its terminating zero. */
#define FD_STORE_NAME_BYTES (8 + FD_STORE_NIC_BYTES)

/* Name of the lock among the sockets that a running vipd hands over. */
#define TAKEOVER_LOCK "lock"

/* Set *ret to a store without inherited sockets. */
void fd_store_init(struct fd_store *ret);

/* Take over one descriptor under its name. false: vipd cannot use it; the caller still owns it. */
bool fd_store_take(struct fd_store *fd_store, const char *name, int fd);

/* The name of a NIC's socket. */
void fd_store_name(const struct fd_store_sock *sock, char ret[FD_STORE_NAME_BYTES]);

/*
 * Take over the descriptors that the service manager passes ($LISTEN_FDS). vipd cannot use one that
 * is neither the listening SEQPACKET socket nor the UDP socket of a NIC: a warning says why, vipd
 * closes it, has the service manager forget its name, and goes on as if it had not been kept. Else
 * no vipd could ever start again. Outcomes: 0; -EINVAL with a sentence in err: the .socket unit
 * passes no socket on which vipd can listen, so programs would not reach vipd; all are closed.
 */
int fd_store_inherit(struct fd_store *ret, char *err, size_t err_bytes);

/* The entry of a path (0..VIP_PATHS_MAX-1) of a NIC; a new entry if there is none. NULL: the table
 * is full, so this socket is not kept. */
struct fd_store_sock *fd_store_of(struct fd_store *fd_store, const char *nic, unsigned path);

/* Does the entry belong to one of the first `paths` paths of this NIC? */
bool fd_store_is_of(const struct fd_store_sock *sock, const char *nic, unsigned paths);

/* ctx: a fd_store_sock. The NIC has this socket now: give a duplicate of it to the service manager,
 * in place of an older one. sock -1: the NIC has closed its socket; if that is the inherited one,
 * because it does not fit, the service manager drops it, too. */
void fd_store_opened(void *ctx, int sock);

/* The entry of a NIC that has not taken its inherited socket, because its address is another one or
 * because there is no such NIC; NULL: none. */
const struct fd_store_sock *fd_store_unused(const struct fd_store *fd_store);

/* Close the inherited sockets that no NIC has taken, and remove them from the service manager. */
void fd_store_forget_rest(struct fd_store *fd_store);

/* A NIC's address is in use: close the inherited sockets that no NIC has taken yet. false: this
 * life has given up none, so another process has the address. true: the address may become free;
 * the service manager closes its duplicates some time after vipd has asked for it. */
bool fd_store_make_room(struct fd_store *fd_store);

#endif
