/* Messages between the paths of two hosts: the vectors of tests/vectors/, and wrong messages. */
#include "tests/unit/wire_vectors.h"

#include <sys/uio.h>

#include "proto/wire_path.h"

static struct vip_path_addr addr(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
    return (struct vip_path_addr){.len = 6, .bytes = {a, b, c, d, 0x12, 0xba}};
}

static struct vip_path_message probe(void)
{
    return (struct vip_path_message){.type = VIP_PATH_PROBE,
                                     .path = 1,
                                     .nonce = 0x1122334455667788,
                                     .ts = 1000000,
                                     .host = addr(192, 0, 2, 1)};
}

static struct vip_path_message echo(void)
{
    struct vip_path_message message = probe();

    message.type = VIP_PATH_ECHO;
    message.accepts = true;
    message.path = 0;
    message.count = 2;
    message.addr[0] = addr(198, 51, 100, 1);
    message.addr[1] = addr(203, 0, 113, 1);
    return message;
}

static void check(const char *name, struct vip_path_message want)
{
    uint8_t vector[VECTOR_BYTES_MAX], bytes[VIP_WIRE_PATH_BYTES];
    struct vip_path_message got;

    assert_int_equal(vector_load(name, vector), sizeof(bytes));
    vip_wire_put_path(bytes, &want);
    assert_memory_equal(bytes, vector, sizeof(bytes));
    assert_true(vip_wire_is_path(vector, sizeof(bytes)));
    assert_true(vip_wire_get_path(vector, sizeof(bytes), &got));
    assert_int_equal(got.type, want.type);
    assert_int_equal(got.path, want.path);
    assert_int_equal(got.nonce, want.nonce);
    assert_int_equal(got.ts, want.ts);
    assert_int_equal(got.count, want.count);
    assert_int_equal(got.accepts, want.accepts);
    assert_memory_equal(&got.host, &want.host, sizeof(got.host));
    assert_memory_equal(got.addr, want.addr, sizeof(got.addr));
}

static void test_vectors(void **state)
{
    (void)state;
    check("path_probe", probe());
    check("path_echo", echo());
}

/* Test every change of one bit, and every other length. */
static void test_damage(void **state)
{
    struct vip_path_message message = echo(), got;
    uint8_t bytes[VIP_WIRE_PATH_BYTES + 1] = {0};

    (void)state;
    vip_wire_put_path(bytes, &message);
    for (unsigned bit = 0; bit < 8 * VIP_WIRE_PATH_BYTES; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(vip_wire_get_path(bytes, VIP_WIRE_PATH_BYTES, &got));
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t len = 0; len <= sizeof(bytes); len++)
        assert_int_equal(vip_wire_get_path(bytes, len, &got), len == VIP_WIRE_PATH_BYTES);
    assert_false(vip_wire_is_path(bytes, 0));
}

/* Replace the byte `at` of the message, and seal it. Returns true if the message is valid. */
static bool is_good(const struct vip_path_message *message, unsigned at, uint8_t value)
{
    uint8_t bytes[VIP_WIRE_PATH_BYTES];
    struct iovec iov = {bytes, sizeof(bytes)};
    struct vip_path_message got;

    vip_wire_put_path(bytes, message);
    bytes[at] = value;
    vip_wire_seal(&iov, 1);
    return vip_wire_get_path(bytes, sizeof(bytes), &got);
}

static void test_bad_fields(void **state)
{
    struct vip_path_message question = probe(), answer = echo();

    (void)state;
    assert_true(is_good(&question, 1, 1));
    assert_false(is_good(&question, 1, 0)); /* a wrong type */
    assert_false(is_good(&question, 1, 3));
    assert_true(is_good(&question, 2, VIP_PATHS_MAX - 1));
    assert_false(is_good(&question, 2, VIP_PATHS_MAX)); /* a wrong path */
    assert_false(is_good(&question, 3, 1));             /* a question with addresses */
    assert_false(is_good(&answer, 2, 1));               /* addresses, but not from path 0 */
    assert_true(is_good(&answer, 3, 3));
    assert_false(is_good(&answer, 3, VIP_PATHS_MAX)); /* a wrong count of addresses */
    assert_false(is_good(&answer, 3, 1));             /* an address beyond the count */
    assert_true(is_good(&answer, 20, 0));
    assert_false(is_good(&answer, 20, 2));   /* a wrong value of `accepts` */
    assert_false(is_good(&question, 20, 1)); /* `accepts` in a question */
    assert_false(is_good(&question, 21, 1)); /* an unused byte that is not 0 */
    assert_false(is_good(&question, 127, 1));
    assert_false(is_good(&question, 24, 0)); /* a name, but its length is 0 */
    assert_false(is_good(&question, 24, 5)); /* a byte after the name */
    assert_false(is_good(&question, 24, 25));
    assert_false(is_good(&answer, 49, 25));
    question.nonce = 1;
    assert_false(is_good(&question, 8, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_bad_fields),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
