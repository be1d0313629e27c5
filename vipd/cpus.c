/* Processors to run on; see cpus.h. */
#include "vipd/cpus.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read the number of a processor, and move *text past it. false: there is no valid number. */
static bool number(const char **text, unsigned long *ret)
{
    char *end;

    if (!isdigit((unsigned char)**text))
        return false;
    *ret = strtoul(*text, &end, 10);
    *text = end;
    return *ret < CPU_SETSIZE;
}

static bool parse(const char *text, cpu_set_t *ret)
{
    unsigned long from, to;

    CPU_ZERO(ret);
    do {
        text += strspn(text, " \t");
        if (!number(&text, &from))
            return false;
        to = from;
        if (*text == '-' && (text++, !number(&text, &to) || to < from))
            return false;
        for (; from <= to; from++)
            CPU_SET(from, ret);
        text += strspn(text, " \t");
    } while (*text++ == ',');
    return text[-1] == '\0';
}

bool cpus_valid(const char *text)
{
    cpu_set_t set;

    return strlen(text) < CPUS_TEXT_BYTES && parse(text, &set);
}

/* Write the set as a list in the form that cpus_valid allows; cut a list that is too long. */
static void format(const cpu_set_t *set, char *buf, size_t buf_bytes)
{
    size_t len = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < CPU_SETSIZE && len < buf_bytes; i++) {
        unsigned last = i;

        if (!CPU_ISSET(i, set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        len += (size_t)snprintf(buf + len, buf_bytes - len, last > i ? "%s%u-%u" : "%s%u",
                                len ? "," : "", i, last);
        i = last;
    }
}

int cpus_take(const char *text, char *err, size_t err_bytes)
{
    char have[CPUS_TEXT_BYTES];
    cpu_set_t set, allowed;
    int r;

    if (text[0] == '\0')
        return 0;
    if (!parse(text, &set))
        return -EINVAL;
    if (sched_setaffinity(0, sizeof(set), &set) == 0)
        return 0;
    r = -errno;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
        CPU_ZERO(&allowed);
    format(&allowed, have, sizeof(have));
    snprintf(err, err_bytes, "[engine] cpus = %s: %s; vipd may use %s here", text, strerror(-r),
             have);
    return r;
}
