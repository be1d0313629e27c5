/*
 * Counters of a NIC, and views of its VIs and sessions, for vipctl.
 */
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

/* A statistic and the offset of its counter. */
struct counter_row {
    enum vip_stat id;
    size_t offset;
};

#define ROW(type, member, as)                                                                      \
    {                                                                                              \
        .id = VIP_STAT_NIC_##as, .offset = offsetof(struct type, member)                           \
    }

static const struct counter_row link_rows[] = {
    ROW(link_stats, tx_packets, tx_packets),
    ROW(link_stats, tx_bytes, tx_bytes),
    ROW(link_stats, tx_syscalls, tx_syscalls),
    ROW(link_stats, tx_again, tx_again),
    ROW(link_stats, tx_errors, tx_errors),
    ROW(link_stats, rx_packets, rx_packets),
    ROW(link_stats, rx_bytes, rx_bytes),
    ROW(link_stats, rx_syscalls, rx_syscalls),
    ROW(link_stats, rx_truncated, rx_truncated),
    ROW(link_stats, rx_errors, rx_errors),
    ROW(link_stats, tx_down, tx_down),
    ROW(link_stats, drop_frame_short, drop_frame_short),
    ROW(link_stats, drop_frame_mac, drop_frame_mac),
    ROW(link_stats, drop_frame_vlan, drop_frame_vlan),
    ROW(link_stats, drop_frame_ethertype, drop_frame_ethertype),
    ROW(link_stats, drop_frame_header, drop_frame_header),
    ROW(link_stats, drop_frame_length, drop_frame_length),
    ROW(link_stats, drop_ring_full, drop_ring_full),
    ROW(link_stats, tx_solicits, tx_solicits),
    ROW(link_stats, tx_announces, tx_announces),
    ROW(link_stats, rx_solicits, rx_solicits),
    ROW(link_stats, rx_announces, rx_announces),
    ROW(link_stats, drop_peer_length, drop_peer_length),
    ROW(link_stats, drop_peer_crc, drop_peer_crc),
    ROW(link_stats, drop_peer_proof, drop_peer_proof),
    ROW(link_stats, drop_peer_field, drop_peer_field),
    ROW(link_stats, drop_peer_unasked, drop_peer_unasked),
    ROW(link_stats, drop_peer_rate, drop_peer_rate),
    ROW(link_stats, drop_peer_dispute, drop_peer_dispute),
    ROW(link_stats, xdp_tx, xdp_tx),
    ROW(link_stats, xdp_rx, xdp_rx),
    ROW(link_stats, state_changes, state_changes),
    ROW(link_stats, fault_lost, fault_lost),
    ROW(link_stats, fault_duplicated, fault_duplicated),
    ROW(link_stats, fault_reordered, fault_reordered),
    ROW(link_stats, fault_delayed, fault_delayed),
    ROW(link_stats, fault_corrupted, fault_corrupted),
};

static const struct counter_row nic_rows[] = {
    ROW(nic_counts, turns, turns),
    ROW(nic_counts, rx_data, rx_data),
    ROW(nic_counts, rx_cm, rx_cm),
    ROW(nic_counts, drop_unknown_conn, drop_unknown_conn),
    ROW(nic_counts, drop_src_epoch, drop_src_epoch),
    ROW(nic_counts, drop_dst_epoch, drop_dst_epoch),
    ROW(nic_counts, drop_source, drop_source),
    ROW(nic_counts, drop_early, drop_early),
    ROW(nic_counts, drop_cm_budget, drop_cm_budget),
    ROW(nic_counts, drop_held_full, drop_held_full),
    ROW(nic_counts, drop_parked_again, drop_parked_again),
    ROW(nic_counts, drop_park_full, drop_park_full),
    ROW(nic_counts, rx_duplicate, rx_duplicate),
    ROW(nic_counts, rx_stale, rx_stale),
    ROW(nic_counts, rx_engine_full, rx_engine_full),
    ROW(nic_counts, rx_held, rx_held),
    ROW(nic_counts, rx_replayed, rx_replayed),
    ROW(nic_counts, tx_data, tx_data),
    ROW(nic_counts, tx_cm, tx_cm),
    ROW(nic_counts, tx_cm_lost, tx_cm_lost),
    ROW(nic_counts, tx_full, tx_full),
    ROW(nic_counts, tx_gone, tx_gone),
    ROW(nic_counts, tx_unresolved, tx_unresolved),
    ROW(nic_counts, loop_packets, loop_packets),
    ROW(nic_counts, loop_bytes, loop_bytes),
    ROW(nic_counts, loop_cm, loop_cm),
    ROW(nic_counts, loop_cm_lost, loop_cm_lost),
    ROW(nic_counts, loop_lost, loop_lost),
    ROW(nic_counts, posts, posts),
    ROW(nic_counts, post_bad_kind, post_bad_kind),
    ROW(nic_counts, post_bad_vi, post_bad_vi),
    ROW(nic_counts, post_bad_gen, post_bad_gen),
    ROW(nic_counts, post_bad_segs, post_bad_segs),
    ROW(nic_counts, post_stray, post_stray),
    ROW(nic_counts, sessions_broken, sessions_broken),
    ROW(nic_counts, segs_refused, segs_refused),
    ROW(nic_counts, throttled, throttled),
    ROW(nic_counts, errors_untold, errors_untold),
    ROW(nic_counts, turns_cut, turns_cut),
    ROW(nic_counts, shared_time, shared_time),
    ROW(nic_counts, control_time, control_time),
    ROW(nic_counts, completions, completions),
    ROW(nic_counts, cq_entries, cq_entries),
    ROW(nic_counts, cq_backlogged, cq_backlogged),
    ROW(nic_counts, cq_lost, cq_lost),
    ROW(nic_counts, wakes, wakes),
    ROW(nic_counts, cq_signals, cq_signals),
    ROW(nic_counts, rings, rings),
    ROW(nic_counts, ring_wakes, ring_wakes),
    ROW(nic_counts, ring_breaks, ring_breaks),
    ROW(nic_counts, places, places),
    ROW(nic_counts, places_spoiled, places_spoiled),
    ROW(nic_counts, places_late, places_late),
    ROW(nic_counts, parked, parked),
    ROW(nic_counts, conns_opened, conns_opened),
    ROW(nic_counts, conns_lost, conns_lost),
    ROW(nic_counts, conns_broken, conns_broken),
};

static const struct counter_row vi_rows[] = {
    ROW(eng_vi_stats, tx_bytes, vi_tx_bytes),       ROW(eng_vi_stats, rx_bytes, vi_rx_bytes),
    ROW(eng_vi_stats, tx_messages, vi_tx_messages), ROW(eng_vi_stats, rx_messages, vi_rx_messages),
    ROW(eng_vi_stats, retransmits, retransmits),    ROW(eng_vi_stats, timeouts, timeouts),
    ROW(eng_vi_stats, duplicates, vi_duplicates),   ROW(eng_vi_stats, held, vi_held),
    ROW(eng_vi_stats, acks_sent, acks_sent),        ROW(eng_vi_stats, acks_invented, acks_invented),
    ROW(eng_vi_stats, recvq_empty, recvq_empty),    ROW(eng_vi_stats, lost, vi_lost),
    ROW(eng_vi_stats, spurious, vi_spurious),       ROW(eng_vi_stats, mtu_cuts, vi_mtu_cuts),
    ROW(eng_vi_stats, tx_packets, vi_tx_packets),   ROW(eng_vi_stats, rx_packets, vi_rx_packets),
};

static const struct counter_row cm_rows[] = {
    ROW(cm_stats, requests_sent, cm_requests_sent),
    ROW(cm_stats, requests_received, cm_requests_received),
    ROW(cm_stats, accepts, cm_accepts),
    ROW(cm_stats, rejects, cm_rejects),
    ROW(cm_stats, no_match, cm_no_match),
    ROW(cm_stats, cancels, cm_cancels),
    ROW(cm_stats, timeouts, cm_timeouts),
    ROW(cm_stats, closes_sent, cm_closes_sent),
    ROW(cm_stats, closes_received, cm_closes_received),
    ROW(cm_stats, resets_sent, cm_resets_sent),
    ROW(cm_stats, resets_received, cm_resets_received),
    ROW(cm_stats, resets_suppressed, cm_resets_suppressed),
    ROW(cm_stats, retransmits, cm_retransmits),
    ROW(cm_stats, duplicates, cm_duplicates),
    ROW(cm_stats, malformed, cm_malformed),
    ROW(cm_stats, wrong_epoch, cm_wrong_epoch),
    ROW(cm_stats, unexpected, cm_unexpected),
    ROW(cm_stats, refused_memory, cm_refused_memory),
    ROW(cm_stats, backlog_full, cm_backlog_full),
    ROW(cm_stats, refused_owner, cm_refused_owner),
    ROW(cm_stats, peers_lost, cm_peers_lost),
    ROW(cm_stats, cookies_sent, cm_cookies_sent),
    ROW(cm_stats, cookies_suppressed, cm_cookies_suppressed),
    ROW(cm_stats, cookies_received, cm_cookies_received),
    ROW(cm_stats, source_limited, cm_source_limited),
    ROW(cm_stats, client_limited, cm_client_limited),
    ROW(cm_stats, wrong_source, cm_wrong_source),
    ROW(cm_stats, pings_sent, cm_pings_sent),
};

typedef void counter_visit(void *ctx, const struct nic_counter *c);

static void rows_visit(const struct counter_row *rows, size_t count, const void *base,
                       counter_visit *visit, void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        struct nic_counter counter = {.id = rows[i].id, .name = vip_stats[rows[i].id].name};

        memcpy(&counter.value, (const char *)base + rows[i].offset, sizeof(counter.value));
        visit(ctx, &counter);
    }
}

_Static_assert(VIP_STAT_NIC_drop_cm - VIP_STAT_NIC_drop_short == VIP_WIRE_CM_BAD - VIP_WIRE_SHORT &&
                   VIP_WIRE_SHORT == VIP_WIRE_OK + 1 && VIP_WIRE_CM_BAD + 1 == VIP_WIRE_VERDICTS,
               "verdicts and their counters go in step");

#define VISIT(rows, base) rows_visit(rows, sizeof(rows) / sizeof((rows)[0]), base, visit, ctx)

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
            nic_vi_stats(session, (uint16_t)i, &one);
            nic_stats_add(&sum, &one);
        }
    }
    return sum;
}

/* Sums over the sessions of a NIC. */
struct held {
    uint64_t sessions, vis, cqs, waits, connects;
    uint64_t regions, region_bytes, mapped_bytes, mapped_files, ptags, segs_bytes;
};

static struct held sessions_sum(const struct nic *nic)
{
    struct held sum = {0};

    for (const struct nic_list *item = nic->sessions.next; item != &nic->sessions;
         item = item->next) {
        const struct nic_session *session = NIC_ITEM(item, struct nic_session, link);
        struct registry_usage usage;

        registry_usage(session->registry, &usage);
        sum.sessions++;
        sum.vis += session->vi_count;
        sum.cqs += session->cq_count;
        sum.waits += session->wait_count;
        sum.connects += session->connects;
        sum.regions += usage.regions;
        sum.region_bytes += usage.bytes;
        sum.mapped_bytes += usage.mapped_bytes;
        sum.mapped_files += usage.mapped_files;
        sum.ptags += usage.ptags;
        sum.segs_bytes += session->segs_bytes;
    }
    return sum;
}

static void gauges_visit(const struct nic *nic, const struct link_stats *link,
                         const struct cm_stats *cm, counter_visit *visit, void *ctx)
{
    const struct held sum = sessions_sum(nic);
    uint64_t conns = 0;

    for (uint32_t i = 0; i < nic->conns_used; i++)
        conns += nic->conns[i]->state != NIC_CONN_FREE;

    const struct {
        enum vip_stat id;
        uint64_t value;
    } gauges[] = {
        {VIP_STAT_NIC_sessions, sum.sessions},
        {VIP_STAT_NIC_vis, sum.vis},
        {VIP_STAT_NIC_cqs, sum.cqs},
        {VIP_STAT_NIC_ptags, sum.ptags},
        {VIP_STAT_NIC_regions, sum.regions},
        {VIP_STAT_NIC_region_bytes, sum.region_bytes},
        {VIP_STAT_NIC_mapped_files, sum.mapped_files},
        {VIP_STAT_NIC_mapped_bytes, sum.mapped_bytes},
        {VIP_STAT_NIC_segs_bytes, sum.segs_bytes},
        {VIP_STAT_NIC_conns, conns},
        {VIP_STAT_NIC_connects, sum.connects},
        {VIP_STAT_NIC_discriminators, sum.waits},
        {VIP_STAT_NIC_cm_bytes, nic->cm_bytes},
        {VIP_STAT_NIC_cm_waiters, cm->waiters},
        {VIP_STAT_NIC_cm_pending, cm->pending},
        {VIP_STAT_NIC_cm_peers, cm->peers},
        {VIP_STAT_NIC_kept_packets, nic->held_used},
        {VIP_STAT_NIC_kept_bytes, nic->held_bytes},
        {VIP_STAT_NIC_rx_spare_bytes, link->rx_spare_bytes},
        {VIP_STAT_NIC_cq_backlogs, nic->backlog_cqs},
    };

    for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
        visit(ctx,
              &(struct nic_counter){gauges[i].id, vip_stats[gauges[i].id].name, gauges[i].value});
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

        visit(ctx, &(struct nic_counter){stat, vip_stats[stat].name, value[i]});
    }
}

void nic_counters(const struct nic *nic, void (*visit)(void *ctx, const struct nic_counter *c),
                  void *ctx)
{
    struct eng_vi_stats vis = vi_sum(nic);
    struct link_stats link = {0};
    struct cm_stats cm = {0};

    nic->link->class->stats(nic->link, &link);
    cm_stats(nic->cm, &cm);
    VISIT(link_rows, &link);
    VISIT(nic_rows, &nic->counts);
    for (unsigned i = VIP_WIRE_OK + 1; i < VIP_WIRE_VERDICTS; i++) {
        enum vip_stat id = VIP_STAT_NIC_drop_short + (i - (VIP_WIRE_OK + 1));
        struct nic_counter counter = {id, vip_stats[id].name, nic->counts.rx_verdict[i]};

        visit(ctx, &counter);
    }
    VISIT(vi_rows, &vis);
    VISIT(cm_rows, &cm);
    gauges_visit(nic, &link, &cm, visit, ctx);
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
        if (vi->conn && vi->conn->state == NIC_CONN_ESTABLISHED) {
            view.peer.len = vi->conn->to.len;
            memcpy(view.peer.bytes, vi->conn->to.bytes, sizeof(view.peer.bytes));
            view.peer_disc_len = vi->conn->remote_disc_len;
        }
        nic_vi_stats(session, (uint16_t)i, &view.stats);
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
                                     .connects = session->connects};
}
