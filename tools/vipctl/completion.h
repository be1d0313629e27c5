/*
 * `vipctl completion`: prints the completion of a shell, made from the table of commands, so that
 * both always agree. When it completes, it asks vipd for peers, VIs and NICs.
 */
#ifndef VIPCTL_COMPLETION_H
#define VIPCTL_COMPLETION_H

#include <stddef.h>

#include "tools/vipctl/commands.h"

/*
 * shell: "bash", "zsh" or "fish". table: `count` commands. Outcomes: EXIT_OK; EXIT_USAGE: another
 * shell; EXIT_FAILED: standard output takes no more.
 */
enum exit_code completion_print(const char *shell, const struct command *table, size_t count);

#endif
