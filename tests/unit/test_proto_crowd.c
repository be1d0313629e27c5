/* When yields do not help (proto/crowd.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/crowd.h"

#define LONG (VIP_YIELD_LONG_NS + 1)

/* A yield that begins now and takes `took_ns`. Returns the time after it. */
static uint64_t yield(struct vip_crowd *crowd, uint64_t now_ns, uint64_t took_ns)
{
    vip_yielded(crowd, now_ns, now_ns + took_ns);
    return now_ns + took_ns;
}

static void test_two_long_yields_in_a_row(void **state)
{
    struct vip_crowd crowd = {0};
    uint64_t now_ns = 1000;

    (void)state;
    assert_false(vip_crowded(&crowd, now_ns));
    for (unsigned i = 0; i < 3; i++) {
        now_ns = yield(&crowd, now_ns, LONG);
        assert_false(vip_crowded(&crowd, now_ns));
        now_ns = yield(&crowd, now_ns, VIP_YIELD_LONG_NS);
        assert_false(vip_crowded(&crowd, now_ns));
    }
    now_ns = yield(&crowd, now_ns, LONG);
    now_ns = yield(&crowd, now_ns, LONG);
    assert_true(vip_crowded(&crowd, now_ns));
    assert_true(vip_crowded(&crowd, now_ns + VIP_CROWDED_NS - 1));
    assert_false(vip_crowded(&crowd, now_ns + VIP_CROWDED_NS));
}

static void test_then_one_long_yield_is_enough(void **state)
{
    struct vip_crowd crowd = {0};
    uint64_t now_ns = yield(&crowd, 1000, LONG);

    (void)state;
    now_ns = yield(&crowd, now_ns, LONG) + VIP_CROWDED_NS;
    assert_false(vip_crowded(&crowd, now_ns));
    now_ns = yield(&crowd, now_ns, LONG);
    assert_true(vip_crowded(&crowd, now_ns));
    now_ns = yield(&crowd, now_ns + VIP_CROWDED_NS, 1000);
    now_ns = yield(&crowd, now_ns, LONG);
    assert_false(vip_crowded(&crowd, now_ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_long_yields_in_a_row),
        cmocka_unit_test(test_then_one_long_yield_is_enough),
    };

    return cmocka_run_group_tests_name("yields", tests, NULL, NULL);
}
