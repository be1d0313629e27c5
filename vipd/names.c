/* Names of devices and hosts. */
#include "vipd/names.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/*
 * What other providers called their n-th device: M-VIA, Giganet on Linux and on Windows, VI-GM, and
 * the last resort of a well-known MPI, which counts from 1.
 */
static const struct {
    const char *format;
    unsigned base;
} numbered[] = {
    {"/dev/via_eth%u", 0}, {"/dev/clanvi%u", 0}, {"nic%u", 0}, {"VINIC%u", 0}, {"\\\\.\\VI%u", 1},
};

/* Names without a number; they mean the first NIC. "/etc/via_lo" is a program's slip that stuck. */
static const char *const unnumbered[] = {"/dev/via_lo", "/etc/via_lo", "VINIC", ""};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool historical_match(unsigned nic, const char *device)
{
    char name[VIP_NIC_NAME_BYTES];

    for (size_t i = 0; i < COUNT(numbered); i++) {
        snprintf(name, sizeof(name), numbered[i].format, nic + numbered[i].base);
        if (strcmp(name, device) == 0)
            return true;
    }
    for (size_t i = 0; nic == 0 && i < COUNT(unnumbered); i++) {
        if (strcmp(unnumbered[i], device) == 0)
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
        if (!config->nics[i].aliases_given && historical_match(i, device))
            return (int)i;
    }
    return -1;
}

/* Append one word; returns the new length, at most buf_bytes - 1. */
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
    char name[VIP_NIC_NAME_BYTES];
    unsigned used = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < n->alias_count; i++)
        used = add_word(buf, used, buf_bytes, n->aliases[i]);
    if (n->aliases_given)
        return;
    for (size_t i = 0; i < COUNT(numbered); i++) {
        snprintf(name, sizeof(name), numbered[i].format, nic + numbered[i].base);
        used = add_word(buf, used, buf_bytes, name);
    }
    for (size_t i = 0; nic == 0 && i < COUNT(unnumbered); i++)
        used = add_word(buf, used, buf_bytes, unnumbered[i]);
}

/* Equal, or one is the other without its domain. */
static bool host_match(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    size_t len = a_len < b_len ? a_len : b_len;
    const char *longer = a_len > b_len ? a : b;

    if (len == 0 || strncasecmp(a, b, len) != 0)
        return false;
    if (a_len == b_len)
        return true;
    /* The shorter one must be a short name itself, and the longer one no address: "10" is not the
     * short form of "10.0.0.1". */
    return longer[len] == '.' && !memchr(longer, '.', len) &&
           longer[strspn(longer, "0123456789.")] != '\0';
}

const struct link_addr *vipd_host_find(const struct vipd_config *config, const char *name,
                                       unsigned index)
{
    const struct vipd_name *found = NULL;

    for (unsigned i = 0; i < config->name_count; i++) {
        if (strcasecmp(config->names[i].name, name) == 0) {
            found = &config->names[i];
            break;
        }
        if (!found && host_match(config->names[i].name, name))
            found = &config->names[i];
    }
    if (!found || index >= found->addr_count)
        return NULL;
    return &found->addr[index];
}

const char *vipd_host_name(const struct vipd_config *config, const struct link_addr *addr)
{
    for (unsigned i = 0; i < config->name_count; i++) {
        for (unsigned k = 0; k < config->names[i].addr_count; k++) {
            if (link_addr_equal(&config->names[i].addr[k], addr))
                return config->names[i].name;
        }
    }
    return NULL;
}
