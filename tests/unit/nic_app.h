/*
 * The nics and applications of nic_rig.h. Applications write and read the shared rings as libvipl
 * does, and record the events that vipd sends to their session.
 */
#ifndef TESTS_UNIT_NIC_APP_H
#define TESTS_UNIT_NIC_APP_H

#include "proto/comps.h"
#include "proto/shm3.h"
#include "unit/nic_net.h"

static struct nic *rig_nics[RIG_HOSTS];
static uint64_t rig_peer_dead_ns = 4000000000; /* peer_dead of nics that open later */
static uint64_t rig_more; /* features of nics that open later, in addition to VIP_FEATURES */
static uint64_t rig_life; /* life number from which nics that open later get their epoch */

/* The clock that a nic may read within a turn. */
RIG uint64_t rig_clock(void)
{
    return rig_now;
}
static uint64_t (*rig_cost_clock)(void); /* the clock of nics that open later; NULL: rig_clock */

RIG struct nic *rig_nic_link(unsigned host, struct link *link)
{
    struct nic_config config = {
        .name = "vip0",
        .engine = ENG_CONFIG_DEFAULT,
        .cm = {.grace_ns = 20000000,
               .grace_busy_ns = 200000000,
               .grace_loop_ns = 2000000000,
               .grace_work_ns = 10000000000,
               .backlog_max = 128,
               .retry_ns = 10000000,
               .retry_max_ns = 500000000,
               .accept_timeout_ns = 5000000000,
               .close_timeout_ns = 5000000000,
               .keepalive_ns = 1000000000,
               .peer_dead_ns = rig_peer_dead_ns,
               .outlive_ns = 10000000000},
        .epoch = 0x1234567800000000 + 16 * rig_life + host + 1,
        .more = rig_more,
        .seed = 77 + host,
        .vi_max = RIG_VIS,
        .cq_max = 16,
        .direct = true,
        .clock = rig_cost_clock ? rig_cost_clock : rig_clock,
        .linger_ns = 1000000000,
    };

    assert_int_equal(nic_open(&config, link, rig_now, &rig_nics[host]), 0);
    return rig_nics[host];
}

RIG struct nic *rig_nic_class(unsigned host, const struct link_class *class)
{
    struct rig_host *link = calloc(1, sizeof(*link));

    link->link = (struct link){
        .class = class, .self = rig_addr(host), .packet_bytes = RIG_MTU, .window_bytes = 1 << 20};
    rig_hosts[host] = link;
    return rig_nic_link(host, &link->link);
}

RIG struct nic *rig_nic(unsigned host)
{
    return rig_nic_class(host, &rig_class);
}

/* ---- applications ---------------------------------------------------------------------- */

struct rig_event {
    char kind; /* 'i'ncoming, 'r'esult, 'e'rror, 'p'lace */
    uint64_t number, handle, offset, bytes;
    uint16_t vi;
    uint32_t code;
    struct vip_addr remote;
    struct vip_cm_attrs attrs;
    struct vip_private data;
};

struct rig_app {
    struct nic *nic;
    uint32_t uid;
    struct nic_session *session;
    struct registry *registry;
    void *app, *vipd;
    uint32_t sq_position;
    struct rig_event event[RIG_EVENTS];
    unsigned event_head, event_count;
    uint32_t comp_position[RIG_VIS][2];
    uint32_t vi_gen[RIG_VIS];
    uint32_t cq_position[16];
    bool deaf;       /* count error events, but do not record them */
    unsigned errors; /* number of error events */
};

static struct rig_app *rig_apps[RIG_APPS];
static uint32_t rig_uid; /* the user of applications that rig_app makes later */

RIG struct rig_event *rig_push(struct rig_app *app, char kind)
{
    struct rig_event *event = &app->event[(app->event_head + app->event_count++) % RIG_EVENTS];

    assert_true(app->event_count <= RIG_EVENTS);
    *event = (struct rig_event){.kind = kind};
    return event;
}

RIG void rig_on_incoming(void *ctx, uint64_t wait_id, uint64_t conn_handle,
                         const struct vip_addr *remote, const struct vip_cm_attrs *attrs,
                         const struct vip_private *data)
{
    struct rig_event *event = rig_push(ctx, 'i');

    event->number = wait_id;
    event->handle = conn_handle;
    event->remote = *remote;
    event->attrs = *attrs;
    event->data = *data;
}

RIG void rig_on_result(void *ctx, uint16_t vi, uint32_t generation, enum vip_rc rc,
                       const struct vip_cm_attrs *attrs, const struct vip_private *data,
                       const char *why)
{
    struct rig_event *event = rig_push(ctx, 'r');

    assert_int_equal(generation, ((struct rig_app *)ctx)->vi_gen[vi]);
    event->vi = vi;
    event->code = rc;
    if (data)
        event->data = *data;
    assert_int_equal(attrs != NULL, rc == VIP_RC_SUCCESS);
}

RIG void rig_on_error(void *ctx, enum vip_resource resource, enum vip_error_code code, uint16_t vi,
                      uint32_t generation, uint32_t opcode, const char *why)
{
    struct rig_app *app = ctx;
    struct rig_event *event;

    assert_non_null(why);
    app->errors++;
    if (app->deaf)
        return;
    event = rig_push(app, 'e');
    event->vi = vi;
    event->code = code;
    event->number = resource;
}

RIG void rig_on_place(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes)
{
    struct rig_event *event = rig_push(ctx, 'p');

    event->number = number;
    event->handle = handle;
    event->offset = offset;
    event->bytes = bytes;
}

/* For tests of direct rings: gets the ring of a connection. NULL: the application refuses it. */
static bool (*rig_on_direct)(void *ctx, uint16_t vi, uint32_t generation, uint32_t first,
                             unsigned half, int fd);

RIG bool rig_take_direct(void *ctx, uint16_t vi, uint32_t generation, uint32_t first, unsigned half,
                         int fd)
{
    return rig_on_direct && rig_on_direct(ctx, vi, generation, first, half, fd);
}

/* For tests of loans: gets the terms of a loan. NULL: the application ignores them. */
static void (*rig_on_lent)(void *ctx, const struct nic_loan_terms *terms);
static void (*rig_on_lent_over)(void *ctx, uint16_t vi, uint32_t generation);

RIG void rig_take_lent(void *ctx, const struct nic_loan_terms *terms)
{
    if (rig_on_lent)
        rig_on_lent(ctx, terms);
}

RIG void rig_take_over(void *ctx, uint16_t vi, uint32_t generation)
{
    if (rig_on_lent_over)
        rig_on_lent_over(ctx, vi, generation);
}

static const struct nic_sink rig_sink = {
    .incoming = rig_on_incoming,
    .result = rig_on_result,
    .error = rig_on_error,
    .place = rig_on_place,
    .direct = rig_take_direct,
    .lent = rig_take_lent,
    .lent_over = rig_take_over,
};

RIG int rig_memfd(uint64_t bytes)
{
    int fd = memfd_create("rig", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return fd;
}

RIG void *rig_map(uint64_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

/* The shared-memory ABI that all applications use. */
#ifndef RIG_ABI
#define RIG_ABI VIP_SHM_ABI
#endif

RIG const struct nic_layout *rig_layout(void)
{
    static const struct nic_layout *layout;

    if (layout == NULL)
        layout = nic_layout(RIG_ABI);
    return layout;
}

/* Return the words that libvipl writes for a VI or for a CQ. */
RIG uint32_t *rig_waiters(const struct rig_app *app, uint16_t vi, unsigned queue)
{
    return (uint32_t *)(uintptr_t)nic_layout_waiters(rig_layout(), app->app, vi, queue);
}

RIG struct vip_app_cq *rig_cq_words(const struct rig_app *app, uint32_t cq)
{
    return (struct vip_app_cq *)(uintptr_t)nic_layout_cq(rig_layout(), app->app, cq);
}

RIG uint32_t *rig_arm(const struct rig_app *app, uint32_t cq)
{
    return (uint32_t *)(uintptr_t)nic_layout_arm(rig_layout(), app->app, cq);
}

RIG struct vip_vipd_vi *rig_vi_head(const struct rig_app *app, uint16_t vi)
{
    return nic_layout_vi(rig_layout(), app->vipd, vi);
}

/* Read the completion at `position`. False: vipd has not published it. */
RIG bool rig_comp_read(const struct rig_app *app, uint16_t vi, unsigned queue, uint32_t position,
                       struct vip_comp *ret)
{
    struct vip_comps_in comps;

    if (rig_layout()->long_only)
        return vip_comp_read(
            (struct vip_comp *)(void *)((char *)rig_vi_head(app, vi) + VIP_VIPD3_VI_BYTES) +
                queue * VIP_DESC_PER_QUEUE_MAX,
            VIP_DESC_PER_QUEUE_MAX - 1, position, ret);
    vip_comps_open(&comps, app->vipd, vi, queue);
    return vip_comps_read(&comps, position, position, ret);
}

static void *rig_vipd_again; /* segment of an earlier life for the next application; or NULL */

RIG struct rig_app *rig_app(struct nic *nic)
{
    struct rig_app *app = calloc(1, sizeof(*app));
    struct registry_limits limits = {.regions_max = 1000, .bytes_max = 1ull << 32, .ptags_max = 10};
    struct nic_session_args args;

    app->nic = nic;
    app->uid = rig_uid;
    app->app = rig_map(rig_layout()->app_bytes);
    app->vipd = rig_vipd_again ? rig_vipd_again : rig_map(rig_layout()->vipd_bytes);
    assert_int_equal(registry_new(&limits, rig_memfd(VIP_ARENA_BYTES), &app->registry), 0);
    args = (struct nic_session_args){.id = 1,
                                     .uid = rig_uid,
                                     .layout = rig_layout(),
                                     .app_base = app->app,
                                     .vipd_base = app->vipd,
                                     .registry = app->registry,
                                     .sink = &rig_sink,
                                     .ctx = app};
    assert_int_equal(nic_session_new(nic, &args, rig_now, &app->session), 0);
    for (unsigned i = 0; i < RIG_APPS; i++)
        if (!rig_apps[i]) {
            rig_apps[i] = app;
            return app;
        }
    fail();
    return NULL;
}

/* Free an application whose session has ended. */
RIG void rig_app_forget(struct rig_app *app)
{
    registry_free(app->registry);
    munmap(app->app, rig_layout()->app_bytes);
    munmap(app->vipd, rig_layout()->vipd_bytes);
    for (unsigned i = 0; i < RIG_APPS; i++)
        if (rig_apps[i] == app)
            rig_apps[i] = NULL;
    free(app);
}

RIG void rig_app_end(struct rig_app *app, bool died)
{
    nic_session_free(app->session, died, rig_now);
    rig_app_forget(app);
}

#endif
