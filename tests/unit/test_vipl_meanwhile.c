/*
 * vipd ends while a thread of the program is between vipd's answer and what the thread does with it, and the next vipd
 * goes on with the session.
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

/* A program at a fake vipd that another one follows. */
struct program {
    struct fake fake;
    VIP_NIC_HANDLE nic;
    struct vipl__session *session;
};

static void begin(struct program *p)
{
    *p = (struct program){
        .fake = {.generation = 1, .outlive_ms = 600000, .lives = 1, .of_answers = p}};
    fake_start(&p->fake);
    OK(VipOpenNic("fake0", &p->nic));
    p->session = vipl__handle_session((uint64_t)(uintptr_t)p->nic, VIPL__KIND_NIC);
}

static void end(struct program *p)
{
    OK(VipCloseNic(p->nic));
    fake_stop(&p->fake);
}

static unsigned asked(struct program *p, unsigned body_case)
{
    return __atomic_load_n(&p->fake.requests[body_case], __ATOMIC_SEQ_CST);
}

/* The next vipd has taken the session over. */
static void go_on(struct program *p)
{
    VIP_PROTECTION_HANDLE ptag;

    p->fake.number = 6;
    OK(VipCreatePtag(p->nic, &ptag)); /* it waits */
}

/* ---- VipxCQGetFd --------------------------------------------------------------------------- */

struct cq_fd {
    struct program p;
    struct vipl__cq *cq;
    VIP_CQ_HANDLE handle;
    int fd;
    ino_t made, told; /* sending end: as made, as the next vipd gets it */
};

/*
 * The first vipd gives the CQ its descriptors, and ends. The thread that has asked waits for done_lock then, which this
 * function leaves locked.
 */
static bool cq_fd_answers(struct fake *fake, const Vip__Request *request, const struct vip_fds *fds)
{
    struct cq_fd *t = fake->of_answers;
    Vip__Reply reply = VIP__REPLY__INIT;
    int pair[2];

    if (request->body_case == VIP__REQUEST__BODY_CREATE_CQ && request->create_cq->has_cq)
        t->told = fds->count == 1 ? fake_inode(fds->fd[0]) : 0;
    if (request->body_case != VIP__REQUEST__BODY_CQ_FD || t->made != 0)
        return false;
    vipl__spin_lock(&t->cq->done_lock);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    t->made = fake_inode(pair[1]);
    reply.has_code = 1;
    vip_control_send(fake->control, &reply.base, pair, 2, 0);
    close(pair[0]);
    close(pair[1]);
    fake_die(fake);
    return true;
}

static void *get_fd(void *arg)
{
    struct cq_fd *t = arg;

    OK(VipxCQGetFd(t->handle, &t->fd));
    return NULL;
}

/* A thread has read the reply with a CQ's descriptors, and not yet stored them. */
static void a_cq_with_its_descriptors(void **state)
{
    struct cq_fd t = {0};
    struct program *p = &t.p;
    pthread_t thread;

    (void)state;
    begin(p);
    OK(VipCreateCQ(p->nic, 10, &t.handle));
    t.cq = p->session->cq[0];
    p->fake.answers = cq_fd_answers;
    p->fake.of_answers = &t;
    assert_int_equal(pthread_create(&thread, NULL, get_fd, &t), 0);
    /* The next vipd is told nothing before the thread has done with the reply. */
    while (asked(p, VIP__REQUEST__BODY_CREATE_CQ) == 1 &&
           (__atomic_load_n(&p->session->gone, __ATOMIC_SEQ_CST) != VIPL__AWAY ||
            __atomic_load_n(&p->session->kept, __ATOMIC_SEQ_CST) != 1))
        usleep(1000);
    vipl__spin_unlock(&t.cq->done_lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    go_on(p);
    assert_int_equal(asked(p, VIP__REQUEST__BODY_CQ_FD), 1);
    assert_int_not_equal(t.told, 0);
    assert_int_equal(t.told, t.made);
    assert_int_equal(t.cq->fd[0], t.fd);
    assert_int_equal(__atomic_load_n(&p->session->kept, __ATOMIC_SEQ_CST), 0);
    end(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cq_with_its_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
