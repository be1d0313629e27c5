/*
 * mutants: does the simulator find every planted bug (vipd/engine/mutant.h)?
 *
 *   mutants [--seeds N] [--seed BASE] [NAME...]
 *   mutants --seed S --show NUMBER      one seed with one bug, with the reason
 *
 * Each bug is switched on in a child process that runs seeds from BASE on until one fails: N of whole hosts,
 * and for every sixth of them one of two engines alone, which meet a full window more often. So much
 * is the budget that every change gets (sim_hosts, sim_random). Then the control: every seed that was needed
 * to find any of them runs without a bug and must pass, or it was not the bug that was found.
 * Exit status 0 if all were found and the control passed.
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
#include "vipd/engine/mutant.h"

/* Processor time for one bug. Who takes longer has not found it: the judge must say what is wrong. */
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

static double real_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What number i of the seeds from base on has to show; does not return if it shows a fault. */
static void run_one(uint64_t base, uint64_t i)
{
    (void)play_seed(base + i, 0, NULL);
    if (i % HOSTS_PER_PAIR == 0)
        (void)app_run(&(struct app_args){
            .seed = base + i / HOSTS_PER_PAIR, .loss_ppm = UINT32_MAX, .messages = UINT32_MAX});
}

/* How the seeds with one bug ended. */
enum outcome {
    PASSED,
    FAILED,
    TOO_LONG, /* ended by the limit of processor time */
};

/* Run `budget` seeds with bug number n (0: none) until one fails; *ret_tried: how many were begun. */
static enum outcome hunt(unsigned n, uint64_t base, uint64_t budget, uint64_t *ret_tried)
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
        /* Its reasons interest nobody here; --seed S --show N prints those of one. The control's do. */
        if (n && !freopen("/dev/null", "w", stderr))
            _exit(2);
        setrlimit(RLIMIT_CPU, &(struct rlimit){.rlim_cur = LIMIT_S, .rlim_max = LIMIT_S + 1});
        vip_mutant = n;
        for (uint64_t i = 0; i < budget; i++) {
            *tried = i + 1;
            run_one(base, i);
        }
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid)
        exit(2);
    *ret_tried = *tried;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        outcome = PASSED;
    else if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
        outcome = TOO_LONG;
    munmap(tried, 4096);
    return outcome;
}

/* The first `seeds` seeds without any bug: whether all of them pass. */
static bool control(uint64_t base, uint64_t seeds)
{
    double began_s = real_s();
    uint64_t tried;

    switch (hunt(0, base, seeds, &tried)) {
    case PASSED:
        printf("control: %" PRIu64 " seeds without a bug pass, %.2f s\n", seeds,
               real_s() - began_s);
        return true;
    case FAILED:
        printf("control: FAILED, number %" PRIu64 " of the seeds fails without a bug, too\n",
               tried);
        break;
    case TOO_LONG:
        printf("control: FAILED, seeds without a bug take more than %u s\n", LIMIT_S);
        break;
    }
    return false;
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc == 0;
}

int main(int argc, char **argv)
{
    uint64_t budget = 2000, base = 1, missed = 0, found = 0, needed = 0;
    bool sound;
    double start_s = real_s();
    int at = 1;

    for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2) {
        if (!strcmp(argv[at], "--seeds"))
            budget = strtoull(argv[at + 1], NULL, 0);
        else if (!strcmp(argv[at], "--seed"))
            base = strtoull(argv[at + 1], NULL, 0);
        else if (!strcmp(argv[at], "--show")) {
            /* One seed with one bug, in this process, with the reason. */
            vip_mutant = (unsigned)strtoul(argv[at + 1], NULL, 0);
            (void)play_seed(base, 0, NULL);
            return 0;
        } else
            return 2;
    }
    for (unsigned n = 1; n < VIP_MUTANT_COUNT; n++) {
        double began_s = real_s();
        uint64_t tried;
        bool seen;

        if (!wanted(bugs[n].name, argc - at, argv + at))
            continue;
        seen = hunt(n, base, budget, &tried) == FAILED;
        found += seen;
        missed += !seen;
        needed = tried > needed ? tried : needed;
        printf("%2u %-22s %s %5" PRIu64 " seeds %6.2f s  %s\n", n, bugs[n].name,
               seen ? "found after" : "NOT FOUND in", tried, real_s() - began_s, bugs[n].what);
    }
    sound = control(base, needed);
    printf("%" PRIu64 " planted bugs found, %" PRIu64 " not, %.1f s\n", found, missed,
           real_s() - start_s);
    return missed || !sound ? 1 : 0;
}
