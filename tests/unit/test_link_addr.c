/*
 * Addresses and faults as text: which texts are accepted, which are refused, and with which error.
 */
#include "vipd/link/kinds.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_address_round_trip(void **state)
{
    static const uint8_t expected[] = {127, 0, 0, 1, 0x12, 0xba};
    struct link_addr a, b;
    char text[64];

    assert_int_equal(link_addr_parse("127.0.0.1:4794", 1, &a), 0);
    assert_int_equal(a.len, 6);
    assert_memory_equal(a.bytes, expected, 6);
    link_addr_format(&a, text, sizeof(text));
    assert_string_equal(text, "127.0.0.1:4794");
    assert_int_equal(link_addr_parse("127.0.0.1", 4794, &b), 0);
    assert_true(link_addr_equal(&a, &b));
    assert_int_equal(link_addr_parse("127.0.0.2", 4794, &b), 0);
    assert_false(link_addr_equal(&a, &b));
    assert_int_equal(link_addr_parse("127.0.0.1:65535", 1, &b), 0);
    assert_false(link_addr_equal(&a, &b));
}

static void test_bad_addresses(void **state)
{
    static const char *const bad[] = {"",
                                      ":",
                                      "127.0.0.1:",
                                      "127.0.0.1:0",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:4a",
                                      "127.0.0",
                                      "127.0.0.256",
                                      "localhost",
                                      "127.0.0.1 ",
                                      "127.0.0.1:99999999999999999999",
                                      "1111111111111111111111111111111111.0.0.1",
                                      "::1"};
    struct link_addr addr = {.len = 99};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(link_addr_parse(bad[i], 4794, &addr), -EINVAL);
    assert_int_equal(addr.len, 99);
}

static void test_mac_addresses(void **state)
{
    static const uint8_t expected[] = {0x0a, 0xbc, 0xde, 0xf0, 0x12, 0x34};
    static const char *const bad[] = {
        "",
        "0a:bc:de:f0:12",
        "0a:bc:de:f0:12:3",
        "0a:bc:de:f0:12:345",
        "0a-bc-de-f0-12-34",
        "0a:bc:de:f0:12:3g",
        "a:bc:de:f0:12:345",
        " a:bc:de:f0:12:34",
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "01:00:5e:00:00:01", /* a group address */
        "127.0.0.1:4794",
    };
    struct link_addr mac, udp = {.len = 99};
    char text[64], tiny[6];

    assert_int_equal(link_addr_parse_as(LINK_ETHER, "0a:Bc:DE:f0:12:34", 1, &mac), 0);
    assert_int_equal(mac.len, 6);
    assert_memory_equal(mac.bytes, expected, 6);
    link_addr_format_as(LINK_ETHER, &mac, text, sizeof(text));
    assert_string_equal(text, "0a:bc:de:f0:12:34");
    link_addr_format_as(LINK_ETHER, &mac, tiny, sizeof(tiny));
    assert_string_equal(tiny, "0a:bc");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(link_addr_parse_as(LINK_ETHER, bad[i], 1, &udp), -EINVAL);
    assert_int_equal(udp.len, 99);
    assert_int_equal(link_addr_parse_as(LINK_UDP, "0a:bc:de:f0:12:34", 1, &udp), -EINVAL);
    assert_int_equal(link_addr_parse_as(LINK_UDP, "127.0.0.1", 4794, &udp), 0);
    link_addr_format_as(LINK_UDP, &udp, text, sizeof(text));
    assert_string_equal(text, "127.0.0.1:4794");
    /* The text of an unknown address is empty. */
    mac.len = 0;
    link_addr_format_as(LINK_ETHER, &mac, text, sizeof(text));
    assert_string_equal(text, "");
    assert_string_equal(link_kind_name(LINK_UDP), "udp");
    assert_string_equal(link_kind_name(LINK_LOOP), "loop");
}

static void test_ipv6_addresses(void **state)
{
    static const uint8_t expected[] = {0x20, 1, 0x0d, 0xb8, 0, 0, 0,    0,    0,
                                       0,    0, 0,    0,    0, 0, 0x07, 0x12, 0xba};
    static const char *const bad[] = {
        "",          "::",
        "[::1",      "::1]",
        "[::1]4",    "[::1]:",
        "[::1]:0",   "[::1]:65536",
        "[::1]:4a",  "ff02::1",
        "fe80::1%0", "::ffff:1.2.3.4",
        "1.2.3.4",   "02:00:5e:10:00:02",
        "[]",        "1111:1111:1111:1111:1111:1111:1111:1111:1111:1111",
    };
    struct link_addr a, b, kept = {.len = 99};
    char text[64];

    assert_int_equal(link_addr_parse_as(LINK_UDP6, "2001:db8::7", 4794, &a), 0);
    assert_int_equal(a.len, 18);
    assert_memory_equal(a.bytes, expected, 18);
    link_addr_format_as(LINK_UDP6, &a, text, sizeof(text));
    assert_string_equal(text, "[2001:db8::7]:4794");
    assert_int_equal(link_addr_parse_as(LINK_UDP6, text, 1, &b), 0);
    assert_true(link_addr_equal(&a, &b));
    assert_false(link_addr_is_local(&a));
    assert_int_equal(link_addr_parse_as(LINK_UDP6, "[febf::1]", 1, &b), 0);
    assert_true(link_addr_is_local(&b));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(link_addr_parse_as(LINK_UDP6, bad[i], 1, &kept), -EINVAL);
    assert_int_equal(kept.len, 99);
    assert_string_equal(link_kind_name(LINK_UDP6), "udp");
}

static void test_scopes(void **state)
{
    char text[LINK_TEXT_BYTES], scope[LINK_SCOPE_BYTES], longest[LINK_TEXT_BYTES + 1];
    enum link_kind kind;
    struct link_addr a;

    assert_int_equal(link_addr_scope("[fe80::1%eth0]:4794", text, scope), 0);
    assert_string_equal(text, "[fe80::1]:4794");
    assert_string_equal(scope, "eth0");
    assert_int_equal(link_addr_scope("fe80::1%fifteen-letters", text, scope), 0);
    assert_string_equal(text, "fe80::1");
    assert_string_equal(scope, "fifteen-letters");
    assert_int_equal(link_addr_scope("10.0.0.1", text, scope), 0);
    assert_string_equal(text, "10.0.0.1");
    assert_string_equal(scope, "");
    assert_int_equal(link_addr_scope("fe80::1%", text, scope), -EINVAL);
    assert_int_equal(link_addr_scope("fe80::1%sixteen-letters-", text, scope), -EINVAL);
    memset(longest, '1', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(link_addr_scope(longest, text, scope), -EINVAL);

    assert_int_equal(link_addr_parse_own("fe80::1%eth0", 7, &kind, &a, scope), 0);
    assert_int_equal(kind, LINK_UDP6);
    assert_string_equal(scope, "eth0");
    assert_int_equal(link_addr_parse_own("10.0.0.1", 7, &kind, &a, scope), 0);
    assert_int_equal(kind, LINK_UDP);
    assert_int_equal(link_addr_parse_own("fe80::1", 7, &kind, &a, scope), -EINVAL);
    assert_int_equal(link_addr_parse_own("10.0.0.1:8", 7, &kind, &a, scope), -EINVAL);
    assert_int_equal(link_addr_parse_own("255.255.255.255", 7, &kind, &a, scope), -EINVAL);
}

static void test_format_survives_any_bytes(void **state)
{
    struct link_addr addr = {.len = 255, .bytes = {1, 2, 3}};
    char text[64], tiny[4] = "xyz";

    link_addr_format(&addr, text, sizeof(text));
    assert_int_equal(strncmp(text, "010203", 6), 0);
    assert_true(strlen(text) == 2 * VIP_HOST_ADDR_BYTES_MAX);
    link_addr_format(&addr, tiny, sizeof(tiny));
    assert_string_equal(tiny, "01");
    link_addr_format(&addr, tiny, 0);
    /* An address whose length exceeds the array is not equal to any address. */
    assert_false(link_addr_equal(&addr, &addr));
}

static void test_faults_as_documented(void **state)
{
    struct link_faults f;
    char err[128];

    assert_int_equal(
        link_faults_parse("loss=1%,dup=0.1%,reorder=0.5%,delay=50us,seed=42", &f, err, sizeof(err)),
        0);
    assert_true(f.loss > 0.00999 && f.loss < 0.01001);
    assert_true(f.dup > 0.000999 && f.dup < 0.001001);
    assert_true(f.reorder > 0.00499 && f.reorder < 0.00501);
    assert_int_equal(f.delay_ns, 50000);
    assert_int_equal(f.seed, 42);
    assert_false(f.blackhole);
    assert_int_equal(link_faults_parse(" corrupt=0.25 , jitter=1.5ms, delay=0 , blackhole ,", &f,
                                       err, sizeof(err)),
                     0);
    assert_true(f.corrupt == 0.25);
    assert_int_equal(f.jitter_ns, 1500000);
    assert_true(f.blackhole);
    assert_int_equal(link_faults_parse("loss=100%", &f, NULL, 0), 0);
    assert_true(f.loss == 1.0);
    assert_int_equal(link_faults_parse("", &f, err, sizeof(err)), 0);
    assert_true(f.loss == 0 && f.delay_ns == 0 && !f.blackhole);
    assert_int_equal(link_faults_parse("seed=18446744073709551615", &f, err, sizeof(err)), 0);
    assert_true(f.seed == UINT64_MAX);
}

static void test_bad_faults_name_the_word(void **state)
{
    static const char *const bad[] = {"loss",        "loss=",
                                      "loss=1%%",    "loss=101%",
                                      "loss=-1%",    "loss=1.5",
                                      "loss=x",      "loss=.",
                                      "delay=50",    "delay=us",
                                      "delay=61s",   "delay=1us1",
                                      "seed=",       "seed=-1",
                                      "seed=1.5",    "blackhole=1",
                                      "los=1%",      "=1%",
                                      "=",           "loss 1%",
                                      "LOSS=1%",     "seed=18446744073709551616",
                                      "jitter=1e3us"};
    struct link_faults f = {.seed = 77};
    char err[160], text[64];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        strcpy(text, "dup=1%,");
        strcat(text, bad[i]);
        err[0] = 0;
        assert_int_equal(link_faults_parse(text, &f, err, sizeof(err)), -EINVAL);
        assert_non_null(strstr(err, bad[i]));
        assert_non_null(strstr(err, "expected"));
    }
    assert_int_equal(f.seed, 77);
}

/* Check the members that each row must have, and the words and keys of the rows. */
static void test_rows_of_kinds(void **state)
{
    char words[LINK_WORDS_BYTES];

    (void)state;
    for (enum link_kind k = 0; k < LINK_KINDS; k++) {
        const struct link_kind_row *row = link_kind_row(k);
        struct link_addr addr;

        assert_true(row->name && row->parse && row->format && row->open);
        assert_true(row->source_bytes > 0 &&
                    row->source_bytes + row->port_bytes <= VIP_HOST_ADDR_BYTES_MAX);
        assert_int_equal(row->parse("nonsense", 1, &addr), -EINVAL);
        if (row->only_host) {
            assert_non_null(row->only_host_why);
            assert_int_equal(row->parse(row->only_host, 1, &addr), 0);
            assert_true(row->source_bytes + row->port_bytes <= addr.len);
        }
        for (const char *const *key = row->keys; key && *key; key++)
            assert_true(link_kind_knows(k, *key));
        assert_false(link_kind_knows(k, "link"));
    }
    link_kind_words(words);
    assert_memory_equal(words, "udp, ether, xdp", 15);
    assert_non_null(strstr(words, " or "));
    assert_null(strstr(strstr(words, "udp") + 1, "udp"));
    assert_int_equal(link_key_kinds("mtu", words), 2);
    assert_string_equal(words, "udp and ether");
    assert_int_equal(link_key_kinds("link", words), 0);
    assert_string_equal(words, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_address_round_trip),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_mac_addresses),
        cmocka_unit_test(test_ipv6_addresses),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_format_survives_any_bytes),
        cmocka_unit_test(test_faults_as_documented),
        cmocka_unit_test(test_bad_faults_name_the_word),
        cmocka_unit_test(test_rows_of_kinds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
