/* Counters of a NIC, and views of its VIs and sessions, for vipctl. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "proto/assert.h"
#include "proto/stats.h"
#include "vipd/nic/internal.h"

const char *nic_name(const struct nic *nic)
{
    return nic->name;
}

const struct link *nic_link(const struct nic *nic)
{
    return nic->link;
}

int nic_find(struct nic *nic, const char *name, uint64_t now_ns, struct link_addr *ret)
{
    if (!nic->link->class->find)
        return -EOPNOTSUPP;
    return nic->link->class->find(nic->link, name, now_ns, ret);
}

void nic_visit_paths(const struct nic *nic, link_path_fn *visit, void *ctx)
{
    if (nic->link->class->visit_paths)
        nic->link->class->visit_paths(nic->link, visit, ctx);
}

void nic_remember_path(struct nic *nic, const struct link_addr *host, unsigned path,
                       const struct link_addr *addr)
{
    if (nic->link->class->remember_path)
        nic->link->class->remember_path(nic->link, host, path, addr);
}

int nic_host_name(struct nic *nic, const struct link_addr *host, uint64_t now_ns,
                  char ret[LINK_NAME_BYTES])
{
    if (!nic->link->class->name_of)
        return -EOPNOTSUPP;
    return nic->link->class->name_of(nic->link, host, now_ns, ret);
}

uint32_t nic_known(const struct nic *nic, uint32_t from, uint64_t now_ns, link_visit_fn *visit,
                   void *ctx)
{
    if (!nic->link->class->known)
        return UINT32_MAX;
    return nic->link->class->known(nic->link, from, now_ns, visit, ctx);
}

typedef void counter_visit(void *ctx, const struct nic_counter *c);

static void give(counter_visit *visit, void *ctx, enum vip_stat id, uint64_t value)
{
    visit(ctx, &(struct nic_counter){.id = id, .name = vip_stats[id].name, .value = value});
}

_Static_assert(VIP_STAT_NIC_drop_cm - VIP_STAT_NIC_drop_short == VIP_WIRE_CM_BAD - VIP_WIRE_SHORT &&
                   VIP_WIRE_SHORT == VIP_WIRE_OK + 1 && VIP_WIRE_CM_BAD + 1 == VIP_WIRE_VERDICTS,
               "verdicts and their counters go in step");

/* Counters of a VI, and its present values. */
static void vi_stats(const struct nic_session *session, uint16_t number, struct eng_vi_stats *ret)
{
    const struct nic_vi *vi = &session->vis[number];
    uint32_t posted, next;

    nic_vi_counts(session, number, ret);
    if (!session->recv_base)
        return;
    if (vi->conn && vi->conn->lent) {
        nic_loan_depths(vi->conn, &ret->send_depth, &ret->recv_depth);
        return;
    }
    vip_fetch_begin();
    posted = vip_load32(&vip_recv_head(session->recv_base, number)->posted);
    vip_fetch_end();
    next = vi->ring ? vi->ring_first + vi->ring_vipd + (uint32_t)vi->ring_seen[2] : vi->recv_next;
    if (posted - next <= VIP_DESC_PER_QUEUE_MAX)
        ret->recv_depth += posted - next;
}

/* Sum of the counters of all VIs, the destroyed ones included. */
static struct eng_vi_stats vi_sum(const struct nic *nic)
{
    struct eng_vi_stats sum = nic->retired, one;

    for (const struct nic_list *item = nic->sessions.next; item != &nic->sessions;
         item = item->next) {
        const struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        for (uint32_t i = 0; i < session->vi_high; i++) {
            if (!session->vis[i].used)
                continue;
            nic_vi_counts(session, (uint16_t)i, &one);
            nic_stats_add(&sum, &one);
        }
    }
    return sum;
}

/* Amounts that a NIC holds at this moment. */
struct held {
#define VIP_STAT_OF_HELD(member, name) uint64_t member;
#include "proto/stats.def"
};

/* Add up the amounts that all sessions hold, and the amounts that the NIC holds for them. */
static struct held held_sum(const struct nic *nic)
{
    struct held sum = {.cm_bytes = nic->cm_bytes,
                       .kept_packets = nic->held_used,
                       .kept_bytes = nic->held_bytes,
                       .cq_backlogs = nic->backlog_cqs};

    for (const struct nic_list *item = nic->sessions.next; item != &nic->sessions;
         item = item->next) {
        const struct nic_session *session = NIC_ITEM(item, struct nic_session, link);
        struct registry_usage usage;

        registry_usage(session->registry, &usage);
        sum.sessions++;
        sum.vis += session->vi_count;
        sum.cqs += session->cq_count;
        sum.discriminators += session->wait_count;
        sum.connects += session->connects;
        sum.regions += usage.regions;
        sum.region_bytes += usage.bytes;
        sum.mapped_bytes += usage.mapped_bytes;
        sum.mapped_files += usage.mapped_files;
        sum.ptags += usage.ptags;
        sum.segs_bytes += session->kept_bytes;
    }
    for (uint32_t i = 0; i < nic->conns_used; i++)
        sum.conns += nic->conns[i]->state != NIC_CONN_FREE;
    return sum;
}

void nic_gap(struct nic *nic, uint64_t gap_ns)
{
    vip_hist_add(&nic->gaps, gap_ns);
}

const struct vip_hist *nic_hist(const struct nic *nic, enum vip_hist_id id)
{
    switch (id) {
    case VIP_HIST_post_to_wire:
        return &nic->latency.post_to_wire;
    case VIP_HIST_wire_to_ack:
        return &nic->latency.wire_to_ack;
    case VIP_HIST_post_to_complete:
        return &nic->latency.post_to_complete;
    case VIP_HIST_turn_gap:
        return &nic->gaps;
    case VIP_HISTS:
        break;
    }
    VIP_ASSERT(false);
    return NULL;
}

static void hist_visit(enum vip_hist_id id, const struct vip_hist *hist, counter_visit *visit,
                       void *ctx)
{
    const uint64_t value[VIP_HIST_SHOWNS] = {
        [VIP_HIST_SHOWN_COUNT] = hist->count,
        [VIP_HIST_SHOWN_SUM] = hist->sum_ns,
        [VIP_HIST_SHOWN_P50] = vip_hist_quantile_ns(hist, 0.5),
        [VIP_HIST_SHOWN_P90] = vip_hist_quantile_ns(hist, 0.9),
        [VIP_HIST_SHOWN_P99] = vip_hist_quantile_ns(hist, 0.99),
        [VIP_HIST_SHOWN_P999] = vip_hist_quantile_ns(hist, 0.999),
        [VIP_HIST_SHOWN_MAX] = hist->max_ns,
    };

    for (unsigned i = 0; i < VIP_HIST_SHOWNS; i++) {
        enum vip_stat stat = vip_hists[id].first + i;

        give(visit, ctx, stat, value[i]);
    }
}

void nic_counters(const struct nic *nic, void (*visit)(void *ctx, const struct nic_counter *c),
                  void *ctx)
{
    const struct nic_counts *counts = &nic->counts;
    const struct eng_vi_stats vis = vi_sum(nic);
    const struct held held = held_sum(nic);
    struct link_stats link = {0};
    struct cm_stats cm = {0};

    nic->link->class->stats(nic->link, &link);
    cm_stats(nic->cm, &cm);
#define GIVE(name, value)              give(visit, ctx, VIP_STAT_NIC_##name, value)
#define VIP_STAT_OF_LINK(member, name) GIVE(name, link.member);
#define VIP_STAT_OF_NIC(member, name)  GIVE(name, counts->member);
#define VIP_STAT_OF_WIRE(member, name) GIVE(name, counts->rx_verdict[VIP_WIRE_##member]);
#define VIP_STAT_OF_VI(member, name)   GIVE(name, vis.member);
#define VIP_STAT_OF_CM(member, name)   GIVE(name, cm.member);
#define VIP_STAT_OF_HELD(member, name) GIVE(name, held.member);
#include "proto/stats.def"
#undef GIVE
    for (enum vip_hist_id id = 0; id < VIP_HISTS; id++)
        hist_visit(id, nic_hist(nic, id), visit, ctx);
}

/* ---- sessions -------------------------------------------------------------------------- */

void nic_session_vis(const struct nic_session *session, uint32_t from,
                     bool (*visit)(void *ctx, const struct nic_vi_view *view), void *ctx)
{
    for (uint32_t i = from; i < session->vi_high; i++) {
        const struct nic_vi *vi = &session->vis[i];
        struct nic_vi_view view = {.vi = (uint16_t)i};

        if (!vi->used)
            continue;
        view.generation = vi->generation;
        view.state = eng_vi_state(session->eng, (uint16_t)i);
        view.level = vi->attrs.level;
        view.ptag = vi->ptag;
        view.binding = nic_conn_binding(vi->conn);
        if (vi->conn &&
            (vi->conn->state == NIC_CONN_ESTABLISHED || vi->conn->state == NIC_CONN_REBINDING)) {
            view.peer.len = vi->conn->to.len;
            memcpy(view.peer.bytes, vi->conn->to.bytes, sizeof(view.peer.bytes));
            view.peer_disc_len = vi->conn->remote_disc_len;
        }
        vi_stats(session, (uint16_t)i, &view.stats);
        view.latency = nic_vi_latency(session, (uint16_t)i);
        if (!visit(ctx, &view))
            return;
    }
}

void nic_session_view(const struct nic_session *session, struct nic_session_view *ret)
{
    *ret = (struct nic_session_view){.vis = session->vi_count,
                                     .cqs = session->cq_count,
                                     .waits = session->wait_count + session->meets,
                                     .connects = session->connects,
                                     .loans = nic_session_loans(session)};
}
