/*
 * The kernel has some marks per mapping, not per page: locked memory, memory that must not be in
 * core dumps, memory that children must not see. libvipl stages such memory, so that its mapping
 * keeps the mark while the memory, or other memory on the same page, is registered.
 */
#include "test_vipl_mem.h"

#include <stdio.h>
#include <sys/resource.h>

#define PAGE MEM_PAGE_BYTES

/* Copy the flags ("rd wr mr ...") of the mapping at addr. Returns the mapping's length in bytes. */
static size_t flags_of(const void *addr, char *flags, size_t flags_bytes)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    unsigned long start = 0, end = 0, from, to;
    char line[512];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            start = from;
            end = to;
        } else if (!strncmp(line, "VmFlags:", 8) && (uintptr_t)addr >= start &&
                   (uintptr_t)addr < end) {
            snprintf(flags, flags_bytes, "%s", line + 8);
            fclose(file);
            return end - start;
        }
    }
    fail_msg("no mapping at %p", addr);
    return 0;
}

/* Map `count` pages between two pages without access: the kernel cannot join this mapping. */
static uint8_t *pages(size_t count)
{
    uint8_t *map = mmap(NULL, (count + 2) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + PAGE, count * PAGE, PROT_READ | PROT_WRITE), 0);
    memset(map + PAGE, 'x', count * PAGE);
    return map + PAGE;
}

static const struct {
    const char *flag; /* name of the mark in /proc/self/smaps */
    int advice;       /* argument of madvise; 0: use mlock */
    int other;        /* argument of a second madvise; 0: none */
} marks[] = {
    {" lo ", 0, 0},
    {" dd ", MADV_DONTDUMP, 0},
    {" wf ", MADV_WIPEONFORK, 0},
    {" dd ", MADV_DONTDUMP, MADV_WIPEONFORK},
    {" wf ", MADV_DONTDUMP, MADV_WIPEONFORK},
};

static void check_mark(unsigned at, size_t count)
{
    uint8_t *map = pages(count);
    char before[512], during[512], after[512];
    const char *why = NULL;
    struct vipl__mem mem;

    if (marks[at].advice == 0)
        assert_int_equal(lock_memory(map, count * PAGE), 0);
    else
        assert_int_equal(madvise(map, count * PAGE, marks[at].advice), 0);
    if (marks[at].other != 0)
        assert_int_equal(madvise(map, count * PAGE, marks[at].other), 0);
    assert_int_equal(flags_of(map, before, sizeof(before)), count * PAGE);
    assert_non_null(strstr(before, marks[at].flag));

    /* Register a buffer in the mapping, then the whole mapping. */
    for (unsigned all = 0; all < 2; all++) {
        assert_int_equal(
            vipl__mem_prepare(map + (all ? 0 : 100), all ? count * PAGE : 50, NULL, &mem, &why), 0);
        assert_int_equal(mem.kind, VIPL__MEM_STAGED);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(flags_of(map + i * PAGE, during, sizeof(during)), count * PAGE);
            assert_string_equal(during, before);
        }
        vipl__mem_release(&mem);
        assert_int_equal(flags_of(map, after, sizeof(after)), count * PAGE);
        assert_string_equal(after, before);
    }
    for (size_t i = 0; i < count * PAGE; i++)
        assert_int_equal(map[i], 'x');
    munmap(map - PAGE, (count + 2) * PAGE);
}

static void test_marked_memory_is_staged(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        check_mark(i, 1);
        check_mark(i, 2);
        check_mark(i, 7);
        /* This memory needs several moves, the last of one page. Any user may lock this much. */
        check_mark(i, MEM_MOVE_BYTES_MAX / PAGE + 1);
    }
}

/* Memory without marks is adopted, and afterwards its mapping is as before. */
static void test_other_memory_is_adopted(void **state)
{
    static const size_t counts[] = {1, 2, 7, MEM_MOVE_BYTES_MAX / PAGE + 1};

    (void)state;
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint8_t *map = pages(counts[i]);
        char before[512], after[512];
        const char *why = NULL;
        struct vipl__mem mem;

        flags_of(map, before, sizeof(before));
        assert_int_equal(vipl__mem_prepare(map, counts[i] * PAGE, NULL, &mem, &why), 0);
        assert_int_equal(mem.kind, VIPL__MEM_ADOPTED);
        vipl__mem_release(&mem);
        assert_int_equal(flags_of(map, after, sizeof(after)), counts[i] * PAGE);
        /* userfaultfd has made its own marks, but they are already removed. */
        assert_string_equal(after, before);
        munmap(map - PAGE, (counts[i] + 2) * PAGE);
    }
}

/* A marked page among others: a buffer that covers it is staged; a buffer next to it is adopted. */
static void test_a_marked_neighbour(void **state)
{
    uint8_t *map = pages(4);
    const char *why = NULL;
    struct vipl__mem mem;
    char flags[512];

    (void)state;
    assert_int_equal(madvise(map + 2 * PAGE, PAGE, MADV_DONTDUMP), 0);
    assert_int_equal(vipl__mem_prepare(map, 3 * PAGE, NULL, &mem, &why), 0);
    assert_int_equal(mem.kind, VIPL__MEM_STAGED);
    vipl__mem_release(&mem);
    assert_int_equal(flags_of(map + 2 * PAGE, flags, sizeof(flags)), PAGE);
    assert_non_null(strstr(flags, " dd "));
    assert_int_equal(vipl__mem_prepare(map, 2 * PAGE, NULL, &mem, &why), 0);
    assert_int_equal(mem.kind, VIPL__MEM_ADOPTED);
    vipl__mem_release(&mem);
    assert_int_equal(flags_of(map, flags, sizeof(flags)), 2 * PAGE);
    assert_null(strstr(flags, " dd "));
    munmap(map - PAGE, 6 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marked_memory_is_staged),
        cmocka_unit_test(test_other_memory_is_adopted),
        cmocka_unit_test(test_a_marked_neighbour),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
