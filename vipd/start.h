/*
 * Starting and stopping vipd: links, NICs, loop, clients. main.c calls this after it has read the
 * command line; tests call it in a process of their own.
 */
#ifndef VIPD_START_H
#define VIPD_START_H

#include <stddef.h>

#include "vipd/daemon.h"

/*
 * Open every NIC of the configuration and make the loop that serves them. `config`, `runtime_dir`
 * and `kept` must outlive it. kept: sockets of the life before, NULL: none, and none is kept for
 * the next one. Outcomes: 0; negative errno with a sentence in err, nothing is left.
 */
int vipd_start(const struct vipd_config *config, const char *runtime_dir, struct kept *kept,
               struct vipd *ret, char *err, size_t err_bytes);

/* End every client, tell the peers, close NICs and loop. */
void vipd_stop(struct vipd *vipd);

#endif
