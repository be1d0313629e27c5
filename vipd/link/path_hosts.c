/* Hosts with several paths; see path_hosts.h. */
#include "vipd/link/path_hosts.h"

#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"

#define NEVER     UINT64_MAX
#define US_NS     1000u
#define MS_NS     1000000ull
#define SECOND_NS 1000000000ull

/* Time between two ticks, and between two questions on a path in use or with a missing answer. */
#define ASK_NS (50 * MS_NS)

/* Time between two questions on a path that is silent, not proved, or not in use. */
#define SPARE_NS SECOND_NS

/* A path is silent if SILENT_ASKED questions have no answer after SILENT_NS and SILENT_RTOS
 * retransmission time-outs. Time alone does not count: answers may wait in this host's sockets. */
#define SILENT_NS    (200 * MS_NS)
#define SILENT_RTOS  3u
#define SILENT_ASKED 3u
#define RTO_FIRST_NS SECOND_NS /* the retransmission time-out until the round trip is measured */

/* Packets return to a path with a lower number when this path has answered for RETURN_NS. */
#define RETURN_NS (10 * SECOND_NS)

/* A host with one path never answers. So until a host answers, ask it STRANGER_ASKED times, then
 * once in STRANGER_NS. */
#define STRANGER_ASKED 4u
#define STRANGER_NS    (60 * SECOND_NS)
/* Questions per second to all hosts that never answered: a program can send to many addresses. */
#define STRANGER_RATE 100u

#define REMEMBERED_RTT_NS (50 * MS_NS) /* round trip of a remembered host until its first answer */

#define TELL_NS SECOND_NS /* shortest time between two reports of changed paths in the log */

/* ---- the tables -------------------------------------------------------------------------- */

static unsigned bucket_of(const struct path_hosts *hosts, const struct link_addr *addr)
{
    return (unsigned)(siphash(&hosts->key, addr->bytes, addr->len) % PATH_BUCKETS);
}

struct path_hosts *path_hosts_new(unsigned paths, unsigned source_bytes, const uint64_t seed[2])
{
    struct path_hosts *hosts = calloc(1, sizeof(*hosts));

    VIP_ASSERT(paths >= 2 && paths <= VIP_PATHS_MAX);
    if (!hosts)
        return NULL;
    hosts->paths = paths;
    hosts->source_bytes = source_bytes;
    hosts->key = (struct siphash_key){seed[0], seed[1]};
    hosts->tick_ns = NEVER;
    return hosts;
}

void path_hosts_free(struct path_hosts *hosts)
{
    if (!hosts)
        return;
    for (unsigned i = 0; i < hosts->count; i++)
        free(hosts->host[i]);
    free(hosts);
}

static struct path_host *find(const struct path_hosts *hosts, const struct link_addr *name)
{
    struct path_host *host = hosts->by_name[bucket_of(hosts, name)];

    while (host && !link_addr_equal(&host->first, name))
        host = host->next;
    return host;
}

const struct path_host *path_hosts_find(const struct path_hosts *hosts,
                                        const struct link_addr *name)
{
    return find(hosts, name);
}

/* Has the host answered this vipd on any path? A remembered host may no longer exist. */
static bool has_answered(const struct path_hosts *hosts, const struct path_host *host)
{
    bool any = false;

    for (unsigned path = 0; path < hosts->paths; path++)
        any = any || (host->way[path].proved && host->way[path].heard_ns != 0);
    return any;
}

/* Remove from the table a host that has never answered, and return its memory for another host. The
 * search begins where the last search ended, and looks at 8 hosts at most. */
static struct path_host *take_place(struct path_hosts *hosts)
{
    for (unsigned looks = 0; looks < 8; looks++) {
        struct path_host *host = hosts->host[hosts->hand++ % PATH_HOSTS_MAX], **at;

        if (has_answered(hosts, host))
            continue;
        at = &hosts->by_name[bucket_of(hosts, &host->first)];
        while (*at != host)
            at = &(*at)->next;
        *at = host->next;
        return host;
    }
    return NULL;
}

static struct path_host *add(struct path_hosts *hosts, const struct link_addr *name,
                             uint64_t now_ns)
{
    struct path_host *host, **bucket = &hosts->by_name[bucket_of(hosts, name)];

    if (hosts->count < PATH_HOSTS_MAX) {
        host = malloc(sizeof(*host));
        if (host)
            hosts->host[hosts->count++] = host;
    } else {
        host = take_place(hosts);
    }
    if (!host)
        return NULL;
    *host = (struct path_host){.first = *name, .next = *bucket, .since_ns = now_ns};
    host->way[0].addr = *name;
    *bucket = host;
    return host;
}

void path_hosts_remember(struct path_hosts *hosts, const struct link_addr *name, unsigned path,
                         const struct link_addr *addr)
{
    struct path_host *host = find(hosts, name);

    if (path == 0 || path >= hosts->paths || name->len == 0 || addr->len != name->len)
        return;
    if (!host)
        host = add(hosts, name, 0);
    if (!host || host->way[path].addr.len != 0)
        return;
    /* The host has also answered on path 0, but its round trip is no longer known. */
    host->way[0].proved = true;
    host->way[0].rtt_ns = REMEMBERED_RTT_NS;
    host->way[path].addr = *addr;
    host->way[path].remembered = true;
}

void path_hosts_heard(struct path_hosts *hosts, const struct link_addr *name, uint64_t now_ns)
{
    struct path_host *host = find(hosts, name);
    struct path_way *way = host ? &host->way[0] : NULL;

    if (!host || way->proved)
        return;
    if (way->heard_ns == 0 || now_ns - way->heard_ns > STRANGER_NS) {
        way->asked = 0;
        way->last_ns = 0;
    }
    way->heard_ns = now_ns;
}

void path_hosts_sent(struct path_hosts *hosts, struct path_host *host, uint64_t now_ns)
{
    host->sent = true;
    if (hosts->tick_ns == NEVER)
        hosts->tick_ns = now_ns;
}

struct path_host *path_hosts_to(struct path_hosts *hosts, const struct link_addr *name,
                                uint64_t now_ns)
{
    struct path_host *host = find(hosts, name);

    if (!host)
        host = add(hosts, name, now_ns);
    if (host)
        path_hosts_sent(hosts, host, now_ns);
    return host;
}

static struct path_host *owner(const struct path_hosts *hosts, unsigned path,
                               const struct link_addr *addr)
{
    struct path_host *host = hosts->by_addr[path][bucket_of(hosts, addr)];

    while (host && !link_addr_equal(&host->way[path].addr, addr))
        host = host->way[path].next;
    return host;
}

const struct path_host *path_hosts_from(const struct path_hosts *hosts, unsigned path,
                                        const struct link_addr *addr)
{
    return owner(hosts, path, addr);
}

static void move(struct path_hosts *hosts, struct path_host *host, unsigned path, enum path_why why,
                 uint64_t now_ns)
{
    struct path_moves *moves = &hosts->moves[host->current][path];

    if (moves->count++ == 0) {
        moves->host = host->first;
        moves->why = why;
    }
    hosts->moved++;
    host->current = path;
    host->since_ns = now_ns;
}

/* Forget the host's address on a path other than 0: packets no longer go to this address. */
static void forget(struct path_hosts *hosts, struct path_host *host, unsigned path, uint64_t now_ns)
{
    struct path_way *way = &host->way[path];

    if (host->current == path)
        move(hosts, host, 0, PATH_GONE, now_ns);
    hosts->learned = hosts->learned || way->proved || way->remembered;

    if (way->proved) {
        struct path_host **at = &hosts->by_addr[path][bucket_of(hosts, &way->addr)];

        while (*at != host)
            at = &(*at)->way[path].next;
        *at = way->next;
    }
    *way = (struct path_way){0};
}

/* Does the table already have PATH_HOSTS_SOURCE proved hosts of the machine with this address? */
static bool source_is_full(const struct path_hosts *hosts, const struct link_addr *name)
{
    unsigned count = 0;

    for (unsigned i = 0; i < hosts->count; i++)
        count += hosts->host[i]->way[0].proved &&
                 memcmp(hosts->host[i]->first.bytes, name->bytes, hosts->source_bytes) == 0;
    return count >= PATH_HOSTS_SOURCE;
}

/* The host has answered from its address on this path: now the address belongs to no other host. */
static void prove(struct path_hosts *hosts, struct path_host *host, unsigned path, uint64_t now_ns)
{
    struct path_way *way = &host->way[path];
    struct path_host *before, **bucket;

    way->proved = true;
    if (path == 0)
        return;
    hosts->learned = hosts->learned || !way->remembered;
    before = owner(hosts, path, &way->addr);
    if (before)
        forget(hosts, before, path, now_ns);
    bucket = &hosts->by_addr[path][bucket_of(hosts, &way->addr)];
    way->next = *bucket;
    *bucket = host;
}

/* ---- questions and answers --------------------------------------------------------------- */

static uint32_t clock_us(uint64_t now_ns)
{
    return (uint32_t)(now_ns / US_NS);
}

static void measure(struct path_way *way, uint64_t rtt_ns)
{
    uint64_t off_ns = rtt_ns > way->rtt_ns ? rtt_ns - way->rtt_ns : way->rtt_ns - rtt_ns;

    if (way->rtt_ns == 0) {
        way->rtt_ns = rtt_ns + 1;
        way->deviation_ns = rtt_ns / 2;
        return;
    }
    way->deviation_ns = (3 * way->deviation_ns + off_ns) / 4;
    way->rtt_ns = (7 * way->rtt_ns + rtt_ns) / 8 + 1;
}

/* Copy the host's addresses on its other paths from its answer. */
static void learn(struct path_hosts *hosts, struct path_host *host,
                  const struct vip_path_message *message, uint64_t now_ns)
{
    for (unsigned path = 1; path < hosts->paths; path++) {
        struct link_addr addr = {0};

        if (path <= message->count && message->addr[path - 1].len == host->first.len) {
            addr.len = host->first.len;
            memcpy(addr.bytes, message->addr[path - 1].bytes, addr.len);
        }
        if (link_addr_equal(&addr, &host->way[path].addr))
            continue;
        forget(hosts, host, path, now_ns);
        host->way[path].addr = addr;
    }
}

bool path_hosts_answered(struct path_hosts *hosts, const struct vip_path_message *message,
                         const struct link_addr *from, uint64_t now_ns)
{
    struct link_addr name = {.len = message->host.len};
    struct path_host *host;
    struct path_way *way;

    memcpy(name.bytes, message->host.bytes, name.len);
    host = message->path < hosts->paths ? find(hosts, &name) : NULL;
    if (!host)
        return false;
    way = &host->way[message->path];
    if (way->asked == 0 || message->nonce != way->nonce || !link_addr_equal(&way->addr, from))
        return false;
    if (!host->way[0].proved && source_is_full(hosts, &name))
        return true; /* packets to this host, which stays unproved, always take path 0 */
    way->asked = 0;
    measure(way, (uint64_t)(clock_us(now_ns) - message->ts) * US_NS);
    if (!way->proved)
        prove(hosts, host, message->path, now_ns);
    way->heard_ns = now_ns;
    if (!message->accepts)
        way->good_ns = 0;
    else if (way->good_ns == 0)
        way->good_ns = now_ns;
    way->silent = false;
    if (message->path == 0)
        learn(hosts, host, message, now_ns);
    return true;
}

static uint64_t draw(struct path_hosts *hosts)
{
    uint64_t nonce;

    do {
        uint64_t number = hosts->drawn++;

        nonce = siphash(&hosts->key, &number, sizeof(number));
    } while (nonce == 0);
    return nonce;
}

static void ask(struct path_hosts *hosts, struct path_host *host, unsigned path, uint64_t now_ns,
                path_send_fn *send, void *ctx)
{
    struct path_way *way = &host->way[path];
    struct vip_path_message message = {.type = VIP_PATH_PROBE, .path = (uint8_t)path};

    if (way->asked++ == 0) {
        way->nonce = draw(hosts);
        way->first_ns = now_ns;
    }
    way->last_ns = now_ns;
    hosts->probes++;
    message.nonce = way->nonce;
    message.ts = clock_us(now_ns);
    message.host.len = host->first.len;
    memcpy(message.host.bytes, host->first.bytes, host->first.len);
    send(ctx, path, &way->addr, &message);
}

/* Does STRANGER_RATE allow one more question to a host that has never answered? */
static bool stranger_may(struct path_hosts *hosts, uint64_t now_ns)
{
    if (hosts->stranger_ns < now_ns)
        hosts->stranger_ns = now_ns;
    if (hosts->stranger_ns > now_ns + SECOND_NS)
        return false;
    hosts->stranger_ns += SECOND_NS / STRANGER_RATE;
    return true;
}

/* Is it time for a question to the host on this path? */
static bool is_due(struct path_hosts *hosts, const struct path_host *host, unsigned path,
                   uint64_t now_ns)
{
    const struct path_way *way = &host->way[path];
    uint64_t gap_ns = now_ns - way->last_ns;

    if (!host->way[0].proved) /* the host has never answered */
        return gap_ns >= (way->asked < STRANGER_ASKED ? ASK_NS : STRANGER_NS) &&
               stranger_may(hosts, now_ns);
    if (way->silent || !way->proved)
        return gap_ns >= SPARE_NS || way->last_ns == 0;
    /* If an answer is missing on the current path, ask on all paths: does the host still run? */
    return gap_ns >= (way->asked > 0 || host->way[host->current].asked > 0 || path == host->current
                          ? ASK_NS
                          : SPARE_NS);
}

static bool is_silent(const struct path_way *way, uint64_t now_ns)
{
    uint64_t rto_ns = way->rtt_ns == 0 ? RTO_FIRST_NS : way->rtt_ns + 4 * way->deviation_ns;
    uint64_t limit_ns = SILENT_RTOS * rto_ns > SILENT_NS ? SILENT_RTOS * rto_ns : SILENT_NS;

    return way->asked >= SILENT_ASKED && now_ns - way->first_ns >= limit_ns;
}

/* Mark a path as silent. Packets take this path again only after a new answer on it. */
static void silence(struct path_way *way)
{
    way->silent = true;
    way->good_ns = 0;
}

bool path_way_answers(const struct path_way *way)
{
    return way->proved && way->good_ns != 0;
}

/* ---- the choice -------------------------------------------------------------------------- */

static void choose(struct path_hosts *hosts, struct path_host *host, const bool up[VIP_PATHS_MAX],
                   uint64_t now_ns)
{
    const struct path_way *current = &host->way[host->current];
    /* On path 0 each host accepts packets, even a host that has not answered. */
    bool good =
        up[host->current] && !current->silent && (host->current == 0 || path_way_answers(current));

    for (unsigned path = 0; path < hosts->paths; path++) {
        const struct path_way *way = &host->way[path];

        if (path == host->current) {
            if (good)
                return;
            continue;
        }
        if (!up[path] || !path_way_answers(way))
            continue;
        /* A path that has not answered since the current path fell silent is no better. */
        if (up[host->current] && current->silent && way->heard_ns < current->first_ns)
            continue;
        /* Leave a good path only for a path with a lower number that has answered for RETURN_NS. */
        if (good && now_ns - way->good_ns < RETURN_NS)
            continue;
        move(hosts, host, path,
             good                ? PATH_BETTER
             : up[host->current] ? PATH_SILENT
                                 : PATH_DOWN,
             now_ns);
        return;
    }
}

/* ---- the clock --------------------------------------------------------------------------- */

/* Ask one host, and choose its path. Returns whether the next tick must look at the host again. */
static bool tick_host(struct path_hosts *hosts, struct path_host *host,
                      const bool up[VIP_PATHS_MAX], uint64_t now_ns, path_send_fn *send, void *ctx)
{
    bool sent = host->sent, waits = false;

    host->sent = false;
    for (unsigned path = 0; path < hosts->paths; path++) {
        struct path_way *way = &host->way[path];

        if (way->addr.len == 0)
            continue;
        if (!up[path]) {
            if (way->proved)
                silence(way);
            continue;
        }
        if (way->proved && !way->silent && is_silent(way, now_ns))
            silence(way);
        /* Repeat a question until the host answers or the path is silent. Ask a new question only
         * if the NIC has sent to the host. */
        waits = waits || (way->proved && way->asked > 0 && !way->silent);
        if ((sent || (way->proved && way->asked > 0 && !way->silent)) &&
            is_due(hosts, host, path, now_ns)) {
            ask(hosts, host, path, now_ns, send, ctx);
            waits = true;
        }
    }
    choose(hosts, host, up, now_ns);
    return sent || waits;
}

/* Log changes of paths, at most once in TELL_NS. Returns whether there are changes to log later. */
static bool tell_moves(struct path_hosts *hosts, uint64_t now_ns, path_tell_fn *tell, void *ctx)
{
    bool soon = hosts->told_ns != 0 && now_ns - hosts->told_ns < TELL_NS, any = false;

    for (unsigned from = 0; from < hosts->paths; from++) {
        for (unsigned to = 0; to < hosts->paths; to++) {
            struct path_moves *moves = &hosts->moves[from][to];

            if (moves->count == 0)
                continue;
            any = true;
            if (soon)
                continue;
            tell(ctx, moves, from, to);
            moves->count = 0;
        }
    }
    if (any && !soon)
        hosts->told_ns = now_ns;
    return any && soon;
}

void path_hosts_tick(struct path_hosts *hosts, const bool up[VIP_PATHS_MAX], uint64_t now_ns,
                     path_send_fn *send, path_tell_fn *tell, void *ctx)
{
    bool again = false;

    for (unsigned i = 0; i < hosts->count; i++)
        again = tick_host(hosts, hosts->host[i], up, now_ns, send, ctx) || again;
    again = tell_moves(hosts, now_ns, tell, ctx) || again;
    hosts->tick_ns = again ? now_ns + ASK_NS : NEVER;
}

void path_hosts_hurry(struct path_hosts *hosts)
{
    hosts->tick_ns = 0;
}
