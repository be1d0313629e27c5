/*
 * Numbers and times of vipperf's command line. Every function returns false if the text has the
 * wrong form or the number is above the maximum; then *ret may be undefined.
 */
#ifndef TOOLS_VIPPERF_UNITS_H
#define TOOLS_VIPPERF_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* Parses "64", "4K", "1M", "2G": a number <= max with an optional binary unit. */
bool units_number(const char *text, uint64_t max, uint64_t *ret);

/* Parses "5s", "500ms", or "5" for 5 seconds; the time must be greater than 0. */
bool units_duration(const char *text, uint64_t *ret_ms);

/* Parses "A:B": two numbers with 0 < A <= B <= max. */
bool units_sizes(const char *text, uint64_t max, uint64_t *ret_first, uint64_t *ret_last);

#endif
