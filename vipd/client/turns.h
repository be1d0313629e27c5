/*
 * Turns of requests: whose are served in one look at the descriptors. If a look has no time for all
 * requests, users have equal parts of the cost. How many connections a user has does not matter;
 * they come one after the other.
 *
 * Owns: what each user has spent, who comes first in the next look. Does not own: what a request
 * costs. From the control loop only.
 */
#ifndef VIPD_CLIENT_TURNS_H
#define VIPD_CLIENT_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct turns_user;

/* Zeroed is a legal start. */
struct turns {
    struct turns_user *users;
    uint64_t look_ns; /* time of the current look */
    unsigned cost;    /* of the requests served in this look */
    /* Of the users that the look before did not serve wholly: are there several? What has that one
     * spent that has spent least? It never falls. */
    bool several;
    uint64_t least;
};

/* Limit of the cost of all requests in one look, before the NICs have their turn. A cheap request
 * costs 1 (some microseconds); a view of many rows may take milliseconds. */
#define TURNS_COST_MAX 64u

/* A connection of this user comes, or goes. join: NULL: no memory. */
struct turns_user *turns_join(struct turns *turns, uint32_t uid);
void turns_leave(struct turns *turns, struct turns_user *user);
/* Connections of this user. Its cost grows with the number of users, not with their connections. */
unsigned turns_connections(const struct turns *turns, uint32_t uid);

/*
 * May this client of the user have a request served in the look at now_ns? What is not served stays
 * readable. Clients come in about the same order in each look. So the first one of a user that
 * finds no room is the first of that user in the next look. served: it had one in this look.
 */
bool turns_may(struct turns *turns, struct turns_user *user, const void *client, bool served,
               uint64_t now_ns);
void turns_spent(struct turns *turns, struct turns_user *user, unsigned cost);
/* The client has no more requests: no other one waits for it. */
void turns_forget(struct turns_user *user, const void *client);

#endif
