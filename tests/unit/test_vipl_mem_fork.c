/*
 * Registered memory and fork: before user code runs, the child gets its own copies of the pages, as
 * they were at the fork. Nothing that the child does changes the parent's memory and registrations.
 */
#include "test_vipl_mem.h"

#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define PAGE MEM_PAGE_BYTES

#if SANITIZED
#define FORKS 20
#else
#define FORKS 200
#endif

/* No code of cmocka may run in the child, so a failed check is an exit code. */
#define CHILD_CHECK(cond)                                                                          \
    do {                                                                                           \
        if (!(cond))                                                                               \
            _exit(__LINE__ % 200 + 1);                                                             \
    } while (0)

static void expect_success(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("child: exit %d (line of the check, modulo 200, plus 1), signal %d",
                 WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* Make two blocks of 10,000 bytes and prepare them for registration. The first is from malloc:
 * 9,000 bytes of it are adopted, and it is filled with 1. The second is from libvipl: shared,
 * filled with 2. */
static void two_blocks(uint8_t **ret_block, uint8_t **ret_born, struct vipl__mem mem[2])
{
    uint8_t *block = malloc(10000), *born = vipl__mem_alloc(10000);

    assert_non_null(block);
    assert_non_null(born);
    memset(block, 1, 10000);
    memset(born, 2, 10000);
    assert_int_equal(prepare(block + 50, 9000, &mem[0]), 0);
    assert_int_equal(mem[0].kind, VIPL__MEM_ADOPTED);
    assert_int_equal(prepare(born, 10000, &mem[1]), 0);
    assert_int_equal(mem[1].kind, VIPL__MEM_SHARED);
    *ret_block = block;
    *ret_born = born;
}

static void test_child_writes_its_own_copy(void **state)
{
    struct vipl__mem mem[2];
    uint8_t *block, *born;
    uint8_t *view;
    pid_t child;

    two_blocks(&block, &born, mem);
    child = fork();
    if (child == 0) {
        struct vipl__mem own;
        const char *why;
        CHILD_CHECK(block[0] == 1 && block[9999] == 1 && born[0] == 2 && born[9999] == 2);
        memset(block, 3, 10000);
        memset(born, 4, 10000);
        CHILD_CHECK(vipl__mem_state()->runs.n == 0);
        /* The parent's registrations mean nothing in the child; their release must do no harm. */
        vipl__mem_release(&mem[0]);
        vipl__mem_release(&mem[1]);
        CHILD_CHECK(vipl__mem_free(born) == -EINVAL);
        /* The child can make its own registrations. */
        CHILD_CHECK(vipl__mem_prepare(block + 10, 500, NULL, &own, &why) == 0);
        CHILD_CHECK(own.kind == VIPL__MEM_ADOPTED || own.kind == VIPL__MEM_STAGED);
        CHILD_CHECK(block[10] == 3);
        vipl__mem_release(&own);
        free(block);
        _exit(0);
    }
    assert_true(child > 0);
    expect_success(child);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(block[i], 1);
        assert_int_equal(born[i], 2);
    }
    view = vipd_view_open(&mem[0]);
    view[8999] = 9;
    vipd_view_close(view, 9000);
    assert_int_equal(block[50 + 8999], 9);
    vipl__mem_release(&mem[0]);
    vipl__mem_release(&mem[1]);
    assert_int_equal(block[50 + 8999], 9);
    assert_int_equal(vipl__mem_free(born), 0);
    free(block);
}

/* The child reads after the parent has written, but must see the bytes from before the fork. */
static void test_child_has_the_bytes_of_the_fork(void **state)
{
    uint8_t *map = map_pages(3);
    struct vipl__mem mem;
    int go[2];
    pid_t child;

    assert_int_equal(pipe(go), 0);
    memset(map, 1, 3 * PAGE);
    assert_int_equal(prepare(map, 3 * PAGE, &mem), 0);
    child = fork();
    if (child == 0) {
        char byte;
        CHILD_CHECK(read(go[0], &byte, 1) == 1);
        CHILD_CHECK(map[0] == 1 && map[3 * PAGE - 1] == 1);
        _exit(0);
    }
    assert_true(child > 0);
    memset(map, 2, 3 * PAGE);
    assert_int_equal(write(go[1], "x", 1), 1);
    expect_success(child);
    close(go[0]);
    close(go[1]);
    vipl__mem_release(&mem);
    assert_int_equal(map[PAGE], 2);
    munmap(map, 3 * PAGE);
}

/* Returns how many pages of address space this process uses. */
static size_t pages_used(void)
{
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    return strtoul(text, NULL, 10);
}

/* There is no memory for copies. The child may see later writes of the parent, but writes of the
 * child do not reach the parent. */
static void test_child_without_memory(void **state)
{
#if SANITIZED
    print_message("skipped: a sanitizer does not live with a limited address space\n");
    skip();
#endif
    uint8_t *map = map_pages(100);
    struct rlimit before;
    struct rlimit tight;
    struct vipl__mem mem;
    pid_t child;

    memset(map, 1, 100 * PAGE);
    assert_int_equal(prepare(map, 100 * PAGE, &mem), 0);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = (pages_used() + 50) * PAGE;
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    child = fork();
    if (child == 0) {
        CHILD_CHECK(map[0] == 1 && map[100 * PAGE - 1] == 1);
        memset(map, 2, 100 * PAGE);
        CHILD_CHECK(map[50 * PAGE] == 2);
        _exit(0);
    }
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_true(child > 0);
    expect_success(child);
    for (size_t i = 0; i < 100 * PAGE; i++)
        assert_int_equal(map[i], 1);
    vipl__mem_release(&mem);
    munmap(map, 100 * PAGE);
}

/* Without /proc libvipl does not know the mappings. It stages memory that exists, and refuses
 * memory that does not exist. */
static void test_child_without_proc(void **state)
{
    char empty[] = "/tmp/test_vipl_mem_XXXXXX";
    pid_t child;

    assert_non_null(mkdtemp(empty));
    child = fork();
    if (child == 0) {
        uint8_t *block = malloc(10000);
        struct vipl__mem mem;
        const char *why;

        if (geteuid() != 0 && unshare(CLONE_NEWUSER) != 0)
            _exit(0); /* this user may not use chroot */
        CHILD_CHECK(chroot(empty) == 0);
        CHILD_CHECK(vipl__mem_prepare(block, 10000, NULL, &mem, &why) == 0);
        CHILD_CHECK(mem.kind == VIPL__MEM_STAGED);
        vipl__mem_release(&mem);
        CHILD_CHECK(vipl__mem_prepare((void *)PAGE, 10, NULL, &mem, &why) == -EFAULT);
        _exit(0);
    }
    expect_success(child);
    rmdir(empty);
}

/* No descriptor is free to ask the kernel for the mappings. The child still gets its own pages. */
static void test_child_without_descriptors(void **state)
{
    struct rlimit limit, none;
    struct vipl__mem mem[2];
    uint8_t *block, *born;
    pid_t child;

    two_blocks(&block, &born, mem);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    child = fork();
    if (child == 0) {
        CHILD_CHECK(block[0] == 1 && block[9999] == 1 && born[0] == 2 && born[9999] == 2);
        memset(block, 3, 10000);
        memset(born, 4, 10000);
        _exit(0);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(child > 0);
    expect_success(child);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(block[i], 1);
        assert_int_equal(born[i], 2);
    }
    vipl__mem_release(&mem[0]);
    vipl__mem_release(&mem[1]);
    assert_int_equal(vipl__mem_free(born), 0);
    free(block);
}

static void test_child_that_executes(void **state)
{
    extern char **environ;
    char *const arguments[] = {"true", NULL};
    uint8_t *block = malloc(100);
    struct vipl__mem mem;
    pid_t child;

    memset(block, 5, 100);
    assert_int_equal(prepare(block, 100, &mem), 0);
    assert_int_equal(posix_spawnp(&child, "true", NULL, NULL, arguments, environ), 0);
    expect_success(child);
    child = fork();
    if (child == 0) {
        execvp("true", arguments);
        _exit(1);
    }
    expect_success(child);
    child = vfork();
    if (child == 0)
        _exit(0);
    expect_success(child);
    assert_int_equal(block[99], 5);
    vipl__mem_release(&mem);
    assert_int_equal(block[99], 5);
    free(block);
}

struct busy {
    uint8_t *map;
    atomic_bool stop;
    uint64_t lost;
};

static void *write_words(void *arg)
{
    struct busy *b = arg;
    volatile uint64_t *word = (volatile uint64_t *)(void *)(b->map + PAGE - 8);
    uint64_t expect = 0;

    while (!b->stop) {
        if (*word != expect)
            b->lost++;
        *word = ++expect;
        if (expect % 512 == 0)
            sched_yield();
    }
    return NULL;
}

static void *register_parts(void *arg)
{
    struct busy *b = arg;
    uint64_t seed = 3;

    while (!b->stop) {
        struct vipl__mem mem;
        const char *why;
        if (vipl__mem_prepare(b->map + next_random(&seed) % PAGE, PAGE, NULL, &mem, &why) != 0)
            return "not registered";
        vipl__mem_release(&mem);
        sched_yield();
    }
    return NULL;
}

/* The process forks while one thread registers and one writes. Each child overwrites the memory. */
static void test_forks_in_the_middle(void **state)
{
    struct busy b = {.map = map_pages(3)};
    struct vipl__mem mem;
    pthread_t threads[2];
    void *wrong;

    assert_int_equal(prepare(b.map + 2 * PAGE, 10, &mem), 0);
    assert_int_equal(pthread_create(&threads[0], NULL, write_words, &b), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, register_parts, &b), 0);
    for (unsigned i = 0; i < FORKS; i++) {
        b.map[2 * PAGE + 1] = (uint8_t)i;
        pid_t child = fork();
        if (child == 0) {
            struct mem_piece piece;
            CHILD_CHECK(b.map[2 * PAGE + 1] == (uint8_t)i);
            for (size_t p = 0; p < 3; p++) {
                CHILD_CHECK(
                    vipl__mem_query(vipl__mem_state(), (uintptr_t)b.map + p * PAGE, &piece) == 0);
                CHILD_CHECK(!piece.shared);
            }
            memset(b.map, 0xff, 3 * PAGE);
            _exit(0);
        }
        assert_true(child > 0);
        expect_success(child);
    }
    b.stop = true;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], &wrong);
    assert_null(wrong);
    assert_int_equal(b.lost, 0);
    vipl__mem_release(&mem);
    munmap(b.map, 3 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_writes_its_own_copy),
        cmocka_unit_test(test_child_has_the_bytes_of_the_fork),
        cmocka_unit_test(test_child_without_memory),
        cmocka_unit_test(test_child_without_descriptors),
        cmocka_unit_test(test_child_without_proc),
        cmocka_unit_test(test_child_that_executes),
        cmocka_unit_test(test_forks_in_the_middle),
    };

    pthread_atfork(vipl__mem_fork_prepare, vipl__mem_fork_parent, vipl__mem_fork_child);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
