/*
 * Prints the rows of a view from one list of columns: as a table for people or as JSON for
 * programs.
 *
 * Owns: columns, units, escaping, colours. Does not own: the columns of each view (views.c) and the
 * source of the rows (query.c).
 */
#ifndef VIPCTL_VIEW_H
#define VIPCTL_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The type of a row's field, and the field's form in tables. JSON has the raw value. */
enum field_kind {
    FIELD_TEXT,   /* char *, NULL = absent */
    FIELD_COUNT,  /* uint64_t */
    FIELD_NUMBER, /* uint32_t */
    FIELD_BYTES,  /* uint64_t, shown as 1.5 MiB */
    FIELD_NS,     /* uint64_t, shown as 12.3 us */
    FIELD_MS,     /* uint64_t, shown as 2 h 03 min */
    FIELD_HEX,    /* uint64_t address, shown as 0x7f..; a number in JSON */
    FIELD_BOOL,   /* protobuf_c_boolean, shown as yes or no; true and false in JSON */
    FIELD_TIME,   /* uint64_t, ns since 1970, shown as local time; a number in JSON */
    FIELD_ID,     /* uint64_t; 0x.. as text in JSON, where a number may lose bits */
};

/* One field of a row. */
struct column {
    const char *heading;  /* heading in the table; NULL: only in JSON */
    const char *json_key; /* ends with the unit if the value has one */
    enum field_kind kind;
    size_t has_off; /* offset of protobuf-c's has_ flag; unused for FIELD_TEXT */
    size_t value_off;
    const char *(*brief)(const char *text);  /* short form for tables; NULL: no short form */
    bool cut;                                /* the text may be cut if the terminal is narrow */
    const char *(*colour)(const char *text); /* colour for the text of a cell; NULL: no colour */
};

#define COLUMN_TEXT(row, head, key, field)                                                         \
    {                                                                                              \
        .heading = (head), .json_key = (key), .kind = FIELD_TEXT,                                  \
        .value_off = offsetof(row, field)                                                          \
    }
#define COLUMN_CUT(row, head, key, field)                                                          \
    {                                                                                              \
        .heading = (head), .json_key = (key), .kind = FIELD_TEXT,                                  \
        .value_off = offsetof(row, field), .cut = true                                             \
    }
#define COLUMN(kind_, row, head, key, field)                                                       \
    {                                                                                              \
        .heading = (head), .json_key = (key), .kind = (kind_),                                     \
        .has_off = offsetof(row, has_##field), .value_off = offsetof(row, field)                   \
    }

/* A list of rows with the same columns. */
struct view {
    const char *json_list; /* key of the list in the JSON document */
    const char *empty;     /* sentence to print if there is no row */
    const struct column *columns;
    size_t column_count;
};

/* The columns to print, in order, and the form of the output. */
struct layout {
    const struct column *column[48];
    size_t count;
    bool raw, no_header, colours;
};

/* The default layout of a view: every column with a heading. */
struct layout view_layout(const struct view *view);

/*
 * Choose columns. list: their JSON keys or headings, in any case, separated by commas. Outcomes:
 * true; false, and *ret_bad points to the first unknown name (inside list, up to the next comma).
 */
bool view_layout_choose(const struct view *view, const char *list, struct layout *ret,
                        const char **ret_bad);

/* The column with this JSON key or heading. len: length of name. NULL: no such column. */
const struct column *view_column(const struct view *view, const char *name, size_t len);

/* Print a table of the rows (each points to a protobuf-c message). Outcomes: 0; -ENOMEM. */
int view_table(const struct view *view, const struct layout *layout, const void *const *rows,
               size_t row_count);

/* Print  "list": [ {..}, ... ]  without a newline at the end. layout NULL: all columns. */
void view_json(FILE *out, const struct view *view, const struct layout *layout,
               const void *const *rows, size_t row_count);

/* Print one row as  "key": value, ...  with the text `between` between two members. */
void view_json_members(FILE *out, const struct view *view, const struct layout *layout,
                       const void *row, const char *between);

/* Print a JSON string with its quotes; replace bytes that are not UTF-8. */
void view_json_string(FILE *out, const char *text);

/* Write a field of a row into buf, in the form for people; "-" if the field is absent. */
void view_format(const struct column *column, const void *row, char *buf, size_t buf_bytes);

/* Like view_format, but without units and abbreviations; "" if the field is absent. */
void view_format_raw(const struct column *column, const void *row, char *buf, size_t buf_bytes);

#endif
