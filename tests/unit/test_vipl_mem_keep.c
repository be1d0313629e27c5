/*
 * Registered memory that is kept for the next registration (VIPL_KEEP_REGISTERED): it is cheap to register
 * again, there is never more of it than was said, and whatever the program does with its addresses meanwhile,
 * every byte is where the program put it and the end of the NIC handle leaves nothing behind.
 */
#include "test_vipl_mem.h"

#include <sys/stat.h>
#include <sys/wait.h>

#define PAGE  MEM_PAGE_BYTES
#define PAGES 40
#define LIVE  6
#define KEEP  (8 * PAGE)

#if SANITIZED
#define STEPS 3000
#else
#define STEPS 10000
#endif

static int keeping(void **state)
{
    vipl__mem_return_kept();
    vipl__mem_state()->keep_bytes = KEEP;
    return 0;
}

/* Nothing of ours is in the arena or known of any more. */
static void expect_nothing_kept(void)
{
    struct mem_state *st = vipl__mem_state();
    struct stat file;

    assert_int_equal(st->runs.n, 0);
    assert_int_equal(fstat(st->arena_fd, &file), 0);
    assert_int_equal(file.st_blocks, 0);
}

/* What another process, which has the variable set so, would keep. */
static unsigned mib_kept_with(const char *value)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        setenv("VIPL_KEEP_REGISTERED", value, 1);
        _exit(vipl__mem_state()->keep_bytes % (1 << 20) != 0
                  ? 255
                  : (int)(vipl__mem_state()->keep_bytes >> 20));
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return (unsigned)WEXITSTATUS(status);
}

static void test_the_variable(void **state)
{
    assert_null(vipl__mem_state_peek());
    assert_int_equal(mib_kept_with("0"), 0);
    assert_int_equal(mib_kept_with("64"), 64);
    assert_int_equal(mib_kept_with(""), 0);
    assert_int_equal(mib_kept_with("-1"), 0);
    assert_int_equal(mib_kept_with("5x"), 0);
    assert_int_equal(mib_kept_with("yes"), 0);
    assert_int_equal(mib_kept_with("262145"), 0);
    assert_int_equal(mib_kept_with("99999999999999999999"), 0);
    assert_int_equal(vipl__mem_state()->keep_bytes, 0);
}

static void test_moved_once(void **state)
{
    uint8_t *map = map_pages(4);
    struct vipl__mem mem;
    uint64_t in, out;
    size_t before;

    memset(map, 1, 4 * PAGE);
    before = count_mappings();
    assert_int_equal(prepare(map + 5, 3 * PAGE, &mem), 0);
    in = vipl__mem_state()->pages_moved_in;
    out = vipl__mem_state()->pages_moved_out;
    vipl__mem_release(&mem);
    for (int i = 0; i < 1000; i++) {
        uint8_t *view;

        map[PAGE] = (uint8_t)i;
        assert_int_equal(prepare(map + 5 + i, 3 * PAGE - 1000, &mem), 0);
        assert_int_equal(mem.kind, VIPL__MEM_ADOPTED);
        view = vipd_view_open(&mem);
        assert_int_equal(view[PAGE - 5 - i], (uint8_t)i);
        view[PAGE - 4 - i] = (uint8_t)~i;
        vipd_view_close(view, mem.bytes);
        vipl__mem_release(&mem);
        assert_int_equal(map[PAGE + 1], (uint8_t)~i);
    }
    assert_int_equal(vipl__mem_state()->pages_moved_in, in);
    assert_int_equal(vipl__mem_state()->pages_moved_out, out);
    vipl__mem_return_kept();
    assert_int_equal(map[0], 1);
    assert_int_equal(map[PAGE], (uint8_t)999);
    assert_int_equal(map[4 * PAGE - 1], 1);
    expect_nothing_kept();
    expect_mappings(before);
    munmap(map, 4 * PAGE);
}

static void test_larger_than_the_limit(void **state)
{
    uint8_t *map = map_pages(PAGES);
    struct vipl__mem mem;

    memset(map, 1, PAGES * PAGE);
    assert_int_equal(prepare(map, PAGE, &mem), 0);
    vipl__mem_release(&mem);
    assert_int_equal(vipl__mem_runs_idle_bytes(vipl__mem_state()), PAGE);
    /* It goes at once, and takes nothing else with it. */
    assert_int_equal(prepare(map + 2 * PAGE, KEEP + 1, &mem), 0);
    vipl__mem_release(&mem);
    assert_int_equal(vipl__mem_runs_idle_bytes(vipl__mem_state()), PAGE);
    vipl__mem_return_kept();
    expect_nothing_kept();
    munmap(map, PAGES * PAGE);
}

/* Allocators free buffers that were registered, and hand out their addresses again. */
static void test_freed_while_kept(void **state)
{
    uint8_t *map = map_pages(4), *elsewhere = map_pages(4);
    struct vipl__mem mem;
    struct mem_piece piece;
    uint8_t *view;

    memset(map, 7, 4 * PAGE);
    assert_int_equal(prepare(map, 4 * PAGE, &mem), 0);
    vipl__mem_release(&mem);
    assert_true(mremap(map, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) ==
                elsewhere);
    munmap(map + 2 * PAGE, 2 * PAGE);
    assert_int_equal(prepare(map, 4 * PAGE, &mem), -EFAULT);
    assert_true(mmap(map, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                     -1, 0) == map);
    assert_int_equal(map[0], 0);
    assert_int_equal(prepare(map, 4 * PAGE, &mem), 0);
    assert_int_equal(mem.kind, VIPL__MEM_ADOPTED);
    view = vipd_view_open(&mem);
    for (size_t i = 0; i < 4 * PAGE; i++)
        assert_int_equal(view[i], 0);
    memset(view, 8, 4 * PAGE);
    vipd_view_close(view, 4 * PAGE);
    vipl__mem_release(&mem);
    for (size_t i = 0; i < 2 * PAGE; i++)
        assert_int_equal(elsewhere[i], 7);
    assert_int_equal(vipl__mem_query(vipl__mem_state(), (uintptr_t)elsewhere, &piece), 0);
    assert_false(piece.shared);
    for (size_t i = 0; i < 4 * PAGE; i++)
        assert_int_equal(map[i], 8);

    /* Freed for good: the end of the handle finds nothing there, and what is there now stays. */
    munmap(map, 4 * PAGE);
    assert_true(mmap(map + PAGE, PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == map + PAGE);
    map[PAGE] = 9;
    vipl__mem_return_kept();
    assert_int_equal(map[PAGE], 9);
    expect_nothing_kept();
    munmap(map + PAGE, PAGE);
    munmap(elsewhere, 4 * PAGE);
}

/* A child of fork has the bytes of its own, also in memory that is only kept. */
static void test_fork_while_kept(void **state)
{
    uint8_t *map = map_pages(2);
    struct vipl__mem mem;
    int status = -1;

    memset(map, 3, 2 * PAGE);
    assert_int_equal(prepare(map, 2 * PAGE, &mem), 0);
    vipl__mem_release(&mem);
    vipl__mem_fork_prepare();
    pid_t child = fork();
    if (child == 0) {
        vipl__mem_fork_child();
        map[0] = 4;
        _exit(map[0] == 4 && map[PAGE] == 3 ? 0 : 1);
    }
    vipl__mem_fork_parent();
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    assert_int_equal(map[0], 3);
    vipl__mem_return_kept();
    assert_int_equal(map[0], 3);
    expect_nothing_kept();
    munmap(map, 2 * PAGE);
}

static void test_random_overlaps(void **state)
{
    uint8_t *map = map_pages(PAGES);
    uint8_t *model = calloc(PAGES, PAGE);
    struct vipl__mem live[LIVE] = {{0}};
    uint64_t seed = 43, kept_steps = 0;

    memset(map, 0, PAGES * PAGE);
    for (unsigned step = 0; step < STEPS; step++) {
        size_t slot = next_random(&seed) % LIVE, page = next_random(&seed) % PAGES;
        size_t from = next_random(&seed) % (PAGES * PAGE);
        size_t len = 1 + next_random(&seed) % (3 * PAGE);

        if (len > PAGES * PAGE - from)
            len = PAGES * PAGE - from;
        if (live[slot].addr != 0) {
            vipl__mem_release(&live[slot]);
        } else {
            assert_int_equal(prepare(map + from, len, &live[slot]), 0);
            assert_int_equal(live[slot].kind, VIPL__MEM_ADOPTED);
            uint8_t *view = vipd_view_open(&live[slot]);
            assert_memory_equal(view, model + from, len);
            view[len / 2] = model[from + len / 2] = (uint8_t)step;
            vipd_view_close(view, len);
        }
        map[page * PAGE + 9] = model[page * PAGE + 9] = (uint8_t)next_random(&seed);
        if (next_random(&seed) % 50 == 0) {
            /* The program frees this page, and gets it anew. */
            bool registered = false;
            for (size_t i = 0; i < LIVE; i++)
                registered =
                    registered || (live[i].addr != 0 &&
                                   mem_page_down(live[i].addr) <= (uintptr_t)map + page * PAGE &&
                                   live[i].addr + live[i].bytes > (uintptr_t)map + page * PAGE);
            if (!registered) {
                assert_true(mmap(map + page * PAGE, PAGE, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                                 0) == map + page * PAGE);
                memset(model + page * PAGE, 0, PAGE);
            }
        }
        assert_memory_equal(map, model, PAGES * PAGE);
        assert_in_range(vipl__mem_runs_idle_bytes(vipl__mem_state()), 0, KEEP);
        kept_steps += vipl__mem_runs_idle_bytes(vipl__mem_state()) > 0;
    }
    assert_in_range(kept_steps, STEPS / 4, STEPS);
    for (size_t slot = 0; slot < LIVE; slot++)
        if (live[slot].addr != 0)
            vipl__mem_release(&live[slot]);
    vipl__mem_return_kept();
    assert_memory_equal(map, model, PAGES * PAGE);
    expect_nothing_kept();
    free(model);
    munmap(map, PAGES * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_variable),
        cmocka_unit_test_setup(test_moved_once, keeping),
        cmocka_unit_test_setup(test_larger_than_the_limit, keeping),
        cmocka_unit_test_setup(test_freed_while_kept, keeping),
        cmocka_unit_test_setup(test_fork_while_kept, keeping),
        cmocka_unit_test_setup(test_random_overlaps, keeping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
