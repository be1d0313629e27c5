/*
 * The lines of a configuration file: its sections and keys, with line numbers. Lines that libeconf
 * would merge or misread are refused here.
 *
 * Called by vipd/config.c only.
 */
#ifndef VIPD_CONFIG_SCAN_H
#define VIPD_CONFIG_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* Errors in the order of their discovery, one line each. */
struct config_errors {
    const char *file;
    char *text;
    size_t bytes; /* size of text */
    size_t used;
    unsigned count;
};

/* Add "file:line: reason"; line 0 leaves the number out. */
void config_error(struct config_errors *errors, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define CONFIG_WORD_BYTES 80 /* section or key name with its terminating zero */

/* One "[section]" (key empty) or one "key = ..." line. */
struct config_entry {
    unsigned line;
    char section[CONFIG_WORD_BYTES];
    char key[CONFIG_WORD_BYTES];
};

struct config_scan {
    struct config_entry *entries;
    size_t count;
};

/*
 * Scan the file errors->file. Outcomes: 0 (there may be errors all the same: look at
 * errors->count); -ENOMEM; other negative errno of reading the file, reported in errors.
 */
int config_scan(struct config_scan *ret, struct config_errors *errors);
void config_scan_free(struct config_scan *scan);

#endif
