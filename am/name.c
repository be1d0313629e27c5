/* Names of endpoints. */
#include <stdio.h>
#include <string.h>

#include "am/internal.h"

bool am_name_equal(const en_t *a, const en_t *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

void am_name_text(const en_t *name, char text[AM_NAME_TEXT])
{
    size_t at = 0;

    for (unsigned i = 0; i < name->host_bytes && i < sizeof(name->host); i++)
        at += (size_t)snprintf(text + at, AM_NAME_TEXT - at, "%02x", name->host[i]);
    snprintf(text + at, AM_NAME_TEXT - at, "/%llx/%u", (unsigned long long)name->process,
             name->number);
}
