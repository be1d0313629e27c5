/*
 * Filters of `vipctl show VIEW FILTER...`: COLUMN=VALUE, !=, ~ (contains), > and < (numbers).
 *
 * Owns: the syntax of filters, and the comparison. Does not own: the columns.
 */
#ifndef VIPCTL_FILTER_H
#define VIPCTL_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/vipctl/view.h"

struct filter {
    const struct column *column;
    char op; /* '=', '!', '~', '<', '>' */
    const char *value;
};

/* Parse a filter. Outcomes: true; false, and a message has been printed to stderr. */
bool filter_parse(const struct view *view, const char *text, struct filter *ret);

/*
 * Does the row pass the filter? =, != and ~ ignore case. They compare with the text in the table
 * and with the raw text, which has no unit. An absent field equals only the empty value.
 */
bool filter_match(const struct filter *filter, const void *row);

#endif
