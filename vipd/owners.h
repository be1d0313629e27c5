/*
 * The owners of discriminators, for the next life of vipd. A program that waits for connections comes
 * back some milliseconds after the next vipd has begun. Until then no other user may wait at its
 * discriminator and get its requests. So vipd keeps a file with the present owners in the runtime
 * directory, and the next vipd reserves these discriminators for [reliability] outlive.
 *
 * A change of an owner costs one system call; it has cost a request of a program before. A vipd that is
 * killed leaves a file of whole entries.
 *
 * Owns: the file. Does not own: who owns what (vipd/engine/cm_disc.c). Called by start.c, main.c and,
 * by nic_owners, by the threads of the NICs.
 */
#ifndef VIPD_OWNERS_H
#define VIPD_OWNERS_H

#include <sys/types.h>

#include "vipd/daemon.h"
#include "vipd/nic/outlive.h"

#define OWNERS_FILE "owners" /* in the runtime directory */

/*
 * Read what the last vipd has left in dir_fd, reserve it at the NICs, and begin a file of our own. A
 * file that is not of vipd's user (`user` or the present one), that others may open, or that has a
 * second name, is ignored, and so is an entry that makes no sense. If no file can be made, or not
 * all that is reserved can be written, the old file stays, the log says so, and vipd goes on without
 * a file of its own.
 */
void owners_begin(struct vipd *vipd, int dir_fd, uid_t user);

/* For nic_config. */
extern const struct nic_owners owners_of_nic;

/* The file stays. */
void owners_end(struct vipd *vipd);

#endif
