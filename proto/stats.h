/*
 * Ids, names and meanings of the statistics, made of proto/stats.def.
 *
 * Owns: what the table says. Does not own: the values. Any thread.
 */
#ifndef VIP_PROTO_STATS_H
#define VIP_PROTO_STATS_H

/* VIP_STAT_<scope>_<name>, in the order of the table. */
enum vip_stat {
#define VIP_STAT(scope, name, kind, unit, help) VIP_STAT_##scope##_##name,
#include "proto/stats.def"
#undef VIP_STAT
    VIP_STATS,
};

enum vip_stat_scope {
    VIP_STAT_SCOPE_VIPD, /* once */
    VIP_STAT_SCOPE_NIC,  /* once per NIC */
};

enum vip_stat_kind {
    VIP_STAT_KIND_COUNTER, /* only grows while vipd lives */
    VIP_STAT_KIND_GAUGE,   /* of this moment */
};

struct vip_stat_info {
    enum vip_stat_scope scope;
    enum vip_stat_kind kind;
    const char *name; /* lower case with underscores, unique within its scope */
    const char *unit; /* what one of it is, in the plural */
    const char *help; /* follows the unit: "packets" "lost because the link was down" */
};

extern const struct vip_stat_info vip_stats[VIP_STATS];

/* "counter", "gauge". */
const char *vip_stat_kind_name(enum vip_stat_kind kind);

#endif
