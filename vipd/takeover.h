/*
 * The next vipd takes over from the one that runs (`vipd --takeover`). It gets the lock of the runtime
 * directory, the listening socket and the sockets of the NICs from it, opens its NICs while the
 * running one still serves, and begins when that one has ended. The programs then come back by
 * themselves, as after any end of vipd. vipd/handover.h is the side of the running vipd.
 *
 *     running vipd                     next vipd
 *                  <-- Request.takeover        (vipd.sock)
 *     Reply, one end of a socket pair -->
 *     SOCKET ... SOCKET, ALL -->               (socket pair; proto/control.proto, Takeover)
 *                                              opens its NICs
 *                  <-- READY                   (within 10 s, or GAVE_UP --> and the running one goes on)
 *     STOPPING -->                             until here the next vipd may fail: nothing has changed
 *     ends its sessions and NICs
 *     GO -->                                   begins
 *
 * Called by main.c.
 */
#ifndef VIPD_TAKEOVER_H
#define VIPD_TAKEOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "vipd/fd_store.h"

struct takeover {
    int sock;      /* to the running vipd; -1: this vipd takes over from none */
    int pidfd;     /* of the running vipd */
    int lock_fd;   /* the lock of the runtime directory, for runtime_take */
    pid_t pid;     /* of the running vipd */
    bool draining; /* the running vipd was drained when it said its last word */
    unsigned nic_count;
    char *nics[VIPD_NICS_MAX]; /* of the running vipd, as takeover_nic writes them */
};

/* Bytes of the text of a NIC, with its terminating zero. */
#define TAKEOVER_NIC_BYTES 512

/* The text by which two vipd compare a NIC whose link has no socket to pass: "vip1 ether eth1". False:
 * its link has one, which tells more. */
bool takeover_nic(const struct vipd_nic_config *nic, char ret[TAKEOVER_NIC_BYTES]);

/* A NIC of the running vipd that the configuration does not have as it is there; NULL: none. */
const char *takeover_missing(const struct takeover *takeover, const struct vipd_config *config);

/*
 * Ask the vipd that runs in `dir` for its sockets; user: the user that this vipd is going to be. Each
 * answer must come within 1 s. Outcomes: 0; a negative errno with a sentence in err. *ret can be given
 * to takeover_free in any case.
 */
int takeover_ask(const char *dir, uid_t user, struct fd_store *fd_store, struct takeover *ret,
                 char *err, size_t err_bytes);

/*
 * This vipd is ready: wait until the running one has ended. Nothing but its word or its death is
 * taken for this end. It takes as long as it takes; the log says so after 1 s, and again every 10 s.
 * Outcomes: 0; -ETIMEDOUT with a sentence in err: it has not begun to stop within 1 s, or it has
 * given this one up, and will not stop for it any more.
 */
int takeover_finish(struct takeover *takeover, char *err, size_t err_bytes);

void takeover_free(struct takeover *takeover);

#endif
