/*
 * Resources of the machine that this vipd uses at this moment: descriptors, memory, clients.
 *
 * Owns: reading these numbers from the kernel and the allocator. Does not own: gauges of a NIC
 * (vipd/nic/), rows and pages (stats.c, page.c). Tests use the gauges to find leaks: after a
 * program's end each gauge must have the value from before the start (tests/system/faults.sh).
 */
#ifndef VIPD_CTL_GAUGES_H
#define VIPD_CTL_GAUGES_H

#include <stdint.h>

#include "proto/stats.h"
#include "vipd/daemon.h"

/*
 * Calls visit for every gauge of scope VIPD, except gauges that cannot be read (if vipd has no
 * descriptor left to read /proc). Takes some microseconds, and a system call for every few hundred
 * descriptors of vipd.
 */
void vipd_gauges(const struct vipd *vipd,
                 void (*visit)(void *ctx, enum vip_stat id, uint64_t value), void *ctx);

#endif
