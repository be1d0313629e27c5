/* The table of statistics as data; see stats.h. */
#include "proto/stats.h"

const struct vip_stat_info vip_stats[VIP_STATS] = {
#define VIP_STAT(scope_, name_, kind_, unit_, help_)                                               \
    {.scope = VIP_STAT_SCOPE_##scope_,                                                             \
     .kind = VIP_STAT_KIND_##kind_,                                                                \
     .name = #name_,                                                                               \
     .unit = (unit_),                                                                              \
     .help = (help_)},
#include "proto/stats.def"
#undef VIP_STAT
};

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
