/*
 * Messages of vipd to systemd: ready, status, watchdog, stopping. Without systemd (no
 * $NOTIFY_SOCKET) nothing happens.
 *
 * Owns: the messages and the watchdog's timer. Called by main.c.
 */
#ifndef VIPD_SYSTEMD_NOTIFY_H
#define VIPD_SYSTEMD_NOTIFY_H

#include "vipd/daemon.h"

struct notify;

/*
 * Tell systemd that vipd is ready. If the service has a watchdog, a timer reports to it three times
 * per interval, with a line of status. Outcomes: NULL: no watchdog, or no memory.
 */
struct notify *notify_ready(struct vipd *vipd);
/* Report that vipd stops. notify may be NULL. The loop must still exist. */
void notify_stopping(struct notify *notify);

#endif
