/*
 * simrun: random runs in virtual time; everything follows from the seed.
 *
 *   simrun [--seed N] [--count C] [--hours H] [--seconds S] [--edition E] [--least N] [OPTION...]
 *       whole hosts with random faults (play.c). Without --seed the base seed follows from VIP_SEED
 *       (default: 1), with "--seed clock" from the clock; simrun prints it. --hours: virtual hours
 *       of faults in each run. --seconds: begin no new run after S seconds of processor time, but
 *       make at least N runs (--least; default: 1). So a slow machine runs fewer seeds; a busy one
 *       runs as many as an idle one. --edition: the choices of an earlier version (enum
 *       play_edition), for seeds that found a bug with it.
 *   simrun --pair --seed N [--count C] [--loss PERCENT] [--messages M] [--rebind] [OPTION...]
 *       two engines without connection management (app.c). --rebind: bind connections anew.
 *
 * OPTION: --trace, --twice, --quiet. simrun prints one line per seed with the hash of its
 * transcript. --trace prints the transcript. --twice runs every seed two times, and both hashes
 * must be equal. Exit status 0, or 1 with seed and reason.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/actor.h"
#include "tests/sim/app.h"

struct options {
    uint64_t seed, count, least, chaos_ns, seconds;
    bool pair, twice, quiet, seeded, rebind;
    FILE *trace;
    uint32_t loss_ppm, messages;
};

static int usage(void)
{
    fputs("usage: simrun [--seed N] [--count C] [--hours H] [--seconds S] [--edition 1..8] "
          "[--least N] [--trace] [--twice] [--quiet]\n       simrun --pair --seed N "
          "[--count C] "
          "[--loss PERCENT] "
          "[--messages M] [--rebind] "
          "[--trace] [--twice] [--quiet]\n",
          stderr);
    return 2;
}

/* Spread the base seeds, so that neighbouring base seeds lead to different seeds. */
static uint64_t spread(uint64_t base)
{
    return base * 1000003u;
}

static bool parse_value(struct options *options, const char *name, const char *value)
{
    if (!strcmp(name, "--seed")) {
        options->seed =
            strcmp(value, "clock") ? strtoull(value, NULL, 0) : spread((uint64_t)time(NULL));
        options->seeded = true;
    } else if (!strcmp(name, "--count")) {
        options->count = strtoull(value, NULL, 0);
    } else if (!strcmp(name, "--least")) {
        options->least = strtoull(value, NULL, 0);
    } else if (!strcmp(name, "--hours")) {
        options->chaos_ns = (uint64_t)(strtod(value, NULL) * 3600e9);
    } else if (!strcmp(name, "--seconds")) {
        options->seconds = strtoull(value, NULL, 0);
    } else if (!strcmp(name, "--loss")) {
        options->loss_ppm = (uint32_t)(strtod(value, NULL) * 10000);
    } else if (!strcmp(name, "--messages")) {
        options->messages = (uint32_t)strtoul(value, NULL, 0);
    } else if (!strcmp(name, "--edition")) {
        play_edition = (enum play_edition)strtoul(value, NULL, 0);
        return play_edition >= EDITION_FIRST && play_edition <= EDITION_NEWEST;
    } else {
        return false;
    }
    return true;
}

static bool parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--trace"))
            options->trace = stdout;
        else if (!strcmp(argv[i], "--twice"))
            options->twice = true;
        else if (!strcmp(argv[i], "--quiet"))
            options->quiet = true;
        else if (!strcmp(argv[i], "--rebind"))
            options->rebind = true;
        else if (!strcmp(argv[i], "--pair"))
            options->pair = true;
        else if (i + 1 == argc || !parse_value(options, argv[i], argv[i + 1]))
            return false;
        else
            i++;
    }
    return true;
}

static int run_pairs(const struct options *options)
{
    struct app_args args = {.seed = options->seed,
                            .loss_ppm = options->loss_ppm,
                            .messages = options->messages,
                            .rebind = options->rebind,
                            .trace = options->trace};
    uint64_t messages = 0, lost = 0, retransmits = 0;

    for (uint64_t i = 0; i < options->count; i++, args.seed++) {
        struct app_result result = app_run(&args);

        if (options->twice && app_run(&args).hash != result.hash) {
            fprintf(stderr, "seed %" PRIu64 ": two runs differ\n", args.seed);
            return 1;
        }
        messages += result.messages;
        lost += result.lost;
        retransmits += result.retransmits;
        if (!options->quiet)
            printf("seed %" PRIu64 " %016" PRIx64 " %s: %" PRIu64 " messages, %" PRIu64
                   " packets lost, %" PRIu64 " fragments again, %.3f ms\n",
                   args.seed, result.hash, result.kind, result.messages, result.lost,
                   result.retransmits, (double)result.now_ns / 1000000);
    }
    printf("%" PRIu64 " messages verified, %" PRIu64 " packets lost, %" PRIu64
           " fragments sent again\n",
           messages, lost, retransmits);
    return 0;
}

static double seconds_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* True if one more run is allowed after `runs` runs. */
static bool goes_on(const struct options *options, uint64_t runs)
{
    if (runs >= options->count)
        return false;
    return !options->seconds || runs < options->least ||
           seconds_of(CLOCK_PROCESS_CPUTIME_ID) < (double)options->seconds;
}

static void add(struct play_result *sum, const struct play_result *one)
{
    sum->virtual_ns += one->virtual_ns;
    sum->messages += one->messages;
    sum->connections += one->connections;
    sum->losses += one->losses;
    sum->restarts += one->restarts;
    sum->deaths += one->deaths;
    sum->packets += one->packets;
    sum->steps += one->steps;
    sum->cookies += one->cookies;
    sum->renewals += one->renewals;
    sum->kills += one->kills;
    sum->rebound += one->rebound;
}

static int run_hosts(const struct options *options)
{
    struct play_result sum = {0}, one;
    double start_s = seconds_of(CLOCK_MONOTONIC), spent_s;
    uint64_t seed = options->seed, runs = 0;

    printf("base seed %" PRIu64 "\n", seed);
    fflush(stdout);
    for (; goes_on(options, runs); runs++, seed++) {
        one = play_seed(seed, options->chaos_ns, options->trace);
        if (options->twice && play_seed(seed, options->chaos_ns, NULL).hash != one.hash) {
            fprintf(stderr, "seed %" PRIu64 ": two runs differ\n", seed);
            return 1;
        }
        add(&sum, &one);
        if (!options->quiet)
            printf("seed %" PRIu64 " %016" PRIx64 ": %.1f s, %" PRIu64 " messages, %" PRIu64
                   " connections, %" PRIu64 " ends, %" PRIu64 " packets\n",
                   seed, one.hash, (double)one.virtual_ns / 1e9, one.messages, one.connections,
                   one.losses, one.packets);
    }
    spent_s = seconds_of(CLOCK_MONOTONIC) - start_s;
    printf("%" PRIu64 " of %" PRIu64 " seeds from %" PRIu64 ": %" PRIu64
           " messages verified, %" PRIu64 " connections, %" PRIu64 " ends told, %" PRIu64
           " restarts, %" PRIu64 " deaths, %" PRIu64 " packets, %" PRIu64 " steps, %" PRIu64
           " cookies, %" PRIu64 " vipd killed under their programs between turns, %" PRIu64
           " in a turn, %" PRIu64 " connections bound anew\n",
           runs, options->count, options->seed, sum.messages, sum.connections, sum.losses,
           sum.restarts, sum.deaths, sum.packets, sum.steps, sum.cookies, sum.renewals, sum.kills,
           sum.rebound);
    printf("%.0f virtual seconds in %.1f real ones, %.1f of processor time: %.0f to 1\n",
           (double)sum.virtual_ns / 1e9, spent_s, seconds_of(CLOCK_PROCESS_CPUTIME_ID),
           (double)sum.virtual_ns / 1e9 / (spent_s > 0 ? spent_s : 1));
    return 0;
}

int main(int argc, char **argv)
{
    struct options options = {
        .seed = 1, .count = 1, .least = 1, .loss_ppm = UINT32_MAX, .messages = UINT32_MAX};
    const char *env = getenv("VIP_SEED");

    if (!parse(&options, argc, argv))
        return usage();
    if (options.pair)
        return run_pairs(&options);
    if (!options.seeded)
        options.seed = spread(env && *env ? strtoull(env, NULL, 0) : 1);
    return run_hosts(&options);
}
