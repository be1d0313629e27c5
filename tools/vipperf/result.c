/*
 * Results as a table and as JSON (tools/vipperf/result.h).
 *
 * Owns: number formats and escaping. Called by vipperf's measurements when they have finished.
 */
#include "tools/vipperf/result.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Returns the nearest-rank percentile of a sorted array; per_mille 990 is the 99th percentile. */
static uint64_t percentile(const uint64_t *sorted, size_t count, unsigned per_mille)
{
    size_t rank = (count * per_mille + 999) / 1000;

    return sorted[rank > 0 ? rank - 1 : 0];
}

void perf_latency_of(uint64_t *samples, size_t count, struct perf_latency *ret)
{
    *ret = (struct perf_latency){0};
    if (count == 0)
        return;
    qsort(samples, count, sizeof(*samples), compare_u64);
    ret->p50 = percentile(samples, count, 500);
    ret->p99 = percentile(samples, count, 990);
    ret->p999 = percentile(samples, count, 999);
    ret->max = samples[count - 1];
}

void perf_rates_of(struct perf_result *result)
{
    if (result->elapsed_s <= 0)
        return;
    result->messages_per_s = (double)result->messages / result->elapsed_s;
    result->bytes_per_s = result->messages_per_s * (double)result->size_bytes;
}

void perf_print_heading(FILE *out, bool has_latency)
{
    if (has_latency)
        fprintf(out, "%10s %10s %10s %10s %10s %10s %9s\n", "size B", "messages", "p50 us",
                "p99 us", "p99.9 us", "max us", "cpu s");
    else
        fprintf(out, "%10s %10s %12s %12s %9s %9s\n", "size B", "messages", "msg/s", "MB/s",
                "wall s", "cpu s");
}

void perf_print_row(FILE *out, const struct perf_result *result)
{
    unsigned long long size = result->size_bytes, messages = result->messages;

    if (result->has_latency)
        fprintf(out, "%10llu %10llu %10.2f %10.2f %10.2f %10.2f %9.3f", size, messages,
                (double)result->latency.p50 / 1e3, (double)result->latency.p99 / 1e3,
                (double)result->latency.p999 / 1e3, (double)result->latency.max / 1e3,
                result->cpu_s);
    else
        fprintf(out, "%10llu %10llu %12.0f %12.1f %9.3f %9.3f", size, messages,
                result->messages_per_s, result->bytes_per_s / 1e6, result->elapsed_s,
                result->cpu_s);
    if (result->verified == PERF_VERIFIED)
        fputs("  verified", out);
    else if (result->verified == PERF_CORRUPT)
        fputs("  CORRUPT", out);
    fputc('\n', out);
}

void perf_param_text(struct perf_param *param, const char *name, const char *value)
{
    param->name = name;
    param->number = false;
    snprintf(param->value, sizeof(param->value), "%s", value);
}

void perf_param_number(struct perf_param *param, const char *name, double value)
{
    param->name = name;
    param->number = true;
    snprintf(param->value, sizeof(param->value), "%.15g", isfinite(value) ? value : 0.0);
}

static void json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void json_result(FILE *out, const struct perf_result *result)
{
    static const char *const verified[] = {
        [PERF_NOT_VERIFIED] = "null", [PERF_VERIFIED] = "true", [PERF_CORRUPT] = "false"};

    fprintf(out, "    {\"size\": %llu, \"messages\": %llu, \"elapsed_s\": %.9g, ",
            (unsigned long long)result->size_bytes, (unsigned long long)result->messages,
            result->elapsed_s);
    if (result->has_latency)
        fprintf(out,
                "\"half_rtt_ns\": {\"p50\": %llu, \"p99\": %llu, \"p999\": %llu, \"max\": %llu}",
                (unsigned long long)result->latency.p50, (unsigned long long)result->latency.p99,
                (unsigned long long)result->latency.p999, (unsigned long long)result->latency.max);
    else
        fputs("\"half_rtt_ns\": null", out);
    fprintf(out, ", \"bytes_per_s\": %.9g, \"messages_per_s\": %.9g, \"cpu_s\": %.9g, ",
            result->bytes_per_s, result->messages_per_s, result->cpu_s);
    if (result->both_ways)
        fprintf(out, "\"messages_out\": %llu, \"messages_back\": %llu, ",
                (unsigned long long)(result->messages - result->messages_back),
                (unsigned long long)result->messages_back);
    fprintf(out, "\"verified\": %s}", verified[result->verified]);
}

int perf_json_write(const char *path, const char *command, const struct perf_param *params,
                    size_t param_count, const struct perf_result *results, size_t result_count)
{
    bool to_stdout = strcmp(path, "-") == 0;
    FILE *out = to_stdout ? stdout : fopen(path, "we");
    int rc;

    if (!out)
        return -errno;
    fputs("{\n  \"tool\": \"vipperf\",\n  \"version\": ", out);
    json_string(out, VIP_VERSION);
    fputs(",\n  \"command\": ", out);
    json_string(out, command);
    fputs(",\n  \"parameters\": {", out);
    for (size_t i = 0; i < param_count; i++) {
        fputs(i > 0 ? ", " : "", out);
        json_string(out, params[i].name);
        fputs(": ", out);
        if (params[i].number)
            fputs(params[i].value, out);
        else
            json_string(out, params[i].value);
    }
    fputs("},\n  \"results\": [\n", out);
    for (size_t i = 0; i < result_count; i++) {
        json_result(out, &results[i]);
        fputs(i + 1 < result_count ? ",\n" : "\n", out);
    }
    fputs("  ]\n}\n", out);
    errno = 0;
    rc = ferror(out) || fflush(out) != 0 ? (errno ? -errno : -EIO) : 0;
    if (!to_stdout && fclose(out) != 0 && rc == 0)
        rc = -errno;
    return rc;
}
