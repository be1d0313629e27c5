/* Slots of posted descriptors: every number of segments and every length of a message, the two
 * tables, and slots that no libvipl writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "vipd/path/post.h"

#define VI    7u
#define FIRST (VIP_SQ_SLOTS - 2u) /* the further slots wrap around the end of the ring */

static struct vip_sq_slot ring[VIP_SQ_SLOTS];

static struct vip_shm_seg seg_of(unsigned i)
{
    return (struct vip_shm_seg){.addr = 0x1000u * i, .handle = i + 1, .len = 3 * i};
}

static void put(uint32_t at, const void *slot)
{
    struct vip_sq_slot copy;

    memcpy(&copy, slot, sizeof(copy));
    vip_sq_write(ring, at, &copy);
}

/* Write the continuations of a descriptor; returns the position behind them and the first slot. */
static uint32_t put_segs(unsigned count, struct vip_sq_slot *ret)
{
    uint32_t at = FIRST;

    memset(ring, 0, sizeof(ring));
    *ret = (struct vip_sq_slot){.vi = VI, .kind = VIP_SQ_SEND, .seg_count = (uint16_t)count};
    for (unsigned i = 0; i < count && i < VIP_SQ_INLINE_SEGS; i++)
        ret->seg[i] = seg_of(i);
    for (unsigned i = VIP_SQ_INLINE_SEGS; i < count; i += VIP_SQ_CONT_SEGS) {
        struct vip_sq_cont cont = {.vi = VI, .kind = VIP_SQ_CONT};

        for (unsigned k = 0; k < VIP_SQ_CONT_SEGS && i + k < count; k++)
            cont.seg[k] = seg_of(i + k);
        put(at++, &cont);
    }
    return at;
}

static uint32_t put_message(uint32_t at, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i += VIP_SQ_MSG_BYTES) {
        struct vip_sq_msg part = {.vi = VI, .kind = VIP_SQ_MSG, .len = (uint16_t)bytes};

        for (unsigned k = 0; k < VIP_SQ_MSG_BYTES && i + k < bytes; k++)
            part.bytes[k] = (uint8_t)(i + k);
        put(at++, &part);
    }
    return at;
}

static void every_number_of_segments_is_copied(void **state)
{
    struct path_parts parts;
    struct vip_sq_slot slot;

    (void)state;
    for (unsigned count = 0; count <= PATH_SEGS_MAX; count++) {
        uint32_t end = put_segs(count, &slot), at = FIRST;

        assert_int_equal(path_segs(ring, &at, &slot, &parts), 1);
        assert_int_equal(at, end);
        assert_int_equal(1 + at - FIRST, VIP_SQ_SLOTS_FOR(count));
        assert_int_equal(parts.seg_count, count);
        assert_int_equal(parts.message_bytes, 0);
        for (unsigned i = 0; i < count; i++) {
            struct vip_shm_seg want = seg_of(i);

            assert_memory_equal(&parts.segs[i], &want, sizeof(want));
        }
    }
}

static void every_length_of_a_message_is_copied(void **state)
{
    struct path_parts parts;
    struct vip_sq_slot slot;

    (void)state;
    for (unsigned bytes = 1; bytes <= VIP_MESSAGE_BYTES_MAX; bytes++) {
        uint32_t end = put_message(put_segs(4, &slot), bytes), at = FIRST;

        assert_int_equal(path_segs(ring, &at, &slot, &parts), 1);
        assert_int_equal(path_message(ring, &at, &slot, &parts), 1);
        assert_int_equal(at, end);
        assert_int_equal(parts.message_bytes, bytes);
        for (unsigned i = 0; i < bytes; i++)
            assert_int_equal(parts.message[i], (uint8_t)i);
    }
}

static void a_slot_that_is_not_written_is_named(void **state)
{
    struct path_parts parts;
    struct vip_sq_slot slot;
    uint32_t at = FIRST, end = put_segs(9, &slot);

    (void)state;
    ring[(FIRST + 1) % VIP_SQ_SLOTS].stamp = 0;
    assert_int_equal(path_segs(ring, &at, &slot, &parts), 0);
    assert_int_equal(at, FIRST + 1);

    end = put_message(put_segs(3, &slot), 100);
    ring[(end - 1) % VIP_SQ_SLOTS].stamp = 0;
    at = FIRST;
    assert_int_equal(path_segs(ring, &at, &slot, &parts), 1);
    assert_int_equal(path_message(ring, &at, &slot, &parts), 0);
    assert_int_equal(at, end - 1);
}

/* Continuations of another kind or VI, and messages whose lengths are impossible or differ. */
static void slots_that_no_library_writes_are_refused(void **state)
{
    struct vip_sq_cont cont = {.vi = VI, .kind = VIP_SQ_MSG};
    struct vip_sq_msg part = {.vi = VI, .kind = VIP_SQ_MSG};
    struct path_parts parts;
    struct vip_sq_slot slot;
    uint32_t at = FIRST, end = put_segs(5, &slot);

    (void)state;
    assert_int_equal(end, FIRST + 1);
    put(FIRST, &cont);
    assert_int_equal(path_segs(ring, &at, &slot, &parts), -1);
    cont.kind = VIP_SQ_CONT;
    cont.vi = VI + 1;
    put(FIRST, &cont);
    at = FIRST;
    assert_int_equal(path_segs(ring, &at, &slot, &parts), -1);

    for (unsigned len = 0; len <= VIP_MESSAGE_BYTES_MAX + 1; len += VIP_MESSAGE_BYTES_MAX + 1) {
        part.len = (uint16_t)len;
        put(FIRST, &part);
        at = FIRST;
        assert_int_equal(path_message(ring, &at, &slot, &parts), -1);
    }
    put_message(FIRST, 100);
    part.len = 99;
    put(FIRST + 1, &part);
    at = FIRST;
    assert_int_equal(path_message(ring, &at, &slot, &parts), -1);
}

static void without_imm64_the_upper_half_is_cleared(void **state)
{
    struct vip_sq_slot slot = {.kind = VIP_SQ_RECV, .imm = 0x1122334455667788u};
    struct path_parts parts = {.seg_count = 0};

    (void)state;
    assert_int_equal(path_post(&slot, &parts).imm, 0x55667788u);
    assert_int_equal(path_post(&slot, &parts).queue, VIP_Q_RECV);
    slot.flags = VIP_SQF_IMM64;
    slot.kind = VIP_SQ_SEND;
    assert_true(path_post(&slot, &parts).imm == 0x1122334455667788u);
    assert_int_equal(path_post(&slot, &parts).queue, VIP_Q_SEND);
}

static void put_receive(void *table, uint32_t k, struct vip_sq_slot slot, uint32_t conts_at)
{
    slot.kind = VIP_SQ_SEND; /* vipd does not rely on VI and kind of a slot in the table */
    slot.vi = VI + 1;
    slot.vi_gen = 5;
    slot.imm = conts_at;
    vip_recv_write(table, VI, k, &slot);
}

static void a_receive_of_the_table_is_read(void **state)
{
    void *table = aligned_alloc(4096, (VI + 1) * (size_t)VIP_RECV_STRIDE);
    uint32_t k = 3 * VIP_DESC_PER_QUEUE_MAX - 1, left = 2;
    struct path_parts parts;
    struct vip_sq_slot slot;
    struct eng_post post;

    (void)state;
    memset(table, 0, (VI + 1) * (size_t)VIP_RECV_STRIDE);
    put_segs(8, &slot);
    memcpy(vip_recv_conts(table, VI), ring, sizeof(ring));
    slot.control = 0x10;
    put_receive(table, k, slot, FIRST);
    assert_false(path_receive(table, VI, 4, k, &left, &parts, &post)); /* of another VI */
    assert_false(path_receive(table, VI, 5, k + 1, &left, &parts, &post));
    assert_true(path_receive(table, VI, 5, k, &left, &parts, &post));
    assert_int_equal(left, 0);
    assert_int_equal(post.vi, VI);
    assert_int_equal(post.queue, VIP_Q_RECV);
    assert_int_equal(post.control, 0x10);
    assert_int_equal(post.seg_count, 8);
    assert_memory_equal(post.app_segs, parts.segs, 8 * sizeof(parts.segs[0]));
    assert_int_equal(post.app_segs[7].addr, seg_of(7).addr);

    /* More continuations than are left, too many segments, a foreign continuation. */
    left = 1;
    assert_true(path_receive(table, VI, 5, k, &left, &parts, &post));
    assert_int_equal(post.control, 0x10 | VIP_CTL_RESERVED);
    assert_int_equal(post.seg_count, 0);
    left = VIP_SQ_SLOTS;
    slot.seg_count = PATH_SEGS_MAX;
    put_receive(table, k, slot, FIRST);
    assert_true(path_receive(table, VI, 5, k, &left, &parts, &post));
    assert_true(post.control & VIP_CTL_RESERVED);
    slot.seg_count = 8;
    put_receive(table, k, slot, FIRST);
    vip_recv_conts(table, VI)[FIRST].vi = VI + 1;
    assert_true(path_receive(table, VI, 5, k, &left, &parts, &post));
    assert_true(post.control & VIP_CTL_RESERVED);
    free(table);
}

static void a_send_of_the_table_is_read(void **state)
{
    struct vip_loan_part *part = aligned_alloc(4096, sizeof(*part));
    uint32_t k = UINT32_MAX;
    struct path_parts parts;
    struct vip_sq_slot slot;
    struct eng_post post;

    (void)state;
    memset(part, 0, sizeof(*part));
    put_message(put_segs(4, &slot), 60);
    memcpy(part->conts, ring, sizeof(ring));
    part->conts_at[k % VIP_DESC_PER_QUEUE_MAX] = FIRST;
    slot.flags = VIP_SQF_MSG;
    slot.vi_gen = 5;
    vip_loan_send_write(part, k, &slot);
    assert_int_equal(part->posted, 0);
    assert_false(path_send(part, VI, 4, k, &parts, &post));
    assert_false(path_send(part, VI, 5, k - VIP_DESC_PER_QUEUE_MAX, &parts, &post));
    assert_true(path_send(part, VI, 5, k, &parts, &post));
    assert_int_equal(post.vi, VI);
    assert_int_equal(post.queue, VIP_Q_SEND);
    assert_int_equal(post.seg_count, 4);
    assert_int_equal(post.message_bytes, 60);
    assert_int_equal(post.app_message[59], 59);
    assert_false(post.control & VIP_CTL_RESERVED);

    part->conts_at[k % VIP_DESC_PER_QUEUE_MAX] = FIRST + 1;
    assert_true(path_send(part, VI, 5, k, &parts, &post));
    assert_true(post.control & VIP_CTL_RESERVED);
    assert_int_equal(post.seg_count, 0);
    assert_int_equal(post.message_bytes, 0);
    slot.seg_count = PATH_SEGS_MAX + 1;
    vip_loan_send_write(part, k, &slot);
    assert_true(path_send(part, VI, 5, k, &parts, &post));
    assert_true(post.control & VIP_CTL_RESERVED);
    free(part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_segments_is_copied),
        cmocka_unit_test(every_length_of_a_message_is_copied),
        cmocka_unit_test(a_slot_that_is_not_written_is_named),
        cmocka_unit_test(slots_that_no_library_writes_are_refused),
        cmocka_unit_test(without_imm64_the_upper_half_is_cleared),
        cmocka_unit_test(a_receive_of_the_table_is_read),
        cmocka_unit_test(a_send_of_the_table_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
