/*
 * Connection manager: a program or the other end ends a connection during a rebind (REBIND).
 */
#include "tests/unit/cm_rebind.h"

static bool cancel(struct world *w, unsigned index, const struct cm_rebind_args *args)
{
    return cm_rebind_cancel(w->hosts[index].cm, args->user, VIP_CLOSE_DISCONNECT, w->now_ns);
}

/* A program ends while its connection waits for the first answer of the other end. Some messages
 * are lost. The other end learns that the connection is over when messages arrive again. */
static void test_cancel(void **state)
{
    for (unsigned n = 0; n < 24; n++) {
        struct conn *c[2], was, *other;
        struct world *w = world_of(300 + n, &c[CLIENT], &c[SERVER]);
        struct cm_rebind_args args;
        unsigned end = n % 2;

        was = *c[end];
        other = c[!end];
        host_kill(w, end);
        host_start(w, end);
        args = rebind_args(w, end, !end, &was);
        args.timeout_ns = 10 * S;
        w->filter = drop_all;
        assert_int_equal(cm_rebind(w->hosts[end].cm, &args, w->now_ns), 0);
        world_run(w, 1 * S);
        assert_true(cancel(w, end, &args));
        assert_false(cancel(w, end, &args));
        w->filter = drop_some;
        lost_left = n / 2;
        world_run(w, 8 * S); /* the rebind's time limit comes later */
        assert_int_equal(w->hosts[end].requests[args.user].done, 0);
        assert_int_equal(other->closed, 1);
        assert_int_equal(other->lost + other->reset, 0);
        assert_int_equal(other->close.reason, VIP_CLOSE_DISCONNECT);
        world_run(w, 20 * S);
        assert_int_equal(w->hosts[end].conn_count, 0);
        world_free(w);
    }
}

/* Both ends have a new life and wait for each other; then the program of one end ends. Some
 * messages are lost. The other program learns before its time limit that the connection is over. */
static void test_cancel_of_two(void **state)
{
    for (unsigned n = 0; n < 32; n++) {
        struct conn *c[2], was[2], *bound;
        struct world *w = world_of(340 + n, &c[CLIENT], &c[SERVER]);
        struct cm_rebind_args args[2];
        unsigned end = n % 2;
        const struct attempt *other;

        for (unsigned i = 0; i < 2; i++) {
            was[i] = *c[i];
            host_kill(w, i);
            host_start(w, i);
        }
        w->filter = drop_all;
        for (unsigned i = 0; i < 2; i++) {
            args[i] = rebind_args(w, i, !i, &was[i]);
            args[i].timeout_ns = 8 * S;
            assert_int_equal(cm_rebind(w->hosts[i].cm, &args[i], w->now_ns), 0);
        }
        world_run(w, 1 * S);
        assert_true(cancel(w, end, &args[end]));
        w->filter = drop_some;
        lost_left = n / 2;
        world_run(w, 6 * S);
        other = &w->hosts[!end].requests[args[!end].user];
        bound = &w->hosts[!end].conns[0];
        assert_int_equal(other->done, 1);
        assert_true(other->rc == VIP_RC_SUCCESS ? bound->closed == 1
                                                : other->rc == VIP_RC_NO_MATCH);
        assert_int_equal(w->hosts[end].conn_count, 0);
        assert_int_equal(w->hosts[end].requests[args[end].user].done, 0);
        world_free(w);
    }
}

/* If the other end does not know the connection, or after the time limit, vipd repeats nothing. */
static void test_cancel_ends(void **state)
{
    for (unsigned unknown = 0; unknown < 2; unknown++) {
        struct conn *c, *s, was;
        struct world *w = world_of(375 + unknown, &c, &s);
        struct cm_rebind_args args;
        uint64_t packets;

        was = *c;
        world_run(w, 11 * S); /* the server's life no longer counts as new */
        host_kill(w, CLIENT);
        host_start(w, CLIENT);
        args = rebind_args(w, CLIENT, SERVER, &was);
        w->filter = drop_all;
        assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
        world_run(w, 100 * MS);
        assert_true(cancel(w, CLIENT, &args));
        if (unknown) {
            host_kill(w, SERVER);
            w->outlive_ns = 0;
            host_start(w, SERVER);
            w->filter = NULL;
            world_run(w, 1 * S);
        } else {
            world_run(w, 5 * S);
        }
        w->filter = NULL;
        packets = stats_of(w, CLIENT).retransmits;
        world_run(w, 3 * S);
        assert_int_equal(stats_of(w, CLIENT).retransmits, packets);
        assert_int_equal(w->hosts[CLIENT].requests[args.user].done, 0);
        /* A second rebind with the same `user` is allowed. */
        assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
        world_free(w);
    }
}

/* A CHALLENGE is no proof. The closing end sends its PROOF and waits for the peer's true PROOF. */
static void test_cancel_forged(void **state)
{
    struct conn *c, *s, was;
    struct world *w = world_of(380, &c, &s);
    struct cm_rebind_args args;
    struct vip_cm proof, challenge = {.type = VIP_CM_CHALLENGE, .conn_id = 0x77, .nonce = 5};

    was = *c;
    host_kill(w, CLIENT);
    host_start(w, CLIENT);
    args = rebind_args(w, CLIENT, SERVER, &was);
    heard_count = 0;
    w->filter = hear;
    assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
    assert_int_equal(heard[0].type, VIP_CM_REBIND);
    w->filter = drop_all;
    assert_true(cancel(w, CLIENT, &args));
    challenge.peer_conn_id = args.local_id;
    challenge.request_id = heard[0].request_id + 1; /* this is not the request_id of the REBIND */
    inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch, w->hosts[CLIENT].epoch, &challenge);
    assert_int_equal(stats_of(w, CLIENT).unexpected, 1);
    challenge.request_id--;
    inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch, w->hosts[CLIENT].epoch, &challenge);
    assert_int_equal(stats_of(w, CLIENT).closes_sent, 0);
    proof = (struct vip_cm){.type = VIP_CM_PROOF,
                            .request_id = challenge.request_id,
                            .nonce = challenge.nonce,
                            .conn_id = challenge.conn_id,
                            .peer_conn_id = args.local_id,
                            .packet_bytes = 8192,
                            .window_bytes = 65536};
    inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch, w->hosts[CLIENT].epoch, &proof);
    assert_int_equal(stats_of(w, CLIENT).closes_sent, 0);
    /* Data from an end that is already bound gets no RESET, because this end will get a CLOSE. */
    cm_unknown_conn(w->hosts[CLIENT].cm, &w->hosts[SERVER].addr,
                    &(struct vip_header){.conn_id = args.local_id, .src_epoch = 1}, w->now_ns);
    assert_int_equal(stats_of(w, CLIENT).resets_sent, 0);
    cm_unknown_conn(w->hosts[CLIENT].cm, &w->hosts[CLIENT].addr,
                    &(struct vip_header){.conn_id = args.local_id, .src_epoch = 1}, w->now_ns);
    assert_int_equal(stats_of(w, CLIENT).resets_sent, 1);
    w->filter = NULL; /* from now on the true server's answers arrive */
    world_run(w, 4 * S);
    assert_int_equal(s->closed, 1);
    world_free(w);
}

static bool drop_answer(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    return msg->type != VIP_CM_PROOF || from == CLIENT;
}

/* The server is bound anew, and its PROOF never arrives. The client's rebind ends by its time
 * limit, or because the client's program ends. The server learns that the connection is over. */
static void test_half_open(void **state)
{
    for (unsigned cancels = 0; cancels < 2; cancels++) {
        struct conn *c, *s, was;
        struct world *w = world_of(310 + cancels, &c, &s);
        struct cm_rebind_args args;

        was = *c;
        host_kill(w, CLIENT);
        host_start(w, CLIENT);
        args = rebind_args(w, CLIENT, SERVER, &was);
        w->filter = drop_answer;
        assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
        world_run(w, 2 * S);
        assert_int_equal(s->rebound, 1);
        assert_true(s->alive);
        if (cancels)
            assert_true(cancel(w, CLIENT, &args));
        world_run(w, 5 * S);
        assert_int_equal(w->hosts[CLIENT].requests[args.user].done, !cancels);
        assert_int_equal(s->closed, 1);
        world_free(w);
    }
}

/* The server is bound anew, but its PROOF does not arrive. Then the server's program ends. The
 * server's CLOSE also ends the client's rebind. */
static void test_closed_half_open(void **state)
{
    struct conn *c, *s, was;
    struct world *w = world_of(315, &c, &s);
    struct attempt *attempt;
    struct vip_cm close = {.type = VIP_CM_CLOSE, .peer_conn_id = 0x99};

    was = *c;
    w->filter = drop_answer;
    attempt = restart(w, CLIENT, &was);
    world_run(w, 100 * MS);
    assert_int_equal(s->rebound, 1);
    /* A CLOSE that names another end, or comes from another life, changes nothing. */
    for (unsigned i = 0; i < 3; i++) {
        close.conn_id = s->local_id + (i == 0);
        close.peer_conn_id = attempt->local_id + (i == 1);
        inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch + (i == 2), w->hosts[CLIENT].epoch,
               &close);
    }
    assert_int_equal(attempt->done, 0);
    host_close(w, SERVER, s);
    world_run(w, 100 * MS);
    assert_int_equal(attempt->done, 1);
    assert_int_equal(attempt->rc, VIP_RC_NO_MATCH);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cancel),      cmocka_unit_test(test_cancel_of_two),
        cmocka_unit_test(test_cancel_ends), cmocka_unit_test(test_cancel_forged),
        cmocka_unit_test(test_half_open),   cmocka_unit_test(test_closed_half_open),
    };

    return cmocka_run_group_tests_name("engine_cm_rebind_end", tests, NULL, NULL);
}
