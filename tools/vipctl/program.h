/*
 * Running another program of ours: vipperf, or vipd to look at a file. They are looked for beside
 * vipctl (also as laid out in a build tree and below a prefix), then in PATH.
 */
#ifndef VIPCTL_PROGRAM_H
#define VIPCTL_PROGRAM_H

#include <stddef.h>

#include "tools/vipctl/query.h"

/*
 * Become that program. Returns only if that is not possible: EXIT_FAILED with a message. arguments[0]
 * is its name.
 */
enum exit_code program_run(const char *name, char *const arguments[]);

/* Where it is; "" if it is nowhere beside vipctl (PATH may have it). */
void program_find(const char *name, char *buf, size_t buf_bytes);

#endif
