/* Counters of a NIC; their names and meanings are in proto/stats.def. Only for vipd/nic, through
 * internal.h. */
#ifndef VIPD_NIC_COUNTS_H
#define VIPD_NIC_COUNTS_H

#include <stdint.h>

#include "proto/wire.h"

struct nic_counts {
    uint64_t turns;
    uint64_t rx_data, rx_cm, rx_verdict[VIP_WIRE_VERDICTS];
    uint64_t drop_unknown_conn, drop_src_epoch, drop_dst_epoch, drop_source, drop_early;
    uint64_t drop_cm_budget, drop_held_full, drop_parked_again, drop_park_full;
    uint64_t rx_duplicate, rx_stale, rx_engine_full, rx_held, rx_replayed;
    uint64_t tx_data, tx_cm, tx_cm_lost, tx_full, tx_gone, tx_unresolved;
    uint64_t loop_packets, loop_bytes, loop_cm, loop_cm_lost, loop_lost;
    uint64_t posts, post_bad_kind, post_bad_vi, post_bad_gen, post_bad_segs, post_stray;
    uint64_t sessions_broken, segs_refused, throttled, errors_untold;
    uint64_t completions, cq_entries, cq_backlogged, cq_lost, wakes, cq_signals;
    uint64_t rings, ring_wakes, ring_breaks;
    uint64_t shared_time, control_time, turns_cut;
    uint64_t places, places_late, places_spoiled, parked, conns_opened, conns_lost, conns_broken;
};

#endif
