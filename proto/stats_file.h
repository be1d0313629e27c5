/*
 * The mapped statistics file, vipd.stats in the runtime directory: all counters of vipd, also while
 * vipd does not answer. vipd writes it through a mapping; other programs use read(2) or a mapping.
 * The file also has the names, units and meanings of the statistics (proto/stats.def).
 *
 *   head | descriptions of statistics | descriptions of histograms | block of vipd | blocks of NICs
 *
 * A block has a value for every statistic, by id (values of another scope are 0). The block of a
 * NIC also has its histograms. All numbers are in the byte order of the host. `version` is the
 * number of this layout. Ids of statistics may change with every build, so readers find statistics
 * by name.
 *
 * A reader loads `sequence`, copies the file and loads `sequence` again, with a load fence before
 * and after the copy. If `sequence` was odd or has changed, the reader begins again.
 */
#ifndef VIP_PROTO_STATS_FILE_H
#define VIP_PROTO_STATS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/hist.h"
#include "proto/limits.h"
#include "proto/stats.h"

#define VIP_STATS_FILE_NAME    "vipd.stats"
#define VIP_STATS_FILE_MAGIC   "VIPDSTAT"
#define VIP_STATS_FILE_VERSION 1u
#define VIP_STATS_NICS_MAX     16

struct vip_stats_head {
    char magic[8];                             /* VIP_STATS_FILE_MAGIC, without a NUL */
    uint32_t version;                          /* VIP_STATS_FILE_VERSION */
    uint32_t file_bytes;                       /* size of the whole file */
    uint32_t stat_count, stat_at, stat_bytes;  /* statistic descriptions: number, offset, size */
    uint32_t hist_count, hist_at, hist_bytes;  /* histogram descriptions: number, offset, size */
    uint32_t vipd_at;                          /* block of vipd: stat_count values */
    uint32_t nic_at, nic_bytes, nic_count_max; /* blocks of NICs: nic_count of them are in use */
    uint64_t pid;                              /* of vipd */
    uint64_t epoch;                            /* of vipd's life */
    uint64_t started_ns;                       /* since 1970 */
    uint64_t sequence;                         /* odd while vipd writes values */
    uint64_t written_ns;                       /* time of the values, since 1970 */
    uint32_t nic_count;                        /* blocks of NICs in use */
    uint32_t pad;
};
_Static_assert(sizeof(struct vip_stats_head) == 104, "readers of other builds know it");

/* The meaning of a statistic. Texts end with a NUL. */
struct vip_stats_desc {
    uint32_t scope; /* enum vip_stat_scope */
    uint32_t kind;  /* enum vip_stat_kind; 0 for a histogram, which is of scope NIC */
    char name[40], unit[24], help[120];
};
_Static_assert(sizeof(struct vip_stats_desc) == 192, "readers of other builds know it");

/* The block of a NIC. */
struct vip_stats_nic {
    char name[VIP_NIC_NAME_BYTES];
    uint64_t value[VIP_STATS];
    struct vip_hist hist[VIP_HISTS];
};

/* The whole file as this build writes it. */
struct vip_stats_file {
    struct vip_stats_head head;
    struct vip_stats_desc stat[VIP_STATS];
    struct vip_stats_desc hist[VIP_HISTS];
    uint64_t vipd[VIP_STATS];
    struct vip_stats_nic nic[VIP_STATS_NICS_MAX];
};

/* Write names and layout to a zeroed *file; values, pid, epoch and times stay 0. */
void vip_stats_file_describe(struct vip_stats_file *file);

/* Check a file that is not trusted: magic, version, and that all offsets and sizes are within
 * `bytes`. True: a reader may use the offsets. Texts may still have no NUL at their end. */
bool vip_stats_file_check(const void *file, size_t bytes);

#endif
