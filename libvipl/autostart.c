/* Start a vipd on demand; see autostart.h. */
#include "libvipl/autostart.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/control.h"

#define TRIES   100   /* number of tries to connect; another program may be starting vipd */
#define WAIT_US 50000 /* us between two tries to connect */

extern char **environ;

/* Look for vipd in PATH, then in the folders for daemons, which few users have in PATH. */
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
            /* The program itself has reaped this child. A later connect shows whether vipd runs. */
            return 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

/* Is `line`, without its blanks and its comment, equal to `word`? Changes the line. */
static bool line_says(char *line, const char *word)
{
    char *to = line;

    for (const char *from = line; *from != '\0' && *from != '#'; from++)
        if (strchr(" \t\r\n", *from) == NULL)
            *to++ = *from;
    *to = '\0';
    return strcmp(line, word) == 0;
}

/*
 * Does the user's own vipd.conf have [daemon] autostart = yes? Errors of the file are not reported
 * here: vipd reports them when it starts.
 */
static bool configured(void)
{
    const char *config = secure_getenv("XDG_CONFIG_HOME"), *home = secure_getenv("HOME");
    char path[PATH_MAX], line[256];
    bool daemon = false, wished = false;
    FILE *file;
    int len;

    if (config != NULL && config[0] == '/')
        len = snprintf(path, sizeof(path), "%s/vipd/vipd.conf", config);
    else if (home != NULL && home[0] == '/')
        len = snprintf(path, sizeof(path), "%s/.config/vipd/vipd.conf", home);
    else
        return false;
    file = len < (int)sizeof(path) ? fopen(path, "re") : NULL;
    if (file == NULL)
        return false;
    while (!wished && fgets(line, sizeof(line), file) != NULL) {
        if (line[0] == '[')
            daemon = line_says(line, "[daemon]");
        else
            wished = daemon && line_says(line, "autostart=yes");
    }
    (void)fclose(file);
    return wished;
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

    if (wish != NULL ? strcmp(wish, "1") != 0 : !configured())
        return -ENOENT;
    snprintf(dir, sizeof(dir), "%s", socket_path);
    slash = strrchr(dir, '/');
    if (slash == NULL || slash == dir)
        return -EINVAL;
    *slash = '\0';
    r = spawn_vipd(arguments);
    /* Try even if our vipd has failed: another vipd may be starting. */
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
