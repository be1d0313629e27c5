/*
 * A library that is loaded into vipd before libc. Before it unmaps a shared mapping of 64 MiB or
 * more, it makes the file $SLOW_UNMAP/begun and waits until $SLOW_UNMAP/go exists. So munmap takes
 * long, as on a busy machine.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LARGE_BYTES (64ull << 20)
#define RANGES_MAX  64

static struct {
    char *base;
    size_t bytes;
} ranges[RANGES_MAX]; /* large mappings, also those that are already unmapped */
static unsigned range_count;

void *mmap(void *wanted, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): a system call returns a number */
    void *base = (void *)syscall(SYS_mmap, wanted, bytes, prot, flags, fd, offset);
    unsigned at;

    if (base != MAP_FAILED && (flags & MAP_SHARED) && bytes >= LARGE_BYTES) {
        at = __atomic_fetch_add(&range_count, 1, __ATOMIC_RELAXED);
        if (at < RANGES_MAX) {
            ranges[at].base = base;
            ranges[at].bytes = bytes;
        }
    }
    return base;
}

static int is_large(const char *base)
{
    unsigned count = __atomic_load_n(&range_count, __ATOMIC_RELAXED);

    for (unsigned i = 0; i < count && i < RANGES_MAX; i++)
        if (base >= ranges[i].base && base < ranges[i].base + ranges[i].bytes)
            return 1;
    return 0;
}

static void wait_for_go(const char *dir)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/begun", dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    snprintf(path, sizeof(path), "%s/go", dir);
    while (access(path, F_OK) < 0)
        usleep(1000);
}

int munmap(void *base, size_t bytes)
{
    const char *dir = getenv("SLOW_UNMAP");

    if (dir && is_large(base))
        wait_for_go(dir);
    return (int)syscall(SYS_munmap, base, bytes);
}
