/* Log lines of vipd. */
#include "vipd/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/line.h"

#define LINE_BYTES_MAX 1024

#define LIMIT_BURST     20u           /* so many lines may come at once */
#define LIMIT_REFILL_NS 1000000000ull /* after this time one more line may come */

static enum vipd_log_level threshold = VIPD_LOG_INFO;

void vipd_log_set_level(enum vipd_log_level level)
{
    threshold = level;
}

bool vipd_log_level_parse(const char *word, enum vipd_log_level *ret)
{
    static const struct {
        const char *word;
        enum vipd_log_level level;
    } levels[] = {{"error", VIPD_LOG_ERROR},
                  {"warning", VIPD_LOG_WARNING},
                  {"info", VIPD_LOG_INFO},
                  {"debug", VIPD_LOG_DEBUG}};

    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (strcmp(word, levels[i].word) == 0) {
            *ret = levels[i].level;
            return true;
        }
    }
    return false;
}

const char *vipd_log_level_name(enum vipd_log_level level)
{
    switch (level) {
    case VIPD_LOG_ERROR:
        return "error";
    case VIPD_LOG_WARNING:
        return "warning";
    case VIPD_LOG_INFO:
        return "info";
    case VIPD_LOG_DEBUG:
        return "debug";
    }
    return "?";
}

static void write_line(enum vipd_log_level level, const char *format, va_list args)
{
    static atomic_int journal = -1; /* -1: environment not read yet */
    char line[LINE_BYTES_MAX];
    size_t used;
    int n;

    if (level > threshold)
        return;
    if (journal < 0)
        journal = getenv("JOURNAL_STREAM") != NULL;
    if (journal)
        n = snprintf(line, sizeof(line), "<%d>", (int)level);
    else
        n = snprintf(line, sizeof(line), "vipd: %s: ", vipd_log_level_name(level));
    used = (size_t)n;
    n = vsnprintf(line + used, sizeof(line) - used, format, args);
    if (n > 0)
        used = used + (size_t)n < sizeof(line) ? used + (size_t)n : sizeof(line) - 1;
    line[used < sizeof(line) - 1 ? used++ : used] = '\n';
    vip_line_write(line, used);
}

void vipd_log(enum vipd_log_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
}

bool vipd_log_allow(struct vipd_log_limit *limit, uint64_t now_ns, uint64_t *ret_suppressed)
{
    /* Engine threads read the clock at different times: refilled_ns may be later than now_ns. */
    uint64_t since_ns = now_ns > limit->refilled_ns ? now_ns - limit->refilled_ns : 0;
    uint64_t earned = since_ns / LIMIT_REFILL_NS;

    if (earned > 0) {
        limit->used = earned >= limit->used ? 0 : limit->used - (uint32_t)earned;
        limit->refilled_ns += earned * LIMIT_REFILL_NS;
    }
    if (limit->used >= LIMIT_BURST) {
        limit->suppressed++;
        return false;
    }
    limit->used++;
    *ret_suppressed = limit->suppressed;
    limit->suppressed = 0;
    return true;
}

void vipd_log_limited(struct vipd_log_limit *limit, uint64_t now_ns, enum vipd_log_level level,
                      const char *format, ...)
{
    uint64_t suppressed;
    va_list args;

    if (level > threshold || !vipd_log_allow(limit, now_ns, &suppressed))
        return;
    if (suppressed > 0)
        vipd_log(VIPD_LOG_WARNING, "%llu lines about clients left out",
                 (unsigned long long)suppressed);
    va_start(args, format);
    write_line(level, format, args);
    va_end(args);
}

void vipd_log_clean(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
            *text = '?';
    }
}
