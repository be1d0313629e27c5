/*
 * Events for a program that does not read them. vipd drops events that a peer can repeat without
 * end, and keeps events that occur once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/client/internal.h"
#include "vipd/host.h"

#define QUEUED_MAX 64

static bool nothing_between(void *ctx, bool worked)
{
    return ctx && worked;
}

static void error(struct client *client, enum vip_error_code code)
{
    client_sink.error(client, VIP_RES_VI, code, 3, 1, 0, "why");
}

/* Read all events, while vipd sends the queued events. Returns the code of the last error. */
static uint32_t read_all(struct client *client, int sock)
{
    uint32_t last = UINT32_MAX;
    ProtobufCMessage *message;
    struct vip_fds fds;

    while (vip_control_recv(sock, &vip__event__descriptor, MSG_DONTWAIT, &message, &fds) == 0) {
        last = ((const Vip__Event *)message)->error->error;
        protobuf_c_message_free_unpacked(message, NULL);
        events_flush(client);
    }
    return last;
}

static bool read_one(int sock)
{
    ProtobufCMessage *message;
    struct vip_fds fds;

    if (vip_control_recv(sock, &vip__event__descriptor, MSG_DONTWAIT, &message, &fds) < 0)
        return false;
    protobuf_c_message_free_unpacked(message, NULL);
    return true;
}

static void test_repeated_errors(void **state)
{
    const struct vipd_host_config host = {.between = nothing_between, .cpus = 1};
    struct vipd_config config = {.events_queued = QUEUED_MAX};
    const struct vipd_nic_config nic = {.name = "vip0"};
    struct vipd vipd = {
        .config = &config, .nics = {{.config = &nic}}, .shared = PTHREAD_MUTEX_INITIALIZER};
    struct session session = {.events_tail = &session.events};
    struct client client = {.vipd = &vipd, .session = &session};
    int pair[2];

    (void)state;
    assert_int_equal(vipd_host_new(&host, &vipd.loop), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    session.event_sock = pair[0];
    vipd.nics[0].loop = vipd.loop;
    session.event_watch = vipd_watch_new(vipd.loop, pair[0], 0, NULL, NULL);
    assert_non_null(session.event_watch);

    for (unsigned i = 0; i < 100000; i++)
        error(&client, VIP_EC_RECVQ_EMPTY);
    assert_int_equal(client.end, CLIENT_END_NONE);
    assert_true(vipd.counters.errors_dropped > 50000);
    assert_in_range(session.events_queued, 1, QUEUED_MAX / 2);
    assert_false(events_hold_data(&session));
    for (unsigned i = 0; i < QUEUED_MAX / 4; i++)
        error(&client, VIP_EC_CONN_LOST);
    error(&client, VIP_EC_RDMAW_PROT);
    assert_int_equal(read_all(&client, pair[1]), VIP_EC_CONN_LOST);
    /* A place event holds data of a message. events_hold_data finds it also after other events. */
    while (session.events_queued < 2)
        error(&client, VIP_EC_CONN_LOST);
    assert_false(events_hold_data(&session));
    client_sink.place(&client, 1, 2, 3, 4);
    error(&client, VIP_EC_CONN_LOST);
    assert_true(events_hold_data(&session));
    events_drop(&session);
    assert_false(events_hold_data(&session));
    while (read_one(pair[1]))
        continue;
    /* When there is room again, vipd also sends errors that can be repeated. */
    error(&client, VIP_EC_RECVQ_EMPTY);
    assert_int_equal(read_all(&client, pair[1]), VIP_EC_RECVQ_EMPTY);
    assert_int_equal(client.end, CLIENT_END_NONE);

    vipd_watch_free(session.event_watch);
    vipd_host_free(vipd.loop);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_repeated_errors)};

    return cmocka_run_group_tests_name("vipd_events", tests, NULL, NULL);
}
