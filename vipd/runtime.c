/* The runtime directory. */
#include "vipd/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 128 /* connects that wait while vipd is busy */

int runtime_default_dir(char *buf, size_t buf_bytes, char *err, size_t err_bytes)
{
    const char *dir = getenv("RUNTIME_DIRECTORY");
    const char *tail = "";
    int n;

    if (dir && dir[0] != '\0') {
        /* systemd separates several by colons; the first one is ours. */
        n = snprintf(buf, buf_bytes, "%.*s", (int)strcspn(dir, ":"), dir);
    } else if (geteuid() == 0) {
        n = snprintf(buf, buf_bytes, "/run/vipd");
    } else {
        dir = getenv("XDG_RUNTIME_DIR");
        tail = "/vipd";
        if (!dir || dir[0] == '\0') {
            snprintf(err, err_bytes,
                     "no runtime directory: XDG_RUNTIME_DIR is not set; give one with "
                     "--runtime-dir DIR and set VIPD_RUNTIME_DIR=DIR for the programs");
            return -ENOENT;
        }
        n = snprintf(buf, buf_bytes, "%s%s", dir, tail);
    }
    if (n < 0 || (size_t)n >= buf_bytes) {
        snprintf(err, err_bytes, "the path of the runtime directory is too long");
        return -ENAMETOOLONG;
    }
    return 0;
}

/* Who holds the lock, for the error message; 0 if he did not say. */
static long read_owner(int fd)
{
    char text[32] = "";

    if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
        return 0;
    return strtol(text, NULL, 10);
}

static int take_lock(struct runtime *runtime, char *err, size_t err_bytes)
{
    char path[PATH_MAX + 16], pid[32];
    int n, fd, r;

    snprintf(path, sizeof(path), "%s/vipd.lock", runtime->dir);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) {
        r = -errno;
        snprintf(err, err_bytes, "%.200s cannot be opened: %s; choose a --runtime-dir that you own",
                 path, strerror(errno));
        return r;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        r = errno == EWOULDBLOCK ? -EBUSY : -errno;
        if (r == -EBUSY)
            snprintf(err, err_bytes,
                     "another vipd (pid %ld) uses %.200s: stop it, or give this one another "
                     "--runtime-dir",
                     read_owner(fd), runtime->dir);
        else
            snprintf(err, err_bytes, "%.200s cannot be locked: %s; choose another --runtime-dir",
                     path, strerror(-r));
        close(fd);
        return r;
    }
    n = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    errno = ENOSPC; /* of a write that takes less than it was given */
    if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)n, 0) != n) {
        r = -errno;
        snprintf(err, err_bytes, "%.200s cannot be written: %s", path, strerror(errno));
        close(fd);
        return r;
    }
    runtime->lock_fd = fd;
    return 0;
}

int runtime_open(const char *dir, struct runtime *ret, char *err, size_t err_bytes)
{
    int r;

    ret->lock_fd = ret->sock = -1;
    ret->socket_path[0] = '\0';
    if (strlen(dir) + sizeof("/vipd.sock.new") > sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        snprintf(err, err_bytes,
                 "the runtime directory %.120s is too long: a socket's path has at most %zu "
                 "characters",
                 dir, sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
        return -ENAMETOOLONG;
    }
    snprintf(ret->dir, sizeof(ret->dir), "%s", dir);
    if (mkdir(dir, 0755) < 0 && errno != EEXIST) {
        r = -errno;
        snprintf(err, err_bytes, "the runtime directory %.200s cannot be made: %s", dir,
                 strerror(errno));
        return r;
    }
    return take_lock(ret, err, err_bytes);
}

int runtime_listen(struct runtime *runtime, mode_t mode, char *err, size_t err_bytes)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char path[sizeof(addr.sun_path)];
    int r;

    /* The lengths were checked in runtime_open. */
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%.90s/vipd.sock.new", runtime->dir);
    snprintf(path, sizeof(path), "%.90s/vipd.sock", runtime->dir);
    runtime->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (runtime->sock < 0)
        goto fail;
    if (unlink(addr.sun_path) < 0 && errno != ENOENT)
        goto fail;
    if (bind(runtime->sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
        goto fail;
    if (chmod(addr.sun_path, mode) < 0 || listen(runtime->sock, BACKLOG) < 0 ||
        rename(addr.sun_path, path) < 0) {
        r = errno;
        unlink(addr.sun_path);
        errno = r;
        goto fail;
    }
    snprintf(runtime->socket_path, sizeof(runtime->socket_path), "%s", path);
    return 0;
fail:
    r = -errno;
    snprintf(err, err_bytes, "cannot listen on %.110s: %s", path, strerror(-r));
    return r;
}

void runtime_close(struct runtime *runtime)
{
    if (runtime->socket_path[0] != '\0')
        unlink(runtime->socket_path);
    if (runtime->sock >= 0)
        close(runtime->sock);
    if (runtime->lock_fd >= 0)
        close(runtime->lock_fd);
    runtime->socket_path[0] = '\0';
    runtime->sock = runtime->lock_fd = -1;
}
