/*
 * Reading one value of vipd.conf into its place, with the range that the table of keys gives.
 *
 * Owns: the syntax of each kind of value and the message about a bad one. Does not own: which keys
 * there are (config_keys.h), where the text comes from (config.c, which alone calls this).
 */
#ifndef VIPD_CONFIG_VALUE_H
#define VIPD_CONFIG_VALUE_H

#include "vipd/config.h"
#include "vipd/config_keys.h"
#include "vipd/config_scan.h"

/* A value to be set, and where errors about it go. */
struct config_value {
    const struct config_entry *at;
    const char *text;
    struct config_errors *errors;
};

/*
 * Set a key. base is the struct that key->offset is into; nic is the same struct, or NULL if the
 * key is not in [nic:NAME]. A bad value is reported in value->errors; the configuration is then
 * refused.
 */
void config_value_set(const struct config_value *value, const struct config_key *key, void *base,
                      struct vipd_nic_config *nic);

/* Report a bad value; `want` says what a good one is. */
void config_value_bad(const struct config_value *value, const char *want);

/* The next word of a list from *text on. Commas and blanks separate words, "" is the empty word.
 * Returns the word, or NULL at the end. */
char *config_next_word(char **text);

#endif
