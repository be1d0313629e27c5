/* [nic:NAME] by link, and the addresses of [names]; see config_nic.h. */
#include "vipd/config_nic.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vipd/link/ether_peer.h"

int config_link_parse(const char *text, struct vipd_nic_config *nic)
{
    for (enum link_kind k = 0; k < LINK_KINDS; k++) {
        const struct link_kind_row *row = link_kind_row(k);
        bool variant = row->variant && strcmp(text, row->variant) == 0;

        if (variant || strcmp(text, row->name) == 0) {
            nic->link = k;
            nic->keys.variant = variant;
            return 0;
        }
    }
    return -EINVAL;
}

/* The kernel's own rules for names of interfaces. */
int config_interface_parse(const char *text, struct vipd_nic_config *nic)
{
    size_t len = strlen(text);

    if (len == 0 || len >= sizeof(nic->keys.interface) || strcmp(text, ".") == 0 ||
        strcmp(text, "..") == 0 || strpbrk(text, "/: \t"))
        return -EINVAL;
    snprintf(nic->keys.interface, sizeof(nic->keys.interface), "%s", text);
    return 0;
}

int config_ethertype_parse(const char *text, uint64_t *ret)
{
    /* IPv4, ARP, IPv6 and VLAN tags: a peer's network stack would take such frames for its own. */
    static const uint16_t taken[] = {0x0800, 0x0806, 0x86dd, 0x8100, 0x88a8};
    unsigned value = 0;

    if (strlen(text) != 6 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X'))
        return -EINVAL;
    for (unsigned i = 2; i < 6; i++) {
        char c = (char)tolower((unsigned char)text[i]);

        if (!isxdigit((unsigned char)c))
            return -EINVAL;
        value = value << 4 | (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        if (value == taken[i])
            return -EINVAL;
    }
    if (value < 0x0600) /* below, the field is the frame's length (IEEE 802.3) */
        return -EINVAL;
    *ret = value;
    return 0;
}

int config_announce_parse(const char *text, struct vipd_nic_config *nic)
{
    if (strcmp(text, "auto") == 0) {
        nic->keys.announce[0] = '\0';
        return 0;
    }
    if (!ether_peer_name_is_good(text))
        return -EINVAL;
    snprintf(nic->keys.announce, sizeof(nic->keys.announce), "%s", text);
    return 0;
}

int config_own_address_parse(const char *text, struct vipd_nic_config *nic)
{
    char scope[LINK_SCOPE_BYTES];
    struct link_addr addr;
    enum link_kind kind;

    if (strcmp(text, "auto") == 0) {
        nic->keys.address[0] = '\0';
        return 0;
    }
    if (strlen(text) >= sizeof(nic->keys.address) ||
        link_addr_parse_own(text, VIPD_PORT_DEFAULT, &kind, &addr, scope) < 0)
        return -EINVAL;
    snprintf(nic->keys.address, sizeof(nic->keys.address), "%s", text);
    return 0;
}

void config_nics_settle(struct vipd_config *config)
{
    for (unsigned i = 0; i < config->nic_count; i++) {
        struct vipd_nic_config *nic = &config->nics[i];

        if (link_kind_row(nic->link)->settle)
            nic->link = link_kind_row(nic->link)->settle(&nic->keys);
    }
}

/* The port for names without a port: that of the first NIC that has one. Hosts usually have the
 * same port. */
static uint16_t default_port(const struct vipd_config *config)
{
    for (unsigned i = 0; i < config->nic_count; i++) {
        if (link_kind_row(config->nics[i].link)->ip_version != 0)
            return (uint16_t)config->nics[i].keys.port;
    }
    return VIPD_PORT_DEFAULT;
}

int config_address_parse(const struct vipd_config *config, const char *word, struct vipd_name *name)
{
    struct link_addr *addr = &name->addr[name->addr_count];
    char host[LINK_TEXT_BYTES], *scope = name->scope[name->addr_count];
    uint16_t port = default_port(config);
    enum link_kind kind = 0;

    if (link_addr_scope(word, host, scope) < 0)
        return -EINVAL;
    /* The formats of the kinds differ, so their order does not matter. */
    while (link_kind_row(kind)->only_host || link_addr_parse_as(kind, host, port, addr) < 0) {
        if (++kind == LINK_KINDS)
            return -EINVAL;
    }
    if (scope[0] != '\0' && !link_addr_is_local(addr))
        return -EINVAL;
    name->kind[name->addr_count++] = kind;
    return 0;
}

/* ---- rules between keys and between NICs ------------------------------------------------- */

static void check_keys(const struct vipd_config *config, const struct vipd_nic_config *nic,
                       struct config_errors *errors)
{
    const struct link_kind_row *row = link_kind_row(nic->link);
    const char *lacks = row->lacks ? row->lacks(&nic->keys) : NULL;

    for (unsigned k = 0; k < config_key_count; k++) {
        const struct config_key *key = &config_keys[k];

        if (nic->origin[k].line == 0 || config_key_fits(key, nic->link))
            continue;
        errors->file = vipd_config_file(config, nic->origin[k].file);
        config_error(errors, nic->origin[k].line, "%s means nothing with link = %s", key->name,
                     row->name);
    }
    errors->file = vipd_config_file(config, nic->file);
    if (lacks)
        config_error(errors, nic->line, "[nic:%s] has link = %s and needs %s", nic->name, row->name,
                     lacks);
}

static void check_pair(const struct vipd_nic_config *a, const struct vipd_nic_config *b,
                       struct config_errors *errors)
{
    const struct link_kind_row *row = link_kind_row(a->link);
    const char *clash = a->link == b->link && row->clash ? row->clash(&a->keys, &b->keys) : NULL;

    if (clash)
        config_error(errors, a->line, "[nic:%s] and [nic:%s] have %s", b->name, a->name, clash);
    for (unsigned k = 0; k < a->alias_count * b->alias_count; k++) {
        const char *alias = a->aliases[k % a->alias_count];

        if (strcmp(alias, b->aliases[k / a->alias_count]) == 0)
            config_error(errors, a->line, "alias '%s' belongs to [nic:%s] and [nic:%s]", alias,
                         b->name, a->name);
    }
}

void config_nics_check(const struct vipd_config *config, struct config_errors *errors)
{
    for (unsigned i = 0; i < config->nic_count; i++) {
        check_keys(config, &config->nics[i], errors);
        for (unsigned j = 0; j < i; j++)
            check_pair(&config->nics[i], &config->nics[j], errors);
    }
}
