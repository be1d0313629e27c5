/*
 * Resources of the machine that this vipd uses at this moment: descriptors, memory, clients.
 *
 * Owns: reading these numbers from the kernel and the allocator. Does not own: gauges of a NIC
 * (vipd/nic/), rows and pages (stats.c, page.c). The gauges show what a program has left behind:
 * after the program's end each gauge has the value that it had before (tests/system/faults.sh).
 */
#ifndef VIPD_CTL_GAUGES_H
#define VIPD_CTL_GAUGES_H

#include <stdint.h>

#include "proto/stats.h"
#include "vipd/daemon.h"

/*
 * Calls visit for every gauge of scope VIPD. A gauge that cannot be read (no descriptor left to
 * look into /proc) is left out. Costs some microseconds and a system call for every few hundred
 * descriptors.
 */
void vipd_gauges(const struct vipd *vipd,
                 void (*visit)(void *ctx, enum vip_stat id, uint64_t value), void *ctx);

#endif
