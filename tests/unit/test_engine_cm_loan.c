/*
 * Connection manager: the messages for connections on loan (cm_loan.h): LOAN_OFFER, LOAN_AGREE,
 * LOAN_PROBE and LOAN_PROBED; data ids and RESET.
 */
#include "tests/unit/cm_rebind.h"

#define LOANS (FEATURES | VIP_FEATURE_LOAN)

/* Returns a world of three hosts. CLIENT and SERVER have these features and one connection. */
static struct world *loan_world(uint64_t seed, uint64_t client, uint64_t server,
                                struct conn *ret[2])
{
    struct world *w = world_new(3, seed);

    w->outlive_ns = 10 * S;
    host_feature(w, CLIENT, client);
    host_feature(w, SERVER, server);
    connect_pair(w, &ret[CLIENT], &ret[SERVER]);
    return w;
}

/* The address of a loan of this host: another port. */
static struct cm_host loan_host(const struct world *w, unsigned index)
{
    struct cm_host host = w->hosts[index].addr;

    host.bytes[4] = 0xc3;
    host.bytes[5] = 0x50;
    return host;
}

static struct cm_loan_terms terms_of(const struct world *w, unsigned index, bool out)
{
    struct cm_loan_terms terms = {.number = 3 + index,
                                  .data_id = 0x1234567800000000 + index,
                                  .out = out,
                                  .packet_bytes = 1000 + index,
                                  .window_bytes = 100000 + index,
                                  .counts = {.done = 5, .reads = 2, .read = {UINT32_MAX, 9}}};

    if (out)
        terms.host = loan_host(w, index);
    return terms;
}

static void terms_equal(const struct cm_loan_terms *a, const struct cm_loan_terms *b)
{
    assert_true(a->number == b->number && a->data_id == b->data_id && a->out == b->out);
    assert_int_equal(a->host.len, b->host.len);
    assert_memory_equal(a->host.bytes, b->host.bytes, sizeof(a->host.bytes));
    assert_int_equal(a->packet_bytes, b->packet_bytes);
    assert_int_equal(a->window_bytes, b->window_bytes);
    assert_int_equal(a->counts.done, b->counts.done);
    assert_int_equal(a->counts.reads, b->counts.reads);
    assert_memory_equal(a->counts.read, b->counts.read, sizeof(a->counts.read));
}

/* Each end can offer, with and without a loan. Each copy of a message is reported, because the host
 * compares the numbers. The ids of the association stay. */
static void test_offer_and_agree(void **state)
{
    for (unsigned end = 0; end < 2; end++) {
        for (unsigned out = 0; out < 4; out++) {
            struct conn *conn[2];
            struct world *w = loan_world(400 + end, LOANS, LOANS, conn);
            struct conn *a = conn[end], *b = conn[!end];
            struct cm_loan_terms ours = terms_of(w, end, out & 1);
            struct cm_loan_terms theirs = terms_of(w, !end, out & 2);

            w->dup_percent = 100;
            assert_int_equal(a->info.features & b->info.features & VIP_FEATURE_LOAN,
                             VIP_FEATURE_LOAN);
            assert_int_equal(cm_loan_offer(w->hosts[end].cm, a->local_id, &ours, w->now_ns), 0);
            world_run(w, 1 * MS);
            assert_int_equal(b->offers, 2);
            terms_equal(&b->terms, &ours);
            assert_int_equal(a->offers + a->agrees + b->agrees, 0);
            assert_int_equal(
                cm_loan_agree(w->hosts[!end].cm, b->local_id, 3 + end, &theirs, w->now_ns), 0);
            world_run(w, 1 * MS);
            assert_int_equal(a->agrees, 2);
            assert_int_equal(a->offered, 3 + end);
            terms_equal(&a->terms, &theirs);
            assert_int_equal(w->sent_of_type[VIP_CM_LOAN_OFFER], 1);
            assert_int_equal(w->sent_of_type[VIP_CM_LOAN_AGREE], 1);
            assert_int_equal(stats_of(w, CLIENT).unexpected + stats_of(w, SERVER).unexpected, 0);
            world_run(w, 5 * S);
            assert_true(a->alive && b->alive);
            host_close(w, end, a);
            world_run(w, 1 * S);
            assert_int_equal(b->closed, 1);
            world_free(w);
        }
    }
}

/* The largest counts fit into the message. */
static void test_largest(void **state)
{
    struct conn *conn[2];
    struct world *w = loan_world(410, LOANS, LOANS, conn);
    struct cm_loan_terms ours = terms_of(w, CLIENT, true);

    ours.counts.reads = VIP_COUNTS_READS_MAX;
    for (uint32_t i = 0; i < VIP_COUNTS_READS_MAX; i++)
        ours.counts.read[i] = 100 + i;
    assert_int_equal(cm_loan_offer(w->hosts[CLIENT].cm, conn[CLIENT]->local_id, &ours, w->now_ns),
                     0);
    world_run(w, 1 * MS);
    assert_int_equal(conn[SERVER]->offers, 1);
    terms_equal(&conn[SERVER]->terms, &ours);
    world_free(w);
}

/* A connection is lent only if both ends have the feature. */
static void test_without_feature(void **state)
{
    for (unsigned end = 0; end < 2; end++) {
        struct conn *conn[2];
        struct world *w = loan_world(420, end ? FEATURES : LOANS, end ? LOANS : FEATURES, conn);
        struct vip_cm offer = {.type = VIP_CM_LOAN_OFFER,
                               .number = 1,
                               .data_id = 2,
                               .packet_bytes = 1000,
                               .window_bytes = 1000,
                               .items = {.bytes = (const uint8_t *)"\2\0\4\0\0\0\0\0", .len = 8}};
        uint8_t packet[VIP_WIRE_CM_BYTES_MAX];

        for (unsigned i = 0; i < 2; i++) {
            struct cm_loan_terms ours = terms_of(w, i, true);
            struct cm *cm = w->hosts[i].cm;

            assert_int_equal(cm_loan_offer(cm, conn[i]->local_id, &ours, w->now_ns), -EPROTO);
            assert_int_equal(cm_loan_agree(cm, conn[i]->local_id, 1, &ours, w->now_ns), -EPROTO);
            assert_int_equal(cm_loan_probe(cm, conn[i]->local_id, 9, packet), 0);
            offer.conn_id = conn[!i]->local_id;
            offer.peer_conn_id = conn[i]->local_id;
            inject(w, !i, i, w->hosts[!i].epoch, w->hosts[i].epoch, &offer);
            assert_int_equal(stats_of(w, i).unexpected, 1);
        }
        world_free(w);
    }
}

/* An unknown id, an accept without CONFIRM, and a closed connection are no open associations. */
static void test_not_open(void **state)
{
    struct conn *conn[2];
    struct world *w = loan_world(430, LOANS, LOANS, conn);
    struct host *server = &w->hosts[SERVER];
    struct cm_loan_terms ours = terms_of(w, SERVER, true);
    struct cm_close_args close = {.local_id = conn[SERVER]->local_id};
    struct vip_cm reset = {.type = VIP_CM_RESET, .conn_id = 99};
    struct cm_host from = loan_host(w, CLIENT);
    struct cm *cm = server->cm;
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX], probe[VIP_WIRE_CM_BYTES_MAX];
    uint64_t ids[3] = {4711, conn[SERVER]->local_id, 0};
    size_t len_bytes;

    /* The manager has closed the connection, but the host has not forgotten it yet. */
    assert_int_equal(cm_loan_probe(w->hosts[CLIENT].cm, conn[CLIENT]->local_id, 9, probe), 144);
    len_bytes = cm_loan_probe(cm, ids[1], 9, packet);
    assert_int_equal(len_bytes, 144);
    cm_loan_data_id(cm, ids[1], 99);
    w->filter = drop_all;
    cm_close(cm, &close, w->now_ns);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, server->epoch, &reset);
    cm_rx(cm, &from, probe, len_bytes, w->now_ns);
    assert_int_equal(stats_of(w, SERVER).unexpected, 2);
    assert_int_equal(conn[SERVER]->reset + w->strays, 0);

    w->filter = NULL;
    host_listen(w, SERVER, 1, "new");
    host_request(w, CLIENT, SERVER, "new", FOR_EVER);
    world_run(w, 5 * MS);
    w->filter = drop_all;
    assert_int_equal(host_accept(w, SERVER, 1), 0);
    ids[2] = server->accepts[1].local_id;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(cm_loan_offer(cm, ids[i], &ours, w->now_ns), -ENOENT);
        assert_int_equal(cm_loan_agree(cm, ids[i], 1, &ours, w->now_ns), -ENOENT);
        assert_int_equal(cm_loan_probe(cm, ids[i], 9, packet), 0);
        assert_false(cm_loan_probed(cm, ids[i], 9, packet, len_bytes));
    }
    cm_loan_data_id(cm, 4711, 99);
    assert_int_equal(w->sent_of_type[VIP_CM_LOAN_OFFER] + w->sent_of_type[VIP_CM_LOAN_AGREE], 0);
    world_free(w);
}

/* Messages that are refused. Each differs from a good LOAN_OFFER in one respect. */
static void test_forged(void **state)
{
    static const char long_host[8 + 4 + 244] = "\2\0\4\0\0\0\0\0\4\0\xf4";
    static const struct {
        const char *items;
        uint16_t len;
    } bad[] = {
        {"\2\0\0\0", 4},                                      /* empty counts */
        {"", 0},                                              /* no counts */
        {"\2\0\3\0abc", 7},                                   /* short counts */
        {"\2\0\5\0abcde", 9},                                 /* no full number */
        {"\4\0\6\0\x7f\0\0\1\xc3\x50", 10},                   /* no counts */
        {"\2\0\4\0\0\0\0\0\4\0\5\0\x7f\0\0\1\xc3", 17},       /* a short address */
        {"\2\0\4\0\0\0\0\0\4\0\0\0", 12},                     /* an empty address */
        {"\2\0\4\0\0\0\0\0\4\0\7\0\x7f\0\0\1\xc3\x50\0", 19}, /* a long address */
        {long_host, sizeof(long_host)},                       /* longer than any address */
        {"\2\0\4\0\0\0\0\0\4\0\6\0\x7f\0\0\2\xc3\x50", 18},   /* of the receiver's machine */
        {"\2\0\4\0\0\0\0\0\4\0\6\0\x7f\0\0\1\x12\xba", 18},   /* of the sender's NIC */
    };
    static const struct vip_items good = {
        (const uint8_t *)"\2\0\4\0\0\0\0\0\4\0\6\0\x7f\0\0\1\xc3\x50", 18};
    static const struct vip_items unknown = {
        (const uint8_t *)"\2\0\4\0\0\0\0\0\4\0\6\0\x7f\0\0\1\xc3\x50\x77\0\1\0x", 23};
    struct conn *conn[2], *c, *s;
    struct world *w = loan_world(440, LOANS, LOANS, conn);
    uint64_t client = w->hosts[CLIENT].epoch, server = w->hosts[SERVER].epoch;
    struct vip_cm msg = {
        .number = 1, .data_id = 2, .packet_bytes = 1000, .window_bytes = 1000, .items = good};
    uint8_t counts[VIP_ITEMS_BYTES_MAX] = {0}, value[4 * (2 + VIP_COUNTS_READS_MAX)] = {0};

    c = conn[CLIENT];
    s = conn[SERVER];
    for (unsigned agree = 0; agree < 2; agree++) {
        unsigned n = (unsigned)stats_of(w, SERVER).unexpected;

        msg.type = agree ? VIP_CM_LOAN_AGREE : VIP_CM_LOAN_OFFER;
        msg.offered = agree;
        msg.conn_id = c->local_id;
        msg.peer_conn_id = s->local_id + 1;
        inject(w, CLIENT, SERVER, client, server, &msg);
        assert_int_equal(stats_of(w, SERVER).unexpected, ++n);
        msg.conn_id++;
        msg.peer_conn_id = s->local_id;
        inject(w, CLIENT, SERVER, client, server, &msg);
        assert_int_equal(stats_of(w, SERVER).unexpected, ++n);
        msg.conn_id = c->local_id;
        inject(w, CLIENT, SERVER, client + 1, server, &msg);
        assert_int_equal(stats_of(w, SERVER).unexpected, ++n);
        inject(w, OTHER, SERVER, client, server, &msg);
        assert_int_equal(stats_of(w, SERVER).unexpected, ++n);
        inject(w, CLIENT, SERVER, client, server + 1, &msg);
        assert_int_equal(stats_of(w, SERVER).wrong_epoch, 1 + agree);
        for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
            msg.items = (struct vip_items){(const uint8_t *)bad[i].items, bad[i].len};
            inject(w, CLIENT, SERVER, client, server, &msg);
            assert_int_equal(stats_of(w, SERVER).unexpected, ++n);
        }
        msg.items = (struct vip_items){.bytes = counts}; /* the counts have too many reads */
        vip_items_put(counts, &msg.items.len, VIP_ITEM_COUNTS, value, sizeof(value));
        inject(w, CLIENT, SERVER, client, server, &msg);
        assert_int_equal(stats_of(w, SERVER).unexpected, ++n);
        assert_int_equal(s->offers + s->agrees, agree * 2);
        /* The good message, and one with an item of a later version, are accepted. */
        msg.items = good;
        inject(w, CLIENT, SERVER, client, server, &msg);
        msg.items = unknown;
        inject(w, CLIENT, SERVER, client, server, &msg);
        msg.items = good;
        assert_int_equal(s->offers, 2);
        assert_int_equal(s->agrees, agree * 2);
        assert_int_equal(stats_of(w, SERVER).unexpected, n);
    }
    assert_true(c->alive && s->alive);
    world_free(w);
}

/* A host without operations for loans drops the messages. */
static void test_lends_nothing(void **state)
{
    struct conn *conn[2];
    struct world *w;
    struct cm_loan_terms ours;

    w = world_new(3, 450);
    w->lends_nothing = true;
    host_feature(w, SERVER, LOANS);
    w->lends_nothing = false;
    host_feature(w, CLIENT, LOANS);
    connect_pair(w, &conn[CLIENT], &conn[SERVER]);
    ours = terms_of(w, CLIENT, false);
    assert_int_equal(cm_loan_offer(w->hosts[CLIENT].cm, conn[CLIENT]->local_id, &ours, w->now_ns),
                     0);
    assert_int_equal(
        cm_loan_agree(w->hosts[CLIENT].cm, conn[CLIENT]->local_id, 1, &ours, w->now_ns), 0);
    world_run(w, 1 * MS);
    assert_int_equal(stats_of(w, SERVER).unexpected, 2);
    world_free(w);
}

/* ---- probes ------------------------------------------------------------------------------ */

/* A probe from the address of a loan is answered to this address, by a message of equal length. */
static void test_probe(void **state)
{
    for (unsigned end = 0; end < 2; end++) {
        struct conn *conn[2];
        struct world *w = loan_world(460, LOANS, LOANS, conn);
        struct cm *cm = w->hosts[end].cm, *other = w->hosts[!end].cm;
        struct cm_host from = loan_host(w, end);
        uint8_t packet[VIP_WIRE_CM_BYTES_MAX], *answer = w->stray.bytes;
        uint64_t id = conn[end]->local_id;
        size_t len_bytes = cm_loan_probe(cm, id, 99, packet);

        assert_int_equal(len_bytes, 144);
        assert_true(vip_wire_check_seal(packet, len_bytes));
        assert_false(cm_loan_probed(cm, id, 99, packet, len_bytes));
        cm_rx(other, &from, packet, len_bytes, w->now_ns);
        assert_int_equal(w->strays, 1);
        assert_true(w->stray.len_bytes == len_bytes);
        assert_memory_equal(w->stray.from.bytes, from.bytes, sizeof(from.bytes));
        assert_true(cm_loan_probed(cm, id, 99, answer, len_bytes));
        assert_false(cm_loan_probed(cm, id, 98, answer, len_bytes));
        assert_false(cm_loan_probed(cm, id + 1, 99, answer, len_bytes));
        assert_false(cm_loan_probed(other, conn[!end]->local_id, 99, answer, len_bytes));
        for (size_t i = 0; i < len_bytes; i++) {
            assert_false(cm_loan_probed(cm, id, 99, answer, i));
            answer[i] ^= 1;
            assert_false(cm_loan_probed(cm, id, 99, answer, len_bytes));
            answer[i] ^= 1;
        }
        /* Over the socket of vipd, an answer is unexpected. */
        cm_rx(cm, &w->hosts[!end].addr, answer, len_bytes, w->now_ns);
        assert_int_equal(stats_of(w, end).unexpected, 1);
        assert_int_equal(conn[!end]->offers + conn[!end]->agrees, 0);
        world_free(w);
    }
}

/* Is this message, with a correct checksum, no answer to the client's probe 99? */
static void no_answer(struct world *w, const struct conn *c, uint64_t src_epoch, uint64_t dst_epoch,
                      const struct vip_cm *msg)
{
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes = vip_wire_put_cm(packet, src_epoch, dst_epoch, msg);

    assert_false(cm_loan_probed(w->hosts[CLIENT].cm, c->local_id, 99, packet, len_bytes));
}

static void test_probed_forged(void **state)
{
    struct conn *conn[2];
    struct world *w = loan_world(470, LOANS, LOANS, conn);
    uint64_t client = w->hosts[CLIENT].epoch, server = w->hosts[SERVER].epoch;
    const struct vip_cm good = {.type = VIP_CM_LOAN_PROBED,
                                .request_id = 99,
                                .conn_id = conn[SERVER]->local_id,
                                .peer_conn_id = conn[CLIENT]->local_id};
    struct vip_cm msg = good;
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes = vip_wire_put_cm(packet, server, client, &good);

    assert_true(cm_loan_probed(w->hosts[CLIENT].cm, conn[CLIENT]->local_id, 99, packet, len_bytes));
    no_answer(w, conn[CLIENT], server + 1, client, &good);
    no_answer(w, conn[CLIENT], server, client + 1, &good);
    msg.conn_id++;
    no_answer(w, conn[CLIENT], server, client, &msg);
    msg = good;
    msg.peer_conn_id++;
    no_answer(w, conn[CLIENT], server, client, &msg);
    msg = good;
    msg.type = VIP_CM_LOAN_PROBE;
    no_answer(w, conn[CLIENT], server, client, &msg);
    world_free(w);
}

/* The server receives this message from `from` and does not answer. */
static void unanswered(struct world *w, const struct cm_host *from, uint64_t src_epoch,
                       uint64_t dst_epoch, const struct vip_cm *msg)
{
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes = vip_wire_put_cm(packet, src_epoch, dst_epoch, msg);
    uint64_t packets = w->packets;
    uint64_t dropped = stats_of(w, SERVER).unexpected + stats_of(w, SERVER).wrong_epoch;

    cm_rx(w->hosts[SERVER].cm, from, packet, len_bytes, w->now_ns);
    assert_true(w->packets == packets);
    assert_int_equal(stats_of(w, SERVER).unexpected + stats_of(w, SERVER).wrong_epoch, dropped + 1);
}

static void test_probe_forged(void **state)
{
    struct conn *conn[2];
    struct world *w = loan_world(480, LOANS, LOANS, conn);
    uint64_t client = w->hosts[CLIENT].epoch, server = w->hosts[SERVER].epoch;
    struct cm_host from = loan_host(w, CLIENT), elsewhere = from;
    const struct vip_cm good = {.type = VIP_CM_LOAN_PROBE,
                                .request_id = 99,
                                .conn_id = conn[CLIENT]->local_id,
                                .peer_conn_id = conn[SERVER]->local_id};
    struct vip_cm msg = good;

    /* From the peer's NIC itself, from another machine, from an address of another length. */
    unanswered(w, &w->hosts[CLIENT].addr, client, server, &good);
    elsewhere.bytes[3] = 77;
    unanswered(w, &elsewhere, client, server, &good);
    elsewhere = from;
    elsewhere.len = 18;
    unanswered(w, &elsewhere, client, server, &good);
    elsewhere.len = 0;
    unanswered(w, &elsewhere, client, server, &good);
    unanswered(w, &from, client + 1, server, &good);
    unanswered(w, &from, client, server + 1, &good);
    msg.conn_id++;
    unanswered(w, &from, client, server, &msg);
    msg = good;
    msg.peer_conn_id++;
    unanswered(w, &from, client, server, &msg);
    assert_int_equal(w->strays, 0);
    host_close(w, SERVER, conn[SERVER]);
    unanswered(w, &from, client, server, &good);
    world_free(w);
}

/* A probe is no sign of life of the peer. */
static void test_probe_is_no_life(void **state)
{
    struct conn *conn[2];
    struct world *w = loan_world(490, LOANS, LOANS, conn);
    struct cm_host from = loan_host(w, CLIENT);
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes = cm_loan_probe(w->hosts[CLIENT].cm, conn[CLIENT]->local_id, 99, packet);

    host_kill(w, CLIENT);
    for (unsigned i = 0; i < 100; i++) {
        world_run(w, 100 * MS);
        cm_rx(w->hosts[SERVER].cm, &from, packet, len_bytes, w->now_ns);
    }
    assert_int_equal(conn[SERVER]->lost, 1);
    world_free(w);
}

/* ---- data ids ---------------------------------------------------------------------------- */

/* The client receives a RESET that names this id. Returns whether the connection has ended. */
static bool reset_ends(struct world *w, const struct conn *c, unsigned from, uint64_t id)
{
    struct vip_cm msg = {.type = VIP_CM_RESET, .conn_id = id};

    inject(w, from, CLIENT, w->hosts[from].epoch, w->hosts[CLIENT].epoch, &msg);
    return c->reset > 0;
}

/* A RESET ends the connection only if it names the present data id of the other end. */
static void test_reset(void **state)
{
    for (unsigned back = 0; back < 2; back++) {
        struct conn *conn[2], *c;
        struct world *w = loan_world(500, LOANS, LOANS, conn);
        struct cm *cm = w->hosts[CLIENT].cm;

        c = conn[CLIENT];
        cm_loan_data_id(cm, c->local_id, 71);
        assert_false(reset_ends(w, c, SERVER, c->remote_id));
        cm_loan_data_id(cm, c->local_id, 72);
        assert_false(reset_ends(w, c, SERVER, 71));
        assert_false(reset_ends(w, c, SERVER, c->remote_id));
        assert_false(reset_ends(w, c, OTHER, 72));
        assert_int_equal(stats_of(w, CLIENT).unexpected, 4);
        if (back) {
            cm_loan_data_id(cm, c->local_id, c->remote_id);
            assert_false(reset_ends(w, c, SERVER, 72));
        }
        assert_true(reset_ends(w, c, SERVER, back ? c->remote_id : 72));
        reset_ends(w, c, SERVER, 72);
        assert_int_equal(c->reset, 1);
        world_free(w);
    }
}

/* Two connections with different servers may have the same data id. */
static void test_same_data_id(void **state)
{
    struct conn *conn[2], *c;
    struct world *w = loan_world(510, LOANS, LOANS, conn);
    struct host *client = &w->hosts[CLIENT];

    host_listen(w, OTHER, 1, "svc");
    host_request(w, CLIENT, OTHER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(host_accept(w, OTHER, 0), 0);
    world_run(w, 5 * MS);
    c = &client->conns[1];
    assert_true(client->conn_count == 2 && c->alive);
    for (unsigned i = 0; i < 2; i++)
        cm_loan_data_id(client->cm, client->conns[i].local_id, 71);
    assert_true(reset_ends(w, conn[CLIENT], SERVER, 71));
    assert_int_equal(c->reset, 0);
    assert_true(reset_ends(w, c, OTHER, 71));
    world_free(w);
}

/* A late copy of a REQUEST finds the connection by its id, which a move does not change. */
static void test_late_request(void **state)
{
    struct conn *conn[2];
    struct world *w = loan_world(520, LOANS, LOANS, conn);
    struct vip_cm request = {.type = VIP_CM_REQUEST,
                             .request_id = 4711,
                             .conn_id = conn[CLIENT]->local_id,
                             .packet_bytes = 1000,
                             .window_bytes = 1000,
                             .attrs = world_attrs,
                             .remote = world_addr(&w->hosts[SERVER], "svc")};
    uint64_t packets;

    cm_loan_data_id(w->hosts[SERVER].cm, conn[SERVER]->local_id, 71);
    packets = w->packets;
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &request);
    assert_true(w->packets == packets);
    assert_int_equal(stats_of(w, SERVER).duplicates, 1);
    world_free(w);
}

/* A data packet with this unknown id arrives at the server. Returns whether RESET answers it. */
static bool answers_reset(struct world *w, uint64_t id)
{
    struct vip_header hdr = {
        .kind = VIP_PKT_DATA, .conn_id = id, .src_epoch = w->hosts[CLIENT].epoch};
    struct cm_host from = loan_host(w, CLIENT);
    unsigned before = w->sent_of_type[VIP_CM_RESET];

    cm_unknown_conn(w->hosts[SERVER].cm, &from, &hdr, w->now_ns);
    return w->sent_of_type[VIP_CM_RESET] > before;
}

/* The peer may send with an older data id until it has learned the newest one. No RESET answers
 * such packets: it would end the connection at a peer that still uses the older id. */
static void test_own_data_ids(void **state)
{
    struct conn *conn[2], *s;
    struct world *w = loan_world(530, LOANS, LOANS, conn);
    struct cm_loan_terms ours = terms_of(w, SERVER, true);
    struct cm *cm = w->hosts[SERVER].cm;

    s = conn[SERVER];
    assert_true(answers_reset(w, s->local_id));
    for (unsigned i = 0; i < 8; i++) {
        ours.data_id = 71 + i / 2;
        assert_int_equal(i & 1 ? cm_loan_agree(cm, s->local_id, 1, &ours, w->now_ns)
                               : cm_loan_offer(cm, s->local_id, &ours, w->now_ns),
                         0);
        /* The last four ids are s->local_id, 71, 72, 73, and at last 71 to 74. */
        assert_true(answers_reset(w, s->local_id) == (i >= 6));
        for (uint64_t id = 71; id <= 71 + i / 2; id++)
            assert_false(answers_reset(w, id));
        assert_true(answers_reset(w, 72 + i / 2));
    }
    /* While a CLOSE is repeated, it tells the peer more than a RESET. */
    w->filter = drop_all;
    host_close(w, SERVER, s);
    assert_false(answers_reset(w, 74));
    w->filter = NULL;
    world_run(w, 1 * S);
    assert_int_equal(conn[CLIENT]->closed, 1);
    assert_true(answers_reset(w, 74));
    world_free(w);
}

/* ---- lives ------------------------------------------------------------------------------- */

/* A vipd ends after its offer. Its AWAY comes before the answer; its offer comes again later. The
 * next life binds the connection anew, with new ids. */
static void test_away(void **state)
{
    for (unsigned end = 0; end < 2; end++) {
        struct conn *conn[2], was, *next;
        struct world *w = loan_world(540 + end, LOANS, LOANS, conn);
        struct cm_loan_terms ours = terms_of(w, end, true), theirs = terms_of(w, !end, true);
        struct cm *other = w->hosts[!end].cm;
        uint64_t epoch = w->hosts[end].epoch, id = conn[!end]->local_id, packets;
        struct cm_rebind_args args;
        uint8_t packet[VIP_WIRE_CM_BYTES_MAX];

        was = *conn[end];
        w->filter = hear;
        heard_count = 0;
        assert_int_equal(cm_loan_offer(w->hosts[end].cm, was.local_id, &ours, w->now_ns), 0);
        world_run(w, 1 * MS);
        assert_int_equal(conn[!end]->offers, 1);
        cm_loan_data_id(other, id, ours.data_id);
        cm_leave(w->hosts[end].cm, 10 * S, w->now_ns);
        world_run(w, 1 * MS);
        assert_int_equal(conn[!end]->away, 1);
        w->filter = NULL;
        packets = w->packets;
        assert_int_equal(cm_loan_agree(other, id, 3 + end, &theirs, w->now_ns), 0);
        assert_int_equal(cm_loan_offer(other, id, &theirs, w->now_ns), 0);
        assert_int_equal(cm_loan_probe(other, id, 99, packet), 0);
        assert_true(w->packets == packets);
        inject(w, end, !end, epoch, w->hosts[!end].epoch, &heard[0]);
        assert_int_equal(heard[0].type, VIP_CM_LOAN_OFFER);
        assert_int_equal(conn[!end]->offers, 1);

        host_kill(w, end);
        host_start(w, end);
        args = rebind_args(w, end, !end, &was);
        assert_int_equal(cm_rebind(w->hosts[end].cm, &args, w->now_ns), 0);
        world_run(w, 100 * MS);
        next = &w->hosts[end].conns[0];
        assert_true(next->alive && next->rebound == 1 && conn[!end]->rebound == 1);
        assert_int_equal(next->info.features, LOANS);
        assert_int_equal(conn[!end]->info.features, LOANS);
        /* The offer of the last life is refused; offers with the new ids are accepted. */
        inject(w, end, !end, epoch, w->hosts[!end].epoch, &heard[0]);
        assert_int_equal(conn[!end]->offers, 1);
        assert_int_equal(cm_loan_agree(other, id, 3 + end, &theirs, w->now_ns), -ENOENT);
        assert_int_equal(cm_loan_offer(w->hosts[end].cm, next->local_id, &ours, w->now_ns), 0);
        assert_int_equal(cm_loan_offer(other, conn[!end]->local_id, &theirs, w->now_ns), 0);
        world_run(w, 1 * MS);
        assert_int_equal(conn[!end]->offers, 2);
        assert_int_equal(next->offers, 1);
        world_free(w);
    }
}

/* A rebind gives the other end a new id, and so makes the earlier data id invalid. */
static void test_new_life(void **state)
{
    struct conn *conn[2];
    struct world *w = loan_world(550, LOANS, LOANS, conn);
    struct cm_loan_terms ours = terms_of(w, CLIENT, true);
    struct vip_header hdr = {.kind = VIP_PKT_DATA, .conn_id = ours.data_id};

    cm_loan_data_id(w->hosts[CLIENT].cm, conn[CLIENT]->local_id, 71);
    assert_int_equal(cm_loan_offer(w->hosts[CLIENT].cm, conn[CLIENT]->local_id, &ours, w->now_ns),
                     0);
    restart(w, SERVER, conn[SERVER]);
    world_run(w, 100 * MS);
    assert_true(conn[CLIENT]->alive && conn[CLIENT]->rebound == 1);
    hdr.src_epoch = w->hosts[SERVER].epoch;
    cm_unknown_conn(w->hosts[CLIENT].cm, &w->hosts[SERVER].addr, &hdr, w->now_ns);
    assert_int_equal(w->sent_of_type[VIP_CM_RESET], 1);
    assert_false(reset_ends(w, conn[CLIENT], SERVER, 71));
    assert_true(reset_ends(w, conn[CLIENT], SERVER, conn[CLIENT]->remote_id));
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_offer_and_agree),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_without_feature),
        cmocka_unit_test(test_not_open),
        cmocka_unit_test(test_forged),
        cmocka_unit_test(test_lends_nothing),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_probed_forged),
        cmocka_unit_test(test_probe_forged),
        cmocka_unit_test(test_probe_is_no_life),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_same_data_id),
        cmocka_unit_test(test_late_request),
        cmocka_unit_test(test_own_data_ids),
        cmocka_unit_test(test_away),
        cmocka_unit_test(test_new_life),
    };

    return cmocka_run_group_tests_name("engine_cm_loan", tests, NULL, NULL);
}
