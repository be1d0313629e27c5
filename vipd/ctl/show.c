/*
 * Pages of the views. A page is filled row by row until the next row would not fit; the cursor then
 * says where to go on: session number in the upper bits, row of that session in the lower ones (for
 * NICs and counters the row alone).
 */
#include "vipd/ctl/show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/assert.h"
#include "proto/limits.h"
#include "proto/status.h"
#include "vipd/client/client.h"
#include "vipd/ctl/page.h"
#include "vipd/names.h"
#include "vipd/nic/nic.h"
#include "vipd/registry/registry.h"

#define CURSOR_ROW_BITS 24 /* more rows than regions or VIs of one session */

_Static_assert(VIP_REGION_MAX < (1u << CURSOR_ROW_BITS), "cursor");
_Static_assert(VIP_VI_MAX < (1u << CURSOR_ROW_BITS), "cursor");

static uint64_t cursor_of(uint64_t session, uint64_t row)
{
    return session << CURSOR_ROW_BITS | row;
}

static const char *nic_name_of(const struct vipd *vipd, const struct client *client)
{
    return vipd->nics[client->session->nic].config->name;
}

static uint64_t now_ms_since(const struct vipd *vipd, uint64_t then_ns)
{
    return (vipd_loop_now(vipd->loop) - then_ns) / 1000000;
}

/* Set an optional field of a row. */
#define SET(row, field, val)                                                                       \
    do {                                                                                           \
        (row)->has_##field = true;                                                                 \
        (row)->field = (val);                                                                      \
    } while (0)

/* ---- nic --------------------------------------------------------------------------------- */

/* What the rows of a NIC sum up over its sessions. */
struct nic_sums {
    uint64_t clients, vis, regions, region_bytes, drops, retransmits;
};

static void sum_counter(void *ctx, const struct nic_counter *counter)
{
    struct nic_sums *sums = ctx;

    if (strncmp(counter->name, "drop_", 5) == 0)
        sums->drops += counter->value;
    else if (strcmp(counter->name, "retransmits") == 0)
        sums->retransmits += counter->value;
}

static void sum_nic(const struct vipd *vipd, unsigned nic, struct nic_sums *sums)
{
    struct nic_session_view view;
    struct registry_usage usage;

    memset(sums, 0, sizeof(*sums));
    nic_counters(vipd->nics[nic].nic, sum_counter, sums);
    for (const struct client *c = vipd->clients; c; c = c->next) {
        if (!c->session || c->session->nic != nic)
            continue;
        nic_session_view(c->session->nic_session, &view);
        registry_usage(c->session->registry, &usage);
        sums->clients++;
        sums->vis += view.vis;
        sums->regions += usage.regions;
        sums->region_bytes += usage.bytes;
    }
}

static bool add_nic(struct show_page *page, const struct vipd *vipd, unsigned nic)
{
    const struct vipd_nic_config *config = vipd->nics[nic].config;
    struct link *link = (struct link *)nic_link(vipd->nics[nic].nic);
    Vip__NicRow row = VIP__NIC_ROW__INIT;
    struct link_stats stats = {0};
    struct nic_sums sums;
    char address[64], aliases[512], state[LINK_WHY_BYTES + 16];

    sum_nic(vipd, nic, &sums);
    link->class->stats(link, &stats);
    link_addr_format_as(link->kind, &link->self, address, sizeof(address));
    snprintf(state, sizeof(state), link->down ? "down (%s)" : "up%s", link->why_down);
    vipd_device_aliases(vipd->config, nic, aliases, sizeof(aliases));
    row.name = (char *)config->name;
    row.link = (char *)link_kind_name(link->kind);
    row.address = address;
    SET(&row, mtu, link->packet_bytes);
    row.state = state;
    SET(&row, vis, sums.vis);
    SET(&row, clients, sums.clients);
    SET(&row, regions, sums.regions);
    SET(&row, region_bytes, sums.region_bytes);
    SET(&row, tx_packets, stats.tx_packets);
    SET(&row, rx_packets, stats.rx_packets);
    SET(&row, tx_bytes, stats.tx_bytes);
    SET(&row, rx_bytes, stats.rx_bytes);
    row.aliases = aliases;
    row.faults = (char *)config->faults_text;
    SET(&row, retransmits, sums.retransmits);
    SET(&row, drops, sums.drops);
    return page_add(page, &row.base, PAGE_NICS);
}

static void show_nics(struct show_page *page, const struct vipd *vipd, uint64_t cursor)
{
    for (uint64_t i = cursor; i < vipd->nic_count; i++) {
        if (!add_nic(page, vipd, (unsigned)i)) {
            page_more(page, i);
            return;
        }
    }
}

/* ---- rows of sessions -------------------------------------------------------------------- */

/* A walk over the rows of all sessions, from the cursor on. */
struct walk {
    struct show_page *page;
    const struct vipd *vipd;
    const struct client *client;
    uid_t viewer;  /* who asks */
    uint64_t from; /* first row of this session that is wanted */
    uint64_t row;  /* row to come */
    bool full;     /* the page has no room for `row` */
};

/* Row `vi` of a session is its VI index, so that VIs that come and go do not shift the others. */
static bool add_vi(void *ctx, const struct nic_vi_view *view)
{
    struct walk *walk = ctx;
    const struct client *c = walk->client;
    Vip__ViRow row = VIP__VI_ROW__INIT;
    struct link_addr peer = {.len = view->peer.len};
    char peer_text[64] = "";

    if (view->peer.len > 0) {
        memcpy(peer.bytes, view->peer.bytes, view->peer.len);
        link_addr_format_as(nic_link(walk->vipd->nics[c->session->nic].nic)->kind, &peer, peer_text,
                            sizeof(peer_text));
    }
    row.nic = (char *)nic_name_of(walk->vipd, c);
    SET(&row, vi, view->vi);
    row.state = (char *)vip_vi_state_name(view->state);
    row.level = (char *)vip_level_name(view->level);
    row.peer = peer_text;
    SET(&row, send_depth, view->stats.send_depth);
    SET(&row, recv_depth, view->stats.recv_depth);
    SET(&row, tx_messages, view->stats.tx_messages);
    SET(&row, rx_messages, view->stats.rx_messages);
    SET(&row, tx_bytes, view->stats.tx_bytes);
    SET(&row, rx_bytes, view->stats.rx_bytes);
    SET(&row, retransmits, view->stats.retransmits);
    SET(&row, srtt_ns, view->stats.srtt_ns);
    SET(&row, window_bytes, view->stats.cwnd_bytes);
    SET(&row, session, c->session->id);
    SET(&row, pid, (uint64_t)c->pid);
    SET(&row, uid, c->uid);
    row.program = (char *)c->program;
    row.error = (char *)view->stats.error;
    walk->row = view->vi;
    walk->full = !page_add(walk->page, &row.base, PAGE_VIS);
    return !walk->full;
}

static void walk_vis(struct walk *walk)
{
    nic_session_vis(walk->client->session->nic_session, (uint32_t)walk->from, add_vi, walk);
}

static const char *kind_name(enum registry_kind kind)
{
    switch (kind) {
    case REGISTRY_SHARED:
        return "shared";
    case REGISTRY_ADOPTED:
        return "adopted";
    case REGISTRY_STAGED:
        return "staged";
    }
    return "?";
}

static void add_region(void *ctx, uint32_t handle, const struct registry_region *region)
{
    static const char *const rdma[] = {"-", "w", "r", "wr"};
    struct walk *walk = ctx;
    const struct client *c = walk->client;
    Vip__MemRow row = VIP__MEM_ROW__INIT;

    if (walk->full)
        return;
    if (walk->row++ < walk->from)
        return;
    row.nic = (char *)nic_name_of(walk->vipd, c);
    if (walk->viewer == 0 || walk->viewer == c->uid) {
        SET(&row, handle, handle);
        SET(&row, address, region->addr);
        SET(&row, ptag, region->attrs.ptag);
    }
    SET(&row, bytes, region->bytes);
    row.kind = (char *)kind_name(region->kind);
    row.rdma = (char *)rdma[region->attrs.enable_rdma_write + 2 * region->attrs.enable_rdma_read];
    SET(&row, session, c->session->id);
    SET(&row, pid, (uint64_t)c->pid);
    SET(&row, uid, c->uid);
    row.program = (char *)c->program;
    if (!page_add(walk->page, &row.base, PAGE_MEMS)) {
        walk->full = true;
        walk->row--;
    }
}

static void walk_regions(struct walk *walk)
{
    walk->row = 0;
    registry_each(walk->client->session->registry, add_region, walk);
}

static void walk_client(struct walk *walk)
{
    const struct client *c = walk->client;
    Vip__ClientRow row = VIP__CLIENT_ROW__INIT;
    struct nic_session_view view;
    struct registry_usage usage;

    if (walk->from > 0)
        return;
    nic_session_view(c->session->nic_session, &view);
    registry_usage(c->session->registry, &usage);
    SET(&row, session, c->session->id);
    row.nic = (char *)nic_name_of(walk->vipd, c);
    SET(&row, pid, (uint64_t)c->pid);
    SET(&row, uid, c->uid);
    row.program = (char *)c->program;
    SET(&row, vis, view.vis);
    SET(&row, cqs, view.cqs);
    SET(&row, regions, usage.regions);
    SET(&row, region_bytes, usage.bytes);
    SET(&row, age_ms, now_ms_since(walk->vipd, c->session->opened_ns));
    row.library_version = (char *)c->session->library_version;
    walk->row = 0;
    walk->full = !page_add(walk->page, &row.base, PAGE_CLIENTS);
}

/* Sessions are walked in the order of their numbers: connections may open in another order than
 * they were accepted in, so the next number is looked for. */
static const struct client *next_session(const struct vipd *vipd, uint64_t from_id)
{
    const struct client *next = NULL;

    for (const struct client *c = vipd->clients; c; c = c->next) {
        if (c->session && c->session->id >= from_id &&
            (!next || c->session->id < next->session->id))
            next = c;
    }
    return next;
}

static void show_sessions(struct show_page *page, const struct vipd *vipd, uid_t viewer,
                          uint64_t cursor, void (*walk_one)(struct walk *walk))
{
    struct walk walk = {.page = page, .vipd = vipd, .viewer = viewer};
    uint64_t id = cursor >> CURSOR_ROW_BITS;
    const struct client *client;

    walk.from = cursor & ((1u << CURSOR_ROW_BITS) - 1);
    while ((client = next_session(vipd, id)) != NULL) {
        if (client->session->id != id)
            walk.from = 0; /* the one that the cursor meant has gone */
        walk.client = client;
        walk_one(&walk);
        if (walk.full) {
            page_more(page, cursor_of(client->session->id, walk.row));
            return;
        }
        id = client->session->id + 1;
        walk.from = 0;
    }
}

/* ---- counters ---------------------------------------------------------------------------- */

struct counter_walk {
    struct show_page *page;
    char scope[VIP_NIC_NAME_BYTES + 8];
    uint64_t from, row;
    bool full;
};

static void add_counter(struct counter_walk *walk, const char *name, const char *unit,
                        const char *help, uint64_t value)
{
    Vip__Counter row = VIP__COUNTER__INIT;

    if (walk->full || walk->row++ < walk->from)
        return;
    row.scope = walk->scope;
    row.name = (char *)name;
    SET(&row, value, value);
    row.unit = (char *)unit;
    row.help = (char *)help;
    if (!page_add(walk->page, &row.base, PAGE_COUNTERS)) {
        walk->full = true;
        walk->row--;
    }
}

static void add_nic_counter(void *ctx, const struct nic_counter *c)
{
    add_counter(ctx, c->name, c->unit, c->help, c->value);
}

static void add_vipd_counters(struct counter_walk *walk, const struct vipd *vipd)
{
    const struct vipd_counters *c = &vipd->counters;
    struct vipd_loop_stats loop;
    char name[64];

    vipd_loop_stats(vipd->loop, &loop);
    add_counter(walk, "turns", "turns", "turns of the loop", loop.turns);
    add_counter(walk, "turns_busy", "turns", "turns that did something", loop.busy);
    add_counter(walk, "spins", "turns", "idle turns within the spin budget", loop.spins);
    add_counter(walk, "sleeps", "sleeps", "times the loop slept", loop.sleeps);
    add_counter(walk, "recalls", "times", "work arrived while going to sleep", loop.recalls);
    add_counter(walk, "polls", "calls", "looks at descriptors while awake", loop.polls);
    add_counter(walk, "accepted", "connections", "programs and tools that connected", c->accepted);
    add_counter(walk, "refused_limit", "connections", "over connections_per_uid", c->refused_limit);
    add_counter(walk, "accept_paused", "times", "no file descriptor was left", c->accept_paused);
    add_counter(walk, "opened", "sessions", "NICs opened by programs", c->opened);
    add_counter(walk, "open_refused", "requests", "NICs not opened", c->open_refused);
    add_counter(walk, "requests", "messages", "control requests answered", c->requests);
    add_counter(walk, "requests_failed", "messages", "with another code than success",
                c->requests_failed);
    add_counter(walk, "events", "messages", "events sent to programs", c->events);
    add_counter(walk, "events_delayed", "messages", "because their socket was full",
                c->events_delayed);
    add_counter(walk, "errors_dropped", "messages", "asynchronous errors; too many were waiting",
                c->errors_dropped);
    for (unsigned end = CLIENT_END_NONE + 1; end < CLIENT_ENDS; end++) {
        snprintf(name, sizeof(name), "ended_%s", client_end_name(end));
        add_counter(walk, name, "connections", client_end_help(end), c->ended[end]);
    }
}

static void show_counters(struct show_page *page, const struct vipd *vipd, uint64_t cursor)
{
    struct counter_walk walk = {.page = page, .scope = "vipd", .from = cursor};

    add_vipd_counters(&walk, vipd);
    for (unsigned i = 0; i < vipd->nic_count; i++) {
        snprintf(walk.scope, sizeof(walk.scope), "nic:%s", vipd->nics[i].config->name);
        nic_counters(vipd->nics[i].nic, add_nic_counter, &walk);
    }
    if (walk.full)
        page_more(page, walk.row);
}

/* ---- summary ----------------------------------------------------------------------------- */

static void show_summary(struct show_page *page, const struct vipd *vipd)
{
    Vip__Summary row = VIP__SUMMARY__INIT;
    struct vipd_loop_stats loop;

    vipd_loop_stats(vipd->loop, &loop);
    row.version = (char *)VIP_VERSION;
    SET(&row, pid, (uint64_t)getpid());
    SET(&row, uptime_ms, now_ms_since(vipd, vipd->started_ns));
    row.config = (char *)(vipd->config->path ? vipd->config->path : "");
    row.runtime_dir = (char *)vipd->runtime_dir;
    SET(&row, epoch, vipd->epoch);
    SET(&row, spin_ns, vipd->config->wait == VIPD_WAIT_BLOCK ? 0 : vipd->config->spin_ns);
    SET(&row, turns, loop.turns);
    SET(&row, sleeps, loop.sleeps);
    page_summary(page, &row);
}

int show_page_new(const struct vipd *vipd, const Vip__ShowRequest *request, uid_t viewer,
                  struct show_page **ret)
{
    struct show_page *page = page_new();
    uint64_t cursor = request->cursor;

    if (!page)
        return -ENOMEM;
    switch (request->has_what ? (int)request->what : -1) {
    case VIP__SHOW_REQUEST__WHAT__NIC:
        show_nics(page, vipd, cursor);
        break;
    case VIP__SHOW_REQUEST__WHAT__VI:
        show_sessions(page, vipd, viewer, cursor, walk_vis);
        break;
    case VIP__SHOW_REQUEST__WHAT__MEM:
        show_sessions(page, vipd, viewer, cursor, walk_regions);
        break;
    case VIP__SHOW_REQUEST__WHAT__CLIENT:
        show_sessions(page, vipd, viewer, cursor, walk_client);
        break;
    case VIP__SHOW_REQUEST__WHAT__STATS:
        show_counters(page, vipd, cursor);
        break;
    case VIP__SHOW_REQUEST__WHAT__SUMMARY:
        show_summary(page, vipd);
        break;
    default:
        show_page_free(page);
        return -EINVAL;
    }
    if (page_failed(page)) {
        show_page_free(page);
        return -ENOMEM;
    }
    *ret = page;
    return 0;
}
