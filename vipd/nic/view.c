/*
 * Looking inside: counters with their explanations, and views of VIs and sessions for vipctl.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

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

void nic_stats_add(struct eng_vi_stats *sum, const struct eng_vi_stats *one)
{
    sum->tx_packets += one->tx_packets;
    sum->rx_packets += one->rx_packets;
    sum->tx_bytes += one->tx_bytes;
    sum->rx_bytes += one->rx_bytes;
    sum->tx_messages += one->tx_messages;
    sum->rx_messages += one->rx_messages;
    sum->retransmits += one->retransmits;
    sum->timeouts += one->timeouts;
    sum->duplicates += one->duplicates;
    sum->held += one->held;
    sum->acks_sent += one->acks_sent;
    sum->recvq_empty += one->recvq_empty;
}

/* Where a counter lives and what it means. */
struct counter_row {
    const char *name, *unit, *help;
    size_t offset;
};

#define ROW(type, member, as, unit_, help_)                                                        \
    {                                                                                              \
        .name = (as), .unit = (unit_), .help = (help_), .offset = offsetof(struct type, member)    \
    }

static const struct counter_row link_rows[] = {
    ROW(link_stats, tx_packets, "tx_packets", "packets", "given to the medium"),
    ROW(link_stats, tx_bytes, "tx_bytes", "bytes", "in packets given to the medium"),
    ROW(link_stats, tx_syscalls, "tx_syscalls", "calls", "system calls that sent"),
    ROW(link_stats, tx_again, "tx_again", "calls", "the medium was full"),
    ROW(link_stats, tx_errors, "tx_errors", "packets", "refused by the medium"),
    ROW(link_stats, rx_packets, "rx_packets", "packets", "taken from the medium"),
    ROW(link_stats, rx_bytes, "rx_bytes", "bytes", "in packets taken from the medium"),
    ROW(link_stats, rx_syscalls, "rx_syscalls", "calls", "system calls that received"),
    ROW(link_stats, rx_truncated, "rx_truncated", "packets", "larger than any packet may be"),
    ROW(link_stats, rx_errors, "rx_errors", "calls", "receiving failed"),
    ROW(link_stats, tx_down, "tx_down", "packets", "lost because the link was down"),
    ROW(link_stats, drop_frame_short, "drop_frame_short", "frames", "shorter than their headers"),
    ROW(link_stats, drop_frame_mac, "drop_frame_mac", "frames",
        "to another card, or from an address that no card can have"),
    ROW(link_stats, drop_frame_vlan, "drop_frame_vlan", "frames", "of a foreign VLAN"),
    ROW(link_stats, drop_frame_ethertype, "drop_frame_ethertype", "frames",
        "with a foreign EtherType"),
    ROW(link_stats, drop_frame_header, "drop_frame_header", "frames",
        "with our EtherType but without our header"),
    ROW(link_stats, drop_frame_length, "drop_frame_length", "frames",
        "that announce more bytes than they have, or none"),
    ROW(link_stats, drop_ring_full, "drop_ring_full", "frames",
        "that came while the receive ring was full"),
    ROW(link_stats, tx_solicits, "tx_solicits", "messages", "that asked who has a name"),
    ROW(link_stats, tx_announces, "tx_announces", "messages", "that told our name to who asked"),
    ROW(link_stats, rx_solicits, "rx_solicits", "messages", "in which others asked for a name"),
    ROW(link_stats, rx_announces, "rx_announces", "messages", "in which others told their name"),
    ROW(link_stats, drop_peer_length, "drop_peer_length", "messages",
        "of peers, shorter or longer than they say"),
    ROW(link_stats, drop_peer_crc, "drop_peer_crc", "messages", "of peers with a bad checksum"),
    ROW(link_stats, drop_peer_proof, "drop_peer_proof", "messages",
        "of peers with another scheme of authentication, or a false proof"),
    ROW(link_stats, drop_peer_field, "drop_peer_field", "messages",
        "of peers with something that is no name"),
    ROW(link_stats, drop_peer_unasked, "drop_peer_unasked", "messages",
        "that told a name nobody here had asked for"),
    ROW(link_stats, drop_peer_rate, "drop_peer_rate", "messages",
        "that asked for our name too often"),
    ROW(link_stats, drop_peer_dispute, "drop_peer_dispute", "messages",
        "of a second card that claimed a name"),
    ROW(link_stats, state_changes, "state_changes", "times",
        "the interface went up or down, or changed its address or MTU"),
    ROW(link_stats, fault_lost, "fault_lost", "packets", "lost on purpose (faults)"),
    ROW(link_stats, fault_duplicated, "fault_duplicated", "packets", "doubled on purpose"),
    ROW(link_stats, fault_reordered, "fault_reordered", "packets", "overtaken on purpose"),
    ROW(link_stats, fault_delayed, "fault_delayed", "packets", "delayed on purpose"),
    ROW(link_stats, fault_corrupted, "fault_corrupted", "packets", "changed on purpose"),
};

static const struct counter_row nic_rows[] = {
    ROW(nic_counts, turns, "turns", "turns", "rounds of work"),
    ROW(nic_counts, rx_data, "rx_data", "packets", "data packets with a good checksum"),
    ROW(nic_counts, rx_cm, "rx_cm", "packets", "connection-management packets"),
    ROW(nic_counts, drop_unknown_conn, "drop_unknown_conn", "packets",
        "for a connection that is not known (any more)"),
    ROW(nic_counts, drop_src_epoch, "drop_src_epoch", "packets",
        "from another life of the peer's vipd"),
    ROW(nic_counts, drop_dst_epoch, "drop_dst_epoch", "packets", "for another life of this vipd"),
    ROW(nic_counts, drop_source, "drop_source", "packets",
        "from another address than the connection's"),
    ROW(nic_counts, drop_early, "drop_early", "packets",
        "for a connection that is not established yet"),
    ROW(nic_counts, drop_cm_budget, "drop_cm_budget", "packets",
        "connection management, too many in one turn"),
    ROW(nic_counts, drop_held_full, "drop_held_full", "packets",
        "ahead of their turn when too many were kept"),
    ROW(nic_counts, drop_parked_again, "drop_parked_again", "packets",
        "sent again while their bytes wait for the library"),
    ROW(nic_counts, drop_park_full, "drop_park_full", "packets",
        "into staged memory when too many were waiting for the library"),
    ROW(nic_counts, rx_duplicate, "rx_duplicate", "packets", "seen before"),
    ROW(nic_counts, rx_stale, "rx_stale", "packets", "with impossible numbers"),
    ROW(nic_counts, rx_engine_full, "rx_engine_full", "packets",
        "ahead of their turn when the VI held too many"),
    ROW(nic_counts, rx_held, "rx_held", "packets", "kept because they came ahead of their turn"),
    ROW(nic_counts, rx_replayed, "rx_replayed", "packets", "kept ones whose turn came"),
    ROW(nic_counts, tx_data, "tx_data", "packets", "data packets given to the link"),
    ROW(nic_counts, tx_cm, "tx_cm", "packets", "connection-management packets"),
    ROW(nic_counts, tx_cm_lost, "tx_cm_lost", "packets", "of these, refused by a full link"),
    ROW(nic_counts, tx_full, "tx_full", "times", "the link was full and a batch had to wait"),
    ROW(nic_counts, tx_gone, "tx_gone", "packets", "whose connection ended before they left"),
    ROW(nic_counts, tx_unresolved, "tx_unresolved", "packets",
        "whose memory was deregistered before they left"),
    ROW(nic_counts, loop_packets, "loop_packets", "packets", "between applications of this host"),
    ROW(nic_counts, loop_bytes, "loop_bytes", "bytes", "in these"),
    ROW(nic_counts, loop_cm, "loop_cm", "packets", "connection management with ourselves"),
    ROW(nic_counts, loop_cm_lost, "loop_cm_lost", "packets", "of these, too many in one turn"),
    ROW(nic_counts, loop_lost, "loop_lost", "packets",
        "between applications, without a connection at the other end"),
    ROW(nic_counts, posts, "posts", "descriptors", "taken from submission rings"),
    ROW(nic_counts, post_bad_kind, "post_bad_kind", "slots", "of unknown kind, skipped"),
    ROW(nic_counts, post_bad_vi, "post_bad_vi", "descriptors", "for a VI that does not exist"),
    ROW(nic_counts, post_bad_gen, "post_bad_gen", "descriptors", "for a VI that was destroyed"),
    ROW(nic_counts, post_bad_segs, "post_bad_segs", "descriptors", "with too many segments"),
    ROW(nic_counts, post_stray, "post_stray", "slots", "that broke the structure of a ring"),
    ROW(nic_counts, sessions_broken, "sessions_broken", "sessions",
        "whose submission ring was broken"),
    ROW(nic_counts, segs_refused, "segs_refused", "descriptors",
        "whose segments exceeded the session's memory"),
    ROW(nic_counts, completions, "completions", "descriptors", "completed"),
    ROW(nic_counts, cq_entries, "cq_entries", "entries", "written to completion queues"),
    ROW(nic_counts, cq_backlogged, "cq_backlogged", "entries",
        "that waited here because a CQ ring was full"),
    ROW(nic_counts, cq_lost, "cq_lost", "entries", "lost because a CQ was never read"),
    ROW(nic_counts, wakes, "wakes", "calls", "that woke a sleeping application"),
    ROW(nic_counts, cq_signals, "cq_signals", "messages", "that made a CQ's descriptor readable"),
    ROW(nic_counts, places, "places", "ranges", "placed by a library into staged memory"),
    ROW(nic_counts, places_late, "places_late", "ranges", "of these, after the acknowledgement"),
    ROW(nic_counts, parked, "parked", "packets", "that waited for a library to place them"),
    ROW(nic_counts, conns_opened, "conns_opened", "connections", "established (ends on this host)"),
    ROW(nic_counts, conns_lost, "conns_lost", "connections", "lost, as applications were told"),
    ROW(nic_counts, conns_broken, "conns_broken", "connections", "broken by an error here"),
};

static const struct counter_row vi_rows[] = {
    ROW(eng_vi_stats, tx_bytes, "vi_tx_bytes", "bytes", "payload sent"),
    ROW(eng_vi_stats, rx_bytes, "vi_rx_bytes", "bytes", "payload received"),
    ROW(eng_vi_stats, tx_messages, "vi_tx_messages", "operations", "completed here"),
    ROW(eng_vi_stats, rx_messages, "vi_rx_messages", "operations", "processed for peers"),
    ROW(eng_vi_stats, retransmits, "retransmits", "fragments", "sent again"),
    ROW(eng_vi_stats, timeouts, "timeouts", "times", "a retransmission timer expired"),
    ROW(eng_vi_stats, duplicates, "vi_duplicates", "packets", "received again"),
    ROW(eng_vi_stats, held, "vi_held", "packets", "came ahead of their turn"),
    ROW(eng_vi_stats, acks_sent, "acks_sent", "packets", "that only acknowledged"),
    ROW(eng_vi_stats, recvq_empty, "recvq_empty", "messages", "found no receive descriptor"),
};

static const struct counter_row cm_rows[] = {
    ROW(cm_stats, requests_sent, "cm_requests_sent", "requests", "connections asked for"),
    ROW(cm_stats, requests_received, "cm_requests_received", "requests", "from peers"),
    ROW(cm_stats, accepts, "cm_accepts", "requests", "accepted"),
    ROW(cm_stats, rejects, "cm_rejects", "requests", "rejected"),
    ROW(cm_stats, no_match, "cm_no_match", "requests", "that nobody waited for"),
    ROW(cm_stats, cancels, "cm_cancels", "requests", "given up by the client"),
    ROW(cm_stats, timeouts, "cm_timeouts", "requests", "that ran out of time"),
    ROW(cm_stats, closes_sent, "cm_closes_sent", "connections", "closed here"),
    ROW(cm_stats, closes_received, "cm_closes_received", "connections", "closed by peers"),
    ROW(cm_stats, resets_sent, "cm_resets_sent", "packets", "told a peer of an unknown connection"),
    ROW(cm_stats, resets_received, "cm_resets_received", "packets", "a peer did not know ours"),
    ROW(cm_stats, resets_suppressed, "cm_resets_suppressed", "packets", "not sent, too frequent"),
    ROW(cm_stats, retransmits, "cm_retransmits", "packets", "repeated"),
    ROW(cm_stats, duplicates, "cm_duplicates", "packets", "received again"),
    ROW(cm_stats, malformed, "cm_malformed", "packets", "dropped, malformed"),
    ROW(cm_stats, wrong_epoch, "cm_wrong_epoch", "packets", "dropped, of another life of a vipd"),
    ROW(cm_stats, unexpected, "cm_unexpected", "packets", "dropped, nobody asked"),
    ROW(cm_stats, refused_memory, "cm_refused_memory", "requests", "refused for lack of memory"),
    ROW(cm_stats, backlog_full, "cm_backlog_full", "requests", "refused, too many were waiting"),
    ROW(cm_stats, peers_lost, "cm_peers_lost", "peers", "dead or restarted"),
    ROW(cm_stats, cookies_sent, "cm_cookies_sent", "packets",
        "asked a client to show that it receives at its address"),
    ROW(cm_stats, cookies_suppressed, "cm_cookies_suppressed", "requests",
        "dropped, too many unknown clients"),
    ROW(cm_stats, cookies_received, "cm_cookies_received", "packets", "from servers that ask us"),
    ROW(cm_stats, source_limited, "cm_source_limited", "requests",
        "dropped, too many from one address"),
    ROW(cm_stats, pings_sent, "cm_pings_sent", "packets", "to silent peers"),
};

typedef void counter_visit(void *ctx, const struct nic_counter *c);

static void rows_visit(const struct counter_row *rows, size_t count, const void *base,
                       counter_visit *visit, void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        struct nic_counter counter = {
            .name = rows[i].name, .unit = rows[i].unit, .help = rows[i].help};

        memcpy(&counter.value, (const char *)base + rows[i].offset, sizeof(counter.value));
        visit(ctx, &counter);
    }
}

#define VISIT(rows, base) rows_visit(rows, sizeof(rows) / sizeof((rows)[0]), base, visit, ctx)

/* Sum of all VIs that are and were. */
static struct eng_vi_stats vi_sum(const struct nic *nic)
{
    struct eng_vi_stats sum = nic->retired, one;

    for (const struct nic_list *item = nic->sessions.next; item != &nic->sessions;
         item = item->next) {
        const struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        for (uint32_t i = 0; i < session->vi_high; i++) {
            if (!session->vis[i].used)
                continue;
            eng_vi_stats(session->eng, (uint16_t)i, &one);
            nic_stats_add(&sum, &one);
        }
    }
    return sum;
}

static void gauges_visit(const struct nic *nic, const struct cm_stats *cm, counter_visit *visit,
                         void *ctx)
{
    const struct nic_counter gauges[] = {
        {"cm_waiters", "waits", "servers waiting for a request (now)", cm->waiters},
        {"cm_pending", "requests", "waiting for an answer (now)", cm->pending},
        {"cm_peers", "hosts", "known (now)", cm->peers},
        {"kept_packets", "packets", "held or parked (now)", nic->held_used},
        {"kept_bytes", "bytes", "in held or parked packets (now)", nic->held_bytes},
        {"cq_backlogs", "CQs", "with entries waiting here (now)", nic->backlog_cqs},
    };

    for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
        visit(ctx, &gauges[i]);
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
        struct nic_counter counter = {.name = vip_wire_verdict_name((enum vip_wire_verdict)i),
                                      .unit = "packets",
                                      .help = "dropped by validation",
                                      .value = nic->counts.rx_verdict[i]};

        visit(ctx, &counter);
    }
    VISIT(vi_rows, &vis);
    VISIT(cm_rows, &cm);
    gauges_visit(nic, &cm, visit, ctx);
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
        eng_vi_stats(session->eng, (uint16_t)i, &view.stats);
        if (!visit(ctx, &view))
            return;
    }
}

void nic_session_view(const struct nic_session *session, struct nic_session_view *ret)
{
    *ret = (struct nic_session_view){.vis = session->vi_count,
                                     .cqs = session->cq_count,
                                     .waits = session->wait_count,
                                     .connects = session->connects};
}
