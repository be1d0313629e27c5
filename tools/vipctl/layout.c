/* The selection of columns; see view.h. */
#include <string.h>
#include <strings.h>

#include "tools/vipctl/view.h"

const struct column *view_column(const struct view *view, const char *name, size_t len)
{
    for (size_t i = 0; i < view->column_count; i++) {
        const struct column *column = &view->columns[i];

        if (strlen(column->json_key) == len && strncasecmp(column->json_key, name, len) == 0)
            return column;
    }
    for (size_t i = 0; i < view->column_count; i++) {
        const char *heading = view->columns[i].heading;

        if (heading && strlen(heading) == len && strncasecmp(heading, name, len) == 0)
            return &view->columns[i];
    }
    return NULL;
}

struct layout view_layout(const struct view *view)
{
    struct layout layout = {0};

    for (size_t i = 0; i < view->column_count; i++)
        if (view->columns[i].heading)
            layout.column[layout.count++] = &view->columns[i];
    return layout;
}

bool view_layout_choose(const struct view *view, const char *list, struct layout *ret,
                        const char **ret_bad)
{
    ret->count = 0;
    for (;;) {
        size_t len = strcspn(list, ",");
        const struct column *column = view_column(view, list, len);

        if (!column || ret->count == sizeof(ret->column) / sizeof(*ret->column)) {
            *ret_bad = list;
            return false;
        }
        ret->column[ret->count++] = column;
        if (list[len] == '\0')
            return true;
        list += len + 1;
    }
}
