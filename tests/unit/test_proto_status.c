/*
 * Names of VIPL's numbers: each known value has its own name, and other values have "?".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/status.h"

static const char *rc_name(uint32_t value)
{
    return vip_rc_name((enum vip_rc)value);
}

static const char *state_name(uint32_t value)
{
    return vip_vi_state_name((enum vip_vi_state)value);
}

static const char *error_name(uint32_t value)
{
    return vip_error_code_name((enum vip_error_code)value);
}

/* Values 0..count-1 have different names that start with VIP_; higher values have "?". */
static void check(const char *(*name)(uint32_t), uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_memory_equal(name(i), "VIP_", 4);
        for (uint32_t j = 0; j < i; j++)
            assert_string_not_equal(name(i), name(j));
    }
    assert_string_equal(name(count), "?");
    assert_string_equal(name(UINT32_MAX), "?");
}

static void test_names(void **state)
{
    check(rc_name, VIP_RC_ERROR_NOT_SUPPORTED + 1);
    check(state_name, VIP_VIST_ERROR + 1);
    check(error_name, VIP_EC_CATASTROPHIC + 1);
    assert_string_equal(vip_rc_name(VIP_RC_NO_MATCH), "VIP_NO_MATCH");
    assert_string_equal(vip_rc_name(VIP_RC_ERROR_RESOURCE), "VIP_ERROR_RESOURCE");
    assert_string_equal(vip_vi_state_name(VIP_VIST_CONNECT_PENDING), "VIP_STATE_CONNECT_PENDING");
    assert_string_equal(vip_error_code_name(VIP_EC_CONN_LOST), "VIP_ERROR_CONN_LOST");
}

static void test_levels(void **state)
{
    assert_string_equal(vip_level_name(VIP_LVL_UNRELIABLE), "VIP_SERVICE_UNRELIABLE");
    assert_string_equal(vip_level_name(VIP_LVL_DELIVERY), "VIP_SERVICE_RELIABLE_DELIVERY");
    assert_string_equal(vip_level_name(VIP_LVL_RECEPTION), "VIP_SERVICE_RELIABLE_RECEPTION");
    assert_string_equal(vip_level_name(0), "?");
    assert_string_equal(vip_level_name(3), "?"); /* 3 is a set of levels and not one level */
    assert_string_equal(vip_level_name(UINT32_MAX), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_levels),
    };

    return cmocka_run_group_tests_name("proto_status", tests, NULL, NULL);
}
