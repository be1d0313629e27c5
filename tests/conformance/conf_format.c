/*
 * Specification 3.4: the format rules of descriptors; 3.3: the fields of a descriptor that a post
 * and a completion write; 3.6: every completed status has DONE and the operation.
 */
#include "suite.h"

#include <unistd.h>

static const VIP_RELIABILITY_LEVEL levels[] = {
    VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY, VIP_SERVICE_RELIABLE_RECEPTION};

/* ---- faults in the descriptor, which its status shows -------------------------------------- */

enum fault {
    RESERVED_BITS,
    RESERVED_OP,
    RESERVED_FIELD,
    WRITE_RESERVED_ADDRESS_FIELD,
    READ_RESERVED_ADDRESS_FIELD,
    TOO_MANY_SEGMENTS,
    FAR_TOO_MANY_SEGMENTS,
    WRITE_WITHOUT_ADDRESS,
    READ_WITHOUT_ADDRESS,
    READ_WITH_IMMEDIATE,
    READ_UNRELIABLE,
    RDMA_WITH_TOO_MANY_SEGMENTS,
    BAD_HANDLE,
    BAD_ADDRESS,
    TOO_FAR,
    WRAPS,
    SECOND_SEGMENT_BAD,
    RDMA_SOURCE_BAD,
    READ_DESTINATION_BAD,
    LENGTH_TOO_SMALL,
    LENGTH_TOO_LARGE,
    SUM_OVERFLOWS,
    ABOVE_MAXIMUM,
    FAULTS
};

static VIP_DESCRIPTOR *make_fault(struct end *a, const struct end *b, enum fault fault,
                                  VIP_UINT32 *ret_status)
{
    VIP_DESCRIPTOR *desc = conf_desc(a, 0, 0, 64);

    *ret_status = fault < BAD_HANDLE         ? VIP_STATUS_FORMAT_ERROR
                  : fault < LENGTH_TOO_SMALL ? VIP_STATUS_PROTECTION_ERROR
                                             : VIP_STATUS_LENGTH_ERROR;
    switch (fault) {
    case RESERVED_BITS:
        desc->CS.Control = 0x0100;
        break;
    case RESERVED_OP:
        desc->CS.Control = VIP_CONTROL_OP_RESERVED;
        break;
    case RESERVED_FIELD:
        desc->CS.Reserved = 1;
        break;
    case WRITE_RESERVED_ADDRESS_FIELD:
        desc = conf_write(a, 0, 0, 64, b, 0);
        desc->DS[0].Remote.Reserved = 1;
        break;
    case READ_RESERVED_ADDRESS_FIELD:
        desc = conf_read(a, 0, 0, 64, b, 0);
        desc->DS[0].Remote.Reserved = 1;
        break;
    case TOO_MANY_SEGMENTS: /* 253 segments; the descriptor is in the buffer */
        desc = (VIP_DESCRIPTOR *)(void *)a->buffer;
        memset((void *)desc, 0, 8192);
        desc->CS.SegCount = 253;
        break;
    case FAR_TOO_MANY_SEGMENTS:
        desc->CS.SegCount = 65535;
        break;
    case WRITE_WITHOUT_ADDRESS:
        desc = conf_empty(a, 0);
        desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
        break;
    case READ_WITHOUT_ADDRESS:
        desc = conf_empty(a, 0);
        desc->CS.Control = VIP_CONTROL_OP_RDMAREAD;
        break;
    case READ_WITH_IMMEDIATE:
        desc = conf_read(a, 0, 0, 64, b, 0);
        desc->CS.Control |= VIP_CONTROL_IMMEDIATE;
        break;
    case READ_UNRELIABLE:
        desc = conf_read(a, 0, 0, 64, b, 0);
        break;
    case RDMA_WITH_TOO_MANY_SEGMENTS:
        desc = (VIP_DESCRIPTOR *)(void *)a->buffer;
        memset((void *)desc, 0, 8192);
        desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
        desc->CS.SegCount = 253;
        desc->DS[0].Remote.Data.Address = b->buffer;
        desc->DS[0].Remote.Handle = b->handle;
        break;
    case BAD_HANDLE:
        desc->DS[0].Local.Handle = a->handle + 4711;
        break;
    case BAD_ADDRESS:
        desc->DS[0].Local.Data.Address = NULL;
        break;
    case TOO_FAR:
        desc->DS[0].Local.Data.Address = a->buffer + conf_buffer_bytes - 63;
        break;
    case WRAPS:
        desc->DS[0].Local.Data.AddressBits = ~0ull - 10;
        break;
    case SECOND_SEGMENT_BAD:
        desc->CS.SegCount = 2;
        desc->CS.Length = 128;
        desc->DS[1].Local = desc->DS[0].Local;
        desc->DS[1].Local.Handle = 0;
        break;
    case RDMA_SOURCE_BAD:
        desc = conf_write(a, 0, 0, 64, b, 0);
        desc->DS[1].Local.Handle = 0;
        break;
    case READ_DESTINATION_BAD:
        desc = conf_read(a, 0, 0, 64, b, 0);
        desc->DS[1].Local.Handle = 0;
        break;
    case LENGTH_TOO_SMALL:
        desc->CS.Length = 63;
        break;
    case LENGTH_TOO_LARGE:
        desc->CS.Length = 65;
        break;
    case SUM_OVERFLOWS: /* two segments whose sum is 64 modulo 2^32 */
        desc->CS.SegCount = 2;
        desc->DS[1].Local = desc->DS[0].Local;
        desc->DS[1].Local.Length = 0u - 64u + 64u;
        desc->DS[0].Local.Length = 0x80000020u;
        desc->DS[1].Local.Length = 0x80000020u;
        break;
    case ABOVE_MAXIMUM:
        desc->CS.Length = desc->DS[0].Local.Length = (VIP_UINT32)a->attrs.MaxTransferSize + 1;
        break;
    case FAULTS:
        break;
    }
    return desc;
}

static void send_fault(void **state)
{
    enum fault fault = (enum fault)conf_arg(state);

    for (unsigned l = 0; l < 3; l++) {
        struct end a, b;
        VIP_DESCRIPTOR *desc;
        VIP_UINT32 errors;

        if (fault == READ_UNRELIABLE && l > 0)
            break;
        if (fault == READ_DESTINATION_BAD && l == 0)
            continue;
        conf_pair(&a, &b, levels[l]);
        desc = make_fault(&a, &b, fault, &errors);
        CONF_OK(VipPostSend(a.vi, desc, a.handle));
        assert_int_equal(conf_take(&a, false, desc), errors);
        if (l == 0)
            conf_alive(&a, &b);
        else
            conf_broken(&a);
        conf_close_pair(&a, &b);
    }
}

/* A faulty receive descriptor completes with its error when its message arrives. */
static void receive_fault(void **state)
{
    unsigned fault = (unsigned)conf_arg(state);
    struct end a, b;
    VIP_DESCRIPTOR *recv;
    VIP_UINT32 errors = VIP_STATUS_FORMAT_ERROR;

    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    recv = conf_desc(&b, 0, 0, 64);
    switch (fault) {
    case 0:
        recv->CS.Control = 0x8000;
        break;
    case 1:
        recv->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
        break;
    case 2:
        recv->CS.Control = VIP_CONTROL_OP_RDMAREAD;
        break;
    case 3:
        recv->CS.Control = VIP_CONTROL_OP_RESERVED;
        break;
    case 4:
        recv->CS.Reserved = 0xFFFFFFFFu;
        break;
    case 5:
        recv->CS.SegCount = 65535;
        break;
    case 6: /* 253 segments, one too many; all are in registered memory */
        recv = (VIP_DESCRIPTOR *)(void *)b.buffer;
        memset((void *)recv, 0, 8192);
        recv->CS.SegCount = 253;
        break;
    default:
        recv->DS[0].Local.Data.Address = b.buffer + conf_buffer_bytes - 63;
        errors = VIP_STATUS_PROTECTION_ERROR;
        break;
    }
    conf_post_recv(&b, recv);
    conf_post_send(&a, conf_desc(&a, 0, 0, 64));
    assert_int_equal(conf_take(&b, true, recv), errors);
    conf_broken(&b);
    conf_broken(&a);
    conf_close_pair(&a, &b);
}

static void length_of_a_receive_is_ignored(void **state)
{
    static const VIP_UINT32 lengths[] = {0, 1, 63, 65, 0xFFFFFFFFu};
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 5; i++) {
        VIP_DESCRIPTOR *recv = conf_desc(&b, i, 0, 64);

        recv->CS.Length = lengths[i];
        conf_post_recv(&b, recv);
        CONF_OK(conf_carry(&a, conf_desc(&a, 0, 0, 64), &b, recv, NULL));
        assert_int_equal(recv->CS.Length, 64);
    }
    conf_close_pair(&a, &b);
}

static void immediate_flag_of_a_receive_is_ignored(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *recv;

    conf_pair(&a, &b, conf_level(state));
    recv = conf_desc(&b, 0, 0, 64);
    recv->CS.Control = VIP_CONTROL_IMMEDIATE;
    recv->CS.ImmediateData = 0x77;
    conf_post_recv(&b, recv);
    CONF_OK(conf_carry(&a, conf_desc(&a, 0, 0, 64), &b, recv, NULL));
    assert_int_equal(recv->CS.Status & VIP_STATUS_IMMEDIATE, 0);
    conf_close_pair(&a, &b);
}

static void fence_flag_of_any_operation_is_no_fault(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    conf_pair(&a, &b, conf_level(state));
    desc = conf_desc(&a, 0, 0, 64);
    desc->CS.Control = VIP_CONTROL_QFENCE;
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    CONF_OK(conf_carry(&a, desc, &b, conf_at(&b, 0), NULL));
    desc = conf_write(&a, 1, 0, 64, &b, 0);
    desc->CS.Control |= VIP_CONTROL_QFENCE;
    conf_post_send(&a, desc);
    conf_sent(&a, desc);
    conf_close_pair(&a, &b);
}

/* ---- wrong address or region of the descriptor, which the callback reports ----------------- */

enum misplaced {
    MISALIGNED,
    NO_SUCH_REGION,
    OUTSIDE_THE_REGION,
    HALF_OUTSIDE,
    SEGMENTS_OUTSIDE,
    DEREGISTERED,
    OF_ANOTHER_NIC_HANDLE,
    OTHER_TAG,
};

static void misplaced_descriptor(void **state)
{
    enum misplaced fault = (enum misplaced)conf_arg(state);

    for (unsigned recv = 0; recv < 2; recv++) {
        struct end a, c;
        VIP_DESCRIPTOR *desc, *got, outside[2];
        VIP_MEM_HANDLE handle;
        VIP_VI_ATTRIBUTES attrs = {
            VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
        VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
        VIP_ERROR_DESCRIPTOR error;

        conf_open(&a, 'A');
        conf_open(&c, 'A');
        CONF_OK(VipCreatePtag(a.nic, &attrs.Ptag));
        CONF_OK(VipCreatePtag(a.nic, &mem.Ptag));
        CONF_OK(VipCreateVi(a.nic, &attrs, NULL, NULL, &a.vi));
        handle = a.handle;
        desc = conf_empty(&a, 0);
        switch (fault) {
        case MISALIGNED:
            desc = (VIP_DESCRIPTOR *)(void *)(a.memory + 8);
            break;
        case NO_SUCH_REGION:
            handle += 12345;
            break;
        case OUTSIDE_THE_REGION:
            desc = (VIP_DESCRIPTOR *)(((uintptr_t)outside + 63) & ~(uintptr_t)63);
            break;
        case HALF_OUTSIDE:
            CONF_OK(VipRegisterMem(a.nic, a.memory, 31, NULL, &handle));
            break;
        case SEGMENTS_OUTSIDE:
            desc->CS.SegCount = 3;
            CONF_OK(VipRegisterMem(a.nic, a.memory, 79, NULL, &handle));
            break;
        case DEREGISTERED:
            CONF_OK(VipRegisterMem(a.nic, a.memory, 4096, NULL, &handle));
            CONF_OK(VipDeregisterMem(a.nic, a.memory, handle));
            break;
        case OF_ANOTHER_NIC_HANDLE:
            CONF_OK(VipDeregisterMem(a.nic, a.memory, a.handle));
            CONF_OK(VipRegisterMem(c.nic, a.memory, 4096, NULL, &handle));
            break;
        case OTHER_TAG:
            CONF_OK(VipRegisterMem(a.nic, a.memory, 4096, &mem, &handle));
            break;
        }
        CONF_OK(recv ? VipPostRecv(a.vi, desc, handle) : VipPostSend(a.vi, desc, handle));
        error = conf_await_error(&a, VIP_ERROR_POST_DESC);
        assert_ptr_equal(error.NicHandle, a.nic);
        assert_ptr_equal(error.ViHandle, a.vi);
        assert_ptr_equal(error.DescriptorPtr, desc);
        assert_null(error.CQHandle);
        assert_int_equal(error.ResourceCode, VIP_RESOURCE_DESCRIPTOR);
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR,
                     recv ? VipRecvDone(a.vi, &got) : VipSendDone(a.vi, &got));
        assert_null(got); /* the post queued no descriptor */
        CONF_OK(VipDestroyVi(a.vi));
        assert_int_equal(conf_error_count(&a), 1);
        conf_close(&c);
        conf_close(&a);
    }
}

static void descriptor_at_the_very_end_of_its_region(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *recv;
    VIP_MEM_HANDLE handle;

    conf_pair(&a, &b, conf_level(state));
    recv = conf_desc(&b, 0, 0, 64);
    CONF_OK(VipRegisterMem(b.nic, b.memory, 48, NULL, &handle)); /* control, one data segment */
    CONF_OK(VipPostRecv(b.vi, recv, handle));
    CONF_OK(conf_carry(&a, conf_desc(&a, 0, 0, 64), &b, recv, NULL));
    assert_int_equal(conf_error_count(&b), 0);
    conf_close_pair(&a, &b);
}

static void changing_next_of_a_posted_descriptor(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *recv;
    VIP_ERROR_DESCRIPTOR error;

    conf_pair(&a, &b, conf_level(state));
    recv = conf_desc(&b, 0, 0, 64);
    conf_post_recv(&b, recv);
    recv->CS.Next.Address = b.memory;
    CONF_OK(conf_carry(&a, conf_desc(&a, 0, 0, 64), &b, recv, NULL));
    error = conf_await_error(&b, VIP_ERROR_POST_DESC);
    assert_ptr_equal(error.ViHandle, b.vi);
    assert_ptr_equal(error.DescriptorPtr, recv);
    assert_int_equal(error.ResourceCode, VIP_RESOURCE_DESCRIPTOR);
    assert_int_equal(error.OpCode, VIP_CONTROL_OP_SENDRECV);
    conf_close_pair(&a, &b);
}

static void errors_name_the_operation(void **state)
{
    struct end a, b;
    VIP_ERROR_DESCRIPTOR error;
    VIP_DESCRIPTOR *desc;

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned i = 0; i < 3; i++) {
        desc = i == VIP_CONTROL_OP_RDMAWRITE  ? conf_write(&a, 0, 0, 64, &b, 0)
               : i == VIP_CONTROL_OP_RDMAREAD ? conf_read(&a, 0, 0, 64, &b, 0)
                                              : conf_desc(&a, 0, 0, 64);
        if (i == VIP_CONTROL_OP_SENDRECV)
            conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
        conf_forget_errors(&a);
        conf_post_send(&a, desc);
        desc->CS.NextHandle = 1;
        conf_sent(&a, desc);
        error = conf_await_error(&a, VIP_ERROR_POST_DESC);
        assert_ptr_equal(error.DescriptorPtr, desc);
        assert_int_equal(error.OpCode, i);
    }
    conf_close_pair(&a, &b);
}

static void overrun(void **state)
{
    bool recv = conf_arg(state) != 0;
    struct end a;
    VIP_ERROR_DESCRIPTOR error;
    VIP_DESCRIPTOR *got;
    VIP_ULONG max, n = 0;

    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    max = a.attrs.MaxDescriptorsPerQueue;
    memset(a.buffer, 0, (max + 1) * 64);
    for (VIP_ULONG i = 0; i <= max; i++) {
        VIP_DESCRIPTOR *desc = (VIP_DESCRIPTOR *)(void *)(a.buffer + i * 64);

        if (i == max)
            assert_int_equal(conf_error_count(&a), 0);
        CONF_OK(recv ? VipPostRecv(a.vi, desc, a.handle) : VipPostSend(a.vi, desc, a.handle));
    }
    error = conf_await_error(&a, VIP_ERROR_VI_OVERRUN);
    assert_int_equal(error.ResourceCode, VIP_RESOURCE_VI);
    assert_ptr_equal(error.ViHandle, a.vi);
    CONF_OK(VipDisconnect(a.vi));
    while ((recv ? VipRecvWait(a.vi, CONF_LIMIT_MS, &got)
                 : VipSendWait(a.vi, CONF_LIMIT_MS, &got)) == VIP_DESCRIPTOR_ERROR &&
           got != NULL)
        n++;
    assert_int_equal(n, max); /* the descriptor beyond the limit was dropped */
    CONF_OK(VipDestroyVi(a.vi));
    conf_close(&a);
}

/* ---- fields that a post and a completion write --------------------------------------------- */

static void post_resets_status_and_next(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    conf_pair(&a, &b, conf_level(state));
    desc = conf_desc(&b, 0, 0, 64);
    desc->CS.Status = 0xFFFFFFFFu;
    desc->CS.Next.AddressBits = ~0ull;
    conf_post_recv(&b, desc);
    assert_int_equal(*(volatile VIP_UINT32 *)&desc->CS.Status & VIP_STATUS_DONE, 0);
    assert_int_not_equal(desc->CS.Next.AddressBits, ~0ull);
    for (unsigned n = 0; n < 3; n++) { /* post it again; only Length is set anew */
        CONF_OK(conf_carry(&a, conf_desc(&a, 0, 0, n), &b, desc, NULL));
        assert_int_equal(desc->CS.Length, n);
        desc->CS.Length = 64;
        conf_post_recv(&b, desc);
    }
    conf_close_pair(&a, &b);
}

static void completed_send_keeps_length_and_immediate_data(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *send;

    conf_pair(&a, &b, conf_level(state));
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    send = conf_desc(&a, 0, 0, 50);
    send->CS.Control = VIP_CONTROL_IMMEDIATE;
    send->CS.ImmediateData = 0x01020304;
    CONF_OK(conf_carry(&a, send, &b, conf_at(&b, 0), NULL));
    assert_int_equal(send->CS.Length, 50);
    assert_int_equal(send->CS.ImmediateData, 0x01020304);
    assert_int_equal(send->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_SEND);
    assert_int_equal(conf_at(&b, 0)->CS.Status,
                     VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE | VIP_STATUS_IMMEDIATE);
    assert_int_equal(conf_at(&b, 0)->CS.ImmediateData, 0x01020304);
    conf_close_pair(&a, &b);
}

/* Check the whole status word of each operation that completes without an error. */
static void status_of_each_operation(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    conf_pair(&a, &b, conf_level(state));
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    CONF_OK(conf_carry(&a, conf_desc(&a, 0, 0, 50), &b, conf_at(&b, 0), NULL));
    assert_int_equal(conf_at(&a, 0)->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_SEND);
    assert_int_equal(conf_at(&b, 0)->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE);
    conf_post_recv(&b, conf_empty(&b, 1));
    desc = conf_write(&a, 1, 0, 64, &b, 0);
    desc->CS.Control |= VIP_CONTROL_IMMEDIATE;
    CONF_OK(conf_carry(&a, desc, &b, conf_at(&b, 1), NULL));
    assert_int_equal(desc->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_WRITE);
    assert_int_equal(conf_at(&b, 1)->CS.Status,
                     VIP_STATUS_DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE);
    if (conf_level(state) != VIP_SERVICE_UNRELIABLE) {
        desc = conf_read(&a, 2, 0, 64, &b, 0);
        conf_post_send(&a, desc);
        conf_sent(&a, desc);
        assert_int_equal(desc->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RDMA_READ);
    }
    conf_close_pair(&a, &b);
}

#define SEND_FAULT(suffix, fault, sentence)                                                        \
    CONF_DN("3.4", CONF_FUNCTIONAL, send_fault, suffix, fault, sentence)
#define RECEIVE_FAULT(suffix, fault, sentence)                                                     \
    CONF_DN("3.4", CONF_FUNCTIONAL, receive_fault, suffix, fault, sentence)
#define MISPLACED(suffix, fault, sentence)                                                         \
    CONF_N("3.4", CONF_FUNCTIONAL, misplaced_descriptor, suffix, fault, sentence)

static const struct conf_test tests[] = {
    MISPLACED("misaligned", MISALIGNED, "not on a 64-byte boundary: VIP_ERROR_POST_DESC"),
    MISPLACED("no_region", NO_SUCH_REGION, "no region has the handle: VIP_ERROR_POST_DESC"),
    MISPLACED("outside", OUTSIDE_THE_REGION, "not in the region: VIP_ERROR_POST_DESC"),
    MISPLACED("half_outside", HALF_OUTSIDE, "partly outside: VIP_ERROR_POST_DESC"),
    MISPLACED("segments_outside", SEGMENTS_OUTSIDE, "its segments outside: VIP_ERROR_POST_DESC"),
    MISPLACED("deregistered", DEREGISTERED, "its region was deregistered: VIP_ERROR_POST_DESC"),
    MISPLACED("of_another_nic_handle", OF_ANOTHER_NIC_HANDLE,
              "its region is of another NIC handle: VIP_ERROR_POST_DESC"),
    MISPLACED("other_tag", OTHER_TAG, "its region has not the VI's ptag: VIP_ERROR_POST_DESC"),
    CONF_EACH("3.4", CONF_EARLY, descriptor_at_the_very_end_of_its_region,
              "a descriptor that just fits its region is good"),
    CONF_EACH("3.4", CONF_FUNCTIONAL, changing_next_of_a_posted_descriptor,
              "Next changed after posting: VIP_ERROR_POST_DESC, asynchronous"),
    CONF_DT("1.9", CONF_FUNCTIONAL, errors_name_the_operation,
            "OpCode of VIP_ERROR_POST_DESC is the descriptor's operation"),
    CONF_N("3.4", CONF_FUNCTIONAL, overrun, "send", 0,
           "more sends posted than MaxDescriptorsPerQueue: VIP_ERROR_VI_OVERRUN"),
    CONF_N("3.4", CONF_FUNCTIONAL, overrun, "recv", 1,
           "more receives posted than MaxDescriptorsPerQueue: VIP_ERROR_VI_OVERRUN"),
    SEND_FAULT("reserved_bits", RESERVED_BITS, "reserved Control bits: FORMAT_ERROR"),
    SEND_FAULT("reserved_op", RESERVED_OP, "the reserved operation: FORMAT_ERROR"),
    SEND_FAULT("reserved_field", RESERVED_FIELD, "Reserved is not 0: FORMAT_ERROR"),
    SEND_FAULT("write_reserved_address_field", WRITE_RESERVED_ADDRESS_FIELD,
               "Reserved of the address segment of an RDMA Write is not 0: FORMAT_ERROR"),
    SEND_FAULT("read_reserved_address_field", READ_RESERVED_ADDRESS_FIELD,
               "Reserved of the address segment of an RDMA Read is not 0: FORMAT_ERROR"),
    SEND_FAULT("253_segments", TOO_MANY_SEGMENTS, "SegCount above the limit: FORMAT_ERROR"),
    SEND_FAULT("65535_segments", FAR_TOO_MANY_SEGMENTS, "SegCount impossible: FORMAT_ERROR"),
    SEND_FAULT("write_253_segments", RDMA_WITH_TOO_MANY_SEGMENTS,
               "SegCount of an RDMA Write above the limit: FORMAT_ERROR"),
    SEND_FAULT("write_without_address", WRITE_WITHOUT_ADDRESS,
               "RDMA Write without address segment: FORMAT_ERROR"),
    SEND_FAULT("read_without_address", READ_WITHOUT_ADDRESS,
               "RDMA Read without address segment: FORMAT_ERROR"),
    SEND_FAULT("read_with_immediate", READ_WITH_IMMEDIATE,
               "immediate flag together with RDMA Read: FORMAT_ERROR"),
    SEND_FAULT("read_unreliable", READ_UNRELIABLE,
               "RDMA Read at a level that has none: FORMAT_ERROR"),
    SEND_FAULT("bad_handle", BAD_HANDLE, "segment with an unknown handle: PROTECTION_ERROR"),
    SEND_FAULT("bad_address", BAD_ADDRESS, "segment with an unknown address: PROTECTION_ERROR"),
    SEND_FAULT("too_far", TOO_FAR, "segment a byte too far: PROTECTION_ERROR"),
    SEND_FAULT("wraps", WRAPS, "segment that wraps around: PROTECTION_ERROR"),
    SEND_FAULT("second_segment", SECOND_SEGMENT_BAD, "any segment bad: PROTECTION_ERROR"),
    SEND_FAULT("write_source", RDMA_SOURCE_BAD, "source of an RDMA Write: PROTECTION_ERROR"),
    SEND_FAULT("read_destination", READ_DESTINATION_BAD,
               "destination of an RDMA Read: PROTECTION_ERROR"),
    SEND_FAULT("length_too_small", LENGTH_TOO_SMALL, "Length below the sum: LENGTH_ERROR"),
    SEND_FAULT("length_too_large", LENGTH_TOO_LARGE, "Length above the sum: LENGTH_ERROR"),
    SEND_FAULT("sum_overflows", SUM_OVERFLOWS, "a sum beyond 32 bits: LENGTH_ERROR"),
    SEND_FAULT("above_maximum", ABOVE_MAXIMUM, "sum above MaxTransferSize: LENGTH_ERROR"),
    RECEIVE_FAULT("reserved_bits", 0, "receive with reserved Control bits: FORMAT_ERROR"),
    RECEIVE_FAULT("rdma_write", 1, "RDMA Write on the receive queue: FORMAT_ERROR"),
    RECEIVE_FAULT("rdma_read", 2, "RDMA Read on the receive queue: FORMAT_ERROR"),
    RECEIVE_FAULT("reserved_op", 3, "receive with the reserved operation: FORMAT_ERROR"),
    RECEIVE_FAULT("reserved_field", 4, "receive whose Reserved is not 0: FORMAT_ERROR"),
    RECEIVE_FAULT("65535_segments", 5, "receive whose SegCount is impossible: FORMAT_ERROR"),
    RECEIVE_FAULT("253_segments", 6, "receive with SegCount above the limit: FORMAT_ERROR"),
    RECEIVE_FAULT("too_far", 7,
                  "a message that reaches a byte beyond a receive's region: PROTECTION_ERROR"),
    CONF_DEACH("3.4", CONF_EARLY, length_of_a_receive_is_ignored,
               "the room of a receive is that of its segments, whatever Length says"),
    CONF_EACH("3.3", CONF_EARLY, immediate_flag_of_a_receive_is_ignored,
              "on the receive queue the Immediate flag is ignored"),
    CONF_DEACH("3.7", CONF_FULL, fence_flag_of_any_operation_is_no_fault,
               "the fence flag is not an error without reads"),
    CONF_EACH("3.3", CONF_EARLY, post_resets_status_and_next,
              "a post resets Status and overwrites Next; completed descriptors are posted again"),
    CONF_EACH("3.3", CONF_EARLY, completed_send_keeps_length_and_immediate_data,
              "Length and ImmediateData of a completed send are left as they were"),
    CONF_EACH("3.6", CONF_EARLY, status_of_each_operation,
              "every good completion has DONE, its operation, and nothing else"),
};

CONF_MAIN(tests)
