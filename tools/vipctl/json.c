/*
 * A small JSON writer for vipctl: numbers as numbers, one document per command. The JSON of
 * libsmartcols is not enough: it has no schema member beside the list, and no null for absent
 * values.
 */
#include "tools/vipctl/view.h"

#include <string.h>

#include "tools/vipctl/field.h"

/* Write without locks, which would take most of the time. Only one thread writes. */
static void put_char(FILE *out, int c)
{
    putc_unlocked(c, out);
}

static void put_bytes(FILE *out, const void *bytes, size_t count)
{
    (void)fwrite_unlocked(bytes, 1, count, out);
}

static void put_number(FILE *out, uint64_t number, unsigned base)
{
    char digits[20]; /* decimal digits of 2^64 - 1 */
    size_t at = sizeof(digits);

    do {
        digits[--at] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    put_bytes(out, digits + at, sizeof(digits) - at);
}

/*
 * Length of the valid UTF-8 sequence at `text`; 0 if the bytes are not valid UTF-8. Program names
 * come from other processes and may contain any bytes; a JSON document must be valid UTF-8.
 */
static unsigned utf8_len(const unsigned char *text)
{
    unsigned len = text[0] < 0x80                      ? 1
                   : text[0] >= 0xC2 && text[0] < 0xE0 ? 2
                   : text[0] >= 0xE0 && text[0] < 0xF0 ? 3
                   : text[0] >= 0xF0 && text[0] < 0xF5 ? 4
                                                       : 0;

    for (unsigned i = 1; i < len; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    if (len == 3 && text[0] == 0xE0 && text[1] < 0xA0)
        return 0; /* the UTF-8 sequence is longer than needed */
    if (len == 3 && text[0] == 0xED && text[1] > 0x9F)
        return 0; /* half of a surrogate pair */
    if (len == 4 && text[0] == 0xF0 && text[1] < 0x90)
        return 0; /* the UTF-8 sequence is longer than needed */
    if (len == 4 && text[0] == 0xF4 && text[1] > 0x8F)
        return 0; /* after the last code point */
    return len;
}

/* Is the character printable ASCII that needs no escape in a string? */
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

void view_json_string(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    put_char(out, '"');
    while (*at) {
        size_t len = 0;

        while (is_plain(at[len]))
            len++;
        if (len == 0)
            len = utf8_len(at);
        if (len == 0) {
            fputs("\\ufffd", out);
            len = 1;
        } else if (*at == '"' || *at == '\\') {
            put_char(out, '\\');
            put_char(out, *at);
        } else if (*at < 0x20 || *at == 0x7F) {
            fprintf(out, "\\u%04x", *at);
        } else {
            put_bytes(out, at, len);
        }
        at += len;
    }
    put_char(out, '"');
}

static void print_member(FILE *out, const struct column *column, const void *row)
{
    /* A key is a plain word without characters to escape. */
    put_char(out, '"');
    put_bytes(out, column->json_key, strlen(column->json_key));
    put_bytes(out, "\": ", 3);
    if (!field_present(column, row)) {
        put_bytes(out, "null", 4);
    } else if (column->kind == FIELD_TEXT) {
        view_json_string(out, field_text(column, row));
    } else if (column->kind == FIELD_ID) {
        put_bytes(out, "\"0x", 3);
        put_number(out, field_number(column, row), 16);
        put_char(out, '"');
    } else if (column->kind == FIELD_BOOL) {
        fputs(field_number(column, row) ? "true" : "false", out);
    } else {
        put_number(out, field_number(column, row), 10);
    }
}

void view_json_members(FILE *out, const struct view *view, const struct layout *layout,
                       const void *row, const char *between)
{
    size_t count = layout ? layout->count : view->column_count, between_len = strlen(between);

    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            put_bytes(out, between, between_len);
        print_member(out, layout ? layout->column[i] : &view->columns[i], row);
    }
}

void view_json(FILE *out, const struct view *view, const struct layout *layout,
               const void *const *rows, size_t row_count)
{
    view_json_string(out, view->json_list);
    fputs(": [", out);
    for (size_t i = 0; i < row_count; i++) {
        fputs(i > 0 ? ",\n    {" : "\n    {", out);
        view_json_members(out, view, layout, rows[i], ", ");
        fputc('}', out);
    }
    fputs(row_count > 0 ? "\n  ]" : "]", out);
}
