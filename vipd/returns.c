/* What became of the connections of an earlier life of vipd; see returns.h. */
#include "vipd/returns.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/assert.h"
#include "vipd/daemon.h"
#include "vipd/history.h"

/* Least time from the return of the first program to the report. While connections still wait, vipd
 * then checks again after this time. */
#define SETTLE_NS 1000000000ull

/* The caller has the mutex vipd->shared. */
static void count(struct returns *returns, bool handle, const char *why)
{
    for (unsigned i = 0; i < RETURN_REASONS; i++) {
        struct return_reason *reason = &returns->reason[i];

        if (reason->count == 0) {
            reason->handle = handle;
            snprintf(reason->text, sizeof(reason->text), "%s", why);
        } else if (reason->handle != handle ||
                   strncmp(reason->text, why, sizeof(reason->text) - 1) != 0) {
            continue;
        }
        reason->count++;
        return;
    }
    returns->other++;
}

static void add_text(char *text, size_t bytes, const char *more)
{
    size_t used = strlen(text);

    snprintf(text + used, bytes - used, "%s", more);
}

/* Add the reasons of one kind: ": 2 because the other end did not answer, 1 because ...". */
static void add_reasons(const struct returns *returns, bool handle, char *text, size_t bytes)
{
    const char *before = ": ";
    char one[RETURN_TEXT_BYTES + 32];

    for (unsigned i = 0; i < RETURN_REASONS && returns->reason[i].count > 0; i++) {
        if (returns->reason[i].handle != handle)
            continue;
        snprintf(one, sizeof(one), "%s%llu because %s", before,
                 (unsigned long long)returns->reason[i].count, returns->reason[i].text);
        add_text(text, bytes, one);
        before = ", ";
    }
}

static uint64_t sum(const struct returns *returns, bool handle)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < RETURN_REASONS; i++)
        count += returns->reason[i].handle == handle ? returns->reason[i].count : 0;
    return count;
}

static void describe(const struct returns *returns, char *text, size_t bytes)
{
    uint64_t lost = sum(returns, false), refused = sum(returns, true);
    char one[96];

    snprintf(text, bytes, "%llu connections of an earlier vipd came back, %llu did not",
             (unsigned long long)returns->back, (unsigned long long)lost);
    add_reasons(returns, false, text, bytes);
    if (returns->waiting > 0) {
        snprintf(one, sizeof(one), "; %llu still wait", (unsigned long long)returns->waiting);
        add_text(text, bytes, one);
    }
    if (refused > 0) {
        snprintf(one, sizeof(one), "; %llu NIC handles were refused", (unsigned long long)refused);
        add_text(text, bytes, one);
        add_reasons(returns, true, text, bytes);
    }
    if (returns->other > 0) {
        snprintf(one, sizeof(one), "; %llu more for other reasons",
                 (unsigned long long)returns->other);
        add_text(text, bytes, one);
    }
}

/* times = 1: end of the grace time in which programs may come back. times = 2: end of the time for
 * the rebinds that programs have begun in the grace time. */
static uint64_t end_ns(const struct vipd *vipd, unsigned times)
{
    return vipd->started_ns + times * vipd->config->outlive_ns;
}

static void on_timer(void *ctx)
{
    struct vipd *vipd = ctx;
    struct returns *returns = &vipd->returns;
    struct history_who who = {.vi = HISTORY_NO_VI, .uid = geteuid(), .program = "vipd"};
    uint64_t now_ns = vipd_loop_now(vipd->loop);
    char text[1024];

    pthread_mutex_lock(&vipd->shared);
    if (returns->waiting > 0 && now_ns < end_ns(vipd, 2) + SETTLE_NS) {
        pthread_mutex_unlock(&vipd->shared);
        vipd_timer_start(returns->timer, SETTLE_NS);
        return;
    }
    returns->told = true;
    describe(returns, text, sizeof(text));
    vipd_log_clean(text);
    history_note(vipd->history, vipd_wall_now(), HISTORY_RETURNED, false, &who, "rebind", text);
    pthread_mutex_unlock(&vipd->shared);
    vipd_info("%s", text);
}

void return_begin(struct vipd *vipd)
{
    struct returns *returns = &vipd->returns;
    uint64_t now_ns = vipd_loop_now(vipd->loop), at_ns = end_ns(vipd, 1);

    if (returns->timer || returns->told)
        return;
    returns->timer = vipd_timer_new(vipd->loop, on_timer, vipd);
    if (returns->timer)
        vipd_timer_start(returns->timer, at_ns > now_ns + SETTLE_NS ? at_ns - now_ns : SETTLE_NS);
}

void return_refused(struct vipd *vipd, const char *why)
{
    return_begin(vipd);
    pthread_mutex_lock(&vipd->shared);
    count(&vipd->returns, true, why);
    pthread_mutex_unlock(&vipd->shared);
}

void return_later(struct vipd *vipd, const char *why)
{
    struct returns *returns = &vipd->returns;

    for (unsigned i = 0; i < RETURN_LATERS; i++) {
        char *later = returns->later[i];

        if (strncmp(later, why, RETURN_TEXT_BYTES - 1) == 0)
            return;
        if (later[0] != '\0')
            continue;
        snprintf(later, RETURN_TEXT_BYTES, "%s", why);
        vipd_warning("programs of an earlier vipd must wait: %s", why);
        return;
    }
}

void return_waits(struct vipd *vipd)
{
    pthread_mutex_lock(&vipd->shared);
    vipd->returns.waiting++;
    pthread_mutex_unlock(&vipd->shared);
}

void return_ended(struct vipd *vipd, const char *why)
{
    pthread_mutex_lock(&vipd->shared);
    VIP_ASSERT(vipd->returns.waiting > 0);
    vipd->returns.waiting--;
    if (why)
        count(&vipd->returns, false, why);
    else
        vipd->returns.back++;
    pthread_mutex_unlock(&vipd->shared);
}

void return_lost(struct vipd *vipd, const char *why)
{
    pthread_mutex_lock(&vipd->shared);
    count(&vipd->returns, false, why);
    pthread_mutex_unlock(&vipd->shared);
}

void returns_deinit(struct vipd *vipd)
{
    vipd_timer_free(vipd->returns.timer);
    vipd->returns.timer = NULL;
}
