/* Other programs of this project; see program.h. */
#include "tools/vipctl/program.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void program_find(const char *name, char *buf, size_t buf_bytes)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    buf[0] = '\0';
    if (len <= 0)
        return;
    self[len] = '\0';
    slash = strrchr(self, '/');
    if (!slash)
        return;
    *slash = '\0';
    for (unsigned i = 0; i < 3; i++) {
        const char *between = i == 0 ? "" : i == 1 ? "/../sbin" : "/../vipd";

        snprintf(buf, buf_bytes, "%s%s/%s", self, between, name);
        if (access(buf, X_OK) == 0)
            return;
    }
    buf[0] = '\0';
}

enum exit_code program_run(const char *name, char *const arguments[])
{
    char path[PATH_MAX + 64];

    (void)fflush(stdout);
    program_find(name, path, sizeof(path));
    if (path[0] != '\0')
        execv(path, arguments);
    else
        execvp(name, arguments);
    fprintf(stderr, "vipctl: %s cannot be run: %s; it is looked for beside vipctl and in PATH\n",
            name, strerror(errno));
    return EXIT_FAILED;
}
