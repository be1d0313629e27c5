/*
 * A path changes the order of packets. When a packet counts as lost and then arrives, the engine
 * waits longer before later packets count as lost. Without reordering it again waits less.
 */
#include "eng_path.h"
#include "vipd/engine/internal.h"

#define PACKET 1000u

/* Send `packets` full packets, of which the first is delayed. Returns the number of the first. */
static uint64_t burst_without_first(struct path *path, unsigned packets)
{
    uint64_t first = path->sent + 1;

    path->drop_from = first;
    path->drop_to = first + 1;
    for (unsigned i = 0; i < packets; i++) {
        rig_send(path->rig, 0, PACKET - 100);
        (void)path_take(path);
    }
    path->rig->now_ns += PATH_RTT_NS;
    return first;
}

/* Let `ns` pass. Returns the number of packets that the engine sent meanwhile. */
static unsigned pass(struct path *path, uint64_t ns)
{
    uint64_t before = path->sent, until_ns = path->rig->now_ns + ns;

    while (eng_deadline(path->rig->eng) <= until_ns) {
        if (eng_deadline(path->rig->eng) > path->rig->now_ns)
            path->rig->now_ns = eng_deadline(path->rig->eng);
        eng_tick(path->rig->eng, path->rig->now_ns);
        (void)path_take(path);
    }
    path->rig->now_ns = until_ns;
    return (unsigned)(path->sent - before);
}

/* Let packet `number`, which was missing, arrive now. It contains operation `op`. */
static void late(struct path *path, uint64_t number, uint32_t op)
{
    path->arrived[number] = true;
    if (!path->got[op])
        path->got[op] = calloc(1, PATH_MESSAGE);
    path->known[op] = true;
    path->total[op] = path->have[op] = PACKET - 100;
    memset(path->got[op], 1, PACKET - 100);
    (void)path_take(path);
    path_answer(path);
}

static struct path *path_fixed(void)
{
    struct eng_config config = ENG_CONFIG_DEFAULT;

    config.congestion = ENG_CONGESTION_FIXED;
    config.rto_min_ns = 100 * PATH_RTT_NS; /* long, so that the engine sends no probe meanwhile */
    return path_new(&config, PACKET);
}

/* The path has kept the order up to now: three later packets prove a loss at once. */
static void proof_at_first(struct path *path)
{
    (void)burst_without_first(path, 5);
    path_answer(path);
    assert_int_equal(path_take(path), 1);
    assert_int_equal(path_stats(path).lost, 1);
}

static void learns_patience(void **state)
{
    struct path *path = path_fixed();
    uint64_t number;

    proof_at_first(path);
    late(path, 1, 0); /* packet 1 was only late */
    assert_int_equal(path_stats(path).spurious, 1);
    path_answer(path);
    /* Again a packet is late. Now only time proves a loss; 1/4 of a round trip is too short. */
    number = burst_without_first(path, 5);
    path_answer(path);
    assert_int_equal(path_take(path), 0);
    assert_int_equal(pass(path, PATH_RTT_NS / 4), 0);
    late(path, number, 5);
    assert_int_equal(path_stats(path).lost, 1);
    assert_int_equal(path_stats(path).spurious, 1);
    /* Now a packet is really lost. It is repeated later than before, but long before a timeout. */
    number = burst_without_first(path, 5);
    path_answer(path);
    assert_int_equal(path_take(path), 0);
    assert_int_equal(pass(path, PATH_RTT_NS), 1);
    assert_int_equal(path_stats(path).lost, 2);
    assert_int_equal(path_stats(path).timeouts, 0);
    path_free(path);
}

/* The time until a packet counts as lost grows with each packet that was only late, up to about a
 * round trip. */
static void patience_grows(void **state)
{
    struct path *path = path_fixed();
    uint64_t waited[6];

    proof_at_first(path);
    late(path, 1, 0);
    for (unsigned i = 0; i < 6; i++) {
        uint64_t number = burst_without_first(path, 5);

        path_answer(path);
        for (waited[i] = 0; !pass(path, PATH_RTT_NS / 16); waited[i]++)
            assert_true(waited[i] < 32);
        late(path, number, 5 * (i + 1));
        path_answer(path);
    }
    assert_true(waited[1] > waited[0] && waited[0] >= 6);
    assert_true(waited[5] >= waited[2] && waited[5] <= 18);
    assert_int_equal(path_stats(path).spurious, 7);
    path_free(path);
}

/* After many losses without reordering, three later packets prove a loss again. */
static void forgets(void **state)
{
    struct path *path = path_fixed();
    unsigned waits = 0;

    proof_at_first(path);
    late(path, 1, 0);
    for (unsigned i = 0; i < 30; i++) {
        (void)burst_without_first(path, 5);
        path_answer(path);
        if (!path_take(path))
            waits++;
        (void)pass(path, 2 * PATH_RTT_NS);
        path_answer(path);
    }
    assert_in_range(waits, 10, 25);
    assert_int_equal(path_stats(path).timeouts, 0);
    path_free(path);
}

/* The engine limits its search for the place of a packet ahead of its turn, whatever order the peer
 * chooses. At the limit it drops the packet. */
static void looks_at_few(void **state)
{
    struct path *path = path_fixed();
    struct eng_vi *vi = eng_vi_get(path->rig->eng, RIG_VI);
    uint32_t token = 0;

    for (uint32_t op = 10; op < 4010; op += 2)
        assert_true(eng_held_add(vi, ENG_STREAM_OPS, (struct eng_pos){op, 0}, ++token));
    /* The place is far from both ends of the list, so the packet is dropped. */
    assert_false(eng_held_add(vi, ENG_STREAM_OPS, (struct eng_pos){3001, 0}, ++token));
    /* These places are found: near the end, near the head, and after the packet added last. */
    assert_true(eng_held_add(vi, ENG_STREAM_OPS, (struct eng_pos){3951, 0}, ++token));
    assert_true(eng_held_add(vi, ENG_STREAM_OPS, (struct eng_pos){1001, 0}, ++token));
    assert_true(eng_held_add(vi, ENG_STREAM_OPS, (struct eng_pos){3001, 0}, ++token));
    for (uint32_t op = 3003; op < 3050; op += 2)
        assert_true(eng_held_add(vi, ENG_STREAM_OPS, (struct eng_pos){op, 0}, ++token));
    for (uint16_t slot = vi->held[ENG_STREAM_OPS].head; vi->slot[slot].next != ENG_NONE;
         slot = vi->slot[slot].next)
        assert_true(eng_pos_before(vi->slot[slot].at, vi->slot[vi->slot[slot].next].at));
    path_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_patience),
        cmocka_unit_test(patience_grows),
        cmocka_unit_test(forgets),
        cmocka_unit_test(looks_at_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
