/* The view of all counters; what they mean is in proto/stats.def. */
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
    visit(ctx, VIP_STAT_VIPD_turns, loop.turns);
    visit(ctx, VIP_STAT_VIPD_turns_busy, loop.busy);
    visit(ctx, VIP_STAT_VIPD_spins, loop.spins);
    visit(ctx, VIP_STAT_VIPD_spin_time, loop.spin_ns);
    visit(ctx, VIP_STAT_VIPD_sleeps, loop.sleeps);
    visit(ctx, VIP_STAT_VIPD_recalls, loop.recalls);
    visit(ctx, VIP_STAT_VIPD_naps, loop.naps);
    visit(ctx, VIP_STAT_VIPD_polls, loop.polls);
    visit(ctx, VIP_STAT_VIPD_engines, loop.engines);
    visit(ctx, VIP_STAT_VIPD_halts, loop.halts);
    visit(ctx, VIP_STAT_VIPD_accepted, c->accepted);
    visit(ctx, VIP_STAT_VIPD_refused_limit, c->refused_limit);
    visit(ctx, VIP_STAT_VIPD_refused_quota, c->refused_quota);
    visit(ctx, VIP_STAT_VIPD_accept_paused, c->accept_paused);
    visit(ctx, VIP_STAT_VIPD_opened, c->opened);
    visit(ctx, VIP_STAT_VIPD_open_refused, c->open_refused);
    visit(ctx, VIP_STAT_VIPD_open_again, c->open_again);
    visit(ctx, VIP_STAT_VIPD_requests, c->requests);
    visit(ctx, VIP_STAT_VIPD_request_time, c->request_time);
    visit(ctx, VIP_STAT_VIPD_requests_failed, c->requests_failed);
    visit(ctx, VIP_STAT_VIPD_events, c->events);
    visit(ctx, VIP_STAT_VIPD_events_delayed, c->events_delayed);
    visit(ctx, VIP_STAT_VIPD_errors_dropped, c->errors_dropped);
    visit(ctx, VIP_STAT_VIPD_reloads, c->reloads);
    visit(ctx, VIP_STAT_VIPD_reloads_refused, c->reloads_refused);
    visit(ctx, VIP_STAT_VIPD_admin_denied, c->admin_denied);
    vipd_gauges(vipd, visit, ctx);
    for (unsigned end = CLIENT_END_NONE + 1; end < CLIENT_ENDS; end++)
        visit(ctx, VIP_STAT_VIPD_ended_closed + (end - CLIENT_END_CLOSED), c->ended[end]);
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
