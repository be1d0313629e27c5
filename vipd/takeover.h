/*
 * The next vipd takes over from the running vipd (`vipd --takeover`). The next vipd gets the lock
 * of the runtime directory, the listening socket and the sockets of the NICs. It opens its NICs
 * while the running vipd still serves. It begins when the running vipd has ended. The programs then
 * claim their sessions, as after any end of vipd. vipd/handover.h is the side of the running vipd.
 *
 *     running vipd                     next vipd
 *                  <-- Request.takeover        (vipd.sock)
 *     Reply, one end of a socket pair -->
 *     SOCKET ... SOCKET, ALL -->               (socket pair; proto/control.proto, Takeover)
 *                                              opens its NICs
 *                  <-- READY                   (within 10 s; else GAVE_UP -->, and no takeover)
 *     STOPPING -->                             (if the next vipd ends before, nothing changes)
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
    int sock;      /* socket to the running vipd; -1: this vipd takes over from none */
    int pidfd;     /* process of the running vipd */
    int lock_fd;   /* the lock of the runtime directory, for runtime_take */
    pid_t pid;     /* process of the running vipd */
    bool draining; /* the last message said that the running vipd is drained */
    unsigned nic_count;
    char *nics[VIPD_NICS_MAX]; /* texts (takeover_nic) of the running vipd's NICs with no socket */
};

/* Size of a text of takeover_nic, with its terminating zero. */
#define TAKEOVER_NIC_BYTES 512

/* Write the text by which two vipd compare a NIC that hands over no socket: "vip1 ether eth1".
 * false: the NIC hands over a socket, and the two vipd compare its address instead. */
bool takeover_nic(const struct vipd_nic_config *nic, char ret[TAKEOVER_NIC_BYTES]);

/* Find a NIC of the running vipd that hands over no socket, and is missing or different in this
 * configuration. NULL: there is none. */
const char *takeover_missing(const struct takeover *takeover, const struct vipd_config *config);

/*
 * Ask the vipd that runs in `dir` for its sockets. user: the user that this vipd will become. Each
 * answer must come within 1 s. Outcomes: 0; a negative errno with a sentence in err. *ret can be
 * given to takeover_free after every outcome.
 */
int takeover_ask(const char *dir, uid_t user, struct fd_store *fd_store, struct takeover *ret,
                 char *err, size_t err_bytes);

/*
 * This vipd is ready: wait until the running vipd has ended, which only GO or its death shows. The
 * wait has no limit; the log reports the wait after 1 s, and again every 10 s. Outcomes: 0;
 * -ETIMEDOUT with a sentence in err: the running vipd goes on. It has not begun to stop within 1 s,
 * or has sent GAVE_UP.
 */
int takeover_finish(struct takeover *takeover, char *err, size_t err_bytes);

void takeover_free(struct takeover *takeover);

#endif
