/*
 * The owners of discriminators, for the next life of vipd. A program that waits for connections
 * waits again some milliseconds after the next vipd has begun. Until then no other user may wait on
 * the program's discriminator and get its requests. So vipd keeps a file with the present owners in
 * the runtime directory. The next vipd reserves these discriminators for [reliability] outlive.
 *
 * A change of an owner costs one system call. This is little: it always follows a request of a
 * program, which costs several. A vipd that is killed leaves a file of whole entries.
 *
 * Owns: the file. Does not own: the choice of owners (vipd/engine/cm_disc.c). start.c and main.c
 * call these functions; the threads of the NICs call the functions in owners_of_nic.
 */
#ifndef VIPD_OWNERS_H
#define VIPD_OWNERS_H

#include <sys/types.h>

#include "vipd/daemon.h"
#include "vipd/nic/outlive.h"

#define OWNERS_FILE "owners" /* in the runtime directory */

/*
 * Read the file that the last vipd has left in dir_fd, reserve its discriminators at the NICs, and
 * begin a new file. Ignore the old file if another user than `user` or this process's user owns it.
 * Also ignore it if others may open it, or if it has a second name. Ignore an entry that makes no
 * sense. If the new file cannot be made or cannot get all reserved discriminators, the old file
 * stays until a user loses a discriminator. Then the log says so, and vipd goes on without a file.
 */
void owners_begin(struct vipd *vipd, int dir_fd, uid_t user);

/* The functions for nic_config.owners. */
extern const struct nic_owners owners_of_nic;

/* Close the file, which stays for the next vipd. */
void owners_end(struct vipd *vipd);

#endif
