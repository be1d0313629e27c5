/* Filters; see filter.h. */
#include "tools/vipctl/filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/vipctl/field.h"

static void say_columns(const struct view *view)
{
    fputs("vipctl: columns of this view:", stderr);
    for (size_t i = 0; i < view->column_count; i++)
        fprintf(stderr, " %s", view->columns[i].json_key);
    fputc('\n', stderr);
}

bool filter_parse(const struct view *view, const char *text, struct filter *ret)
{
    size_t len = strcspn(text, "=!~<>");
    char *end;

    ret->op = text[len];
    ret->column = view_column(view, text, len);
    if (ret->op == '\0' || (ret->op == '!' && text[len + 1] != '=')) {
        fprintf(stderr,
                "vipctl: \"%s\" is no filter: COLUMN=VALUE, COLUMN!=VALUE, COLUMN~TEXT, "
                "COLUMN>N or COLUMN<N\n",
                text);
        return false;
    }
    if (!ret->column) {
        fprintf(stderr, "vipctl: there is no column \"%.*s\"\n", (int)len, text);
        say_columns(view);
        return false;
    }
    ret->value = text + len + (ret->op == '!' ? 2 : 1);
    if (ret->op != '<' && ret->op != '>')
        return true;
    errno = 0;
    (void)strtoull(ret->value, &end, 0);
    if (ret->column->kind == FIELD_TEXT || end == ret->value || *end || errno) {
        fprintf(stderr, "vipctl: \"%s\": > and < compare numbers\n", text);
        return false;
    }
    return true;
}

static bool equal(const struct column *column, const void *row, const char *value)
{
    char shown[512], raw[512];
    char *end;
    uint64_t number;

    view_format_raw(column, row, raw, sizeof(raw));
    if (strcasecmp(raw, value) == 0)
        return true;
    if (!field_present(column, row))
        return false;
    view_format(column, row, shown, sizeof(shown));
    if (strcasecmp(shown, value) == 0)
        return true;
    if (column->kind == FIELD_TEXT || column->kind == FIELD_BOOL)
        return false;
    number = strtoull(value, &end, 0);
    return end != value && *end == '\0' && number == field_number(column, row);
}

bool filter_match(const struct filter *filter, const void *row)
{
    char shown[512], raw[512];

    switch (filter->op) {
    case '=':
        return equal(filter->column, row, filter->value);
    case '!':
        return !equal(filter->column, row, filter->value);
    case '~':
        view_format(filter->column, row, shown, sizeof(shown));
        view_format_raw(filter->column, row, raw, sizeof(raw));
        return strcasestr(shown, filter->value) || strcasestr(raw, filter->value);
    case '<':
        return field_present(filter->column, row) &&
               field_number(filter->column, row) < strtoull(filter->value, NULL, 0);
    default:
        return field_present(filter->column, row) &&
               field_number(filter->column, row) > strtoull(filter->value, NULL, 0);
    }
}
