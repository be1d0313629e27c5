/*
 * Texts made of the table of keys: the commented reference, the manual page vipd.conf(5), and the
 * values in force with the file and line of each.
 *
 * Owns: their layout. Does not own: the table (vipd/config_keys.h). Called by main.c and vipd/ctl/.
 */
#ifndef VIPD_CONFIG_PRINT_H
#define VIPD_CONFIG_PRINT_H

#include <stdio.h>

#include "vipd/config.h"

/* A vipd.conf of comments only: every key with its explanation, unit, range, reload class and
 * default. */
void vipd_config_print_reference(FILE *out);

/* The manual page vipd.conf(5) as scdoc's source. */
void vipd_config_print_manual(FILE *out);

/* The addresses of a name as the file has them; an empty text if name is NULL. */
void vipd_config_name_text(const struct vipd_name *name, char *buf, size_t buf_bytes);

/* One value that is in force. */
struct vipd_config_value {
    const char *section; /* "daemon", "nic:vip0" */
    const char *key;
    const char *value;
    const char *standard;
    const char *reload; /* class: live, new, restart */
    const char *file;   /* "(defaults)", or where it was set */
    unsigned line;
};

/* Calls visit for every value, NICs and names included, from number `from` on, until visit returns
 * false. The texts are valid until visit returns. */
void vipd_config_each(const struct vipd_config *config, unsigned from,
                      bool (*visit)(void *ctx, const struct vipd_config_value *value), void *ctx);

#endif
