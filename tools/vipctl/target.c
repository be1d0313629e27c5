/* The name of a VI; see target.h. */
#include "tools/vipctl/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/limits.h"

/* Parse digits that end with the character `end`. */
static bool digits(const char *text, char end, uint64_t *ret, const char **ret_rest)
{
    char *stop;

    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    *ret = strtoull(text, &stop, 10);
    *ret_rest = stop + 1;
    return errno == 0 && *stop == end;
}

bool target_read(const char *text, struct target *ret)
{
    struct target target = {0};
    const char *rest;
    uint64_t vi;

    target.has_client = digits(text, ':', &target.client, &rest);
    if (!digits(target.has_client ? rest : text, '\0', &vi, &rest) || vi >= VIP_VI_MAX)
        return false;
    target.vi = (uint32_t)vi;
    *ret = target;
    return true;
}
