/*
 * Specification 2.8 - 2.10: the name of an address, auto-discovery, user data of a VI.
 */
#include "suite.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* Skip the test on a NIC that reaches no other host. */
static void only_with_other_hosts(void)
{
    if (conf_medium("lo"))
        CONF_NOT_HERE("a loop NIC reaches no other host");
}

/* Ask libvipl for the address of end B's NIC, without a discriminator. */
static void address_of_b(struct end *end, union conf_address *ret)
{
    VIP_CHAR node[] = "node-b";

    memset(ret, 0, sizeof(*ret));
    CONF_OK(VipNSGetHostByName(end->nic, node, &ret->net, 0));
}

static void the_buffer_may_be_exactly_large_enough(void **state)
{
    static const char expected[] = "node-b.example.org";
    union conf_address address;
    struct end end;
    VIP_CHAR name[64];
    VIP_ULONG len;

    (void)state;
    only_with_other_hosts();
    conf_open(&end, 'A');
    address_of_b(&end, &address);
    for (VIP_ULONG room = 0; room <= sizeof(name); room++) {
        memset(name, '#', sizeof(name));
        len = room;
        if (room < sizeof(expected)) {
            CONF_RETURNS(VIP_ERROR_RESOURCE, VipNSGetHostByAddr(end.nic, &address.net, name, &len));
            assert_int_equal(name[0], '#');
            assert_int_equal(len, sizeof(expected)); /* the name's bytes, with the final zero */
        } else {
            CONF_OK(VipNSGetHostByAddr(end.nic, &address.net, name, &len));
            assert_string_equal(name, expected);
            assert_true(room == sizeof(name) || name[room] == '#');
            assert_int_equal(len, strlen(expected));
        }
    }
    conf_close(&end);
}

static void the_discriminator_of_an_address_does_not_matter(void **state)
{
    union conf_address address;
    struct end end;
    VIP_CHAR name[64];
    VIP_ULONG len = sizeof(name);

    (void)state;
    only_with_other_hosts();
    conf_open(&end, 'A');
    conf_address(&address, &end, 'A', "abcdef", 6);
    CONF_OK(VipNSGetHostByAddr(end.nic, &address.net, name, &len));
    assert_string_equal(name, "node-a");
    assert_int_equal(len, 6);
    conf_close(&end);
}

static void wrong_arguments_of_the_name_service(void **state)
{
    union conf_address address;
    struct end end;
    VIP_CHAR name[64], node[] = "node-b";
    VIP_ULONG len = sizeof(name);
    VIP_NIC_HANDLE closed;

    (void)state;
    only_with_other_hosts();
    conf_open(&end, 'A');
    address_of_b(&end, &address);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(end.nic, NULL, name, &len));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(end.nic, &address.net, NULL, &len));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(end.nic, &address.net, name, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(NULL, &address.net, name, &len));
    address.net.HostAddressLen = 0;
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(end.nic, &address.net, name, &len));
    address.net.HostAddressLen = 25;
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(end.nic, &address.net, name, &len));
    address.net.HostAddressLen = 5; /* no address of this medium, so libvipl asks no resolver */
    CONF_RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(end.nic, &address.net, name, &len));
    assert_int_equal(len, sizeof(name));
    address.net.HostAddressLen = CONF_HOST_BYTES;
    CONF_OK(VipNSShutdown(end.nic));
    CONF_RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(end.nic, &address.net, name, &len));
    closed = end.nic;
    conf_close(&end);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSInit(closed, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSShutdown(closed));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByName(closed, node, &address.net, 0));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByAddr(closed, &address.net, name, &len));
}

/* [names] has no address with this port, so the result depends on the system's resolver. */
static void the_systems_resolver_is_asked_last(void **state)
{
    struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool six = conf_medium("udp6");
    const struct sockaddr *in = six ? (struct sockaddr *)&in6 : (struct sockaddr *)&in4;
    union conf_address address;
    struct end end;
    VIP_CHAR name[64], expected[64];
    VIP_ULONG len = sizeof(name);

    (void)state;
    only_with_other_hosts();
    if (conf_medium("ether"))
        CONF_NOT_HERE("no resolver knows the addresses of cards");
    conf_open(&end, 'A');
    address_of_b(&end, &address);
    memcpy(address.bytes + 4, six ? (void *)&in6.sin6_addr : (void *)&in4.sin_addr, six ? 16 : 4);
    address.bytes[4 + CONF_HOST_BYTES - 1] ^= 2;
    if (getnameinfo(in, six ? sizeof(in6) : sizeof(in4), expected, sizeof(expected), NULL, 0,
                    NI_NAMEREQD) == 0) {
        CONF_OK(VipNSGetHostByAddr(end.nic, &address.net, name, &len));
        assert_string_equal(name, expected);
    } else {
        CONF_RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByAddr(end.nic, &address.net, name, &len));
    }
    conf_close(&end);
}

/* ---- auto-discovery -------------------------------------------------------------------------- */

static bool listed(const VIP_AUTODISCOVERY_LIST *list, const unsigned char *host, size_t bytes)
{
    unsigned found = 0;

    for (VIP_ULONG i = 0; i < list->NumAdAddrs; i++) {
        const VIP_NET_ADDRESS *address = list->ADAddrArray[i];

        assert_int_equal(address->DiscriminatorLen, 0);
        found += address->HostAddressLen == bytes && memcmp(address->HostAddress, host, bytes) == 0;
    }
    assert_true(found <= 1);
    return found == 1;
}

static void reachable_nics_are_listed(void **state)
{
    VIP_AUTODISCOVERY_LIST list, again;
    union conf_address b;
    struct end end;

    (void)state;
    only_with_other_hosts();
    conf_open(&end, 'A');
    address_of_b(&end, &b);
    memset(&list, 0xAA, sizeof(list));
    CONF_OK(VipQuerySystemManagementInfo(end.nic, VIP_SMI_AUTODISCOVERY, &list));
    assert_int_equal(list.NumberOfHops, 1);
    assert_int_equal(list.NumAdAddrs, 2); /* this host, which is in [names] too, and node-b */
    assert_int_equal(list.ADAddrArray[0]->HostAddressLen, end.attrs.NicAddressLen);
    assert_memory_equal(list.ADAddrArray[0]->HostAddress, end.attrs.LocalNicAddress,
                        end.attrs.NicAddressLen);
    assert_true(listed(&list, end.attrs.LocalNicAddress, end.attrs.NicAddressLen));
    assert_true(listed(&list, b.bytes + 4, b.net.HostAddressLen));
    /* The list is in memory of libvipl. While its contents do not change, its address stays. */
    for (unsigned i = 0; i < 100; i++) {
        CONF_OK(VipQuerySystemManagementInfo(end.nic, VIP_SMI_AUTODISCOVERY, &again));
        assert_ptr_equal(again.ADAddrArray, list.ADAddrArray);
    }
    conf_close(&end);
}

/* A program can connect to an address of the list. */
static void a_listed_address_can_be_connected_to(void **state)
{
    VIP_AUTODISCOVERY_LIST list, connected;
    union conf_address local, remote;
    VIP_VI_ATTRIBUTES attrs;
    struct end a, b;
    VIP_RETURN rc = VIP_SUCCESS;
    unsigned disc = conf_disc();

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    conf_ready(&b, 'B', VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_OK(VipQuerySystemManagementInfo(a.nic, VIP_SMI_AUTODISCOVERY, &list));
    conf_local(&local, &disc, sizeof(disc));
    for (VIP_ULONG i = 0; i < list.NumAdAddrs; i++) {
        const VIP_NET_ADDRESS *address = list.ADAddrArray[i];

        if (memcmp(address->HostAddress, b.attrs.LocalNicAddress, b.attrs.NicAddressLen) != 0)
            continue;
        memset(&remote, 0, sizeof(remote));
        memcpy(remote.bytes, (const char *)address, 4u + address->HostAddressLen);
        remote.net.DiscriminatorLen = sizeof(disc);
        memcpy(remote.bytes + 4 + address->HostAddressLen, &disc, sizeof(disc));
        rc = VipConnectRequest(a.vi, &local.net, &remote.net, CONF_LIMIT_MS, &attrs);
    }
    assert_int_equal(rc, VIP_NO_MATCH); /* vipd answers that no server waits */
    conf_connect(&a, &b);
    CONF_OK(VipQuerySystemManagementInfo(a.nic, VIP_SMI_AUTODISCOVERY, &connected));
    assert_true(listed(&connected, b.attrs.LocalNicAddress, b.attrs.NicAddressLen));
    assert_true(listed(&list, b.attrs.LocalNicAddress, b.attrs.NicAddressLen));
    conf_close_pair(&a, &b);
}

static void wrong_arguments_of_discovery(void **state)
{
    VIP_AUTODISCOVERY_LIST list;
    struct end end;

    (void)state;
    conf_open(&end, 'A');
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(end.nic, 0, &list));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(end.nic, 2, &list));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQuerySystemManagementInfo(end.nic, ~0ul, &list));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipQuerySystemManagementInfo(end.nic, VIP_SMI_AUTODISCOVERY, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipQuerySystemManagementInfo(NULL, VIP_SMI_AUTODISCOVERY, &list));
    conf_close(&end);
}

/* ---- user data ------------------------------------------------------------------------------- */

static void user_data_of_several_vis(void **state)
{
    struct end end;
    VIP_VI_HANDLE first;
    int one, two;

    (void)state;
    conf_ready(&end, 'A', VIP_SERVICE_UNRELIABLE);
    first = end.vi;
    conf_vi(&end, VIP_SERVICE_UNRELIABLE);
    assert_null(VipGetUserData(first));
    VipSetUserData(first, &one);
    VipSetUserData(end.vi, &two);
    assert_ptr_equal(VipGetUserData(first), &one);
    assert_ptr_equal(VipGetUserData(end.vi), &two);
    VipSetUserData(first, NULL);
    assert_null(VipGetUserData(first));
    CONF_OK(VipDestroyVi(end.vi));
    assert_null(VipGetUserData(end.vi));
    VipSetUserData(end.vi, &one);
    conf_vi(&end, VIP_SERVICE_UNRELIABLE); /* this VI gets the slot of the destroyed VI */
    assert_null(VipGetUserData(end.vi));
    VipSetUserData(NULL, &one);
    assert_null(VipGetUserData(NULL));
    assert_null(VipGetUserData(end.nic));
    conf_close(&end);
}

static const struct conf_test tests[] = {
    CONF_T(
        "2.9", CONF_FUNCTIONAL, the_buffer_may_be_exactly_large_enough,
        "VipNSGetHostByAddr gives name and length, or VIP_ERROR_RESOURCE and the bytes it needs"),
    CONF_T("2.9", CONF_FUNCTIONAL, the_discriminator_of_an_address_does_not_matter,
           "VipNSGetHostByAddr looks at the host part only"),
    CONF_T("2.9", CONF_FUNCTIONAL, wrong_arguments_of_the_name_service,
           "the name service refuses wrong arguments and unknown addresses"),
    CONF_T("2.9", CONF_FUNCTIONAL, the_systems_resolver_is_asked_last,
           "VipNSGetHostByAddr asks the system's resolver for what vipd does not know"),
    CONF_DT("2.8", CONF_FULL, reachable_nics_are_listed,
            "VIP_SMI_AUTODISCOVERY lists the NICs that can be reached, the own one first"),
    CONF_DT("2.8", CONF_FULL, a_listed_address_can_be_connected_to,
            "an address from the list is a host address for VipConnectRequest"),
    CONF_T("2.8", CONF_FULL, wrong_arguments_of_discovery,
           "an unknown InfoType, or NULL, gives VIP_INVALID_PARAMETER"),
    CONF_T("2.10", CONF_FUNCTIONAL, user_data_of_several_vis,
           "each VI has its own user data, NULL when it is created"),
};

CONF_MAIN(tests)
