/*
 * Helpers for the tests of registered memory: vipd's view of a registration (the memfd mapped a
 * second time), the number of mappings of this process, and pretended limits of the kernel.
 */
#ifndef TEST_VIPL_MEM_H
#define TEST_VIPL_MEM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libvipl/mem_internal.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Locks memory by the system call, because under sanitizers the function mlock does nothing. */
static inline int lock_memory(const void *addr, size_t bytes)
{
    return (int)syscall(SYS_mlock, addr, bytes);
}

/* A small random generator, so that each run is the same. */
static inline uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*seed >> 33);
}

/* Map a shared or adopted range as vipd does; vipd_view_close, with the same length, unmaps it. */
static inline uint8_t *vipd_view_open(const struct vipl__mem *mem)
{
    bool adopted = mem->kind == VIPL__MEM_ADOPTED;
    int fd = adopted ? vipl__mem_arena_get(-1) : mem->fd;
    uint64_t start = mem->offset & ~(uint64_t)(MEM_PAGE_BYTES - 1);
    size_t bytes = mem->offset - start + mem->bytes;
    uint8_t *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);

    assert_true(map != MAP_FAILED);
    if (adopted)
        vipl__mem_arena_put();
    return map + (mem->offset - start);
}

static inline void vipd_view_close(uint8_t *view, size_t bytes)
{
    uintptr_t start = mem_page_down((uintptr_t)view);

    munmap((void *)start, (uintptr_t)view + bytes - start);
}

/* Returns the number of mappings of this process. The count itself allocates no memory. */
static inline size_t count_mappings(void)
{
    char buf[4096];
    size_t lines = 0;
    ssize_t got;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    while ((got = read(fd, buf, sizeof(buf))) > 0)
        for (ssize_t i = 0; i < got; i++)
            lines += buf[i] == '\n';
    close(fd);
    return lines;
}

/* The process must have at most `most` mappings. No check under sanitizers, which map memory. */
static inline void expect_mappings(size_t most)
{
    if (!SANITIZED)
        assert_in_range(count_mappings(), 1, most);
}

/* Start the memory code again with these pretended limits. No memory may be registered now. */
static inline void pretend(struct mem_switches limits)
{
    struct mem_state *st = vipl__mem_state();

    assert_non_null(st);
    assert_int_equal(st->runs.n, 0);
    if (st->uffd >= 0)
        close(st->uffd);
    st->uffd = -1;
    st->uffd_tried = false;
    if (st->maps_fd >= 0)
        close(st->maps_fd);
    st->maps_fd = -1;
    st->maps_tried = false;
    vipl__mem_switches = limits;
}

static inline int prepare(void *addr, size_t bytes, struct vipl__mem *ret)
{
    const char *why = NULL;
    int rc = vipl__mem_prepare(addr, bytes, NULL, ret, &why);

    if (rc != 0)
        assert_non_null(why);
    return rc;
}

static inline uint8_t *map_pages(size_t pages)
{
    uint8_t *map = mmap(NULL, pages * MEM_PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(map != MAP_FAILED);
    return map;
}

#endif
