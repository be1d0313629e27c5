/*
 * A running vipd hands over to the next one (`vipd --takeover`): vipd/takeover.h has the steps.
 *
 * Owns: vipd->handover. start.c, main.c and the request `takeover` call this in the control loop.
 */
#ifndef VIPD_HANDOVER_H
#define VIPD_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "vipd/daemon.h"

/*
 * Begin: send all sockets through a socket pair. *ret_sock is the next vipd's socket of the pair;
 * the caller owns it. uid: the user of the next vipd; pid: its process, for the log. When the next
 * vipd is ready, the loop stops (vipd_host_stop). If the next vipd ends earlier, or is not ready
 * within 10 s, this vipd goes on. Outcomes: 0; a negative errno with a sentence in err.
 */
int handover_begin(struct vipd *vipd, uid_t uid, pid_t pid, int *ret_sock, char *err,
                   size_t err_bytes);

/* Has a next vipd the sockets? If so, this vipd must not remove the listening socket's name. */
bool handover_begun(const struct vipd *vipd);

/* This vipd begins to stop. If a next vipd has the sockets, tell it so (STOPPING). */
void handover_stop(struct vipd *vipd);

/* This vipd has closed its sessions and NICs. If a next vipd has the sockets, tell it so (GO). */
void handover_go(struct vipd *vipd);

#endif
