/* Names of devices and hosts. */
#include "vipd/names.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "vipd/link/kinds.h"

/*
 * Names that other providers gave to their n-th device: M-VIA, Giganet on Linux, Giganet on
 * Windows, and VI-GM. The last name is the fallback of a well-known MPI, which counts from 1.
 */
static const struct {
    const char *format;
    unsigned base;
} numbered[] = {
    {"/dev/via_eth%u", 0}, {"/dev/clanvi%u", 0}, {"nic%u", 0}, {"VINIC%u", 0}, {"\\\\.\\VI%u", 1},
};

/* Names without a number. The first LOOP_NAMES mean the first NIC with link = loop ("/etc/via_lo"
 * is a mistake of an old program). The others mean the first NIC with another link. If no such NIC
 * exists, the name means the first NIC. */
static const char *const unnumbered[] = {"/dev/via_lo", "/etc/via_lo", "VINIC", ""};
#define LOOP_NAMES 2

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Does the NIC reach programs of this host only (link = loop)? */
static bool is_loop(const struct vipd_nic_config *nic)
{
    return link_kind_row(nic->link)->only_host != NULL;
}

/* Does the name unnumbered[i] mean this NIC? */
static bool unnumbered_mean(const struct vipd_config *config, unsigned nic, size_t i)
{
    int first = -1, first_loop = -1;

    for (unsigned n = config->nic_count; n-- > 0;) {
        if (is_loop(&config->nics[n]))
            first_loop = (int)n;
        else
            first = (int)n;
    }
    if (first < 0 || (i < LOOP_NAMES && first_loop >= 0))
        first = first_loop;
    return (int)nic == first;
}

/* A NIC's number n, from 0, for the names in `numbered`. NICs with link = loop do not count, and
 * have no number (-1). */
static int historical_number(const struct vipd_config *config, unsigned nic)
{
    int number = 0;

    if (is_loop(&config->nics[nic]))
        return -1;
    for (unsigned n = 0; n < nic; n++)
        number += !is_loop(&config->nics[n]);
    return number;
}

static bool historical_match(const struct vipd_config *config, unsigned nic, const char *device)
{
    int number = historical_number(config, nic);
    char name[VIP_NIC_NAME_BYTES];

    for (size_t i = 0; number >= 0 && i < COUNT(numbered); i++) {
        snprintf(name, sizeof(name), numbered[i].format, (unsigned)number + numbered[i].base);
        if (strcmp(name, device) == 0)
            return true;
    }
    for (size_t i = 0; i < COUNT(unnumbered); i++) {
        if (strcmp(unnumbered[i], device) == 0 && unnumbered_mean(config, nic, i))
            return true;
    }
    return false;
}

static bool configured_match(const struct vipd_nic_config *nic, const char *device)
{
    for (unsigned i = 0; i < nic->alias_count; i++) {
        if (strcmp(nic->aliases[i], device) == 0)
            return true;
    }
    return false;
}

int vipd_device_find(const struct vipd_config *config, const char *device)
{
    for (unsigned i = 0; i < config->nic_count; i++) {
        if (strcmp(config->nics[i].name, device) == 0)
            return (int)i;
    }
    for (unsigned i = 0; i < config->nic_count; i++) {
        if (configured_match(&config->nics[i], device))
            return (int)i;
    }
    for (unsigned i = 0; i < config->nic_count; i++) {
        if (!config->nics[i].aliases_given && historical_match(config, i, device))
            return (int)i;
    }
    return -1;
}

/* Append one word, with a blank before it; returns the new length, at most buf_bytes - 1. */
static unsigned add_word(char *buf, unsigned used, unsigned buf_bytes, const char *word)
{
    int n = snprintf(buf + used, buf_bytes - used, "%s%s", used > 0 ? " " : "",
                     word[0] != '\0' ? word : "(empty)");

    return used + (unsigned)n < buf_bytes ? used + (unsigned)n : buf_bytes - 1;
}

void vipd_device_aliases(const struct vipd_config *config, unsigned nic, char *buf,
                         unsigned buf_bytes)
{
    const struct vipd_nic_config *n = &config->nics[nic];
    int number = historical_number(config, nic);
    char name[VIP_NIC_NAME_BYTES];
    unsigned used = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < n->alias_count; i++)
        used = add_word(buf, used, buf_bytes, n->aliases[i]);
    if (n->aliases_given)
        return;
    for (size_t i = 0; number >= 0 && i < COUNT(numbered); i++) {
        snprintf(name, sizeof(name), numbered[i].format, (unsigned)number + numbered[i].base);
        used = add_word(buf, used, buf_bytes, name);
    }
    for (size_t i = 0; i < COUNT(unnumbered); i++) {
        if (unnumbered_mean(config, nic, i))
            used = add_word(buf, used, buf_bytes, unnumbered[i]);
    }
}

/* May the NIC use an address that was written with the interface `scope`? Empty: every NIC may. */
static bool scope_fits(const struct vipd_nic_config *nic, const char *scope)
{
    char text[LINK_TEXT_BYTES], own[LINK_SCOPE_BYTES];

    return scope[0] == '\0' ||
           (link_addr_scope(nic->keys.address, text, own) == 0 && strcmp(own, scope) == 0);
}

/* Find address number `index` (from 0) among the addresses of a host that the NIC can use. */
static bool pick(const struct vipd_name *name, const struct vipd_nic_config *nic, unsigned index,
                 struct link_addr *ret)
{
    for (unsigned i = 0; i < name->addr_count; i++) {
        if (name->kind[i] == nic->link && scope_fits(nic, name->scope[i]) && index-- == 0) {
            *ret = name->addr[i];
            return true;
        }
    }
    return false;
}

/* Read a name that is itself an address. false: it is no address, or the NIC uses IPv4. */
static bool literal(const struct vipd_nic_config *nic, const char *name, struct link_addr *ret)
{
    char text[LINK_TEXT_BYTES], scope[LINK_SCOPE_BYTES];

    /* The resolver, which libvipl asks next, also reads IPv4 addresses. */
    if (link_kind_row(nic->link)->ip_version == 4)
        return false;
    return link_addr_scope(name, text, scope) == 0 && scope_fits(nic, scope) &&
           link_addr_parse_as(nic->link, text, (uint16_t)nic->keys.port, ret) == 0;
}

/* Does the name mean this host, the only host on a loop NIC? */
static bool is_this_host(const char *name)
{
    char own[HOST_NAME_MAX + 1] = "";

    if (strcasecmp(name, "localhost") == 0 || strcasecmp(name, "loop") == 0)
        return true;
    if (gethostname(own, sizeof(own)) < 0)
        return false;
    own[sizeof(own) - 1] = '\0';
    return link_host_match(own, name);
}

/* Find a host's entry: the one with this name, else the first that matches. NULL: there is none. */
static const struct vipd_name *entry_of(const struct vipd_config *config, const char *name)
{
    const struct vipd_name *found = NULL;

    for (unsigned i = 0; i < config->name_count; i++) {
        if (strcasecmp(config->names[i].name, name) == 0)
            return &config->names[i];
        if (!found && link_host_match(config->names[i].name, name))
            found = &config->names[i];
    }
    return found;
}

bool vipd_host_find(const struct vipd_config *config, const struct vipd_nic_config *nic,
                    const char *name, unsigned index, struct link_addr *ret)
{
    const struct link_kind_row *row = link_kind_row(nic->link);
    const struct vipd_name *found;

    if (row->only_host && is_this_host(name))
        return index == 0 && row->parse(row->only_host, 0, ret) == 0;
    found = entry_of(config, name);
    if (found)
        return pick(found, nic, index, ret);
    return index == 0 && literal(nic, name, ret);
}

const char *vipd_host_name(const struct vipd_config *config, enum link_kind kind,
                           const struct link_addr *addr)
{
    if (link_kind_row(kind)->only_host)
        return "localhost";
    for (unsigned i = 0; i < config->name_count; i++) {
        for (unsigned k = 0; k < config->names[i].addr_count; k++) {
            if (config->names[i].kind[k] == kind &&
                link_addr_equal(&config->names[i].addr[k], addr))
                return config->names[i].name;
        }
    }
    return NULL;
}
