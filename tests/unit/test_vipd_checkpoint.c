/*
 * A vipd-writes segment as bytes (tests/vectors/checkpoint). Each later vipd with this ABI must be
 * able to read it. Vectors and test have places and values as numbers, as in doc/shm-abi.md, so a
 * change of the layout without a new ABI fails. A new ABI gets its own vectors. The vectors of each
 * ABI that vipd accepts stay.
 */
#include "unit/vipd_claim.h"

#include "unit/wire_vectors.h"
#include "vipd/nic/outlive.h"

#define ABI          4u
#define BYTES        0x1A811000u
#define VI           3u
#define HEADS_AT     0x8011000u
#define HEAD_BYTES   128u
#define RINGS_AT     0x8811000u
#define RING_BYTES   256u
#define PID_AT       264
#define UID_AT       268
#define START_AT     256
#define CLOSED_AT    272
#define VI_AT(field) (HEADS_AT + VI * HEAD_BYTES + (field))

static void put(int fd, const char *name, uint64_t at, size_t want)
{
    uint8_t bytes[VECTOR_BYTES_MAX];
    size_t len = vector_load(name, bytes);

    assert_int_equal(len, want);
    assert_int_equal(pwrite(fd, bytes, len, (off_t)at), len);
}

static void put32(int fd, uint64_t at, uint32_t value)
{
    assert_int_equal(pwrite(fd, &value, sizeof(value), (off_t)at), sizeof(value));
}

/* Make this process's segment. `value` replaces the vectors' value at `at` (0: replace nothing). */
static int segment(uint64_t at, uint32_t value)
{
    uint64_t start = own_start();
    int fd = make_memfd(BYTES, 0);

    put(fd, "checkpoint/abi4_head", 0, 512);
    put(fd, "checkpoint/abi4_vi", VI_AT(0), HEAD_BYTES);
    put(fd, "checkpoint/abi4_sends", RINGS_AT + VI * 2 * RING_BYTES, RING_BYTES);
    assert_int_equal(pwrite(fd, &start, sizeof(start), START_AT), sizeof(start));
    put32(fd, PID_AT, (uint32_t)getpid());
    put32(fd, UID_AT, geteuid());
    if (at)
        put32(fd, at, value);
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS_OUTLIVE), 0);
    return fd;
}

/* Offer the segment to vipd. refusal: NULL, or a word of the expected reason. */
static void offer_it(int fd, const char *refusal)
{
    struct vip_fds fds;
    Vip__Reply *reply;
    int sock = offer(fd, &reply, &fds);

    if (reply->code != (refusal ? VIP_RC_INVALID_STATE : VIP_RC_SUCCESS) ||
        (refusal && !strstr(reply->reason, refusal)))
        fail_msg("%u %s (want %s)", reply->code, reply->reason, refusal ? refusal : "success");
    vip__reply__free_unpacked(reply, NULL);
    vip_fds_close(&fds);
    close(sock);
    close(fd);
}

/* vipd accepts a good segment. It refuses an ended session, another process and another ABI. */
static void test_head(void **state)
{
    (void)state;
    if (VIP_SHM_ABI != ABI)
        fail_msg("ABI %u has no vectors: add tests/vectors/checkpoint/abi%u_*.hex", VIP_SHM_ABI,
                 VIP_SHM_ABI);
    offer_it(segment(0, 0), NULL);
    offer_it(segment(CLOSED_AT, 1), "has ended");
    offer_it(segment(PID_AT, 1), "another process");
    offer_it(segment(4, ABI + 1), "another shared-memory ABI");
}

/* vipd refuses the claim of a libvipl with a higher ABI, and names both numbers. */
static void test_higher_abi(void **state)
{
    Vip__Claim claim = VIP__CLAIM__INIT;
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fds[3] = {make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC), make_arena(),
                  segment(4, ABI + 1)};
    int sock = connect_daemon();
    struct vip_fds got;
    Vip__Reply *reply;

    (void)state;
    open.has_abi = true;
    open.abi = ABI + 1;
    open.device = (char *)"vip0";
    open.claim = &claim;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    assert_int_equal(vip_control_send(sock, &request.base, fds, 3, 0), 0);
    reply = receive(sock, &got);
    assert_int_equal(reply->code, VIP_RC_ERROR_RESOURCE);
    assert_non_null(strstr(reply->reason, "the library has shared-memory ABI 5, vipd"));
    assert_non_null(strstr(reply->reason, "install the same version of both"));
    vip__reply__free_unpacked(reply, NULL);
    for (unsigned i = 0; i < 3; i++)
        close(fds[i]);
    close(sock);
}

/* Returns what vipd reads about VI 3 in the segment. */
static struct nic_vi_checkpoint recovered(uint64_t at, uint32_t value)
{
    int fd = segment(at, value);
    struct nic_vi_checkpoint past = {.vi = VI, .generation = 9, .connected = true};
    void *base = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    assert_true(base != MAP_FAILED);
    nic_vi_recover(base, &past, &(struct nic_past_loan){0});
    munmap(base, BYTES);
    close(fd);
    return past;
}

static void test_vi(void **state)
{
    struct nic_vi_checkpoint past = recovered(0, 0);

    (void)state;
    assert_true(past.connected && !past.lost && !past.lost_told);
    assert_int_equal(past.completed,
                     106); /* send_base and six completions, one of which does not count */
    assert_int_equal(past.done, 0xfffffff0u);
    past = recovered(RINGS_AT + VI * 2 * RING_BYTES + 5 * 32, 0); /* completion 5 has no stamp */
    assert_int_equal(past.completed, 105);
    past = recovered(VI_AT(44), 1); /* the connection has ended */
    assert_true(!past.connected && past.lost && !past.lost_told);
    past = recovered(VI_AT(16), 1); /* the ring is open */
    assert_true(past.connected && !past.lost);
    past = recovered(VI_AT(16), 3); /* the ring has ended */
    assert_true(!past.connected && past.lost && !past.lost_told);
    past = recovered(VI_AT(8), 3); /* the state is Error */
    assert_true(!past.connected && past.lost && past.lost_told);
    past = recovered(VI_AT(8), 0); /* the state is Idle */
    assert_true(!past.connected && !past.lost);
    past = recovered(VI_AT(64 + 4), 0x7fffffff); /* `at[0].where` is no ring of this VI */
    assert_int_equal(past.completed, 105);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_higher_abi),
        cmocka_unit_test(test_vi),
    };

    return cmocka_run_group_tests_name("vipd_checkpoint", tests, start_daemon, stop_daemon);
}
