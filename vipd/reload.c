/* Reading the configuration again; see reload.h. */
#include "vipd/reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "vipd/config_keys.h"
#include "vipd/config_print.h"
#include "vipd/host.h"
#include "vipd/nic/nic.h"
#include "vipd/config_apply.h"

#define VALUE_BYTES 2400 /* as in config_print.c */

/* A comparison of two configurations. */
struct diff {
    vipd_change_fn *visit;
    void *ctx;
    int count;
};

static bool is_nic(const struct config_key *key)
{
    return strcmp(key->section, "nic") == 0;
}

static void tell(struct diff *diff, const char *section, const char *key, const char *from,
                 const char *to, const char *reload)
{
    struct vipd_change change = {section, key, from, to, reload};

    diff->count++;
    diff->visit(diff->ctx, &change);
}

/* Compare one key. key->offset is an offset into the structs `from` and `to`. */
static void diff_key(struct diff *diff, const struct config_key *key, const void *from,
                     const void *to, const char *section)
{
    char old[VALUE_BYTES], new[VALUE_BYTES];

    config_key_format(key, from, old, sizeof(old));
    config_key_format(key, to, new, sizeof(new));
    if (strcmp(old, new) != 0)
        tell(diff, section, key->name, old, new, config_class_name(key->class));
}

static const struct vipd_nic_config *nic_named(const struct vipd_config *config, const char *name)
{
    for (unsigned i = 0; i < config->nic_count; i++)
        if (strcmp(config->nics[i].name, name) == 0)
            return &config->nics[i];
    return NULL;
}

static void diff_nics(struct diff *diff, const struct vipd_config *from,
                      const struct vipd_config *to)
{
    char section[VIP_NIC_NAME_BYTES + 8];

    for (unsigned n = 0; n < from->nic_count; n++) {
        const struct vipd_nic_config *nic = &from->nics[n], *other = nic_named(to, nic->name);

        snprintf(section, sizeof(section), "nic:%s", nic->name);
        if (!other) {
            tell(diff, section, "", "there", "gone", "restart");
            continue;
        }
        for (unsigned k = 0; k < config_key_count; k++)
            if (is_nic(&config_keys[k]))
                diff_key(diff, &config_keys[k], nic, other, section);
        /* A missing list and an empty list differ, although their texts are the same. */
        if (nic->aliases_given != other->aliases_given && !nic->alias_count && !other->alias_count)
            tell(diff, section, "aliases", nic->aliases_given ? "a list" : "the historical names",
                 other->aliases_given ? "a list" : "the historical names", "live");
    }
    for (unsigned n = 0; n < to->nic_count; n++) {
        snprintf(section, sizeof(section), "nic:%s", to->nics[n].name);
        if (!nic_named(from, to->nics[n].name))
            tell(diff, section, "", "not there", "new", "restart");
    }
}

static const struct vipd_name *host_named(const struct vipd_config *config, const char *name)
{
    for (unsigned i = 0; i < config->name_count; i++)
        if (strcmp(config->names[i].name, name) == 0)
            return &config->names[i];
    return NULL;
}

static void diff_names(struct diff *diff, const struct vipd_config *from,
                       const struct vipd_config *to)
{
    char old[VALUE_BYTES], new[VALUE_BYTES];

    for (unsigned i = 0; i < from->name_count; i++) {
        vipd_config_name_text(&from->names[i], old, sizeof(old));
        vipd_config_name_text(host_named(to, from->names[i].name), new, sizeof(new));
        if (strcmp(old, new) != 0)
            tell(diff, "names", from->names[i].name, old, new, "live");
    }
    for (unsigned i = 0; i < to->name_count; i++) {
        vipd_config_name_text(&to->names[i], new, sizeof(new));
        if (!host_named(from, to->names[i].name))
            tell(diff, "names", to->names[i].name, "", new, "live");
    }
}

static const char *listen_user(const struct vipd_config *config, const char *pattern)
{
    for (unsigned i = 0; i < config->listen_count; i++)
        if (strcmp(config->listens[i].pattern, pattern) == 0)
            return config->listens[i].user;
    return "";
}

static void diff_listens(struct diff *diff, const struct vipd_config *from,
                         const struct vipd_config *to)
{
    for (unsigned i = 0; i < from->listen_count; i++) {
        const char *pattern = from->listens[i].pattern, *user = listen_user(to, pattern);

        if (strcmp(from->listens[i].user, user) != 0)
            tell(diff, "listen", pattern, from->listens[i].user, user, "live");
    }
    for (unsigned i = 0; i < to->listen_count; i++)
        if (!listen_user(from, to->listens[i].pattern)[0])
            tell(diff, "listen", to->listens[i].pattern, "", to->listens[i].user, "live");
}

static void diff_all(struct diff *diff, const struct vipd_config *from,
                     const struct vipd_config *to)
{
    for (unsigned k = 0; k < config_key_count; k++)
        if (!is_nic(&config_keys[k]))
            diff_key(diff, &config_keys[k], from, to, config_keys[k].section);
    diff_nics(diff, from, to);
    diff_names(diff, from, to);
    diff_listens(diff, from, to);
}

/* ---- values that can be in force --------------------------------------------------------- */

/* Copy the old NIC, but with new values of its live keys (the aliases). `found`: the NIC as the
 * files have it now; NULL: they do not have it. */
static void keep_nic(struct vipd_nic_config *ret, const struct vipd_nic_config *old,
                     const struct vipd_nic_config *found)
{
    char a[VALUE_BYTES], b[VALUE_BYTES];

    *ret = *old;
    for (unsigned k = 0; k < config_key_count; k++) {
        ret->origin[k] = (struct vipd_origin){.file = VIPD_FILE_BEFORE};
        if (!is_nic(&config_keys[k]) || !found)
            continue;
        config_key_format(&config_keys[k], old, a, sizeof(a));
        config_key_format(&config_keys[k], found, b, sizeof(b));
        if (strcmp(a, b) == 0 || config_keys[k].class == CONFIG_LIVE)
            ret->origin[k] = found->origin[k];
    }
    if (!found)
        return;
    ret->aliases_given = found->aliases_given;
    ret->alias_count = found->alias_count;
    memcpy(ret->aliases, found->aliases, sizeof(found->aliases));
}

/*
 * Keep in `config` only changes that can take effect now. Keys of class restart, and the NICs
 * without their aliases, get the values of `old`. Outcomes: 0; -ENOMEM: nothing has changed.
 */
static int keep_restart_keys(struct vipd_config *config, const struct vipd_config *old)
{
    struct vipd_nic_config *nics = calloc(VIPD_NICS_MAX, sizeof(*nics));

    if (!nics)
        return -ENOMEM;
    for (unsigned k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];
        void *value = (char *)config + key->offset;
        const void *kept = (const char *)old + key->offset;
        size_t bytes = key->type == CONFIG_CPUS   ? CPUS_TEXT_BYTES
                       : key->type == CONFIG_USER ? VIPD_GROUP_BYTES
                                                  : sizeof(uint64_t);

        if (is_nic(key) || key->class != CONFIG_RESTART)
            continue;
        /* `bytes` fits only these types: two of them are texts, the others are numbers. */
        VIP_ASSERT(key->type == CONFIG_MODE || key->type == CONFIG_THREADS ||
                   key->type == CONFIG_LOAN || key->type == CONFIG_CPUS ||
                   key->type == CONFIG_USER);
        if (memcmp(value, kept, bytes) != 0)
            config->origin[k] = (struct vipd_origin){.file = VIPD_FILE_BEFORE};
        memcpy(value, kept, bytes);
    }
    for (unsigned n = 0; n < old->nic_count; n++)
        keep_nic(&nics[n], &old->nics[n], nic_named(config, old->nics[n].name));
    memcpy(config->nics, nics, sizeof(config->nics));
    config->nic_count = old->nic_count;
    free(nics);
    return 0;
}

/* ---- reload ------------------------------------------------------------------------------ */

/* Change from the old configuration to the new one. No part of this can fail. */
static void apply(struct vipd *vipd, struct vipd_config *config, struct vipd_pending *pending)
{
    struct vipd_config *old = vipd->reloaded;

    vipd->config = config;
    vipd->reloaded = config;
    pending_free(vipd->pending);
    vipd->pending = pending;
    for (unsigned i = 0; i < vipd->nic_count; i++)
        vipd->nics[i].config = &config->nics[i];
    vipd_settle(vipd);
    vipd->counters.reloads++;
    vipd_config_free(old);
}

int vipd_reload(struct vipd *vipd, bool dry_run, vipd_change_fn *visit, void *ctx, char *errors,
                size_t errors_bytes)
{
    struct vipd_config *config = vipd_config_read(&vipd->source, errors, errors_bytes);
    struct pending_list pending = {.tail = &pending.first};
    struct diff diff = {.visit = pending_add, .ctx = &pending};
    int r;

    if (!config) {
        vipd->counters.reloads_refused++;
        return -EINVAL;
    }
    diff_all(&diff, vipd->config, config);
    diff.count = 0;
    diff.visit = visit;
    diff.ctx = ctx;
    r = pending.failed ? -ENOMEM : 0;
    /* Visit the differences first: later steps undo some of them and free the old values. */
    if (r == 0)
        diff_all(&diff, vipd->config, config);
    if (r == 0 && !dry_run)
        r = keep_restart_keys(config, vipd->config);
    if (r == 0 && !dry_run) {
        apply(vipd, config, pending.first);
        return diff.count;
    }
    pending_free(pending.first);
    vipd_config_free(config);
    return r < 0 ? r : diff.count;
}

static void log_change(void *ctx, const struct vipd_change *change)
{
    (void)ctx;
    vipd_info("reload: [%s] %s%s%s -> %s (%s)", change->section, change->key,
              change->key[0] ? ": " : "", change->from, change->to,
              strcmp(change->reload, "live") == 0  ? "at once"
              : strcmp(change->reload, "new") == 0 ? "for NIC handles opened from now on"
                                                   : "waits for a restart of vipd");
}

void vipd_reload_logged(struct vipd *vipd)
{
    static char errors[8192];
    char *rest = errors, *line;
    int r = vipd_reload(vipd, false, log_change, NULL, errors, sizeof(errors));

    if (r >= 0) {
        vipd_info("configuration read again: %d difference%s", r, r == 1 ? "" : "s");
        return;
    }
    while (r == -EINVAL && (line = strsep(&rest, "\n")) != NULL) {
        if (line[0] != '\0')
            vipd_error("reload: %s", line);
    }
    vipd_error("configuration not changed: %s", r == -EINVAL ? "see above" : strerror(-r));
}

void vipd_reload_deinit(struct vipd *vipd)
{
    pending_free(vipd->pending);
    vipd->pending = NULL;
    vipd_config_free(vipd->reloaded);
    vipd->reloaded = NULL;
}
