/*
 * Clients that ask without pause: each look at the descriptors serves a bounded part of it, so that
 * the NICs have their turns, and every client gets its share.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/client/internal.h"
#include "vipd/host.h"

#define CLIENTS 8

/* vipd without NICs, and what was seen between two turns. */
struct world {
    struct vipd_config config;
    struct vipd vipd;
    int sock[CLIENTS]; /* the clients' ends */
    unsigned wanted;   /* replies in all */
    unsigned got[CLIENTS], total;
    unsigned most;            /* replies between two turns */
    unsigned waited[CLIENTS]; /* turns with replies for others only */
    unsigned waited_most;
};

static bool between(void *ctx, bool worked)
{
    struct world *w = ctx;
    unsigned fresh[CLIENTS] = {0}, sum = 0;
    uint8_t bytes[4096];

    for (unsigned i = 0; i < CLIENTS; i++) {
        while (recv(w->sock[i], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
            fresh[i]++;
        sum += fresh[i];
    }
    for (unsigned i = 0; i < CLIENTS && sum > 0; i++) {
        w->got[i] += fresh[i];
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

/* Every client sends the request so often at once; run until all are answered. */
static void flood(struct world *w, const Vip__Request *request, unsigned times)
{
    const struct vipd_host_config host = {
        .wait = VIPD_WAIT_SPIN, .cpus = 1, .between = between, .ctx = w};

    *w = (struct world){.config = {.connections_per_uid = CLIENTS},
                        .vipd = {.shared = PTHREAD_MUTEX_INITIALIZER},
                        .wanted = CLIENTS * times};
    w->vipd.config = &w->config;
    w->vipd.runtime_dir = "";
    assert_int_equal(vipd_host_new(&host, &w->vipd.loop), 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(client_new(&w->vipd, pair[0]), 0);
        w->sock[i] = pair[1];
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
    flood(&w, &request, 30);
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
    flood(&w, &request, 10);
    assert_int_equal(w.most, 1);
    assert_in_range(w.waited_most, 0, CLIENTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cheap_requests),
        cmocka_unit_test(test_views),
    };

    return cmocka_run_group_tests_name("vipd_fair", tests, NULL, NULL);
}
