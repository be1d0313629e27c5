/*
 * The table of all keys of vipd.conf. Parsing, defaults, the reference (`vipd --print-config`), the
 * manual page, reload and `vipctl show config` all read it.
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
    CONFIG_PATHS,     /* of a NIC: char[], words */
    CONFIG_ETHERTYPE, /* uint64_t */
    CONFIG_VLAN,      /* uint64_t, 0 = none */
    CONFIG_ANNOUNCE,
};

/* When a changed value takes effect. */
enum config_class {
    CONFIG_LIVE,    /* at the reload */
    CONFIG_NEW,     /* for NIC handles opened after the reload */
    CONFIG_RESTART, /* only when vipd is started again */
};

/* One key: where its value is stored, and which values are allowed. */
struct config_key {
    const char *section; /* "nic" stands for every [nic:NAME] */
    const char *name;
    enum config_type type;
    enum config_class class;
    bool of_link;  /* a key of [nic:NAME] that only some kinds of links have (vipd/link/kinds.h) */
    size_t offset; /* of the value in struct vipd_config, or in vipd_nic_config for "nic" */
    uint64_t min, max;    /* bounds of a number, both included */
    const char *standard; /* the default as it is written in the file */
    const char *help;     /* what the key is for, in full sentences */
};

/* One section. The table has the sections in the order of the printed reference. */
struct config_section {
    const char *name; /* "nic:NAME" for the NICs */
    const char *help;
};

#define CONFIG_KEYS_MAX 96 /* most keys in the table; length of arrays with an entry per key */

extern const struct config_key config_keys[];
extern const unsigned config_key_count;
extern const struct config_section config_sections[];
extern const unsigned config_section_count;

/* Does a NIC with a link of this kind have the key of [nic:NAME]? */
bool config_key_fits(const struct config_key *key, enum link_kind kind);

/* The key with this name. section is "nic" for a NIC. NULL: there is no such key. */
const struct config_key *config_key_find(const char *section, const char *name);

/*
 * A suggestion for the unknown key `name` in `section` ("nic" for a NIC): the key of that name in
 * another section, else the most similar key of this section. Such a key differs in at most two
 * letters and in at most half of the letters of `name`. NULL: no key is similar.
 */
const struct config_key *config_key_like(const char *section, const char *name);

/* Is there such a section, other than [nic:NAME]? True also for "listen" and "names", false for
 * "nic". */
bool config_section_known(const char *section);

/* "live", "new", "restart". */
const char *config_class_name(enum config_class class);

/* The kind of value with its range for people: "time, 0ns to 1s". */
void config_key_unit(const struct config_key *key, char *buf, size_t buf_bytes);

/* The value as it would be written in the file. base: the struct that key->offset is into. */
void config_key_format(const struct config_key *key, const void *base, char *buf, size_t buf_bytes);

#endif
