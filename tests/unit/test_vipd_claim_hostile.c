/*
 * The segment, the table of receive descriptors and the rings of a claimed session have random
 * contents. One VI or two connected VIs have rings. Tickets are good, changed or random, or name
 * another VI, process or NIC. vipd answers each request, and serves its other programs.
 *
 * usage: test_vipd_claim_hostile [COUNT]; $VIP_SEED: the first seed
 */
#include "unit/vipd_claim.h"

#include "proto/direct.h"
#include "vipd/ticket.h"

#define VIS 8u /* number of VIs that the test uses */

static unsigned rounds = 300;
static uint64_t state_of_dice;
static struct app neighbour;
static bool pair; /* this round has two VIs with a ring and good tickets, often bound together */
static uint32_t received[VIS]; /* number of received messages of each VI in the segment */
static int rings[2];           /* files of the rings of this round */
static unsigned rings_taken, rings_joined;
static uint64_t state_of_round;

static uint64_t dice(uint64_t below)
{
    state_of_dice ^= state_of_dice << 13;
    state_of_dice ^= state_of_dice >> 7;
    state_of_dice ^= state_of_dice << 17;
    return state_of_dice % below;
}

/* Returns a small number, a number at an end of the range, or any number. */
static uint32_t number(void)
{
    switch (dice(4)) {
    case 0:
        return (uint32_t)dice(8);
    case 1:
        return (uint32_t)-dice(8);
    case 2:
        return (uint32_t)(VIP_DESC_PER_QUEUE_MAX - 4 + dice(8));
    default:
        return (uint32_t)dice(UINT64_MAX);
    }
}

/* Write random values to all words of the range, or to some of them. */
static void scribble(char *base, uint64_t at, uint64_t bytes)
{
    uint32_t *words = (uint32_t *)(void *)(base + at);
    uint64_t dense = 1 + dice(4);

    for (uint64_t i = 0; i < bytes / sizeof(*words); i++)
        if (!dice(dense))
            words[i] = number();
}

/* Write the segment's words of a VI so that vipd may go on with the VI's ring. */
static void pair_words(char *base, unsigned vi)
{
    struct vip_vipd_vi *head = vip_vipd_vi(base, vi);

    received[vi] = number();
    head->state = VIP_VIST_CONNECTED;
    head->ended = 0;
    head->ring = dice(16) ? VIP_RING_OPEN : (uint32_t)dice(6);
    head->ring_mute = dice(16) ? 0 : number();
    head->ring_vipd = 5 + (uint32_t)dice(3);
    head->commit.received = received[vi];
    head->loan.taken = head->loan.lent; /* no loan is out */
}

static int hostile_ring(void)
{
    int fd = make_memfd(sizeof(struct vip_direct) - (dice(16) ? 0 : 4096), 0);
    struct vip_direct *map = mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_ptr_not_equal(map, MAP_FAILED);
    for (unsigned i = 0; i < 2 && dice(4); i++) {
        map->way[i].sent = dice(2) ? dice(8) : number();
        scribble((char *)&map->way[i], offsetof(struct vip_direct_way, slot),
                 dice(2) ? 1024 : sizeof(map->way[i].slot) / 2);
        for (uint32_t n = 0; n < 8 && dice(8); n++)
            map->way[i].slot[n].stamp = n + 1;
    }
    munmap(map, sizeof(*map));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, dice(16) ? SEALS_OUTLIVE : F_SEAL_SEAL), 0);
    return fd;
}

static bool try_table(int sock, unsigned vi)
{
    Vip__DirectRequest direct = VIP__DIRECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fd = make_memfd(VIP_RECV_BYTES, 0);
    char *table =
        mmap(NULL, VIP_RECV_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    Vip__Reply *reply;

    assert_ptr_not_equal(table, MAP_FAILED);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t at = (uint64_t)((char *)vip_recv_head(table, (uint16_t)(vi ^ i)) - table);

        scribble(table, at, 64 + 64 * dice(64));
    }
    munmap(table, VIP_RECV_BYTES);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, APP_SEALS), 0);
    request.body_case = VIP__REQUEST__BODY_DIRECT;
    request.direct = &direct;
    reply = ask(sock, &request, &fd, 1);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    vip__reply__free_unpacked(reply, NULL);
    close(fd);
    return true;
}

static int hostile_segment(unsigned vi)
{
    struct vip_vipd_head head = good_head();
    int fd = make_segment(&head, 0600, SEALS_OUTLIVE);
    char *base = mmap(NULL, VIP_VIPD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_ptr_not_equal(base, MAP_FAILED);
    scribble(base, (uint64_t)((char *)vip_vipd_vi(base, vi) - base), sizeof(struct vip_vipd_vi));
    if (dice(2)) {
        vip_vipd_vi(base, vi)->state = VIP_VIST_CONNECTED;
        vip_vipd_vi(base, vi)->ring = VIP_RING_NONE;
        vip_vipd_vi(base, vi)->ended = 0;
        vip_vipd_vi(base, vi)->loan.taken = vip_vipd_vi(base, vi)->loan.lent;
    }
    if (pair) {
        pair_words(base, vi);
        pair_words(base, vi ^ 1);
    }
    for (unsigned queue = 0; queue < 2 && dice(2); queue++) {
        scribble(base, VIP_VIPD_SHORT_OFF + (vi * 2 + queue) * VIP_COMP_UNIT, VIP_COMP_UNIT);
        scribble(base, VIP_VIPD_LONG_OFF + (vi * 2 + queue) * (uint64_t)VIP_COMP_RING_BYTES,
                 dice(2) ? 1024 : VIP_COMP_RING_BYTES);
    }
    if (dice(2))
        scribble(base, VIP_VIPD_CQ_OFF, dice(2) ? 1024 : VIP_VIPD_CQ_STRIDE);
    assert_int_equal(munmap(base, VIP_VIPD_BYTES), 0);
    return fd;
}

/* Make a ticket. The daemon under test has a key of zeros (only main.c reads the key's file). */
static void make_ticket(unsigned vi, uint32_t generation, uint8_t ret[TICKET_BYTES])
{
    static const struct ticket_key key;
    struct ticket ticket = {
        .uid = geteuid() + !dice(8),
        .pid = (uint64_t)getpid() + !dice(8),
        .start_ticks = own_start() + !dice(8),
        .vi = {.vi = (uint16_t)(vi + !dice(8)),
               .generation = generation + !dice(8),
               .args.attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 65536},
               .connected = dice(8) != 0,
               .peer_disc_len = (uint8_t)dice(129),
               .secret = {dice(UINT64_MAX), dice(UINT64_MAX)},
               .asked = dice(2),
               .features = dice(4) ? VIP_FEATURES | VIP_FEATURE_REBIND : number(),
               .completed = number(),
               .done = number()}};

    if (pair) {
        ticket.uid = geteuid();
        ticket.pid = (uint64_t)getpid();
        ticket.start_ticks = own_start();
        ticket.vi.vi = (uint16_t)vi;
        ticket.vi.generation = generation;
        ticket.vi.connected = true;
        ticket.vi.secret = (struct siphash_key){state_of_round, 7};
        ticket.vi.asked = vi & 1;
        ticket.vi.features = VIP_FEATURES | VIP_FEATURE_REBIND;
        ticket.vi.completed = ticket.vi.done = 0;
    }
    snprintf(ticket.nic, sizeof(ticket.nic), dice(pair ? 32 : 8) ? "vip0" : "vip1");
    ticket.self.len = sizeof(neighbour.address);
    memcpy(ticket.self.bytes, neighbour.address, sizeof(neighbour.address));
    ticket.vi.peer = ticket.self; /* the peer is this host, so vipd sends nothing to other hosts */
    ticket.vi.peer.bytes[3] += (uint8_t)(pair ? 0 : dice(2));
    ticket_seal(&key, &ticket, ret);
    if (!dice(pair ? 16 : 4))
        ret[dice(TICKET_BYTES)] ^= (uint8_t)(1 + dice(255));
}

/* Send the request with descriptor fd (-1: none). Returns false if vipd has ended the session. */
static bool try_with(int sock, const Vip__Request *request, int fd)
{
    ProtobufCMessage *message = NULL;
    struct vip_fds fds = VIP_FDS_NONE;
    int r = vip_control_ask(sock, &request->base, &fd, fd >= 0, &vip__reply__descriptor, &message,
                            &fds);

    if (r < 0)
        return false;
    rings_taken += fd >= 0 && ((Vip__Reply *)message)->code == VIP_RC_SUCCESS;
    vip_fds_close(&fds);
    protobuf_c_message_free_unpacked(message, NULL);
    return true;
}

static bool try(int sock, const Vip__Request *request)
{
    return try_with(sock, request, -1);
}

static bool try_cq(int sock)
{
    Vip__CqRequest cq = VIP__CQ_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    cq.has_cq = true;
    cq.cq = (uint32_t)dice(2);
    request.body_case = VIP__REQUEST__BODY_CREATE_CQ;
    request.create_cq = &cq;
    return try(sock, &request);
}

static bool try_vi(int sock, unsigned vi)
{
    Vip__PastVi past = VIP__PAST_VI__INIT;
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request request = vi_request(&create, &attributes);
    uint8_t ticket[TICKET_BYTES];

    create.past = &past;
    past.has_vi = past.has_generation = past.has_recv_base = past.has_idle = true;
    past.has_send_entries = past.has_recv_entries = true;
    past.vi = vi;
    past.generation = number();
    past.recv_base = number();
    past.idle = !dice(8);
    past.send_entries = number();
    past.recv_entries = number();
    make_ticket(vi, past.generation, ticket);
    past.has_ticket = dice(8) != 0;
    past.ticket.data = ticket;
    past.ticket.len = dice(8) ? TICKET_BYTES : dice(TICKET_BYTES);
    create.has_send_cq = dice(2);
    create.has_recv_cq = dice(2);
    create.send_cq = create.recv_cq = (uint32_t)dice(2);
    if (!pair)
        return try(sock, &request);
    past.has_ticket = true;
    past.ticket.len = TICKET_BYTES;
    past.idle = false;
    create.has_send_cq = create.has_recv_cq = false;
    past.has_ring_half = past.has_ring_first = true;
    past.ring_half = dice(16) ? vi & 1 : number();
    past.ring_first = dice(8) ? received[vi] + past.recv_base - 5 : number();
    return try_with(sock, &request, rings[!dice(16)]) && (dice(4) || try(sock, &request));
}

static bool try_about(int sock, unsigned vi, Vip__Request__BodyCase what)
{
    Vip__ViRequest body = VIP__VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    body.has_vi = true;
    body.vi = vi;
    request.body_case = what;
    request.rebind = &body; /* all these requests have the type of this member */
    return try(sock, &request);
}

static void come_back(unsigned vi)
{
    int segment = hostile_segment(vi), sock;
    struct vip_fds fds;
    Vip__Reply *reply;
    enum vip_rc code;

    for (;;) {
        sock = offer(segment, &reply, &fds);
        code = (enum vip_rc)reply->code;
        vip__reply__free_unpacked(reply, NULL);
        if (code != VIP_RC_ERROR_RESOURCE)
            break;
        close(sock); /* the memory of earlier rounds is not freed yet */
    }
    assert_int_equal(code, VIP_RC_SUCCESS);
    (void)((dice(2) && !pair ? true : try_table(sock, vi)) && try_cq(sock) && try_cq(sock) &&
           try_vi(sock, vi) && try_about(sock, vi, VIP__REQUEST__BODY_REBIND) &&
           try_vi(sock, vi ^ 1) && (!pair || try_about(sock, vi ^ 1, VIP__REQUEST__BODY_REBIND)) &&
           (dice(2) || try_about(sock, vi, VIP__REQUEST__BODY_DISCONNECT)) &&
           (dice(2) || try_about(sock, vi, VIP__REQUEST__BODY_DESTROY_VI)));
    close(sock);
    vip_fds_close(&fds);
    close(segment);
}

static void test_hostile(void **state)
{
    const char *seed = getenv("VIP_SEED");
    unsigned taken;
    uint64_t first = seed ? strtoull(seed, NULL, 10) : 1;

    (void)state;
    neighbour = open_app("vip0");
    for (unsigned i = 0; i < rounds; i++) {
        state_of_dice = (first + i) * 0x9e3779b97f4a7c15u | 1;
        state_of_round = state_of_dice;
        pair = dice(2);
        for (unsigned r = 0; r < 2; r++)
            rings[r] = hostile_ring();
        taken = rings_taken;
        come_back((unsigned)dice(VIS));
        rings_joined += rings_taken == taken + 2;
        for (unsigned r = 0; r < 2; r++)
            close(rings[r]);
        if (i % 100 == 99)
            assert_alive(&neighbour);
    }
    close_app(&neighbour);
    print_message("%u ends with a ring, %u pairs\n", rings_taken, rings_joined);
    if (!seed && rounds >= 100)
        assert_true(rings_joined > rounds / 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),
    };

    if (argc > 1)
        rounds = (unsigned)strtoul(argv[1], NULL, 10);
    return cmocka_run_group_tests_name("vipd_claim_hostile", tests, start_daemon, stop_daemon);
}
