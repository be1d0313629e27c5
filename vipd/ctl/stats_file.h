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

/* Let the group that the configuration names now read the file. */
void stats_file_settle(struct stats_file *file);

/* Call this after a turn. worked: the turn did something, so write the file within [stats]
 * interval. */
void stats_file_touch(struct stats_file *file, bool worked);

/* Remove the file. */
void stats_file_close(struct stats_file *file);

#endif
