/* Statistics from vipd's mapped file (proto/stats_file.h), without asking vipd. */
#ifndef VIPCTL_MAPPED_H
#define VIPCTL_MAPPED_H

#include "tools/vipctl/query.h"
#include "tools/vipctl/show.h"

/*
 * The rows that show_fetch gives for `show stats`, read from the file beside the socket. Says on stderr what
 * is the matter, also with EXIT_OK if the vipd that wrote them is gone. Outcomes: EXIT_OK; EXIT_NO_VIPD
 * there is no file; EXIT_PERMISSION; EXIT_FAILED. Free with show_rows_free in any case.
 */
enum exit_code mapped_fetch(struct show_rows *ret);

#endif
