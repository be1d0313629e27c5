/* Statistics from vipd's mapped file (proto/stats_file.h), without asking vipd. */
#ifndef VIPCTL_MAPPED_H
#define VIPCTL_MAPPED_H

#include "tools/vipctl/query.h"
#include "tools/vipctl/show.h"

/*
 * Read the rows of `show stats` from the file beside the socket. Prints errors to stderr. If the
 * vipd of the file has ended, prints a note to stderr and returns EXIT_OK. Outcomes: EXIT_OK;
 * EXIT_NO_VIPD: no file; EXIT_PERMISSION; EXIT_USAGE: path too long; EXIT_FAILED. Free with
 * show_rows_free in any case.
 */
enum exit_code mapped_fetch(struct show_rows *ret);

#endif
