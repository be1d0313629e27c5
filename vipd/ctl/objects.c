/* Views of completion queues, protection tags, connections, waits, peers and limits. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vipd/quota.h"
#include "vipd/config_listen.h"
#include "vipd/ctl/page.h"
#include "vipd/ctl/parts.h"
#include "vipd/names.h"
#include "vipd/nic/objects.h"
#include "vipd/registry/registry.h"

#define SILENT_AFTER 2 /* a peer is "silent" after this many keepalive intervals without a packet */

static void format_host(const struct vipd *vipd, unsigned nic, const struct cm_host *host,
                        char *buf, size_t buf_bytes)
{
    struct link_addr addr = {.len = host->len};

    buf[0] = '\0';
    if (host->len == 0 || host->len > sizeof(addr.bytes))
        return;
    memcpy(addr.bytes, host->bytes, host->len);
    link_addr_format_as(nic_link(vipd->nics[nic].nic)->kind, &addr, buf, buf_bytes);
}

/* ---- rows of a session ------------------------------------------------------------------- */

static bool add_cq(void *ctx, const struct nic_cq_view *view)
{
    struct walk *walk = ctx;
    Vip__CqRow row = VIP__CQ_ROW__INIT;

    row.nic = (char *)show_nic_name(walk->vipd, walk->client);
    SET(&row, cq, view->cq);
    SET(&row, written, view->written);
    SET(&row, waiting, view->waiting);
    SET(&row, bound, view->bound);
    SET(&row, has_fd, view->has_fd);
    SET_OWNER(&row, walk);
    walk->row = view->cq;
    walk->full = !page_add(walk->page, &row.base, PAGE_CQS);
    return !walk->full;
}

void show_walk_cqs(struct walk *walk)
{
    nic_session_cqs(walk->client->session->nic_session, (uint32_t)walk->from, add_cq, walk);
}

static void add_ptag(void *ctx, uint32_t ptag, uint32_t users)
{
    struct walk *walk = ctx;
    Vip__PtagRow row = VIP__PTAG_ROW__INIT;

    if (walk->full || walk->row++ < walk->from)
        return;
    row.nic = (char *)show_nic_name(walk->vipd, walk->client);
    if (show_may_see(walk->viewer, walk->client->uid))
        SET(&row, ptag, ptag);
    SET(&row, users, users);
    SET_OWNER(&row, walk);
    if (!page_add(walk->page, &row.base, PAGE_PTAGS)) {
        walk->full = true;
        walk->row--;
    }
}

void show_walk_ptags(struct walk *walk)
{
    walk->row = 0;
    registry_ptags_each(walk->client->session->registry, add_ptag, walk);
}

/* Bytes of a text with the reasons of take-backs. */
#define BACKS_BYTES 96

static void set_data_path(Vip__ConnRow *row, const struct nic_conn_view *view,
                          char backs[BACKS_BYTES])
{
    static const char *const names[] = {[NIC_CARRIER_VIPD] = "vipd",
                                        [NIC_CARRIER_LOAN] = "loan",
                                        [NIC_CARRIER_REVOKED] = "revoked",
                                        [NIC_CARRIER_RING] = "ring"};
    const struct nic_loan_view *loan = &view->loan;

    row->data_path = (char *)names[view->carrier];
    row->not_lent = (char *)loan->refused;
    if (loan->lent == 0)
        return;
    SET(row, lent, loan->lent);
    snprintf(backs, BACKS_BYTES, "data %u, timer %u, peer %u, given back %u", loan->data,
             loan->timer, loan->peer, loan->gone);
    row->taken_back = backs;
}

static bool add_conn(void *ctx, const struct nic_conn_view *view)
{
    struct walk *walk = ctx;
    Vip__ConnRow row = VIP__CONN_ROW__INIT;
    char backs[BACKS_BYTES];

    row.nic = (char *)show_nic_name(walk->vipd, walk->client);
    SET(&row, vi, view->vi);
    row.state = (char *)view->state;
    row.peer = (char *)show_peer_text(walk, &view->peer);
    row.path = view->loop ? "local" : "link";
    set_data_path(&row, view, backs);
    SET_OWNER(&row, walk);
    walk->row = view->vi;
    walk->full = !page_add(walk->page, &row.base, PAGE_CONNS);
    return !walk->full;
}

void show_walk_conns(struct walk *walk)
{
    nic_session_conns(walk->client->session->nic_session, (uint32_t)walk->from, add_conn, walk);
}

static bool add_wait(void *ctx, const struct nic_waiter_view *view)
{
    struct walk *walk = ctx;
    Vip__ListenRow row = VIP__LISTEN_ROW__INIT;
    char disc[DISC_TEXT_BYTES];

    config_disc_text(view->disc, view->disc_len, disc);
    row.nic = (char *)show_nic_name(walk->vipd, walk->client);
    row.kind = (char *)view->kind;
    row.discriminator = show_may_see(walk->viewer, walk->client->uid) ? disc : (char *)SHOW_HIDDEN;
    if (strcmp(view->kind, "listener") == 0)
        SET(&row, delivered, view->delivered);
    SET_OWNER(&row, walk);
    walk->full = !page_add(walk->page, &row.base, PAGE_LISTENS);
    walk->row += !walk->full;
    return !walk->full;
}

void show_walk_waits(struct walk *walk)
{
    walk->row = walk->from;
    nic_session_waits(walk->client->session->nic_session, (uint32_t)walk->from, add_wait, walk);
}

/* ---- peers ------------------------------------------------------------------------------- */

/* The cursor has the NIC in its upper 32 bits, the index of the peer in its lower 32 bits. */
struct peer_walk {
    struct show_page *page;
    const struct vipd *vipd;
    unsigned nic;
    bool full;
};

/* The state of a peer at now_ns. */
static const char *peer_state(const struct vipd *vipd, const struct nic_peer_view *view,
                              uint64_t now_ns)
{
    if (view->cm.self)
        return "self";
    if (view->cm.dead)
        return view->cm.away_until_ns > now_ns ? "away" : "lost";
    return view->cm.connections > 0 &&
                   view->heard_ago_ns > SILENT_AFTER * vipd->config->keepalive_ns
               ? "silent"
               : "up";
}

/* Bytes of a text with the numbers of all paths. */
#define PATHS_BYTES (2 * VIP_PATHS_MAX + 1)

/* Write the numbers of the paths: "1 3" if bits 0 and 2 are set. */
static void list_paths(unsigned bits, char ret[PATHS_BYTES])
{
    size_t used = 0;

    ret[0] = '\0';
    for (unsigned i = 0; i < VIP_PATHS_MAX; i++) {
        if (bits & 1u << i)
            used += (size_t)snprintf(ret + used, PATHS_BYTES - used, "%s%u", used > 0 ? " " : "",
                                     i + 1);
    }
}

static bool add_peer(void *ctx, const struct nic_peer_view *view)
{
    struct peer_walk *walk = ctx;
    const struct vipd *vipd = walk->vipd;
    const struct link *link = nic_link(vipd->nics[walk->nic].nic);
    struct link_addr addr = {.len = view->cm.host.len};
    Vip__PeerRow row = VIP__PEER_ROW__INIT;
    uint64_t now_ns = vipd_loop_now(vipd->loop);
    char peer[64], answer[PATHS_BYTES];
    struct link_path_view paths;

    format_host(vipd, walk->nic, &view->cm.host, peer, sizeof(peer));
    memcpy(addr.bytes, view->cm.host.bytes, view->cm.host.len);
    row.nic = (char *)vipd->nics[walk->nic].config->name;
    row.peer = peer;
    row.name = (char *)vipd_host_name(vipd->config, link->kind, &addr);
    row.state = (char *)peer_state(vipd, view, now_ns);
    SET(&row, connections, view->cm.connections);
    SET(&row, heard_ago_ns, view->heard_ago_ns);
    SET(&row, tx_messages, view->stats.tx_messages);
    SET(&row, rx_messages, view->stats.rx_messages);
    SET(&row, tx_bytes, view->stats.tx_bytes);
    SET(&row, rx_bytes, view->stats.rx_bytes);
    SET(&row, retransmits, view->stats.retransmits);
    SET(&row, timeouts, view->stats.timeouts);
    SET(&row, srtt_ns, view->stats.srtt_ns);
    SET(&row, srtt_max_ns, view->srtt_max_ns);
    SET(&row, window_bytes, view->stats.cwnd_bytes);
    SET(&row, inflight_bytes, view->stats.inflight_bytes);
    SET(&row, lost, view->stats.lost);
    SET(&row, epoch, view->cm.epoch);
    SET(&row, rebound, view->rebound);
    SET(&row, since_ns, now_ns > view->cm.since_ns ? now_ns - view->cm.since_ns : 0);
    if (view->cm.dead && view->cm.away_until_ns > now_ns) {
        SET(&row, left_ns, view->cm.away_until_ns - now_ns);
        if (view->cm.told_ns > 0)
            SET(&row, told_ns, view->cm.told_ns);
    }
    link_see_path(link, &addr, &paths);
    if (paths.paths > 1) {
        SET(&row, path, paths.path);
        if (paths.since_ns > 0)
            SET(&row, path_since_ns, now_ns > paths.since_ns ? now_ns - paths.since_ns : 0);
        list_paths(paths.answer, answer);
        row.paths_answer = answer;
    }
    walk->full = !page_add(walk->page, &row.base, PAGE_PEERS);
    return !walk->full;
}

void show_peers(struct show_page *page, const struct vipd *vipd, uid_t viewer, uint64_t cursor)
{
    struct peer_walk walk = {.page = page, .vipd = vipd};
    const uint32_t *uid = show_may_see(viewer, 0) ? NULL : &viewer;
    uint32_t from = (uint32_t)cursor;

    for (uint64_t n = cursor >> 32; n < vipd->nic_count; n++) {
        walk.nic = (unsigned)n;
        from = nic_peer_views(vipd->nics[n].nic, uid, from, vipd_loop_now(vipd->loop), add_peer,
                              &walk);
        if (walk.full) {
            page_more(page, n << 32 | from);
            return;
        }
        from = 0;
    }
}

/* ---- limits ------------------------------------------------------------------------------ */

struct limit_walk {
    struct show_page *page;
    uid_t uid;
    uint64_t from, row;
    bool full;
};

static void add_limit(void *ctx, const struct quota_view *view)
{
    struct limit_walk *walk = ctx;
    Vip__LimitRow row = VIP__LIMIT_ROW__INIT;

    if (walk->full || walk->row++ < walk->from)
        return;
    SET(&row, uid, walk->uid);
    row.limit = (char *)view->key;
    SET(&row, used, view->used);
    SET(&row, max, view->max);
    row.noun = (char *)view->noun;
    if (!page_add(walk->page, &row.base, PAGE_LIMITS)) {
        walk->full = true;
        walk->row--;
    }
}

/* Is `client` the first connection of its user in the list of clients? */
static bool first_of_user(const struct vipd *vipd, const struct client *client)
{
    for (const struct client *c = vipd->clients; c != client; c = c->next)
        if (c->uid == client->uid)
            return false;
    return true;
}

void show_limits(struct show_page *page, const struct vipd *vipd, uint64_t cursor)
{
    struct limit_walk walk = {.page = page, .from = cursor};

    for (const struct client *c = vipd->clients; c; c = c->next) {
        if (!first_of_user(vipd, c))
            continue;
        walk.uid = c->uid;
        quota_each(vipd, c->uid, add_limit, &walk);
    }
    if (walk.full)
        page_more(page, walk.row);
}
