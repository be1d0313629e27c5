/*
 * Wake-ups in libvipl, with a fake vipd: the word for Notify registrations, and empty polls, after
 * which libvipl yields the processor.
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

/* One opened NIC with one VI, number 7, and one CQ, number 3, for the VI's receive queue. */
struct setup {
    struct fake fake;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_CQ_HANDLE cq;
    VIP_MEM_HANDLE handle;
    VIP_DESCRIPTOR *desc; /* 64 descriptors */
    unsigned calls;       /* number of calls of the handler; atomic */
    VIP_DESCRIPTOR *last;
};

static int set_up(void **state)
{
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    struct setup *s = calloc(1, sizeof(*s));

    fake_start(&s->fake);
    OK(VipOpenNic("fake0", &s->nic));
    s->desc = aligned_alloc(4096, 4096);
    memset(s->desc, 0, 4096);
    s->fake.number = 0x00020001;
    OK(VipRegisterMem(s->nic, s->desc, 4096, NULL, &s->handle));
    s->fake.vi = 7;
    s->fake.generation = 1;
    s->fake.cq = 3;
    OK(VipCreateCQ(s->nic, 10, &s->cq));
    OK(VipCreateVi(s->nic, &attrs, NULL, s->cq, &s->vi));
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct setup *s = *state;

    OK(VipCloseNic(s->nic));
    fake_stop(&s->fake);
    free(s->desc);
    free(s);
    return 0;
}

static uint32_t waiter_word(struct setup *s)
{
    return __atomic_load_n(&vip_app_vi(s->fake.app, 7)->waiters[VIP_Q_RECV], __ATOMIC_SEQ_CST);
}

static uint32_t sleepers(struct setup *s)
{
    return __atomic_load_n(&((struct vip_app_head *)s->fake.app)->sleepers, __ATOMIC_SEQ_CST);
}

static void on_desc(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *desc)
{
    struct setup *s = context;

    (void)nic;
    (void)vi;
    s->last = desc;
    __atomic_add_fetch(&s->calls, 1, __ATOMIC_SEQ_CST);
}

static void await_calls(struct setup *s, unsigned count)
{
    while (__atomic_load_n(&s->calls, __ATOMIC_SEQ_CST) < count)
        sched_yield();
}

/* Complete a receive as vipd does: write the entry, then change the notify word, but only if a
 * thread sleeps and the queue has the notify bit. Returns whether the word was changed. */
static bool complete(struct setup *s, uint32_t position)
{
    struct vip_vipd_head *head = s->fake.vipd;
    struct vip_comp comp = {.status = VIP_ST_DONE | VIP_ST_OP_RECEIVE};

    fake_comp_write(s->fake.vipd, 7, VIP_Q_RECV, position, &comp);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (sleepers(s) == 0 || (waiter_word(s) & VIP_APP_WAITERS_NOTIFY) == 0)
        return false;
    __atomic_add_fetch(&head->notify, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &head->notify, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
    return true;
}

static void one_word_wakes_for_registrations(void **state)
{
    struct setup *s = *state;

    for (unsigned i = 0; i < 32; i++)
        OK(VipPostRecv(s->vi, &s->desc[i], s->handle));
    assert_int_equal(waiter_word(s), 0);
    for (unsigned i = 0; i < 32; i++) {
        OK(VipRecvNotify(s->vi, s, on_desc));
        assert_int_equal(waiter_word(s), VIP_APP_WAITERS_NOTIFY);
        /* In every second round the thread is certainly about to sleep. In other rounds the thread
         * may be at any earlier point. */
        while (i % 2 == 0 && sleepers(s) == 0)
            sched_yield();
        complete(s, i);
        await_calls(s, i + 1);
        assert_ptr_equal(s->last, &s->desc[i]);
        assert_int_equal(waiter_word(s), 0);
    }
}

/* If a registration finds its completion, the notify word need not change. */
static void what_is_there_needs_no_wake_up(void **state)
{
    struct setup *s = *state;

    OK(VipPostRecv(s->vi, &s->desc[0], s->handle));
    assert_false(complete(s, 0));
    OK(VipRecvNotify(s->vi, s, on_desc));
    assert_int_equal(waiter_word(s), 0);
    await_calls(s, 1);
    assert_int_equal(
        __atomic_load_n(&((struct vip_vipd_head *)s->fake.vipd)->notify, __ATOMIC_SEQ_CST), 0);
}

/* After VIPL__POLLS_PER_YIELD empty Done calls in a row libvipl yields, and counts anew. */
static void empty_polls_are_counted(void **state)
{
    struct setup *s = *state;
    struct vipl__session *session =
        vipl__handle_session((uint64_t)(uintptr_t)s->nic, VIPL__KIND_NIC);
    VIP_DESCRIPTOR *got;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    assert_true(session->yield); /* as in a host with one processor */
    OK(VipPostRecv(s->vi, &s->desc[0], s->handle));
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 1; i < VIPL__POLLS_PER_YIELD; i++) {
            if (i % 2 == 0)
                assert_int_equal(VipRecvDone(s->vi, &got), VIP_NOT_DONE);
            else
                assert_int_equal(VipCQDone(s->cq, &vi, &recv), VIP_NOT_DONE);
            assert_int_equal(session->empty_polls, i);
        }
        assert_int_equal(VipRecvDone(s->vi, &got), VIP_NOT_DONE);
        assert_int_equal(session->empty_polls, 0);
    }
    assert_int_equal(VipRecvDone(s->vi, &got), VIP_NOT_DONE);
    complete(s, 0);
    OK(VipRecvDone(s->vi, &got));
    assert_int_equal(session->empty_polls, 0);
}

static _Thread_local unsigned yields; /* number of calls of sched_yield */
static unsigned yield_us;             /* each call takes at least this time */

/* In place of the C library's. */
int sched_yield(void)
{
    yields++;
    if (yield_us > 0)
        usleep(yield_us);
    return 0;
}

/* A busy process has the processor after each yield: a thread that waits sleeps, and polls do not
 * yield. */
static void nobody_yields_to_a_busy_process(void **state)
{
    struct setup *s = *state;
    struct vipl__session *session =
        vipl__handle_session((uint64_t)(uintptr_t)s->nic, VIPL__KIND_NIC);
    VIP_DESCRIPTOR *got;

    OK(VipPostSend(s->vi, &s->desc[0], s->handle));
    session->vi[7]->queue[VIP_Q_SEND].spin_ns = 1000000000;
    yield_us = 2 * VIP_YIELD_LONG_NS / 1000;
    yields = 0;
    assert_int_equal(VipSendWait(s->vi, 100, &got), VIP_TIMEOUT);
    assert_in_range(yields, 2, 5);

    session->crowd.until_ns = UINT64_MAX;
    yields = 0;
    for (unsigned i = 0; i < 10 * VIPL__POLLS_PER_YIELD; i++)
        assert_int_equal(VipSendDone(s->vi, &got), VIP_NOT_DONE);
    assert_int_equal(yields, 0);
    yield_us = 0;
}

/* The smallest budget may be shorter than a yield; a wait polls some times before it sleeps. */
static void a_wait_polls_some_times_before_it_sleeps(void **state)
{
    struct setup *s = *state;
    struct vipl__session *session =
        vipl__handle_session((uint64_t)(uintptr_t)s->nic, VIPL__KIND_NIC);
    VIP_DESCRIPTOR *got;

    OK(VipPostSend(s->vi, &s->desc[0], s->handle));
    session->vi[7]->queue[VIP_Q_SEND].spin_ns = 0;
    session->crowd.until_ns = 0;
    yields = 0;
    assert_int_equal(VipSendWait(s->vi, 1, &got), VIP_TIMEOUT);
    assert_in_range(yields, 16, 16);
}

int main(void)
{
#define WITH_VIPD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_VIPD(one_word_wakes_for_registrations),
        WITH_VIPD(what_is_there_needs_no_wake_up),
        WITH_VIPD(empty_polls_are_counted),
        WITH_VIPD(nobody_yields_to_a_busy_process),
        WITH_VIPD(a_wait_polls_some_times_before_it_sleeps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
