/* How a VI is named on the command line: by its number, or as CLIENT:VI. */
#ifndef VIPCTL_TARGET_H
#define VIPCTL_TARGET_H

#include <stdbool.h>
#include <stdint.h>

struct target {
    bool has_client;
    uint64_t client; /* with has_client */
    uint32_t vi;     /* below VIP_VI_MAX */
};

/* "17" or "3:17". Outcomes: true and *ret; false: it is neither, or no VI can have that number. */
bool target_read(const char *text, struct target *ret);

#endif
