/*
 * `vipctl explain peer`: which NIC reaches a host, and why the other NICs are not chosen
 * (explain.h). vipd reports the addresses that each NIC knows. This file asks the system's
 * resolver, as libvipl does in a program, and makes the choice.
 *
 * The choice: a loop NIC if the host is this host, otherwise the first NIC of the configuration
 * that is up and has an address of the host. A program may open another NIC by its name.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "tools/vipctl/explain.h"

/* Largest number of requests to vipd while vipd looks up a name; vipd gives up much earlier. */
#define TRIES 100

#define WHY_BYTES 200

/* The way to the host over one NIC. */
struct way {
    const Vip__ExplainRow *row;
    char address[EXPLAIN_ADDRESS_BYTES]; /* empty: no address is known */
    char mtu[64];                        /* "packets of at most 1472 bytes (MTU 1500)" */
    char why[WHY_BYTES];
};

static enum exit_code ask(int sock, const char *peer, Vip__Reply **ret)
{
    for (unsigned i = 1;; i++) {
        Vip__ExplainRequest explain = VIP__EXPLAIN_REQUEST__INIT;
        Vip__Request request = VIP__REQUEST__INIT;
        struct timespec pause = {0};
        enum exit_code code;

        explain.peer = (char *)(uintptr_t)peer;
        request.body_case = VIP__REQUEST__BODY_EXPLAIN;
        request.explain = &explain;
        code = query_ask(sock, &request, ret);
        if (code == EXIT_OK && !(*ret)->explain) {
            fprintf(stderr, "vipctl: vipd's answer makes no sense; is it of another version?\n");
            code = EXIT_FAILED;
        }
        if (code != EXIT_OK || (*ret)->explain->again_ms == 0 || i == TRIES)
            return code;
        pause.tv_nsec = (long)((*ret)->explain->again_ms % 1000) * 1000000;
        vip__reply__free_unpacked(*ret, NULL);
        nanosleep(&pause, NULL);
    }
}

/* Ask the system's resolver for the address of the name, as libvipl does. */
static void resolve(const char *peer, struct way *way)
{
    struct addrinfo hints = {.ai_family = way->row->ip_version == 6 ? AF_INET6 : AF_INET,
                             .ai_socktype = SOCK_DGRAM},
                    *list;
    char host[NI_MAXHOST], port[16];
    int r;

    snprintf(port, sizeof(port), "%u", (unsigned)way->row->port);
    r = getaddrinfo(peer, port, &hints, &list);
    if (r != 0) {
        snprintf(way->why, sizeof(way->why), "%s; the system's resolver: %s",
                 way->row->why ? way->row->why : "", gai_strerror(r));
        return;
    }
    if (getnameinfo(list->ai_addr, list->ai_addrlen, host, sizeof(host), NULL, 0, NI_NUMERICHOST) ==
        0) {
        /* Remove the scope ("%eth0") of an IPv6 address: the NIC uses its own scope. */
        host[strcspn(host, "%")] = '\0';
        snprintf(way->address, sizeof(way->address),
                 hints.ai_family == AF_INET6 ? "[%.50s]:%s" : "%.50s:%s", host, port);
        snprintf(way->why, sizeof(way->why), "from the system's resolver");
    }
    freeaddrinfo(list);
}

static void fill(const Vip__ExplainRow *row, const char *peer, struct way *way)
{
    way->row = row;
    snprintf(way->address, sizeof(way->address), "%s", row->address ? row->address : "");
    snprintf(way->why, sizeof(way->why), "%s", row->why ? row->why : "");
    if (row->has_link_mtu)
        snprintf(way->mtu, sizeof(way->mtu), "packets of at most %u bytes (MTU %u)",
                 (unsigned)row->mtu, (unsigned)row->link_mtu);
    else
        snprintf(way->mtu, sizeof(way->mtu), "packets of at most %u bytes", (unsigned)row->mtu);
    if (!row->address && row->has_ip_version)
        resolve(peer, way);
}

static bool is_loop(const struct way *way)
{
    return way->row->link && strcmp(way->row->link, "loop") == 0;
}

/* Choose the way. NULL: no NIC reaches the host. */
static const struct way *choose(const struct way *ways, size_t count)
{
    const struct way *first = NULL;

    for (size_t i = 0; i < count; i++) {
        if (!ways[i].row->up || ways[i].address[0] == '\0')
            continue;
        if (is_loop(&ways[i]))
            return &ways[i];
        if (!first)
            first = &ways[i];
    }
    return first;
}

static void add_chosen(struct explanation *to, const struct way *chosen)
{
    const Vip__ExplainRow *row = chosen->row;

    explain_add(to, LINE_IS, "reached by NIC %s (%s) at %s, %s; %s%s", row->nic, row->link,
                chosen->address, chosen->mtu, row->this_host ? "it is this host; " : "",
                chosen->why);
    if (row->name)
        explain_add(to, LINE_IS, "called %s", row->name);
    explain_add(to, LINE_BECAUSE, "by %s: %s", row->nic,
                is_loop(chosen) ? "a loop NIC needs no network for programs of this host"
                                : "the first NIC of the configuration that is up and has an "
                                  "address of the host");
}

static void add_other(struct explanation *to, const struct way *way, bool loop)
{
    const Vip__ExplainRow *row = way->row;

    if (!row->up)
        explain_add(to, LINE_BECAUSE, "not by %s (%s): it is %s", row->nic, row->link, row->state);
    else if (way->address[0] == '\0')
        explain_add(to, LINE_BECAUSE, "not by %s (%s): %s", row->nic, row->link, way->why);
    else
        explain_add(to, LINE_IS,
                    "also by NIC %s (%s) at %s, %s, for programs that open that one: %s", row->nic,
                    row->link, way->address, way->mtu,
                    loop ? "a loop NIC comes before it" : "it comes later in the configuration");
}

/* Collect the addresses of the host, to compare them with those of connections. */
static void collect(struct explanation *to, const struct way *way)
{
    if (way->address[0] != '\0' && to->addresses < EXPLAIN_ADDRESSES_MAX)
        snprintf(to->address[to->addresses++], EXPLAIN_ADDRESS_BYTES, "%s", way->address);
}

enum exit_code explain_way(int sock, const char *peer, struct explanation *to)
{
    Vip__Reply *reply = NULL;
    const struct way *chosen = NULL;
    struct way *ways = NULL;
    size_t count = 0;
    enum exit_code code = ask(sock, peer, &reply);

    if (code == EXIT_OK) {
        count = reply->explain->n_nics;
        ways = calloc(count + 1, sizeof(*ways));
        if (!ways) {
            fprintf(stderr, "vipctl: out of memory\n");
            code = EXIT_FAILED;
        }
    }
    for (size_t i = 0; ways && i < count; i++)
        fill(reply->explain->nics[i], peer, &ways[i]);
    if (ways) {
        chosen = choose(ways, count);
        code = chosen ? EXIT_OK : EXIT_NO_OBJECT;
    }
    if (chosen)
        add_chosen(to, chosen);
    for (size_t i = 0; ways && i < count; i++) {
        collect(to, &ways[i]);
        if (&ways[i] != chosen)
            add_other(to, &ways[i], chosen && is_loop(chosen));
    }
    free(ways);
    if (reply)
        vip__reply__free_unpacked(reply, NULL);
    return code;
}
