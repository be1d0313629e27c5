/* The socket of a loan: packets that leave and arrive together, and what a socket may refuse. */
#include "unit/loan_ends.h"

#include <errno.h>
#include <netinet/udp.h>

#include "libvipl/lent_sock.h"
#include "libvipl/loan/sock.h"

/* ---- packets that leave together -------------------------------------------------------- */

/* Let the end's socket join packets that arrive. */
static void join_at(const struct end *end)
{
    int one = 1;

    assert_int_equal(setsockopt(end->terms.sock, SOL_UDP, UDP_GRO, &one, sizeof(one)), 0);
}

/* Bytes of the next message at the end's socket; 0: none waits. */
static uint32_t waits_at(const struct end *end)
{
    ssize_t got = recv(end->terms.sock, NULL, 0, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);

    return got > 0 ? (uint32_t)got : 0;
}

/* Take the next message. Returns its bytes. */
static uint32_t take_at(const struct end *end)
{
    static uint8_t bytes[VIP_PACKET_BYTES_MAX];
    ssize_t got = recv(end->terms.sock, bytes, sizeof(bytes), MSG_DONTWAIT);

    return got > 0 ? (uint32_t)got : 0;
}

/* Sends of these lengths. One stay sends them, in as many packets: with headers, all packets but the
 * last one are full. */
static void send_each(struct ends *ends, unsigned count, const uint32_t *len)
{
    fill(&ends->a, 7);
    for (unsigned i = 0; i < count; i++) {
        receive_bytes(&ends->b, PACKET * i, len[i]);
        send_bytes(&ends->a, PACKET * i, len[i]);
    }
    assert_int_equal(vipl__loan_turn(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_int_equal(counts_of(&ends->a).tx, count);
}

static void assert_each(const struct ends *ends, unsigned count, const uint32_t *len)
{
    assert_int_equal(ends->b.dones, count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(ends->b.done[i].status, VIP_ST_DONE | VIP_ST_OP_RECEIVE);
        assert_int_equal(ends->b.done[i].length, len[i]);
        assert_memory_equal(ends->b.memory + PACKET * i, ends->a.memory + PACKET * i, len[i]);
    }
}

/* A stay takes one packet of a message, because each completes a receive. The next stays need no
 * look at the socket, and the timer says that they must come. */
static void joined_packets_are_taken_one_by_one(void **state)
{
    static const uint32_t len[3] = {1200, 1200, 1200};
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    join_at(&ends->b);
    send_each(ends, 3, len);
    assert_in_range(waits_at(&ends->b), 3 * 1200, 3 * PACKET);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
        assert_int_equal(ends->b.dones, i + 1);
        assert_int_equal(waits_at(&ends->b), 0);
        assert_int_equal(timer_of(&ends->b) == ends->now_ns, i < 2);
    }
    assert_each(ends, 3, len);
    run(ends);
    assert_came(&ends->a, 0, 0, 3);
    ends_free(ends);
}

/* A packet of this many bytes. Its header is in its own memory, the rest is not. */
static void packet_make(struct path_tx *tx, uint32_t bytes)
{
    static uint8_t rest[PACKET];

    memset(tx, 0, sizeof(*tx));
    tx->packet.bytes = bytes;
    tx->packet.copy = true;
    tx->iov_count = 3;
    tx->iov[0] = (struct iovec){tx->packet.head, VIP_WIRE_HEADER_BYTES};
    tx->iov[1] = (struct iovec){rest, 0};
    tx->iov[2] = (struct iovec){rest, bytes - VIP_WIRE_HEADER_BYTES};
}

/* The kernel cuts a message into equal packets, of which only the last one may be shorter. */
static void a_shorter_packet_ends_a_burst(void **state)
{
    static const uint32_t bytes[] = {1400, 1300, 1300, 1300, 1350, 1400, 1400, 100};
    static const uint32_t message[] = {2700, 2600, 1350, 2900};
    static uint8_t memory[VIP_PACKET_BYTES_MAX];
    struct ends *ends = ends_new();
    struct vipl__burst burst = {.memory = memory};
    struct path_tx tx;

    (void)state;
    join_at(&ends->b);
    for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        packet_make(&tx, bytes[i]);
        if (!vipl__burst_joins(&burst, &tx))
            assert_int_equal(vipl__burst_send(&burst, ends->a.terms.sock), 0);
        vipl__burst_add(&burst, &tx);
    }
    assert_int_equal(vipl__burst_send(&burst, ends->a.terms.sock), 0);
    for (unsigned i = 0; i < sizeof(message) / sizeof(message[0]); i++)
        assert_int_equal(take_at(&ends->b), message[i]);
    assert_int_equal(waits_at(&ends->b), 0);
    ends_free(ends);
}

/* Large transfers in both directions, with packets joined at both ends. */
static void joined_packets_bring_every_byte(void **state)
{
    struct ends *ends = ends_new();
    uint32_t most = 0;

    (void)state;
    ends_lend(ends);
    join_at(&ends->a);
    join_at(&ends->b);
    fill(&ends->a, 8);
    fill(&ends->b, 9);
    memset(ends->b.memory, 0, MEMORY / 2);
    rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAWRITE, 0, 0, MEMORY / 2 - 1, 0);
    rdma(&ends->b, &ends->a, VIP_CTL_OP_RDMAWRITE, MEMORY / 2, MEMORY / 2, MEMORY / 2, 0);
    for (unsigned i = 0; i < 20; i++) {
        (void)vipl__loan_turn(ends->a.loan, ends->now_ns);
        most = waits_at(&ends->b) > most ? waits_at(&ends->b) : most;
        (void)vipl__loan_turn(ends->b.loan, ends->now_ns);
    }
    assert_true(most >= 8 * PACKET);
    run(ends);
    assert_memory_equal(ends->b.memory, ends->a.memory, MEMORY / 2 - 1);
    assert_int_equal(ends->b.memory[MEMORY / 2 - 1], 0);
    assert_memory_equal(ends->b.memory + MEMORY / 2, ends->a.memory + MEMORY / 2, MEMORY / 2);
    assert_int_equal(counts_of(&ends->a).tx_lost, 0);
    ends_free(ends);
}

/* A loan that ends drops what its inbox has: these packets belong to the old binding. */
static void a_loan_that_ends_drops_its_inbox(void **state)
{
    static const uint32_t len[3] = {1200, 1200, 1200};
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    join_at(&ends->b);
    send_each(ends, 3, len);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    ends->b.terms.checkpoint = checkpoint_of(&ends->b);
    ends->b.terms.peer.done = ends->b.terms.checkpoint.completed;
    ends->b.terms.receive = 1;
    ends->b.terms.number++;
    vipl__loan_end(ends->b.loan);
    end_lend(ends, &ends->b, ends->now_ns);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_IDLE);
    assert_int_equal(ends->b.dones, 1);
    ends_free(ends);
}

/* A kernel that computes no checksum for the socket takes no joined packets. */
static void without_joining_packets_leave_one_by_one(void **state)
{
    static const uint32_t len[3] = {1200, 1200, 1100};
    struct ends *ends = ends_new();
    int one = 1;

    (void)state;
    ends_lend(ends);
    join_at(&ends->b);
    assert_int_equal(setsockopt(ends->a.terms.sock, SOL_SOCKET, SO_NO_CHECK, &one, sizeof(one)), 0);
    send_each(ends, 3, len);
    assert_int_equal(counts_of(&ends->a).tx_lost, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_in_range(waits_at(&ends->b), 1, PACKET);
        assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_DID);
    }
    assert_each(ends, 3, len);
    run(ends);
    assert_came(&ends->a, 0, 0, 3);
    ends_free(ends);
}

/* ---- what a socket refuses -------------------------------------------------------------- */

/* Without a peer the socket takes no packet. A stay tries once and does not block. */
static void packets_that_the_socket_refuses_are_lost(void **state)
{
    struct ends *ends = ends_new();
    struct sockaddr none = {.sa_family = AF_UNSPEC};

    (void)state;
    ends_lend(ends);
    fill(&ends->a, 6);
    rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAWRITE, 0, 0, 50000, 0);
    assert_int_equal(connect(ends->a.terms.sock, &none, sizeof(none)), 0);
    assert_int_equal(vipl__loan_turn(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_int_equal(counts_of(&ends->a).tx, 0);
    assert_in_range(counts_of(&ends->a).tx_lost, 1, VIPL__BURST_PACKETS + 1);
    assert_true(timer_of(&ends->a) != UINT64_MAX);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_IDLE);

    /* The socket has lost its port, too. */
    socket_connect(ends->a.terms.sock, ends->b.terms.sock);
    socket_connect(ends->b.terms.sock, ends->a.terms.sock);
    run(ends);
    assert_memory_equal(ends->b.memory, ends->a.memory, 50000);
    assert_came(&ends->a, 0, 0, 1);
    ends_free(ends);
}

/* vipd shuts the socket of a program down that does not leave a loan. */
static void a_socket_that_is_shut_down_is_harmless(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    assert_int_equal(shutdown(ends->a.terms.sock, SHUT_RDWR), 0);
    assert_int_equal(vipl__loan_turn(ends->a.loan, ends->now_ns), VIPL__LOAN_IDLE);
    send_bytes(&ends->a, 0, 10);
    assert_int_equal(vipl__loan_turn(ends->a.loan, ends->now_ns), VIPL__LOAN_DID);
    assert_int_equal(counts_of(&ends->a).tx, 0);
    assert_int_equal(counts_of(&ends->a).tx_lost, 1);
    ends_free(ends);
}

/* The peer's host answers that no socket has the port: the program goes on. */
static void a_peer_without_a_socket_is_harmless(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    ends_lend(ends);
    close(ends->b.terms.sock);
    send_bytes(&ends->a, 0, 10);
    for (unsigned i = 0; i < 5; i++) {
        (void)vipl__loan_turn(ends->a.loan, ends->now_ns);
        ends->now_ns += 30 * MS;
    }
    assert_int_equal(ends->a.dones, 0);
    assert_true(counts_of(&ends->a).tx >= 1);
    ends->b.terms.sock = -1;
    ends_free(ends);
}

/* ---- the program's socket --------------------------------------------------------------- */

static int option_of(int sock, int level, int option)
{
    int value = 0;
    socklen_t len = sizeof(value);

    assert_int_equal(getsockopt(sock, level, option, &value, &len), 0);
    return value;
}

static void the_programs_socket(void **state)
{
    static const uint8_t self[4] = {127, 0, 0, 1};
    static const uint8_t host[6] = {127, 0, 0, 1, 0x12, 0x34};
    int plain = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), sock = vipl__lent_sock(self);
    struct sockaddr_in addr = address_of(sock);

    (void)state;
    assert_int_equal(addr.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_not_equal(addr.sin_port, 0);
    assert_int_equal(option_of(sock, SOL_UDP, UDP_GRO), 1);
    assert_int_equal(option_of(sock, IPPROTO_IP, IP_MTU_DISCOVER), IP_PMTUDISC_PROBE);
    /* The system may allow no more than it gives to every socket. */
    assert_true(option_of(sock, SOL_SOCKET, SO_RCVBUF) >= option_of(plain, SOL_SOCKET, SO_RCVBUF));
    assert_true(vipl__lent_sock_connect(sock, host, sizeof(host)));
    assert_false(vipl__lent_sock_connect(sock, host, sizeof(host) - 1));
    close(plain);
    close(sock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joined_packets_are_taken_one_by_one),
        cmocka_unit_test(a_shorter_packet_ends_a_burst),
        cmocka_unit_test(joined_packets_bring_every_byte),
        cmocka_unit_test(a_loan_that_ends_drops_its_inbox),
        cmocka_unit_test(without_joining_packets_leave_one_by_one),
        cmocka_unit_test(packets_that_the_socket_refuses_are_lost),
        cmocka_unit_test(a_socket_that_is_shut_down_is_harmless),
        cmocka_unit_test(a_peer_without_a_socket_is_harmless),
        cmocka_unit_test(the_programs_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
