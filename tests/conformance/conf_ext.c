/*
 * Extensions (vipl_ext.h): 64-bit immediate data and RDMA Write with message.
 */
#include "suite.h"

const size_t conf_buffer_bytes = 4194304;

#define IMM 0xFEDCBA9876543210ull

/* carry() sends an unreliable message again after LOST_MS ms, at most REPEATS times. */
#define LOST_MS 200
#define REPEATS 60

static char message[VIPX_MESSAGE_MAX + 1];

/* Arguments of VipxPostSendImm64 or VipxPostWriteMessage. */
struct what {
    VIP_DESCRIPTOR *send;
    VIP_ULONG bytes; /* length of the message; 0: 64-bit immediate data */
};

static void post(struct end *a, const struct what *what)
{
    if (what->bytes > 0)
        CONF_OK(VipxPostWriteMessage(a->vi, what->send, a->handle, message, what->bytes));
    else
        CONF_OK(VipxPostSendImm64(a->vi, what->send, a->handle, IMM));
}

/* Post `what` and wait until `recv` completes. If the network may lose the message, post again. */
static VIP_RETURN carry(struct end *a, const struct what *what, struct end *b, VIP_DESCRIPTOR *recv)
{
    bool may_be_lost = conf_lossy() && a->level == VIP_SERVICE_UNRELIABLE;
    VIP_DESCRIPTOR *got;
    VIP_RETURN rc;

    for (unsigned n = 0; n < REPEATS; n++) {
        post(a, what);
        rc = VipRecvWait(b->vi, may_be_lost ? LOST_MS : CONF_LIMIT_MS, &got);
        if (rc != VIP_TIMEOUT)
            assert_ptr_equal(got, recv);
        if (rc != VIP_DESCRIPTOR_ERROR)
            conf_sent(a, what->send);
        if (rc != VIP_TIMEOUT || !may_be_lost)
            return rc;
    }
    return VIP_TIMEOUT;
}

static void fill_message(unsigned seed)
{
    for (unsigned i = 0; i < sizeof(message); i++)
        message[i] = (char)(i * 7 + seed);
}

static void all_64_bits_arrive(void **state)
{
    struct end a, b;
    struct what what;
    VIP_DESCRIPTOR *recv;
    VIP_UINT64 imm = 0;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned write = 0; write < 2; write++) {
        what.send = write ? conf_write(&a, 0, 0, 100, &b, 1000) : conf_desc(&a, 0, 0, 100);
        what.send->CS.ImmediateData = 5;
        what.bytes = 0;
        recv = conf_desc(&b, 0, 0, 200);
        conf_fill(a.buffer, 100, 3 + write);
        conf_post_recv(&b, recv);
        CONF_OK(carry(&a, &what, &b, recv));
        assert_true((recv->CS.Status & VIP_STATUS_IMMEDIATE) != 0);
        assert_int_equal(recv->CS.ImmediateData, (VIP_UINT32)IMM);
        CONF_OK(VipxGetImmediate64(recv, &imm));
        assert_true(imm == IMM);
        assert_int_equal(recv->CS.Length, 100);
        conf_same(b.buffer + (write ? 1000 : 0), 100, 3 + write);
        /* The descriptor's own fields do not change. */
        assert_int_equal(what.send->CS.ImmediateData, 5);
        assert_int_equal(what.send->CS.Control & VIP_CONTROL_IMMEDIATE, 0);
    }
    conf_alive(&a, &b);
    conf_close_pair(&a, &b);
}

static void the_32_bit_field_keeps_its_meaning(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *send, *recv;
    VIP_UINT64 imm = 99;

    conf_pair(&a, &b, conf_level(state));
    send = conf_desc(&a, 0, 0, 10);
    recv = conf_desc(&b, 0, 0, 10);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipxGetImmediate64(recv, &imm));
    conf_post_recv(&b, recv);
    CONF_OK(conf_carry(&a, send, &b, recv, NULL));
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipxGetImmediate64(recv, &imm));
    assert_int_equal(imm, 99);
    send->CS.Control |= VIP_CONTROL_IMMEDIATE;
    send->CS.ImmediateData = 0x89ABCDEF;
    conf_post_recv(&b, recv);
    CONF_OK(conf_carry(&a, send, &b, recv, NULL));
    assert_int_equal(recv->CS.ImmediateData, 0x89ABCDEF);
    assert_true(recv->CS.Next.AddressBits == 0);
    CONF_OK(VipxGetImmediate64(recv, &imm));
    assert_true(imm == 0x89ABCDEF);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxGetImmediate64(NULL, &imm));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxGetImmediate64(recv, NULL));
    conf_close_pair(&a, &b);
}

static void data_first_then_the_message(void **state)
{
    static const size_t sizes[] = {0, 1, 1000, 1400, 9000, 60000, 1000000, 4194304};
    static const VIP_ULONG lens[] = {1, 54, 55, 100, 200, 255, 256, 256};
    struct end a, b;
    struct what what;
    VIP_DESCRIPTOR *recv;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        /* At the unreliable level use only small sizes, because a longer write may lose packets. */
        if (a.level == VIP_SERVICE_UNRELIABLE && sizes[i] > (conf_lossy() ? 9000 : 60000))
            continue;
        /* The message goes to the end of b's buffer, after the bytes of the RDMA Write. */
        fill_message(i);
        conf_fill(a.buffer, sizes[i], i + 1);
        what.send = conf_write(&a, 0, 0, sizes[i], &b, 0);
        what.bytes = lens[i];
        recv = conf_desc(&b, 0, conf_buffer_bytes - 300, 300);
        memset(b.buffer, 0, conf_buffer_bytes);
        conf_post_recv(&b, recv);
        CONF_OK(carry(&a, &what, &b, recv));
        assert_int_equal(recv->CS.Status & ~(VIP_UINT32)VIP_STATUS_OP_MASK, VIP_STATUS_DONE);
        assert_int_equal(recv->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_REMOTE_RDMA_WRITE);
        assert_int_equal(recv->CS.Length, lens[i]);
        assert_memory_equal(b.buffer + conf_buffer_bytes - 300, message, lens[i]);
        conf_same(b.buffer, sizes[i] < conf_buffer_bytes - 300 ? sizes[i] : conf_buffer_bytes - 300,
                  i + 1);
        assert_int_equal(what.send->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_RDMA_WRITE);
        assert_int_equal(what.send->CS.Length, sizes[i]);
    }
    conf_alive(&a, &b);
    conf_close_pair(&a, &b);
}

static void the_message_is_free_at_return(void **state)
{
    enum { N = 60 };
    struct end a, b;

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned i = 0; i < N; i++)
        conf_post_recv(&b, conf_desc(&b, i, i * 256, 256));
    conf_fill(a.buffer, 20000, 8);
    for (unsigned i = 0; i < N; i++) {
        memset(message, (int)(i + 1), sizeof(message));
        CONF_OK(VipxPostWriteMessage(a.vi, conf_write(&a, i, 0, 20000, &b, 100000 + i * 20000),
                                     a.handle, message, 1 + i * 4));
    }
    memset(message, 0xFF, sizeof(message));
    for (unsigned i = 0; i < N; i++) {
        conf_received(&b, conf_at(&b, i), 1 + i * 4);
        conf_same(b.buffer + 100000 + i * 20000, 20000, 8);
        for (unsigned k = 0; k < 1 + i * 4; k++)
            assert_int_equal((unsigned char)b.buffer[i * 256 + k], i + 1);
        conf_sent(&a, conf_at(&a, i));
    }
    conf_close_pair(&a, &b);
}

static void message_and_immediate_go_together(void **state)
{
    struct end a, b;
    struct what what;
    VIP_DESCRIPTOR *recv;

    conf_pair(&a, &b, conf_level(state));
    fill_message(1);
    what.send = conf_write(&a, 0, 0, 100, &b, 1000);
    what.send->CS.Control |= VIP_CONTROL_IMMEDIATE;
    what.send->CS.ImmediateData = 4711;
    what.bytes = 20;
    recv = conf_desc(&b, 0, 0, 20);
    conf_post_recv(&b, recv);
    CONF_OK(carry(&a, &what, &b, recv));
    assert_true((recv->CS.Status & VIP_STATUS_IMMEDIATE) != 0);
    assert_int_equal(recv->CS.ImmediateData, 4711);
    assert_int_equal(recv->CS.Length, 20);
    assert_memory_equal(b.buffer, message, 20);
    conf_close_pair(&a, &b);
}

static void a_receive_that_is_too_short_fails(void **state)
{
    struct end a, b;
    struct what what;
    VIP_DESCRIPTOR *recv;

    conf_pair(&a, &b, conf_level(state));
    what.send = conf_write(&a, 0, 0, 5000, &b, 1000);
    what.bytes = 101;
    recv = conf_desc(&b, 0, 0, 100);
    conf_post_recv(&b, recv);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, carry(&a, &what, &b, recv));
    assert_int_equal(recv->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_LENGTH_ERROR);
    assert_int_equal(recv->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_REMOTE_RDMA_WRITE);
    if (a.level != VIP_SERVICE_UNRELIABLE) {
        conf_broken(&a);
        conf_broken(&b);
    }
    conf_drain(&a);
    conf_close_pair(&a, &b);
}

/* A receive may be longer than its region. Only the bytes of the message must be in the region. */
static void a_receive_longer_than_its_region(void **state)
{
    for (unsigned bytes = 63; bytes <= 64; bytes++) {
        struct end a, b;
        struct what what = {.bytes = bytes};
        VIP_DESCRIPTOR *recv;
        VIP_MEM_HANDLE handle;

        conf_pair(&a, &b, conf_level(state));
        CONF_OK(VipRegisterMem(b.nic, b.buffer + 5000, 63, NULL, &handle));
        recv = conf_desc(&b, 0, 5000, 4096);
        recv->DS[0].Local.Handle = handle;
        conf_post_recv(&b, recv);
        fill_message(bytes);
        what.send = conf_write(&a, 0, 0, 100, &b, 100);
        CONF_RETURNS(bytes == 63 ? VIP_SUCCESS : VIP_DESCRIPTOR_ERROR, carry(&a, &what, &b, recv));
        assert_int_equal(recv->CS.Status & VIP_STATUS_ERROR_MASK,
                         bytes == 63 ? 0 : VIP_STATUS_PROTECTION_ERROR);
        if (bytes == 63)
            assert_memory_equal(b.buffer + 5000, message, bytes);
        conf_drain(&a);
        CONF_OK(VipDeregisterMem(b.nic, b.buffer + 5000, handle));
        conf_close_pair(&a, &b);
    }
}

static void without_a_receive_it_is_an_error(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *send;

    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_RECEPTION);
    (void)state;
    send = conf_write(&a, 0, 0, 5000, &b, 1000);
    CONF_OK(VipxPostWriteMessage(a.vi, send, a.handle, message, 10));
    conf_failed(&a, false, send, VIP_STATUS_REMOTE_DESC_ERROR);
    (void)conf_await_error(&b, VIP_ERROR_RECVQ_EMPTY);
    conf_broken(&a);
    conf_close_pair(&a, &b);
}

static void what_cannot_be_posted(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_UNRELIABLE);
    desc = conf_write(&a, 0, 0, 10, &b, 0);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxPostWriteMessage(a.vi, desc, a.handle, NULL, 10));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxPostWriteMessage(a.vi, desc, a.handle, message, 0));
    CONF_RETURNS(VIP_INVALID_PARAMETER,
                 VipxPostWriteMessage(a.vi, desc, a.handle, message, VIPX_MESSAGE_MAX + 1));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxPostWriteMessage(NULL, desc, a.handle, message, 1));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxPostSendImm64(a.vi, NULL, a.handle, 1));
    /* A send cannot have a message. An RDMA Read cannot have immediate data. */
    desc = conf_desc(&a, 0, 0, 10);
    CONF_OK(VipxPostWriteMessage(a.vi, desc, a.handle, message, 10));
    conf_failed(&a, false, desc, VIP_STATUS_FORMAT_ERROR);
    desc = conf_read(&a, 0, 0, 10, &b, 0);
    CONF_OK(VipxPostSendImm64(a.vi, desc, a.handle, IMM));
    conf_failed(&a, false, desc, VIP_STATUS_FORMAT_ERROR);
    conf_close_pair(&a, &b);
}

static void unconnected_it_is_flushed(void **state)
{
    struct end a;
    VIP_DESCRIPTOR *desc;

    (void)state;
    conf_ready(&a, 'A', VIP_SERVICE_RELIABLE_DELIVERY);
    desc = conf_write(&a, 0, 0, 10, &a, 0);
    CONF_OK(VipxPostWriteMessage(a.vi, desc, a.handle, message, 10));
    conf_failed(&a, false, desc, VIP_STATUS_DESC_FLUSHED_ERROR);
    desc = conf_desc(&a, 0, 0, 10);
    CONF_OK(VipxPostSendImm64(a.vi, desc, a.handle, IMM));
    conf_failed(&a, false, desc, VIP_STATUS_DESC_FLUSHED_ERROR);
    conf_drop_vi(&a);
    conf_close(&a);
}

static const struct conf_test tests[] = {
    CONF_EACH("3.3", CONF_FULL, all_64_bits_arrive,
              "extension: 64 bits of immediate data arrive, their lower half in ImmediateData"),
    CONF_EACH("3.3", CONF_FULL, the_32_bit_field_keeps_its_meaning,
              "extension: what VipPostSend sends is the same with and without 64-bit data"),
    CONF_EACH("3.7", CONF_FULL, data_first_then_the_message,
              "extension: the message of an RDMA Write comes when its data is in place"),
    CONF_T("3.7", CONF_FULL, the_message_is_free_at_return,
           "extension: the message is copied when it is posted"),
    CONF_EACH("3.7", CONF_FULL, message_and_immediate_go_together,
              "extension: an RDMA Write can have a message and immediate data"),
    CONF_EACH("3.7", CONF_FULL, a_receive_that_is_too_short_fails,
              "extension: a message longer than the receive is a LENGTH_ERROR, as for a send"),
    CONF_EACH("3.7", CONF_FULL, a_receive_longer_than_its_region,
              "extension: a receive may be longer than its region: the bytes of the message count"),
    CONF_T("3.7", CONF_FULL, without_a_receive_it_is_an_error,
           "extension: a message without a receive is VIP_ERROR_RECVQ_EMPTY, as for a send"),
    CONF_T("3.7", CONF_FULL, what_cannot_be_posted,
           "extension: lengths of messages, and operations that can have none"),
    CONF_T("3.2", CONF_FULL, unconnected_it_is_flushed,
           "extension: a post on a VI that is not connected is flushed"),
};

CONF_MAIN(tests)
