/* What happened; see history.h. */
#include "vipd/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vipd/log.h"

#define SAME_EVENT_NS 1000000000ull /* least time between two events of one error */

const char *history_kind_name(enum history_kind kind)
{
    static const char *const names[HISTORY_KINDS] = {
        [HISTORY_OPEN] = "open",       [HISTORY_CLOSE] = "close",
        [HISTORY_DIED] = "died",       [HISTORY_CONNECTED] = "connected",
        [HISTORY_REFUSED] = "refused", [HISTORY_CONN_ERROR] = "connect-failed",
        [HISTORY_ASYNC] = "error",     [HISTORY_ADMIN] = "admin",
    };

    return names[kind];
}

struct history *history_new(void)
{
    struct history *history = calloc(1, sizeof(*history));

    if (history)
        history->next = 1;
    return history;
}

void history_free(struct history *history)
{
    free(history);
}

/* The entry of this error: the existing one, a free one, or that with the oldest last time. */
static struct history_error *error_entry(struct history *history, enum history_kind kind,
                                         const char *key)
{
    struct history_error *oldest = &history->errors[0];

    for (uint32_t i = 0; i < history->error_count; i++) {
        struct history_error *error = &history->errors[i];

        if (error->last.kind == kind && strcmp(error->last.key, key) == 0)
            return error;
        if (error->last_ns < oldest->last_ns)
            oldest = error;
    }
    if (history->error_count < HISTORY_ERRORS)
        return &history->errors[history->error_count++];
    history->forgotten++;
    memset(oldest, 0, sizeof(*oldest));
    return oldest;
}

static void fill(struct history_event *event, uint64_t wall_ns, enum history_kind kind,
                 const struct history_who *who, const char *key, const char *text)
{
    event->time_ns = wall_ns;
    event->session = who->session;
    event->kind = kind;
    event->vi = who->vi;
    event->pid = who->pid;
    event->uid = who->uid;
    snprintf(event->program, sizeof(event->program), "%s", who->program ? who->program : "");
    snprintf(event->nic, sizeof(event->nic), "%s", who->nic ? who->nic : "");
    snprintf(event->key, sizeof(event->key), "%s", key);
    snprintf(event->text, sizeof(event->text), "%s", text ? text : "");
    vipd_log_clean(event->program);
    vipd_log_clean(event->text);
}

void history_note(struct history *history, uint64_t wall_ns, enum history_kind kind, bool is_error,
                  const struct history_who *who, const char *key, const char *text)
{
    struct history_event *event;

    if (!history)
        return;
    if (is_error) {
        struct history_error *error = error_entry(history, kind, key);
        bool again = error->count > 0 && error->last.session == who->session &&
                     wall_ns - error->noted_ns < SAME_EVENT_NS;

        if (error->count++ == 0)
            error->first_ns = wall_ns;
        error->last_ns = wall_ns;
        fill(&error->last, wall_ns, kind, who, key, text);
        if (again)
            return;
        error->noted_ns = wall_ns;
    }
    event = &history->events[history->next % HISTORY_EVENTS];
    fill(event, wall_ns, kind, who, key, text);
    event->number = history->next++;
}

const struct history_event *history_event_from(const struct history *history, uint64_t from)
{
    uint64_t oldest = history->next > HISTORY_EVENTS ? history->next - HISTORY_EVENTS : 1;

    if (from < oldest)
        from = oldest;
    return from < history->next ? &history->events[from % HISTORY_EVENTS] : NULL;
}
