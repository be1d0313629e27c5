/*
 * Running the other programs, and finding the pieces of splitcc itself: beside the program (in a build
 * folder) or where the installation puts them.
 */
#include "splitc/driver/driver.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

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
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 1;
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
