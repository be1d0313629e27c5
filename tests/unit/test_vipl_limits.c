/*
 * Limits of a process that a program did not choose: libvipl stays within them, or reports which
 * limit is too low. Each test is a child, which a signal may end. The parent has the fake vipd.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "libvipl/vipl.h"
#include "libvipl/vipl_ext.h"
#include "unit/fake_vipd.h"

#define MEMORY_BYTES 65536u
#define HANDLE       0x00020001u
#define LIMIT_BYTES  (1ull << 30) /* less than the arena, and than the receive table */

/* In the child: a failed check exits with the number of its line, modulo 255, plus 1. */
#define CHECK(is)                                                                                  \
    do {                                                                                           \
        if (!(is))                                                                                 \
            _exit(__LINE__ % 255 + 1);                                                             \
    } while (0)

/* Run `program` in a child with the fake vipd. The sanitizer allows no threads before the fork. */
static void run(struct fake *fake, void (*program)(void))
{
    int status;
    pid_t pid;

    fake->number = HANDLE;
    fake->vi = 3;
    fake_listen(fake);
    pid = fork();
    if (pid == 0) {
        program();
        _exit(0);
    }
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_accept, fake), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    shutdown(fake->listener, SHUT_RDWR); /* the program may have ended before it connected */
    fake_end(fake);
    if (WIFSIGNALED(status))
        fail_msg("signal %d ended the program", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        fail_msg("line %d, modulo 255", WEXITSTATUS(status) - 1);
}

static void *pages(size_t bytes, int prot)
{
    void *map = mmap(NULL, bytes, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    CHECK(map != MAP_FAILED);
    return map;
}

static void *life_of_a_vi(void *arg)
{
    VIP_VI_ATTRIBUTES attributes = {
        VIP_SERVICE_RELIABLE_DELIVERY, MEMORY_BYTES, NULL, NULL, VIP_TRUE, VIP_FALSE};
    void *memory = pages(MEMORY_BYTES, PROT_READ | PROT_WRITE);
    VIP_MEM_HANDLE handle;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;

    memset(memory, 7, MEMORY_BYTES);
    CHECK(VipOpenNic("x", &nic) == VIP_SUCCESS);
    CHECK(VipRegisterMem(nic, memory, MEMORY_BYTES, NULL, &handle) == VIP_SUCCESS);
    CHECK(VipCreateVi(nic, &attributes, NULL, NULL, &vi) == VIP_SUCCESS);
    CHECK(VipDestroyVi(vi) == VIP_SUCCESS);
    CHECK(VipDeregisterMem(nic, memory, handle) == VIP_SUCCESS);
    CHECK(VipCloseNic(nic) == VIP_SUCCESS);
    CHECK(((uint8_t *)memory)[MEMORY_BYTES - 1] == 7);
    return arg;
}

/* The guard of the stack is larger than any frame, so a stack overflow ends the program. */
static void small_stack(void)
{
    pthread_attr_t attr;
    pthread_t thread;

    CHECK(pthread_attr_init(&attr) == 0);
    CHECK(pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN + (32u << 10)) == 0);
    CHECK(pthread_attr_setguardsize(&attr, 1u << 20) == 0);
    CHECK(pthread_create(&thread, &attr, life_of_a_vi, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void calls_fit_a_small_stack(void **state)
{
    struct fake fake = {.memory = FAKE_MEM_GOOD};

    (void)state;
    run(&fake, small_stack);
}

static void limit_files(uint64_t bytes)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

/* The last reason must name the limit, the size of the file and the size that the limit allows. */
static void check_reason(uint64_t asked_bytes, uint64_t limit_bytes)
{
    char words[128];

    snprintf(words, sizeof(words),
             "a file of %llu bytes, and RLIMIT_FSIZE (ulimit -f) is %llu bytes",
             (unsigned long long)asked_bytes, (unsigned long long)limit_bytes);
    CHECK(strstr(VipxLastError(), words) != NULL);
}

static void limited(void)
{
    limit_files(LIMIT_BYTES);
    life_of_a_vi(NULL);
}

/* vipd makes the arena. Without a receive table, messages of local programs go through vipd. */
static void a_program_works_with_a_limit_of_file_sizes(void **state)
{
    struct fake fake = {.memory = FAKE_MEM_GOOD, .direct = true};

    (void)state;
    run(&fake, limited);
    assert_int_equal(fake.requests[VIP__REQUEST__BODY_DIRECT], 0);
}

static void refused_segment(void)
{
    VIP_NIC_HANDLE nic;

    limit_files(VIP_APP_BYTES - 1);
    CHECK(VipOpenNic("x", &nic) == VIP_ERROR_RESOURCE);
    check_reason(VIP_APP_BYTES, VIP_APP_BYTES - 1);
}

static void refused_arena(void)
{
    VIP_NIC_HANDLE nic;

    limit_files(LIMIT_BYTES);
    CHECK(VipOpenNic("x", &nic) == VIP_ERROR_RESOURCE);
    check_reason(VIP_ARENA_BYTES, LIMIT_BYTES);
}

static void a_limit_of_file_sizes_is_the_reason_of_a_refused_open(void **state)
{
    struct fake fake = {.memory = FAKE_MEM_GOOD}, old = {.memory = FAKE_MEM_NONE};

    (void)state;
    run(&fake, refused_segment);
    run(&old, refused_arena);
}

/* Read-only memory is staged. libvipl writes its bytes to one half of the staging file. */
static void refused_region(void)
{
    void *memory = pages(2 * VIP_APP_BYTES, PROT_READ);
    VIP_MEM_HANDLE handle;
    VIP_NIC_HANDLE nic;

    limit_files(VIP_APP_BYTES);
    CHECK(VipOpenNic("x", &nic) == VIP_SUCCESS);
    CHECK(VipRegisterMem(nic, memory, 2 * VIP_APP_BYTES, NULL, &handle) == VIP_ERROR_RESOURCE);
    check_reason(2 * VIP_APP_BYTES, VIP_APP_BYTES);
    CHECK(VipRegisterMem(nic, memory, VIP_APP_BYTES, NULL, &handle) == VIP_SUCCESS);
    CHECK(VipDeregisterMem(nic, memory, handle) == VIP_SUCCESS);
    CHECK(VipCloseNic(nic) == VIP_SUCCESS);
}

static void a_limit_of_file_sizes_is_the_reason_of_a_refused_region(void **state)
{
    struct fake fake = {.memory = FAKE_MEM_GOOD};

    (void)state;
    run(&fake, refused_region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_fit_a_small_stack),
        cmocka_unit_test(a_program_works_with_a_limit_of_file_sizes),
        cmocka_unit_test(a_limit_of_file_sizes_is_the_reason_of_a_refused_open),
        cmocka_unit_test(a_limit_of_file_sizes_is_the_reason_of_a_refused_region),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
