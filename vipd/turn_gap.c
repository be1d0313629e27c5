/* The time between two turns; see turn_gap.h. */
#include "vipd/turn_gap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void sample(const struct gap *gap, uint64_t now_ns, struct gap_sample *ret)
{
    char text[96], *end;
    struct rusage usage;
    ssize_t n = gap->account >= 0 ? pread(gap->account, text, sizeof(text) - 1, 0) : -1;

    *ret = (struct gap_sample){.at_ns = now_ns};
    if (n <= 0 || getrusage(RUSAGE_THREAD, &usage) < 0)
        return;
    text[n] = '\0';
    ret->cpu_ns = strtoull(text, &end, 10);
    ret->wait_ns = strtoull(end, NULL, 10);
    ret->voluntary = (uint64_t)usage.ru_nvcsw;
    ret->involuntary = (uint64_t)usage.ru_nivcsw;
    ret->known = true;
}

void gap_begin(struct gap *gap, uint64_t now_ns)
{
    gap_deinit(gap);
    gap->from_ns = now_ns;
    gap->requests_ns = 0;
    /* The descriptor is never 0, which is standard input. So account 0 means a zeroed struct. */
    gap->account = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    sample(gap, now_ns, &gap->last);
}

void gap_deinit(struct gap *gap)
{
    if (gap->account > 0)
        close(gap->account);
    gap->account = -1;
}

void gap_look(struct gap *gap, uint64_t now_ns)
{
    if (now_ns - gap->last.at_ns >= GAP_SAMPLE_NS)
        sample(gap, now_ns, &gap->last);
}

void gap_slept(struct gap *gap, uint64_t due_ns, uint64_t now_ns)
{
    struct gap_sample now;
    uint64_t waited_ns;

    gap->from_ns = due_ns < now_ns ? due_ns : now_ns;
    gap->requests_ns = 0;
    if (now_ns - gap->last.at_ns < GAP_SAMPLE_NS)
        return;
    sample(gap, now_ns, &now);
    waited_ns = now.known && gap->last.known ? now.wait_ns - gap->last.wait_ns : 0;
    if (waited_ns >= GAP_SAMPLE_NS && waited_ns < now_ns && now_ns - waited_ns < gap->from_ns)
        gap->from_ns = now_ns - waited_ns;
    /* After a long gap keep the old account: gap_tell needs the account from before the gap. */
    if (now_ns - gap->from_ns < GAP_SAMPLE_NS)
        gap->last = now;
}

static unsigned long long ms(uint64_t ns)
{
    return (unsigned long long)(ns / 1000000);
}

void gap_reason(uint64_t gap_ns, uint64_t requests_ns, const struct gap_sample *before,
                const struct gap_sample *after, char *buf, size_t buf_bytes)
{
    int n = snprintf(buf, buf_bytes, "no messages were moved for %llu ms", ms(gap_ns));

    if (requests_ns >= gap_ns / 2 && n >= 0 && (size_t)n < buf_bytes)
        n += snprintf(buf + n, buf_bytes - (size_t)n,
                      ", of which requests of programs took %llu ms", ms(requests_ns));
    if (n < 0 || (size_t)n >= buf_bytes)
        return;
    if (!before->known || !after->known) {
        (void)snprintf(buf + n, buf_bytes - (size_t)n, "; the kernel does not say why");
        return;
    }
    n += snprintf(buf + n, buf_bytes - (size_t)n,
                  "; in the last %llu ms the thread had %llu ms of processor time, waited %llu ms "
                  "for a processor, gave it away %llu times and lost it %llu times",
                  ms(after->at_ns - before->at_ns), ms(after->cpu_ns - before->cpu_ns),
                  ms(after->wait_ns - before->wait_ns),
                  (unsigned long long)(after->voluntary - before->voluntary),
                  (unsigned long long)(after->involuntary - before->involuntary));
    if (after->cpu_ns - before->cpu_ns + after->wait_ns - before->wait_ns < gap_ns / 2 &&
        (size_t)n < buf_bytes)
        (void)snprintf(buf + n, buf_bytes - (size_t)n,
                       "; so it was stopped, or the computer was, or a system call took long");
}

void gap_tell(struct gap *gap, uint64_t gap_ns, uint64_t now_ns)
{
    struct gap_sample now;
    char text[400];

    sample(gap, now_ns, &now);
    gap_reason(gap_ns, gap->requests_ns, &gap->last, &now, text, sizeof(text));
    vipd_log_limited(&gap->limit, now_ns, VIPD_LOG_WARNING, "%s", text);
    gap->last = now;
}
