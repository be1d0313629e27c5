/* The table of the kinds of links; see kinds.h. */
#include "vipd/link/kinds.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "proto/assert.h"

const struct link_kind_row *link_kind_row(enum link_kind kind)
{
#define LINK_KIND(number, row, help) [number] = &row,
    static const struct link_kind_row *const rows[] = {
#include "vipd/link/kinds.def"
    };

    VIP_ASSERT((unsigned)kind < LINK_KINDS);
    return rows[kind];
}

const char *link_kind_name(enum link_kind kind)
{
    return link_kind_row(kind)->name;
}

/* Has an earlier kind the same name as this kind? */
static bool name_again(enum link_kind kind)
{
    for (enum link_kind k = 0; k < kind; k++) {
        if (strcmp(link_kind_name(k), link_kind_name(kind)) == 0)
            return true;
    }
    return false;
}

/* Write a list of words into ret; `last` stands before the last of several words. */
static void join(const char *const *words, unsigned count, const char *last,
                 char ret[LINK_WORDS_BYTES])
{
    size_t used = 0;

    ret[0] = '\0';
    for (unsigned i = 0; i < count && used < LINK_WORDS_BYTES; i++) {
        const char *before = i == 0 ? "" : i + 1 == count ? last : ", ";

        used += (size_t)snprintf(ret + used, LINK_WORDS_BYTES - used, "%s%s", before, words[i]);
    }
}

void link_kind_words(char ret[LINK_WORDS_BYTES])
{
    const char *words[2 * LINK_KINDS];
    unsigned count = 0;

    for (enum link_kind k = 0; k < LINK_KINDS; k++) {
        if (!name_again(k))
            words[count++] = link_kind_name(k);
        if (link_kind_row(k)->variant)
            words[count++] = link_kind_row(k)->variant;
    }
    join(words, count, " or ", ret);
}

bool link_kind_knows(enum link_kind kind, const char *key)
{
    const char *const *keys = link_kind_row(kind)->keys;

    while (keys && *keys && strcmp(*keys, key) != 0)
        keys++;
    return keys && *keys;
}

unsigned link_kind_paths(enum link_kind kind, const struct link_keys *keys,
                         struct link_keys ret[VIP_PATHS_MAX], char ret_bad[LINK_NAME_BYTES])
{
    const struct link_kind_row *row = link_kind_row(kind);
    char text[sizeof(keys->paths)], *rest = text, *word;
    unsigned count = 0;

    ret_bad[0] = '\0';
    ret[0] = *keys;
    if (keys->paths[0] == '\0' || !row->path)
        return 1;
    snprintf(text, sizeof(text), "%s", keys->paths);
    while ((word = strtok_r(rest, " \t", &rest))) {
        if (count == VIP_PATHS_MAX)
            return 0;
        ret[count] = *keys;
        ret[count].paths[0] = '\0';
        if (!row->path(word, &ret[count]) || (row->settle && row->settle(&ret[count]) != kind)) {
            snprintf(ret_bad, LINK_NAME_BYTES, "%s", word);
            return 0;
        }
        /* Only path 1 announces the name of this host. */
        if (count++ > 0)
            snprintf(ret[count - 1].announce, sizeof(ret->announce), "none");
    }
    return count;
}

unsigned link_key_kinds(const char *key, char ret[LINK_WORDS_BYTES])
{
    const char *words[LINK_KINDS];
    unsigned count = 0;

    for (enum link_kind k = 0; k < LINK_KINDS; k++) {
        if (link_kind_knows(k, key) && !name_again(k))
            words[count++] = link_kind_name(k);
    }
    join(words, count, " and ", ret);
    return count;
}

int link_addr_parse_as(enum link_kind kind, const char *text, uint16_t default_port,
                       struct link_addr *ret)
{
    return link_kind_row(kind)->parse(text, default_port, ret);
}

void link_addr_format_as(enum link_kind kind, const struct link_addr *addr, char *buf,
                         size_t buf_bytes)
{
    link_kind_row(kind)->format(addr, buf, buf_bytes);
}
