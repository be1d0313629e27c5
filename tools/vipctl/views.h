/* The views of vipctl: which rows of a reply, which columns, in which order. */
#ifndef VIPCTL_VIEWS_H
#define VIPCTL_VIEWS_H

#include "proto/control.pb-c.h"
#include "tools/vipctl/view.h"

/* A view of `vipctl show`. */
struct show_view {
    const char *name;   /* on the command line */
    const char *schema; /* of its JSON document */
    const char *help;   /* one line for --help */
    Vip__ShowRequest__What what;
    size_t rows_off;  /* in Vip__ShowReply: the array of row pointers */
    size_t count_off; /* in Vip__ShowReply: its length */
    struct view view;
};

/* All of them, in the order of --help; the first is the NICs. */
extern const struct show_view show_views[];
extern const size_t show_view_count;

/* NULL: there is none. */
const struct show_view *show_view_find(const char *name);

/* What a reload changed or would change. */
extern const struct view change_view;

/* The one row of a summary. */
extern const struct view summary_view;

#endif
