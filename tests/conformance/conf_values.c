/*
 * Section 1: the value of every name and the layout of every structure in compiled programs. The
 * test needs no vipd. It is in this suite because each table row is a rule of section 1.
 */
#include "suite.h"

/* Each pair has the header's value and the specification's value of one name. */
static const unsigned long values[][2] = {
    {VIP_SUCCESS, 0},
    {VIP_NOT_DONE, 1},
    {VIP_INVALID_PARAMETER, 2},
    {VIP_ERROR_RESOURCE, 3},
    {VIP_TIMEOUT, 4},
    {VIP_REJECT, 5},
    {VIP_INVALID_RELIABILITY_LEVEL, 6},
    {VIP_INVALID_MTU, 7},
    {VIP_INVALID_QOS, 8},
    {VIP_INVALID_PTAG, 9},
    {VIP_INVALID_RDMAREAD, 10},
    {VIP_DESCRIPTOR_ERROR, 11},
    {VIP_INVALID_STATE, 12},
    {VIP_ERROR_NAMESERVICE, 13},
    {VIP_NO_MATCH, 14},
    {VIP_NOT_REACHABLE, 15},
    {VIP_ERROR_NOT_SUPPORTED, 16},
    {VIP_STATE_IDLE, 0},
    {VIP_STATE_CONNECTED, 1},
    {VIP_STATE_CONNECT_PENDING, 2},
    {VIP_STATE_ERROR, 3},
    {VIP_RESOURCE_NIC, 0},
    {VIP_RESOURCE_VI, 1},
    {VIP_RESOURCE_CQ, 2},
    {VIP_RESOURCE_DESCRIPTOR, 3},
    {VIP_ERROR_POST_DESC, 0},
    {VIP_ERROR_CONN_LOST, 1},
    {VIP_ERROR_RECVQ_EMPTY, 2},
    {VIP_ERROR_VI_OVERRUN, 3},
    {VIP_ERROR_RDMAW_PROT, 4},
    {VIP_ERROR_RDMAW_DATA, 5},
    {VIP_ERROR_RDMAW_ABORT, 6},
    {VIP_ERROR_RDMAR_PROT, 7},
    {VIP_ERROR_COMP_PROT, 8},
    {VIP_ERROR_RDMA_TRANSPORT, 9},
    {VIP_ERROR_CATASTROPHIC, 10},
    {VIP_SERVICE_UNRELIABLE, 1},
    {VIP_SERVICE_RELIABLE_DELIVERY, 2},
    {VIP_SERVICE_RELIABLE_RECEPTION, 4},
    {VIP_CONTROL_OP_SENDRECV, 0},
    {VIP_CONTROL_OP_RDMAWRITE, 1},
    {VIP_CONTROL_OP_RDMAREAD, 2},
    {VIP_CONTROL_OP_RESERVED, 3},
    {VIP_CONTROL_OP_MASK, 3},
    {VIP_CONTROL_IMMEDIATE, 4},
    {VIP_CONTROL_QFENCE, 8},
    {VIP_CONTROL_RESERVED, 0xfff0},
    {VIP_STATUS_DONE, 1},
    {VIP_STATUS_FORMAT_ERROR, 2},
    {VIP_STATUS_PROTECTION_ERROR, 4},
    {VIP_STATUS_LENGTH_ERROR, 8},
    {VIP_STATUS_PARTIAL_ERROR, 16},
    {VIP_STATUS_DESC_FLUSHED_ERROR, 0x20},
    {VIP_STATUS_TRANSPORT_ERROR, 0x40},
    {VIP_STATUS_RDMA_PROT_ERROR, 0x80},
    {VIP_STATUS_REMOTE_DESC_ERROR, 0x100},
    {VIP_STATUS_ERROR_MASK, 0x1fe},
    {VIP_STATUS_OP_SEND, 0},
    {VIP_STATUS_OP_RECEIVE, 0x10000},
    {VIP_STATUS_OP_RDMA_WRITE, 0x20000},
    {VIP_STATUS_OP_REMOTE_RDMA_WRITE, 0x30000},
    {VIP_STATUS_OP_RDMA_READ, 0x40000},
    {VIP_STATUS_OP_MASK, 0x70000},
    {VIP_STATUS_IMMEDIATE, 0x80000},
    {VIP_STATUS_RESERVED, 0xfff0fe00},
};

static void value(void **state)
{
    assert_int_equal(values[conf_arg(state)][0], values[conf_arg(state)][1]);
}

static void layout_of_the_descriptor(void **state)
{
    (void)state;
    assert_int_equal(sizeof(VIP_DESCRIPTOR), 64);
    assert_int_equal(sizeof(VIP_CONTROL_SEGMENT), 32);
    assert_int_equal(sizeof(VIP_DATA_SEGMENT), 16);
    assert_int_equal(sizeof(VIP_ADDRESS_SEGMENT), 16);
    assert_int_equal(offsetof(VIP_CONTROL_SEGMENT, NextHandle), 8);
    assert_int_equal(offsetof(VIP_CONTROL_SEGMENT, SegCount), 12);
    assert_int_equal(offsetof(VIP_CONTROL_SEGMENT, Control), 14);
    assert_int_equal(offsetof(VIP_CONTROL_SEGMENT, Reserved), 16);
    assert_int_equal(offsetof(VIP_CONTROL_SEGMENT, ImmediateData), 20);
    assert_int_equal(offsetof(VIP_CONTROL_SEGMENT, Length), 24);
    assert_int_equal(offsetof(VIP_CONTROL_SEGMENT, Status), 28);
    assert_int_equal(offsetof(VIP_DATA_SEGMENT, Handle), 8);
    assert_int_equal(offsetof(VIP_DATA_SEGMENT, Length), 12);
    assert_int_equal(VIP_DESCRIPTOR_ALIGNMENT, 64);
}

static void both_spellings_of_the_descriptor(void **state)
{
    VIP_DESCRIPTOR desc;

    (void)state;
    assert_ptr_equal(&desc.CS, &desc.Control);
    assert_ptr_equal((void *)&desc.DS[1].Local, (void *)&desc.Data[1]);
}

static void layout_of_the_structures(void **state)
{
    (void)state;
    assert_int_equal(offsetof(VIP_NET_ADDRESS, DiscriminatorLen), 2);
    assert_int_equal(offsetof(VIP_NET_ADDRESS, HostAddress), 4);
    assert_int_equal(sizeof(VIP_NIC_ATTRIBUTES), sizeof(void *) == 8 ? 200 : 136);
    assert_int_equal(sizeof(VIP_VI_ATTRIBUTES), sizeof(void *) == 8 ? 40 : 24);
    assert_int_equal(sizeof(VIP_MEM_ATTRIBUTES), sizeof(void *) == 8 ? 16 : 12);
    assert_int_equal(sizeof(VIP_ERROR_DESCRIPTOR), sizeof(void *) == 8 ? 48 : 28);
    assert_int_equal(sizeof(VIP_MEM_HANDLE), 4);
    assert_int_equal(sizeof(VIP_RELIABILITY_LEVEL), 2);
    assert_int_equal(sizeof(VIP_ULONG), sizeof(unsigned long));
}

static void names_for_preprocessor_tests(void **state)
{
    (void)state;
#if !defined(VIP_NOT_REACHABLE) || !defined(VIP_ERROR_NOT_SUPPORTED)
    fail_msg("a consumer would define its own value");
#endif
}

static const struct conf_test tests[] = {
    CONF_N("1.8", CONF_EARLY, value, "VIP_SUCCESS", 0, "VIP_SUCCESS is 0"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_NOT_DONE", 1, "VIP_NOT_DONE is 1"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_INVALID_PARAMETER", 2, "VIP_INVALID_PARAMETER is 2"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_ERROR_RESOURCE", 3, "VIP_ERROR_RESOURCE is 3"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_TIMEOUT", 4, "VIP_TIMEOUT is 4"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_REJECT", 5, "VIP_REJECT is 5"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_INVALID_RELIABILITY_LEVEL", 6,
           "VIP_INVALID_RELIABILITY_LEVEL is 6"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_INVALID_MTU", 7, "VIP_INVALID_MTU is 7"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_INVALID_QOS", 8, "VIP_INVALID_QOS is 8"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_INVALID_PTAG", 9, "VIP_INVALID_PTAG is 9"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_INVALID_RDMAREAD", 10, "VIP_INVALID_RDMAREAD is 10"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_DESCRIPTOR_ERROR", 11, "VIP_DESCRIPTOR_ERROR is 11"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_INVALID_STATE", 12, "VIP_INVALID_STATE is 12"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_ERROR_NAMESERVICE", 13, "VIP_ERROR_NAMESERVICE is 13"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_NO_MATCH", 14, "VIP_NO_MATCH is 14"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_NOT_REACHABLE", 15, "VIP_NOT_REACHABLE is 15"),
    CONF_N("1.8", CONF_EARLY, value, "VIP_ERROR_NOT_SUPPORTED", 16,
           "VIP_ERROR_NOT_SUPPORTED is 16"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_STATE_IDLE", 17, "VIP_STATE_IDLE is 0"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_STATE_CONNECTED", 18, "VIP_STATE_CONNECTED is 1"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_STATE_CONNECT_PENDING", 19,
           "VIP_STATE_CONNECT_PENDING is 2"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_STATE_ERROR", 20, "VIP_STATE_ERROR is 3"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_RESOURCE_NIC", 21, "VIP_RESOURCE_NIC is 0"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_RESOURCE_VI", 22, "VIP_RESOURCE_VI is 1"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_RESOURCE_CQ", 23, "VIP_RESOURCE_CQ is 2"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_RESOURCE_DESCRIPTOR", 24, "VIP_RESOURCE_DESCRIPTOR is 3"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_POST_DESC", 25, "VIP_ERROR_POST_DESC is 0"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_CONN_LOST", 26, "VIP_ERROR_CONN_LOST is 1"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_RECVQ_EMPTY", 27, "VIP_ERROR_RECVQ_EMPTY is 2"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_VI_OVERRUN", 28, "VIP_ERROR_VI_OVERRUN is 3"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_RDMAW_PROT", 29, "VIP_ERROR_RDMAW_PROT is 4"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_RDMAW_DATA", 30, "VIP_ERROR_RDMAW_DATA is 5"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_RDMAW_ABORT", 31, "VIP_ERROR_RDMAW_ABORT is 6"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_RDMAR_PROT", 32, "VIP_ERROR_RDMAR_PROT is 7"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_COMP_PROT", 33, "VIP_ERROR_COMP_PROT is 8"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_RDMA_TRANSPORT", 34,
           "VIP_ERROR_RDMA_TRANSPORT is 9"),
    CONF_N("1.9", CONF_EARLY, value, "VIP_ERROR_CATASTROPHIC", 35, "VIP_ERROR_CATASTROPHIC is 10"),
    CONF_N("1.4", CONF_EARLY, value, "VIP_SERVICE_UNRELIABLE", 36, "VIP_SERVICE_UNRELIABLE is 1"),
    CONF_N("1.4", CONF_EARLY, value, "VIP_SERVICE_RELIABLE_DELIVERY", 37,
           "VIP_SERVICE_RELIABLE_DELIVERY is 2"),
    CONF_N("1.4", CONF_EARLY, value, "VIP_SERVICE_RELIABLE_RECEPTION", 38,
           "VIP_SERVICE_RELIABLE_RECEPTION is 4"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_CONTROL_OP_SENDRECV", 39, "VIP_CONTROL_OP_SENDRECV is 0"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_CONTROL_OP_RDMAWRITE", 40,
           "VIP_CONTROL_OP_RDMAWRITE is 1"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_CONTROL_OP_RDMAREAD", 41, "VIP_CONTROL_OP_RDMAREAD is 2"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_CONTROL_OP_RESERVED", 42, "VIP_CONTROL_OP_RESERVED is 3"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_CONTROL_OP_MASK", 43, "VIP_CONTROL_OP_MASK is 3"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_CONTROL_IMMEDIATE", 44, "VIP_CONTROL_IMMEDIATE is 4"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_CONTROL_QFENCE", 45, "VIP_CONTROL_QFENCE is 8"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_CONTROL_RESERVED", 46, "VIP_CONTROL_RESERVED is 0xFFF0"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_DONE", 47, "VIP_STATUS_DONE is 1"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_FORMAT_ERROR", 48, "VIP_STATUS_FORMAT_ERROR is 2"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_PROTECTION_ERROR", 49,
           "VIP_STATUS_PROTECTION_ERROR is 4"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_LENGTH_ERROR", 50, "VIP_STATUS_LENGTH_ERROR is 8"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_PARTIAL_ERROR", 51,
           "VIP_STATUS_PARTIAL_ERROR is 16"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_DESC_FLUSHED_ERROR", 52,
           "VIP_STATUS_DESC_FLUSHED_ERROR is 0x20"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_TRANSPORT_ERROR", 53,
           "VIP_STATUS_TRANSPORT_ERROR is 0x40"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_RDMA_PROT_ERROR", 54,
           "VIP_STATUS_RDMA_PROT_ERROR is 0x80"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_REMOTE_DESC_ERROR", 55,
           "VIP_STATUS_REMOTE_DESC_ERROR is 0x100"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_ERROR_MASK", 56, "VIP_STATUS_ERROR_MASK is 0x1FE"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_OP_SEND", 57, "VIP_STATUS_OP_SEND is 0"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_OP_RECEIVE", 58,
           "VIP_STATUS_OP_RECEIVE is 0x10000"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_OP_RDMA_WRITE", 59,
           "VIP_STATUS_OP_RDMA_WRITE is 0x20000"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_OP_REMOTE_RDMA_WRITE", 60,
           "VIP_STATUS_OP_REMOTE_RDMA_WRITE is 0x30000"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_OP_RDMA_READ", 61,
           "VIP_STATUS_OP_RDMA_READ is 0x40000"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_OP_MASK", 62, "VIP_STATUS_OP_MASK is 0x70000"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_IMMEDIATE", 63, "VIP_STATUS_IMMEDIATE is 0x80000"),
    CONF_N("1.7", CONF_EARLY, value, "VIP_STATUS_RESERVED", 64,
           "VIP_STATUS_RESERVED is 0xFFF0FE00"),
    CONF_T("1.7", CONF_EARLY, layout_of_the_descriptor, "sizes and offsets of the descriptor"),
    CONF_T("1.7", CONF_EARLY, both_spellings_of_the_descriptor, "CS/DS and Control/Data are one"),
    CONF_T("1.5", CONF_EARLY, layout_of_the_structures, "sizes of the structures"),
    CONF_T("1.8", CONF_EARLY, names_for_preprocessor_tests,
           "VIP_NOT_REACHABLE, VIP_ERROR_NOT_SUPPORTED can be tested with #ifndef"),
};

CONF_MAIN(tests)
