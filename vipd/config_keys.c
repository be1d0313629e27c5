/* The table of keys; see config_keys.h. The reference and the manual page print its help texts. */
#include "vipd/config_keys.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "vipd/config.h"
#include "vipd/units.h"

#define US          1000ull
#define MS          1000000ull
#define SEC         1000000000ull
#define GIB         (1ull << 30)
#define AT(member)  offsetof(struct vipd_config, member)
#define NIC(member) offsetof(struct vipd_nic_config, member)

#define LIVE    CONFIG_LIVE
#define NEW     CONFIG_NEW
#define RESTART CONFIG_RESTART

/* The help text of the key `link`. */
#define LINK_KIND(number, row, help) help
static const char link_help[] = "The medium: "
#include "vipd/link/kinds.def"
                                ". Programs on different links do not reach each other, but those "
                                "on xdp and ether do.";

/* The row of a key that only some kinds of links have. */
#define LINK_ROW(name, member, type, min, max, standard, help)                                     \
    {"nic", name, CONFIG_##type, RESTART, true, NIC(keys.member), min, max, standard, help},

const struct config_key config_keys[] = {
    {"daemon", "socket_mode", CONFIG_MODE, RESTART, 0, AT(socket_mode), 0, 0777, "0666",
     "Who may connect to vipd.sock: file mode, octal. 0666 = every user of this host. It counts "
     "only "
     "where vipd makes the socket itself; under systemd vipd.socket says SocketMode=."},
    {"daemon", "user", CONFIG_USER, RESTART, 0, AT(user), 0, 0, VIPD_USER,
     "The user that vipd becomes when root has started it: once its links are open and its socket "
     "listens. The runtime directory is given to that user. `root`: vipd stays root, without "
     "capabilities. Any other user must exist, but for the default: without a user vipd, vipd "
     "stays "
     "root and says so. A vipd that root has not started stays what it is."},
    {"daemon", "open_group", CONFIG_GROUP, LIVE, 0, AT(open_group), 0, 0, "",
     "The group of users whose programs may open NICs; root and the user that vipd runs as always "
     "may. "
     "Empty: every user who can connect to the socket."},
    {"daemon", "admin_group", CONFIG_GROUP, LIVE, 0, AT(admin_group), 0, 0, "via-admin",
     "The group of users who may change what runs (vipctl reload, disconnect, drain, resume) and "
     "see what passes (vipctl capture). root and the user that vipd runs as always may. Empty, or "
     "a group that does not exist: nobody else."},
    {"daemon", "idle_exit", CONFIG_DURATION, LIVE, 0, AT(idle_exit_ns), 0, 86400 * SEC, "0ns",
     "End vipd when no program has had a NIC open for so long; 0: never. A vipd that libvipl has "
     "started for one user (VIPD_AUTOSTART=1) has 30s."},
    {"daemon", "autostart", CONFIG_BOOL, LIVE, 0, AT(autostart), 0, 0, "no",
     "Only in ~/.config/vipd/vipd.conf, where libvipl reads it: a program of this user that "
     "finds no vipd starts one, as with VIPD_AUTOSTART=1 in its environment (VIPD_AUTOSTART=0 "
     "wins over it). Written as autostart = yes; vipd itself does nothing with it."},
    {"daemon", "log_level", CONFIG_LEVEL, LIVE, 0, AT(log_level), 0, 0, "info",
     "What is logged: error, warning, info or debug. --log-level wins over it."},

    {"engine", "wait", CONFIG_WAIT, LIVE, 0, AT(wait), 0, 0, "adaptive",
     "How vipd waits when there is nothing to do: adaptive (look around for `spin`, then sleep), "
     "spin "
     "(never sleep: lowest latency, one processor busy for ever), block (sleep at once)."},
    {"engine", "spin", CONFIG_DURATION, LIVE, 0, AT(spin_ns), 0, SEC, "50us",
     "How long to look around before sleeping; programs with adaptive waiting do the same (they "
     "learn "
     "it when they open a NIC)."},
    {"engine", "threads", CONFIG_THREADS, RESTART, 0, AT(threads), 1, VIPD_NICS_MAX, "auto",
     "Threads that drive the NICs. With 1 one thread does everything. With more each NIC has a "
     "thread "
     "of "
     "its own as far as they go, and one more serves programs' requests, for which all NICs stand "
     "still "
     "for a moment. auto: 1 on fewer than four processors and with one NIC; else one for each NIC, "
     "but no "
     "more than half of the processors."},
    {"engine", "cpus", CONFIG_CPUS, RESTART, 0, AT(cpus), 0, 0, "auto",
     "Processors that vipd runs on, such as 2,3 or 8-11; auto: all that it may use "
     "(CPUAffinity= of the unit). With wait = spin they should be its own."},
    {"engine", "turn_packets", CONFIG_COUNT32, NEW, 0, AT(engine.turn_packets), 1, 4096, "64",
     "What one VI may send before the next one has its turn, in packets."},
    {"engine", "turn_bytes", CONFIG_BYTES32, NEW, 0, AT(engine.turn_bytes), 65536, GIB, "256K",
     "The same in bytes."},
    {"engine", "held_packets", CONFIG_COUNT32, NEW, 0, AT(engine.held_packets_max), 0, 2048, "2048",
     "Packets kept per VI that came ahead of their turn. Behind a lost packet, with a large round "
     "trip time, there are many."},
    {"engine", "direct", CONFIG_BOOL, NEW, 0, AT(direct), 0, 0, "yes",
     "Give two programs of this host that connect a ring for small messages, which then do not "
     "pass "
     "vipd, and so are not in the latency histograms, and not seen by probes. While vipctl capture "
     "runs, they pass vipd. For programs that open the NIC, and connections made, from now on; "
     "VIPL_DIRECT=0 in a program's environment leaves that program out."},

    {"engine", "loan", CONFIG_LOAN, RESTART, 0, AT(loan), 0, 0, "auto",
     "Lend the data path of a connection to its program while the program polls: messages then "
     "need no hand-over to vipd. no: vipd runs every data path. auto: lend a connection to a "
     "program that asks, if both hosts allow it, both NICs have plain udp over IPv4, and packets "
     "reach the program's own port."},
    {"engine", "loan_moves", CONFIG_COUNT, LIVE, 0, AT(loan_moves), 2, 100000, "10",
     "How often in a second the data path of one connection may move to its program, and home "
     "again, if loan = auto. A move costs each vipd about 50 us. For connections made from now "
     "on."},

    {"reliability", "peer_dead", CONFIG_DURATION, LIVE, 0, AT(peer_dead_ns), 10 * MS, 3600 * SEC,
     "10s",
     "A peer host that is silent for this long, and has not answered four questions, is dead; its "
     "connections are lost (VIP_ERROR_CONN_LOST). Time in which this vipd itself stood still does "
     "not "
     "count."},
    {"reliability", "keepalive", CONFIG_DURATION, LIVE, 0, AT(keepalive_ns), MS, 3600 * SEC, "1s",
     "Silence of a peer with connections after which it is asked whether it lives; less than "
     "peer_dead."},
    {"reliability", "conn_timeout", CONFIG_DURATION, NEW, 0, AT(engine.conn_timeout_ns), 10 * MS,
     3600 * SEC, "10s",
     "Data that is not acknowledged for this long, and after at least three repetitions: the "
     "connection is lost. Time in which this vipd itself stood still does not count."},
    {"reliability", "accept_timeout", CONFIG_DURATION, LIVE, 0, AT(accept_timeout_ns), 10 * MS,
     3600 * SEC, "5s", "VipConnectAccept waits so long for the client's confirmation."},
    {"reliability", "linger", CONFIG_DURATION, LIVE, 0, AT(linger_ns), 0, 60 * SEC, "1s",
     "VipDisconnect of a VI of Reliable Delivery or Reliable Reception waits until the peer has "
     "processed what was posted before, or the connection has ended, but no longer than this; what "
     "is left is flushed. 0: it does not wait."},
    {"reliability", "outlive", CONFIG_DURATION, LIVE, 0, AT(outlive_ns), 0, 600 * SEC, "10s",
     "If vipd is killed or stopped, programs and peers wait for this long for the next one, and "
     "their connections go on with it. 0: they are lost at once. Both hosts need it; for programs "
     "that open the NIC, and connections made, from now on."},
    {"reliability", "rto_min", CONFIG_DURATION, NEW, 0, AT(engine.rto_min_ns), 10 * US, 10 * SEC,
     "2ms", "Floor of the retransmission timer. rto_min <= rto_initial <= rto_max."},
    {"reliability", "rto_max", CONFIG_DURATION, NEW, 0, AT(engine.rto_max_ns), 10 * US, 60 * SEC,
     "200ms", "Its ceiling after back-off."},
    {"reliability", "rto_initial", CONFIG_DURATION, NEW, 0, AT(engine.rto_initial_ns), 10 * US,
     60 * SEC, "20ms", "Its value before the round trip time of a connection is known."},
    {"reliability", "ack_delay", CONFIG_DURATION, NEW, 0, AT(engine.ack_delay_ns), 0, SEC, "25us",
     "How long an acknowledgement may wait for data to travel with; at most rto_min."},
    {"reliability", "ack_every", CONFIG_COUNT32, NEW, 0, AT(engine.ack_every_packets), 1, 1024, "8",
     "After so many packets an acknowledgement waits no longer."},
    {"reliability", "congestion", CONFIG_CONGESTION, NEW, 0, AT(engine.congestion), 0, 0, "delay",
     "How much a connection to another host may have under way: delay (small queues on the path, "
     "full "
     "rate also where packets are lost at random), cubic (as TCP mostly does: every loss means "
     "congestion), or fixed (always what the peer takes; only for networks without other traffic "
     "and "
     "without bottleneck)."},

    {"stats", "latency", CONFIG_BOOL, NEW, 0, AT(stats_latency), 0, 0, "yes",
     "Measure how long postings, acknowledgements and completions take (vipctl show stats "
     "name~_to_); but not of messages that go by a ring ([engine] direct)."},
    {"stats", "vi_latency", CONFIG_BOOL, NEW, 0, AT(stats_vi_latency), 0, 0, "no",
     "Measure it for each VI by itself, too, if latency = yes (vipctl explain vi N; vipctl "
     "top). Each VI takes 13 KiB more then, and each message touches three histograms more."},
    {"stats", "group", CONFIG_GROUP, LIVE, 0, AT(stats_group), 0, 0, "via-stat",
     "The group of users who may read the file vipd.stats in the runtime directory, in which all "
     "statistics stand without asking vipd (vipctl --mapped show stats). Empty, or a group that "
     "does not exist or that vipd may not give a file to: root and the user that vipd runs as "
     "only."},
    {"stats", "interval", CONFIG_DURATION, LIVE, 0, AT(stats_interval_ns), 10 * MS, 3600 * SEC,
     "100ms", "How old that file may become while vipd has something to do."},

    {"limits", "sessions_per_uid", CONFIG_COUNT, LIVE, 0, AT(sessions_per_uid), 1, 65536, "64",
     "NIC handles (VipOpenNic) that one user may have open."},
    {"limits", "loan_moves_per_uid", CONFIG_COUNT, LIVE, 0, AT(loan_moves_per_uid), 2, 1000000,
     "100", "Such moves ([engine] loan_moves) in a second, of all connections of one user."},
    {"limits", "loans_per_uid", CONFIG_COUNT, LIVE, 0, AT(loans_per_uid), 1, 65536, "256",
     "Connections of one user whose data path is lent to a program ([engine] loan), or may be "
     "soon; "
     "vipd has a descriptor for each."},
    {"limits", "connections_per_uid", CONFIG_COUNT, LIVE, 0, AT(connections_per_uid), 1, 65536,
     "256", "Connections of one user to vipd.sock of any kind, vipctl's included."},
    {"limits", "vis_per_uid", CONFIG_COUNT, LIVE, 0, AT(vis_per_uid), 1, 1048576, "16384",
     "VIs of all NIC handles of one user together; each costs vipd up to some 110 KiB when its "
     "queues "
     "are full."},
    {"limits", "cqs_per_uid", CONFIG_COUNT, LIVE, 0, AT(cqs_per_uid), 1, 1048576, "4096",
     "The same for completion queues."},
    {"limits", "regions_per_uid", CONFIG_COUNT, LIVE, 0, AT(regions_per_uid), 1, 16777216, "262144",
     "The same for registered regions."},
    {"limits", "register_bytes_per_uid", CONFIG_BYTES_AUTO, LIVE, 0, AT(register_bytes_per_uid),
     4096, 65536 * GIB, "auto",
     "The same for registered bytes, in whole pages, and twice for staged regions; auto: a quarter "
     "of "
     "the machine's memory. The memory that the files of these regions really take is looked at "
     "about "
     "every second: a session with which its user takes more than this is ended."},
    {"limits", "mapped_bytes_per_uid", CONFIG_BYTES, LIVE, 0, AT(mapped_bytes_per_uid), 4096,
     65536 * GIB, "4096G",
     "Memory files (of VipxAllocMem and of staged regions) that vipd maps for one user: address "
     "space; "
     "a process has 128 TiB."},
    {"limits", "mapped_files_per_uid", CONFIG_COUNT, LIVE, 0, AT(mapped_files_per_uid), 1, 65536,
     "16384", "Number of these; the kernel's vm.max_map_count is for all users."},
    {"limits", "waits_per_uid", CONFIG_COUNT, LIVE, 0, AT(waits_per_uid), 1, 1048576, "4096",
     "VipConnectWait, listeners and requests without answer of one user."},
    {"limits", "connects_per_uid", CONFIG_COUNT, LIVE, 0, AT(connects_per_uid), 1, 1048576, "8192",
     "Connections being made, asked for or accepted and not yet confirmed, of one user."},
    {"limits", "register_bytes", CONFIG_BYTES, NEW, 0, AT(register_bytes), 4096, VIP_ARENA_BYTES,
     "64G", "Bytes registered with one NIC handle."},
    {"limits", "register_regions", CONFIG_COUNT, NEW, 0, AT(register_regions), 1, VIP_REGION_MAX,
     "65536", "Regions registered with one NIC handle."},
    {"limits", "ptags", CONFIG_COUNT, NEW, 0, AT(ptags), 1, VIP_PTAG_MAX, "4096",
     "Protection tags of one NIC handle."},
    {"limits", "vis", CONFIG_COUNT, NEW, 0, AT(vis), 1, VIP_VI_MAX, "4096",
     "VIs of one NIC handle."},
    {"limits", "cqs", CONFIG_COUNT, NEW, 0, AT(cqs), 1, VIP_CQ_MAX, "1024",
     "Completion queues of one NIC handle."},
    {"limits", "events_queued", CONFIG_COUNT, LIVE, 0, AT(events_queued), 16, 1048576, "8192",
     "Events (connection results, errors) kept for a program that does not read them; with one "
     "more "
     "its session ends. Errors that a peer can repeat are left out when half of them wait."},

    {"nic", "link", CONFIG_LINK, RESTART, 0, NIC(link), 0, 0, "udp", link_help},
#define LINK_KEY(name, member, declaration, type, min, max, standard, help)                        \
    LINK_ROW(name, member, type, min, max, standard, help)
#include "vipd/link/keys.def"
    {"nic", "aliases", CONFIG_ALIASES, LIVE, 0, 0, 0, 0, "",
     "Other device names that VipOpenNic takes for this NIC, separated by commas; \"\" is the "
     "empty "
     "name. If the key is absent, the names that older providers used for their n-th device "
     "(counting "
     "from 0): /dev/via_eth<n>, /dev/clanvi<n>, nic<n>, VINIC<n>, \\\\.\\VI<n+1>, and for the "
     "first "
     "NIC also /dev/via_lo, /etc/via_lo, VINIC and the empty name. A NIC with link = loop is not "
     "counted; the first of these has /dev/via_lo and /etc/via_lo instead. A NIC's own name always "
     "works."},
    {"nic", "faults", CONFIG_FAULTS, RESTART, 0, 0, 0, 0, "none",
     "For tests: damage to packets sent. loss, dup, reorder, corrupt in percent; delay and jitter "
     "as "
     "times; blackhole; seed makes it repeatable. Or none."},
#define LINK_KEY_LATE(name, member, declaration, type, min, max, standard, help)                   \
    LINK_ROW(name, member, type, min, max, standard, help)
#include "vipd/link/keys.def"
};

const unsigned config_key_count = sizeof(config_keys) / sizeof(config_keys[0]);
_Static_assert(sizeof(config_keys) / sizeof(config_keys[0]) <= CONFIG_KEYS_MAX, "origins fit");

const struct config_section config_sections[] = {
    {"daemon", "The process: who may use it, and its log."},
    {"engine", "How vipd waits, and how it divides its turns between VIs."},
    {"reliability", "Lost packets, silent peers, and how fast to send."},
    {"stats", "What vipd counts and measures of itself."},
    {"limits",
     "What one user may have in all his programs together (..._per_uid), and what one NIC "
     "handle of a program may have, as VipQueryNic reports it."},
    {"listen",
     "Which user's programs may wait on which discriminators: PATTERN = user, by name or number. A "
     "pattern is compared with the discriminator as vipctl show listen writes it (text, or 0x and "
     "hexadecimal digits): * is any characters, ? is one, [a-z] is one of these. On a "
     "discriminator that patterns match, only programs of their users and of root may wait, "
     "listen or ask peer to peer. Without a pattern the first user that does owns a discriminator, "
     "as long as a program of it waits there, and a while longer. Changes are live: sessions that "
     "wait "
     "where they may not any more end."},
    {"nic:NAME", "One section per NIC, at most 16. NAME: letters, digits, '.', '_', '-'. The first "
                 "one written is number 0 in the historical device names below. Without any such "
                 "section there is one NIC, vip0, over udp."},
    {"names",
     "Host names for VipNSGetHostByName: address[:port] for udp ([address]:port for IPv6), the MAC "
     "address of the card for ether, several separated by commas; each NIC sees those of its own "
     "link: "
     "IPv4, IPv6 or Ethernet, and what is written with %interface only if its own address is on "
     "that. "
     "Without a port: that of the first udp NIC. udp asks the system's resolver next; ether takes "
     "MAC "
     "addresses for names, and asks the hosts on its segment next; loop knows localhost and the "
     "name of "
     "this host. Changes are live."},
};

const unsigned config_section_count = sizeof(config_sections) / sizeof(config_sections[0]);

bool config_key_fits(const struct config_key *key, enum link_kind kind)
{
    return !key->of_link || link_kind_knows(kind, key->name);
}

const struct config_key *config_key_find(const char *section, const char *name)
{
    for (unsigned i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) == 0 && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    }
    return NULL;
}

/* Levenshtein's distance: the number of letters to insert, delete or change to turn a into b. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[64]; /* row[j]: distance of a's first i letters from b's first j letters */
    size_t b_len = strlen(b);

    if (b_len >= sizeof(row) / sizeof(*row))
        return UINT_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = (unsigned)j;
    for (size_t i = 0; a[i]; i++) {
        unsigned before = row[0]++; /* distance of a's first i letters from b's first j - 1 */

        for (size_t j = 1; j <= b_len; j++) {
            unsigned changed = before + (a[i] != b[j - 1]);

            before = row[j];
            row[j] = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            if (changed < row[j])
                row[j] = changed;
        }
    }
    return row[b_len];
}

const struct config_key *config_key_like(const char *section, const char *name)
{
    const struct config_key *best = NULL;
    unsigned best_distance = 3;

    for (unsigned i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    for (unsigned i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        unsigned d = strcmp(key->section, section) == 0 ? distance(name, key->name) : UINT_MAX;

        if (d < best_distance && 2 * d <= strlen(name)) {
            best_distance = d;
            best = key;
        }
    }
    return best;
}

bool config_section_known(const char *section)
{
    for (unsigned i = 0; i < config_section_count; i++) {
        if (strcmp(config_sections[i].name, section) == 0 && !strchr(section, ':'))
            return true;
    }
    return false;
}

const char *config_class_name(enum config_class class)
{
    switch (class) {
    case CONFIG_LIVE:
        return "live";
    case CONFIG_NEW:
        return "new";
    case CONFIG_RESTART:
        return "restart";
    }
    return "?";
}

/* ---- values for people ------------------------------------------------------------------- */

static void format_number(const struct config_key *key, uint64_t number, char *buf, size_t bytes)
{
    switch (key->type) {
    case CONFIG_DURATION:
        vipd_format_duration(number, buf, (unsigned)bytes);
        break;
    case CONFIG_BYTES:
    case CONFIG_BYTES_AUTO:
    case CONFIG_BYTES32:
        vipd_format_bytes(number, buf, (unsigned)bytes);
        break;
    case CONFIG_MODE:
        snprintf(buf, bytes, "0%llo", (unsigned long long)number);
        break;
    case CONFIG_ETHERTYPE:
        snprintf(buf, bytes, "0x%04llx", (unsigned long long)number);
        break;
    default:
        snprintf(buf, bytes, "%llu", (unsigned long long)number);
        break;
    }
}

static const char *unit_word(enum config_type type)
{
    switch (type) {
    case CONFIG_DURATION:
        return "time";
    case CONFIG_BYTES:
    case CONFIG_BYTES32:
        return "bytes";
    case CONFIG_COUNT:
    case CONFIG_COUNT32:
        return "number";
    case CONFIG_MODE:
        return "file mode";
    case CONFIG_BOOL:
        return "yes or no";
    case CONFIG_WAIT:
        return "adaptive, spin or block";
    case CONFIG_LOAN:
        return "no or auto";
    case CONFIG_CONGESTION:
        return "delay, cubic or fixed";
    case CONFIG_LEVEL:
        return "error, warning, info or debug";
    case CONFIG_GROUP:
        return "name of a group";
    case CONFIG_USER:
        return "name of a user";
    case CONFIG_LINK:
        break; /* config_key_unit gets the words from the kinds of links */
    case CONFIG_CPUS:
        return "list of processors or auto";
    case CONFIG_ADDRESS:
        return "IP address or auto";
    case CONFIG_MTU:
    case CONFIG_BYTES_AUTO:
        return "bytes or auto";
    case CONFIG_THREADS:
        return "number or auto";
    case CONFIG_ALIASES:
        return "list of names";
    case CONFIG_FAULTS:
        return "list of faults or none";
    case CONFIG_INTERFACE:
        return "name of an interface";
    case CONFIG_PATHS:
        return "addresses or interfaces";
    case CONFIG_ETHERTYPE:
        return "four hexadecimal digits";
    case CONFIG_VLAN:
        return "number or none";
    case CONFIG_ANNOUNCE:
        return "name, auto or none";
    }
    return "?";
}

void config_key_unit(const struct config_key *key, char *buf, size_t buf_bytes)
{
    char min[32], max[32], words[LINK_WORDS_BYTES];

    if (key->type == CONFIG_LINK) {
        link_kind_words(words);
        snprintf(buf, buf_bytes, "%s", words);
        return;
    }
    if (key->max == 0) {
        snprintf(buf, buf_bytes, "%s", unit_word(key->type));
        return;
    }
    format_number(key, key->min, min, sizeof(min));
    format_number(key, key->max, max, sizeof(max));
    snprintf(buf, buf_bytes, "%s, %s to %s", unit_word(key->type), min, max);
}

static void format_aliases(const struct vipd_nic_config *nic, char *buf, size_t buf_bytes)
{
    size_t used = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < nic->alias_count && used < buf_bytes; i++)
        used += (size_t)snprintf(buf + used, buf_bytes - used, "%s%s", i ? ", " : "",
                                 nic->aliases[i][0] ? nic->aliases[i] : "\"\"");
}

static const char *wait_word(enum vipd_wait wait)
{
    return wait == VIPD_WAIT_SPIN ? "spin" : wait == VIPD_WAIT_BLOCK ? "block" : "adaptive";
}

static const char *congestion_word(uint32_t congestion)
{
    return congestion == ENG_CONGESTION_CUBIC   ? "cubic"
           : congestion == ENG_CONGESTION_FIXED ? "fixed"
                                                : "delay";
}

/* Returns the value of a key if it is a word or a text; NULL: it is a number or a list. */
static const char *word_of(const struct config_key *key, const void *base)
{
    const void *at = (const char *)base + key->offset;
    const struct vipd_nic_config *nic = base;

    switch (key->type) {
    case CONFIG_BOOL:
        return *(const bool *)at ? "yes" : "no";
    case CONFIG_LOAN:
        return *(const uint64_t *)at ? "auto" : "no";
    case CONFIG_WAIT:
        return wait_word(*(const enum vipd_wait *)at);
    case CONFIG_CONGESTION:
        return congestion_word(*(const uint32_t *)at);
    case CONFIG_LEVEL:
        return vipd_log_level_name(*(const enum vipd_log_level *)at);
    case CONFIG_LINK:
        return nic->keys.variant ? link_kind_row(nic->link)->variant
                                 : link_kind_row(nic->link)->name;
    case CONFIG_ADDRESS:
        return nic->keys.address[0] ? nic->keys.address : "auto";
    case CONFIG_ANNOUNCE:
        return nic->keys.announce[0] ? nic->keys.announce : "auto";
    case CONFIG_FAULTS:
        return nic->faults_text[0] ? nic->faults_text : "none";
    case CONFIG_CPUS:
        return *(const char *)at ? at : "auto";
    case CONFIG_GROUP:
    case CONFIG_USER:
    case CONFIG_INTERFACE:
    case CONFIG_PATHS:
        return at;
    default:
        return NULL;
    }
}

void config_key_format(const struct config_key *key, const void *base, char *buf, size_t buf_bytes)
{
    const void *at = (const char *)base + key->offset;
    const char *word = word_of(key, base);

    if (word) {
        snprintf(buf, buf_bytes, "%s", word);
    } else if (key->type == CONFIG_ALIASES) {
        format_aliases(base, buf, buf_bytes);
    } else if (key->type == CONFIG_BYTES32 || key->type == CONFIG_COUNT32) {
        format_number(key, *(const uint32_t *)at, buf, buf_bytes);
    } else if (*(const uint64_t *)at == 0 &&
               (key->type == CONFIG_MTU || key->type == CONFIG_THREADS ||
                key->type == CONFIG_BYTES_AUTO)) {
        snprintf(buf, buf_bytes, "auto");
    } else if (*(const uint64_t *)at == 0 && key->type == CONFIG_VLAN) {
        snprintf(buf, buf_bytes, "none");
    } else {
        format_number(key, *(const uint64_t *)at, buf, buf_bytes);
    }
}
