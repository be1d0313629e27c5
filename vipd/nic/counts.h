/* Counters of a NIC; their names and meanings are in proto/stats.def. Only for vipd/nic, through
 * internal.h. */
#ifndef VIPD_NIC_COUNTS_H
#define VIPD_NIC_COUNTS_H

#include <stdint.h>

#include "proto/wire.h"

struct nic_counts {
#define VIP_STAT_OF_NIC(member, name) uint64_t member;
#include "proto/stats.def"
    uint64_t rx_verdict[VIP_WIRE_VERDICTS]; /* packets that validation dropped, by reason */
};

#endif
