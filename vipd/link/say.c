/* Lines that links log for the administrator: changes of an interface, missing features. */
#include <stdarg.h>
#include <stdio.h>

#include "proto/line.h"
#include "vipd/link/link.h"

void link_say(const char *format, ...)
{
    char line[1024] = "vipd: ";
    size_t used = sizeof("vipd: ") - 1, room = sizeof(line) - used - 1; /* 1: the line feed */
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(line + used, room, format, args);
    va_end(args);
    if (n > 0)
        used += (size_t)n < room ? (size_t)n : room - 1;
    line[used++] = '\n';
    vip_line_write(line, used);
}
