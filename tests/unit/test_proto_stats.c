/* Histograms of times, the table of statistics, and mapped files with hostile bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/hist.h"
#include "proto/stats_file.h"

static void test_every_value_has_its_counter(void **state)
{
    (void)state;
    assert_int_equal(vip_hist_low_ns(0), 0);
    for (unsigned i = 0; i + 1 < VIP_HIST_BUCKETS; i++) {
        uint64_t low = vip_hist_low_ns(i), next = vip_hist_low_ns(i + 1);

        assert_true(next > low);
        assert_int_equal(vip_hist_index(low), i);
        assert_int_equal(vip_hist_index(next - 1), i);
        /* The width of a counter's range is at most 1 ns plus 1/VIP_HIST_STEPS of its lower end. */
        assert_true(next - low <= 1 + low / VIP_HIST_STEPS);
    }
    assert_int_equal(vip_hist_low_ns(VIP_HIST_BUCKETS), 1ull << VIP_HIST_TOP_BITS);
    assert_int_equal(vip_hist_index(UINT64_MAX), VIP_HIST_BUCKETS - 1);
}

static void test_quantiles(void **state)
{
    struct vip_hist hist;

    (void)state;
    memset(&hist, 0, sizeof(hist));
    assert_int_equal(vip_hist_quantile_ns(&hist, 0.5), 0);
    for (uint64_t us = 1; us <= 1000; us++)
        vip_hist_add(&hist, us * 1000);
    assert_int_equal(hist.count, 1000);
    assert_int_equal(hist.sum_ns, 500500000);
    assert_in_range(vip_hist_quantile_ns(&hist, 0.5), 500000, 500000 + 500000 / 16);
    assert_in_range(vip_hist_quantile_ns(&hist, 0.99), 990000, 1000000);
    assert_int_equal(vip_hist_quantile_ns(&hist, 1), 1000000);
    vip_hist_add(&hist, UINT64_MAX / 2);
    assert_int_equal(vip_hist_quantile_ns(&hist, 1), UINT64_MAX / 2);
}

/* The texts of the table fit into the file. A histogram's statistics begin with its name. */
static void test_table_fits(void **state)
{
    struct vip_stats_file *file = calloc(1, sizeof(*file));

    (void)state;
    assert_non_null(file);
    vip_stats_file_describe(file);
    for (unsigned i = 0; i < VIP_STATS; i++) {
        assert_string_equal(file->stat[i].name, vip_stats[i].name);
        assert_string_equal(file->stat[i].unit, vip_stats[i].unit);
        assert_string_equal(file->stat[i].help, vip_stats[i].help);
    }
    for (unsigned h = 0; h < VIP_HISTS; h++) {
        static const char *const end[VIP_HIST_SHOWNS] = {"count", "sum",  "p50", "p90",
                                                         "p99",   "p999", "max"};

        assert_string_equal(file->hist[h].name, vip_hists[h].name);
        for (unsigned i = 0; i < VIP_HIST_SHOWNS; i++) {
            char name[64];

            snprintf(name, sizeof(name), "%s_%s", vip_hists[h].name, end[i]);
            assert_string_equal(vip_stats[vip_hists[h].first + i].name, name);
        }
    }
    free(file);
}

/* A file with a hostile head is refused, so that no offset points outside of the file. */
static void test_hostile_heads(void **state)
{
    struct vip_stats_file *file = calloc(1, sizeof(*file));
    struct vip_stats_head good;
    uint32_t *word;

    (void)state;
    assert_non_null(file);
    vip_stats_file_describe(file);
    good = file->head;
    assert_true(vip_stats_file_check(file, sizeof(*file)));
    assert_false(vip_stats_file_check(file, sizeof(*file) - 1));
    assert_false(vip_stats_file_check(file, sizeof(file->head) - 1));
    assert_false(vip_stats_file_check(file, 0));
    /* Make each 32-bit word of the layout too large, one after the other. */
    for (size_t at = offsetof(struct vip_stats_head, version);
         at < offsetof(struct vip_stats_head, pid); at += sizeof(*word)) {
        word = (uint32_t *)(void *)((char *)&file->head + at);
        *word = UINT32_MAX;
        assert_false(vip_stats_file_check(file, sizeof(*file)));
        *word = UINT32_MAX - 7; /* a large number that is aligned */
        assert_false(vip_stats_file_check(file, sizeof(*file)));
        file->head = good;
    }
    file->head.nic_count = VIP_STATS_NICS_MAX + 1;
    assert_false(vip_stats_file_check(file, sizeof(*file)));
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_value_has_its_counter),
        cmocka_unit_test(test_quantiles),
        cmocka_unit_test(test_table_fits),
        cmocka_unit_test(test_hostile_heads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
