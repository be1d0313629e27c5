/* The configuration file: defaults, every value, and every fault with its line. */
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
#include "vipd/config_keys.h"
#include "vipd/config_listen.h"
#include "vipd/config_print.h"
#include "vipd/units.h"

static char path[] = "/tmp/vip-config-XXXXXX";

static struct vipd_config *load(const char *text, char *errors, size_t errors_bytes)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return vipd_config_load(path, errors, errors_bytes);
}

static struct vipd_config *good(const char *text)
{
    char errors[2048];
    struct vipd_config *config = load(text, errors, sizeof(errors));

    if (!config)
        fail_msg("refused: %s", errors);
    return config;
}

/* vipd must refuse the text. Its errors must be the lines of `want`, each after "FILE:". */
static void bad(const char *text, const char *want)
{
    char errors[2048], lines[2048] = "", *rest = errors, *line;
    struct vipd_config *config = load(text, errors, sizeof(errors));

    assert_null(config);
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (line[0] == '\0')
            continue;
        assert_int_equal(strncmp(line, path, strlen(path)), 0);
        strcat(lines, line + strlen(path) + 1);
        strcat(lines, "\n");
    }
    assert_string_equal(lines, want);
}

static void test_defaults(void **state)
{
    struct vipd_config *built_in = vipd_config_default();
    struct vipd_config *empty = good("# nothing\n\n");

    (void)state;
    assert_non_null(built_in);
    assert_null(built_in->path);
    assert_string_equal(empty->path, path);
    assert_int_equal(empty->nic_count, 1);
    assert_string_equal(empty->nics[0].name, "vip0");
    assert_string_equal(empty->nics[0].keys.address, "");
    assert_int_equal(empty->nics[0].keys.port, 4794);
    assert_true(empty->nics[0].keys.gso);
    assert_int_equal(empty->spin_ns, 50000);
    assert_int_equal(empty->wait, VIPD_WAIT_ADAPTIVE);
    assert_int_equal(empty->socket_mode, 0666);
    assert_int_equal(empty->sessions_per_uid, 64);
    assert_int_equal(empty->peer_dead_ns, 10000000000);
    assert_int_equal(empty->engine.conn_timeout_ns, 10000000000);
    assert_memory_equal(&empty->engine, &built_in->engine, sizeof(empty->engine));
    vipd_config_free(empty);
    vipd_config_free(built_in);
    vipd_config_free(NULL);
}

static void test_values(void **state)
{
    struct vipd_config *config = good("[daemon]\n"
                                      "socket_mode = 0660   # the group\n"
                                      "log_level=debug\n"
                                      "admin_group = wheel\n"
                                      "idle_exit = 30s\n"
                                      "[engine]\n"
                                      "wait = block\n"
                                      "spin = 1.5ms\n"
                                      "loan = auto\n"
                                      "loan_moves = 50\n"
                                      "turn_bytes = 1M\n"
                                      "[names]\n"
                                      "b = 127.0.0.2\n"
                                      "c = 127.0.0.3:9, 127.0.0.4\n"
                                      "[reliability]\n"
                                      "peer_dead = 1500ms\n"
                                      "keepalive = 300ms\n"
                                      "conn_timeout = 2s\n"
                                      "rto_min = 3ms\n"
                                      "ack_delay = 0\n"
                                      "congestion = cubic\n"
                                      "[limits]\n"
                                      "sessions_per_uid = 2\n"
                                      "register_bytes = 2G\n"
                                      "[nic:first]\n"
                                      "link = udp\n"
                                      "address = 127.0.0.1\n"
                                      "port = 20001\n"
                                      "mtu = 9000\n"
                                      "aliases = a, \\\\.\\VI9, \"\"\n"
                                      "faults = loss=1%,dup=0.1%,reorder=0.5%,delay=50us,seed=42\n"
                                      "gso = no\n"
                                      "buffer = 256K\n"
                                      "[nic:second.2]\n"
                                      "address = auto\n"
                                      "aliases =\n"
                                      "faults =\n");
    const struct vipd_nic_config *nic = &config->nics[0];

    (void)state;
    assert_int_equal(config->socket_mode, 0660);
    assert_string_equal(config->admin_group, "wheel");
    assert_string_equal(config->open_group, "");
    assert_int_equal(config->idle_exit_ns, 30000000000);
    assert_int_equal(config->log_level, VIPD_LOG_DEBUG);
    assert_int_equal(config->wait, VIPD_WAIT_BLOCK);
    assert_int_equal(config->spin_ns, 1500000);
    assert_int_equal(config->loan, 1);
    assert_int_equal(config->loan_moves, 50);
    assert_int_equal(config->engine.turn_bytes, 1048576);
    assert_int_equal(config->peer_dead_ns, 1500000000);
    assert_int_equal(config->keepalive_ns, 300000000);
    assert_int_equal(config->engine.conn_timeout_ns, 2000000000);
    assert_int_equal(config->engine.rto_min_ns, 3000000);
    assert_int_equal(config->engine.ack_delay_ns, 0);
    assert_int_equal(config->engine.congestion, ENG_CONGESTION_CUBIC);
    assert_int_equal(config->sessions_per_uid, 2);
    assert_int_equal(config->register_bytes, 2ull << 30);

    assert_int_equal(config->nic_count, 2);
    assert_string_equal(nic->name, "first");
    assert_string_equal(nic->keys.address, "127.0.0.1");
    assert_int_equal(nic->keys.port, 20001);
    assert_int_equal(nic->keys.mtu, 9000);
    assert_int_equal(nic->alias_count, 3);
    assert_string_equal(nic->aliases[0], "a");
    assert_string_equal(nic->aliases[1], "\\\\.\\VI9");
    assert_string_equal(nic->aliases[2], "");
    assert_int_equal(nic->faults.seed, 42);
    assert_int_equal(nic->faults.delay_ns, 50000);
    assert_false(nic->keys.gso);
    assert_true(nic->keys.gro);
    assert_int_equal(nic->keys.buffer_bytes, 262144);
    assert_string_equal(config->nics[1].name, "second.2");
    assert_string_equal(config->nics[1].keys.address, "");
    assert_true(config->nics[1].aliases_given);
    assert_int_equal(config->nics[1].alias_count, 0);
    assert_string_equal(config->nics[1].faults_text, "");

    /* A name without a port gets the first NIC's port, although the NIC's section comes later. */
    assert_int_equal(config->name_count, 2);
    assert_string_equal(config->names[0].name, "b");
    assert_memory_equal(config->names[0].addr[0].bytes, "\177\0\0\002\116\041", 6);
    assert_int_equal(config->names[1].addr_count, 2);
    assert_memory_equal(config->names[1].addr[0].bytes, "\177\0\0\003\0\011", 6);
    vipd_config_free(config);
}

/* NICs with different links in one file, and names with addresses of different links. */
static void test_links(void **state)
{
    struct vipd_config *config = good("[nic:a]\n"
                                      "link = ether\n"
                                      "interface = eth1\n"
                                      "[nic:b]\n"
                                      "link = ether\n"
                                      "interface = eth1\n"
                                      "vlan = 7\n"
                                      "ethertype = 0x88B6\n"
                                      "mtu = 9000\n"
                                      "[nic:c]\n"
                                      "link = loop\n"
                                      "[nic:d]\n"
                                      "port = 20001\n"
                                      "[nic:e]\n"
                                      "address = fe80::1%eth1\n"
                                      "mtu = 1500\n"
                                      "[nic:f]\n"
                                      "link = xdp\n"
                                      "interface = eth2\n"
                                      "announce = node-f\n"
                                      "[names]\n"
                                      "x = 02:00:00:00:00:0a, 127.0.0.2, 02:00:00:00:00:0B\n"
                                      "y = 2001:db8::7, [fe80::7%eth1]:99\n");
    const struct vipd_name *x = &config->names[0], *y = &config->names[1];

    (void)state;
    assert_int_equal(config->nics[0].link, LINK_ETHER);
    assert_string_equal(config->nics[0].keys.interface, "eth1");
    assert_int_equal(config->nics[0].keys.ethertype, 0x88b5);
    assert_int_equal(config->nics[0].keys.vlan, 0);
    assert_int_equal(config->nics[1].keys.ethertype, 0x88b6);
    assert_int_equal(config->nics[1].keys.vlan, 7);
    assert_int_equal(config->nics[1].keys.mtu, 9000);
    assert_int_equal(config->nics[2].link, LINK_LOOP);
    assert_int_equal(config->nics[3].link, LINK_UDP);
    assert_int_equal(x->addr_count, 3);
    assert_int_equal(x->kind[0], LINK_ETHER);
    assert_int_equal(x->kind[1], LINK_UDP);
    /* An address without a port gets the port of the first NIC that has one. */
    assert_memory_equal(x->addr[1].bytes, "\177\0\0\002\116\041", 6);
    assert_memory_equal(x->addr[2].bytes, "\2\0\0\0\0\013", 6);
    assert_false(config->nics[0].keys.variant);
    assert_string_equal(config->nics[0].keys.announce, "");
    assert_int_equal(config->nics[5].link, LINK_ETHER);
    assert_true(config->nics[5].keys.variant);
    assert_string_equal(config->nics[5].keys.announce, "node-f");
    /* IPv6 is a separate medium. */
    assert_int_equal(config->nics[4].link, LINK_UDP6);
    assert_string_equal(config->nics[4].keys.address, "fe80::1%eth1");
    assert_int_equal(y->addr_count, 2);
    assert_int_equal(y->kind[0], LINK_UDP6);
    assert_int_equal(y->addr[0].len, 18);
    assert_memory_equal(y->addr[0].bytes, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\7\x4e\x21", 18);
    assert_string_equal(y->scope[0], "");
    assert_memory_equal(y->addr[1].bytes, "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\7\0\x63", 18);
    assert_string_equal(y->scope[1], "eth1");
    vipd_config_free(config);
}

static void test_faults_of_links(void **state)
{
    static const char type[] = ": want four hexadecimal digits, such as 0x88b5, from 0x0600 on and "
                               "not of a protocol that every host speaks\n";
    static const char *const types[] = {"0x0800", "0x86dd", "0x8100", "0x05ff", "88b5",
                                        "0x88b",  "0x88bg", "34997",  ""};
    char text[128], want[256];

    (void)state;
    bad("[nic:a]\nlink = ether\n", "1: [nic:a] has link = ether and needs interface = NAME\n");
    bad("[nic:a]\nlink = ether\ninterface = eth1\nport = 5\ngso = no\n",
        "4: port means nothing with link = ether\n5: gso means nothing with link = ether\n");
    bad("[nic:a]\nlink = loop\nmtu = 1500\n", "3: mtu means nothing with link = loop\n");
    bad("[nic:a]\ninterface = eth1\n", "2: interface means nothing with link = udp\n");
    bad("[nic:a]\nlink = ether\ninterface = a/b\n",
        "3: interface = a/b: want the name of an interface, such as eth1\n"
        "1: [nic:a] has link = ether and needs interface = NAME\n");
    bad("[nic:a]\nlink = ether\ninterface = eth1\nvlan = 4095\n",
        "4: vlan = 4095: must be from 1 to 4094\n");
    bad("[nic:a]\nlink = ether\ninterface = e\n[nic:b]\nlink = ether\ninterface = e\n",
        "4: [nic:a] and [nic:b] have the same interface, EtherType and VLAN\n");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        snprintf(text, sizeof(text), "[nic:a]\nlink = ether\ninterface = e\nethertype = %s\n",
                 types[i]);
        snprintf(want, sizeof(want), "4: ethertype = %s%s", types[i], type);
        bad(text, want);
    }
}

static void test_paths(void **state)
{
    static const char bad_word[] =
        "in paths is not an address, or not of the kind of the first one\n";
    struct link_keys paths[VIP_PATHS_MAX];
    struct vipd_config *config;
    char word[LINK_NAME_BYTES], text[256];

    (void)state;
    config = good("[nic:a]\npaths = 192.0.2.1 198.51.100.1\nport = 99\n"
                  "[nic:b]\nlink = ether\npaths = eth1 eth2 eth3\nannounce = b\n"
                  "[nic:c]\npaths = 2001:db8::1\n");
    assert_string_equal(config->nics[0].keys.address, "192.0.2.1");
    assert_int_equal(config->nics[0].link, LINK_UDP);
    assert_int_equal(link_kind_paths(LINK_UDP, &config->nics[0].keys, paths, word), 2);
    assert_string_equal(paths[0].address, "192.0.2.1");
    assert_string_equal(paths[1].address, "198.51.100.1");
    assert_int_equal(paths[1].port, 99);
    assert_string_equal(config->nics[1].keys.interface, "eth1");
    assert_int_equal(link_kind_paths(LINK_ETHER, &config->nics[1].keys, paths, word), 3);
    assert_string_equal(paths[2].interface, "eth3");
    assert_string_equal(paths[0].announce, "b"); /* only the first path announces the name */
    assert_string_equal(paths[2].announce, "none");
    assert_int_equal(config->nics[2].link, LINK_UDP6);
    assert_int_equal(link_kind_paths(LINK_UDP6, &config->nics[2].keys, paths, word), 1);
    vipd_config_free(config);
    snprintf(text, sizeof(text), "2: 'eth1' %s", bad_word);
    bad("[nic:a]\npaths = 192.0.2.1 eth1\n", text);
    snprintf(text, sizeof(text), "2: '2001:db8::1' %s", bad_word);
    bad("[nic:a]\npaths = 192.0.2.1 2001:db8::1\n", text);
    bad("[nic:a]\npaths = 192.0.2.1 192.0.2.1\n",
        "2: two paths of [nic:a] have the same address and port\n");
    bad("[nic:a]\npaths = 192.0.2.1 192.0.2.2\naddress = 192.0.2.1\n",
        "2: paths stands in place of address; write one of them\n");
    bad("[nic:a]\npaths = 192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4 192.0.2.5\n",
        "2: paths has at most 4 words\n");
    bad("[nic:a]\nlink = loop\npaths = 192.0.2.1\n", "3: paths means nothing with link = loop\n");
    bad("[nic:a]\npaths = 192.0.2.1 192.0.2.2\n[nic:b]\naddress = 192.0.2.2\n",
        "3: [nic:a] and [nic:b] have the same address and port\n");
}

static void test_faults_of_lines(void **state)
{
    (void)state;
    bad("[daemon\n", "1: section without its closing ']'\n");
    bad("[daemon] x\n", "1: unexpected text after section [daemon]\n");
    bad("[]\n", "1: bad section name '': 1 to 79 characters without blanks\n");
    bad("[ daemon ]\n", "1: bad section name ' daemon ': 1 to 79 characters without blanks\n");
    bad("\n[daemon]\n[engine]\n[daemon]\nlog_level = info\n",
        "4: section [daemon] again (first in line 2): write it once\n");
    bad("[daemon]\nlog_level = info\nlog_level = debug\n",
        "3: 'log_level' again in [daemon] (first in line 2)\n");
    bad("log_level = info\n", "1: 'log_level' stands before the first [section]\n");
    bad("[daemon]\nlog_level\n",
        "2: expected 'key = value', [section] or # comment, found 'log_level'\n");
    bad("[daemon]\n; log_level = info\n",
        "2: bad key '; log_level': 1 to 79 characters without blanks\n");
    bad("[daemon]\n = info\n[engine]\nspin = 1us\n",
        "2: a line may not start with a blank (a value "
        "that goes on over several lines is not "
        "possible)\n");
    bad("[daemon]\n= info\n", "2: bad key '': 1 to 79 characters without blanks\n");
    bad("[nic:vip0]\naliases = a,\n  b\n",
        "3: a line may not start with a blank (a value that goes "
        "on over several lines is not possible)\n");
}

static void test_faults_of_keys(void **state)
{
    (void)state;
    bad("[demon]\nx = 1\n", "1: unknown section [demon]; there are [daemon], [engine], "
                            "[reliability], [stats], [limits], "
                            "[listen], [nic:NAME] and [names]\n");
    bad("[nic]\nport = 1\n",
        "1: unknown section [nic]; there are [daemon], [engine], [reliability], [stats], [limits], "
        "[listen], [nic:NAME] and [names]\n");
    bad("[daemon]\nspin = 1us\n[engine]\nprot = 1\n",
        "2: unknown key 'spin' in [daemon]: it belongs into [engine]\n"
        "4: unknown key 'prot' in [engine]; vipd --print-config lists them\n");
    bad("[nic:vip0]\nspeed = 1\nprot = 1\nmtuu = 1500\n[daemon]\nbuffer = 1M\n",
        "2: unknown key 'speed' in [nic:vip0]; vipd --print-config lists them\n"
        "3: unknown key 'prot' in [nic:vip0]: did you mean 'port'?\n"
        "4: unknown key 'mtuu' in [nic:vip0]: did you mean 'mtu'?\n"
        "6: unknown key 'buffer' in [daemon]: it belongs into [nic:NAME]\n");
    bad("[engine]\ncpus = 2-\n",
        "2: cpus = 2-: want numbers of processors, such as 2,3 or 8-11, or 'auto'\n");
    bad("[engine]\ncpus = 3-2\n",
        "2: cpus = 3-2: want numbers of processors, such as 2,3 or 8-11, or 'auto'\n");
    bad("[engine]\ncpus = 1,,2\n",
        "2: cpus = 1,,2: want numbers of processors, such as 2,3 or 8-11, or 'auto'\n");
    bad("[engine]\ncpus = 99999\n",
        "2: cpus = 99999: want numbers of processors, such as 2,3 or 8-11, or 'auto'\n");
    bad("[nic:]\n", "1: bad NIC name '': 1 to 63 letters, digits, '.', '_' or '-'\n");
    bad("[nic:a/b]\n", "1: bad NIC name 'a/b': 1 to 63 letters, digits, '.', '_' or '-'\n");
}

static void test_faults_of_values(void **state)
{
    /* A link-local address needs an interface; others cannot have one. `port` is a separate key. */
    static const char *const addresses[] = {
        "fe80::1",
        "2001:db8::1%eth0",
        "127.0.0.1%eth0",
        "[::1]",
        "::",
        "::ffff:10.0.0.1",
        "ff02::1",
        "0.0.0.0",
        "224.0.0.1",
        "fe80::1%",
        "fe80::1%sixteen-letters-x",
    };
    static const char *const hosts[] = {
        "nowhere",  "",        "[::1]:0",       "[::1]x",          "[::1",
        "::1%eth0", "ff02::1", "10.0.0.1%eth0", "::ffff:10.0.0.1",
    };
    char text[128], want[256];

    (void)state;
    bad("[daemon]\nsocket_mode = 0888\n",
        "2: socket_mode = 0888: want a file mode in octal, such as 0660\n");
    bad("[daemon]\nsocket_mode = 1777\n", "2: socket_mode = 1777: must be from 00 to 0777\n");
    bad("[daemon]\nadmin_group = a b\n",
        "2: admin_group = a b: want the name of one group of users, or nothing\n");
    bad("[nic:a]\nlink = ether\ninterface = e\nvlan = some\n", "4: vlan = some: want a number\n");
    bad("[daemon]\nlog_level = loud\n",
        "2: log_level = loud: want error, warning, info or debug\n");
    bad("[engine]\nwait = never\n", "2: wait = never: want adaptive, spin or block\n");
    bad("[engine]\nloan = yes\n", "2: loan = yes: want no or auto\n");
    bad("[reliability]\ncongestion = reno\n", "2: congestion = reno: want delay, cubic or fixed\n");
    bad("[engine]\nspin = 50\n",
        "2: spin = 50: want a time with unit, such as 50us, 1.5ms or 4s\n");
    bad("[engine]\nspin =\n", "2: spin = : want a time with unit, such as 50us, 1.5ms or 4s\n");
    bad("[engine]\nspin = 2s\n", "2: spin = 2s: must be from 0ns to 1s\n");
    bad("[engine]\nturn_bytes = 1k\n",
        "2: turn_bytes = 1k: want a size in bytes, such as 4096, 64K, 8M or 1G\n");
    bad("[engine]\nturn_bytes = 1K\n", "2: turn_bytes = 1K: must be from 64K to 1G\n");
    bad("[engine]\nturn_packets = -1\n", "2: turn_packets = -1: want a number\n");
    bad("[limits]\nvis = 4097\n", "2: vis = 4097: must be from 1 to 4096\n");
    bad("[limits]\nvis = 99999999999999999999\n",
        "2: vis = 99999999999999999999: must be from 1 to 4096\n");
    bad("[nic:a]\nlink = token-ring\n", "2: link = token-ring: want udp, ether, xdp or loop\n");
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        snprintf(text, sizeof(text), "[nic:a]\naddress = %s\n", addresses[i]);
        snprintf(want, sizeof(want),
                 "2: address = %s: want an IP address of this host, such as 127.0.0.1, 2001:db8::1 "
                 "or fe80::1%%eth0, or 'auto'\n",
                 addresses[i]);
        bad(text, want);
    }
    bad("[nic:a]\nlink = ether\ninterface = e\nannounce = a b\n",
        "4: announce = a b: want a name of 1 to 63 letters, digits, '.', '-' or '_', 'auto' or "
        "'none'\n");
    bad("[nic:a]\nport = 0\n", "2: port = 0: must be from 1 to 65535\n");
    bad("[nic:a]\nmtu = 100\n", "2: mtu = 100: must be from 540 to 65536\n");
    bad("[nic:a]\nmtu = big\n", "2: mtu = big: want a number of bytes or 'auto'\n");
    bad("[nic:a]\ngso = maybe\n", "2: gso = maybe: want yes or no\n");
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        snprintf(text, sizeof(text), "[names]\nb = %s\n", hosts[i]);
        snprintf(want, sizeof(want),
                 "2: b = %s: want an address, such as 192.0.2.7, 127.0.0.2:4794, 2001:db8::7, "
                 "[fe80::7]:4794 or the MAC address of a card\n",
                 hosts[i]);
        bad(text, want);
    }
}

static void test_bad_fault_word(void **state)
{
    char errors[1024], start[128];

    (void)state;
    assert_null(load("[nic:a]\nfaults = loss=1%,los=2%\n", errors, sizeof(errors)));
    snprintf(start, sizeof(start), "%s:2: faults = loss=1%%,los=2%%: ", path);
    assert_int_equal(strncmp(errors, start, strlen(start)), 0);
    assert_non_null(strstr(errors + strlen(start), "los"));
}

static void test_faults_together(void **state)
{
    (void)state;
    bad("[reliability]\nrto_max = 1ms\n", "2: rto_min (2ms) must not be larger than rto_max (1ms)\n"
                                          "2: rto_initial (20ms) must not be larger than rto_max "
                                          "(1ms)\n");
    bad("[reliability]\nkeepalive = 2s\n\npeer_dead = 1s\n",
        "4: keepalive (2s) must be less than peer_dead (1s)\n");
    bad("[reliability]\nkeepalive = 10s\n",
        "2: keepalive (10s) must be less than peer_dead (10s)\n");
    bad("[nic:a]\naddress = 127.0.0.1\n[nic:b]\naddress = 127.0.0.1\n",
        "3: [nic:a] and [nic:b] have the same address and port\n");
    bad("[nic:a]\naliases = x,y\n[nic:b]\nport = 5\naliases = z,y\n",
        "3: alias 'y' belongs to [nic:a] and [nic:b]\n");
}

static void test_unreadable(void **state)
{
    char errors[256];

    (void)state;
    assert_null(vipd_config_load("/nonexistent/vipd.conf", errors, sizeof(errors)));
    assert_string_equal(errors,
                        "/nonexistent/vipd.conf: cannot be read: No such file or directory\n");
    assert_null(vipd_config_load("/tmp", errors, sizeof(errors)));
    assert_string_equal(errors, "/tmp: is a directory\n");
}

static void test_errors_are_cut(void **state)
{
    char errors[64];

    (void)state;
    assert_null(load("[daemon]\na = 1\nb = 1\nc = 1\nd = 1\n", errors, sizeof(errors)));
    assert_true(strlen(errors) < sizeof(errors));
}

/* ---- the table of keys ------------------------------------------------------------------- */

/* What `vipd --print-config` prints; to be freed. */
static char *print_reference(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    assert_non_null(out);
    vipd_config_print_reference(out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void test_reference_has_every_key(void **state)
{
    char *text = print_reference();

    (void)state;
    for (unsigned i = 0; i < config_key_count; i++) {
        char line[128];

        snprintf(line, sizeof(line), "\n#%s =", config_keys[i].name);
        if (!strstr(text, line))
            fail_msg("no line '#%s = default'", config_keys[i].name);
    }
    free(text);
}

/* Each default equals the table's text for it. The engine's defaults are ENG_CONFIG_DEFAULT. */
static void test_table(void **state)
{
    struct vipd_config *config = vipd_config_default();
    struct eng_config engine = ENG_CONFIG_DEFAULT;
    char text[256], kinds[LINK_WORDS_BYTES];

    (void)state;
    assert_memory_equal(&config->engine, &engine, sizeof(engine));
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        bool nic = strcmp(key->section, "nic") == 0;

        config_key_format(key, nic ? (void *)&config->nics[0] : config, text, sizeof(text));
        assert_string_equal(text, key->standard);
        assert_true(strlen(key->help) > 15);
        assert_ptr_equal(config_key_find(key->section, key->name), key);
        assert_true(nic || config_section_known(key->section));
        /* A reload changes only `aliases` of a NIC (vipd/reload.c). */
        if (nic && key->type != CONFIG_ALIASES)
            assert_int_equal(key->class, CONFIG_RESTART);
        assert_int_equal(nic && link_key_kinds(key->name, kinds) > 0, key->of_link);
    }
    for (enum link_kind k = 0; k < LINK_KINDS; k++) {
        for (const char *const *name = link_kind_row(k)->keys; name && *name; name++)
            assert_non_null(config_key_find("nic", *name));
    }
    assert_false(config_section_known("nic"));
    assert_null(config_key_find("engine", "port"));
    vipd_config_free(config);
}

/* With every "#key = value" made active, the printed file must be good and give the defaults. */
static void test_documented_values_are_the_defaults(void **state)
{
    char *text = print_reference(), *on = calloc(1, 65536), *rest = text, *line;
    struct vipd_config *defaults = vipd_config_default(), *config;
    bool example = false; /* this section is only an example: it stays a comment */

    (void)state;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (line[0] == '[' || strncmp(line, "#[", 2) == 0)
            example = line[0] == '#';
        if (!example && line[0] == '#' && line[1] >= 'a' && line[1] <= 'z' && strstr(line, " ="))
            line++;
        strcat(strcat(on, line), "\n");
    }
    config = good(on);
    assert_int_equal(config->name_count, 2);
    assert_true(config->nics[0].aliases_given);
    assert_int_equal(config->nics[0].alias_count, 2);
    /* Only these values are examples and differ from the defaults. */
    config->nics[0].aliases_given = false;
    config->nics[0].alias_count = 0;
    memset(config->nics[0].aliases, 0, sizeof(config->nics[0].aliases));
    config->nics[0].line = config->nics[0].file = 0;
    memset(config->nics[0].origin, 0, sizeof(config->nics[0].origin));
    assert_memory_equal(&config->nics, &defaults->nics, sizeof(config->nics));
    assert_memory_equal(&config->engine, &defaults->engine, sizeof(config->engine));
    assert_memory_equal(&config->socket_mode, &defaults->socket_mode,
                        offsetof(struct vipd_config, engine) -
                            offsetof(struct vipd_config, socket_mode));
    assert_memory_equal(&config->sessions_per_uid, &defaults->sessions_per_uid,
                        offsetof(struct vipd_config, nic_count) -
                            offsetof(struct vipd_config, sessions_per_uid));
    vipd_config_free(config);
    vipd_config_free(defaults);
    free(on);
    free(text);
}

/* ---- units ------------------------------------------------------------------------------- */

static void test_units(void **state)
{
    uint64_t value = 7;
    bool yes;
    char text[32];

    (void)state;
    assert_int_equal(vipd_parse_duration("50us", &value), 0);
    assert_int_equal(value, 50000);
    assert_int_equal(vipd_parse_duration("0.000000001s", &value), 0);
    assert_int_equal(value, 1);
    assert_int_equal(vipd_parse_duration("0", &value), 0);
    assert_int_equal(value, 0);
    assert_int_equal(vipd_parse_duration("0.5ns", &value), -22);
    assert_int_equal(vipd_parse_duration("1.", &value), -22);
    assert_int_equal(vipd_parse_duration("1.0000000001s", &value), -22);
    assert_int_equal(vipd_parse_duration("us", &value), -22);
    assert_int_equal(vipd_parse_duration("1 us", &value), -22);
    assert_int_equal(vipd_parse_duration("18446744073709551616ns", &value), -34);
    assert_int_equal(vipd_parse_duration("99999999999s", &value), -34);
    assert_int_equal(vipd_parse_bytes("3K", &value), 0);
    assert_int_equal(value, 3072);
    assert_int_equal(vipd_parse_bytes("3KB", &value), -22);
    assert_int_equal(vipd_parse_bytes("99999999999G", &value), -34);
    assert_int_equal(vipd_parse_count("", &value), -22);
    assert_int_equal(vipd_parse_mode("", &value), -22);
    assert_int_equal(vipd_parse_bool("On", &yes), 0);
    assert_true(yes);
    assert_int_equal(vipd_parse_bool("", &yes), -22);
    vipd_format_duration(1500000, text, sizeof(text));
    assert_string_equal(text, "1500us");
    vipd_format_duration(3600000000000, text, sizeof(text));
    assert_string_equal(text, "3600s");
    vipd_format_bytes(65536, text, sizeof(text));
    assert_string_equal(text, "64K");
}

static int make_file(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

/* Returns true if the [listen] section lets this user listen on this discriminator. */
static bool may(const struct vipd_config *config, uid_t uid, const char *disc)
{
    const char *pattern, *user;

    return config_may_listen(config, uid, (const uint8_t *)disc, (uint8_t)strlen(disc), &pattern,
                             &user);
}

static void test_listen(void **state)
{
    static const uint8_t raw[] = {0xab, 0x01, 0x00};
    const char *pattern = NULL, *user = NULL;
    struct vipd_config *config = good("[listen]\n"
                                      "db-* = 1001\n"
                                      "db-shared = 1002\n"
                                      "0xab* = 1003\n"
                                      "web = root\n");
    char text[DISC_TEXT_BYTES];

    (void)state;
    assert_int_equal(config->listen_count, 4);
    assert_true(may(config, 1001, "db-1") && !may(config, 1002, "db-1"));
    assert_true(may(config, 1001, "db-shared") && may(config, 1002, "db-shared"));
    assert_true(!may(config, 1003, "db-shared") && may(config, 0, "db-shared"));
    assert_true(may(config, 1003, "mail") && may(config, 1003, "db"));
    assert_true(!may(config, 1001, "web") && may(config, 0, "web"));
    assert_false(config_may_listen(config, 1001, raw, 3, &pattern, &user));
    assert_string_equal(pattern, "0xab*");
    assert_string_equal(user, "1003");
    assert_true(config_may_listen(config, 1003, raw, 3, &pattern, &user));
    /* A zero byte after the text changes nothing: the user still may not listen. */
    assert_false(config_may_listen(config, 1003, (const uint8_t *)"web", 4, &pattern, &user));
    config_disc_text(NULL, 0, text);
    assert_string_equal(text, "(empty)");
    vipd_config_free(config);
    bad("[listen]\nx = no-such-user-here\ny = 4294967295\nz = 12a\nw =\n",
        "2: x = no-such-user-here: want the name or the number of a user of this machine\n"
        "3: y = 4294967295: want the name or the number of a user of this machine\n"
        "4: z = 12a: want the name or the number of a user of this machine\n"
        "5: w = : want the name or the number of a user of this machine\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_faults_of_links),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_faults_of_lines),
        cmocka_unit_test(test_faults_of_keys),
        cmocka_unit_test(test_faults_of_values),
        cmocka_unit_test(test_bad_fault_word),
        cmocka_unit_test(test_faults_together),
        cmocka_unit_test(test_unreadable),
        cmocka_unit_test(test_errors_are_cut),
        cmocka_unit_test(test_reference_has_every_key),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_documented_values_are_the_defaults),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_listen),
    };

    return cmocka_run_group_tests_name("vipd_config", tests, make_file, remove_file);
}
