/*
 * A JSON writer just big enough for vipctl: numbers as numbers, one document per command. libsmartcols
 * could print JSON as well, but neither a schema member beside the list nor null for absent values.
 */
#include "tools/vipctl/view.h"

#include <inttypes.h>

#include "tools/vipctl/field.h"

/*
 * Length of the well-formed UTF-8 sequence at `text`, 0 if it is none. Names of programs come from
 * foreign processes and may be any bytes; a JSON document must be valid UTF-8.
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
        return 0; /* longer than needed */
    if (len == 3 && text[0] == 0xED && text[1] > 0x9F)
        return 0; /* half of a surrogate pair */
    if (len == 4 && text[0] == 0xF0 && text[1] < 0x90)
        return 0; /* longer than needed */
    if (len == 4 && text[0] == 0xF4 && text[1] > 0x8F)
        return 0; /* beyond the last code point */
    return len;
}

void view_json_string(FILE *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    fputc('"', out);
    while (*at) {
        unsigned len = utf8_len(at);

        if (len == 0) {
            fputs("\\ufffd", out);
            len = 1;
        } else if (*at == '"' || *at == '\\') {
            fprintf(out, "\\%c", *at);
        } else if (*at < 0x20 || *at == 0x7F) {
            fprintf(out, "\\u%04x", *at);
        } else {
            fwrite(at, 1, len, out);
        }
        at += len;
    }
    fputc('"', out);
}

static void print_member(FILE *out, const struct column *column, const void *row)
{
    view_json_string(out, column->json_key);
    fputs(": ", out);
    if (!field_present(column, row))
        fputs("null", out);
    else if (column->kind == FIELD_TEXT)
        view_json_string(out, field_text(column, row));
    else if (column->kind == FIELD_ID)
        fprintf(out, "\"0x%" PRIx64 "\"", field_number(column, row));
    else if (column->kind == FIELD_BOOL)
        fputs(field_number(column, row) ? "true" : "false", out);
    else
        fprintf(out, "%" PRIu64, field_number(column, row));
}

void view_json_members(FILE *out, const struct view *view, const struct layout *layout,
                       const void *row, const char *between)
{
    size_t count = layout ? layout->count : view->column_count;

    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            fputs(between, out);
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
