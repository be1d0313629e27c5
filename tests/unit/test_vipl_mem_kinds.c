/*
 * Registered memory: the tests check the kind that each sort of memory gets. Its contents survive
 * registration and release. vipd and the program see the same bytes. Afterwards the mappings are as
 * before.
 */
#include "test_vipl_mem.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <ucontext.h>

#include "proto/limits.h"

#define PAGE MEM_PAGE_BYTES

static uint8_t zeroed[8 * PAGE];
static uint8_t initialised[3 * PAGE] = {1, 2, 3};
static __thread uint8_t thread_local_bytes[64];

static void fill(uint8_t *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static void check(const uint8_t *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != (uint8_t)(seed + i * 7 + i / 251))
            fail_msg("byte %zu is %u", i, at[i]);
}

/* Register the range, which must get this kind; read and write it from both sides; release it. */
static void round_trip(uint8_t *at, size_t bytes, enum vipl__mem_kind kind)
{
    struct vipl__mem mem;
    uint8_t *view;

    fill(at, bytes, 1);
    assert_int_equal(prepare(at, bytes, &mem), 0);
    assert_int_equal(mem.kind, kind);
    check(at, bytes, 1);
    view = vipd_view_open(&mem);
    check(view, bytes, 1);
    fill(view, bytes, 2);
    check(at, bytes, 2);
    fill(at, bytes, 3);
    check(view, bytes, 3);
    fill(view, bytes, 4);
    vipd_view_close(view, bytes);
    vipl__mem_release(&mem);
    check(at, bytes, 4);
    fill(at, bytes, 5);
    check(at, bytes, 5);
}

/* Register the range, which must be staged. Copies move its bytes out and in. */
static void staged_trip(uint8_t *at, size_t bytes)
{
    struct vipl__mem mem;

    fill(at, bytes, 1);
    assert_int_equal(prepare(at, bytes, &mem), 0);
    assert_int_equal(mem.kind, VIPL__MEM_STAGED);
    assert_true(mem.fd >= 0);
    assert_int_equal(mem.offset, (uintptr_t)at % PAGE);
    vipl__mem_stage_out(&mem, (uintptr_t)at, bytes);
    check(mem.stage_out, bytes, 1);
    fill(mem.stage_in, bytes, 2);
    vipl__mem_stage_in(&mem, (uintptr_t)at + 3, bytes - 4);
    assert_int_equal(at[0], 1);
    assert_memory_equal(at + 3, mem.stage_in + 3, bytes - 4);
    assert_int_equal(at[bytes - 1], mem.stage_out[bytes - 1]);
    vipl__mem_release(&mem);
}

static void test_heap_of_any_size(void **state)
{
    static const size_t sizes[] = {1, 100, 4096, 5000, 100000, 300000, 5000000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *block = malloc(sizes[i] + 3);
        assert_non_null(block);
        round_trip(block + 3, sizes[i], VIPL__MEM_ADOPTED);
        free(block);
    }
}

static void test_mappings_are_as_before(void **state)
{
    uint8_t *map = map_pages(2000);
    size_t before;

    /* The first round trip also makes a sanitizer's own mappings for this memory. */
    round_trip(map, 2000 * PAGE, VIPL__MEM_ADOPTED);
    before = count_mappings();
    round_trip(map + 10, 100, VIPL__MEM_ADOPTED);
    expect_mappings(before);
    round_trip(map + 777, 1500 * PAGE, VIPL__MEM_ADOPTED);
    expect_mappings(before);
    round_trip(map, 2000 * PAGE, VIPL__MEM_ADOPTED);
    expect_mappings(before);
    munmap(map, 2000 * PAGE);
}

static void test_untouched_pages(void **state)
{
    uint8_t *map = map_pages(700);
    size_t before = count_mappings();
    struct vipl__mem mem;

    assert_int_equal(prepare(map, 700 * PAGE, &mem), 0);
    assert_int_equal(mem.kind, VIPL__MEM_ADOPTED);
    for (size_t i = 0; i < 700 * PAGE; i += 512)
        assert_int_equal(map[i], 0);
    map[650 * PAGE] = 1;
    vipl__mem_release(&mem);
    assert_int_equal(map[650 * PAGE], 1);
    assert_int_equal(map[651 * PAGE], 0);
    expect_mappings(before);
    munmap(map, 700 * PAGE);
}

/* libvipl must not write to the arena's file beyond the limit. Otherwise SIGXFSZ ends this test. */
static void test_adopted_behind_a_limit_of_file_sizes(void **state)
{
    struct rlimit before, limit;
    uint8_t *map = map_pages(700);

    assert_true(vipl__mem_arena_get(-1) >= 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = PAGE;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    round_trip(map + 5, 100, VIPL__MEM_ADOPTED);
    round_trip(map + 5, 600 * PAGE, VIPL__MEM_ADOPTED);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    vipl__mem_arena_put();
    munmap(map, 700 * PAGE);
}

/* Three mappings in a row are one contiguous piece for vipd. */
static void test_several_mappings(void **state)
{
    uint8_t *map = map_pages(30);
    struct vipl__mem mem;

    assert_int_equal(mprotect(map + 10 * PAGE, 10 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
    round_trip(map, 30 * PAGE, VIPL__MEM_ADOPTED);
    assert_int_equal(prepare(map, 30 * PAGE, &mem), 0);
    vipl__mem_release(&mem);
    munmap(map, 30 * PAGE);
}

static void test_static_data(void **state)
{
    uintptr_t inner = mem_page_up((uintptr_t)zeroed + PAGE);

    round_trip((uint8_t *)inner, 3 * PAGE, VIPL__MEM_ADOPTED);
    /* Initialised data is a private mapping of the program's file. */
    staged_trip(initialised + PAGE / 2, PAGE);
}

static void test_stack_is_staged(void **state)
{
    uint8_t local[6000];

    staged_trip(local, sizeof(local));
    staged_trip(thread_local_bytes, sizeof(thread_local_bytes));
}

static void *thread_with_buffer(void *arg)
{
    uint8_t local[3000];

    staged_trip(local, sizeof(local));
    staged_trip(thread_local_bytes, sizeof(thread_local_bytes));
    return NULL;
}

static void test_thread_stack_is_staged(void **state)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, thread_with_buffer, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *thread_beside(void *arg)
{
    round_trip(arg, 3000, VIPL__MEM_ADOPTED);
    return NULL;
}

/* A thread's stack is often just below a large buffer, and the kernel has one mapping for both. */
static void test_buffer_above_a_stack(void **state)
{
    size_t stack_bytes = 512 * PAGE;
    uint8_t *map;
    pthread_attr_t attr;
    pthread_t thread;

    if (vipl__mem_switches.no_userfaultfd) {
        print_message("skipped: with two threads and no userfaultfd everything is staged\n");
        skip();
    }
    map = map_pages(512 + 4);

    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstack(&attr, map, stack_bytes), 0);
    assert_int_equal(pthread_create(&thread, &attr, thread_beside, map + stack_bytes), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
    munmap(map, 516 * PAGE);
}

static void *thread_with_heap(void *arg)
{
    uint8_t *head = malloc(24);
    uint8_t *large = malloc(50000);

    /* Only glibc's own allocator puts the first block of a thread next to the arena's head. */
    if ((uintptr_t)head % (64ul << 20) < PAGE)
        staged_trip(head, 24);
    round_trip(large + 5000, 40000, VIPL__MEM_ADOPTED);
    free(large);
    free(head);
    return NULL;
}

static void test_heap_of_a_thread(void **state)
{
    pthread_t thread;

    if (vipl__mem_switches.no_userfaultfd) {
        print_message("skipped: with two threads and no userfaultfd everything is staged\n");
        skip();
    }
    assert_int_equal(pthread_create(&thread, NULL, thread_with_heap, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static ucontext_t caller;
static ucontext_t coroutine;

static void in_coroutine(void)
{
    uint8_t local[100];

    staged_trip(local, sizeof(local));
}

/* The stack of a coroutine is memory like any other. But the caller of libvipl runs on it. */
static void test_stack_of_a_coroutine(void **state)
{
    uint8_t *stack;

    if (SANITIZED) {
        print_message("skipped: sanitizers want to be told about switched stacks\n");
        skip();
    }
    stack = map_pages(64);
    assert_int_equal(getcontext(&coroutine), 0);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = 64 * PAGE;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, in_coroutine, 0);
    assert_int_equal(swapcontext(&caller, &coroutine), 0);
    munmap(stack, 64 * PAGE);
}

struct waiter {
    uint8_t *buffer; /* on the stack of the waiting thread, near its control block */
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool leave;
};

static void *thread_that_waits(void *arg)
{
    struct waiter *w = arg;
    uint8_t local[200];

    pthread_mutex_lock(&w->lock);
    w->buffer = local;
    pthread_cond_signal(&w->change);
    while (!w->leave)
        pthread_cond_wait(&w->change, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* pthread_join waits on a word in a thread's control block, so this page must not move. */
static void test_control_block_of_another_thread(void **state)
{
    struct waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    struct vipl__mem mem;

    assert_int_equal(pthread_create(&thread, NULL, thread_that_waits, &w), 0);
    pthread_mutex_lock(&w.lock);
    while (w.buffer == NULL)
        pthread_cond_wait(&w.change, &w.lock);
    pthread_mutex_unlock(&w.lock);
    /* On x86-64 a pthread_t is the address of the control block. */
    assert_int_equal(prepare((void *)(mem_page_down((uintptr_t)thread) + 8), 64, &mem), 0);
    assert_int_equal(mem.kind, VIPL__MEM_STAGED);
    vipl__mem_release(&mem);
    pthread_mutex_lock(&w.lock);
    w.leave = true;
    pthread_cond_signal(&w.change);
    pthread_mutex_unlock(&w.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_read_only_memory(void **state)
{
    uint8_t *map = map_pages(3);
    struct mem_state *st = vipl__mem_state();
    uint64_t skipped = st->stage_skipped_bytes;
    struct vipl__mem mem;

    fill(map, 3 * PAGE, 1);
    assert_int_equal(mprotect(map + PAGE, PAGE, PROT_READ), 0);
    assert_int_equal(prepare(map + 100, 2 * PAGE, &mem), 0);
    assert_int_equal(mem.kind, VIPL__MEM_STAGED);
    vipl__mem_stage_out(&mem, (uintptr_t)map + 100, 2 * PAGE);
    assert_memory_equal(mem.stage_out, map + 100, 2 * PAGE);

    /* The writable parts accept the incoming bytes; the read-only page does not. */
    memset(mem.stage_in, 0xee, 2 * PAGE);
    vipl__mem_stage_in(&mem, (uintptr_t)map + 100, 2 * PAGE);
    assert_int_equal(map[100], 0xee);
    assert_int_equal(map[PAGE - 1], 0xee);
    assert_memory_equal(map + PAGE, mem.stage_out + PAGE - 100, PAGE);
    assert_int_equal(map[2 * PAGE], 0xee);
    assert_int_equal(map[2 * PAGE + 99], 0xee);
    assert_int_not_equal(map[2 * PAGE + 100], 0xee);
    assert_int_equal(st->stage_skipped_bytes - skipped, PAGE);

    assert_int_equal(mprotect(map + PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
    vipl__mem_stage_in(&mem, (uintptr_t)map + 100, 2 * PAGE);
    assert_int_equal(map[PAGE], 0xee);
    assert_int_equal(st->stage_skipped_bytes - skipped, PAGE);
    vipl__mem_release(&mem);
    munmap(map, 3 * PAGE);
}

static void test_files_are_staged(void **state)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    uint8_t *shared;
    uint8_t *private;

    assert_true(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
    shared = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    private = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    assert_true(shared != MAP_FAILED && private != MAP_FAILED);
    staged_trip(shared + 5, 5000);
    staged_trip(private + 5, 5000);
    munmap(shared, 2 * PAGE);
    munmap(private, 2 * PAGE);
    close(fd);
    shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    staged_trip(shared, PAGE);
    munmap(shared, PAGE);
}

static void test_what_is_not_there(void **state)
{
    uint8_t *map = map_pages(5);
    struct vipl__mem mem = {.bytes = 77};

    munmap(map + 2 * PAGE, PAGE);
    mprotect(map + 4 * PAGE, PAGE, PROT_NONE);
    assert_int_equal(prepare(map, 5 * PAGE, &mem), -EFAULT);
    assert_int_equal(prepare(map + 2 * PAGE - 1, 2, &mem), -EFAULT);
    assert_int_equal(prepare(map + 3 * PAGE, PAGE + 1, &mem), -EFAULT);
    assert_int_equal(prepare((void *)8, 8, &mem), -EFAULT);
    assert_int_equal(prepare((void *)(UINTPTR_MAX - 10), 5, &mem), -EFAULT);
    assert_int_equal(prepare((void *)16, SIZE_MAX - 4, &mem), -EFAULT);
    assert_int_equal(mem.bytes, 77);
    assert_int_equal(prepare(map, 2 * PAGE, &mem), 0);
    vipl__mem_release(&mem);
    munmap(map, 5 * PAGE);
}

static void test_protection_changed_meanwhile(void **state)
{
    uint8_t *map = map_pages(6);
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    struct vipl__mem mem;

    fill(map, 6 * PAGE, 1);
    assert_int_equal(prepare(map, 6 * PAGE, &mem), 0);
    assert_int_equal(mprotect(map + PAGE, PAGE, PROT_READ), 0);
    assert_int_equal(mprotect(map + 3 * PAGE, PAGE, PROT_NONE), 0);
    vipl__mem_release(&mem);
    /* The page has the protection that the program wants: the kernel refuses to write there. */
    assert_int_equal(read(zero, map + PAGE, 1), -1);
    assert_int_equal(errno, EFAULT);
    close(zero);
    assert_int_equal(mprotect(map, 6 * PAGE, PROT_READ | PROT_WRITE), 0);
    check(map, 6 * PAGE, 1);
    munmap(map, 6 * PAGE);
}

static void test_odd_memory(void **state)
{
    size_t bytes = 4ul << 20;
    uint8_t *map = map_pages(bytes / PAGE);

    round_trip(map, bytes, VIPL__MEM_ADOPTED);
    assert_int_equal(madvise(map, bytes, MADV_HUGEPAGE), 0);
    round_trip(map + 12345, bytes / 2, VIPL__MEM_ADOPTED);
    assert_int_equal(madvise(map, bytes, MADV_DONTFORK), 0);
    round_trip(map + 345, bytes / 2, VIPL__MEM_ADOPTED);
    if (lock_memory(map, 64 * PAGE) == 0)
        staged_trip(map + 5, 63 * PAGE); /* test_vipl_mem_marks.c says why this is staged */
    munmap(map, bytes);
}

static void test_shared_from_birth(void **state)
{
    uint8_t *block = vipl__mem_alloc(10000);
    uint8_t *other = vipl__mem_alloc(1);
    struct vipl__mem mem;

    assert_non_null(block);
    assert_non_null(other);
    assert_int_equal((uintptr_t)block % PAGE, 0);
    round_trip(block, 10000, VIPL__MEM_SHARED);
    round_trip(block + 4321, 7967, VIPL__MEM_SHARED);
    assert_int_equal(prepare(block + 4321, 10, &mem), 0);
    assert_int_equal(mem.offset, 4321);
    vipl__mem_release(&mem);
    assert_int_equal(block[4321], (uint8_t)5);

    /* The program unmaps its memory and maps other memory there. */
    assert_true(mmap(other, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                     -1, 0) == other);
    round_trip(other, 100, VIPL__MEM_ADOPTED);
    assert_int_equal(vipl__mem_free(other), 0);
    assert_int_equal(vipl__mem_free(block), 0);
    assert_int_equal(vipl__mem_free(block), -EINVAL);
    assert_int_equal(vipl__mem_free(block + 1), -EINVAL);
    assert_null(vipl__mem_alloc(SIZE_MAX - 5));
    assert_int_equal(errno, ENOMEM);
}

/* A program closes all descriptors. The arena's number may then belong to a file of the program. */
static void test_descriptor_taken_away(void **state)
{
    uint8_t *block = malloc(5000);
    int arena = vipl__mem_arena_get(-1);
    int kept = dup(arena);
    char name[] = "/tmp/vipl-mem-XXXXXX";
    int file = mkstemp(name);

    assert_true(arena >= 0 && kept >= 0 && file >= 0);
    unlink(name);
    assert_int_equal(dup2(file, arena), arena);
    staged_trip(block, 5000);
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    assert_int_equal(dup2(kept, arena), arena);
    close(kept);
    close(file);
    round_trip(block, 5000, VIPL__MEM_ADOPTED);
    free(block);
}

/* End a test that has set no_holes: free the arena's pages, which would change later tests. */
static void give_back(int arena, struct mem_switches was)
{
    struct mem_state *st = vipl__mem_state();

    vipl__mem_switches = was;
    st->keeps = false;
    st->most_bytes = 0;
    memset(st->block_full, 0, sizeof(st->block_full));
    memset(st->block_owner, 0, sizeof(st->block_owner));
    assert_int_equal(st->runs.n, 0);
    assert_int_equal(
        fallocate(arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, VIP_ARENA_BYTES), 0);
}

/* The arena's file keeps its pages, because it cannot have holes. A program registers one range
 * after the other at different addresses, and each gets the same pages of the file. */
static void test_pages_that_stay(void **state)
{
    enum { PAGES = 100, BLOCKS = 64 };
    struct mem_switches was = vipl__mem_switches;
    size_t bytes = (BLOCKS + 2) * MEM_BLOCK_BYTES;
    uint8_t *map = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *area = map + MEM_BLOCK_BYTES - (uintptr_t)map % MEM_BLOCK_BYTES;
    struct vipl__mem mem;
    struct stat before, after;
    int arena = vipl__mem_arena_get(-1);

    assert_true(map != MAP_FAILED && arena >= 0);
    vipl__mem_switches.no_holes = true;
    for (unsigned i = 0; i < BLOCKS; i++) {
        uint8_t *at = area + i * MEM_BLOCK_BYTES + i * PAGE;

        assert_int_equal(mprotect(at, PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
        round_trip(at, PAGES * PAGE, VIPL__MEM_ADOPTED);
        fstat(arena, i == 0 ? &before : &after);
    }
    /* Range i begins i pages into its block. Two arena blocks may alternate. */
    assert_in_range((after.st_blocks - before.st_blocks) * 512, 0, (BLOCKS + PAGES) * PAGE);
    /* Register two ranges at a time, within one block and across the border to the next block. */
    assert_int_equal(mprotect(area, 2 * MEM_BLOCK_BYTES, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(prepare(area, PAGES * PAGE, &mem), 0);
    round_trip(area + MEM_BLOCK_BYTES - 2 * PAGE, 4 * PAGE, VIPL__MEM_ADOPTED);
    vipl__mem_release(&mem);
    give_back(arena, was);
    munmap(map, bytes);
    vipl__mem_arena_put();
}

/* If a block's place in the arena has idle pages, memory of the block uses them. New pages are
 * limited. */
static void test_idle_pages_are_used(void **state)
{
    enum { PIECE = 1 << 20, IDLE = 4 * PIECE, BYTES = IDLE + PIECE };
    const size_t room = 8 * MEM_BLOCK_BYTES;
    struct mem_switches was = vipl__mem_switches;
    uint8_t *area = mmap(NULL, room, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *block = (uint8_t *)(((uintptr_t)area | (MEM_BLOCK_BYTES - 1)) + 1);
    int arena = vipl__mem_arena_get(-1);
    struct vipl__mem mem, few, many;
    enum vipl__mem_kind kind = VIPL__MEM_ADOPTED;
    struct stat before, after;
    unsigned pieces;

    assert_true(area != MAP_FAILED && arena >= 0);
    vipl__mem_switches.no_holes = true;
    vipl__mem_switches.idle_bytes = IDLE;
    /* Two blocks of the arena: one has few pages, the other has many. */
    assert_int_equal(prepare(block + 3 * MEM_BLOCK_BYTES + PIECE, BYTES, &many), 0);
    assert_int_equal(prepare(block, PIECE, &few), 0);
    assert_true(few.offset / MEM_BLOCK_BYTES != many.offset / MEM_BLOCK_BYTES);
    vipl__mem_release(&many);
    vipl__mem_release(&few);
    round_trip(block + 5 * MEM_BLOCK_BYTES, PIECE, VIPL__MEM_ADOPTED);
    round_trip(block + 5 * MEM_BLOCK_BYTES + PIECE, BYTES, VIPL__MEM_ADOPTED);
    round_trip(block + MEM_BLOCK_BYTES, PIECE, VIPL__MEM_ADOPTED);
    /* The limit of pages: twice the most memory that was adopted at one time, plus IDLE. */
    fstat(arena, &before);
    for (pieces = 0; kind == VIPL__MEM_ADOPTED && pieces < 50; pieces++) {
        assert_int_equal(prepare(block + (100 + pieces) * PIECE, PIECE, &mem), 0);
        kind = mem.kind;
        vipl__mem_release(&mem);
    }
    fstat(arena, &after);
    assert_int_equal(kind, VIPL__MEM_STAGED);
    assert_true(pieces > 2);
    assert_in_range((after.st_blocks - before.st_blocks) * 512, PIECE, 2 * (BYTES + PIECE) + IDLE);
    munmap(area, room);
    give_back(arena, was);
}

/* Memory is registered piece by piece, one piece at a time. The arena does not get pages for all of
 * it. Pieces whose places have pages are adopted as before. */
static void test_idle_pages_are_few(void **state)
{
    enum { PIECE = 1 << 20, IDLE = 4 * PIECE, PIECES = 12 };
    struct mem_switches was = vipl__mem_switches;
    uint8_t *area = mmap(NULL, (size_t)PIECES * PIECE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct vipl__mem mem;
    struct stat before, after;
    int arena = vipl__mem_arena_get(-1);

    assert_true(area != MAP_FAILED && arena >= 0);
    fstat(arena, &before);
    vipl__mem_switches.no_holes = true;
    vipl__mem_switches.idle_bytes = IDLE;
    vipl__mem_state()->most_bytes = 0;
    for (unsigned i = 0; i < PIECES; i++) {
        assert_int_equal(prepare(area + i * PIECE, PIECE, &mem), 0);
        vipl__mem_release(&mem);
    }
    fstat(arena, &after);
    assert_in_range((after.st_blocks - before.st_blocks) * 512, 0, IDLE + 2 * PIECE);
    round_trip(area, PIECE, VIPL__MEM_ADOPTED);
    assert_int_equal(prepare(area + (PIECES - 1) * PIECE, PIECE, &mem), 0);
    assert_int_equal(mem.kind, VIPL__MEM_STAGED);
    vipl__mem_release(&mem);
    give_back(arena, was);
    munmap(area, (size_t)PIECES * PIECE);
    vipl__mem_arena_put();
}

/* Pages that are registered a second time count only once in the limit of adopted memory. */
static void test_idle_pages_and_overlap(void **state)
{
    enum { PIECE = 1 << 20, USED = 4 * PIECE, WASTE = 10 * PIECE };
    struct mem_switches was = vipl__mem_switches;
    uint8_t *area = mmap(NULL, 2 * MEM_BLOCK_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *block = (uint8_t *)(((uintptr_t)area | (MEM_BLOCK_BYTES - 1)) + 1);
    int arena = vipl__mem_arena_get(-1);
    struct vipl__mem waste, used, more;

    assert_true(area != MAP_FAILED && arena >= 0);
    vipl__mem_switches.no_holes = true;
    vipl__mem_switches.idle_bytes = PIECE;
    assert_int_equal(prepare(block + 100 * PIECE, WASTE, &waste), 0);
    vipl__mem_release(&waste);
    assert_int_equal(prepare(block, USED, &used), 0);
    assert_int_equal(used.kind, VIPL__MEM_ADOPTED);
    vipl__mem_state()->most_bytes = USED;
    /* 5 pieces would be adopted at one time, so the file may have 11. It has 14: libvipl stages. */
    assert_int_equal(prepare(block, USED + PIECE, &more), 0);
    assert_int_equal(more.kind, VIPL__MEM_STAGED);
    vipl__mem_release(&more);
    /* 7 pieces were adopted at one time, so the file may have 15. It has 14, so one more fits. */
    vipl__mem_state()->most_bytes = USED + 3 * PIECE;
    assert_int_equal(prepare(block, USED + PIECE, &more), 0);
    assert_int_equal(more.kind, VIPL__MEM_ADOPTED);
    vipl__mem_release(&more);
    vipl__mem_release(&used);
    /* Half of the next range has idle pages, so only its other half needs new pages. */
    vipl__mem_state()->most_bytes = 8 * PIECE;
    assert_int_equal(prepare(block + 108 * PIECE, 4 * PIECE, &more), 0);
    assert_int_equal(more.kind, VIPL__MEM_ADOPTED);
    vipl__mem_release(&more);
    give_back(arena, was);
    munmap(area, 2 * MEM_BLOCK_BYTES);
    vipl__mem_arena_put();
}

/* Two blocks of the arena are free and have pages, but they are not neighbours. Blocks that are
 * neighbours in memory still become neighbours in the arena. */
static void test_pages_that_stay_elsewhere(void **state)
{
    enum { PAGES = 4, BLOCKS = 12 };
    struct mem_switches was = vipl__mem_switches;
    size_t bytes = (BLOCKS + 1) * MEM_BLOCK_BYTES;
    uint8_t *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *area = map + MEM_BLOCK_BYTES - (uintptr_t)map % MEM_BLOCK_BYTES;
    uint8_t *first = area + 5 * MEM_BLOCK_BYTES - PAGES * PAGE;
    struct vipl__mem apart[2], mem[2];
    int arena = vipl__mem_arena_get(-1);

    assert_true(map != MAP_FAILED && arena >= 0);
    vipl__mem_switches.no_holes = true;
    assert_int_equal(prepare(area, PAGES * PAGE, &apart[0]), 0);
    assert_int_equal(prepare(area + (BLOCKS - 1) * MEM_BLOCK_BYTES, PAGES * PAGE, &apart[1]), 0);
    vipl__mem_release(&apart[0]);
    vipl__mem_release(&apart[1]);
    assert_int_equal(prepare(first, PAGES * PAGE, &mem[0]), 0);
    assert_int_equal(prepare(first + PAGES * PAGE, PAGES * PAGE, &mem[1]), 0);
    round_trip(first, 2 * PAGES * PAGE, VIPL__MEM_ADOPTED);
    vipl__mem_release(&mem[0]);
    vipl__mem_release(&mem[1]);
    give_back(arena, was);
    munmap(map, bytes);
    vipl__mem_arena_put();
}

/* The program closes a NIC handle while it opens a second one: the arena stays. */
static void test_arena_is_held(void **state)
{
    int arena = vipl__mem_arena_get(-1);

    assert_true(arena >= 0);
    assert_int_equal(vipl__mem_arena_hold(), arena);
    vipl__mem_arena_put();
    assert_true(vipl__mem_arena_alive(vipl__mem_state()));
    assert_int_equal(vipl__mem_arena_get(-1), arena);
    vipl__mem_arena_put();
    vipl__mem_arena_put();
}

/* vipd refuses a region of shared memory. Then libvipl stages it. */
static void test_shared_that_is_not_taken(void **state)
{
    const struct vipl__mem_files files = {.make = NULL, .no_shared = true};
    uint8_t *block = vipl__mem_alloc(10000);
    struct vipl__mem mem;
    const char *why;

    assert_non_null(block);
    assert_int_equal(vipl__mem_prepare(block, 10000, &files, &mem, &why), 0);
    assert_int_equal(mem.kind, VIPL__MEM_STAGED);
    vipl__mem_release(&mem);
    assert_int_equal(vipl__mem_free(block), 0);
}

static int as_it_is(void **state)
{
    pretend((struct mem_switches){0});
    return 0;
}

static int as_ordinary_user(void **state)
{
    pretend((struct mem_switches){.user_mode_only = true});
    return 0;
}

static int on_linux_6_1(void **state)
{
    pretend((struct mem_switches){
        .user_mode_only = true, .no_procmap_query = true, .no_unpopulated = true});
    return 0;
}

static int in_a_container(void **state)
{
    pretend((struct mem_switches){.no_userfaultfd = true});
    return 0;
}

/* A sanitizer may have threads of its own. Then each process has several threads. */
static bool has_other_threads(void)
{
    return vipl__mem_guard(vipl__mem_state()) == MEM_GUARD_IMPOSSIBLE;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heap_of_any_size),
        cmocka_unit_test(test_mappings_are_as_before),
        cmocka_unit_test(test_untouched_pages),
        cmocka_unit_test(test_adopted_behind_a_limit_of_file_sizes),
        cmocka_unit_test(test_several_mappings),
        cmocka_unit_test(test_static_data),
        cmocka_unit_test(test_stack_is_staged),
        cmocka_unit_test(test_thread_stack_is_staged),
        cmocka_unit_test(test_buffer_above_a_stack),
        cmocka_unit_test(test_heap_of_a_thread),
        cmocka_unit_test(test_stack_of_a_coroutine),
        cmocka_unit_test(test_control_block_of_another_thread),
        cmocka_unit_test(test_read_only_memory),
        cmocka_unit_test(test_files_are_staged),
        cmocka_unit_test(test_what_is_not_there),
        cmocka_unit_test(test_protection_changed_meanwhile),
        cmocka_unit_test(test_odd_memory),
        cmocka_unit_test(test_shared_from_birth),
        cmocka_unit_test(test_descriptor_taken_away),
        cmocka_unit_test(test_pages_that_stay),
        cmocka_unit_test(test_idle_pages_are_used),
        cmocka_unit_test(test_idle_pages_are_few),
        cmocka_unit_test(test_idle_pages_and_overlap),
        cmocka_unit_test(test_pages_that_stay_elsewhere),
        cmocka_unit_test(test_arena_is_held),
        cmocka_unit_test(test_shared_that_is_not_taken),
    };

    int failed = cmocka_run_group_tests_name("as it is", tests, as_it_is, NULL) +
                 cmocka_run_group_tests_name("ordinary user", tests, as_ordinary_user, NULL) +
                 cmocka_run_group_tests_name("Linux 6.1", tests, on_linux_6_1, NULL);

    in_a_container(NULL);
    if (has_other_threads())
        printf("skipped without userfaultfd: this process has threads that are not its own\n");
    else
        failed += cmocka_run_group_tests_name("no userfaultfd", tests, in_a_container, NULL);
    return failed;
}
