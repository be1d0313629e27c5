/* The name of a VI on the command line: its number, or CLIENT:VI. */
#ifndef VIPCTL_TARGET_H
#define VIPCTL_TARGET_H

#include <stdbool.h>
#include <stdint.h>

struct target {
    bool has_client;
    uint64_t client; /* valid if has_client is set */
    uint32_t vi;     /* below VIP_VI_MAX */
};

/* Parse "17" or "3:17". False: the text has another form, or the VI's number is too large. */
bool target_read(const char *text, struct target *ret);

#endif
