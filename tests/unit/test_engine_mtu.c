/*
 * The packet size on a path whose limit is smaller than that of the interface. Repeated losses of
 * large packets, or a silence, make packets smaller. Test packets search for a larger size. The
 * loss of a test packet does no harm.
 */
#include "eng_path.h"

#define LARGE 8972u
#define SMALL 1200u /* packet size after the engine has cut it */
#define HOLE  1450u /* the path takes test packets of 1400 bytes, not of 1472 */

static struct path *path_of(uint32_t hole_bytes)
{
    struct eng_config config = ENG_CONFIG_DEFAULT;
    struct path *path;

    config.congestion = ENG_CONGESTION_FIXED;
    path = path_new(&config, LARGE);
    path->hole_bytes = hole_bytes;
    return path;
}

/* Send a small packet, large packets and a small packet. Only the small packets pass. */
static void post_mixed(struct path *path)
{
    rig_send(path->rig, 0, 10);
    (void)path_take(path);
    rig_send(path->rig, 0, 30000);
    (void)path_take(path);
    rig_send(path->rig, 0, 10);
    (void)path_take(path);
}

/* Large packets do not pass. The packet size is cut after some round trips, not at once. */
static void large_vanish(void **state)
{
    struct path *path = path_of(HOLE);
    unsigned rounds = 0;

    for (; !path_stats(path).mtu_cuts && rounds < 50; rounds++) {
        post_mixed(path);
        path_round(path);
    }
    assert_in_range(rounds, 3, 20);
    assert_int_equal(path_stats(path).packet_bytes, SMALL);
    assert_int_equal(path_stats(path).timeouts, 0);
    for (rounds = 0; path->ops_done < 9 && rounds < 100; rounds++)
        path_round(path);
    assert_true(path->ops_done >= 9);
    path_free(path);
}

/* No packet passes. No acknowledgement shows a loss, so the silence must cut the size. */
static void silence(void **state)
{
    struct path *path = path_of(HOLE);
    unsigned rounds = 0;

    rig_send(path->rig, 0, 60000);
    for (; path->ops_done < 1 && rounds < 1000; rounds++)
        path_round(path);
    assert_int_equal(path->ops_done, 1);
    assert_int_equal(path_stats(path).mtu_cuts, 1);
    assert_true(path_stats(path).timeouts >= 3);
    path_free(path);
}

/* The path's limit is below the packet size that IPv6 guarantees. The message fits in this size. */
static void silence_small(void **state)
{
    struct path *path = path_of(600);
    unsigned rounds = 0;

    rig_send(path->rig, 0, 1000);
    for (; path->ops_done < 1 && rounds < 1000; rounds++)
        path_round(path);
    assert_int_equal(path->ops_done, 1);
    assert_int_equal(path_stats(path).packet_bytes, VIP_PACKET_BYTES_MIN);
    assert_in_range(path_stats(path).timeouts, 4, 6);
    path_free(path);
}

static void send_for(struct path *path, unsigned rounds, uint32_t *ops)
{
    while (rounds--) {
        if (*ops < PATH_OPS - 1 && *ops - path->ops_done < 2) {
            rig_send(path->rig, 0, 5000);
            ++*ops;
        }
        path_round(path);
    }
}

/* After a while the engine sends a test packet of the next larger size. If it arrives, the next
 * test follows at once. If it is lost, the next one follows after twice the time; this loss has no
 * other effect. */
static void search_upwards(void **state)
{
    struct path *path = path_of(HOLE);
    uint32_t ops = 1;
    uint64_t lost;

    rig_send(path->rig, 0, 60000);
    while (path->ops_done < 1)
        path_round(path);
    assert_int_equal(path_stats(path).packet_bytes, SMALL);
    path->bytes_max = 0;
    send_for(path, 50, &ops);
    assert_true(path->bytes_max <= SMALL);
    send_for(path, 80, &ops);
    assert_int_equal(path_stats(path).packet_bytes, 1400);
    assert_int_equal(path->bytes_max, 1472);
    /* The test of 1472 bytes was lost. The next test follows after 100 ms, then one after 200
     * ms. */
    lost = path->lost;
    send_for(path, 115, &ops);
    assert_int_equal(path->lost, lost + 1);
    send_for(path, 150, &ops);
    assert_int_equal(path->lost, lost + 1);
    send_for(path, 80, &ops);
    assert_int_equal(path->lost, lost + 2);
    assert_int_equal(path_stats(path).mtu_cuts, 1);
    assert_int_equal(path_stats(path).packet_bytes, 1400);
    /* The path takes all sizes again. After each success the engine at once tests the next size. */
    path->hole_bytes = 0;
    send_for(path, 900, &ops);
    assert_true(path_stats(path).packet_bytes >= 4096);
    path_free(path);
}

/* The large packets were only late. When one of them arrives, the engine uses its size again. */
static void only_late(void **state)
{
    struct path *path = path_of(HOLE);
    uint64_t number = 1;

    while (!path_stats(path).mtu_cuts) {
        post_mixed(path);
        path_round(path);
    }
    assert_int_equal(path_stats(path).packet_bytes, SMALL);
    while (path->arrived[number])
        number++;
    path->hole_bytes = 0;
    path->arrived[number] = true;
    path_answer(path);
    assert_int_equal(path_stats(path).packet_bytes, LARGE);
    path_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_vanish),  cmocka_unit_test(silence),
        cmocka_unit_test(silence_small), cmocka_unit_test(search_upwards),
        cmocka_unit_test(only_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
