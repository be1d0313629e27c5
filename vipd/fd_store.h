/*
 * Sockets that the service manager keeps until the next vipd starts. A UDP port above 1023 belongs
 * to the first process that binds it. If vipd gave up its port for a moment, any user could bind
 * the port and send as this host. So systemd holds a duplicate of each NIC's socket in its
 * descriptor store, and the next vipd gets this bound socket. Without a service manager no socket
 * is kept, but a vipd that takes over (vipd/takeover.h) gets the sockets of the running one.
 *
 * Owns: the descriptors that vipd was started with, their names, and the record of which sockets
 * are stored. Called by main.c, start.c, takeover.c and handover.c.
 */
#ifndef VIPD_FD_STORE_H
#define VIPD_FD_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/limits.h"
#include "vipd/config.h"

/* Size of an entry's name ("vip0", for the second path "vip0+2") with its terminating zero. */
#define FD_STORE_NIC_BYTES (VIP_NIC_NAME_BYTES + 2)

struct fd_store {
    int listener; /* inherited socket on which programs connect; -1: none */
    bool in_use;  /* another vipd still uses the inherited sockets */
    bool dropped; /* vipd could not use a descriptor that the service manager passed */
    unsigned count;
    struct fd_store_sock {
        char nic[FD_STORE_NIC_BYTES];
        int fd;         /* inherited socket that no NIC has taken yet; -1: none */
        int open;       /* the NIC's socket, which its link owns; -1: there is none */
        uint64_t inode; /* inode of the inherited socket; 0: none was inherited */
        bool used;      /* the NIC uses the inherited socket */
        bool stored;    /* the service manager has a socket of this name */
        bool given_up;  /* vipd has asked the service manager to drop one of this name */
    } sock[2 * VIPD_NICS_MAX * VIP_PATHS_MAX]; /* sockets of the previous life and of new NICs */
};

/* Size of the name under which a NIC's socket is stored, with its terminating zero. */
#define FD_STORE_NAME_BYTES (8 + FD_STORE_NIC_BYTES)

/* A running vipd hands over its lock under this name, together with its sockets. */
#define TAKEOVER_LOCK "lock"

/* Make *ret empty: it has no inherited sockets. */
void fd_store_init(struct fd_store *ret);

/* Take over `fd`, which has this name. false: vipd cannot use it; the caller still owns it. */
bool fd_store_take(struct fd_store *fd_store, const char *name, int fd);

/* Write the name under which a NIC's socket is stored ("nic-vip0") to ret. */
void fd_store_name(const struct fd_store_sock *sock, char ret[FD_STORE_NAME_BYTES]);

/*
 * Take over the descriptors that the service manager passes ($LISTEN_FDS). vipd uses only the
 * listening SEQPACKET socket and UDP sockets of NICs. For any other descriptor vipd logs a warning,
 * closes it, lets the service manager forget its name, and goes on. Else no vipd could ever start
 * again. Outcomes: 0; -EINVAL with a sentence in err: the .socket unit passes no socket on which
 * vipd can listen, so programs would not reach vipd. All descriptors are then closed.
 */
int fd_store_inherit(struct fd_store *ret, char *err, size_t err_bytes);

/* Find or add the entry for a path (0..VIP_PATHS_MAX-1) of a NIC. NULL: the table is full, so the
 * service manager does not keep this path's socket. */
struct fd_store_sock *fd_store_of(struct fd_store *fd_store, const char *nic, unsigned path);

/* Does the entry belong to one of the first `paths` paths of this NIC? */
bool fd_store_is_of(const struct fd_store_sock *sock, const char *nic, unsigned paths);

/* ctx: the fd_store_sock of a NIC, which now uses `sock`. Give a duplicate of `sock` to the service
 * manager, in place of an older one. sock -1: the NIC has closed its socket. If this was the
 * inherited socket, which did not fit, the service manager drops it, too. */
void fd_store_opened(void *ctx, int sock);

/* Find the entry of an inherited socket that no NIC has taken: the NIC has another address now, or
 * does not exist. NULL: there is none. */
const struct fd_store_sock *fd_store_unused(const struct fd_store *fd_store);

/* Close the inherited sockets that no NIC has taken, and remove them from the service manager. */
void fd_store_forget_rest(struct fd_store *fd_store);

/*
 * The address (IP address, perhaps with %interface, or `auto`) and port of a NIC are in use: give up
 * the inherited sockets that block them and that no NIC has taken yet. false: this life has given up
 * no socket, so another process has the address. true: the address may become free; the service
 * manager closes its duplicates some time after vipd has asked for it.
 */
bool fd_store_make_room(struct fd_store *fd_store, const char *address, uint64_t port);

#endif
