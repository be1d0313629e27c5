/*
 * Specification 3.6, second table: the status bit of each fault, at each level, at both ends.
 */
#include "suite.h"

#include <unistd.h>

const size_t conf_buffer_bytes = 4194304;

static bool reliable(VIP_RELIABILITY_LEVEL level)
{
    return level != VIP_SERVICE_UNRELIABLE;
}

/* After a fault, an unreliable connection still works. A reliable one is broken at both ends. */
static void outcome(struct end *a, struct end *b)
{
    if (!reliable(a->level)) {
        conf_alive(a, b);
        return;
    }
    conf_broken(a);
    conf_broken(b);
    conf_drop_vi(a);
    conf_drop_vi(b);
}

/* Post three sends. The first is good. The second is faulty and gets `errors`. The third is flushed
 * if the connection has ended, and is sent otherwise. */
static void faulty_send(struct end *a, struct end *b, VIP_DESCRIPTOR *faulty, VIP_UINT32 errors)
{
    VIP_DESCRIPTOR *first = conf_desc(a, 0, 0, 10), *last = conf_desc(a, 2, 0, 20);
    VIP_DESCRIPTOR *got;

    conf_post_recv(b, conf_desc(b, 0, 0, 64));
    CONF_OK(conf_carry(a, first, b, conf_at(b, 0), NULL));
    if (reliable(a->level)) {
        conf_post_send(a, faulty);
        conf_post_send(a, last);
        assert_int_equal(conf_take(a, false, faulty), errors);
        assert_int_equal(conf_take(a, false, last), VIP_STATUS_DESC_FLUSHED_ERROR);
        return;
    }
    conf_post_send(a, faulty);
    conf_post_recv(b, conf_desc(b, 2, 0, 64));
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipSendWait(a->vi, CONF_LIMIT_MS, &got));
    assert_ptr_equal(got, faulty);
    assert_int_equal(faulty->CS.Status & VIP_STATUS_ERROR_MASK, errors);
    CONF_OK(conf_carry(a, last, b, conf_at(b, 2), NULL));
}

static void send_of_bad_format(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *faulty;

    conf_pair(&a, &b, conf_level(state));
    faulty = conf_desc(&a, 1, 0, 64);
    faulty->CS.Control = VIP_CONTROL_OP_RESERVED;
    faulty_send(&a, &b, faulty, VIP_STATUS_FORMAT_ERROR);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

static void send_protection_violation(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *faulty;

    conf_pair(&a, &b, conf_level(state));
    faulty = conf_desc(&a, 1, 0, 64);
    faulty->DS[0].Local.Handle = 0;
    faulty_send(&a, &b, faulty, VIP_STATUS_PROTECTION_ERROR);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

static void send_longer_than_the_vis_maximum(void **state)
{
    struct end a, b;
    VIP_VI_ATTRIBUTES attrs = {conf_level(state), 1000, NULL, NULL, VIP_TRUE, VIP_FALSE};

    conf_pair_with(&a, &b, &attrs);
    faulty_send(&a, &b, conf_desc(&a, 1, 0, 1001), VIP_STATUS_LENGTH_ERROR);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

static void send_of_exactly_the_maximum(void **state)
{
    struct end a, b;
    VIP_VI_ATTRIBUTES attrs = {conf_level(state), 1000, NULL, NULL, VIP_TRUE, VIP_FALSE};

    conf_pair_with(&a, &b, &attrs);
    conf_post_recv(&b, conf_desc(&b, 0, 0, 2000));
    CONF_OK(conf_carry(&a, conf_desc(&a, 0, 0, 1000), &b, conf_at(&b, 0), NULL));
    assert_int_equal(conf_at(&b, 0)->CS.Length, 1000);
    conf_close_pair(&a, &b);
}

/* b's receive descriptor is faulty. It completes with `errors`, and the message is lost. At
 * Reliable Reception the sender gets REMOTE_DESC_ERROR. */
static void faulty_receive(struct end *a, struct end *b, VIP_DESCRIPTOR *recv, size_t bytes,
                           VIP_UINT32 errors)
{
    VIP_DESCRIPTOR *send = conf_desc(a, 0, 0, bytes);
    VIP_UINT32 sent;

    memset(b->buffer, 0x5A, 200);
    conf_post_recv(b, recv);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, conf_carry(a, send, b, recv, NULL));
    assert_int_equal(recv->CS.Status & VIP_STATUS_ERROR_MASK, errors);
    assert_int_equal(recv->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_RECEIVE);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(b->buffer[i], 0x5A);
    sent = send->CS.Status & VIP_STATUS_ERROR_MASK;
    if (a->level == VIP_SERVICE_UNRELIABLE)
        assert_int_equal(sent, 0);
    else if (a->level == VIP_SERVICE_RELIABLE_RECEPTION)
        assert_int_equal(sent, VIP_STATUS_REMOTE_DESC_ERROR);
    else
        assert_int_equal(
            sent & ~(VIP_UINT32)(VIP_STATUS_TRANSPORT_ERROR | VIP_STATUS_DESC_FLUSHED_ERROR), 0);
}

static void receive_of_bad_format(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *recv;

    conf_pair(&a, &b, conf_level(state));
    recv = conf_desc(&b, 0, 0, 100);
    recv->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    faulty_receive(&a, &b, recv, 64, VIP_STATUS_FORMAT_ERROR);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

static void receive_protection_violation(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *recv;

    conf_pair(&a, &b, conf_level(state));
    recv = conf_desc(&b, 0, 0, 100);
    recv->DS[0].Local.Handle = 0;
    faulty_receive(&a, &b, recv, 64, VIP_STATUS_PROTECTION_ERROR);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

static void message_longer_than_the_receive(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    faulty_receive(&a, &b, conf_desc(&b, 0, 0, 63), 64, VIP_STATUS_LENGTH_ERROR);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

static void message_for_a_receive_without_segments(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    faulty_receive(&a, &b, conf_empty(&b, 0), 1, VIP_STATUS_LENGTH_ERROR);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

static void message_and_the_receive_queue_is_empty(void **state)
{
    struct end a, b;
    VIP_ERROR_DESCRIPTOR error;
    VIP_UINT32 sent;

    conf_pair(&a, &b, conf_level(state));
    error = conf_provoke(&a, conf_desc(&a, 0, 0, 64), &b, VIP_ERROR_RECVQ_EMPTY, true);
    assert_int_equal(error.ResourceCode, VIP_RESOURCE_VI);
    assert_ptr_equal(error.ViHandle, b.vi);
    assert_ptr_equal(error.NicHandle, b.nic);
    assert_null(error.CQHandle);
    assert_null(error.DescriptorPtr);
    sent = conf_at(&a, 0)->CS.Status & VIP_STATUS_ERROR_MASK;
    if (a.level == VIP_SERVICE_UNRELIABLE)
        assert_int_equal(sent, 0);
    if (a.level == VIP_SERVICE_RELIABLE_RECEPTION)
        assert_int_equal(sent, VIP_STATUS_REMOTE_DESC_ERROR);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

/* Wait until the operation has written its first byte. False if it does not do so within 1 s. */
static bool begins(volatile char *at, char content)
{
    uint64_t started = conf_now_ns();

    while (*at != content)
        if (conf_now_ns() - started > 1000000000ull)
            return false;
    return true;
}

/* Number and size of the operations that break_off posts. They take about one second, so some are
 * still under way when this program calls VipDisconnect, even if it gets a processor late. */
#define LONG_COUNT 900u
#define LONG_BYTES 4000000u

/* Returns descriptor i, which is in the buffer after the sent bytes. Copies *like if not NULL. */
static VIP_DESCRIPTOR *long_desc(struct end *end, unsigned i, const VIP_DESCRIPTOR *like)
{
    VIP_DESCRIPTOR *desc;

    assert_true(conf_buffer_bytes - LONG_BYTES >= (LONG_COUNT + 1) * sizeof(*desc));
    desc = (VIP_DESCRIPTOR *)(((uintptr_t)end->buffer + LONG_BYTES + 63) & ~(uintptr_t)63) + i;
    if (like)
        *desc = *like;
    return desc;
}

/* Connect, post at a, wait until b's buffer begins to change, and disconnect a. This usually ends
 * an operation in its middle, because an operation has 62 packets. If not, callers try again. */
static void break_off(struct end *a, struct end *b, bool write)
{
    conf_forget_errors(b);
    conf_connect(a, b);
    a->buffer[0] = 0x77;
    b->buffer[0] = 0;
    if (!write)
        for (unsigned i = 0; i < LONG_COUNT; i++)
            conf_post_recv(b, long_desc(b, i, conf_desc(b, 0, 0, LONG_BYTES)));
    for (unsigned i = 0; i < LONG_COUNT; i++)
        conf_post_send(a, long_desc(a, i,
                                    write ? conf_write(a, 0, 0, LONG_BYTES, b, 0)
                                          : conf_desc(a, 0, 0, LONG_BYTES)));
    (void)begins(b->buffer, 0x77);
    CONF_OK(VipDisconnect(a->vi));
    conf_broken(b);
}

static void message_that_breaks_off(void **state)
{
    enum { TRIES = 30 };
    struct end a, b;
    bool seen = false;

    conf_pair(&a, &b, conf_level(state));
    conf_disconnect_idle(&a, &b);
    for (unsigned n = 0; n < TRIES && !seen; n++) {
        break_off(&a, &b, false);
        for (unsigned i = 0; i < LONG_COUNT; i++) {
            VIP_DESCRIPTOR *recv = long_desc(&b, i, NULL);
            VIP_UINT32 status = conf_take(&b, true, recv);

            if (status == VIP_STATUS_PARTIAL_ERROR) {
                assert_true(recv->CS.Length < LONG_BYTES);
                seen = true;
            } else if (status != 0) {
                assert_int_equal(status, VIP_STATUS_DESC_FLUSHED_ERROR);
            }
        }
        conf_drain(&a);
        conf_disconnect_idle(&a, &b);
    }
    assert_true(seen);
    conf_close_pair(&a, &b);
}

/* If an RDMA Write breaks off, the target's callback gets VIP_ERROR_RDMAW_ABORT. */
static void rdma_write_that_breaks_off(void **state)
{
    enum { TRIES = 30 };
    struct end a, b;
    bool seen = false;

    conf_pair(&a, &b, conf_level(state));
    conf_disconnect_idle(&a, &b);
    for (unsigned n = 0; n < TRIES && !seen; n++) {
        break_off(&a, &b, true);
        for (unsigned i = 0; i < conf_error_count(&b) && i < CONF_ERRORS; i++)
            if (b.errors[i].ErrorCode == VIP_ERROR_RDMAW_ABORT) {
                conf_expected_error(VIP_ERROR_RDMAW_ABORT, b.errors[i].ResourceCode);
                assert_int_equal(b.errors[i].ResourceCode, VIP_RESOURCE_VI);
                assert_ptr_equal(b.errors[i].ViHandle, b.vi);
                assert_int_equal(b.errors[i].OpCode, VIP_CONTROL_OP_RDMAWRITE);
                seen = true;
            }
        conf_drain(&a);
        conf_disconnect_idle(&a, &b);
    }
    assert_true(seen);
    conf_close_pair(&a, &b);
}

/* Check the bytes of many messages: vipd must never deliver a damaged packet. */
static void corrupt_data_is_not_delivered(void **state)
{
    enum { MESSAGES = 300, BYTES = 3000 };
    struct end a, b;
    VIP_DESCRIPTOR *got;
    unsigned came = 0, last = 0;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned n = 0; n < MESSAGES; n++) {
        VIP_DESCRIPTOR *send = conf_desc(&a, n % 32, (n % 32) * BYTES, BYTES);
        VIP_DESCRIPTOR *recv = conf_desc(&b, n % 32, (n % 32) * BYTES, BYTES);
        VIP_RETURN rc;

        conf_fill(a.buffer + (n % 32) * BYTES, BYTES, n);
        send->CS.Control |= VIP_CONTROL_IMMEDIATE;
        send->CS.ImmediateData = n;
        if (n == came)
            conf_post_recv(&b, recv);
        else
            conf_post_recv(&b, conf_desc(&b, n % 32, (n % 32) * BYTES, BYTES));
        conf_post_send(&a, send);
        conf_sent(&a, send);
        rc = VipRecvWait(b.vi, reliable(a.level) || !conf_lossy() ? CONF_LIMIT_MS : 30, &got);
        if (rc == VIP_TIMEOUT && !reliable(a.level) && conf_lossy())
            continue;
        CONF_OK(rc);
        assert_true(came == 0 || got->CS.ImmediateData > last);
        last = got->CS.ImmediateData;
        assert_int_equal(got->CS.Length, BYTES);
        conf_same((char *)got->DS[0].Local.Data.Address, BYTES, last);
        came++;
    }
    assert_true(came > MESSAGES / 2);
    if (reliable(a.level))
        assert_int_equal(came, MESSAGES);
    conf_close_pair(&a, &b);
}

/* Number of cases in which vipd refuses an RDMA operation. 0: the region does not allow RDMA; 1: no
 * such handle; 2: beyond the region; 3: before the region; 4: the VI does not allow RDMA. */
#define PLACES 5u

/* Connect a pair for case n of PLACES. In case 4, b's VI does not allow RDMA. */
static void forbidden_pair(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level, unsigned n)
{
    VIP_VI_ATTRIBUTES attrs = {level, 100000, NULL, NULL, VIP_TRUE, VIP_FALSE};

    attrs.EnableRdmaWrite = n != 4;
    attrs.EnableRdmaRead = n != 4 && reliable(level);
    conf_pair_with(a, b, &attrs);
    memset(a->buffer, 0xAA, 100);
    memset(b->buffer, 0, 100);
}

static void forbid(struct end *b, VIP_DESCRIPTOR *rdma, unsigned n)
{
    VIP_MEM_HANDLE closed;

    switch (n) {
    case 0:
        CONF_OK(VipRegisterMem(b->nic, b->buffer, 100, NULL, &closed));
        rdma->DS[0].Remote.Handle = closed;
        break;
    case 1:
        rdma->DS[0].Remote.Handle = 0;
        break;
    case 2:
        rdma->DS[0].Remote.Data.Address = b->buffer + conf_buffer_bytes - 63;
        break;
    case 3:
        rdma->DS[0].Remote.Data.Address = b->memory - 1;
        break;
    default:
        break;
    }
}

static void rdma_write_to_memory_not_allowed(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *write;
    VIP_ERROR_DESCRIPTOR error;

    for (unsigned n = 0; n < PLACES; n++) {
        forbidden_pair(&a, &b, conf_level(state), n);
        write = conf_write(&a, 0, 0, 64, &b, 0);
        forbid(&b, write, n);
        error = conf_provoke(&a, write, &b, VIP_ERROR_RDMAW_PROT, true);
        assert_int_equal(error.ResourceCode, VIP_RESOURCE_VI);
        assert_ptr_equal(error.ViHandle, b.vi);
        assert_int_equal(error.OpCode, VIP_CONTROL_OP_RDMAWRITE);
        for (unsigned i = 0; i < 100; i++)
            assert_int_equal(b.buffer[i], 0);
        if (a.level == VIP_SERVICE_UNRELIABLE)
            assert_int_equal(write->CS.Status & VIP_STATUS_ERROR_MASK, 0);
        if (a.level == VIP_SERVICE_RELIABLE_RECEPTION)
            assert_int_equal(write->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_RDMA_PROT_ERROR);
        outcome(&a, &b);
        conf_close_pair(&a, &b);
    }
}

static void rdma_write_not_allowed_with_immediate(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *write, *recv;

    for (unsigned n = 0; n < PLACES; n++) {
        forbidden_pair(&a, &b, conf_level(state), n);
        write = conf_write(&a, 0, 0, 64, &b, 0);
        write->CS.Control |= VIP_CONTROL_IMMEDIATE;
        forbid(&b, write, n);
        recv = conf_empty(&b, 1);
        conf_post_recv(&b, recv);
        CONF_RETURNS(VIP_DESCRIPTOR_ERROR, conf_carry(&a, write, &b, recv, NULL));
        assert_int_equal(recv->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_RDMA_PROT_ERROR);
        assert_int_equal(recv->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_REMOTE_RDMA_WRITE);
        for (unsigned i = 0; i < 100; i++)
            assert_int_equal(b.buffer[i], 0);
        if (a.level == VIP_SERVICE_RELIABLE_RECEPTION)
            assert_int_equal(write->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_RDMA_PROT_ERROR);
        outcome(&a, &b);
        for (unsigned i = 0; i < conf_error_count(&b) && i < CONF_ERRORS; i++)
            assert_int_not_equal(b.errors[i].ErrorCode, VIP_ERROR_RDMAW_PROT);
        conf_close_pair(&a, &b);
    }
}

static void rdma_write_with_immediate_and_no_receive(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *write;

    conf_pair(&a, &b, conf_level(state));
    write = conf_write(&a, 0, 0, 64, &b, 0);
    write->CS.Control |= VIP_CONTROL_IMMEDIATE;
    conf_provoke(&a, write, &b, VIP_ERROR_RECVQ_EMPTY, true);
    if (a.level == VIP_SERVICE_RELIABLE_RECEPTION)
        assert_int_equal(write->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_REMOTE_DESC_ERROR);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

static void rdma_write_with_immediate_into_a_faulty_receive(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *write, *recv;

    conf_pair(&a, &b, conf_level(state));
    write = conf_write(&a, 0, 0, 64, &b, 0);
    write->CS.Control |= VIP_CONTROL_IMMEDIATE;
    recv = conf_empty(&b, 1);
    recv->CS.Reserved = 1;
    conf_post_recv(&b, recv);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, conf_carry(&a, write, &b, recv, NULL));
    assert_int_equal(recv->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_FORMAT_ERROR);
    if (a.level == VIP_SERVICE_RELIABLE_RECEPTION)
        assert_int_equal(write->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_REMOTE_DESC_ERROR);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

static void rdma_read_of_memory_not_allowed(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *read;
    VIP_ERROR_DESCRIPTOR error;

    for (unsigned n = 0; n < PLACES; n++) {
        forbidden_pair(&a, &b, conf_level(state), n);
        read = conf_read(&a, 0, 0, 64, &b, 0);
        forbid(&b, read, n);
        error = conf_provoke(&a, read, &b, VIP_ERROR_RDMAR_PROT, true);
        assert_int_equal(error.ResourceCode, VIP_RESOURCE_VI);
        assert_ptr_equal(error.ViHandle, b.vi);
        assert_int_equal(error.OpCode, VIP_CONTROL_OP_RDMAREAD);
        assert_int_equal(read->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_RDMA_PROT_ERROR);
        assert_int_equal(read->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_RDMA_READ);
        for (unsigned i = 0; i < 100; i++)
            assert_int_equal((unsigned char)a.buffer[i], 0xAA);
        outcome(&a, &b);
        conf_close_pair(&a, &b);
    }
}

static void what_is_queued_at_the_end_is_flushed(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 20; i++) {
        conf_post_recv(&a, conf_desc(&a, i, 0, 64));
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    }
    CONF_OK(VipDisconnect(a.vi));
    conf_broken(&b);
    for (unsigned i = 0; i < 20; i++) {
        conf_failed(&a, true, conf_at(&a, i), VIP_STATUS_DESC_FLUSHED_ERROR);
        conf_failed(&b, true, conf_at(&b, i), VIP_STATUS_DESC_FLUSHED_ERROR);
        assert_int_equal(conf_at(&a, i)->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_RECEIVE);
    }
    conf_close_pair(&a, &b);
}

/* If one send fails at the target, vipd delivers the earlier sends, but not the later ones. */
static void sends_behind_a_failed_one_are_not_delivered(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *got;
    VIP_UINT32 status;

    conf_pair(&a, &b, conf_level(state));
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    conf_post_recv(&b, conf_desc(&b, 1, 100, 5));
    for (unsigned i = 2; i < 6; i++)
        conf_post_recv(&b, conf_desc(&b, i, i * 100, 64));
    for (unsigned i = 0; i < 6; i++)
        conf_post_send(&a, conf_desc(&a, i, 0, 64));
    assert_int_equal(conf_take(&b, true, conf_at(&b, 0)), 0);
    assert_int_equal(conf_take(&b, true, conf_at(&b, 1)), VIP_STATUS_LENGTH_ERROR);
    for (unsigned i = 2; i < 6; i++)
        assert_int_equal(conf_take(&b, true, conf_at(&b, i)), VIP_STATUS_DESC_FLUSHED_ERROR);
    status = conf_take(&a, false, conf_at(&a, 0));
    if (a.level == VIP_SERVICE_RELIABLE_RECEPTION)
        assert_int_equal(status, 0);
    status = conf_take(&a, false, conf_at(&a, 1));
    if (a.level == VIP_SERVICE_RELIABLE_RECEPTION)
        assert_int_equal(status, VIP_STATUS_REMOTE_DESC_ERROR);
    for (unsigned i = 2; i < 6; i++)
        assert_int_equal(conf_take(&a, false, conf_at(&a, i)), VIP_STATUS_DESC_FLUSHED_ERROR);
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipSendDone(a.vi, &got));
    assert_null(got);
    outcome(&a, &b);
    conf_close_pair(&a, &b);
}

static const struct conf_test tests[] = {
    CONF_DEACH("3.6", CONF_FUNCTIONAL, send_of_bad_format,
               "bad format of a send descriptor: FORMAT_ERROR at the sender; unreliable: the queue "
               "goes on, else the connection breaks"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, receive_of_bad_format,
               "bad format of a receive descriptor: FORMAT_ERROR at the receiver, the message is "
               "dropped or the connection breaks; Reception: REMOTE_DESC_ERROR at the sender"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, send_protection_violation,
               "local protection violation of a send: PROTECTION_ERROR at the sender; goes on or "
               "breaks"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, receive_protection_violation,
               "local protection violation of a receive: PROTECTION_ERROR at the receiver; dropped "
               "or breaks; Reception: REMOTE_DESC_ERROR at the sender"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, send_longer_than_the_vis_maximum,
               "send longer than the VI's MaxTransferSize: LENGTH_ERROR; goes on or breaks"),
    CONF_EACH("3.6", CONF_EARLY, send_of_exactly_the_maximum,
              "a send of exactly MaxTransferSize bytes is no error"),
    CONF_DEACH(
        "3.6", CONF_EARLY, message_longer_than_the_receive,
        "message longer than the receive descriptor: LENGTH_ERROR at the receiver; dropped or "
        "breaks; Reception: REMOTE_DESC_ERROR at the sender"),
    CONF_DEACH("3.6", CONF_EARLY, message_for_a_receive_without_segments,
               "a message with data for a receive without segments: LENGTH_ERROR"),
    CONF_DEACH(
        "3.6", CONF_FUNCTIONAL, message_and_the_receive_queue_is_empty,
        "message arrives, receive queue empty: VIP_ERROR_RECVQ_EMPTY to the callback; dropped "
        "or breaks; Reception: REMOTE_DESC_ERROR at the sender"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, message_that_breaks_off,
               "message breaks off half way: PARTIAL_ERROR in the receive"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, corrupt_data_is_not_delivered,
               "corrupt data: dropped (unreliable) or repeated; never delivered, order kept"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, rdma_write_to_memory_not_allowed,
               "RDMA Write to memory not allowed, no immediate data: VIP_ERROR_RDMAW_PROT at the "
               "target; breaks if reliable; Reception: RDMA_PROT_ERROR at the initiator"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, rdma_write_not_allowed_with_immediate,
               "RDMA Write to memory not allowed, with immediate data: RDMA_PROT_ERROR in the "
               "consumed receive, no callback of it"),
    CONF_DEACH("3.7", CONF_FUNCTIONAL, rdma_write_with_immediate_and_no_receive,
               "no receive posted for the immediate data: error as for a send on an empty queue"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, rdma_write_with_immediate_into_a_faulty_receive,
               "RDMA Write with immediate data into a faulty receive: as for a send"),
    CONF_DEACH("3.6", CONF_FUNCTIONAL, rdma_write_that_breaks_off,
               "RDMA Write broken off: VIP_ERROR_RDMAW_ABORT to the target's callback"),
    CONF_DRELIABLE("3.6", CONF_FULL, rdma_read_of_memory_not_allowed,
                   "RDMA Read of memory not allowed: VIP_ERROR_RDMAR_PROT at the target, "
                   "RDMA_PROT_ERROR at the initiator, breaks"),
    CONF_DEACH("3.6", CONF_EARLY, what_is_queued_at_the_end_is_flushed,
               "descriptor still queued when the connection ends: DESC_FLUSHED_ERROR at both ends"),
    CONF_DRELIABLE("3.6", CONF_FULL, sends_behind_a_failed_one_are_not_delivered,
                   "after an error the sends behind the failed one are not delivered"),
};

CONF_MAIN(tests)
