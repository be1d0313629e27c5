/*
 * vipd has ended, and the library waits for the next one for ten minutes. Calls with a time limit end by that limit,
 * and the NIC can be closed.
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

static void calls_end_by_their_time_limit(void **state)
{
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    struct fake fake = {.generation = 1, .number = 1, .outlive_ms = 600000};
    union address local = {0}, remote = {0};
    VIP_NIC_ATTRIBUTES nic_attrs;
    VIP_CONN_HANDLE request;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;

    (void)state;
    fake_start(&fake);
    OK(VipOpenNic("fake0", &nic));
    OK(VipQueryNic(nic, &nic_attrs));
    OK(VipCreateVi(nic, &attrs, NULL, NULL, &vi));
    local.net.HostAddressLen = remote.net.HostAddressLen = nic_attrs.NicAddressLen;
    memcpy(local.net.HostAddress, nic_attrs.LocalNicAddress, nic_attrs.NicAddressLen);
    memcpy(remote.net.HostAddress, nic_attrs.LocalNicAddress, nic_attrs.NicAddressLen);
    local.net.DiscriminatorLen = remote.net.DiscriminatorLen = 4;
    unlink(fake.address.sun_path); /* there is no next vipd */
    fake_die(&fake);

    assert_int_equal(VipConnectWait(nic, &local.net, SOON_MS, &remote.net, &attrs, &request),
                     VIP_TIMEOUT);
    assert_int_equal(VipConnectWait(nic, &local.net, 0, &remote.net, &attrs, &request),
                     VIP_TIMEOUT);
    assert_int_equal(VipConnectRequest(vi, &local.net, &remote.net, SOON_MS, &attrs), VIP_TIMEOUT);
    OK(VipCloseNic(nic));
    fake_end(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_end_by_their_time_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
