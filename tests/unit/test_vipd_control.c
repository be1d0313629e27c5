/*
 * vipd's side of the control socket, tested with raw messages: vipd answers a correct message once.
 * A wrong message ends its session, and no other session.
 */
#include "unit/vipd_app.h"
#include "vipd/registry/memfile.h"

/* ---- open -------------------------------------------------------------------------------- */

static void test_open(void **state)
{
    struct app app = open_app("/dev/via_lo"), other = open_app("vip0");
    struct vip_vipd_head head;
    struct stat st;

    (void)state;
    assert_int_equal(pread(app.segment, &head, sizeof(head), 0), sizeof(head));
    assert_int_equal(head.magic, VIP_SHM_VIPD_MAGIC);
    assert_int_equal(head.abi, VIP_SHM_ABI);
    assert_int_equal(head.bytes, VIP_VIPD_BYTES);
    /* The next vipd can write the segment. Of all programs, only those of vipd's user can, too. */
    assert_int_equal(fcntl(app.segment, F_GET_SEALS), APP_SEALS & ~F_SEAL_FUTURE_WRITE);
    assert_int_equal(fcntl(app.segment, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(fstat(app.segment, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_uid, geteuid());
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, app.segment, 0),
                     MAP_FAILED);
    assert_int_equal(pwrite(app.segment, "x", 1, 0), -1);
    assert_int_equal(ftruncate(app.segment, 0), -1);
    assert_alive(&app);
    close_app(&app);
    assert_alive(&other);
    close_app(&other);
}

/* A program with the previous shared-memory ABI. */
static void test_open_previous_abi(void **state)
{
    const uint32_t magic = VIP_SHM_APP_MAGIC;
    struct app app = open_app_of(
        VIP_SHM3_ABI, "vip0", make_app_segment_of(VIP_SHM3_ABI, VIP_APP3_BYTES, APP_SEALS, magic));
    struct vip_vipd_head head;
    struct stat st;

    (void)state;
    assert_true(pread(app.segment, &head, sizeof(head), 0) > 0);
    assert_int_equal(head.magic, VIP_SHM_VIPD_MAGIC);
    assert_int_equal(head.abi, VIP_SHM3_ABI);
    assert_int_equal(head.bytes, VIP_VIPD3_BYTES);
    assert_int_equal(fstat(app.segment, &st), 0);
    assert_int_equal(st.st_size, VIP_VIPD3_BYTES);
    assert_int_equal(fcntl(app.segment, F_GET_SEALS), APP_SEALS);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, app.segment, 0),
                     MAP_FAILED);
    assert_alive(&app);
    close_app(&app);
    /* vipd refuses the segment: the ABI in its head is not that of the request; it has the size of
     * the other ABI; the ABI is too old. */
    try_open(VIP_SHM3_ABI, "vip0", make_app_segment(VIP_APP3_BYTES, APP_SEALS, magic), make_arena(),
             VIP_RC_INVALID_PARAMETER, "ABI");
    try_open(VIP_SHM3_ABI, "vip0", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic), make_arena(),
             VIP_RC_INVALID_PARAMETER, "size");
    try_open(VIP_SHM3_ABI - 1, "vip0",
             make_app_segment_of(VIP_SHM3_ABI - 1, VIP_APP3_BYTES, APP_SEALS, magic), make_arena(),
             VIP_RC_ERROR_RESOURCE, "ABI");
}

static void test_open_wrong_segments(void **state)
{
    const uint32_t magic = VIP_SHM_APP_MAGIC;
    int file;

    (void)state;
    for (int missing = 0; missing < 4; missing++) {
        const int seals[] = {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE};

        try_open(VIP_SHM_ABI, "vip0",
                 make_app_segment(VIP_APP_BYTES, APP_SEALS & ~seals[missing], magic), make_arena(),
                 VIP_RC_INVALID_PARAMETER, "seals");
    }
    try_open(VIP_SHM_ABI, "vip0", make_app_segment(VIP_APP_BYTES - 4096, APP_SEALS, magic),
             make_arena(), VIP_RC_INVALID_PARAMETER, "size");
    try_open(VIP_SHM_ABI, "vip0", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic + 1),
             make_arena(), VIP_RC_INVALID_PARAMETER, "magic");
    file = open("/dev/null", O_RDONLY);
    try_open(VIP_SHM_ABI, "vip0", file, make_arena(), VIP_RC_INVALID_PARAMETER, "memfd");
    file = open(VIP_SOURCE_DIR "/LICENSE", O_RDONLY);
    try_open(VIP_SHM_ABI, "vip0", file, make_arena(), VIP_RC_INVALID_PARAMETER, "segment");
    try_open(VIP_SHM_ABI, "vip0", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic),
             make_memfd(VIP_ARENA_BYTES, F_SEAL_SHRINK), VIP_RC_ERROR_RESOURCE, "arena");
    try_open(VIP_SHM_ABI, "vip0", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic),
             make_memfd(4096, F_SEAL_SHRINK | F_SEAL_GROW), VIP_RC_ERROR_RESOURCE, "arena");
}

static void test_open_wrong_words(void **state)
{
    const uint32_t magic = VIP_SHM_APP_MAGIC;

    (void)state;
    try_open(VIP_SHM_ABI + 1, "vip0", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic),
             make_arena(), VIP_RC_ERROR_RESOURCE, "ABI");
    try_open(VIP_SHM_ABI, "vip9", make_app_segment(VIP_APP_BYTES, APP_SEALS, magic), make_arena(),
             VIP_RC_INVALID_PARAMETER, "'vip9'");
}

static void test_sessions_per_uid(void **state)
{
    struct app apps[SESSIONS_MAX];

    (void)state;
    for (int i = 0; i < SESSIONS_MAX; i++)
        apps[i] = open_app("");
    try_open(VIP_SHM_ABI, "", make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC),
             make_arena(), VIP_RC_ERROR_RESOURCE, "sessions_per_uid");
    close_app(&apps[0]);
    apps[0] = open_app("");
    for (int i = 0; i < SESSIONS_MAX; i++)
        close_app(&apps[i]);
}

static void test_second_open(void **state)
{
    struct app app = open_app("vip0"), other = open_app("vip0");

    (void)state;
    send_open(app.sock, VIP_SHM_ABI, "vip0",
              make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC), make_arena());
    assert_ended(&app);
    assert_alive(&other);
    close_app(&other);
}

/* ---- hostile messages -------------------------------------------------------------------- */

static void test_wrong_descriptor_counts(void **state)
{
    Vip__OpenRequest open_request = VIP__OPEN_REQUEST__INIT;
    Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct app other = open_app("vip0");
    int null = open("/dev/null", O_RDONLY), fds[4] = {null, null, null, null};

    (void)state;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open_request;
    for (unsigned count = 0; count <= 4; count++) {
        int sock;

        if (count == 2)
            continue;
        sock = connect_daemon();
        assert_int_equal(vip_control_send(sock, &request.base, fds, count, 0), 0);
        assert_closed(sock);
    }
    request.body_case = VIP__REQUEST__BODY_CREATE_PTAG;
    request.create_ptag = &ptag;
    for (unsigned count = 1; count <= 4; count++) {
        struct app app = open_app("vip0");

        assert_int_equal(vip_control_send(app.sock, &request.base, fds, count, 0), 0);
        assert_ended(&app);
    }
    close(null);
    assert_alive(&other);
    close_app(&other);
}

static void test_register_descriptor_counts(void **state)
{
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fd = make_memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW);

    (void)state;
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    mem.has_address = mem.has_bytes = mem.has_kind = true;
    mem.address = 0x10000;
    mem.bytes = 4096;
    for (int kind = VIP__MEM_KIND__MEM_SHARED; kind <= VIP__MEM_KIND__MEM_STAGED; kind++) {
        struct app app = open_app("vip0");
        unsigned wrong = kind == VIP__MEM_KIND__MEM_ADOPTED ? 1 : 0;

        mem.kind = kind;
        assert_int_equal(vip_control_send(app.sock, &request.base, &fd, wrong, 0), 0);
        assert_ended(&app);
    }
    close(fd);
}

static void test_garbage(void **state)
{
    struct app other = open_app("vip0");
    char garbage[512];
    int sock;

    (void)state;
    for (unsigned seed = 1; seed < 64; seed++) {
        for (unsigned i = 0; i < sizeof(garbage); i++)
            garbage[i] = (char)((seed * 2654435761u + i * 40503u) >> 7);
        garbage[0] = (char)0xff; /* no field has this tag */
        sock = connect_daemon();
        assert_int_equal(send(sock, garbage, sizeof(garbage) - seed, 0), sizeof(garbage) - seed);
        assert_closed(sock);
    }
    assert_alive(&other);
    close_app(&other);
}

static void test_oversize(void **state)
{
    struct app app = open_app("vip0"), other = open_app("vip0");
    char *large = calloc(1, VIP_CONTROL_BYTES_MAX + 1);

    (void)state;
    assert_int_equal(send(app.sock, large, VIP_CONTROL_BYTES_MAX + 1, 0),
                     VIP_CONTROL_BYTES_MAX + 1);
    assert_ended(&app);
    assert_alive(&other);
    close_app(&other);
    free(large);
}

static void test_unknown_request(void **state)
{
    static const uint8_t unknown[] = {0xc2, 0x3e, 0x00}; /* field 1000 with an empty message */
    int sock = connect_daemon();
    struct vip_fds fds;
    Vip__Reply *reply;

    (void)state;
    assert_int_equal(send(sock, unknown, sizeof(unknown), 0), sizeof(unknown));
    reply = receive(sock, &fds);
    assert_int_equal(reply->code, VIP_RC_ERROR_NOT_SUPPORTED);
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
}

static void test_without_session(void **state)
{
    Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
    Vip__ResolveRequest resolve = VIP__RESOLVE_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();

    (void)state;
    request.body_case = VIP__REQUEST__BODY_CREATE_PTAG;
    request.create_ptag = &ptag;
    ask_code(sock, &request, VIP_RC_INVALID_STATE, "no NIC is open");
    resolve.name = (char *)"nobody";
    request.body_case = VIP__REQUEST__BODY_RESOLVE;
    request.resolve = &resolve;
    ask_code(sock, &request, VIP_RC_ERROR_NAMESERVICE, NULL);
    close(sock);
}

/* A client never reads. When its socket is full, vipd ends the client and serves the others. */
static void test_replies_unread(void **state)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct app other = open_app("vip0");
    int sock = connect_daemon(), r = 0;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__STATS;
    for (int i = 0; i < 100000 && r == 0; i++)
        r = vip_control_send(sock, &request.base, NULL, 0, 0);
    assert_int_equal(r, -EPIPE);
    close(sock);
    assert_alive(&other);
    close_app(&other);
}

/* vipd makes each arena, because a limit of file sizes may stop the program from making it. vipd
 * makes other files only if it can make them immutable. */
static void test_memory_files(void **state)
{
    static const uint64_t bytes[] = {VIP_ARENA_BYTES, 4096};
    Vip__MakeMemoryRequest make = VIP__MAKE_MEMORY_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();

    (void)state;
    request.body_case = VIP__REQUEST__BODY_MAKE_MEMORY;
    request.make_memory = &make;
    make.has_bytes = true;
    for (unsigned i = 0; i < 2; i++) {
        struct vip_fds fds;
        Vip__Reply *reply;

        make.bytes = bytes[i];
        assert_int_equal(vip_control_send(sock, &request.base, NULL, 0, 0), 0);
        reply = receive(sock, &fds);
        assert_int_equal(reply->code, VIP_RC_SUCCESS);
        assert_int_equal(fds.count, i == 0 || memfile_protects());
        vip__reply__free_unpacked(reply, NULL);
        vip_fds_close(&fds);
    }
    close(sock);
}

static void test_event_socket(void **state)
{
    Vip__PlaceDone done = VIP__PLACE_DONE__INIT;
    struct app app = open_app("vip0");

    (void)state;
    done.has_number = true;
    done.number = 5; /* vipd has sent no place event */
    assert_int_equal(vip_control_send(app.events, &done.base, NULL, 0, 0), 0);
    assert_ended(&app);

    app = open_app("vip0");
    assert_int_equal(send(app.events, "\xff\xff", 2, 0), 2);
    assert_ended(&app);

    app = open_app("vip0");
    assert_int_equal(vip_control_send(app.events, &done.base, &app.doorbell, 1, 0), 0);
    assert_ended(&app);
}

/* vipd and the program share the eventfd of the doorbell. The program clears O_NONBLOCK and empties
 * the eventfd, or rings it after the end of the session. This must not block vipd. */
static void test_doorbell(void **state)
{
    struct app app = open_app("vip0"), other = open_app("vip0");
    uint64_t one = 1;
    int kept;

    (void)state;
    assert_int_equal(fcntl(app.doorbell, F_SETFL, 0), 0);
    for (int i = 0; i < 200; i++) {
        uint64_t value;

        assert_int_equal(write(app.doorbell, &one, sizeof(one)), sizeof(one));
        assert_int_equal(fcntl(app.doorbell, F_SETFL, O_NONBLOCK), 0);
        if (read(app.doorbell, &value, sizeof(value)) < 0)
            assert_int_equal(errno, EAGAIN);
        assert_int_equal(fcntl(app.doorbell, F_SETFL, 0), 0);
    }
    assert_alive(&app);
    kept = dup(app.doorbell);
    close_app(&app);
    assert_int_equal(write(kept, &one, sizeof(one)), sizeof(one));
    assert_alive(&other);
    close_app(&other);
    close(kept);
}

/* libvipl never writes a continuation without a descriptor before it. */
static void test_broken_ring(void **state)
{
    int fd = make_app_segment(VIP_APP_BYTES, 0, VIP_SHM_APP_MAGIC);
    void *base = mmap(NULL, VIP_APP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct app other = open_app("vip0"), app;
    struct vip_sq_slot slot = {.kind = VIP_SQ_CONT};
    uint64_t one = 1;

    (void)state;
    assert_ptr_not_equal(base, MAP_FAILED);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, APP_SEALS), 0);
    app = open_app_with("vip0", fd);
    vip_sq_write(vip_app_sq(base), 0, &slot);
    assert_int_equal(write(app.doorbell, &one, sizeof(one)), sizeof(one));
    assert_ended(&app);
    munmap(base, VIP_APP_BYTES);
    assert_alive(&other);
    close_app(&other);
}

/* A program is killed while another process keeps its socket open. vipd detects the end of the
 * program by the pidfd. */
static void test_death_with_inherited_socket(void **state)
{
    struct app other = open_app("vip0");
    int ready[2], hold[2], status;
    pid_t owner;
    char byte;
    ProtobufCMessage *message;
    struct vip_fds fds;
    int sock;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, hold), 0);
    owner = fork();
    if (owner == 0) {
        struct app app = open_app("vip0");

        if (fork() == 0) { /* this child sends the socket to the test, which keeps it open */
            Vip__PlaceDone done = VIP__PLACE_DONE__INIT;

            done.has_number = true;
            vip_control_send(hold[1], &done.base, &app.sock, 1, 0);
            _exit(0);
        }
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(vip_control_recv(hold[0], &vip__place_done__descriptor, 0, &message, &fds), 0);
    protobuf_c_message_free_unpacked(message, NULL);
    assert_int_equal(fds.count, 1);
    sock = fds.fd[0];
    assert_int_equal(kill(owner, SIGKILL), 0);
    assert_int_equal(waitpid(owner, &status, 0), owner);
    assert_closed(sock);
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(hold[i]);
    }
    assert_alive(&other);
    close_app(&other);
}

/* Each connection attempt without a server ends in an event, and the program reads no events. vipd
 * ends the session when the event socket and vipd's queue of events are full. */
static void test_events_unread(void **state)
{
    struct app app = open_app("vip0"), other = open_app("vip0");
    Vip__ConnectRequest connect_request = VIP__CONNECT_REQUEST__INIT;
    Vip__NetAddress remote = VIP__NET_ADDRESS__INIT;
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request create_vi = vi_request(&create, &attributes), request = VIP__REQUEST__INIT;
    ProtobufCMessage *message;
    struct vip_fds fds;
    int r = 0;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        ask_code(app.sock, &create_vi, VIP_RC_SUCCESS, NULL);
    request.body_case = VIP__REQUEST__BODY_CONNECT;
    request.connect = &connect_request;
    connect_request.has_vi = connect_request.has_timeout_ms = true;
    connect_request.timeout_ms = 50; /* by then each attempt has the result NO_MATCH or TIMEOUT */
    connect_request.remote = &remote;
    remote.has_host = remote.has_discriminator = true;
    remote.host.data = app.address;
    remote.host.len = sizeof(app.address);
    remote.discriminator.data = (uint8_t *)"nobody";
    remote.discriminator.len = 6;
    for (unsigned i = 0; i < 1000 && r == 0; i++) {
        connect_request.vi = i;
        r = vip_control_send(app.sock, &request.base, NULL, 0, 0);
        if (r == 0)
            r = vip_control_recv(app.sock, &vip__reply__descriptor, 0, &message, &fds);
        if (r == 0)
            protobuf_c_message_free_unpacked(message, NULL);
    }
    assert_true(r == 0 || r == -EPIPE);
    assert_ended(&app);
    assert_alive(&other);
    close_app(&other);
}

/* vipd has counted each kind of end that the tests above have caused. */
static void test_ends_are_counted(void **state)
{
    static const char *const names[] = {
        "ended_closed",
        "ended_died",
        "ended_malformed_message",
        "ended_second_open",
        "ended_wrong_descriptors",
        "ended_replies_unread",
        "ended_events_unread",
        "ended_broken_ring",
        "ended_false_place_done",
        "open_refused",
        "events_delayed",
    };
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();
    unsigned found = 0;
    Vip__Reply *reply;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__STATS;
    reply = ask(sock, &request, NULL, 0);
    for (size_t i = 0; i < reply->show->n_counters; i++) {
        const Vip__Counter *counter = reply->show->counters[i];

        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            if (strcmp(counter->scope, "vipd") != 0 || strcmp(counter->name, names[k]) != 0)
                continue;
            if (counter->value == 0)
                fail_msg("%s is 0", counter->name);
            found++;
        }
        /* vipd ended no session for lack of resources. */
        if (strcmp(counter->name, "ended_no_resources") == 0)
            assert_int_equal(counter->value, 0);
    }
    assert_int_equal(found, sizeof(names) / sizeof(names[0]));
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_open_previous_abi),
        cmocka_unit_test(test_open_wrong_segments),
        cmocka_unit_test(test_open_wrong_words),
        cmocka_unit_test(test_sessions_per_uid),
        cmocka_unit_test(test_second_open),
        cmocka_unit_test(test_wrong_descriptor_counts),
        cmocka_unit_test(test_register_descriptor_counts),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_unknown_request),
        cmocka_unit_test(test_without_session),
        cmocka_unit_test(test_replies_unread),
        cmocka_unit_test(test_memory_files),
        cmocka_unit_test(test_event_socket),
        cmocka_unit_test(test_doorbell),
        cmocka_unit_test(test_death_with_inherited_socket),
        cmocka_unit_test(test_broken_ring),
        cmocka_unit_test(test_events_unread),
        cmocka_unit_test(test_ends_are_counted),
    };

    return cmocka_run_group_tests_name("vipd_control", tests, start_daemon, stop_daemon);
}
