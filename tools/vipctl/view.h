/*
 * One description per view, two renderings: a table for people and one JSON document for programs.
 *
 * Owns: what a column is, units, escaping, colours. Does not own: which columns there are (views.c)
 * or where the rows come from (query.c).
 */
#ifndef VIPCTL_VIEW_H
#define VIPCTL_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* How a field is read from its row and written for people. JSON always gets the raw value. */
enum field_kind {
    FIELD_TEXT,   /* char *, NULL = absent */
    FIELD_COUNT,  /* uint64_t */
    FIELD_NUMBER, /* uint32_t */
    FIELD_BYTES,  /* uint64_t, shown as 1.5 MiB */
    FIELD_NS,     /* uint64_t, shown as 12.3 us */
    FIELD_MS,     /* uint64_t, shown as 2 h 03 min */
    FIELD_HEX,    /* uint64_t address, shown as 0x7f..; a number in JSON */
    FIELD_ID, /* uint64_t without a numeric meaning: text 0x.. also in JSON, all 64 bits matter */
};

/* One field of a row. */
struct column {
    const char *heading;  /* of the table; NULL = JSON only */
    const char *json_key; /* ends in its unit, if it has one */
    enum field_kind kind;
    size_t has_off; /* of protobuf-c's has_ flag; unused for FIELD_TEXT */
    size_t value_off;
    const char *(*brief)(const char *text); /* of a specification's name, in tables; NULL = none */
    bool cut; /* text that may be cut short where the terminal is narrow */
    const char *(*colour)(const char *text); /* of the cell by its text; NULL = never */
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

/* A list of equal rows. */
struct view {
    const char *json_list; /* key of the list in the document */
    const char *empty;     /* sentence for people when there is no row */
    const struct column *columns;
    size_t column_count;
};

/* Print a table of the rows (each points to a protobuf-c message). 0, or -ENOMEM. */
int view_table(const struct view *view, const void *const *rows, size_t row_count, bool colours);

/* Print  "list": [ {..}, ... ]  without a newline at the end. */
void view_json(FILE *out, const struct view *view, const void *const *rows, size_t row_count);

/* Print one row as  "key": value, ...  with the given text between two members. */
void view_json_members(FILE *out, const struct view *view, const void *row, const char *between);

/* Print a JSON string with its quotes; foreign bytes are made harmless. */
void view_json_string(FILE *out, const char *text);

/* Write a field of a row for people into buf; "-" if it is absent. */
void view_format(const struct column *column, const void *row, char *buf, size_t buf_bytes);

#endif
