/*
 * Reading one value of vipd.conf into its place, with the range that the table of keys gives.
 *
 * Owns: the syntax of each kind of value and what is said about a bad one. Does not own: which keys
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
 * Set a key. base is the struct that key->offset is into; nic is it too, or NULL outside [nic:NAME].
 * A bad value is reported in value->errors and changes nothing that matters.
 */
void config_value_set(const struct config_value *value, const struct config_key *key, void *base,
                      struct vipd_nic_config *nic);

/* Report a value that is not as it must be. */
void config_value_bad(const struct config_value *value, const char *want);

/* A list with commas; the next word starts at *text. Empty parts are skipped, "" is the empty
 * word. Returns the word, or NULL at the end. */
char *config_next_word(char **text);

#endif
