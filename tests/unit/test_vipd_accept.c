/*
 * A user has all control connections that the limits allow, and connects again, many times. In one
 * look at the descriptors vipd refuses many of these connections, each with the reason. vipd keeps
 * none of their sockets, even if many descriptors of the user wait for the undertaker.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/status.h"
#include "vipd/client/client.h"
#include "vipd/host.h"
#include "vipd/registry/undertaker.h"

#define PER_LOOK 64u                /* number of refused connections in one look */
#define FLOOD    (2 * PER_LOOK - 8) /* connections; the shortest listen queue of a kernel is 128 */
#define PAGE     4096u

/* ---- the gate: the undertaker's thread waits in the munmap of `gated` ------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static void *gated;
static bool gate_open, at_gate;

/* This function replaces libc's function in the whole program. */
int munmap(void *base, size_t bytes)
{
    if (gated && base == gated) {
        pthread_mutex_lock(&lock);
        at_gate = true;
        pthread_cond_broadcast(&news);
        while (!gate_open)
            pthread_cond_wait(&news, &lock);
        pthread_mutex_unlock(&lock);
    }
    return (int)syscall(SYS_munmap, base, bytes);
}

/* This function replaces libc's function. It names a kernel that closes sockets without messages
 * quickly (undertaker.c). */
int uname(struct utsname *ret)
{
    *ret = (struct utsname){.release = "6.9.0"};
    return 0;
}

/* ---- vipd without NICs, and the refusals between two looks ----------------------------------- */

struct world {
    struct vipd_config config;
    struct vipd vipd;
    struct client_listener *listener;
    struct sockaddr_un addr;
    socklen_t addr_len;
    int listening, held; /* held: the one connection that the user may have */
    int sock[FLOOD];
    uint64_t wanted, seen; /* numbers of refused connections */
    unsigned looks, most;  /* looks with refusals; most refusals in one look */
};

static bool between(void *ctx, bool worked)
{
    struct world *w = ctx;
    uint64_t refused = w->vipd.counters.refused_limit;

    if (refused > w->seen) {
        w->looks++;
        if (refused - w->seen > w->most)
            w->most = (unsigned)(refused - w->seen);
        w->seen = refused;
    }
    if (w->seen >= w->wanted)
        vipd_host_stop(w->vipd.loop);
    return worked;
}

/* Start a vipd. `waiting` descriptors of the user wait for the undertaker, which is at the gate. */
static void begin(struct world *w, unsigned waiting)
{
    const struct vipd_host_config host = {
        .wait = VIPD_WAIT_SPIN, .cpus = 1, .between = between, .ctx = w};
    int pair[2];

    *w = (struct world){.config = {.connections_per_uid = 1},
                        .vipd = {.shared = PTHREAD_MUTEX_INITIALIZER, .runtime_dir = ""},
                        .addr = {.sun_family = AF_UNIX},
                        .addr_len = sizeof(w->addr)};
    w->vipd.config = &w->config;
    vipd_log_set_level(VIPD_LOG_ERROR);
    assert_int_equal(vipd_host_new(&host, &w->vipd.loop), 0);
    w->vipd.undertaker = undertaker_new();
    assert_non_null(w->vipd.undertaker);

    gate_open = at_gate = false;
    gated = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(gated != MAP_FAILED);
    undertaker_unmap(w->vipd.undertaker, geteuid(), gated, PAGE, NULL);
    pthread_mutex_lock(&lock);
    while (!at_gate)
        pthread_cond_wait(&news, &lock);
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < waiting; i++)
        undertaker_close(w->vipd.undertaker, geteuid(), dup(STDERR_FILENO));

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(client_new(&w->vipd, pair[0]), 0);
    w->held = pair[1];
    w->listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(w->listening >= 0);
    /* The kernel chooses the name of this socket. */
    assert_int_equal(bind(w->listening, (struct sockaddr *)&w->addr, sizeof(sa_family_t)), 0);
    assert_int_equal(getsockname(w->listening, (struct sockaddr *)&w->addr, &w->addr_len), 0);
    assert_int_equal(listen(w->listening, 2 * FLOOD), 0);
    assert_int_equal(client_listen(&w->vipd, w->listening, &w->listener), 0);
}

static int connect_to(const struct world *w)
{
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(sock >= 0);
    assert_int_equal(connect(sock, (const struct sockaddr *)&w->addr, w->addr_len), 0);
    return sock;
}

static void run(struct world *w, unsigned refused)
{
    w->wanted = w->seen + refused;
    assert_int_equal(vipd_host_run(w->vipd.loop), 0);
}

static void end(struct world *w)
{
    pthread_mutex_lock(&lock);
    gate_open = true;
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&lock);
    client_listener_free(w->listener);
    clients_shutdown(&w->vipd);
    undertaker_free(w->vipd.undertaker);
    vipd_host_free(w->vipd.loop);
    gated = NULL;
    close(w->listening);
    close(w->held);
}

/* Check that the client gets the reason, and that vipd then closes the connection. */
static void assert_refused(int sock)
{
    ProtobufCMessage *message;
    struct vip_fds fds;

    assert_int_equal(vip_control_recv(sock, &vip__reply__descriptor, 0, &message, &fds), 0);
    assert_int_equal(((const Vip__Reply *)message)->code, VIP_RC_ERROR_RESOURCE);
    assert_non_null(strstr(((const Vip__Reply *)message)->reason, "connections_per_uid = 1"));
    protobuf_c_message_free_unpacked(message, NULL);
    assert_int_equal(vip_control_recv(sock, &vip__reply__descriptor, 0, &message, &fds), -EPIPE);
    close(sock);
}

static void refuse_a_flood(unsigned waiting)
{
    struct world w;

    begin(&w, waiting);
    for (unsigned i = 0; i < FLOOD; i++)
        w.sock[i] = connect_to(&w);
    run(&w, FLOOD);
    assert_int_equal(w.looks, 2);
    assert_int_equal(w.most, PER_LOOK);
    assert_int_equal(undertaker_full(w.vipd.undertaker, geteuid()), waiting >= UNDERTAKER_FDS_MAX);
    for (unsigned i = 0; i < FLOOD; i++)
        assert_refused(w.sock[i]);
    end(&w);
}

static void test_many_connections_are_refused_in_one_look_and_closed_at_once(void **state)
{
    (void)state;
    refuse_a_flood(UNDERTAKER_FDS_MAX - 1); /* one more descriptor makes undertaker_full true */
}

static void test_a_user_whose_descriptors_wait_does_not_stop_accepting(void **state)
{
    (void)state;
    refuse_a_flood(UNDERTAKER_FDS_MAX);
}

/* A client sends a descriptor before vipd refuses the connection. This descriptor may be the last
 * one of its file, so the undertaker closes it, not a loop of vipd. */
static void test_a_refused_socket_with_a_descriptor_waits_for_the_undertaker(void **state)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ancillary = {.bytes = {0}};
    struct msghdr msg = {.msg_control = ancillary.bytes, .msg_controllen = sizeof(ancillary.bytes)};
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
    struct world w;
    int ends[2], sock;
    char byte;

    (void)state;
    begin(&w, UNDERTAKER_FDS_MAX - 1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(cmsg), &ends[1], sizeof(int));
    sock = connect_to(&w);
    /* Both messages are empty: the first contains nothing, the second contains the descriptor. */
    assert_int_equal(send(sock, "", 0, 0), 0);
    assert_int_equal(sendmsg(sock, &msg, 0), 0);
    close(ends[1]);
    run(&w, 1);
    assert_refused(sock);
    assert_true(undertaker_full(w.vipd.undertaker, geteuid()));
    assert_int_equal(recv(ends[0], &byte, 1, MSG_DONTWAIT), -1); /* the socket is still open */
    end(&w);
    assert_int_equal(recv(ends[0], &byte, 1, MSG_DONTWAIT), 0);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_connections_are_refused_in_one_look_and_closed_at_once),
        cmocka_unit_test(test_a_user_whose_descriptors_wait_does_not_stop_accepting),
        cmocka_unit_test(test_a_refused_socket_with_a_descriptor_waits_for_the_undertaker),
    };

    return cmocka_run_group_tests_name("vipd_accept", tests, NULL, NULL);
}
