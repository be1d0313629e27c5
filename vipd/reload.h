/*
 * Reading the configuration again while programs run: the new configuration is taken over as a
 * whole, or nothing changes.
 *
 * Owns: what a reload compares, applies and reports. Does not own: what a key does
 * (config_apply.c), nor the end of sessions that [listen] now forbids: the caller ends these
 * (clients_judge). Called by start.c (SIGHUP) and vipd/client/ (vipctl reload), from the loop's
 * thread.
 */
#ifndef VIPD_RELOAD_H
#define VIPD_RELOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "vipd/daemon.h"
#include "vipd/restart_pending.h"

/*
 * Read vipd->source again. visit is called for every difference, in the order of the reference.
 * dry_run: change nothing. Outcomes: number of differences (0 or more), applied unless dry_run:
 * live keys take effect at once, new keys for sessions opened from now on, restart keys are listed
 * as pending; -EINVAL, and errors has one line per fault; -ENOMEM. If the result is negative,
 * nothing has changed.
 */
int vipd_reload(struct vipd *vipd, bool dry_run, vipd_change_fn *visit, void *ctx, char *errors,
                size_t errors_bytes);

/* As vipd_reload, for SIGHUP: writes faults and differences to the log. */
void vipd_reload_logged(struct vipd *vipd);

/* Free what reloads have made. */
void vipd_reload_deinit(struct vipd *vipd);

#endif
