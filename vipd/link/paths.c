/* Several links as one; see paths.h. */
#include "vipd/link/paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "proto/assert.h"
#include "vipd/link/kinds.h"
#include "vipd/link/path_hosts.h"

/* If no packet has come by a path for QUIET_NS, recv looks at the path only once in LOOK_NS. This
 * saves system calls. */
#define QUIET_NS 1000000u
#define LOOK_NS  20000u

/* Largest number of packets that one call gives to a path. */
#define BATCH 64u

/* The highest byte of the address of a packet's buffer holds the number of the packet's path. */
#define BUFFER_SHIFT 56

struct path {
    struct link *link;
    uint64_t heard_ns, looked_ns; /* times of the last packet and of recv's last look */
    uint32_t changes;             /* link->changes at the last call of follow() */
};

struct paths {
    struct link link;
    int epoll; /* the descriptors of all paths */
    unsigned count;
    struct path path[VIP_PATHS_MAX];
    struct path_hosts *hosts;
    struct path_host *last;  /* the host of the last packet to send; NULL: none */
    struct link_addr heard;  /* the host of the last packet that came by path 0 */
    unsigned first;          /* the path that the next recv looks at first */
    struct link_stats stats; /* without the counters of the paths' links */
    link_paths_learned_fn *learned;
    void *learned_ctx;
    uint64_t now_ns; /* time of the present call of send or recv */
};

static const struct link_class paths_class;

/* ---- buffers ------------------------------------------------------------------------------ */

static void *put_path(void *buffer, unsigned path)
{
    uintptr_t at = (uintptr_t)buffer;

    VIP_ASSERT(at >> BUFFER_SHIFT == 0);
    return (void *)(at | (uintptr_t)path << BUFFER_SHIFT);
}

static void paths_release(struct link *link, void *buffer)
{
    struct paths *paths = (struct paths *)link;
    uintptr_t at = (uintptr_t)buffer;
    struct link *inner = paths->path[at >> BUFFER_SHIFT].link;

    inner->class->release(inner, (void *)(at & (((uintptr_t)1 << BUFFER_SHIFT) - 1)));
}

/* ---- state -------------------------------------------------------------------------------- */

/* Write "path 2 (no carrier on eth1)" for each path that is down. If `missing` is true, also write
 * what each path that is up lacks (`without` of struct link). */
static void say_down(const struct paths *paths, bool missing, char *ret, size_t ret_bytes)
{
    size_t used = 0;

    ret[0] = '\0';
    for (unsigned i = 0; i < paths->count && used < ret_bytes; i++) {
        const struct link *inner = paths->path[i].link;

        const char *what = inner->down ? inner->why_down : missing ? inner->without : "";

        if (inner->down || what[0] != '\0')
            used += (size_t)snprintf(ret + used, ret_bytes - used, "%spath %u (%s)",
                                     used > 0 ? ", " : "", i + 1, what);
    }
}

/* If a path's state has changed, compute the state of the joined link. */
static void follow(struct paths *paths)
{
    struct link *link = &paths->link;
    uint32_t packet_bytes = UINT32_MAX, window_bytes = UINT32_MAX;
    bool changed = false;

    for (unsigned i = 0; i < paths->count; i++) {
        changed = changed || paths->path[i].changes != paths->path[i].link->changes;
        paths->path[i].changes = paths->path[i].link->changes;
    }
    if (!changed)
        return;
    link->down = true;
    for (unsigned i = 0; i < paths->count; i++) {
        const struct link *inner = paths->path[i].link;

        link->down = link->down && inner->down;
        if (inner->packet_bytes > 0 && inner->packet_bytes < packet_bytes)
            packet_bytes = inner->packet_bytes;
        if (inner->window_bytes > 0 && inner->window_bytes < window_bytes)
            window_bytes = inner->window_bytes;
    }
    link->self = paths->path[0].link->self;
    link->how = paths->path[0].link->how;
    link->packet_bytes = packet_bytes == UINT32_MAX ? 0 : packet_bytes;
    link->window_bytes = window_bytes == UINT32_MAX ? 0 : window_bytes;
    say_down(paths, true, link->without, sizeof(link->without));
    link->why_down[0] = '\0';
    if (link->down)
        say_down(paths, false, link->why_down, sizeof(link->why_down));
    link->changes++;
    path_hosts_hurry(paths->hosts);
}

/* ---- messages between hosts ---------------------------------------------------------------- */

static void send_message(void *ctx, unsigned path, const struct link_addr *to,
                         const struct vip_path_message *message)
{
    struct paths *paths = ctx;
    struct link *inner = paths->path[path].link;
    uint8_t bytes[VIP_WIRE_PATH_BYTES];
    struct iovec iov = {bytes, sizeof(bytes)};
    struct link_tx tx = {to, &iov, 1, sizeof(bytes)};

    vip_wire_put_path(bytes, message);
    /* If the link has no room, the message is lost. A lost question is repeated later. */
    (void)inner->class->send(inner, &tx, 1, paths->now_ns);
}

static void put_addr(struct vip_path_addr *ret, const struct link_addr *addr)
{
    ret->len = addr->len;
    memcpy(ret->bytes, addr->bytes, addr->len);
}

/* Answer a question on the path on which it came. false: it is not for this path of this host. */
static bool answer(struct paths *paths, unsigned path, const struct link_addr *from,
                   const struct vip_path_message *question)
{
    const struct link_addr *self = &paths->path[0].link->self;
    struct vip_path_message echo = *question;

    if (question->path != path || question->host.len != self->len ||
        memcmp(question->host.bytes, self->bytes, self->len) != 0)
        return false;
    echo.type = VIP_PATH_ECHO;
    echo.accepts = path == 0 || path_hosts_from(paths->hosts, path, from);
    for (unsigned i = 1; path == 0 && i < paths->count; i++)
        put_addr(&echo.addr[echo.count++], &paths->path[i].link->self);
    send_message(paths, path, from, &echo);
    return true;
}

static void take_message(struct paths *paths, unsigned path, const struct link_rx *rx)
{
    struct vip_path_message message;
    bool good = vip_wire_get_path(rx->bytes, rx->len, &message);

    if (good && message.type == VIP_PATH_PROBE)
        good = answer(paths, path, rx->from, &message);
    else if (good)
        good = message.path == path &&
               path_hosts_answered(paths->hosts, &message, rx->from, paths->now_ns);
    paths->stats.drop_path_message += !good;
}

static void tell(void *ctx, const struct path_moves *moves, unsigned from, unsigned to)
{
    static const char *const why[PATH_WHYS] = {
        [PATH_SILENT] = "no answer by that path",
        [PATH_DOWN] = "that path is down here",
        [PATH_GONE] = "that host does not have it any more",
        [PATH_BETTER] = "it has answered for 10 s",
    };
    const struct paths *paths = ctx;
    char text[LINK_TEXT_BYTES], others[32] = "";

    link_addr_format_as(paths->link.kind, &moves->host, text, sizeof(text));
    if (moves->count > 1)
        snprintf(others, sizeof(others), " and %u other%s", moves->count - 1,
                 moves->count > 2 ? "s" : "");
    link_say("packets to %s%s take path %u in place of path %u (%s)", text, others, to + 1,
             from + 1, why[moves->why]);
}

static void tick(struct paths *paths)
{
    bool up[VIP_PATHS_MAX] = {false};

    for (unsigned i = 0; i < paths->count; i++)
        up[i] = !paths->path[i].link->down;
    path_hosts_tick(paths->hosts, up, paths->now_ns, send_message, tell, paths);
}

/* ---- class -------------------------------------------------------------------------------- */

/* Returns the path of a packet, and sets *to to the host's address on this path. */
static unsigned route(struct paths *paths, const struct link_addr **to)
{
    struct path_host *host = paths->last;

    if (!host || !link_addr_equal(&host->first, *to))
        host = path_hosts_to(paths->hosts, *to, paths->now_ns);
    else
        path_hosts_sent(paths->hosts, host, paths->now_ns);
    paths->last = host;
    if (!host || host->current == 0)
        return 0;
    *to = &host->way[host->current].addr;
    return host->current;
}

static unsigned paths_send(struct link *link, const struct link_tx *packets, unsigned count,
                           uint64_t now_ns)
{
    struct paths *paths = (struct paths *)link;
    struct link_tx batch[BATCH];
    unsigned sent = 0;

    paths->now_ns = now_ns;
    while (sent < count) {
        unsigned n = 0, path = 0, taken;

        /* Collect packets until one takes another path. */
        while (n < BATCH && sent + n < count) {
            const struct link_addr *to = packets[sent + n].to;
            unsigned next = route(paths, &to);

            if (n > 0 && next != path)
                break;
            path = next;
            batch[n] = packets[sent + n];
            batch[n++].to = to;
        }
        taken = paths->path[path].link->class->send(paths->path[path].link, batch, n, now_ns);
        sent += taken;
        if (taken < n)
            break;
    }
    return sent;
}

/* A packet came on path 0, and the previous packet on path 0 came from another host. */
static void hear(struct paths *paths, const struct link_addr *from)
{
    paths->heard = *from;
    path_hosts_heard(paths->hosts, from, paths->now_ns);
}

/* Keep the packets that are for the NIC, in order. Returns their number. */
static unsigned sift(struct paths *paths, unsigned path, struct link_rx *packets, unsigned count)
{
    struct link *inner = paths->path[path].link;
    unsigned kept = 0;

    for (unsigned i = 0; i < count; i++) {
        struct link_rx *rx = &packets[i];
        const struct path_host *host = NULL;

        if (vip_wire_is_path(rx->bytes, rx->len)) {
            take_message(paths, path, rx);
        } else if (path == 0 || (host = path_hosts_from(paths->hosts, path, rx->from))) {
            if (path == 0 && !link_addr_equal(rx->from, &paths->heard))
                hear(paths, rx->from);
            packets[kept] = *rx;
            packets[kept].buffer = put_path(rx->buffer, path);
            if (host)
                packets[kept].from = &host->first;
            kept++;
            continue;
        } else {
            paths->stats.drop_path++;
        }
        inner->class->release(inner, rx->buffer);
    }
    return kept;
}

static unsigned paths_recv(struct link *link, struct link_rx *packets, unsigned count,
                           uint64_t now_ns)
{
    struct paths *paths = (struct paths *)link;
    unsigned kept = 0;

    paths->now_ns = now_ns;
    link->behind = false;
    for (unsigned k = 0; k < paths->count; k++) {
        unsigned i = (paths->first + k) % paths->count, n;
        struct path *path = &paths->path[i];

        if (now_ns - path->heard_ns > QUIET_NS && now_ns - path->looked_ns < LOOK_NS)
            continue;
        if (kept == count) {
            link->behind = true; /* recv has not looked at this path */
            break;
        }
        path->looked_ns = now_ns;
        n = path->link->class->recv(path->link, packets + kept, count - kept, now_ns);
        link->behind = link->behind || path->link->behind;
        if (n == 0)
            continue;
        path->heard_ns = now_ns;
        kept += sift(paths, i, packets + kept, n);
    }
    /* The next call begins with the next path, so a flood on one path does not block others. */
    paths->first = (paths->first + 1) % paths->count;
    follow(paths);
    if (now_ns >= paths->hosts->tick_ns)
        tick(paths);
    if (paths->hosts->learned) {
        paths->hosts->learned = false;
        if (paths->learned)
            paths->learned(paths->learned_ctx);
    }
    return kept;
}

static int paths_fd(const struct link *link)
{
    return ((const struct paths *)link)->epoll;
}

static uint64_t paths_deadline(const struct link *link)
{
    const struct paths *paths = (const struct paths *)link;
    uint64_t earliest_ns = paths->hosts->tick_ns;

    for (unsigned i = 0; i < paths->count; i++) {
        const struct link *inner = paths->path[i].link;
        uint64_t deadline_ns = inner->class->deadline(inner);

        if (deadline_ns < earliest_ns)
            earliest_ns = deadline_ns;
    }
    return earliest_ns;
}

static void paths_stats(const struct link *link, struct link_stats *ret)
{
    const struct paths *paths = (const struct paths *)link;

    *ret = paths->stats;
    ret->path_probes = paths->hosts->probes;
    ret->path_moves = paths->hosts->moved;
    for (unsigned i = 0; i < paths->count; i++) {
        const struct link *inner = paths->path[i].link;
        struct link_stats stats;

        inner->class->stats(inner, &stats);
#define VIP_STAT_OF_LINK(member, name) ret->member += stats.member;
#include "proto/stats.def"
    }
}

/* Ask on the segment of path 0, because programs know a host by its address on path 0. */
static int paths_find(struct link *link, const char *name, uint64_t now_ns, struct link_addr *ret)
{
    struct link *first = ((struct paths *)link)->path[0].link;

    return first->class->find ? first->class->find(first, name, now_ns, ret) : -EOPNOTSUPP;
}

static int paths_name_of(struct link *link, const struct link_addr *host, uint64_t now_ns,
                         char ret[LINK_NAME_BYTES])
{
    struct link *first = ((struct paths *)link)->path[0].link;

    return first->class->name_of ? first->class->name_of(first, host, now_ns, ret) : -EOPNOTSUPP;
}

static uint32_t paths_known(const struct link *link, uint32_t from, uint64_t now_ns,
                            link_visit_fn *visit, void *ctx)
{
    const struct link *first = ((const struct paths *)link)->path[0].link;

    return first->class->known ? first->class->known(first, from, now_ns, visit, ctx) : UINT32_MAX;
}

static void paths_see_path(const struct link *link, const struct link_addr *addr,
                           struct link_path_view *ret)
{
    const struct paths *paths = (const struct paths *)link;
    const struct path_host *host = path_hosts_find(paths->hosts, addr);

    ret->paths = paths->count;
    ret->path = 1;
    if (!host)
        return;
    ret->path = host->current + 1;
    ret->since_ns = host->since_ns;
    for (unsigned i = 0; i < paths->count; i++)
        if (path_way_answers(&host->way[i]))
            ret->answer |= 1u << i;
}

static void paths_visit_paths(const struct link *link, link_path_fn *visit, void *ctx)
{
    const struct paths *paths = (const struct paths *)link;

    for (unsigned i = 0; i < paths->hosts->count; i++) {
        const struct path_host *host = paths->hosts->host[i];

        for (unsigned path = 1; path < paths->count; path++)
            if (host->way[path].proved || host->way[path].remembered)
                visit(ctx, &host->first, path, &host->way[path].addr);
    }
}

static void paths_remember_path(struct link *link, const struct link_addr *host, unsigned path,
                                const struct link_addr *addr)
{
    path_hosts_remember(((struct paths *)link)->hosts, host, path, addr);
}

static void paths_close(struct link *link)
{
    struct paths *paths = (struct paths *)link;

    for (unsigned i = 0; i < paths->count; i++)
        paths->path[i].link->class->close(paths->path[i].link);
    path_hosts_free(paths->hosts);
    close(paths->epoll);
    free(paths);
}

static const struct link_class paths_class = {
    .name = "paths",
    .send = paths_send,
    .recv = paths_recv,
    .release = paths_release,
    .fd = paths_fd,
    .deadline = paths_deadline,
    .stats = paths_stats,
    .find = paths_find,
    .name_of = paths_name_of,
    .known = paths_known,
    .see_path = paths_see_path,
    .visit_paths = paths_visit_paths,
    .remember_path = paths_remember_path,
    .close = paths_close,
};

/* Watch all paths by one descriptor. Outcomes: 0; negative errno. */
static int watch(struct paths *paths)
{
    paths->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (paths->epoll < 0)
        return -errno;
    for (unsigned i = 0; i < paths->count; i++) {
        const struct link *inner = paths->path[i].link;
        struct epoll_event event = {.events = EPOLLIN};
        int fd = inner->class->fd(inner);

        if (fd >= 0 && epoll_ctl(paths->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
            return -errno;
    }
    return 0;
}

int link_paths_join(struct link *const *inner, unsigned count, const uint64_t seed[2],
                    link_paths_learned_fn *learned, void *ctx, struct link **ret)
{
    struct paths *paths = calloc(1, sizeof(*paths));
    int r = -ENOMEM;

    VIP_ASSERT(count >= 2 && count <= VIP_PATHS_MAX);
    if (!paths)
        return -ENOMEM;
    paths->link = *inner[0];
    paths->link.class = &paths_class;
    paths->count = count;
    paths->epoll = -1;
    paths->learned = learned;
    paths->learned_ctx = ctx;
    for (unsigned i = 0; i < count; i++)
        paths->path[i] = (struct path){.link = inner[i], .changes = inner[i]->changes - 1};
    paths->hosts = path_hosts_new(count, link_kind_row(inner[0]->kind)->source_bytes, seed);
    if (paths->hosts)
        r = watch(paths);
    if (r < 0) {
        path_hosts_free(paths->hosts);
        if (paths->epoll >= 0)
            close(paths->epoll);
        free(paths);
        return r;
    }
    follow(paths);
    *ret = &paths->link;
    return 0;
}
