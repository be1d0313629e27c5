/*
 * A descriptor is posted while pacing delays its VI. No packet is under way, so no other timer
 * runs. The packet must still leave when pacing allows it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vipd/engine/internal.h"

#define NOW_NS 1000000u

static bool on_check(void *ctx, const struct eng_access *access)
{
    return true;
}

static bool on_place(void *ctx, const struct eng_access *access, uint32_t payload_offset)
{
    return true;
}

static void on_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status,
                        uint32_t length, uint64_t imm)
{
}

static void on_event(void *ctx, const struct eng_event *event)
{
}

static void on_fetch(void *ctx)
{
}

static const struct eng_ops ops = {.check = on_check,
                                   .place = on_place,
                                   .complete = on_complete,
                                   .event = on_event,
                                   .fetch_posts = on_fetch};

static void *zeroes(size_t bytes)
{
    size_t room = (bytes + 63) & ~(size_t)63;
    void *memory = aligned_alloc(64, room);

    assert_non_null(memory);
    memset(memory, 0, room);
    return memory;
}

static void post(struct eng *eng, uint64_t now_ns)
{
    struct eng_post args = {.queue = VIP_Q_SEND, .control = VIP_CTL_OP_SENDRECV};

    eng_post(eng, &args, now_ns);
}

/* Post while pacing delays the VI until until_ns. The packet must leave then, and not earlier. */
static void run(uint64_t until_ns)
{
    const struct eng_config config = ENG_CONFIG_DEFAULT;
    const struct eng_vi_attrs attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 4096};
    const struct eng_conn conn = {.local_id = 1,
                                  .remote_id = 2,
                                  .local_epoch = 3,
                                  .remote_epoch = 4,
                                  .packet_bytes = 1472,
                                  .window_bytes = 65536};
    struct eng *eng = eng_init(zeroes(eng_bytes()), &config, &ops, NULL, NOW_NS);
    struct eng_vi *vi = zeroes(eng_vi_bytes());
    struct eng_packet *packet = zeroes(sizeof(*packet));

    eng_vi_create(eng, 0, vi, &attrs);
    eng_vi_connect(eng, 0, &conn, NOW_NS);
    vi->tx.paced = true;
    vi->tx.pace_ps = 1000;
    vi->tx.paced_until_ns = until_ns;
    post(eng, NOW_NS);
    if (until_ns > NOW_NS) {
        assert_false(eng_tx_ready(eng));
        assert_int_equal(eng_deadline(eng), until_ns);
        eng_tick(eng, until_ns);
    }
    assert_true(eng_tx_pull(eng, packet, until_ns));
    free(packet);
    eng_vi_destroy(eng, 0);
    free(vi);
    free(eng);
}

static void test_pace_goes_on(void **state)
{
    run(NOW_NS + 5000);
}

/* The delay by pacing ended before the descriptor was posted. */
static void test_pace_is_over(void **state)
{
    run(NOW_NS - 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pace_goes_on),
        cmocka_unit_test(test_pace_is_over),
    };

    return cmocka_run_group_tests_name("engine_paced_post", tests, NULL, NULL);
}
