/*
 * Specification 2.6, 3.3, 3.7: sends, receives and RDMA Writes, every byte verified by content.
 */
#include "suite.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

const size_t conf_buffer_bytes = 4194304;

static const VIP_RELIABILITY_LEVEL levels[] = {VIP_SERVICE_UNRELIABLE,
                                               VIP_SERVICE_RELIABLE_DELIVERY};

/* A message that fits into the smallest socket buffer. (Longer unreliable ones may be lost.) */
#define UNRELIABLE_BYTES 65472

/* Index of the first level to test. conf_levels.c tests unreliable writes in lossy networks. */
static unsigned first_level(void)
{
    return conf_lossy() ? 1 : 0;
}

static void pair(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level)
{
    conf_ready(a, 'A', level);
    conf_ready(b, 'B', level);
    conf_connect(a, b);
}

static void close_pair(struct end *a, struct end *b)
{
    conf_drop_vi(a);
    conf_drop_vi(b);
    conf_close(a);
    conf_close(b);
}

static void sizes_arrive_whole_at_every_level(void **state)
{
    static const size_t sizes[] = {1,    7,     64,     1000,    1472,    4096,
                                   9000, 65472, 100001, 1048576, 3000000, 4194304};
    struct end a, b;

    (void)state;
    for (unsigned l = 0; l < 2; l++) {
        pair(&a, &b, levels[l]);
        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            VIP_DESCRIPTOR *send = conf_desc(&a, 0, 0, sizes[i]);
            VIP_DESCRIPTOR *recv = conf_desc(&b, 0, 0, conf_buffer_bytes);

            if (sizes[i] > a.attrs.MaxTransferSize || (l == 0 && sizes[i] > UNRELIABLE_BYTES))
                continue;
            conf_fill(a.buffer, sizes[i], i);
            conf_post_recv(&b, recv);
            CONF_OK(conf_carry(&a, send, &b, recv, NULL));
            assert_int_equal(send->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_SEND);
            assert_int_equal(send->CS.Length, sizes[i]); /* checklist 16 */
            assert_int_equal(recv->CS.Length, sizes[i]);
            assert_int_equal(recv->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_RECEIVE);
            assert_int_equal(recv->CS.Status & VIP_STATUS_IMMEDIATE, 0);
            conf_same(b.buffer, sizes[i], i);
        }
        close_pair(&a, &b);
    }
}

/* Checklist 11: a message with no segment or with an empty segment consumes a receive. */
static void empty_messages_with_and_without_immediate(void **state)
{
    struct end a, b;

    (void)state;
    for (unsigned l = 0; l < 2; l++) {
        pair(&a, &b, levels[l]);
        for (unsigned kind = 0; kind < 4; kind++) {
            VIP_DESCRIPTOR *send = kind & 1 ? conf_desc(&a, 0, 0, 0) : conf_empty(&a, 0);
            VIP_DESCRIPTOR *recv = kind & 1 ? conf_empty(&b, 0) : conf_desc(&b, 0, 0, 64);

            if (kind & 2) {
                send->CS.Control |= VIP_CONTROL_IMMEDIATE;
                send->CS.ImmediateData = 0xC0FFEE00u + kind;
            }
            recv->CS.ImmediateData = 0x11111111u;
            conf_post_recv(&b, recv);
            CONF_OK(conf_carry(&a, send, &b, recv, NULL));
            assert_int_equal(recv->CS.Length, 0);
            assert_int_equal((recv->CS.Status & VIP_STATUS_IMMEDIATE) != 0, (kind & 2) != 0);
            assert_int_equal(recv->CS.ImmediateData, kind & 2 ? 0xC0FFEE00u + kind : 0x11111111u);
            if (kind & 2) /* ImmediateData of a completed send does not change */
                assert_int_equal(send->CS.ImmediateData, 0xC0FFEE00u + kind);
        }
        close_pair(&a, &b);
    }
}

static void segments_scatter_and_gather(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *send, *recv;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned from = 1; from <= 6; from++) {
        for (unsigned to = 1; to <= 6; to++) {
            size_t total = 60 * 1001;

            send = conf_desc(&a, 0, 0, 0);
            recv = conf_desc(&b, 0, 0, 0);
            conf_fill(a.buffer, total, from * 7 + to);
            memset(b.buffer, 0, 2 * total);
            send->CS.SegCount = (VIP_UINT16)from;
            recv->CS.SegCount = (VIP_UINT16)to;
            send->CS.Length = (VIP_UINT32)total;
            recv->CS.Length = (VIP_UINT32)total;
            for (unsigned i = 0; i < from; i++) {
                send->DS[i].Local.Data.Address = a.buffer + i * (total / from);
                send->DS[i].Local.Handle = a.handle;
                send->DS[i].Local.Length = (VIP_UINT32)(total / from);
            }
            /* Scatter with gaps of 5 bytes, which must not change. */
            for (unsigned i = 0; i < to; i++) {
                recv->DS[i].Local.Data.Address = b.buffer + i * (total / to + 5);
                recv->DS[i].Local.Handle = b.handle;
                recv->DS[i].Local.Length = (VIP_UINT32)(total / to);
            }
            conf_post_recv(&b, recv);
            conf_post_send(&a, send);
            conf_sent(&a, send);
            conf_received(&b, recv, total);
            for (unsigned i = 0; i < to; i++) {
                memmove(b.buffer + 1000000 + i * (total / to), b.buffer + i * (total / to + 5),
                        total / to);
                for (unsigned gap = 0; gap < 5; gap++)
                    assert_int_equal(b.buffer[(i + 1) * (total / to + 5) - 5 + gap], 0);
            }
            conf_same(b.buffer + 1000000, total, from * 7 + to);
        }
    }
    close_pair(&a, &b);
}

static void the_longest_descriptor_works(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *send, *recv;
    enum { SEGS = 252, EACH = 33 };

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_fill(a.buffer, SEGS * EACH, 9);
    send = conf_empty(&a, 0); /* its 32 + 252 * 16 bytes cover the places of later ones */
    memset((void *)send, 0, 32 + SEGS * 16);
    send->CS.SegCount = SEGS;
    send->CS.Length = SEGS * EACH;
    for (unsigned i = 0; i < SEGS; i++) {
        VIP_DATA_SEGMENT *seg = &send->DS[0].Local + i;

        seg->Data.Address = a.buffer + i * EACH;
        seg->Handle = a.handle;
        seg->Length = EACH;
    }
    recv = conf_desc(&b, 0, 0, SEGS * EACH);
    conf_post_recv(&b, recv);
    conf_post_send(&a, send);
    conf_sent(&a, send);
    conf_received(&b, recv, SEGS * EACH);
    conf_same(b.buffer, SEGS * EACH, 9);
    close_pair(&a, &b);
}

static void queues_are_first_in_first_out(void **state)
{
    struct end a, b;
    enum { N = 48, ROUNDS = 10 };

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < N; i++)
            conf_post_recv(&b, conf_desc(&b, i, i * 20000, 20000));
        for (unsigned i = 0; i < N; i++) {
            size_t bytes = (i * 977 + round * 131) % 20001;

            conf_fill(a.buffer + i * 20000, bytes, i + round);
            conf_post_send(&a, conf_desc(&a, i, i * 20000, bytes));
        }
        for (unsigned i = 0; i < N; i++) {
            size_t bytes = (i * 977 + round * 131) % 20001;

            conf_received(&b, (VIP_DESCRIPTOR *)(void *)(b.memory + i * CONF_DESC_BYTES), bytes);
            conf_same(b.buffer + i * 20000, bytes, i + round);
            conf_sent(&a, (VIP_DESCRIPTOR *)(void *)(a.memory + i * CONF_DESC_BYTES));
        }
    }
    close_pair(&a, &b);
}

/* Checklist 3: a completed descriptor may be posted again with its old status. */
static void a_post_clears_status_and_next(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *recv;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    recv = conf_desc(&b, 0, 0, 64);
    recv->CS.Status = 0xFFFFFFFFu;
    recv->CS.Next.Address = &a;
    recv->CS.NextHandle = 77;
    recv->CS.Control = VIP_CONTROL_IMMEDIATE; /* checklist 12: a receive may have it */
    conf_post_recv(&b, recv);
    assert_int_equal(recv->CS.Status, 0);
    assert_ptr_not_equal(recv->CS.Next.Address, &a);
    for (unsigned i = 0; i < 3; i++) {
        conf_post_send(&a, conf_desc(&a, 0, 0, 10));
        conf_received(&b, recv, 10);
        conf_sent(&a, (VIP_DESCRIPTOR *)(void *)a.memory);
        conf_post_recv(&b, recv);
    }
    close_pair(&a, &b);
}

/* Checklist 4: a Done or Wait call without a descriptor sets the pointer to NULL. */
static void done_sets_the_pointer_to_null(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc, *recv;
    uint64_t started = 0;
    VIP_RETURN rc;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    desc = (VIP_DESCRIPTOR *)&a;
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR, VipRecvDone(b.vi, &desc)); /* the queue is empty */
    assert_null(desc);
    desc = (VIP_DESCRIPTOR *)&a;
    CONF_RETURNS(VIP_DESCRIPTOR_ERROR,
                 VipSendWait(b.vi, VIP_INFINITE, &desc)); /* the queue is empty */
    assert_null(desc);
    recv = conf_desc(&b, 0, 0, 64);
    conf_post_recv(&b, recv);
    desc = (VIP_DESCRIPTOR *)&a;
    CONF_RETURNS(VIP_NOT_DONE, VipRecvDone(b.vi, &desc));
    assert_null(desc);
    desc = (VIP_DESCRIPTOR *)&a;
    CONF_RETURNS(VIP_TIMEOUT, VipRecvWait(b.vi, 20, &desc));
    assert_null(desc);
    CONF_RETURNS(VIP_TIMEOUT, VipRecvWait(b.vi, 0, &desc));
    conf_post_send(&a, conf_desc(&a, 0, 0, 10));
    while ((rc = VipRecvDone(b.vi, &desc)) == VIP_NOT_DONE)
        assert_true(conf_pause(&started));
    assert_int_equal(rc, VIP_SUCCESS);
    assert_ptr_equal(desc, recv);
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRecvDone(b.vi, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipRecvWait(b.vi, 1, NULL));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipSendDone(&a, &desc));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipPostSend(a.vi, NULL, a.handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipPostSend(&a, recv, a.handle));
    close_pair(&a, &b);
}

static void messages_cross_in_both_directions(void **state)
{
    struct end a, b;
    enum { N = 30, BYTES = 40000 };

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned i = 0; i < N; i++) {
        conf_post_recv(&a, conf_desc(&a, i, 2000000 + i * BYTES, BYTES));
        conf_post_recv(&b, conf_desc(&b, i, 2000000 + i * BYTES, BYTES));
    }
    for (unsigned i = 0; i < N; i++) {
        conf_fill(a.buffer + i * BYTES, BYTES, i);
        conf_fill(b.buffer + i * BYTES, BYTES, 100 + i);
        conf_post_send(&a, conf_desc(&a, 30 + i, i * BYTES, BYTES));
        conf_post_send(&b, conf_desc(&b, 30 + i, i * BYTES, BYTES));
    }
    for (unsigned i = 0; i < N; i++) {
        conf_received(&a, (VIP_DESCRIPTOR *)(void *)(a.memory + i * CONF_DESC_BYTES), BYTES);
        conf_received(&b, (VIP_DESCRIPTOR *)(void *)(b.memory + i * CONF_DESC_BYTES), BYTES);
        conf_same(a.buffer + 2000000 + i * BYTES, BYTES, 100 + i);
        conf_same(b.buffer + 2000000 + i * BYTES, BYTES, i);
        conf_sent(&a, (VIP_DESCRIPTOR *)(void *)(a.memory + (30 + i) * CONF_DESC_BYTES));
        conf_sent(&b, (VIP_DESCRIPTOR *)(void *)(b.memory + (30 + i) * CONF_DESC_BYTES));
    }
    close_pair(&a, &b);
}

static void rdma_write_needs_no_descriptor_at_the_target(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *write, *flag;
    volatile char *watched;
    uint64_t started = 0;
    size_t bytes;

    (void)state;
    for (unsigned l = first_level(); l < 2; l++) {
        pair(&a, &b, levels[l]);
        bytes = l == 0 ? UNRELIABLE_BYTES : 500000;
        conf_fill(a.buffer, bytes, 5);
        a.buffer[600000] = 1;
        memset(b.buffer, 0, 600000);
        write = conf_write(&a, 0, 0, bytes, &b, 3);
        flag = conf_write(&a, 1, 600000, 1, &b, 600000);
        conf_post_send(&a, write);
        conf_post_send(&a, flag);
        conf_sent(&a, write);
        assert_int_equal(write->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_RDMA_WRITE);
        conf_sent(&a, flag);
        /* Checklist 17: the flag is written after the data, so it must appear after the data. */
        watched = b.buffer + 600000;
        started = 0;
        while (__atomic_load_n(watched, __ATOMIC_ACQUIRE) == 0)
            assert_true(conf_pause(&started));
        conf_same(b.buffer + 3, bytes, 5);
        assert_int_equal(conf_error_count(&b), 0);
        close_pair(&a, &b);
    }
}

static void rdma_write_with_immediate_consumes_a_receive(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *write, *recv;

    (void)state;
    for (unsigned l = first_level(); l < 2; l++) {
        pair(&a, &b, levels[l]);
        conf_fill(a.buffer, 60000, 6);
        memset(b.buffer, 0, 200000);
        recv = conf_desc(&b, 0, 100000, 64);
        write = conf_write(&a, 0, 0, 60000, &b, 0);
        write->CS.Control |= VIP_CONTROL_IMMEDIATE;
        write->CS.ImmediateData = 0xABCD0123u;
        conf_post_recv(&b, recv);
        conf_post_send(&a, write);
        conf_sent(&a, write);
        conf_received(&b, recv, 60000); /* Length is the number of bytes written */
        assert_int_equal(recv->CS.Status & VIP_STATUS_OP_MASK, VIP_STATUS_OP_REMOTE_RDMA_WRITE);
        assert_int_equal(recv->CS.Status & VIP_STATUS_IMMEDIATE, VIP_STATUS_IMMEDIATE);
        assert_int_equal(recv->CS.ImmediateData, 0xABCD0123u);
        conf_same(b.buffer, 60000, 6);
        for (unsigned i = 0; i < 64; i++) /* the receive's buffer does not change */
            assert_int_equal(b.buffer[100000 + i], 0);
        close_pair(&a, &b);
    }
}

/* Sends, receives and RDMA Writes work with a file mapping, which is always staged memory. */
static void every_kind_of_memory_carries_data(void **state)
{
    struct end a, b;
    FILE *file_a = tmpfile(), *file_b = tmpfile();
    enum { BYTES = 300000 };
    char *map_a, *map_b;
    VIP_PVOID shared;
    VIP_MEM_HANDLE handle_a, handle_b, handle_shared;
    VIP_MEM_ATTRIBUTES writable = {NULL, VIP_TRUE, VIP_FALSE};
    VIP_DESCRIPTOR *send, *recv;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    assert_int_equal(ftruncate(fileno(file_a), BYTES), 0);
    assert_int_equal(ftruncate(fileno(file_b), BYTES), 0);
    map_a = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file_a), 0);
    map_b = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file_b), 0);
    CONF_OK(VipRegisterMem(a.nic, map_a + 1, BYTES - 1, NULL, &handle_a));
    CONF_OK(VipRegisterMem(b.nic, map_b + 1, BYTES - 1, &writable, &handle_b));
    CONF_OK(VipxAllocMem(BYTES, &shared));
    CONF_OK(VipRegisterMem(b.nic, shared, BYTES, &writable, &handle_shared));

    for (unsigned round = 0; round < 4; round++) {
        conf_fill(map_a, BYTES, 40 + round);
        memset(map_b, 0, BYTES);
        memset(shared, 0, BYTES);
        if (round < 2) { /* send into staged memory, then into shared memory */
            recv = conf_desc(&b, 0, 0, BYTES - 1);
            recv->DS[0].Local.Data.Address = round == 0 ? map_b + 1 : (char *)shared + 1;
            recv->DS[0].Local.Handle = round == 0 ? handle_b : handle_shared;
            send = conf_desc(&a, 0, 0, BYTES - 1);
            send->DS[0].Local.Data.Address = map_a + 1;
            send->DS[0].Local.Handle = handle_a;
        } else { /* RDMA Write with immediate data into both kinds of memory */
            recv = conf_desc(&b, 0, 0, 0);
            send = conf_write(&a, 0, 0, BYTES - 1, &b, 0);
            send->CS.Control |= VIP_CONTROL_IMMEDIATE;
            send->DS[0].Remote.Data.Address = round == 2 ? map_b + 1 : (char *)shared + 1;
            send->DS[0].Remote.Handle = round == 2 ? handle_b : handle_shared;
            send->DS[1].Local.Data.Address = map_a + 1;
            send->DS[1].Local.Handle = handle_a;
        }
        conf_post_recv(&b, recv);
        conf_post_send(&a, send);
        conf_sent(&a, send);
        conf_received(&b, recv, BYTES - 1);
        assert_memory_equal((round % 2 == 0 ? map_b : (char *)shared) + 1, map_a + 1, BYTES - 1);
    }
    CONF_OK(VipDeregisterMem(a.nic, map_a + 1, handle_a));
    CONF_OK(VipDeregisterMem(b.nic, map_b + 1, handle_b));
    CONF_OK(VipDeregisterMem(b.nic, shared, handle_shared));
    CONF_OK(VipxFreeMem(shared));
    munmap(map_a, BYTES);
    munmap(map_b, BYTES);
    fclose(file_a);
    fclose(file_b);
    close_pair(&a, &b);
}

/* 3.12: one thread posts receives and takes them with a Wait call. Two of these threads send. */
struct sender {
    struct end *end;
    unsigned first, count;
    VIP_RETURN result;
    pthread_t thread;
};

static void *run_sender(void *arg)
{
    struct sender *sender = arg;

    for (unsigned i = 0; i < sender->count; i++) {
        VIP_DESCRIPTOR *desc =
            (VIP_DESCRIPTOR *)(void *)(sender->end->memory +
                                       (sender->first + i % 8) * CONF_DESC_BYTES);
        VIP_DESCRIPTOR *got;

        desc->CS.ImmediateData = sender->first * 100000 + i;
        sender->result = VipPostSend(sender->end->vi, desc, sender->end->handle);
        if (sender->result != VIP_SUCCESS)
            break;
        sender->result = VipSendWait(sender->end->vi, CONF_LIMIT_MS, &got);
        if (sender->result != VIP_SUCCESS)
            break;
    }
    return NULL;
}

static void threads_share_a_vi(void **state)
{
    struct end a, b;
    enum { EACH = 400 };
    struct sender senders[2];
    unsigned next[2] = {0, 0};

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    for (unsigned i = 0; i < 16; i++)
        conf_empty(&a, i)->CS.Control = VIP_CONTROL_IMMEDIATE;
    /* Post a receive for every message, because there is no flow control. */
    memset(b.buffer, 0, 2 * EACH * 64);
    for (unsigned i = 0; i < 2 * EACH; i++)
        conf_post_recv(&b, (VIP_DESCRIPTOR *)(void *)(b.buffer + i * 64));
    for (unsigned i = 0; i < 2; i++) {
        senders[i] = (struct sender){.end = &a, .first = i * 8, .count = EACH};
        assert_int_equal(pthread_create(&senders[i].thread, NULL, run_sender, &senders[i]), 0);
    }
    for (unsigned i = 0; i < 2 * EACH; i++) {
        VIP_DESCRIPTOR *desc;
        unsigned who;

        CONF_OK(VipRecvWait(b.vi, CONF_LIMIT_MS, &desc));
        assert_ptr_equal(desc, b.buffer + i * 64);
        who = desc->CS.ImmediateData >= 800000;
        assert_int_equal(desc->CS.ImmediateData, who * 800000 + next[who]);
        next[who]++;
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(senders[i].thread, NULL);
        assert_int_equal(senders[i].result, VIP_SUCCESS);
    }
    close_pair(&a, &b);
}

/* 2.6: a Done call does not block, even if another thread is in the Wait call of the same queue. */
static void *run_recv_wait(void *arg)
{
    VIP_DESCRIPTOR *desc;

    return VipRecvWait(((struct end *)arg)->vi, CONF_LIMIT_MS, &desc) == VIP_SUCCESS ? arg : NULL;
}

static void done_does_not_block_behind_wait(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;
    pthread_t thread;
    void *result;
    uint64_t started = 0;

    (void)state;
    pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    assert_int_equal(pthread_create(&thread, NULL, run_recv_wait, &b), 0);
    for (unsigned i = 0; i < 30; i++) {
        conf_pause(&started);
        CONF_RETURNS(VIP_NOT_DONE, VipRecvDone(b.vi, &desc));
    }
    conf_post_send(&a, conf_desc(&a, 0, 0, 10));
    pthread_join(thread, &result);
    /* The waiting thread has got the message. If a Done call had blocked, the send would have come
     * after the time limit of the Wait call. */
    assert_ptr_equal(result, &b);
    close_pair(&a, &b);
}

/* A thread with its own NIC handle sends messages from one VI of the handle to the other VI. */
static void *run_own_handle(void *arg)
{
    struct end *end = arg;
    VIP_VI_HANDLE other = end[1].vi;

    for (unsigned i = 0; i < 300; i++) {
        VIP_DESCRIPTOR *recv = conf_desc(end, 1, 10000, 3000), *got = NULL;

        conf_fill(end->buffer, 3000, i);
        if (VipPostRecv(other, recv, end->handle) != VIP_SUCCESS ||
            VipPostSend(end->vi, conf_desc(end, 0, 0, 3000), end->handle) != VIP_SUCCESS ||
            VipRecvWait(other, CONF_LIMIT_MS, &got) != VIP_SUCCESS || got != recv ||
            VipSendWait(end->vi, CONF_LIMIT_MS, &got) != VIP_SUCCESS ||
            memcmp(end->buffer, end->buffer + 10000, 3000) != 0)
            return end;
    }
    return NULL;
}

static void two_handles_in_two_threads(void **state)
{
    struct end ends[2][2];
    pthread_t thread[2];
    void *result;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        conf_ready(&ends[i][0], 'A', VIP_SERVICE_RELIABLE_DELIVERY);
        ends[i][1] = ends[i][0];
        conf_vi(&ends[i][1], VIP_SERVICE_RELIABLE_DELIVERY);
        conf_connect(&ends[i][0], &ends[i][1]);
    }
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run_own_handle, ends[i]), 0);
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(thread[i], &result);
        assert_null(result);
    }
    conf_close(&ends[0][0]);
    conf_close(&ends[1][0]);
}

static const struct conf_test tests[] = {
    CONF_T("3.3", CONF_EARLY, sizes_arrive_whole_at_every_level,
           "messages of any size arrive whole"),
    CONF_T("3.3", CONF_EARLY, empty_messages_with_and_without_immediate,
           "SegCount 0 or a segment of length 0, with or without immediate data; both consume a "
           "receive"),
    CONF_T("3.3", CONF_EARLY, segments_scatter_and_gather,
           "segments gather and scatter in every combination"),
    CONF_T("3.13", CONF_EARLY, the_longest_descriptor_works, "252 segments in one descriptor"),
    CONF_T("3.3", CONF_EARLY, queues_are_first_in_first_out, "work queues are first in, first out"),
    CONF_T("3.3", CONF_EARLY, a_post_clears_status_and_next,
           "a post clears Status and overwrites Next"),
    CONF_T("2.6", CONF_EARLY, done_sets_the_pointer_to_null,
           "Done sets the pointer to NULL whenever it returns nothing"),
    CONF_T("3.3", CONF_EARLY, messages_cross_in_both_directions,
           "messages in both directions at once"),
    CONF_T("3.7", CONF_FUNCTIONAL, rdma_write_needs_no_descriptor_at_the_target,
           "RDMA Write consumes nothing at the target"),
    CONF_T("3.7", CONF_FUNCTIONAL, rdma_write_with_immediate_consumes_a_receive,
           "RDMA Write with immediate data consumes a receive"),
    CONF_T("2.3", CONF_EARLY, every_kind_of_memory_carries_data,
           "mapped files and extension memory carry data"),
    CONF_T("3.12", CONF_EARLY, threads_share_a_vi, "several threads may use one VI"),
    CONF_T("3.12", CONF_EARLY, two_handles_in_two_threads,
           "two NIC handles in one process, used by two threads at once"),
    CONF_T("2.6", CONF_EARLY, done_does_not_block_behind_wait,
           "Done never blocks behind a thread in Wait"),
};

CONF_MAIN(tests)
