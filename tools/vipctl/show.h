/* The verbs of vipctl. Each prints one table or one JSON document and returns the exit code. */
#ifndef VIPCTL_SHOW_H
#define VIPCTL_SHOW_H

#include <stdbool.h>

#include "tools/vipctl/query.h"

struct show_options {
    bool json;    /* one JSON document instead of tables */
    bool colours; /* stdout is a terminal and NO_COLOR is not set */
};

/* `vipctl`: what runs, since when, and its NICs. */
enum exit_code show_summary(const struct show_options *options);

/* `vipctl show VIEW`. An unknown view is EXIT_USAGE with a message. */
enum exit_code show_view(const char *name, const struct show_options *options);

#endif
