/*
 * Texts made from the table of keys: the commented reference, the manual page vipd.conf(5), and the
 * values in force with the file and line of each.
 *
 * Owns: their layout. Does not own: the table (vipd/config_keys.h). Called by main.c and vipd/ctl/.
 */
#ifndef VIPD_CONFIG_PRINT_H
#define VIPD_CONFIG_PRINT_H

#include <stdio.h>

#include "vipd/config.h"

/* Print a vipd.conf in which every key is a comment, with its explanation, unit, range, reload
 * class and default. */
void vipd_config_print_reference(FILE *out);

/* Print the manual page vipd.conf(5) as source for scdoc. */
void vipd_config_print_manual(FILE *out);

/* Write the addresses of a name in the file's format; if name is NULL, write an empty text. */
void vipd_config_name_text(const struct vipd_name *name, char *buf, size_t buf_bytes);

/* One value that is in force. */
struct vipd_config_value {
    const char *section; /* such as "daemon" or "nic:vip0" */
    const char *key;
    const char *value;
    const char *standard;
    const char *reload; /* reload class: live, new, restart */
    const char *file;   /* path of the file, "(defaults)" or "(before the reload)" */
    unsigned line;
};

/* Call visit for every value from number `from` on, also for those of NICs, [listen] and [names],
 * until visit returns false. The texts are valid until visit returns. */
void vipd_config_each(const struct vipd_config *config, unsigned from,
                      bool (*visit)(void *ctx, const struct vipd_config_value *value), void *ctx);

#endif
