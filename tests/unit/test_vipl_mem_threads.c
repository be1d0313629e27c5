/*
 * Registered memory while other threads write: no write by user code or by system calls may be
 * lost, whether libvipl moves the page in or out. Each writer has its own words. Before each write
 * it checks that the word has the value it wrote last.
 */
#include "test_vipl_mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sched.h>

#define PAGE    MEM_PAGE_BYTES
#define WRITERS 3

#if SANITIZED
#define ROUNDS 300
#else
#define ROUNDS 1000
#endif

struct writer {
    pthread_t thread;
    uint8_t *base; /* memory that all writers share; each has its own words */
    size_t slots;  /* number of words of this writer, which are slot_bytes apart */
    size_t slot_bytes;
    size_t index;
    atomic_bool *stop;
    atomic_bool ready;
    uint64_t writes;  /* number of all writes */
    uint64_t lost;    /* number of times that a word did not have its last value */
    uint64_t refused; /* number of system calls that got EFAULT */
};

/* Returns the word of one slot. The words next to it in the same page belong to other writers. */
static uint64_t *word_of(const struct writer *w, size_t slot)
{
    return (uint64_t *)(void *)(w->base + slot * w->slot_bytes) + w->index;
}

static void *write_and_look(void *arg)
{
    struct writer *w = arg;
    uint64_t *expect = calloc(w->slots, sizeof(*expect));
    uint64_t seed = w->index;

    assert_non_null(expect);
    w->ready = true;
    while (!*w->stop) {
        size_t slot = next_random(&seed) % w->slots;
        volatile uint64_t *word = word_of(w, slot);
        if (*word != expect[slot])
            w->lost++;
        *word = ++expect[slot];
        w->writes++;
        if (w->writes % 1024 == 0)
            sched_yield();
    }
    for (size_t i = 0; i < w->slots; i++)
        if (*word_of(w, i) != expect[i])
            w->lost++;
    free(expect);
    return NULL;
}

/* Like write_and_look, but the kernel writes: pread(2) into the page. */
static void *write_by_system_call(void *arg)
{
    struct writer *w = arg;
    uint64_t expect = 0;
    int fd = memfd_create("counter", MFD_CLOEXEC);

    w->ready = true;
    while (!*w->stop) {
        uint64_t *word = word_of(w, 0);
        uint64_t next = expect + 1;
        if (pwrite(fd, &next, sizeof(next), 0) != (ssize_t)sizeof(next))
            break;
        if (*word != expect)
            w->lost++;
        if (pread(fd, word, sizeof(next), 0) == (ssize_t)sizeof(next))
            expect = next;
        else
            w->refused++;
        w->writes++;
    }
    close(fd);
    return NULL;
}

static void start(struct writer *w, void *(*run)(void *))
{
    assert_int_equal(pthread_create(&w->thread, NULL, run, w), 0);
    while (!w->ready)
        sched_yield();
}

/* Register and release random parts of [base + lead_bytes, base + bytes). */
static void churn(uint8_t *base, size_t bytes, size_t lead_bytes, unsigned rounds)
{
    uint64_t seed = bytes;

    for (unsigned i = 0; i < rounds; i++) {
        size_t from = lead_bytes + next_random(&seed) % (bytes - lead_bytes);
        size_t len = 1 + next_random(&seed) % (bytes - from);
        struct vipl__mem mem;
        assert_int_equal(prepare(base + from, len, &mem), 0);
        assert_int_equal(mem.kind, VIPL__MEM_ADOPTED);
        vipl__mem_release(&mem);
        if (i % 64 == 0)
            sched_yield();
    }
}

static void run_writers(uint8_t *base, size_t bytes, size_t slot_bytes, size_t lead_bytes)
{
    atomic_bool stop = false;
    struct writer writers[WRITERS];
    uint64_t writes = 0;

    memset(writers, 0, sizeof(writers));
    memset(base, 0, bytes);
    for (size_t i = 0; i < WRITERS; i++) {
        writers[i].base = base;
        writers[i].slots = bytes / slot_bytes;
        writers[i].slot_bytes = slot_bytes;
        writers[i].index = i;
        writers[i].stop = &stop;
        start(&writers[i], write_and_look);
    }
    churn(base, bytes, lead_bytes, ROUNDS);
    stop = true;
    for (size_t i = 0; i < WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        assert_int_equal(writers[i].lost, 0);
        writes += writers[i].writes;
    }
    assert_true(writes > ROUNDS);
}

static void test_pages_under_writers(void **state)
{
    uint8_t *map = map_pages(16);
    size_t before;

    run_writers(map, 2 * PAGE, 64, 0);
    before = count_mappings();
    run_writers(map, 16 * PAGE, 512, 0);
    expect_mappings(before);
    munmap(map, 16 * PAGE);
}

/* The registered part is the middle of a malloc block: its edge pages have other data, too. */
static void test_edge_pages_of_the_heap(void **state)
{
    uint8_t *block = calloc(3, PAGE);

    assert_non_null(block);
    run_writers(block, 3 * PAGE, 128, 40);
    free(block);
}

/* Register more than libvipl moves in one step, so that pieces are in different states. */
static void test_large_range_under_writers(void **state)
{
    size_t bytes = 2 * MEM_MOVE_BYTES_MAX + 3 * PAGE;
    uint8_t *map = map_pages(bytes / PAGE);
    atomic_bool stop = false;
    struct writer w = {
        .base = map, .slots = bytes / PAGE, .slot_bytes = PAGE, .index = 5, .stop = &stop};

    start(&w, write_and_look);
    churn(map, bytes, 0, ROUNDS / 60);
    stop = true;
    pthread_join(w.thread, NULL);
    assert_int_equal(w.lost, 0);
    munmap(map, bytes);
}

/* If the kernel grants userfaultfd's full mode, no system call fails either. */
static void test_system_calls_into_moving_pages(void **state)
{
    uint8_t *map = map_pages(1);
    atomic_bool stop = false;
    struct writer w = {.base = map, .slots = 1, .slot_bytes = PAGE, .index = 7, .stop = &stop};

    start(&w, write_by_system_call);
    churn(map, PAGE, 0, ROUNDS);
    stop = true;
    pthread_join(w.thread, NULL);
    assert_int_equal(w.lost, 0);
    if (!vipl__mem_switches.user_mode_only && geteuid() == 0)
        assert_int_equal(w.refused, 0);
    munmap(map, PAGE);
}

/* Two threads register the same pages, a third thread writes, and vipd writes to them, too. */
struct registrar {
    uint8_t *base;
    size_t own; /* offset of the word in which vipd counts for this thread */
    uint64_t counted;
};

static void *register_and_count(void *arg)
{
    struct registrar *r = arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct vipl__mem mem;
        uint8_t *view;
        const char *why;
        if (vipl__mem_prepare(r->base + r->own, sizeof(uint64_t), NULL, &mem, &why) != 0 ||
            mem.kind != VIPL__MEM_ADOPTED)
            return "not adopted";
        view = vipd_view_open(&mem);
        ++*(volatile uint64_t *)(void *)view;
        r->counted++;
        if (*(volatile uint64_t *)(void *)(r->base + r->own) != r->counted)
            return "vipd's write is not here";
        vipd_view_close(view, sizeof(uint64_t));
        vipl__mem_release(&mem);
        if (*(volatile uint64_t *)(void *)(r->base + r->own) != r->counted)
            return "vipd's write was lost";
    }
    return NULL;
}

static void test_two_registrars_and_vipd(void **state)
{
    uint8_t *map = map_pages(1);
    atomic_bool stop = false;
    struct writer w = {.base = map, .slots = 8, .slot_bytes = 64, .index = 0, .stop = &stop};
    struct registrar two[2] = {{.base = map, .own = 1024}, {.base = map, .own = 2048}};
    pthread_t threads[2];

    start(&w, write_and_look);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, register_and_count, &two[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong != NULL)
            fail_msg("%s", (char *)wrong);
    }
    stop = true;
    pthread_join(w.thread, NULL);
    assert_int_equal(w.lost, 0);
    munmap(map, PAGE);
}

/* Several threads, and userfaultfd is not available: new memory is staged. Memory that was adopted
 * before stays adopted and works. */
static void test_without_userfaultfd(void **state)
{
    uint8_t *map = map_pages(4);
    atomic_bool stop = false;
    struct writer w = {.base = map, .slots = 8, .slot_bytes = PAGE / 2, .stop = &stop};
    struct vipl__mem adopted;
    struct vipl__mem mem;

    pretend((struct mem_switches){0});
    assert_int_equal(prepare(map, 2 * PAGE, &adopted), 0);
    close(vipl__mem_state()->uffd);
    vipl__mem_state()->uffd = -1;
    start(&w, write_and_look);
    assert_int_equal(prepare(map + PAGE, 2 * PAGE, &mem), 0);
    assert_int_equal(mem.kind, VIPL__MEM_STAGED);
    vipl__mem_release(&mem);
    vipl__mem_release(&adopted);
    /* No page could be moved back safely: the pages stay in the arena for the next registration. */
    assert_int_equal(prepare(map + PAGE + 100, 100, &mem), 0);
    assert_int_equal(mem.kind, VIPL__MEM_ADOPTED);
    stop = true;
    pthread_join(w.thread, NULL);
    assert_int_equal(w.lost, 0);
    vipl__mem_state()->uffd_tried = false;
    vipl__mem_release(&mem);
    assert_int_equal(prepare(map, 2 * PAGE, &mem), 0);
    vipl__mem_release(&mem);
    assert_int_equal(vipl__mem_state()->runs.n, 0);
    munmap(map, 4 * PAGE);
}

static int as_it_is(void **state)
{
    pretend((struct mem_switches){0});
    return 0;
}

static int on_linux_6_1(void **state)
{
    pretend((struct mem_switches){
        .user_mode_only = true, .no_procmap_query = true, .no_unpopulated = true});
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_under_writers),
        cmocka_unit_test(test_edge_pages_of_the_heap),
        cmocka_unit_test(test_large_range_under_writers),
        cmocka_unit_test(test_system_calls_into_moving_pages),
        cmocka_unit_test(test_two_registrars_and_vipd),
    };
    const struct CMUnitTest without[] = {cmocka_unit_test(test_without_userfaultfd)};

    return cmocka_run_group_tests_name("as it is", tests, as_it_is, NULL) +
           cmocka_run_group_tests_name("Linux 6.1", tests, on_linux_6_1, NULL) +
           cmocka_run_group_tests_name("no userfaultfd", without, NULL, NULL);
}
