/*
 * Peer-to-peer connections (VipConnectPeerRequest): both ends of a pair send a request. Its number,
 * the claim, is its private data. Two requests make one attempt; no request may get two partners.
 */
#include <inttypes.h>
#include <string.h>

#include "tests/sim/actor.h"

static struct vip_addr meet_addr(const struct end *end)
{
    uint8_t disc[3] = {0xfc, (uint8_t)end->pair->number, (uint8_t)end->side};

    return end_address(end->sess->host, disc, sizeof(disc));
}

void meet_request(struct end *end)
{
    struct pair *pair = end->pair;
    struct play *play = pair->play;
    struct nic_connect_args args = {
        .local = meet_addr(end),
        .remote = meet_addr(&pair->end[!end->side]),
        .timeout_ns = chance_between(&play->extra, 200 * WORLD_MS, 8 * WORLD_S),
        .peer_to_peer = true,
        .data = {.len = sizeof(end->claim)},
    };
    char why[128] = "";

    end->claim = ++play->next_attempt;
    memcpy(args.data.bytes, &end->claim, sizeof(end->claim));
    if (chance_ppm(&play->extra, 200000))
        args.timeout_ns = UINT64_MAX;
    world_line(&play->world, LINE_REQUEST, pair->number, end->claim, 0, 0, 0);
    end->state = END_CONNECTING;
    end->at_ns = WORLD_NEVER;
    if (chance_ppm(&play->extra, play->plan.cancel_ppm))
        end->at_ns = play_now(play) + chance_below(&play->extra, 100 * WORLD_MS);
    if (nic_connect(end->sess->nic, end->vi, &args, sess_now(end->sess), why, sizeof(why)) !=
        VIP_RC_SUCCESS)
        play_fail(play, "nic_connect: %s", why);
    play->world.host[end->sess->host].due = true;
}

/* Returns the attempt with both claims. An attempt with one of them must have a reason to end. */
static struct attempt *meet_find(struct end *end, uint64_t theirs)
{
    struct play *play = end->pair->play;
    struct attempt *attempt = play->attempts;

    for (; attempt; attempt = attempt->next) {
        if (attempt->pair != end->pair)
            continue;
        if (attempt->claim[end->side] == end->claim && attempt->claim[!end->side] == theirs)
            return attempt;
        if ((attempt->claim[end->side] == end->claim || attempt->claim[!end->side] == theirs) &&
            !attempt->may_end)
            play_fail(play, "pair %u: a peer-to-peer request has met two others",
                      end->pair->number);
    }
    return NULL;
}

static struct attempt *meet_new(struct end *end, uint64_t theirs)
{
    struct end *other = &end->pair->end[!end->side];
    struct attempt *attempt = attempt_new(end->pair);

    attempt->claim[end->side] = end->claim;
    attempt->claim[other->side] = theirs;
    attempt->flow[end->side].recv_base = other->done[VIP_Q_RECV];
    /* Perhaps the other end has given up its request in the meantime. */
    if (!other->exists || other->claim != theirs || other->attempt)
        attempt_over(attempt, other->side);
    return attempt;
}

void meet_connected(struct end *end, const struct vip_private *data)
{
    struct play *play = end->pair->play;
    struct attempt *attempt;
    uint64_t theirs;

    if (!end->claim || end->attempt || end->state != END_CONNECTING)
        play_fail(play, "pair %u: side %u is connected and did not ask", end->pair->number,
                  end->side);
    if (!data || data->len != sizeof(theirs))
        play_fail(play, "pair %u: private data of the other peer", end->pair->number);
    memcpy(&theirs, data->bytes, sizeof(theirs));
    attempt = meet_find(end, theirs);
    if (!attempt)
        attempt = meet_new(end, theirs);
    if (attempt->up[end->side])
        play_fail(play, "pair %u: side %u is connected twice", end->pair->number, end->side);
    end_attach(end, attempt);
    attempt->up[end->side] = true;
    play->connections += attempt->up[!end->side];
}

void meet_abandon(struct end *end)
{
    struct attempt *attempt = end->pair->play->attempts, *next;
    uint64_t claim = end->claim;

    end->claim = 0;
    for (; claim && attempt; attempt = next) {
        next = attempt->next;
        if (attempt->pair != end->pair || attempt->claim[end->side] != claim ||
            attempt->attached[end->side])
            continue;
        if (!attempt->over[end->side])
            attempt_over(attempt, end->side);
        attempt_drop(attempt);
    }
}

/* An end expects a report if its claim is in the attempt, but the end has no attempt yet. */
bool meet_expects(const struct attempt *attempt)
{
    const struct pair *pair = attempt->pair;

    for (unsigned side = 0; side < 2; side++)
        if (pair->end[side].exists && attempt->claim[side] &&
            pair->end[side].claim == attempt->claim[side] && !pair->end[side].attempt)
            return true;
    return false;
}
