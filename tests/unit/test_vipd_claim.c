/*
 * A program that comes back with the segment of an earlier vipd. The test makes such segments itself, because it runs as
 * vipd's user: vipd must take over a good one only, once, and from the process that it names.
 */
#define DAEMON_CONFIG(config) ((config)->outlive_ns = 1000000000)

#include <sys/stat.h>

#include "unit/vipd_app.h"

#define SEALS_OUTLIVE (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

/* When this process began; by the field after the last bracket of its stat file. */
static uint64_t own_start(void)
{
    char text[1024] = "";
    FILE *file = fopen("/proc/self/stat", "re");
    unsigned long long start = 0;

    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    assert_int_equal(
        sscanf(strrchr(text, ')') + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
               "%*d %llu",
               &start),
        1);
    return start;
}

static struct vip_vipd_head good_head(void)
{
    return (struct vip_vipd_head){.magic = VIP_SHM_VIPD_MAGIC,
                                  .abi = VIP_SHM_ABI,
                                  .bytes = VIP_VIPD_BYTES,
                                  .epoch = 7,
                                  .start_ticks = own_start(),
                                  .pid = (uint32_t)getpid(),
                                  .uid = geteuid()};
}

static int make_segment(const struct vip_vipd_head *head, mode_t mode, int seals)
{
    int fd = make_memfd(VIP_VIPD_BYTES, 0);

    assert_int_equal(pwrite(fd, head, sizeof(*head), 0), sizeof(*head));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* Offer the segment. Returns the connection; *ret is the reply, *ret_fds its descriptors. */
static int offer(int segment, Vip__Reply **ret, struct vip_fds *ret_fds)
{
    Vip__Claim claim = VIP__CLAIM__INIT;
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fds[3] = {make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC), make_arena(),
                  segment};
    int sock = connect_daemon();

    open.has_abi = true;
    open.abi = VIP_SHM_ABI;
    open.device = (char *)"vip0";
    open.claim = &claim;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    assert_int_equal(vip_control_send(sock, &request.base, fds, 3, 0), 0);
    close(fds[0]);
    close(fds[1]);
    *ret = receive(sock, ret_fds);
    assert_int_equal(ret_fds->count, (*ret)->code == VIP_RC_SUCCESS ? 3 : 0);
    return sock;
}

static void refused(int segment, const char *word)
{
    struct vip_fds fds;
    Vip__Reply *reply;
    int sock = offer(segment, &reply, &fds);

    if (reply->code != VIP_RC_INVALID_STATE || !strstr(reply->reason, word))
        fail_msg("%u %s (want %u and '%s')", reply->code, reply->reason, VIP_RC_INVALID_STATE,
                 word);
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
    close(segment);
}

static void refused_head(struct vip_vipd_head head, const char *word)
{
    refused(make_segment(&head, 0600, SEALS_OUTLIVE), word);
}

/* A file that is none of vipd's. */
static void test_files(void **state)
{
    struct vip_vipd_head head = good_head();
    int pair[2];

    (void)state;
    refused(make_segment(&head, 0644, SEALS_OUTLIVE), "none that a vipd");
    refused(make_segment(&head, 0600, F_SEAL_SHRINK | F_SEAL_GROW), "none that a vipd");
    refused(make_segment(&head, 0600, APP_SEALS), "none that a vipd");
    assert_int_equal(pipe(pair), 0);
    close(pair[1]);
    refused(pair[0], "is not a memfd");
}

static void test_heads(void **state)
{
    struct vip_vipd_head head = good_head();

    (void)state;
    head.abi++;
    refused_head(head, "another shared-memory ABI");
    head = good_head();
    head.pid++;
    refused_head(head, "another process");
    head = good_head();
    head.uid++;
    refused_head(head, "another process");
    head = good_head();
    head.start_ticks++;
    refused_head(head, "another process");
    head = good_head();
    head.closed = 1;
    refused_head(head, "has ended");
}

/* The segment of a session that this vipd has. */
static void test_present_session(void **state)
{
    struct app app = open_app("vip0");

    (void)state;
    refused(fcntl(app.segment, F_DUPFD_CLOEXEC, 0), "taken over already");
    assert_alive(&app);
    close_app(&app);
}

static Vip__Request ptag_request(Vip__PtagRequest *ptag, uint32_t number)
{
    Vip__Request request = VIP__REQUEST__INIT;

    vip__ptag_request__init(ptag);
    ptag->has_ptag = true;
    ptag->ptag = number;
    request.body_case = VIP__REQUEST__BODY_CREATE_PTAG;
    request.create_ptag = ptag;
    return request;
}

/* A good segment is taken over once. Then old numbers may be named; without it they may not. */
static void test_once(void **state)
{
    struct vip_vipd_head head = good_head();
    int segment = make_segment(&head, 0600, SEALS_OUTLIVE);
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__PtagRequest ptag;
    Vip__Request request = ptag_request(&ptag, 5);
    struct app other = open_app("vip0");
    Vip__PastVi past = VIP__PAST_VI__INIT;
    uint8_t junk[289] = {1};
    struct vip_fds fds;
    Vip__Reply *reply;
    int sock = offer(segment, &reply, &fds);

    (void)state;
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    vip__reply__free_unpacked(reply, NULL);
    refused(fcntl(segment, F_DUPFD_CLOEXEC, 0), "taken over already");
    assert_int_equal(ask_code(sock, &request, VIP_RC_SUCCESS, NULL), 5);
    ask_code(sock, &request, VIP_RC_INVALID_PARAMETER, "in use");
    ask_code(other.sock, &request, VIP_RC_INVALID_STATE, "earlier vipd");

    request = vi_request(&create, &attributes);
    create.past = &past;
    past.has_vi = past.has_generation = past.has_ticket = true;
    past.vi = 3;
    past.generation = 9;
    past.ticket.data = junk; /* of no vipd: the VI comes back without a connection */
    past.ticket.len = sizeof(junk);
    ask_code(sock, &request, VIP_RC_SUCCESS, NULL);
    ask_code(sock, &request, VIP_RC_INVALID_PARAMETER, "in use");
    past.vi = 4000000;
    ask_code(sock, &request, VIP_RC_INVALID_PARAMETER, "limit");
    ask_code(other.sock, &request, VIP_RC_INVALID_STATE, "earlier vipd");
    assert_alive(&other);
    close_app(&other);
    vip_fds_close(&fds);
    close(sock);
    close(segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_present_session),
        cmocka_unit_test(test_once),
    };

    return cmocka_run_group_tests_name("vipd_claim", tests, start_daemon, stop_daemon);
}
