/* Adds up the counters of VIs. */
#include "vipd/nic/internal.h"

void nic_stats_add(struct eng_vi_stats *sum, const struct eng_vi_stats *one)
{
#define VIP_STAT_OF_VI(member, name) sum->member += one->member;
#include "proto/stats.def"
}
