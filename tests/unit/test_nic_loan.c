/*
 * vipd lends the data path of a connection to a program, and takes it back (vipd/nic/loan.c). The
 * programs are those of nic_lend.h.
 */
#include <poll.h>

#include "vipd/nic/internal.h" /* before the names of the rig */

#include "unit/nic_lend.h"
#include "vipd/nic/see.h"

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

static uint64_t sent_by(const struct end *end)
{
    struct eng_vi_stats stats = {0};

    nic_session_vis(end->app->session, end->vi, stats_take, &stats);
    return stats.tx_messages;
}

/* The counters of a VI go on when its loan is over, and have what the program has counted. */
static void test_counters(void **state)
{
    struct end *end = &ends[0];
    uint64_t before;

    exchange();
    before = sent_by(end);
    assert_true(before > 0);
    lend_to(end);
    assert_int_equal(sent_by(end), before);
    end->parts[0].counts.tx_messages = 5;
    assert_int_equal(sent_by(end), before + 5);
    end->parts[0].counts.tx_messages = 3; /* no counter becomes smaller */
    assert_int_equal(sent_by(end), before + 5);
    assert_true(stay(end));
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(sent_by(end), before + 5);
    check_home();
    before = sent_by(end);
    assert_true(before > 5);
    lend_to(end);
    end->parts[0].counts.tx_messages = 8;
    assert_int_equal(sent_by(end), before + 3);
    assert_int_equal(count(0, "vi_tx_messages"), before + 3);
    assert_int_equal(nic_vi_disconnect(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(sent_by(end), before + 3);
    collect(end);
    assert_int_equal(nic_vi_destroy(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(count(0, "vi_tx_messages"), before + 3);
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

/*
 * A send goes to the table just as vipd ends the loan, and vipd lends again before the program asks
 * it to look at the table. The next send goes by the submission ring, and keeps its place.
 */
static void test_sends_of_an_earlier_loan(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    assert_true(stay(end));
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    run(10 * MS);
    lend_to(end);
    post_to_table(end);
    ask_sends(end);
    post_to_ring(end);
    run(MS / 10);
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    UNTIL(ends[1].got == 2 && end->sent == 2, 50 * MS);
    check_home();
}

/* An owner that never comes: the sends that vipd had before the loan leave. */
/* A program has as many sends as the engine has room for, and as many more in the table. It asks for
 * them again and again: vipd must not look at all of them each time. */
static void test_asked_for_too_many_sends(void **state)
{
    struct end *end = &ends[0];
    const struct vip_sq_slot *slot;
    uint64_t before;

    lend_to(end);
    assert_true(stay(end));
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    run(10 * MS);
    slot = next_send(end);
    for (unsigned i = 0; i < VIP_DESC_PER_QUEUE_MAX; i++) {
        vip_sq_write(vip_app_sq(end->app->app), end->app->sq_position++, slot);
        vip_loan_send_write(&end->parts[0], end->sends + VIP_DESC_PER_QUEUE_MAX + i, slot);
    }
    before = nic_session_slots(end->app->session);
    for (unsigned i = 0; i < 100; i++)
        ask_sends(end);
    nic_begin(end->app->session, rig_now);
    assert_int_equal(nic_session_slots(end->app->session) - before, VIP_DESC_PER_QUEUE_MAX + 100);
    assert_int_equal(nic_vi_disconnect(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
}

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

/* A limit for all connections of a user: it does not allow the second loan in the first second. */
static void test_moves_of_a_user(void **state)
{
    struct nic_config config = {.engine = ENG_CONFIG_DEFAULT,
                                .cm = {.keepalive_ns = RIG_SECOND, .peer_dead_ns = 4 * RIG_SECOND},
                                .more = rig_more,
                                .vi_max = RIG_VIS,
                                .cq_max = 16,
                                .loan_moves_user = 3};
    struct end *end = &ends[0];

    nic_set_config(rig_nics[0], &config);
    lend_to(end);
    assert_true(stay(end));
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    check_home();
    assert_int_equal(ask_loan(end), VIP_RC_ERROR_RESOURCE);
    assert_non_null(strstr(view_of(end).loan.refused, "its user had too many moves"));
    run(1000 * MS);
    lend_to(end);
    end->polls = true;
    exchange();
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

/* A program that does not poll after its request sends no probe: the network is not to blame. */
static void test_no_probe(void **state)
{
    struct end *end = &ends[0];
    struct nic_loan_probe probe;
    char why[160] = "";
    int copy;

    end->sock = sock_of(0);
    copy = dup(end->sock);
    assert_int_equal(nic_loan_ask(end->app->session,
                                  &(struct nic_loan_ask){.vi = end->vi, .port = port_of(end->sock)},
                                  &copy, rig_now, &probe, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    run(200 * MS);
    assert_non_null(strstr(view_of(end).loan.refused, "did not poll"));
    assert_false(is_out(end));
}

/* The program shuts its socket down while vipd waits for the answer: vipd can sleep all the same. */
static void test_shut_socket(void **state)
{
    struct nic *peer = rig_nics[1];
    struct pollfd fd = {.events = POLLIN};
    struct end *end = &ends[0];

    rig_nics[1] = NULL; /* no answer comes */
    assert_int_equal(ask_loan(end), VIP_RC_SUCCESS);
    assert_int_equal(shutdown(end->sock, SHUT_RDWR), 0);
    run(MS);
    fd.fd = nic_loan_fd(rig_nics[0]);
    assert_int_equal(poll(&fd, 1, 0), 0);
    run(100 * MS); /* the answer does not come */
    rig_nics[1] = peer;
    run(1100 * MS);
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

static void refused_port(struct end *end, uint32_t vi, uint32_t part, int sock, uint16_t port,
                         enum vip_rc rc, const char *words)
{
    struct nic_loan_ask ask = {.vi = vi, .part = part, .port = port};
    struct nic_loan_probe probe;
    char why[160] = "";
    int copy = sock;
    uint64_t before = count(end->host, "loans_refused");

    assert_int_equal(
        nic_loan_ask(end->app->session, &ask, &copy, rig_now, &probe, why, sizeof(why)), rc);
    if (!strstr(why, words))
        fail_msg("\"%s\" lacks \"%s\"", why, words);
    assert_int_equal(copy, sock);
    assert_int_equal(count(end->host, "loans_refused"), before + 1);
}

static void refused(struct end *end, uint32_t vi, uint32_t part, int sock, enum vip_rc rc,
                    const char *words)
{
    uint16_t port = port_of(sock);

    refused_port(end, vi, part, sock, port ? port : 9, rc, words);
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
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_PARAMETER, "connected elsewhere");
    close(sock);
    sock = socket(AF_INET, SOCK_DGRAM, 0);
    peer = rig_addr(1);
    rename_to(sock, &(struct link_addr){.len = 6}, false);
    refused(end, end->vi, 0, sock, VIP_RC_INVALID_PARAMETER, "not bound to the address");
    close(sock);
    /* The program names no port, the NIC's port, or the port of another socket. */
    sock = sock_of(0);
    refused_port(end, end->vi, 0, sock, 0, VIP_RC_INVALID_PARAMETER, "too old");
    refused_port(end, end->vi, 0, sock, 4794, VIP_RC_INVALID_PARAMETER, "port of the NIC");
    pipes[0] = sock_of(0);
    refused_port(end, end->vi, 0, sock, port_of(pipes[0]), VIP_RC_INVALID_PARAMETER, "not bound");
    close(pipes[0]);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOAN_TEST(test_out_and_home),
        LOAN_TEST(test_owner_sends_nothing),
        LOAN_TEST(test_round_trip_kept),
        LOAN_TEST(test_counters),
        LOAN_TEST(test_seen),
        LOAN_TEST(test_data_waits),
        LOAN_TEST(test_timer),
        LOAN_TEST(test_sends_in_the_table),
        LOAN_TEST(test_sends_of_an_earlier_loan),
        LOAN_TEST(test_asked_for_too_many_sends),
        LOAN_TEST(test_never_entered),
        LOAN_TEST(test_both_ends),
        LOAN_TEST(test_both_at_once),
        LOAN_TEST(test_moves_of_a_user),
        LOAN_TEST(test_no_answer),
        LOAN_TEST(test_no_probe),
        LOAN_TEST(test_shut_socket),
        LOAN_TEST(test_pause),
        LOAN_TEST(test_random),
        LOAN_TEST(test_wrong_sockets),
        LOAN_TEST(test_wrong_requests),
        LOAN_TEST(test_impossible_checkpoint),
        LOAN_TEST(test_stays_inside),
        LOAN_TEST(test_old_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
