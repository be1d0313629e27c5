/*
 * VipOpenNic while vipd frees the memory of NIC handles that were closed: libvipl asks again, and gives up after 30 s.
 * No time passes: the test only adds up the pauses of libvipl.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "libvipl/vipl.h"
#include "libvipl/vipl_ext.h"
#include "unit/fake_vipd.h"

static pthread_t main_thread;
static uint64_t paused_ms; /* by the main thread, which calls VipOpenNic */

/* Replaces libc's function in the whole program. */
int nanosleep(const struct timespec *pause, struct timespec *rest)
{
    (void)rest;
    if (pthread_equal(pthread_self(), main_thread))
        paused_ms += (uint64_t)pause->tv_sec * 1000 + (uint64_t)pause->tv_nsec / 1000000;
    return 0;
}

/* libvipl sends the OpenRequest again on the same connection. */
static void an_open_waits_until_memory_is_freed(void **state)
{
    struct fake fake = {.fault = FAKE_AGAIN, .again = 200};
    VIP_NIC_HANDLE nic = NULL;

    (void)state;
    paused_ms = 0;
    fake_start(&fake);
    assert_int_equal(VipOpenNic("x", &nic), VIP_SUCCESS);
    assert_int_equal(fake.again, 0);
    assert_int_equal(paused_ms, 2000);
    assert_int_equal(VipCloseNic(nic), VIP_SUCCESS);
    fake_stop(&fake);
}

static void an_open_does_not_wait_for_ever(void **state)
{
    struct fake fake = {.fault = FAKE_AGAIN, .again = UINT32_MAX};
    VIP_NIC_HANDLE nic = NULL;

    (void)state;
    paused_ms = 0;
    fake_start(&fake);
    assert_int_equal(VipOpenNic("x", &nic), VIP_ERROR_RESOURCE);
    assert_non_null(strstr(VipxLastError(), "VipOpenNic: memory is still being freed"));
    assert_null(nic);
    assert_int_equal(paused_ms, 30000);
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_waits_until_memory_is_freed),
        cmocka_unit_test(an_open_does_not_wait_for_ever),
    };

    main_thread = pthread_self();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
