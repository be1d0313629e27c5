/*
 * The format of faults in the configuration (vipd/link/link.h).
 *
 * Owns: "loss=1%,dup=0.1%,reorder=0.5%,corrupt=0.01%,delay=50us,jitter=10us,blackhole,seed=42".
 * This file reads decimal numbers without strtod, because strtod depends on the locale.
 */
#include "vipd/link/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Longest delay, 60 s: a longer delay probably has a wrong unit. */
#define DELAY_NS_MAX 60e9

/* One "name=value" between commas; name and value are not zero-terminated. */
struct word {
    const char *name;
    size_t name_len;
    const char *value; /* NULL if there is no "=" */
    size_t value_len;
};

/* Parse a number (digits with an optional point) at the start of text. Returns the number of
 * characters; 0 if the text does not begin with a number. */
static size_t parse_decimal(const char *text, size_t len, double *ret)
{
    double value = 0, scale = 1;
    size_t i, digits = 0;
    bool point = false;

    for (i = 0; i < len; i++) {
        if (text[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (text[i] < '0' || text[i] > '9')
            break;
        digits++;
        value = value * 10 + (text[i] - '0');
        if (point)
            scale *= 10;
    }
    *ret = value / scale;
    return digits > 0 ? i : 0;
}

static bool rest_is(const struct word *word, size_t at, const char *text)
{
    return word->value_len - at == strlen(text) &&
           memcmp(word->value + at, text, word->value_len - at) == 0;
}

/* Parse "1%" or "0.01". Returns false if the value is no probability. */
static bool parse_probability(const struct word *word, double *ret)
{
    double value;
    size_t n = parse_decimal(word->value, word->value_len, &value);

    if (n == 0)
        return false;
    if (rest_is(word, n, "%"))
        value /= 100;
    else if (!rest_is(word, n, ""))
        return false;
    if (value > 1)
        return false;
    *ret = value;
    return true;
}

/* Parse a time such as "50us"; 0 needs no unit. Returns false if the value is no such time. */
static bool parse_duration(const struct word *word, uint64_t *ret_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    double value;
    size_t n = parse_decimal(word->value, word->value_len, &value);

    if (n == 0)
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!rest_is(word, n, units[i].name))
            continue;
        if (value * units[i].ns > DELAY_NS_MAX)
            return false;
        *ret_ns = (uint64_t)(value * units[i].ns + 0.5);
        return true;
    }
    if (!rest_is(word, n, "") || value != 0)
        return false;
    *ret_ns = 0;
    return true;
}

static bool parse_seed(const struct word *word, uint64_t *ret)
{
    uint64_t value = 0;

    if (word->value_len == 0)
        return false;
    for (size_t i = 0; i < word->value_len; i++) {
        char c = word->value[i];

        if (c < '0' || c > '9' || value > (UINT64_MAX - (uint64_t)(c - '0')) / 10)
            return false;
        value = value * 10 + (uint64_t)(c - '0');
    }
    *ret = value;
    return true;
}

/* Set the fault that the word names. Outcomes: NULL: the fault is set; else a text that says what
 * was expected. */
static const char *parse_word(const struct word *word, struct link_faults *faults)
{
    static const char probability[] = "a probability such as 1% or 0.01";
    static const char duration[] = "a time such as 50us, 2ms or 1s, at most 60s";
    const struct {
        const char *name;
        double *probability;
        uint64_t *duration;
        uint64_t *seed;
        bool *flag;
    } names[] = {
        {.name = "loss", .probability = &faults->loss},
        {.name = "dup", .probability = &faults->dup},
        {.name = "reorder", .probability = &faults->reorder},
        {.name = "corrupt", .probability = &faults->corrupt},
        {.name = "delay", .duration = &faults->delay_ns},
        {.name = "jitter", .duration = &faults->jitter_ns},
        {.name = "seed", .seed = &faults->seed},
        {.name = "blackhole", .flag = &faults->blackhole},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i].name) != word->name_len ||
            memcmp(names[i].name, word->name, word->name_len) != 0)
            continue;
        if (names[i].flag) {
            if (word->value)
                return "blackhole without a value";
            *names[i].flag = true;
            return NULL;
        }
        if (names[i].probability)
            return word->value && parse_probability(word, names[i].probability) ? NULL
                                                                                : probability;
        if (names[i].duration)
            return word->value && parse_duration(word, names[i].duration) ? NULL : duration;
        return word->value && parse_seed(word, names[i].seed) ? NULL : "a whole number as seed";
    }
    return "one of loss, dup, reorder, corrupt, delay, jitter, blackhole, seed";
}

int link_faults_parse(const char *text, struct link_faults *ret, char *err, size_t err_bytes)
{
    struct link_faults faults = {.seed = 1};

    while (*text) {
        size_t len = strcspn(text, ",");
        size_t first = strspn(text, " \t"), end = len;
        const char *wanted = NULL;

        first = first < len ? first : len;
        while (end > first && (text[end - 1] == ' ' || text[end - 1] == '\t'))
            end--;
        if (end > first) {
            const char *equals = memchr(text + first, '=', end - first);
            struct word word = {.name = text + first, .name_len = end - first};

            if (equals) {
                word.name_len = (size_t)(equals - word.name);
                word.value = equals + 1;
                word.value_len = (size_t)(text + end - word.value);
            }
            wanted = parse_word(&word, &faults);
        }
        if (wanted) {
            if (err && err_bytes > 0)
                snprintf(err, err_bytes, "\"%.*s\" in faults is not understood; expected %s",
                         (int)(end - first < 64 ? end - first : 64), text + first, wanted);
            return -EINVAL;
        }
        text += len + (text[len] == ',');
    }
    *ret = faults;
    return 0;
}
