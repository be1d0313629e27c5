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

/* Add "file:line: reason". If line is 0, add "file: reason". */
void config_error(struct config_errors *errors, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define CONFIG_WORD_BYTES 80 /* name of a section or a key, with its terminating zero */

/* One line: "[section]" (then key is empty) or "key = ...". */
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
 * Scan the file errors->file. Outcomes: 0 (errors->count tells whether lines have errors); -ENOMEM;
 * other negative errno: the file cannot be read, and `errors` has the reason.
 */
int config_scan(struct config_scan *ret, struct config_errors *errors);
void config_scan_free(struct config_scan *scan);

#endif
