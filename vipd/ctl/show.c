/*
 * Pages of the views. A view fills a page with rows until a row does not fit. The cursor names this
 * row. For rows of sessions: the session number in the upper bits, the row of this session in the
 * lower bits. For NICs, counters and keys: the number of the row.
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
#include "vipd/ctl/parts.h"
#include "vipd/names.h"
#include "vipd/config_print.h"
#include "vipd/nic/share.h"
#include "vipd/nic/nic.h"
#include "vipd/registry/registry.h"
#include "vipd/reload.h"

#define CURSOR_ROW_BITS 24 /* a session has fewer than 2^24 regions or VIs */

_Static_assert(VIP_REGION_MAX < (1u << CURSOR_ROW_BITS), "cursor");
_Static_assert(VIP_VI_MAX < (1u << CURSOR_ROW_BITS), "cursor");

static uint64_t cursor_of(uint64_t session, uint64_t row)
{
    return session << CURSOR_ROW_BITS | row;
}

static uint64_t now_ms_since(const struct vipd *vipd, uint64_t then_ns)
{
    return (vipd_loop_now(vipd->loop) - then_ns) / 1000000;
}

/* ---- nic --------------------------------------------------------------------------------- */

/* Sums over the sessions of a NIC, for its row. */
struct nic_sums {
    uint64_t clients, vis, regions, region_bytes, drops, retransmits, rebound;
};

static void sum_counter(void *ctx, const struct nic_counter *counter)
{
    struct nic_sums *sums = ctx;

    if (strncmp(counter->name, "drop_", 5) == 0)
        sums->drops += counter->value;
    else if (strcmp(counter->name, "retransmits") == 0)
        sums->retransmits += counter->value;
    else if (counter->id == VIP_STAT_NIC_conns_rebound)
        sums->rebound = counter->value;
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
    struct link_path_view paths;
    struct nic_sums sums;
    char address[64], aliases[512], state[LINK_WHY_BYTES + 16];

    sum_nic(vipd, nic, &sums);
    link->class->stats(link, &stats);
    link_addr_format_as(link->kind, &link->self, address, sizeof(address));
    snprintf(state, sizeof(state), link->down ? "down (%s)" : "up%s", link->why_down);
    vipd_device_aliases(vipd->config, nic, aliases, sizeof(aliases));
    row.name = (char *)config->name;
    row.link = (char *)(link->how ? link->how : link_kind_name(link->kind));
    row.without = link->without;
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
    SET(&row, rebound, sums.rebound);
    SET(&row, since_ns, vipd_loop_now(vipd->loop) - vipd->started_ns);
    link_see_path(link, &link->self, &paths);
    if (paths.paths > 1)
        SET(&row, paths, paths.paths);
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

#define SET_HIST(row, name, hist)                                                                  \
    do {                                                                                           \
        if ((hist)->count == 0)                                                                    \
            break;                                                                                 \
        SET(row, name##_p50_ns, vip_hist_quantile_ns(hist, 0.5));                                  \
        SET(row, name##_p99_ns, vip_hist_quantile_ns(hist, 0.99));                                 \
        SET(row, name##_max_ns, (hist)->max_ns);                                                   \
    } while (0)

static void set_latency(Vip__ViRow *row, const struct eng_latency *latency)
{
    SET_HIST(row, post_to_wire, &latency->post_to_wire);
    SET_HIST(row, wire_to_ack, &latency->wire_to_ack);
    SET_HIST(row, post_to_complete, &latency->post_to_complete);
}

static void set_binding(Vip__ViRow *row, const struct nic_binding_view *binding, uint64_t now_ns)
{
    static const char *const waits[] = {
        [NIC_WAIT_PROGRAM] = "program", [NIC_WAIT_ANSWER] = "answer", [NIC_WAIT_PEER] = "peer"};

    if (binding->since_ns == 0)
        return;
    SET(row, rebound, binding->rebound);
    SET(row, since_ns, now_ns > binding->since_ns ? now_ns - binding->since_ns : 0);
    if (binding->wait == NIC_WAIT_NONE)
        return;
    row->state = (char *)"rebinding";
    row->waits_for = (char *)waits[binding->wait];
    if (binding->until_ns > 0)
        SET(row, left_ns, binding->until_ns > now_ns ? binding->until_ns - now_ns : 0);
    if (binding->told_ns > 0)
        SET(row, told_ns, binding->told_ns);
}

static void set_path(Vip__ViRow *row, const struct walk *walk, const struct cm_host *peer)
{
    const struct link *link = nic_link(walk->vipd->nics[walk->client->session->nic].nic);
    struct link_addr addr = {.len = peer->len};
    struct link_path_view paths;

    if (peer->len == 0 || peer->len > sizeof(addr.bytes))
        return;
    memcpy(addr.bytes, peer->bytes, peer->len);
    link_see_path(link, &addr, &paths);
    if (paths.paths > 1)
        SET(row, path, paths.path);
}

/* The number of a VI's row is the index of the VI, so that rows keep their numbers when other VIs
 * are made or destroyed. */
static bool add_vi(void *ctx, const struct nic_vi_view *view)
{
    struct walk *walk = ctx;
    const struct client *c = walk->client;
    Vip__ViRow row = VIP__VI_ROW__INIT;

    row.nic = (char *)show_nic_name(walk->vipd, c);
    SET(&row, vi, view->vi);
    row.state = (char *)vip_vi_state_name(view->state);
    set_binding(&row, &view->binding, vipd_loop_now(walk->vipd->loop));
    row.level = (char *)vip_level_name(view->level);
    row.peer = (char *)show_peer_text(walk, &view->peer);
    set_path(&row, walk, &view->peer);
    SET(&row, send_depth, view->stats.send_depth);
    SET(&row, recv_depth, view->stats.recv_depth);
    SET(&row, tx_messages, view->stats.tx_messages);
    SET(&row, rx_messages, view->stats.rx_messages);
    SET(&row, tx_bytes, view->stats.tx_bytes);
    SET(&row, rx_bytes, view->stats.rx_bytes);
    SET(&row, retransmits, view->stats.retransmits);
    SET(&row, srtt_ns, view->stats.srtt_ns);
    SET(&row, window_bytes, view->stats.cwnd_bytes);
    SET(&row, inflight_bytes, view->stats.inflight_bytes);
    SET(&row, tx_packets, view->stats.tx_packets);
    SET(&row, rx_packets, view->stats.rx_packets);
    SET(&row, timeouts, view->stats.timeouts);
    SET(&row, lost, view->stats.lost);
    SET(&row, recvq_empty, view->stats.recvq_empty);
    if (view->latency)
        set_latency(&row, view->latency);
    SET_OWNER(&row, walk);
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
    row.nic = (char *)show_nic_name(walk->vipd, c);
    if (show_may_see(walk->viewer, c->uid)) {
        SET(&row, handle, handle);
        SET(&row, address, region->addr);
        SET(&row, ptag, region->attrs.ptag);
    }
    SET(&row, bytes, region->bytes);
    row.kind = (char *)kind_name(region->kind);
    row.rdma = (char *)rdma[region->attrs.enable_rdma_write + 2 * region->attrs.enable_rdma_read];
    SET_OWNER(&row, walk);
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
    row.nic = (char *)show_nic_name(walk->vipd, c);
    SET_OWNER(&row, walk);
    SET(&row, vis, view.vis);
    SET(&row, cqs, view.cqs);
    SET(&row, regions, usage.regions);
    SET(&row, region_bytes, usage.bytes);
    SET(&row, age_ms, now_ms_since(walk->vipd, c->session->opened_ns));
    row.library_version = (char *)c->session->library_version;
    SET(&row, shared_ns, nic_session_time_ns(c->session->nic_session));
    SET(&row, due_ns, nic_session_due_ns(c->session->nic_session));
    SET(&row, slots, nic_session_slots(c->session->nic_session));
    walk->row = 0;
    walk->full = !page_add(walk->page, &row.base, PAGE_CLIENTS);
}

/* The session with the lowest number >= from_id. The list of clients is in the order in which vipd
 * accepted them, not in the order of session numbers, so look at all clients. */
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

void show_sessions(struct show_page *page, const struct vipd *vipd, uid_t viewer, uint64_t cursor,
                   void (*walk_one)(struct walk *walk))
{
    struct walk walk = {.page = page, .vipd = vipd, .viewer = viewer};
    uint64_t id = cursor >> CURSOR_ROW_BITS;
    const struct client *client;

    walk.from = cursor & ((1u << CURSOR_ROW_BITS) - 1);
    while ((client = next_session(vipd, id)) != NULL) {
        if (client->session->id != id)
            walk.from = 0; /* the session of the cursor has ended */
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

/* ---- configuration ----------------------------------------------------------------------- */

struct config_walk {
    struct show_page *page;
    const struct vipd *vipd;
    uint64_t row;
    const char *section, *key; /* the key for which look_pending looks for a pending value */
    const char *pending;
};

static void look_pending(void *ctx, const struct vipd_change *change)
{
    struct config_walk *walk = ctx;

    if (strcmp(change->section, walk->section) == 0 && strcmp(change->key, walk->key) == 0)
        walk->pending = change->to;
}

static bool add_config(void *ctx, const struct vipd_config_value *value)
{
    struct config_walk *walk = ctx;
    Vip__ConfigRow row = VIP__CONFIG_ROW__INIT;

    walk->section = value->section;
    walk->key = value->key;
    walk->pending = NULL;
    vipd_reload_pending(walk->vipd, look_pending, walk);
    row.section = (char *)value->section;
    row.key = (char *)value->key;
    row.value = (char *)value->value;
    row.default_ = (char *)value->standard;
    row.reload = (char *)value->reload;
    row.pending = (char *)walk->pending;
    if (value->line > 0) {
        row.file = (char *)value->file;
        SET(&row, line, value->line);
    }
    if (!page_add(walk->page, &row.base, PAGE_CONFIGS)) {
        page_more(walk->page, walk->row);
        return false;
    }
    walk->row++;
    return true;
}

static void show_config(struct show_page *page, const struct vipd *vipd, uint64_t cursor)
{
    struct config_walk walk = {.page = page, .vipd = vipd, .row = cursor};

    vipd_config_each(vipd->config, cursor > UINT32_MAX ? UINT32_MAX : (unsigned)cursor, add_config,
                     &walk);
}

/* ---- summary ----------------------------------------------------------------------------- */

static void count_change(void *ctx, const struct vipd_change *change)
{
    (void)change;
    ++*(uint64_t *)ctx;
}

static uint64_t count_pending(const struct vipd *vipd)
{
    uint64_t count = 0;

    vipd_reload_pending(vipd, count_change, &count);
    return count;
}

static uint64_t count_sessions(const struct vipd *vipd)
{
    uint64_t count = 0;

    for (const struct client *c = vipd->clients; c; c = c->next)
        count += c->session != NULL;
    return count;
}

static void show_summary(struct show_page *page, const struct vipd *vipd)
{
    Vip__Summary row = VIP__SUMMARY__INIT;
    struct vipd_loop_stats loop;

    vipd_loop_stats(vipd->loop, &loop);
    row.version = (char *)VIP_VERSION;
    SET(&row, pid, (uint64_t)getpid());
    SET(&row, uptime_ms, now_ms_since(vipd, vipd->started_ns));
    row.config = (char *)(vipd->config->path ? vipd->config->path : "");
    row.config_file = (char *)vipd->source.file;
    row.runtime_dir = (char *)vipd->runtime_dir;
    SET(&row, epoch, vipd->epoch);
    SET(&row, spin_ns, vipd->config->wait == VIPD_WAIT_BLOCK ? 0 : vipd->config->spin_ns);
    SET(&row, turns, loop.turns);
    SET(&row, sleeps, loop.sleeps);
    SET(&row, draining, vipd->draining);
    SET(&row, errors, vipd->history ? vipd->history->error_count : 0);
    SET(&row, pending, count_pending(vipd));
    SET(&row, sessions, count_sessions(vipd));
    page_summary(page, &row);
}

/* Fill the page with rows of the requested view. false: there is no such view. */
static bool fill_page(struct show_page *page, const struct vipd *vipd,
                      const Vip__ShowRequest *request, uid_t viewer)
{
    uint64_t cursor = request->cursor;

    switch (request->has_what ? (int)request->what : -1) {
    case VIP__SHOW_REQUEST__WHAT__NIC:
        show_nics(page, vipd, cursor);
        return true;
    case VIP__SHOW_REQUEST__WHAT__VI:
        show_sessions(page, vipd, viewer, cursor, walk_vis);
        return true;
    case VIP__SHOW_REQUEST__WHAT__MEM:
        show_sessions(page, vipd, viewer, cursor, walk_regions);
        return true;
    case VIP__SHOW_REQUEST__WHAT__CLIENT:
        show_sessions(page, vipd, viewer, cursor, walk_client);
        return true;
    case VIP__SHOW_REQUEST__WHAT__STATS:
        show_stats(page, vipd, cursor);
        return true;
    case VIP__SHOW_REQUEST__WHAT__CONFIG:
        show_config(page, vipd, cursor);
        return true;
    case VIP__SHOW_REQUEST__WHAT__SUMMARY:
        show_summary(page, vipd);
        return true;
    case VIP__SHOW_REQUEST__WHAT__CQ:
        show_sessions(page, vipd, viewer, cursor, show_walk_cqs);
        return true;
    case VIP__SHOW_REQUEST__WHAT__PTAG:
        show_sessions(page, vipd, viewer, cursor, show_walk_ptags);
        return true;
    case VIP__SHOW_REQUEST__WHAT__CONN:
        show_sessions(page, vipd, viewer, cursor, show_walk_conns);
        return true;
    case VIP__SHOW_REQUEST__WHAT__LISTEN:
        show_sessions(page, vipd, viewer, cursor, show_walk_waits);
        return true;
    case VIP__SHOW_REQUEST__WHAT__PEER:
        show_peers(page, vipd, viewer, cursor);
        return true;
    case VIP__SHOW_REQUEST__WHAT__ERROR:
        show_errors(page, vipd, viewer, cursor);
        return true;
    case VIP__SHOW_REQUEST__WHAT__LIMIT:
        show_limits(page, vipd, cursor);
        return true;
    case VIP__SHOW_REQUEST__WHAT__EVENT:
        show_events(page, vipd, viewer, cursor);
        return true;
    default:
        return false;
    }
}

int show_page_new(const struct vipd *vipd, const Vip__ShowRequest *request, uid_t viewer,
                  struct show_page **ret)
{
    struct show_page *page = page_new();

    if (!page)
        return -ENOMEM;
    if (!fill_page(page, vipd, request, viewer)) {
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
