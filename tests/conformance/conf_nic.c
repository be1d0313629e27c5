/*
 * Specification 2.1, 2.3, 2.9: NIC handles, protection tags, registered memory, names.
 */
#include <netdb.h>

#include "suite.h"

#include <sys/mman.h>
#include <unistd.h>

static void open_gives_working_attributes(void **state)
{
    struct end end;
    VIP_NIC_ATTRIBUTES *nic = &end.attrs;

    (void)state;
    conf_open(&end, 'A');
    assert_string_equal(nic->Name, "vip0");
    assert_int_equal(nic->NicAddressLen, CONF_HOST_BYTES);
    assert_non_null(nic->LocalNicAddress);
    assert_int_equal(nic->ThreadSafe, VIP_TRUE);
    /* Check the minimum limits (3.13) and the limits that old programs need. */
    assert_true(nic->MaxDiscriminatorLen >= 16);
    assert_true(nic->MaxTransferSize >= 1048576);
    assert_true(nic->MaxSegmentsPerDesc >= 252);
    assert_true(nic->MaxVI >= 1024);
    assert_true(nic->MaxDescriptorsPerQueue >= 1024);
    assert_true(nic->MaxCQ >= 1);
    assert_true(nic->MaxCQEntries >= 1024);
    assert_true(nic->MaxPtags >= nic->MaxVI);
    assert_true(nic->MaxRegisterRegions >= nic->MaxVI);
    assert_true(nic->MaxRegisterBlockBytes >= 1ul << 30);
    assert_true((nic->ReliabilityLevelSupport & VIP_SERVICE_UNRELIABLE) != 0);
    assert_true((nic->ReliabilityLevelSupport & VIP_SERVICE_RELIABLE_DELIVERY) != 0);
    conf_close(&end);
}

static void every_historical_device_name_opens(void **state)
{
    static const char *const names[] = {"vip0", "/dev/via_lo", "/dev/via_eth0", "/dev/clanvi0",
                                        "nic0", "VINIC0",      "VINIC",         "/etc/via_lo"};
    VIP_NIC_HANDLE nic;

    (void)state;
    if (conf_medium("lo"))
        CONF_NOT_HERE("a NIC with link = loop has the names of the loopback device only");
    conf_use('A');
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        CONF_OK(VipOpenNic(names[i], &nic));
        CONF_OK(VipCloseNic(nic));
    }
}

static void unknown_device_is_refused_with_the_list(void **state)
{
    VIP_NIC_HANDLE nic = NULL;

    (void)state;
    conf_use('A');
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipOpenNic("no-such-nic", &nic));
    assert_non_null(strstr(VipxLastError(), "no-such-nic"));
    assert_non_null(strstr(VipxLastError(), "vip0"));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipOpenNic(NULL, &nic));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipOpenNic("vip0", NULL));
}

static void open_without_vipd_says_what_to_do(void **state)
{
    VIP_NIC_HANDLE nic = NULL;

    (void)state;
    setenv("VIPD_RUNTIME_DIR", "/nonexistent/place", 1);
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipOpenNic("vip0", &nic));
    assert_non_null(strstr(VipxLastError(), "/nonexistent/place/vipd.sock"));
    assert_non_null(strstr(VipxLastError(), "VIPD_RUNTIME_DIR"));
    assert_non_null(strstr(VipxLastError(), "vipd --runtime-dir"));
    conf_use('A');
}

static void two_handles_of_one_nic_differ(void **state)
{
    VIP_NIC_HANDLE one, two;

    (void)state;
    conf_use('A');
    CONF_OK(VipOpenNic("vip0", &one));
    CONF_OK(VipOpenNic("vip0", &two));
    assert_ptr_not_equal(one, two);
    CONF_OK(VipCloseNic(one));
    CONF_OK(VipCloseNic(two));
}

static void stale_and_garbage_handles_are_refused(void **state)
{
    VIP_NIC_ATTRIBUTES attrs;
    VIP_NIC_HANDLE old, again, garbage[] = {NULL, (void *)1, &attrs, (void *)~0ul};

    (void)state;
    conf_use('A');
    CONF_OK(VipOpenNic("vip0", &old));
    CONF_OK(VipCloseNic(old));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCloseNic(old));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryNic(old, &attrs));
    CONF_OK(VipOpenNic("vip0", &again));
    assert_ptr_not_equal(old, again);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryNic(old, &attrs));
    for (unsigned i = 0; i < 4; i++) {
        CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryNic(garbage[i], &attrs));
        CONF_RETURNS(VIP_INVALID_PARAMETER, VipCloseNic(garbage[i]));
    }
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryNic(again, NULL));
    CONF_OK(VipCloseNic(again));
}

static void close_releases_what_is_left(void **state)
{
    struct end end;
    VIP_PROTECTION_HANDLE ptag;
    VIP_VI_HANDLE vi;

    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        conf_ready(&end, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
        CONF_OK(VipCreatePtag(end.nic, &ptag));
        CONF_OK(VipCreateCQ(end.nic, 16, &end.cq));
        conf_post_recv(&end, conf_desc(&end, 0, 0, 64));
        vi = end.vi;
        conf_close(&end);
        CONF_RETURNS(VIP_INVALID_PARAMETER, VipDisconnect(vi));
    }
}

static void ptags_are_created_and_destroyed(void **state)
{
    struct end end, other;
    VIP_PROTECTION_HANDLE one, two;

    (void)state;
    conf_open(&end, 'A');
    conf_open(&other, 'A');
    CONF_OK(VipCreatePtag(end.nic, &one));
    CONF_OK(VipCreatePtag(end.nic, &two));
    assert_non_null(one);
    assert_ptr_not_equal(one, two);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDestroyPtag(other.nic, one));
    CONF_OK(VipDestroyPtag(end.nic, one));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDestroyPtag(end.nic, one));
    CONF_OK(VipDestroyPtag(end.nic, two));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDestroyPtag(end.nic, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipCreatePtag(end.nic, NULL));
    conf_close(&other);
    conf_close(&end);
}

static void ptag_in_use_is_not_destroyed(void **state)
{
    struct end end;
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_HANDLE handle;
    VIP_VI_HANDLE vi;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipCreatePtag(end.nic, &mem.Ptag));
    CONF_OK(VipRegisterMem(end.nic, end.buffer, 100, &mem, &handle));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipDestroyPtag(end.nic, mem.Ptag));
    CONF_OK(VipDeregisterMem(end.nic, end.buffer, handle));
    attrs.Ptag = mem.Ptag;
    CONF_OK(VipCreateVi(end.nic, &attrs, NULL, NULL, &vi));
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipDestroyPtag(end.nic, mem.Ptag));
    CONF_OK(VipDestroyVi(vi));
    CONF_OK(VipDestroyPtag(end.nic, mem.Ptag));
    conf_close(&end);
}

static void register_takes_any_range(void **state)
{
    struct end end;
    VIP_MEM_HANDLE handle[8];
    static char in_bss[10000];
    static const char constant[5000] = "read-only";
    char on_stack[3001];
    char *from_heap = malloc(1234567);

    (void)state;
    conf_open(&end, 'A');
    memset(on_stack, 7, sizeof(on_stack));
    CONF_OK(VipRegisterMem(end.nic, in_bss + 1, 1, NULL, &handle[0]));
    CONF_OK(VipRegisterMem(end.nic, in_bss + 4095, 5002, NULL, &handle[1]));
    CONF_OK(VipRegisterMem(end.nic, on_stack, sizeof(on_stack), NULL, &handle[2]));
    CONF_OK(VipRegisterMem(end.nic, from_heap + 3, 1234561, NULL, &handle[3]));
    CONF_OK(
        VipRegisterMem(end.nic, (void *)(uintptr_t)constant, sizeof(constant), NULL, &handle[4]));
    /* Registering the same bytes twice gives two handles. */
    CONF_OK(VipRegisterMem(end.nic, in_bss + 1, 1, NULL, &handle[5]));
    for (unsigned i = 0; i < 6; i++) {
        assert_int_not_equal(handle[i], 0);
        assert_int_not_equal(handle[i], 0xFFFFFFFFu);
        for (unsigned k = 0; k < i; k++)
            assert_int_not_equal(handle[i], handle[k]);
    }
    CONF_OK(VipDeregisterMem(end.nic, in_bss + 1, handle[0]));
    CONF_OK(VipDeregisterMem(end.nic, in_bss + 4095, handle[1]));
    CONF_OK(VipDeregisterMem(end.nic, on_stack, handle[2]));
    CONF_OK(VipDeregisterMem(end.nic, from_heap + 3, handle[3]));
    CONF_OK(VipDeregisterMem(end.nic, (void *)(uintptr_t)constant, handle[4]));
    CONF_OK(VipDeregisterMem(end.nic, in_bss + 1, handle[5]));
    for (unsigned i = 0; i < sizeof(on_stack); i++)
        assert_int_equal(on_stack[i], 7);
    assert_string_equal(constant, "read-only");
    free(from_heap);
    conf_close(&end);
}

static void register_refuses_what_is_wrong(void **state)
{
    struct end end, other;
    VIP_MEM_HANDLE handle = 0;
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_TRUE};
    long page = sysconf(_SC_PAGESIZE);
    char *hole = mmap(NULL, (size_t)page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    conf_open(&end, 'A');
    conf_open(&other, 'A');
    munmap(hole, (size_t)page);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(end.nic, NULL, 10, NULL, &handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(end.nic, end.buffer, 0, NULL, &handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(end.nic, end.buffer, 10, NULL, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRegisterMem(end.nic, hole, 10, NULL, &handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipRegisterMem(end.nic, end.buffer, ~0ul - 5, NULL, &handle));
    if (end.attrs.RDMAReadSupport == 0)
        CONF_RETURNS(VIP_INVALID_RDMAREAD, VipRegisterMem(end.nic, end.buffer, 10, &mem, &handle));
    mem.EnableRdmaRead = VIP_FALSE;
    CONF_OK(VipCreatePtag(other.nic, &mem.Ptag));
    CONF_RETURNS(VIP_INVALID_PTAG, VipRegisterMem(end.nic, end.buffer, 10, &mem, &handle));
    mem.Ptag = (VIP_PROTECTION_HANDLE)&end;
    CONF_RETURNS(VIP_INVALID_PTAG, VipRegisterMem(end.nic, end.buffer, 10, &mem, &handle));
    assert_int_equal(handle, 0);
    conf_close(&other);
    conf_close(&end);
}

static void deregister_wants_the_address_and_the_handle(void **state)
{
    struct end end;
    VIP_MEM_HANDLE handle;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipRegisterMem(end.nic, end.buffer, 100, NULL, &handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(end.nic, end.buffer + 1, handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(end.nic, end.buffer, handle + 77));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(end.nic, end.buffer, 0));
    CONF_OK(VipDeregisterMem(end.nic, end.buffer, handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipDeregisterMem(end.nic, end.buffer, handle));
    conf_close(&end);
}

static void mem_attributes_are_set_and_queried(void **state)
{
    struct end end;
    VIP_MEM_ATTRIBUTES set = {NULL, VIP_TRUE, VIP_FALSE}, got;
    VIP_MEM_HANDLE handle;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipRegisterMem(end.nic, end.buffer, 100, NULL, &handle));
    CONF_OK(VipQueryMem(end.nic, end.buffer, handle, &got));
    assert_null(got.Ptag);
    assert_int_equal(got.EnableRdmaWrite, VIP_FALSE);
    CONF_OK(VipCreatePtag(end.nic, &set.Ptag));
    CONF_OK(VipSetMemAttributes(end.nic, end.buffer, handle, &set));
    CONF_OK(VipQueryMem(end.nic, end.buffer, handle, &got));
    assert_ptr_equal(got.Ptag, set.Ptag);
    assert_int_equal(got.EnableRdmaWrite, VIP_TRUE);
    assert_int_equal(got.EnableRdmaRead, VIP_FALSE);
    set.Ptag = (VIP_PROTECTION_HANDLE)&end;
    CONF_RETURNS(VIP_INVALID_PTAG, VipSetMemAttributes(end.nic, end.buffer, handle, &set));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipSetMemAttributes(end.nic, end.buffer, handle, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(end.nic, end.buffer + 1, handle, &got));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(end.nic, end.buffer, handle, NULL));
    CONF_OK(VipDeregisterMem(end.nic, end.buffer, handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipQueryMem(end.nic, end.buffer, handle, &got));
    conf_close(&end);
}

static void extension_memory_can_be_registered(void **state)
{
    struct end end;
    VIP_PVOID memory;
    VIP_MEM_HANDLE handle;

    (void)state;
    conf_open(&end, 'A');
    CONF_OK(VipxAllocMem(100000, &memory));
    assert_int_equal((uintptr_t)memory % 4096, 0);
    for (unsigned i = 0; i < 100000; i++)
        assert_int_equal(((char *)memory)[i], 0);
    CONF_OK(VipRegisterMem(end.nic, (char *)memory + 10, 90000, NULL, &handle));
    CONF_OK(VipDeregisterMem(end.nic, (char *)memory + 10, handle));
    CONF_OK(VipxFreeMem(memory));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxFreeMem(memory));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxAllocMem(0, &memory));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxAllocMem(10, NULL));
    conf_close(&end);
}

/* libvipl asks the system's resolver last. Some machines do not know the name "localhost". */
static void the_resolver_knows_localhost(struct end *end)
{
    struct addrinfo hints = {.ai_family = conf_medium("udp6") ? AF_INET6 : AF_INET}, *found;
    VIP_CHAR localhost[] = "localhost";
    union conf_address address;
    VIP_RETURN rc = VipNSGetHostByName(end->nic, localhost, &address.net, 0);

    /* No resolver has Ethernet addresses. */
    if (!conf_medium("ether") && getaddrinfo("localhost", NULL, &hints, &found) == 0) {
        freeaddrinfo(found);
        assert_int_equal(rc, VIP_SUCCESS);
        assert_memory_equal(address.bytes + 4, end->attrs.LocalNicAddress, CONF_HOST_BYTES);
    } else {
        assert_int_equal(rc, VIP_ERROR_NAMESERVICE);
    }
}

/* The address of end A's NIC in numbers. A UDP address has no port here. */
static const char *own_number(void)
{
    if (conf_medium("ether"))
        return getenv("VIP_ADDRESS_A");
    return conf_medium("udp6") ? "::1" : "127.0.0.1";
}

static void names_resolve_short_full_and_numeric(void **state)
{
    struct end end, b;
    union conf_address one, two;
    static const char *const same[] = {"node-b", "node-b.example.org", "NODE-B"};
    size_t len = CONF_HOST_BYTES;

    (void)state;
    if (conf_medium("lo"))
        CONF_NOT_HERE("a NIC with link = loop knows the names of this host only");
    conf_open(&end, 'A');
    memset(&one, 0xAA, sizeof(one)); /* libvipl writes `one` and must not read its HostAddressLen */
    CONF_OK(VipNSGetHostByName(end.nic, (VIP_CHAR *)(uintptr_t) "node-b", &one.net, 0));
    assert_int_equal(one.net.HostAddressLen, len);
    assert_int_equal(one.bytes[4 + len], 0xAA);
    conf_open(&b, 'B');
    if (strcmp(getenv("VIP_LINK"), "loop") != 0) /* over loop no vipd has node-b's address */
        assert_memory_equal(one.bytes + 4, b.attrs.LocalNicAddress, len);
    conf_close(&b);
    conf_use('A');
    for (unsigned i = 0; i < 3; i++) {
        CONF_OK(VipNSGetHostByName(end.nic, (VIP_CHAR *)(uintptr_t)same[i], &two.net, 0));
        assert_memory_equal(two.bytes + 4, one.bytes + 4, len);
    }
    CONF_OK(VipNSGetHostByName(end.nic, (VIP_CHAR *)(uintptr_t)own_number(), &two.net, 0));
    assert_memory_equal(two.bytes + 4, end.attrs.LocalNicAddress, len);
    the_resolver_knows_localhost(&end);
    conf_close(&end);
}

static void unknown_names_are_refused(void **state)
{
    struct end end;
    union conf_address address = {{0}};
    VIP_CHAR unknown[] = "no-such-host.invalid", node[] = "node-b", empty[] = "";

    (void)state;
    conf_open(&end, 'A');
    CONF_RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(end.nic, unknown, &address.net, 0));
    CONF_RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(end.nic, node, &address.net, 1));
    CONF_RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(end.nic, empty, &address.net, 0));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByName(end.nic, NULL, &address.net, 0));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSGetHostByName(end.nic, node, NULL, 0));
    conf_close(&end);
}

static void name_service_is_initialised_and_shut_down(void **state)
{
    struct end end;
    union conf_address address;
    VIP_CHAR node[] = "node-b";

    (void)state;
    if (conf_medium("lo"))
        CONF_NOT_HERE("a NIC with link = loop knows the names of this host only");
    conf_open(&end, 'A');
    CONF_OK(VipNSInit(end.nic, NULL)); /* programs repeat it for every connection */
    CONF_OK(VipNSShutdown(end.nic));
    CONF_RETURNS(VIP_ERROR_NAMESERVICE, VipNSGetHostByName(end.nic, node, &address.net, 0));
    CONF_RETURNS(VIP_ERROR_NAMESERVICE, VipNSShutdown(end.nic));
    CONF_OK(VipNSInit(end.nic, NULL));
    CONF_OK(VipNSGetHostByName(end.nic, node, &address.net, 0));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipNSInit(NULL, NULL));
    conf_close(&end);
}

static void addresses_resolve_to_names(void **state)
{
    struct end end;
    union conf_address address;
    VIP_CHAR node[] = "node-b", name[64];
    VIP_ULONG len = sizeof(name);

    (void)state;
    if (conf_medium("lo"))
        CONF_NOT_HERE("a NIC with link = loop knows the names of this host only");
    conf_open(&end, 'A');
    CONF_OK(VipNSGetHostByName(end.nic, node, &address.net, 0));
    CONF_OK(VipNSGetHostByAddr(end.nic, &address.net, name, &len));
    assert_string_equal(name, "node-b.example.org");
    assert_int_equal(len, strlen(name));
    len = 5;
    CONF_RETURNS(VIP_ERROR_RESOURCE, VipNSGetHostByAddr(end.nic, &address.net, name, &len));
    assert_int_equal(len, strlen(name) + 1);
    conf_close(&end);
}

static const struct conf_test tests[] = {
    CONF_T("2.1", CONF_EARLY, open_gives_working_attributes, "open gives working attributes"),
    CONF_T("2.1", CONF_EARLY, every_historical_device_name_opens,
           "every historical device name opens"),
    CONF_T("2.1", CONF_EARLY, unknown_device_is_refused_with_the_list,
           "unknown device is refused with the list"),
    CONF_T("2.1", CONF_EARLY, open_without_vipd_says_what_to_do,
           "open without vipd says what to do"),
    CONF_T("2.1", CONF_EARLY, two_handles_of_one_nic_differ, "two handles of one nic differ"),
    CONF_T("2.1", CONF_EARLY, stale_and_garbage_handles_are_refused,
           "stale and garbage handles are refused"),
    CONF_T("2.1", CONF_EARLY, close_releases_what_is_left, "close releases what is left"),
    CONF_T("2.3", CONF_FUNCTIONAL, ptags_are_created_and_destroyed,
           "ptags are created and destroyed"),
    CONF_T("2.3", CONF_FUNCTIONAL, ptag_in_use_is_not_destroyed, "ptag in use is not destroyed"),
    CONF_T("2.3", CONF_EARLY, register_takes_any_range, "register takes any range"),
    CONF_T("2.3", CONF_EARLY, register_refuses_what_is_wrong, "register refuses what is wrong"),
    CONF_T("2.3", CONF_EARLY, deregister_wants_the_address_and_the_handle,
           "deregister wants the address and the handle"),
    CONF_T("2.3", CONF_FUNCTIONAL, mem_attributes_are_set_and_queried,
           "mem attributes are set and queried"),
    CONF_T("2.3", CONF_EARLY, extension_memory_can_be_registered,
           "extension memory can be registered"),
    CONF_T("2.9", CONF_EARLY, names_resolve_short_full_and_numeric,
           "names resolve short full and numeric"),
    CONF_T("2.9", CONF_EARLY, unknown_names_are_refused, "unknown names are refused"),
    CONF_T("2.9", CONF_EARLY, name_service_is_initialised_and_shut_down,
           "name service is initialised and shut down"),
    CONF_T("2.9", CONF_FUNCTIONAL, addresses_resolve_to_names, "addresses resolve to names"),
};

CONF_MAIN(tests)
