/*
 * Starting and stopping vipd: links, NICs, loop, clients. main.c calls these functions after it has
 * read the command line; tests call them in a process of their own.
 */
#ifndef VIPD_START_H
#define VIPD_START_H

#include <stddef.h>

#include "vipd/daemon.h"

/*
 * Open every NIC of the configuration and make the loop that serves them. `config`, `runtime_dir`
 * and `fd_store` must outlive *ret. fd_store: sockets of the previous life; NULL: there are none,
 * and vipd keeps none for the next life. Outcomes: 0; negative errno with a sentence in err, and
 * nothing is left open.
 */
int vipd_start(const struct vipd_config *config, const char *runtime_dir, struct fd_store *fd_store,
               struct vipd *ret, char *err, size_t err_bytes);

/* End every client, tell the peers, close NICs and loop. */
void vipd_stop(struct vipd *vipd);

#endif
