/*
 * A thread of the program has vipd's answer and has not processed it yet. At this moment vipd ends,
 * and the next vipd goes on with the session.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libvipl/connect.h"
#include "libvipl/listen.h"
#include "libvipl/session.h"
#include "libvipl/vipl.h"
#include "libvipl/vipl_ext.h"
#include "tests/unit/fake_vipd.h"

#define OK(call) assert_int_equal((call), VIP_SUCCESS)

/* A program at a fake vipd. Another fake vipd is the next vipd. */
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

/* Wait until the next vipd has taken over the session. */
static void go_on(struct program *p)
{
    VIP_PROTECTION_HANDLE ptag;

    p->fake.number = 6;
    OK(VipCreatePtag(p->nic, &ptag)); /* waits for the next vipd */
}

/* ---- VipxCQGetFd --------------------------------------------------------------------------- */

struct cq_fd {
    struct program p;
    struct vipl__cq *cq;
    VIP_CQ_HANDLE handle;
    int fd;
    ino_t made, told; /* inode of pair[1], as vipd made it and as the next vipd got it */
};

/* The first vipd gives the CQ its descriptors, and ends. This function leaves done_lock locked, so
 * that the thread that sent the request waits for the lock. */
FAKE_ORDERED static bool cq_fd_answers(struct fake *fake, const Vip__Request *request,
                                       const struct vip_fds *fds)
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

/* A thread has read the reply with a CQ's descriptors and has not stored them yet. */
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
    /* The next vipd gets no requests before the thread has processed the reply. */
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

/* ---- VipxListenClose ----------------------------------------------------------------------- */

#define LISTENERS 2

struct listeners {
    struct program p;
    VIPX_LISTENER of[LISTENERS];
    uint64_t waits;     /* number of wait ids that vipd has given */
    uint64_t cancelled; /* id of the wait that was cancelled last */
    pid_t thread;       /* atomic; the thread that closes listener 0; 0: there is no thread */
    uint32_t closed;    /* atomic; the thread has closed listener 0 */
};

static bool sleeps(pid_t thread)
{
    char path[64], text[256] = "";
    const char *name_end;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    if (fgets(text, sizeof(text), file) == NULL)
        text[0] = '\0';
    fclose(file);
    name_end = strrchr(text, ')');
    return name_end != NULL && strncmp(name_end, ") S", 3) == 0;
}

/* True if the thread has closed listener 0 as far as possible without vipd. */
FAKE_ORDERED static bool closes(const struct listeners *t)
{
    const struct vipl__listener *listener = t->p.session->listener[0];
    pid_t thread = __atomic_load_n(&t->thread, __ATOMIC_SEQ_CST);

    return __atomic_load_n(&t->closed, __ATOMIC_SEQ_CST) != 0 ||
           (thread != 0 && __atomic_load_n(&listener->handle, __ATOMIC_SEQ_CST) == 0 &&
            sleeps(thread));
}

/* The next vipd answers the request for listener 1 when the thread closes listener 0. */
FAKE_ORDERED static bool listeners_answers(struct fake *fake, const Vip__Request *request,
                                           const struct vip_fds *fds)
{
    struct listeners *t = fake->of_answers;
    Vip__ConnectWaitReply wait = VIP__CONNECT_WAIT_REPLY__INIT;
    Vip__Reply reply = VIP__REPLY__INIT;

    (void)fds;
    if (request->body_case == VIP__REQUEST__BODY_CONNECT_WAIT_CANCEL)
        t->cancelled = request->connect_wait_cancel->wait_id;
    if (request->body_case != VIP__REQUEST__BODY_CONNECT_WAIT)
        return false;
    wait.has_wait_id = 1;
    wait.wait_id = __atomic_add_fetch(&t->waits, 1, __ATOMIC_SEQ_CST);
    while (wait.wait_id == 2 * LISTENERS && !closes(t))
        usleep(1000);
    reply.connect_wait = &wait;
    vip_control_send(fake->control, &reply.base, NULL, 0, 0);
    return true;
}

static void *close_listener(void *arg)
{
    struct listeners *t = arg;

    __atomic_store_n(&t->thread, gettid(), __ATOMIC_SEQ_CST);
    OK(VipxListenClose(t->of[0]));
    __atomic_store_n(&t->closed, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* The next vipd has got the requests for the listeners and has not answered the last one. The
 * program closes listener 0 now, and vipd forgets this listener. */
static void a_listener_that_is_told(void **state)
{
    VIP_NET_ADDRESS local = {0};
    struct listeners t = {0};
    struct program *p = &t.p;
    pthread_t thread;

    (void)state;
    begin(p);
    p->fake.answers = listeners_answers;
    p->fake.of_answers = &t;
    for (unsigned i = 0; i < LISTENERS; i++)
        OK(VipxListen(p->nic, &local, 1, &t.of[i]));
    fake_die(&p->fake);
    while (__atomic_load_n(&t.waits, __ATOMIC_SEQ_CST) < 2 * LISTENERS)
        usleep(1000);
    assert_int_equal(pthread_create(&thread, NULL, close_listener, &t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    go_on(p);
    assert_int_equal(asked(p, VIP__REQUEST__BODY_CONNECT_WAIT_CANCEL), 1);
    assert_int_equal(t.cancelled, LISTENERS + 1);
    /* There is no vipd, and no later vipd will know of the listener: the close must not wait. */
    fake_die(&p->fake);
    OK(VipxListenClose(t.of[1]));
    OK(VipCloseNic(p->nic));
    fake_end(&p->fake);
}

/* ---- a request ----------------------------------------------------------------------------- */

/* A thread has taken a client's request. The next vipd does not know this request, and may use its
 * number for another one. So libvipl asks the next vipd nothing about the request. */
static void a_request_that_is_taken(void **state)
{
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_UNRELIABLE, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    struct program p;

    (void)state;
    for (unsigned accepts = 0; accepts < 2; accepts++) {
        struct vipl__incoming *incoming = calloc(1, sizeof(*incoming));
        VIP_CONN_HANDLE request;
        VIP_VI_HANDLE vi;

        begin(&p);
        OK(VipCreateVi(p.nic, &attrs, NULL, NULL, &vi));
        incoming->conn_handle = 1;
        pthread_mutex_lock(&p.session->lock);
        incoming->tells = p.session->tells;
        pthread_mutex_unlock(&p.session->lock);
        fake_die(&p.fake);
        go_on(&p);
        OK(vipl__incoming_take(p.session, "VipConnectWait", incoming, NULL, NULL, NULL, &request));
        if (accepts)
            assert_int_equal(VipConnectAccept(request, vi), VIP_TIMEOUT);
        else
            OK(VipConnectReject(request));
        assert_int_equal(asked(&p, VIP__REQUEST__BODY_ACCEPT), 0);
        assert_int_equal(asked(&p, VIP__REQUEST__BODY_REJECT), 0);
        end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cq_with_its_descriptors),
        cmocka_unit_test(a_listener_that_is_told),
        cmocka_unit_test(a_request_that_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
