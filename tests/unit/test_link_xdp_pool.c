/*
 * How an xdp link distributes its receive buffers to queues. A single queue has all buffers. Of
 * several queues, a busy one has nearly all buffers, and an idle one always has some. A queue that
 * becomes busy gets buffers of another queue.
 */
#include "vipd/link/xdp_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* For each queue, the buffers that the kernel has, oldest first. */
static struct {
    struct xdp_pool pool;
    uint32_t kernel[XDP_QUEUES_MAX][XDP_RX_BUFFERS];
    uint32_t count[XDP_QUEUES_MAX];
} world;

static uint32_t lend(unsigned queue, uint32_t count)
{
    uint32_t buffer, n = 0;

    while (n < count && xdp_pool_take(&world.pool, queue, &buffer)) {
        world.kernel[queue][world.count[queue]++] = buffer;
        n++;
    }
    return n;
}

static void begin(unsigned queues)
{
    xdp_pool_init(&world.pool, queues);
    for (unsigned q = 0; q < XDP_QUEUES_MAX; q++)
        world.count[q] = 0;
    for (unsigned q = 0; q < queues; q++)
        assert_int_equal(lend(q, xdp_pool_first(&world.pool)), xdp_pool_first(&world.pool));
}

/* `count` frames arrive by one queue at the same time. Each buffer of the queue takes one frame
 * and is then released. Returns the number of frames taken. */
static uint32_t burst(unsigned queue, uint32_t count)
{
    uint32_t filled[XDP_RX_BUFFERS], n = 0;

    while (n < count && world.count[queue] > 0)
        filled[n++] = world.kernel[queue][--world.count[queue]];
    lend(queue, 2 * n);
    for (uint32_t i = 0; i < n; i++)
        if (xdp_pool_keep(&world.pool, filled[i]))
            world.kernel[queue][world.count[queue]++] = filled[i];
    return n;
}

/* Check that no buffer is lost, and that no buffer is in two places. */
static void check(unsigned queues)
{
    uint8_t seen[XDP_RX_BUFFERS] = {0};
    uint32_t total = world.pool.free_count;

    for (uint32_t i = 0; i < world.pool.free_count; i++)
        assert_int_equal(seen[world.pool.free[i]]++, 0);
    for (unsigned q = 0; q < queues; q++) {
        assert_int_equal(world.pool.lent[q], world.count[q]);
        total += world.count[q];
        for (uint32_t i = 0; i < world.count[q]; i++)
            assert_int_equal(seen[world.kernel[q][i]]++, 0);
    }
    assert_int_equal(total, XDP_RX_BUFFERS);
}

static void test_one_queue(void **state)
{
    (void)state;
    begin(1);
    assert_int_equal(xdp_pool_most(&world.pool), XDP_RX_BUFFERS);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(burst(0, XDP_RX_BUFFERS), XDP_RX_BUFFERS);
    check(1);
}

static void test_a_busy_queue(void **state)
{
    (void)state;
    for (unsigned queues = 2; queues <= XDP_QUEUES_MAX; queues++) {
        begin(queues);
        assert_true(xdp_pool_most(&world.pool) > XDP_RX_BUFFERS / queues);
        for (unsigned i = 0; i < 20; i++)
            burst(queues - 1, 64);
        /* The other queues still have their buffers for new frames. */
        assert_true(world.count[queues - 1] >= xdp_pool_most(&world.pool));
        for (unsigned q = 0; q + 1 < queues; q++)
            assert_int_equal(world.count[q], XDP_QUEUE_BUFFERS);
        check(queues);
    }
}

static void test_traffic_moves(void **state)
{
    (void)state;
    begin(4);
    for (unsigned i = 0; i < 100; i++)
        burst(0, 64);
    assert_true(world.count[0] >= xdp_pool_most(&world.pool));
    /* Both queues are busy. The second queue gets buffers that the first queue returns. */
    for (unsigned i = 0; i < 100; i++) {
        burst(0, 64);
        burst(2, 64);
    }
    assert_true(world.count[2] >= XDP_RX_BUFFERS / 4);
    assert_true(world.count[0] >= XDP_RX_BUFFERS / 4);
    check(4);
}

static void test_any_traffic(void **state)
{
    (void)state;
    srand(42);
    for (unsigned queues = 1; queues <= XDP_QUEUES_MAX; queues++) {
        begin(queues);
        for (unsigned i = 0; i < 2000; i++) {
            burst((unsigned)rand() % queues, (uint32_t)rand() % XDP_RX_BUFFERS);
            for (unsigned q = 0; q < queues; q++)
                assert_true(world.count[q] >= xdp_pool_first(&world.pool));
        }
        check(queues);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_queue),
        cmocka_unit_test(test_a_busy_queue),
        cmocka_unit_test(test_traffic_moves),
        cmocka_unit_test(test_any_traffic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
