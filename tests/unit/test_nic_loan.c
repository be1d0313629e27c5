/*
 * vipd lends the data path of a connection to a program, and takes it back (vipd/nic/loan.c). The
 * programs are those of nic_lend.h.
 */
#include "unit/nic_lend.h"
#include "vipd/nic/outlive.h"
#include "vipd/nic/see.h"

/* Send a message in both directions through vipd or through loans, and wait for all completions. */
static void exchange(void)
{
    for (unsigned i = 0; i < 2; i++) {
        while (ends[i].receives - ends[i].got < 4)
            post_recv(&ends[i]);
        post_send(&ends[i]);
    }
    UNTIL(ends[0].got == ends[1].sends && ends[1].got == ends[0].sends &&
              ends[0].sent == ends[0].sends && ends[1].sent == ends[1].sends,
          100 * MS);
}

/* The connection works, and vipd has the engines of both ends. */
static void check_home(void)
{
    UNTIL(!is_out(&ends[0]) && !is_out(&ends[1]), 100 * MS);
    ends[0].polls = ends[1].polls = false;
    run(5 * MS);
    exchange();
    exchange();
    assert_false(ends[0].failed[VIP_Q_SEND] || ends[1].failed[VIP_Q_SEND]);
}

/* Out, messages in both directions by the program's socket, and home again. */
static void test_out_and_home(void **state)
{
    struct end *end = &ends[0];
    uint64_t posts;

    exchange();
    lend_to(end);
    assert_int_equal(count(0, "loans_lent"), 1);
    end->polls = true;
    posts = count(0, "completions");
    for (unsigned i = 0; i < 8; i++)
        exchange();
    assert_int_equal(count(0, "completions"), posts); /* the program completes its descriptors */
    assert_true(end->packets >= 8);
    end->polls = false;
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    assert_false(is_out(end));
    assert_false(stay(end));
    check_home();
    assert_int_equal(count(0, "loans_back_gone"), 1);
    assert_int_equal(ends[0].got, 11);
}

/* All sends before the loan went by the submission ring, and the owner sends nothing: `posted` in
 * the part is still 0. */
static void test_owner_sends_nothing(void **state)
{
    struct end *end = &ends[0];

    for (unsigned i = 0; i < 2; i++) {
        exchange();
        exchange();
        lend_to(end);
        assert_true(stay(end));
        assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
        check_home();
    }
}

static bool view_take(void *ctx, const struct nic_conn_view *view)
{
    *(struct nic_conn_view *)ctx = *view;
    return false;
}

static bool stats_take(void *ctx, const struct nic_vi_view *view)
{
    *(struct eng_vi_stats *)ctx = view->stats;
    return false;
}

static struct nic_conn_view view_of(const struct end *end)
{
    struct nic_conn_view view = {0};

    nic_session_conns(end->app->session, end->vi, view_take, &view);
    return view;
}

/* Each binding begins with the round trip that vipd has measured last. */
static void test_round_trip_kept(void **state)
{
    struct end *end = &ends[0];
    struct eng_vi_stats stats = {0};

    exchange();
    exchange();
    lend_to(end);
    assert_true(end->terms.conn.rtt_ns > 0);
    assert_true(stay(end));
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    run(MS);
    nic_session_vis(end->app->session, end->vi, stats_take, &stats);
    assert_true(stats.srtt_ns > 0);
    check_home();
}

/* The views say who carries the data of a connection, why vipd took a loan back, and why it refused
 * one. */
static void test_seen(void **state)
{
    struct end *end = &ends[0];

    assert_int_equal(view_of(end).carrier, NIC_CARRIER_VIPD);
    assert_int_equal(view_of(end).loan.lent, 0);
    assert_null(view_of(end).loan.refused);
    lend_to(end);
    assert_int_equal(view_of(end).carrier, NIC_CARRIER_LOAN);
    assert_int_equal(view_of(&ends[1]).carrier, NIC_CARRIER_VIPD);
    assert_int_not_equal(ask_loan(end), VIP_RC_SUCCESS);
    assert_string_equal(view_of(end).loan.refused, "the VI is on loan, or moves");
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(view_of(end).carrier, NIC_CARRIER_VIPD);
    assert_int_equal(view_of(end).loan.lent, 1);
    assert_int_equal(view_of(end).loan.gone, 1);
    check_home();
    lend_to(end);
    assert_int_equal(view_of(end).loan.lent, 2);
    assert_null(view_of(end).loan.refused);
    post_send(&ends[1]);
    run(5 * MS);
    assert_int_equal(view_of(end).carrier, NIC_CARRIER_VIPD);
    assert_int_equal(view_of(end).loan.data, 1);
    check_home();
}

/* Data waits at the socket, and the owner does not come. */
static void test_data_waits(void **state)
{
    lend_to(&ends[0]);
    ends[0].polls = true;
    exchange();
    run(MS);
    ends[0].polls = false;
    run(20 * MS);
    assert_true(is_out(&ends[0])); /* nothing waits, so the owner keeps its loan */
    post_send(&ends[1]);
    UNTIL(ends[0].got == 2 && ends[1].sent == 2, 3 * MS);
    assert_false(is_out(&ends[0]));
    assert_int_equal(count(0, "loans_back_data"), 1);
    check_home();
}

/* The owner has sent a message and does not come for its timer. The packet is lost. */
static void test_timer(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    end->polls = true;
    exchange();
    end->loss_ppm = 1000000;
    post_send(end);
    assert_true(stay(end));
    end->polls = false;
    UNTIL(end->sent == 2 && ends[1].got == 2, 50 * MS);
    assert_int_equal(count(0, "loans_back_timer"), 1);
    check_home();
}

/* Sends that the owner never took from its table arrive; before and after the first stay. */
static void test_sends_in_the_table(void **state)
{
    struct end *end = &ends[0];

    for (unsigned used = 0; used < 2; used++) {
        post_send(end); /* by the submission ring; vipd may not have taken it when it lends */
        lend_to(end);
        if (used)
            assert_true(stay(end));
        for (unsigned i = 0; i < 3; i++)
            post_to_table(end);
        assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
        post_to_table(end); /* the program has not seen the end of the loan yet */
        ask_sends(end);
        post_to_ring(end);
        UNTIL(ends[1].got == end->sends && end->sent == end->sends, 50 * MS);
        assert_int_equal(end->sends, 6 * (used + 1));
        run(10 * MS);
    }
    check_home();
}

/* An owner that never comes: the sends that vipd had before the loan leave. */
static void test_never_entered(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    post_to_ring(end); /* as a thread that looked before the loan began */
    run(MS / 10);
    post_to_table(end);
    assert_int_equal(ends[1].got, 0);
    post_send(&ends[1]); /* data waits */
    UNTIL(ends[1].got == 2 && end->sent == 2 && end->got == 1, 20 * MS);
    assert_int_equal(end->stays, 0);
    assert_int_equal(count(0, "loans_back_data"), 1);
    check_home();
}

/* Both ends are on loan: the move of one end does not end the loan of the other end. */
static void test_both_ends(void **state)
{
    lend_to(&ends[0]);
    ends[0].polls = true;
    exchange();
    lend_to(&ends[1]);
    ends[1].polls = true;
    assert_true(is_out(&ends[0]) && is_out(&ends[1]));
    assert_int_equal(count(0, "loans_back_peer"), 1);
    assert_int_equal(count(0, "loans_lent"), 2);
    for (unsigned i = 0; i < 8; i++)
        exchange();
    assert_true(ends[0].packets >= 8 && ends[1].packets >= 8);
    assert_int_equal(nic_loan_give_back(ends[0].app->session, ends[0].vi, rig_now), VIP_RC_SUCCESS);
    ends[0].polls = false;
    run(5 * MS);
    assert_true(!is_out(&ends[0]) && is_out(&ends[1]));
    exchange();
    assert_int_equal(nic_loan_give_back(ends[1].app->session, ends[1].vi, rig_now), VIP_RC_SUCCESS);
    check_home();
}

/* Both ends ask at the same time. */
static void test_both_at_once(void **state)
{
    assert_int_equal(ask_loan(&ends[0]), VIP_RC_SUCCESS);
    assert_int_equal(ask_loan(&ends[1]), VIP_RC_SUCCESS);
    ends[0].polls = ends[1].polls = true;
    UNTIL(is_out(&ends[0]) && is_out(&ends[1]), 100 * MS);
    for (unsigned i = 0; i < 8; i++)
        exchange();
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(nic_loan_give_back(ends[i].app->session, ends[i].vi, rig_now),
                         VIP_RC_SUCCESS);
    check_home();
}

/* No answer to the probe: the engine stays at home, and vipd closes its descriptor. */
static void test_no_answer(void **state)
{
    struct nic *peer = rig_nics[1];
    struct end *end = &ends[0];

    rig_nics[1] = NULL;
    assert_int_equal(ask_loan(end), VIP_RC_SUCCESS);
    run(100 * MS);
    assert_false(is_out(end));
    assert_int_equal(count(0, "loans_lent"), 0);
    assert_int_equal(fcntl(end->copy, F_GETFD), -1); /* vipd has closed it */
    assert_non_null(strstr(view_of(end).loan.refused, "firewall"));
    assert_int_equal(ask_loan(end), VIP_RC_ERROR_RESOURCE); /* not now */
    assert_non_null(strstr(view_of(end).loan.refused, "firewall"));
    rig_nics[1] = peer;
    run(1100 * MS);
    assert_int_equal(count(0, "loans_refused"), 1);
    lend_to(end);
    end->polls = true;
    exchange();
}

/* A program that does not poll any more when the answer comes gets no loan. */
static void test_pause(void **state)
{
    struct nic *peer = rig_nics[1];

    rig_nics[1] = NULL;
    assert_int_equal(ask_loan(&ends[0]), VIP_RC_SUCCESS);
    ends[0].asked = false;
    run(2 * MS);
    rig_nics[1] = peer;
    run(5 * MS);
    assert_int_equal(count(0, "loans_lent"), 0);
    check_home();
}

/* ---- at random -------------------------------------------------------------------------- */

/* One step of a program that does anything that libvipl may do. */
static void act(struct end *end)
{
    while (end->receives - end->got < MESSAGES / 2)
        post_recv(end);
    if (rig_chance(200000) && end->sends - end->sent < MESSAGES / 2)
        post_send(end);
    if (rig_chance(10000))
        end->polls = !end->polls;
    if (rig_chance(5000))
        end->wants = !end->wants;
    if (end->wants && !is_out(end) && rig_chance(100000))
        (void)ask_loan(end);
    if (rig_chance(1000))
        assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    if (rig_chance(1000))
        end->loss_ppm = rig_chance(500000) ? 0 : 50000;
}

/* A step in which some NIC may get no time, so that everything may come late. */
static void late_step(unsigned late_ppm)
{
    struct nic *nics[2] = {rig_nics[0], rig_nics[1]};

    for (unsigned i = 0; i < 2; i++)
        if (rig_chance(late_ppm))
            rig_nics[i] = NULL;
    if (rig_chance(1000))
        rig_now += 300 * MS; /* nothing runs; later, an end may move again */
    step();
    for (unsigned i = 0; i < 2; i++)
        rig_nics[i] = nics[i];
}

/* Both programs get and lose loans, and packets of loans are lost. All messages arrive, once, in
 * order, with their bytes. */
static void test_random(void **state)
{
    uint64_t lent = 0;

    for (unsigned seed = 1; seed <= 8; seed++) {
        if (seed > 1)
            begin(state);
        rig_seed = seed * 0x9e3779b97f4a7c15u;
        for (unsigned i = 0; i < 20000; i++) {
            act(&ends[0]);
            act(&ends[1]);
            late_step(seed % 2 ? 300000 : 0);
        }
        lent += count(0, "loans_lent") + count(1, "loans_lent");
        for (unsigned i = 0; i < 2; i++) {
            ends[i].polls = false;
            ends[i].loss_ppm = 0;
            while (ends[i].receives - ends[i].got < MESSAGES / 2)
                post_recv(&ends[i]);
            assert_int_equal(nic_loan_give_back(ends[i].app->session, ends[i].vi, rig_now),
                             VIP_RC_SUCCESS);
        }
        UNTIL(ends[0].got == ends[1].sends && ends[1].got == ends[0].sends &&
                  ends[0].sent == ends[0].sends && ends[1].sent == ends[1].sends,
              3000 * MS);
        check_home();
        if (seed < 8)
            finish(state);
    }
    print_message("%u loans\n", (unsigned)lent);
    assert_true(lent > 100);
}

/* ---- requests that vipd refuses -------------------------------------------------------- */

static void refused(struct end *end, uint32_t vi, uint32_t part, int sock, enum vip_rc rc,
                    const char *words)
{
    struct nic_loan_probe probe;
    char why[160] = "";
    int copy = sock;
    uint64_t before = count(end->host, "loans_refused");

    assert_int_equal(nic_loan_ask(end->app->session, &(struct nic_loan_ask){.vi = vi, .part = part},
                                  &copy, rig_now, &probe, why, sizeof(why)),
                     rc);
    if (!strstr(why, words))
        fail_msg("\"%s\" lacks \"%s\"", why, words);
    assert_int_equal(copy, sock);
    assert_int_equal(count(end->host, "loans_refused"), before + 1);
}

static void rename_to(int sock, const struct link_addr *addr, bool peer)
{
    struct sockaddr_in name = {.sin_family = AF_INET};

    memcpy(&name.sin_addr, addr->bytes, 4);
    memcpy(&name.sin_port, addr->bytes + 4, 2);
    assert_int_equal(peer ? connect(sock, (struct sockaddr *)&name, sizeof(name))
                          : bind(sock, (struct sockaddr *)&name, sizeof(name)),
                     0);
}

static void test_wrong_sockets(void **state)
{
    struct end *end = &ends[0];
    struct link_addr own = rig_addr(0), peer = rig_addr(1), other = rig_addr(3);
    const struct {
        int domain, type;
        const char *words;
    } kinds[] = {{AF_INET6, SOCK_DGRAM, "no UDP socket"},
                 {AF_INET, SOCK_STREAM, "no UDP socket"},
                 {AF_UNIX, SOCK_DGRAM, "no UDP socket"}};
    int sock, pipes[2];

    for (unsigned i = 0; i < 3; i++) {
        sock = socket(kinds[i].domain, kinds[i].type, 0);
        assert_true(sock >= 0);
        refused(end, end->vi, 0, sock, VIP_RC_INVALID_PARAMETER, kinds[i].words);
        close(sock);
    }
    assert_int_equal(pipe(pipes), 0);
    refused(end, end->vi, 0, pipes[0], VIP_RC_INVALID_PARAMETER, "no UDP socket");
    close(pipes[0]);
    close(pipes[1]);

    sock = socket(AF_INET, SOCK_DGRAM, 0);
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_PARAMETER, "not bound");
    close(sock);
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    memset(other.bytes + 4, 0, 2);
    rename_to(sock, &other, false);
    rename_to(sock, &peer, true);
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_PARAMETER, "not bound");
    close(sock);

    sock = socket(AF_INET, SOCK_DGRAM, 0);
    memset(own.bytes + 4, 0, 2);
    rename_to(sock, &own, false);
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_PARAMETER, "not connected");
    peer.bytes[5]++;
    rename_to(sock, &peer, true);
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_PARAMETER, "not connected");
    close(sock);
}

static void see_nothing(void *ctx, const struct nic_seen *seen)
{
}

static void test_wrong_requests(void **state)
{
    struct end *end = &ends[0];
    uint16_t idle = rig_vi(end->app, VIP_LVL_DELIVERY);
    int sock = sock_of(0);
    struct rig_mem staged;

    refused(end, 63, 0, sock, VIP_RC_INVALID_PARAMETER, "no such VI");
    refused(end, end->vi, VIP_LOANS_MAX, sock, VIP_RC_INVALID_PARAMETER, "no such VI or part");
    refused(end, idle, 0, sock, VIP_RC_INVALID_STATE, "not connected");
    end->parts[0].owner.number = 7;
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_STATE, "not zero");
    end->parts[0].owner.number = 0;
    end->parts[0].posted = 1;
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_STATE, "not zero");
    end->parts[0].posted = 0;
    nic_look_on(rig_nics[0], see_nothing, NULL);
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_STATE, "capture");
    nic_look_on(rig_nics[0], NULL, NULL);
    staged = rig_mem(end->app, 4096, REGISTRY_STAGED);
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_STATE, "staged");
    assert_int_equal(registry_remove(end->app->registry, staged.handle, (uintptr_t)staged.at),
                     VIP_RC_SUCCESS);
    rig_mem_free(&staged);
    lend_to(end);
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_STATE, "on loan");
    close(sock);
    /* A capture that begins ends the loan, because it would not see the packets. */
    nic_look_on(rig_nics[0], see_nothing, NULL);
    assert_false(is_out(end));
    check_home();
    nic_look_on(rig_nics[0], NULL, NULL);
}

/* ---- what a hostile program can do ----------------------------------------------------- */

/* The owner leaves a checkpoint that is not possible: its connection ends, and nothing else. */
static void test_impossible_checkpoint(void **state)
{
    for (unsigned i = 0; i < 3; i++) {
        struct end *end = &ends[0];
        struct vip_loan_checkpoint *app;

        if (i)
            begin(state);
        app = &end->parts[0].owner.checkpoint;
        exchange();
        lend_to(end);
        assert_true(stay(end));
        app->completed += i == 0;
        app->done -= i == 1;
        app->received += i == 2 ? 2000 : 0;
        assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
        assert_int_equal(rig_wait_event(end->app, 'e').code, VIP_EC_CONN_LOST);
        assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_CONN_LOST);
        assert_false(is_out(end));
        assert_false(nic_session_broken(end->app->session));
        rig_app_end(rig_app(rig_nics[0]), false);
        finish(state);
    }
    begin(state);
}

/* The owner stays inside a revoked loan: the connection ends after conn_timeout. */
static void test_stays_inside(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    assert_true(loan_enter(&end->owner, end->terms.number));
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    rig_pass(9 * RIG_SECOND);
    assert_true(is_out(end));
    rig_pass(2 * RIG_SECOND);
    assert_false(is_out(end));
    assert_int_equal(rig_wait_event(end->app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_CONN_LOST);
}

/* ---- data ids -------------------------------------------------------------------------- */

/* Send a data packet with this id to the NIC of host 0, from another socket of host 1. */
static void forge(uint64_t data_id)
{
    struct vip_header hdr = {.kind = VIP_PKT_DATA,
                             .conn_id = data_id,
                             .src_epoch = ends[0].terms.conn.remote_epoch,
                             .dst_epoch = ends[0].terms.conn.local_epoch,
                             .packet_number = 1};
    uint8_t bytes[VIP_WIRE_HEADER_BYTES];
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof(bytes)};
    int sock = sock_of(1);

    vip_wire_put_header(bytes, &hdr);
    vip_wire_seal(&iov, 1);
    assert_int_equal(send(sock, bytes, sizeof(bytes), 0), sizeof(bytes));
    close(sock);
    run(MS);
}

static void test_old_ids(void **state)
{
    struct end *end = &ends[0];
    uint64_t past, resets;

    lend_to(end);
    past = end->terms.conn.local_id;
    end->polls = true;
    exchange();
    forge(past); /* the loan gets packets at its own address only */
    assert_int_equal(count(0, "drop_lent"), 1);
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    check_home();
    resets = count(0, "cm_resets_sent");
    assert_int_equal(count(0, "drop_unknown_conn"), 0);
    forge(past);
    assert_int_equal(count(0, "drop_unknown_conn"), 1);
    assert_int_equal(count(0, "cm_resets_sent"), resets); /* an id of this end, though an old one */
    check_home();
}

/* ---- the end --------------------------------------------------------------------------- */

/* The program disconnects: sends that have not completed are flushed, those of the table, too. */
static void test_disconnect(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    post_to_table(end);
    assert_int_equal(nic_vi_disconnect(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    assert_false(is_out(end));
    collect(end);
    assert_int_equal(end->sent, 2);
    assert_true(end->failed[VIP_Q_SEND]);
    assert_int_equal(end->got, MESSAGES);
    assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(nic_vi_destroy(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
}

/* The peer closes while the owner is inside: vipd waits for the owner. */
static void test_peer_closes(void **state)
{
    struct end *end = &ends[0];
    struct rig_event event;

    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    /* The peer has processed this message, but the owner does not know it yet. */
    post_to_table(end);
    assert_true(stay(end));
    run(MS / 10);
    assert_int_equal(ends[1].got, 2);
    assert_true(loan_enter(&end->owner, end->terms.number));
    assert_int_equal(nic_vi_disconnect(ends[1].app->session, ends[1].vi, rig_now), VIP_RC_SUCCESS);
    run(20 * MS);
    assert_false(rig_event(end->app, 'e', &event));
    assert_true(is_out(end));
    assert_int_equal(end->sent, 1);
    (void)owner_leave(end);
    UNTIL(rig_event(end->app, 'e', &event), 5 * MS);
    assert_int_equal(event.code, VIP_EC_CONN_LOST);
    assert_false(is_out(end));
    assert_int_equal(end->sent, 2);
    assert_false(end->failed[VIP_Q_SEND]);
    /* A send that the program posts before it sees the end is flushed. */
    post_to_table(end);
    ask_sends(end);
    run(MS);
    assert_int_equal(end->sent, 3);
    assert_int_equal(end->got, MESSAGES);
}

/* The program dies inside its loan. */
static void test_death(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    assert_true(loan_enter(&end->owner, end->terms.number));
    rig_app_end(end->app, true);
    assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_CONN_LOST);
    end->app = rig_app(rig_nics[0]); /* for the end of the test */
}

/* An administrator ends the connection. */
static void test_sever(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    assert_true(loan_enter(&end->owner, end->terms.number));
    assert_int_equal(nic_vi_sever(end->app->session, end->vi, "for a test", rig_now),
                     VIP_RC_SUCCESS);
    run(5 * MS);
    assert_true(is_out(end));
    owner_work(end);
    (void)owner_leave(end);
    assert_int_equal(rig_wait_event(end->app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_CONN_LOST);
}

/* ---- other lives of vipd --------------------------------------------------------------- */

/* What vipd leaves of the VI of this end: a copy of its part of the segment. */
static void *left_of(const struct end *end)
{
    const struct {
        uint64_t off, bytes;
    } parts[] = {
        {VIP_VIPD_VI_OFF + end->vi * 128u, 128},
        {VIP_VIPD_SHORT_OFF + end->vi * 2u * VIP_COMP_UNIT, 2 * VIP_COMP_UNIT},
        {VIP_VIPD_LONG_OFF + end->vi * 2ull * VIP_COMP_RING_BYTES, 2ull * VIP_COMP_RING_BYTES}};
    char *copy = rig_map(VIP_VIPD_BYTES);

    for (unsigned i = 0; i < 3; i++)
        memcpy(copy + parts[i].off, (char *)end->app->vipd + parts[i].off, parts[i].bytes);
    return copy;
}

/* What the program says of a loan that vipd has not taken back; `base`: from left_of. */
static void tell_loan(const struct end *end, void *base, struct nic_past_loan *ret)
{
    const struct vip_loan_vipd *words = &vip_vipd_vi(base, end->vi)->loan;
    const struct vip_loan_owner *owner = &end->parts[0].owner;

    if (!loan_words_out(words))
        return;
    ret->number = words->lent;
    ret->used = owner->number == words->lent;
    ret->at = owner->checkpoint;
}

/* The vipd of this end stops, and the next one goes on. Returns whether the connection can, too. */
static bool restart(struct end *end)
{
    struct nic_vi_checkpoint past;
    struct nic *nic = rig_nics[end->host];
    bool goes_on = nic_session_stay(end->app->session) == 1;
    struct nic_past_loan told = {0};
    char why[128] = "";
    void *base;

    assert_true(nic_vi_checkpoint(end->app->session, end->vi, &past));
    assert_int_equal(past.connected, goes_on);
    collect(end);
    base = left_of(end);
    if (end->owner.number)
        (void)owner_leave(end);
    tell_loan(end, base, &told);
    nic_vi_recover(base, &past, &told);
    rig_app_end(end->app, false);
    end->app = NULL;
    nic_leave(nic, 10 * RIG_SECOND, rig_now);
    nic_close(nic, rig_now);
    rig_nics[end->host] = NULL;
    end->terms.number = 0;
    run(5 * MS);

    rig_life++;
    nic_begin_udp(end->host);
    end->app = rig_app(rig_nics[end->host]);
    assert_int_equal(nic_session_set_receives(end->app->session, end->table), 0);
    assert_int_equal(nic_session_set_loans(end->app->session, end->parts), 0);
    memset(&end->parts[0].owner, 0, sizeof(end->parts[0].owner));
    if (!goes_on)
        return false;
    memory_add(end);
    past.recv_base = end->got;
    assert_int_equal(nic_vi_restore(end->app->session, &past, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    end->app->vi_gen[end->vi] = past.generation;
    loan_owner_init(&end->owner, &end->parts[0].owner, words_of(end));
    for (uint32_t k = end->sent; k != end->sends; k++)
        vip_sq_write(vip_app_sq(end->app->app), end->app->sq_position++, &end->send[k % MESSAGES]);
    assert_int_equal(
        nic_vi_rebind(end->app->session, end->vi, RIG_SECOND, rig_now, why, sizeof(why)),
        VIP_RC_SUCCESS);
    return true;
}

/* The vipd of the other end begins another life, while the owner polls. */
static void test_peer_restarts(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    end->polls = true;
    exchange();
    post_to_table(end);
    assert_true(restart(&ends[1]));
    UNTIL(count(0, "conns_rebound") == 1, 100 * MS);
    assert_int_equal(count(0, "loans_back_gone"), 1);
    check_home();
    /* The numbers of both ends still fit. */
    run(1000 * MS);
    lend_to(end);
    end->polls = true;
    exchange();
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    check_home();
    lend_to(&ends[1]);
    ends[1].polls = true;
    exchange();
}

/* The vipd of the other end begins another life before it has answered an offer. */
static void test_peer_restarts_in_a_move(void **state)
{
    struct nic *peer = rig_nics[1];
    uint64_t sent = count(0, "tx_cm");

    assert_int_equal(ask_loan(&ends[0]), VIP_RC_SUCCESS);
    step(); /* the peer answers the probe */
    rig_nics[1] = NULL;
    step(); /* the engine of this end pauses */
    rig_nics[1] = peer;
    assert_int_equal(count(0, "tx_cm"), sent + 1);
    assert_true(restart(&ends[1]));
    UNTIL(count(0, "conns_rebound") == 1, 100 * MS);
    check_home();
    rig_pass(11 * RIG_SECOND); /* no timer of the move has stayed */
    check_home();
    assert_int_equal(count(0, "loans_lent"), 0);
}

/* The vipd of a loan stops: it takes the loan back first, and the next vipd goes on. */
static void test_own_vipd_restarts(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    post_to_table(end);
    assert_true(restart(end));
    check_home();
}

/* The next vipd does not lend: the connection goes on, and stays at home. */
static void test_next_vipd_does_not_lend(void **state)
{
    rig_more = VIP_FEATURE_REBIND;
    assert_true(restart(&ends[1]));
    check_home();
    assert_int_equal(ask_loan(&ends[1]), VIP_RC_INVALID_STATE);
    assert_int_equal(ask_loan(&ends[0]), VIP_RC_SUCCESS);
    run(100 * MS); /* the probe has no answer */
    assert_int_equal(count(0, "loans_lent"), 0);
    check_home();
}

/* The owner is inside when the vipd of the other end comes back: the connection goes on when the owner
 * is outside. The owner is inside when its own vipd stops: the program says how far it came. */
static void test_restart_inside(void **state)
{
    struct end *end = &ends[0];
    struct rig_event event;

    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    assert_true(loan_enter(&end->owner, end->terms.number));
    assert_true(restart(&ends[1]));
    run(100 * MS);
    assert_int_equal(count(0, "conns_rebound"), 0);
    assert_false(rig_event(end->app, 'e', &event));
    (void)owner_leave(end);
    UNTIL(count(0, "conns_rebound") == 1, 500 * MS);
    assert_false(rig_event(end->app, 'e', &event));
    assert_false(is_out(end));
    check_home();
    finish(state);

    begin(state);
    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    assert_true(loan_enter(&end->owner, end->terms.number));
    assert_true(restart(end));
    UNTIL(count(1, "conns_rebound") == 1, 500 * MS);
    check_home();
}

/* The next life reads what a killed one has left. Returns whether the connection can go on. */
static bool recover(const struct end *end, const struct nic_past_loan *told, void *base,
                    struct nic_vi_checkpoint *ret)
{
    struct nic_vi_checkpoint past;

    assert_true(nic_vi_identify(end->app->session, end->vi, &past));
    past.connected = true;
    nic_vi_recover(base, &past, told);
    assert_int_equal(past.lost, !past.connected);
    *ret = past;
    return past.connected;
}

/* vipd is killed while a loan is out. The next life goes on if the program says how far it came. */
static void test_killed(void **state)
{
    struct end *end = &ends[0];
    struct nic_past_loan told = {0};
    struct nic_vi_checkpoint past;
    void *base = left_of(end);

    assert_true(recover(end, &told, base, &past)); /* no loan is out */
    lend_to(end);
    base = left_of(end);
    assert_false(recover(end, &told, base, &past)); /* a program that says nothing */
    told.number = end->terms.number + 1;
    assert_false(recover(end, &told, base, &past));
    told.number = end->terms.number;
    assert_true(recover(end, &told, base, &past)); /* the program has not used the loan */
    assert_int_equal(past.completed, end->terms.checkpoint.completed);
    assert_int_equal(past.done, end->terms.checkpoint.done);

    end->polls = true;
    for (unsigned i = 0; i < 3; i++)
        exchange();
    told.used = true;
    told.at = end->parts[0].owner.checkpoint;
    base = left_of(end);
    assert_true(recover(end, &told, base, &past));
    for (unsigned again = 0; again < 2;
         again++) { /* killed again, before the program could see it */
        assert_int_equal(past.completed, end->terms.checkpoint.completed + 3);
        assert_int_equal(past.done, end->terms.checkpoint.done + 3);
        assert_int_equal(vip_vipd_vi(base, end->vi)->commit.received, end->received);
        assert_true(recover(end, &told, base, &past));
    }
    told.at.done = end->terms.checkpoint.done - 1;
    assert_false(recover(end, &told, left_of(end), &past));
    end->polls = false;
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    check_home();
}

#define LOAN_TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOAN_TEST(test_out_and_home),
        LOAN_TEST(test_owner_sends_nothing),
        LOAN_TEST(test_round_trip_kept),
        LOAN_TEST(test_seen),
        LOAN_TEST(test_data_waits),
        LOAN_TEST(test_timer),
        LOAN_TEST(test_sends_in_the_table),
        LOAN_TEST(test_never_entered),
        LOAN_TEST(test_both_ends),
        LOAN_TEST(test_both_at_once),
        LOAN_TEST(test_no_answer),
        LOAN_TEST(test_pause),
        LOAN_TEST(test_random),
        LOAN_TEST(test_wrong_sockets),
        LOAN_TEST(test_wrong_requests),
        LOAN_TEST(test_impossible_checkpoint),
        LOAN_TEST(test_stays_inside),
        LOAN_TEST(test_old_ids),
        LOAN_TEST(test_disconnect),
        LOAN_TEST(test_peer_closes),
        LOAN_TEST(test_death),
        LOAN_TEST(test_sever),
        LOAN_TEST(test_peer_restarts),
        LOAN_TEST(test_peer_restarts_in_a_move),
        LOAN_TEST(test_own_vipd_restarts),
        LOAN_TEST(test_next_vipd_does_not_lend),
        LOAN_TEST(test_restart_inside),
        LOAN_TEST(test_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
