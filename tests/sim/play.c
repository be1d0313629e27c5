#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/actor.h"

/* After the faults every pair must have one whole good connection within this time. */
#define LIVENESS_NS (90 * WORLD_S)
/* When the last pair is done, everything that remembers something has forgotten it after this. */
#define QUIET_NS (20 * WORLD_S)
/* A host's clock leaps by so much in all: less than the time for which a CLOSE is repeated. */
#define LEAP_MAX_NS (10 * WORLD_S)
/* All hosts stand still together for at most this long. */
#define PAUSE_MAX_NS (12 * WORLD_S)
/* Nothing passes for at most this long before all hosts stand still: no connection may break of it. */
#define DARK_MAX_NS (900 * WORLD_MS)
/* After a leap or a pause that is longer, requests and accepts that are under way may fail. */
#define LEAP_BEARABLE_NS (1500 * WORLD_MS)

/* What happens in the middle of a run; the weights are drawn per seed. */
enum chaos {
    CHAOS_CUT = 0,     /* nothing passes between two hosts */
    CHAOS_CUT_ONE_WAY, /* likewise, in one direction */
    CHAOS_MTU,
    CHAOS_RESTART, /* a host crashes; its vipd comes back in a new life */
    CHAOS_DEATH,   /* an application dies, or closes its NIC in good order */
    CHAOS_STALL_APP,
    CHAOS_STALL_HOST,
    CHAOS_DEREGISTER,
    CHAOS_DISCONNECT,
    CHAOS_FIRST,               /* so many were in the first version */
    CHAOS_CLOCK = CHAOS_FIRST, /* a host's clock leaps: its machine was suspended */
    CHAOS_PAUSE,               /* all hosts stand still: one machine has them all */
    CHAOS_DARK,                /* nothing passes, and in the middle of that all hosts stand still */
    CHAOS_KINDS,
};

bool play_plain, play_trusting, play_unpadded;

/* ---- drawing --------------------------------------------------------------------------- */

static uint32_t sometimes(struct chance *chance, uint32_t share_ppm, uint32_t max)
{
    return chance_ppm(chance, share_ppm) ? (uint32_t)chance_between(chance, 1, max) : 0;
}

/* Something between low and high, all magnitudes alike. */
static uint64_t magnitude(struct chance *chance, uint64_t low, uint64_t high)
{
    uint64_t limit = low;

    while (limit < high && chance_below(chance, 4))
        limit *= 2;
    limit = limit < high ? limit : high;
    return chance_between(chance, low, limit);
}

static void draw_net(struct play *play)
{
    static const uint32_t packets[] = {512, 576, 1472, 1472, 1472, 4096, 8972, 65507};
    struct chance *chance = &play->chance;
    struct world_net *net = &play->world.net;

    net->latency_ns = magnitude(chance, WORLD_US, 5 * WORLD_MS);
    net->packet_bytes = packets[chance_below(chance, 8)];
    net->window_bytes = (uint32_t)magnitude(chance, 4ull * net->packet_bytes, 1u << 20);
    if (play->plan.many_reads)
        net->window_bytes = 4 * net->packet_bytes;
    if (play->plan.clean)
        return;
    net->jitter_ns = chance_ppm(chance, 500000) ? magnitude(chance, WORLD_US, 10 * WORLD_MS) : 0;
    if (chance_ppm(chance, 100000))
        net->latency_ns = chance_between(chance, 5 * WORLD_MS, 100 * WORLD_MS);
    if (chance_ppm(chance, 250000)) {
        net->bytes_per_s = magnitude(chance, 10000000, 1250000000);
        net->queue_bytes = magnitude(chance, 32768, 1u << 20);
    }
    net->loss_ppm = sometimes(chance, 600000, chance_below(chance, 2) ? 20000 : 150000);
    net->loss_only = chance_ppm(chance, 300000)
                         ? (enum world_only)chance_between(chance, 1, WORLD_ONLY_DATA)
                         : WORLD_ONLY_ANY;
    net->burst_begin_ppm = sometimes(chance, 300000, 5000);
    net->burst_len = (uint32_t)chance_between(chance, 1, 8);
    net->every_nth = chance_ppm(chance, 150000) ? (uint32_t)chance_between(chance, 4, 50) : 0;
    net->dup_ppm = sometimes(chance, 400000, 200000);
    net->dup_delay_ns = magnitude(chance, WORLD_US, 20 * WORLD_S);
    net->reorder_ppm = sometimes(chance, 400000, 200000);
    net->reorder_ns = magnitude(chance, 10 * WORLD_US, 100 * WORLD_MS);
    net->corrupt_ppm = sometimes(chance, 400000, 50000);
    if (chance_ppm(chance, 120000)) {
        play->plan.lossy = true;
        net->loss_ppm = (uint32_t)chance_between(chance, 150000, 500000);
        net->loss_only = WORLD_ONLY_ANY;
        net->burst_len = (uint32_t)chance_between(chance, 1, 64);
    }
}

/*
 * The size of packets changes all the time, and packets overtake each other: what is sent again is cut
 * in other places than before.
 */
static void draw_resizing(struct play *play)
{
    struct plan *plan = &play->plan;
    struct world_net *net = &play->world.net;

    if (plan->clean || !chance_ppm(&play->chance, 60000))
        return;
    memset(plan->chaos_ppm, 0, sizeof(plan->chaos_ppm));
    plan->chaos_ppm[CHAOS_MTU] = 1000;
    plan->chaos_gap_ns = 50 * WORLD_MS;
    plan->size_max = 65536;
    net->packet_bytes = 8972;
    net->reorder_ppm = 200000;
    net->reorder_ns = 20 * WORLD_MS;
    net->dup_ppm = 100000;
}

static void draw_engine(struct play *play)
{
    struct chance *chance = &play->chance;
    struct eng_config *engine = &play->world.engine;

    *engine = ENG_CONFIG_DEFAULT;
    engine->conn_timeout_ns = 4 * WORLD_S; /* the times of pair.c follow from it */
    if (chance_ppm(chance, 300000))
        engine->ack_every_packets = (uint32_t)chance_between(chance, 1, 16);
    if (chance_ppm(chance, 300000))
        engine->held_packets_max =
            (uint32_t)magnitude(chance, 1, chance_below(chance, 2) ? 8 : 512);
    /* In half of the runs every number wraps soon. */
    if (chance_below(chance, 2)) {
        engine->start_op = (uint32_t)-chance_below(chance, 40);
        engine->start_number = (uint32_t)-chance_below(chance, 60);
    }
    if (chance_ppm(chance, 300000))
        engine->turn_packets = (uint32_t)magnitude(chance, 1, 64);
}

static void draw_plan(struct play *play, uint64_t chaos_ns)
{
    struct chance *chance = &play->chance;
    struct plan *plan = &play->plan;

    plan->clean = chance_ppm(chance, 125000);
    play->world.hosts = (unsigned)magnitude(chance, 2, WORLD_HOSTS_MAX);
    plan->sessions = (unsigned)magnitude(chance, 1, SESSIONS_MAX);
    plan->pairs = (unsigned)magnitude(chance, 1, PAIRS_MAX);
    plan->size_max = (uint32_t)magnitude(chance, 64, chance_below(chance, 10) ? 8192 : 65536);
    plan->total_max = (uint32_t)magnitude(chance, 16, MSGS_MAX);
    plan->depth_max = (uint32_t)chance_between(chance, 1, SLOTS - 1);
    plan->chaos_ns = chaos_ns ? chaos_ns : magnitude(chance, WORLD_S, 20 * WORLD_S);
    plan->pause_ns = magnitude(chance, WORLD_MS, WORLD_S);
    plan->chaos_gap_ns = magnitude(chance, 10 * WORLD_MS, 2 * WORLD_S);
    plan->cq = chance_below(chance, 2);
    plan->reads = chance_below(chance, 3);
    plan->many_reads = plan->reads && !chance_below(chance, 8);
    plan->writes = chance_below(chance, 4);
    plan->loopback = chance_ppm(chance, 200000);
    plan->bad_ppm = sometimes(chance, 400000, 500000);
    plan->early_ppm = sometimes(chance, 400000, 400000);
    plan->reject_ppm = sometimes(chance, 300000, 300000);
    plan->cancel_ppm = sometimes(chance, 300000, 300000);
    plan->starve_ppm = plan->clean ? 0 : sometimes(chance, 200000, 300000);
    for (unsigned i = 0; i < CHAOS_FIRST && !plan->clean; i++)
        plan->chaos_ppm[i] = sometimes(chance, 300000, 1000);
    if (plan->many_reads) {
        plan->size_max = 8192;
        plan->depth_max = SLOTS - 1;
    }
}

static void draw_clocks(struct play *play)
{
    struct chance *chance = &play->chance;
    bool drift = chance_ppm(chance, 300000) && !play->plan.clean;

    for (unsigned i = 0; i < play->world.hosts; i++) {
        struct world_host *host = &play->world.host[i];

        host->clock_base_ns = chance_below(chance, 1000000 * WORLD_S);
        if (drift)
            host->drift_ppm = (int32_t)chance_below(chance, 100001) - 50000;
    }
}

static void draw_pairs(struct play *play)
{
    static const uint16_t levels[] = {VIP_LVL_UNRELIABLE, VIP_LVL_DELIVERY, VIP_LVL_RECEPTION,
                                      VIP_LVL_DELIVERY};
    struct chance *chance = &play->chance;

    for (unsigned i = 0; i < play->plan.pairs; i++) {
        struct pair *pair = &play->pair[i];
        unsigned a = (unsigned)chance_below(chance, play->world.hosts);
        unsigned b = (unsigned)chance_below(chance, play->world.hosts);

        if (a == b && !play->plan.loopback)
            b = (a + 1) % play->world.hosts;
        pair->play = play;
        pair->number = i;
        pair->level = levels[chance_below(chance, 4)];
        /* One has the empty discriminator, one the longest. */
        pair->disc_len = i == 0 ? 0 : i == 1 ? VIP_DISCRIMINATOR_BYTES_MAX : 2;
        pair->disc[0] = (uint8_t)i;
        for (unsigned side = 0; side < 2; side++)
            pair->end[side] = (struct end){
                .sess = &play->sess[side ? b : a][chance_below(chance, play->plan.sessions)],
                .pair = pair,
                .side = side};
    }
}

/* Servers that listen, and peers that meet. */
static void draw_ways(struct play *play)
{
    struct chance *chance = &play->extra;
    bool listens = !chance_below(chance, 3), meets = !chance_below(chance, 3);

    for (unsigned i = 0; i < play->plan.pairs; i++) {
        struct pair *pair = &play->pair[i];

        pair->meets = meets && chance_below(chance, 2);
        pair->listens = listens && !pair->meets && chance_below(chance, 4);
        if (!pair->listens)
            continue;
        pair->disc_len = 2;
        pair->disc[0] = 0xfd;
        /* Not opened yet: it does not know its number. */
        pair->disc[1] = (uint8_t)((pair->end[1].sess - &play->sess[0][0]) % SESSIONS_MAX);
    }
}

/* A path takes smaller packets than it did, and for so long that a connection must get along with it. */
static void draw_narrow(struct play *play)
{
    struct plan *plan = &play->plan;

    if (play_trusting || !chance_ppm(&play->extra, 60000))
        return;
    memset(plan->chaos_ppm, 0, sizeof(plan->chaos_ppm));
    plan->chaos_ppm[CHAOS_MTU] = 1000;
    plan->chaos_gap_ns = 4 * WORLD_S;
    plan->size_max = 65536;
    play->world.net.packet_bytes = 8972;
}

/* What came later than the first version of this program, from a chance of its own. */
static void draw_extras(struct play *play)
{
    struct chance *chance = &play->extra;
    struct plan *plan = &play->plan;
    struct world_net *net = &play->world.net;

    if (play_plain || play_trusting || play_unpadded)
        play->world.unpadded = UINT32_MAX;
    else if (play->world.seed % 8 == 3)
        play->world.unpadded = 1; /* one host is older than the others */
    if (play_plain) {
        play->world.options = " --plain";
        return;
    }
    if (play_trusting)
        play->world.options = " --trusting";
    else if (play_unpadded)
        play->world.options = " --unpadded";
    /* As vipd does; in the others a flood of requests is what makes hosts ask. */
    play->world.verify_all = !play_trusting && play->world.seed % 4 != 0;
    /* In vipd it is one number of 32,768, which is too rare here. */
    if (play->world.seed % 8 == 5)
        play->world.engine.skip_packets = 100;
    plan->wide = chance_below(chance, 2);
    plan->staged = !chance_below(chance, 3);
    plan->hasty = !play_trusting && !play_unpadded && play->world.seed % 3 == 1;
    draw_ways(play);
    if (plan->clean)
        return;
    plan->chaos_ppm[CHAOS_CLOCK] = sometimes(chance, 200000, 1000);
    plan->storm = chance_ppm(chance, 60000);
    if (plan->storm) {
        net->reorder_ppm = (uint32_t)chance_between(chance, 500000, 1000000);
        net->reorder_ns = magnitude(chance, WORLD_MS, 200 * WORLD_MS);
    }
    /*
     * Many do not learn what arrived behind a gap, and little of that is kept. Not more of them: the
     * number of a lost packet never arrives, so from the first loss on every acknowledgement has ranges.
     */
    if (chance_ppm(chance, 80000)) {
        net->loss_only = WORLD_ONLY_RANGES;
        net->loss_ppm = (uint32_t)chance_between(chance, 100000, 400000);
        net->burst_begin_ppm = (uint32_t)chance_between(chance, 1000, 20000);
        play->world.engine.held_packets_max = (uint32_t)magnitude(chance, 1, 16);
    }
    draw_narrow(play);
}

/*
 * Packets have been repeated in vain already when all hosts stand still: a connection has a try behind it that
 * counts, and then time that does not. Without losses by chance, so that a silence is what it seems to be.
 */
static void draw_dark(struct play *play)
{
    struct chance chance = {play->world.seed ^ 0x3f84d5b5b5470917ull};
    struct plan *plan = &play->plan;
    struct world_net *net = &play->world.net;

    if (play_plain || play_trusting || play_unpadded || plan->clean || !chance_ppm(&chance, 30000))
        return;
    memset(plan->chaos_ppm, 0, sizeof(plan->chaos_ppm));
    plan->chaos_ppm[CHAOS_DARK] = 1000;
    plan->chaos_gap_ns = 6 * WORLD_S;
    plan->chaos_ns = 40 * WORLD_S;
    plan->pause_ns = 10 * WORLD_MS;
    plan->lossy = false;
    net->loss_ppm = net->burst_begin_ppm = net->every_nth = net->corrupt_ppm = 0;
    net->bytes_per_s = 0;
}

/* What came still later: each of these has a chance of its own, so that older seeds stay as they are. */
static void draw_latest(struct play *play)
{
    struct chance chance = {play->world.seed ^ 0x1c69b3f74ac4ae35ull};

    if (play_plain || play_trusting || play_unpadded || play->plan.clean)
        return;
    play->plan.chaos_ppm[CHAOS_PAUSE] = sometimes(&chance, 100000, 1000);
    if (!chance_ppm(&chance, 60000))
        return;
    /*
     * Memory that is always changing, in packets too large to be copied without need, and nothing else for
     * longer than it takes to give up a connection.
     */
    memset(play->plan.chaos_ppm, 0, sizeof(play->plan.chaos_ppm));
    if (play->plan.chaos_ns < 12 * WORLD_S)
        play->plan.chaos_ns = 12 * WORLD_S;
    play->world.net.changing_ppm = 1000000;
    play->world.net.packet_bytes = 8972;
    if (play->world.net.window_bytes < 8 * play->world.net.packet_bytes)
        play->world.net.window_bytes = 8 * play->world.net.packet_bytes;
    play->plan.size_max = 65536;
}

void play_draw(struct play *play, uint64_t seed, uint64_t chaos_ns)
{
    memset(play, 0, sizeof(*play));
    (void)pattern_bytes();
    world_init(&play->world, seed);
    play->chance.state = seed ^ 0x5deece66d1234567ull;
    draw_plan(play, chaos_ns);
    draw_net(play);
    draw_resizing(play);
    draw_engine(play);
    draw_clocks(play);
    draw_pairs(play);
    play->extra.state = seed ^ 0x7a3d70a3d70a3d71ull;
    draw_extras(play);
    draw_latest(play);
    draw_dark(play);
    play->world.faults = !play->plan.clean;
}

/* ---- hosts and sessions that come and go ----------------------------------------------- */

/* A session with the VIs of its pairs. */
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

/* Something happened to a host that may end all of its connections. */
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

static void death(struct play *play, unsigned host)
{
    unsigned index = (unsigned)chance_below(&play->chance, play->plan.sessions);
    struct sess *sess = &play->sess[host][index];

    if (!sess->alive)
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
    /* What completed before is judged before. */
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

    /* Two in a row, or one and a leap of the clock, would look like death to the others. */
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

/* A time that hosts did not see: connections bear that, what was about to become one may not. */
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

/* The clock of a host shows a later time from now on, as after a suspended machine. */
static void leap(struct play *play, unsigned host, uint64_t ns)
{
    if (play->leapt_ns[host] + ns > LEAP_MAX_NS ||
        (play->stalled_ns[host] && play_now(play) < play->stalled_ns[host] + 5 * WORLD_S))
        return;
    play->leapt_ns[host] += ns;
    play->stalled_ns[host] = play_now(play);
    world_leap(&play->world, host, ns);
    unseen(play, host, ns, play_now(play));
    /* It forgets earlier which requests it has answered. */
    for (struct attempt *attempt = play->attempts; attempt; attempt = attempt->next)
        if (attempt->pair->end[1].sess->host == host)
            attempt->known_until_ns -= ns < attempt->known_until_ns ? ns : attempt->known_until_ns;
}

/* Of one machine: suspended, network and all, or just without processor time for any vipd. */
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

/* See draw_dark; the cut ends while the hosts stand still, or soon after their clocks have leapt. */
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
        if (end->exists)
            deregister(end, chance_below(chance, 4));
        break;
    case CHAOS_DISCONNECT:
        if (end->exists && end->state == END_UP)
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
    case CHAOS_KINDS:
        break;
    }
}

/* One action, chosen by weight. */
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

/* Hosts and applications whose time has come rise again. */
static void revive(struct play *play, bool all)
{
    for (unsigned host = 0; host < play->world.hosts; host++) {
        if (play->down_until_ns[host]) {
            if (all || play->down_until_ns[host] <= play_now(play))
                host_begin(play, host);
            continue;
        }
        for (unsigned i = 0; i < play->plan.sessions; i++)
            if (play->born_at_ns[host][i] && (all || play->born_at_ns[host][i] <= play_now(play)))
                sess_begin(play, host, i);
    }
}

/* When something of the above is due. */
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

/* The faults end; from here on everything must come right. */
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
    play->world.hooks = (struct world_hooks){
        .act = hook_act, .wants_ns = hook_wants_ns, .check = hook_check, .ctx = play};
    for (unsigned host = 0; host < play->world.hosts; host++)
        host_begin(play, host);
    play->chaos_next_ns = chance_below(&play->chance, play->plan.chaos_gap_ns);
}

/* Which pair is not done, for the message. */
static const struct pair *pair_late(const struct play *play)
{
    for (unsigned i = 0; i < play->plan.pairs; i++)
        if (!play->pair[i].after_heal || play->pair[i].end[0].state != END_IDLE ||
            play->pair[i].end[1].state != END_IDLE)
            return &play->pair[i];
    return NULL;
}

/*
 * A window takes a round trip, and a small one on a long way is all that limits a good network: the time for
 * what a pair still has to say, in the connection that it has and in the next one.
 */
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
        (void)world_run(&play->world, play_wants_ns(play, play->plan.chaos_ns), NULL);
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
