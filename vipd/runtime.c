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

/*
 * Most connections that wait in the socket's queue while vipd is busy. If the queue is full, a
 * program that connects waits until there is room, and programs that connect without waiting can
 * take this room first. So the queue has the length that the kernel allows (net.core.somaxconn).
 * This is more than the number of threads of one user. systemd/vipd.socket has the same number.
 */
#define BACKLOG 4096

int runtime_default_dir(char *buf, size_t buf_bytes, char *err, size_t err_bytes)
{
    const char *dir = getenv("RUNTIME_DIRECTORY");
    const char *tail = "";
    int n;

    if (dir && dir[0] != '\0') {
        /* systemd separates several directories by colons; vipd uses the first one. */
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

/* The pid of the vipd that holds the lock, for the error message; 0: not known. */
static long read_owner(int fd)
{
    char text[32] = "";

    if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
        return 0;
    return strtol(text, NULL, 10);
}

/*
 * A process that can open the lock file can lock it and keep vipd from starting, so only vipd's
 * user may open it. A file that others may open is replaced, unless a process has its lock. A file
 * with a second name is replaced, too: the directory's owner could link any file there, and vipd
 * would overwrite that file.
 */
static int open_lock(const struct runtime *runtime)
{
    static const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    struct stat st;
    int fd = openat(runtime->dir_fd, "vipd.lock", flags, 0600);

    if (fd < 0 ||
        (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_mode & 077) && st.st_nlink == 1))
        return fd;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return fd; /* the caller reports who holds the lock */
    (void)unlinkat(runtime->dir_fd, "vipd.lock", 0);
    close(fd);
    return openat(runtime->dir_fd, "vipd.lock", flags | O_EXCL, 0600);
}

static int write_pid(int fd)
{
    char pid[32];
    int n = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());

    errno = ENOSPC; /* errno after an incomplete write */
    return ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)n, 0) != n ? -errno : 0;
}

static int take_lock(struct runtime *runtime, char *err, size_t err_bytes)
{
    char path[PATH_MAX + 16];
    int fd, r;

    snprintf(path, sizeof(path), "%s/vipd.lock", runtime->dir);
    fd = open_lock(runtime);
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
    r = write_pid(fd);
    if (r < 0) {
        snprintf(err, err_bytes, "%.200s cannot be written: %s", path, strerror(-r));
        close(fd);
        return r;
    }
    runtime->lock_fd = fd;
    return 0;
}

/* Refuse the open directory if another user may make, remove or rename files in it. */
static int check_dir(const struct runtime *runtime, uid_t user, char *err, size_t err_bytes)
{
    struct stat st;

    if (fstat(runtime->dir_fd, &st) < 0) {
        int r = -errno;

        snprintf(err, err_bytes, "the runtime directory %.200s cannot be looked at: %s",
                 runtime->dir, strerror(errno));
        return r;
    }
    if (st.st_uid != geteuid() && st.st_uid != 0 && st.st_uid != user) {
        snprintf(
            err, err_bytes,
            "the runtime directory %.200s belongs to uid %lu, which could replace vipd's socket; "
            "remove the directory, or choose a --runtime-dir that you own",
            runtime->dir, (unsigned long)st.st_uid);
        return -EPERM;
    }
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) && !(st.st_mode & S_ISVTX)) {
        snprintf(err, err_bytes,
                 "other users may write in the runtime directory %.200s (mode %04o), and could "
                 "replace vipd's socket; run chmod go-w on it, or choose another --runtime-dir",
                 runtime->dir, st.st_mode & 07777);
        return -EPERM;
    }
    return 0;
}

/* Make the directory if it is missing, open it, and check its owner and mode. */
static int open_dir(const char *dir, uid_t user, struct runtime *ret, char *err, size_t err_bytes)
{
    int r;

    ret->lock_fd = ret->sock = ret->dir_fd = -1;
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
    ret->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (ret->dir_fd < 0) {
        r = -errno;
        snprintf(err, err_bytes, "the runtime directory %.200s cannot be opened: %s", dir,
                 strerror(errno));
        return r;
    }
    return check_dir(ret, user, err, err_bytes);
}

int runtime_open(const char *dir, uid_t user, struct runtime *ret, char *err, size_t err_bytes)
{
    int r = open_dir(dir, user, ret, err, err_bytes);

    return r < 0 ? r : take_lock(ret, err, err_bytes);
}

int runtime_take(const char *dir, uid_t user, int lock_fd, struct runtime *ret, char *err,
                 size_t err_bytes)
{
    int r = open_dir(dir, user, ret, err, err_bytes);

    ret->lock_fd = lock_fd;
    return r;
}

void runtime_own(struct runtime *runtime)
{
    (void)write_pid(runtime->lock_fd);
    snprintf(runtime->socket_path, sizeof(runtime->socket_path), "%.90s/vipd.sock", runtime->dir);
}

/* Give a file to `user`, unless it has a second name: it may be a link to any other file. */
static int give_file(int dir_fd, const char *name, uid_t user)
{
    int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), r = 0;
    struct stat st;

    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    if (fstat(fd, &st) < 0 || ((S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode)) && st.st_nlink == 1 &&
                               fchownat(fd, "", user, (gid_t)-1, AT_EMPTY_PATH) < 0))
        r = -errno;
    close(fd);
    return r;
}

int runtime_give(struct runtime *runtime, uid_t user, char *err, size_t err_bytes)
{
    static const char *const names[] = {"vipd.lock", "vipd.sock",  "vipd.stats",
                                        "vipd.log",  "ticket.key", "owners"};
    struct stat st;
    int r = 0;

    for (size_t i = 0; r == 0 && i < sizeof(names) / sizeof(names[0]); i++)
        r = give_file(runtime->dir_fd, names[i], user);
    if (r == 0 && fstat(runtime->dir_fd, &st) < 0)
        r = -errno;
    if (r == 0 && !(st.st_mode & S_ISVTX) &&
        fchownat(runtime->dir_fd, "", user, (gid_t)-1, AT_EMPTY_PATH) < 0)
        r = -errno;
    if (r < 0)
        snprintf(err, err_bytes, "the runtime directory %.200s cannot be given to uid %lu: %s",
                 runtime->dir, (unsigned long)user, strerror(-r));
    return r;
}

/* Bind the socket with its mode. If root changed the mode later, it could change a file that the
 * directory's owner put in the socket's place. */
static int bind_as(int sock, const struct sockaddr_un *addr, mode_t mode)
{
    mode_t before = umask(~mode & 0777);
    int r = bind(sock, (const struct sockaddr *)addr, sizeof(*addr));

    (void)umask(before);
    return r;
}

int runtime_listen(struct runtime *runtime, mode_t mode, char *err, size_t err_bytes)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char path[sizeof(addr.sun_path)];
    int r;

    /* runtime_open has checked that these paths are short enough. */
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%.90s/vipd.sock.new", runtime->dir);
    snprintf(path, sizeof(path), "%.90s/vipd.sock", runtime->dir);
    runtime->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (runtime->sock < 0)
        goto fail;
    if (unlink(addr.sun_path) < 0 && errno != ENOENT)
        goto fail;
    if (bind_as(runtime->sock, &addr, mode) < 0)
        goto fail;
    if (listen(runtime->sock, BACKLOG) < 0 || rename(addr.sun_path, path) < 0) {
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

void runtime_leave(struct runtime *runtime)
{
    runtime->socket_path[0] = '\0';
}

void runtime_close(struct runtime *runtime)
{
    /* Use dir_fd, because the present user may have no access to the whole path. */
    if (runtime->socket_path[0] != '\0')
        unlinkat(runtime->dir_fd, "vipd.sock", 0);
    if (runtime->dir_fd >= 0)
        close(runtime->dir_fd);
    if (runtime->sock >= 0)
        close(runtime->sock);
    if (runtime->lock_fd >= 0)
        close(runtime->lock_fd);
    runtime->socket_path[0] = '\0';
    runtime->sock = runtime->lock_fd = runtime->dir_fd = -1;
}
