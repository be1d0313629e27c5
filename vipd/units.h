/*
 * Numbers with units as people write them in vipd.conf: "50us", "1.5ms", "256K", "0666", "yes".
 *
 * Owns: their syntax. Does not own: which range is sensible (vipd/config_keys.c). Any thread.
 */
#ifndef VIPD_UNITS_H
#define VIPD_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* Outcomes of vipd_parse_*: 0 and *ret; -EINVAL: not that kind of number; -ERANGE: too large. */

/* A time: digits, at most 9 decimals, and ns, us, ms or s. Only 0 needs no unit. */
int vipd_parse_duration(const char *text, uint64_t *ret_ns);

/* A size: digits and optionally K, M or G (powers of 1024). */
int vipd_parse_bytes(const char *text, uint64_t *ret_bytes);

/* A plain decimal number. */
int vipd_parse_count(const char *text, uint64_t *ret);

/* A file mode in octal, 0 to 0777. */
int vipd_parse_mode(const char *text, uint64_t *ret);

/* true: yes, true, on or 1; false: no, false, off or 0. */
int vipd_parse_bool(const char *text, bool *ret);

/* The shortest exact form, e.g. 50000 -> "50us": for messages. */
void vipd_format_duration(uint64_t ns, char *buf, unsigned buf_bytes);
void vipd_format_bytes(uint64_t bytes, char *buf, unsigned buf_bytes);

#endif
