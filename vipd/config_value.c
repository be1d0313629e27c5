/* Values of vipd.conf; see config_value.h. */
#include "vipd/config_value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vipd/config_nic.h"
#include "vipd/units.h"

void config_value_bad(const struct config_value *value, const char *want)
{
    config_error(value->errors, value->at->line, "%s = %s: %s", value->at->key, value->text, want);
}

static void bad_range(const struct config_value *value, const struct config_key *key)
{
    char unit[128], want[160];
    const char *range;

    config_key_unit(key, unit, sizeof(unit));
    range = strstr(unit, ", ");
    snprintf(want, sizeof(want), "must be from %s", range ? range + 2 : unit);
    config_value_bad(value, want);
}

static bool set_number(const struct config_value *value, const struct config_key *key,
                       uint64_t *ret)
{
    const char *want = "want a number";
    int r;

    switch (key->type) {
    case CONFIG_DURATION:
        r = vipd_parse_duration(value->text, ret);
        want = "want a time with unit, such as 50us, 1.5ms or 4s";
        break;
    case CONFIG_BYTES:
    case CONFIG_BYTES32:
        r = vipd_parse_bytes(value->text, ret);
        want = "want a size in bytes, such as 4096, 64K, 8M or 1G";
        break;
    case CONFIG_BYTES_AUTO:
        if (strcmp(value->text, "auto") == 0) {
            *ret = 0;
            return true;
        }
        r = vipd_parse_bytes(value->text, ret);
        want = "want a size in bytes, such as 4096, 64K, 8M or 1G, or 'auto'";
        break;
    case CONFIG_MODE:
        r = vipd_parse_mode(value->text, ret);
        want = "want a file mode in octal, such as 0660";
        break;
    case CONFIG_VLAN:
        if (strcmp(value->text, "none") == 0) {
            *ret = 0;
            return true;
        }
        r = vipd_parse_count(value->text, ret);
        break;
    case CONFIG_MTU:
        if (strcmp(value->text, "auto") == 0) {
            *ret = 0;
            return true;
        }
        r = vipd_parse_count(value->text, ret);
        want = "want a number of bytes or 'auto'";
        break;
    case CONFIG_THREADS:
        if (strcmp(value->text, "auto") == 0) {
            *ret = 0;
            return true;
        }
        r = vipd_parse_count(value->text, ret);
        want = "want a number of threads or 'auto'";
        break;
    default:
        r = vipd_parse_count(value->text, ret);
        break;
    }
    if (r == -EINVAL) {
        config_value_bad(value, want);
        return false;
    }
    if (r < 0 || *ret < key->min || *ret > key->max) {
        bad_range(value, key);
        return false;
    }
    return true;
}

static void set_loan(const struct config_value *value, uint64_t *ret)
{
    if (strcmp(value->text, "auto") == 0)
        *ret = 1;
    else if (strcmp(value->text, "no") == 0)
        *ret = 0;
    else
        config_value_bad(value, "want no or auto");
}

static void set_congestion(const struct config_value *value, uint32_t *ret)
{
    if (strcmp(value->text, "delay") == 0)
        *ret = ENG_CONGESTION_DELAY;
    else if (strcmp(value->text, "cubic") == 0)
        *ret = ENG_CONGESTION_CUBIC;
    else if (strcmp(value->text, "fixed") == 0)
        *ret = ENG_CONGESTION_FIXED;
    else
        config_value_bad(value, "want delay, cubic or fixed");
}

static void set_wait(const struct config_value *value, enum vipd_wait *ret)
{
    if (strcmp(value->text, "adaptive") == 0)
        *ret = VIPD_WAIT_ADAPTIVE;
    else if (strcmp(value->text, "spin") == 0)
        *ret = VIPD_WAIT_SPIN;
    else if (strcmp(value->text, "block") == 0)
        *ret = VIPD_WAIT_BLOCK;
    else
        config_value_bad(value, "want adaptive, spin or block");
}

static void set_account(const struct config_value *value, const char *want, char *ret)
{
    if (strlen(value->text) >= VIPD_GROUP_BYTES || strpbrk(value->text, " \t,:"))
        config_value_bad(value, want);
    else
        snprintf(ret, VIPD_GROUP_BYTES, "%s", value->text);
}

static void set_cpus(const struct config_value *value, char *ret)
{
    bool none = strcmp(value->text, "auto") == 0;

    if (!none && !cpus_valid(value->text))
        config_value_bad(value, "want numbers of processors, such as 2,3 or 8-11, or 'auto'");
    else
        strncpy(ret, none ? "" : value->text, CPUS_TEXT_BYTES); /* fills the rest with zeroes */
}

char *config_next_word(char **text)
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

static void set_link(const struct config_value *value, struct vipd_nic_config *nic)
{
    char words[LINK_WORDS_BYTES], want[LINK_WORDS_BYTES + 8];

    if (config_link_parse(value->text, nic) == 0)
        return;
    link_kind_words(words);
    snprintf(want, sizeof(want), "want %s", words);
    config_value_bad(value, want);
}

static void set_aliases(const struct config_value *value, struct vipd_nic_config *nic)
{
    char *copy = strdup(value->text), *rest = copy, *word;

    nic->aliases_given = true;
    nic->alias_count = 0; /* a later file replaces the list of an earlier one */
    memset(nic->aliases, 0, sizeof(nic->aliases));
    while (copy && (word = config_next_word(&rest)) != NULL) {
        if (strlen(word) >= VIP_NIC_NAME_BYTES) {
            config_value_bad(value, "a device name has at most 63 characters");
            break;
        }
        if (nic->alias_count == VIPD_ALIASES_MAX) {
            config_value_bad(value, "at most 32 aliases");
            break;
        }
        snprintf(nic->aliases[nic->alias_count++], VIP_NIC_NAME_BYTES, "%s", word);
    }
    free(copy);
}

static void set_faults(const struct config_value *value, struct vipd_nic_config *nic)
{
    char err[160];

    nic->faults_text[0] = '\0';
    memset(&nic->faults, 0, sizeof(nic->faults));
    if (value->text[0] == '\0' || strcmp(value->text, "none") == 0)
        return;
    if (strlen(value->text) >= sizeof(nic->faults_text)) {
        config_value_bad(value, "too long");
        return;
    }
    if (link_faults_parse(value->text, &nic->faults, err, sizeof(err)) < 0) {
        config_value_bad(value, err);
        return;
    }
    snprintf(nic->faults_text, sizeof(nic->faults_text), "%s", value->text);
}

void config_value_set(const struct config_value *value, const struct config_key *key, void *base,
                      struct vipd_nic_config *nic)
{
    void *to = (char *)base + key->offset;
    uint64_t number;

    switch (key->type) {
    case CONFIG_DURATION:
    case CONFIG_BYTES:
    case CONFIG_BYTES_AUTO:
    case CONFIG_COUNT:
    case CONFIG_MODE:
    case CONFIG_MTU:
    case CONFIG_THREADS:
    case CONFIG_VLAN:
        if (set_number(value, key, &number))
            *(uint64_t *)to = number;
        break;
    case CONFIG_BYTES32:
    case CONFIG_COUNT32:
        if (set_number(value, key, &number))
            *(uint32_t *)to = (uint32_t)number;
        break;
    case CONFIG_BOOL:
        if (vipd_parse_bool(value->text, to) < 0)
            config_value_bad(value, "want yes or no");
        break;
    case CONFIG_LOAN:
        set_loan(value, to);
        break;
    case CONFIG_WAIT:
        set_wait(value, to);
        break;
    case CONFIG_CONGESTION:
        set_congestion(value, to);
        break;
    case CONFIG_LEVEL:
        if (!vipd_log_level_parse(value->text, to))
            config_value_bad(value, "want error, warning, info or debug");
        break;
    case CONFIG_GROUP:
        set_account(value, "want the name of one group of users, or nothing", to);
        break;
    case CONFIG_USER:
        set_account(value, "want the name of one user", to);
        break;
    case CONFIG_CPUS:
        set_cpus(value, to);
        break;
    case CONFIG_LINK:
        set_link(value, nic);
        break;
    case CONFIG_INTERFACE:
        if (config_interface_parse(value->text, nic) < 0)
            config_value_bad(value, "want the name of an interface, such as eth1");
        break;
    case CONFIG_PATHS:
        if (config_paths_parse(value->text, nic) < 0)
            config_value_bad(value, "want at most 4 addresses or interfaces, with spaces between");
        break;
    case CONFIG_ETHERTYPE:
        if (config_ethertype_parse(value->text, to) < 0)
            config_value_bad(value,
                             "want four hexadecimal digits, such as 0x88b5, from 0x0600 on and "
                             "not of a protocol that every host speaks");
        break;
    case CONFIG_ADDRESS:
        if (config_own_address_parse(value->text, nic) < 0)
            config_value_bad(value, "want an IP address of this host, such as 127.0.0.1, "
                                    "2001:db8::1 or fe80::1%eth0, or 'auto'");
        break;
    case CONFIG_ANNOUNCE:
        if (config_announce_parse(value->text, nic) < 0)
            config_value_bad(value, "want a name of 1 to 63 letters, digits, '.', '-' or '_', "
                                    "'auto' or 'none'");
        break;
    case CONFIG_ALIASES:
        set_aliases(value, nic);
        break;
    case CONFIG_FAULTS:
        set_faults(value, nic);
        break;
    }
}
