/*
 * Several files of configuration: their order, drop-ins that replace or switch off drop-ins of the
 * same name, and the file of each value.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/config_files.h"
#include "vipd/config_print.h"

static char root[] = "/tmp/vip-files-XXXXXX";

static void make_dirs(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0755) < 0)
            assert_int_equal(errno, EEXIST);
        *slash = '/';
    }
}

static void put(const char *name, const char *text)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s%s", root, name);
    make_dirs(path);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static struct vipd_config *read_system(char *errors, size_t errors_bytes)
{
    struct vipd_config_source source = {.root = root};

    return vipd_config_read(&source, errors, errors_bytes);
}

static int clear(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s/*", root);
    return system(command);
}

static int begin(void **state)
{
    (void)state;
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
    clear(state);
    return rmdir(root);
}

/* Root has started vipd, which runs as another user. vipd never reads files of this user. */
static void test_files_of_user(void **state)
{
    struct vipd_config_source source = {.root = root};
    char errors[256], home[512];
    struct vipd_config *config;

    (void)state;
    put("/home/vipd/vipd.conf", "[daemon]\nadmin_group = games\n");
    snprintf(home, sizeof(home), "%s/home", root);
    assert_int_equal(setenv("XDG_CONFIG_HOME", home, 1), 0);
    config = vipd_config_read(&source, errors, sizeof(errors));
    assert_non_null(config);
    assert_string_not_equal(config->admin_group, "games");
    vipd_config_free(config);
    source.of_user = true;
    config = vipd_config_read(&source, errors, sizeof(errors));
    assert_non_null(config);
    assert_string_equal(config->admin_group, "games");
    vipd_config_free(config);
    assert_int_equal(unsetenv("XDG_CONFIG_HOME"), 0);
}

static void test_no_file(void **state)
{
    char errors[256];
    struct vipd_config *config = read_system(errors, sizeof(errors));

    (void)state;
    assert_non_null(config);
    assert_null(config->path);
    assert_int_equal(config->file_count, 0);
    assert_string_equal(config->nics[0].name, "vip0");
    vipd_config_free(config);
}

static const char *value_of;
static char found_value[128], found_file[512];
static unsigned found_line;

static bool look(void *ctx, const struct vipd_config_value *value)
{
    (void)ctx;
    if (strcmp(value->key, value_of) != 0)
        return true;
    snprintf(found_value, sizeof(found_value), "%s", value->value);
    snprintf(found_file, sizeof(found_file), "%s", value->file);
    found_line = value->line;
    return false;
}

static void assert_value(const struct vipd_config *config, const char *key, const char *value,
                         const char *file, unsigned line)
{
    value_of = key;
    found_value[0] = '\0';
    vipd_config_each(config, 0, look, NULL);
    assert_string_equal(found_value, value);
    if (strcmp(file, "(defaults)") == 0)
        assert_string_equal(found_file, file);
    else
        assert_string_equal(found_file + strlen(root), file);
    assert_int_equal(found_line, line);
}

/* vipd reads the file of the vendor, then /run, then /etc, then drop-ins in the order of their
 * names, whatever their folder. The last value is valid. */
static void test_order(void **state)
{
    char errors[1024];
    struct vipd_config *config;

    (void)state;
    put(VIPD_VENDOR_DIR "/vipd.conf", "[engine]\nspin = 1us\nturn_packets = 1\nturn_bytes = 1M\n");
    put("/run/vipd/vipd.conf", "[engine]\nspin = 2us\nturn_packets = 2\n");
    put("/etc/vipd/vipd.conf", "[engine]\nspin = 3us\n[nic:a]\nport = 1000\nmtu = 1500\n"
                               "[names]\nx = 127.0.0.1\ny = 127.0.0.2\n");
    put(VIPD_VENDOR_DIR "/vipd.conf.d/50-b.conf", "[limits]\nvis = 50\ncqs = 50\n");
    put("/etc/vipd/vipd.conf.d/10-a.conf", "[limits]\nvis = 10\nptags = 10\n");
    put("/etc/vipd/vipd.conf.d/90-c.conf", "[nic:a]\nport = 2000\n[nic:b]\nlink = loop\n"
                                           "[names]\nx = 127.0.0.9\n");
    put("/etc/vipd/vipd.conf.d/README", "not read\n");
    put("/etc/vipd/vipd.conf.d/.hidden.conf", "nor this\n");
    config = read_system(errors, sizeof(errors));
    if (!config)
        fail_msg("%s", errors);
    assert_int_equal(config->file_count, 6);
    assert_value(config, "spin", "3us", "/etc/vipd/vipd.conf", 2);
    assert_value(config, "turn_packets", "2", "/run/vipd/vipd.conf", 3);
    assert_value(config, "turn_bytes", "1M", VIPD_VENDOR_DIR "/vipd.conf", 4);
    assert_value(config, "vis", "50", VIPD_VENDOR_DIR "/vipd.conf.d/50-b.conf", 2);
    assert_value(config, "ptags", "10", "/etc/vipd/vipd.conf.d/10-a.conf", 3);
    assert_value(config, "log_level", "info", "(defaults)", 0);
    assert_int_equal(config->nic_count, 2);
    assert_int_equal(config->nics[0].keys.port, 2000);
    assert_int_equal(config->nics[0].keys.mtu, 1500);
    assert_int_equal(config->nics[1].link, LINK_LOOP);
    assert_int_equal(config->name_count, 2);
    /* The later file gives the address. The port is the port that the NIC has after all files. */
    assert_memory_equal(config->names[0].addr[0].bytes, "\177\0\0\011\007\320", 6);
    assert_value(config, "x", "127.0.0.9:2000", "/etc/vipd/vipd.conf.d/90-c.conf", 6);
    vipd_config_free(config);
}

static void test_masked_drop_ins(void **state)
{
    char errors[1024];
    struct vipd_config *config;

    (void)state;
    put(VIPD_VENDOR_DIR "/vipd.conf.d/10-a.conf", "[limits]\nvis = 1\ncqs = 1\n");
    put("/etc/vipd/vipd.conf.d/10-a.conf", "[limits]\nvis = 2\n");
    put(VIPD_VENDOR_DIR "/vipd.conf.d/20-b.conf", "[limits]\nptags = 1\n");
    put("/etc/vipd/vipd.conf.d/20-b.conf", "");
    config = read_system(errors, sizeof(errors));
    if (!config)
        fail_msg("%s", errors);
    assert_int_equal(config->vis, 2);
    assert_int_equal(config->cqs, 1024); /* the vendor's file of the same name does not count */
    assert_int_equal(config->ptags, 4096);
    vipd_config_free(config);
}

/* vipd reports the faults of all files at once, each with its file. */
static void test_faults_have_their_file(void **state)
{
    char errors[2048], want[2048];

    (void)state;
    put("/etc/vipd/vipd.conf", "[engine]\nspin = 3us\n[reliability]\nkeepalive = 3s\n");
    put("/etc/vipd/vipd.conf.d/a.conf", "[engine]\nspin = 3\n");
    put("/etc/vipd/vipd.conf.d/b.conf", "[reliability]\n\npeer_dead = 2s\n[demon]\n");
    assert_null(read_system(errors, sizeof(errors)));
    snprintf(want, sizeof(want),
             "%s/etc/vipd/vipd.conf.d/b.conf:4: unknown section [demon]; there are [daemon], "
             "[engine], [reliability], [stats], [limits], [listen], [nic:NAME] and [names]\n"
             "%s/etc/vipd/vipd.conf.d/a.conf:2: spin = 3: want a time with unit, such as 50us, "
             "1.5ms or 4s\n"
             "%s/etc/vipd/vipd.conf.d/b.conf:3: keepalive (3s) must be less than peer_dead (2s)\n",
             root, root, root);
    assert_string_equal(errors, want);
}

/* vipd reads a named file and its drop-ins in NAME.d, but then none of the system's files. */
static void test_named_file(void **state)
{
    char errors[1024], path[512];
    struct vipd_config_source source = {.file = path, .root = root};
    struct vipd_config *config;

    (void)state;
    put("/etc/vipd/vipd.conf", "[limits]\nvis = 1\n");
    put("/mine", "[limits]\ncqs = 2\n");
    put("/mine.d/x.conf", "[limits]\nptags = 3\n");
    snprintf(path, sizeof(path), "%s/mine", root);
    config = vipd_config_read(&source, errors, sizeof(errors));
    if (!config)
        fail_msg("%s", errors);
    assert_int_equal(config->vis, 4096);
    assert_int_equal(config->cqs, 2);
    assert_int_equal(config->ptags, 3);
    assert_non_null(strstr(config->path, "/mine + 1 drop-in"));
    vipd_config_free(config);
}

static void test_too_many_files(void **state)
{
    char errors[4096], name[64];

    (void)state;
    for (unsigned i = 0; i <= VIPD_FILES_MAX; i++) {
        snprintf(name, sizeof(name), "/etc/vipd/vipd.conf.d/%03u.conf", i);
        put(name, "[limits]\nvis = 1\n");
    }
    assert_null(read_system(errors, sizeof(errors)));
    assert_non_null(strstr(errors, "more than 64 drop-ins"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_files_of_user, clear),
        cmocka_unit_test_teardown(test_no_file, clear),
        cmocka_unit_test_teardown(test_order, clear),
        cmocka_unit_test_teardown(test_masked_drop_ins, clear),
        cmocka_unit_test_teardown(test_faults_have_their_file, clear),
        cmocka_unit_test_teardown(test_named_file, clear),
        cmocka_unit_test_teardown(test_too_many_files, clear),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
