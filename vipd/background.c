/* Leaving the terminal; see background.h. */
#include "vipd/background.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int ready_fd = -1; /* the child writes to this pipe when it is ready; -1: no pipe */

int background_begin(void)
{
    int ends[2];
    char byte;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    pid = fork();
    if (pid < 0) {
        int error = errno;

        close(ends[0]);
        close(ends[1]);
        return -error;
    }
    if (pid > 0) {
        close(ends[1]);
        /* A byte: the child is ready. End of file: the child has ended and has printed why. */
        _exit(read(ends[0], &byte, 1) == 1 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    close(ends[0]);
    ready_fd = ends[1];
    (void)setsid();
    return 0;
}

void background_ready(const char *dir)
{
    char path[PATH_MAX];
    int null, log;

    if (ready_fd < 0)
        return;
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof(path), "%s/vipd.log", dir);
    log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
    }
    if (log >= 0 || null >= 0)
        (void)dup2(log >= 0 ? log : null, STDERR_FILENO);
    if (null >= 0)
        close(null);
    if (log >= 0)
        close(log);
    if (write(ready_fd, "", 1) < 0) {
        /* The first process is gone: no process waits for the byte. */
    }
    close(ready_fd);
    ready_fd = -1;
}
