/*
 * Reads one value of vipd.conf, checks its range by the table of keys, and stores it.
 *
 * Owns: the syntax of each kind of value and the message about a bad one. Does not own: which keys
 * there are (config_keys.h), where the text comes from (config.c, which alone calls this).
 */
#ifndef VIPD_CONFIG_VALUE_H
#define VIPD_CONFIG_VALUE_H

#include "vipd/config.h"
#include "vipd/config_keys.h"
#include "vipd/config_scan.h"

/* A value to be set, and the list for its errors. */
struct config_value {
    const struct config_entry *at;
    const char *text;
    struct config_errors *errors;
};

/*
 * Set a key. base is the struct that contains the value; nic is the same struct, or NULL if the key
 * is not in [nic:NAME]. A bad value is reported in value->errors; vipd then refuses the
 * configuration.
 */
void config_value_set(const struct config_value *value, const struct config_key *key, void *base,
                      struct vipd_nic_config *nic);

/* Report a bad value; `want` is a text that describes good values. */
void config_value_bad(const struct config_value *value, const char *want);

/* Return the next word of the list at *text, and move *text past it; NULL: the list is at its end.
 * Commas and blanks separate words; "" is the empty word. */
char *config_next_word(char **text);

#endif
