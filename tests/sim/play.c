#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/actor.h"

/* Time limit, after the faults, for one complete connection of every pair without an error. */
#define LIVENESS_NS (90 * WORLD_S)
/* Time after the last connection until no host may have a record of any connection. */
#define QUIET_NS (20 * WORLD_S)
/* Limit of the sum of all leaps of a host's clock. A host repeats a CLOSE for longer than this. */
#define LEAP_MAX_NS (10 * WORLD_S)
/* Longest time for which all hosts stop together. */
#define PAUSE_MAX_NS (12 * WORLD_S)
/* Longest cut of CHAOS_DARK. Such a short cut must break no connection. */
#define DARK_MAX_NS (900 * WORLD_MS)
/* After a longer leap or pause, requests and accepts that are under way may fail. */
#define LEAP_BEARABLE_NS (1500 * WORLD_MS)

/* Longest time between two lives of a vipd if its programs live on. */
#define RENEW_MAX_NS (3 * WORLD_S)
/* Most stores to shared memory until a vipd is killed. A turn with traffic makes about ten. */
#define KILL_STORES_MAX 500u

/* ---- hosts and sessions that come and go ----------------------------------------------- */

/* Open a session and create the VIs of its pairs. */
static void sess_begin(struct play *play, unsigned host, unsigned index)
{
    struct sess *sess = &play->sess[host][index];

    play->born_at_ns[host][index] = 0;
    sess_open(play, host, index);
    for (unsigned i = 0; i < play->plan.pairs; i++)
        for (unsigned side = 0; side < 2; side++) {
            struct end *end = &play->pair[i].end[side];

            if (end->sess != sess)
                continue;
            end_create(end, play->pair[i].level);
            end->at_ns = play_now(play) + chance_below(&play->chance, 100 * WORLD_MS);
        }
}

static void host_begin(struct play *play, unsigned host)
{
    play->down_until_ns[host] = 0;
    if (play->renewing[host]) {
        renew_end(play, host);
        return;
    }
    world_host_up(&play->world, host);
    for (unsigned i = 0; i < play->plan.sessions; i++)
        sess_begin(play, host, i);
}

static void host_end(struct play *play, unsigned host)
{
    for (unsigned i = 0; i < play->plan.sessions; i++)
        if (play->sess[host][i].alive)
            sess_close(&play->sess[host][i], true);
    world_host_down(&play->world, host);
}

/* ---- chaos ----------------------------------------------------------------------------- */

/* Record that now any connection of this host may end. */
static void attempts_of(struct play *play, unsigned host)
{
    for (struct attempt *attempt = play->attempts; attempt; attempt = attempt->next)
        if (attempt->pair->end[0].sess->host == host || attempt->pair->end[1].sess->host == host)
            attempt->may_end = true;
}

static void restart(struct play *play, unsigned host)
{
    if (play->down_until_ns[host])
        return;
    play->restarts++;
    play->world.host[host].mute = true;
    host_end(play, host);
    play->down_until_ns[host] = play_now(play) + magnitude(&play->chance, WORLD_MS, 6 * WORLD_S);
    attempts_of(play, host);
}

/* End a host's vipd and start the next one, so soon that connections can go on. */
static void renew(struct play *play, unsigned host)
{
    if (play->down_until_ns[host])
        return;
    play->renewals++;
    renew_begin(play, host);
    play->down_until_ns[host] = play_now(play) + magnitude(&play->extra, WORLD_MS, RENEW_MAX_NS);
}

static void kill_soon(struct play *play, unsigned host)
{
    if (!play->down_until_ns[host] && !play->world.host[host].kill_in)
        play->world.host[host].kill_in = (uint32_t)magnitude(&play->extra, 4, KILL_STORES_MAX);
}

static void hook_kill(void *ctx, unsigned host)
{
    kill_begin(ctx, host);
}

static void hook_killed(void *ctx, unsigned host)
{
    struct play *play = ctx;

    play->kills++;
    play->killed = true;
    renew_killed(play, host);
    play->down_until_ns[host] = play_now(play) + magnitude(&play->extra, WORLD_MS, RENEW_MAX_NS);
}

/* True if a vipd was killed since the last call. play_wants_ns then returns another time. */
static bool kill_seen(void *ctx)
{
    struct play *play = ctx;
    bool seen = play->killed;

    play->killed = false;
    return seen;
}

static void death(struct play *play, unsigned host)
{
    unsigned index = (unsigned)chance_below(&play->chance, play->plan.sessions);
    struct sess *sess = &play->sess[host][index];

    if (!sess->alive || play->renewing[host])
        return;
    play->deaths++;
    sess_close(sess, chance_below(&play->chance, 2));
    play->born_at_ns[host][index] =
        play_now(play) + magnitude(&play->chance, WORLD_MS, 3 * WORLD_S);
}

static void deregister(struct end *end, uint64_t dice)
{
    struct mem *mem[] = {&end->recv, &end->window, &end->landing, &end->source};

    if (!end->attempt || !mem[dice]->live)
        return;
    /* First judge everything that completed before the deregistration. */
    (void)sess_place(end->sess, true);
    (void)end_judge(end);
    if (end->pair->end[!end->side].exists)
        (void)end_judge(&end->pair->end[!end->side]);
    end->attempt->may_end = true;
    if (mem[dice] == &end->window)
        window_settle(end);
    mem_deregister(end->sess, mem[dice]);
}

static void stall_host(struct play *play, unsigned host)
{
    uint64_t ns = chance_between(&play->chance, WORLD_MS, 1500 * WORLD_MS);

    /* After two stalls (or a stall and a leap) in 5 s, other hosts would break connections. */
    if (play->stalled_ns[host] && play_now(play) < play->stalled_ns[host] + 5 * WORLD_S)
        return;
    play->stalled_ns[host] = play->world.host[host].stalled_until_ns = play_now(play) + ns;
}

static void set_mtu(struct play *play, unsigned host)
{
    static const uint32_t sizes[] = {512, 576, 1400, 1472, 4096, 9000};
    uint32_t bytes = sizes[chance_below(&play->chance, 6)];

    if (bytes > play->world.net.packet_bytes)
        bytes = play->world.net.packet_bytes;
    world_set_mtu(&play->world, host, bytes);
}

/* `ns` passed unnoticed by the host. Its connections survive, but attempts under way may fail. */
static void unseen(struct play *play, unsigned host, uint64_t ns, uint64_t end_ns)
{
    if (ns <= LEAP_BEARABLE_NS)
        return;
    play->leap_until_ns[host] = end_ns + PLAY_RECOVER_NS;
    for (struct attempt *attempt = play->attempts; attempt; attempt = attempt->next)
        if ((attempt->pair->end[0].sess->host == host ||
             attempt->pair->end[1].sess->host == host) &&
            (!attempt->up[0] || !attempt->up[1]))
            attempt->may_end = true;
}

/* The clock of a host leaps forward, as after a suspension of its machine. */
static void leap(struct play *play, unsigned host, uint64_t ns)
{
    if (play->leapt_ns[host] + ns > LEAP_MAX_NS ||
        (play->stalled_ns[host] && play_now(play) < play->stalled_ns[host] + 5 * WORLD_S))
        return;
    play->leapt_ns[host] += ns;
    play->stalled_ns[host] = play_now(play);
    world_leap(&play->world, host, ns);
    unseen(play, host, ns, play_now(play));
    /* The host forgets answered requests earlier, because its clock has leapt. */
    for (struct attempt *attempt = play->attempts; attempt; attempt = attempt->next)
        if (attempt->pair->end[1].sess->host == host)
            attempt->known_until_ns -= ns < attempt->known_until_ns ? ns : attempt->known_until_ns;
}

/* Stop all hosts: either all clocks leap (suspension), or no vipd gets processor time. */
static void pause_all(struct play *play)
{
    uint64_t ns = magnitude(&play->extra, WORLD_S, PAUSE_MAX_NS);

    if (chance_below(&play->extra, 2)) {
        for (unsigned host = 0; host < play->world.hosts; host++)
            leap(play, host, ns);
        return;
    }
    world_pause(&play->world, ns);
    for (unsigned host = 0; host < play->world.hosts; host++) {
        play->stalled_ns[host] = play_now(play) + ns;
        unseen(play, host, ns, play->stalled_ns[host]);
    }
}

/* Cut all paths (see draw_dark). The cut ends while all hosts stop, or soon after a leap. */
static void dark(struct play *play, uint64_t ns)
{
    for (unsigned a = 0; a < play->world.hosts; a++)
        for (unsigned b = 0; b < a; b++)
            world_cut(&play->world, a, b, true, ns);
    play->pause_next = true;
    play->chaos_next_ns = play_now(play) + ns / 4 * 3;
}

static void chaos_do(struct play *play, enum chaos kind)
{
    struct chance *chance = &play->chance;
    unsigned host = (unsigned)chance_below(chance, play->world.hosts);
    unsigned other = (unsigned)chance_below(chance, play->world.hosts);
    struct end *end = &play->pair[chance_below(chance, play->plan.pairs)].end[host % 2];
    uint64_t ns = magnitude(chance, WORLD_MS, 12 * WORLD_S);

    world_line(&play->world, LINE_FAULT, kind, host, other, 0, 0);
    switch (kind) {
    case CHAOS_CUT:
    case CHAOS_CUT_ONE_WAY:
        world_cut(&play->world, host, other, kind == CHAOS_CUT, ns);
        break;
    case CHAOS_MTU:
        if (!play->down_until_ns[host])
            set_mtu(play, host);
        break;
    case CHAOS_RESTART:
        restart(play, host);
        break;
    case CHAOS_DEATH:
        death(play, host);
        break;
    case CHAOS_STALL_APP:
        play->sess[host][0].stalled_until_ns = play_now(play) + ns / 4;
        break;
    case CHAOS_STALL_HOST:
        stall_host(play, host);
        break;
    case CHAOS_DEREGISTER:
        if (end->exists && !play->renewing[end->sess->host])
            deregister(end, chance_below(chance, 4));
        break;
    case CHAOS_DISCONNECT:
        if (end->exists && end->state == END_UP && !play->renewing[end->sess->host])
            end_disconnect(end);
        break;
    case CHAOS_CLOCK:
        leap(play, host, magnitude(&play->extra, WORLD_MS, LEAP_MAX_NS));
        break;
    case CHAOS_PAUSE:
        pause_all(play);
        break;
    case CHAOS_DARK:
        dark(play, chance_between(&play->extra, 400 * WORLD_MS, DARK_MAX_NS));
        break;
    case CHAOS_RENEW:
        renew(play, host);
        break;
    case CHAOS_KILL:
        kill_soon(play, host);
        break;
    case CHAOS_KINDS:
        break;
    }
}

/* Cause one fault, chosen by weight. */
static void chaos(struct play *play)
{
    uint64_t sum = 0, dice;

    play->chaos_next_ns =
        play_now(play) + chance_between(&play->chance, WORLD_MS, 2 * play->plan.chaos_gap_ns);
    if (play->pause_next) {
        play->pause_next = false;
        pause_all(play);
        return;
    }
    for (unsigned i = 0; i < CHAOS_KINDS; i++)
        sum += play->plan.chaos_ppm[i];
    if (!sum)
        return;
    dice = chance_below(&play->chance, sum);
    for (unsigned i = 0; i < CHAOS_KINDS; i++) {
        if (dice < play->plan.chaos_ppm[i]) {
            chaos_do(play, (enum chaos)i);
            return;
        }
        dice -= play->plan.chaos_ppm[i];
    }
}

/* Start the hosts and applications whose downtime is over (`all`: all hosts and applications). */
static void revive(struct play *play, bool all)
{
    for (unsigned host = 0; host < play->world.hosts; host++) {
        if (play->down_until_ns[host] && (all || play->down_until_ns[host] <= play_now(play)))
            host_begin(play, host);
        if (play->down_until_ns[host])
            continue;
        for (unsigned i = 0; i < play->plan.sessions; i++)
            if (play->born_at_ns[host][i] && (all || play->born_at_ns[host][i] <= play_now(play)))
                sess_begin(play, host, i);
    }
}

/* Time at which the next fault or restart is due. */
static uint64_t play_wants_ns(const struct play *play, uint64_t limit_ns)
{
    uint64_t at_ns = play->healed ? limit_ns : play->chaos_next_ns;

    for (unsigned host = 0; host < play->world.hosts; host++) {
        if (play->down_until_ns[host] && play->down_until_ns[host] < at_ns)
            at_ns = play->down_until_ns[host];
        for (unsigned i = 0; i < play->plan.sessions; i++)
            if (!play->down_until_ns[host] && play->born_at_ns[host][i] &&
                play->born_at_ns[host][i] < at_ns)
                at_ns = play->born_at_ns[host][i];
    }
    return at_ns < limit_ns ? at_ns : limit_ns;
}

/* End the faults; from now on every pair must get a connection without an error. */
static void heal(struct play *play)
{
    struct plan *plan = &play->plan;

    world_line(&play->world, LINE_HEAL, 0, 0, 0, 0, 0);
    play->healed = true;
    play->heal_ns = play_now(play);
    play->world.faults = false;
    play->world.net.bytes_per_s = 0;
    plan->bad_ppm = plan->early_ppm = plan->reject_ppm = plan->cancel_ppm = plan->starve_ppm = 0;
    revive(play, true);
    for (unsigned a = 0; a < play->world.hosts; a++) {
        play->world.host[a].kill_in = 0;
        play->world.host[a].stalled_until_ns = 0;
        play->world.host[a].due = true;
        for (unsigned i = 0; i < SESSIONS_MAX; i++)
            play->sess[a][i].stalled_until_ns = 0;
        if (!plan->clean)
            world_set_mtu(&play->world, a, play->world.net.packet_bytes);
        for (unsigned b = 0; b < play->world.hosts; b++)
            play->world.path[a][b].cut_until_ns = play->world.path[a][b].hole_bytes = 0;
    }
}

/* ---- a run ----------------------------------------------------------------------------- */

static bool hook_act(void *ctx, unsigned host)
{
    struct play *play = ctx;
    bool any = false;

    for (unsigned i = 0; i < play->plan.sessions && !play->down_until_ns[host]; i++)
        any = sess_act(&play->sess[host][i]) || any;
    return any;
}

static uint64_t hook_wants_ns(void *ctx, unsigned host)
{
    const struct play *play = ctx;
    uint64_t at_ns = WORLD_NEVER;

    for (unsigned i = 0; i < play->plan.sessions && !play->down_until_ns[host]; i++) {
        uint64_t sess_ns = sess_wants_ns(&play->sess[host][i]);

        at_ns = sess_ns < at_ns ? sess_ns : at_ns;
    }
    return at_ns;
}

static void hook_check(void *ctx)
{
    struct play *play = ctx;

    if (play->world.steps % 16 == 0) {
        peek_check(play);
        attempts_check(play);
    }
}

static bool all_done(void *ctx)
{
    const struct play *play = ctx;

    for (unsigned i = 0; i < play->plan.pairs; i++)
        if (!play->pair[i].after_heal || play->pair[i].end[0].state != END_IDLE ||
            play->pair[i].end[1].state != END_IDLE)
            return false;
    return true;
}

static void begin(struct play *play, FILE *trace)
{
    play->world.trace = trace;
    play->world.hooks = (struct world_hooks){.act = hook_act,
                                             .wants_ns = hook_wants_ns,
                                             .check = hook_check,
                                             .kill = hook_kill,
                                             .killed = hook_killed,
                                             .ctx = play};
    for (unsigned host = 0; host < play->world.hosts; host++)
        host_begin(play, host);
    play->chaos_next_ns = chance_below(&play->chance, play->plan.chaos_gap_ns);
}

/* Returns the first pair that is not done, for the error message. */
static const struct pair *pair_late(const struct play *play)
{
    for (unsigned i = 0; i < play->plan.pairs; i++)
        if (!play->pair[i].after_heal || play->pair[i].end[0].state != END_IDLE ||
            play->pair[i].end[1].state != END_IDLE)
            return &play->pair[i];
    return NULL;
}

/* Returns the time that a pair needs for all messages of its present and its next connection. A
 * sender can send one window of bytes per round trip, so a small window slows a long path. */
static uint64_t window_ns(const struct play *play)
{
    const struct world_net *net = &play->world.net;
    uint64_t bytes = 4ull * play->plan.total_max * play->plan.size_max;

    return bytes / net->window_bytes * 2 * (net->latency_ns + net->jitter_ns);
}

static void finish(struct play *play)
{
    const struct pair *late;
    uint64_t limit_ns = LIVENESS_NS + window_ns(play);

    heal(play);
    if (!world_run(&play->world, play_now(play) + play->world.net.dup_delay_ns + limit_ns,
                   all_done)) {
        late = pair_late(play);
        play_fail(play, "pair %u does not get on: states %u and %u, %u good connections",
                  late->number, late->end[0].state, late->end[1].state, late->after_heal);
    }
    if (play->plan.clean)
        peek_clean(play);
    (void)world_run(&play->world, play_now(play) + play->world.net.dup_delay_ns + QUIET_NS, NULL);
    peek_check(play);
    peek_quiet(play);
    for (unsigned host = 0; host < play->world.hosts; host++) {
        for (unsigned i = 0; i < play->plan.sessions; i++)
            sess_close(&play->sess[host][i], false);
        world_host_down(&play->world, host);
    }
    if (play->attempts)
        play_fail(play, "an attempt is left");
    if (play->world.verify_all && play->strangers && !play->world.cookies_sent)
        play_fail(play, "clients of other hosts were believed, and none was asked for a cookie");
}

struct play_result play_run(struct play *play, FILE *trace)
{
    struct play_result result;

    begin(play, trace);
    while (play_now(play) < play->plan.chaos_ns) {
        (void)world_run(&play->world, play_wants_ns(play, play->plan.chaos_ns), kill_seen);
        revive(play, false);
        if (play->chaos_next_ns <= play_now(play))
            chaos(play);
    }
    finish(play);
    result = (struct play_result){.hash = play->world.hash,
                                  .virtual_ns = play_now(play),
                                  .messages = play->messages,
                                  .connections = play->connections,
                                  .losses = play->losses,
                                  .restarts = play->restarts,
                                  .deaths = play->deaths,
                                  .renewals = play->renewals,
                                  .kills = play->kills,
                                  .rebound = play->world.rebound,
                                  .packets = play->world.packets,
                                  .steps = play->world.steps,
                                  .cookies = play->world.cookies_sent};
    world_deinit(&play->world);
    return result;
}

struct play_result play_seed(uint64_t seed, uint64_t chaos_ns, FILE *trace)
{
    struct play *play = malloc(sizeof(*play));
    struct play_result result;

    play_draw(play, seed, chaos_ns);
    result = play_run(play, trace);
    free(play);
    return result;
}
