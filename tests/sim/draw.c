/*
 * The choices that follow from a seed before a run begins: hosts, pairs, messages, links and
 * faults. Choices that were added later use generators of their own. So the older choices of each
 * seed stay the same.
 */
#include <string.h>

#include "tests/sim/actor.h"

enum play_edition play_edition = EDITION_NEWEST;

static uint32_t sometimes(struct chance *chance, uint32_t share_ppm, uint32_t max)
{
    return chance_ppm(chance, share_ppm) ? (uint32_t)chance_between(chance, 1, max) : 0;
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

/* The packet size changes often, and packets overtake each other. So vipd cuts repeated data at
 * other places than before. */
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
    engine->conn_timeout_ns = 4 * WORLD_S; /* the time limits of pair.c depend on it */
    if (chance_ppm(chance, 300000))
        engine->ack_every_packets = (uint32_t)chance_between(chance, 1, 16);
    if (chance_ppm(chance, 300000))
        engine->held_packets_max =
            (uint32_t)magnitude(chance, 1, chance_below(chance, 2) ? 8 : 512);
    /* In half of the runs operation and packet numbers wrap soon. */
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
        /* The first pair has the empty discriminator, the second pair the longest one. */
        pair->disc_len = i == 0 ? 0 : i == 1 ? VIP_DISCRIMINATOR_BYTES_MAX : 2;
        pair->disc[0] = (uint8_t)i;
        for (unsigned side = 0; side < 2; side++)
            pair->end[side] = (struct end){
                .sess = &play->sess[side ? b : a][chance_below(chance, play->plan.sessions)],
                .pair = pair,
                .side = side};
    }
}

/* Choose the pairs whose servers use a listener, and the pairs that connect peer-to-peer. */
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
        /* This session is not open yet, so compute its index. */
        pair->disc[1] = (uint8_t)((pair->end[1].sess - &play->sess[0][0]) % SESSIONS_MAX);
    }
}

/* For a long time the packet size of paths is smaller, so connections must adapt to it. */
static void draw_narrow(struct play *play)
{
    struct plan *plan = &play->plan;

    if (play_edition < EDITION_COOKIES || !chance_ppm(&play->extra, 60000))
        return;
    memset(plan->chaos_ppm, 0, sizeof(plan->chaos_ppm));
    plan->chaos_ppm[CHAOS_MTU] = 1000;
    plan->chaos_gap_ns = 4 * WORLD_S;
    plan->size_max = 65536;
    play->world.net.packet_bytes = 8972;
}

/* Returns the features that a host lacks because its vipd is an older version. */
static uint8_t features_without(uint64_t seed, unsigned host)
{
    if (play_edition < EDITION_PADDING)
        return VIP_FEATURE_PADDING | VIP_FEATURE_SETUP;
    if (seed % 8 == 3 && host == 0)
        return VIP_FEATURE_PADDING | VIP_FEATURE_SETUP;
    return play_edition < EDITION_SETUP || (seed % 8 == 6 && host == 0) ? VIP_FEATURE_SETUP : 0;
}

/* The choices that were added after the first edition. They have a generator of their own. */
static void draw_extras(struct play *play)
{
    struct chance *chance = &play->extra;
    struct plan *plan = &play->plan;
    struct world_net *net = &play->world.net;
    static const char *const options[] = {
        [EDITION_FIRST] = " --edition 1",   [EDITION_EXTRAS] = " --edition 2",
        [EDITION_COOKIES] = " --edition 3", [EDITION_PADDING] = " --edition 4",
        [EDITION_SETUP] = " --edition 5",   [EDITION_REBIND] = " --edition 6",
        [EDITION_KILLS] = " --edition 7",   [EDITION_LEAVES] = NULL};

    play->world.options = options[play_edition];
    for (unsigned i = 0; i < WORLD_HOSTS_MAX; i++)
        play->world.without[i] = features_without(play->world.seed, i);
    if (play_edition < EDITION_EXTRAS)
        return;
    /* With verify_all, vipd asks each client for a cookie; otherwise it asks only in a flood. */
    play->world.verify_all = play_edition >= EDITION_COOKIES && play->world.seed % 4 != 0;
    /* A vipd skips only one packet number of 32,768 on average. These runs need more skips. */
    if (play->world.seed % 8 == 5)
        play->world.engine.skip_packets = 100;
    plan->wide = chance_below(chance, 2);
    plan->staged = !chance_below(chance, 3);
    plan->hasty = play_edition >= EDITION_PADDING && play->world.seed % 3 == 1;
    draw_ways(play);
    if (plan->clean)
        return;
    plan->chaos_ppm[CHAOS_CLOCK] = sometimes(chance, 200000, 1000);
    plan->storm = chance_ppm(chance, 60000);
    if (plan->storm) {
        net->reorder_ppm = (uint32_t)chance_between(chance, 500000, 1000000);
        net->reorder_ns = magnitude(chance, WORLD_MS, 200 * WORLD_MS);
    }
    /* Many acknowledgements with ranges are lost, and receivers hold few packets after a gap. If
     * more were lost, hardly any would arrive: no packet repeats a lost packet's number, so after
     * the first loss every acknowledgement has ranges. */
    if (chance_ppm(chance, 80000)) {
        net->loss_only = WORLD_ONLY_RANGES;
        net->loss_ppm = (uint32_t)chance_between(chance, 100000, 400000);
        net->burst_begin_ppm = (uint32_t)chance_between(chance, 1000, 20000);
        play->world.engine.held_packets_max = (uint32_t)magnitude(chance, 1, 16);
    }
    draw_narrow(play);
}

/* First no packet passes between hosts; then all hosts stop, too. Until the stop, connections
 * repeat packets in vain, and this time counts as silence. The time of the stop must not count. No
 * packets are lost at random, so each silence has this cause. */
static void draw_dark(struct play *play)
{
    struct chance chance = {play->world.seed ^ 0x3f84d5b5b5470917ull};
    struct plan *plan = &play->plan;
    struct world_net *net = &play->world.net;

    if (play_edition < EDITION_PADDING || plan->clean || !chance_ppm(&chance, 30000))
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

/* Newer choices. They have a generator of their own, so the older choices stay the same. */
static void draw_latest(struct play *play)
{
    struct chance chance = {play->world.seed ^ 0x1c69b3f74ac4ae35ull};

    if (play_edition < EDITION_PADDING || play->plan.clean)
        return;
    play->plan.chaos_ppm[CHAOS_PAUSE] = sometimes(&chance, 100000, 1000);
    if (!chance_ppm(&chance, 60000))
        return;
    /* The only fault: programs change memory while vipd sends from it. The fault lasts longer than
     * conn_timeout. The packets are so large that vipd copies them only after a loss. */
    memset(play->plan.chaos_ppm, 0, sizeof(play->plan.chaos_ppm));
    if (play->plan.chaos_ns < 12 * WORLD_S)
        play->plan.chaos_ns = 12 * WORLD_S;
    play->world.net.changing_ppm = 1000000;
    play->world.net.packet_bytes = 8972;
    if (play->world.net.window_bytes < 8 * play->world.net.packet_bytes)
        play->world.net.window_bytes = 8 * play->world.net.packet_bytes;
    play->plan.size_max = 65536;
}

/* Memory is deregistered very often, even while vipd repeats packets from this memory. */
static void draw_forgetful(struct play *play)
{
    struct plan *plan = &play->plan;

    if (play_edition < EDITION_PADDING || plan->clean || play->world.seed % 4 != 2)
        return;
    plan->chaos_ppm[CHAOS_DEREGISTER] += 1500;
    plan->chaos_gap_ns = plan->chaos_gap_ns / 4 + 5 * WORLD_MS;
}

/* Hosts get a new vipd, and their programs live on. */
static void draw_renewals(struct play *play)
{
    struct chance chance = {play->world.seed ^ 0x2b7e151628aed2a6ull};
    struct plan *plan = &play->plan;

    if (play_edition < EDITION_REBIND || plan->clean || plan->chaos_ppm[CHAOS_DARK] ||
        !chance_ppm(&chance, 400000))
        return;
    plan->renews = true;
    plan->chaos_ppm[CHAOS_RENEW] = (uint32_t)chance_between(&chance, 100, 2000);
    play->world.more = VIP_FEATURE_REBIND;
}

/* In some runs with renewals, vipd are also killed within a turn. The constant below is such that
 * older seeds in mutant_seeds.txt give the same runs as before. */
static void draw_kills(struct play *play)
{
    struct chance chance = {play->world.seed ^ 0x96831515b4f97fceull};
    struct plan *plan = &play->plan;

    if (play_edition < EDITION_KILLS || !plan->renews || !chance_ppm(&chance, 600000))
        return;
    plan->kills = true;
    plan->chaos_ppm[CHAOS_KILL] = (uint32_t)chance_between(&chance, 500, 4000);
    plan->tight = chance_ppm(&chance, 300000);
    if (chance_ppm(&chance, 500000))
        plan->chaos_ppm[CHAOS_RENEW] = 0;
}

static void draw_leaves(struct play *play)
{
    struct chance chance = {play->world.seed ^ 0x452821e638d01377ull};

    play->plan.leaves =
        play_edition >= EDITION_LEAVES && play->plan.renews && chance_ppm(&chance, 500000);
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
    draw_forgetful(play);
    draw_renewals(play);
    draw_kills(play);
    draw_leaves(play);
    play->world.faults = !play->plan.clean;
}
