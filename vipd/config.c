/* The configuration: keys, defaults, ranges. */
#include "vipd/config.h"

#include <errno.h>
#include <libeconf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/assert.h"
#include "vipd/config_nic.h"
#include "vipd/config_scan.h"
#include "vipd/units.h"

enum key_type {
    KEY_DURATION, /* uint64_t, ns */
    KEY_BYTES,    /* uint64_t */
    KEY_BYTES32,  /* uint32_t */
    KEY_COUNT,    /* uint64_t */
    KEY_COUNT32,  /* uint32_t */
    KEY_MODE,     /* uint64_t */
    KEY_BOOL,
    KEY_WAIT,
    KEY_CONGESTION, /* uint32_t */
    KEY_LEVEL,
    KEY_LINK,
    KEY_ADDRESS, /* of a NIC */
    KEY_MTU,     /* uint64_t, "auto" = 0 */
    KEY_ALIASES,
    KEY_FAULTS,
    KEY_INTERFACE,
    KEY_ETHERTYPE, /* uint64_t */
    KEY_ANNOUNCE,
};

/* One key: where its value goes and which values are sensible. */
struct key {
    const char *section; /* "nic" stands for every [nic:NAME] */
    const char *name;
    enum key_type type;
    size_t offset;     /* into struct vipd_config, or vipd_nic_config for "nic" */
    uint64_t min, max; /* both included; numbers only */
};

#define US          1000ull
#define MS          1000000ull
#define SEC         1000000000ull
#define GIB         (1ull << 30)
#define AT(member)  offsetof(struct vipd_config, member)
#define NIC(member) offsetof(struct vipd_nic_config, member)

static const struct key keys[] = {
    {"daemon", "socket_mode", KEY_MODE, AT(socket_mode), 0, 0777},
    {"daemon", "log_level", KEY_LEVEL, AT(log_level), 0, 0},

    {"engine", "wait", KEY_WAIT, AT(wait), 0, 0},
    {"engine", "spin", KEY_DURATION, AT(spin_ns), 0, SEC},
    {"engine", "turn_packets", KEY_COUNT32, AT(engine.turn_packets), 1, 4096},
    {"engine", "turn_bytes", KEY_BYTES32, AT(engine.turn_bytes), 65536, GIB},
    {"engine", "held_packets", KEY_COUNT32, AT(engine.held_packets_max), 0, 2048},

    {"reliability", "peer_dead", KEY_DURATION, AT(peer_dead_ns), 10 * MS, 3600 * SEC},
    {"reliability", "keepalive", KEY_DURATION, AT(keepalive_ns), MS, 3600 * SEC},
    {"reliability", "conn_timeout", KEY_DURATION, AT(engine.conn_timeout_ns), 10 * MS, 3600 * SEC},
    {"reliability", "accept_timeout", KEY_DURATION, AT(accept_timeout_ns), 10 * MS, 3600 * SEC},
    {"reliability", "rto_min", KEY_DURATION, AT(engine.rto_min_ns), 10 * US, 10 * SEC},
    {"reliability", "rto_max", KEY_DURATION, AT(engine.rto_max_ns), 10 * US, 60 * SEC},
    {"reliability", "rto_initial", KEY_DURATION, AT(engine.rto_initial_ns), 10 * US, 60 * SEC},
    {"reliability", "ack_delay", KEY_DURATION, AT(engine.ack_delay_ns), 0, SEC},
    {"reliability", "ack_every", KEY_COUNT32, AT(engine.ack_every_packets), 1, 1024},
    {"reliability", "congestion", KEY_CONGESTION, AT(engine.congestion), 0, 0},

    {"limits", "sessions_per_uid", KEY_COUNT, AT(sessions_per_uid), 1, 65536},
    {"limits", "connections_per_uid", KEY_COUNT, AT(connections_per_uid), 1, 65536},
    {"limits", "vis_per_uid", KEY_COUNT, AT(vis_per_uid), 1, 1048576},
    {"limits", "cqs_per_uid", KEY_COUNT, AT(cqs_per_uid), 1, 1048576},
    {"limits", "regions_per_uid", KEY_COUNT, AT(regions_per_uid), 1, 16777216},
    {"limits", "register_bytes_per_uid", KEY_BYTES, AT(register_bytes_per_uid), 4096, 65536 * GIB},
    {"limits", "mapped_bytes_per_uid", KEY_BYTES, AT(mapped_bytes_per_uid), 4096, 65536 * GIB},
    {"limits", "mapped_files_per_uid", KEY_COUNT, AT(mapped_files_per_uid), 1, 65536},
    {"limits", "waits_per_uid", KEY_COUNT, AT(waits_per_uid), 1, 1048576},
    {"limits", "connects_per_uid", KEY_COUNT, AT(connects_per_uid), 1, 1048576},
    {"limits", "register_bytes", KEY_BYTES, AT(register_bytes), 4096, VIP_ARENA_BYTES},
    {"limits", "register_regions", KEY_COUNT, AT(register_regions), 1, VIP_REGION_MAX},
    {"limits", "ptags", KEY_COUNT, AT(ptags), 1, VIP_PTAG_MAX},
    {"limits", "vis", KEY_COUNT, AT(vis), 1, VIP_VI_MAX},
    {"limits", "cqs", KEY_COUNT, AT(cqs), 1, VIP_CQ_MAX},
    {"limits", "events_queued", KEY_COUNT, AT(events_queued), 16, 1048576},

    {"nic", "link", KEY_LINK, 0, 0, 0},
    {"nic", "address", KEY_ADDRESS, NIC(address), 0, 0},
    {"nic", "port", KEY_COUNT, NIC(port), 1, 65535},
    {"nic", "mtu", KEY_MTU, NIC(mtu), VIP_PACKET_BYTES_MIN + 28, 65536},
    {"nic", "buffer", KEY_BYTES, NIC(buffer_bytes), 65536, GIB},
    {"nic", "gso", KEY_BOOL, NIC(gso), 0, 0},
    {"nic", "gro", KEY_BOOL, NIC(gro), 0, 0},
    {"nic", "aliases", KEY_ALIASES, 0, 0, 0},
    {"nic", "faults", KEY_FAULTS, 0, 0, 0},
    {"nic", "interface", KEY_INTERFACE, 0, 0, 0},
    {"nic", "ethertype", KEY_ETHERTYPE, NIC(ethertype), 0x0600, 0xffff},
    {"nic", "announce", KEY_ANNOUNCE, 0, 0, 0},
    {"nic", "vlan", KEY_COUNT, NIC(vlan), 1, 4094},
};

#define KEY_COUNT_ALL (sizeof(keys) / sizeof(keys[0]))

void vipd_config_each_key(void (*visit)(void *ctx, const char *section, const char *key), void *ctx)
{
    for (size_t i = 0; i < KEY_COUNT_ALL; i++)
        visit(ctx, keys[i].section, keys[i].name);
}

/* ---- defaults ---------------------------------------------------------------------------- */

static void nic_default(struct vipd_nic_config *nic, const char *name)
{
    memset(nic, 0, sizeof(*nic));
    snprintf(nic->name, sizeof(nic->name), "%s", name);
    nic->port = VIPD_PORT_DEFAULT;
    nic->buffer_bytes = 8u << 20; /* a few full windows; what the kernel refuses is logged */
    nic->gso = true;
    nic->gro = true;
    nic->ethertype = VIPD_ETHERTYPE_DEFAULT;
}

struct vipd_config *vipd_config_default(void)
{
    struct vipd_config *config = calloc(1, sizeof(*config));

    if (!config)
        return NULL;
    config->socket_mode = 0666;
    config->log_level = VIPD_LOG_INFO;
    config->wait = VIPD_WAIT_ADAPTIVE;
    config->spin_ns = 50 * US;
    config->keepalive_ns = SEC;
    config->peer_dead_ns = 4 * SEC;
    config->accept_timeout_ns = 5 * SEC;
    config->engine = ENG_CONFIG_DEFAULT;
    config->sessions_per_uid = 64;
    config->connections_per_uid = 256;
    config->vis_per_uid = 16384;
    config->cqs_per_uid = 4096;
    config->regions_per_uid = 262144;
    config->register_bytes_per_uid = 256 * GIB;
    config->mapped_bytes_per_uid = 4096 * GIB;
    config->mapped_files_per_uid = 16384;
    config->waits_per_uid = 4096;
    config->connects_per_uid = 8192;
    config->register_bytes = 64 * GIB;
    config->register_regions = VIP_REGION_MAX;
    config->ptags = VIP_PTAG_MAX;
    config->vis = VIP_VI_MAX;
    config->cqs = VIP_CQ_MAX;
    config->events_queued = 8192;
    config->nic_count = 1;
    nic_default(&config->nics[0], "vip0");
    return config;
}

void vipd_config_free(struct vipd_config *config)
{
    if (!config)
        return;
    for (unsigned i = 0; i < config->name_count; i++)
        free(config->names[i].name);
    free(config->names);
    free(config->path);
    free(config);
}

/* ---- values ------------------------------------------------------------------------------ */

/* The value being set, for the error text. */
struct value {
    const struct config_entry *at;
    const char *text;
    struct config_errors *errors;
};

static void bad_value(const struct value *value, const char *want)
{
    config_error(value->errors, value->at->line, "%s = %s: %s", value->at->key, value->text, want);
}

static void bad_range(const struct value *value, const struct key *key)
{
    char min[32], max[32], want[128];

    switch (key->type) {
    case KEY_DURATION:
        vipd_format_duration(key->min, min, sizeof(min));
        vipd_format_duration(key->max, max, sizeof(max));
        break;
    case KEY_BYTES:
    case KEY_BYTES32:
        vipd_format_bytes(key->min, min, sizeof(min));
        vipd_format_bytes(key->max, max, sizeof(max));
        break;
    case KEY_MODE:
        snprintf(min, sizeof(min), "0%llo", (unsigned long long)key->min);
        snprintf(max, sizeof(max), "0%llo", (unsigned long long)key->max);
        break;
    default:
        snprintf(min, sizeof(min), "%llu", (unsigned long long)key->min);
        snprintf(max, sizeof(max), "%llu", (unsigned long long)key->max);
        break;
    }
    snprintf(want, sizeof(want), "must be from %s to %s", min, max);
    bad_value(value, want);
}

static bool set_number(const struct value *value, const struct key *key, uint64_t *ret)
{
    const char *want = "want a number";
    int r;

    switch (key->type) {
    case KEY_DURATION:
        r = vipd_parse_duration(value->text, ret);
        want = "want a time with unit, such as 50us, 1.5ms or 4s";
        break;
    case KEY_BYTES:
    case KEY_BYTES32:
        r = vipd_parse_bytes(value->text, ret);
        want = "want a size in bytes, such as 4096, 64K, 8M or 1G";
        break;
    case KEY_MODE:
        r = vipd_parse_mode(value->text, ret);
        want = "want a file mode in octal, such as 0660";
        break;
    case KEY_MTU:
        if (strcmp(value->text, "auto") == 0) {
            *ret = 0;
            return true;
        }
        r = vipd_parse_count(value->text, ret);
        want = "want a number of bytes or 'auto'";
        break;
    default:
        r = vipd_parse_count(value->text, ret);
        break;
    }
    if (r == -EINVAL) {
        bad_value(value, want);
        return false;
    }
    if (r < 0 || *ret < key->min || *ret > key->max) {
        bad_range(value, key);
        return false;
    }
    return true;
}

static void set_congestion(const struct value *value, uint32_t *ret)
{
    if (strcmp(value->text, "delay") == 0)
        *ret = ENG_CONGESTION_DELAY;
    else if (strcmp(value->text, "cubic") == 0)
        *ret = ENG_CONGESTION_CUBIC;
    else if (strcmp(value->text, "fixed") == 0)
        *ret = ENG_CONGESTION_FIXED;
    else
        bad_value(value, "want delay, cubic or fixed");
}

static void set_wait(const struct value *value, enum vipd_wait *ret)
{
    if (strcmp(value->text, "adaptive") == 0)
        *ret = VIPD_WAIT_ADAPTIVE;
    else if (strcmp(value->text, "spin") == 0)
        *ret = VIPD_WAIT_SPIN;
    else if (strcmp(value->text, "block") == 0)
        *ret = VIPD_WAIT_BLOCK;
    else
        bad_value(value, "want adaptive, spin or block");
}

/* A list with commas; the next word starts at *text. Empty parts are skipped, "" is the empty
 * word. Returns the word, or NULL at the end. */
static char *next_word(char **text)
{
    char *word, *end;

    *text += strspn(*text, ", \t");
    if (**text == '\0')
        return NULL;
    word = *text;
    end = word + strcspn(word, ", \t");
    *text = *end == '\0' ? end : end + 1;
    *end = '\0';
    if (strcmp(word, "\"\"") == 0)
        word[0] = '\0';
    return word;
}

static void set_aliases(const struct value *value, struct vipd_nic_config *nic)
{
    char *copy = strdup(value->text), *rest = copy, *word;

    nic->aliases_given = true;
    while (copy && (word = next_word(&rest)) != NULL) {
        if (strlen(word) >= VIP_NIC_NAME_BYTES) {
            bad_value(value, "a device name has at most 63 characters");
            break;
        }
        if (nic->alias_count == VIPD_ALIASES_MAX) {
            bad_value(value, "at most 32 aliases");
            break;
        }
        snprintf(nic->aliases[nic->alias_count++], VIP_NIC_NAME_BYTES, "%s", word);
    }
    free(copy);
}

static void set_faults(const struct value *value, struct vipd_nic_config *nic)
{
    char err[160];

    nic->faults_text[0] = '\0';
    if (value->text[0] == '\0' || strcmp(value->text, "none") == 0)
        return;
    if (strlen(value->text) >= sizeof(nic->faults_text)) {
        bad_value(value, "too long");
        return;
    }
    if (link_faults_parse(value->text, &nic->faults, err, sizeof(err)) < 0) {
        bad_value(value, err);
        return;
    }
    snprintf(nic->faults_text, sizeof(nic->faults_text), "%s", value->text);
}

static void set_key(const struct value *value, const struct key *key, void *base,
                    struct vipd_nic_config *nic)
{
    void *to = (char *)base + key->offset;
    uint64_t number;

    switch (key->type) {
    case KEY_DURATION:
    case KEY_BYTES:
    case KEY_COUNT:
    case KEY_MODE:
    case KEY_MTU:
        if (set_number(value, key, &number))
            *(uint64_t *)to = number;
        break;
    case KEY_BYTES32:
    case KEY_COUNT32:
        if (set_number(value, key, &number))
            *(uint32_t *)to = (uint32_t)number;
        break;
    case KEY_BOOL:
        if (vipd_parse_bool(value->text, to) < 0)
            bad_value(value, "want yes or no");
        break;
    case KEY_WAIT:
        set_wait(value, to);
        break;
    case KEY_CONGESTION:
        set_congestion(value, to);
        break;
    case KEY_LEVEL:
        if (!vipd_log_level_parse(value->text, to))
            bad_value(value, "want error, warning, info or debug");
        break;
    case KEY_LINK:
        if (config_link_parse(value->text, &nic->link) < 0)
            bad_value(value, "want udp, ether or loop");
        break;
    case KEY_INTERFACE:
        if (config_interface_parse(value->text, nic) < 0)
            bad_value(value, "want the name of an interface, such as eth1");
        break;
    case KEY_ETHERTYPE:
        if (config_ethertype_parse(value->text, to) < 0)
            bad_value(value, "want four hexadecimal digits, such as 0x88b5, from 0x0600 on and "
                             "not of a protocol that every host speaks");
        break;
    case KEY_ANNOUNCE:
        if (config_announce_parse(value->text, nic) < 0)
            bad_value(value, "want a name of 1 to 63 letters, digits, '.', '-' or '_', 'auto' or "
                             "'none'");
        break;
    case KEY_ADDRESS:
        if (config_own_address_parse(value->text, nic) < 0)
            bad_value(value, "want an IP address of this host, such as 127.0.0.1, 2001:db8::1 or "
                             "fe80::1%eth0, or 'auto'");
        break;
    case KEY_ALIASES:
        set_aliases(value, nic);
        break;
    case KEY_FAULTS:
        set_faults(value, nic);
        break;
    }
}

/* ---- sections ---------------------------------------------------------------------------- */

static bool section_known(const char *section)
{
    if (strcmp(section, "names") == 0)
        return true;
    for (size_t i = 0; i < KEY_COUNT_ALL; i++) {
        if (strcmp(keys[i].section, section) == 0 && strcmp(section, "nic") != 0)
            return true;
    }
    return false;
}

static const struct key *key_find(const char *section, const char *name)
{
    for (size_t i = 0; i < KEY_COUNT_ALL; i++) {
        if (strcmp(keys[i].section, section) == 0 && strcmp(keys[i].name, name) == 0)
            return &keys[i];
    }
    return NULL;
}

static void add_nic(struct vipd_config *config, const struct config_entry *at,
                    struct config_errors *errors)
{
    const char *name = at->section + 4;
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

    if (len == 0 || name[len] != '\0' || len >= VIP_NIC_NAME_BYTES) {
        config_error(errors, at->line,
                     "bad NIC name '%s': 1 to 63 letters, digits, '.', '_' or '-'", name);
        return;
    }
    if (config->nic_count == VIPD_NICS_MAX) {
        config_error(errors, at->line, "more than %d NICs", VIPD_NICS_MAX);
        return;
    }
    nic_default(&config->nics[config->nic_count], name);
    config->nics[config->nic_count++].line = at->line;
}

static struct vipd_nic_config *nic_find(struct vipd_config *config, const char *name)
{
    for (unsigned i = 0; i < config->nic_count; i++) {
        if (strcmp(config->nics[i].name, name) == 0)
            return &config->nics[i];
    }
    return NULL;
}

/* host = address, and more of them behind commas. */
static void add_name(struct vipd_config *config, const struct value *value)
{
    static const char want[] = "want an address, such as 192.0.2.7, 127.0.0.2:4794, 2001:db8::7, "
                               "[fe80::7]:4794 or the MAC "
                               "address of a card";
    struct vipd_name *name = &config->names[config->name_count];
    char *copy = strdup(value->text), *rest = copy, *word;

    name->addr_count = 0;
    name->name = strdup(value->at->key);
    if (!copy || !name->name) {
        config_error(value->errors, value->at->line, "out of memory");
        goto refuse;
    }
    while ((word = next_word(&rest)) != NULL) {
        if (name->addr_count == VIPD_NAME_ADDR_MAX) {
            bad_value(value, "at most 8 addresses");
            goto refuse;
        }
        if (config_address_parse(config, word, name) < 0) {
            bad_value(value, want);
            goto refuse;
        }
    }
    if (name->addr_count == 0) {
        bad_value(value, want);
        goto refuse;
    }
    config->name_count++;
    free(copy);
    return;
refuse:
    free(copy);
    free(name->name);
}

static void apply_entry(struct vipd_config *config, const struct config_entry *entry,
                        const char *text, struct config_errors *errors)
{
    struct value value = {.at = entry, .text = text, .errors = errors};
    struct vipd_nic_config *nic = NULL;
    const char *section = entry->section;
    const struct key *key;
    void *base = config;

    if (strcmp(section, "names") == 0) {
        if (config->name_count == VIPD_NAMES_MAX)
            config_error(errors, entry->line, "more than %d names", VIPD_NAMES_MAX);
        else
            add_name(config, &value);
        return;
    }
    if (strncmp(section, "nic:", 4) == 0) {
        nic = nic_find(config, section + 4);
        if (!nic)
            return; /* its section was refused */
        section = "nic";
        base = nic;
    } else if (!section_known(section)) {
        return; /* likewise */
    }
    key = key_find(section, entry->key);
    if (!key)
        config_error(errors, entry->line, "unknown key '%s' in [%s]", entry->key, entry->section);
    else
        set_key(&value, key, base, nic);
}

/* First the sections, so that keys find their NIC. */
static void apply_sections(struct vipd_config *config, const struct config_scan *scan,
                           struct config_errors *errors)
{
    config->nic_count = 0;
    for (size_t i = 0; i < scan->count; i++) {
        const struct config_entry *entry = &scan->entries[i];

        if (entry->key[0] != '\0')
            continue;
        if (strncmp(entry->section, "nic:", 4) == 0)
            add_nic(config, entry, errors);
        else if (!section_known(entry->section))
            config_error(errors, entry->line,
                         "unknown section [%s]; there are [daemon], [engine], [reliability], "
                         "[limits], [nic:NAME] and [names]",
                         entry->section);
    }
    if (config->nic_count == 0) {
        nic_default(&config->nics[0], "vip0");
        config->nic_count = 1;
    }
}

/* ---- what belongs together --------------------------------------------------------------- */

/* Line of a key for an error about two keys; the section's or 0 if only defaults disagree. */
static unsigned line_of(const struct config_scan *scan, const char *section, const char *a,
                        const char *b)
{
    unsigned line = 0;

    for (size_t i = 0; i < scan->count; i++) {
        const struct config_entry *e = &scan->entries[i];

        if (strcmp(e->section, section) == 0 && (strcmp(e->key, a) == 0 || strcmp(e->key, b) == 0))
            line = e->line; /* the later one of the two */
    }
    return line;
}

/* `small` must not exceed `large`: two keys of [reliability]. */
static void check_order(const struct config_scan *scan, struct config_errors *errors,
                        const char *small, uint64_t small_ns, const char *large, uint64_t large_ns)
{
    char a[32], b[32];

    if (small_ns <= large_ns)
        return;
    vipd_format_duration(small_ns, a, sizeof(a));
    vipd_format_duration(large_ns, b, sizeof(b));
    config_error(errors, line_of(scan, "reliability", small, large),
                 "%s (%s) must not be larger than %s (%s)", small, a, large, b);
}

static void check_together(const struct vipd_config *config, const struct config_scan *scan,
                           struct config_errors *errors)
{
    const struct eng_config *e = &config->engine;

    check_order(scan, errors, "rto_min", e->rto_min_ns, "rto_max", e->rto_max_ns);
    check_order(scan, errors, "rto_min", e->rto_min_ns, "rto_initial", e->rto_initial_ns);
    check_order(scan, errors, "rto_initial", e->rto_initial_ns, "rto_max", e->rto_max_ns);
    check_order(scan, errors, "ack_delay", e->ack_delay_ns, "rto_min", e->rto_min_ns);
    check_order(scan, errors, "keepalive", config->keepalive_ns, "peer_dead", config->peer_dead_ns);
    config_nics_check(config, scan, errors);
}

/* ---- the file ---------------------------------------------------------------------------- */

/* Values come from libeconf, places from our own scan. */
static void apply_values(struct vipd_config *config, const struct config_scan *scan,
                         struct config_errors *errors)
{
    econf_file *file = NULL;
    econf_err err = econf_readFile(&file, errors->file, "=", "#");

    if (err != ECONF_SUCCESS) {
        config_error(errors, 0, "libeconf cannot read it: %s", econf_errString(err));
        return;
    }
    /* Twice: [names] in the second round, because it needs the port of a NIC. */
    for (size_t i = 0; i < 2 * scan->count; i++) {
        const struct config_entry *entry = &scan->entries[i % scan->count];
        bool names = strcmp(entry->section, "names") == 0;
        char *text = NULL;

        if (entry->key[0] == '\0' || names != (i >= scan->count))
            continue;
        err = econf_getStringValue(file, entry->section, entry->key, &text);
        if (err != ECONF_SUCCESS && err != ECONF_KEY_HAS_NULL_VALUE)
            config_error(errors, entry->line, "%s: libeconf cannot read it: %s", entry->key,
                         econf_errString(err));
        else
            apply_entry(config, entry, text ? text : "", errors);
        free(text);
    }
    econf_freeFile(file);
}

struct vipd_config *vipd_config_load(const char *path, char *errors_text, size_t errors_bytes)
{
    struct config_errors errors = {.file = path, .text = errors_text, .bytes = errors_bytes};
    struct vipd_config *config = vipd_config_default();
    struct config_scan scan = {0};

    VIP_ASSERT(errors_bytes > 0);
    errors_text[0] = '\0';
    if (!config || config_scan(&scan, &errors) == -ENOMEM)
        goto no_memory;
    /* A file that libeconf would misread gets no further than its lines. */
    if (errors.count > 0)
        goto refuse;
    config->path = strdup(path);
    config->names = calloc(scan.count + 1, sizeof(*config->names));
    if (!config->path || !config->names)
        goto no_memory;
    apply_sections(config, &scan, &errors);
    apply_values(config, &scan, &errors);
    config_nics_settle(config);
    check_together(config, &scan, &errors);
    if (errors.count > 0)
        goto refuse;
    config_scan_free(&scan);
    return config;

no_memory:
    config_error(&errors, 0, "out of memory");
refuse:
    config_scan_free(&scan);
    vipd_config_free(config);
    return NULL;
}
