/*
 * Threads that sleep in VipRecvWait and VipSendWait (2.6), with pauses of different lengths between
 * the messages, so that all ways to sleep and to wake occur.
 */
#include "suite.h"

#include <pthread.h>
#include <time.h>

#define ROUNDS 48u
#define BYTES  64u
/* Each receive has a descriptor and a place of its own; these are for sends. */
#define SEND_DESC 50u
#define SEND_AT   (ROUNDS * BYTES)

/* The pause before a message: most are short, some are longer than each patience of vipd. */
static void pause_before(unsigned round)
{
    static const unsigned us[] = {0, 0, 100, 0, 700, 2500, 0, 12000, 50, 25000, 0, 1000};
    struct timespec time = {.tv_nsec = (long)us[round % (sizeof(us) / sizeof(us[0]))] * 1000};

    nanosleep(&time, NULL);
}

static char byte_of(unsigned round)
{
    return (char)(round * 7 + 1);
}

static void post_receives(struct end *end)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        conf_post_recv(end, conf_desc(end, i, (size_t)i * BYTES, BYTES));
}

/* Send message number `round`, and sleep until it has left. */
static VIP_RETURN send_one(struct end *end, unsigned round)
{
    VIP_DESCRIPTOR *desc = NULL;

    memset(end->buffer + SEND_AT, byte_of(round), BYTES);
    conf_post_send(end, conf_desc(end, SEND_DESC, SEND_AT, BYTES));
    return VipSendWait(end->vi, CONF_LIMIT_MS, &desc);
}

/* Sleep until message number `round` has come. */
static VIP_RETURN receive_one(struct end *end, unsigned round)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_RETURN rc = VipRecvWait(end->vi, CONF_LIMIT_MS, &desc);

    if (rc != VIP_SUCCESS)
        return rc;
    for (unsigned i = 0; i < BYTES; i++)
        if (desc != conf_at(end, round) || end->buffer[round * BYTES + i] != byte_of(round))
            return VIP_ERROR_RESOURCE;
    return rc;
}

/* A thread that takes messages, and answers each if `answers`. */
struct sleeper {
    struct end *end;
    bool answers;
    unsigned good; /* messages that were as expected */
    VIP_RETURN rc; /* of the last call */
};

static void *sleeper_run(void *arg)
{
    struct sleeper *sleeper = arg;

    for (unsigned round = 0; round < ROUNDS; round++) {
        sleeper->rc = receive_one(sleeper->end, round);
        if (sleeper->rc == VIP_SUCCESS && sleeper->answers)
            sleeper->rc = send_one(sleeper->end, round);
        if (sleeper->rc != VIP_SUCCESS)
            break;
        sleeper->good++;
    }
    return NULL;
}

static pthread_t sleeper_start(struct sleeper *sleeper)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, sleeper_run, sleeper), 0);
    return thread;
}

static void messages_wake_both_ends(void **state)
{
    struct end a, b;
    struct sleeper sleeper = {.end = &b, .answers = true};
    pthread_t thread;

    conf_pair(&a, &b, conf_level(state));
    post_receives(&a);
    post_receives(&b);
    thread = sleeper_start(&sleeper);
    for (unsigned round = 0; round < ROUNDS; round++) {
        pause_before(round);
        CONF_OK(send_one(&a, round));
        CONF_OK(receive_one(&a, round));
    }
    pthread_join(thread, NULL);
    assert_int_equal(sleeper.good, ROUNDS);
    conf_close_pair(&a, &b);
}

/* One thread sleeps for receives, another one for sends of the same VI. */
static void two_threads_sleep_on_one_vi(void **state)
{
    struct end a, b;
    struct sleeper echo = {.end = &b, .answers = true}, receiver = {.end = &a};
    pthread_t thread[2];

    conf_pair(&a, &b, conf_level(state));
    post_receives(&a);
    post_receives(&b);
    thread[0] = sleeper_start(&echo);
    thread[1] = sleeper_start(&receiver);
    for (unsigned round = 0; round < ROUNDS; round++) {
        pause_before(round);
        CONF_OK(send_one(&a, round));
    }
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    assert_int_equal(echo.good, ROUNDS);
    assert_int_equal(receiver.good, ROUNDS);
    conf_close_pair(&a, &b);
}

static void time_limits_hold_between_messages(void **state)
{
    struct end a, b;

    conf_pair(&a, &b, conf_level(state));
    post_receives(&b);
    for (unsigned round = 0; round < ROUNDS; round++) {
        VIP_DESCRIPTOR *desc = NULL;

        CONF_RETURNS(VIP_TIMEOUT, VipRecvWait(b.vi, round % 4 * 4, &desc));
        assert_null(desc);
        CONF_OK(send_one(&a, round));
        CONF_OK(receive_one(&b, round));
    }
    conf_close_pair(&a, &b);
}

/* A thread of b sleeps; an end of the connection wakes it. `here`: b itself ends it. */
static void the_end_wakes(VIP_RELIABILITY_LEVEL level, bool here)
{
    struct end a, b;
    struct sleeper sleeper = {.end = &b};
    pthread_t thread;

    conf_pair(&a, &b, level);
    post_receives(&b);
    thread = sleeper_start(&sleeper);
    for (unsigned round = 0; round < ROUNDS / 2; round++) {
        pause_before(round);
        CONF_OK(send_one(&a, round));
    }
    pause_before(7);
    CONF_OK(VipDisconnect(here ? b.vi : a.vi));
    pthread_join(thread, NULL);
    assert_int_equal(sleeper.rc, VIP_DESCRIPTOR_ERROR);
    assert_true(here || sleeper.good == ROUNDS / 2);
    conf_close_pair(&a, &b);
}

static void the_peers_end_wakes(void **state)
{
    the_end_wakes(conf_level(state), false);
}

static void the_own_end_wakes(void **state)
{
    the_end_wakes(conf_level(state), true);
}

#define AT_RELIABLE(fn, sentence)                                                                  \
    CONF_N("2.6", CONF_EARLY, fn, "rd", VIP_SERVICE_RELIABLE_DELIVERY, sentence),                  \
        CONF_N("2.6", CONF_EARLY, fn, "rr", VIP_SERVICE_RELIABLE_RECEPTION, sentence)

static const struct conf_test tests[] = {
    AT_RELIABLE(messages_wake_both_ends, "messages wake threads that sleep, after any pause"),
    AT_RELIABLE(two_threads_sleep_on_one_vi, "two threads sleep for the two queues of a VI"),
    AT_RELIABLE(time_limits_hold_between_messages, "time limits of VipRecvWait between messages"),
    AT_RELIABLE(the_peers_end_wakes, "the peer's VipDisconnect wakes a thread that sleeps"),
    AT_RELIABLE(the_own_end_wakes, "VipDisconnect of another thread wakes a thread that sleeps"),
};

CONF_MAIN(tests)
