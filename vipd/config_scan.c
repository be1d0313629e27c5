/* The lines of a configuration file. */
#include "vipd/config_scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINES_MAX 20000 /* largest number of lines; a longer file is probably no configuration */

void config_error(struct config_errors *errors, unsigned line, const char *format, ...)
{
    size_t room = errors->bytes - errors->used;
    va_list args;
    int n;

    errors->count++;
    if (room < 2)
        return;
    if (line > 0)
        n = snprintf(errors->text + errors->used, room, "%s:%u: ", errors->file, line);
    else
        n = snprintf(errors->text + errors->used, room, "%s: ", errors->file);
    if (n < 0 || (size_t)n >= room)
        goto full;
    errors->used += (size_t)n;
    room -= (size_t)n;
    va_start(args, format);
    n = vsnprintf(errors->text + errors->used, room, format, args);
    va_end(args);
    if (n < 0 || (size_t)n + 1 >= room)
        goto full;
    errors->used += (size_t)n;
    errors->text[errors->used++] = '\n';
    errors->text[errors->used] = '\0';
    return;
full:
    errors->used = errors->bytes;
    errors->text[errors->bytes - 1] = '\0';
}

static char *trim(char *text)
{
    char *end;

    while (isspace((unsigned char)*text))
        text++;
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

static const struct config_entry *find(const struct config_scan *scan, const char *section,
                                       const char *key)
{
    for (size_t i = 0; i < scan->count; i++) {
        const struct config_entry *e = &scan->entries[i];

        if (strcmp(e->section, section) == 0 && strcmp(e->key, key) == 0)
            return e;
    }
    return NULL;
}

static int append(struct config_scan *scan, unsigned line, const char *section, const char *key)
{
    struct config_entry *grown, *e;

    if ((scan->count & (scan->count - 1)) == 0) { /* at 0 and at powers of two, no room is left */
        size_t room = scan->count == 0 ? 1 : scan->count * 2;

        grown = realloc(scan->entries, room * sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        scan->entries = grown;
    }
    e = &scan->entries[scan->count++];
    e->line = line;
    snprintf(e->section, sizeof(e->section), "%s", section);
    snprintf(e->key, sizeof(e->key), "%s", key);
    return 0;
}

/* Scan a line "[name]". Only a comment may follow the name. */
static int scan_section(struct config_scan *scan, struct config_errors *errors, unsigned line,
                        char *text, char section[CONFIG_WORD_BYTES])
{
    const struct config_entry *before;
    char *end = strchr(text, ']');
    char *rest;

    section[0] = '\0';
    if (!end) {
        config_error(errors, line, "section without its closing ']'");
        return 0;
    }
    *end = '\0';
    rest = trim(end + 1);
    text++;
    if (rest[0] != '\0' && rest[0] != '#') {
        config_error(errors, line, "unexpected text after section [%s]", text);
        return 0;
    }
    if (text[0] == '\0' || strlen(text) >= CONFIG_WORD_BYTES || strpbrk(text, " \t[")) {
        config_error(errors, line, "bad section name '%s': 1 to %d characters without blanks", text,
                     CONFIG_WORD_BYTES - 1);
        return 0;
    }
    before = find(scan, text, "");
    if (before) {
        config_error(errors, line, "section [%s] again (first in line %u): write it once", text,
                     before->line);
        return 0;
    }
    snprintf(section, CONFIG_WORD_BYTES, "%s", text);
    return append(scan, line, section, "");
}

static int scan_key(struct config_scan *scan, struct config_errors *errors, unsigned line,
                    char *text, const char *section, bool in_section)
{
    const struct config_entry *before;
    char *equals = strchr(text, '=');

    if (!equals) {
        config_error(errors, line, "expected 'key = value', [section] or # comment, found '%s'",
                     text);
        return 0;
    }
    *equals = '\0';
    text = trim(text);
    if (text[0] == '\0' || strlen(text) >= CONFIG_WORD_BYTES || strpbrk(text, " \t#;\"")) {
        config_error(errors, line, "bad key '%s': 1 to %d characters without blanks", text,
                     CONFIG_WORD_BYTES - 1);
        return 0;
    }
    if (!in_section) {
        config_error(errors, line, "'%s' stands before the first [section]", text);
        return 0;
    }
    if (section[0] == '\0')
        return 0; /* scan_section has refused the section */
    before = find(scan, section, text);
    if (before) {
        config_error(errors, line, "'%s' again in [%s] (first in line %u)", text, section,
                     before->line);
        return 0;
    }
    return append(scan, line, section, text);
}

static int scan_lines(FILE *file, struct config_scan *scan, struct config_errors *errors)
{
    char section[CONFIG_WORD_BYTES] = "";
    bool in_section = false;
    char *buffer = NULL;
    size_t buffer_bytes = 0;
    unsigned line = 0;
    ssize_t n;
    int r = 0;

    while (r == 0 && (n = getline(&buffer, &buffer_bytes, file)) >= 0) {
        char *text;

        if (++line > LINES_MAX || strlen(buffer) != (size_t)n) {
            config_error(errors, line, "this is not a configuration file");
            break;
        }
        text = trim(buffer);
        if (text[0] == '\0' || text[0] == '#')
            continue;
        if (isspace((unsigned char)buffer[0])) {
            config_error(errors, line,
                         "a line may not start with a blank (a value that goes on "
                         "over several lines is not possible)");
        } else if (text[0] == '[') {
            r = scan_section(scan, errors, line, text, section);
            in_section = true;
        } else {
            r = scan_key(scan, errors, line, text, section, in_section);
        }
    }
    free(buffer);
    return r;
}

int config_scan(struct config_scan *ret, struct config_errors *errors)
{
    struct stat st;
    FILE *file;
    int r;

    memset(ret, 0, sizeof(*ret));
    file = fopen(errors->file, "re");
    if (!file) {
        r = -errno;
        config_error(errors, 0, "cannot be read: %s", strerror(errno));
        return r;
    }
    if (fstat(fileno(file), &st) == 0 && S_ISDIR(st.st_mode)) {
        fclose(file);
        config_error(errors, 0, "is a directory");
        return -EISDIR;
    }
    r = scan_lines(file, ret, errors);
    fclose(file);
    if (r < 0)
        config_scan_free(ret);
    return r;
}

void config_scan_free(struct config_scan *scan)
{
    free(scan->entries);
    memset(scan, 0, sizeof(*scan));
}
