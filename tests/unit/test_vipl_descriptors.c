/*
 * A message of vipd contains file descriptors, and the program has no free descriptors. vipd still
 * serves the program, and the session goes on.
 */
#include <linux/sockios.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "libvipl/direct.h"
#include "libvipl/session.h"
#include "libvipl/vipl.h"
#include "libvipl/vipl_ext.h"
#include "tests/unit/fake_vipd.h"

#define OK(call) assert_int_equal((call), VIP_SUCCESS)

#define FDS_MAX 128

/* A program that has two VIs of a fake vipd. */
struct program {
    struct fake fake;
    VIP_NIC_HANDLE nic;
    struct vipl__session *session;
    VIP_VI_HANDLE vi[2];
    int filled[FDS_MAX]; /* descriptors that use up all free numbers */
    unsigned filled_count;
    uint64_t provider_ns; /* processor time of the provider thread when the claim was answered */
};

static void begin(struct program *p, unsigned lives)
{
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    struct rlimit limit;

    *p = (struct program){.fake = {.generation = 1,
                                   .number = 1,
                                   .direct = true,
                                   .outlive_ms = 600000,
                                   .lives = lives,
                                   .of_answers = p}};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = FDS_MAX;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    fake_start(&p->fake);
    OK(VipOpenNic("fake0", &p->nic));
    p->session = vipl__handle_session((uint64_t)(uintptr_t)p->nic, VIPL__KIND_NIC);
    for (unsigned i = 0; i < 2; i++) {
        p->fake.vi = i;
        OK(VipCreateVi(p->nic, &attrs, NULL, NULL, &p->vi[i]));
    }
}

static void end(struct program *p)
{
    OK(VipCloseNic(p->nic));
    fake_stop(&p->fake);
}

/* From now on this process has no free descriptor number. */
static void fill(struct program *p)
{
    while ((p->filled[p->filled_count] = dup(STDERR_FILENO)) >= 0)
        p->filled_count++;
}

static void empty(struct program *p)
{
    while (p->filled_count > 0)
        close(p->filled[--p->filled_count]);
}

/* True if the program has received everything that was sent on this socket. */
static bool received(int sock)
{
    int bytes = 1;

    return ioctl(sock, SIOCOUTQ, &bytes) == 0 && bytes == 0;
}

/* ---- the ring of a VI ---------------------------------------------------------------------- */

static void give_ring(struct program *p, unsigned vi, int fd)
{
    Vip__Direct direct = VIP__DIRECT__INIT;
    Vip__Event event = VIP__EVENT__INIT;

    direct.has_vi = direct.has_generation = direct.has_first = direct.has_half = 1;
    direct.vi = vi;
    direct.generation = p->fake.generation;
    event.body_case = VIP__EVENT__BODY_DIRECT;
    event.direct = &direct;
    assert_int_equal(vip_control_send(p->fake.event, &event.base, &fd, 1, 0), 0);
}

static bool there(const struct program *p)
{
    return __atomic_load_n(&p->session->gone, __ATOMIC_SEQ_CST) == VIPL__THERE;
}

/* VI 0 cannot take its ring and asks vipd to end the ring. With free descriptors VI 1 gets one. */
static void a_ring(void **state)
{
    struct vip_sq_slot asked = {0};
    struct program p;
    int fd;

    (void)state;
    begin(&p, 0);
    fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(fd, sizeof(struct vip_direct)), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    fill(&p);
    give_ring(&p, 0, fd);
    while (!received(p.fake.event))
        usleep(1000);
    empty(&p);
    give_ring(&p, 1, fd);
    while (there(&p) && vipl__direct_of(p.session->vi[1]) == NULL)
        usleep(1000);
    assert_true(there(&p));
    assert_null(vipl__direct_of(p.session->vi[0]));
    while (!vip_sq_read(vip_app_sq(p.fake.app), 0, &asked))
        usleep(1000);
    assert_int_equal(asked.kind, VIP_SQ_ASK);
    assert_int_equal(asked.flags, VIP_ASK_NO_RING);
    assert_int_equal(asked.vi, 0);
    assert_true(p.session->vi[1]->direct->fd >= 0); /* the ring's file, for the next vipd */
    close(fd);
    end(&p);
}

/* ---- the descriptors of a CQ --------------------------------------------------------------- */

/* While the program receives the reply, it has no free descriptors. */
FAKE_ORDERED static bool cq_fd_answers(struct fake *fake, const Vip__Request *request,
                                       const struct vip_fds *fds)
{
    Vip__Reply reply = VIP__REPLY__INIT;
    int pair[2];

    (void)fds;
    if (request->body_case != VIP__REQUEST__BODY_CQ_FD)
        return false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    fill(fake->of_answers);
    reply.has_code = 1;
    vip_control_send(fake->control, &reply.base, pair, 2, 0);
    while (!received(fake->control))
        usleep(1000);
    empty(fake->of_answers);
    close(pair[0]);
    close(pair[1]);
    return true;
}

static void a_cq(void **state)
{
    VIP_PROTECTION_HANDLE ptag;
    unsigned *asked;
    struct program p;
    VIP_CQ_HANDLE cq;
    int fd;

    (void)state;
    begin(&p, 0);
    p.fake.answers = cq_fd_answers;
    asked = &p.fake.requests[VIP__REQUEST__BODY_CQ_FD];
    OK(VipCreateCQ(p.nic, 10, &cq));
    fill(&p);
    assert_int_equal(VipxCQGetFd(cq, &fd), VIP_ERROR_RESOURCE);
    empty(&p);
    assert_int_equal(__atomic_load_n(asked, __ATOMIC_SEQ_CST), 0);
    assert_int_equal(VipxCQGetFd(cq, &fd), VIP_ERROR_RESOURCE);
    OK(VipCreatePtag(p.nic, &ptag));
    assert_int_equal(__atomic_load_n(asked, __ATOMIC_SEQ_CST), 1);
    assert_true(there(&p));
    assert_int_equal(__atomic_load_n(&p.session->kept, __ATOMIC_SEQ_CST), 0);
    end(&p);
}

/* ---- the next vipd ------------------------------------------------------------------------- */

static uint64_t provider_ns(const struct program *p)
{
    struct timespec used = {0};
    clockid_t clock;

    if (pthread_getcpuclockid(p->session->provider, &clock) == 0)
        clock_gettime(clock, &used);
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

/* The program tries to receive the reply for LOOKS_NS (processor time), then has free descriptors
 * again. If the program has lost the reply, the next vipd waits in vain. */
#define LOOKS_NS 200000
static void claimed(struct fake *fake, bool sent)
{
    struct program *p = fake->of_answers;

    if (!sent) {
        p->provider_ns = provider_ns(p);
        fill(p);
        return;
    }
    while (!received(fake->control) && provider_ns(p) < p->provider_ns + LOOKS_NS)
        usleep(1000);
    empty(p);
}

static void the_next_vipd(void **state)
{
    VIP_PROTECTION_HANDLE ptag;
    struct program p;

    (void)state;
    begin(&p, 1);
    p.fake.opens = claimed;
    fake_die(&p.fake);
    OK(VipCreatePtag(p.nic, &ptag)); /* waits for the next vipd */
    assert_int_equal(
        __atomic_load_n(&p.fake.requests[VIP__REQUEST__BODY_CREATE_VI], __ATOMIC_SEQ_CST), 4);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring),
        cmocka_unit_test(a_cq),
        cmocka_unit_test(the_next_vipd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
