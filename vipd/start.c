/* Starting and stopping vipd; see start.h. */
#include "vipd/start.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "proto/assert.h"
#include "vipd/client/client.h"
#include "vipd/client/quota.h"
#include "vipd/ctl/capture.h"
#include "vipd/ctl/stats_file.h"
#include "vipd/history.h"
#include "vipd/kept.h"
#include "vipd/host.h"
#include "vipd/nic/nic.h"
#include "vipd/registry/guard.h"
#include "vipd/registry/taken.h"
#include "vipd/registry/undertaker.h"
#include "vipd/reload.h"

#define FALLBACK_ADDRESS "127.0.0.1" /* of a host without a network */
#define ENGINES_CPUS_MIN 4           /* processors from which on NICs get threads of their own */

/* Times (in ns) and the backlog of the connection manager that no key sets (vipd/engine/cm.h,
 * struct cm_config); the keys for the others are in [reliability]. */
#define GRACE_NS       20000000ull
#define GRACE_BUSY_NS  200000000ull
#define GRACE_LOOP_NS  2000000000ull
#define GRACE_WORK_NS  10000000000ull
#define BACKLOG_MAX    128
#define CM_RETRY_NS    10000000ull
#define CM_RETRY_MAX   500000000ull
#define CLOSE_LIMIT_NS 20000000000ull

/* One user's segment lists may take register_bytes_per_uid divided by this, in each NIC. */
#define SEGS_PART 8

static bool entropy(uint64_t *ret)
{
    return getrandom(ret, sizeof(*ret), 0) == sizeof(*ret);
}

static unsigned count_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 1;
    return (unsigned)CPU_COUNT(&set);
}

static int open_udp(const struct vipd *vipd, const struct vipd_nic_config *config,
                    struct link **ret, char *err, size_t err_bytes)
{
    struct kept_sock *before = vipd->kept ? kept_of(vipd->kept, config->name) : NULL;
    struct link_udp_config udp = {
        .address = config->address[0] != '\0' ? config->address : NULL,
        .port = (uint16_t)config->port,
        .mtu = (uint32_t)config->mtu,
        .buffer_bytes = (uint32_t)config->buffer_bytes,
        .gso = config->gso,
        .gro = config->gro,
        .opened = before ? kept_opened : NULL,
        .opened_ctx = before,
    };
    int r;

    if (before && before->fd > 0) {
        udp.inherited = before->fd;
        before->fd = -1;
    }
    r = link_udp_open(&udp, ret, err, err_bytes);
    udp.inherited = 0; /* link_udp_open closed it if it did not use it */
    if (r == -ENETUNREACH && !udp.address) {
        vipd_warning("%s: %s; using " FALLBACK_ADDRESS ", which only this host reaches",
                     config->name, err);
        udp.address = FALLBACK_ADDRESS;
        r = link_udp_open(&udp, ret, err, err_bytes);
    }
    return r;
}

/* The name that peers may ask for; NULL: none. */
static const char *announced(const struct vipd_nic_config *config, char own[HOST_NAME_MAX + 1])
{
    if (strcmp(config->announce, "none") == 0)
        return NULL;
    if (config->announce[0] != '\0')
        return config->announce;
    own[0] = '\0';
    if (gethostname(own, HOST_NAME_MAX) < 0)
        vipd_warning("%s: this host's name is unknown: %s", config->name, strerror(errno));
    own[HOST_NAME_MAX] = '\0';
    return own;
}

/*
 * Number of NICs before this one that may be on its segment and have its name. It is the order in
 * which they answer; else peers would believe now one, now the other.
 */
static unsigned announced_before(const struct vipd *vipd, const struct vipd_nic_config *config)
{
    unsigned count = 0;

    for (const struct vipd_nic_config *nic = vipd->config->nics; nic != config; nic++)
        count += nic->link == LINK_ETHER && nic->ethertype == config->ethertype &&
                 nic->vlan == config->vlan && strcasecmp(nic->announce, config->announce) == 0;
    return count;
}

static int open_ether(const struct vipd *vipd, const struct vipd_nic_config *config,
                      struct link **ret, char *err, size_t err_bytes)
{
    char own[HOST_NAME_MAX + 1];
    struct link_ether_config ether = {
        .interface = config->interface,
        .ethertype = (uint16_t)config->ethertype,
        .vlan = (uint16_t)config->vlan,
        .mtu = (uint32_t)config->mtu,
        .buffer_bytes = (uint32_t)config->buffer_bytes,
        .xdp = config->xdp,
        .host_name = announced(config, own),
        .host_rank = announced_before(vipd, config),
    };

    if (!entropy(&ether.seed)) {
        snprintf(err, err_bytes, "the kernel gives no random numbers");
        return -EIO;
    }
    return link_ether_open(&ether, ret, err, err_bytes);
}

static int open_medium(const struct vipd *vipd, const struct vipd_nic_config *config,
                       struct link **ret, char *err, size_t err_bytes)
{
    switch (config->link) {
    case LINK_UDP:
    case LINK_UDP6:
        return open_udp(vipd, config, ret, err, err_bytes);
    case LINK_ETHER:
        return open_ether(vipd, config, ret, err, err_bytes);
    case LINK_LOOP:
        snprintf(err, err_bytes, "out of memory");
        return link_loop_open(ret);
    }
    return -EINVAL;
}

/* The link of one NIC, faults included. */
static int open_link(const struct vipd *vipd, const struct vipd_nic_config *config,
                     struct link **ret, char *err, size_t err_bytes)
{
    struct link *link;
    int r = open_medium(vipd, config, &link, err, err_bytes);

    if (r < 0)
        return r;
    if (config->faults_text[0] != '\0') {
        struct link *faulty;

        r = link_fault_wrap(link, &config->faults, &faulty);
        if (r < 0) {
            link->class->close(link);
            snprintf(err, err_bytes, "no memory for the faults");
            return r;
        }
        link = faulty;
        vipd_warning("%s loses or changes packets on purpose: faults = %s", config->name,
                     config->faults_text);
    }
    *ret = link;
    return 0;
}

static void fill_nic_config(const struct vipd *vipd, const struct vipd_nic_config *from,
                            struct nic_config *ret)
{
    const struct vipd_config *config = vipd->config;

    memset(ret, 0, sizeof(*ret));
    ret->name = from->name;
    ret->engine = config->engine;
    ret->epoch = vipd->epoch;
    ret->vi_max = (uint32_t)config->vis;
    ret->cq_max = (uint32_t)config->cqs;
    ret->segs_bytes_user = quota_register_bytes(vipd) / SEGS_PART;
    ret->direct = config->direct;
    ret->latency = config->stats_latency;
    ret->vi_latency = config->stats_vi_latency;
    ret->clock = vipd_clock_now;
    ret->linger_ns = config->linger_ns;
    ret->cpu_clock = vipd_cpu_now;
    ret->cm.grace_ns = GRACE_NS;
    ret->cm.grace_busy_ns = GRACE_BUSY_NS;
    ret->cm.grace_loop_ns = GRACE_LOOP_NS;
    ret->cm.grace_work_ns = GRACE_WORK_NS;
    ret->cm.backlog_max = BACKLOG_MAX;
    ret->cm.waits_max = (uint32_t)config->waits_per_uid;
    ret->cm.retry_ns = CM_RETRY_NS;
    ret->cm.retry_max_ns = CM_RETRY_MAX;
    ret->cm.accept_timeout_ns = config->accept_timeout_ns;
    ret->cm.close_timeout_ns = CLOSE_LIMIT_NS;
    ret->cm.keepalive_ns = config->keepalive_ns;
    ret->cm.peer_dead_ns = config->peer_dead_ns;
    ret->cm.verify_all = true;
}

static int open_nic(struct vipd *vipd, const struct vipd_nic_config *config, char *err,
                    size_t err_bytes)
{
    struct vipd_nic *nic = &vipd->nics[vipd->nic_count];
    struct nic_config nic_config;
    struct link *link;
    char reason[256] = "", address[64];
    int r = open_link(vipd, config, &link, reason, sizeof(reason));

    if (r < 0) {
        snprintf(err, err_bytes, "[nic:%s] cannot be opened: %s%s", config->name, reason,
                 r == -EADDRINUSE ? "; each vipd needs an address or port of its own" : "");
        return r;
    }
    link_addr_format_as(link->kind, &link->self, address, sizeof(address));
    fill_nic_config(vipd, config, &nic_config);
    r = entropy(&nic_config.seed) && entropy(&nic_config.secret) ? 0 : -EIO;
    if (r == 0)
        r = nic_open(&nic_config, link, vipd_loop_now(vipd->loop), &nic->nic);
    if (r < 0) {
        link->class->close(link);
        snprintf(err, err_bytes, "[nic:%s] cannot be opened: %s", config->name, strerror(-r));
        return r;
    }
    nic->config = config;
    vipd->nic_count++;
    r = vipd_host_add_nic(vipd->loop, nic->nic, &nic->loop);
    if (r < 0) {
        snprintf(err, err_bytes, "[nic:%s]: %s", config->name, strerror(-r));
        return r;
    }
    if (link->down)
        vipd_warning("NIC %s: %s is down (%s)", config->name, link_kind_name(link->kind),
                     link->why_down);
    else
        vipd_info("NIC %s: %s on %s, packets of at most %u bytes", config->name,
                  link_kind_name(link->kind), address, link->packet_bytes);
    return 0;
}

static bool between(void *ctx, bool worked)
{
    struct vipd *vipd = ctx;
    bool reaped;

    clients_memory(vipd, worked);
    reaped = clients_reap(vipd);

    stats_file_touch(vipd->stats_file, worked || reaped);
    return reaped;
}

static void on_hup(void *ctx)
{
    vipd_reload_logged(ctx);
}

/* ---- parts that a reload can change ------------------------------------------------------ */

static uint32_t group_number(const char *name, const char *key)
{
    const struct group *group = name[0] != '\0' ? getgrnam(name) : NULL;

    if (group)
        return group->gr_gid;
    if (name[0] != '\0')
        vipd_debug("[daemon] %s = %s: there is no such group", key, name);
    return VIPD_NO_GID;
}

static bool has_sessions(const struct vipd *vipd)
{
    for (const struct client *c = vipd->clients; c; c = c->next)
        if (c->session)
            return true;
    return false;
}

static uint64_t idle_limit_ns(const struct vipd *vipd)
{
    return vipd->config->idle_exit_ns ? vipd->config->idle_exit_ns : vipd->idle_exit_ns;
}

/* End vipd if no program has used it for idle_exit, or look again when that may be. */
static void on_idle_timer(void *ctx)
{
    struct vipd *vipd = ctx;
    uint64_t idle_ns = vipd_loop_now(vipd->loop) - vipd->used_ns;
    uint64_t limit_ns = idle_limit_ns(vipd);

    if (limit_ns == 0)
        return;
    if (has_sessions(vipd)) {
        vipd_timer_start(vipd->idle_timer, limit_ns);
    } else if (idle_ns >= limit_ns) {
        vipd_info("no program has had a NIC open for [daemon] idle_exit: ending");
        vipd_host_stop(vipd->loop);
    } else {
        vipd_timer_start(vipd->idle_timer, limit_ns - idle_ns);
    }
}

void vipd_settle(struct vipd *vipd)
{
    const struct vipd_config *config = vipd->config;

    if (!vipd->log_level_fixed)
        vipd_log_set_level(config->log_level);
    vipd_host_set_wait(vipd->loop, config->wait, config->spin_ns);
    for (unsigned i = 0; i < vipd->nic_count; i++) {
        struct nic_config nic_config;

        fill_nic_config(vipd, vipd->nics[i].config, &nic_config);
        nic_set_config(vipd->nics[i].nic, &nic_config);
    }
    vipd->admin_gid = group_number(config->admin_group, "admin_group");
    vipd->open_gid = group_number(config->open_group, "open_group");
    clients_judge(vipd);
    stats_file_settle(vipd->stats_file);
    if (!vipd->idle_timer && idle_limit_ns(vipd) > 0)
        vipd->idle_timer = vipd_timer_new(vipd->loop, on_idle_timer, vipd);
    if (vipd->idle_timer && idle_limit_ns(vipd) > 0)
        vipd_timer_start(vipd->idle_timer, idle_limit_ns(vipd));
}

/*
 * Number of threads to drive the NICs; 0: the thread that serves programs does it too. With `auto`
 * vipd takes them only where there is a processor for each, one for programs beside each, and more
 * than one NIC: with more threads, control messages have to stop and wake others.
 */
static unsigned count_engines(const struct vipd_config *config, unsigned cpus)
{
    uint64_t threads = config->threads;

    if (threads == 0 && config->nic_count > 1 && cpus >= ENGINES_CPUS_MIN)
        threads = cpus / 2;
    if (threads <= 1)
        return 0;
    return threads < config->nic_count ? (unsigned)threads : config->nic_count;
}

int vipd_start(const struct vipd_config *config, const char *runtime_dir, struct kept *kept,
               struct vipd *ret, char *err, size_t err_bytes)
{
    struct vipd_host_config host = {
        .wait = config->wait,
        .spin_ns = config->spin_ns,
        .between = between,
        .on_hup = on_hup,
        .ctx = ret,
    };
    int r = cpus_take(config->cpus, err, err_bytes);

    if (r < 0)
        return r;
    host.cpus = count_cpus();
    host.engines = count_engines(config, host.cpus);
    memset(ret, 0, sizeof(*ret));
    VIP_ASSERT(pthread_mutex_init(&ret->shared, NULL) == 0);
    ret->config = config;
    ret->log_level_fixed = true; /* until the caller says otherwise */
    ret->runtime_dir = runtime_dir;
    ret->kept = kept;
    ret->cpus = host.cpus;
    do {
        if (!entropy(&ret->epoch)) {
            snprintf(err, err_bytes, "the kernel gives no random numbers");
            return -EIO;
        }
    } while (ret->epoch == 0); /* 0 means "unknown" on the wire */
    r = vipd_host_new(&host, &ret->loop);
    if (r < 0) {
        snprintf(err, err_bytes, "the event loop cannot be made: %s", strerror(-r));
        return r;
    }
    (void)mallopt(M_ARENA_MAX, 1); /* one heap for all threads, so that memory_heap is all of it */
    ret->undertaker = undertaker_new();
    if (host.engines > 0) {
        vipd_info("%u NIC%s driven by %u thread%s", config->nic_count,
                  config->nic_count == 1 ? " is" : "s are", host.engines,
                  host.engines == 1 ? "" : "s");
    }
    ret->started_ns = vipd_loop_now(ret->loop);
    for (unsigned i = 0; i < config->nic_count; i++) {
        r = open_nic(ret, &config->nics[i], err, err_bytes);
        if (r < 0) {
            vipd_stop(ret);
            return r;
        }
    }
    ret->used_ns = vipd_loop_now(ret->loop);
    ret->taken = taken_new();
    if (!ret->taken) {
        snprintf(err, err_bytes, "out of memory");
        vipd_stop(ret);
        return -ENOMEM;
    }
    r = guard_install();
    if (r < 0)
        vipd_warning("a missing page of shared memory would end vipd: %s", strerror(-r));
    ret->history = history_new(); /* NULL: nothing is noted */
    ret->stats_file = stats_file_open(ret);
    vipd_settle(ret);
    return 0;
}

void vipd_stop(struct vipd *vipd)
{
    clients_shutdown(vipd);
    capture_end(vipd);
    stats_file_close(vipd->stats_file);
    vipd->stats_file = NULL;
    vipd_host_drop_nics(vipd->loop);
    for (unsigned i = 0; i < vipd->nic_count; i++)
        nic_close(vipd->nics[i].nic, vipd_loop_now(vipd->loop));
    vipd->nic_count = 0;
    vipd_timer_free(vipd->idle_timer);
    vipd->idle_timer = NULL;
    vipd_host_free(vipd->loop);
    vipd->loop = NULL;
    undertaker_free(vipd->undertaker);
    vipd->undertaker = NULL;
    vipd_reload_deinit(vipd);
    taken_free(vipd->taken);
    vipd->taken = NULL;
    history_free(vipd->history);
    vipd->history = NULL;
}
