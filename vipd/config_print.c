/* Texts made from the table of keys; see config_print.h. */
#include "vipd/config_print.h"

#include <string.h>

#include "vipd/config_keys.h"

#define COLUMNS     100  /* width of the printed reference */
#define VALUE_BYTES 2400 /* room for 32 aliases of 63 characters and their separators */

static bool is_nic(const struct config_key *key)
{
    return strcmp(key->section, "nic") == 0;
}

/* Returns the kind of links with a sample, if it alone has this key; otherwise LINK_KINDS. */
static enum link_kind sample_of(const struct config_key *key)
{
    char words[LINK_WORDS_BYTES];
    enum link_kind kind = 0;

    while (kind < LINK_KINDS && !(link_kind_row(kind)->sample && link_kind_knows(kind, key->name)))
        kind++;
    return link_key_kinds(key->name, words) == 1 ? kind : LINK_KINDS;
}

/* Returns the text after '=': the default, or an example for a key without a default text. */
static const char *written(const struct config_key *key)
{
    if (key->type == CONFIG_ALIASES)
        return "/dev/via_eth0, VINIC0";
    if (key->type == CONFIG_INTERFACE)
        return "eth1";
    return key->standard;
}

/* Room for the names of the kinds of links that have a key, and a few words. */
#define LINKS_BYTES (LINK_WORDS_BYTES + 8)

static const char *links_word(const struct config_key *key, char buf[LINKS_BYTES])
{
    char words[LINK_WORDS_BYTES];
    unsigned count = link_key_kinds(key->name, words);

    if (!key->of_link)
        return "";
    snprintf(buf, LINKS_BYTES, "%s%s; ", words, count == 1 ? " only" : "");
    return buf;
}

/* ---- the reference ----------------------------------------------------------------------- */

/* Print the text as comment lines, broken between words. */
static void print_comment(FILE *out, const char *text)
{
    while (*text) {
        size_t room = COLUMNS - 2, len = strlen(text);

        if (len > room) {
            for (len = room; text[len] != ' '; len--)
                continue;
        }
        fprintf(out, "# %.*s\n", (int)len, text);
        text += len;
        while (*text == ' ')
            text++;
    }
}

static void print_key(FILE *out, const struct config_key *key)
{
    const char *value = written(key);
    char unit[128], links[LINKS_BYTES];

    config_key_unit(key, unit, sizeof(unit));
    print_comment(out, key->help);
    fprintf(out, "# (%s%s; reload: %s)\n", links_word(key, links), unit,
            config_class_name(key->class));
    fprintf(out, "#%s =%s%s\n\n", key->name, *value ? " " : "", value);
}

/* Print the keys that belong to the sample of this kind; LINK_KINDS: keys that belong to none. */
static void print_nic_keys(FILE *out, enum link_kind kind)
{
    for (unsigned i = 0; i < config_key_count; i++)
        if (is_nic(&config_keys[i]) && sample_of(&config_keys[i]) == kind)
            print_key(out, &config_keys[i]);
}

static void print_nics(FILE *out)
{
    unsigned number = 0;

    fputs("[nic:vip0]\n\n", out);
    print_nic_keys(out, LINK_KINDS);
    for (enum link_kind k = 0; k < LINK_KINDS; k++) {
        if (!link_kind_row(k)->sample)
            continue;
        print_comment(out, link_kind_row(k)->sample);
        fprintf(out, "#[nic:vip%u]\n#link = %s\n\n", ++number, link_kind_name(k));
        print_nic_keys(out, k);
    }
}

static void print_section(FILE *out, const struct config_section *section)
{
    print_comment(out, section->help);
    if (strchr(section->name, ':')) {
        print_nics(out);
        return;
    }
    fprintf(out, "[%s]\n", section->name);
    if (strcmp(section->name, "names") == 0) {
        fputs("#node1 = 192.0.2.1\n"
              "#node2 = 192.0.2.2:4794, 198.51.100.2, 02:00:5e:10:00:02, 2001:db8::2, "
              "[fe80::2%eth1]:4794\n",
              out);
        return;
    }
    if (strcmp(section->name, "listen") == 0) {
        fputs("#db-* = postgres\n\n", out);
        return;
    }
    fputc('\n', out);
    for (unsigned i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section->name) == 0)
            print_key(out, &config_keys[i]);
}

void vipd_config_print_reference(FILE *out)
{
    fputs(
        "# vipd.conf: configuration of vipd, with every key. Printed by: vipd --print-config\n"
        "#\n"
        "# Files: PREFIX/lib/vipd/vipd.conf, /run/vipd/vipd.conf, /etc/vipd/vipd.conf, then *.conf "
        "of\n"
        "# vipd.conf.d in these folders by name, then those of the user in ~/.config/vipd for a "
        "vipd "
        "that\n"
        "# does not run as root. Or --config FILE, with FILE.d. A later file wins, key by key. "
        "What is "
        "not\n"
        "# written has its default, so an empty file is a good one. A fault stops vipd with "
        "\"file:line:\n"
        "# reason\" and nothing is started; vipd --check-config looks without starting.\n"
        "#\n"
        "# [section], key = value, # comments (at the end of a line too). A section or key may "
        "come "
        "once in\n"
        "# a file. A line may not begin with a blank. Times need a unit: ns, us, ms, s (50us, "
        "1.5ms). "
        "Sizes\n"
        "# are bytes; K, M, G multiply by 1024 each. yes or no for switches. Probabilities in "
        "percent: 0.1%.\n"
        "#\n"
        "# Reload (vipctl reload, SIGHUP) changes all that differs or, if anything is wrong, "
        "nothing; "
        "no\n"
        "# connection is dropped. live: at once. new: for NIC handles opened from then on. "
        "restart: "
        "when\n"
        "# vipd is started again.\n\n",
        out);
    for (unsigned i = 0; i < config_section_count; i++)
        print_section(out, &config_sections[i]);
}

/* ---- the manual page --------------------------------------------------------------------- */

/* Print the text, and escape the characters that are markup for scdoc. */
static void print_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("\\*_#|[<>.~-`", *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void print_manual_key(FILE *out, const struct config_key *key)
{
    char unit[128], links[LINKS_BYTES];

    config_key_unit(key, unit, sizeof(unit));
    fprintf(out, "*%s*\n\t", key->name);
    print_escaped(out, key->help);
    fputs("\n\n\t", out);
    print_escaped(out, links_word(key, links));
    print_escaped(out, unit);
    fprintf(out, "; reload: %s; default: _", config_class_name(key->class));
    if (key->type == CONFIG_ALIASES)
        fputs("see above_\n\n", out);
    else {
        print_escaped(out, *key->standard ? key->standard : "(empty)");
        fputs("_\n\n", out);
    }
}

static void print_manual_sections(FILE *out)
{
    for (unsigned i = 0; i < config_section_count; i++) {
        const char *name = config_sections[i].name;
        size_t len = strcspn(name, ":");

        fprintf(out, "# SECTION [%s]\n\n", name);
        print_escaped(out, config_sections[i].help);
        fputs("\n\n", out);
        for (unsigned k = 0; k < config_key_count; k++)
            if (strlen(config_keys[k].section) == len &&
                strncmp(config_keys[k].section, name, len) == 0)
                print_manual_key(out, &config_keys[k]);
    }
}

void vipd_config_print_manual(FILE *out)
{
    fputs(
        "vipd.conf(5)\n\n"
        "# NAME\n\n"
        "vipd.conf - configuration of vipd, the software VI NIC\n\n"
        "# SYNOPSIS\n\n"
        "_/etc/vipd/vipd.conf_, _/etc/vipd/vipd.conf.d/\\*.conf_\n\n"
        "# DESCRIPTION\n\n"
        "*vipd*(8) reads _PREFIX/lib/vipd/vipd.conf_, _/run/vipd/vipd.conf_ and "
        "_/etc/vipd/vipd.conf_, then _\\*.conf_ of _vipd.conf.d_ in these three folders in the "
        "order "
        "of their names. Of drop-ins with the same name only that of the last folder counts, and "
        "an "
        "empty one switches it off. A vipd that does not run as root then reads the same of "
        "_$XDG\\_CONFIG\\_HOME/vipd_ (_~/.config/vipd_). *vipd --config* _FILE_ reads that file "
        "and "
        "_FILE.d/\\*.conf_ instead. A later file wins over an earlier one, key by key. All files "
        "may "
        "be absent.\n\n"
        "The syntax is _[section]_, _key = value_ and _# comment_ (also behind a value). A section "
        "or "
        "key may come once in a file, and a line may not begin with a blank. Times need a unit: "
        "_ns_, _us_, _ms_ or _s_. Sizes are bytes; _K_, _M_ and _G_ multiply by 1024 each. "
        "An unknown section or key, a bad value or a repeated key is an error with file and line; "
        "vipd then does not start, or keeps what it has. *vipd --check-config* looks without "
        "starting, *vipd --print-config* prints a commented file with all defaults.\n\n"
        "# RELOAD\n\n"
        "*vipctl reload* and SIGHUP read all files again. If anything is wrong nothing changes. "
        "Otherwise each key that differs takes effect by its class, and no connection is "
        "dropped:\n\n"
        "*live*\n\tat once.\n\n"
        "*new*\n\tfor NIC handles that are opened from then on; those that are open keep the old "
        "value.\n\n"
        "*restart*\n\twhen vipd is started again; *vipctl show config* lists such keys as "
        "pending.\n\n",
        out);
    print_manual_sections(out);
    fputs("# SEE ALSO\n\n*vipd*(8), *vipctl*(1), *vipl*(7)\n", out);
}

/* ---- values in force --------------------------------------------------------------------- */

/* The state of vipd_config_each, which walks over all values from number `from` on. */
struct walk {
    const struct vipd_config *config;
    bool (*visit)(void *ctx, const struct vipd_config_value *value);
    void *ctx;
    unsigned from, number;
    bool stop;
};

static void give(struct walk *walk, const struct vipd_config_value *value)
{
    if (!walk->stop && walk->number++ >= walk->from)
        walk->stop = !walk->visit(walk->ctx, value);
}

static void give_key(struct walk *walk, unsigned k, const struct vipd_nic_config *nic)
{
    const struct config_key *key = &config_keys[k];
    const struct vipd_origin *at = nic ? &nic->origin[k] : &walk->config->origin[k];
    struct vipd_config_value value = {.key = key->name,
                                      .standard = key->standard,
                                      .reload = config_class_name(key->class),
                                      .file = vipd_config_file(walk->config, at->file),
                                      .line = at->line};
    char text[VALUE_BYTES], section[VIP_NIC_NAME_BYTES + 8];

    /* Only count the values before `from`: each page that a reader gets is a new walk. */
    if (walk->stop || walk->number < walk->from) {
        walk->number++;
        return;
    }
    snprintf(section, sizeof(section), nic ? "nic:%s" : "%s", nic ? nic->name : key->section);
    config_key_format(key, nic ? (const void *)nic : walk->config, text, sizeof(text));
    value.section = section;
    value.value = text;
    give(walk, &value);
}

void vipd_config_name_text(const struct vipd_name *name, char *buf, size_t buf_bytes)
{
    size_t used = 0;
    char addr[64];

    buf[0] = '\0';
    for (unsigned i = 0; name && i < name->addr_count && used < buf_bytes; i++) {
        const char *scope = name->scope[i], *end;

        link_addr_format_as(name->kind[i], &name->addr[i], addr, sizeof(addr));
        /* The interface stands between the address and the port: [fe80::7%eth1]:4794. */
        end = addr + strcspn(addr, "]");
        used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%.*s%s%s%s", i ? ", " : "",
                                 (int)(end - addr), addr, scope[0] ? "%" : "", scope, end);
    }
}

static void give_name(struct walk *walk, const struct vipd_name *name)
{
    struct vipd_config_value value = {.section = "names",
                                      .key = name->name,
                                      .standard = "",
                                      .reload = "live",
                                      .file = vipd_config_file(walk->config, name->at.file),
                                      .line = name->at.line};
    char text[VALUE_BYTES];

    vipd_config_name_text(name, text, sizeof(text));
    value.value = text;
    give(walk, &value);
}

static void give_listen(struct walk *walk, const struct vipd_listen *listen)
{
    struct vipd_config_value value = {.section = "listen",
                                      .key = listen->pattern,
                                      .value = listen->user,
                                      .standard = "",
                                      .reload = "live",
                                      .file = vipd_config_file(walk->config, listen->at.file),
                                      .line = listen->at.line};

    give(walk, &value);
}

void vipd_config_each(const struct vipd_config *config, unsigned from,
                      bool (*visit)(void *ctx, const struct vipd_config_value *value), void *ctx)
{
    struct walk walk = {.config = config, .visit = visit, .ctx = ctx, .from = from};

    for (unsigned k = 0; k < config_key_count; k++)
        if (!is_nic(&config_keys[k]))
            give_key(&walk, k, NULL);
    for (unsigned n = 0; n < config->nic_count; n++) {
        for (unsigned k = 0; k < config_key_count; k++) {
            const struct config_key *key = &config_keys[k];

            if (is_nic(key) && config_key_fits(key, config->nics[n].link))
                give_key(&walk, k, &config->nics[n]);
        }
    }
    for (unsigned i = 0; i < config->listen_count; i++)
        give_listen(&walk, &config->listens[i]);
    for (unsigned i = 0; i < config->name_count; i++)
        give_name(&walk, &config->names[i]);
}
