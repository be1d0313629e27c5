/* The small parts of the engine: number windows, the timer heap. */
#include "eng_rig.h"

#include "vipd/engine/bits.h"

static void bits_search(void **state)
{
    struct eng_bits bits = {0};
    const uint64_t set[] = {5, 63, 64, 65, 700, 2040, 2047, 2048, 2052};

    assert_int_equal(eng_bits_next(&bits, 1, 2049), 2049);
    assert_int_equal(eng_bits_prev(&bits, 2048, 5, true), 4);
    assert_int_equal(eng_bits_prev(&bits, 2048, 5, false), 2048);
    for (unsigned i = 0; i < 9; i++)
        eng_bits_set(&bits, set[i]);
    for (unsigned i = 0; i < 9; i++) {
        uint64_t before = i ? set[i - 1] : 4;

        assert_true(eng_bits_test(&bits, set[i]));
        assert_int_equal(eng_bits_next(&bits, before + 1, 2053), set[i]);
        assert_int_equal(eng_bits_prev(&bits, set[i] - 1, 5, true), before);
    }
    assert_int_equal(eng_bits_prev(&bits, 65, 5, false), 62);
    assert_int_equal(eng_bits_next(&bits, 6, 60), 60);
    eng_bits_clear(&bits, 64);
    assert_int_equal(eng_bits_next(&bits, 64, 2053), 65);
    assert_int_equal(eng_bits_prev(&bits, 3, 1, true), 0);
}

static void nop_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status,
                         uint32_t length, uint64_t imm)
{
}

static void nop_event(void *ctx, const struct eng_event *event)
{
}

#define MANY 300u

/* Delayed acknowledgements of many VIs are due in the order of time, not of the VIs' creation. */
static void timers_many(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);
    struct eng_ops ops = {.check = rig_check,
                          .place = rig_place,
                          .complete = nop_complete,
                          .event = nop_event,
                          .fetch_posts = rig_fetch};
    struct eng_vi_attrs attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 1000};
    struct eng_conn conn = {.local_id = 1,
                            .remote_id = 2,
                            .local_epoch = 3,
                            .remote_epoch = 4,
                            .packet_bytes = 1472,
                            .window_bytes = 65536};
    struct eng *eng =
        eng_init(rig_zeroed(eng_bytes()), &ENG_CONFIG_DEFAULT, &ops, rig, rig->now_ns);
    struct vip_frame frame = rig_frame(VIP_FRM_SEND, 0, 0, 0, 0);
    struct eng_post post = {.queue = VIP_Q_RECV};
    void *memory[MANY];
    unsigned pulled = 0;

    for (uint16_t i = 0; i < MANY; i++) {
        memory[i] = rig_zeroed(eng_vi_bytes());
        eng_vi_create(eng, i, memory[i], &attrs);
        eng_vi_connect(eng, i, &conn, rig->now_ns);
    }
    for (unsigned i = 0; i < MANY; i++) {
        struct vip_packet packet;

        post.vi = (uint16_t)(i * 7 % MANY);
        rig->number = 1;
        packet = rig_packet(rig, 1, &frame);
        eng_post(eng, &post, rig->now_ns);
        assert_int_equal(eng_rx(eng, post.vi, &packet, 1, rig->now_ns + i), ENG_RX_DONE);
    }
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t due_ns = rig->now_ns + i + ENG_CONFIG_DEFAULT.ack_delay_ns;

        /* Some VIs are destroyed before their timers expire. Their timers must not expire. */
        if (i % 3 == 0) {
            eng_vi_destroy(eng, (uint16_t)(i * 7 % MANY));
            continue;
        }
        assert_true(eng_deadline(eng) == due_ns);
        eng_tick(eng, due_ns);
        while (eng_pull_any(eng, &rig->out, due_ns)) {
            assert_int_equal(rig->out.vi, i * 7 % MANY);
            pulled++;
        }
    }
    assert_int_equal(pulled, MANY - MANY / 3);
    assert_true(eng_deadline(eng) == ENG_NEVER);
    for (unsigned i = 0; i < MANY; i++)
        if (i % 3)
            eng_vi_destroy(eng, (uint16_t)(i * 7 % MANY));
    for (unsigned i = 0; i < MANY; i++)
        free(memory[i]);
    free(eng);
    rig_free(rig);
}

static unsigned completed;

static void count_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status,
                           uint32_t length, uint64_t imm)
{
    completed++;
}

/* Many unreliable VIs have many faulty sends each. One eng_tx_pull skips only a few of the sends,
 * and one eng_tick completes the sends of only one VI. */
static void sends_in_portions(void **state)
{
    enum { VIS = 40, SENDS = 200 };
    struct rig *rig = rig_new(VIP_LVL_UNRELIABLE);
    struct eng_ops ops = {.check = rig_check,
                          .place = rig_place,
                          .complete = count_complete,
                          .event = nop_event,
                          .fetch_posts = rig_fetch};
    struct eng_vi_attrs attrs = {.level = VIP_LVL_UNRELIABLE, .max_transfer_bytes = 1000};
    struct eng_conn conn = {.local_id = 1,
                            .remote_id = 2,
                            .local_epoch = 3,
                            .remote_epoch = 4,
                            .packet_bytes = 1472,
                            .window_bytes = 65536};
    struct eng *eng =
        eng_init(rig_zeroed(eng_bytes()), &ENG_CONFIG_DEFAULT, &ops, rig, rig->now_ns);
    struct eng_post post = {.queue = VIP_Q_SEND, .control = VIP_CTL_RESERVED};
    void *memory[VIS];
    unsigned pulls = 0, ticks = 0;

    for (uint16_t i = 0; i < VIS; i++) {
        memory[i] = rig_zeroed(eng_vi_bytes());
        eng_vi_create(eng, i, memory[i], &attrs);
        eng_vi_connect(eng, i, &conn, rig->now_ns);
        post.vi = i;
        for (unsigned n = 0; n < SENDS; n++)
            eng_post(eng, &post, rig->now_ns);
    }
    completed = 0;
    for (; eng_tx_ready(eng); pulls++)
        assert_false(eng_tx_pull(eng, &rig->out, rig->now_ns));
    assert_in_range(pulls, VIS * SENDS / 16, VIS * (SENDS / 16 + 2));
    assert_int_equal(completed, 0);
    for (; eng_deadline(eng) <= rig->now_ns; ticks++) {
        unsigned before = completed, steps = eng_tick(eng, rig->now_ns);

        assert_in_range(steps, 1, ENG_TICK_STEPS);
        assert_int_equal(completed - before, SENDS); /* all sends of one VI */
    }
    assert_int_equal(completed, VIS * SENDS);
    assert_int_equal(ticks, VIS);
    for (uint16_t i = 0; i < VIS; i++) {
        eng_vi_destroy(eng, i);
        free(memory[i]);
    }
    free(eng);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_search),
        cmocka_unit_test(timers_many),
        cmocka_unit_test(sends_in_portions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
