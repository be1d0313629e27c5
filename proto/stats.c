/* The tables of statistics (stats.h). */
#include "proto/stats.h"

const struct vip_stat_info vip_stats[VIP_STATS] = {
#define VIP_STAT_AS(scope_, name_, kind_, owner_, member_, unit_, help_)                           \
    {.scope = VIP_STAT_SCOPE_##scope_,                                                             \
     .kind = VIP_STAT_KIND_##kind_,                                                                \
     .name = #name_,                                                                               \
     .unit = (unit_),                                                                              \
     .help = (help_)},
#include "proto/stats.def"
};

const struct vip_hist_info vip_hists[VIP_HISTS] = {
#define VIP_HIST(name_, help_)                                                                     \
    {.name = #name_, .help = (help_), .first = VIP_STAT_NIC_##name_##_count},
#include "proto/stats.def"
};

const struct vip_peer_stat_info vip_peer_stats[VIP_PEER_STATS] = {
#define VIP_PEER_STAT(name_, unit_, help_) {.name = #name_, .unit = (unit_), .help = (help_)},
#include "proto/stats.def"
};

_Static_assert(VIP_STAT_NIC_post_to_wire_max - VIP_STAT_NIC_post_to_wire_count ==
                   VIP_HIST_SHOWN_MAX - VIP_HIST_SHOWN_COUNT,
               "a histogram and what is shown of it go in step");

const char *vip_stat_kind_name(enum vip_stat_kind kind)
{
    switch (kind) {
    case VIP_STAT_KIND_COUNTER:
        return "counter";
    case VIP_STAT_KIND_GAUGE:
        return "gauge";
    }
    return "?";
}
