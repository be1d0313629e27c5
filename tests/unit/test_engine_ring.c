/*
 * The engine repeats lost packets in smaller ones. These are more packets, so the ring of packet
 * numbers is full before its oldest record is free. The engine then joins records, and all data
 * arrives.
 */
#include "eng_path.h"

#define LARGE    8972u
#define HOLE     1300u
#define MESSAGES 300u
#define FRESH    1700u /* number of packets under way; hardly any packet number is left */

static void smaller_and_more(void **state)
{
    struct eng_config config = ENG_CONFIG_DEFAULT;
    struct path *path;
    unsigned rounds = 0;

    config.congestion = ENG_CONGESTION_FIXED;
    config.turn_packets = 4096;
    config.turn_bytes = 1u << 30;
    config.conn_timeout_ns = 60000000000;
    path = path_new(&config, LARGE);
    for (unsigned i = 0; i < MESSAGES; i++)
        rig_send(path->rig, 0, PATH_MESSAGE);
    /* Packets of more than HOLE bytes are lost, and so are their repetitions of this size. */
    path->hole_bytes = HOLE;
    assert_true(path_take(path) >= FRESH);
    for (; path->ops_done < MESSAGES && rounds < 20000; rounds++)
        path_round(path);
    assert_int_equal(path->ops_done, MESSAGES);
    for (unsigned i = 0; i < 10; i++)
        path_round(path);
    assert_int_equal(path->rig->dones, MESSAGES);
    for (unsigned i = 0; i < MESSAGES; i++)
        assert_int_equal(path->rig->done[i].status, VIP_ST_DONE);
    assert_int_equal(path_stats(path).inflight_bytes, 0);
    assert_int_equal(eng_vi_state(path->rig->eng, RIG_VI), VIP_VIST_CONNECTED);
    path_free(path);
}

/* Lost packets are repeated in smaller ones. For a while few arrive, so these fill the ring. */
static void full_and_deaf(void **state)
{
    struct eng_config config = ENG_CONFIG_DEFAULT;
    struct path *path;
    unsigned rounds = 0;

    config.congestion = ENG_CONGESTION_FIXED;
    config.turn_packets = 4096;
    config.turn_bytes = 1u << 30;
    config.conn_timeout_ns = 60000000000;
    path = path_new(&config, LARGE);
    for (unsigned i = 0; i < MESSAGES; i++)
        rig_send(path->rig, 0, PATH_MESSAGE);
    path->hole_bytes = HOLE;
    assert_true(path_take(path) >= FRESH);
    while (!path->largest)
        path_round(path);
    /* All packets were lost. They are repeated in small ones; at first most of these are lost. */
    path->drop_from = 1;
    for (unsigned i = 0; i < 40; i++) {
        path->drop_to = path->sent + 200;
        path_round(path);
    }
    path->drop_to = 0;
    for (; path->ops_done < MESSAGES && rounds < 20000; rounds++)
        path_round(path);
    assert_int_equal(path->ops_done, MESSAGES);
    assert_int_equal(eng_vi_state(path->rig->eng, RIG_VI), VIP_VIST_CONNECTED);
    path_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smaller_and_more),
        cmocka_unit_test(full_and_deaf),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
