/*
 * A test bench for vipd/nic: a network in memory with faults from a seed (nic_net.h), nics on this
 * network, applications (nic_app.h). This file runs nics and connects VIs. It has no threads.
 */
#ifndef TESTS_UNIT_NIC_RIG_H
#define TESTS_UNIT_NIC_RIG_H

#include "unit/nic_post.h"

/* Let RIG_STEP_NS of virtual time pass, then run one turn of each nic. True if a nic had work. */
RIG bool rig_step(void)
{
    bool did = false;

    rig_now += RIG_STEP_NS;
    for (unsigned i = 0; i < RIG_HOSTS; i++) {
        if (!rig_nics[i])
            continue;
        if (nic_turn(rig_nics[i], rig_now))
            did = true;
        assert_true(!rig_scarce || !rig_hosts[i]->out);
    }
    return did;
}

RIG void rig_steps(unsigned count)
{
    while (count--)
        rig_step();
}

/* Let virtual time pass. Run the nics and their timers, but skip time in which no nic has work. */
RIG void rig_pass(uint64_t ns)
{
    uint64_t end = rig_now + ns;

    while (rig_now < end) {
        uint64_t next = end;

        if (rig_step())
            continue;
        for (unsigned i = 0; i < RIG_HOSTS; i++)
            if (rig_nics[i] && nic_deadline(rig_nics[i]) < next)
                next = nic_deadline(rig_nics[i]);
        if (next > rig_now + RIG_STEP_NS)
            rig_now = next - RIG_STEP_NS;
    }
}

/* Run until the condition holds; fails after `limit_ns` of virtual time. */
#define RIG_UNTIL(cond, limit_ns)                                                                  \
    do {                                                                                           \
        uint64_t rig_end = rig_now + (limit_ns);                                                   \
        while (!(cond)) {                                                                          \
            assert_true(rig_now < rig_end);                                                        \
            rig_pass(RIG_STEP_NS);                                                                 \
        }                                                                                          \
    } while (0)

#define RIG_SECOND 1000000000ull

RIG struct vip_comp rig_wait_done(struct rig_app *app, uint16_t vi, enum vip_queue queue)
{
    struct vip_comp comp;

    RIG_UNTIL(rig_done(app, vi, queue, &comp), 30 * RIG_SECOND);
    return comp;
}

RIG struct rig_event rig_wait_event(struct rig_app *app, char kind)
{
    struct rig_event event;

    RIG_UNTIL(rig_event(app, kind, &event), 30 * RIG_SECOND);
    return event;
}

RIG struct vip_addr rig_vip_addr(unsigned host, const char *disc)
{
    struct link_addr addr = rig_addr(host);
    struct vip_addr ret = {.host_len = addr.len, .disc_len = (uint8_t)strlen(disc)};

    memcpy(ret.host, addr.bytes, addr.len);
    memcpy(ret.disc, disc, strlen(disc));
    return ret;
}

RIG void rig_listen(struct rig_app *app, unsigned host, const char *disc)
{
    struct vip_addr addr = rig_vip_addr(host, disc);
    uint64_t wait;
    bool found;

    assert_int_equal(nic_connect_wait(app->session, &addr, false, rig_now, &wait, &found, NULL, 0),
                     VIP_RC_SUCCESS);
}

RIG void rig_connect_start(struct rig_app *client, uint16_t vi, unsigned client_host,
                           unsigned server_host, const char *disc)
{
    struct nic_connect_args args = {.local = rig_vip_addr(client_host, "me"),
                                    .remote = rig_vip_addr(server_host, disc),
                                    .timeout_ns = 10 * RIG_SECOND};
    char why[128] = "";

    assert_int_equal(nic_connect(client->session, vi, &args, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
}

/* Connect two VIs. client_host and server_host are the hosts of their nics. */
RIG void rig_connect(struct rig_app *client, uint16_t client_vi, unsigned client_host,
                     struct rig_app *server, uint16_t server_vi, unsigned server_host)
{
    struct rig_event event;
    char why[128] = "", disc[16];

    /* A discriminator belongs to one user, so each user gets its own discriminator. */
    snprintf(disc, sizeof(disc), "there%u", server->uid);
    rig_listen(server, server_host, disc);
    rig_connect_start(client, client_vi, client_host, server_host, disc);
    event = rig_wait_event(server, 'i');
    assert_int_equal(event.remote.disc_len, 2);
    assert_int_equal(
        nic_accept(server->session, event.handle, server_vi, NULL, rig_now, why, sizeof(why)),
        VIP_RC_SUCCESS);
    event = rig_wait_event(client, 'r');
    assert_int_equal(event.code, VIP_RC_SUCCESS);
    event = rig_wait_event(server, 'r');
    assert_int_equal(event.code, VIP_RC_SUCCESS);
}

struct rig_counter {
    const char *name;
    uint64_t value;
    bool found;
};

RIG void rig_counter_visit(void *ctx, const struct nic_counter *c)
{
    struct rig_counter *want = ctx;

    assert_ptr_equal(c->name, vip_stats[c->id].name);
    if (strcmp(c->name, want->name) == 0) {
        want->value = c->value;
        want->found = true;
    }
}

RIG uint64_t rig_counter(const struct nic *nic, const char *name)
{
    struct rig_counter want = {.name = name};

    nic_counters(nic, rig_counter_visit, &want);
    assert_true(want.found);
    return want.value;
}

RIG void rig_reset(void)
{
    rig_seed = 4242;
    rig_loss_ppm = rig_dup_ppm = rig_swap_ppm = 0;
    rig_scarce = false;
    rig_peer_dead_ns = 4 * RIG_SECOND;
    rig_cost_clock = NULL;
    rig_uid = 0;
    rig_more = 0;
    rig_life = 0;
}

/* End and free everything that a test has left. */
RIG int rig_teardown(void **state)
{
    for (unsigned i = 0; i < RIG_APPS; i++)
        if (rig_apps[i])
            rig_app_end(rig_apps[i], false);
    for (unsigned i = 0; i < RIG_HOSTS; i++)
        if (rig_nics[i]) {
            nic_close(rig_nics[i], rig_now);
            rig_nics[i] = NULL;
        }
    rig_reset();
    return 0;
}

RIG void rig_fill(uint8_t *at, uint64_t bytes, uint32_t seed)
{
    for (uint64_t i = 0; i < bytes; i++) {
        seed = seed * 1664525 + 1013904223;
        at[i] = (uint8_t)(seed >> 24);
    }
}

#endif
