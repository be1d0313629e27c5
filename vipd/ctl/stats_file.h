/*
 * The statistics as a file in the runtime directory, readable without asking vipd
 * (proto/stats_file.h).
 *
 * Owns: the file, its mapping, when it is written. Does not own: what is counted. Called by
 * vipd/start.c. Every function takes NULL: without the file vipd says so once in the log and goes
 * on.
 */
#ifndef VIPD_CTL_STATS_FILE_H
#define VIPD_CTL_STATS_FILE_H

#include <stdbool.h>

#include "vipd/daemon.h"

struct stats_file;

/*
 * Make the file, readable for root and vipd's user. Called before privileges are dropped. NULL: the
 * file could not be made; the log says why.
 */
struct stats_file *stats_file_open(const struct vipd *vipd);

/* Give the file to the group that the configuration names now. */
void stats_file_settle(struct stats_file *file);

/* After a turn: if it did something, the file will be written within [stats] interval. */
void stats_file_touch(struct stats_file *file, bool worked);

/* Remove the file. */
void stats_file_close(struct stats_file *file);

#endif
