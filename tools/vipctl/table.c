/* Tables for people, drawn by libsmartcols: it knows the terminal's width and escapes foreign bytes. */
#include "tools/vipctl/view.h"

#include <errno.h>
#include <libsmartcols.h>

#include "tools/vipctl/field.h"

/* Longest cell; host names and program names are shorter, longer ones are cut. */
#define CELL_BYTES 256

static int add_columns(struct libscols_table *table, const struct view *view)
{
    for (size_t i = 0; i < view->column_count; i++) {
        const struct column *column = &view->columns[i];
        int flags =
            (column->kind == FIELD_TEXT ? 0 : SCOLS_FL_RIGHT) | (column->cut ? SCOLS_FL_TRUNC : 0);

        if (column->heading && !scols_table_new_column(table, column->heading, 0, flags))
            return -ENOMEM;
    }
    return 0;
}

static int add_row(struct libscols_table *table, const struct view *view, const void *row)
{
    struct libscols_line *line = scols_table_new_line(table, NULL);
    size_t cell_index = 0;

    if (!line)
        return -ENOMEM;
    for (size_t i = 0; i < view->column_count; i++) {
        const struct column *column = &view->columns[i];
        const char *colour;
        char text[CELL_BYTES];

        if (!column->heading)
            continue;
        view_format(column, row, text, sizeof(text));
        if (scols_line_set_data(line, cell_index, text) < 0)
            return -ENOMEM;
        colour = column->colour ? column->colour(text) : NULL;
        if (colour)
            scols_cell_set_color(scols_line_get_cell(line, cell_index), colour);
        cell_index++;
    }
    return 0;
}

int view_table(const struct view *view, const void *const *rows, size_t row_count, bool colours)
{
    struct libscols_table *table;
    int r;

    if (row_count == 0) {
        puts(view->empty);
        return 0;
    }
    table = scols_new_table();
    if (!table)
        return -ENOMEM;
    scols_table_enable_colors(table, colours);
    scols_table_set_column_separator(table, "  ");
    r = add_columns(table, view);
    for (size_t i = 0; r == 0 && i < row_count; i++)
        r = add_row(table, view, rows[i]);
    if (r == 0 && scols_print_table(table) < 0)
        r = -ENOMEM;
    scols_unref_table(table);
    return r;
}
