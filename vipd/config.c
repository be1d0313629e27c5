/*
 * The configuration: its files in their order, sections, and rules between keys. The keys are in
 * config_keys.c, their values in config_value.c.
 */
#include "vipd/config.h"

#include <errno.h>
#include <libeconf.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "vipd/config_files.h"
#include "vipd/config_keys.h"
#include "vipd/config_listen.h"
#include "vipd/config_nic.h"
#include "vipd/config_scan.h"
#include "vipd/config_value.h"
#include "vipd/units.h"

/* ---- defaults ---------------------------------------------------------------------------- */

/* Set the defaults of the table: if nic is given, of [nic:NAME], else of all other sections. */
static void set_standards(void *base, struct vipd_nic_config *nic)
{
    static char text[256]; /* text of errors, which only a wrong table causes */
    struct config_errors errors = {.file = "(defaults)", .text = text, .bytes = sizeof(text)};

    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        struct config_entry at = {0};
        struct config_value value = {.at = &at, .text = key->standard, .errors = &errors};

        /* Skip aliases (a missing list differs from an empty one) and interface (no default). */
        if ((strcmp(key->section, "nic") == 0) != (nic != NULL) || key->type == CONFIG_ALIASES ||
            key->type == CONFIG_INTERFACE)
            continue;
        snprintf(at.key, sizeof(at.key), "%s", key->name);
        config_value_set(&value, key, base, nic);
    }
    VIP_ASSERT(errors.count == 0);
}

static void nic_default(struct vipd_nic_config *nic, const char *name)
{
    memset(nic, 0, sizeof(*nic));
    snprintf(nic->name, sizeof(nic->name), "%s", name);
    set_standards(nic, nic);
}

struct vipd_config *vipd_config_default(void)
{
    struct vipd_config *config = calloc(1, sizeof(*config));

    if (!config)
        return NULL;
    config->engine = ENG_CONFIG_DEFAULT; /* also sets the members that no key sets */
    set_standards(config, NULL);
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
    for (unsigned i = 0; i < config->file_count; i++)
        free(config->files[i]);
    free(config->path);
    free(config);
}

/* ---- sections ---------------------------------------------------------------------------- */

static struct vipd_nic_config *nic_find(struct vipd_config *config, const char *name)
{
    for (unsigned i = 0; i < config->nic_count; i++) {
        if (strcmp(config->nics[i].name, name) == 0)
            return &config->nics[i];
    }
    return NULL;
}

static void add_nic(struct vipd_config *config, const struct config_entry *at, unsigned file,
                    struct config_errors *errors)
{
    struct vipd_nic_config *nic;
    const char *name = at->section + 4;
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

    if (len == 0 || name[len] != '\0' || len >= VIP_NIC_NAME_BYTES) {
        config_error(errors, at->line,
                     "bad NIC name '%s': 1 to 63 letters, digits, '.', '_' or '-'", name);
        return;
    }
    if (nic_find(config, name))
        return; /* an earlier file has this NIC, and this file adds keys to it */
    if (config->nic_count == VIPD_NICS_MAX) {
        config_error(errors, at->line, "more than %d NICs", VIPD_NICS_MAX);
        return;
    }
    nic_default(&config->nics[config->nic_count], name);
    nic = &config->nics[config->nic_count++];
    nic->line = at->line;
    nic->file = file;
}

static struct vipd_name *name_find(struct vipd_config *config, const char *name)
{
    for (unsigned i = 0; i < config->name_count; i++) {
        if (strcmp(config->names[i].name, name) == 0)
            return &config->names[i];
    }
    return NULL;
}

/* Add a line of [names]: host = address, or several addresses separated by commas. */
static void add_name(struct vipd_config *config, const struct config_value *value, unsigned file)
{
    static const char want[] = "want an address, such as 192.0.2.7, 127.0.0.2:4794, 2001:db8::7, "
                               "[fe80::7]:4794 or the MAC "
                               "address of a card";
    struct vipd_name *name = name_find(config, value->at->key);
    bool fresh = !name;
    char *copy = strdup(value->text), *rest = copy, *word;

    if (fresh)
        name = &config->names[config->name_count];
    name->addr_count = 0;
    name->at = (struct vipd_origin){.file = file, .line = value->at->line};
    if (fresh)
        name->name = strdup(value->at->key);
    if (!copy || !name->name) {
        config_error(value->errors, value->at->line, "out of memory");
        goto refuse;
    }
    while ((word = config_next_word(&rest)) != NULL) {
        if (name->addr_count == VIPD_NAME_ADDR_MAX) {
            config_value_bad(value, "at most 8 addresses");
            goto refuse;
        }
        if (config_address_parse(config, word, name) < 0) {
            config_value_bad(value, want);
            goto refuse;
        }
    }
    if (name->addr_count == 0) {
        config_value_bad(value, want);
        goto refuse;
    }
    config->name_count += fresh;
    free(copy);
    return;
refuse:
    free(copy);
    if (fresh)
        free(name->name);
}

/* Set a key and remember which line of which file set it. */
static void set_key(struct vipd_config *config, const struct config_value *value, unsigned file,
                    const struct config_key *key, struct vipd_nic_config *nic)
{
    struct vipd_origin *origin = nic ? nic->origin : config->origin;

    origin[key - config_keys] = (struct vipd_origin){.file = file, .line = value->at->line};
    config_value_set(value, key, nic ? (void *)nic : config, nic);
}

static void unknown_section(struct config_errors *errors, const struct config_entry *entry)
{
    char list[256] = "";
    size_t len = 0;

    for (unsigned i = 0; i < config_section_count && len < sizeof(list); i++)
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s[%s]",
                                i == 0                          ? ""
                                : i + 1 == config_section_count ? " and "
                                                                : ", ",
                                config_sections[i].name);
    config_error(errors, entry->line, "unknown section [%s]; there are %s", entry->section, list);
}

/* Report an unknown key. section: the section's name in the table, which is "nic" for a NIC. */
static void unknown_key(struct config_errors *errors, const struct config_entry *entry,
                        const char *section)
{
    const struct config_key *like = config_key_like(section, entry->key);

    if (!like)
        config_error(errors, entry->line,
                     "unknown key '%s' in [%s]; vipd --print-config lists them", entry->key,
                     entry->section);
    else if (strcmp(like->section, section) == 0)
        config_error(errors, entry->line, "unknown key '%s' in [%s]: did you mean '%s'?",
                     entry->key, entry->section, like->name);
    else
        config_error(errors, entry->line, "unknown key '%s' in [%s]: it belongs into [%s%s]",
                     entry->key, entry->section, like->section,
                     strcmp(like->section, "nic") == 0 ? ":NAME" : "");
}

static void apply_entry(struct vipd_config *config, const struct config_entry *entry, unsigned file,
                        const char *text, struct config_errors *errors)
{
    struct config_value value = {.at = entry, .text = text, .errors = errors};
    struct vipd_nic_config *nic = NULL;
    const char *section = entry->section;
    const struct config_key *key;

    if (strcmp(section, "names") == 0) {
        if (config->name_count == VIPD_NAMES_MAX && !name_find(config, entry->key))
            config_error(errors, entry->line, "more than %d names", VIPD_NAMES_MAX);
        else
            add_name(config, &value, file);
        return;
    }
    if (strcmp(section, "listen") == 0) {
        config_listen_add(config, &value, file);
        return;
    }
    if (strncmp(section, "nic:", 4) == 0) {
        nic = nic_find(config, section + 4);
        if (!nic)
            return; /* add_nic has refused the section */
        section = "nic";
    } else if (!config_section_known(section)) {
        return; /* unknown_section has reported it */
    }
    key = config_key_find(section, entry->key);
    if (!key)
        unknown_key(errors, entry, section);
    else
        set_key(config, &value, file, key, nic);
}

/* Apply the sections of a file. The caller applies keys later, because a key must find its NIC. */
static void apply_sections(struct vipd_config *config, const struct config_scan *scan,
                           unsigned file, struct config_errors *errors)
{
    for (size_t i = 0; i < scan->count; i++) {
        const struct config_entry *entry = &scan->entries[i];

        if (entry->key[0] != '\0')
            continue;
        if (strncmp(entry->section, "nic:", 4) == 0)
            add_nic(config, entry, file, errors);
        else if (!config_section_known(entry->section))
            unknown_section(errors, entry);
    }
}

/* ---- rules between keys ------------------------------------------------------------------ */

/* Find the later of two keys of [reliability]: its file and line; zeroes: both are defaults. */
static struct vipd_origin later_of(const struct vipd_config *config, const char *a, const char *b)
{
    struct vipd_origin first = config->origin[config_key_find("reliability", a) - config_keys];
    struct vipd_origin second = config->origin[config_key_find("reliability", b) - config_keys];

    if (first.file != second.file)
        return first.file > second.file ? first : second;
    return first.line > second.line ? first : second;
}

/* Report two keys of [reliability] if `small` is larger than `large`. strict: also if they are
 * equal. */
static void check_order(const struct vipd_config *config, struct config_errors *errors,
                        const char *small, uint64_t small_ns, const char *large, uint64_t large_ns,
                        bool strict)
{
    struct vipd_origin at = later_of(config, small, large);
    char a[32], b[32];

    if (small_ns < large_ns || (small_ns == large_ns && !strict))
        return;
    vipd_format_duration(small_ns, a, sizeof(a));
    vipd_format_duration(large_ns, b, sizeof(b));
    errors->file = vipd_config_file(config, at.file);
    config_error(errors, at.line, "%s (%s) must %s %s (%s)", small, a,
                 strict ? "be less than" : "not be larger than", large, b);
}

static void check_together(const struct vipd_config *config, struct config_errors *errors)
{
    const struct eng_config *e = &config->engine;

    check_order(config, errors, "rto_min", e->rto_min_ns, "rto_max", e->rto_max_ns, false);
    check_order(config, errors, "rto_min", e->rto_min_ns, "rto_initial", e->rto_initial_ns, false);
    check_order(config, errors, "rto_initial", e->rto_initial_ns, "rto_max", e->rto_max_ns, false);
    check_order(config, errors, "ack_delay", e->ack_delay_ns, "rto_min", e->rto_min_ns, false);
    check_order(config, errors, "keepalive", config->keepalive_ns, "peer_dead",
                config->peer_dead_ns, true);
    config_nics_check(config, errors);
}

/* ---- files ------------------------------------------------------------------------------- */

/* One file of the configuration; exists only while vipd reads the files. */
struct layer {
    struct config_scan scan;
    econf_file *econf;
};

static int read_layer(struct layer *layer, struct config_errors *errors)
{
    unsigned before = errors->count;
    econf_err err;
    int r = config_scan(&layer->scan, errors);

    /* If a line of the file has an error, libeconf would misread the file. */
    if (r < 0 || errors->count > before)
        return r;
    err = econf_readFile(&layer->econf, errors->file, "=", "#");
    if (err != ECONF_SUCCESS)
        config_error(errors, 0, "libeconf cannot read it: %s", econf_errString(err));
    return 0;
}

/* Apply the keys of a file: values come from libeconf, line numbers from our own scan. If `names`,
 * apply [names] only, otherwise all other sections. */
static void apply_values(struct vipd_config *config, const struct layer *layer, unsigned file,
                         bool names, struct config_errors *errors)
{
    for (size_t i = 0; i < layer->scan.count; i++) {
        const struct config_entry *entry = &layer->scan.entries[i];
        char *text = NULL;
        econf_err err;

        if (entry->key[0] == '\0' || names != (strcmp(entry->section, "names") == 0))
            continue;
        err = econf_getStringValue(layer->econf, entry->section, entry->key, &text);
        if (err != ECONF_SUCCESS && err != ECONF_KEY_HAS_NULL_VALUE)
            config_error(errors, entry->line, "%s: libeconf cannot read it: %s", entry->key,
                         econf_errString(err));
        else
            apply_entry(config, entry, file, text ? text : "", errors);
        free(text);
    }
}

/* Apply the scanned files: first sections, then keys, then names, which need the port of a NIC. */
static void apply_layers(struct vipd_config *config, const struct layer *layers,
                         struct config_errors *errors)
{
    config->nic_count = 0;
    for (unsigned f = 0; f < config->file_count; f++) {
        errors->file = config->files[f];
        apply_sections(config, &layers[f].scan, f + 1, errors);
    }
    if (config->nic_count == 0) {
        nic_default(&config->nics[0], "vip0");
        config->nic_count = 1;
    }
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned f = 0; f < config->file_count; f++) {
            errors->file = config->files[f];
            apply_values(config, &layers[f], f + 1, round == 1, errors);
        }
        if (round == 0)
            config_nics_settle(config);
    }
    check_together(config, errors);
}

/* Scan every file, then apply all of them. Outcomes: 0 (look at errors->count); -ENOMEM. */
static int read_files(struct vipd_config *config, struct config_errors *errors)
{
    struct layer *layers = calloc(config->file_count + 1, sizeof(*layers));
    size_t entries = 0;
    int r = layers ? 0 : -ENOMEM;

    for (unsigned f = 0; r == 0 && f < config->file_count; f++) {
        errors->file = config->files[f];
        if (read_layer(&layers[f], errors) == -ENOMEM)
            r = -ENOMEM;
        entries += layers[f].scan.count;
    }
    if (r == 0 && errors->count == 0) {
        config->names = calloc(entries + 1, sizeof(*config->names));
        if (config->names)
            apply_layers(config, layers, errors);
        else
            r = -ENOMEM;
    }
    for (unsigned f = 0; layers && f < config->file_count; f++) {
        config_scan_free(&layers[f].scan);
        if (layers[f].econf)
            econf_freeFile(layers[f].econf);
    }
    free(layers);
    return r;
}

struct vipd_config *vipd_config_read(const struct vipd_config_source *source, char *errors_text,
                                     size_t errors_bytes)
{
    struct config_errors errors = {
        .file = source->file ? source->file : "vipd", .text = errors_text, .bytes = errors_bytes};
    struct vipd_config *config = vipd_config_default();
    int r;

    VIP_ASSERT(errors_bytes > 0);
    errors_text[0] = '\0';
    r = config ? config_files_find(source, config, &errors) : -ENOMEM;
    if (r == 0 && errors.count == 0)
        r = read_files(config, &errors);
    if (r == 0 && errors.count == 0)
        return config;
    if (r < 0)
        config_error(&errors, 0, "%s", r == -ENOMEM ? "out of memory" : strerror(-r));
    vipd_config_free(config);
    return NULL;
}

struct vipd_config *vipd_config_load(const char *path, char *errors, size_t errors_bytes)
{
    struct vipd_config_source source = {.file = path};

    return vipd_config_read(&source, errors, errors_bytes);
}
