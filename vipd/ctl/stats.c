/* The view of all counters; proto/stats.def has their meanings. */
#include <stdio.h>

#include "proto/stats.h"
#include "vipd/client/client.h"
#include "vipd/ctl/gauges.h"
#include "vipd/ctl/page.h"
#include "vipd/ctl/parts.h"
#include "vipd/nic/nic.h"

struct stat_walk {
    struct show_page *page;
    char scope[VIP_NIC_NAME_BYTES + 8];
    uint64_t from, row;
    bool full;
};

static void give(struct stat_walk *walk, enum vip_stat id, uint64_t value)
{
    const struct vip_stat_info *info = &vip_stats[id];
    Vip__Counter row = VIP__COUNTER__INIT;

    if (walk->full || walk->row++ < walk->from)
        return;
    row.scope = walk->scope;
    row.name = (char *)info->name;
    row.has_value = true;
    row.value = value;
    row.unit = (char *)info->unit;
    row.help = (char *)info->help;
    row.kind = (char *)vip_stat_kind_name(info->kind);
    if (!page_add(walk->page, &row.base, PAGE_COUNTERS)) {
        walk->full = true;
        walk->row--;
    }
}

static void give_nic(void *ctx, const struct nic_counter *c)
{
    give(ctx, c->id, c->value);
}

static void give_vipd(void *ctx, enum vip_stat id, uint64_t value)
{
    give(ctx, id, value);
}

void vipd_stats_visit(const struct vipd *vipd,
                      void (*visit)(void *ctx, enum vip_stat id, uint64_t value), void *ctx)
{
    const struct vipd_counters *c = &vipd->counters;
    struct vipd_loop_stats loop;

    vipd_loop_stats(vipd->loop, &loop);
#define VIP_STAT_OF_LOOP(member, name) visit(ctx, VIP_STAT_VIPD_##name, loop.member);
#define VIP_STAT_OF_VIPD(member, name) visit(ctx, VIP_STAT_VIPD_##name, c->member);
#include "proto/stats.def"
    vipd_gauges(vipd, visit, ctx);
#define VIP_STAT_OF_END(member, name)                                                              \
    visit(ctx, VIP_STAT_VIPD_##name, c->ended[CLIENT_END_##member]);
#include "proto/stats.def"
}

_Static_assert(VIP_STAT_VIPD_ended_shutdown - VIP_STAT_VIPD_ended_closed ==
                       CLIENT_END_SHUTDOWN - CLIENT_END_CLOSED &&
                   CLIENT_END_CLOSED == CLIENT_END_NONE + 1 &&
                   CLIENT_END_SHUTDOWN + 1 == CLIENT_ENDS,
               "reasons and their counters go in step");

void show_stats(struct show_page *page, const struct vipd *vipd, uint64_t cursor)
{
    struct stat_walk walk = {.page = page, .scope = "vipd", .from = cursor};

    vipd_stats_visit(vipd, give_vipd, &walk);
    for (unsigned i = 0; i < vipd->nic_count; i++) {
        snprintf(walk.scope, sizeof(walk.scope), "nic:%s", vipd->nics[i].config->name);
        nic_counters(vipd->nics[i].nic, give_nic, &walk);
    }
    if (walk.full)
        page_more(page, walk.row);
}
