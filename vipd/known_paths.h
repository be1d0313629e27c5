/*
 * What this vipd knows of the paths of other hosts (vipd/link/paths.h), for the next vipd. It learns
 * them by path 1. Without this, a vipd that begins while path 1 is cut would reach no host with which
 * its programs have connections.
 *
 * Owns: the file. Does not own: who is believed (vipd/link/path_hosts.h): the next vipd asks every
 * address before it uses it. Called by main.c and start.c; known_paths_learned by threads of NICs.
 */
#ifndef VIPD_KNOWN_PATHS_H
#define VIPD_KNOWN_PATHS_H

#include <sys/types.h>

#include "vipd/daemon.h"

#define KNOWN_PATHS_FILE "paths" /* in the runtime directory */

/* Tell the NICs what the last vipd has left in dir_fd, and keep the file from now on. user: as in
 * owners_begin. Without a NIC with several paths it does nothing. */
void known_paths_begin(struct vipd *vipd, int dir_fd, uid_t user);

/* ctx: the vipd. A NIC has learned or lost an address. Any thread. */
void known_paths_learned(void *ctx);

/* After each turn of the control loop: have the file written soon if something was learned. */
void known_paths_touch(struct vipd *vipd);

/* Write what was learned last. The NICs are still there. */
void known_paths_end(struct vipd *vipd);

#endif
