/*
 * vipd has ended, and libvipl waits for the next vipd for ten minutes. Calls with a time limit end
 * by their limit, and the program can close the NIC.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libvipl/vipl.h"
#include "tests/unit/fake_vipd.h"

#define OK(call) assert_int_equal((call), VIP_SUCCESS)
#define SOON_MS  50

union address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[64];
};

/* A program that has a NIC and a VI of a fake vipd. */
struct program {
    struct fake fake;
    union address local, remote;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
};

static void begin(struct program *p)
{
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_NIC_ATTRIBUTES nic_attrs;

    *p = (struct program){.fake = {.generation = 1, .number = 1, .outlive_ms = 600000}};
    fake_start(&p->fake);
    OK(VipOpenNic("fake0", &p->nic));
    OK(VipQueryNic(p->nic, &nic_attrs));
    OK(VipCreateVi(p->nic, &attrs, NULL, NULL, &p->vi));
    p->local.net.HostAddressLen = p->remote.net.HostAddressLen = nic_attrs.NicAddressLen;
    memcpy(p->local.net.HostAddress, nic_attrs.LocalNicAddress, nic_attrs.NicAddressLen);
    memcpy(p->remote.net.HostAddress, nic_attrs.LocalNicAddress, nic_attrs.NicAddressLen);
    p->local.net.DiscriminatorLen = p->remote.net.DiscriminatorLen = 4;
}

/* There is no socket; then there is one, but no vipd accepts (a service manager listens). */
static void calls_end_by_their_time_limit(void **state)
{
    (void)state;
    for (unsigned listens = 0; listens < 2; listens++) {
        VIP_VI_ATTRIBUTES attrs;
        VIP_CONN_HANDLE request;
        struct program p;

        begin(&p);
        if (!listens)
            unlink(p.fake.address.sun_path);
        fake_die(&p.fake);
        assert_int_equal(
            VipConnectWait(p.nic, &p.local.net, SOON_MS, &p.remote.net, &attrs, &request),
            VIP_TIMEOUT);
        assert_int_equal(VipConnectWait(p.nic, &p.local.net, 0, &p.remote.net, &attrs, &request),
                         VIP_TIMEOUT);
        assert_int_equal(VipConnectRequest(p.vi, &p.local.net, &p.remote.net, SOON_MS, &attrs),
                         VIP_TIMEOUT);
        OK(VipCloseNic(p.nic));
        fake_end(&p.fake);
    }
}

static void *connect_run(void *arg)
{
    struct program *p = arg;
    VIP_VI_ATTRIBUTES attrs;

    return (void *)(uintptr_t)VipConnectRequest(p->vi, &p->local.net, &p->remote.net, 10 * SOON_MS,
                                                &attrs);
}

/* vipd has got the request, and ends before it answers. */
static void a_request_under_way_ends_by_its_time_limit(void **state)
{
    unsigned *asked;
    struct program p;
    pthread_t thread;
    void *rc;

    (void)state;
    begin(&p);
    asked = &p.fake.requests[VIP__REQUEST__BODY_CONNECT];
    assert_int_equal(pthread_create(&thread, NULL, connect_run, &p), 0);
    while (__atomic_load_n(asked, __ATOMIC_SEQ_CST) == 0)
        usleep(1000);
    fake_die(&p.fake);
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_int_equal((uintptr_t)rc, VIP_TIMEOUT);
    OK(VipCloseNic(p.nic));
    fake_end(&p.fake);
}

/* The calls fail and change no state. (The next vipd would make a waiting VI Idle.) */
static void a_vi_with_a_connection_asks_for_none(void **state)
{
    static const enum vip_vi_state with[] = {VIP_VIST_CONNECTED, VIP_VIST_ERROR};

    (void)state;
    for (unsigned i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
        VIP_VI_ATTRIBUTES attrs;
        struct program p;

        begin(&p);
        vip_vipd_vi(p.fake.vipd, 0)->state = with[i];
        fake_die(&p.fake);
        assert_int_equal(VipConnectRequest(p.vi, &p.local.net, &p.remote.net, SOON_MS, &attrs),
                         VIP_INVALID_STATE);
        assert_int_equal(VipConnectPeerRequest(p.vi, &p.local.net, &p.remote.net, SOON_MS),
                         VIP_INVALID_STATE);
        OK(VipCloseNic(p.nic));
        fake_end(&p.fake);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_end_by_their_time_limit),
        cmocka_unit_test(a_request_under_way_ends_by_its_time_limit),
        cmocka_unit_test(a_vi_with_a_connection_asks_for_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
