/*
 * The owner's half of a loan: what two owners bring each other, what a stay refuses, and the
 * checkpoint that it leaves for vipd.
 */
#include "unit/loan_ends.h"

#include <errno.h>
#include <pthread.h>
#include <sys/uio.h>

static void assert_done(const struct end *end, unsigned i, enum vip_queue queue, uint32_t status,
                        uint32_t length)
{
    assert_true(i < end->dones);
    assert_int_equal(end->done[i].queue, queue);
    assert_int_equal(end->done[i].status, VIP_ST_DONE | status);
    assert_int_equal(end->done[i].length, length);
}

/* ---- what arrives ----------------------------------------------------------------------- */

/* A stay for a post sends, and leaves what has arrived to the next poll. A stay for a poll ends at
 * the first packet that completes a descriptor. */
static void a_stay_does_what_is_awaited(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    for (unsigned i = 0; i < 3; i++) {
        receive_bytes(&ends->a, 1000 * i, 1000);
        receive_bytes(&ends->b, 1000 * i, 1000);
    }
    for (unsigned i = 0; i < 2; i++) {
        send_bytes(&ends->a, 0, 100);
        assert_int_equal(vipl__loan_post(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    }
    send_bytes(&ends->b, 0, 200);
    assert_int_equal(vipl__loan_post(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_int_equal(counts_of(&ends->b).tx, 1);
    assert_int_equal(counts_of(&ends->b).rx, 0);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_done(&ends->b, 0, VIP_Q_RECV, VIP_ST_OP_RECEIVE, 100);
    assert_int_equal(ends->b.dones, 1);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_int_equal(ends->b.dones, 2);
    run(ends);
    assert_int_equal(ends->a.dones, 3);
    assert_int_equal(ends->b.dones, 3);
    ends_free(ends);
}

/* The part has what the engine has counted when a stay finds no work, after many stays that find
 * work, and when the loan ends. The next loan of the part goes on with these numbers. */
static void the_part_has_the_counts(void **state)
{
    struct ends *ends = ends_new();
    const struct vip_loan_counts *a = &ends->a.part->counts;
    uint64_t packets;

    (void)state;
    ends_lend(ends);
    receive_bytes(&ends->b, 0, 1000);
    send_bytes(&ends->a, 0, 1000);
    run(ends);
    assert_int_equal(a->tx_messages, 1);
    assert_int_equal(a->tx_bytes, 1000);
    assert_int_equal(ends->b.part->counts.rx_messages, 1);
    assert_int_equal(ends->b.part->counts.rx_bytes, 1000);
    assert_true(a->tx_packets > 0 && a->rx_packets > 0);
    packets = a->tx_packets;
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(a->tx_packets, packets);
        receive_bytes(&ends->b, 0, 10);
        send_bytes(&ends->a, 0, 10);
        assert_int_equal(vipl__loan_post(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    }
    assert_true(a->tx_packets > packets);
    while (ends->a.dones < 65)
        (void)round_of(ends);
    vipl__loan_end(ends->a.loan);
    assert_int_equal(a->tx_messages, 65);
    ends->a.terms.number++;
    end_lend(ends, &ends->a, 0);
    vipl__loan_end(ends->a.loan);
    assert_int_equal(a->tx_messages, 65);
    ends_free(ends);
}

/* While a stream flows, a send waits for others. All of them leave in one packet. */
static void sends_of_a_stream_wait(void **state)
{
    struct ends *ends = ends_new();
    uint64_t packets;

    (void)state;
    ends_lend(ends);
    for (unsigned i = 0; i < VIPL__LOAN_STREAM; i++) {
        receive_bytes(&ends->b, 10 * i, 10);
        assert_false(vipl__loan_may_wait(ends->a.loan, ends->a.part->posted + 1));
        send_bytes(&ends->a, 10 * i, 10);
        assert_false(vipl__loan_may_wait(ends->a.loan, ends->a.part->posted));
        assert_int_equal(vipl__loan_post(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    }
    packets = counts_of(&ends->a).tx;
    for (unsigned i = 0; i < VIPL__LOAN_TOGETHER; i++) {
        receive_bytes(&ends->b, 10 * i, 10);
        send_bytes(&ends->a, 10 * i, 10);
        assert_int_equal(vipl__loan_may_wait(ends->a.loan, ends->a.part->posted),
                         i + 1 < VIPL__LOAN_TOGETHER);
    }
    assert_int_equal(vipl__loan_post(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_int_equal(counts_of(&ends->a).tx, packets + 1);
    run(ends);
    assert_int_equal(ends->b.dones, VIPL__LOAN_STREAM + VIPL__LOAN_TOGETHER);
    send_bytes(&ends->a, 0, 10); /* the stream is over */
    assert_false(vipl__loan_may_wait(ends->a.loan, ends->a.part->posted));
    receive_bytes(&ends->b, 0, 10);
    run(ends);
    ends_free(ends);
}

/* The peer's window is full, so a stay for a post receives acknowledgements. */
static void a_post_that_cannot_leave(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends->a.terms.conn.window_bytes = 2 * PACKET;
    ends_lend(ends);
    for (unsigned i = 0; i < 8; i++) {
        receive_bytes(&ends->b, 1000 * i, 1000);
        send_bytes(&ends->a, 1000 * i, 1000);
        (void)vipl__loan_post(ends->a.loan, ends->now_ns);
    }
    assert_true(counts_of(&ends->a).tx < 8);
    while (ends->b.dones < counts_of(&ends->a).tx)
        assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    ends->now_ns += ends->b.terms.engine.ack_delay_ns;
    (void)vipl__loan_turn(ends->b.loan, ends->now_ns);
    assert_int_equal(ends->a.dones, 0);
    receive_bytes(&ends->b, 0, 1000);
    send_bytes(&ends->a, 0, 1000);
    assert_int_equal(vipl__loan_post(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_true(ends->a.dones > 0);
    run(ends);
    assert_int_equal(ends->a.dones, 9);
    ends_free(ends);
}

static void sends_arrive_in_order(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    fill(&ends->a, 1);
    for (unsigned i = 0; i < 3; i++) {
        struct vip_shm_seg in[4] = {seg(&ends->b, 1000 * i, 1), seg(&ends->b, 1000 * i + 1, 0),
                                    seg(&ends->b, 1000 * i + 1, 100 + i),
                                    seg(&ends->b, 1000 * i + 101 + i, 400)};

        post_receive(&ends->b, 4, in);
        send_bytes(&ends->a, 2000 * i, 300 + i);
    }
    run(ends);
    assert_int_equal(ends->a.dones, 3);
    assert_int_equal(ends->b.dones, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_done(&ends->a, i, VIP_Q_SEND, VIP_ST_OP_SEND, 300 + i);
        assert_done(&ends->b, i, VIP_Q_RECV, VIP_ST_OP_RECEIVE, 300 + i);
        assert_memory_equal(ends->b.memory + 1000 * i, ends->a.memory + 2000 * i, 300 + i);
    }
    assert_came(&ends->a, 0, 0, 3);
    assert_came(&ends->b, 3, 3, 0);
    ends_free(ends);
}

static void both_ends_send_at_once(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    for (unsigned i = 0; i < 100; i++) {
        receive_bytes(&ends->a, 0, 64);
        receive_bytes(&ends->b, 0, 64);
        send_bytes(&ends->a, 64, i % 65);
        send_bytes(&ends->b, 64, i % 65);
        (void)round_of(ends);
    }
    run(ends);
    assert_came(&ends->a, 100, 100, 100);
    assert_came(&ends->b, 100, 100, 100);
    assert_int_equal(ends->a.dones, 200);
    ends_free(ends);
}

static void rdma_writes_consume_a_receive_only_with_immediate_data(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    fill(&ends->a, 2);
    receive_bytes(&ends->b, 0, 0);
    rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAWRITE, 100, 5000, 5000, 0);
    run(ends);
    assert_int_equal(ends->b.dones, 0);
    assert_memory_equal(ends->b.memory + 5000, ends->a.memory + 100, 5000);
    assert_came(&ends->b, 1, 0, 0);
    assert_done(&ends->a, 0, VIP_Q_SEND, VIP_ST_OP_RDMA_WRITE, 5000);

    rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAWRITE | VIP_CTL_IMMEDIATE, 200, 20000, 300, 0x1234);
    run(ends);
    assert_int_equal(ends->b.dones, 1);
    assert_done(&ends->b, 0, VIP_Q_RECV, VIP_ST_OP_REMOTE_RDMA_WRITE | VIP_ST_IMMEDIATE, 300);
    assert_int_equal(ends->b.done[0].imm, 0x1234);
    assert_memory_equal(ends->b.memory + 20000, ends->a.memory + 200, 300);
    assert_came(&ends->b, 2, 1, 0);
    assert_came(&ends->a, 0, 0, 2);
    ends_free(ends);
}

static void rdma_reads_bring_the_peers_bytes(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    fill(&ends->b, 3);
    rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAREAD, 7, 4096, 30000, 0);
    rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAREAD, 40000, 0, 1, 0);
    run(ends);
    assert_int_equal(ends->a.dones, 2);
    assert_done(&ends->a, 0, VIP_Q_SEND, VIP_ST_OP_RDMA_READ, 30000);
    assert_memory_equal(ends->a.memory + 7, ends->b.memory + 4096, 30000);
    assert_int_equal(ends->a.memory[40000], ends->b.memory[0]);
    assert_came(&ends->a, 0, 0, 2);
    assert_came(&ends->b, 2, 0, 0);
    ends_free(ends);
}

/* A message of many packets in both directions, and a long RDMA Read. Each case loses packets. */
static void lost_packets_are_repeated(void **state)
{
    static const unsigned loss[] = {0, 1, 5, 20, 40};

    (void)state;
    for (unsigned i = 0; i < sizeof(loss) / sizeof(loss[0]); i++) {
        struct ends *ends = ends_new();

        ends_lend(ends);
        fill(&ends->a, 4);
        memset(ends->b.memory, 0, MEMORY);
        ends->loss = loss[i];
        receive_bytes(&ends->b, 0, 200000);
        receive_bytes(&ends->b, 200000, 5);
        send_bytes(&ends->a, 0, 200000);
        send_bytes(&ends->a, 200000, 5);
        rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAWRITE, 300000, 300000, 100000, 0);
        rdma(&ends->b, &ends->a, VIP_CTL_OP_RDMAREAD, 500000, 500000, 100000, 0);
        run(ends);
        assert_memory_equal(ends->b.memory, ends->a.memory, 200005);
        assert_memory_equal(ends->b.memory + 300000, ends->a.memory + 300000, 100000);
        assert_memory_equal(ends->b.memory + 500000, ends->a.memory + 500000, 100000);
        assert_came(&ends->a, 1, 0, 3);
        assert_came(&ends->b, 3, 2, 1);
        if (loss[i] != 0)
            assert_true(counts_of(&ends->b).held > 0);
        assert_int_equal(counts_of(&ends->b).held, counts_of(&ends->b).replayed);
        ends_free(ends);
    }
}

static void a_packet_ahead_of_its_turn_is_held(void **state)
{
    struct ends *ends = ends_new();
    uint8_t first[PACKET];
    ssize_t len;

    (void)state;
    ends_lend(ends);
    fill(&ends->a, 5);
    receive_bytes(&ends->b, 0, 100);
    receive_bytes(&ends->b, 100, 100);
    send_bytes(&ends->a, 0, 100);
    assert_int_equal(vipl__loan_turn(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    len = recv(ends->b.terms.sock, first, sizeof(first), MSG_DONTWAIT);
    assert_true(len > 0);
    send_bytes(&ends->a, 100, 100);
    assert_int_equal(vipl__loan_turn(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_int_equal(counts_of(&ends->b).held, 1);
    assert_came(&ends->b, 0, 0, 0);
    assert_int_equal(ends->b.dones, 0);

    assert_int_equal(send(ends->a.terms.sock, first, (size_t)len, 0), len);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_int_equal(counts_of(&ends->b).replayed, 1);
    assert_came(&ends->b, 2, 2, 0);
    assert_memory_equal(ends->b.memory, ends->a.memory, 200);
    run(ends);
    assert_came(&ends->a, 0, 0, 2);
    ends_free(ends);
}

/* A stay with much to do stays short: it leaves packets for the next stay, and says when. */
static void a_stay_handles_few_packets(void **state)
{
    struct ends *ends = ends_new();
    uint8_t packet[PACKET] = {0};
    uint64_t before;

    (void)state;
    ends_lend(ends);
    for (unsigned i = 0; i < LOAN_STAY_PACKETS; i++)
        assert_int_equal(send(ends->a.terms.sock, packet, 100, 0), 100);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_true(counts_of(&ends->b).drop[VIP_WIRE_CRC_BAD] < LOAN_STAY_PACKETS);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_IDLE);
    assert_int_equal(counts_of(&ends->b).drop[VIP_WIRE_CRC_BAD], LOAN_STAY_PACKETS);

    before = counts_of(&ends->a).tx;
    rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAWRITE, 0, 0, 1000000, 0);
    for (unsigned i = 0; i < 200 && timer_of(&ends->a) != ends->now_ns; i++) {
        uint64_t now;

        ends->now_ns += 5 * US;
        (void)vipl__loan_turn(ends->b.loan, ends->now_ns);
        (void)vipl__loan_turn(ends->a.loan, ends->now_ns);
        now = counts_of(&ends->a).tx;
        assert_true(now - before <= LOAN_STAY_PACKETS);
        before = now;
    }
    run(ends);
    assert_came(&ends->b, 1, 0, 0);
    ends_free(ends);
}

static void unreliable_sends_complete_when_they_have_left(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends->a.terms.attrs.level = ends->b.terms.attrs.level = VIP_LVL_UNRELIABLE;
    ends_lend(ends);
    receive_bytes(&ends->b, 0, 100);
    send_bytes(&ends->a, 0, 100);
    assert_int_equal(vipl__loan_turn(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_done(&ends->a, 0, VIP_Q_SEND, VIP_ST_OP_SEND, 100);
    assert_came(&ends->a, 0, 0, 1);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_came(&ends->b, 1, 1, 0);
    ends_free(ends);
}

/* Another thread posts while a thread is inside: here, while a completion is reported. */
static void *post_meanwhile(void *arg)
{
    struct ends *ends = arg;

    send_bytes(&ends->a, 0, 20);
    assert_int_equal(vipl__loan_turn(ends->a.loan, ends->now_ns), VIPL__LOAN_BUSY);
    return NULL;
}

static void posts_of_other_threads_are_taken(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    for (unsigned i = 0; i < 2; i++)
        receive_bytes(&ends->b, 0, 100);
    send_bytes(&ends->a, 0, 10);
    (void)round_of(ends);
    ends->a.meanwhile = post_meanwhile;
    ends->a.meanwhile_arg = ends;
    for (unsigned i = 0; i < 100 && ends->a.dones == 0; i++)
        (void)round_of(ends);
    /* No further stay was needed: the same call has taken and sent it. */
    assert_int_equal(counts_of(&ends->a).sends, 2);
    (void)vipl__loan_turn(ends->b.loan, ends->now_ns);
    assert_came(&ends->b, 2, 2, 0);
    run(ends);
    assert_came(&ends->a, 0, 0, 2);
    ends_free(ends);
}

static void posts_behind_a_lock_are_taken(void **state)
{
    struct ends *ends = ends_new();
    pthread_t thread;

    (void)state;
    ends_lend(ends);
    receive_bytes(&ends->b, 0, 100);
    vipl__loan_lock(ends->a.loan);
    assert_int_equal(pthread_create(&thread, NULL, post_meanwhile, ends), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    vipl__loan_unlock(ends->a.loan);
    assert_int_equal(counts_of(&ends->a).sends, 1);
    (void)vipl__loan_turn(ends->b.loan, ends->now_ns);
    assert_came(&ends->b, 1, 1, 0);
    ends_free(ends);
}

/* Three threads post and handle packets at the same time. */
#define POSTERS      3u
#define POSTS_OF_ONE 300u

struct posters {
    struct ends *ends;
    pthread_mutex_t lock; /* guards the table of sends */
};

static void *poster(void *arg)
{
    struct posters *posters = arg;
    struct ends *ends = posters->ends;

    for (unsigned i = 0; i < POSTS_OF_ONE; i++) {
        pthread_mutex_lock(&posters->lock);
        rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAWRITE, 0, 0, 8, 0);
        pthread_mutex_unlock(&posters->lock);
        (void)vipl__loan_turn(ends->a.loan, ends->now_ns);
    }
    return NULL;
}

static void threads_share_a_loan(void **state)
{
    struct ends *ends = ends_new();
    struct posters posters = {.ends = ends, .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread[POSTERS];

    (void)state;
    ends_lend(ends);
    for (unsigned i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, poster, &posters), 0);
    for (unsigned i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(counts_of(&ends->a).sends, POSTERS * POSTS_OF_ONE);
    run(ends);
    assert_came(&ends->a, 0, 0, POSTERS * POSTS_OF_ONE);
    assert_came(&ends->b, POSTERS * POSTS_OF_ONE, 0, 0);
    ends_free(ends);
}

/* The stay in which a timer is due sends what the timer asks for. */
static void a_timer_that_is_due_sends_in_the_same_stay(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAWRITE, 0, 0, 8, 0);
    (void)vipl__loan_turn(ends->a.loan, ends->now_ns);
    (void)vipl__loan_turn(ends->b.loan, ends->now_ns);
    assert_int_equal(counts_of(&ends->b).tx, 0);
    assert_true(timer_of(&ends->b) > ends->now_ns && timer_of(&ends->b) != UINT64_MAX);
    assert_int_equal(vipl__loan_turn(ends->b.loan, timer_of(&ends->b)), VIPL__LOAN_DID);
    assert_int_equal(counts_of(&ends->b).tx, 1);
    assert_true(timer_of(&ends->b) == UINT64_MAX);
    ends_free(ends);
}

/* ---- packets that are refused ----------------------------------------------------------- */

static uint8_t forged[PACKET + 1];

static void seal_forged(size_t len)
{
    struct iovec iov = {.iov_base = forged, .iov_len = len};

    vip_wire_seal(&iov, 1);
}

/* Send forged[0..len-1] to the end at the other side. It must change nothing there. */
static void refuses(struct ends *ends, size_t len, uint64_t *(*counter)(struct vipl__loan_counts *))
{
    struct vipl__loan_counts before = counts_of(&ends->b), after;
    struct vip_loan_checkpoint was = checkpoint_of(&ends->b), is;

    assert_int_equal(send(ends->a.terms.sock, forged, len, 0), len);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    after = counts_of(&ends->b);
    is = checkpoint_of(&ends->b);
    assert_int_equal(*counter(&after), *counter(&before) + 1);
    assert_int_equal(after.rx, before.rx);
    assert_int_equal(after.tx, before.tx);
    assert_memory_equal(&was, &is, sizeof(was));
    assert_true(timer_of(&ends->b) == UINT64_MAX);
}

static uint64_t *drop_crc(struct vipl__loan_counts *counts)
{
    return &counts->drop[VIP_WIRE_CRC_BAD];
}

static uint64_t *drop_short(struct vipl__loan_counts *counts)
{
    return &counts->drop[VIP_WIRE_SHORT];
}

static uint64_t *drop_long(struct vipl__loan_counts *counts)
{
    return &counts->drop_long;
}

static uint64_t *drop_kind(struct vipl__loan_counts *counts)
{
    return &counts->drop_kind;
}

static uint64_t *drop_conn(struct vipl__loan_counts *counts)
{
    return &counts->drop_conn;
}

static uint64_t *drop_dst_epoch(struct vipl__loan_counts *counts)
{
    return &counts->drop_dst_epoch;
}

static uint64_t *drop_src_epoch(struct vipl__loan_counts *counts)
{
    return &counts->drop_src_epoch;
}

static uint64_t *drop_reserved(struct vipl__loan_counts *counts)
{
    return &counts->drop[VIP_WIRE_RESERVED];
}

static void put_header(struct vip_header hdr)
{
    memset(forged, 0, sizeof(forged));
    vip_wire_put_header(forged, &hdr);
}

static void forged_packets_change_nothing(void **state)
{
    struct ends *ends = ends_new();
    struct vip_header hdr;
    uint8_t good[PACKET];
    ssize_t len;

    (void)state;
    ends_lend(ends);
    receive_bytes(&ends->b, 0, 100);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_IDLE);
    send_bytes(&ends->a, 0, 100);
    assert_int_equal(vipl__loan_turn(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    len = recv(ends->b.terms.sock, good, sizeof(good), MSG_DONTWAIT);
    assert_true(len > 0);
    assert_int_equal(vip_wire_get_header(good, (size_t)len, &hdr), VIP_WIRE_OK);

    memcpy(forged, good, (size_t)len);
    forged[len - 1] ^= 1;
    refuses(ends, (size_t)len, drop_crc);
    refuses(ends, VIP_WIRE_HEADER_BYTES - 1, drop_short);
    refuses(ends, PACKET + 1, drop_long);

    hdr.conn_id++;
    put_header(hdr);
    memcpy(forged + VIP_WIRE_HEADER_BYTES, good + VIP_WIRE_HEADER_BYTES,
           (size_t)len - VIP_WIRE_HEADER_BYTES);
    seal_forged((size_t)len);
    refuses(ends, (size_t)len, drop_conn);
    hdr.conn_id--;
    hdr.dst_epoch++;
    put_header(hdr);
    seal_forged((size_t)len);
    refuses(ends, (size_t)len, drop_dst_epoch);
    hdr.dst_epoch--;
    put_header(hdr);
    memset(forged + VIP_WIRE_HEADER_BYTES, 0xee, (size_t)len - VIP_WIRE_HEADER_BYTES);
    seal_forged((size_t)len);
    refuses(ends, (size_t)len, drop_reserved);
    hdr.src_epoch++;
    put_header(hdr);
    memcpy(forged + VIP_WIRE_HEADER_BYTES, good + VIP_WIRE_HEADER_BYTES,
           (size_t)len - VIP_WIRE_HEADER_BYTES);
    seal_forged((size_t)len);
    refuses(ends, (size_t)len, drop_src_epoch);
    put_header((struct vip_header){.kind = VIP_PKT_CM, .src_epoch = 1});
    seal_forged(100);
    refuses(ends, 100, drop_kind);

    assert_int_equal(ends->b.dones, 0);
    assert_int_equal(send(ends->a.terms.sock, good, (size_t)len, 0), len);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_came(&ends->b, 1, 1, 0);
    ends_free(ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stay_does_what_is_awaited),
        cmocka_unit_test(the_part_has_the_counts),
        cmocka_unit_test(sends_of_a_stream_wait),
        cmocka_unit_test(a_post_that_cannot_leave),
        cmocka_unit_test(sends_arrive_in_order),
        cmocka_unit_test(both_ends_send_at_once),
        cmocka_unit_test(rdma_writes_consume_a_receive_only_with_immediate_data),
        cmocka_unit_test(rdma_reads_bring_the_peers_bytes),
        cmocka_unit_test(lost_packets_are_repeated),
        cmocka_unit_test(a_packet_ahead_of_its_turn_is_held),
        cmocka_unit_test(a_stay_handles_few_packets),
        cmocka_unit_test(unreliable_sends_complete_when_they_have_left),
        cmocka_unit_test(posts_of_other_threads_are_taken),
        cmocka_unit_test(posts_behind_a_lock_are_taken),
        cmocka_unit_test(threads_share_a_loan),
        cmocka_unit_test(a_timer_that_is_due_sends_in_the_same_stay),
        cmocka_unit_test(forged_packets_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
