/*
 * Programs that post sends and then call VipDisconnect at once (2.4), as Madeleine does. At the
 * reliable levels these messages must arrive. The environment gives vipd a long [reliability]
 * linger and long time limits, so no test depends on the machine's speed.
 */
#include "suite.h"

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

const size_t conf_buffer_bytes = 4194304;

#define MESSAGES   24
#define SLOT_BYTES 65536

/* Some sizes fit a direct ring, some need one packet, some need several packets. */
static size_t size_of(unsigned i)
{
    static const size_t sizes[] = {32, 60000, 700, 5000};

    return sizes[i % 4] + i;
}

static void pair_for_rdma(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level)
{
    VIP_VI_ATTRIBUTES attrs = {level, 65536, NULL, NULL, VIP_TRUE, VIP_TRUE};

    conf_pair_with(a, b, &attrs);
}

static void post_receives(struct end *end)
{
    for (unsigned i = 0; i < MESSAGES; i++)
        conf_post_recv(end, conf_desc(end, MESSAGES + i, (MESSAGES + i) * SLOT_BYTES, SLOT_BYTES));
}

static void post_sends(struct end *end)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        conf_fill(end->buffer + i * SLOT_BYTES, size_of(i), i);
        conf_post_send(end, conf_desc(end, i, i * SLOT_BYTES, size_of(i)));
    }
}

static void sends_arrive(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned round = 0; round < 4; round++) {
        post_receives(&b);
        post_sends(&a);
        CONF_OK(VipDisconnect(a.vi));
        assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
        for (unsigned i = 0; i < MESSAGES; i++) {
            conf_sent(&a, conf_at(&a, i));
            conf_received(&b, conf_at(&b, MESSAGES + i), size_of(i));
            conf_same(b.buffer + (MESSAGES + i) * SLOT_BYTES, size_of(i), i);
        }
        conf_broken(&b);
        conf_forget_errors(&b);
        conf_disconnect_idle(&a, &b);
        conf_connect(&a, &b);
    }
    conf_close_pair(&a, &b);
}

static void small_sends_arrive(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < MESSAGES; i++)
            conf_post_recv(&b, conf_desc(&b, MESSAGES + i, (MESSAGES + i) * 64, 64));
        for (unsigned i = 0; i < MESSAGES; i++) {
            conf_fill(a.buffer + i * 64, 40, round + i);
            conf_post_send(&a, conf_desc(&a, i, i * 64, 40));
        }
        CONF_OK(VipDisconnect(a.vi));
        for (unsigned i = 0; i < MESSAGES; i++) {
            conf_sent(&a, conf_at(&a, i));
            conf_received(&b, conf_at(&b, MESSAGES + i), 40);
            conf_same(b.buffer + (MESSAGES + i) * 64, 40, round + i);
        }
        conf_disconnect_idle(&a, &b);
        conf_connect(&a, &b);
    }
    conf_close_pair(&a, &b);
}

static void rdma_is_complete(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *write, *read;

    pair_for_rdma(&a, &b, conf_level(state));
    for (unsigned i = 0; i < 3; i++) {
        conf_fill(a.buffer, 50000, i);
        conf_fill(b.buffer + 200000, 50000, 7 + i);
        write = conf_write(&a, 0, 0, 50000, &b, 100000);
        read = conf_read(&a, 1, 300000, 50000, &b, 200000);
        conf_post_send(&a, write);
        conf_post_send(&a, read);
        CONF_OK(VipDisconnect(a.vi));
        conf_same(b.buffer + 100000, 50000, i);
        conf_same(a.buffer + 300000, 50000, 7 + i);
        conf_sent(&a, write);
        conf_sent(&a, read);
        conf_disconnect_idle(&a, &b);
        conf_connect(&a, &b);
    }
    conf_close_pair(&a, &b);
}

/* A message that finds no posted receive breaks the connection, so VipDisconnect returns. */
static void sends_without_receives_end_it(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    post_sends(&a);
    CONF_OK(VipDisconnect(a.vi));
    assert_int_equal(conf_state(&a), VIP_STATE_IDLE);
    for (unsigned i = 0; i < MESSAGES; i++)
        assert_int_not_equal(conf_take(&a, false, conf_at(&a, i)), 0);
    conf_broken(&b);
    conf_close_pair(&a, &b);
}

/* ---- two calls at once ----------------------------------------------------------------------- */

static void *run_disconnect(void *arg)
{
    struct end *end = arg;

    return VipDisconnect(end->vi) == VIP_SUCCESS ? NULL : end;
}

/* Returns how many descriptors have no error. They must come before the flushed descriptors. */
static unsigned good_of(struct end *end, bool recv)
{
    unsigned good = 0;

    for (unsigned i = 0; i < MESSAGES; i++) {
        VIP_UINT32 errors = conf_take(end, recv, conf_at(end, (recv ? MESSAGES : 0) + i));

        assert_true(errors == 0 || errors == VIP_STATUS_DESC_FLUSHED_ERROR);
        assert_true(errors != 0 || good == i);
        good += errors == 0;
    }
    return good;
}

/* Both ends disconnect at the same time. The first call ends the connection for both ends. Each
 * send that completed without an error must have arrived. */
static void both_at_once(void **state)
{
    struct end a, b;
    pthread_t thread;
    void *wrong;

    conf_pair(&a, &b, conf_level(state));
    for (unsigned round = 0; round < 4; round++) {
        unsigned sent[2], received[2];

        post_receives(&a);
        post_receives(&b);
        post_sends(&a);
        post_sends(&b);
        assert_int_equal(pthread_create(&thread, NULL, run_disconnect, &b), 0);
        CONF_OK(VipDisconnect(a.vi));
        pthread_join(thread, &wrong);
        assert_null(wrong);
        sent[0] = good_of(&a, false);
        sent[1] = good_of(&b, false);
        received[0] = good_of(&a, true);
        received[1] = good_of(&b, true);
        assert_true(sent[0] <= received[1] && sent[1] <= received[0]);
        assert_true(sent[0] == MESSAGES || sent[1] == MESSAGES);
        for (unsigned i = 0; i < received[1]; i++)
            conf_same(b.buffer + (MESSAGES + i) * SLOT_BYTES, size_of(i), i);
        conf_disconnect_idle(&a, &b);
        conf_connect(&a, &b);
    }
    conf_close_pair(&a, &b);
}

struct waiter {
    struct end *end;
    unsigned over; /* atomic */
    VIP_RETURN rc;
};

static void *run_waiter(void *arg)
{
    struct waiter *waiter = arg;

    waiter->rc = VipDisconnect(waiter->end->vi);
    __atomic_store_n(&waiter->over, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* One thread waits in VipDisconnect, because host B is stopped. Other threads must not wait. */
static void other_threads_go_on(void **state)
{
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    struct waiter waiter = {0};
    struct end a, b;
    VIP_MEM_HANDLE handle;
    VIP_VI_HANDLE vi;
    bool good = true, over;
    pthread_t thread;
    pid_t host_b;

    (void)state;
    if (strcmp(getenv("VIP_LINK"), "loop") == 0)
        CONF_NOT_HERE("over loop no host can stand still alone");
    host_b = (pid_t)atol(getenv("VIP_PID_B"));
    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    assert_int_equal(kill(host_b, SIGSTOP), 0);
    conf_post_send(&a, conf_desc(&a, 0, 0, 64));
    waiter.end = &a;
    assert_int_equal(pthread_create(&thread, NULL, run_waiter, &waiter), 0);
    for (unsigned i = 0; i < 20 && good; i++)
        good = VipRegisterMem(a.nic, a.buffer, 4096, NULL, &handle) == VIP_SUCCESS &&
               VipCreateVi(a.nic, &attrs, NULL, NULL, &vi) == VIP_SUCCESS &&
               VipDisconnect(vi) == VIP_SUCCESS && VipDestroyVi(vi) == VIP_SUCCESS &&
               VipDeregisterMem(a.nic, a.buffer, handle) == VIP_SUCCESS;
    over = __atomic_load_n(&waiter.over, __ATOMIC_SEQ_CST) != 0;
    assert_int_equal(kill(host_b, SIGCONT), 0); /* continue B before a check can fail */
    pthread_join(thread, NULL);
    assert_true(good);
    assert_false(over);
    assert_int_equal(waiter.rc, VIP_SUCCESS);
    conf_sent(&a, conf_at(&a, 0));
    conf_received(&b, conf_at(&b, 0), 64);
    conf_close_pair(&a, &b);
}

#define AT_RELIABLE(fn, sentence)                                                                  \
    CONF_N("2.4", CONF_EARLY, fn, "rd", VIP_SERVICE_RELIABLE_DELIVERY, sentence),                  \
        CONF_N("2.4", CONF_EARLY, fn, "rr", VIP_SERVICE_RELIABLE_RECEPTION, sentence)

static const struct conf_test tests[] = {
    AT_RELIABLE(sends_arrive, "VipDisconnect at once after sends: all arrive, and complete so"),
    AT_RELIABLE(small_sends_arrive,
                "VipDisconnect at once after small sends: all arrive, and complete so"),
    AT_RELIABLE(rdma_is_complete, "VipDisconnect at once after RDMA: it is complete"),
    AT_RELIABLE(sends_without_receives_end_it,
                "VipDisconnect does not wait when the connection is over"),
    AT_RELIABLE(both_at_once, "both ends disconnect at once: neither waits for the other"),
    CONF_T("3.12", CONF_EARLY, other_threads_go_on,
           "while VipDisconnect waits, other threads go on"),
};

CONF_MAIN(tests)
