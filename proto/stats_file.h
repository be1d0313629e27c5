/*
 * The mapped statistics file, vipd.stats in the runtime directory: everything that vipd counts, to be read
 * without asking it, also when it does not answer any more. vipd writes it, by a mapping; others read it,
 * by read(2) or a mapping. It describes itself: ids, names, units and meanings come from proto/stats.def.
 *
 *   head | one description for every statistic | one for every histogram | block of vipd | blocks of NICs
 *
 * A block has a value for every statistic, by id (those of another scope are 0); that of a NIC also has its
 * histograms. All numbers are in the byte order of the host. The layout is that of `version`; numbers of
 * statistics may change with every build, so that readers find them by their names.
 *
 * A reader copies the file between two looks at `sequence`, with a load fence before and behind the copy, and begins
 * again if that was odd or has changed.
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
    uint32_t file_bytes;                       /* of all that follows, too */
    uint32_t stat_count, stat_at, stat_bytes;  /* how many descriptions, where, how large one is */
    uint32_t hist_count, hist_at, hist_bytes;  /* the same of histograms */
    uint32_t vipd_at;                          /* its block: stat_count values */
    uint32_t nic_at, nic_bytes, nic_count_max; /* blocks of NICs: nic_count of them are in use */
    uint64_t pid;                              /* of vipd */
    uint64_t epoch;                            /* of its life */
    uint64_t started_ns;                       /* since 1970 */
    uint64_t sequence;                         /* odd while values are being written */
    uint64_t written_ns; /* since 1970: when the values were those of this moment */
    uint32_t nic_count;
    uint32_t pad;
};
_Static_assert(sizeof(struct vip_stats_head) == 104, "readers of other builds know it");

/* What a number means. Texts end with a NUL. */
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

/* Everything but values, pid, epoch and times, into zeroed memory. */
void vip_stats_file_describe(struct vip_stats_file *file);

/*
 * Are these bytes, of any origin, such a file that a reader finds his way in: magic, version, offsets and
 * sizes within `bytes`? Texts may lack their NUL still.
 */
bool vip_stats_file_check(const void *file, size_t bytes);

#endif
