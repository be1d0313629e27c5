/*
 * The ring of the direct path (proto/direct.h): messages of all sizes arrive in order, also if the
 * receiver takes them slowly. A peer writes random values anywhere; the other end still does not
 * access memory outside of the ring.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/direct.h"

static uint64_t seed = 42;

static uint32_t chance(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32) % below;
}

static uint32_t some_length(void)
{
    switch (chance(4)) {
    case 0:
        return chance(VIP_DIRECT_INLINE + 2);
    case 1:
        return VIP_DIRECT_BYTES_MAX - chance(70);
    default:
        return chance(VIP_DIRECT_BYTES_MAX + 1);
    }
}

static uint8_t byte_of(uint64_t message, uint32_t at)
{
    return (uint8_t)(message * 31 + at * 7 + at / 256);
}

static bool write_one(struct vip_direct_out *out, uint32_t *lengths)
{
    uint32_t len = some_length();
    uint64_t number = out->sent;
    uint8_t *to;

    if (!vip_direct_room(out, len))
        return false;
    to = vip_direct_place(out, len);
    for (uint32_t i = 0; i < len; i++)
        to[i] = byte_of(number, i);
    lengths[number % VIP_DIRECT_SLOTS] = len;
    vip_direct_send(out, len, number % 3 == 0 ? VIP_DIRECT_IMMEDIATE : 0, number << 33 | 5);
    return true;
}

static void read_one(struct vip_direct_way *way, uint32_t n, const uint32_t *lengths)
{
    struct vip_direct_slot slot;
    const uint8_t *bytes;

    assert_true(vip_direct_there(way, n));
    bytes = vip_direct_read(way, n, &slot);
    assert_non_null(bytes);
    assert_int_equal(slot.len, lengths[n % VIP_DIRECT_SLOTS]);
    for (uint32_t i = 0; i < slot.len; i++)
        assert_int_equal(bytes[i], byte_of(n, i));
    assert_int_equal(slot.flags, n % 3 == 0 ? VIP_DIRECT_IMMEDIATE : 0);
    assert_true(slot.imm == ((uint64_t)n << 33 | 5));
    vip_store32_release(&way->taken, n + 1);
}

static void test_contents_and_order(void **state)
{
    struct vip_direct_way *way = calloc(1, sizeof(*way));
    struct vip_direct_out *out = calloc(1, sizeof(*out));
    static uint32_t lengths[VIP_DIRECT_SLOTS];
    uint32_t taken = 0, full = 0;

    (void)state;
    out->way = way;
    while (taken < 50000) {
        for (uint32_t i = chance(40); i > 0; i--)
            full += !write_one(out, lengths);
        for (uint32_t i = chance(40); i > 0 && taken != out->sent; i--)
            read_one(way, taken++, lengths);
        assert_true(taken != out->sent || !vip_direct_there(way, taken));
    }
    assert_true(full > 1000); /* the ring was full many times */
    assert_true(way->sent == out->sent);
    free(out);
    free(way);
}

static void test_slots_run_out(void **state)
{
    struct vip_direct_way *way = calloc(1, sizeof(*way));
    struct vip_direct_out *out = calloc(1, sizeof(*out));

    (void)state;
    out->way = way;
    for (unsigned i = 0; i < VIP_DIRECT_SLOTS; i++) {
        assert_true(vip_direct_room(out, 8));
        vip_direct_send(out, 8, 0, 0);
    }
    assert_false(vip_direct_room(out, 0));
    /* This `taken` is false: it is larger than the number of sent messages. */
    vip_store32_release(&way->taken, VIP_DIRECT_SLOTS + 1);
    assert_false(vip_direct_room(out, 0));
    vip_store32_release(&way->taken, 1);
    assert_true(vip_direct_room(out, 0));
    free(out);
    free(way);
}

static void test_offers(void **state)
{
    struct vip_direct_way *way = calloc(1, sizeof(*way));

    (void)state;
    assert_false(vip_direct_lent(way, 0, 0));
    vip_direct_lend(way, 0, 100);
    assert_true(vip_direct_lent(way, 0, 100));
    assert_false(vip_direct_lent(way, 0, 101));
    assert_false(vip_direct_lent(way, 1, 0));
    assert_false(vip_direct_lent(way, VIP_DESC_PER_QUEUE_MAX, 0)); /* the offer of an old lap */
    vip_direct_lend(way, UINT32_MAX, 4);                           /* numbers wrap */
    assert_true(vip_direct_lent(way, UINT32_MAX, 4));
    free(way);
}

/* The sender writes random values: the receiver's pointers stay within the ring. */
static void test_lying_sender(void **state)
{
    struct vip_direct_way *way = calloc(1, sizeof(*way));
    unsigned refused = 0, read = 0;

    (void)state;
    for (uint32_t n = 0; n < 300000; n++) {
        struct vip_direct_slot *slot = &way->slot[n & VIP_DIRECT_MASK], copy;
        const uint8_t *bytes;

        for (unsigned i = 0; i < 16; i++)
            ((uint32_t *)(void *)slot)[i] = chance(2) ? chance(8192) : chance(UINT32_MAX);
        slot->flags &= chance(2) ? 1 : 255;
        slot->len = (uint16_t)chance(chance(2) ? 5000 : 65536);
        slot->stamp = n + chance(3);
        if (!vip_direct_there(way, n))
            continue;
        bytes = vip_direct_read(way, n, &copy);
        refused += bytes == NULL;
        if (bytes == NULL)
            continue;
        read++;
        assert_true(copy.len <= VIP_DIRECT_BYTES_MAX);
        if (bytes == copy.bytes)
            assert_true(copy.len <= VIP_DIRECT_INLINE);
        else
            assert_true(bytes >= way->data[0] &&
                        bytes + copy.len <= way->data[0] + sizeof(way->data));
    }
    assert_true(refused > 1000 && read > 1000);
    free(way);
}

/* The receiver writes random values: the sender's pointers stay within the ring. */
static void test_lying_receiver(void **state)
{
    struct vip_direct_way *way = calloc(1, sizeof(*way));
    struct vip_direct_out *out = calloc(1, sizeof(*out));
    static uint32_t lengths[VIP_DIRECT_SLOTS];
    unsigned written = 0;

    (void)state;
    out->way = way;
    for (unsigned i = 0; i < 200000; i++) {
        uint32_t len = some_length();

        vip_store32_release(&way->taken,
                            chance(2) ? chance(UINT32_MAX) : (uint32_t)out->sent - chance(2000));
        if (vip_direct_room(out, len)) {
            uint8_t *to = vip_direct_place(out, len);

            assert_true(to >= (uint8_t *)way->slot &&
                        to + len <= (uint8_t *)(way->data + VIP_DIRECT_LINES));
        }
        written += write_one(out, lengths);
    }
    assert_true(written > 1000);
    free(out);
    free(way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contents_and_order),
        cmocka_unit_test(test_slots_run_out),
        cmocka_unit_test(test_offers),
        cmocka_unit_test(test_lying_sender),
        cmocka_unit_test(test_lying_receiver),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
