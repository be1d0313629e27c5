/*
 * Runs gcc and sc1. Finds the parts of splitcc: in a build folder they are beside the program
 * splitcc, otherwise in the folders of the installation.
 */
#include "splitc/driver/driver.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* asked_to_end: the signal that ends splitcc, or 0. running: process id of the program, or 0. */
static volatile sig_atomic_t asked_to_end;
static volatile pid_t running;

static void on_signal(int number)
{
    asked_to_end = number;
    if (running)
        kill(running, SIGTERM);
}

void run_begin(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal}, old;

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

/* Wait until a program ends. Returns its status in the format of waitpid. */
static int wait_for(pid_t pid)
{
    int status;

    running = pid;
    /* A signal may have come before `running` was set. Then on_signal has not ended the program. */
    if (asked_to_end)
        kill(pid, SIGTERM);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 1 << 8;
    running = 0;
    if (asked_to_end)
        exit(128 + asked_to_end);
    return status;
}

int run(const struct options *o, const struct words *command)
{
    pid_t pid;
    int status, error;

    if (o->verbose) {
        for (int i = 0; i < command->count; i++)
            fprintf(stderr, "%s%s", i ? " " : " ", command->items[i]);
        fputc('\n', stderr);
    }
    if (o->dry)
        return 0;
    error = posix_spawnp(&pid, command->items[0], NULL, NULL, command->items, environ);
    if (error) {
        fprintf(stderr, "splitcc: cannot run %s: %s\n", command->items[0], strerror(error));
        return 1;
    }
    status = wait_for(pid);
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGPIPE)
        fprintf(stderr, "splitcc: %s was ended by signal %d\n", command->items[0],
                WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static char *pick(const char *here, const char *beside, const char *installed)
{
    char *path = words_format("%s/%s", here, beside);

    if (access(path, R_OK) == 0)
        return path;
    return words_format("%s/%s", here, installed);
}

void paths_find(struct paths *p)
{
    char self[PATH_MAX] = "";
    char *here;

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        snprintf(self, sizeof(self), "%s/splitcc", "/usr/bin");
    here = dirname(self);
    p->sc1 = pick(here, "sc1", "../libexec/vipd/sc1");
    p->lib = pick(here, "libsplitc.a", "../lib/libsplitc.a");
    p->vipl = pick(here, "../libvipl/libvipl.a", "../lib/libvipl.a");
    p->include = access(p->lib, R_OK) == 0 && strstr(p->lib, "../")
                     ? words_format("%s/../include", here)
                     : words_format("%s/include", here);
}
