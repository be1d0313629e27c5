/*
 * Ids, names and meanings of the statistics, generated from proto/stats.def.
 *
 * Does not own: the values. Any thread.
 */
#ifndef VIP_PROTO_STATS_H
#define VIP_PROTO_STATS_H

/* VIP_STAT_<scope>_<name>, in the order of the table. */
enum vip_stat {
#define VIP_STAT_AS(scope, name, kind, owner, member, unit, help) VIP_STAT_##scope##_##name,
#include "proto/stats.def"
    VIP_STATS,
};

/* VIP_HIST_<name>: the histograms that every NIC has. */
enum vip_hist_id {
#define VIP_HIST(name, help) VIP_HIST_##name,
#include "proto/stats.def"
    VIP_HISTS,
};

/* `vipctl show stats` shows these statistics of each histogram, in this order. */
enum vip_hist_shown {
    VIP_HIST_SHOWN_COUNT,
    VIP_HIST_SHOWN_SUM,
    VIP_HIST_SHOWN_P50,
    VIP_HIST_SHOWN_P90,
    VIP_HIST_SHOWN_P99,
    VIP_HIST_SHOWN_P999,
    VIP_HIST_SHOWN_MAX,
    VIP_HIST_SHOWNS,
};

enum vip_stat_scope {
    VIP_STAT_SCOPE_VIPD, /* one value */
    VIP_STAT_SCOPE_NIC,  /* one value per NIC */
};

enum vip_stat_kind {
    VIP_STAT_KIND_COUNTER, /* only grows in a life of vipd */
    VIP_STAT_KIND_GAUGE,   /* the present value */
};

struct vip_stat_info {
    enum vip_stat_scope scope;
    enum vip_stat_kind kind;
    const char *name; /* lower case with underscores, unique within its scope */
    const char *unit; /* in the plural: "packets" */
    const char *help; /* follows the unit: "lost because the link was down" */
};

extern const struct vip_stat_info vip_stats[VIP_STATS];

struct vip_hist_info {
    const char *name;    /* first part of the names of its statistics, before e.g. _count */
    const char *help;    /* what is measured */
    enum vip_stat first; /* id of the histogram's first statistic */
};

extern const struct vip_hist_info vip_hists[VIP_HISTS];

/* The gauges of a peer, in the order of the table. */
enum vip_peer_stat {
#define VIP_PEER_STAT(name, unit, help) VIP_PEER_STAT_##name,
#include "proto/stats.def"
    VIP_PEER_STATS,
};

struct vip_peer_stat_info {
    const char *name, *unit, *help; /* as in vip_stat_info */
};

extern const struct vip_peer_stat_info vip_peer_stats[VIP_PEER_STATS];

/* Returns "counter" or "gauge"; "?" for an unknown kind. */
const char *vip_stat_kind_name(enum vip_stat_kind kind);

#endif
