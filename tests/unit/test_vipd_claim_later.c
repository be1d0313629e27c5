/*
 * A program comes back before vipd can take over its session: the NIC has no address yet, or vipd
 * lacks descriptors. vipd tells the program when to ask again, logs the reason in one line, and
 * takes over the session once. vipd runs in this process.
 */
#include "unit/vipd_claim.h"

#include <sys/resource.h>

#include "vipd/client/internal.h"
#include "vipd/nic/nic.h"
#include "vipd/registry/undertaker.h"

#define NO_HOST "192.0.2.1" /* an address for documentation: no interface has it */

static struct vipd vipd;
static struct vipd_config *config;
static int log_file, own_stderr;

/* ---- vipd ------------------------------------------------------------------------------------ */

static int start(void **state)
{
    static char runtime[] = "/nonexistent";
    char err[512] = "";

    (void)state;
    config = vipd_config_default();
    assert_non_null(config);
    snprintf(config->nics[0].keys.address, sizeof(config->nics[0].keys.address), NO_HOST);
    config->outlive_ns = 1000000000;
    vipd_log_set_level(VIPD_LOG_WARNING);
    log_file = memfd_create("log", MFD_CLOEXEC);
    own_stderr = fcntl(2, F_DUPFD_CLOEXEC, 0);
    assert_true(log_file >= 0 && own_stderr >= 0);
    assert_int_equal(dup2(log_file, 2), 2);
    if (vipd_start(config, runtime, NULL, &vipd, err, sizeof(err)) < 0)
        fail_msg("%s", err);
    assert_int_equal(dup2(own_stderr, 2), 2);
    /* Without the undertaker's threads, a session that ends frees its descriptors at once. */
    undertaker_free(vipd.undertaker);
    vipd.undertaker = NULL;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    vipd_stop(&vipd);
    vipd_config_free(config);
    close(own_stderr);
    close(log_file);
    return 0;
}

/* Let vipd serve its clients and its NIC for three rounds. vipd's log goes to a file. */
static void serve(void)
{
    assert_int_equal(dup2(log_file, 2), 2);
    for (unsigned round = 0; round < 3; round++) {
        for (struct client *c = vipd.clients; c; c = c->next)
            client_serve(c);
        nic_turn(vipd.nics[0].nic, vipd_loop_now(vipd.loop));
        clients_reap(&vipd);
    }
    assert_int_equal(dup2(own_stderr, 2), 2);
}

/* The number of lines of vipd's log with this text. */
static unsigned logged(const char *text)
{
    static char log[1 << 16];
    ssize_t len = pread(log_file, log, sizeof(log) - 1, 0);
    unsigned count = 0;

    assert_true(len >= 0);
    log[len] = '\0';
    for (const char *at = log; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

/* Give the NIC its address, as if the interface came up. */
static void set_address(void)
{
    struct link *link = (struct link *)(uintptr_t)nic_link(vipd.nics[0].nic);

    link->self = (struct link_addr){.len = 6, .bytes = {192, 0, 2, 1, 0x12, 0xba}};
}

/* ---- programs -------------------------------------------------------------------------------- */

static int come(void)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(client_new(&vipd, pair[0]), 0);
    return pair[1];
}

/* Send an OpenRequest. segment: the segment of the earlier session; -1: none. */
static void send_request(int sock, int segment)
{
    Vip__Claim claim = VIP__CLAIM__INIT;
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fds[3] = {make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC), make_arena(),
                  segment};

    open.has_abi = true;
    open.abi = VIP_SHM_ABI;
    open.device = (char *)"vip0";
    open.claim = segment >= 0 ? &claim : NULL;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    assert_int_equal(vip_control_send(sock, &request.base, fds, segment >= 0 ? 3 : 2, 0), 0);
    close(fds[0]);
    close(fds[1]);
}

enum answered { TAKEN, AGAIN, HANGS_UP, REFUSED };

/* Read the answer. If vipd does not take over the session, the reason must have this word. */
static enum answered answered(int sock, const char *word)
{
    struct vip_fds fds;
    Vip__Reply *reply = receive(sock, &fds);
    enum answered result = REFUSED;

    if (reply->code == VIP_RC_SUCCESS) {
        assert_int_equal(fds.count, 3);
        result = TAKEN;
    } else {
        if (!strstr(reply->reason, word))
            fail_msg("no '%s' in: %s", word, reply->reason);
        assert_int_equal(fds.count, 0);
        if (reply->open && reply->open->again_ms > 0) {
            assert_int_equal(reply->code, VIP_RC_ERROR_RESOURCE);
            result = AGAIN;
        }
        if (reply->hangs_up)
            result = HANGS_UP;
    }
    vip_fds_close(&fds);
    vip__reply__free_unpacked(reply, NULL);
    return result;
}

static enum answered request_of(int sock, int segment, const char *word)
{
    send_request(sock, segment);
    serve();
    return answered(sock, word);
}

static void leave(int sock)
{
    close(sock);
    serve();
    assert_null(vipd.clients);
}

/* As serve, while vipd can open `room` more descriptors. */
static void serve_with(unsigned room)
{
    struct rlimit limit, low;
    int first = fcntl(0, F_DUPFD_CLOEXEC, 0);

    assert_true(first > 2);
    close(first);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = limit;
    low.rlim_cur = (rlim_t)first + room;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    serve();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Send a request while vipd can open only `room` descriptors. Returns the answer. */
static enum answered request_with(int sock, int segment, unsigned room, const char *word)
{
    send_request(sock, segment);
    serve_with(room);
    return answered(sock, word);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The NIC has no address. vipd lets a program that comes back ask again, also on the same
 * connection. vipd refuses a program that opens the NIC. */
static void test_no_address(void **state)
{
    struct vip_vipd_head head = good_head();
    int segment = make_segment(&head, 0600, SEALS_OUTLIVE), sock = come();

    (void)state;
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(request_of(sock, segment, "vip0 is down (no interface has the address"),
                         AGAIN);
    assert_int_equal(logged("programs of an earlier vipd must wait: vip0 is down"), 1);
    assert_int_equal(vipd.counters.open_again, 50);
    assert_int_equal(vipd.counters.open_refused, 0);
    assert_int_equal(request_of(sock, -1, "vip0 is down (no interface has the address"), REFUSED);

    set_address();
    assert_int_equal(request_of(sock, segment, ""), TAKEN);
    leave(sock);
    close(segment);
}

/*
 * At each try vipd can open one descriptor more. While vipd lacks a descriptor, the program can ask
 * again; then it comes back, but only once. Returns the number of descriptors that vipd needs.
 */
static unsigned come_back(void)
{
    struct vip_vipd_head head = good_head(), now;
    int segment = make_segment(&head, 0600, SEALS_OUTLIVE), sock, other;
    enum answered result;
    unsigned room = 0;

    for (;; room++) {
        sock = come();
        result = request_with(sock, segment, room, "Too many open files");
        if (result == TAKEN)
            break;
        if (result == REFUSED)
            fail_msg("refused with %u descriptors", room);
        leave(sock);
        assert_int_equal(pread(segment, &now, sizeof(now), 0), sizeof(now));
        assert_memory_equal(&now, &head, sizeof(now));
    }
    other = come();
    assert_int_equal(request_of(other, segment, "taken over already"), REFUSED);
    close(other);
    leave(sock);
    sock = come();
    assert_int_equal(request_of(sock, segment, "has ended"), REFUSED);
    leave(sock);
    close(segment);
    return room;
}

static void test_no_descriptors(void **state)
{
    unsigned room, lines;

    (void)state;
    set_address();
    room = come_back();
    assert_true(room > 8); /* three descriptors of the program, and the session's own */
    lines = logged("programs of an earlier vipd must wait: ");
    assert_true(logged("Too many open files") > 0);
    assert_int_equal(come_back(), room);
    assert_int_equal(logged("programs of an earlier vipd must wait: "), lines);
}

/* A program that has come back registers its memory again while vipd lacks a descriptor for the
 * file. vipd refuses this request only. */
static void test_request_without_descriptors(void **state)
{
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vip_vipd_head head = good_head();
    int segment = make_segment(&head, 0600, SEALS_OUTLIVE), sock = come();
    int fd = make_memfd(8192, F_SEAL_SHRINK | F_SEAL_GROW);
    struct vip_fds fds;
    Vip__Reply *reply;

    (void)state;
    set_address();
    assert_int_equal(request_of(sock, segment, ""), TAKEN);
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    mem.has_address = mem.has_bytes = mem.has_kind = true;
    mem.kind = VIP__MEM_KIND__MEM_SHARED;
    mem.address = 0x10000;
    mem.bytes = 4096;
    for (unsigned round = 0; round < 3; round++) {
        assert_int_equal(vip_control_send(sock, &request.base, &fd, 1, 0), 0);
        serve_with(0);
        assert_int_equal(answered(sock, "Too many open files"), REFUSED);
    }
    assert_int_equal(vip_control_send(sock, &request.base, &fd, 1, 0), 0);
    serve();
    reply = receive(sock, &fds);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    vip__reply__free_unpacked(reply, NULL);
    leave(sock);
    close(fd);
    close(segment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_address),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_request_without_descriptors),
    };

    return cmocka_run_group_tests_name("vipd_claim_later", tests, start, stop);
}
