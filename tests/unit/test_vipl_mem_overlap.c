/*
 * Registered memory is compared with a model. Tests: overlapping registrations in random order;
 * ranges that the program unmaps, maps anew or moves while they are registered; thousands of
 * rounds, after which the mappings of the process are as before.
 */
#include "test_vipl_mem.h"

#include <stdio.h>

#define PAGE  MEM_PAGE_BYTES
#define PAGES 40
#define LIVE  24

#if SANITIZED
#define STEPS  3000
#define ROUNDS 3000
#else
#define STEPS  10000
#define ROUNDS 8000
#endif

/* Write `value` to the beginning and the end of a page, and of the page in the model. */
static void stamp(uint8_t *map, uint8_t *model, size_t page, uint32_t value)
{
    memset(map + page * PAGE, (int)value, 16);
    memset(model + page * PAGE, (int)value, 16);
    map[page * PAGE + PAGE - 1] = (uint8_t)(value >> 8);
    model[page * PAGE + PAGE - 1] = (uint8_t)(value >> 8);
}

static void test_random_overlaps(void **state)
{
    uint8_t *map = map_pages(PAGES);
    uint8_t *model = calloc(PAGES, PAGE);
    struct vipl__mem live[LIVE] = {{0}};
    uint64_t seed = 42;
    uint32_t counts[PAGES] = {0};
    size_t before;

    memset(map, 0, PAGES * PAGE);
    before = count_mappings();
    for (unsigned step = 0; step < STEPS; step++) {
        size_t slot = next_random(&seed) % LIVE;
        size_t from = next_random(&seed) % (PAGES * PAGE);
        size_t len = 1 + next_random(&seed) % (PAGES * PAGE - from);
        bool was = live[slot].addr != 0;

        if (was) {
            from = live[slot].addr - (uintptr_t)map;
            len = live[slot].bytes;
            vipl__mem_release(&live[slot]);
        } else {
            assert_int_equal(prepare(map + from, len, &live[slot]), 0);
            assert_int_equal(live[slot].kind, VIPL__MEM_ADOPTED);
            /* While a registration covers a page, the page keeps its place in the arena. */
            assert_int_equal(live[slot].offset,
                             vipl__mem_zone_offset(vipl__mem_state(), (uintptr_t)map + from));
        }
        for (size_t p = from / PAGE; p <= (from + len - 1) / PAGE; p++)
            counts[p] += was ? -1u : 1u;
        stamp(map, model, next_random(&seed) % PAGES, next_random(&seed));
        assert_memory_equal(map, model, PAGES * PAGE);
        for (size_t p = 0; p < PAGES; p++) {
            struct mem_piece piece;
            assert_int_equal(vipl__mem_query(vipl__mem_state(), (uintptr_t)map + p * PAGE, &piece),
                             0);
            assert_int_equal(piece.shared, counts[p] > 0);
        }
    }
    for (size_t slot = 0; slot < LIVE; slot++)
        if (live[slot].addr != 0)
            vipl__mem_release(&live[slot]);
    assert_memory_equal(map, model, PAGES * PAGE);
    assert_int_equal(vipl__mem_state()->runs.n, 0);
    expect_mappings(before);
    free(model);
    munmap(map, PAGES * PAGE);
}

static void test_registered_again_costs_nothing(void **state)
{
    uint8_t *map = map_pages(4);
    uint64_t moved;
    struct vipl__mem first;
    struct vipl__mem again;

    assert_int_equal(prepare(map + 5, 3 * PAGE, &first), 0);
    moved = vipl__mem_state()->pages_moved_in;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(prepare(map + 5 + i, 3 * PAGE - 1000, &again), 0);
        assert_int_equal(again.kind, VIPL__MEM_ADOPTED);
        vipl__mem_release(&again);
    }
    assert_int_equal(vipl__mem_state()->pages_moved_in, moved);
    vipl__mem_release(&first);
    munmap(map, 4 * PAGE);
}

static void test_mapped_anew_between(void **state)
{
    uint8_t *map = map_pages(4);
    size_t before;
    struct vipl__mem first;
    struct vipl__mem second;
    uint8_t *view;

    memset(map, 1, 4 * PAGE);
    before = count_mappings();
    assert_int_equal(prepare(map, 4 * PAGE, &first), 0);
    munmap(map + PAGE, 2 * PAGE);
    assert_int_equal(prepare(map, 4 * PAGE, &second), -EFAULT);
    assert_true(mmap(map + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == map + PAGE);
    memset(map + PAGE, 2, 2 * PAGE);
    assert_int_equal(prepare(map, 4 * PAGE, &second), 0);
    assert_int_equal(second.kind, VIPL__MEM_ADOPTED);
    view = vipd_view_open(&second);
    assert_int_equal(view[0], 1);
    assert_int_equal(view[PAGE], 2);
    view[2 * PAGE] = 3;
    vipd_view_close(view, 4 * PAGE);
    assert_int_equal(map[2 * PAGE], 3);
    vipl__mem_release(&first);
    assert_int_equal(map[2 * PAGE], 3);
    vipl__mem_release(&second);
    assert_int_equal(map[0], 1);
    assert_int_equal(map[PAGE], 2);
    assert_int_equal(map[2 * PAGE], 3);
    assert_int_equal(map[4 * PAGE - 1], 1);
    assert_int_equal(vipl__mem_state()->runs.n, 0);
    /* The new mapping is between shared ones, so the kernel could not join it with them. */
    expect_mappings(before + 2);
    munmap(map, 4 * PAGE);
}

/* The program unmaps memory before the release, which must map no page and leave nothing behind. */
static void test_unmapped_before_release(void **state)
{
    uint8_t *map = map_pages(3);
    uint8_t *file;
    size_t before = count_mappings();
    struct vipl__mem mem;

    assert_int_equal(prepare(map, 3 * PAGE, &mem), 0);
    munmap(map, 3 * PAGE);
    file = mmap(map + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED,
                open("/proc/self/exe", O_RDONLY | O_CLOEXEC), 0);
    assert_true(file == map + PAGE);
    vipl__mem_release(&mem);
    assert_memory_equal(file, "\177ELF", 4);
    munmap(file, PAGE);
    assert_int_equal(vipl__mem_state()->runs.n, 0);
    expect_mappings(before);
}

/* realloc moves large blocks with mremap, also registered ones. Bytes must survive the release. */
static void test_moved_by_the_program(void **state)
{
    uint8_t *map = map_pages(4);
    uint8_t *elsewhere = map_pages(4);
    uint8_t *anew;
    struct vipl__mem mem;
    struct mem_piece piece;

    memset(map, 7, 4 * PAGE);
    assert_int_equal(prepare(map, 4 * PAGE, &mem), 0);
    assert_true(mremap(map, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) ==
                elsewhere);
    anew =
        mmap(map, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_true(anew == map);
    vipl__mem_release(&mem);
    assert_int_equal(elsewhere[0], 7);
    assert_int_equal(elsewhere[4 * PAGE - 1], 7);
    assert_int_equal(vipl__mem_query(vipl__mem_state(), (uintptr_t)elsewhere, &piece), 0);
    assert_false(piece.shared);

    /* The program moves the range again, and registers the old range anew before the release. */
    memset(map, 8, 4 * PAGE);
    assert_int_equal(prepare(map, 4 * PAGE, &mem), 0);
    assert_true(mremap(map, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) ==
                elsewhere);
    anew =
        mmap(map, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    memset(map, 9, 4 * PAGE);
    struct vipl__mem again;
    assert_int_equal(prepare(map, 4 * PAGE, &again), 0);
    assert_int_equal(again.kind, VIPL__MEM_ADOPTED);
    assert_int_equal(map[100], 9);
    assert_int_equal(elsewhere[100], 8);
    elsewhere[100] = 10;
    assert_int_equal(map[100], 9);
    vipl__mem_release(&mem);
    vipl__mem_release(&again);
    assert_int_equal(map[100], 9);
    assert_int_equal(elsewhere[100], 10);
    munmap(map, 4 * PAGE);
    munmap(elsewhere, 4 * PAGE);
}

/* Register areas that are far apart, and a range across the border of two blocks. */
static void test_far_apart(void **state)
{
    uint8_t *reserve =
        mmap(NULL, 12ul << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uintptr_t border = ((uintptr_t)reserve + MEM_BLOCK_BYTES) & ~(MEM_BLOCK_BYTES - 1);
    struct vipl__mem mem[40];
    struct vipl__mem across;

    assert_true(reserve != MAP_FAILED);
    for (size_t i = 0; i < 40; i++) {
        /* Alternate between the next block from below and the next block from above. */
        size_t at = i % 2 == 0 ? i / 2 : 39 - i / 2;
        uint8_t *page = (uint8_t *)border + at * MEM_BLOCK_BYTES - PAGE;
        assert_int_equal(mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE), 0);
        memset(page, (int)at, 2 * PAGE);
        assert_int_equal(prepare(page, PAGE, &mem[i]), 0);
        assert_int_equal(mem[i].kind, VIPL__MEM_ADOPTED);
    }
    for (size_t i = 0; i < 40; i++) {
        size_t at = i % 2 == 0 ? i / 2 : 39 - i / 2;
        uint8_t *page = (uint8_t *)border + at * MEM_BLOCK_BYTES - PAGE;
        assert_int_equal(prepare(page, 2 * PAGE, &across), 0);
        /* `across` is never refused. It is adopted if its blocks are neighbours in the arena. */
        vipl__mem_release(&across);
        assert_int_equal(page[0], at);
        assert_int_equal(page[2 * PAGE - 1], at);
    }
    for (size_t i = 0; i < 40; i++)
        vipl__mem_release(&mem[i]);
    assert_int_equal(prepare((uint8_t *)border - PAGE, 2 * PAGE, &across), 0);
    assert_int_equal(across.kind, VIPL__MEM_ADOPTED);
    vipl__mem_release(&across);
    munmap(reserve, 12ul << 30);
}

/* The program uses more blocks than the arena has: libvipl reuses an old block of the arena. */
static void test_more_blocks_than_the_arena(void **state)
{
    struct mem_state *st = vipl__mem_state();
    uint64_t kept[MEM_BLOCKS];
    uint8_t *map = map_pages(1);
    struct vipl__mem mem;

    memcpy(kept, st->block_owner, sizeof(kept));
    for (size_t i = 0; i < MEM_BLOCKS; i++)
        st->block_owner[i] = (1ull << 30) + i;
    assert_int_equal(prepare(map, PAGE, &mem), 0);
    assert_int_equal(mem.kind, VIPL__MEM_ADOPTED);
    vipl__mem_release(&mem);
    memcpy(st->block_owner, kept, sizeof(kept));
    assert_int_equal(vipl__mem_zone_reserve(st, 0, VIP_ARENA_BYTES + 1), 1);
    munmap(map, PAGE);
}

static void test_rounds_leave_no_trace(void **state)
{
    uint8_t *map = map_pages(64);
    uint8_t *block = malloc(200000);
    uint64_t seed = 7;
    size_t before;
    struct vipl__mem mem;

    memset(map, 0x5a, 64 * PAGE);
    memset(block, 0xa5, 200000);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(prepare(block + next_random(&seed) % 100000, 100, &mem), 0);
        vipl__mem_release(&mem);
    }
    before = count_mappings();
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint8_t *at = i % 2 == 0 ? map + next_random(&seed) % (60 * PAGE)
                                 : block + next_random(&seed) % 180000;
        assert_int_equal(prepare(at, 1 + next_random(&seed) % 9000, &mem), 0);
        assert_int_equal(mem.kind, VIPL__MEM_ADOPTED);
        vipl__mem_release(&mem);
    }
    expect_mappings(before);
    for (size_t i = 0; i < 64 * PAGE; i++)
        assert_int_equal(map[i], 0x5a);
    for (size_t i = 0; i < 200000; i++)
        assert_int_equal(block[i], 0xa5);
    free(block);
    munmap(map, 64 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_overlaps),
        cmocka_unit_test(test_registered_again_costs_nothing),
        cmocka_unit_test(test_mapped_anew_between),
        cmocka_unit_test(test_unmapped_before_release),
        cmocka_unit_test(test_moved_by_the_program),
        cmocka_unit_test(test_far_apart),
        cmocka_unit_test(test_more_blocks_than_the_arena),
        cmocka_unit_test(test_rounds_leave_no_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
