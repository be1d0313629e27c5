/*
 * A library that is preloaded into vipd. It reports that each memory file has all seals, although
 * no file has a seal; and vipd cannot make protected memory files. So a program can cut its file
 * short, and vipd gets a SIGBUS, as for a page for which there is no memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/shm.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static long answer(int fd, int cmd, long arg)
{
    struct stat st;

    if (cmd == F_ADD_SEALS)
        return 0;
    if (cmd != F_GET_SEALS)
        return syscall(SYS_fcntl, fd, cmd, arg);
    if (fstat(fd, &st) == 0 && (st.st_size == VIP_APP_BYTES || st.st_size == VIP_VIPD_BYTES))
        return F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;
    return F_SEAL_SHRINK | F_SEAL_GROW;
}

int fcntl(int fd, int cmd, ...)
{
    va_list args;
    long arg;

    va_start(args, cmd);
    arg = va_arg(args, long);
    va_end(args);
    return (int)answer(fd, cmd, arg);
}

/* vipd gives a program a read-only descriptor of vipd's segment. Here the descriptor is also open
 * for writing, so that the program can cut the file short. */
int open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if (flags & O_CREAT)
        mode = va_arg(args, mode_t);
    va_end(args);
    if (strncmp(path, "/proc/self/fd/", 14) == 0)
        flags = (flags & ~O_ACCMODE) | O_RDWR;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* libc also exports fcntl by this name. */
int fcntl64(int fd, int cmd, ...) __attribute__((alias("fcntl")));

int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    long arg;

    va_start(args, request);
    arg = va_arg(args, long);
    va_end(args);
    if (request == FS_IOC_SETFLAGS) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_ioctl, fd, request, arg);
}
