/*
 * The views of objects, statistics and history, and the requests of administrators, as raw messages
 * to a daemon.
 */
#include <grp.h>
#include <sys/stat.h>

#include "unit/vipd_app.h"

#include "proto/stats.h"

static Vip__Reply *show(int sock, Vip__ShowRequest__What what, uint64_t cursor)
{
    Vip__ShowRequest show_request = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply;

    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show_request;
    show_request.has_what = show_request.has_cursor = true;
    show_request.what = what;
    show_request.cursor = cursor;
    reply = ask(sock, &request, NULL, 0);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    assert_non_null(reply->show);
    return reply;
}

/* vipd shows each statistic of the table once, for the NIC or for vipd, with unit and help text. */
static void test_every_statistic_is_shown(void **state)
{
    unsigned seen[VIP_STATS] = {0};
    int sock = connect_daemon();
    uint64_t cursor = 0;
    bool more = true;

    (void)state;
    while (more) {
        Vip__Reply *reply = show(sock, VIP__SHOW_REQUEST__WHAT__STATS, cursor);

        for (size_t i = 0; i < reply->show->n_counters; i++) {
            const Vip__Counter *c = reply->show->counters[i];
            bool nic = strncmp(c->scope, "nic:", 4) == 0;
            unsigned found = 0;

            for (unsigned id = 0; id < VIP_STATS; id++) {
                if (strcmp(vip_stats[id].name, c->name) != 0 ||
                    (vip_stats[id].scope == VIP_STAT_SCOPE_NIC) != nic)
                    continue;
                found++;
                seen[id]++;
                assert_string_equal(c->unit, vip_stats[id].unit);
                assert_string_equal(c->help, vip_stats[id].help);
                assert_string_equal(c->kind, vip_stat_kind_name(vip_stats[id].kind));
            }
            if (found != 1)
                fail_msg("%s %s is %u times in the table", c->scope, c->name, found);
        }
        more = reply->show->has_next_cursor;
        cursor = reply->show->next_cursor;
        vip__reply__free_unpacked(reply, NULL);
    }
    for (unsigned id = 0; id < VIP_STATS; id++)
        if (seen[id] != 1)
            fail_msg("%s was shown %u times", vip_stats[id].name, seen[id]);
    close(sock);
}

static uint32_t make_wait(const struct app *app, const char *disc, uint32_t backlog)
{
    Vip__ConnectWaitRequest wait = VIP__CONNECT_WAIT_REQUEST__INIT;
    Vip__NetAddress local = VIP__NET_ADDRESS__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    local.has_host = local.has_discriminator = true;
    local.host.len = 6;
    local.host.data = (uint8_t *)app->address;
    local.discriminator.len = strlen(disc);
    local.discriminator.data = (uint8_t *)disc;
    wait.local = &local;
    wait.has_backlog = backlog > 0;
    wait.backlog = backlog;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT;
    request.connect_wait = &wait;
    return ask_code(app->sock, &request, VIP_RC_SUCCESS, NULL);
}

static void test_objects(void **state)
{
    struct app app = open_app("vip0");
    Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
    Vip__CqRequest cq = VIP__CQ_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();
    Vip__Reply *reply;
    uint32_t number;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_CREATE_PTAG;
    request.create_ptag = &ptag;
    number = ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    request.body_case = VIP__REQUEST__BODY_CREATE_CQ;
    request.create_cq = &cq;
    cq.has_entries = true;
    cq.entries = 10;
    ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    make_wait(&app, "hello", 0);
    make_wait(&app, "\x01\x02", 4);

    reply = show(sock, VIP__SHOW_REQUEST__WHAT__PTAG, 0);
    assert_int_equal(reply->show->n_ptags, 1);
    assert_int_equal(reply->show->ptags[0]->ptag, number);
    assert_int_equal(reply->show->ptags[0]->users, 0);
    assert_int_equal(reply->show->ptags[0]->pid, getpid());
    vip__reply__free_unpacked(reply, NULL);

    reply = show(sock, VIP__SHOW_REQUEST__WHAT__CQ, 0);
    assert_int_equal(reply->show->n_cqs, 1);
    assert_int_equal(reply->show->cqs[0]->bound, 0);
    assert_false(reply->show->cqs[0]->has_fd);
    vip__reply__free_unpacked(reply, NULL);

    reply = show(sock, VIP__SHOW_REQUEST__WHAT__LISTEN, 0);
    assert_int_equal(reply->show->n_listens, 2);
    assert_string_equal(reply->show->listens[0]->kind, "wait");
    assert_string_equal(reply->show->listens[0]->discriminator, "hello");
    assert_string_equal(reply->show->listens[1]->kind, "listener");
    assert_string_equal(reply->show->listens[1]->discriminator, "0x0102");
    vip__reply__free_unpacked(reply, NULL);

    reply = show(sock, VIP__SHOW_REQUEST__WHAT__LIMIT, 0);
    assert_int_equal(reply->show->n_limits, 11);
    for (size_t i = 0; i < reply->show->n_limits; i++) {
        const Vip__LimitRow *row = reply->show->limits[i];

        assert_int_equal(row->uid, getuid());
        if (strcmp(row->limit, "waits_per_uid") == 0)
            assert_int_equal(row->used, 2);
        if (strcmp(row->limit, "sessions_per_uid") == 0) {
            assert_int_equal(row->used, 1);
            assert_int_equal(row->max, SESSIONS_MAX);
        }
    }
    vip__reply__free_unpacked(reply, NULL);

    reply = show(sock, VIP__SHOW_REQUEST__WHAT__CONN, 0);
    assert_int_equal(reply->show->n_conns, 0);
    vip__reply__free_unpacked(reply, NULL);
    reply = show(sock, VIP__SHOW_REQUEST__WHAT__PEER, 0);
    assert_int_equal(reply->show->n_peers, 0);
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
    close_app(&app);
}

static void test_configuration_has_pages(void **state)
{
    int sock = connect_daemon();
    uint64_t cursor = 0;
    unsigned rows = 0;
    bool more = true, found = false;

    (void)state;
    while (more) {
        Vip__Reply *reply = show(sock, VIP__SHOW_REQUEST__WHAT__CONFIG, cursor);

        rows += (unsigned)reply->show->n_configs;
        for (size_t i = 0; i < reply->show->n_configs; i++) {
            const Vip__ConfigRow *row = reply->show->configs[i];

            assert_null(row->pending);
            if (strcmp(row->section, "limits") == 0 && strcmp(row->key, "sessions_per_uid") == 0) {
                assert_string_equal(row->value, "3");
                assert_string_equal(row->default_, "64");
                assert_string_equal(row->reload, "live");
                found = true;
            }
        }
        more = reply->show->has_next_cursor;
        cursor = reply->show->next_cursor;
        vip__reply__free_unpacked(reply, NULL);
    }
    assert_true(found && rows > 40);
    close(sock);
}

/* A refused request makes an event and a distinct error, with the reason that the program got. */
static void test_what_happened(void **state)
{
    struct app app = open_app("vip0");
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request request = vi_request(&create, &attributes);
    int sock = connect_daemon();
    const Vip__ErrorRow *error = NULL;
    Vip__Reply *reply = show(sock, VIP__SHOW_REQUEST__WHAT__EVENT, UINT64_MAX);
    uint64_t first = reply->show->next_cursor;

    (void)state;
    assert_int_equal(reply->show->n_events, 0);
    vip__reply__free_unpacked(reply, NULL);
    assert_int_equal(first, UINT64_MAX);
    attributes.reliability_level = 0;
    ask_code(app.sock, &request, VIP_RC_INVALID_RELIABILITY_LEVEL, "0x0");

    reply = show(sock, VIP__SHOW_REQUEST__WHAT__ERROR, 0);
    for (size_t i = 0; i < reply->show->n_errors; i++)
        if (strcmp(reply->show->errors[i]->key, "create_vi VIP_INVALID_RELIABILITY_LEVEL") == 0)
            error = reply->show->errors[i];
    assert_non_null(error);
    assert_string_equal(error->kind, "refused");
    assert_true(error->count >= 1 && error->first_ns <= error->last_ns);
    assert_non_null(strstr(error->text, "reliability level 0x0 is not exactly one"));
    vip__reply__free_unpacked(reply, NULL);

    reply = show(sock, VIP__SHOW_REQUEST__WHAT__EVENT, 0);
    assert_true(reply->show->n_events >= 2);
    assert_string_equal(reply->show->events[reply->show->n_events - 1]->kind, "refused");
    assert_int_equal(reply->show->next_cursor,
                     reply->show->events[reply->show->n_events - 1]->number + 1);
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
    close_app(&app);
}

static Vip__Reply *admin(int sock, Vip__AdminRequest *what)
{
    Vip__Request request = VIP__REQUEST__INIT;

    what->has_what = true;
    request.body_case = VIP__REQUEST__BODY_ADMIN;
    request.admin = what;
    return ask(sock, &request, NULL, 0);
}

static void test_drain(void **state)
{
    Vip__AdminRequest what = VIP__ADMIN_REQUEST__INIT;
    struct app app = open_app("vip0");
    int sock = connect_daemon();
    Vip__Reply *reply;

    (void)state;
    what.what = VIP__ADMIN_REQUEST__WHAT__DRAIN;
    reply = admin(sock, &what);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    assert_true(reply->admin->draining);
    assert_int_equal(reply->admin->sessions, 1);
    vip__reply__free_unpacked(reply, NULL);
    assert_alive(&app);
    try_open(VIP_SHM_ABI, "vip0", make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC),
             make_arena(), VIP_RC_ERROR_RESOURCE, "drained");
    what.what = VIP__ADMIN_REQUEST__WHAT__RESUME;
    vip__reply__free_unpacked(admin(sock, &what), NULL);
    close_app(&app);
    app = open_app("vip0");
    close_app(&app);
    close(sock);
}

static void test_disconnect_of_nothing(void **state)
{
    Vip__AdminRequest what = VIP__ADMIN_REQUEST__INIT;
    struct app app = open_app("vip0");
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request request = vi_request(&create, &attributes);
    int sock = connect_daemon();
    Vip__Reply *reply;

    (void)state;
    what.what = VIP__ADMIN_REQUEST__WHAT__DISCONNECT_VI;
    what.has_vi = true;
    what.vi = 4000;
    reply = admin(sock, &what);
    assert_int_equal(reply->refusal, VIP__REFUSAL__REFUSAL_NO_SUCH);
    vip__reply__free_unpacked(reply, NULL);
    ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    what.vi = 0;
    reply = admin(sock, &what);
    assert_int_equal(reply->code, VIP_RC_INVALID_STATE);
    assert_non_null(strstr(reply->reason, "not connected"));
    vip__reply__free_unpacked(reply, NULL);
    what.what = VIP__ADMIN_REQUEST__WHAT__DISCONNECT_PEER;
    what.peer = (char *)"nowhere";
    reply = admin(sock, &what);
    assert_int_equal(reply->refusal, VIP__REFUSAL__REFUSAL_NO_SUCH);
    assert_non_null(strstr(reply->reason, "nowhere"));
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
    close_app(&app);
}

/* A user outside of the administrators' group may read views, but may change nothing. */
static void test_permission(void **state)
{
    pid_t pid;
    int status;

    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: not root, so there is no other user to be\n");
        skip();
    }
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(chmod(socket_path, 0666), 0);
    pid = fork();
    if (pid == 0) {
        Vip__AdminRequest what = VIP__ADMIN_REQUEST__INIT;
        Vip__ReloadRequest reload = VIP__RELOAD_REQUEST__INIT;
        Vip__Request request = VIP__REQUEST__INIT;
        Vip__Reply *reply;
        int sock;

        if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
            _exit(10);
        sock = vip_control_connect(socket_path);
        if (sock < 0)
            _exit(11);
        what.what = VIP__ADMIN_REQUEST__WHAT__DRAIN;
        reply = admin(sock, &what);
        if (reply->refusal != VIP__REFUSAL__REFUSAL_DENIED || !strstr(reply->reason, "via-admin"))
            _exit(12);
        request.body_case = VIP__REQUEST__BODY_RELOAD;
        request.reload = &reload;
        reply = ask(sock, &request, NULL, 0);
        if (reply->refusal != VIP__REFUSAL__REFUSAL_DENIED)
            _exit(13);
        reply = show(sock, VIP__SHOW_REQUEST__WHAT__ERROR, 0);
        for (size_t i = 0; i < reply->show->n_errors; i++)
            if (reply->show->errors[i]->uid == 0 && reply->show->errors[i]->text)
                _exit(14); /* reasons of another user may have addresses of that user */
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* vipd itself answers a ping to the NIC's own address, and refuses wrong pings with a reason. */
static void test_ping(void **state)
{
    Vip__PingRequest ping = VIP__PING_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct app app = open_app("vip0");
    int sock = connect_daemon();
    bool answered = false;
    Vip__Reply *reply;
    char peer[64];

    (void)state;
    snprintf(peer, sizeof(peer), "127.0.0.1:%u", app.address[4] << 8 | app.address[5]);
    request.body_case = VIP__REQUEST__BODY_PING;
    request.ping = &ping;
    ping.peer = peer;
    reply = ask(sock, &request, NULL, 0);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    ping.peer = NULL;
    ping.has_number = true;
    ping.number = reply->number64;
    vip__reply__free_unpacked(reply, NULL);
    for (unsigned i = 0; i < 5000 && !answered; i++) {
        reply = ask(sock, &request, NULL, 0);
        answered = reply->ping->answered;
        if (answered)
            assert_true(reply->ping->epoch != 0);
        vip__reply__free_unpacked(reply, NULL);
        if (!answered)
            usleep(1000);
    }
    assert_true(answered);
    ping.number = 4711;
    ask_code(sock, &request, VIP_RC_INVALID_PARAMETER, "forgotten");
    ping.has_number = false;
    ping.peer = (char *)"no such host";
    ask_code(sock, &request, VIP_RC_INVALID_PARAMETER, "no such host");
    ping.nic = (char *)"vip9";
    ask_code(sock, &request, VIP_RC_INVALID_PARAMETER, "vip9");
    close(sock);
    close_app(&app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_statistic_is_shown),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_configuration_has_pages),
        cmocka_unit_test(test_what_happened),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_disconnect_of_nothing),
        cmocka_unit_test(test_ping),
        cmocka_unit_test(test_permission),
    };

    return cmocka_run_group_tests(tests, start_daemon, stop_daemon);
}
