/*
 * Runs another program of this project: vipperf, or vipd to check a file. Searches for the program
 * beside vipctl (also in a build tree, and in other folders of the same prefix), then in PATH.
 */
#ifndef VIPCTL_PROGRAM_H
#define VIPCTL_PROGRAM_H

#include <stddef.h>

#include "tools/vipctl/query.h"

/*
 * Replace this process by the program. Returns only on failure: EXIT_FAILED, with a message.
 * arguments[0] is the name of the program.
 */
enum exit_code program_run(const char *name, char *const arguments[]);

/* Find the path of a program beside vipctl. "": it is not there, but PATH may have it. */
void program_find(const char *name, char *buf, size_t buf_bytes);

#endif
