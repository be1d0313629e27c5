/*
 * The result of a measurement, and its output: one table row per message size, one JSON file per
 * run. VIPL measurements and floors (floor.h) have the same form, so that they can be compared.
 *
 * Owns: percentiles, the table's columns, the JSON layout. Does not own: measuring.
 *
 * JSON: {"tool", "version", "command", "parameters": {...}, "results": [{"size", "messages",
 * "elapsed_s", "half_rtt_ns": {"p50", "p99", "p999", "max"} or null, "bytes_per_s",
 * "messages_per_s", "cpu_s", "verified": true, false or null}]}. With --both-ways, "messages",
 * "bytes_per_s" and "messages_per_s" are sums of both directions. "messages_out" and
 * "messages_back" are the parts of "messages".
 */
#ifndef TOOLS_VIPPERF_RESULT_H
#define TOOLS_VIPPERF_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Percentiles and maximum of half round trips, in ns. */
struct perf_latency {
    uint64_t p50, p99, p999, max;
};

enum perf_verified {
    PERF_NOT_VERIFIED = 0, /* contents were not checked */
    PERF_VERIFIED,         /* every byte was correct */
    PERF_CORRUPT,          /* a byte was wrong */
};

/* One measurement of one message size. */
struct perf_result {
    uint64_t size_bytes; /* size of one message */
    uint64_t messages;   /* measured messages, one way or the sum of both ways */
    bool both_ways;      /* messages and the rates include messages_back */
    uint64_t messages_back;
    double elapsed_s; /* wall time of the measured part */
    bool has_latency; /* `latency` is valid (only in lat) */
    struct perf_latency latency;
    double bytes_per_s;    /* payload of `messages`, per second */
    double messages_per_s; /* `messages` per second */
    double cpu_s;          /* processor time of all measured processes, user and system */
    enum perf_verified verified;
};

/* One parameter of the run, for the JSON file, which has no quotes around a number. */
struct perf_param {
    const char *name;
    char value[64];
    bool number;
};

/*
 * Compute the percentiles of `count` half round trips in ns; this sorts `samples`. If count is 0,
 * all percentiles are 0.
 */
void perf_latency_of(uint64_t *samples, size_t count, struct perf_latency *ret);

/* Set messages_per_s and bytes_per_s from messages, size_bytes and elapsed_s. */
void perf_rates_of(struct perf_result *result);

/* Print the table: first the heading line, then one line per result. */
void perf_print_heading(FILE *out, bool has_latency);
void perf_print_row(FILE *out, const struct perf_result *result);

/* Set a parameter to a text or to a number. */
void perf_param_text(struct perf_param *param, const char *name, const char *value);
void perf_param_number(struct perf_param *param, const char *name, double value);

/*
 * Write the JSON file; "-" is standard output. `command` names the measurement for people, e.g.
 * "floor udp lat". Outcomes: 0; negative errno, and no message is printed.
 */
int perf_json_write(const char *path, const char *command, const struct perf_param *params,
                    size_t param_count, const struct perf_result *results, size_t result_count);

#endif
