/*
 * Specification 3.6, first table: the guarantees of each reliability level; 3.7: RDMA Read, RDMA
 * Write and the queue fence; 3.3: order of messages and writes.
 */
#include "suite.h"

#include <unistd.h>

const size_t conf_buffer_bytes = 4194304;

static bool reliable(VIP_RELIABILITY_LEVEL level)
{
    return level != VIP_SERVICE_UNRELIABLE;
}

/* ---- delivery ----------------------------------------------------------------------------- */

/* 900 numbered messages arrive in order, each at most once; at reliable levels none is lost. */
static void numbered_messages(void **state)
{
    enum { N = 900 };
    struct end a, b;
    VIP_DESCRIPTOR *got;
    unsigned next = 0, came = 0, back = 0;

    conf_pair(&a, &b, conf_level(state));
    memset(b.buffer, 0, N * 64);
    for (unsigned i = 0; i < N; i++)
        conf_post_recv(&b, (VIP_DESCRIPTOR *)(void *)(b.buffer + i * 64));
    for (unsigned i = 0; i < N; i++) {
        VIP_DESCRIPTOR *send = conf_empty(&a, i % CONF_DESCS);

        send->CS.Control = VIP_CONTROL_IMMEDIATE;
        send->CS.ImmediateData = i;
        conf_post_send(&a, send);
        if (i - back >= CONF_DESCS - 1) {
            conf_sent(&a, conf_at(&a, back % CONF_DESCS));
            back++;
        }
    }
    while (back < N) {
        conf_sent(&a, conf_at(&a, back % CONF_DESCS));
        back++;
    }
    for (;;) {
        VIP_RETURN rc = VipRecvWait(b.vi,
                                    came == N           ? 20
                                    : reliable(a.level) ? CONF_LIMIT_MS
                                                        : 300,
                                    &got);

        if (rc == VIP_TIMEOUT || (rc == VIP_DESCRIPTOR_ERROR && got == NULL))
            break;
        CONF_OK(rc);
        assert_true(came == 0 || got->CS.ImmediateData >= next);
        next = got->CS.ImmediateData + 1;
        came++;
    }
    if (reliable(a.level))
        assert_int_equal(came, N);
    else
        assert_in_range(came, N / 4, N);
    conf_close_pair(&a, &b);
}

static void a_sent_buffer_may_be_reused(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 50; i++) {
        VIP_DESCRIPTOR *send = conf_desc(&a, 0, 0, 1400), *recv = conf_desc(&b, 0, 0, 1400), *got;

        conf_fill(a.buffer, 1400, i);
        conf_post_recv(&b, recv);
        for (unsigned n = 0;; n++) {
            VIP_RETURN rc;

            conf_fill(a.buffer, 1400, i);
            conf_post_send(&a, send);
            conf_sent(&a, send);
            memset(a.buffer, 0xFF, 1400); /* the send is complete, so the message keeps its bytes */
            rc = VipRecvWait(b.vi, conf_lossy() ? 100 : CONF_LIMIT_MS, &got);
            if (rc == VIP_SUCCESS)
                break;
            CONF_RETURNS(VIP_TIMEOUT, rc);
            assert_true(!reliable(a.level) && n < 60);
        }
        conf_same(b.buffer, 1400, i);
    }
    conf_close_pair(&a, &b);
}

/* Reliable Reception: if a send succeeds, the remote descriptor and its data are complete. */
static void success_means_received(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *got;

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_RECEPTION);
    for (unsigned i = 0; i < 50; i++) {
        size_t bytes = i * 3001;

        conf_fill(a.buffer, bytes, i);
        conf_post_recv(&b, conf_desc(&b, 0, 0, bytes));
        conf_post_send(&a, conf_desc(&a, 0, 0, bytes));
        conf_sent(&a, conf_at(&a, 0));
        CONF_OK(VipRecvDone(b.vi, &got));
        conf_same(b.buffer, bytes, i);
    }
    conf_close_pair(&a, &b);
}

static void success_of_a_write_means_written(void **state)
{
    struct end a, b;

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_RECEPTION);
    for (unsigned i = 1; i < 50; i++) {
        size_t bytes = i * 3001;

        conf_fill(a.buffer, bytes, i);
        memset(b.buffer, 0, bytes);
        conf_post_send(&a, conf_write(&a, 0, 0, bytes, &b, 0));
        conf_sent(&a, conf_at(&a, 0));
        conf_same(b.buffer, bytes, i);
    }
    conf_close_pair(&a, &b);
}

static void levels_must_be_the_same(void **state)
{
    VIP_RELIABILITY_LEVEL level = conf_level(state);
    static const VIP_RELIABILITY_LEVEL all[] = {1, 2, 4};

    for (unsigned i = 0; i < 3; i++) {
        struct end a, b;

        if (all[i] == level)
            continue;
        conf_ready(&a, 'A', level);
        conf_ready(&b, 'B', all[i]);
        conf_conflict(&a, &b, VIP_INVALID_RELIABILITY_LEVEL);
        conf_close_pair(&a, &b);
    }
}

/* ---- RDMA Write --------------------------------------------------------------------------- */

static void rdma_write_tells_nobody(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *got;

    conf_pair(&a, &b, conf_level(state));
    conf_post_recv(&b, conf_desc(&b, 0, 100000, 64));
    conf_fill(a.buffer, 5000, 3);
    memset(b.buffer, 0, 5000);
    for (uint64_t started = 0; memcmp(b.buffer, a.buffer, 5000) != 0;) {
        conf_post_send(&a, conf_write(&a, 0, 0, 5000, &b, 0));
        conf_sent(&a, conf_at(&a, 0));
        for (unsigned n = 0; n < 100 && memcmp(b.buffer, a.buffer, 5000) != 0; n++)
            assert_true(conf_pause(&started));
    }
    CONF_RETURNS(VIP_NOT_DONE, VipRecvDone(b.vi, &got));
    assert_int_equal(conf_error_count(&b), 0);
    conf_close_pair(&a, &b);
}

static void rdma_write_with_immediate(void **state)
{
    static const size_t sizes[] = {0, 1, 1000, 5000};
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 4; i++) {
        VIP_DESCRIPTOR *write = conf_write(&a, 0, 0, sizes[i], &b, 7),
                       *recv = conf_desc(&b, 0, 100000, 64);

        conf_fill(a.buffer, sizes[i], i);
        memset(b.buffer, 0, 6000);
        memset(b.buffer + 100000, 0x3C, 64);
        write->CS.Control |= VIP_CONTROL_IMMEDIATE;
        write->CS.ImmediateData = 0xFACE0000u + i;
        conf_post_recv(&b, recv);
        CONF_OK(conf_carry(&a, write, &b, recv, NULL));
        assert_int_equal(recv->CS.Status,
                         VIP_STATUS_DONE | VIP_STATUS_OP_REMOTE_RDMA_WRITE | VIP_STATUS_IMMEDIATE);
        assert_int_equal(recv->CS.ImmediateData, 0xFACE0000u + i);
        assert_int_equal(recv->CS.Length, sizes[i]);
        conf_same(b.buffer + 7, sizes[i], i);
        for (unsigned n = 0; n < 64; n++)
            assert_int_equal(b.buffer[100000 + n], 0x3C);
    }
    conf_close_pair(&a, &b);
}

static void writes_are_seen_in_order(void **state)
{
    enum { ROUNDS = 200, BYTES = 4000 };
    struct end a, b;
    uint64_t started;

    conf_pair(&a, &b, conf_level(state));
    memset(b.buffer, 0, BYTES + 64);
    for (unsigned i = 1; i <= ROUNDS; i++) {
        volatile unsigned *flag = (volatile unsigned *)(void *)(b.buffer + BYTES + 32);

        memset(a.buffer, (int)i, BYTES);
        *(unsigned *)(void *)(a.buffer + BYTES + 32) = i;
        conf_post_send(&a, conf_write(&a, 0, 0, BYTES, &b, 0));
        conf_post_send(&a, conf_write(&a, 1, BYTES + 32, 4, &b, BYTES + 32));
        started = conf_now_ns();
        while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) != i)
            assert_true(conf_now_ns() - started < CONF_LIMIT_MS * 1000000ull);
        for (unsigned n = 0; n < BYTES; n++)
            assert_int_equal((unsigned char)b.buffer[n], (unsigned char)i);
        conf_sent(&a, conf_at(&a, 0));
        conf_sent(&a, conf_at(&a, 1));
    }
    conf_close_pair(&a, &b);
}

static void a_write_is_in_place_before_a_later_message(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 100; i++) {
        conf_fill(a.buffer, 30000, i);
        conf_post_recv(&b, conf_desc(&b, 0, 100000, 64));
        conf_post_send(&a, conf_write(&a, 0, 0, 30000, &b, 0));
        conf_post_send(&a, conf_desc(&a, 1, 0, 10));
        conf_received(&b, conf_at(&b, 0), 10);
        conf_same(b.buffer, 30000, i);
        conf_sent(&a, conf_at(&a, 0));
        conf_sent(&a, conf_at(&a, 1));
    }
    conf_close_pair(&a, &b);
}

/* Up to 252 segments: a message is gathered and scattered; RDMA has one address segment. */
static void scatter_gather(void **state)
{
    unsigned segs = (unsigned)conf_arg(state);

    for (unsigned op = 0; op < 3; op++) { /* message, RDMA Write, RDMA Read */
        struct end a, b;
        VIP_DESCRIPTOR *send, *recv;
        unsigned extra = op > 0, data = segs - extra;
        size_t total = 0;
        VIP_UINT32 each = 33;

        conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
        send = (VIP_DESCRIPTOR *)(void *)(a.buffer + 2000000);
        recv = (VIP_DESCRIPTOR *)(void *)(b.buffer + 2000000);
        memset((void *)send, 0, 8192);
        memset((void *)recv, 0, 8192);
        memset(a.buffer, 0, 100000);
        memset(b.buffer, 0, 100000);
        conf_fill(op == 2 ? b.buffer : a.buffer, data * each, segs);
        for (unsigned i = 0; i < segs; i++) {
            VIP_DESCRIPTOR_SEGMENT *seg = (VIP_DESCRIPTOR_SEGMENT *)(void *)send->DS + i;

            if (i < extra) {
                seg->Remote.Data.Address = b.buffer;
                seg->Remote.Handle = b.handle;
                continue;
            }
            seg->Local.Data.Address = a.buffer + (i - extra) * each;
            seg->Local.Handle = a.handle;
            seg->Local.Length = each;
            total += each;
            seg = (VIP_DESCRIPTOR_SEGMENT *)(void *)recv->DS + i;
            seg->Local.Data.Address = b.buffer + (i - extra) * (each + 1);
            seg->Local.Handle = b.handle;
            seg->Local.Length = each;
        }
        send->CS.SegCount = (VIP_UINT16)segs;
        send->CS.Length = (VIP_UINT32)total;
        send->CS.Control = (VIP_UINT16)op;
        recv->CS.SegCount = (VIP_UINT16)data;
        if (op == 0)
            CONF_OK(VipPostRecv(b.vi, recv, b.handle));
        CONF_OK(VipPostSend(a.vi, send, a.handle));
        conf_sent(&a, send);
        if (op == 0)
            conf_received(&b, recv, total);
        if (op > 0)
            assert_memory_equal(a.buffer, b.buffer, total);
        for (unsigned i = 0; op == 0 && i < data; i++) {
            assert_memory_equal(b.buffer + i * (each + 1), a.buffer + i * each, each);
            assert_int_equal(b.buffer[i * (each + 1) + each], 0);
        }
        conf_close_pair(&a, &b);
    }
}

/* ---- RDMA Read ---------------------------------------------------------------------------- */

static void rdma_read_brings_the_bytes(void **state)
{
    static const size_t sizes[] = {1, 64, 1472, 65507, 100001, 4194304};
    struct end a, b;
    VIP_DESCRIPTOR *got;

    conf_pair(&a, &b, conf_level(state));
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    for (unsigned i = 0; i < 6; i++) {
        conf_fill(b.buffer, sizes[i], i);
        memset(a.buffer, 0, sizes[i]);
        conf_post_send(&a, conf_read(&a, 0, 0, sizes[i], &b, 0));
        conf_sent(&a, conf_at(&a, 0));
        conf_same(a.buffer, sizes[i], i);
    }
    CONF_RETURNS(VIP_NOT_DONE, VipRecvDone(b.vi, &got)); /* an RDMA Read uses no receive */
    conf_close_pair(&a, &b);
}

static void rdma_read_of_no_bytes(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned segs = 1; segs <= 2; segs++) {
        VIP_DESCRIPTOR *read = conf_read(&a, 0, 0, 0, &b, 0);

        read->CS.SegCount = (VIP_UINT16)segs;
        conf_post_send(&a, read);
        conf_sent(&a, read);
    }
    conf_close_pair(&a, &b);
}

static void many_reads_complete_in_order(void **state)
{
    enum { N = 60 };
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    conf_fill(b.buffer, N * 20000, 9);
    memset(a.buffer, 0, N * 20000);
    for (unsigned i = 0; i < N; i++)
        conf_post_send(&a, conf_read(&a, i, i * 20000, 20000, &b, i * 20000));
    for (unsigned i = 0; i < N; i++)
        conf_sent(&a, conf_at(&a, i));
    conf_same(a.buffer, N * 20000, 9);
    conf_close_pair(&a, &b);
}

static void reads_in_both_directions(void **state)
{
    enum { N = 20 };
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    conf_fill(a.buffer, N * 30000, 1);
    conf_fill(b.buffer, N * 30000, 2);
    for (unsigned i = 0; i < N; i++) {
        conf_post_send(&a, conf_read(&a, i, 2000000 + i * 30000, 30000, &b, i * 30000));
        conf_post_send(&b, conf_read(&b, i, 2000000 + i * 30000, 30000, &a, i * 30000));
    }
    for (unsigned i = 0; i < N; i++) {
        conf_sent(&a, conf_at(&a, i));
        conf_sent(&b, conf_at(&b, i));
    }
    conf_same(a.buffer + 2000000, N * 30000, 2);
    conf_same(b.buffer + 2000000, N * 30000, 1);
    conf_close_pair(&a, &b);
}

/* RDMA Reads and sends alternate; all complete in the order in which they were posted. */
static void reads_and_sends_complete_in_queue_order(void **state)
{
    enum { N = 40 };
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < N; i++)
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    for (unsigned i = 0; i < N; i++)
        conf_post_send(&a,
                       i % 2 ? conf_desc(&a, i, 0, 64) : conf_read(&a, i, i * 50000, 50000, &b, 0));
    for (unsigned i = 0; i < N; i++)
        conf_sent(&a, conf_at(&a, i));
    for (unsigned i = 0; i < N / 2; i++)
        conf_received(&b, conf_at(&b, i), 64);
    conf_close_pair(&a, &b);
}

/* A write with a queue fence sends the bytes that the earlier RDMA Read has brought. */
static void fence_waits_for_the_reads_before(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 50; i++) {
        VIP_DESCRIPTOR *read = conf_read(&a, 0, 0, 200000, &b, 0);
        VIP_DESCRIPTOR *write = conf_write(&a, 1, 0, 200000, &b, 1000000);

        conf_fill(b.buffer, 200000, i);
        memset(a.buffer, 0, 200000);
        write->CS.Control |= VIP_CONTROL_QFENCE | VIP_CONTROL_IMMEDIATE;
        conf_post_recv(&b, conf_empty(&b, 0));
        conf_post_send(&a, read);
        conf_post_send(&a, write);
        conf_received(&b, conf_at(&b, 0), 200000);
        conf_same(b.buffer + 1000000, 200000, i);
        conf_sent(&a, read);
        conf_sent(&a, write);
    }
    conf_close_pair(&a, &b);
}

static const struct conf_test tests[] = {
    CONF_DEACH("3.6", CONF_EARLY, numbered_messages,
               "delivered at most once, in order; reliable levels: exactly once"),
    CONF_DEACH("3.6", CONF_EARLY, a_sent_buffer_may_be_reused,
               "after the completion of a send its buffer may be reused"),
    CONF_DT("3.6", CONF_FULL, success_means_received,
            "Reliable Reception: a send completes when the remote descriptor is complete"),
    CONF_DT("3.6", CONF_FULL, success_of_a_write_means_written,
            "Reliable Reception: an RDMA Write completes when the data is in the remote memory"),
    CONF_EACH("3.6", CONF_EARLY, levels_must_be_the_same,
              "both ends of a connection must use the same level"),
    CONF_DEACH("3.7", CONF_FUNCTIONAL, rdma_write_tells_nobody,
               "RDMA Write without immediate data: nothing is consumed, nobody is told"),
    CONF_DEACH("3.7", CONF_FUNCTIONAL, rdma_write_with_immediate,
               "RDMA Write with immediate data consumes a receive, whose buffers are not touched; "
               "Length is the bytes written"),
    CONF_DRELIABLE("3.3", CONF_FUNCTIONAL, writes_are_seen_in_order,
                   "RDMA Writes of one VI become visible in order to a polling target"),
    CONF_DRELIABLE("3.3", CONF_FUNCTIONAL, a_write_is_in_place_before_a_later_message,
                   "the data of an RDMA Write is in place before a later message completes"),
    CONF_N("3.3", CONF_EARLY, scatter_gather, "2", 2, "two segments, in every operation"),
    CONF_N("3.3", CONF_EARLY, scatter_gather, "5", 5, "five segments, in every operation"),
    CONF_N("3.3", CONF_EARLY, scatter_gather, "64", 64, "64 segments, in every operation"),
    CONF_N("3.3", CONF_EARLY, scatter_gather, "251", 251, "251 segments, in every operation"),
    CONF_N("3.3", CONF_EARLY, scatter_gather, "252", 252, "252 segments, in every operation"),
    CONF_DRELIABLE("3.7", CONF_FULL, rdma_read_brings_the_bytes,
                   "RDMA Read brings remote bytes, of any size; no descriptor is consumed"),
    CONF_DRELIABLE("3.7", CONF_FULL, rdma_read_of_no_bytes, "an RDMA Read of no bytes is valid"),
    CONF_DRELIABLE("3.7", CONF_FULL, many_reads_complete_in_order,
                   "many RDMA Reads under way complete in queue order"),
    CONF_DRELIABLE("3.7", CONF_FULL, reads_in_both_directions, "both ends read at the same time"),
    CONF_DRELIABLE("3.7", CONF_FULL, reads_and_sends_complete_in_queue_order,
                   "completion order stays the queue order between reads and sends"),
    CONF_DRELIABLE("3.7", CONF_FULL, fence_waits_for_the_reads_before,
                   "a fenced descriptor is not started before the reads before it completed"),
};

CONF_MAIN(tests)
