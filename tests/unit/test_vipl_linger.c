/*
 * VipDisconnect waits for earlier sends (connect.c). The fake vipd completes sends when the test
 * demands it. The speed of threads does not matter: the limit of a wait is an hour, or the test
 * checks that the wait lasted long enough.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libvipl/session.h"
#include "libvipl/vipl.h"
#include "libvipl/sleep.h"
#include "tests/unit/fake_vipd.h"

#define OK(call) assert_int_equal((call), VIP_SUCCESS)

#define HOUR_MS 3600000u
#define FIRST   1000u /* number of completions of this send queue before the VI was created */

/* One opened NIC with one VI, number 7, and three posted sends. */
struct setup {
    struct fake fake;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE handle;
    VIP_DESCRIPTOR *desc;
    VIP_RETURN rc; /* result of VipDisconnect in the other thread */
};

static void set_up(struct setup *s, VIP_RELIABILITY_LEVEL level, uint32_t linger_ms)
{
    VIP_VI_ATTRIBUTES attrs = {level, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};

    memset(s, 0, sizeof(*s));
    fake_start(&s->fake);
    OK(VipOpenNic("fake0", &s->nic));
    ((struct vip_vipd_head *)s->fake.vipd)->linger_ms = linger_ms;
    s->desc = aligned_alloc(4096, 4096);
    memset((void *)s->desc, 0, 4096);
    s->fake.number = 0x00020001;
    OK(VipRegisterMem(s->nic, s->desc, 4096, NULL, &s->handle));
    s->fake.vi = 7;
    s->fake.generation = 1;
    s->fake.send_position = FIRST;
    vip_vipd_vi(s->fake.vipd, 7)->prod[VIP_Q_SEND] = FIRST;
    vip_vipd_vi(s->fake.vipd, 7)->state = VIP_VIST_CONNECTED;
    OK(VipCreateVi(s->nic, &attrs, NULL, NULL, &s->vi));
    for (unsigned i = 0; i < 3; i++)
        OK(VipPostSend(s->vi, &s->desc[i], s->handle));
}

static void tear_down(struct setup *s)
{
    OK(VipCloseNic(s->nic));
    fake_stop(&s->fake);
    free(s->desc);
}

static unsigned asked(struct setup *s)
{
    return __atomic_load_n(&s->fake.requests[VIP__REQUEST__BODY_DISCONNECT], __ATOMIC_SEQ_CST);
}

static void complete(struct setup *s, uint32_t number, uint32_t errors)
{
    struct vip_comp comp = {.status = VIP_ST_DONE | VIP_ST_OP_SEND | errors};

    fake_complete(&s->fake, 7, VIP_Q_SEND, FIRST + number, &comp);
}

static void *run_disconnect(void *arg)
{
    struct setup *s = arg;

    s->rc = VipDisconnect(s->vi);
    return NULL;
}

/* Start a thread that calls VipDisconnect. Returns when the new thread sleeps. */
static pthread_t start(struct setup *s)
{
    const struct vip_app_head *head = s->fake.app;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run_disconnect, s), 0);
    while (__atomic_load_n(&head->sleepers, __ATOMIC_SEQ_CST) == 0)
        sched_yield();
    return thread;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void waits_until_all_have_completed(void **state)
{
    static const VIP_RELIABILITY_LEVEL level[] = {VIP_SERVICE_RELIABLE_DELIVERY,
                                                  VIP_SERVICE_RELIABLE_RECEPTION};

    for (unsigned n = 0; n < 4; n++) {
        struct setup s;
        pthread_t thread;

        set_up(&s, level[n & 1], HOUR_MS);
        thread = start(&s);
        complete(&s, 0, 0);
        complete(&s, 1, 0);
        assert_int_equal(asked(&s), 0);
        /* The end of the connection flushes the remaining send, and so also ends the wait. */
        complete(&s, 2, n & 2 ? VIP_ST_DESC_FLUSHED_ERROR : 0);
        pthread_join(thread, NULL);
        assert_int_equal(s.rc, VIP_SUCCESS);
        assert_int_equal(asked(&s), 1);
        tear_down(&s);
    }
    (void)state;
}

static void gives_up_after_the_time_limit(void **state)
{
    struct setup s;
    uint64_t began_ns;

    set_up(&s, VIP_SERVICE_RELIABLE_DELIVERY, 30);
    began_ns = vipl__now_ns();
    OK(VipDisconnect(s.vi));
    assert_true(vipl__now_ns() - began_ns >= 30000000);
    assert_int_equal(asked(&s), 1);
    tear_down(&s);
    (void)state;
}

/* VipDisconnect does not wait if no wait is needed or allowed. */
static void does_not_wait_in_vain(void **state)
{
    struct setup s;

    set_up(&s, VIP_SERVICE_UNRELIABLE, HOUR_MS);
    OK(VipDisconnect(s.vi));
    assert_int_equal(asked(&s), 1);
    tear_down(&s);
    set_up(&s, VIP_SERVICE_RELIABLE_DELIVERY, 0);
    OK(VipDisconnect(s.vi));
    assert_int_equal(asked(&s), 1);
    tear_down(&s);
    set_up(&s, VIP_SERVICE_RELIABLE_DELIVERY, HOUR_MS);
    for (unsigned i = 0; i < 3; i++)
        complete(&s, i, 0);
    OK(VipDisconnect(s.vi)); /* all sends are complete; the program has not taken them yet */
    OK(VipDisconnect(s.vi));
    assert_int_equal(asked(&s), 2);
    tear_down(&s);
    (void)state;
}

static void death_of_vipd_ends_the_wait(void **state)
{
    struct setup s;
    pthread_t thread;

    set_up(&s, VIP_SERVICE_RELIABLE_DELIVERY, HOUR_MS);
    thread = start(&s);
    fake_die(&s.fake);
    pthread_join(thread, NULL);
    assert_int_not_equal(s.rc, VIP_SUCCESS);
    (void)VipCloseNic(s.nic);
    fake_stop(&s.fake);
    free(s.desc);
    (void)state;
}

static void end_of_the_nic_handle_ends_the_wait(void **state)
{
    struct setup s;
    pthread_t thread;

    set_up(&s, VIP_SERVICE_RELIABLE_DELIVERY, HOUR_MS);
    thread = start(&s);
    OK(VipCloseNic(s.nic));
    pthread_join(thread, NULL);
    assert_int_equal(s.rc, VIP_INVALID_PARAMETER);
    assert_int_equal(asked(&s), 0);
    fake_stop(&s.fake);
    free(s.desc);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_until_all_have_completed),
        cmocka_unit_test(gives_up_after_the_time_limit),
        cmocka_unit_test(does_not_wait_in_vain),
        cmocka_unit_test(death_of_vipd_ends_the_wait),
        cmocka_unit_test(end_of_the_nic_handle_ends_the_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
