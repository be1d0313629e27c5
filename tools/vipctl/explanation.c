/* The lines of an explanation. */
#include "tools/vipctl/explain.h"

#include <stdarg.h>
#include <stdio.h>

void explain_add(struct explanation *to, enum line_kind kind, const char *format, ...)
{
    va_list args;

    if (to->count == sizeof(to->line) / sizeof(*to->line))
        return;
    to->line[to->count].kind = kind;
    va_start(args, format);
    vsnprintf(to->line[to->count].text, sizeof(to->line[0].text), format, args);
    va_end(args);
    to->count++;
}
