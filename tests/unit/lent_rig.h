/* A session whose VIs can ask for loans. The fake vipd lends nothing. */
#ifndef TESTS_UNIT_LENT_RIG_H
#define TESTS_UNIT_LENT_RIG_H

#include "libvipl/lent_internal.h"
#include "libvipl/session.h"
#include "libvipl/vipl.h"
#include "tests/unit/fake_vipd.h"

#define OK(call) assert_int_equal((call), VIP_SUCCESS)

/* Not each test calls each of these functions. */
#define LENT_RIG static __attribute__((unused))

struct rig {
    struct fake fake;
    VIP_NIC_HANDLE nic;
    struct vipl__session *session;
    unsigned files; /* of the last request for a loan; atomic */
    bool socket;    /* the first of them is a socket; atomic */
    bool broken;    /* the program has told that its engine has broken the connection; atomic */
};

/* fake.answers: look at the files of a request for a loan; the fake answers it. */
LENT_RIG bool look(struct fake *fake, const Vip__Request *request, const struct vip_fds *fds)
{
    struct rig *rig = fake->of_answers;
    struct stat file;

    if (request->body_case == VIP__REQUEST__BODY_LOAN_END && request->loan_end->has_reason)
        __atomic_store_n(&rig->broken, true, __ATOMIC_SEQ_CST);
    if (request->body_case != VIP__REQUEST__BODY_LOAN)
        return false;
    __atomic_store_n(&rig->files, fds->count, __ATOMIC_SEQ_CST);
    __atomic_store_n(&rig->socket,
                     fds->count > 0 && fstat(fds->fd[0], &file) == 0 && S_ISSOCK(file.st_mode),
                     __ATOMIC_SEQ_CST);
    return false;
}

/* outlive_ms: how long the session waits for the next vipd; 0: no vipd follows. */
LENT_RIG void setup_outlive(struct rig *rig, uint32_t outlive_ms)
{
    *rig = (struct rig){.fake = {.generation = 1,
                                 .direct = true,
                                 .answers = look,
                                 .outlive_ms = outlive_ms,
                                 .lives = outlive_ms > 0}};
    rig->fake.of_answers = rig;
    fake_start(&rig->fake);
    OK(VipOpenNic("fake0", &rig->nic));
    rig->session = vipl__handle_session((uint64_t)(uintptr_t)rig->nic, VIPL__KIND_NIC);
    rig->session->loans_eager = true;
}

LENT_RIG void setup(struct rig *rig)
{
    setup_outlive(rig, 0);
}

LENT_RIG void teardown(struct rig *rig)
{
    OK(VipCloseNic(rig->nic));
    fake_stop(&rig->fake);
}

LENT_RIG struct vipl__vi *make_vi(struct rig *rig, unsigned number)
{
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_HANDLE vi;

    rig->fake.vi = number;
    OK(VipCreateVi(rig->nic, &attrs, NULL, NULL, &vi));
    return rig->session->vi[number];
}

LENT_RIG void connected(struct vipl__vi *vi)
{
    static const uint8_t peer[6] = {127, 0, 0, 9, 0x12, 0x35};

    pthread_mutex_lock(&vi->session->lock);
    vipl__lent_connected(vi, peer, sizeof(peer));
    pthread_mutex_unlock(&vi->session->lock);
}

LENT_RIG void reset(struct vipl__vi *vi)
{
    pthread_mutex_lock(&vi->session->lock);
    vipl__lent_reset(vi);
    pthread_mutex_unlock(&vi->session->lock);
}

LENT_RIG unsigned requests(const struct rig *rig)
{
    return __atomic_load_n(&rig->fake.requests[VIP__REQUEST__BODY_LOAN], __ATOMIC_SEQ_CST);
}

/* Poll the VI until vipd has got `count` requests. */
LENT_RIG void ask_until(const struct rig *rig, struct vipl__vi *vi, unsigned count)
{
    while (requests(rig) < count && !vipl__is_gone(rig->session)) {
        vipl__lent_ask(vi);
        usleep(1000);
    }
    assert_false(vipl__is_gone(rig->session));
}

#endif
