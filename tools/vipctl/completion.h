/*
 * `vipctl completion`: prints the completion script of a shell. The script is made from the table
 * of commands, so it always agrees with the commands. When the script completes a word, it asks
 * vipd for peers, VIs and NICs.
 */
#ifndef VIPCTL_COMPLETION_H
#define VIPCTL_COMPLETION_H

#include <stddef.h>

#include "tools/vipctl/commands.h"

/*
 * shell: "bash", "zsh" or "fish". table: `count` commands. Outcomes: EXIT_OK; EXIT_USAGE: another
 * shell; EXIT_FAILED: writing to standard output failed.
 */
enum exit_code completion_print(const char *shell, const struct command *table, size_t count);

#endif
