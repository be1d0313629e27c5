/*
 * Log lines of vipd: one line per event on stderr, with its level in front. Under systemd the level
 * is the journal's prefix "<N>" instead.
 *
 * Owns: formatting, the threshold, and the cleaning of text that applications supplied. Does not
 * own: which events are logged. Any thread may write lines; only one thread at a time may change
 * the level or use a limit.
 */
#ifndef VIPD_LOG_H
#define VIPD_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum vipd_log_level {
    VIPD_LOG_ERROR = 3, /* the numbers are those of syslog */
    VIPD_LOG_WARNING = 4,
    VIPD_LOG_INFO = 6,
    VIPD_LOG_DEBUG = 7,
};

/* Drop lines that are less severe than `level`. The start value is VIPD_LOG_INFO. */
void vipd_log_set_level(enum vipd_log_level level);

/* "error", "warning", "info", "debug" -> level; false if the word is none of them. */
bool vipd_log_level_parse(const char *word, enum vipd_log_level *ret);

/* The word of a level. */
const char *vipd_log_level_name(enum vipd_log_level level);

/* Write one line, cut to 1 KiB. errno does not change. Never waits: a line that stderr does not
 * take at once is lost. */
void vipd_log(enum vipd_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define vipd_error(...)   vipd_log(VIPD_LOG_ERROR, __VA_ARGS__)
#define vipd_warning(...) vipd_log(VIPD_LOG_WARNING, __VA_ARGS__)
#define vipd_info(...)    vipd_log(VIPD_LOG_INFO, __VA_ARGS__)
#define vipd_debug(...)   vipd_log(VIPD_LOG_DEBUG, __VA_ARGS__)

/*
 * A limit against floods: any user can cause log lines, but must not fill the disk. It allows 20
 * lines at once, then one each second. A zeroed struct is a fresh limit.
 */
struct vipd_log_limit {
    uint64_t refilled_ns; /* up to this time the allowance was refilled */
    uint32_t used;        /* tokens taken */
    uint64_t suppressed;  /* lines dropped since the last line that was written */
};

/* May one more line be written? If so, *ret_suppressed is the number of lines dropped before it. */
bool vipd_log_allow(struct vipd_log_limit *limit, uint64_t now_ns, uint64_t *ret_suppressed);

/* Write one line if the limit allows it. If lines were dropped before, write their number first. */
void vipd_log_limited(struct vipd_log_limit *limit, uint64_t now_ns, enum vipd_log_level level,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Replace what could confuse a terminal or a log reader: everything outside printable ASCII. */
void vipd_log_clean(char *text);

#endif
