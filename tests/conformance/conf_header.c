/*
 * Specification 1.1-1.3, 1.5, 1.6, 1.10-1.12: types, handles, structures, callback types and tags
 * of vipl.h, as programs declare, initialize and overlay them. header.sh compiles vipl.h in every
 * language. conf_values.c tests the values.
 */
#include "suite.h"

#include <dlfcn.h>

/* True if the expression has exactly this type. */
#define IS(type, expression) _Generic((expression), type : 1, default : 0)

static void scalar_types(void **state)
{
    (void)state;
    assert_true(IS(void *, (VIP_PVOID)0));
    assert_true(IS(int, (VIP_BOOLEAN)0));
    assert_true(IS(char, (VIP_CHAR)0));
    assert_true(IS(unsigned char, (VIP_UCHAR)0));
    assert_true(IS(unsigned short, (VIP_USHORT)0));
    assert_true(IS(unsigned long, (VIP_ULONG)0));
    assert_true(IS(short, (VIP_SHORT)0));
    assert_true(IS(long, (VIP_LONG)0));
    assert_true(IS(void *, (VIP_EVENT_HANDLE)0));
    assert_int_equal(sizeof(VIP_UINT8), 1);
    assert_int_equal(sizeof(VIP_UINT16), 2);
    assert_int_equal(sizeof(VIP_UINT32), 4);
    assert_int_equal(sizeof(VIP_UINT64), 8);
    assert_true((VIP_UINT8)-1 > 0 && (VIP_UINT16)-1 > 0 && (VIP_UINT32)-1 > 0 &&
                (VIP_UINT64)-1 > 0);
    assert_int_equal(VIP_TRUE, 1);
    assert_int_equal(VIP_FALSE, 0);
}

static void infinite_and_markers(void **state)
{
    IN VIP_ULONG infinite = VIP_INFINITE; /* IN and OUT expand to nothing */
    OUT VIP_ULONG all_ones = ~0ul;

    (void)state;
    assert_true(infinite == all_ones);
    assert_int_equal((VIP_UINT32)infinite, 0xFFFFFFFF);
}

static void handle_types(void **state)
{
    (void)state;
    assert_true(IS(void *, (VIP_NIC_HANDLE)0));
    assert_true(IS(void *, (VIP_VI_HANDLE)0));
    assert_true(IS(void *, (VIP_CQ_HANDLE)0));
    assert_true(IS(void *, (VIP_PROTECTION_HANDLE)0));
    assert_true(IS(void *, (VIP_CONN_HANDLE)0));
    assert_true(IS(void *, (VIP_QOS)0));
    assert_true(IS(VIP_UINT32, (VIP_MEM_HANDLE)0));
}

/* A VI handle that a call returns must equal VipCreateVi's handle: programs use handles as keys. */
static void handles_compare_equal(void **state)
{
    struct end a, b;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    VIP_DESCRIPTOR *got;

    (void)state;
    conf_open(&a, 'A');
    CONF_OK(VipCreateCQ(a.nic, 16, &a.cq));
    conf_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_ready(&b, 'B', VIP_SERVICE_RELIABLE_DELIVERY);
    assert_ptr_not_equal(a.vi, b.vi);
    assert_ptr_not_equal(a.nic, b.nic);
    conf_post_recv(&a, conf_desc(&a, 0, 0, 10));
    CONF_OK(VipDisconnect(a.vi));
    CONF_OK(VipCQWait(a.cq, CONF_LIMIT_MS, &vi, &recv));
    assert_true(vi == a.vi && recv == VIP_TRUE);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(vi, &got));
    assert_ptr_equal(got, conf_at(&a, 0));
    conf_close_pair(&a, &b);
}

/* As in old programs, an address has 40 bytes. Its discriminator follows the host, unaligned. */
static void net_address(void **state)
{
    unsigned char bytes[40] = {0};
    VIP_NET_ADDRESS *address = (VIP_NET_ADDRESS *)(void *)bytes;

    (void)state;
    assert_int_equal(sizeof(VIP_NET_ADDRESS), 6);
    assert_int_equal(offsetof(VIP_NET_ADDRESS, HostAddressLen), 0);
    assert_int_equal(offsetof(VIP_NET_ADDRESS, DiscriminatorLen), 2);
    assert_int_equal(offsetof(VIP_NET_ADDRESS, HostAddress), 4);
    assert_int_equal(sizeof(address->HostAddressLen), 2);
    assert_int_equal(sizeof(address->DiscriminatorLen), 2);
    address->HostAddressLen = 6;
    address->HostAddress[address->HostAddressLen] = 0xAB;
    assert_int_equal(bytes[10], 0xAB);
}

#define AFTER(type, second, first) assert_true(offsetof(type, second) > offsetof(type, first))

static void order_of_nic_attributes(void **state)
{
    (void)state;
    assert_int_equal(sizeof(((VIP_NIC_ATTRIBUTES *)0)->Name), 64);
    AFTER(VIP_NIC_ATTRIBUTES, HardwareVersion, Name);
    AFTER(VIP_NIC_ATTRIBUTES, ProviderVersion, HardwareVersion);
    AFTER(VIP_NIC_ATTRIBUTES, NicAddressLen, ProviderVersion);
    AFTER(VIP_NIC_ATTRIBUTES, LocalNicAddress, NicAddressLen);
    AFTER(VIP_NIC_ATTRIBUTES, ThreadSafe, LocalNicAddress);
    AFTER(VIP_NIC_ATTRIBUTES, MaxDiscriminatorLen, ThreadSafe);
    AFTER(VIP_NIC_ATTRIBUTES, MaxRegisterBytes, MaxDiscriminatorLen);
    AFTER(VIP_NIC_ATTRIBUTES, MaxRegisterRegions, MaxRegisterBytes);
    AFTER(VIP_NIC_ATTRIBUTES, MaxRegisterBlockBytes, MaxRegisterRegions);
    AFTER(VIP_NIC_ATTRIBUTES, MaxVI, MaxRegisterBlockBytes);
    AFTER(VIP_NIC_ATTRIBUTES, MaxDescriptorsPerQueue, MaxVI);
    AFTER(VIP_NIC_ATTRIBUTES, MaxSegmentsPerDesc, MaxDescriptorsPerQueue);
    AFTER(VIP_NIC_ATTRIBUTES, MaxCQ, MaxSegmentsPerDesc);
    AFTER(VIP_NIC_ATTRIBUTES, MaxCQEntries, MaxCQ);
    AFTER(VIP_NIC_ATTRIBUTES, MaxTransferSize, MaxCQEntries);
    AFTER(VIP_NIC_ATTRIBUTES, NativeMTU, MaxTransferSize);
    AFTER(VIP_NIC_ATTRIBUTES, MaxPtags, NativeMTU);
    AFTER(VIP_NIC_ATTRIBUTES, ReliabilityLevelSupport, MaxPtags);
    AFTER(VIP_NIC_ATTRIBUTES, RDMAReadSupport, ReliabilityLevelSupport);
}

static void attributes_by_position(void **state)
{
    char tag, qos;
    VIP_VI_ATTRIBUTES vi = {VIP_SERVICE_RELIABLE_RECEPTION, 65472, &qos, &tag, 1, 0};
    VIP_MEM_ATTRIBUTES mem = {&tag, 0, 1};

    (void)state;
    assert_int_equal(vi.ReliabilityLevel, 4);
    assert_int_equal(vi.MaxTransferSize, 65472);
    assert_ptr_equal(vi.QoS, &qos);
    assert_ptr_equal(vi.Ptag, &tag);
    assert_true(vi.EnableRdmaWrite && !vi.EnableRdmaRead);
    assert_ptr_equal(mem.Ptag, &tag);
    assert_true(!mem.EnableRdmaWrite && mem.EnableRdmaRead);
    assert_int_equal(sizeof(vi), sizeof(void *) == 8 ? 40 : 24);
    assert_int_equal(sizeof(mem), sizeof(void *) == 8 ? 16 : 12);
}

static void autodiscovery_types(void **state)
{
    VIP_AUTODISCOVERY_LIST list = {3, NULL, 4}; /* tests the order of the members */

    (void)state;
    assert_int_equal(VIP_SMI_AUTODISCOVERY, 1);
    assert_true(IS(VIP_ULONG, VIP_SMI_AUTODISCOVERY));
    assert_int_equal(list.NumberOfHops, 3);
    assert_int_equal(list.NumAdAddrs, 4);
    assert_true(IS(VIP_NET_ADDRESS **, list.ADAddrArray));
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    (void)error;
}

static void on_vi(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *desc)
{
    (void)context;
    (void)nic;
    (void)vi;
    (void)desc;
}

static void on_cq(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN recv)
{
    (void)context;
    (void)nic;
    (void)vi;
    (void)recv;
}

static void callback_types(void **state)
{
    VIP_ERROR_HANDLER error = on_error;
    VIP_VI_CALLBACK vi = on_vi;
    VIP_CQ_CALLBACK cq = on_cq;

    (void)state;
    assert_true(IS(VIP_ERROR_HANDLER, &on_error));
    assert_true(IS(VIP_VI_CALLBACK, &on_vi));
    assert_true(IS(VIP_CQ_CALLBACK, &on_cq));
    error(NULL, NULL);
    vi(NULL, NULL, NULL, NULL);
    cq(NULL, NULL, NULL, VIP_FALSE);
}

static void struct_tags(void **state)
{
    (void)state;
    assert_int_equal(sizeof(struct _VIP_NET_ADDRESS), sizeof(VIP_NET_ADDRESS));
    assert_int_equal(sizeof(struct _VIP_NIC_ATTRIBUTES), sizeof(VIP_NIC_ATTRIBUTES));
    assert_int_equal(sizeof(struct _VIP_VI_ATTRIBUTES), sizeof(VIP_VI_ATTRIBUTES));
    assert_int_equal(sizeof(struct _VIP_MEM_ATTRIBUTES), sizeof(VIP_MEM_ATTRIBUTES));
    assert_int_equal(sizeof(struct _VIP_DESCRIPTOR), sizeof(VIP_DESCRIPTOR));
    assert_int_equal(sizeof(struct _VIP_ERROR_DESCRIPTOR), sizeof(VIP_ERROR_DESCRIPTOR));
    assert_int_equal((enum _VIP_ERROR_CODE)VIP_ERROR_CATASTROPHIC, 10);
    assert_int_equal((enum _VIP_RESOURCE_CODE)VIP_RESOURCE_DESCRIPTOR, 3);
}

/* Programs that load the library with dlopen look up every function by its plain name. */
static void functions_by_name(void **state)
{
    static const char *const names[] = {"VipOpenNic",
                                        "VipCloseNic",
                                        "VipQueryNic",
                                        "VipCreateVi",
                                        "VipDestroyVi",
                                        "VipQueryVi",
                                        "VipSetViAttributes",
                                        "VipCreatePtag",
                                        "VipDestroyPtag",
                                        "VipRegisterMem",
                                        "VipDeregisterMem",
                                        "VipSetMemAttributes",
                                        "VipQueryMem",
                                        "VipConnectWait",
                                        "VipConnectAccept",
                                        "VipConnectReject",
                                        "VipConnectRequest",
                                        "VipDisconnect",
                                        "VipConnectPeerRequest",
                                        "VipConnectPeerDone",
                                        "VipConnectPeerWait",
                                        "VipPostSend",
                                        "VipPostRecv",
                                        "VipSendDone",
                                        "VipRecvDone",
                                        "VipSendWait",
                                        "VipRecvWait",
                                        "VipSendNotify",
                                        "VipRecvNotify",
                                        "VipCreateCQ",
                                        "VipDestroyCQ",
                                        "VipResizeCQ",
                                        "VipCQDone",
                                        "VipCQWait",
                                        "VipCQNotify",
                                        "VipErrorCallback",
                                        "VipNSInit",
                                        "VipNSGetHostByName",
                                        "VipNSGetHostByAddr",
                                        "VipNSShutdown",
                                        "VipGetUserData",
                                        "VipSetUserData",
                                        "VipQuerySystemManagementInfo"};
    static const char *const absent[] = {"VipAddTagCQ", "VipRemoveTagCQ", "VipPostDeferredSends"};

    (void)state;
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (dlsym(RTLD_DEFAULT, names[i]) == NULL)
            fail_msg("%s is not exported", names[i]);
    for (unsigned i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
        assert_null(dlsym(RTLD_DEFAULT, absent[i]));
}

static const struct conf_test tests[] = {
    CONF_T("1.1", CONF_EARLY, scalar_types, "the scalar types"),
    CONF_DT("1.1", CONF_EARLY, infinite_and_markers,
            "VIP_INFINITE is all ones; IN and OUT are empty"),
    CONF_T("1.2", CONF_EARLY, handle_types, "the handle types"),
    CONF_T("1.2", CONF_EARLY, handles_compare_equal, "handles can be compared and used as keys"),
    CONF_T("1.3", CONF_EARLY, net_address,
           "VIP_NET_ADDRESS: 6 bytes, the discriminator follows the host part without padding"),
    CONF_T("1.5", CONF_EARLY, order_of_nic_attributes, "order of the members"),
    CONF_T("1.6", CONF_EARLY, attributes_by_position,
           "VIP_VI_ATTRIBUTES and VIP_MEM_ATTRIBUTES: size, and order for positional initializers"),
    CONF_T("1.10", CONF_FULL, autodiscovery_types, "VIP_SMI_AUTODISCOVERY and its list"),
    CONF_T("1.11", CONF_EARLY, callback_types, "the types of handlers have names"),
    CONF_T("1.12", CONF_EARLY, struct_tags, "the tags of structures and enumerations"),
    CONF_T("1.12", CONF_EARLY, functions_by_name,
           "every function is exported by its plain name; Giganet's three others are not there"),
};

CONF_MAIN(tests)
