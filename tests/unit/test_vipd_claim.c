/*
 * A program claims its session with the segment of an earlier vipd. The test can make such segments
 * itself, because it runs as vipd's user. vipd must accept only a good segment, only once, and only
 * from the process that the segment names.
 */
#include "unit/vipd_claim.h"

#include "vipd/history.h"

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

/* Claim with a file that is not one of vipd's. */
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

/* Claim the segment of a session that this vipd has. */
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

/* A good segment is accepted once. Only programs with a claim may name old numbers. */
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
    past.ticket.data = junk; /* a false ticket: the VI is restored without a connection */
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

/* Get the text of the event at the end of the grace time; "": there is no such event yet. */
static void told(char *text, size_t bytes)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();
    Vip__Reply *reply;

    text[0] = '\0';
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__EVENT;
    reply = ask(sock, &request, NULL, 0);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    for (size_t i = 0; i < reply->show->n_events; i++)
        if (strcmp(reply->show->events[i]->kind, "returned") == 0)
            snprintf(text, bytes, "%s", reply->show->events[i]->text);
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
}

/* After the first refusal vipd waits for the grace time. Then it reports what it has refused. */
static void test_told(void **state)
{
    struct vip_vipd_head head = good_head();
    char text[HISTORY_TEXT_BYTES];

    (void)state;
    told(text, sizeof(text));
    assert_string_equal(text, "");
    refused(make_segment(&head, 0644, SEALS_OUTLIVE), "none that a vipd");
    do {
        usleep(10000);
        told(text, sizeof(text));
    } while (!*text);
    if (!strstr(text, "0 connections of an earlier vipd came back, 0 did not; 1 NIC handles were "
                      "refused: 1 because ") ||
        !strstr(text, "is none that a vipd of this user has made"))
        fail_msg("%s", text);
}

static void drain(Vip__AdminRequest__What what)
{
    Vip__AdminRequest admin = VIP__ADMIN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();
    struct vip_fds fds;
    Vip__Reply *reply;

    admin.has_what = true;
    admin.what = what;
    request.body_case = VIP__REQUEST__BODY_ADMIN;
    request.admin = &admin;
    assert_int_equal(vip_control_send(sock, &request.base, NULL, 0, 0), 0);
    reply = receive(sock, &fds);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
}

/* A drained vipd opens no NIC, but it takes over the session of a program that comes back. */
static void test_drained(void **state)
{
    struct vip_vipd_head head = good_head();
    int fd = make_segment(&head, 0600, SEALS_OUTLIVE), sock;
    struct vip_fds fds;
    Vip__Reply *reply;

    (void)state;
    drain(VIP__ADMIN_REQUEST__WHAT__DRAIN);
    sock = offer(fd, &reply, &fds);
    drain(VIP__ADMIN_REQUEST__WHAT__RESUME);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    vip__reply__free_unpacked(reply, NULL);
    vip_fds_close(&fds);
    close(sock);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drained),         cmocka_unit_test(test_told),
        cmocka_unit_test(test_files),           cmocka_unit_test(test_heads),
        cmocka_unit_test(test_present_session), cmocka_unit_test(test_once),
    };

    return cmocka_run_group_tests_name("vipd_claim", tests, start_daemon, stop_daemon);
}
