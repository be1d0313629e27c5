/* Memory files that vipd makes (memfile.h). */
#include "vipd/registry/memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Written before vipd makes threads. */
static bool protects;
static dev_t dev; /* st_dev of all memfds of ordinary pages; 0: not known yet */
static bool core_is_small;

/* Bit of coredump_filter, see core(5): shared memory without a name in a file system. */
#define CORE_ANONYMOUS_SHARED 2u

void memfile_shrink_core(void)
{
    FILE *file = fopen("/proc/self/coredump_filter", "r+e");
    unsigned filter;

    if (!file)
        return;
    core_is_small = fscanf(file, "%x", &filter) == 1 && fseek(file, 0, SEEK_SET) == 0 &&
                    fprintf(file, "0x%x", filter & ~CORE_ANONYMOUS_SHARED) > 0;
    core_is_small = fclose(file) == 0 && core_is_small;
}

static bool protect(int fd)
{
    int flags = 0;

    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
        return false;
    flags |= FS_IMMUTABLE_FL;
    return ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
}

bool memfile_init(void)
{
    int fd = memfd_create("vipd-probe", MFD_CLOEXEC);
    struct stat st;

    protects = fd >= 0 && protect(fd);
    if (fd >= 0 && fstat(fd, &st) == 0)
        dev = st.st_dev;
    if (fd >= 0)
        close(fd);
    return protects;
}

bool memfile_is_like(int fd, const struct stat *st)
{
    struct statfs fs;

    if (!S_ISREG(st->st_mode))
        return false;
    return dev ? st->st_dev == dev : fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

bool memfile_protects(void)
{
    return protects;
}

int memfile_make(const char *name, uint64_t bytes, int more_seals)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), error;

    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | more_seals) == 0 &&
        (!protects || protect(fd)))
        return fd;
    error = errno;
    close(fd);
    return -error;
}

void *memfile_map(int fd, uint64_t bytes, off_t offset, bool writable)
{
    void *base = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                      MAP_SHARED | MAP_NORESERVE, fd, offset);

    if (base == MAP_FAILED)
        return NULL;
    if (!core_is_small)
        (void)madvise(base, bytes, MADV_DONTDUMP);
    return base;
}

bool memfile_is_protected(int fd)
{
    int flags = 0;

    return ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && (flags & FS_IMMUTABLE_FL);
}
