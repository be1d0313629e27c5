/*
 * Another thread protects or unmaps staged memory while libvipl copies it. The copy may fail, but
 * the process gets no fault. The worst moment is just after the kernel has reported that the pages
 * are there. So this test replaces madvise: after each MADV_POPULATE_READ or _WRITE of the range,
 * the test unmaps or protects the range.
 */
#include "test_vipl_mem.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define PAGE  MEM_PAGE_BYTES
#define PAGES 4ul

/* Start of the range that madvise unmaps or protects; 0: no range. */
static uintptr_t yank_start;
static int yank_prot = -1; /* the new protection of the range; -1: unmap it */

static void yank(void)
{
    if (yank_prot < 0)
        munmap((void *)yank_start, PAGES * PAGE);
    else
        mprotect((void *)yank_start, PAGES * PAGE, yank_prot);
}

int madvise(void *addr, size_t bytes, int advice)
{
    long rc = syscall(SYS_madvise, addr, bytes, advice);

    /* 22 is MADV_POPULATE_READ, 23 is MADV_POPULATE_WRITE */
    if ((advice == 22 || advice == 23) && yank_start != 0 && (uintptr_t)addr >= yank_start &&
        (uintptr_t)addr < yank_start + PAGES * PAGE)
        yank();
    return (int)rc;
}

/* Register a mapping of a file, which is therefore staged. */
static uint8_t *staged(int fd, struct vipl__mem *ret)
{
    const char *why = NULL;
    uint8_t *map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_true(map != MAP_FAILED);
    memset(map, 'x', PAGES * PAGE);
    assert_int_equal(vipl__mem_prepare(map, PAGES * PAGE, NULL, ret, &why), 0);
    assert_int_equal(ret->kind, VIPL__MEM_STAGED);
    return map;
}

static int file(void)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0 && ftruncate(fd, (off_t)(PAGES * PAGE)) == 0);
    return fd;
}

/* Between madvise and the copy the range is unmapped, or loses access, or becomes read-only. Both
 * directions of the copy are tested. */
static void test_taken_away_after_the_look(void **state)
{
    int fd = file();

    (void)state;
    for (unsigned way = 0; way < 6; way++) {
        struct vipl__mem mem;
        uint8_t *map = staged(fd, &mem);
        bool in = way & 1, done;

        memset(mem.stage_in, 'y', PAGES * PAGE);
        yank_prot = way < 2 ? -1 : way < 4 ? PROT_NONE : PROT_READ;
        yank_start = (uintptr_t)map;
        done = (in ? vipl__mem_stage_in : vipl__mem_stage_out)(&mem, (uintptr_t)map + 10,
                                                               2 * PAGE + 10);
        yank();
        /* Now the range is certainly unmapped or protected. */
        assert_int_equal((in ? vipl__mem_stage_in : vipl__mem_stage_out)(&mem, (uintptr_t)map + 10,
                                                                         2 * PAGE + 10),
                         !in && yank_prot == PROT_READ);
        if (done && !in)
            assert_int_equal(mem.stage_out[10], 'x');
        yank_start = 0;
        vipl__mem_release(&mem);
        munmap(map, PAGES * PAGE);
    }
    close(fd);
}

/* ---- two threads ---------------------------------------------------------------------------- */

static bool stop;

/* The thread makes system calls without libc's functions. Otherwise a sanitizer would report the
 * data race, which this test needs. */
static void *protect_and_unmap(void *arg)
{
    uint8_t *map = arg;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        syscall(SYS_mprotect, map, PAGES * PAGE, PROT_NONE);
        syscall(SYS_mprotect, map, PAGES * PAGE, PROT_READ);
        syscall(SYS_munmap, map + PAGE, PAGE);
        syscall(SYS_mmap, map, PAGES * PAGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    return NULL;
}

/* Another thread changes the mapping all the time. Each copy ends, with or without an error. */
static void test_taken_away_by_a_thread(void **state)
{
    int fd = file();
    struct vipl__mem mem;
    uint8_t *map = staged(fd, &mem);
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, protect_and_unmap, map), 0);
    for (unsigned i = 0; i < 20000; i++) {
        (void)vipl__mem_stage_out(&mem, (uintptr_t)map + 1, 3 * PAGE);
        (void)vipl__mem_stage_in(&mem, (uintptr_t)map + 1, 3 * PAGE);
        (void)vipl__mem_stage_takes((uintptr_t)map, 3 * PAGE);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    vipl__mem_release(&mem);
    munmap(map, PAGES * PAGE);
    close(fd);
}

/* ---- memory that the kernel charges to the program ------------------------------------------- */

static uint64_t file_bytes(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* A region of up to MEM_POPULATE_BYTES_MAX gets its pages at registration, before vipd touches
 * them. A larger region does not. */
static void test_registration_takes_the_memory(void **state)
{
    struct vipl__mem mem;
    const char *why = NULL;
    uint8_t *shared = vipl__mem_alloc(MEM_POPULATE_BYTES_MAX + PAGE), *map;
    int fd = file();

    (void)state;
    assert_non_null(shared);
    assert_int_equal(vipl__mem_prepare(shared, MEM_POPULATE_BYTES_MAX + 1, NULL, &mem, &why), 0);
    assert_int_equal(mem.kind, VIPL__MEM_SHARED);
    assert_int_equal(file_bytes(mem.fd), 0);
    vipl__mem_release(&mem);
    assert_int_equal(vipl__mem_prepare(shared + PAGE - 1, 3 * PAGE + 2, NULL, &mem, &why), 0);
    assert_true(file_bytes(mem.fd) >= 5 * PAGE);
    vipl__mem_release(&mem);
    vipl__mem_free(shared);

    map = staged(fd, &mem);
    /* The "in" half has its pages. libvipl writes the "out" half first, so this half needs none. */
    assert_true(file_bytes(mem.fd) >= PAGES * PAGE);
    vipl__mem_release(&mem);
    munmap(map, PAGES * PAGE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken_away_after_the_look),
        cmocka_unit_test(test_taken_away_by_a_thread),
        cmocka_unit_test(test_registration_takes_the_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
