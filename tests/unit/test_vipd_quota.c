/*
 * The limits of one user for all NIC handles together: at the limit, one more than the limit, and
 * again after something was freed. Also: what vipd shows a user about other users.
 */
#define DAEMON_CONFIG(config)                                                                      \
    do {                                                                                           \
        (config)->cqs_per_uid = 5;                                                                 \
        (config)->regions_per_uid = 6;                                                             \
        (config)->register_bytes_per_uid = 1003520; /* 245 pages */                                \
        (config)->mapped_bytes_per_uid = 65536;                                                    \
        (config)->mapped_files_per_uid = 3;                                                        \
        (config)->waits_per_uid = 7;                                                               \
        (config)->connects_per_uid = 4;                                                            \
        (config)->vis_per_uid = 12;                                                                \
        (config)->connections_per_uid = 20;                                                        \
    } while (0)

#include "unit/vipd_app.h"

#include <sys/stat.h>

/* Send a request and check the reply. If vipd refuses the connection, it may reply earlier. */
static void say_something(int sock, enum vip_rc code, const char *word)
{
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    ProtobufCMessage *message;
    const Vip__Reply *reply;
    struct vip_fds fds;

    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__SUMMARY;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    assert_int_equal(
        vip_control_ask(sock, &request.base, NULL, 0, &vip__reply__descriptor, &message, &fds), 0);
    reply = (const Vip__Reply *)message;
    assert_int_equal(reply->code, code);
    if (word && !strstr(reply->reason, word))
        fail_msg("no '%s' in: %s", word, reply->reason);
    protobuf_c_message_free_unpacked(message, NULL);
}

/* Connect. Returns the socket; 0: vipd refuses the connection. */
static int try_connection(void)
{
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__ResolveRequest resolve = VIP__RESOLVE_REQUEST__INIT;
    int sock = connect_daemon();
    ProtobufCMessage *message;
    struct vip_fds fds;
    bool taken;

    resolve.name = (char *)"nobody";
    request.body_case = VIP__REQUEST__BODY_RESOLVE;
    request.resolve = &resolve;
    assert_int_equal(
        vip_control_ask(sock, &request.base, NULL, 0, &vip__reply__descriptor, &message, &fds), 0);
    taken = !strstr(((const Vip__Reply *)message)->reason, "connections_per_uid");
    protobuf_c_message_free_unpacked(message, NULL);
    if (!taken)
        close(sock);
    return taken ? sock : 0;
}

static void test_connections(void **state)
{
    int socks[20], one_more;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        socks[i] = connect_daemon();
        say_something(socks[i], VIP_RC_SUCCESS, NULL);
    }
    one_more = connect_daemon();
    say_something(one_more, VIP_RC_ERROR_RESOURCE, "connections_per_uid = 20");
    assert_closed(one_more);
    close(socks[0]);
    /* vipd may accept the next connection before it detects the end of socks[0]. Then try again. */
    for (unsigned tries = 0; !(socks[0] = try_connection()); tries++)
        assert_true(tries < 10000);
    /* Wait until vipd has closed all connections, because the next test counts its own. */
    for (unsigned i = 0; i < 20; i++) {
        shutdown(socks[i], SHUT_WR);
        assert_closed(socks[i]);
    }
}

static Vip__Request cq_request(Vip__CqRequest *cq)
{
    Vip__Request request = VIP__REQUEST__INIT;

    vip__cq_request__init(cq);
    cq->has_entries = true;
    cq->entries = 10;
    request.body_case = VIP__REQUEST__BODY_CREATE_CQ;
    request.create_cq = cq;
    return request;
}

static void test_cqs(void **state)
{
    struct app one = open_app("vip0"), two = open_app("vip0");
    Vip__CqRequest cq;
    Vip__Request request = cq_request(&cq), destroy = VIP__REQUEST__INIT;

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        ask_code(i % 2 ? one.sock : two.sock, &request, VIP_RC_SUCCESS, NULL);
    ask_code(one.sock, &request, VIP_RC_ERROR_RESOURCE, "cqs_per_uid = 5");
    ask_code(two.sock, &request, VIP_RC_ERROR_RESOURCE, "cqs_per_uid = 5");
    cq.has_cq = true;
    cq.cq = 0;
    destroy.body_case = VIP__REQUEST__BODY_DESTROY_CQ;
    destroy.destroy_cq = &cq;
    ask_code(one.sock, &destroy, VIP_RC_SUCCESS, NULL);
    cq.has_cq = false;
    ask_code(two.sock, &request, VIP_RC_SUCCESS, NULL);
    ask_code(two.sock, &request, VIP_RC_ERROR_RESOURCE, "cqs_per_uid");
    close_app(&one);
    ask_code(two.sock, &request, VIP_RC_SUCCESS, NULL);
    close_app(&two);
}

static Vip__Request mem_request(Vip__RegisterMemRequest *mem, uint64_t bytes)
{
    Vip__Request request = VIP__REQUEST__INIT;

    vip__register_mem_request__init(mem);
    mem->has_address = mem->has_bytes = mem->has_kind = mem->has_offset = true;
    mem->kind = VIP__MEM_KIND__MEM_ADOPTED;
    mem->address = 0x7000000;
    mem->bytes = bytes;
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = mem;
    return request;
}

static void test_regions(void **state)
{
    struct app one = open_app("vip0"), two = open_app("vip0");
    Vip__RegisterMemRequest mem;
    Vip__Request request = mem_request(&mem, 100);

    (void)state;
    for (unsigned i = 0; i < 6; i++)
        ask_code(i % 2 ? one.sock : two.sock, &request, VIP_RC_SUCCESS, NULL);
    ask_code(one.sock, &request, VIP_RC_ERROR_RESOURCE, "regions_per_uid = 6");
    close_app(&one);
    ask_code(two.sock, &request, VIP_RC_SUCCESS, NULL);
    close_app(&two);
}

/* Whole pages and both halves of staged regions count, because programs can fill them. */
static void test_bytes(void **state)
{
    struct app one = open_app("vip0"), two = open_app("vip0");
    Vip__RegisterMemRequest mem;
    Vip__Request request = mem_request(&mem, 147 * 4096 - 1);

    (void)state;
    ask_code(one.sock, &request, VIP_RC_SUCCESS, NULL);
    ask_code(two.sock, &request, VIP_RC_ERROR_RESOURCE, "register_bytes_per_uid = 1003520");
    mem.bytes = 98 * 4096 + 1;
    ask_code(two.sock, &request, VIP_RC_ERROR_RESOURCE, "register_bytes_per_uid");
    mem.bytes = 98 * 4096;
    mem.offset = mem.address = 1;
    ask_code(two.sock, &request, VIP_RC_ERROR_RESOURCE, "register_bytes_per_uid");
    mem.bytes = 98 * 4096 - 1;
    ask_code(two.sock, &request, VIP_RC_SUCCESS, NULL);
    mem.bytes = 1;
    ask_code(one.sock, &request, VIP_RC_ERROR_RESOURCE, "register_bytes_per_uid");
    close_app(&two);
    ask_code(one.sock, &request, VIP_RC_SUCCESS, NULL);
    close_app(&one);
}

/* Repeat the request until a thread of vipd has freed the memory that was mapped before, perhaps by
 * an earlier test. Returns the reply: success, or a refusal with this word (NULL: success). */
static Vip__Reply *ask_in_freed(struct app *app, const Vip__Request *request, int fd,
                                const char *word)
{
    for (;;) {
        Vip__Reply *reply = ask(app->sock, request, &fd, 1);

        if (reply->code != VIP_RC_ERROR_RESOURCE || !strstr(reply->reason, "being freed") ||
            (word && strstr(reply->reason, word)))
            return reply;
        vip__reply__free_unpacked(reply, NULL);
    }
}

static void test_staged_bytes(void **state)
{
    struct app app = open_app("vip0");
    int fd = make_memfd(2 * 128 * 4096, F_SEAL_SHRINK | F_SEAL_GROW);
    int small = make_memfd(2 * 4 * 4096, F_SEAL_SHRINK | F_SEAL_GROW);
    Vip__RegisterMemRequest mem;
    Vip__Request request = mem_request(&mem, 123 * 4096);
    Vip__Reply *reply;

    (void)state;
    mem.kind = VIP__MEM_KIND__MEM_STAGED;
    reply = ask(app.sock, &request, &fd, 1);
    assert_int_equal(reply->code, VIP_RC_ERROR_RESOURCE);
    assert_non_null(strstr(reply->reason, "register_bytes_per_uid"));
    vip__reply__free_unpacked(reply, NULL);
    mem.bytes = 4 * 4096;
    reply = ask_in_freed(&app, &request, small, NULL);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    vip__reply__free_unpacked(reply, NULL);
    close(fd);
    close(small);
    close_app(&app);
}

/* Files that grew while they were registered still count after their deregistration, until the
 * program drops them. Three such files are allowed, and vipd refuses the fourth. When the program
 * closes the three files, there is room again. */
static void test_left_files_are_files_of_the_user(void **state)
{
    struct app app = open_app("vip0");
    Vip__RegisterMemRequest mem;
    Vip__Request request = mem_request(&mem, 1);
    Vip__Reply *last;
    int fd[4];

    (void)state;
    mem.kind = VIP__MEM_KIND__MEM_SHARED;
    for (unsigned i = 0; i < 4; i++) {
        Vip__MemRequest gone = VIP__MEM_REQUEST__INIT;
        Vip__Request deregister = VIP__REQUEST__INIT;
        Vip__Reply *reply;

        fd[i] = make_memfd(16384, F_SEAL_SHRINK | F_SEAL_GROW);
        reply = ask_in_freed(&app, &request, fd[i], i < 3 ? NULL : "mapped_files_per_uid");
        assert_int_equal(reply->code, i < 3 ? VIP_RC_SUCCESS : VIP_RC_ERROR_RESOURCE);
        if (i == 3)
            assert_non_null(strstr(reply->reason, "mapped_files_per_uid"));
        gone.has_handle = gone.has_address = true;
        gone.handle = reply->number;
        gone.address = mem.address;
        vip__reply__free_unpacked(reply, NULL);
        /* Give the file its pages, as writes of vipd into the registered region would do. */
        assert_int_equal(fallocate(fd[i], 0, 0, 16384), 0);
        deregister.body_case = VIP__REQUEST__BODY_DEREGISTER_MEM;
        deregister.deregister_mem = &gone;
        ask_code(app.sock, &deregister, i < 3 ? VIP_RC_SUCCESS : VIP_RC_INVALID_PARAMETER, NULL);
    }
    for (unsigned i = 0; i < 3; i++)
        close(fd[i]);
    last = ask_in_freed(&app, &request, fd[3], NULL);
    assert_int_equal(last->code, VIP_RC_SUCCESS);
    vip__reply__free_unpacked(last, NULL);
    close(fd[3]);
    close_app(&app);
}

/* Register one byte in a new file. word: a word of the reason if vipd refuses. */
static void map_file(struct app *app, uint64_t file_bytes, enum vip_rc code, const char *word)
{
    int fd = make_memfd(file_bytes, F_SEAL_SHRINK | F_SEAL_GROW);
    Vip__RegisterMemRequest mem;
    Vip__Request request = mem_request(&mem, 1);
    Vip__Reply *reply;

    mem.kind = VIP__MEM_KIND__MEM_SHARED;
    reply = ask_in_freed(app, &request, fd, word);
    if (reply->code != code || (word && !strstr(reply->reason, word)))
        fail_msg("code %u: %s", reply->code, reply->reason);
    vip__reply__free_unpacked(reply, NULL);
    close(fd);
}

static void test_files(void **state)
{
    struct app one = open_app("vip0"), two = open_app("vip0");

    (void)state;
    map_file(&one, 61440, VIP_RC_SUCCESS, NULL);
    map_file(&two, 8192, VIP_RC_ERROR_RESOURCE, "mapped_bytes_per_uid");
    map_file(&two, 4096, VIP_RC_SUCCESS, NULL);
    map_file(&one, 4096, VIP_RC_ERROR_RESOURCE, "mapped_bytes_per_uid");
    close_app(&one);
    map_file(&two, 4096, VIP_RC_SUCCESS, NULL);
    map_file(&two, 4096, VIP_RC_SUCCESS, NULL);
    map_file(&two, 4096, VIP_RC_ERROR_RESOURCE, "mapped_files_per_uid");
    close_app(&two);
}

static void test_waits(void **state)
{
    struct app one = open_app("vip0"), two = open_app("vip0");
    Vip__ConnectWaitRequest wait = VIP__CONNECT_WAIT_REQUEST__INIT;
    Vip__NetAddress address = VIP__NET_ADDRESS__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    uint8_t disc = 0;

    (void)state;
    address.has_discriminator = true;
    address.discriminator.data = &disc;
    address.discriminator.len = 1;
    wait.local = &address;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT;
    request.connect_wait = &wait;
    for (disc = 0; disc < 7; disc++) {
        wait.has_backlog = disc % 3 == 0; /* true: a listener */
        wait.backlog = wait.has_backlog;
        ask_code(disc % 2 ? one.sock : two.sock, &request, VIP_RC_SUCCESS, NULL);
    }
    ask_code(one.sock, &request, VIP_RC_ERROR_RESOURCE, "waits_per_uid = 7");
    close_app(&two);
    ask_code(one.sock, &request, VIP_RC_SUCCESS, NULL);
    close_app(&one);
}

static void test_connects(void **state)
{
    struct app one = open_app("vip0"), two = open_app("vip0");
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request make = vi_request(&create, &attributes), request = VIP__REQUEST__INIT;
    Vip__ConnectRequest connect = VIP__CONNECT_REQUEST__INIT;
    Vip__NetAddress local = VIP__NET_ADDRESS__INIT, remote = VIP__NET_ADDRESS__INIT;
    Vip__ViRequest vi = VIP__VI_REQUEST__INIT;
    uint8_t nobody[6] = {127, 0, 0, 99, 0, 9};

    (void)state;
    for (unsigned i = 0; i < 6; i++)
        ask_code(i % 2 ? one.sock : two.sock, &make, VIP_RC_SUCCESS, NULL);
    remote.has_host = true;
    remote.host.data = nobody;
    remote.host.len = sizeof(nobody);
    connect.local = &local;
    connect.remote = &remote;
    connect.has_vi = true;
    request.body_case = VIP__REQUEST__BODY_CONNECT;
    request.connect = &connect;
    for (unsigned i = 0; i < 4; i++) {
        connect.vi = i / 2;
        ask_code(i % 2 ? one.sock : two.sock, &request, VIP_RC_SUCCESS, NULL);
    }
    connect.vi = 2;
    ask_code(one.sock, &request, VIP_RC_ERROR_RESOURCE, "connects_per_uid = 4");
    vi.has_vi = true;
    request.body_case = VIP__REQUEST__BODY_CONNECT_CANCEL;
    request.connect_cancel = &vi;
    ask_code(two.sock, &request, VIP_RC_SUCCESS, NULL);
    request.body_case = VIP__REQUEST__BODY_CONNECT;
    request.connect = &connect;
    ask_code(one.sock, &request, VIP_RC_SUCCESS, NULL);
    ask_code(two.sock, &request, VIP_RC_ERROR_RESOURCE, "connects_per_uid");
    close_app(&one);
    ask_code(two.sock, &request, VIP_RC_SUCCESS, NULL);
    close_app(&two);
}

/* Check what this connection shows of the only region, listener and client. all: the user of the
 * connection may see all members. */
static void look(int sock, bool all)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    const Vip__MemRow *row;
    Vip__Reply *reply;

    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__MEM;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    reply = ask(sock, &request, NULL, 0);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    assert_int_equal(reply->show->n_mems, 1);
    row = reply->show->mems[0];
    assert_true(row->has_bytes && row->bytes == 100);
    assert_int_equal(row->has_handle, all);
    assert_int_equal(row->has_address, all);
    assert_int_equal(row->has_ptag, all);
    assert_int_equal(row->has_pid, all);
    assert_int_equal(strcmp(row->program, "-") != 0, all);
    vip__reply__free_unpacked(reply, NULL);

    show.what = VIP__SHOW_REQUEST__WHAT__LISTEN;
    reply = ask(sock, &request, NULL, 0);
    assert_int_equal(reply->show->n_listens, 1);
    assert_string_equal(reply->show->listens[0]->discriminator, all ? "svc" : "-");
    assert_int_equal(reply->show->listens[0]->has_pid, all);
    vip__reply__free_unpacked(reply, NULL);

    show.what = VIP__SHOW_REQUEST__WHAT__CLIENT;
    reply = ask(sock, &request, NULL, 0);
    assert_int_equal(reply->show->n_clients, 1);
    assert_int_equal(reply->show->clients[0]->has_pid, all);
    vip__reply__free_unpacked(reply, NULL);

    show.what = VIP__SHOW_REQUEST__WHAT__EVENT;
    reply = ask(sock, &request, NULL, 0);
    for (size_t i = 0; i < reply->show->n_events; i++)
        if (reply->show->events[i]->uid == 4001)
            assert_int_equal(reply->show->events[i]->has_pid, all);
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
}

static void listen_on(int sock, uint8_t *disc, size_t len)
{
    Vip__ConnectWaitRequest wait = VIP__CONNECT_WAIT_REQUEST__INIT;
    Vip__NetAddress address = VIP__NET_ADDRESS__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    address.has_discriminator = true;
    address.discriminator.data = disc;
    address.discriminator.len = len;
    wait.local = &address;
    wait.has_backlog = true;
    wait.backlog = 1;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT;
    request.connect_wait = &wait;
    ask_code(sock, &request, VIP_RC_SUCCESS, NULL);
}

/* vipd shows members that identify programs, or help to attack them, only to their user and to
 * administrators. */
static void test_show_others(void **state)
{
    struct app app;
    Vip__RegisterMemRequest mem;
    Vip__Request request = mem_request(&mem, 100);
    int sock;

    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: only root can be several users\n");
        skip();
    }
    assert_int_equal(chmod(dir, 0711), 0);
    assert_int_equal(chmod(socket_path, 0666), 0);
    assert_int_equal(seteuid(4001), 0);
    app = open_app("vip0");
    ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    listen_on(app.sock, (uint8_t *)"svc", 3);
    look(connect_daemon(), true);
    assert_int_equal(seteuid(0), 0);
    look(connect_daemon(), true);
    assert_int_equal(seteuid(4002), 0);
    sock = connect_daemon();
    assert_int_equal(seteuid(0), 0);
    look(sock, false);
    close_app(&app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections),
        cmocka_unit_test(test_cqs),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_staged_bytes),
        cmocka_unit_test(test_left_files_are_files_of_the_user),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_connects),
        cmocka_unit_test(test_show_others),
    };

    return cmocka_run_group_tests_name("vipd_quota", tests, start_daemon, stop_daemon);
}
