/*
 * What vipd tells systemd: that it is ready, how it is, that it lives, that it stops. Without systemd
 * (no $NOTIFY_SOCKET) nothing happens.
 *
 * Owns: the messages and the watchdog's timer. Called by main.c.
 */
#ifndef VIPD_NOTIFY_H
#define VIPD_NOTIFY_H

#include "vipd/daemon.h"

struct notify;

/*
 * Ready. If the service has a watchdog it hears three times per interval from the loop's own turns, with
 * a line of status. Outcomes: NULL if there is nothing to do regularly (or no memory).
 */
struct notify *notify_ready(struct vipd *vipd);
/* Stopping; harmless on NULL. The loop must still exist. */
void notify_stopping(struct notify *notify);

#endif
