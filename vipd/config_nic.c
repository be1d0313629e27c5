/* Keys of [nic:NAME] that depend on the link, and addresses of [names]; see config_nic.h. */
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

int config_interface_parse(const char *text, struct vipd_nic_config *nic)
{
    return link_kind_row(LINK_ETHER)->path(text, &nic->keys) ? 0 : -EINVAL;
}

int config_paths_parse(const char *text, struct vipd_nic_config *nic)
{
    if (strlen(text) >= sizeof(nic->keys.paths))
        return -EINVAL;
    snprintf(nic->keys.paths, sizeof(nic->keys.paths), "%s", text);
    return 0;
}

int config_ethertype_parse(const char *text, uint64_t *ret)
{
    /* A peer's network stack would process frames of these types: IPv4, ARP, IPv6 and VLAN tags. */
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
    if (value < 0x0600) /* a smaller number would be the frame's length (IEEE 802.3) */
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
    if (strcmp(text, "auto") == 0) {
        nic->keys.address[0] = '\0';
        return 0;
    }
    return link_kind_row(LINK_UDP)->path(text, &nic->keys) ? 0 : -EINVAL;
}

/* If the NIC has several paths, set its key for one path (address or interface) to the first path.
 * check_paths reports a bad word later. */
static void settle_first_path(struct vipd_nic_config *nic)
{
    const struct link_kind_row *row = link_kind_row(nic->link);
    char text[sizeof(nic->keys.paths)], *rest = text, *first;

    snprintf(text, sizeof(text), "%s", nic->keys.paths);
    first = strtok_r(rest, " \t", &rest);
    if (first && row->path) {
        struct vipd_origin *own = &nic->origin[config_key_find("nic", row->path_key) - config_keys];

        (void)row->path(first, &nic->keys);
        if (own->line == 0) /* else the files set both keys, which check_paths reports */
            *own = nic->origin[config_key_find("nic", "paths") - config_keys];
    }
}

void config_nics_settle(struct vipd_config *config)
{
    for (unsigned i = 0; i < config->nic_count; i++) {
        struct vipd_nic_config *nic = &config->nics[i];

        settle_first_path(nic);
        if (link_kind_row(nic->link)->settle)
            nic->link = link_kind_row(nic->link)->settle(&nic->keys);
    }
}

/* The port of addresses in [names] without a port is the port of the first NIC over UDP, because
 * usually all hosts use one port. */
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
    /* Each kind has another format, so the order of the attempts does not matter. */
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

/* Returns what a path of NIC a shares with a path of NIC b, but must not share; NULL: nothing. If a
 * and b are one NIC, its paths are compared with each other. */
static const char *clash_of(const struct vipd_nic_config *a, const struct vipd_nic_config *b)
{
    const struct link_kind_row *row = link_kind_row(a->link);
    struct link_keys of_a[VIP_PATHS_MAX], of_b[VIP_PATHS_MAX];
    char bad[LINK_NAME_BYTES];
    const char *clash = NULL;
    unsigned a_count, b_count;

    if (a->link != b->link || !row->clash)
        return NULL;
    a_count = link_kind_paths(a->link, &a->keys, of_a, bad);
    b_count = link_kind_paths(b->link, &b->keys, of_b, bad);
    for (unsigned i = 0; i < a_count; i++) {
        for (unsigned j = a == b ? i + 1 : 0; j < b_count && !clash; j++)
            clash = row->clash(&of_a[i], &of_b[j]);
    }
    return clash;
}

static void check_paths(const struct vipd_config *config, const struct vipd_nic_config *nic,
                        struct config_errors *errors)
{
    const struct link_kind_row *row = link_kind_row(nic->link);
    const struct vipd_origin *at = &nic->origin[config_key_find("nic", "paths") - config_keys];
    const struct vipd_origin *one;
    struct link_keys paths[VIP_PATHS_MAX];
    char bad[LINK_NAME_BYTES] = "";
    const char *clash;

    if (nic->keys.paths[0] == '\0' || !row->path)
        return;
    errors->file = vipd_config_file(config, at->file);
    one = &nic->origin[config_key_find("nic", row->path_key) - config_keys];
    clash = clash_of(nic, nic);
    if (one->line != at->line || one->file != at->file)
        config_error(errors, at->line, "paths stands in place of %s; write one of them",
                     row->path_key);
    else if (link_kind_paths(nic->link, &nic->keys, paths, bad) == 0 && bad[0] == '\0')
        config_error(errors, at->line, "paths has at most %u words", (unsigned)VIP_PATHS_MAX);
    else if (bad[0] != '\0')
        config_error(errors, at->line,
                     "'%s' in paths is not an %s, or not of the kind of the first one", bad,
                     row->path_key);
    else if (clash)
        config_error(errors, at->line, "two paths of [nic:%s] have %s", nic->name, clash);
}

static void check_pair(const struct vipd_nic_config *a, const struct vipd_nic_config *b,
                       struct config_errors *errors)
{
    const char *clash = clash_of(a, b);

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
        check_paths(config, &config->nics[i], errors);
        for (unsigned j = 0; j < i; j++)
            check_pair(&config->nics[i], &config->nics[j], errors);
    }
}
