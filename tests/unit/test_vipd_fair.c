/*
 * Clients send requests without pause. Each look at the descriptors serves a limited number of
 * requests, so the NICs have their turns, and each client gets its share.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/direct.h"
#include "proto/ring.h"
#include "proto/shm.h"
#include "vipd/client/internal.h"
#include "vipd/host.h"

#define CLIENTS 8

/* The session of one client. Its submission ring or table is full of posted descriptors, which vipd
 * must take before it answers a request. */
struct app {
    struct nic_session *nic_session;
    void *app, *vipd;
    uint32_t written;
    void *table; /* the table of receive descriptors; NULL: none */
    uint32_t generation, received;
};

/* Fill the VI's table for the next reply. All receive descriptors share their continuations. */
static void refill_table(struct app *app, unsigned replies)
{
    struct vip_sq_slot slot = {.seg_count = VIP_SEGS_PER_DESC_MAX, .vi_gen = app->generation};

    while (app->received < (replies + 1) * VIP_DESC_PER_QUEUE_MAX) {
        vip_recv_write(app->table, 0, app->received, &slot);
        app->received++;
    }
}

static void refill(struct app *app)
{
    struct vip_sq_slot slot = {.vi = 9999, .kind = VIP_SQ_SEND};
    const struct vip_vipd_head *head = app->vipd;

    while (app->written - vip_load32(&head->sq_cons) < VIP_SQ_SLOTS)
        vip_sq_write(vip_app_sq(app->app), app->written++, &slot);
}

/* A vipd whose loop drives no NIC, and counts of the replies between two turns of the loop. */
struct world {
    struct vipd_config config;
    struct vipd vipd;
    int sock[CLIENTS]; /* the clients' ends of the control connections */
    unsigned wanted;   /* number of replies that all clients want */
    unsigned got[CLIENTS], total;
    unsigned most;            /* the most replies between two turns */
    unsigned waited[CLIENTS]; /* turns in a row without a reply for this client */
    unsigned waited_most;
    struct app *
        apps; /* NULL, or the sessions of the clients; their rings are refilled between two turns */
};

static bool between(void *ctx, bool worked)
{
    struct world *w = ctx;
    unsigned fresh[CLIENTS] = {0}, sum = 0;
    uint8_t bytes[4096];

    for (unsigned i = 0; i < CLIENTS; i++) {
        if (w->apps && !w->apps[i].table)
            refill(&w->apps[i]);
        while (recv(w->sock[i], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            fresh[i]++;
        sum += fresh[i];
    }
    for (unsigned i = 0; i < CLIENTS && sum > 0; i++) {
        w->got[i] += fresh[i];
        if (w->apps && w->apps[i].table)
            refill_table(&w->apps[i], w->got[i]);
        w->waited[i] = fresh[i] == 0 && w->got[i] < w->wanted / CLIENTS ? w->waited[i] + 1 : 0;
        if (w->waited[i] > w->waited_most)
            w->waited_most = w->waited[i];
    }
    w->total += sum;
    if (sum > w->most)
        w->most = sum;
    if (w->total >= w->wanted)
        vipd_host_stop(w->vipd.loop);
    return worked;
}

/* Make a session with only the members that a request to disconnect a VI needs. */
static struct session *session_of(struct vipd_loop *loop, const struct app *app)
{
    struct session *session = calloc(1, sizeof(*session));

    assert_non_null(session);
    session->events_tail = &session->events;
    session->doorbell = -1;
    session->event_sock = eventfd(0, EFD_CLOEXEC); /* an eventfd that is never readable */
    session->event_watch = vipd_watch_new(loop, session->event_sock, 0, NULL, NULL);
    assert_non_null(session->event_watch);
    session->nic_session = app->nic_session;
    session->layout = nic_layout(VIP_SHM_ABI);
    return session;
}

/* Each client sends the request `times` times at once. Run until vipd has answered all requests. */
static void flood(struct world *w, const Vip__Request *request, unsigned times, struct app *apps,
                  struct nic *nic)
{
    const struct vipd_host_config host = {
        .wait = VIPD_WAIT_SPIN, .cpus = 1, .between = between, .ctx = w};

    *w = (struct world){.config = {.connections_per_uid = CLIENTS},
                        .vipd = {.shared = PTHREAD_MUTEX_INITIALIZER},
                        .wanted = CLIENTS * times,
                        .apps = apps};
    w->vipd.config = &w->config;
    w->vipd.runtime_dir = "";
    assert_int_equal(vipd_host_new(&host, &w->vipd.loop), 0);
    w->vipd.nics[0].loop = w->vipd.loop;
    w->vipd.nics[0].nic = nic;
    w->vipd.nics[0].config = &w->config.nics[0];
    for (unsigned i = 0; i < CLIENTS; i++) {
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(client_new(&w->vipd, pair[0]), 0);
        w->sock[i] = pair[1];
        if (apps)
            w->vipd.clients_last->session = session_of(w->vipd.loop, &apps[i]);
        for (unsigned n = 0; n < times; n++)
            assert_int_equal(vip_control_send(pair[1], &request->base, NULL, 0, 0), 0);
    }
    assert_int_equal(vipd_host_run(w->vipd.loop), 0);
    clients_shutdown(&w->vipd);
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(w->got[i], times);
        close(w->sock[i]);
    }
    vipd_host_free(w->vipd.loop);
}

static void test_cheap_requests(void **state)
{
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__ResolveRequest resolve = VIP__RESOLVE_REQUEST__INIT;
    struct world w;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_RESOLVE;
    request.resolve = &resolve;
    resolve.name = (char *)"nobody";
    flood(&w, &request, 30, NULL, NULL);
    assert_in_range(w.most, 1, 64);
    assert_in_range(w.waited_most, 0, CLIENTS);
}

static void test_views(void **state)
{
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    struct world w;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__SUMMARY;
    flood(&w, &request, 10, NULL, NULL);
    assert_int_equal(w.most, 1);
    assert_in_range(w.waited_most, 0, CLIENTS);
}

static void *pages(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

/* Before vipd answers a request, it takes the posted descriptors. The cost of thousands of slots
 * counts, too, so vipd sends only one reply in a look at the descriptors. */
static void requests_that_take(bool table)
{
    const struct nic_config config = {.name = "vip0",
                                      .engine = ENG_CONFIG_DEFAULT,
                                      .epoch = 1,
                                      .vi_max = 4,
                                      .cq_max = 1,
                                      .cm = {.grace_ns = 1,
                                             .backlog_max = 1,
                                             .retry_ns = 1,
                                             .retry_max_ns = 1,
                                             .accept_timeout_ns = 1,
                                             .close_timeout_ns = 1,
                                             .keepalive_ns = 1,
                                             .peer_dead_ns = 2}};
    const struct registry_limits limits = {.regions_max = 1, .bytes_max = 1, .ptags_max = 1};
    const struct nic_vi_args vi = {.attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 1},
                                   .send_cq = -1,
                                   .recv_cq = -1};
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__ViRequest number = VIP__VI_REQUEST__INIT;
    struct registry *registry[CLIENTS];
    struct app apps[CLIENTS] = {{0}};
    struct link *link;
    struct nic *nic;
    struct world w;

    assert_int_equal(link_loop_open(&link), 0);
    assert_int_equal(nic_open(&config, link, 1, &nic), 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        int arena = memfd_create("arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        struct nic_session_args args = {.layout = nic_layout(VIP_SHM_ABI), .sink = &client_sink};
        struct nic_vi_created created;
        char why[100];

        assert_int_equal(ftruncate(arena, VIP_ARENA_BYTES), 0);
        assert_int_equal(fcntl(arena, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
        assert_int_equal(registry_new(&limits, arena, &registry[i]), 0);
        args.registry = registry[i];
        args.app_base = apps[i].app = pages(VIP_APP_BYTES);
        args.vipd_base = apps[i].vipd = pages(VIP_VIPD_BYTES);
        assert_int_equal(nic_session_new(nic, &args, 1, &apps[i].nic_session), 0);
        if (table) {
            struct vip_sq_slot cont = {0};

            apps[i].table = pages(VIP_RECV_BYTES);
            assert_int_equal(nic_session_set_receives(apps[i].nic_session, apps[i].table), 0);
            for (uint32_t at = 0; at < VIP_SQ_SLOTS; at++)
                vip_sq_write(vip_recv_conts(apps[i].table, 0), at, &cont);
        }
        assert_int_equal(nic_vi_create(apps[i].nic_session, &vi, &created, why, sizeof(why)), 0);
        apps[i].generation = created.generation;
        if (table)
            refill_table(&apps[i], 0);
        else
            refill(&apps[i]);
    }
    request.body_case = VIP__REQUEST__BODY_DISCONNECT;
    request.disconnect = &number;
    number.has_vi = true;
    flood(&w, &request, 20, apps, nic);
    assert_int_equal(w.most, 1);
    assert_in_range(w.waited_most, 0, CLIENTS);
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (table) {
            assert_in_range(apps[i].received, 20 * VIP_DESC_PER_QUEUE_MAX, UINT32_MAX);
            munmap(apps[i].table, VIP_RECV_BYTES);
        }
        registry_free(registry[i]);
        munmap(apps[i].app, VIP_APP_BYTES);
        munmap(apps[i].vipd, VIP_VIPD_BYTES);
    }
    nic_close(nic, 2);
}

static void test_requests_that_take_rings(void **state)
{
    (void)state;
    requests_that_take(false);
}

/* For VipDisconnect vipd takes the VI's receive descriptors, also if the VI is not connected. */
static void test_requests_that_take_tables(void **state)
{
    (void)state;
    requests_that_take(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cheap_requests),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_requests_that_take_rings),
        cmocka_unit_test(test_requests_that_take_tables),
    };

    return cmocka_run_group_tests_name("vipd_fair", tests, NULL, NULL);
}
