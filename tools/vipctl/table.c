/* Tables by libsmartcols, which knows the terminal's width and escapes unprintable bytes. */
#include "tools/vipctl/view.h"

#include <ctype.h>
#include <errno.h>
#include <libsmartcols.h>

#include "tools/vipctl/field.h"

/* Bytes of a cell; longer texts are cut. Names of hosts and programs are shorter. */
#define CELL_BYTES 512

/* A column without a heading shows its JSON key. */
static const char *heading_of(const struct column *column)
{
    return column->heading ? column->heading : column->json_key;
}

static int add_columns(struct libscols_table *table, const struct layout *layout)
{
    for (size_t i = 0; i < layout->count; i++) {
        const struct column *column = layout->column[i];
        int flags =
            (column->kind == FIELD_TEXT ? 0 : SCOLS_FL_RIGHT) | (column->cut ? SCOLS_FL_TRUNC : 0);

        if (!scols_table_new_column(table, heading_of(column), 0, flags))
            return -ENOMEM;
    }
    return 0;
}

static int add_row(struct libscols_table *table, const struct layout *layout, const void *row)
{
    struct libscols_line *line = scols_table_new_line(table, NULL);

    if (!line)
        return -ENOMEM;
    for (size_t i = 0; i < layout->count; i++) {
        const struct column *column = layout->column[i];
        const char *colour;
        char text[CELL_BYTES];

        view_format(column, row, text, sizeof(text));
        if (scols_line_set_data(line, i, text) < 0)
            return -ENOMEM;
        colour = column->colour ? column->colour(text) : NULL;
        if (colour)
            scols_cell_set_color(scols_line_get_cell(line, i), colour);
    }
    return 0;
}

/* Print cells separated by tabs. Replace control characters in a cell, because a tab would end
 * the cell. */
static void print_raw(const struct layout *layout, const void *const *rows, size_t row_count)
{
    char text[CELL_BYTES];

    for (size_t i = 0; i < layout->count && !layout->no_header; i++)
        printf("%s%s", i ? "\t" : "", layout->column[i]->json_key);
    if (!layout->no_header)
        putchar('\n');
    for (size_t r = 0; r < row_count; r++) {
        for (size_t i = 0; i < layout->count; i++) {
            view_format_raw(layout->column[i], rows[r], text, sizeof(text));
            for (char *at = text; *at; at++)
                if (iscntrl((unsigned char)*at))
                    *at = '?';
            printf("%s%s", i ? "\t" : "", text);
        }
        putchar('\n');
    }
}

int view_table(const struct view *view, const struct layout *layout, const void *const *rows,
               size_t row_count)
{
    struct libscols_table *table;
    int r;

    if (layout->raw) {
        print_raw(layout, rows, row_count);
        return 0;
    }
    if (row_count == 0) {
        puts(view->empty);
        return 0;
    }
    table = scols_new_table();
    if (!table)
        return -ENOMEM;
    scols_table_enable_colors(table, layout->colours);
    scols_table_enable_noheadings(table, layout->no_header);
    scols_table_set_column_separator(table, "  ");
    r = add_columns(table, layout);
    for (size_t i = 0; r == 0 && i < row_count; i++)
        r = add_row(table, layout, rows[i]);
    if (r == 0 && scols_print_table(table) < 0)
        r = -ENOMEM;
    scols_unref_table(table);
    return r;
}
