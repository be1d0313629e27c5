/*
 * Turns of requests: which users' requests vipd serves in one look at the descriptors. If a look
 * has no time for all requests, each user gets an equal part of the cost, however many connections
 * the user has. The connections of one user take turns.
 *
 * Owns: the cost that each user has spent, and which client comes first in the next look. Does not
 * own: what a request costs. Only the control loop calls these functions.
 */
#ifndef VIPD_CLIENT_TURNS_H
#define VIPD_CLIENT_TURNS_H

#include <stdbool.h>
#include <stdint.h>

struct turns_user;

/* All zeros is a valid initial state. */
struct turns {
    struct turns_user *users;
    uint64_t look_ns; /* time of the current look */
    unsigned cost;    /* cost of the requests served in this look */
    /* several: the previous look left requests of more than one user unserved. least: the smallest
     * cost that any of these users has spent; `least` never decreases. */
    bool several;
    uint64_t least;
};

/* Limit of the cost of all requests in one look, before the NICs have their turn. A cheap request
 * costs 1 (some microseconds); a view of many rows may take milliseconds. */
#define TURNS_COST_MAX 64u

/* A connection of this user begins (join) or ends (leave). turns_join returns NULL if there is no
 * memory. */
struct turns_user *turns_join(struct turns *turns, uint32_t uid);
void turns_leave(struct turns *turns, struct turns_user *user);
/* Number of connections of this user. The time of the call grows with the number of users, not with
 * the number of connections. */
unsigned turns_connections(const struct turns *turns, uint32_t uid);

/*
 * May vipd serve a request of this client in the look at now_ns? If not, the request stays in its
 * socket. Each look asks for clients in about the same order. So the first client of a user that
 * was refused in a look comes before the user's other clients in the next look. served: this look
 * has already served a request of this client.
 */
bool turns_may(struct turns *turns, struct turns_user *user, const void *client, bool served,
               uint64_t now_ns);
void turns_spent(struct turns *turns, struct turns_user *user, unsigned cost);
/* The client sends no more requests, so other clients of its user need not wait for its turn. */
void turns_forget(struct turns_user *user, const void *client);

#endif
