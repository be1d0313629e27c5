/* Numbers with units as people write them in vipd.conf. */
#include "vipd/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Read decimal digits; *text moves to the first character after them. */
static int read_digits(const char **text, uint64_t *ret)
{
    const char *p = *text;
    uint64_t value = 0;

    if (*p < '0' || *p > '9')
        return -EINVAL;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
            return -ERANGE;
    }
    *text = p;
    *ret = value;
    return 0;
}

static bool unit_scale(const char *unit, uint64_t *ret)
{
    static const struct {
        const char *unit;
        uint64_t scale_ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].unit) == 0) {
            *ret = units[i].scale_ns;
            return true;
        }
    }
    return false;
}

int vipd_parse_duration(const char *text, uint64_t *ret_ns)
{
    uint64_t whole, value, scale, fraction = 0, divisor = 1;
    int r = read_digits(&text, &whole);

    if (r < 0)
        return r;
    if (*text == '.') {
        text++;
        if (*text < '0' || *text > '9')
            return -EINVAL;
        for (; *text >= '0' && *text <= '9'; text++) {
            if (divisor == 1000000000)
                return -EINVAL;
            fraction = fraction * 10 + (uint64_t)(*text - '0');
            divisor *= 10;
        }
    }
    if (*text == '\0' && whole == 0 && fraction == 0) {
        *ret_ns = 0;
        return 0;
    }
    if (!unit_scale(text, &scale))
        return -EINVAL;
    if (fraction * scale % divisor != 0)
        return -EINVAL; /* no whole number of nanoseconds */
    if (__builtin_mul_overflow(whole, scale, &value) ||
        __builtin_add_overflow(value, fraction * scale / divisor, &value))
        return -ERANGE;
    *ret_ns = value;
    return 0;
}

int vipd_parse_bytes(const char *text, uint64_t *ret_bytes)
{
    uint64_t value, scale = 1;
    int r = read_digits(&text, &value);

    if (r < 0)
        return r;
    if (*text == 'K')
        scale = 1ull << 10;
    else if (*text == 'M')
        scale = 1ull << 20;
    else if (*text == 'G')
        scale = 1ull << 30;
    if (scale != 1)
        text++;
    if (*text != '\0')
        return -EINVAL;
    if (__builtin_mul_overflow(value, scale, &value))
        return -ERANGE;
    *ret_bytes = value;
    return 0;
}

int vipd_parse_count(const char *text, uint64_t *ret)
{
    uint64_t value;
    int r = read_digits(&text, &value);

    if (r < 0)
        return r;
    if (*text != '\0')
        return -EINVAL;
    *ret = value;
    return 0;
}

int vipd_parse_mode(const char *text, uint64_t *ret)
{
    uint64_t value = 0;

    if (*text == '\0')
        return -EINVAL;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '7')
            return -EINVAL;
        value = value * 8 + (uint64_t)(*text - '0');
        if (value > 0777)
            return -ERANGE;
    }
    *ret = value;
    return 0;
}

int vipd_parse_bool(const char *text, bool *ret)
{
    static const char *const yes[] = {"yes", "true", "on", "1"};
    static const char *const no[] = {"no", "false", "off", "0"};

    for (size_t i = 0; i < 4; i++) {
        if (strcasecmp(text, yes[i]) == 0) {
            *ret = true;
            return 0;
        }
        if (strcasecmp(text, no[i]) == 0) {
            *ret = false;
            return 0;
        }
    }
    return -EINVAL;
}

void vipd_format_duration(uint64_t ns, char *buf, unsigned buf_bytes)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    unsigned u = 0;

    while (u < 3 && ns != 0 && ns % 1000 == 0) {
        ns /= 1000;
        u++;
    }
    snprintf(buf, buf_bytes, "%llu%s", (unsigned long long)ns, units[u]);
}

void vipd_format_bytes(uint64_t bytes, char *buf, unsigned buf_bytes)
{
    static const char *const units[] = {"", "K", "M", "G"};
    unsigned u = 0;

    while (u < 3 && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        u++;
    }
    snprintf(buf, buf_bytes, "%llu%s", (unsigned long long)bytes, units[u]);
}
