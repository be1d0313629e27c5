/* The checks of vipd, its NICs, limits and errors, and of a peer. See check.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/vipctl/check.h"
#include "tools/vipctl/ping.h"
#include "tools/vipctl/show.h"

#define PROBES            20
#define PROBE_TIMEOUT_S   0.5
#define RECENT_NS         3600000000000ull /* errors of the last hour are reported */
#define UDP_HEADERS_BYTES 28

static void check_version(struct findings *to, const Vip__Summary *summary)
{
    const char *version = summary->version ? summary->version : "?";

    if (strcmp(version, VIP_VERSION) == 0)
        check_add(to, VERDICT_PASS, "version", NULL, "vipd and vipctl are both %s", version);
    else
        check_add(to, VERDICT_WARN, "version", "systemctl restart vipd",
                  "vipd is %s, vipctl " VIP_VERSION ": was it not restarted after an upgrade?",
                  version);
    if (summary->draining)
        check_add(to, VERDICT_WARN, "drain", "vipctl resume",
                  "vipd is being drained: no NIC is opened and no connection made");
    if (summary->pending > 0)
        check_add(to, VERDICT_WARN, "configuration",
                  "systemctl restart vipd   (vipctl config show lists "
                  "them)",
                  "%llu changed key%s for a restart", (unsigned long long)summary->pending,
                  summary->pending == 1 ? " waits" : "s wait");
    else
        check_add(to, VERDICT_PASS, "configuration", NULL, "%s, nothing waits for a restart",
                  summary->config && *summary->config ? summary->config : "all defaults");
}

static void check_nic(struct findings *to, const Vip__NicRow *nic)
{
    char fix[160];

    snprintf(fix, sizeof(fix), "vipctl explain nic %.60s", nic->name);
    if (strncmp(nic->state, "up", 2) != 0)
        check_add(to, VERDICT_FAIL, "nic", fix, "%s is %s", nic->name, nic->state);
    else
        check_add(to, VERDICT_PASS, "nic", NULL, "%s is up: %s on %s, packets of %u bytes",
                  nic->name, nic->link, nic->address, nic->mtu);
    if (nic->without && *nic->without)
        check_add(to, VERDICT_WARN, "nic", fix, "%s is %s without %s", nic->name, nic->link,
                  nic->without);
    if (nic->faults && *nic->faults)
        check_add(to, VERDICT_WARN, "faults", "remove faults from [nic:...] and restart vipd",
                  "%s damages packets on purpose: %s", nic->name, nic->faults);
    if (nic->rx_packets > 1000 && nic->drops * 1000 > nic->rx_packets)
        check_add(to, VERDICT_WARN, "drops", fix, "%s has dropped %llu of %llu packets that came",
                  nic->name, (unsigned long long)nic->drops, (unsigned long long)nic->rx_packets);
}

static void check_limit(struct findings *to, const Vip__LimitRow *row)
{
    char fix[200];

    if (row->max == 0 || row->used * 10 < row->max * 9)
        return;
    snprintf(fix, sizeof(fix), "raise %s in [limits] of vipd.conf, then vipctl reload (it is live)",
             row->limit);
    check_add(to, row->used >= row->max ? VERDICT_FAIL : VERDICT_WARN, "limits", fix,
              "uid %u has %llu of %llu %s", row->uid, (unsigned long long)row->used,
              (unsigned long long)row->max, row->noun);
}

/* Is the error a refused request of vipctl, for example a wrong word after ping or disconnect? The
 * user has already seen this error, and it is no sign of a problem. */
static bool is_of_a_tool(const Vip__ErrorRow *row)
{
    static const char *const requests[] = {"admin ", "capture ", "explain ", "ping ", "reload "};

    for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++)
        if (row->kind && row->key && strcmp(row->kind, "refused") == 0 &&
            strncmp(row->key, requests[i], strlen(requests[i])) == 0)
            return true;
    return false;
}

static void check_error(struct findings *to, const Vip__ErrorRow *row)
{
    uint64_t now_ns = (uint64_t)time(NULL) * 1000000000ull;
    char fix[200], often[32] = "once";

    if (row->last_ns + RECENT_NS < now_ns || is_of_a_tool(row))
        return;
    snprintf(fix, sizeof(fix), "vipctl show errors key='%.60s'", row->key);
    if (row->count > 1)
        snprintf(often, sizeof(often), "%llu times", (unsigned long long)row->count);
    check_add(to, VERDICT_WARN, "errors", fix, "%s, %s, last of %s%s%s", row->key, often,
              row->program, row->text && *row->text ? ": " : "", row->text ? row->text : "");
}

/* Call a function for every row of a view. */
static enum exit_code each_row(int sock, const char *name, struct findings *to,
                               void (*check)(struct findings *to, const void *row))
{
    struct show_rows rows;
    enum exit_code code = show_fetch(sock, show_view_find(name), &rows);

    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++)
        check(to, rows.row[i]);
    show_rows_free(&rows);
    return code;
}

static void row_nic(struct findings *to, const void *row)
{
    check_nic(to, row);
}

static void row_limit(struct findings *to, const void *row)
{
    check_limit(to, row);
}

/* Report a host that has connections but does not answer. */
static void row_peer(struct findings *to, const void *row)
{
    const Vip__PeerRow *peer = row;
    char fix[160];

    if (!peer->state || strcmp(peer->state, "up") == 0 || strcmp(peer->state, "self") == 0)
        return;
    snprintf(fix, sizeof(fix), "vipctl explain peer %.80s; at the peer: systemctl status vipd",
             peer->peer);
    check_add(to, VERDICT_WARN, "peer", fix, "%s is %s, last heard of %.1f s ago, %llu connections",
              peer->peer, peer->state, (double)peer->heard_ago_ns / 1e9,
              (unsigned long long)peer->connections);
}

static void row_error(struct findings *to, const void *row)
{
    check_error(to, row);
}

/* ---- the wanted buffers ------------------------------------------------------------------ */

static uint64_t read_size(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);

    return *end == 'K'   ? value << 10
           : *end == 'M' ? value << 20
           : *end == 'G' ? value << 30
                         : value;
}

/* Does this section of the configuration have link = udp? Only then `buffer` is the size of a
 * socket buffer. */
static bool is_on_udp(const struct show_rows *rows, const char *section)
{
    for (size_t i = 0; i < rows->count; i++) {
        const Vip__ConfigRow *row = rows->row[i];

        if (strcmp(row->section, section) == 0 && strcmp(row->key, "link") == 0)
            return strcmp(row->value, "udp") == 0;
    }
    return true;
}

static enum exit_code find_buffer(int sock, uint64_t *ret_bytes)
{
    struct show_rows rows;
    enum exit_code code = show_fetch(sock, show_view_find("config"), &rows);

    *ret_bytes = 0;
    for (size_t i = 0; code == EXIT_OK && i < rows.count; i++) {
        const Vip__ConfigRow *row = rows.row[i];

        if (strncmp(row->section, "nic:", 4) == 0 && strcmp(row->key, "buffer") == 0 &&
            read_size(row->value) > *ret_bytes && is_on_udp(&rows, row->section))
            *ret_bytes = read_size(row->value);
    }
    show_rows_free(&rows);
    return code;
}

/* ---- a peer ------------------------------------------------------------------------------ */

/* The path MTU that the kernel knows for an IPv4 address; 0: unknown. */
static unsigned path_mtu(const char *peer)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *found = NULL;
    char host[256];
    int mtu = 0, sock, want = IP_PMTUDISC_DO;
    socklen_t len = sizeof(mtu);
    size_t n = strcspn(peer, ":");

    if (peer[n] == ':' && strchr(peer + n + 1, ':'))
        return 0; /* an IPv6 or MAC address: there is no path MTU to compare */
    snprintf(host, sizeof(host), "%.*s", (int)n, peer);
    hints.ai_family = AF_INET;
    if (getaddrinfo(host, "9", &hints, &found) != 0)
        return 0;
    sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0 || setsockopt(sock, IPPROTO_IP, IP_MTU_DISCOVER, &want, sizeof(want)) < 0 ||
        connect(sock, found->ai_addr, found->ai_addrlen) < 0 ||
        getsockopt(sock, IPPROTO_IP, IP_MTU, &mtu, &len) < 0)
        mtu = 0;
    if (sock >= 0)
        (void)close(sock);
    freeaddrinfo(found);
    return (unsigned)mtu;
}

static void check_mtu(struct findings *to, const char *peer, const Vip__NicRow *nic)
{
    unsigned mtu = path_mtu(peer);
    char fix[200];

    if (mtu == 0 || strcmp(nic->link, "udp") != 0)
        return;
    snprintf(fix, sizeof(fix), "[nic:%.60s] mtu = %u and restart vipd, or mend the path", nic->name,
             mtu);
    if (nic->mtu + UDP_HEADERS_BYTES > mtu)
        check_add(to, VERDICT_FAIL, "path mtu", fix,
                  "%s sends packets of %u bytes, the path to %s takes %u: large ones are lost",
                  nic->name, nic->mtu + UDP_HEADERS_BYTES, peer, mtu);
    else
        check_add(to, VERDICT_PASS, "path mtu", NULL, "%u bytes to %s, %s needs %u", mtu, peer,
                  nic->name, nic->mtu + UDP_HEADERS_BYTES);
}

static enum exit_code check_peer(int sock, struct findings *to, const char *peer)
{
    struct ping_result result = {0};
    struct show_rows rows;
    enum exit_code code = EXIT_OK;

    for (unsigned i = 0; i < PROBES && code == EXIT_OK; i++) {
        code = ping_once(sock, NULL, peer, PROBE_TIMEOUT_S, &result);
        if (i == 2 && result.received == 0)
            break; /* stop after three pings without an answer */
    }
    if (code != EXIT_OK)
        return code;
    if (result.received == 0) {
        check_add(
            to, VERDICT_FAIL, "peer",
            "at the peer: systemctl status vipd; a firewall must pass the NIC's port (UDP 4794)",
            "the vipd of %s does not answer", peer);
        return EXIT_OK;
    }
    check_add(to, result.received < result.sent ? VERDICT_WARN : VERDICT_PASS, "peer",
              result.received < result.sent ? "look at the network: ip -s link, ethtool -S" : NULL,
              "%s answers %llu of %llu, round trip %.1f us (max %.1f)", peer,
              (unsigned long long)result.received, (unsigned long long)result.sent,
              (double)result.sum_ns / (double)result.received / 1e3, (double)result.max_ns / 1e3);
    code = show_fetch(sock, show_view_find("nic"), &rows);
    if (code == EXIT_OK && rows.count > 0)
        check_mtu(to, peer, rows.row[0]);
    show_rows_free(&rows);
    return code;
}

enum exit_code check_vipd(int sock, struct findings *to, const char *peer,
                          uint64_t *ret_buffer_bytes)
{
    Vip__Reply *reply;
    enum exit_code code = query_page(sock, VIP__SHOW_REQUEST__WHAT__SUMMARY, 0, &reply);

    if (code != EXIT_OK)
        return code;
    if (reply->show->summary)
        check_version(to, reply->show->summary);
    vip__reply__free_unpacked(reply, NULL);
    code = each_row(sock, "nic", to, row_nic);
    if (code == EXIT_OK)
        code = each_row(sock, "limits", to, row_limit);
    if (code == EXIT_OK)
        code = each_row(sock, "peers", to, row_peer);
    if (code == EXIT_OK)
        code = each_row(sock, "errors", to, row_error);
    if (code == EXIT_OK)
        code = find_buffer(sock, ret_buffer_bytes);
    if (code == EXIT_OK && peer)
        code = check_peer(sock, to, peer);
    return code;
}
