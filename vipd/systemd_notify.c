/* Messages of vipd to systemd; see systemd_notify.h. */
#include "vipd/systemd_notify.h"

#include <stdio.h>
#include <stdlib.h>
#include <systemd/sd-daemon.h>

#include "vipd/client/client.h"
#include "vipd/host.h"
#include "vipd/nic/nic.h"

struct notify {
    struct vipd *vipd;
    struct vipd_timer *timer;
    uint64_t interval_ns;
};

/* Write the line of status, such as "vip0 up; 3 NIC handles open; draining". */
static void status_text(const struct vipd *vipd, char *buf, size_t buf_bytes)
{
    uint64_t sessions = 0;
    size_t used = 0;

    for (const struct client *c = vipd->clients; c; c = c->next)
        sessions += c->session != NULL;
    for (unsigned i = 0; i < vipd->nic_count && used < buf_bytes; i++)
        used +=
            (size_t)snprintf(buf + used, buf_bytes - used, "%s %s; ", vipd->nics[i].config->name,
                             nic_link(vipd->nics[i].nic)->down ? "down" : "up");
    if (used < buf_bytes)
        snprintf(buf + used, buf_bytes - used, "%llu NIC handle%s open%s",
                 (unsigned long long)sessions, sessions == 1 ? "" : "s",
                 vipd->draining ? "; draining" : "");
}

static void tell(const struct vipd *vipd, const char *state)
{
    char status[1024];

    status_text(vipd, status, sizeof(status));
    (void)sd_notifyf(0, "%s\nSTATUS=%s", state, status);
}

/*
 * Report to the watchdog only if the loop, or each worker, has taken a turn since the last report.
 * An idle worker also takes a turn after each pass of the control loop.
 */
static void on_timer(void *ctx)
{
    struct notify *notify = ctx;

    if (vipd_host_alive(notify->vipd->loop))
        tell(notify->vipd, "WATCHDOG=1");
    vipd_timer_start(notify->timer, notify->interval_ns);
}

struct notify *notify_ready(struct vipd *vipd)
{
    struct notify *notify;
    uint64_t limit_us;

    tell(vipd, "READY=1");
    if (sd_watchdog_enabled(0, &limit_us) <= 0)
        return NULL;
    notify = calloc(1, sizeof(*notify));
    if (!notify)
        return NULL;
    notify->vipd = vipd;
    notify->interval_ns = limit_us * 1000 / 3;
    notify->timer = vipd_timer_new(vipd->loop, on_timer, notify);
    if (notify->timer)
        vipd_timer_start(notify->timer, notify->interval_ns);
    return notify;
}

void notify_stopping(struct notify *notify)
{
    (void)sd_notify(0, "STOPPING=1");
    if (!notify)
        return;
    vipd_timer_free(notify->timer);
    free(notify);
}
