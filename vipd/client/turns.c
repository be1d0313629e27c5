/* Turns of requests (turns.h). */
#include "vipd/client/turns.h"

#include <stdlib.h>

/* While several users have unserved requests: a user that has spent this much more cost than the
 * user that has spent least must wait. */
#define AHEAD_MAX (TURNS_COST_MAX / 2)

struct turns_user {
    struct turns_user *next;
    uint32_t uid, refs; /* refs: number of the user's connections */
    uint64_t spent;
    uint64_t look_ns;        /* time of the last look with a request of the user */
    uint64_t refused_ns;     /* time of the last look that left a request of the user unserved */
    const void *first;       /* the client that comes first in this look, or NULL */
    const void *first_later; /* the client that comes first in the next look, or NULL */
};

static struct turns_user *user_find(const struct turns *turns, uint32_t uid)
{
    struct turns_user *user = turns->users;

    while (user && user->uid != uid)
        user = user->next;
    return user;
}

unsigned turns_connections(const struct turns *turns, uint32_t uid)
{
    const struct turns_user *user = user_find(turns, uid);

    return user ? user->refs : 0;
}

struct turns_user *turns_join(struct turns *turns, uint32_t uid)
{
    struct turns_user *user = user_find(turns, uid);

    if (!user) {
        user = calloc(1, sizeof(*user));
        if (!user)
            return NULL;
        user->uid = uid;
        user->next = turns->users;
        turns->users = user;
    }
    user->refs++;
    return user;
}

void turns_leave(struct turns *turns, struct turns_user *user)
{
    struct turns_user **at = &turns->users;

    if (!user || --user->refs > 0)
        return;
    while (*at != user)
        at = &(*at)->next;
    *at = user->next;
    free(user);
}

static void look_begin(struct turns *turns, uint64_t now_ns)
{
    uint64_t least = UINT64_MAX;
    unsigned refused = 0;

    for (const struct turns_user *user = turns->users; user; user = user->next) {
        if (user->refused_ns != turns->look_ns)
            continue;
        refused++;
        if (user->spent < least)
            least = user->spent;
    }
    turns->several = refused > 1;
    if (refused > 0)
        turns->least = least;
    turns->look_ns = now_ns;
    turns->cost = 0;
}

static void user_begin(const struct turns *turns, struct turns_user *user)
{
    user->look_ns = turns->look_ns;
    user->first = user->first_later;
    user->first_later = NULL;
    /* A user that has sent no requests for a time has no advantage over other users afterwards. */
    if (user->spent < turns->least)
        user->spent = turns->least;
}

bool turns_may(struct turns *turns, struct turns_user *user, const void *client, bool served,
               uint64_t now_ns)
{
    if (turns->look_ns != now_ns)
        look_begin(turns, now_ns);
    if (user->look_ns != now_ns)
        user_begin(turns, user);
    if (user->first == client)
        user->first = NULL;
    if (!user->first && turns->cost < TURNS_COST_MAX &&
        (!turns->several || user->spent <= turns->least + AHEAD_MAX))
        return true;
    if (served) /* the client may have no other request */
        return false;
    user->refused_ns = now_ns;
    if (!user->first && !user->first_later)
        user->first_later = client;
    return false;
}

void turns_spent(struct turns *turns, struct turns_user *user, unsigned cost)
{
    turns->cost += cost;
    user->spent += cost;
}

void turns_forget(struct turns_user *user, const void *client)
{
    if (user->first == client)
        user->first = NULL;
    if (user->first_later == client)
        user->first_later = NULL;
}
