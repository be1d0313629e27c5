/*
 * Two NICs on UDP sockets of 127.0.0.0/8, and a program at each NIC that can run the data path of
 * its connection itself (vipd/nic/loan.h). A program does the work of libvipl: it has an engine of
 * its own, a table of receives, a table of sends, and a socket. Time is virtual (nic_rig.h).
 */
#ifndef TESTS_UNIT_NIC_LEND_H
#define TESTS_UNIT_NIC_LEND_H

#include "unit/nic_owner.h"

/* ---- the program ----------------------------------------------------------------------- */

RIG void sock_connect(int sock, const struct link_addr *to)
{
    struct sockaddr_in name = {.sin_family = AF_INET};

    memcpy(&name.sin_addr, to->bytes, 4);
    memcpy(&name.sin_port, to->bytes + 4, 2);
    assert_int_equal(connect(sock, (struct sockaddr *)&name, sizeof(name)), 0);
}

RIG void lent(void *ctx, const struct nic_loan_terms *terms)
{
    struct end *end = ends[0].app == ctx ? &ends[0] : &ends[1];

    assert_int_equal(terms->vi, end->vi);
    assert_false(end->told); /* the loan before this one is over */
    end->told = true;
    end->terms = *terms;
    end->asked = false;
    sock_connect(end->sock, &terms->to);
}

RIG void lent_over(void *ctx, uint16_t vi, uint32_t generation)
{
    struct end *end = ends[0].app == ctx ? &ends[0] : &ends[1];

    assert_int_equal(vi, end->vi);
    assert_int_equal(generation, end->app->vi_gen[vi]);
    assert_true(end->told);
    end->told = false;
}

/* A UDP socket at the address of a host, connected to the NIC of the other host. */
RIG int sock_of(unsigned host)
{
    struct link_addr own = rig_addr(host), peer = rig_addr(!host);
    struct sockaddr_in name = {.sin_family = AF_INET};
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_true(sock >= 0);
    memcpy(&name.sin_addr, own.bytes, 4);
    assert_int_equal(bind(sock, (struct sockaddr *)&name, sizeof(name)), 0);
    sock_connect(sock, &peer);
    return sock;
}

/* 0: the socket has no port. */
RIG uint16_t port_of(int sock)
{
    struct sockaddr_in name = {0};
    socklen_t len = sizeof(name);

    if (getsockname(sock, (struct sockaddr *)&name, &len) < 0 || name.sin_family != AF_INET)
        return 0;
    return ntohs(name.sin_port);
}

/* Offer a new socket to vipd, and send the probe. */
RIG enum vip_rc ask_loan(struct end *end)
{
    struct nic_loan_probe probe;
    enum vip_rc rc;
    char why[128] = "";
    int copy;

    if (end->sock >= 0)
        close(end->sock);
    end->sock = sock_of(end->host);
    end->copy = copy = dup(end->sock);
    end->asked = true;
    rc = nic_loan_ask(end->app->session,
                      &(struct nic_loan_ask){.vi = end->vi, .port = port_of(end->sock)}, &copy,
                      rig_now, &probe, why, sizeof(why));
    assert_int_equal(rc == VIP_RC_SUCCESS, copy < 0);
    if (copy >= 0)
        close(copy);
    else
        assert_int_equal(send(end->sock, probe.packet, probe.bytes, 0), probe.bytes);
    return rc;
}

RIG void collect(struct end *end)
{
    struct vip_comp comp;

    while (rig_done(end->app, end->vi, VIP_Q_RECV, &comp))
        completed(end, VIP_Q_RECV, comp.status, comp.length);
    while (rig_done(end->app, end->vi, VIP_Q_SEND, &comp))
        completed(end, VIP_Q_SEND, comp.status, comp.length);
}

RIG void step(void)
{
    rig_step();
    for (unsigned i = 0; i < 2; i++) {
        if (!ends[i].app)
            continue; /* its vipd is away */
        if (ends[i].asked && ends[i].parts)
            ends[i].parts[0].owner.beat++;
        if (ends[i].polls)
            (void)stay(&ends[i]);
        collect(&ends[i]);
    }
}

/* Run until the condition holds, for at most `limit_ns` of virtual time. */
#define UNTIL(cond, limit_ns)                                                                      \
    do {                                                                                           \
        uint64_t until_end = rig_now + (limit_ns);                                                 \
        while (!(cond)) {                                                                          \
            assert_true(rig_now < until_end);                                                      \
            step();                                                                                \
        }                                                                                          \
    } while (0)

#define MS 1000000ull

RIG void run(uint64_t ns)
{
    uint64_t end = rig_now + ns;

    while (rig_now < end)
        step();
}

RIG void post_recv(struct end *end)
{
    struct vip_sq_slot *slot = &end->recv[end->receives % MESSAGES];

    assert_true(end->receives - end->got < MESSAGES);
    *slot = (struct vip_sq_slot){.vi = end->vi,
                                 .kind = VIP_SQ_RECV,
                                 .seg_count = 1,
                                 .length = SLOT,
                                 .vi_gen = end->app->vi_gen[end->vi]};
    slot->seg[0] = rig_seg(&end->in, end->receives % MESSAGES * SLOT, SLOT);
    vip_recv_write(end->table, end->vi, end->receives++, slot);
}

/* The next send of this end, not posted yet. */
RIG const struct vip_sq_slot *next_send(struct end *end)
{
    uint32_t len = bytes_of(end->sends);
    uint32_t at = end->sends % MESSAGES * SLOT;
    struct vip_sq_slot *slot = &end->send[end->sends % MESSAGES];

    assert_true(end->sends - end->sent < MESSAGES);
    for (uint32_t i = 0; i < len; i++)
        end->out.at[at + i] = byte_at(end->host, end->sends, i);
    *slot = (struct vip_sq_slot){.vi = end->vi,
                                 .kind = VIP_SQ_SEND,
                                 .seg_count = 1,
                                 .length = len,
                                 .vi_gen = end->app->vi_gen[end->vi]};
    slot->seg[0] = rig_seg(&end->out, at, len);
    return slot;
}

RIG void post_to_table(struct end *end)
{
    const struct vip_sq_slot *slot = next_send(end);

    vip_loan_send_write(&end->parts[0], end->sends++, slot);
}

RIG void post_to_ring(struct end *end)
{
    const struct vip_sq_slot *slot = next_send(end);

    end->sends++;
    vip_sq_write(vip_app_sq(end->app->app), end->app->sq_position++, slot);
}

/* Post a send as libvipl does. */
RIG void post_send(struct end *end)
{
    if (is_out(end))
        post_to_table(end);
    else
        post_to_ring(end);
}

RIG void ask_sends(struct end *end)
{
    struct vip_sq_slot slot = {.vi = end->vi,
                               .kind = VIP_SQ_ASK,
                               .flags = VIP_ASK_SENDS,
                               .vi_gen = end->app->vi_gen[end->vi]};

    vip_sq_write(vip_app_sq(end->app->app), end->app->sq_position++, &slot);
}

RIG uint64_t count(unsigned host, const char *name)
{
    return rig_counter(rig_nics[host], name);
}

/* ---- set-up ---------------------------------------------------------------------------- */

RIG void nic_begin_udp(unsigned host)
{
    struct link_addr addr = rig_addr(host);
    struct link_udp_config config = {.port = 4794, .buffer_bytes = 1 << 20};
    struct link *link = NULL;
    char text[32], err[128] = "";

    (void)inet_ntop(AF_INET, addr.bytes, text, sizeof(text));
    config.address = text;
    assert_int_equal(link_udp_open(&config, &link, err, sizeof(err)), 0);
    rig_nic_link(host, link);
}

RIG int memory_new(struct rig_mem *ret)
{
    int fd = rig_memfd(MESSAGES * SLOT);
    void *at = mmap(NULL, MESSAGES * SLOT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_true(at != MAP_FAILED);
    *ret = (struct rig_mem){.at = at, .bytes = MESSAGES * SLOT};
    return fd;
}

/* Register the memory of a program, or in a new session register it again with the same handles. */
RIG void memory_add(struct end *end)
{
    struct rig_mem *all[] = {&end->out, &end->in};
    int fds[] = {end->out_fd, end->in_fd};
    char why[128] = "";

    for (unsigned i = 0; i < 2; i++) {
        struct registry_region region = {
            .addr = (uintptr_t)all[i]->at, .bytes = all[i]->bytes, .kind = REGISTRY_SHARED};
        struct registry *registry = end->app->registry;
        int fd = dup(fds[i]);
        uint32_t handle = all[i]->handle;

        assert_int_equal(
            handle ? registry_restore(registry, &region, fd, handle, why, sizeof(why))
                   : registry_add(registry, &region, fd, &all[i]->handle, why, sizeof(why)),
            VIP_RC_SUCCESS);
    }
}

RIG void end_begin(unsigned host)
{
    struct end *end = &ends[host];

    *end = (struct end){.host = host, .sock = -1};
    end->app = rig_app(rig_nics[host]);
    end->table = rig_map(VIP_RECV_BYTES);
    end->parts = rig_map(VIP_LOANS_BYTES);
    assert_int_equal(nic_session_set_receives(end->app->session, end->table), 0);
    assert_int_equal(nic_session_set_loans(end->app->session, end->parts), 0);
    assert_int_equal(nic_session_set_loans(end->app->session, end->parts), -EBUSY);
    end->out_fd = memory_new(&end->out);
    end->in_fd = memory_new(&end->in);
    memory_add(end);
    end->vi = rig_vi(end->app, VIP_LVL_DELIVERY);
    loan_owner_init(&end->owner, &end->parts[0].owner, words_of(end));
}

/* Two NICs, a program at each, and a connection between them. */
RIG int begin(void **state)
{
    uint32_t pid = (uint32_t)getpid();

    rig_subnet[0] = (uint8_t)(1 + pid / 250 % 250);
    rig_subnet[1] = (uint8_t)(pid % 250);
    rig_on_lent = lent;
    rig_on_lent_over = lent_over;
    rig_more = VIP_FEATURE_REBIND | VIP_FEATURE_LOAN;
    for (unsigned i = 0; i < 2; i++)
        nic_begin_udp(i);
    for (unsigned i = 0; i < 2; i++)
        end_begin(i);
    rig_connect(ends[0].app, ends[0].vi, 0, ends[1].app, ends[1].vi, 1);
    for (unsigned i = 0; i < 2 * MESSAGES; i++)
        post_recv(&ends[i % 2]);
    return 0;
}

RIG void end_free(struct end *end)
{
    owner_drop(end);
    if (end->sock >= 0)
        close(end->sock);
    rig_mem_free(&end->out);
    rig_mem_free(&end->in);
    close(end->out_fd);
    close(end->in_fd);
}

/* No NIC has work that waits: its thread can sleep. */
RIG void check_rest(void)
{
    ends[0].polls = ends[1].polls = ends[0].asked = ends[1].asked = false;
    run(20 * MS);
    for (unsigned i = 0; i < 2; i++)
        if (rig_nics[i]) {
            assert_true(nic_try_sleep(rig_nics[i]));
            nic_awake(rig_nics[i]);
        }
}

RIG int finish(void **state)
{
    check_rest();
    rig_teardown(state);
    for (unsigned i = 0; i < 2; i++) {
        end_free(&ends[i]);
        munmap(ends[i].table, VIP_RECV_BYTES);
        munmap(ends[i].parts, VIP_LOANS_BYTES);
    }
    return 0;
}

/* Lend the connection of this end to its program, which then stays away. */
RIG void lend_to(struct end *end)
{
    uint32_t before = end->terms.number;

    assert_int_equal(ask_loan(end), VIP_RC_SUCCESS);
    UNTIL(end->terms.number != before && is_out(end), 5 * MS);
}

/* Send a message in both directions through vipd or through loans, and wait for all completions. */
RIG void exchange(void)
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
RIG void check_home(void)
{
    UNTIL(!is_out(&ends[0]) && !is_out(&ends[1]), 100 * MS);
    assert_false(ends[0].told || ends[1].told);
    ends[0].polls = ends[1].polls = false;
    run(5 * MS);
    exchange();
    exchange();
    assert_false(ends[0].failed[VIP_Q_SEND] || ends[1].failed[VIP_Q_SEND]);
}

#define LOAN_TEST(name) cmocka_unit_test_setup_teardown(name, begin, finish)

#endif
