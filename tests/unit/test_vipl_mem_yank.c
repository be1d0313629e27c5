/*
 * Another thread protects or unmaps staged memory exactly while libvipl copies it: the copy may fail, but
 * the process gets no fault.
 *
 * The worst moment is just after the kernel has said that the pages are there. So this test replaces
 * madvise: after each MADV_POPULATE_READ or _WRITE of the range, the test takes the range away.
 */
#include "test_vipl_mem.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define PAGE  MEM_PAGE_BYTES
#define PAGES 4ul

/* Start of the range that madvise takes away; 0: none. */
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

    /* MADV_POPULATE_READ and MADV_POPULATE_WRITE */
    if ((advice == 22 || advice == 23) && yank_start != 0 && (uintptr_t)addr >= yank_start &&
        (uintptr_t)addr < yank_start + PAGES * PAGE)
        yank();
    return (int)rc;
}

/* A mapping of a file, so it is staged. */
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

/* Between madvise and the copy the range is unmapped, or loses access, or becomes read-only; copies out and in. */
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
        /* Now the range is gone for certain. */
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

/* System calls without libc's functions: a sanitizer would report this race of the program, which the test needs. */
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

/* Whatever another thread does to the mapping, each copy ends, with or without an error. */
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

/* A region of up to MEM_POPULATE_BYTES_MAX has its pages before vipd touches them; a larger region does not. */
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
    /* The "in" half has its pages. libvipl writes the "out" half before vipd reads it. */
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
