/*
 * What is mapped at an address. Each query asks the kernel, because a program may have unmapped
 * registered memory, or mapped other memory there.
 *
 * PROCMAP_QUERY (Linux 6.11) answers for one address in a microsecond. Older kernels have only the
 * text of /proc/self/maps; each query reads this text up to the address.
 */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The kernel's structure, declared here because system headers may be older than the kernel. */
struct procmap_query_abi {
    uint64_t size;
    uint64_t query_flags;
    uint64_t query_addr;
    uint64_t vma_start;
    uint64_t vma_end;
    uint64_t vma_flags;
    uint64_t vma_page_size;
    uint64_t vma_offset;
    uint64_t inode;
    uint32_t dev_major;
    uint32_t dev_minor;
    uint32_t vma_name_size;
    uint32_t build_id_size;
    uint64_t vma_name_addr;
    uint64_t build_id_addr;
};
_Static_assert(sizeof(struct procmap_query_abi) == 104, "layout of the kernel");

#define QUERY_IOCTL            _IOWR('f', 17, struct procmap_query_abi)
#define QUERY_READABLE         0x01
#define QUERY_WRITABLE         0x02
#define QUERY_EXECUTABLE       0x04
#define QUERY_SHARED           0x08
#define QUERY_COVERING_OR_NEXT 0x10

/* Bytes of a line that are kept: the whole part before the path. */
#define LINE_BYTES 128

static int query_ioctl(int fd, uintptr_t addr, struct mem_piece *ret)
{
    struct procmap_query_abi q = {
        .size = sizeof(q),
        .query_flags = QUERY_COVERING_OR_NEXT,
        .query_addr = addr,
    };

    if (ioctl(fd, QUERY_IOCTL, &q) != 0)
        return -errno;
    *ret = (struct mem_piece){
        .start = q.vma_start,
        .end = q.vma_end,
        .offset = q.vma_offset,
        .ino = q.inode,
        .dev = makedev(q.dev_major, q.dev_minor),
        .prot = ((q.vma_flags & QUERY_READABLE) ? PROT_READ : 0) |
                ((q.vma_flags & QUERY_WRITABLE) ? PROT_WRITE : 0) |
                ((q.vma_flags & QUERY_EXECUTABLE) ? PROT_EXEC : 0),
        .shared = (q.vma_flags & QUERY_SHARED) != 0,
    };
    return 0;
}

/* Parse a line such as "7f00-7f01 rw-p 00001000 00:01 123 path". Outcomes: 0; -EINVAL. */
static int parse_line(const char *line, struct mem_piece *ret)
{
    char *at;
    struct mem_piece p = {0};

    p.start = strtoul(line, &at, 16);
    if (*at++ != '-')
        return -EINVAL;
    p.end = strtoul(at, &at, 16);
    if (*at++ != ' ' || strnlen(at, 5) < 5)
        return -EINVAL;
    p.prot = (at[0] == 'r' ? PROT_READ : 0) | (at[1] == 'w' ? PROT_WRITE : 0) |
             (at[2] == 'x' ? PROT_EXEC : 0);
    p.shared = at[3] == 's';
    p.offset = strtoull(at + 4, &at, 16);
    unsigned long major_number = strtoul(at, &at, 16);
    if (*at++ != ':')
        return -EINVAL;
    p.dev = makedev((unsigned)major_number, (unsigned)strtoul(at, &at, 16));
    p.ino = strtoull(at, NULL, 10);
    *ret = p;
    return 0;
}

/* Read the text without stdio: stdio uses the heap, and another thread may be moving heap pages. */
static int query_text(uintptr_t addr, struct mem_piece *ret)
{
    char buf[4096];
    char line[LINE_BYTES];
    size_t used = 0;
    int rc = -ENOENT;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return errno == ENOENT ? -ENOSYS : -errno; /* to callers, -ENOENT means: no mapping */
    for (;;) {
        ssize_t got = read(fd, buf, sizeof(buf));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            rc = -errno;
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got; i++) {
            if (buf[i] != '\n') {
                if (used < sizeof(line) - 1)
                    line[used++] = buf[i];
                continue;
            }
            line[used] = 0;
            used = 0;
            if (parse_line(line, ret) == 0 && ret->end > addr) {
                rc = 0;
                goto out;
            }
        }
    }
out:
    close(fd);
    return rc;
}

int vipl__mem_query(struct mem_state *st, uintptr_t addr, struct mem_piece *ret)
{
    struct mem_piece piece;
    int rc;

    if (!st->maps_tried) {
        st->maps_tried = true;
        if (!vipl__mem_switches.no_procmap_query)
            st->maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    }
    rc = st->maps_fd >= 0 ? query_ioctl(st->maps_fd, addr, &piece) : -ENOTTY;
    /* If the query failed, read the text: the program may have reused our file descriptor. */
    if (rc != 0 && rc != -ENOENT)
        rc = query_text(addr, &piece);
    if (rc == 0)
        *ret = piece;
    return rc;
}
