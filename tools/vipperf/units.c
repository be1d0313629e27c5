/* Numbers and times of the command line (units.h). */
#include "tools/vipperf/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool units_number(const char *text, uint64_t max, uint64_t *ret)
{
    unsigned shift = 0;
    uint64_t value;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0)
        return false;
    switch (*end) {
    case 'G':
    case 'g':
        shift += 10;
        __attribute__((fallthrough));
    case 'M':
    case 'm':
        shift += 10;
        __attribute__((fallthrough));
    case 'K':
    case 'k':
        shift += 10;
        end++;
        break;
    default:
        break;
    }
    if (*end != '\0' || value > max >> shift)
        return false;
    *ret = value << shift;
    return true;
}

bool units_duration(const char *text, uint64_t *ret_ms)
{
    uint64_t value;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || value == 0 || value > 1000000000)
        return false;
    if (strcmp(end, "ms") == 0)
        *ret_ms = value;
    else if (*end == '\0' || strcmp(end, "s") == 0)
        *ret_ms = value * 1000;
    else
        return false;
    return true;
}

bool units_sizes(const char *text, uint64_t max, uint64_t *ret_first, uint64_t *ret_last)
{
    const char *colon = strchr(text, ':');
    char first[32];

    if (!colon || (size_t)(colon - text) >= sizeof(first))
        return false;
    snprintf(first, sizeof(first), "%.*s", (int)(colon - text), text);
    return units_number(first, max, ret_first) && units_number(colon + 1, max, ret_last) &&
           *ret_first > 0 && *ret_first <= *ret_last;
}
