/*
 * The table of all keys of vipd.conf. The parser, the defaults, the reference (`vipd
 * --print-config`), the manual page, reload and `vipctl show config` all use it.
 *
 * Owns: names, defaults, ranges, reload classes and explanations of the keys, and how a value is
 * written. Does not own: reading a value (vipd/config_value.c), files (vipd/config.c).
 */
#ifndef VIPD_CONFIG_KEYS_H
#define VIPD_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipd/link/kinds.h"

enum config_type {
    CONFIG_DURATION,   /* uint64_t, ns */
    CONFIG_BYTES,      /* uint64_t */
    CONFIG_BYTES_AUTO, /* uint64_t, "auto" = 0 */
    CONFIG_BYTES32,    /* uint32_t */
    CONFIG_COUNT,      /* uint64_t */
    CONFIG_COUNT32,    /* uint32_t */
    CONFIG_MODE,       /* uint64_t */
    CONFIG_BOOL,
    CONFIG_LOAN, /* uint64_t, "no" = 0, "auto" = 1 */
    CONFIG_WAIT,
    CONFIG_CONGESTION, /* uint32_t */
    CONFIG_LEVEL,
    CONFIG_GROUP, /* char[], name of a group of users or "" */
    CONFIG_USER,  /* char[], name of a user */
    CONFIG_LINK,
    CONFIG_ADDRESS, /* of a NIC */
    CONFIG_MTU,     /* uint64_t, "auto" = 0 */
    CONFIG_THREADS, /* uint64_t, "auto" = 0 */
    CONFIG_CPUS,    /* char[], a list of processors, "auto" = "" */
    CONFIG_ALIASES,
    CONFIG_FAULTS,
    CONFIG_INTERFACE,
    CONFIG_PATHS,     /* of a NIC: char[], addresses or interfaces */
    CONFIG_ETHERTYPE, /* uint64_t */
    CONFIG_VLAN,      /* uint64_t, 0 = none */
    CONFIG_ANNOUNCE,
};

/* When a changed value takes effect. */
enum config_class {
    CONFIG_LIVE,    /* takes effect at the reload */
    CONFIG_NEW,     /* takes effect for NIC handles opened after the reload */
    CONFIG_RESTART, /* takes effect only after a restart of vipd */
};

/* One key: where its value is stored, and which values are allowed. */
struct config_key {
    const char *section; /* "nic" stands for every [nic:NAME] */
    const char *name;
    enum config_type type;
    enum config_class class;
    bool of_link;  /* a key of [nic:NAME] that only some kinds of links have (vipd/link/kinds.h) */
    size_t offset; /* place of the value in struct vipd_config, or in vipd_nic_config for "nic" */
    uint64_t min, max;    /* bounds of a number, both included */
    const char *standard; /* the default, as a file would have it */
    const char *help;     /* what the key is for, in full sentences */
};

/* One section. The table has the sections in the order of the printed reference. */
struct config_section {
    const char *name; /* "nic:NAME" for the NICs */
    const char *help;
};

#define CONFIG_KEYS_MAX 96 /* largest number of keys; length of arrays with an entry for each key */

extern const struct config_key config_keys[];
extern const unsigned config_key_count;
extern const struct config_section config_sections[];
extern const unsigned config_section_count;

/* Does a NIC with a link of this kind have this key of [nic:NAME]? */
bool config_key_fits(const struct config_key *key, enum link_kind kind);

/* Find the key with this name. section is "nic" for a NIC. NULL: there is no such key. */
const struct config_key *config_key_find(const char *section, const char *name);

/*
 * Suggest a key for the unknown key `name` in `section` ("nic" for a NIC): the key `name` of
 * another section, else the most similar key of `section`. A similar key differs in at most two
 * letters, and in at most half of the letters of `name`. NULL: no key is similar.
 */
const struct config_key *config_key_like(const char *section, const char *name);

/* Is there a section with this name? True also for "listen" and "names", false for "nic" and
 * "nic:NAME". */
bool config_section_known(const char *section);

/* Returns "live", "new" or "restart". */
const char *config_class_name(enum config_class class);

/* Write the type and the range of a key's value for people, such as "time, 0ns to 1s". */
void config_key_unit(const struct config_key *key, char *buf, size_t buf_bytes);

/* Write the key's value as a file would have it. base: the struct that contains the value. */
void config_key_format(const struct config_key *key, const void *base, char *buf, size_t buf_bytes);

#endif
