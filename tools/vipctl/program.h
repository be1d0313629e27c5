/*
 * Runs another program of this project: vipperf, or vipd to check a file. Looks beside vipctl (also
 * in the layout of a build tree and below a prefix), then in PATH.
 */
#ifndef VIPCTL_PROGRAM_H
#define VIPCTL_PROGRAM_H

#include <stddef.h>

#include "tools/vipctl/query.h"

/*
 * Replace this process by the program. Returns only on failure: EXIT_FAILED, with a message.
 * arguments[0] is its name.
 */
enum exit_code program_run(const char *name, char *const arguments[]);

/* Its path; "" if it is not beside vipctl (PATH may have it). */
void program_find(const char *name, char *buf, size_t buf_bytes);

#endif
