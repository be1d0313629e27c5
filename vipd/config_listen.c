/* See config_listen.h. */
#include "vipd/config_listen.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vipd/config.h"
#include "vipd/config_value.h"

void config_disc_text(const uint8_t *disc, uint8_t len, char ret[DISC_TEXT_BYTES])
{
    uint8_t text_len = len > 0 && disc[len - 1] == '\0' ? len - 1 : len;
    bool text = text_len > 0;
    size_t used = 0;

    for (uint8_t i = 0; i < text_len; i++)
        text = text && isgraph(disc[i]) && disc[i] < 0x7f;
    if (text) {
        snprintf(ret, DISC_TEXT_BYTES, "%.*s", (int)text_len, (const char *)disc);
        return;
    }
    used = (size_t)snprintf(ret, DISC_TEXT_BYTES, "%s", len ? "0x" : "(empty)");
    for (uint8_t i = 0; i < len && used + 3 < DISC_TEXT_BYTES; i++)
        used += (size_t)snprintf(ret + used, DISC_TEXT_BYTES - used, "%02x", disc[i]);
}

/* Find the uid of a user. text is a number or a name. false: there is no such user. */
static bool user_number(const char *text, uid_t *ret)
{
    const struct passwd *user;
    unsigned long number;
    char *end;

    if (isdigit((unsigned char)text[0])) {
        errno = 0;
        number = strtoul(text, &end, 10);
        *ret = (uid_t)number;
        return *end == '\0' && errno == 0 && number < UINT32_MAX;
    }
    user = text[0] ? getpwnam(text) : NULL;
    if (user)
        *ret = user->pw_uid;
    return user != NULL;
}

void config_listen_add(struct vipd_config *config, const struct config_value *value, unsigned file)
{
    struct vipd_listen *listen = NULL;
    uid_t uid = 0;

    if (strlen(value->text) >= sizeof(listen->user) || !user_number(value->text, &uid)) {
        config_value_bad(value, "want the name or the number of a user of this machine");
        return;
    }
    for (unsigned i = 0; i < config->listen_count && !listen; i++)
        if (strcmp(config->listens[i].pattern, value->at->key) == 0)
            listen = &config->listens[i];
    if (!listen && config->listen_count == VIPD_LISTENS_MAX) {
        config_error(value->errors, value->at->line, "more than %d patterns", VIPD_LISTENS_MAX);
        return;
    }
    if (!listen)
        listen = &config->listens[config->listen_count++];
    listen->at = (struct vipd_origin){.file = file, .line = value->at->line};
    listen->uid = uid;
    snprintf(listen->pattern, sizeof(listen->pattern), "%s", value->at->key);
    snprintf(listen->user, sizeof(listen->user), "%s", value->text);
}

bool config_may_listen(const struct vipd_config *config, uid_t uid, const uint8_t *disc,
                       uint8_t len, const char **ret_pattern, const char **ret_user)
{
    const struct vipd_listen *first = NULL;
    char text[DISC_TEXT_BYTES];

    config_disc_text(disc, len, text);
    for (unsigned i = 0; i < config->listen_count; i++) {
        const struct vipd_listen *listen = &config->listens[i];

        if (fnmatch(listen->pattern, text, 0) != 0)
            continue;
        if (listen->uid == uid)
            return true;
        first = first ? first : listen;
    }
    if (!first || uid == 0)
        return true;
    *ret_pattern = first->pattern;
    *ret_user = first->user;
    return false;
}
