/*
 * Reload: vipd reports each difference with its class. New values of live keys are used at once.
 * Keys of class restart keep their value; the new one is pending. A bad file changes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/config.h"
#include "vipd/names.h"
#include "vipd/reload.h"
#include "vipd/start.h"

static char path[] = "/tmp/vip-reload-XXXXXX";
static struct vipd vipd;
static struct vipd_config *first;
static char told[2048];

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

#define BASE                                                                                       \
    "[daemon]\nlog_level = error\n[engine]\nspin = 10us\n[limits]\nvis = 100\n"                    \
    "[nic:a]\nlink = loop\n[nic:b]\nlink = loop\naliases = eins\n[names]\nx = 127.0.0.1:1\n"

static int begin(void **state)
{
    char err[512] = "";

    (void)state;
    close(mkstemp(path));
    write_file(BASE);
    first = vipd_config_load(path, err, sizeof(err));
    if (!first || vipd_start(first, "/nonexistent", NULL, &vipd, err, sizeof(err)) < 0) {
        fprintf(stderr, "%s\n", err);
        return -1;
    }
    vipd.source.file = path;
    vipd.log_level_fixed = false;
    vipd_log_set_level(VIPD_LOG_ERROR);
    return 0;
}

static int end(void **state)
{
    (void)state;
    vipd_stop(&vipd);
    vipd_config_free(first);
    vipd_log_set_level(VIPD_LOG_INFO);
    return unlink(path);
}

static void tell(void *ctx, const struct vipd_change *change)
{
    size_t used = strlen(told);

    (void)ctx;
    snprintf(told + used, sizeof(told) - used, "[%s] %s: %s -> %s (%s)\n", change->section,
             change->key, change->from, change->to, change->reload);
}

static int reload(const char *text, bool dry_run)
{
    char errors[1024];
    int r;

    write_file(text);
    told[0] = '\0';
    r = vipd_reload(&vipd, dry_run, tell, NULL, errors, sizeof(errors));
    if (r < 0)
        snprintf(told, sizeof(told), "%s", errors);
    return r;
}

static void test_nothing_changed(void **state)
{
    (void)state;
    assert_int_equal(reload(BASE, false), 0);
    assert_string_equal(told, "");
    assert_int_equal(vipd.config->spin_ns, 10000);
    assert_int_equal(vipd.counters.reloads, 1);
}

static void test_classes(void **state)
{
    static const char text[] = "[daemon]\nlog_level = error\nsocket_mode = 0600\n"
                               "[engine]\nspin = 20us\n[limits]\nvis = 50\n"
                               "[nic:a]\nlink = loop\n"
                               "[nic:b]\nlink = udp\naddress = 127.0.0.1\naliases = zwei, drei\n"
                               "[nic:c]\nlink = loop\n"
                               "[names]\nx = 127.0.0.2:1\ny = 127.0.0.3:1\n";

    (void)state;
    assert_int_equal(reload(text, true), 9);
    assert_int_equal(vipd.config->spin_ns, 10000); /* a dry run changes nothing */
    assert_int_equal(reload(text, false), 9);
    assert_string_equal(told, "[daemon] socket_mode: 0666 -> 0600 (restart)\n"
                              "[engine] spin: 10us -> 20us (live)\n"
                              "[limits] vis: 100 -> 50 (new)\n"
                              "[nic:b] link: loop -> udp (restart)\n"
                              "[nic:b] address: auto -> 127.0.0.1 (restart)\n"
                              "[nic:b] aliases: eins -> zwei, drei (live)\n"
                              "[nic:c] : not there -> new (restart)\n"
                              "[names] x: 127.0.0.1:1 -> 127.0.0.2:1 (live)\n"
                              "[names] y:  -> 127.0.0.3:1 (live)\n");
    assert_int_equal(vipd.config->socket_mode, 0666);
    assert_int_equal(vipd.config->spin_ns, 20000);
    assert_int_equal(vipd.config->vis, 50);
    assert_int_equal(vipd.config->nic_count, 2);
    assert_int_equal(vipd.config->nics[1].link, LINK_LOOP);
    assert_ptr_equal(vipd.nics[1].config, &vipd.config->nics[1]);
    assert_int_equal(vipd_device_find(vipd.config, "drei"), 1);
    assert_int_equal(vipd_device_find(vipd.config, "eins"), -1);

    told[0] = '\0';
    vipd_reload_pending(&vipd, tell, NULL);
    assert_string_equal(told, "[daemon] socket_mode: 0666 -> 0600 (restart)\n"
                              "[nic:b] link: loop -> udp (restart)\n"
                              "[nic:b] address: auto -> 127.0.0.1 (restart)\n"
                              "[nic:c] : not there -> new (restart)\n");
}

/* The file has a fault: every value stays, also those of lines without a fault. */
static void test_bad_file(void **state)
{
    const struct vipd_config *before = vipd.config;
    uint64_t refused = vipd.counters.reloads_refused;

    (void)state;
    assert_int_equal(reload("[engine]\nspin = 30us\nspan = 1us\n", false), -22);
    assert_non_null(strstr(told, ":3: unknown key 'span' in [engine]"));
    assert_ptr_equal(vipd.config, before);
    assert_int_equal(reload("", false) < 0, 0);          /* an empty file has no fault */
    assert_string_equal(vipd.config->nics[0].name, "a"); /* the NICs stay until a restart */
    assert_int_equal(vipd.config->spin_ns, 50000);
    assert_int_equal(vipd.counters.reloads_refused, refused + 1);
    unlink(path);
    assert_int_equal(vipd_reload(&vipd, false, tell, NULL, told, sizeof(told)), -22);
    assert_non_null(strstr(told, "cannot be read"));
    assert_int_equal(vipd.config->spin_ns, 50000);
    write_file(BASE);
}

/* The file has the old values again: no change is pending. `aliases =` sets an empty list. */
static void test_back(void **state)
{
    (void)state;
    assert_true(reload(BASE, false) > 0);
    told[0] = '\0';
    vipd_reload_pending(&vipd, tell, NULL);
    assert_string_equal(told, "");
    assert_int_equal(reload(BASE "\n", false), 0);
    assert_int_equal(vipd_device_find(vipd.config, "nic0"), -1); /* a loop NIC has no such name */
    assert_int_equal(vipd_device_find(vipd.config, "/dev/via_lo"), 0);
    assert_int_equal(
        reload("[daemon]\nlog_level = error\n[engine]\nspin = 10us\n[limits]\nvis = 100\n"
               "[nic:a]\nlink = loop\naliases =\n[nic:b]\nlink = loop\naliases = eins\n"
               "[names]\nx = 127.0.0.1:1\n",
               false),
        1);
    assert_string_equal(told, "[nic:a] aliases: the historical names -> a list (live)\n");
    assert_int_equal(vipd_device_find(vipd.config, "/dev/via_lo"), -1);
}

/* A key of the class restart with a text as its value. The new value is pending until the file has
 * the old value again. */
static void test_cpus(void **state)
{
    (void)state;
    assert_true(reload(BASE, false) >= 0);
    assert_int_equal(
        reload("[daemon]\nlog_level = error\n[engine]\nspin = 10us\ncpus = 0,2-3\n[limits]\n"
               "vis = 100\n[nic:a]\nlink = loop\n[nic:b]\nlink = loop\naliases = eins\n"
               "[names]\nx = 127.0.0.1:1\n",
               false),
        1);
    assert_string_equal(told, "[engine] cpus: auto -> 0,2-3 (restart)\n");
    assert_string_equal(vipd.config->cpus, "");
    told[0] = '\0';
    vipd_reload_pending(&vipd, tell, NULL);
    assert_string_equal(told, "[engine] cpus: auto -> 0,2-3 (restart)\n");
    assert_true(reload(BASE, false) >= 0);
    told[0] = '\0';
    vipd_reload_pending(&vipd, tell, NULL);
    assert_string_equal(told, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_changed),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_bad_file),
        cmocka_unit_test(test_back),
        cmocka_unit_test(test_cpus),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
