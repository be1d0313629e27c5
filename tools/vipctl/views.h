/* The views of vipctl. Each describes the rows of a reply, the columns and their order. */
#ifndef VIPCTL_VIEWS_H
#define VIPCTL_VIEWS_H

#include "proto/control.pb-c.h"
#include "tools/vipctl/view.h"

/* A view of `vipctl show`. */
struct show_view {
    const char *name;   /* name on the command line */
    const char *schema; /* schema of the JSON document */
    const char *help;   /* one line for --help */
    Vip__ShowRequest__What what;
    size_t rows_off;  /* offset of the array of row pointers in Vip__ShowReply */
    size_t count_off; /* offset of the array's length in Vip__ShowReply */
    struct view view;
};

/* All views, in the order of --help; the first view shows the NICs. */
extern const struct show_view show_views[];
extern const size_t show_view_count;

/* Find a view by its name. NULL: no such view. */
const struct show_view *show_view_find(const char *name);

/* The view of the changes of a reload, made or planned. */
extern const struct view change_view;

/* The view of a summary, which has one row. */
extern const struct view summary_view;

#endif
