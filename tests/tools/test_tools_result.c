/*
 * Tests the percentiles and the JSON of vipperf's results.
 */
#include "tools/vipperf/result.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_percentiles_are_nearest_rank(void **state)
{
    struct perf_latency latency;
    uint64_t samples[1000], one = 7;

    /* In falling order, so that sorting is tested, too. */
    for (unsigned i = 0; i < 1000; i++)
        samples[i] = 1000 - i;
    perf_latency_of(samples, 1000, &latency);
    assert_int_equal(latency.p50, 500);
    assert_int_equal(latency.p99, 990);
    assert_int_equal(latency.p999, 999);
    assert_int_equal(latency.max, 1000);
    perf_latency_of(&one, 1, &latency);
    assert_int_equal(latency.p50, 7);
    assert_int_equal(latency.p999, 7);
    perf_latency_of(samples, 0, &latency);
    assert_int_equal(latency.max, 0);
}

static void test_rates(void **state)
{
    struct perf_result result = {.size_bytes = 100, .messages = 50, .elapsed_s = 2};

    perf_rates_of(&result);
    assert_true(result.messages_per_s == 25);
    assert_true(result.bytes_per_s == 2500);
    result = (struct perf_result){.messages = 50};
    perf_rates_of(&result);
    assert_true(result.messages_per_s == 0);
}

static void test_json(void **state)
{
    char path[] = "/tmp/vip-test-json-XXXXXX", text[2048];
    int fd = mkstemp(path);
    struct perf_param params[2];
    struct perf_result results[2] = {
        {.size_bytes = 64,
         .messages = 10,
         .elapsed_s = 0.5,
         .has_latency = true,
         .latency = {1, 2, 3, 4},
         .cpu_s = 0.25,
         .verified = PERF_VERIFIED},
        {.size_bytes = 128, .bytes_per_s = 1e9, .verified = PERF_CORRUPT},
    };
    ssize_t n;

    perf_param_text(&params[0], "name", "a \"b\" \\ \n");
    perf_param_number(&params[1], "number", 0.5);
    assert_int_equal(perf_json_write(path, "lat", params, 2, results, 2), 0);
    n = read(fd, text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = 0;
    assert_non_null(strstr(text, "\"version\": \"" VIP_VERSION "\""));
    assert_non_null(strstr(text, "{\"name\": \"a \\\"b\\\" \\\\ \\u000a\", \"number\": 0.5}"));
    assert_non_null(
        strstr(text, "\"half_rtt_ns\": {\"p50\": 1, \"p99\": 2, \"p999\": 3, \"max\": 4}"));
    assert_non_null(strstr(text, "\"half_rtt_ns\": null"));
    assert_non_null(strstr(text, "\"bytes_per_s\": 1e+09"));
    assert_non_null(strstr(text, "\"verified\": true"));
    assert_non_null(strstr(text, "\"verified\": false"));
    close(fd);
    unlink(path);
    assert_true(perf_json_write("/nonexistent/file", "lat", params, 2, results, 2) < 0);
    assert_true(perf_json_write("/dev/full", "lat", params, 2, results, 2) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles_are_nearest_rank),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
