/*
 * Bringing vipd up and down: links, NICs, loop, clients. What main.c does after the command line is
 * read, and what tests do in a process of their own.
 */
#ifndef VIPD_START_H
#define VIPD_START_H

#include <stddef.h>

#include "vipd/daemon.h"

/*
 * Open every NIC of the configuration and make the loop that serves them. `config`, `runtime_dir` and `kept`
 * must outlive it. kept: sockets of the life before, NULL: none, and none is kept for the next one.
 * Outcomes: 0; negative errno with a sentence in err, nothing is left.
 */
int vipd_start(const struct vipd_config *config, const char *runtime_dir, struct kept *kept,
               struct vipd *ret, char *err, size_t err_bytes);

/*
 * Make the running parts have what vipd->config says, as far as that is possible without a restart:
 * log level, waiting, times of the connection managers, what new sessions get, groups, idle_exit.
 */
void vipd_settle(struct vipd *vipd);

/* End every client, tell the peers, close NICs and loop. */
void vipd_stop(struct vipd *vipd);

#endif
