/*
 * Applies the configuration in force to the running parts, when vipd starts and after a reload.
 *
 * Owns: the configuration of a NIC, made from the keys, and the timer of [daemon] idle_exit. Called
 * by start.c, main.c and reload.c, from the loop's thread.
 */
#ifndef VIPD_CONFIG_APPLY_H
#define VIPD_CONFIG_APPLY_H

#include "vipd/daemon.h"
#include "vipd/nic/nic.h"

/* Fill *ret with the configuration of one NIC. Its seed and its secret are 0: the caller draws
 * these. */
void settle_nic_config(struct vipd *vipd, const struct vipd_nic_config *from,
                       struct nic_config *ret);

/*
 * Apply the parts of vipd->config that need no restart: the log level, how vipd waits, times of the
 * connection managers, the values for new sessions, groups, idle_exit.
 */
void vipd_settle(struct vipd *vipd);

#endif
