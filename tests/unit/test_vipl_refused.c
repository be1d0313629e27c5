/*
 * The next vipd takes over a program, and refuses one of its objects. The program gets an error for
 * this object. The object and the objects that need it cannot be used any more; all others go on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libvipl/session.h"
#include "libvipl/vipl.h"
#include "libvipl/vipl_ext.h"
#include "tests/unit/fake_vipd.h"

#define OK(call) assert_int_equal((call), VIP_SUCCESS)

#define VIS        4
#define CQ_OF(vi)  ((vi) < 3 ? (vi) : 2)
#define ERRORS_MAX 16

/* A program with VIs number 0 to 3. VI 0 has no CQ, VI 1 has CQ 1, VI 2 and 3 have CQ 2. Each VI is
 * connected, and has a posted receive and a posted send. */
struct program {
    struct fake fake;
    VIP_NIC_HANDLE nic;
    VIP_PROTECTION_HANDLE ptag; /* tag number 5; no object uses this tag */
    VIP_MEM_HANDLE mem, spare;  /* memory of the descriptors; a region that nothing uses */
    VIP_DESCRIPTOR *desc;
    VIP_CQ_HANDLE cq[VIS];
    VIP_VI_HANDLE vi[VIS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    VIP_ERROR_DESCRIPTOR errors[ERRORS_MAX]; /* guarded by lock */
    unsigned error_count;
    char reason[512]; /* VipxLastError of the last error; guarded by lock */
};

static const VIP_VI_ATTRIBUTES vi_attrs = {
    VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};

static void on_error(void *context, VIP_ERROR_DESCRIPTOR *error)
{
    struct program *p = context;

    pthread_mutex_lock(&p->lock);
    assert_true(p->error_count < ERRORS_MAX);
    p->errors[p->error_count++] = *error;
    snprintf(p->reason, sizeof(p->reason), "%s", VipxLastError());
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Wait for `count` errors. Returns the last one. */
static VIP_ERROR_DESCRIPTOR error_of(struct program *p, unsigned count)
{
    VIP_ERROR_DESCRIPTOR error;

    pthread_mutex_lock(&p->lock);
    while (p->error_count < count)
        pthread_cond_wait(&p->changed, &p->lock);
    error = p->errors[count - 1];
    assert_int_equal(p->error_count, count);
    pthread_mutex_unlock(&p->lock);
    return error;
}

static VIP_DESCRIPTOR *desc_of(struct program *p, unsigned vi, unsigned number)
{
    return &p->desc[4 * vi + number];
}

static void begin_for(struct program *p, unsigned outlive_ms)
{
    VIP_VI_ATTRIBUTES attrs = vi_attrs;

    *p = (struct program){.fake = {.generation = 1, .outlive_ms = outlive_ms, .lives = 1},
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .changed = PTHREAD_COND_INITIALIZER};
    fake_start(&p->fake);
    OK(VipOpenNic("fake0", &p->nic));
    OK(VipErrorCallback(p->nic, p, on_error));
    p->desc = aligned_alloc(4096, 8192);
    memset(p->desc, 0, 8192);
    p->fake.number = 5;
    OK(VipCreatePtag(p->nic, &p->ptag));
    p->fake.number = 0x20001;
    OK(VipRegisterMem(p->nic, p->desc, 4096, NULL, &p->mem));
    p->fake.number = 0x30002;
    OK(VipRegisterMem(p->nic, (char *)p->desc + 4096, 4096, NULL, &p->spare));
    for (unsigned i = 0; i < VIS; i++) {
        p->fake.vi = p->fake.cq = i;
        p->cq[i] = p->cq[CQ_OF(i)];
        if (i > 0 && !p->cq[i])
            OK(VipCreateCQ(p->nic, 10, &p->cq[i]));
        OK(VipCreateVi(p->nic, &attrs, p->cq[i], p->cq[i], &p->vi[i]));
        vip_vipd_vi(p->fake.vipd, (uint16_t)i)->state = VIP_VIST_CONNECTED;
        OK(VipPostRecv(p->vi[i], desc_of(p, i, 0), p->mem));
        OK(VipPostSend(p->vi[i], desc_of(p, i, 1), p->mem));
    }
}

static void begin(struct program *p)
{
    begin_for(p, 600000);
}

static void end(struct program *p)
{
    OK(VipCloseNic(p->nic));
    fake_stop(&p->fake);
    free(p->desc);
}

static unsigned asked(struct program *p, unsigned body_case)
{
    return __atomic_load_n(&p->fake.requests[body_case], __ATOMIC_SEQ_CST);
}

/* vipd ends. Wait until the next vipd has taken over the session. */
static void next_vipd(struct program *p)
{
    VIP_PROTECTION_HANDLE ptag;

    fake_die(&p->fake);
    p->fake.number = 6;
    OK(VipCreatePtag(p->nic, &ptag)); /* waits for the next vipd */
}

static VIP_VI_STATE state_of(VIP_VI_HANDLE vi)
{
    VIP_VI_ATTRIBUTES attrs;
    VIP_BOOLEAN send_empty, recv_empty;
    VIP_VI_STATE state;

    OK(VipQueryVi(vi, &state, &attrs, &send_empty, &recv_empty));
    return state;
}

/* Check that the VI is connected, and that its posted receive completes. */
static void goes_on(struct program *p, unsigned vi)
{
    struct vip_comp comp = {.status = VIP_ST_DONE | VIP_ST_OP_RECEIVE, .length = 0};
    VIP_DESCRIPTOR *desc;

    assert_int_equal(state_of(p->vi[vi]), VIP_STATE_CONNECTED);
    assert_int_equal(VipRecvDone(p->vi[vi], &desc), VIP_NOT_DONE);
    fake_complete(&p->fake, (uint16_t)vi, VIP_Q_RECV, 0, &comp);
    OK(VipRecvDone(p->vi[vi], &desc));
    assert_ptr_equal(desc, desc_of(p, vi, 0));
    assert_int_equal(VipSendDone(p->vi[vi], &desc), VIP_NOT_DONE);
}

static void flushed(struct program *p, unsigned vi, VIP_RETURN rc, VIP_DESCRIPTOR *desc,
                    unsigned number)
{
    assert_int_equal(rc, VIP_DESCRIPTOR_ERROR);
    assert_ptr_equal(desc, desc_of(p, vi, number));
    assert_int_not_equal(desc->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR, 0);
}

/* Check that the CQ has two entries, for the two queues of the VI, and no other entry. */
static void entries_of(struct program *p, unsigned vi)
{
    VIP_BOOLEAN recv, queues = 0;
    VIP_VI_HANDLE of;

    for (unsigned i = 0; i < 2; i++) {
        OK(VipCQDone(p->cq[vi], &of, &recv));
        assert_ptr_equal(of, p->vi[vi]);
        queues |= recv ? 2 : 1;
    }
    assert_int_equal(queues, 3);
    assert_int_equal(VipCQDone(p->cq[vi], &of, &recv), VIP_NOT_DONE);
}

/* Check a refused VI: its descriptors are flushed, and it can be destroyed without vipd. */
static void over(struct program *p, unsigned vi)
{
    unsigned disconnects = asked(p, VIP__REQUEST__BODY_DISCONNECT);
    unsigned destroys = asked(p, VIP__REQUEST__BODY_DESTROY_VI);
    const struct vipl__session *session = vipl__vi_find(p->vi[vi])->session;
    uint32_t sq_position;
    VIP_DESCRIPTOR *desc;
    VIP_BOOLEAN recv;
    VIP_VI_HANDLE of;
    VIP_RETURN rc;

    assert_int_equal(state_of(p->vi[vi]), VIP_STATE_ERROR);
    if (p->cq[vi])
        entries_of(p, vi);
    rc = VipRecvDone(p->vi[vi], &desc);
    flushed(p, vi, rc, desc, 0);
    rc = VipSendWait(p->vi[vi], VIP_INFINITE, &desc);
    flushed(p, vi, rc, desc, 1);
    /* A later post is flushed, too, and wakes waiting threads. */
    sq_position = session->sq_position;
    OK(VipPostSend(p->vi[vi], desc_of(p, vi, 2), p->mem));
    assert_int_equal(session->sq_position, sq_position);
    if (p->cq[vi]) {
        OK(VipCQWait(p->cq[vi], VIP_INFINITE, &of, &recv));
        assert_true(of == p->vi[vi] && !recv);
    }
    assert_int_equal(VipDestroyVi(p->vi[vi]), VIP_INVALID_STATE);
    OK(VipDisconnect(p->vi[vi]));
    OK(VipDisconnect(p->vi[vi]));
    assert_int_equal(state_of(p->vi[vi]), VIP_STATE_IDLE);
    assert_int_equal(VipDestroyVi(p->vi[vi]), VIP_ERROR_RESOURCE);
    rc = VipSendDone(p->vi[vi], &desc);
    flushed(p, vi, rc, desc, 2);
    OK(VipDestroyVi(p->vi[vi]));
    assert_int_equal(VipDestroyVi(p->vi[vi]), VIP_INVALID_PARAMETER);
    assert_int_equal(asked(p, VIP__REQUEST__BODY_DISCONNECT), disconnects);
    assert_int_equal(asked(p, VIP__REQUEST__BODY_DESTROY_VI), destroys);
}

static void a_vi(void **state)
{
    (void)state;
    for (unsigned vi = 0; vi < 3; vi++) {
        VIP_VI_ATTRIBUTES attrs = vi_attrs;
        VIP_ERROR_DESCRIPTOR error;
        VIP_VI_HANDLE again;
        struct program p;
        unsigned tells;

        begin(&p);
        p.fake.lives = 2;
        p.fake.refuses[0] = (struct fake_refusal){VIP__REQUEST__BODY_CREATE_VI, vi, false};
        next_vipd(&p);
        error = error_of(&p, 1);
        assert_true(error.ResourceCode == VIP_RESOURCE_VI &&
                    error.ErrorCode == VIP_ERROR_CONN_LOST && error.ViHandle == p.vi[vi]);
        /* libvipl does not create this VI at later vipds. */
        tells = asked(&p, VIP__REQUEST__BODY_CREATE_VI);
        next_vipd(&p);
        assert_int_equal(asked(&p, VIP__REQUEST__BODY_CREATE_VI), tells + VIS - 1);
        /* vipd may use the number for a new VI, but libvipl still has the old VI. */
        p.fake.vi = vi;
        assert_int_equal(VipCreateVi(p.nic, &attrs, NULL, NULL, &again), VIP_ERROR_RESOURCE);
        assert_int_equal(asked(&p, VIP__REQUEST__BODY_DESTROY_VI), 1);
        over(&p, vi);
        OK(VipCreateVi(p.nic, &attrs, NULL, NULL, &again));
        assert_int_equal(state_of(again), VIP_STATE_CONNECTED); /* the fake answers so */
        for (unsigned i = 0; i < VIS; i++)
            if (i != vi)
                goes_on(&p, i);
        error_of(&p, 1);
        end(&p);
    }
}

static void *wait_for_entry(void *arg)
{
    struct program *p = arg;
    VIP_BOOLEAN recv;
    VIP_VI_HANDLE vi;

    OK(VipCQWait(p->cq[1], VIP_INFINITE, &vi, &recv));
    assert_ptr_equal(vi, p->vi[1]);
    return NULL;
}

static void *wait_for_recv(void *arg)
{
    struct program *p = arg;
    VIP_DESCRIPTOR *desc;
    VIP_RETURN rc;

    rc = VipRecvWait(p->vi[1], VIP_INFINITE, &desc);
    flushed(p, 1, rc, desc, 0);
    return NULL;
}

/* Threads that sleep on the VI and its CQ wake, also a thread that sleeps before a post. */
static void sleepers_wake(void **state)
{
    pthread_t threads[2];
    VIP_BOOLEAN recv;
    VIP_VI_HANDLE vi;
    struct program p;

    (void)state;
    begin(&p);
    assert_int_equal(pthread_create(&threads[0], NULL, wait_for_entry, &p), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, wait_for_recv, &p), 0);
    while (__atomic_load_n(&((struct vip_app_head *)p.fake.app)->sleepers, __ATOMIC_SEQ_CST) < 2)
        usleep(1000);
    p.fake.refuses[0] = (struct fake_refusal){VIP__REQUEST__BODY_CREATE_VI, 1, false};
    next_vipd(&p);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    OK(VipCQDone(p.cq[1], &vi, &recv));
    assert_int_equal(pthread_create(&threads[0], NULL, wait_for_entry, &p), 0);
    while (__atomic_load_n(&((struct vip_app_head *)p.fake.app)->sleepers, __ATOMIC_SEQ_CST) < 1)
        usleep(1000);
    OK(VipPostRecv(p.vi[1], desc_of(&p, 1, 3), p.mem));
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    end(&p);
}

static void a_region(void **state)
{
    VIP_ERROR_DESCRIPTOR error;
    struct program p;
    char *spare;

    (void)state;
    begin(&p);
    spare = (char *)p.desc + 4096;
    p.fake.lives = 3;
    p.fake.refuses[0] =
        (struct fake_refusal){VIP__REQUEST__BODY_REGISTER_MEM, (uint32_t)p.spare, false};
    next_vipd(&p);
    error = error_of(&p, 1);
    assert_true(error.ResourceCode == VIP_RESOURCE_NIC && error.ErrorCode == VIP_ERROR_COMP_PROT);
    for (unsigned i = 0; i < VIS; i++)
        goes_on(&p, i);
    /* vipd has accepted a region, and later answers that it does not know the region: it stays. */
    p.fake.code = VIP_RC_INVALID_PARAMETER;
    assert_int_equal(VipDeregisterMem(p.nic, p.desc, p.mem), VIP_INVALID_PARAMETER);
    OK(VipPostSend(p.vi[0], desc_of(&p, 0, 2), p.mem));
    OK(VipDeregisterMem(p.nic, spare, p.spare));
    assert_int_equal(VipDeregisterMem(p.nic, spare, p.spare), VIP_INVALID_PARAMETER);
    p.fake.code = VIP_RC_SUCCESS;
    p.fake.number = (uint32_t)p.spare;
    OK(VipRegisterMem(p.nic, spare, 4096, NULL, &p.spare));
    next_vipd(&p);
    error_of(&p, 2);
    memset(p.fake.refuses, 0, sizeof(p.fake.refuses));
    next_vipd(&p);
    p.fake.code = VIP_RC_INVALID_PARAMETER;
    assert_int_equal(VipDeregisterMem(p.nic, spare, p.spare), VIP_INVALID_PARAMETER);
    p.fake.code = VIP_RC_SUCCESS;
    OK(VipDeregisterMem(p.nic, spare, p.spare));
    error_of(&p, 2);
    end(&p);
}

/* A CQ is refused; vipd then refuses its VI, too. */
static void a_cq(void **state)
{
    unsigned destroys;
    struct program p;
    VIP_CQ_HANDLE again;

    (void)state;
    begin(&p);
    p.fake.refuses[0] = (struct fake_refusal){VIP__REQUEST__BODY_CREATE_CQ, 1, false};
    p.fake.refuses[1] = (struct fake_refusal){VIP__REQUEST__BODY_CREATE_VI, 1, false};
    next_vipd(&p);
    assert_int_equal(error_of(&p, 2).ErrorCode, VIP_ERROR_CONN_LOST);
    assert_int_equal(p.errors[0].ErrorCode, VIP_ERROR_COMP_PROT);
    p.fake.cq = 1;
    assert_int_equal(VipCreateCQ(p.nic, 10, &again), VIP_ERROR_RESOURCE);
    destroys = asked(&p, VIP__REQUEST__BODY_DESTROY_CQ);
    assert_int_equal(destroys, 1);
    assert_int_equal(VipDestroyCQ(p.cq[1]), VIP_ERROR_RESOURCE); /* a VI still uses the CQ */
    over(&p, 1);
    OK(VipDestroyCQ(p.cq[1]));
    assert_int_equal(VipDestroyCQ(p.cq[1]), VIP_INVALID_PARAMETER);
    assert_int_equal(asked(&p, VIP__REQUEST__BODY_DESTROY_CQ), destroys);
    OK(VipCreateCQ(p.nic, 10, &again));
    for (unsigned i = 0; i < VIS; i++)
        if (i != 1)
            goes_on(&p, i);
    end(&p);
}

/* VipDestroyVi and VipDestroyCQ wait for the next vipd. This vipd refuses the VI and the CQ. */
static void an_end_that_waits(void **state)
{
    VIP_VI_ATTRIBUTES attrs = vi_attrs;
    struct vipl__session *session;
    VIP_VI_HANDLE vi, vi_again;
    VIP_CQ_HANDLE cq, cq_again;
    struct program p;

    (void)state;
    begin(&p);
    p.fake.lives = 2;
    p.fake.vi = p.fake.cq = VIS;
    OK(VipCreateCQ(p.nic, 10, &cq));
    OK(VipCreateVi(p.nic, &attrs, NULL, NULL, &vi)); /* a VI in the state Idle */
    session = vipl__vi_find(vi)->session;
    p.fake.refuses[0] = (struct fake_refusal){VIP__REQUEST__BODY_CREATE_VI, VIS, false};
    p.fake.refuses[1] = (struct fake_refusal){VIP__REQUEST__BODY_CREATE_CQ, VIS, false};
    fake_die(&p.fake);
    OK(VipDestroyVi(vi));
    assert_int_equal(VipDestroyVi(vi), VIP_INVALID_PARAMETER);
    error_of(&p, 2);
    OK(VipDestroyCQ(cq)); /* vipd has refused this CQ before */
    OK(VipCreateCQ(p.nic, 10, &cq));
    fake_die(&p.fake);
    OK(VipDestroyCQ(cq));
    assert_int_equal(VipDestroyCQ(cq), VIP_INVALID_PARAMETER);
    error_of(&p, 3);
    assert_int_equal(__atomic_load_n(&session->refused, __ATOMIC_SEQ_CST), 0);
    assert_int_equal(__atomic_load_n(&session->kept, __ATOMIC_SEQ_CST), 0);
    OK(VipCreateCQ(p.nic, 10, &cq_again));
    OK(VipCreateVi(p.nic, &attrs, cq_again, cq_again, &vi_again));
    for (unsigned i = 0; i < VIS; i++)
        goes_on(&p, i);
    end(&p);
}

static void a_tag_and_a_listener(void **state)
{
    struct {
        VIP_NET_ADDRESS net;
        unsigned char bytes[64];
    } local = {.net = {.DiscriminatorLen = 4}};
    VIPX_LISTENER listener;
    struct program p;

    (void)state;
    begin(&p);
    OK(VipxListen(p.nic, &local.net, 4, &listener));
    p.fake.refuses[0] = (struct fake_refusal){VIP__REQUEST__BODY_CREATE_PTAG, 5, false};
    p.fake.refuses[1] = (struct fake_refusal){VIP__REQUEST__BODY_CONNECT_WAIT, 0, false};
    next_vipd(&p);
    error_of(&p, 2);
    for (unsigned i = 0; i < VIS; i++)
        goes_on(&p, i);
    p.fake.code = VIP_RC_INVALID_PARAMETER;
    OK(VipDestroyPtag(p.nic, p.ptag));
    assert_int_equal(VipDestroyPtag(p.nic, p.ptag), VIP_INVALID_PARAMETER);
    p.fake.code = VIP_RC_SUCCESS;
    OK(VipxListenClose(listener));
    end(&p);
}

/* A vipd that ends during the claim has refused nothing. The next vipd accepts everything. */
static void an_end_is_no_refusal(void **state)
{
    static const struct fake_refusal at[] = {{VIP__REQUEST__BODY_CREATE_PTAG, 5, true},
                                             {VIP__REQUEST__BODY_REGISTER_MEM, 0x30002, true},
                                             {VIP__REQUEST__BODY_CREATE_CQ, 1, true},
                                             {VIP__REQUEST__BODY_CREATE_VI, 1, true}};

    (void)state;
    for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        VIP_PROTECTION_HANDLE ptag;
        struct program p;
        unsigned before;

        begin(&p);
        p.fake.lives = 2;
        p.fake.refuses[0] = at[i];
        before = asked(&p, at[i].body_case);
        fake_die(&p.fake);
        while (__atomic_load_n(&p.fake.lives, __ATOMIC_SEQ_CST) > 0)
            usleep(1000);
        p.fake.number = 6;
        OK(VipCreatePtag(p.nic, &ptag));
        assert_true(asked(&p, at[i].body_case) > before);
        for (unsigned vi = 0; vi < VIS; vi++)
            goes_on(&p, vi);
        assert_int_equal(p.error_count, 0);
        end(&p);
    }
}

/* libvipl asks again if a vipd answers "again", or answers that it closes the connection. */
static void not_now(void **state)
{
    const enum fake_fault faults[] = {FAKE_AGAIN, FAKE_FULL};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct program p;

        begin(&p);
        p.fake.fault = faults[i];
        p.fake.again = 2;
        p.fake.lives = 3; /* each answer ends the connection */
        next_vipd(&p);
        assert_int_equal(p.fake.again, 0);
        for (unsigned vi = 0; vi < VIS; vi++)
            goes_on(&p, vi);
        assert_int_equal(p.error_count, 0);
        end(&p);
    }
}

/* Every vipd says "again" until `outlive` has passed. libvipl asks less and less often. Then the
 * asynchronous errors have the reason that vipd has given. */
static void never_now(void **state)
{
    const unsigned many = 1000;
    VIP_PROTECTION_HANDLE ptag;
    struct program p;

    (void)state;
    begin_for(&p, 500);
    p.fake.fault = FAKE_AGAIN;
    p.fake.again = p.fake.lives = many;
    fake_die(&p.fake);
    assert_int_equal(VipCreatePtag(p.nic, &ptag), VIP_ERROR_RESOURCE);
    (void)error_of(&p, VIS + 1); /* of each VI, and of the NIC */
    assert_non_null(strstr(p.reason, "memory is still being freed"));
    assert_in_range(many - p.fake.again, 1, 12); /* 10, 20, 40, 80, 160, 160, ... ms */
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_vi),
        cmocka_unit_test(sleepers_wake),
        cmocka_unit_test(a_region),
        cmocka_unit_test(a_cq),
        cmocka_unit_test(an_end_that_waits),
        cmocka_unit_test(a_tag_and_a_listener),
        cmocka_unit_test(an_end_is_no_refusal),
        cmocka_unit_test(not_now),
        cmocka_unit_test(never_now),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
