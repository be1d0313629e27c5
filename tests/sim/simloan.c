/*
 * simloan: random runs of loans in virtual time (loan_run.h); everything follows from the seed.
 *
 *   simloan [--seed N] [--count C] [--least L] [--seconds S] [--trace] [--twice] [--quiet]
 *
 * Without --seed the base seed follows from VIP_SEED (1 if that is not set). --seconds: begin no
 * new run after S seconds of processor time, but make at least L runs. --twice: run each seed two
 * times; both transcripts must be equal. Exit status 0, or 1 with seed and reason.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/sim/loan_run.h"

struct options {
    uint64_t seed, count, least, seconds;
    bool twice, quiet;
    FILE *trace;
};

static bool parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--trace"))
            options->trace = stdout;
        else if (!strcmp(argv[i], "--twice"))
            options->twice = true;
        else if (!strcmp(argv[i], "--quiet"))
            options->quiet = true;
        else if (i + 1 == argc)
            return false;
        else if (!strcmp(argv[i], "--seed"))
            options->seed = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--count"))
            options->count = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--least"))
            options->least = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--seconds"))
            options->seconds = strtoull(argv[++i], NULL, 0);
        else
            return false;
    }
    return true;
}

static double seconds_used(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void add(struct loan_run_result *sum, const struct loan_run_result *one)
{
    sum->virtual_ns += one->virtual_ns;
    sum->messages += one->messages;
    sum->loans += one->loans;
    sum->again += one->again;
    sum->backs += one->backs;
    sum->stays += one->stays;
    sum->restarts += one->restarts;
    sum->deaths += one->deaths;
    sum->ends += one->ends;
    sum->scribbles += one->scribbles;
}

int main(int argc, char **argv)
{
    const char *env = getenv("VIP_SEED");
    struct options options = {.count = 1, .least = 1};
    struct loan_run_result sum = {0}, one;
    uint64_t runs = 0;

    options.seed = (env && *env ? strtoull(env, NULL, 0) : 1) * 1000003u;
    if (!parse(&options, argc, argv)) {
        fputs("usage: simloan [--seed N] [--count C] [--least L] [--seconds S] [--trace] [--twice] "
              "[--quiet]\n",
              stderr);
        return 2;
    }
    for (; runs < options.count &&
           (!options.seconds || runs < options.least || seconds_used() < (double)options.seconds);
         runs++) {
        struct loan_run_args args = {.seed = options.seed + runs, .trace = options.trace};

        one = loan_run(&args);
        args.trace = NULL;
        if (options.twice && loan_run(&args).hash != one.hash) {
            fprintf(stderr, "seed %" PRIu64 ": two runs differ\n", args.seed);
            return 1;
        }
        if (!options.quiet)
            printf("seed %" PRIu64 " %016" PRIx64 ": %.3f ms, %" PRIu64 " messages, %" PRIu64
                   " loans\n",
                   args.seed, one.hash, (double)one.virtual_ns / 1e6, one.messages, one.loans);
        add(&sum, &one);
    }
    printf("%" PRIu64 " of %" PRIu64 " seeds from %" PRIu64 ": %" PRIu64
           " messages verified, %" PRIu64 " loans, %" PRIu64
           " of them again with an answer, %" PRIu64 " taken back, %" PRIu64 " stays, %" PRIu64
           " restarts of vipd, %" PRIu64 " deaths, %" PRIu64 " connections ended, %" PRIu64
           " programs scribbled; %.0f virtual seconds in %.1f of processor time\n",
           runs, options.count, options.seed, sum.messages, sum.loans, sum.again, sum.backs,
           sum.stays, sum.restarts, sum.deaths, sum.ends, sum.scribbles,
           (double)sum.virtual_ns / 1e9, seconds_used());
    return 0;
}
