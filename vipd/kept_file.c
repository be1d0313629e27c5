/* Files for the next vipd; see kept_file.h. */
#include "vipd/kept_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_ours(int fd, uid_t user, struct stat *ret)
{
    return fstat(fd, ret) == 0 && S_ISREG(ret->st_mode) && ret->st_nlink == 1 &&
           (ret->st_uid == geteuid() || ret->st_uid == user) && !(ret->st_mode & 077);
}

uint32_t kept_file_read(int dir_fd, const char *name, uid_t user, size_t entry_bytes, uint32_t most,
                        void **ret)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    uint64_t count = 0;
    struct stat st;

    *ret = NULL;
    if (fd < 0)
        return 0;
    if (is_ours(fd, user, &st)) {
        count = (uint64_t)st.st_size / entry_bytes;
        count = count < most ? count : most;
        *ret = count > 0 ? calloc(count, entry_bytes) : NULL;
    }
    if (*ret) {
        ssize_t bytes = pread(fd, *ret, count * entry_bytes, 0);

        count = bytes > 0 ? (size_t)bytes / entry_bytes : 0;
    }
    close(fd);
    return *ret ? (uint32_t)count : 0;
}

static void part_name(const char *name, char ret[NAME_MAX])
{
    snprintf(ret, NAME_MAX, "%s.new", name);
}

int kept_file_make(int dir_fd, const char *name)
{
    char part[NAME_MAX];
    int fd;

    part_name(name, part);
    (void)unlinkat(dir_fd, part, 0);
    fd = openat(dir_fd, part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd;
}

void kept_file_drop(int dir_fd, const char *name)
{
    char part[NAME_MAX];

    part_name(name, part);
    (void)unlinkat(dir_fd, part, 0);
}

int kept_file_name(int dir_fd, const char *name)
{
    char part[NAME_MAX];
    int r;

    part_name(name, part);
    if (renameat(dir_fd, part, dir_fd, name) == 0)
        return 0;
    r = -errno;
    kept_file_drop(dir_fd, name);
    return r;
}

/* Write all bytes. If a full disk takes only a part, the next write returns the reason. */
static int write_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t done = write(fd, bytes, len);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return done < 0 ? -errno : -ENOSPC;
        bytes += done;
        len -= (size_t)done;
    }
    return 0;
}

int kept_file_write(int dir_fd, const char *name, const void *bytes, size_t len)
{
    int fd = kept_file_make(dir_fd, name), r;

    if (fd < 0)
        return fd;
    r = write_all(fd, bytes, len);
    if (close(fd) < 0 && r == 0) /* some file systems report a full disk only here */
        r = -errno;
    if (r == 0)
        return kept_file_name(dir_fd, name);
    kept_file_drop(dir_fd, name);
    return r;
}
