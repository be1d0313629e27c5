/* Connection manager: a vipd that ends in order leaves its connections to the next vipd (AWAY). */
#include "tests/unit/cm_rebind.h"

/* A vipd announces when the next vipd will start. Until then its peers wait and send no PINGs. */
static void test_away(void **state)
{
    for (unsigned end = 0; end < 2; end++) {
        struct conn *c[2], was;
        struct world *w = world_of(350 + end, &c[CLIENT], &c[SERVER]);
        struct cm_rebind_args args;
        uint64_t packets;

        was = *c[end];
        cm_leave(w->hosts[end].cm, 60 * S, w->now_ns);
        world_run(w, 1 * MS);
        assert_int_equal(c[!end]->away, 1);
        host_kill(w, end);
        packets = w->packets;
        world_run(w, 9 * S);
        assert_true(c[!end]->alive && w->packets == packets);
        host_start(w, end);
        args = rebind_args(w, end, !end, &was);
        assert_int_equal(cm_rebind(w->hosts[end].cm, &args, w->now_ns), 0);
        world_run(w, 100 * MS);
        bound(w, &w->hosts[end].conns[0], c[!end]);
        world_run(w, 60 * S);
        assert_true(c[!end]->alive && c[!end]->rebound == 1);
        assert_int_equal(stats_of(w, !end).peers_lost, 0);
        world_free(w);
    }
}

/* If no vipd starts in the announced time, or in the peer's own `outlive`, connections are lost. */
static void test_away_for_ever(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct conn *c, *s;
        struct world *w = world_of(360, &c, &s);

        cm_leave(w->hosts[CLIENT].cm, i ? 60 * S : 3 * S, w->now_ns);
        world_run(w, 1 * MS);
        host_kill(w, CLIENT);
        world_run(w, i ? 9 * S : 2 * S);
        assert_int_equal(s->lost, 0);
        assert_int_equal(stats_of(w, SERVER).peers_lost, 0);
        world_run(w, 2 * S);
        assert_int_equal(s->lost, 1);
        assert_int_equal(stats_of(w, SERVER).peers_lost, 1);
        world_free(w);
    }
}

/* A vipd closes connections that cannot go on. Their CLOSE may arrive after the AWAY. */
static void test_away_and_close(void **state)
{
    struct vip_cm close = {.type = VIP_CM_CLOSE, .reason = VIP_CLOSE_SHUTDOWN};
    struct conn *c, *s;
    struct world *w = world_of(380, &c, &s);

    close.conn_id = c->local_id;
    close.peer_conn_id = s->local_id;
    cm_leave(w->hosts[CLIENT].cm, 60 * S, w->now_ns);
    world_run(w, 1 * MS);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch + 1, w->hosts[SERVER].epoch, &close);
    assert_int_equal(s->closed, 0);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &close);
    assert_int_equal(s->closed, 1);
    world_run(w, 20 * S);
    assert_int_equal(s->lost, 0);
    world_free(w);
}

/* An AWAY counts only if it names both ids and comes from the life that has the other end. */
static void test_away_forged(void **state)
{
    struct vip_cm away = {.type = VIP_CM_AWAY, .back_ms = 600000};
    struct conn *c, *s;
    struct world *w = world_of(370, &c, &s);

    away.conn_id = c->local_id;
    away.peer_conn_id = s->local_id + 1;
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &away);
    away.conn_id++;
    away.peer_conn_id = s->local_id;
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &away);
    away.conn_id = c->local_id;
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch + 1, w->hosts[SERVER].epoch, &away);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch + 1, &away);
    inject(w, SERVER, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &away);
    assert_int_equal(s->away, 0);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &away);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &away);
    assert_int_equal(s->away, 1);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_away),
        cmocka_unit_test(test_away_for_ever),
        cmocka_unit_test(test_away_and_close),
        cmocka_unit_test(test_away_forged),
    };

    return cmocka_run_group_tests_name("engine_cm_leave", tests, NULL, NULL);
}
