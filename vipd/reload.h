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
 * Read the configuration again, from vipd->source. visit is called for every difference, in the
 * order of the reference. dry_run: change nothing. Outcomes: the number of differences (0 or more),
 * applied unless dry_run; -EINVAL: errors has one line per fault; -ENOMEM. A negative result
 * changes nothing. Live keys take effect at once, and new keys for sessions opened from now on.
 * Restart keys are listed as pending.
 */
int vipd_reload(struct vipd *vipd, bool dry_run, vipd_change_fn *visit, void *ctx, char *errors,
                size_t errors_bytes);

/* As vipd_reload, for SIGHUP: writes faults and differences to the log. */
void vipd_reload_logged(struct vipd *vipd);

/* Free the configuration, and the list of pending changes, that reloads have made. */
void vipd_reload_deinit(struct vipd *vipd);

#endif
