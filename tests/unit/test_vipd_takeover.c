/*
 * The next vipd takes over from the running vipd. A child acts as the running vipd.
 */
#include "vipd/takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"

static char dir[] = "/tmp/test-takeover-XXXXXX";

static int finished[2];   /* a pipe that is closed when takeover_finish has returned */
static int logged[2];     /* a pipe: the log of the next vipd */
static bool drained;      /* `draining` in each message of the running vipd */
static bool took_drained; /* `draining` that the next vipd has learned */

/* The child calls this function when it has passed its sockets. */
typedef int running_fn(int sock);

static void say(int sock, Vip__Takeover__Step step, const char *name, int fd)
{
    Vip__Takeover message = VIP__TAKEOVER__INIT;

    message.has_step = true;
    message.step = step;
    message.name = (char *)name;
    message.has_draining = message.draining = drained;
    if (vip_control_send(sock, &message.base, &fd, fd >= 0, 0) < 0)
        exit(10);
}

static int listen_here(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/vipd.sock", dir);
    (void)unlink(addr.sun_path);
    assert_int_equal(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(sock, 1), 0);
    return sock;
}

/* The child acts as the running vipd. Without a function it refuses the takeover. */
static int play(int listener, running_fn *fn)
{
    Vip__Reply reply = VIP__REPLY__INIT;
    ProtobufCMessage *request;
    struct vip_fds fds;
    int client = accept(listener, NULL, NULL), pair[2];

    if (client < 0 || vip_control_recv(client, &vip__request__descriptor, 0, &request, &fds) < 0 ||
        ((Vip__Request *)request)->body_case != VIP__REQUEST__BODY_TAKEOVER ||
        socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
        return 11;
    protobuf_c_message_free_unpacked(request, NULL);
    reply.has_code = true;
    reply.code = fn ? 0 : 9;
    reply.reason = "no";
    if (vip_control_send(client, &reply.base, &pair[1], fn != NULL, 0) < 0)
        return 12;
    close(pair[1]);
    close(client);
    if (!fn)
        return 0;
    say(pair[0], VIP__TAKEOVER__STEP__SOCKET, TAKEOVER_LOCK, STDERR_FILENO);
    say(pair[0], VIP__TAKEOVER__STEP__SOCKET, "programs", listener);
    return fn(pair[0]);
}

/* Call takeover_finish with its log in the pipe. */
static int finish(struct takeover *takeover, char err[256])
{
    int before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0), r;

    assert_int_equal(dup2(logged[1], STDERR_FILENO), STDERR_FILENO);
    r = takeover_finish(takeover, err, 256);
    assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
    close(before);
    took_drained = takeover->draining;
    return r;
}

/* Take over from a child. Returns the result of takeover_ask, or if that succeeded, of
 * takeover_finish. *ret_code: exit code of the child. */
static int take_over(running_fn *fn, char err[256], int *ret_code)
{
    struct fd_store fd_store;
    struct takeover takeover;
    int r, status, listener = listen_here();
    pid_t child;

    assert_int_equal(pipe2(finished, O_CLOEXEC), 0);
    assert_int_equal(pipe2(logged, O_CLOEXEC), 0);
    child = fork();
    if (child == 0) {
        close(finished[1]);
        close(logged[1]);
        _exit(play(listener, fn));
    }
    fd_store_init(&fd_store);
    r = takeover_ask(dir, geteuid(), &fd_store, &takeover, err, 256);
    if (r == 0) {
        assert_int_equal(takeover.pid, child);
        assert_true(fd_store.in_use);
        r = finish(&takeover, err);
        close(fd_store.listener);
        close(takeover.lock_fd);
    }
    takeover_free(&takeover);
    close(listener);
    for (unsigned i = 0; i < 2; i++) {
        close(finished[i]);
        close(logged[i]);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    *ret_code = WEXITSTATUS(status);
    return r;
}

/* Wait until the other end has closed the socket, or has shut it down. */
static int await_end(int sock)
{
    ProtobufCMessage *message;
    struct vip_fds fds;
    int r;

    while ((r = vip_control_recv(sock, &vip__takeover__descriptor, 0, &message, &fds)) == 0)
        protobuf_c_message_free_unpacked(message, NULL);
    return r == -EPIPE ? 0 : 13;
}

/* Wait for a log line of the next vipd that has this part. False: the log has ended. */
static bool await_line(const char *part)
{
    FILE *log = fdopen(logged[0], "r");
    bool found = false;
    char line[512];

    while (log && !found && fgets(line, sizeof(line), log))
        found = strstr(line, part) != NULL;
    return found;
}

/* ---- what the running vipd does -------------------------------------------------------------- */

static int says_the_rest(int sock)
{
    say(sock, VIP__TAKEOVER__STEP__STOPPING, NULL, -1);
    say(sock, VIP__TAKEOVER__STEP__GO, NULL, -1);
    return await_end(sock);
}

static int says_all_words(int sock)
{
    say(sock, VIP__TAKEOVER__STEP__ALL, NULL, -1);
    return says_the_rest(sock);
}

/* The running vipd does not end before the next vipd logs that it waits. */
static int stops_slowly(int sock)
{
    say(sock, VIP__TAKEOVER__STEP__ALL, NULL, -1);
    say(sock, VIP__TAKEOVER__STEP__STOPPING, NULL, -1);
    if (!await_line("has not ended yet: this one waits"))
        return 16;
    say(sock, VIP__TAKEOVER__STEP__GO, NULL, -1);
    return await_end(sock);
}

static int dies_while_it_stops(int sock)
{
    say(sock, VIP__TAKEOVER__STEP__ALL, NULL, -1);
    say(sock, VIP__TAKEOVER__STEP__STOPPING, NULL, -1);
    return 0;
}

static int dies(int sock)
{
    say(sock, VIP__TAKEOVER__STEP__ALL, NULL, -1);
    return 0;
}

/* The next vipd has given up the takeover, so the running vipd cannot send STOPPING any more. */
static int says_nothing(int sock)
{
    Vip__Takeover message = VIP__TAKEOVER__INIT;

    say(sock, VIP__TAKEOVER__STEP__ALL, NULL, -1);
    (void)await_end(sock);
    message.has_step = true;
    message.step = VIP__TAKEOVER__STEP__STOPPING;
    return vip_control_send(sock, &message.base, NULL, 0, 0) == -EPIPE ? 0 : 14;
}

/* The running vipd closes its socket, and lives until the next vipd has given up the takeover. */
static int hangs_up(int sock)
{
    char byte;

    say(sock, VIP__TAKEOVER__STEP__ALL, NULL, -1);
    close(sock);
    return read(finished[0], &byte, 1) == 0 ? 0 : 15;
}

/* An administrator drains the running vipd while the next vipd opens its NICs. */
static int is_drained(int sock)
{
    say(sock, VIP__TAKEOVER__STEP__ALL, NULL, -1);
    drained = true;
    return says_the_rest(sock);
}

/* An administrator ends the draining while the next vipd opens its NICs. */
static int is_drained_no_more(int sock)
{
    drained = true;
    say(sock, VIP__TAKEOVER__STEP__ALL, NULL, -1);
    drained = false;
    return says_the_rest(sock);
}

static int dies_drained(int sock)
{
    drained = true;
    return dies(sock);
}

/* The running vipd gives up the takeover and then ends. The next vipd must not begin. */
static int gives_up_and_ends(int sock)
{
    say(sock, VIP__TAKEOVER__STEP__ALL, NULL, -1);
    say(sock, VIP__TAKEOVER__STEP__GAVE_UP, NULL, -1);
    return 0;
}

static int hands_over_too_little(int sock)
{
    close(sock);
    return 0;
}

static int hands_over_a_file(int sock)
{
    say(sock, VIP__TAKEOVER__STEP__SOCKET, "nic-vip0", STDIN_FILENO);
    say(sock, VIP__TAKEOVER__STEP__ALL, NULL, -1);
    return await_end(sock);
}

/* ---- tests ------------------------------------------------------------------------------- */

static void test_begins_when_the_other_has_ended(void **state)
{
    running_fn *const ways[] = {says_all_words, stops_slowly, dies_while_it_stops, dies};
    char err[256];
    int code;

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        assert_int_equal(take_over(ways[i], err, &code), 0);
        assert_int_equal(code, 0);
    }
}

static void test_gives_up_if_the_other_goes_on(void **state)
{
    running_fn *const ways[] = {says_nothing, hangs_up};
    char err[256];
    int code;

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        assert_int_equal(take_over(ways[i], err, &code), -ETIMEDOUT);
        assert_non_null(strstr(err, "goes on"));
        assert_int_equal(code, 0);
    }
}

static void test_does_not_begin_if_the_other_has_given_up(void **state)
{
    char err[256];
    int code;

    (void)state;
    assert_int_equal(take_over(gives_up_and_ends, err, &code), -ETIMEDOUT);
    assert_non_null(strstr(err, "has given this one up"));
    assert_int_equal(code, 0);
}

static void test_is_drained_as_the_other(void **state)
{
    static const struct {
        running_fn *way;
        bool drained;
    } cases[] = {{says_all_words, false},
                 {is_drained, true},
                 {is_drained_no_more, false},
                 {dies_drained, true}};
    char err[256];
    int code;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(take_over(cases[i].way, err, &code), 0);
        assert_int_equal(code, 0);
        assert_int_equal(took_drained, cases[i].drained);
    }
}

static void test_takes_nothing_else(void **state)
{
    char err[256];
    int code;

    (void)state;
    assert_int_equal(take_over(NULL, err, &code), -EPERM);
    assert_string_equal(err, "no");
    assert_int_equal(take_over(hands_over_too_little, err, &code), -EPIPE);
    assert_int_equal(take_over(hands_over_a_file, err, &code), -EBADMSG);
    assert_non_null(strstr(err, "does not hand over its sockets"));
}

static void test_nobody_runs(void **state)
{
    struct fd_store fd_store;
    struct takeover takeover;
    char err[256];

    (void)state;
    fd_store_init(&fd_store);
    assert_true(takeover_ask("/nonexistent", geteuid(), &fd_store, &takeover, err, sizeof(err)) <
                0);
    assert_non_null(strstr(err, "start this one without --takeover"));
    takeover_free(&takeover);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "%s/vipd.sock", dir);
    (void)unlink(path);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begins_when_the_other_has_ended),
        cmocka_unit_test(test_gives_up_if_the_other_goes_on),
        cmocka_unit_test(test_does_not_begin_if_the_other_has_given_up),
        cmocka_unit_test(test_is_drained_as_the_other),
        cmocka_unit_test(test_takes_nothing_else),
        cmocka_unit_test(test_nobody_runs),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
