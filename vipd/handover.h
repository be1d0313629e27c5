/*
 * A running vipd hands over to the next one (`vipd --takeover`): vipd/takeover.h has the steps.
 *
 * Owns: vipd->handover. Called by the request `takeover`, start.c and main.c, in the control loop.
 */
#ifndef VIPD_HANDOVER_H
#define VIPD_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "vipd/daemon.h"

/*
 * Begin: all sockets wait at the other end of *ret_sock, which is the caller's. uid: the user that the
 * next vipd is going to be; pid: its process, for the log. When the next vipd is ready, the loop stops
 * (vipd_host_stop). If the next vipd goes away before, or is not ready within 10 s, this one goes on.
 * Outcomes: 0; a negative errno with a sentence in err.
 */
int handover_begin(struct vipd *vipd, uid_t uid, pid_t pid, int *ret_sock, char *err,
                   size_t err_bytes);

/* Has a next vipd the sockets, so that it may go on with them? Then their names stay. */
bool handover_begun(const struct vipd *vipd);

/* This vipd ends. If a next vipd has the sockets already, tell it so: it begins when it is ready. */
void handover_stop(struct vipd *vipd);

/* This vipd has ended all: tell the next one, if there is one. */
void handover_go(struct vipd *vipd);

#endif
