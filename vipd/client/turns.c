/* Turns of requests (turns.h). */
#include "vipd/client/turns.h"

#include <stdlib.h>

/* By so much a user may be ahead of the one who has spent least. */
#define AHEAD_MAX (TURNS_COST_MAX / 2)

struct turns_user {
    struct turns_user *next;
    uint32_t uid, refs;
    uint64_t spent;
    uint64_t look_ns;        /* last look with a request of the user */
    const void *first;       /* the client that comes first in this look, or NULL */
    const void *first_later; /* the same in the next one */
};

struct turns_user *turns_join(struct turns *turns, uint32_t uid)
{
    struct turns_user *user = turns->users;

    while (user && user->uid != uid)
        user = user->next;
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

    for (const struct turns_user *user = turns->users; user; user = user->next)
        if (user->look_ns == turns->look_ns && user->spent < least)
            least = user->spent;
    turns->least = least == UINT64_MAX ? 0 : least;
    turns->look_ns = now_ns;
    turns->cost = 0;
}

bool turns_may(struct turns *turns, struct turns_user *user, const void *client, bool served,
               uint64_t now_ns)
{
    if (turns->look_ns != now_ns)
        look_begin(turns, now_ns);
    if (user->look_ns != now_ns) {
        user->look_ns = now_ns;
        user->first = user->first_later;
        user->first_later = NULL;
        if (user->spent < turns->least) /* who asked for nothing has saved up nothing */
            user->spent = turns->least;
    }
    if (user->first && user->first != client)
        return false;
    user->first = NULL;
    if (turns->cost < TURNS_COST_MAX && (!turns->least || user->spent <= turns->least + AHEAD_MAX))
        return true;
    if (!user->first_later && !served)
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
