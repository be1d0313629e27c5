/* The mapped statistics file; see stats_file.h. */
#include "proto/stats_file.h"

#include <stdio.h>
#include <string.h>

static void describe(struct vip_stats_desc *desc, const char *name, const char *unit,
                     const char *help)
{
    snprintf(desc->name, sizeof(desc->name), "%s", name);
    snprintf(desc->unit, sizeof(desc->unit), "%s", unit);
    snprintf(desc->help, sizeof(desc->help), "%s", help);
}

void vip_stats_file_describe(struct vip_stats_file *file)
{
    struct vip_stats_head *head = &file->head;

    memcpy(head->magic, VIP_STATS_FILE_MAGIC, sizeof(head->magic));
    head->version = VIP_STATS_FILE_VERSION;
    head->file_bytes = sizeof(*file);
    head->stat_count = VIP_STATS;
    head->stat_at = offsetof(struct vip_stats_file, stat);
    head->stat_bytes = sizeof(file->stat[0]);
    head->hist_count = VIP_HISTS;
    head->hist_at = offsetof(struct vip_stats_file, hist);
    head->hist_bytes = sizeof(file->hist[0]);
    head->vipd_at = offsetof(struct vip_stats_file, vipd);
    head->nic_at = offsetof(struct vip_stats_file, nic);
    head->nic_bytes = sizeof(file->nic[0]);
    head->nic_count_max = VIP_STATS_NICS_MAX;
    for (unsigned i = 0; i < VIP_STATS; i++) {
        file->stat[i].scope = vip_stats[i].scope;
        file->stat[i].kind = vip_stats[i].kind;
        describe(&file->stat[i], vip_stats[i].name, vip_stats[i].unit, vip_stats[i].help);
    }
    for (unsigned i = 0; i < VIP_HISTS; i++) {
        file->hist[i].scope = VIP_STAT_SCOPE_NIC;
        describe(&file->hist[i], vip_hists[i].name, "ns", vip_hists[i].help);
    }
}

/* Do `count` entries of `size` bytes at offset `at` lie within `bytes`, aligned to 64 bits? */
static bool inside(uint32_t at, uint64_t count, uint64_t size, size_t bytes)
{
    return at % sizeof(uint64_t) == 0 && size % sizeof(uint64_t) == 0 && at <= bytes &&
           count <= (1u << 20) && size <= (1u << 24) && count * size <= bytes - at;
}

bool vip_stats_file_check(const void *file, size_t bytes)
{
    struct vip_stats_head head;
    uint64_t values;

    if (bytes < sizeof(head))
        return false;
    memcpy(&head, file, sizeof(head));
    values = (uint64_t)head.stat_count * sizeof(uint64_t);
    return memcmp(head.magic, VIP_STATS_FILE_MAGIC, sizeof(head.magic)) == 0 &&
           head.version == VIP_STATS_FILE_VERSION && head.file_bytes <= bytes &&
           head.stat_bytes >= sizeof(struct vip_stats_desc) &&
           head.hist_bytes >= sizeof(struct vip_stats_desc) &&
           head.nic_count <= head.nic_count_max &&
           inside(head.stat_at, head.stat_count, head.stat_bytes, bytes) &&
           inside(head.hist_at, head.hist_count, head.hist_bytes, bytes) &&
           inside(head.vipd_at, head.stat_count, sizeof(uint64_t), bytes) &&
           inside(head.nic_at, head.nic_count_max, head.nic_bytes, bytes) &&
           head.nic_bytes >=
               VIP_NIC_NAME_BYTES + values + (uint64_t)head.hist_count * sizeof(struct vip_hist);
}
