/*
 * Missing pages: the test truncates a mapped memfd, so that each access raises SIGBUS. The fault
 * breaks only the owner of the mapping; the process and other owners go on.
 */
#include "vipd/registry/guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGE  4096ul
#define PAGES 200ul /* more pages than the guard has stand-in pages */

/* Memory whose pages the test can remove. */
struct area {
    int fd;
    volatile uint8_t *at;
};

static struct area area_new(void)
{
    struct area area = {.fd = memfd_create("test", MFD_CLOEXEC)};
    void *map;

    assert_true(area.fd >= 0);
    assert_int_equal(ftruncate(area.fd, (off_t)(PAGES * PAGE)), 0);
    map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, area.fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    area.at = map;
    memset(map, 'x', PAGES * PAGE);
    return area;
}

static void area_free(struct area *area)
{
    munmap((void *)area->at, PAGES * PAGE);
    close(area->fd);
}

/* cmocka installs its own signal handlers for each test, so install ours again. */
static void install(void)
{
    assert_int_equal(guard_install(), 0);
}

static void test_missing_pages_break_their_owner_only(void **state)
{
    struct area bad = area_new(), good = area_new();
    struct guard bad_owner = {0}, good_owner = {0};
    uint32_t before = guard_faults();
    uint32_t bad_number = guard_add(&bad_owner, (void *)bad.at, PAGES * PAGE);
    uint32_t good_number = guard_add(&good_owner, (void *)good.at, PAGES * PAGE);

    (void)state;
    install();
    assert_true(bad_number > 0 && good_number > 0 && bad_number != good_number);
    assert_int_equal(ftruncate(bad.fd, PAGE), 0);
    assert_int_equal(bad.at[PAGE - 1], 'x');
    assert_false(guard_faulted(&bad_owner));

    assert_int_equal(bad.at[5 * PAGE + 7], 0);
    assert_true(guard_faulted(&bad_owner));
    assert_int_equal(guard_faults(), before + 1);
    bad.at[5 * PAGE + 7] = 1; /* the guard has put a page here */
    assert_int_equal(bad.at[5 * PAGE + 7], 1);
    assert_int_equal(guard_faults(), before + 1);

    /* Writes raise SIGBUS, too. Bytes of one stand-in page do not appear in a later one. */
    for (unsigned long i = 6; i < PAGES; i++) {
        bad.at[i * PAGE] = 0xee;
        assert_int_equal(bad.at[i * PAGE + 1], 0);
    }
    assert_int_equal(bad_owner.faults, PAGES - 5);
    assert_int_equal(good.at[PAGES * PAGE - 1], 'x');
    assert_false(guard_faulted(&good_owner));
    guard_remove(bad_number);
    guard_remove(good_number);
    area_free(&bad);
    area_free(&good);
}

/* A copy from a missing page goes on to the end. A fault count tells that the copy is invalid. */
static void test_a_copy_goes_on(void **state)
{
    struct area area = area_new();
    struct guard owner = {0};
    uint32_t number = guard_add(&owner, (void *)area.at, PAGES * PAGE);
    uint32_t before = guard_copy_faults();
    static uint8_t to[4 * PAGE];

    (void)state;
    install();
    assert_int_equal(ftruncate(area.fd, (off_t)(2 * PAGE)), 0);
    memcpy(to, (void *)area.at, sizeof(to));
    assert_int_equal(to[2 * PAGE - 1], 'x');
    assert_int_equal(to[2 * PAGE], 0);
    assert_int_equal(to[4 * PAGE - 1], 0);
    assert_int_equal(guard_copy_faults(), before + 2);
    guard_remove(number);
    area_free(&area);
}

static void *touch(void *area)
{
    (void)((struct area *)area)->at[2 * PAGE];
    return NULL;
}

/* guard_copy_faults counts no fault of another thread, but guard_faults counts all faults. */
static void test_a_fault_of_another_thread(void **state)
{
    struct area area = area_new();
    struct guard owner = {0};
    uint32_t number = guard_add(&owner, (void *)area.at, PAGES * PAGE);
    uint32_t mine = guard_copy_faults(), all = guard_faults();
    pthread_t thread;

    (void)state;
    install();
    assert_int_equal(ftruncate(area.fd, (off_t)PAGE), 0);
    assert_int_equal(pthread_create(&thread, NULL, touch, &area), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(guard_faulted(&owner));
    assert_int_equal(guard_faults(), all + 1);
    assert_int_equal(guard_copy_faults(), mine);
    guard_remove(number);
    area_free(&area);
}

/* A child touches a missing page of memory that is not in the table: SIGBUS must end the child. */
static void dies_of_sigbus(const struct area *area)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit none = {0};

        setrlimit(RLIMIT_CORE, &none);
        (void)area->at[3 * PAGE];
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGBUS : WEXITSTATUS(status) != 0);
}

static void test_other_faults_end_the_process(void **state)
{
    struct area area = area_new();
    struct guard owner = {0};
    uint32_t number;

    (void)state;
    install();
    assert_int_equal(ftruncate(area.fd, 0), 0);
    dies_of_sigbus(&area);
    number = guard_add(&owner, (void *)area.at, 3 * PAGE); /* ends before the touched page */
    dies_of_sigbus(&area);
    guard_remove(number);
    number = guard_add(&owner, (void *)area.at, PAGES * PAGE);
    guard_remove(number);
    dies_of_sigbus(&area);
    assert_int_equal(owner.faults, 0);
    area_free(&area);
}

static void test_the_table_is_bounded_and_used_again(void **state)
{
    static uint32_t numbers[GUARD_MAPPINGS_MAX];
    struct guard owner = {0};
    uint32_t count = 0;

    (void)state;
    install();
    assert_int_equal(guard_add(&owner, &owner, 0), 0);
    guard_remove(0);
    for (unsigned round = 0; round < 2; round++) {
        for (count = 0; count < GUARD_MAPPINGS_MAX; count++) {
            numbers[count] = guard_add(&owner, numbers, sizeof(numbers));
            if (numbers[count] == 0)
                break;
        }
        assert_int_equal(count, GUARD_MAPPINGS_MAX);
        assert_int_equal(guard_add(&owner, numbers, sizeof(numbers)), 0);
        while (count-- > 0)
            guard_remove(numbers[count]);
    }
}

/* ---- the table changes while another thread faults ------------------------------------------ */

static bool changing = true;

static void *change_the_table(void *arg)
{
    struct area *area = arg;
    struct guard mine = {0};

    while (__atomic_load_n(&changing, __ATOMIC_RELAXED)) {
        uint32_t small = guard_add(&mine, (void *)area->at, PAGE);
        uint32_t large = guard_add(&mine, (void *)area->at, PAGES * PAGE);

        guard_remove(small);
        guard_remove(large);
    }
    return (void *)(uintptr_t)mine.faults;
}

static void test_the_table_changes_meanwhile(void **state)
{
    struct area area[2] = {area_new(), area_new()};
    struct guard owner = {0};
    uint32_t number = guard_add(&owner, (void *)area[0].at, PAGES * PAGE);
    pthread_t thread;
    void *faults;

    (void)state;
    install();
    assert_int_equal(pthread_create(&thread, NULL, change_the_table, &area[1]), 0);
    assert_int_equal(ftruncate(area[0].fd, 0), 0);
    for (unsigned long i = 0; i < PAGES; i++)
        area[0].at[i * PAGE] = 1;
    __atomic_store_n(&changing, false, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(thread, &faults), 0);
    assert_ptr_equal(faults, NULL);
    assert_int_equal(owner.faults, PAGES);
    guard_remove(number);
    area_free(&area[0]);
    area_free(&area[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_pages_break_their_owner_only),
        cmocka_unit_test(test_a_copy_goes_on),
        cmocka_unit_test(test_a_fault_of_another_thread),
        cmocka_unit_test(test_other_faults_end_the_process),
        cmocka_unit_test(test_the_table_changes_meanwhile),
        cmocka_unit_test(test_the_table_is_bounded_and_used_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
