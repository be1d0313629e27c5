/* Starting and stopping vipd; see start.h. */
#include "vipd/start.h"

#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "proto/assert.h"
#include "vipd/client/client.h"
#include "vipd/ctl/capture.h"
#include "vipd/ctl/stats_file.h"
#include "vipd/history.h"
#include "vipd/fd_store.h"
#include "vipd/host.h"
#include "vipd/known_paths.h"
#include "vipd/link/kinds.h"
#include "vipd/link/paths.h"
#include "vipd/nic/outlive.h"
#include "vipd/registry/guard.h"
#include "vipd/registry/taken.h"
#include "vipd/registry/undertaker.h"
#include "vipd/reload.h"
#include "vipd/config_apply.h"

#define WORKERS_CPUS_MIN 4 /* fewest processors with which threads = auto makes threads */

/* Longest wait, in ns, until the service manager has closed sockets that it has to forget. */
#define ROOM_NS 5000000000ull

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

static void warn(const char *line)
{
    vipd_warning("%s", line);
}

/* Number of this NIC's rivals (vipd/link/kinds.h) that are before it in the configuration. */
static unsigned count_rivals(const struct vipd *vipd, const struct vipd_nic_config *config)
{
    const struct link_kind_row *row = link_kind_row(config->link);
    unsigned count = 0;

    for (const struct vipd_nic_config *nic = vipd->config->nics; nic != config; nic++)
        count += nic->link == config->link && row->rivals && row->rivals(&nic->keys, &config->keys);
    return count;
}

/*
 * The address is in use, perhaps by a socket that the service manager has kept for another NIC, or
 * that vipd could not use. Give up such sockets, and try again until the service manager has closed
 * its duplicates, or ROOM_NS is over.
 */
static int open_again(const struct vipd *vipd, const struct link_kind_row *row,
                      const struct link_wish *wish, struct link **ret, char *err, size_t err_bytes)
{
    static const struct timespec pause = {.tv_nsec = 10000000};
    uint64_t until_ns = vipd_clock_now() + ROOM_NS;
    int r = -EADDRINUSE;

    if (!vipd->fd_store || vipd->fd_store->in_use ||
        !fd_store_make_room(vipd->fd_store, wish->keys->address, wish->keys->port))
        return r;
    do {
        r = row->open(wish, ret, err, err_bytes);
        if (r == -EADDRINUSE)
            (void)nanosleep(&pause, NULL);
    } while (r == -EADDRINUSE && vipd_clock_now() < until_ns);
    return r;
}

/* Open the link of one path of a NIC. */
static int open_path(const struct vipd *vipd, const struct vipd_nic_config *config,
                     const struct link_keys *keys, unsigned path, struct link **ret, char *err,
                     size_t err_bytes)
{
    const struct link_kind_row *row = link_kind_row(config->link);
    struct fd_store_sock *before = row->keeps_socket && vipd->fd_store
                                       ? fd_store_of(vipd->fd_store, config->name, path)
                                       : NULL;
    struct link_wish wish = {
        .nic = config->name,
        .keys = keys,
        .rank = count_rivals(vipd, config),
        .random = entropy,
        .warn = warn,
        .in_use = vipd->fd_store && vipd->fd_store->in_use,
        .opened = before ? fd_store_opened : NULL,
        .opened_ctx = before,
    };
    int r;

    if (before && before->fd > 0) {
        wish.inherited = before->fd;
        before->fd = -1;
    }
    r = row->open(&wish, ret, err, err_bytes);
    if (r != -EADDRINUSE)
        return r;
    wish.inherited = 0;
    return open_again(vipd, row, &wish, ret, err, err_bytes);
}

static void close_links(struct link *const *links, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        links[i]->class->close(links[i]);
}

static int open_paths(struct vipd *vipd, const struct vipd_nic_config *config, struct link **ret,
                      char *err, size_t err_bytes)
{
    struct link_keys keys[VIP_PATHS_MAX];
    struct link *links[VIP_PATHS_MAX];
    char bad[LINK_NAME_BYTES];
    unsigned count = link_kind_paths(config->link, &config->keys, keys, bad);
    uint64_t seed[2];

    VIP_ASSERT(count > 0); /* true for every configuration that was checked */
    for (unsigned i = 0; i < count; i++) {
        int r = open_path(vipd, config, &keys[i], i, &links[i], err, err_bytes);

        if (r < 0) {
            close_links(links, i);
            return r;
        }
    }
    if (count > 1) {
        int r = entropy(&seed[0]) && entropy(&seed[1])
                    ? link_paths_join(links, count, seed, known_paths_learned, vipd, ret)
                    : -EIO;

        if (r < 0) {
            close_links(links, count);
            snprintf(err, err_bytes, "its paths cannot be joined: %s", strerror(-r));
        }
        return r;
    }
    *ret = links[0];
    return 0;
}

/* Open the link of one NIC, with the faults that the configuration plants in it (`faults =`). */
static int open_link(struct vipd *vipd, const struct vipd_nic_config *config, struct link **ret,
                     char *err, size_t err_bytes)
{
    struct link *link;
    int r = open_paths(vipd, config, &link, err, err_bytes);

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
    settle_nic_config(vipd, config, &nic_config);
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
    known_paths_touch(vipd);
    reaped = clients_reap(vipd);

    stats_file_touch(vipd->stats_file, worked || reaped);
    return reaped;
}

static void on_hup(void *ctx)
{
    vipd_reload_logged(ctx);
    clients_judge(ctx);
}

/*
 * Number of worker threads, which drive the NICs; 0: the thread that serves programs also drives
 * them. With `auto` there are workers only if vipd has several NICs and WORKERS_CPUS_MIN
 * processors. Each worker then has two processors, one of them for programs. Workers have a cost:
 * each control message must stop and wake them.
 */
static unsigned count_workers(const struct vipd_config *config, unsigned cpus)
{
    uint64_t threads = config->threads;

    if (threads == 0 && config->nic_count > 1 && cpus >= WORKERS_CPUS_MIN)
        threads = cpus / 2;
    if (threads <= 1)
        return 0;
    return threads < config->nic_count ? (unsigned)threads : config->nic_count;
}

int vipd_start(const struct vipd_config *config, const char *runtime_dir, struct fd_store *fd_store,
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
    host.workers = count_workers(config, host.cpus);
    memset(ret, 0, sizeof(*ret));
    VIP_ASSERT(pthread_mutex_init(&ret->shared, NULL) == 0);
    ret->config = config;
    ret->log_level_fixed = true; /* the caller may clear it later */
    ret->runtime_dir = runtime_dir;
    ret->fd_store = fd_store;
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
    (void)mallopt(M_ARENA_MAX, 1); /* one heap, so that memory_heap counts all threads */
    ret->undertaker = undertaker_new();
    if (host.workers > 0) {
        vipd_info("%u NIC%s driven by %u thread%s", config->nic_count,
                  config->nic_count == 1 ? " is" : "s are", host.workers,
                  host.workers == 1 ? "" : "s");
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
    ret->history = history_new(); /* NULL: no memory, and no records */
    if (!fd_store || !fd_store->in_use)
        ret->stats_file = stats_file_open(ret);
    vipd_settle(ret);
    return 0;
}

static void end_nic(struct vipd *vipd, struct nic *nic)
{
    uint64_t now_ns = vipd_loop_now(vipd->loop);

    if (vipd->config->outlive_ns > 0)
        nic_leave(nic, vipd->config->outlive_ns, now_ns);
    nic_close(nic, now_ns);
}

void vipd_stop(struct vipd *vipd)
{
    clients_shutdown(vipd);
    capture_end(vipd);
    stats_file_close(vipd->stats_file);
    vipd->stats_file = NULL;
    vipd_host_drop_nics(vipd->loop);
    known_paths_end(vipd);
    for (unsigned i = 0; i < vipd->nic_count; i++)
        end_nic(vipd, vipd->nics[i].nic);
    vipd->nic_count = 0;
    returns_deinit(vipd);
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
