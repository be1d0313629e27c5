/*
 * The statistics in a file in the runtime directory, which other programs read without asking vipd
 * (proto/stats_file.h).
 *
 * Owns: the file, its mapping, the times of writing. Does not own: the counters. Called by
 * vipd/start.c. Every function accepts NULL: if the file cannot be made, vipd goes on without it.
 */
#ifndef VIPD_CTL_STATS_FILE_H
#define VIPD_CTL_STATS_FILE_H

#include <stdbool.h>

#include "vipd/daemon.h"

struct stats_file;

/*
 * Make the file, readable for root and vipd's user. Call this before vipd drops its privileges.
 * NULL: the file could not be made, and the log says why.
 */
struct stats_file *stats_file_open(const struct vipd *vipd);

/* Let only the group that the present configuration names ([stats] group) read the file. */
void stats_file_settle(struct stats_file *file);

/* Call this after a turn. worked: the turn did something. If so, or after new control requests,
 * vipd writes the file when [stats] interval has passed, or later if writing is slow. */
void stats_file_touch(struct stats_file *file, bool worked);

/* Remove the file. */
void stats_file_close(struct stats_file *file);

#endif
