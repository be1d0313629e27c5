/*
 * mutants: does the simulator find every planted bug (vipd/engine/mutant.h)?
 *
 *   mutants [--known FILE] [--seeds N] [--least L] [--seconds S] [--seed BASE] [NAME...]
 *   mutants --update FILE [...]         the same; write the seeds that found bugs to FILE
 *   mutants --seed S --show NUMBER      one seed with one bug, with the reason
 *
 * A child process switches the bug on and runs seeds until one fails. The first seed is the seed
 * that FILE names for this bug ("NAME SEED" in each line). If it passes, or FILE names none, the
 * child runs at most N (2,000) seeds from BASE on. After L (500) seeds, it begins no new seed if it
 * has used S (60) seconds of processor time. A seed is a run of whole hosts. Every third seed also
 * runs two engines alone, which fill a window more often. For a bug of loans (LOAN_...), a seed is a
 * run of a loan instead. The seed that has found a bug runs once
 * more without the bug and must pass; otherwise the failure has another cause. Exit status 0 if all
 * bugs were found.
 *
 * After a change to the simulator or to vipd, FILE's seeds may pass. Then the search finds other
 * seeds, and the output names the bugs. --update writes these seeds to FILE, so that the next run
 * is quick again.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/actor.h"
#include "tests/sim/app.h"
#include "tests/sim/loan_run.h"
#include "vipd/engine/mutant.h"

/* Limit of the processor time of one seed, in seconds. A longer seed hangs. A hang does not count
 * as found: the judge must name the fault. */
#define LIMIT_S 200

#define HOSTS_PER_PAIR 6u

unsigned vip_mutant;

static const struct {
    const char *name, *what;
} bugs[] = {{"NONE", ""},
#define X(name, what) {#name, what},
            VIP_MUTANT_LIST(X)
#undef X
};

struct options {
    uint64_t base, seeds, least, seconds;
    const char *known, *update;
};

/* The seed that FILE names for each bug; 0: none. */
static uint64_t known[VIP_MUTANT_COUNT];

static double seconds_of(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Run one seed for bug n; does not return if it finds a fault. */
static void run_one(unsigned n, uint64_t seed)
{
    if (n >= VIP_MUTANT_LOAN_NOT_ASKED) {
        (void)loan_run(&(struct loan_run_args){.seed = seed});
        return;
    }
    (void)play_seed(seed, 0, NULL);
    if (seed % HOSTS_PER_PAIR == 1)
        (void)app_run(&(struct app_args){
            .seed = 1 + seed / HOSTS_PER_PAIR, .loss_ppm = UINT32_MAX, .messages = UINT32_MAX});
    if (seed % HOSTS_PER_PAIR == 4)
        (void)app_run(&(struct app_args){.seed = 1 + seed / HOSTS_PER_PAIR,
                                         .loss_ppm = UINT32_MAX,
                                         .messages = UINT32_MAX,
                                         .rebind = true});
}

/* The result of running seeds with one bug. */
enum outcome {
    PASSED,
    FAILED,
    TOO_LONG, /* a seed has reached the limit of processor time */
};

/* Allow the next seed of this process LIMIT_S of processor time. */
static void limit_next(void)
{
    double used_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID);

    (void)setrlimit(RLIMIT_CPU, &(struct rlimit){.rlim_cur = (rlim_t)used_s + LIMIT_S,
                                                 .rlim_max = RLIM_INFINITY});
}

/* Run the seeds for bug number n from `seed` on until one fails, at most `most` seeds; `with`: the
 * bug is switched on. After `least` seeds, begin no new seed if `seconds` of processor time are
 * used. *ret_last: the last seed that has run. */
static enum outcome hunt(unsigned n, bool with, uint64_t seed, uint64_t least, uint64_t most,
                         uint64_t seconds, uint64_t *ret_last)
{
    uint64_t *tried = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    enum outcome outcome = FAILED;
    int status = 0;
    pid_t pid;

    if (tried == MAP_FAILED)
        exit(2);
    fflush(stdout);
    pid = fork();
    if (pid < 0)
        exit(2);
    if (pid == 0) {
        /* Hide the reason of a failure that a planted bug causes (--seed S --show N prints it). */
        if (with && !freopen("/dev/null", "w", stderr))
            _exit(2);
        vip_mutant = with ? n : VIP_MUTANT_NONE;
        while (*tried < most &&
               (*tried < least || seconds_of(CLOCK_PROCESS_CPUTIME_ID) < (double)seconds)) {
            limit_next();
            run_one(n, seed + (*tried)++);
        }
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid)
        exit(2);
    *ret_last = seed + *tried - 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        outcome = PASSED;
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        outcome = TOO_LONG;
    munmap(tried, 4096);
    return outcome;
}

static enum outcome single(unsigned n, bool with, uint64_t seed)
{
    uint64_t last;

    return hunt(n, with, seed, 1, 1, 0, &last);
}

/* Search for bug n and print the result. Returns true if a seed has found it. */
static bool found(unsigned n, const struct options *options)
{
    double began_s = seconds_of(CLOCK_MONOTONIC);
    const char *verdict = "found by the known seed";
    enum outcome outcome = known[n] ? single(n, true, known[n]) : PASSED;
    uint64_t seed = known[n];

    if (outcome == PASSED) {
        verdict = known[n] ? "found, not by the known seed (--update) but by" : "found by seed";
        outcome =
            hunt(n, true, options->base, options->least, options->seeds, options->seconds, &seed);
    }
    if (outcome == PASSED) {
        verdict = "NOT FOUND up to seed";
    } else if (outcome == TOO_LONG) {
        verdict = "NOT FOUND: hangs in seed";
    } else if (single(n, false, seed) != PASSED) {
        verdict = "NOT FOUND: without it fails, too, seed";
        outcome = PASSED;
    }
    known[n] = outcome == FAILED ? seed : 0;
    printf("%2u %-22s %s %" PRIu64 ", %.2f s: %s\n", n, bugs[n].name, verdict, seed,
           seconds_of(CLOCK_MONOTONIC) - began_s, bugs[n].what);
    return outcome == FAILED;
}

/* ---- the file of known seeds --------------------------------------------------------------- */

static void read_known(const char *path)
{
    FILE *file = fopen(path, "r");
    char name[64];
    uint64_t seed;

    if (!file) {
        perror(path);
        exit(2);
    }
    while (fscanf(file, "%63s %" SCNu64, name, &seed) == 2)
        for (unsigned n = 1; n < VIP_MUTANT_COUNT; n++)
            if (!strcmp(bugs[n].name, name))
                known[n] = seed;
    fclose(file);
}

static void write_known(const char *path)
{
    FILE *file = fopen(path, "w");

    if (!file) {
        perror(path);
        exit(2);
    }
    for (unsigned n = 1; n < VIP_MUTANT_COUNT; n++)
        if (known[n])
            fprintf(file, "%s %" PRIu64 "\n", bugs[n].name, known[n]);
    if (fclose(file) != 0) {
        perror(path);
        exit(2);
    }
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc == 0;
}

static bool parse(struct options *options, const char *name, const char *value)
{
    if (!strcmp(name, "--seeds"))
        options->seeds = strtoull(value, NULL, 0);
    else if (!strcmp(name, "--least"))
        options->least = strtoull(value, NULL, 0);
    else if (!strcmp(name, "--seconds"))
        options->seconds = strtoull(value, NULL, 0);
    else if (!strcmp(name, "--seed"))
        options->base = strtoull(value, NULL, 0);
    else if (!strcmp(name, "--known"))
        options->known = value;
    else if (!strcmp(name, "--update"))
        options->known = options->update = value;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct options options = {.base = 1, .seeds = 2000, .least = 500, .seconds = 60};
    double start_s = seconds_of(CLOCK_MONOTONIC);
    unsigned seen = 0, missed = 0;
    int at = 1;

    for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
        if (!strcmp(argv[at], "--show")) {
            /* Run one seed with one bug in this process, and print the reason. */
            vip_mutant = (unsigned)strtoul(argv[at + 1], NULL, 0);
            run_one(vip_mutant, options.base);
            return 0;
        }
        if (!parse(&options, argv[at], argv[at + 1]))
            return 2;
    }
    if (options.known)
        read_known(options.known);
    for (unsigned n = 1; n < VIP_MUTANT_COUNT; n++) {
        if (!wanted(bugs[n].name, argc - at, argv + at))
            continue;
        if (found(n, &options))
            seen++;
        else
            missed++;
        if (options.update)
            write_known(options.update);
    }
    printf("%u planted bugs found, %u not, %.1f s\n", seen, missed,
           seconds_of(CLOCK_MONOTONIC) - start_s);
    return missed || !seen;
}
