/*
 * vipd uses the number of a destroyed VI again at once. One thread destroys a VI; before it continues
 * after vipd's reply, another thread may have created the next VI with this number, which has the same
 * object in libvipl.
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

struct program {
    struct fake fake;
    VIP_NIC_HANDLE nic;
    struct vipl__session *session;
    uint64_t next; /* handle of the next VI; 0: there is none yet */
};

/* fake.answers: vipd destroys the VI, and another thread creates the next one. */
static bool create_next(struct fake *fake, const Vip__Request *request, const struct vip_fds *fds)
{
    struct program *p = fake->of_answers;
    struct vipl__vi *vi;

    (void)fds;
    if (request->body_case != VIP__REQUEST__BODY_DESTROY_VI || p->next != 0)
        return false;
    pthread_mutex_lock(&p->session->lock);
    vi = p->session->vi[0];
    p->next = vipl__handle_make(VIPL__KIND_VI, p->session, (uint32_t)++vi->uses << 16);
    vi->asks.next_ns = 77; /* stands for all that the next VI has */
    __atomic_store_n(&vi->handle, p->next, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&p->session->lock);
    return false;
}

static void begin(struct program *p)
{
    *p = (struct program){.fake = {.generation = 1, .number = 1, .of_answers = p}};
    fake_start(&p->fake);
    OK(VipOpenNic("fake0", &p->nic));
    p->session = vipl__handle_session((uint64_t)(uintptr_t)p->nic, VIPL__KIND_NIC);
}

static VIP_VI_HANDLE create(const struct program *p)
{
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_HANDLE vi;

    OK(VipCreateVi(p->nic, &attrs, NULL, NULL, &vi));
    return vi;
}

static void destroy_leaves_the_next_vi_alone(void **state)
{
    struct program p;
    VIP_VI_HANDLE vi;

    (void)state;
    begin(&p);
    vi = create(&p);
    p.fake.answers = create_next;
    OK(VipDestroyVi(vi));
    assert_int_not_equal(p.next, 0);
    assert_int_equal(p.session->vi[0]->handle, p.next);
    assert_int_equal(p.session->vi[0]->asks.next_ns, 77);
    OK(VipDestroyVi((VIP_VI_HANDLE)(uintptr_t)p.next));
    assert_int_equal(p.session->vi[0]->asks.next_ns, 0);
    OK(VipCloseNic(p.nic));
    fake_stop(&p.fake);
}

static void the_next_vi_has_nothing_of_the_one_before(void **state)
{
    VIP_VI_HANDLE before, next;
    struct program p;
    int fd;

    (void)state;
    begin(&p);
    before = create(&p);
    OK(VipxConnectGetFd(before, &fd));
    assert_int_equal(p.session->vi[0]->attempt_fd, fd);
    next = create(&p);
    assert_ptr_not_equal(next, before);
    assert_int_equal(p.session->vi[0]->attempt_fd, -1);
    assert_int_equal(VipDestroyVi(before), VIP_INVALID_PARAMETER);
    OK(VipDestroyVi(next));
    OK(VipCloseNic(p.nic));
    fake_stop(&p.fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destroy_leaves_the_next_vi_alone),
        cmocka_unit_test(the_next_vi_has_nothing_of_the_one_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
