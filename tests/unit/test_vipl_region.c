/* The region table of a session is compared with a plain array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "libvipl/region.h"

static void finds_what_was_added_and_not_taken(void **state)
{
    enum { N = 500 };
    struct vipl__regions regions = {0};
    struct vipl__region all[N] = {{0}};
    bool in[N] = {false};
    uint32_t x = 12345;

    (void)state;
    /* Handles as vipd makes them: index in one half, generation in the other. Many collide. */
    for (unsigned i = 0; i < N; i++)
        all[i].handle = (i % 50 + 1) << 16 | (i / 50 + 1);
    for (unsigned step = 0; step < 20000; step++) {
        unsigned i = (x = x * 1664525u + 1013904223u) >> 16 & 0x1FF;

        if (i >= N)
            continue;
        if (in[i]) {
            assert_ptr_equal(vipl__region_take(&regions, all[i].handle), &all[i]);
        } else {
            assert_int_equal(vipl__region_add(&regions, &all[i]), 0);
        }
        in[i] = !in[i];
        if (step % 500 == 0)
            for (unsigned k = 0; k < N; k++)
                assert_ptr_equal(vipl__region_find(&regions, all[k].handle),
                                 in[k] ? &all[k] : NULL);
    }
    assert_null(vipl__region_find(&regions, 0));
    assert_null(vipl__region_take(&regions, 0xFFFFFFFFu));
    free(regions.slots);
}

static void an_empty_table_holds_nothing(void **state)
{
    struct vipl__regions regions = {0};

    (void)state;
    assert_null(vipl__region_find(&regions, 1));
    assert_null(vipl__region_take(&regions, 1));
}

static void bounds_do_not_overflow(void **state)
{
    struct vipl__region region = {.addr = 1000, .bytes = 100};
    struct vipl__region top = {.addr = UINTPTR_MAX - 99, .bytes = 100};

    (void)state;
    assert_true(vipl__region_holds(&region, 1000, 100));
    assert_true(vipl__region_holds(&region, 1100, 0));
    assert_true(vipl__region_holds(&region, 1099, 1));
    assert_false(vipl__region_holds(&region, 999, 1));
    assert_false(vipl__region_holds(&region, 1000, 101));
    assert_false(vipl__region_holds(&region, 1099, 2));
    assert_false(vipl__region_holds(&region, 1050, SIZE_MAX));
    assert_false(vipl__region_holds(&region, 1101, 0));
    assert_true(vipl__region_holds(&top, UINTPTR_MAX, 1));
    assert_false(vipl__region_holds(&top, UINTPTR_MAX, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_added_and_not_taken),
        cmocka_unit_test(an_empty_table_holds_nothing),
        cmocka_unit_test(bounds_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
