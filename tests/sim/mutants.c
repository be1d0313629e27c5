/*
 * mutants: does the simulator find every planted bug (vipd/engine/mutant.h)?
 *
 *   mutants [--seeds N] [--seed BASE] [NAME...]
 *   mutants --seed S --show NUMBER      one seed with one bug, with the reason
 *
 * Each bug is switched on in a child process that runs seeds from BASE on until one fails: N of whole hosts,
 * and for every sixth of them one of two engines alone, which meet a full window more often. So much
 * is the budget that every change gets (sim_hosts, sim_random). Without a bug the same seeds must pass, which the
 * other tests show.
 * Exit status 0 if all were found.
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

/* Seeds needed to find bug number n; 0 = not found within the budget. */
static uint64_t hunt(unsigned n, uint64_t base, uint64_t budget)
{
    uint64_t *tried = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t result;
    int status = 0;
    pid_t pid;

    if (tried == MAP_FAILED)
        exit(2);
    fflush(stdout);
    pid = fork();
    if (pid < 0)
        exit(2);
    if (pid == 0) {
        /* Its reasons interest nobody here; --seed S --show N prints those of one. */
        if (!freopen("/dev/null", "w", stderr))
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
    result = *tried;
    if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
        (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL)))
        result = 0;
    munmap(tried, 4096);
    return result;
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
    uint64_t budget = 2000, base = 1, missed = 0, found = 0;
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
        uint64_t seeds;

        if (!wanted(bugs[n].name, argc - at, argv + at))
            continue;
        seeds = hunt(n, base, budget);
        found += seeds > 0;
        missed += seeds == 0;
        printf("%2u %-22s %s %5" PRIu64 " seeds %6.2f s  %s\n", n, bugs[n].name,
               seeds ? "found after" : "NOT FOUND in", seeds ? seeds : budget, real_s() - began_s,
               bugs[n].what);
    }
    printf("%" PRIu64 " planted bugs found, %" PRIu64 " not, %.1f s\n", found, missed,
           real_s() - start_s);
    return missed ? 1 : 0;
}
