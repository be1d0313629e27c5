/* Starting a vipd on demand; see autostart.h. */
#include "libvipl/autostart.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/control.h"

#define TRIES   100 /* of connecting, when another program of the user was faster in starting it */
#define WAIT_US 50000 /* between two */

extern char **environ;

/* vipd is an administrator's program: its folder is in few users' PATH. */
static int spawn_vipd(char *const arguments[])
{
    static const char *const places[] = {"vipd", "/usr/sbin/vipd", "/usr/local/sbin/vipd"};
    pid_t pid = 0;
    int r = ENOENT, status;

    for (size_t i = 0; r == ENOENT && i < sizeof(places) / sizeof(*places); i++)
        r = posix_spawnp(&pid, places[i], NULL, NULL, arguments, environ);
    if (r != 0)
        return -r;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 0; /* the program reaps all children itself: connecting will tell */
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

int vipl__autostart(const char *socket_path)
{
    const char *wish = secure_getenv("VIPD_AUTOSTART");
    char dir[PATH_MAX], *slash;
    char *const arguments[] = {(char *)"vipd",
                               (char *)"--background",
                               (char *)"--runtime-dir",
                               dir,
                               (char *)"--idle-exit",
                               (char *)"30s",
                               NULL};
    int r, fd;

    if (wish == NULL || strcmp(wish, "1") != 0)
        return -ENOENT;
    snprintf(dir, sizeof(dir), "%s", socket_path);
    slash = strrchr(dir, '/');
    if (slash == NULL || slash == dir)
        return -EINVAL;
    *slash = '\0';
    r = spawn_vipd(arguments);
    /* Even if ours has failed: it may have found that another one was being started. */
    for (unsigned i = 0; i < TRIES; i++) {
        fd = vip_control_connect(socket_path);
        if (fd >= 0 || r == -ENOENT)
            return fd >= 0 ? fd : r;
        if (r < 0 && i >= TRIES / 10)
            return r;
        usleep(WAIT_US);
    }
    return r < 0 ? r : fd;
}
