/* Records of events and errors; see history.h. */
#include "vipd/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "vipd/log.h"

#define SAME_EVENT_NS 1000000000ull /* least time between two events of the same error */

const char *history_kind_name(enum history_kind kind)
{
    static const char *const names[HISTORY_KINDS] = {
        [HISTORY_OPEN] = "open",         [HISTORY_CLOSE] = "close",
        [HISTORY_DIED] = "died",         [HISTORY_CONNECTED] = "connected",
        [HISTORY_REFUSED] = "refused",   [HISTORY_CONN_ERROR] = "connect-failed",
        [HISTORY_ASYNC] = "error",       [HISTORY_ADMIN] = "admin",
        [HISTORY_RETURNED] = "returned",
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

/* Find or add the entry of this user. */
static struct history_user *user_get(struct history *history, uid_t uid)
{
    struct history_user *user = history->users;

    while (user < &history->users[history->user_count] && user->uid != uid)
        user++;
    if (user == &history->users[history->user_count]) {
        VIP_ASSERT(history->user_count < HISTORY_USERS);
        history->user_count++;
        *user = (struct history_user){.uid = uid};
    }
    return user;
}

static uint32_t count_of(const struct history_user *user, bool errors)
{
    return errors ? user->errors : user->events;
}

/*
 * Choose the user that loses its oldest event (or error), so that `own` can have a new one. This is
 * `own`, unless another user has more events (or errors) than `own` with the new one.
 */
static struct history_user *user_with_most(struct history *history, struct history_user *own,
                                           bool errors)
{
    struct history_user *most = own;
    uint32_t most_count = count_of(own, errors);

    if (most_count > 0) /* without one, `own` has nothing to lose */
        most_count++;   /* the new one counts, too */
    for (uint32_t i = 0; i < history->user_count; i++) {
        struct history_user *user = &history->users[i];

        if (count_of(user, errors) > most_count) {
            most = user;
            most_count = count_of(user, errors);
        }
    }
    return most;
}

/* Remove the entry of a user without events and errors. Another user's entry may take its place. */
static void user_settle(struct history *history, struct history_user *user)
{
    if (user->events == 0 && user->errors == 0)
        *user = history->users[--history->user_count];
}

/* Find the entry of this error. If it has none, take a free entry, or else the oldest error's entry
 * of the user that has most errors. */
static struct history_error *error_entry(struct history *history, uid_t uid, enum history_kind kind,
                                         const char *key)
{
    struct history_error *oldest = NULL;
    struct history_user *own, *most;

    for (uint32_t i = 0; i < history->error_count; i++) {
        struct history_error *error = &history->errors[i];

        if (error->last.uid == uid && error->last.kind == kind && strcmp(error->last.key, key) == 0)
            return error;
    }
    own = user_get(history, uid);
    if (history->error_count < HISTORY_ERRORS) {
        own->errors++;
        return &history->errors[history->error_count++];
    }
    most = user_with_most(history, own, true);
    for (uint32_t i = 0; i < history->error_count; i++) {
        struct history_error *error = &history->errors[i];

        if (error->last.uid == most->uid && (!oldest || error->last_ns < oldest->last_ns))
            oldest = error;
    }
    VIP_ASSERT(oldest);
    own->errors++;
    most->errors--;
    user_settle(history, most);
    history->forgotten++;
    memset(oldest, 0, sizeof(*oldest));
    return oldest;
}

/* Remove the oldest event of this user. Returns its index in history->events. */
static uint32_t event_drop(struct history *history, struct history_user *user)
{
    struct history_place *place = history->places;
    uint32_t at;

    while (place->uid != user->uid)
        place++;
    at = place->at;
    history->event_count--;
    memmove(place, place + 1,
            (size_t)(&history->places[history->event_count] - place) * sizeof(*place));
    user->events--;
    user_settle(history, user);
    return at;
}

/* Make the entry of the next event; the caller fills it in. */
static struct history_event *event_new(struct history *history, uid_t uid)
{
    struct history_user *own = user_get(history, uid), *most = NULL;
    uint32_t at = history->event_count;

    if (history->event_count == HISTORY_EVENTS)
        most = user_with_most(history, own, false);
    own->events++;
    if (most)
        at = event_drop(history, most);
    history->places[history->event_count++] =
        (struct history_place){.number = history->next, .uid = uid, .at = at};
    history->events[at].number = history->next++;
    return &history->events[at];
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
    if (!history)
        return;
    if (is_error) {
        struct history_error *error = error_entry(history, who->uid, kind, key);
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
    fill(event_new(history, who->uid), wall_ns, kind, who, key, text);
}

const struct history_event *history_event_from(const struct history *history, uint64_t from)
{
    uint32_t low = 0, high = history->event_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (history->places[middle].number < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low < history->event_count ? &history->events[history->places[low].at] : NULL;
}
