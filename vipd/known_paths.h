/*
 * Other hosts' addresses on further paths (vipd/link/paths.h), in a file for the next vipd. A vipd
 * learns these addresses over path 1. If path 1 is cut when a vipd begins, only the file lets this
 * vipd reach the hosts with which its programs have connections.
 *
 * Owns: the file. Does not own: proofs of addresses (vipd/link/path_hosts.h). The next vipd asks
 * each address before it uses it. main.c and start.c call these functions; threads of NICs call
 * known_paths_learned.
 */
#ifndef VIPD_KNOWN_PATHS_H
#define VIPD_KNOWN_PATHS_H

#include <sys/types.h>

#include "vipd/daemon.h"

#define KNOWN_PATHS_FILE "paths" /* in the runtime directory */

/* Give the NICs the addresses in the file that the last vipd has left in dir_fd. From now on keep
 * the file up to date. user: as in owners_begin. If no NIC has several paths, do nothing. */
void known_paths_begin(struct vipd *vipd, int dir_fd, uid_t user);

/* ctx: the vipd. A NIC has learned or lost an address. Any thread. */
void known_paths_learned(void *ctx);

/* After each turn of the control loop: if a NIC has learned an address, write the file soon. */
void known_paths_touch(struct vipd *vipd);

/* Write the file if it is out of date, before the NICs are closed. */
void known_paths_end(struct vipd *vipd);

#endif
