/*
 * Another thread of vipd frees the memory of closed NIC handles. This test stops that thread. A
 * program can open further handles up to a limit. At the limit vipd tells the program when to ask
 * again, and opens the handle later.
 */
#include "unit/vipd_app.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#define WAITING_MAX 64 /* SESSIONS_WAITING_MAX of vipd/client/open.c */

/* This memory is shared with the daemon, which is a child. */
static atomic_bool *gate_open;
static pid_t test_pid;

/* This function replaces libc's function in the whole program. While the gate is closed, only the
 * daemon's first thread frees memory. */
int munmap(void *base, size_t bytes)
{
    struct timespec pause = {.tv_nsec = 1000000};

    if (gate_open && getpid() != test_pid && getpid() != (pid_t)syscall(SYS_gettid))
        while (!atomic_load(gate_open))
            nanosleep(&pause, NULL);
    return (int)syscall(SYS_munmap, base, bytes);
}

/* Returns the number of OpenRequests that vipd has answered with "again". */
static uint64_t counted_again(void)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();
    uint64_t count = UINT64_MAX;
    Vip__Reply *reply;

    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__STATS;
    reply = ask(sock, &request, NULL, 0);
    for (size_t i = 0; i < reply->show->n_counters; i++)
        if (strcmp(reply->show->counters[i]->name, "open_again") == 0)
            count = reply->show->counters[i]->value;
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
    return count;
}

/* Send an OpenRequest. Returns the pause until the next one, in ms; 0: the NIC is open now. */
static uint32_t open_once(int sock)
{
    struct vip_fds fds;
    uint32_t again_ms = 0;
    Vip__Reply *reply;

    send_open(sock, VIP_SHM_ABI, "", make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC),
              make_arena());
    reply = receive(sock, &fds);
    assert_non_null(reply->open);
    if (reply->code == VIP_RC_SUCCESS) {
        assert_int_equal(reply->open->again_ms, 0);
        assert_int_equal(fds.count, 3);
    } else {
        assert_int_equal(reply->code, VIP_RC_ERROR_RESOURCE);
        assert_non_null(strstr(reply->reason, "still being freed"));
        assert_int_equal(fds.count, 0);
        again_ms = reply->open->again_ms;
        assert_true(again_ms > 0);
    }
    vip_fds_close(&fds);
    vip__reply__free_unpacked(reply, NULL);
    return again_ms;
}

static void test_again(void **state)
{
    struct timespec pause = {0};
    uint64_t refused = 2;
    uint32_t again_ms;
    int sock;

    (void)state;
    for (unsigned i = 0; i < WAITING_MAX; i++) {
        struct app app = open_app("");

        close_app(&app);
    }
    sock = connect_daemon();
    assert_true(open_once(sock) > 0);
    assert_true(open_once(sock) > 0); /* the control connection still exists */
    assert_int_equal(counted_again(), refused);
    atomic_store(gate_open, true);
    while ((again_ms = open_once(sock)) > 0) {
        refused++;
        pause.tv_nsec = (long)again_ms * 1000000;
        nanosleep(&pause, NULL);
    }
    assert_int_equal(counted_again(), refused);
    close(sock);
}

static int make_gate(void **state)
{
    void *shared =
        mmap(NULL, sizeof(*gate_open), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(shared != MAP_FAILED);
    gate_open = shared;
    test_pid = getpid();
    return start_daemon(state);
}

/* Open the gate first, because vipd does not end until all memory is freed. */
static int end(void **state)
{
    atomic_store(gate_open, true);
    return stop_daemon(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_again),
    };

    return cmocka_run_group_tests_name("vipd_open", tests, make_gate, end);
}
