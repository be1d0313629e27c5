/* Values in the form for people: with a unit and at most four digits. See view.h. */
#include "tools/vipctl/view.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tools/vipctl/field.h"

bool field_present(const struct column *column, const void *row)
{
    const char *base = row;

    if (column->kind == FIELD_TEXT) {
        const char *const *text = (const char *const *)(const void *)(base + column->value_off);

        return *text && **text;
    }
    return *(const protobuf_c_boolean *)(const void *)(base + column->has_off) != 0;
}

const char *field_text(const struct column *column, const void *row)
{
    return *(const char *const *)(const void *)((const char *)row + column->value_off);
}

uint64_t field_number(const struct column *column, const void *row)
{
    const void *at = (const char *)row + column->value_off;

    if (column->kind == FIELD_NUMBER)
        return *(const uint32_t *)at;
    if (column->kind == FIELD_BOOL)
        return *(const protobuf_c_boolean *)at != 0;
    return *(const uint64_t *)at;
}

static void format_bytes(uint64_t bytes, char *buf, size_t buf_bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    unsigned i = 0;

    while (value >= 1024 && i + 1 < sizeof(unit) / sizeof(*unit)) {
        value /= 1024;
        i++;
    }
    if (i == 0 || value == (double)(uint64_t)value)
        snprintf(buf, buf_bytes, "%.0f %s", value, unit[i]);
    else
        snprintf(buf, buf_bytes, "%.*f %s", value < 99.95 ? 1 : 0, value, unit[i]);
}

static void format_ms(uint64_t ms, char *buf, size_t buf_bytes)
{
    uint64_t s = ms / 1000;

    if (ms < 1000)
        snprintf(buf, buf_bytes, "%" PRIu64 " ms", ms);
    else if (s < 60)
        snprintf(buf, buf_bytes, "%" PRIu64 " s", s);
    else if (s < 3600)
        snprintf(buf, buf_bytes, "%" PRIu64 " min %02" PRIu64 " s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(buf, buf_bytes, "%" PRIu64 " h %02" PRIu64 " min", s / 3600, s / 60 % 60);
    else
        snprintf(buf, buf_bytes, "%" PRIu64 " d %02" PRIu64 " h", s / 86400, s / 3600 % 24);
}

static void format_ns(uint64_t ns, char *buf, size_t buf_bytes)
{
    if (ns < 1000)
        snprintf(buf, buf_bytes, "%" PRIu64 " ns", ns);
    else if (ns < 1000000)
        snprintf(buf, buf_bytes, "%.1f us", (double)ns / 1e3);
    else if (ns < 1000000000)
        snprintf(buf, buf_bytes, "%.1f ms", (double)ns / 1e6);
    else if (ns < 60000000000)
        snprintf(buf, buf_bytes, "%.1f s", (double)ns / 1e9);
    else
        format_ms(ns / 1000000, buf, buf_bytes);
}

/* Show a time of today as hour, minute and second, an earlier time as day, hour and minute. */
static void format_time(uint64_t ns, char *buf, size_t buf_bytes)
{
    time_t then = (time_t)(ns / 1000000000), now = time(NULL);
    struct tm tm, today;

    localtime_r(&then, &tm);
    localtime_r(&now, &today);
    if (tm.tm_yday == today.tm_yday && tm.tm_year == today.tm_year) {
        size_t used = strftime(buf, buf_bytes, "%H:%M:%S", &tm);

        snprintf(buf + used, buf_bytes - used, ".%03u", (unsigned)(ns / 1000000 % 1000));
    } else {
        strftime(buf, buf_bytes, "%Y-%m-%d %H:%M", &tm);
    }
}

void view_format_raw(const struct column *column, const void *row, char *buf, size_t buf_bytes)
{
    if (!field_present(column, row))
        buf[0] = '\0';
    else if (column->kind == FIELD_TEXT)
        snprintf(buf, buf_bytes, "%s", field_text(column, row));
    else if (column->kind == FIELD_ID)
        snprintf(buf, buf_bytes, "0x%" PRIx64, field_number(column, row));
    else if (column->kind == FIELD_BOOL)
        snprintf(buf, buf_bytes, "%s", field_number(column, row) ? "yes" : "no");
    else
        snprintf(buf, buf_bytes, "%" PRIu64, field_number(column, row));
}

void view_format(const struct column *column, const void *row, char *buf, size_t buf_bytes)
{
    uint64_t number;

    if (!field_present(column, row)) {
        snprintf(buf, buf_bytes, "-");
        return;
    }
    if (column->kind == FIELD_TEXT) {
        const char *text = field_text(column, row);

        snprintf(buf, buf_bytes, "%s", column->brief ? column->brief(text) : text);
        return;
    }
    number = field_number(column, row);
    switch (column->kind) {
    case FIELD_TEXT:
    case FIELD_COUNT:
    case FIELD_NUMBER:
        snprintf(buf, buf_bytes, "%" PRIu64, number);
        break;
    case FIELD_BYTES:
        format_bytes(number, buf, buf_bytes);
        break;
    case FIELD_NS:
        format_ns(number, buf, buf_bytes);
        break;
    case FIELD_MS:
        format_ms(number, buf, buf_bytes);
        break;
    case FIELD_BOOL:
        snprintf(buf, buf_bytes, "%s", number ? "yes" : "no");
        break;
    case FIELD_TIME:
        format_time(number, buf, buf_bytes);
        break;
    case FIELD_HEX:
    case FIELD_ID:
        snprintf(buf, buf_bytes, "0x%" PRIx64, number);
        break;
    }
}
